// Package workspace finds the folders of files that sessions work in.
//
// A user's own workspaces are below one root, at {root}/{user}/{name}; see [UserFolder]
// for the second element. An app may share further folders with all its users, or grant each
// folder of a folder to some of them. A workspace that is not the caller's is not found.
//
// A [Folders] opens a workspace as an [os.Root], which no path leaves, by "..", by an
// absolute path or by a symbolic link. On the way there it follows no link either: with
// one, a user could be led into another's files. A name has to be spelt as it is on disk,
// even where the file system ignores case, so that one folder does not have two names.
//
// The folder of a user and the workspace that an app opens by default are made when they
// are first needed, and others by [Folders.Make]. Nothing is removed. The parents of the root are
// not made: if a data folder was taken away, nothing may take its place.
//
// Methods are safe for concurrent use, also by several processes.
package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
)

// Options say where an app's workspaces are.
type Options struct {
	// Root has a folder for each user. Empty: users have no workspaces of their own.
	Root string
	// Default is the workspace of sessions that name none. Empty: those have none.
	Default parley.Workspace
	// Shared are folders that all users of the app may work in, by name.
	Shared map[string]Shared
	// Granted are folders that some users may work in, named like the shared ones. If
	// both have the same name, the shared folder is meant.
	Granted Granted
	// There reports whether the folder that holds Root is still there. It is called before
	// anything is made in it. Nil: the folder is always there.
	There func() error
}

// Shared is a folder that an app shares.
type Shared struct {
	Dir      string
	ReadOnly bool // nobody changes it
}

// Granted says who may work in which folders of Dir. [parley.Local] may work in all of them.
type Granted struct {
	Dir    string   // empty: there are none
	Except []string // names of folders that are no workspaces
	// To are the users, by the folder's name.
	To map[string][]parley.Principal
	// Placeholder is a word: in the prompts of agents, the word in braces stands for the path
	// of the session's workspace. Empty: no word does.
	Placeholder string
}

// has reports whether p may work in the folder of that name, if it exists.
func (g Granted) has(p parley.Principal, name string) bool {
	if g.Dir == "" || slices.Contains(g.Except, name) {
		return false
	}
	return p == parley.Local || slices.Contains(g.To[name], p)
}

// Folders are the workspaces of an app. The zero value and nil have none.
type Folders struct{ o Options }

// New checks the names in o.
func New(o Options) (*Folders, error) {
	for name := range o.Shared {
		if err := CheckName(name); err != nil {
			return nil, err
		}
	}
	for name := range o.Granted.To {
		if err := CheckName(name); err != nil {
			return nil, err
		}
	}
	f := &Folders{o}
	if o.Default == "" {
		return f, nil
	}
	if name, shared := o.Default.Shared(); shared {
		if _, ok := o.Shared[name]; !ok && o.Granted.Dir == "" {
			return nil, f.notFound(parley.Principal{}, o.Default)
		}
	} else if err := CheckName(string(o.Default)); err != nil {
		return nil, err
	}
	return f, nil
}

// Default is the workspace of sessions that name none, or "".
func (f *Folders) Default() parley.Workspace {
	if f == nil {
		return ""
	}
	return f.o.Default
}

// Choose returns the workspace of a session of p that names none: the default, or else the only
// one that is granted to p. An error is about the field "workspace": the app grants several
// folders, or none, to p.
func (f *Folders) Choose(p parley.Principal) (parley.Workspace, error) {
	if f == nil || f.o.Default != "" || f.o.Granted.Dir == "" {
		return f.Default(), nil
	}
	list, err := f.List(p)
	if err != nil {
		return "", err
	}
	if len(list) == 1 {
		return list[0], nil
	}
	err = parley.Errorf(parley.CodeInvalid, "the session has no workspace").WithHint("%s", f.here(p))
	return "", field(err)
}

// InPrompt returns a prompt for a session in w, with the path where its placeholder is.
func (f *Folders) InPrompt(w parley.Workspace, prompt string) string {
	name, shared := w.Shared()
	if f == nil || !shared || f.o.Granted.Placeholder == "" || CheckName(name) != nil {
		return prompt
	}
	dir, err := filepath.Abs(filepath.Join(f.o.Granted.Dir, name))
	if err != nil {
		return prompt
	}
	return strings.ReplaceAll(prompt, "{"+f.o.Granted.Placeholder+"}", dir)
}

// ReadOnly reports whether nobody changes w.
func (f *Folders) ReadOnly(w parley.Workspace) bool {
	if f == nil {
		return false
	}
	name, shared := w.Shared()
	return shared && f.o.Shared[name].ReadOnly
}

