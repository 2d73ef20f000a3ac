//go:build unix

package files

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// nonblock makes opening a pipe return at once instead of waiting for a writer: somebody may have
// put a pipe in the place of a file.
const nonblock = syscall.O_NONBLOCK

// names counts the names of a file.
func names(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink) //nolint:unconvert // of another type on other systems
	}
	return 1
}

// namesOf returns another handle of an open folder, for listing it. Only the names and types are
// to be asked for: Info of an entry would follow the path of the folder.
//
// For a folder that was opened in an [os.Root], package os makes a system call for each entry, which
// is half the time of a walk. For the other handle it reads the types that the system lists.
// Each file is checked again when it is opened, see [place.open].
func namesOf(dir *os.File) (*os.File, error) {
	raw, err := dir.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, failed := -1, error(nil)
	err = raw.Control(func(own uintptr) {
		syscall.ForkLock.RLock() // so that no program that is started meanwhile inherits it
		defer syscall.ForkLock.RUnlock()
		if fd, failed = syscall.Dup(int(own)); failed == nil {
			syscall.CloseOnExec(fd)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "."), nil
}
