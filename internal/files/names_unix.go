//go:build unix

package files

import (
	"io/fs"
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
