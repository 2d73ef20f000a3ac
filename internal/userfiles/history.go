package userfiles

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/gitrepo"
)

// maxChanges is how many changes of one path by sessions are looked through.
const maxChanges = 2000

// History lists versions of a file, the newest first: the commits of the repository that the
// workspace is in, or else the changes by the user's own sessions in this workspace. The file need
// not exist any more. After is the id of the last one that is known; "": none.
func (f *Files) History(ctx context.Context, at At, name, after string, most int) (h parley.FileHistory, err error) {
	clean, repo, within, err := f.repository(ctx, at, name)
	if err != nil {
		return h, err
	}
	if repo != nil {
		list, err := repo.History(ctx, within, after, most+1, follows(clean, within))
		if err != nil {
			return h, err
		}
		for _, r := range list {
			h.Versions = append(h.Versions, parley.FileVersion{ID: r.Hash, At: r.At, Author: r.Author, Subject: r.Subject, Deleted: r.Gone, MovedFrom: strings.TrimPrefix(r.From, strings.TrimSuffix(within, clean))})
		}
	} else {
		list, err := f.changes(ctx, at, clean)
		if err != nil {
			return h, err
		}
		known := after == ""
		for _, c := range list {
			if known && len(h.Versions) <= most {
				h.Versions = append(h.Versions, parley.FileVersion{ID: string(c.Call), At: c.At, Session: c.Session, Turn: c.Turn, Deleted: c.After == ""})
			}
			known = known || string(c.Call) == after
		}
		if !known {
			return h, parley.Errorf(parley.CodeNotFound, "the file has no version %q", parley.Cut(after, 80)).WithField("after")
		}
	}
	if len(h.Versions) > most {
		h.Versions = h.Versions[:most]
		h.Next = h.Versions[most-1].ID
	}
	return h, nil
}

// follows says where a file may have been before: in the same workspace, which may be a folder of a larger repository, and not where hidden files are.
func follows(clean, within string) gitrepo.Follow {
	return func(old string) bool {
		name, inside := strings.CutPrefix(old, strings.TrimSuffix(within, clean))
		return inside && !strings.HasPrefix(name, ".") && !strings.Contains(name, "/.")
	}
}

// Version reads a version of a text file, as Read does.
func (f *Files) Version(ctx context.Context, at At, name, id string, line, lines int) (c parley.FileContent, err error) {
	clean, repo, within, err := f.repository(ctx, at, name)
	if err != nil {
		return c, err
	}
	var body []byte
	if repo != nil {
		body, err = repo.Content(ctx, id, within, files.MaxFile, follows(clean, within))
	} else {
		body, err = f.changed(ctx, at, clean, id)
	}
	if err != nil {
		return c, err
	}
	c.FileInfo = parley.FileInfo{Path: clean, Size: int64(len(body))}
	return content(c, bytes.NewReader(body), body[:min(len(body), head)], line, lines)
}

// repository returns the clean path of a file, and the repository that its workspace is in, if
// there is one, with the file's path in it.
func (f *Files) repository(ctx context.Context, at At, name string) (clean string, repo *gitrepo.Repo, within string, err error) {
	root, _, err := f.open(at)
	if err != nil {
		return "", nil, "", err
	}
	_ = root.Close()
	if clean, err = files.Clean(name); err == nil && clean == "." {
		err = parley.Errorf(parley.CodeInvalid, "the path names the whole workspace, not a file").WithField("path")
	}
	if err != nil || f.o.Repo == nil {
		return clean, nil, "", err
	}
	folders, err := f.o.Folders(at.App)
	if err != nil {
		return "", nil, "", err
	}
	dir, err := folders.Dir(at.Principal, at.Workspace)
	if err != nil {
		return "", nil, "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", nil, "", parley.Errorf(parley.CodeUnavailable, "the workspace is not there: %w", cause(err))
	}
	// The repository of a workspace of the user's own is in it. One that an app shares or grants may be
	// a part of the operator's repository.
	_, shared := at.Workspace.Shared()
	for top := dir; ; top = filepath.Dir(top) {
		repo, err := f.repo(ctx, top)
		switch {
		case errors.Is(err, gitrepo.ErrNone) && shared && filepath.Dir(top) != top:
			continue
		case errors.Is(err, gitrepo.ErrNone):
			return clean, nil, "", nil
		case err != nil:
			return "", nil, "", err
		}
		rel, err := filepath.Rel(top, filepath.Join(dir, filepath.FromSlash(clean)))
		return clean, repo, filepath.ToSlash(rel), err
	}
}

// maxRepos is how many repositories are kept open.
const maxRepos = 64

// repo opens the repository of a folder, and keeps it.
func (f *Files) repo(ctx context.Context, dir string) (*gitrepo.Repo, error) {
	if fi, err := os.Lstat(filepath.Join(dir, ".git")); err != nil || !fi.IsDir() {
		return nil, gitrepo.ErrNone
	}
	f.mu.Lock()
	one := f.repos[dir]
	if one == nil {
		if len(f.repos) >= maxRepos {
			clear(f.repos)
		}
		one = &opened{}
		f.repos[dir] = one
	}
	f.mu.Unlock()
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.repo == nil {
		r, err := f.o.Repo(ctx, dir)
		if err != nil {
			return nil, err
		}
		one.repo = r
	}
	return one.repo, nil
}

// opened is a repository that is open, or about to be.
type opened struct {
	mu   sync.Mutex
	repo *gitrepo.Repo
}

// changes lists the changes of a file by sessions of the user in this workspace, the newest first.
func (f *Files) changes(ctx context.Context, at At, clean string) (mine []checkpoint.Change, err error) {
	if f.o.Checkpoints == nil || f.o.Session == nil {
		return nil, nil
	}
	all, err := f.o.Checkpoints().OfPath(ctx, clean, maxChanges)
	if err != nil {
		return nil, err
	}
	own := map[parley.SessionID]bool{}
	for _, c := range all {
		is, looked := own[c.Session]
		if !looked {
			s, err := f.o.Session(ctx, at.Principal, c.Session)
			if err != nil && parley.CodeOf(err) != parley.CodeNotFound {
				return nil, err
			}
			is = err == nil && s.App == at.App && s.Workspace == at.Workspace
			own[c.Session] = is
		}
		if is {
			mine = append(mine, c)
		}
	}
	return mine, nil
}

// changed is what a file had after a change by a session: what a later change found, or what it has
// now.
func (f *Files) changed(ctx context.Context, at At, clean, id string) ([]byte, error) {
	list, err := f.changes(ctx, at, clean)
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		if string(c.Call) != id {
			continue
		}
		if c.After == "" {
			break
		}
		for _, later := range list {
			if later.Before != c.After {
				continue
			}
			if body, ok, err := f.o.Checkpoints().Content(ctx, later.Session, c.After); err != nil || ok {
				return body, err
			}
		}
		root, _, err := f.open(at)
		if err != nil {
			return nil, err
		}
		defer root.Close() //nolint:errcheck // nothing was written
		if body, err := files.Of(root).Read(clean, files.MaxFile); err == nil && files.VersionOf(body) == c.After {
			return body, nil
		}
		return nil, parley.Errorf(parley.CodeNotFound, "what the file had then is not kept any more").WithField("id")
	}
	return nil, parley.Errorf(parley.CodeNotFound, "there is no such version of the file").WithField("id")
}
