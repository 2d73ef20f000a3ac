// Package datafolder guards the data folder of a process for all code that writes into it.
//
// A folder that is renamed, removed or mounted over while a server runs must not be
// created again at its path: another server would start there, and the original could not
// be put back. So code that writes below the data folder first calls [Folder.Check], and
// creates folders with [Folder.Make], which never creates the data folder itself. Only the
// start of a process does that, before it calls [New].
//
// Methods are safe for concurrent use.
package datafolder

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/parley-server/parley"
)

// Folder is a data folder as it was when the process took it.
type Folder struct {
	path string
	ids  map[string]os.FileInfo
	err  error        // why it could not be examined
	held func() error // checks the caller's lock; may be nil
}

// New records the identity of the folder at path, and of files in it. held reports whether
// the process's lock is still valid; nil: there is no lock. A folder that does not exist
// counts as removed.
func New(path string, held func() error, files ...string) *Folder {
	f := &Folder{path: path, ids: map[string]os.FileInfo{}, held: held}
	for _, name := range append([]string{path}, files...) {
		if f.ids[name], f.err = os.Stat(name); f.err != nil {
			break
		}
	}
	return f
}

// Path returns the path of something in the folder.
func (f *Folder) Path(parts ...string) string {
	return filepath.Join(append([]string{f.path}, parts...)...)
}

// Check reports whether the recorded folder and files are still at the path. It takes a
// few microseconds. Otherwise its error is CodeUnavailable and says what to do.
func (f *Folder) Check() error {
	err := f.look()
	if err == nil {
		return nil
	}
	e := parley.Errorf(parley.CodeUnavailable, "the data folder was removed or replaced: %w", err)
	e.Message = "the data folder was removed or replaced"
	return e.WithHint("put back what was at %s, or restart this server to use what is there now; until then nothing is stored", f.path)
}

func (f *Folder) look() error {
	if f.err != nil {
		return f.err
	}
	for name, was := range f.ids {
		now, err := os.Stat(name)
		if err != nil {
			return err
		}
		if !os.SameFile(was, now) {
			return errors.New(name + " is another file")
		}
	}
	if f.held != nil {
		return f.held()
	}
	return nil
}

// Make creates a folder below the data folder, and missing parents, readable by their
// owner only. An existing folder is left as it is.
func (f *Folder) Make(parts ...string) error {
	dir := f.Path(parts...)
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	below, err := filepath.Rel(f.path, dir)
	if err != nil || !filepath.IsLocal(below) {
		return parley.Errorf(parley.CodeInternal, "%s is not in the data folder", dir)
	}
	return f.make(below)
}

func (f *Folder) make(below string) error {
	if below == "." {
		return f.Check()
	}
	if err := f.make(filepath.Dir(below)); err != nil {
		return err
	}
	err := os.Mkdir(f.Path(below), 0o700)
	if info, serr := os.Stat(f.Path(below)); errors.Is(err, os.ErrExist) && serr == nil && info.IsDir() {
		return nil
	}
	return err
}
