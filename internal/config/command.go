package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/pattern"
)

// commandFile is a program of the app's own.
type commandFile struct {
	Run     some[string]               `yaml:"run"`     // the program and its arguments; a program with a slash is in the app's folder
	Env     map[string]string          `yaml:"env,ref"` // its environment besides what [proc.Env] adds
	Memory  Size                       `yaml:"memory"`  // that each of its processes may allocate; default 1GiB
	AtOnce  int                        `yaml:"at_once"` // calls that run at once; default 4
	Timeout parley.Duration            `yaml:"timeout"` // of a call whose tool has no timeout; default 60s
	Tools   map[string]serviceToolFile `yaml:"tools"`   // by name
}

// Command is a program of the app's own.
type Command struct {
	Run    []string
	Dir    string // of the app
	Env    map[string]string
	Refs   []string // what Env has from files and variables: secrets, addresses, paths
	Memory int64    // bytes; 0: the default
	AtOnce int      // 0: the default
	Tools  []ServiceTool
}

const maxAtOnce = 100

// variable matches the names that every shell hands on. Some drop all others.
var variable = pattern.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// commands reads tools.command.
func (a *App) commands(files some[commandFile]) {
	for i, f := range files {
		at := files.at(a.d, "tools.command", i)
		c := &Command{Run: f.Run, Dir: a.Dir, Env: f.Env, Memory: int64(f.Memory), AtOnce: f.AtOnce}
		if len(f.Run) == 0 || f.Run[0] == "" {
			a.d.lacks(at, "run", "names no program; write it with its arguments as a list: [python3, tool.py]")
		}
		if a.Dir == "" {
			a.d.at(at, "an app inside the program has no folder to run commands in")
		}
		for _, name := range slices.Sorted(maps.Keys(f.Env)) {
			key := at + ".env." + name
			a.variable(key, name, f.Env[name])
			c.Refs = append(c.Refs, a.d.refs[key]...)
		}
		if f.AtOnce < 0 || f.AtOnce > maxAtOnce {
			a.d.at(at+".at_once", "has to be from 1 to %d", maxAtOnce)
		}
		a.timeout(at+".timeout", f.Timeout)
		c.Tools = a.serviceTools(at, f.Tools, f.Timeout)
		a.Toolsets = append(a.Toolsets, Toolset{Kind: "command", At: at, Command: c})
	}
}

// variable checks a variable of a program's environment.
func (a *App) variable(at, name, value string) {
	switch {
	case !variable.MatchString(name):
		a.d.at(at, "is not a valid variable name; use letters, digits and _, and do not begin with a digit")
	case strings.ContainsRune(value, 0):
		a.d.at(at, "has a zero byte, which no variable of the environment can have")
	}
}
