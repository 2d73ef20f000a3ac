package workspace

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/parley-server/parley"
)

// Make makes a workspace of p's own. CodeConflict: there is one of that name, or of one that differs only in its
// case: where the file system ignores case, as after a move to another machine, the two would be one folder.
// CodeQuota: p has maxListed of them.
func (f *Folders) Make(p parley.Principal, w parley.Workspace) error {
	name, shared := w.Shared()
	switch {
	case shared:
		return field(parley.Errorf(parley.CodeForbidden, "only the app's file shares folders").WithHint("choose a name without shared/"))
	case f == nil || f.o.Root == "":
		return field(parley.Errorf(parley.CodeForbidden, "users of this app have no workspaces of their own").WithHint("an app's users have some when its app.yaml has workspaces, and no granted folders instead"))
	}
	if err := CheckName(name); err != nil {
		return field(err)
	}
	if f.o.There != nil {
		if err := f.o.There(); err != nil {
			return err
		}
	}
	taken := func(by string) error {
		return field(parley.Errorf(parley.CodeConflict, "there is a workspace %q already", by).WithHint("choose another name"))
	}
	if list, err := f.own(p); err == nil {
		if len(list) >= maxListed {
			return field(parley.Errorf(parley.CodeQuota, "you have %d workspaces, which is the limit", len(list)).WithHint("use one of them"))
		}
		if i := slices.IndexFunc(list, func(is string) bool { return strings.EqualFold(is, name) }); i >= 0 {
			return taken(list[i])
		}
	}
	if own := string(f.o.Default); own != name && strings.EqualFold(own, name) {
		return taken(own) // which may not be made yet
	}
	user, err := f.makeUser(p)
	if err == nil {
		defer user.Close() //nolint:errcheck // a folder is made or it is not
		err = user.Mkdir(name, 0o700)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return taken(name)
	case err != nil:
		return field(parley.Errorf(parley.CodeUnavailable, "make workspace %s: %w", name, short(err)))
	}
	return nil
}

// Describe lists the workspaces that p can work in, as List does. Its default is in it although it
// is not made yet.
func (f *Folders) Describe(p parley.Principal) ([]parley.WorkspaceInfo, error) {
	if f == nil {
		return nil, nil
	}
	list, err := f.List(p)
	if err != nil {
		return nil, err
	}
	var all []parley.WorkspaceInfo
	add := func(w parley.Workspace) {
		all = append(all, parley.WorkspaceInfo{Name: w, Kind: f.kind(w), ReadOnly: f.ReadOnly(w), Default: w == f.o.Default})
	}
	_, shared := f.o.Default.Shared()
	missing := f.o.Default != "" && !shared && f.o.Root != ""
	for _, w := range list {
		if missing && w >= f.o.Default || missing && f.kind(w) != parley.WorkspaceOwn {
			if missing = false; w != f.o.Default {
				add(f.o.Default)
			}
		}
		add(w)
	}
	if missing {
		add(f.o.Default)
	}
	return all, nil
}

// kind says why users may work in w.
func (f *Folders) kind(w parley.Workspace) parley.WorkspaceKind {
	name, shared := w.Shared()
	if !shared {
		return parley.WorkspaceOwn
	}
	if _, ok := f.o.Shared[name]; ok {
		return parley.WorkspaceShared
	}
	return parley.WorkspaceGranted
}
