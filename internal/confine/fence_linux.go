//go:build amd64 || arm64

package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CanFence reports whether the kernel can fence a program in: Linux 6.2 with Landlock.
func CanFence() bool { return landlockVersion() >= oldest }

// about are the files with which programs find out about the machine and themselves.
var about = []string{
	"/etc/bash.bashrc", "/etc/profile", "/proc/self", "/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg", "/proc/meminfo", "/proc/stat", "/proc/uptime", "/proc/version", "/proc/sys",
	"/sys/devices/system/cpu", "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage",
}

// become turns this process into a program inside the fence. It returns only if that fails.
func (f Fence) become(args []string) error {
	runtime.LockOSThread() // Landlock is of a thread, and exec keeps that of the one that calls it
	rules, err := f.rules(about)
	if err != nil {
		return err
	}
	defer rules.Close() //nolint:errcheck // nothing was written
	if err := enter(rules); err != nil {
		return err
	}
	return fmt.Errorf("execute %s: %w", args[0], syscall.Exec(args[0], args, os.Environ()))
}

// enter puts the calling thread inside a fence, for good.
func enter(rules *os.File) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules.Fd(), 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}

// rules makes Landlock's rules of the fence. more may be read, too.
func (f Fence) rules(more []string) (_ *os.File, err error) {
	version := landlockVersion()
	if version < oldest {
		return nil, fmt.Errorf("the kernel's Landlock has version %d, and %d is needed", version, oldest)
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: llRead | llWrite | llMake | llDevices}
	if version >= 4 {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if version >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return nil, fmt.Errorf("landlock: %w", errno)
	}
	made := os.NewFile(fd, "landlock")
	defer func() {
		if err != nil {
			_ = made.Close()
		}
	}()
	rules := int(fd)
	for access, paths := range map[uint64][]string{
		llRead:                    append(append(readable(true), more...), f.Read...),
		llRead | llWrite:          {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"},
		llRead | llWrite | llMake: f.Write,
	} {
		for _, path := range paths {
			if err := allowFile(rules, path, access); err != nil {
				return nil, err
			}
		}
	}
	if version >= 4 {
		for _, port := range f.Ports {
			rule := struct{ access, port uint64 }{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, uint64(port)}
			if err := addRule(rules, netPort, unsafe.Pointer(&rule)); err != nil {
				return nil, fmt.Errorf("port %d: %w", port, err)
			}
		}
	}
	return made, nil
}

// ofFiles are the accesses that a rule for something that is no folder may have.
const ofFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | llWrite

// allowFile is [allowPath] for files, too. What does not exist is left out.
func allowFile(rules int, path string, access uint64) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err == nil && !info.IsDir() {
		access &= ofFiles
	}
	if err == nil {
		err = allowPath(rules, path, access)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
