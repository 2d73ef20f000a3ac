package files

import (
	"context"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/parley-server/parley"
)

// Walk are the choices of [Tree.Walk].
type Walk struct {
	// Ignored says to walk also files that .gitignore and .ignore files name, and hidden files: their
	// names, or those of their folders, begin with a dot.
	Ignored bool
	// Into says whether to walk a folder; nil: every one.
	Into func(dir string) bool
	// Most is how many files and folders are looked at before the walk ends with CodeTooLarge. 0: a million.
	Most int
}

// Entry is a file that a walk found.
type Entry struct {
	Path string
	p    place
}

// Stat describes the file. It is for use in the walk only.
func (e Entry) Stat() (Info, error) {
	fi, err := e.p.look()
	if err != nil {
		return Info{}, err
	}
	return infoOf(e.Path, fi), nil
}

// Open opens the file for reading. It is called in the walk; the file may be read and closed later.
func (e Entry) Open() (*os.File, error) {
	f, _, err := e.p.open()
	return f, err
}

// Walk calls fn with each regular file below a folder, in the order of names within one folder. It
// follows no links, never enters .git, and passes over what it may not read. An error of fn ends
// the walk and is returned.
func (t Tree) Walk(ctx context.Context, from string, w Walk, fn func(Entry) error) error {
	if w.Most == 0 {
		w.Most = 1_000_000
	}
	p, _, err := t.find(from, false)
	if err != nil {
		return err
	}
	defer p.close()
	k := walker{ctx, w, fn}
	var rules []*ignore
	if !w.Ignored {
		rules = t.above(p.path)
	}
	if p.name == "." {
		return k.dir(t.root, "", rules, 0)
	}
	sub, err := Enter(p.dir, p.name)
	if err != nil {
		return said(err, p.path, p.path)
	}
	defer sub.Close() //nolint:errcheck // nothing was written
	return k.dir(sub, p.path, rules, strings.Count(p.path, "/")+1)
}

// above are the rules of the folders that hold a folder.
func (t Tree) above(dir string) (rules []*ignore) {
	if dir == "." {
		return nil
	}
	at := ""
	for elem := range strings.SplitSeq(dir, "/") {
		next := path.Join(at, elem)
		p, _, err := t.find(next, false)
		if err != nil {
			break
		}
		rules = append(rules, readIgnore(p.dir, at)...)
		p.close()
		at = next
	}
	return rules
}

type walker struct {
	ctx context.Context
	Walk
	fn func(Entry) error
}

// dir walks an open folder. at is its path, "" for the first.
func (k *walker) dir(dir *os.Root, at string, rules []*ignore, depth int) error {
	if depth > maxDepth {
		return nil // a path to its files would be too long for [Clean]
	}
	if err := k.ctx.Err(); err != nil {
		return context.Cause(k.ctx)
	}
	list, err := dir.Open(".")
	if err != nil {
		return nil // gone, or not readable
	}
	entries, err := entriesOf(list)
	_ = list.Close()
	if err != nil && len(entries) == 0 {
		return nil
	}
	if k.Most -= len(entries); k.Most < 0 {
		return parley.Errorf(parley.CodeTooLarge, "there are too many files to look at").WithHint("choose a folder with fewer")
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	if !k.Ignored {
		rules = append(slices.Clip(rules), readIgnore(dir, at)...)
	}
	for _, e := range entries {
		name := e.Name()
		full := name
		if at != "" {
			full = at + "/" + name
		}
		if IsGit(name) || strings.HasPrefix(name, temporary) || !k.Ignored && (strings.HasPrefix(name, ".") || ignored(rules, full, e.IsDir())) {
			continue
		}
		if e.IsDir() {
			if k.Into != nil && !k.Into(full) {
				continue
			}
			sub, err := Enter(dir, name)
			if err != nil {
				continue // gone, replaced, or not readable
			}
			err = k.dir(sub, full, rules, depth+1)
			_ = sub.Close()
			if err != nil {
				return err
			}
			continue
		}
		if !e.Type().IsRegular() {
			continue
		}
		if err := k.fn(Entry{full, place{dir, name, full, false}}); err != nil {
			return err
		}
	}
	return nil
}

// entriesOf lists an open folder: names and types, see [namesOf].
func entriesOf(dir *os.File) ([]fs.DirEntry, error) {
	list, err := namesOf(dir)
	if err != nil {
		return nil, err
	}
	defer list.Close() //nolint:errcheck // nothing was written
	return list.ReadDir(-1)
}
