package userfiles

import (
	"context"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/gitrepo"
	"github.com/parley-server/parley/internal/lake"
)

// Lakes say which workspaces are lakes.
type Lakes struct {
	// Of reports whether the workspaces of an app are lakes.
	Of func(app string) bool
	// Open returns the lake in a folder.
	Open func(ctx context.Context, dir string) (*lake.Lake, error)
}

func (l Lakes) of(app string) bool { return l.Of != nil && l.Of(app) }

// Lake is the lake of a workspace.
type Lake struct {
	*lake.Lake
	App       string
	Workspace parley.Workspace
	ReadOnly  bool
}

// Lake finds the lake of a workspace. An empty app is the only one that has lakes; an empty workspace is the one
// that new sessions of the app get.
func (f *Files) Lake(ctx context.Context, at At) (l Lake, err error) {
	if at.App, err = f.LakeApp(at.App); err != nil {
		return l, err
	}
	folders, err := f.o.Folders(at.App)
	if err != nil {
		return l, err
	}
	if !f.o.Lakes.of(at.App) {
		return l, parley.Errorf(parley.CodeInvalid, "the app %s has no lake", at.App).WithField("app").WithHint("an app has one if its app.yaml says tools: {lake: {}}")
	}
	if at.Workspace == "" {
		if at.Workspace, err = folders.Choose(at.Principal); err != nil {
			return l, err
		}
		if at.Workspace == "" {
			return l, parley.Errorf(parley.CodeInvalid, "name the workspace whose lake is meant").WithField("workspace")
		}
	}
	if err := folders.Check(at.Principal, at.Workspace); err != nil {
		return l, err
	}
	dir, err := folders.Dir(at.Principal, at.Workspace)
	if err != nil {
		return l, err
	}
	l.App, l.Workspace, l.ReadOnly = at.App, at.Workspace, folders.ReadOnly(at.Workspace)
	l.Lake, err = f.o.Lakes.Open(ctx, dir)
	return l, err
}

// LakeApp is the app that is meant when none is named: the only one that has lakes.
func (f *Files) LakeApp(app string) (string, error) {
	if app != "" || f.o.Lakes.Of == nil {
		return app, nil
	}
	var list []string
	for _, name := range f.o.Apps() {
		if f.o.Lakes.Of(name) {
			list = append(list, name)
		}
	}
	switch len(list) {
	case 0:
		return "", parley.Errorf(parley.CodeNotFound, "no app here has a lake").WithField("app")
	case 1:
		return list[0], nil
	}
	return "", parley.Errorf(parley.CodeInvalid, "several apps have lakes").WithField("app").WithHint("name one of %s", strings.Join(list, ", "))
}

// Changeable returns an error if nobody changes the lake.
func (l Lake) Changeable() error {
	if l.ReadOnly {
		return parley.Errorf(parley.CodeForbidden, "the workspace %s is read-only", l.Workspace).WithHint("the app's file says so")
	}
	return nil
}

// AuthorOf is who a user is in the commits of a lake.
func AuthorOf(p parley.Principal) gitrepo.Ident {
	clean := func(r rune) rune {
		if r < ' ' || strings.ContainsRune("<>\u007f\u2028\u2029", r) {
			return -1
		}
		return r
	}
	name := strings.TrimSpace(strings.Map(clean, p.User))
	if name == "" {
		name = "somebody"
	}
	mail := strings.ReplaceAll(name, " ", ".")
	if !strings.Contains(mail, "@") {
		mail += "@localhost"
	}
	return gitrepo.Ident{Name: parley.Cut(name, 100), Email: mail}
}
