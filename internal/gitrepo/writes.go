package gitrepo

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
)

// writes are the files to be written or removed so that the working tree has what a commit changes.
type writes struct {
	root  *os.Root
	tree  files.Tree
	stage string // where the new files are
	list  []write
	point func(string) error
}

type write struct {
	change
	was    files.Version // what the file has now; "": there is none
	target string        // of the link that it is now
}

func (w *writes) close() { _ = w.root.Close() }

func newWrites(r *Repo, dir string) (*writes, error) {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, unavailable(err)
	}
	return &writes{root: root, tree: files.Of(root), stage: filepath.Join(dir, "stage"), point: r.point}, nil
}

// writes plans the files. Nothing is written yet, and an error means that nothing will be.
func (r *Repo) writes(ctx context.Context, x index, from string, list []change, dir string) (_ *writes, err error) {
	w, err := newWrites(r, dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	// What the files have now comes first: who changes one later is noticed when it is written.
	now := make([]write, len(list))
	for i, c := range list {
		now[i].change = c
		if _, err = files.Clean(c.path); err != nil {
			return nil, parley.Errorf(parley.CodeInvalid, "what was pushed from elsewhere has a file that cannot be written here: %w", err).
				WithHint("rename it there; until then nothing is pulled or pushed")
		}
		if now[i].was, now[i].target, err = w.version(c.path); err != nil {
			return nil, err
		}
	}
	if err := x.refresh(ctx); err != nil {
		return nil, err
	}
	out, err := x.git(ctx, nil, "diff-files", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules", "--")
	if err != nil {
		return nil, err
	}
	changed, err := byPath(changes(out))
	if err != nil {
		return nil, err
	}
	staged, err := byPath(x.against(ctx, from))
	if err != nil {
		return nil, err
	}
	y, err := x.copy("stage-index")
	if err != nil {
		return nil, err
	}
	var waits []string
	stage := []change{}
	for _, f := range now {
		c := f.change
		if c.nowMode == gitlink || c.wasMode == gitlink {
			continue
		}
		s, differs := staged[c.path]
		if differs && (s.is != c.is || s.nowMode != c.nowMode) || c.nowMode != absent && w.isFull(c.path, list) {
			waits = append(waits, c.path)
			continue
		}
		_, dirty := changed[c.path]
		there := f.was != "" || f.target != ""
		if c.wasMode == absent && !differs {
			dirty = there // git does not know it
		}
		switch {
		case dirty || differs:
			// It has been changed here, or was written by an attempt that did not come to its end.
			merged, same, err := r.fit(ctx, x, f, dir)
			if err != nil {
				return nil, err
			}
			if same {
				continue
			}
			if merged == "" {
				waits = append(waits, c.path)
				continue
			}
			f.is = merged
			f.nowMode = c.nowMode
		case c.nowMode == absent && !there:
			continue
		}
		if f.nowMode != absent {
			stage = append(stage, f.change)
		}
		w.list = append(w.list, f)
	}
	if waits != nil {
		return nil, wait(waits...)
	}
	return w, r.fill(ctx, y, stage, w.stage)
}

func byPath(list []change, err error) (map[string]change, error) {
	m := map[string]change{}
	for _, c := range list {
		m[c.path] = c
	}
	return m, err
}

// fill writes the new files below a folder, as git would write them into the working tree.
func (r *Repo) fill(ctx context.Context, y index, list []change, stage string) error {
	if err := os.Mkdir(stage, 0o700); err != nil {
		return unavailable(err)
	}
	if len(list) == 0 {
		return nil
	}
	if err := y.set(ctx, list, ""); err != nil {
		return err
	}
	var names strings.Builder
	for _, c := range list {
		names.WriteString(c.path + "\x00")
	}
	_, err := y.git(ctx, []byte(names.String()), "checkout-index", "-z", "--stdin", "--prefix="+stage+"/")
	return err
}

// fit merges a change that is not committed with one from elsewhere. same: the file is already as it
// should be. merged is the blob that has both; "": they do not fit together.
func (r *Repo) fit(ctx context.Context, x index, f write, dir string) (merged string, same bool, err error) {
	c := f.change
	there := f.was != "" || f.target != ""
	if c.nowMode == absent {
		return "", !there, nil
	}
	if !there || c.nowMode == symlink || f.target != "" {
		if c.nowMode == symlink && f.target != "" {
			body, err := r.blob(ctx, c.is)
			return "", err == nil && string(body) == f.target, err
		}
		return "", false, nil
	}
	mine, err := line(x.git(ctx, nil, "hash-object", "-w", "--path="+c.path, "--", filepath.Join(r.dir, filepath.FromSlash(c.path))))
	if err != nil {
		return "", false, err
	}
	if mine == c.is {
		return "", true, nil
	}
	base := c.was
	if c.wasMode == absent {
		if !isLog(c.path) {
			return "", false, nil
		}
		if base, err = line(r.git(ctx, "", nil, "hash-object", "-w", "-t", "blob", "--stdin")); err != nil {
			return "", false, err
		}
	}
	if mine == base {
		return c.is, false, nil
	}
	args := []string{"merge-file", "-p", "-q"}
	if isLog(c.path) {
		args = append(args, "--union")
	}
	for i, blob := range []string{mine, base, c.is} {
		body, err := r.blob(ctx, blob)
		if err != nil {
			return "", false, err
		}
		at := filepath.Join(dir, "side-"+string(rune('0'+i)))
		if err := os.WriteFile(at, body, 0o600); err != nil {
			return "", false, unavailable(err)
		}
		args = append(args, at)
	}
	out, err := r.git(ctx, "", nil, args...)
	if _, failed := errors.AsType[*failure](err); failed {
		return "", false, nil // more than 0: so many conflicts; 255: not text
	}
	if err != nil {
		return "", false, err
	}
	merged, err = line(r.git(ctx, "", out, "hash-object", "-w", "-t", "blob", "--stdin"))
	return merged, false, err
}

// isLog reports whether changes of a file are lines that are added, in whatever order.
func isLog(name string) bool {
	ok, _ := path.Match("*/linkedin/posts.csv", name)
	return ok || name == "claude/webfetch_logs/requests.md"
}

func (r *Repo) blob(ctx context.Context, hash string) ([]byte, error) {
	return r.git(ctx, "", nil, "cat-file", "blob", hash)
}

// version is what a file of the working tree has now.
func (w *writes) version(name string) (v files.Version, target string, err error) {
	fi, err := w.root.Lstat(filepath.FromSlash(name))
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return "", "", nil
	case err != nil:
		return "", "", unavailable(err)
	case fi.Mode()&fs.ModeSymlink != 0:
		target, err := w.root.Readlink(filepath.FromSlash(name))
		return "", target, err
	case fi.IsDir():
		return "", "", nil // of files that are not committed, or of a repository
	}
	v, err = w.tree.Version(name)
	if err != nil {
		return "", "", wait(name) // a device, or a file with two names
	}
	return v, "", nil
}

// isFull reports whether a name belongs to a folder in which something stays.
func (w *writes) isFull(name string, list []change) bool {
	fi, err := w.root.Lstat(filepath.FromSlash(name))
	if err != nil || !fi.IsDir() {
		return false
	}
	gone := map[string]bool{}
	for _, c := range list {
		gone[c.path] = c.nowMode == absent
	}
	return fs.WalkDir(w.root.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !gone[p] {
			err = fs.ErrExist
		}
		return err
	}) != nil
}

