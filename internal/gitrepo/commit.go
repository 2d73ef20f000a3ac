package gitrepo

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// Commit is what is committed, and how.
type Commit struct {
	// Paths are files and folders, relative to the working tree, with slashes. All that was
	// changed, made or removed in them is committed, except what the repository ignores.
	Paths []string
	// Except returns files in Paths that are left out all the same. It is called after the files were
	// read, so whoever announces a change before making it can be left out for certain. Nil: none.
	Except func(ctx context.Context) ([]string, error)
	// Message is the commit's message, given the files that it has.
	Message func(files []string) string
	Author  Ident
	When    time.Time
}

// Made is a commit that was made.
type Made struct {
	Hash  string // "": nothing was changed
	Files []string
}

// Commit commits to the branch that is checked out. Of what others have staged, nothing is committed
// and everything stays staged, outside Paths. Errors are temporary unless their code is CodeInvalid.
func (r *Repo) Commit(ctx context.Context, c Commit) (made Made, err error) {
	err = r.do(ctx, func(ctx context.Context) error {
		made, err = r.commit(ctx, c)
		return err
	})
	return made, err
}

// commit is Commit with the lock held. The order is: objects, index, branch. After a crash before the
// last the changes are still there to be committed.
func (r *Repo) commit(ctx context.Context, c Commit) (made Made, err error) {
	branch, err := r.branch()
	if err == nil {
		err = r.shadow.conf.pushedInto()
	}
	if err != nil {
		return made, err
	}
	unlock, err := r.lockIndex(ctx)
	if err != nil {
		return made, err
	}
	defer func() { r.unlock(unlock, err) }()
	if err = r.point("locked"); err != nil {
		return made, err
	}
	parent, err := r.tip(ctx, heads+branch)
	if err != nil {
		return made, err
	}
	dir, done, err := r.workDir()
	if err != nil {
		return made, err
	}
	defer done()
	x, err := r.copyIndex(dir, "index")
	if err != nil {
		return made, err
	}
	if err = x.add(ctx, c.Paths); err != nil {
		return made, err
	}
	all, err := x.against(ctx, parent)
	if err != nil {
		return made, err
	}
	var except []string
	if c.Except != nil {
		if except, err = c.Except(ctx); err != nil {
			return made, err
		}
	}
	var list, others []change
	excepted := false
	for _, d := range all {
		if d.status == 'U' {
			return made, unresolved(d.path)
		}
		if within(c.Paths, d.path) && !slices.Contains(except, d.path) && d.nowMode != gitlink {
			list = append(list, d)
			made.Files = append(made.Files, d.path)
		} else {
			others = append(others, d)
			excepted = excepted || within(c.Paths, d.path)
		}
	}
	if len(list) == 0 {
		return Made{}, nil
	}
	if excepted { // what is left out is not staged either
		if x, err = r.copyIndex(dir, "less"); err != nil {
			return made, err
		}
		if err = x.set(ctx, list, strings.Repeat("0", max(len(parent), 40))); err != nil {
			return made, err
		}
		if err = x.refresh(ctx); err != nil {
			return made, err
		}
	}
	tree, err := r.treeOf(ctx, x, parent, list, len(others) == 0)
	if err != nil {
		return made, err
	}
	made.Hash, err = r.object(ctx, tree, parent, c, made.Files)
	if err != nil {
		return made, err
	}
	if err = r.point("object"); err != nil {
		return made, err
	}
	if err = x.put(); err != nil {
		return made, err
	}
	if err = r.point("staged"); err != nil {
		return made, err
	}
	if err = r.move(ctx, heads+branch, parent, made.Hash, "commit"); err != nil {
		return made, err
	}
	return made, r.point("committed")
}

// unlock gives the index back, unless a crash is pretended.
func (r *Repo) unlock(unlock func(), err error) {
	if !isCrash(err) {
		unlock()
	}
}

