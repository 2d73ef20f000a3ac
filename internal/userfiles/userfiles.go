// Package userfiles is what users do by themselves with the files of their workspaces, without an
// agent: list, read, write, move and delete them, and look at earlier versions.
//
// Another user's workspace is not found. What a path may say and reaches is decided by package
// files: no link is followed, and nothing of .git is read or changed. A change states the version
// that it is based on; when the file has another, it is refused with [parley.CodeConflict] and
// Current says which.
//
// What users change is in no session's log. A session that has seen an earlier version finds that
// somebody else has changed the file, and reads it again.
//
// Methods are safe for concurrent use.
package userfiles

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/gitrepo"
	"github.com/parley-server/parley/internal/workspace"
)

// MaxWrite is the most bytes that are written at once.
const MaxWrite = 8 << 20

// Options say whose workspaces these are.
type Options struct {
	Apps    func() []string                                    // those that are served
	Folders func(app string) (f *workspace.Folders, err error) // nil: the app has no workspaces
	Now     func() time.Time                                   // nil: time.Now

	// Repo opens the repository in a folder; its error is [gitrepo.ErrNone] if there is none. Nil:
	// there are no repositories.
	Repo func(ctx context.Context, dir string) (*gitrepo.Repo, error)
	// Checkpoints and Session tell what sessions of users have changed. Nil: nothing is known of
	// them.
	Checkpoints func() *checkpoint.Store
	Session     func(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.SessionInfo, error)

	Lakes Lakes // the zero value: there are none
}

// Files are the files of all users' workspaces.
type Files struct {
	o Options

	mu    sync.Mutex
	repos map[string]*opened // by folder
}

// New makes a Files.
func New(o Options) *Files {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Files{o: o, repos: map[string]*opened{}}
}

// At is a workspace of an app, and who asks.
type At struct {
	Principal parley.Principal
	App       string
	Workspace parley.Workspace
	// Page says that a page asks that an app brought. It changes no file that may change what
	// agents are told or what runs, see [files.Guarded].
	Page bool
}

// Workspaces lists the workspaces of p in an app, or in all of them when app is "".
func (f *Files) Workspaces(p parley.Principal, app string) ([]parley.WorkspaceInfo, error) {
	names := []string{app}
	if app == "" {
		names = f.o.Apps()
	}
	var all []parley.WorkspaceInfo
	for _, name := range names {
		folders, err := f.o.Folders(name)
		if err != nil {
			return nil, err
		}
		list, err := folders.Describe(p)
		if err != nil {
			return nil, err
		}
		for _, w := range list {
			w.App, w.Lake = name, f.o.Lakes.of(name)
			all = append(all, w)
		}
	}
	return all, nil
}

// Named names the workspace of p that is in a folder. CodeNotFound: there is none of p's.
func (f *Files) Named(p parley.Principal, app, dir string) (parley.Workspace, error) {
	folders, err := f.o.Folders(app)
	if err != nil {
		return "", err
	}
	return folders.At(p, dir)
}

// Make makes a workspace of the user's own. Errors are as those of [workspace.Folders.Make].
func (f *Files) Make(at At) (parley.WorkspaceInfo, error) {
	folders, err := f.o.Folders(at.App)
	if err != nil {
		return parley.WorkspaceInfo{}, err
	}
	if err := folders.Make(at.Principal, at.Workspace); err != nil {
		return parley.WorkspaceInfo{}, err
	}
	return parley.WorkspaceInfo{App: at.App, Name: at.Workspace, Kind: parley.WorkspaceOwn, Default: at.Workspace == folders.Default(), Lake: f.o.Lakes.of(at.App)}, nil
}

// open opens a workspace. The user's default is made if it is missing. The caller closes it.
func (f *Files) open(at At) (root *os.Root, readOnly bool, err error) {
	folders, err := f.o.Folders(at.App)
	if err != nil {
		return nil, false, err
	}
	if err := folders.Check(at.Principal, at.Workspace); err != nil {
		return nil, false, err
	}
	root, err = folders.Open(at.Principal, at.Workspace)
	return root, folders.ReadOnly(at.Workspace), err
}

