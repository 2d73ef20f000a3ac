//go:build unix && !linux

package shell

import (
	"os"
	"path/filepath"

	"github.com/parley-server/parley/internal/confine"
)

// place is the path of an open folder. There is no sandbox here.
func place(root *os.Root) (string, confine.Folder, error) {
	path, err := filepath.Abs(root.Name())
	return path, confine.Folder{Path: path}, err
}