// add puts into x what was changed in the working tree below paths. Repositories in the repository
// are left out.
func (x index) add(ctx context.Context, paths []string) error {
	out, err := x.git(ctx, nil, append([]string{"diff-files", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules", "--"}, paths...)...)
	if err != nil {
		return err
	}
	list, err := changes(out)
	if err != nil {
		return err
	}
	var names bytes.Buffer
	for _, c := range list {
		if c.status == 'U' {
			return unresolved(c.path)
		}
		if c.wasMode != gitlink {
			names.WriteString(c.path + "\x00")
		}
	}
	out, err = x.git(ctx, nil, append([]string{"ls-files", "-z", "--others", "--exclude-standard", "--"}, paths...)...)
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(string(out), "\x00") {
		if name != "" && !strings.HasSuffix(name, "/") {
			names.WriteString(name + "\x00")
		}
	}
	if names.Len() == 0 {
		return nil
	}
	_, err = x.git(ctx, names.Bytes(), "update-index", "--add", "--remove", "--replace", "-z", "--stdin")
	return err
}

// Ignored returns those of some files that are not committed because the repository ignores them.
func (r *Repo) Ignored(ctx context.Context, files []string) (list []string, err error) {
	if len(files) == 0 {
		return nil, nil
	}
	err = r.do(ctx, func(ctx context.Context) error {
		for some := range slices.Chunk(files, 100) { // arguments
			out, err := r.git(ctx, "", nil, append([]string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--"}, some...)...)
			if err != nil {
				return err
			}
			list = append(list, strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })...)
		}
		return nil
	})
	return list, err
}

func unresolved(path string) error {
	return parley.Errorf(parley.CodeConflict, "%s is in conflict, and somebody is about to resolve it", path).WithHint("it is waited for; resolve it with git add")
}

// within reports whether a file is one of paths, or in one of them.
func within(paths []string, name string) bool {
	return slices.ContainsFunc(paths, func(p string) bool {
		p = path.Clean(p)
		return p == "." || name == p || strings.HasPrefix(name, p+"/")
	})
}

// treeOf is the tree of a commit with these changes and no others. whole: x has no others.
func (r *Repo) treeOf(ctx context.Context, x index, parent string, list []change, whole bool) (string, error) {
	if whole {
		return x.tree(ctx)
	}
	y, err := index{r, x.path + ".none"}.copy("alone")
	if err != nil {
		return "", err
	}
	if parent != "" {
		if _, err := y.git(ctx, nil, "read-tree", parent); err != nil {
			return "", err
		}
	}
	if err := y.set(ctx, list, strings.Repeat("0", max(len(parent), 40))); err != nil {
		return "", err
	}
	return y.tree(ctx)
}

// object writes the commit.
func (r *Repo) object(ctx context.Context, tree, parent string, c Commit, files []string) (string, error) {
	when := fmt.Sprintf("%d %s", c.When.Unix(), c.When.Format("-0700"))
	var b bytes.Buffer
	fmt.Fprintf(&b, "tree %s\n", tree)
	if parent != "" {
		fmt.Fprintf(&b, "parent %s\n", parent)
	}
	fmt.Fprintf(&b, "author %s %s\ncommitter %s %s\n\n%s\n", c.Author, when, c.Author, when, strings.TrimSpace(message(c.Message(files))))
	return line(r.git(ctx, "", b.Bytes(), "hash-object", "-t", "commit", "-w", "--stdin"))
}

// message is a text without what no message may have.
func message(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// Trailers returns the values of a trailer in the commits of the branch since a time, and in those of
// kept branches: by them a commit is found again.
func (r *Repo) Trailers(ctx context.Context, key string, since time.Time) (map[string]bool, error) {
	found := map[string]bool{}
	err := r.do(ctx, func(ctx context.Context) error {
		branch, err := r.branch()
		if err != nil {
			return err
		}
		refs := []string{heads + branch}
		if tip, err := r.tip(ctx, refs[0]); err != nil || tip == "" {
			return err
		}
		kept, err := r.keptRefs(ctx)
		if err != nil {
			return err
		}
		for _, k := range kept {
			refs = append(refs, k.ref)
		}
		args := append([]string{"log", "-z", "--format=%(trailers:key=" + key + ",valueonly,unfold)", "--since=" + since.UTC().Format(time.RFC3339)}, refs...)
		out, err := r.git(ctx, "", nil, append(args, "--")...)
		if err != nil {
			return err
		}
		for _, value := range strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 || r == '\n' }) {
			found[strings.TrimSpace(value)] = true
		}
		return nil
	})
	if err != nil && parley.CodeOf(err) == "" {
		err = unavailable(err)
	}
	return found, err
}
