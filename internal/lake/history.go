package lake

import (
	"context"
	"errors"

	"zombiezen.com/go/sqlite"

	"github.com/aymanbagabas/go-udiff"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/gitrepo"
	"github.com/parley-server/parley/internal/wiki"
)

// History is a page of the commits that changed an entity, the newest first.
type History = parley.EntityHistory

// spelt is the path of an entity that may not be there any more.
func (l *Lake) spelt(ctx context.Context, name string) (string, error) {
	clean, err := files.Clean(name)
	if err != nil {
		return "", err
	}
	err = l.x.with(ctx, func(c *sqlite.Conn) error {
		f, err := find(c, clean)
		if err == nil {
			clean = f.Path
		}
		if parley.CodeOf(err) == parley.CodeNotFound {
			err = nil
		}
		return err
	})
	return clean, err
}

// follows says where an entity may have been before: where entities are.
func follows(old string) bool { return mayBe(old) == nil }

// History lists the commits that changed an entity, also those before it was moved. It need not exist any more.
func (l *Lake) History(ctx context.Context, name string, p Page) (h History, err error) {
	h.Revisions = []Revision{}
	name, err = l.spelt(ctx, name)
	if err != nil {
		return h, err
	}
	most := p.limit()
	var list []gitrepo.Revision
	if r, err := l.git(ctx, false); err == nil {
		if list, err = r.History(ctx, name, p.After, most+1, follows); err != nil {
			return h, err
		}
	} else if !errors.Is(err, gitrepo.ErrNone) {
		return h, err
	}
	if len(list) == 0 && p.After == "" {
		tree, done, err := l.folder.use()
		if err != nil {
			return h, err
		}
		defer done()
		if _, err := tree.Stat(name); err != nil {
			return h, notFound(name)
		}
	}
	for _, r := range list {
		h.Revisions = append(h.Revisions, Revision{Commit: r.Hash, At: r.At, Author: r.Author, Reason: r.Subject, Deleted: r.Gone, MovedFrom: r.From})
	}
	if len(h.Revisions) > most {
		h.Revisions = h.Revisions[:most]
		h.Next = h.Revisions[most-1].Commit
	}
	return h, nil
}

// versions is the repository, for those who ask for a version in it.
func (l *Lake) versions(ctx context.Context) (*gitrepo.Repo, error) {
	r, err := l.git(ctx, false)
	if errors.Is(err, gitrepo.ErrNone) {
		return nil, parley.Errorf(parley.CodeNotFound, "the lake has no history yet, since nothing in it was changed here")
	}
	return r, err
}

// At reads what an entity had in a commit.
func (l *Lake) At(ctx context.Context, name, commit string) (e Entity, err error) {
	if name, err = l.spelt(ctx, name); err != nil {
		return e, err
	}
	r, err := l.versions(ctx)
	if err != nil {
		return e, err
	}
	body, err := r.Content(ctx, commit, name, MaxEntity, follows)
	if err != nil {
		return e, err
	}
	e = Parse(name, body)
	e.Body = string(body)
	return e, nil
}

// Diff is the difference of an entity between two commits, as unified diff. from "" is the commit before to; to "" is the file as it is now. If both are "", it
// is what is not committed. A side that has no such file is empty.
func (l *Lake) Diff(ctx context.Context, name, from, to string) (diff string, err error) {
	if name, err = l.spelt(ctx, name); err != nil {
		return "", err
	}
	r, err := l.versions(ctx)
	if err != nil {
		return "", err
	}
	if from == "" {
		if from, err = before(ctx, r, name, to); err != nil {
			return "", about("to", err)
		}
	}
	side := func(field, commit string) (string, bool, error) {
		if commit == none {
			return "", false, nil
		}
		body, err := r.Content(ctx, commit, name, MaxEntity, follows)
		if parley.CodeOf(err) == parley.CodeNotFound {
			// The commit may be without the file, or there is no such commit.
			if _, herr := r.History(ctx, name, commit, 1, follows); herr != nil {
				return "", false, about(field, herr)
			}
			return "", false, nil
		}
		return string(body), err == nil, err
	}
	old, was, err := side("from", from)
	if err != nil {
		return "", err
	}
	var body string
	is := true
	if to == "" {
		raw, rerr := l.read(name)
		if body = string(raw); parley.CodeOf(rerr) == parley.CodeNotFound {
			is = false
		} else if rerr != nil {
			return "", rerr
		}
	} else if body, is, err = side("to", to); err != nil {
		return "", err
	}
	if !was && !is {
		return "", notFound(name)
	}
	return unified(name, old, body, was, is), nil
}

// none stands for a commit without files.
const none = "none"

// before is the last commit of an entity before one; "" is what is not committed.
func before(ctx context.Context, r *gitrepo.Repo, name, commit string) (string, error) {
	list, err := r.History(ctx, name, "", 1, follows)
	if commit != "" {
		list, err = r.History(ctx, name, commit, 1, follows)
	}
	if err != nil || len(list) == 0 {
		return none, err
	}
	return list[0].Hash, nil
}

func unified(name, old, now string, was, is bool) string {
	from, to := "a/"+name, "b/"+name
	if !was {
		from = "/dev/null"
	}
	if !is {
		to = "/dev/null"
	}
	return udiff.Unified(from, to, old, now)
}

// Feed is a page of the changes of a lake, the oldest first.
type Feed = parley.LakeFeed

// maxTouched is how many files of a change are listed.
const maxTouched = 500

// Changes lists the commits behind a cursor; "" begins with the first. They are read from the repository, so none is missed, whoever made it and
// whether the server ran or not. After others have rewritten the branch, as a pull does that puts local commits on top, some may come twice.
func (l *Lake) Changes(ctx context.Context, cursor string, p Page) (f Feed, err error) {
	f = Feed{Changes: []parley.LakeChange{}, Cursor: cursor}
	r, err := l.git(ctx, false)
	if errors.Is(err, gitrepo.ErrNone) {
		f.Reset = cursor != ""
		return f, nil
	}
	if err != nil {
		return f, err
	}
	list, more, again, err := r.Since(ctx, cursor, p.limit())
	if err != nil {
		return f, err
	}
	f.More, f.Reset = more, again
	for _, e := range list {
		c := parley.LakeChange{Commit: e.Hash, Cursor: e.Hash, At: e.At, Author: e.Author, Reason: e.Subject, Changed: []parley.LakeTouched{}}
		for _, t := range e.Files {
			if !wiki.IsNote(t.Path) {
				continue
			}
			if c.Cut = len(c.Changed) >= maxTouched; c.Cut {
				break
			}
			c.Changed = append(c.Changed, parley.LakeTouched{Path: t.Path, What: whats[t.What]})
		}
		f.Changes = append(f.Changes, c)
		f.Cursor = e.Hash
	}
	return f, nil
}

var whats = map[byte]string{'A': "created", 'D': "deleted", 'M': "updated", 'T': "updated"}

// Head is the last commit of the branch, which a [Lake.Changes] from now on begins behind; "": there is none.
func (l *Lake) Head(ctx context.Context) (string, error) {
	r, err := l.git(ctx, false)
	if errors.Is(err, gitrepo.ErrNone) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return r.Head(ctx)
}