// apply writes and removes the files. Removals come first, so that a folder can take the place of a
// file.
func (w *writes) apply() error {
	for _, gone := range []bool{true, false} {
		for _, f := range w.list {
			if (f.nowMode == absent) != gone {
				continue
			}
			if err := w.one(f); err != nil {
				return err
			}
			if err := w.point("file"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *writes) one(f write) (err error) {
	name := filepath.FromSlash(f.path)
	if f.nowMode == symlink || f.wasMode == symlink && f.target != "" {
		err = w.link(f)
	} else {
		err = w.file(f)
	}
	if f.nowMode == absent {
		for up := path.Dir(f.path); up != "." && err == nil; up = path.Dir(up) {
			w.tree.RemoveEmpty(up)
		}
	}
	if files.IsChanged(err) {
		return errMoved
	}
	if err != nil {
		return parley.Errorf(parley.CodeUnavailable, "%s from elsewhere cannot be written: %w", name, err).WithHint("it is tried again; make room for it, or check who may write there")
	}
	return nil
}

func (w *writes) file(f write) error {
	if f.nowMode == absent {
		_, err := w.tree.Apply(files.Change{Path: f.path, Gone: true, Was: f.was})
		return err
	}
	in, err := os.Open(filepath.Join(w.stage, filepath.FromSlash(f.path)))
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // nothing was written
	_, err = w.tree.Apply(files.Change{Path: f.path, From: in, Was: f.was, Executable: f.nowMode == executable, Tag: tagOf(f.path)})
	return err
}

// tagOf names the temporary file of a file that is being written, so that it is found after a crash. The repository's lock is held, so there is
// one at a time.
func tagOf(name string) string { return "git " + name }

// halfLink is where a symbolic link is made before it is put into its place.
func halfLink(name string) string {
	return filepath.Join(filepath.Dir(filepath.FromSlash(name)), ".parley-new-link")
}

// link replaces or removes a symbolic link, or puts one in the place of a file.
func (w *writes) link(f write) error {
	name := filepath.FromSlash(f.path)
	if _, target, err := w.version(f.path); err != nil || target != f.target {
		return errors.Join(err, errMoved)
	}
	if f.nowMode == absent {
		return w.root.Remove(name)
	}
	if f.nowMode != symlink {
		if err := w.root.Remove(name); err != nil {
			return err
		}
		f.was = ""
		return w.file(f)
	}
	if f.was != "" {
		if _, err := w.tree.Apply(files.Change{Path: f.path, Gone: true, Was: f.was}); err != nil {
			return err
		}
	}
	target, err := os.Readlink(filepath.Join(w.stage, name))
	if err != nil {
		return err
	}
	if err := w.root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	half := halfLink(f.path)
	if err := w.root.Remove(half); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := w.root.Symlink(target, half); err != nil {
		return err
	}
	return w.root.Rename(half, name)
}
