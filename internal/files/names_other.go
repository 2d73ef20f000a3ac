//go:build !unix

package files

import (
	"io/fs"
	"os"
	"time"
)

const nonblock = 0

// names counts the names of a file, which is not known here.
func names(fs.FileInfo) uint64 { return 1 }

// namesOf returns a handle of an open folder, for listing it; here it is the same one. Only the
// names and types are to be asked for.
func namesOf(dir *os.File) (*os.File, error) { return dir, nil }

// identity is not known here.
func identity(fs.FileInfo) (changed time.Time, id uint64) { return changed, 0 }
