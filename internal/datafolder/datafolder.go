// Package datafolder makes sure that code writes only into the data folder with which the
// process started.
//
// A folder that is renamed, removed or mounted over while a server runs must not be
// created again at its path: another server would start there, and the original could not
// be put back. So code that writes below the data folder first calls [Folder.Check] or
// [Folder.Make], which never creates the data folder itself. Only the start of a process
// does that, before it calls [New].
//
// Methods are safe for concurrent use.
package datafolder

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-server/parley"
)

// Folder is a data folder as it was when the process took it.
type Folder struct {
	path string
	ids  map[string]os.FileInfo // nil: the file did not exist
	held func() error           // checks the caller's lock; may be nil
}

// New records the identity of the folder at path, and of files in it. held reports whether
// the process's lock is still valid; nil: there is no lock. A folder that does not exist
// counts as removed.
func New(path string, held func() error, files ...string) *Folder {
	f := &Folder{path: path, ids: map[string]os.FileInfo{}, held: held}
	for _, name := range append([]string{path}, files...) {
		f.ids[name], _ = os.Stat(name)
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

// Make checks the data folder and creates a folder below it, with missing parents,
// readable by their owner only. An existing folder is left as it is.
func (f *Folder) Make(parts ...string) error {
	below := filepath.Join(parts...)
	if !filepath.IsLocal(below) {
		return parley.Errorf(parley.CodeInternal, "%s is not in the data folder", f.Path(below))
	}
	if err := f.Check(); err != nil {
		return err
	}
	// One by one, so that the data folder itself is not made if it disappears now.
	dir := f.path
	for part := range strings.SplitSeq(below, string(filepath.Separator)) {
		dir = filepath.Join(dir, part)
		err := os.Mkdir(dir, 0o700)
		if info, serr := os.Stat(dir); errors.Is(err, os.ErrExist) && serr == nil && info.IsDir() {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}