// Check reports whether p can work in w. An error is about the field "workspace":
// CodeInvalid for a name that none can have, or CodeNotFound, which lists those that
// there are. The default workspace of a user is made if it is missing.
func (f *Folders) Check(p parley.Principal, w parley.Workspace) error {
	if f != nil && w == f.o.Default {
		if err := f.makeDefault(p); err != nil {
			return err
		}
	}
	root, err := f.Open(p, w)
	if err != nil {
		return err
	}
	return root.Close()
}

// Open opens a workspace of p. The caller closes it.
func (f *Folders) Open(p parley.Principal, w parley.Workspace) (*os.Root, error) {
	name, shared := w.Shared()
	if err := CheckName(name); err != nil {
		return nil, field(err)
	}
	if f == nil || f.o.Root == "" && len(f.o.Shared) == 0 && f.o.Granted.Dir == "" {
		return nil, noneHere()
	}
	root, err := f.open(p, name, shared)
	switch {
	case errors.Is(err, errAbsent) || errors.Is(err, fs.ErrNotExist):
		return nil, f.notFound(p, w)
	case err != nil:
		return nil, field(parley.Errorf(parley.CodeUnavailable, "open workspace %s: %w", w, short(err)))
	}
	return root, nil
}

// OpenUser opens the folder that holds the user's own workspaces. The caller must close it. It
// returns fs.ErrNotExist if there is none.
func (f *Folders) OpenUser(p parley.Principal) (*os.Root, error) {
	if f == nil {
		return nil, fs.ErrNotExist
	}
	root, err := f.user(p)
	if errors.Is(err, errAbsent) {
		err = fs.ErrNotExist
	}
	return root, err
}

// UserDir returns the path of the folder with p's workspaces, for processes that work in it.
func (f *Folders) UserDir(p parley.Principal) (string, error) {
	root, err := f.OpenUser(p)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	return filepath.Abs(filepath.Join(f.o.Root, UserFolder(p)))
}

// Dir is the path of a workspace of p, for processes that work in it, without links: that is how they see
// it. It exists.
func (f *Folders) Dir(p parley.Principal, w parley.Workspace) (string, error) {
	root, err := f.Open(p, w)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	dir := filepath.Join(f.o.Root, UserFolder(p), string(w))
	if name, shared := w.Shared(); shared {
		dir = filepath.Join(f.o.Granted.Dir, name)
		if s, ok := f.o.Shared[name]; ok {
			dir = s.Dir
		}
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", parley.Errorf(parley.CodeUnavailable, "the workspace's folder: %w", short(err))
	}
	return filepath.Abs(dir)
}

// At names the workspace of p that is in a folder, as [Folders.Dir] says it. Links to the folder name it, too. The
// default workspace of a user is made if it is missing.
func (f *Folders) At(p parley.Principal, dir string) (parley.Workspace, error) {
	if f == nil {
		return "", noneHere()
	}
	if root, err := filepath.Abs(f.o.Root); err == nil && f.o.Default != "" && filepath.Clean(dir) == filepath.Join(root, UserFolder(p), string(f.o.Default)) {
		if err := f.makeDefault(p); err != nil {
			return "", err
		}
	}
	wanted, err := os.Stat(dir)
	if err == nil {
		list, err := f.List(p)
		if err != nil {
			return "", err
		}
		for _, w := range list {
			at, err := f.Dir(p, w)
			if err != nil {
				continue
			}
			if is, err := os.Stat(at); err == nil && os.SameFile(is, wanted) {
				return w, nil
			}
		}
	}
	return "", field(parley.Errorf(parley.CodeNotFound, "you have no workspace in the folder %s", parley.Cut(dir, 300)).WithHint("%s", f.here(p)))
}

// List names the workspaces that p can work in: the user's own, then those of the app,
// each sorted. It lists at most 1,000 of the user's own, and 1,000 of those that are granted.
func (f *Folders) List(p parley.Principal) ([]parley.Workspace, error) {
	if f == nil {
		return nil, nil
	}
	var list []parley.Workspace
	if f.o.Root != "" {
		names, err := f.own(p)
		if err != nil && !errors.Is(err, errAbsent) && !errors.Is(err, fs.ErrNotExist) {
			return nil, parley.Errorf(parley.CodeUnavailable, "list workspaces: %w", short(err))
		}
		for _, name := range names {
			list = append(list, parley.Workspace(name))
		}
	}
	first := len(list)
	for name := range f.o.Shared {
		list = append(list, parley.Workspace("shared/"+name))
	}
	granted, err := f.granted(p)
	if err != nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "list workspaces: %w", short(err))
	}
	for _, name := range granted {
		list = append(list, parley.Workspace("shared/"+name))
	}
	slices.Sort(list[:first])
	slices.Sort(list[first:])
	return list[:first+len(slices.Compact(list[first:]))], nil
}

