package shell

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/parley-server/parley/internal/confine"
)

// place is the path of an open folder, and the folder as the sandbox needs it.
func place(root *os.Root) (string, confine.Folder, error) {
	f, err := root.Open(".")
	if err != nil {
		return "", confine.Folder{}, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	info, err := f.Stat()
	if err != nil {
		return "", confine.Folder{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", confine.Folder{}, errors.New("the workspace has no identity")
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	return path, confine.Folder{Path: path, Device: st.Dev, Inode: st.Ino}, err
}
