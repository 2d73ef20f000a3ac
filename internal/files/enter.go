package files

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// errLink says that there is something else than a folder under exactly that name.
var errLink = errors.New("there is no such folder")

// errSpelling says that something is called differently on disk.
var errSpelling = errors.New("it is spelt differently on disk")

// IsNoFolder reports whether [Enter] found something else than a folder of that name.
func IsNoFolder(err error) bool { return errors.Is(err, errLink) || errors.Is(err, errSpelling) }

// Enter opens a folder that is in dir under exactly that name. It follows no link and accepts no other
// spelling of the name. The caller closes it.
func Enter(dir *os.Root, name string) (*os.Root, error) {
	seen, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, errLink // a link, or a file
	}
	in, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := in.Stat(".")
	if err == nil && !os.SameFile(seen, opened) {
		err = errLink // it was replaced by a link in between
	}
	if err == nil {
		err = spelt(dir, name, opened)
	}
	if err != nil {
		_ = in.Close()
		return nil, err
	}
	return in, nil
}

// spelt reports whether a file or folder is called exactly that. Where the file system ignores
// case or Unicode forms, it is found under other names, too.
func spelt(dir *os.Root, name string, is fs.FileInfo) error {
	ascii := true
	swapped := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		case r >= 0x80:
			ascii = false
		}
		return r
	}, name)
	if ascii {
		if swapped == name {
			return nil
		}
		if other, err := dir.Lstat(swapped); err != nil || !os.SameFile(is, other) {
			return nil // the file system tells the spellings apart
		}
	}
	list, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer list.Close() //nolint:errcheck // nothing was written
	all, err := list.Readdirnames(-1)
	if err != nil {
		return err
	}
	if !slices.Contains(all, name) {
		return errSpelling
	}
	return nil
}
