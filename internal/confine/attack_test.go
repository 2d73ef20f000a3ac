//go:build linux && (amd64 || arm64)

package confine_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// alive is the signal that only asks whether a process is there.
const alive = syscall.Signal(0)

// attack tries a way out that needs system calls, says ESCAPED if it leads out, and ends the process.
func attack(name string) {
	attacks[name]()
	os.Exit(0)
}

// out says that something worked that must not.
func out(err error, what string) {
	if err == nil {
		fmt.Println("ESCAPED", what)
	}
}

func env(name string) int {
	n, _ := strconv.Atoi(os.Getenv(name))
	return n
}

func socket(family, kind, proto int) error {
	s, err := unix.Socket(family, kind, proto)
	if err == nil {
		_ = unix.Close(s)
	}
	return err
}

func call(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

func dial(network, addr string) error {
	c, err := net.DialTimeout(network, addr, 2*time.Second)
	if err == nil {
		_, err = c.Write([]byte("hello"))
	}
	return err
}

func ptr(s string) uintptr { b, _ := unix.BytePtrFromString(s); return uintptr(unsafe.Pointer(b)) }

var attacks = map[string]func(){
	"tcp": func() { out(dial("tcp", fmt.Sprint("127.0.0.1:", env("PORT"))), "tcp") },
	"tcp6": func() {
		out(dial("tcp6", fmt.Sprint("[::ffff:127.0.0.1]:", env("PORT"))), "tcp6")
		out(dial("tcp6", "[2001:4860:4860::8888]:53"), "tcp6")
	},
	"udp": func() { _ = dial("udp", fmt.Sprint("127.0.0.1:", env("PORT"))); out(dial("udp", "8.8.8.8:53"), "udp") },
	"raw": func() {
		out(socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP), "raw")
		out(socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6), "raw6")
		out(socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW), "raw ip")
	},
	"modes": func() {
		for i, f := range []func(name string) error{
			func(name string) error {
				fd, err := unix.Open(name, unix.O_CREAT|unix.O_WRONLY, 0o4755)
				_ = unix.Close(fd)
				return err
			},
			func(name string) error { return unix.Mknod(name, unix.S_IFREG|0o2755, 0) },
			func(name string) error {
				return errors.Join(os.WriteFile(name, nil, 0o700), unix.Fchmodat(unix.AT_FDCWD, name, 0o4755, 0))
			},
			func(name string) error {
				return errors.Join(os.WriteFile(name, nil, 0o700), unix.Fchmodat(unix.AT_FDCWD, name, 0o4755, unix.AT_SYMLINK_NOFOLLOW))
			},
			func(name string) error {
				f, err := os.Create(name)
				return errors.Join(err, unix.Fchmod(int(f.Fd()), 0o6755))
			},
			func(name string) error {
				_, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: 0o4755})
				return err
			},
			func(name string) error {
				fd, err := unix.Open(".", unix.O_TMPFILE|unix.O_WRONLY, 0o4755)
				return errors.Join(err, unix.Linkat(unix.AT_FDCWD, fmt.Sprint("/proc/self/fd/", fd), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW))
			},
		} {
			name := fmt.Sprint("mode", i)
			err := f(name)
			out(err, fmt.Sprint("mode ", i))
			if info, serr := os.Stat(name); serr == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
				fmt.Println("ESCAPED", name, info.Mode())
			}
			_ = os.Remove(name)
		}
	},
	// own is no way out: it says so if what a command may do does not work.
	"own": func() {
		for _, at := range [][2]string{{"tcp4", "127.0.0.1:0"}, {"tcp6", "[::1]:0"}} {
			l, err := net.Listen(at[0], at[1])
			if err == nil {
				err = dial(at[0], l.Addr().String())
				_ = l.Close()
			}
			if err != nil {
				fmt.Println("BROKEN", at, err)
			}
		}
		fmt.Println("own was tried")
	},
	"packet": func() { out(socket(unix.AF_PACKET, unix.SOCK_RAW, 0x300), "packet") },
	"vsock": func() {
		out(socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0), "vsock")
		out(socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0), "alg")
	},
	"netlink": func() {
		out(socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT), "audit")
		out(socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT), "uevents")
	},
	"metadata": func() {
		out(dial("tcp", "169.254.169.254:80"), "metadata")
		out(dial("tcp", "[fd00:ec2::254]:80"), "metadata")
	},
	"dns": func() {
		_, err := net.LookupHost("example.com")
		out(err, "dns")
	},
	"unix": func() {
		out(dial("unix", os.Getenv("DIR")+"/socket"), "socket")
		out(dial("unix", "/run/systemd/journal/socket"), "journal")
		out(socket(unix.AF_UNIX, unix.SOCK_STREAM, 0), "a socket of somebody in the workspace")
	},
	"abstract": func() { out(dial("unix", fmt.Sprint("@parley-test-", env("PORT"))), "abstract") },
	"ptrace": func() {
		runtime.LockOSThread()
		for _, pid := range []int{1, env("PID"), env("VICTIM"), os.Getppid()} {
			out(unix.PtraceAttach(pid), "ptrace")
			out(unix.PtraceSeize(pid), "ptrace")
		}
	},
	"vmread": func() {
		buf := make([]byte, 8)
		local := []unix.Iovec{{Base: &buf[0], Len: 8}}
		_, err := unix.ProcessVMReadv(1, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
		out(err, "read")
		_, err = unix.ProcessVMWritev(1, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
		out(err, "write")
	},
	"iouring": func() {
		var p [120]byte
		out(call(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&p))), "io_uring")
	},
	"mountapi": func() {
		out(call(unix.SYS_FSOPEN, ptr("tmpfs"), 0), "fsopen")
		out(call(unix.SYS_OPEN_TREE, ^uintptr(99), ptr("/"), 1), "open_tree")
		out(unix.MountSetattr(-1, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}), "mount_setattr")
	},
	"handle": func() {
		_, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/", 0)
		out(err, "name")
		_, err = unix.OpenByHandleAt(unix.AT_FDCWD, unix.NewFileHandle(1, []byte{2, 0, 0, 0, 0, 0, 0, 0}), 0)
		out(err, "open")
	},
	"namespace": func() {
		for _, flag := range []int{unix.CLONE_NEWUSER, unix.CLONE_NEWNS, unix.CLONE_NEWNET, unix.CLONE_NEWPID, unix.CLONE_NEWTIME} {
			out(unix.Unshare(flag), "unshare")
		}
		for _, ns := range []string{"mnt", "net", "user", "pid"} {
			if f, err := os.Open("/proc/1/ns/" + ns); err == nil {
				out(unix.Setns(int(f.Fd()), 0), "setns "+ns)
			}
		}
	},
	"clone": func() {
		for _, flag := range []uintptr{unix.CLONE_NEWUSER, unix.CLONE_NEWUSER | unix.CLONE_NEWNS, unix.CLONE_NEWNET} {
			pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, flag|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if errno == 0 {
				if pid == 0 {
					unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
				}
				fmt.Println("ESCAPED clone")
			}
		}
		out(call(435, 0, 0), "clone3")
	},
	"keys": func() {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
		out(err, "keyring")
		_, err = unix.AddKey("user", "x", []byte("y"), unix.KEY_SPEC_USER_KEYRING)
		out(err, "add a key")
	},
	"pidfd": func() {
		fd, err := unix.PidfdOpen(1, 0)
		if err != nil {
			return
		}
		_, err = unix.PidfdGetfd(fd, 0, 0)
		out(err, "a descriptor of the helper")
		out(unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0), "kill by descriptor")
	},
	"bpf": func() {
		var attr [128]byte
		out(call(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), 128), "bpf")
		out(call(unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(&attr)), 0, ^uintptr(0), ^uintptr(0), 0), "perf")
		out(call(unix.SYS_USERFAULTFD, 0), "userfaultfd")
	},
	"tiocsti": func() {
		for _, fd := range []int{0, 1, 2} {
			c := byte('x')
			out(call(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(unsafe.Pointer(&c))), "a key press")
		}
	},
	"reboot": func() {
		out(unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF), "reboot")
		out(unix.Settimeofday(&unix.Timeval{Sec: 1}), "time")
		out(unix.Sethostname([]byte("evil")), "host name")
		out(unix.Setpriority(unix.PRIO_PROCESS, 0, -20), "priority")
	},
	"landlock": func() { // a rule of its own takes nothing back
		attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_WRITE_FILE}
		fd, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
		root, _ := unix.Open("/", unix.O_PATH, 0)
		rule := unix.LandlockPathBeneathAttr{Allowed_access: unix.LANDLOCK_ACCESS_FS_WRITE_FILE, Parent_fd: int32(root)}
		_ = call(unix.SYS_LANDLOCK_ADD_RULE, fd, 1, uintptr(unsafe.Pointer(&rule)))
		_ = call(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0)
		out(os.WriteFile("/etc/passwd", nil, 0o644), "write")
	},
	"descriptors": func() { // nothing is inherited but the three standard ones
		for fd := 3; fd < 1000; fd++ {
			var st unix.Stat_t
			if unix.Fstat(fd, &st) == nil {
				if to, _ := os.Readlink(fmt.Sprint("/proc/self/fd/", fd)); to != "anon_inode:[eventpoll]" && to != "anon_inode:[eventfd]" {
					fmt.Println("ESCAPED", fd, to)
				}
			}
		}
	},
	"capabilities": func() {
		text, _ := os.ReadFile("/proc/self/status")
		for _, name := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			if !strings.Contains(string(text), name+":\t0000000000000000") {
				fmt.Println("ESCAPED", name)
			}
		}
		if !strings.Contains(string(text), "NoNewPrivs:\t1") || !strings.Contains(string(text), "Seccomp:\t2") {
			fmt.Println("ESCAPED", string(text))
		}
	},
	"x32": func() {
		if runtime.GOARCH == "amd64" {
			out(call(0x40000000|unix.SYS_GETPID), "x32")
		}
	},
	"memory": func() {
		b := make([]byte, 200<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		_ = unix.Pause()
		runtime.KeepAlive(b)
	},
	"tables": func() { // 4 KiB of the kernel's for each page of a file, if they are far from one another
		self, err := unix.Open("/proc/self/exe", unix.O_RDONLY, 0)
		if err != nil {
			return
		}
		for i := range uintptr(40_000) {
			at, _, errno := unix.Syscall6(unix.SYS_MMAP, 0x2000_0000_0000+i<<21, 4096, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED_NOREPLACE|unix.MAP_POPULATE, uintptr(self), 0)
			if errno != 0 || at == 0 {
				break
			}
		}
		_ = unix.Pause()
	},
	"files": func() {
		for range 4000 {
			_, _ = unix.Dup(1)
		}
		_ = unix.Pause()
	},
	"prlimit": func() { // of the helper, by the numbers that it and its threads have
		for pid := 1; pid < 30; pid++ {
			if pid != os.Getpid() {
				for _, what := range []int{unix.RLIMIT_NOFILE, unix.RLIMIT_CPU} {
					lim := unix.Rlimit{Cur: 3, Max: 3}
					out(unix.Prlimit(pid, what, &lim, nil), fmt.Sprint("limits of ", pid))
				}
			}
		}
	},
	"priority": func() {
		for pid := 1; pid < 30; pid++ {
			out(unix.Setpriority(unix.PRIO_PROCESS, pid, 19), fmt.Sprint("priority of ", pid))
			out(call(unix.SYS_IOPRIO_SET, 1, uintptr(pid), 3<<13), fmt.Sprint("I/O of ", pid))
		}
		out(unix.Setpriority(unix.PRIO_USER, 0, 19), "priority of the user")
		out(call(unix.SYS_IOPRIO_SET, 3, uintptr(os.Getuid()), 3<<13), "I/O of the user")
	},
	"scheduler": func() {
		for pid := 1; pid < 30; pid++ {
			var param [1]int32
			out(call(unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), unix.SCHED_IDLE, uintptr(unsafe.Pointer(&param))), fmt.Sprint("scheduler of ", pid))
			out(unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0), fmt.Sprint("attributes of ", pid))
			set := unix.CPUSet{}
			set.Set(0)
			out(unix.SchedSetaffinity(pid, &set), fmt.Sprint("processors of ", pid))
		}
	},
	"shared": func() { // memory that stays when it is no longer mapped
		_, err := unix.Mmap(-1, 0, 60<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
		out(err, "shared memory")
		if b, err := unix.Mmap(-1, 0, 60<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
			fmt.Println("ESCAPED no memory at all", len(b), err)
		}
	},
	"memfd": func() {
		_, err := unix.MemfdCreate("x", 0)
		out(err, "memfd")
		_, err = unix.MemfdSecret(0)
		out(err, "secret memory")
	},
	"zero": func() {
		f, err := os.Open("/dev/zero")
		if err != nil {
			fmt.Println("ESCAPED without zeros", err)
			return
		}
		b := make([]byte, 4096)
		if n, err := f.Read(b); n != len(b) || strings.Trim(string(b), "\x00") != "" {
			fmt.Println("ESCAPED with other zeros", n, err)
		}
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			fmt.Println("ESCAPED a device to map", err)
		}
		_, err = os.OpenFile("/dev/zero", os.O_RDWR, 0)
		out(err, "write zeros")
	},
	"sysv": func() {
		_, err := unix.SysvShmGet(unix.IPC_PRIVATE, 1<<30, unix.IPC_CREAT|0o600)
		out(err, "memory of System V")
		_, err = unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o4000|0o600)
		out(err, "huge pages of System V")
		for i := range 1000 {
			if call(unix.SYS_MSGGET, unix.IPC_PRIVATE, unix.IPC_CREAT|0o600) != nil {
				break
			} else if i == 999 {
				fmt.Println("ESCAPED queues of System V")
			}
		}
		out(call(unix.SYS_SEMGET, unix.IPC_PRIVATE, 30000, unix.IPC_CREAT|0o600), "semaphores of System V")
	},
	"hugepages": func() {
		_, err := unix.Mmap(-1, 0, 2<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_HUGETLB)
		out(err, "huge pages")
	},
}
