//go:build unix

package files

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// nonblock keeps the opening of a pipe, which took a file's place, from waiting for a writer.
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
// A folder that was opened in an [os.Root] has package os look at each entry again, which is half
// the time of a walk. The other handle has not, and reads the types that the system lists.
// Whatever is opened is looked at again then, see [place.open].
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
