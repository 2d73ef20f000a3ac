//go:build unix && !linux

package files

import (
	"io/fs"
	"syscall"
	"time"
)

// identity is the number of a file. The fields with the time of the change have other names on each system.
func identity(fi fs.FileInfo) (changed time.Time, id uint64) {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return changed, uint64(st.Ino) //nolint:unconvert // of another type on other systems
	}
	return changed, 0
}
