package gitrepo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
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
