package config

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/workspace"
)

// workspacesFile says where the app's sessions find files. An app that does not say it
// has no workspaces.
type workspacesFile struct {
	Root    string                `yaml:"root,ref"` // folder with one for each user, and in it one for each workspace; default: the setting workspaces_dir
	Default parley.Workspace      `yaml:"default"`  // of sessions that name none, made when it is missing; default: none
	Shared  map[string]sharedFile `yaml:"shared"`   // folders that all users of the app work in, by name; default: none
}

type sharedFile struct {
	Dir      string `yaml:"dir,ref"`
	ReadOnly bool   `yaml:"read_only"` // nobody changes it; default false
}

func (sharedFile) short() string { return "dir" }

// WorkspacesRoot is the folder of all users' workspaces, for apps that name none.
func (s Settings) WorkspacesRoot() string {
	if s.WorkspacesDir != "" {
		return s.WorkspacesDir
	}
	return filepath.Join(s.Data, "workspaces")
}

// workspaces reads workspaces.
func (a *App) workspaces(s Settings, f *workspacesFile) {
	if f == nil {
		return
	}
	o := workspace.Options{Root: s.WorkspacesRoot(), Default: f.Default, Shared: map[string]workspace.Shared{}}
	if f.Root != "" {
		o.Root = a.onDisk(f.Root, "workspaces.root")
	}
	for _, name := range slices.Sorted(maps.Keys(f.Shared)) {
		at := "workspaces.shared." + name
		if err := workspace.CheckName(name); err != nil {
			a.d.at(at, "%s", err)
			continue
		}
		shared := f.Shared[name]
		if shared.Dir == "" {
			a.d.lacks(at, "dir", "has no dir; name the folder")
		}
		o.Shared[name] = workspace.Shared{Dir: a.onDisk(shared.Dir, at+".dir"), ReadOnly: shared.ReadOnly}
	}
	if _, err := workspace.New(o); err != nil && a.d.err() == nil {
		a.d.at("workspaces.default", "%s", err)
	}
	a.Workspaces = &o
}

// onDisk is the path of a folder that tools write to: an absolute one, or one in the app's
// own folder.
func (a *App) onDisk(dir, at string) string {
	full := home(dir, a.d.env)
	switch {
	case filepath.IsAbs(full):
		return full
	case a.Dir == "":
		a.d.at(at, "%q has to be an absolute path: this app is inside the program", dir)
	case !filepath.IsLocal(full):
		a.d.at(at, "%q leads out of the app's folder; write an absolute path", dir)
	}
	return filepath.Join(a.Dir, full)
}
