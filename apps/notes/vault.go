package notes

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/workspace"
)

// vault is the folder with those of the persons. As a toolset it has no tools.
type vault struct {
	dir     string
	folders *workspace.Folders
}

var _ seam.Toolset = (*vault)(nil)

// Tools implements seam.Toolset.
func (*vault) Tools(context.Context) ([]parley.ToolDecl, error) { return nil, nil }

// Run implements seam.Toolset.
func (*vault) Run(context.Context, seam.Run) (parley.ToolResult, error) {
	return parley.ToolResult{}, seam.NotSent(errors.New("the vault has no tools"))
}

// openVault finds the vault of an app. An app without a folder there is not served.
func openVault(d app.ToolDeps) (app.Service, error) {
	w := d.App.Workspaces
	if w == nil || w.Granted.Dir == "" {
		return app.Service{}, d.Mistakes(parley.Errorf(parley.CodeInvalid, "the app has no vault").WithHint("name its folder in workspaces.granted.dir"))
	}
	folders, err := workspace.New(*w)
	if err != nil {
		return app.Service{}, d.Mistakes(err)
	}
	if info, err := os.Stat(w.Granted.Dir); !d.Check && (errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir()) {
		return app.Service{}, &app.Off{Why: "there is no folder " + w.Granted.Dir + ". Make it, with a folder for each person, such as mkdir -p " + filepath.Join(w.Granted.Dir, "ana") + ", or name another in parley.yaml: app: {" + d.App.Name + ": {granted: {dir: /srv/notes}}}"}
	}
	return app.Service{Toolset: &vault{w.Granted.Dir, folders}}, nil
}

// vaultOf returns the vault of an app; nil: it has none.
func vaultOf(d app.Deps) *vault {
	for _, t := range d.Toolsets[d.App] {
		if v, ok := t.(*vault); ok {
			return v
		}
	}
	return nil
}

// check reports why p may not use w.
func (v *vault) check(p parley.Principal, w parley.Workspace) error {
	if v == nil {
		return parley.Errorf(parley.CodeNotFound, "there is no vault")
	}
	return v.folders.Check(p, w)
}

// person returns the workspace of a person whose notes p may use.
func (v *vault) person(p parley.Principal, name string) (parley.Workspace, error) {
	w := parley.Workspace("shared/" + name)
	return w, v.check(p, w)
}
