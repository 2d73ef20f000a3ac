package config

import (
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/parley-server/parley"
)

// bashFile is how an app runs commands in a session's workspace.
type bashFile struct {
	Network    []int             `yaml:"network"`    // TCP ports to which commands may connect, on any machine; 53 is added for names; default: none
	Read       []string          `yaml:"read"`       // files and folders that commands may read and run, besides the system's programs; default: none
	Env        map[string]string `yaml:"env,ref"`    // variables that commands get, but not those that only look; default: none
	Memory     Size              `yaml:"memory"`     // of a command and what it starts; default 2GiB
	Processes  int               `yaml:"processes"`  // processes and threads of a command; default 256
	Disk       Size              `yaml:"disk"`       // what a workspace and a session's /tmp may hold; default 8GiB
	AtOnce     int               `yaml:"at_once"`    // commands that run at once, not counting those in the background; default 4
	Background parley.Duration   `yaml:"background"` // how long a command may run; default 1h
}

// Bash is how an app runs commands. Zero values are the defaults.
type Bash struct {
	Unconfined bool // as the server's settings say
	Network    []int
	Read       []string
	Env        map[string]string
	Refs       []string // what Env has from files and variables
	Memory     int64
	Processes  int
	Disk       int64
	AtOnce     int
	Background parley.Duration
}

// bash reads tools.bash.
func (a *App) bash(s Settings, f *bashFile) {
	if f == nil {
		return
	}
	const at = "tools.bash"
	b := &Bash{
		Unconfined: s.Bash.Unconfined, Env: f.Env, Memory: int64(f.Memory), Processes: f.Processes, Disk: int64(f.Disk), AtOnce: f.AtOnce, Background: f.Background,
	}
	for i, port := range f.Network {
		if port < 1 || port > 65535 {
			a.d.at(at+".network", "%d is not a port; number %d has to be from 1 to 65535", port, i+1)
		}
	}
	if _, own, err := net.SplitHostPort(s.Addr); err == nil && slices.ContainsFunc(f.Network, func(p int) bool { return strconv.Itoa(p) == own }) {
		a.d.at(at+".network", "port %s is this server's own; commands must not reach it, since it may take them for its user", own)
	}
	if f.Network != nil {
		b.Network = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(f.Network), 53))))
	}
	for _, path := range f.Read {
		full := home(path, a.d.env)
		if !filepath.IsAbs(full) || filepath.Clean(full) == "/" {
			a.d.at(at+".read", "%q is not the absolute path of a file or folder", path)
			continue
		}
		if s.Data != "" && overlaps(full, s.Data) {
			a.d.at(at+".read", "%q has the server's data folder in it, or is in it; commands must not read that", path)
		}
		b.Read = append(b.Read, filepath.Clean(full))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Env)) {
		key := at + ".env." + name
		a.variable(key, name, f.Env[name])
		b.Refs = append(b.Refs, a.d.refs[key]...)
	}
	if f.Memory != 0 && f.Memory < 256<<20 {
		a.d.at(at+".memory", "has to be at least 256MiB")
	}
	if f.Disk < 0 {
		a.d.at(at+".disk", "cannot be negative")
	}
	if f.Processes != 0 && (f.Processes < 8 || f.Processes > 4096) {
		a.d.at(at+".processes", "has to be from 8 to 4096")
	}
	if f.AtOnce < 0 || f.AtOnce > maxAtOnce {
		a.d.at(at+".at_once", "has to be from 1 to %d", maxAtOnce)
	}
	if f.Background < 0 {
		a.d.at(at+".background", "cannot be negative")
	}
	a.Toolsets = append(a.Toolsets, Toolset{Kind: "bash", At: at, Bash: b})
}

// overlaps reports whether one of two paths is in the other. Links are followed where they exist.
func overlaps(a, b string) bool {
	real := func(p string) string {
		if r, err := filepath.EvalSymlinks(p); err == nil {
			return r
		}
		full, _ := filepath.Abs(p)
		return full
	}
	a, b = real(a), real(b)
	in := func(p, dir string) bool {
		rel, err := filepath.Rel(dir, p)
		return err == nil && filepath.IsLocal(rel)
	}
	return in(a, b) || in(b, a)
}

// Leave says that tools are not here, and why. Agents that list them do without.
func (a *App) Leave(why string, tools ...string) {
	if a.absent == nil {
		a.absent = map[string]string{}
	}
	for _, t := range tools {
		a.absent[t] = why
	}
}
