package files

import (
	"container/heap"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parley-server/parley"
)

// List are the choices of [Tree.List].
type List struct {
	Depth   int    // how deep: 1 is what is in the folder itself
	After   string // the path of the last entry that is known already; "": none
	Ignored bool   // also what a [Walk] without Ignored skips
	Most    int    // entries
	Bytes   int    // about how many bytes of entries
}

// maxLooked is the most names that are read for one list.
const maxLooked = 200_000

// errFull ends a list.
var errFull = errors.New("the list is full")

// List lists what is in a folder: each folder is followed by its entries, and the entries of one
// folder are sorted by the bytes of their names. It follows no links and leaves out .git.
// more says that there are further entries. The memory that it takes depends only on l.
func (t Tree) List(ctx context.Context, dir string, l List) (list []parley.FileEntry, more bool, err error) {
	p, _, err := t.find(dir, false)
	if err != nil {
		return nil, false, err
	}
	defer p.close()
	after, err := afterIn(p.path, l.After)
	if err != nil {
		return nil, false, err
	}
	k := &lister{ctx: ctx, l: l}
	open, at, depth := t.root, "", 0
	if p.name != "." {
		if open, err = Enter(p.dir, p.name); err != nil {
			if fi, serr := p.look(); serr == nil && !fi.IsDir() {
				return nil, false, parley.Errorf(parley.CodeInvalid, "%s is a file, not a folder", quoted(p.path))
			}
			return nil, false, said(err, p.path, p.path)
		}
		defer open.Close() //nolint:errcheck // nothing was written
		at, depth = p.path, strings.Count(p.path, "/")+1
	}
	rules := t.above(p.path)
	err = k.dir(open, at, rules, inIgnored(rules, at), 1, depth, after)
	if errors.Is(err, errFull) {
		return k.out, true, nil
	}
	return k.out, false, err
}

// afterIn is the path of the last entry that is known, in elements below a folder.
func afterIn(dir, after string) ([]string, error) {
	if after == "" {
		return nil, nil
	}
	clean, err := Clean(after)
	if err == nil && dir != "." {
		var below bool
		if clean, below = strings.CutPrefix(clean, dir+"/"); !below {
			err = errLink
		}
	}
	if err != nil || clean == "." {
		return nil, parley.Errorf(parley.CodeInvalid, "%s is not in the folder that is listed", quoted(after)).WithField("after").
			WithHint("give what the page before says is next, and the same folder")
	}
	return strings.Split(clean, "/"), nil
}

// inIgnored reports whether a folder is ignored, or is in one that is.
func inIgnored(rules []*ignore, dir string) bool {
	for dir != "" && dir != "." {
		if strings.HasPrefix(path.Base(dir), ".") || ignored(rules, dir, true) {
			return true
		}
		dir = path.Dir(dir)
	}
	return false
}

type lister struct {
	ctx    context.Context
	l      List
	looked int
	bytes  int
	out    []parley.FileEntry
}

// named is a name in a folder.
type named struct {
	name    string
	dir     bool
	ignored bool
}

// dir lists an open folder. level counts from 1 for the first, depth from 0 for the root's.
func (k *lister) dir(dir *os.Root, at string, rules []*ignore, hidden bool, level, depth int, after []string) error {
	if depth > maxDepth {
		return nil // a path to its files would be too long for [Clean]
	}
	if err := k.ctx.Err(); err != nil {
		return context.Cause(k.ctx)
	}
	rules = append(slices.Clip(rules), readIgnore(dir, at)...)
	names, err := k.names(dir, at, rules, hidden, after)
	if err != nil {
		return err
	}
	for _, n := range names {
		full := path.Join(at, n.name)
		known := len(after) > 0 && n.name == after[0]
		if !known {
			fi, err := dir.Lstat(n.name)
			if err != nil {
				continue // gone
			}
			if err := k.add(entryOf(full, fi, n.ignored)); err != nil {
				return err
			}
			n.dir = fi.IsDir()
		}
		if !n.dir || level >= k.l.Depth {
			continue
		}
		sub, err := Enter(dir, n.name)
		if err != nil {
			continue // gone, replaced, or not readable
		}
		var rest []string
		if known {
			rest = after[1:]
		}
		err = k.dir(sub, full, rules, n.ignored, level+1, depth+1, rest)
		_ = sub.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func entryOf(name string, fi fs.FileInfo, ignored bool) parley.FileEntry {
	e := parley.FileEntry{Path: name, Kind: parley.FileOther, Modified: fi.ModTime().UTC(), Ignored: ignored}
	switch mode := fi.Mode(); {
	case mode.IsDir():
		e.Kind = parley.FileFolder
	case mode.IsRegular():
		e.Kind, e.Size = parley.FileRegular, fi.Size()
	case mode&fs.ModeSymlink != 0:
		e.Kind = parley.FileLink
	}
	return e
}

func (k *lister) add(e parley.FileEntry) error {
	if len(k.out) >= k.l.Most || k.bytes >= k.l.Bytes && len(k.out) > 0 {
		return errFull
	}
	k.out = append(k.out, e)
	k.bytes += len(e.Path) + 150 // of the other fields, in JSON
	return nil
}

// names returns the first names of a folder that may be needed, beginning with the first element
// of after.
func (k *lister) names(dir *os.Root, at string, rules []*ignore, hidden bool, after []string) (first byName, err error) {
	list, err := dir.Open(".")
	if err != nil {
		return nil, nil // gone, or not readable
	}
	defer list.Close() //nolint:errcheck // nothing was written
	raw, err := namesOf(list)
	if err != nil {
		return nil, nil
	}
	defer raw.Close() //nolint:errcheck // nothing was written
	for {
		page, err := raw.ReadDir(1024)
		if k.looked += len(page); k.looked > maxLooked {
			return nil, parley.Errorf(parley.CodeTooLarge, "there are too many files to look at").WithHint("list a folder with fewer, or less deep")
		}
		for _, e := range page {
			name := e.Name()
			full := path.Join(at, name)
			if len(after) > 0 && name < after[0] || !reachable(full, name) {
				continue
			}
			n := named{name: name, dir: e.IsDir()}
			n.ignored = hidden || strings.HasPrefix(name, ".") || ignored(rules, full, n.dir)
			if n.ignored && !hidden && !k.l.Ignored {
				continue
			}
			heap.Push(&first, n)
			if len(first) > k.l.Most-len(k.out)+2 { // the one that is known, and one to see that there are more
				heap.Pop(&first)
			}
		}
		if k.ctx.Err() != nil {
			return nil, context.Cause(k.ctx)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && len(first) == 0 {
				return nil, nil
			}
			break
		}
	}
	slices.SortFunc(first, func(a, b named) int { return strings.Compare(a.name, b.name) })
	return first, nil
}

// reachable reports whether [Clean] takes a path with that name at its end.
func reachable(full, name string) bool {
	return len(full) <= maxPath && len(name) <= 255 && utf8.ValidString(name) && !strings.ContainsRune(name, '\\') && !strings.ContainsFunc(name, unicode.IsControl) &&
		!IsGit(name) && !strings.HasPrefix(name, temporary)
}

// byName is a heap with the last name on top.
type byName []named

func (n byName) Len() int           { return len(n) }
func (n byName) Less(i, j int) bool { return n[i].name > n[j].name }
func (n byName) Swap(i, j int)      { n[i], n[j] = n[j], n[i] }
func (n *byName) Push(v any)        { *n = append(*n, v.(named)) }
func (n *byName) Pop() any {
	last := len(*n) - 1
	v := (*n)[last]
	*n = (*n)[:last]
	return v
}
