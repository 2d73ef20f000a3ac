package files

import (
	"io/fs"
	"syscall"
	"time"
)

// identity says when a file was changed at all, and its number.
func identity(fi fs.FileInfo) (changed time.Time, id uint64) {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix()), st.Ino
	}
	return changed, 0
}
