//go:build amd64 || arm64

package confine

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// denied are calls that reach beyond a namespace, have no use in a sandbox, or would go around a rule:
// io_uring opens sockets that the filter does not see.
var denied = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_PERF_EVENT_OPEN, unix.SYS_BPF, unix.SYS_USERFAULTFD,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES, unix.SYS_KCMP,
	unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP,
}

// absent are calls that this kernel seems not to have. Programs that know them do without.
var absent = map[uint32]unix.Errno{
	unix.SYS_CLONE3:       unix.ENOSYS, // its flags are in memory; libc uses clone then
	unix.SYS_MEMFD_CREATE: unix.ENOSYS, // its pages are memory of no process, so nobody counts them
	unix.SYS_MEMFD_SECRET: unix.ENOSYS,
	unix.SYS_OPENAT2:      unix.ENOSYS,     // the mode of a file that it makes is in memory; libc uses openat
	unix.SYS_FALLOCATE:    unix.EOPNOTSUPP, // takes disk space that is not counted as written; libc writes then
}

// aboutSelf are calls that change a process. The number is the argument that names it: 0 is
// the caller. The helper is a process with the same user, so its limits could be lowered otherwise.
var aboutSelf = map[uint32]uint32{
	unix.SYS_PRLIMIT64: 0, unix.SYS_SCHED_SETSCHEDULER: 0, unix.SYS_SCHED_SETPARAM: 0, unix.SYS_SCHED_SETATTR: 0, unix.SYS_SCHED_SETAFFINITY: 0,
	unix.SYS_SETPRIORITY: 1, unix.SYS_IOPRIO_SET: 1,
}

// kinds are what these calls may be about: a process or its group, but not all processes of a user.
var kinds = map[uint32][]uint32{
	unix.SYS_SETPRIORITY: {unix.PRIO_PROCESS, unix.PRIO_PGRP},
	unix.SYS_IOPRIO_SET:  {1, 2},
}

// newNamespaces are the flags of clone that make namespaces.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// Offsets in struct seccomp_data. The low half of an argument comes first on both architectures.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// filter is a program for the kernel's packet filter, see seccomp(2).
type filter []unix.SockFilter

func (f *filter) add(code uint16, jt, jf uint8, k uint32) {
	*f = append(*f, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

func (f *filter) load(offset uint32) { f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset) }

func (f *filter) arg(n uint32) { f.load(offArgs + 8*n) }

func (f *filter) ret(action uint32) { f.add(unix.BPF_RET|unix.BPF_K, 0, 0, action) }

func refuse(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

// call adds what is decided about one call. The accumulator has its number before and after.
func (f *filter) call(number uint32, decide func(f *filter)) {
	var body filter
	decide(&body)
	body.load(offNumber)
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, uint8(len(body)), number)
	*f = append(*f, body...)
}

// unless refuses the call unless the accumulator has one of the values.
func (f *filter) unless(action uint32, values ...uint32) {
	for i, v := range values {
		f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, uint8(len(values)-i), 0, v)
	}
	f.ret(action)
}

// with refuses the call if the accumulator has one of the bits.
func (f *filter) with(action, bits uint32) {
	f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, bits)
	f.ret(action)
}

// filterOf returns the filter for commands with or without a network, and with or without memory
// and queues of System V.
func filterOf(network, sysv bool) filter {
	arch := uint32(unix.AUDIT_ARCH_X86_64)
	if runtime.GOARCH == "arm64" {
		arch = unix.AUDIT_ARCH_AARCH64
	}
	var f filter
	f.load(offArch)
	f.unless(unix.SECCOMP_RET_KILL_PROCESS, arch) // another has other numbers
	f.load(offNumber)
	if runtime.GOARCH == "amd64" {
		f.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, 0, 1, 0x40000000) // x32
		f.ret(refuse(unix.ENOSYS))
	}
	for _, number := range denied {
		f.call(number, func(f *filter) { f.ret(refuse(unix.EPERM)) })
	}
	for _, number := range slices.Sorted(maps.Keys(absent)) {
		f.call(number, func(f *filter) { f.ret(refuse(absent[number])) })
	}
	for _, number := range slices.Sorted(maps.Keys(aboutSelf)) {
		f.call(number, func(f *filter) {
			if k := kinds[number]; k != nil {
				f.arg(0)
				f.unless(refuse(unix.EPERM), k...)
			}
			f.arg(aboutSelf[number])
			f.unless(refuse(unix.EPERM), 0)
		})
	}
	f.memory(sysv)
	f.modes()
	f.call(unix.SYS_CLONE, func(f *filter) {
		f.arg(0)
		f.with(refuse(unix.EPERM), newNamespaces)
	})
	f.call(unix.SYS_IOCTL, func(f *filter) {
		const linux = 0x541c // TIOCLINUX
		f.arg(1)
		f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 1, 0, unix.TIOCSTI)
		f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, linux)
		f.ret(refuse(unix.EPERM))
	})
	f.sockets(network)
	f.ret(unix.SECCOMP_RET_ALLOW)
	return f
}