// granted names the folders that are granted to p and exist.
func (f *Folders) granted(p parley.Principal) ([]string, error) {
	g := f.o.Granted
	if g.Dir == "" {
		return nil, nil
	}
	root, err := os.OpenRoot(g.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	return listed(root, func(name string) bool { return g.has(p, name) })
}

// maxListed bounds a list of workspaces.
const maxListed = 1000

func (f *Folders) own(p parley.Principal) (names []string, err error) {
	user, err := f.user(p)
	if err != nil {
		return nil, err
	}
	defer user.Close() //nolint:errcheck // nothing was written
	return listed(user, func(string) bool { return true })
}

// listed names at most maxListed folders of root that can be workspaces.
func listed(root *os.Root, keep func(name string) bool) (names []string, err error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // nothing was written
	for len(names) < maxListed {
		page, err := dir.ReadDir(256)
		for _, e := range page {
			if e.IsDir() && CheckName(e.Name()) == nil && keep(e.Name()) {
				names = append(names, e.Name())
			}
		}
		if err != nil || len(page) == 0 {
			break // what could be read is the list
		}
	}
	return names[:min(len(names), maxListed)], nil
}

// open opens the folder itself.
func (f *Folders) open(p parley.Principal, name string, shared bool) (*os.Root, error) {
	if shared {
		if s, ok := f.o.Shared[name]; ok {
			return os.OpenRoot(s.Dir)
		}
		if !f.o.Granted.has(p, name) {
			return nil, errAbsent
		}
		root, err := os.OpenRoot(f.o.Granted.Dir)
		if err != nil {
			return nil, err
		}
		defer root.Close() //nolint:errcheck // nothing was written
		return enter(root, name)
	}
	user, err := f.user(p)
	if err != nil {
		return nil, err
	}
	defer user.Close() //nolint:errcheck // nothing was written
	return enter(user, name)
}

// user opens the folder of a user.
func (f *Folders) user(p parley.Principal) (*os.Root, error) {
	if f.o.Root == "" {
		return nil, errAbsent
	}
	root, err := os.OpenRoot(f.o.Root)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	return enter(root, UserFolder(p))
}

// makeDefault makes the default workspace of p, if it is one of the user's own.
func (f *Folders) makeDefault(p parley.Principal) error {
	if _, shared := f.o.Default.Shared(); shared || f.o.Root == "" {
		return nil
	}
	if f.o.There != nil {
		if err := f.o.There(); err != nil {
			return err
		}
	}
	err := f.makeOwn(p, string(f.o.Default))
	if err != nil {
		return field(parley.Errorf(parley.CodeUnavailable, "make workspace %s: %w", f.o.Default, short(err)))
	}
	return nil
}

// makeUser opens the folder of a user, which it makes if there is none.
func (f *Folders) makeUser(p parley.Principal) (*os.Root, error) {
	if err := os.Mkdir(f.o.Root, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	root, err := os.OpenRoot(f.o.Root)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // a folder is made or it is not
	return made(root, UserFolder(p))
}

func (f *Folders) makeOwn(p parley.Principal, name string) error {
	user, err := f.makeUser(p)
	if err != nil {
		return err
	}
	defer user.Close() //nolint:errcheck // a folder is made or it is not
	own, err := made(user, name)
	if err != nil {
		return err
	}
	return own.Close()
}

// made opens a folder and makes it if there is none.
func made(in *os.Root, name string) (*os.Root, error) {
	if err := in.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return enter(in, name)
}

var errAbsent = errors.New("there is no such folder")

// enter opens a folder that really is in dir under that name.
func enter(dir *os.Root, name string) (*os.Root, error) {
	in, err := files.Enter(dir, name)
	if files.IsNoFolder(err) {
		err = errAbsent
	}
	return in, err
}

func noneHere() error {
	return field(parley.Errorf(parley.CodeInvalid, "this app has no workspaces").WithHint("leave the workspace out; an app has some when its app.yaml says workspaces"))
}

func (f *Folders) notFound(p parley.Principal, w parley.Workspace) error {
	return field(parley.Errorf(parley.CodeNotFound, "there is no workspace %q", parley.Cut(string(w), 80)).WithHint("%s", f.here(p)))
}

// here is a hint that lists the workspaces of p.
func (f *Folders) here(p parley.Principal) string {
	hint := "the folder of a workspace has to be there"
	if list, err := f.List(p); err == nil && len(list) > 0 {
		names := make([]string, 0, 10)
		for _, w := range list[:min(len(list), 10)] {
			names = append(names, string(w))
		}
		hint = "workspaces here: " + strings.Join(names, ", ")
		if more := len(list) - len(names); more > 0 {
			hint += fmt.Sprintf(" and %d more", more)
		}
	}
	return hint
}

func field(err error) error {
	if e, ok := errors.AsType[*parley.Error](err); ok {
		return e.WithField("workspace")
	}
	return err
}

// short is the cause of a path's error: the path is the operator's.
func short(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