// changeable opens a workspace to change the file at a path.
func (f *Files) changeable(at At, names ...string) (*os.Root, error) {
	root, readOnly, err := f.open(at)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		clean, err := files.Clean(name)
		if err == nil && at.Page && files.Guarded(clean) {
			err = parley.Errorf(parley.CodeForbidden, "a page of an app does not change %s, which agents and servers are set up with", clean).
				WithHint("change it on Parley's own page, or on disk")
		}
		if err == nil && readOnly {
			err = parley.Errorf(parley.CodeForbidden, "the workspace %s is read-only", at.Workspace).WithHint("the app's file says so")
		}
		if err != nil {
			_ = root.Close()
			return nil, err
		}
	}
	return root, nil
}

// Tree lists a page of what is in a folder. next is what After is for the next page.
func (f *Files) Tree(ctx context.Context, at At, dir string, l files.List) (t parley.FileTree, err error) {
	root, _, err := f.open(at)
	if err != nil {
		return t, err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	list, more, err := files.Of(root).List(ctx, dir, l)
	if err != nil {
		return t, err
	}
	if t.Entries = list; more {
		t.Next = list[len(list)-1].Path
	}
	return t, nil
}

// Write makes or replaces a file. Writing what the file has already succeeds whatever the version
// is, so that a write whose answer was lost can be repeated. made reports that there was none.
func (f *Files) Write(at At, name string, body []byte, was files.Version) (info parley.FileInfo, made bool, err error) {
	if len(body) > MaxWrite {
		return info, false, parley.Errorf(parley.CodeTooLarge, "the file has more than %d MB", MaxWrite>>20).WithHint("larger files are put into the folder on disk")
	}
	root, err := f.changeable(at, name)
	if err != nil {
		return info, false, err
	}
	defer root.Close() //nolint:errcheck // what was written is synced
	tree := files.Of(root)
	dirs, err := tree.Apply(files.Change{Path: name, Body: body, Was: was})
	made = err == nil && was == ""
	if err != nil {
		tree.RemoveEmpty(dirs...)
		err = current(tree, name, err)
		if e, ok := errors.AsType[*parley.Error](err); !ok || e.Current == "" || e.Current != files.VersionOf(body) {
			return info, false, err
		}
	}
	f.tidy(tree, name)
	info, err = stat(tree, name)
	info.Version = files.VersionOf(body)
	return info, made, err
}

// Delete deletes a file, or a folder that is empty, for which was is "".
func (f *Files) Delete(at At, name string, was files.Version) error {
	root, err := f.changeable(at, name)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // what was written is synced
	tree := files.Of(root)
	in, err := tree.Stat(name)
	switch {
	case err != nil:
		return err
	case in.Dir:
		tree.Sweep(name, f.o.Now().Add(-abandoned))
		return tree.RemoveFolder(name)
	case was == "":
		return parley.Errorf(parley.CodeInvalid, "the version of the file that is deleted is missing").WithField("version").WithHint("read the file, and send its version")
	}
	_, err = tree.Apply(files.Change{Path: name, Gone: true, Was: was})
	return current(tree, name, err)
}

// Move gives a file another path, where there must be none yet.
func (f *Files) Move(at At, from, to string, was files.Version) (info parley.FileInfo, err error) {
	root, err := f.changeable(at, from, to)
	if err != nil {
		return info, err
	}
	defer root.Close() //nolint:errcheck // what was written is synced
	tree := files.Of(root)
	if _, err := tree.Move(from, to, was); err != nil {
		err = current(tree, from, err)
		if e, ok := errors.AsType[*parley.Error](err); ok && e.Current == was && was != "" { // so the other path is taken
			err = e.WithCurrent("").WithField("to").WithHint("choose another path, or delete the file there first")
		}
		return info, err
	}
	f.tidy(tree, to)
	info, err = stat(tree, to)
	info.Version = was
	return info, err
}

// abandoned is the age at which a temporary file is left over from a crash: a write takes seconds.
const abandoned = time.Hour

// tidy removes what crashes left in the folder of a file.
func (f *Files) tidy(tree files.Tree, name string) {
	if clean, err := files.Clean(name); err == nil {
		tree.Sweep(path.Dir(clean), f.o.Now().Add(-abandoned))
	}
}

// current adds the present version of a file to a refusal of a change that expected another.
func current(tree files.Tree, name string, err error) error {
	e, ok := errors.AsType[*parley.Error](err)
	if !ok || !files.IsChanged(err) {
		return err
	}
	if body, rerr := tree.Read(name, files.MaxFile); rerr == nil {
		e = e.WithCurrent(files.VersionOf(body))
	} else if !errors.Is(rerr, fs.ErrNotExist) {
		return err
	}
	return e.WithField(cmp.Or(e.Field, "version"))
}
