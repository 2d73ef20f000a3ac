package files

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// Move gives a file another path, where there must be no file yet. made are the folders that it
// made for it. The file is first written to the new path and then removed from the old one, so a
// crash in between leaves it at both.
func (t Tree) Move(from, to string, was Version) (made []string, err error) {
	if was == "" {
		return nil, parley.Errorf(parley.CodeInvalid, "the version of the file that is moved is missing").WithField("version")
	}
	body, mode, err := t.whole(from)
	switch {
	case err != nil:
		return nil, err
	case VersionOf(body) != was:
		return nil, changed(from, "has changed since it was read")
	}
	made, err = t.Apply(Change{Path: to, Body: body, Mode: mode})
	if err != nil {
		t.RemoveEmpty(made...)
		return nil, err
	}
	if _, err = t.Apply(Change{Path: from, Gone: true, Was: was}); err != nil {
		_, _ = t.Apply(Change{Path: to, Gone: true, Was: was}) // a change of somebody else stays
		t.RemoveEmpty(made...)
		return nil, err
	}
	return made, nil
}

// whole reads a file and its mode.
func (t Tree) whole(name string) (body []byte, mode fs.FileMode, err error) {
	p, _, err := t.find(name, false)
	if err != nil {
		return nil, 0, err
	}
	defer p.close()
	fi, err := p.look()
	if err != nil {
		return nil, 0, err
	}
	body, err = p.read(MaxFile)
	return body, fi.Mode().Perm(), err
}

// RemoveFolder removes a folder that is empty. One that is not is CodeConflict.
func (t Tree) RemoveFolder(name string) error {
	p, _, err := t.find(name, false)
	if err != nil {
		return err
	}
	defer p.close()
	if p.name == "." {
		return parley.Errorf(parley.CodeInvalid, "the path names the whole workspace")
	}
	sub, err := Enter(p.dir, p.name)
	if err != nil {
		return said(err, p.path, p.path)
	}
	list, err := sub.Open(".")
	if err == nil {
		var some []string
		some, err = list.Readdirnames(1)
		_ = list.Close()
		if len(some) > 0 {
			err = parley.Errorf(parley.CodeConflict, "the folder %s is not empty", quoted(p.path)).WithHint("delete what is in it first")
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	_ = sub.Close()
	if err != nil {
		return said(err, p.path, p.path)
	}
	if err := p.dir.Remove(p.name); err != nil {
		return said(err, p.path, p.path)
	}
	return p.sync()
}

// Sweep removes temporary files that a crash left in a folder and that are older than a time.
func (t Tree) Sweep(name string, older time.Time) {
	p, _, err := t.find(name, false)
	if err != nil {
		return
	}
	defer p.close()
	dir := t.root
	if p.name != "." {
		if dir, err = Enter(p.dir, p.name); err != nil {
			return
		}
		defer dir.Close() //nolint:errcheck // nothing was written
	}
	list, err := dir.Open(".")
	if err != nil {
		return
	}
	defer list.Close()  //nolint:errcheck // nothing was written
	const most = 10_000 // names; a larger folder is left as it is
	all, _ := list.Readdirnames(most)
	for _, name := range all {
		if !strings.HasPrefix(name, temporary) {
			continue
		}
		if fi, err := dir.Lstat(name); err == nil && fi.Mode().IsRegular() && fi.ModTime().Before(older) {
			_ = dir.Remove(name)
		}
	}
}