// otherUser are the bits of a mode with which whoever runs the file has its owner's or its group's rights.
const otherUser = unix.S_ISUID | unix.S_ISGID

// modes refuses modes with which a file would give other users of this machine the rights of the server's user, long after the
// command. The calls of amd64 that arm64 has not are numbers here.
func (f *filter) modes() {
	refused := refuse(unix.EPERM)
	set := map[uint32]uint32{unix.SYS_FCHMOD: 1, unix.SYS_FCHMODAT: 2, unix.SYS_FCHMODAT2: 2, unix.SYS_MKNODAT: 2} // the argument with the mode
	made := map[uint32]uint32{unix.SYS_OPENAT: 2}                                                                  // that with the flags; the mode follows
	if runtime.GOARCH == "amd64" {
		const open, creat, chmod, mknod = 2, 85, 90, 133
		set[chmod], set[creat], set[mknod] = 1, 1, 1
		made[open] = 1
	}
	for _, number := range slices.Sorted(maps.Keys(set)) {
		f.call(number, func(f *filter) { f.arg(set[number]); f.with(refused, otherUser) })
	}
	for _, number := range slices.Sorted(maps.Keys(made)) {
		f.call(number, func(f *filter) {
			mode := filter{} // it is anything where no file is made
			mode.arg(made[number] + 1)
			mode.with(refused, otherUser)
			f.arg(made[number])
			f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, uint8(len(mode)), unix.O_CREAT|unix.O_TMPFILE&^unix.O_DIRECTORY)
			*f = append(*f, mode...)
		})
	}
}

// memory refuses memory that no process has to itself: the kernel does not say whose it is, and
// it stays when it is no longer mapped.
func (f *filter) memory(sysv bool) {
	f.call(unix.SYS_MMAP, func(f *filter) {
		f.arg(3)
		f.with(refuse(unix.EPERM), unix.MAP_HUGETLB)
		f.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, unix.MAP_TYPE|unix.MAP_ANONYMOUS)
		f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
		f.ret(refuse(unix.EPERM))
	})
	if !sysv {
		for _, number := range []uint32{unix.SYS_SHMGET, unix.SYS_MSGGET, unix.SYS_SEMGET} {
			f.call(number, func(f *filter) { f.ret(refuse(unix.ENOSYS)) })
		}
		return
	}
	f.call(unix.SYS_SHMGET, func(f *filter) { f.arg(2); f.with(refuse(unix.EPERM), 0o4000) }) // SHM_HUGETLB
}

// sockets limits the kinds of sockets. Without a network they are in a namespace of their own;
// kinds that have no namespaces are refused. With a network there are only TCP and its name lookups,
// which Landlock limits to ports.
func (f *filter) sockets(network bool) {
	families := []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} // a Unix socket in the workspace may be somebody else's; of pairs both ends are here
	types := []uint32{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET}
	f.call(unix.SYS_SOCKET, func(f *filter) {
		f.arg(0)
		f.unless(refuse(unix.EAFNOSUPPORT), families...)
		if !network {
			// Netlink needs SOCK_RAW, which other families refuse without a capability. Of netlink there are only routes.
			routes := filter{}
			routes.arg(2)
			routes.unless(refuse(unix.EPROTONOSUPPORT), unix.NETLINK_ROUTE)
			f.arg(0)
			f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, uint8(len(routes)), unix.AF_NETLINK)
			*f = append(*f, routes...)
			return
		}
		f.arg(0)
		tcp := filter{}
		tcp.arg(1)
		tcp.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, 0xf)
		tcp.unless(refuse(unix.ESOCKTNOSUPPORT), unix.SOCK_STREAM)
		f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, uint8(len(tcp)), 0, unix.AF_NETLINK)
		*f = append(*f, tcp...)
		f.arg(2) // multipath TCP would go around Landlock; of netlink only routes
		f.unless(refuse(unix.EPROTONOSUPPORT), 0, unix.IPPROTO_TCP)
	})
	f.call(unix.SYS_SOCKETPAIR, func(f *filter) {
		f.arg(0)
		f.unless(refuse(unix.EAFNOSUPPORT), unix.AF_UNIX)
		f.arg(1)
		f.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, 0xf)
		f.unless(refuse(unix.ESOCKTNOSUPPORT), types...)
	})
	if network { // TCP fast open connects without asking Landlock
		f.call(unix.SYS_SENDTO, func(f *filter) { f.arg(3); f.with(refuse(unix.EPERM), unix.MSG_FASTOPEN) })
		f.call(unix.SYS_SENDMSG, func(f *filter) { f.arg(2); f.with(refuse(unix.EPERM), unix.MSG_FASTOPEN) })
		f.call(unix.SYS_SENDMMSG, func(f *filter) { f.arg(3); f.with(refuse(unix.EPERM), unix.MSG_FASTOPEN) })
	}
}

// filterCalls applies the filter to the calling thread.
func filterCalls(network, sysv bool) error {
	f := filterOf(network, sysv)
	p := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&p))); errno != 0 {
		return fmt.Errorf("set the filter: %w", errno)
	}
	return nil
}
