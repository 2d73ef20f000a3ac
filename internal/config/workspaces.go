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
	Granted GrantedFile           `yaml:"granted"`  // folders that some users work in; default: none. Then root has no default
}

// GrantedFile says which folders are workspaces of which users.
type GrantedFile struct {
	Dir         string                `yaml:"dir,ref"`     // its folders are workspaces, shared/NAME each
	To          map[string][]UserFile `yaml:"to"`          // users, by the name of the folder; default: none but the loopback user, who may use all
	Except      []string              `yaml:"except"`      // folders that are no workspaces; default: none
	Git         GitFile               `yaml:"git"`         // how changes are committed, where dir is a git repository and the app commits
	Placeholder string                `yaml:"placeholder"` // {placeholder} in prompts stands for the path of the session's workspace; default: nothing does
}

// GitFile says how changes of granted workspaces are committed.
type GitFile struct {
	Off    bool   `yaml:"off"`       // nothing is committed; default false
	Author string `yaml:"author"`    // "Name <email>"; {person} stands for the workspace's name. Default: user.name and user.email of the repository, else Parley
	Remote string `yaml:"remote"`    // the remote's name, or none: nothing is pulled or pushed. Default: that of the branch, else origin
	Token  string `yaml:"token,ref"` // for a remote at an https URL: a token, or user:token
}

// UserFile names a user. The short form is the user's name, without an organisation.
type UserFile struct {
	User string `yaml:"user"`
	Org  string `yaml:"org"`
}

func (UserFile) short() string { return "user" }

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
	if o.Granted = a.granted(s.App[a.Name].Granted, f.Granted); o.Granted.Dir != "" && f.Root == "" {
		o.Root = ""
	}
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

// granted reads workspaces.granted. What the server's settings say of it comes first.
func (a *App) granted(set, f GrantedFile) workspace.Granted {
	g := workspace.Granted{Except: f.Except, Placeholder: f.Placeholder}
	a.Git = GitFile{
		Off: set.Git.Off || f.Git.Off, Author: orString(set.Git.Author, f.Git.Author), Remote: orString(set.Git.Remote, f.Git.Remote), Token: orString(set.Git.Token, f.Git.Token),
	}
	switch {
	case set.Dir != "":
		full := home(set.Dir, a.d.env)
		if !filepath.IsAbs(full) {
			a.d.at("workspaces.granted", "%q, in the server's settings, has to be an absolute path", set.Dir)
		}
		g.Dir = full
	case f.Dir != "":
		g.Dir = a.onDisk(f.Dir, "workspaces.granted.dir")
	case len(f.To) > 0 || len(f.Except) > 0 || f.Placeholder != "":
		a.d.lacks("workspaces.granted", "dir", "has no dir; name the folder of the workspaces")
	}
	if set.Except != nil {
		g.Except = set.Except
	}
	to, at := f.To, "workspaces.granted.to."
	if set.To != nil {
		to = set.To
	}
	for _, name := range slices.Sorted(maps.Keys(to)) {
		if err := workspace.CheckName(name); err != nil {
			a.d.at(at+name, "%s", err)
		}
		if g.To == nil {
			g.To = map[string][]parley.Principal{}
		}
		for _, u := range to[name] {
			if u.User == "" {
				a.d.at(at+name, "names a user without a name")
			}
			g.To[name] = append(g.To[name], parley.Principal{User: u.User, Org: u.Org})
		}
	}
	return g
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
