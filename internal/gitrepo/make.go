package gitrepo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/parley-server/parley"
)

// Make makes a repository of a folder that has none, with what is in the folder as its first commit.
func Make(ctx context.Context, o Options) error {
	if _, err := newRepo(ctx, o); !errors.Is(err, ErrNone) {
		return err
	}
	home := filepath.Join(o.Private, "make")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return unavailable(err)
	}
	if o.Git == "" {
		o.Git = "git"
	}
	p, _, err := find(ctx, o.Git, home)
	if err != nil {
		return err
	}
	if err := o.apart(ctx); err != nil {
		return err
	}
	// Of two that make it at once, git itself lets both succeed.
	if _, err := p.run(ctx, command{args: []string{"init", "-q", "--template=", "-b", "main", "--", o.Dir}, dir: home}); err != nil {
		return said(err)
	}
	r, err := Open(ctx, o)
	if err != nil {
		return err
	}
	at := time.Now()
	if o.Now != nil {
		at = o.Now()
	}
	c := r.found([]string{"."}, at)
	c.Message = func([]string) string { return "Begin with the files as found" }
	_, err = r.Commit(ctx, c)
	return err
}

// apart says whether a folder belongs to the repository of a folder around it: then it gets none of its own.
func (o Options) apart(ctx context.Context) error {
	dir, err := filepath.EvalSymlinks(o.Dir)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return unavailable(err)
	}
	for top := filepath.Dir(dir); top != filepath.Dir(top); top = filepath.Dir(top) {
		if fi, err := os.Lstat(filepath.Join(top, ".git")); err != nil || !fi.IsDir() {
			continue
		}
		around := o
		around.Dir, around.At = top, nil
		r, err := Open(ctx, around)
		if err != nil {
			return nil //nolint:nilerr // what cannot be opened has no files here that anybody commits
		}
		var out []byte
		if err := r.do(ctx, func(ctx context.Context) error {
			rel, err := filepath.Rel(top, dir)
			if err == nil {
				out, err = r.git(ctx, filepath.Join(r.gitDir, "index"), nil, "ls-files", "-z", "--", filepath.ToSlash(rel))
			}
			return err
		}); err != nil {
			return said(err)
		}
		if len(out) > 0 {
			return parley.Errorf(parley.CodeInvalid, "%s is a part of the repository in %s", dir, top).WithHint("use that folder, or take the files out of its repository")
		}
		return nil
	}
	return nil
}
