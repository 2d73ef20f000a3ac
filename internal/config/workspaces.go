package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

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

// PlatformFolder returns the folder of what the operator adds to apps.
func (s Settings) PlatformFolder() string {
	if s.PlatformDir != "" {
		return s.PlatformDir
	}
	return filepath.Join(s.Data, "platform")
}

// levels are the levels whose folders may add to an app, the farthest first. The app's own
// folder always does.
var levels = []string{"platform", "user", "workspace"}

// extensions reads the app's setting extensions.
func (a *App) extensions(f appFile) {
	if f.Extensions == nil && f.Workspaces != nil {
		f.Extensions = levels
	}
	a.unique("extensions", f.Extensions)
	for i, name := range f.Extensions {
		at := fmt.Sprintf("extensions[%d]", i)
		a.choice(at, name, levels...)
		if f.Workspaces == nil && (name == "user" || name == "workspace") {
			a.d.at(at, "the app has no workspaces; add workspaces, or leave this out")
		}
	}
	a.Extensions = f.Extensions
}

// Exec is what files of users and workspaces may run or call.
type Exec struct {
	On    bool     // they may name programs and URLs, each of which a person must approve
	Env   []string // variables that they may use
	Hosts []string // hosts that their URLs may name
}

// exec reads workspace_exec, workspace_env and workspace_hosts.
func (a *App) exec(f appFile) {
	a.Exec = Exec{f.Exec, f.ExecEnv, f.ExecHosts}
	a.unique("workspace_env", f.ExecEnv)
	a.unique("workspace_hosts", f.ExecHosts)
	for i, name := range f.ExecEnv {
		a.variable(fmt.Sprintf("workspace_env[%d]", i), name, "")
	}
	for i, host := range f.ExecHosts {
		if host == "" || strings.ContainsAny(host, "/*@ ") || strings.Count(host, ":") == 1 {
			a.d.at(fmt.Sprintf("workspace_hosts[%d]", i), "%q is not a host name; write it without port and path", host)
		}
	}
	if f.Workspaces == nil && (f.Exec || f.ExecEnv != nil || f.ExecHosts != nil) {
		at := "workspace_exec"
		if !f.Exec {
			at = ""
		}
		a.d.at(at, "workspace_exec, workspace_env and workspace_hosts are about workspaces, and the app has none; add workspaces, or leave this out")
	}
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
