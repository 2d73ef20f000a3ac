//go:build amd64 || arm64

package confine

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// oldest is the first version of Landlock that keeps files from being truncated.
const oldest = 3

// landlockVersion is what the kernel offers; 0: nothing.
func landlockVersion() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

const (
	llRead  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	llWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	// llMake leaves out devices.
	llMake = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	llDevices = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
)

// restrict applies Landlock's rules to the calling thread. The library go-landlock would apply them
// to all threads, and the helper has to stay outside so that the command cannot reach it. A command
// whose folders are full may only read and remove.
func restrict(j Job, full bool) error {
	version := landlockVersion()
	if version < oldest {
		return fmt.Errorf("the kernel has version %d, and %d is needed", version, oldest)
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: llRead | llWrite | llMake | llDevices}
	if version >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	if j.Ports != nil {
		if version < 4 {
			return errors.New("the kernel cannot limit the ports of a command")
		}
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return errno
	}
	rules := int(fd)
	defer unix.Close(rules) //nolint:errcheck // nothing was written
	paths := map[string]uint64{"/": llRead, "/dev": llRead | llWrite, "/dev/shm": llRead | llWrite | llMake, Temporary: llRead | llWrite | llMake}
	if !j.Workspace.ReadOnly {
		// Others would wait for a pipe with a name there, such as git for one that is called .gitattributes.
		paths[Workspace] = llRead | llWrite | llMake&^(unix.LANDLOCK_ACCESS_FS_MAKE_FIFO|unix.LANDLOCK_ACCESS_FS_MAKE_SOCK)
	}
	if full {
		for _, path := range []string{Temporary, Workspace} {
			paths[path] &= llRead | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE
		}
	}
	for path, access := range paths {
		if err := allowPath(rules, path, access); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, port := range j.Ports {
		rule := struct{ access, port uint64 }{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, uint64(port)}
		if err := addRule(rules, netPort, unsafe.Pointer(&rule)); err != nil {
			return fmt.Errorf("port %d: %w", port, err)
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// netPort is LANDLOCK_RULE_NET_PORT.
const netPort = 2

func allowPath(rules int, path string, access uint64) error {
	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(at) //nolint:errcheck // nothing was written
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(at)}
	return addRule(rules, unix.LANDLOCK_RULE_PATH_BENEATH, unsafe.Pointer(&rule))
}

func addRule(rules int, kind uintptr, rule unsafe.Pointer) error {
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), kind, uintptr(rule), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
