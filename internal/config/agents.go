package config

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/nearest"
	"github.com/parley-server/parley/internal/pattern"
	"github.com/parley-server/parley/internal/task"
)

type agentFile struct {
	Description string             `yaml:"description"`  // what another agent's model reads before it hands off
	Prompt      string             `yaml:"prompt"`       // file, from the app's folder
	Model       string             `yaml:"model"`        // default: the app's
	Tools       []string           `yaml:"tools"`        // names, or beginnings of names with * behind; default: none
	Handoffs    []string           `yaml:"handoffs"`     // agents it may hand to; default: none
	History     parley.HistoryMode `yaml:"history"`      // all or none; default all
	MaxOutput   int64              `yaml:"max_output"`   // tokens of one reply; default: the model's
	Temperature *float64           `yaml:"temperature"`  // default: the model's
	Effort      string             `yaml:"effort"`       // how much to think, where the model can: low, medium, high; default: the model's own, with the thoughts not shown
	ServerTools []string           `yaml:"server_tools"` // tools that the provider runs: web_search, web_fetch; default: none
	Fallbacks   []string           `yaml:"fallbacks"`    // default: the app's
	AsTool      bool               `yaml:"as_tool"`      // agents that list it, or Task, under tools can give it tasks; default false
}

func (a *App) agents(f appFile) {
	a.Agents = map[string]parley.AgentDef{}
	names := slices.Sorted(maps.Keys(f.Agents))
	if len(names) == 0 {
		a.d.lacks("", "agents", "agents: an app needs at least one agent")
	}
	for _, name := range names {
		g, at := f.Agents[name], "agents."+name
		if !agentName.MatchString(name) {
			a.d.at(at, "cannot be an agent's name; use letters, digits, _ and -")
		}
		def := parley.AgentDef{
			Name: name, Description: strings.TrimSpace(g.Description), Model: g.Model, Tools: g.Tools, Handoffs: g.Handoffs,
			History: parley.HistoryMode(orString(string(g.History), string(parley.HistoryAll))), MaxOutput: g.MaxOutput, Temperature: g.Temperature,
			Effort: g.Effort, ServerTools: g.ServerTools, Fallbacks: g.Fallbacks, AsTool: g.AsTool,
		}
		if g.Prompt == "" {
			a.d.lacks(at, "prompt", "has no prompt; name a file with its instructions")
		} else {
			raw, err := readFile(a.Files, g.Prompt, maxPrompt)
			switch {
			case err != nil:
				a.d.at(at+".prompt", "%s", err)
			case !utf8.Valid(raw):
				a.d.at(at+".prompt", "%s is not UTF-8 text", g.Prompt)
			default:
				def.Prompt = strings.TrimSpace(strings.ReplaceAll(string(raw), "\r\n", "\n"))
				if def.Prompt == "" {
					a.d.at(at+".prompt", "%s is empty", g.Prompt)
				}
			}
		}
		a.choice(at+".history", string(def.History), string(parley.HistoryAll), string(parley.HistoryNone))
		if g.MaxOutput < 0 {
			a.d.at(at+".max_output", "cannot be negative")
		}
		if t := g.Temperature; t != nil && (*t < 0 || *t > 2) {
			a.d.at(at+".temperature", "has to be between 0 and 2")
		}
		a.unique(at+".tools", g.Tools)
		a.unique(at+".handoffs", g.Handoffs)
		if !slices.Contains([]string{"", "low", "medium", "high"}, g.Effort) {
			a.d.at(at+".effort", "%q is not one of low, medium, high", g.Effort)
		}
		for i, tool := range g.ServerTools {
			if tool != "web_search" && tool != "web_fetch" {
				a.d.at(fmt.Sprintf("%s.server_tools[%d]", at, i), "%q is not one of web_search, web_fetch", tool)
			}
		}
		for i, to := range g.Handoffs {
			if _, ok := f.Agents[to]; !ok {
				a.d.at(fmt.Sprintf("%s.handoffs[%d]", at, i), "there is no agent %q%s", to, nearest.Hint(to, names))
			} else if to == name {
				a.d.at(fmt.Sprintf("%s.handoffs[%d]", at, i), "an agent cannot hand over to itself")
			}
		}
		a.Agents[name] = def
	}
	switch {
	case f.Entry == "" && len(names) == 1:
		a.Entry = names[0]
	case f.Entry == "":
		a.d.lacks("", "entry", "entry: name the agent that gets the user's message")
	default:
		if _, ok := f.Agents[f.Entry]; !ok && len(names) > 0 {
			a.d.at("entry", "there is no agent %q%s", f.Entry, nearest.Hint(f.Entry, names))
		}
		a.Entry = f.Entry
	}
}

// tasks checks the tools with which agents give tasks to others, and returns them. names
// are those of the toolsets' tools.
func (a *App) tasks(d *decoder, names []string) []parley.ToolDecl {
	own := task.Decls(a.App)
	able, called := 0, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(a.Agents)) {
		def := a.Agents[name]
		if def.AsTool {
			able++
		}
		for i, t := range def.Tools {
			called[t] = true
			at := fmt.Sprintf("agents.%s.tools[%d]", name, i)
			other, isAgent := a.Agents[t]
			switch {
			case task.Is(t) && slices.Contains(names, t):
				d.at(at, "a toolset has a tool %q, too; the name is taken", t)
			case t == task.OutputTool && !slices.Contains(def.Tools, task.Tool):
				d.at(at, "%s is for the tasks of %s, which the agent does not have", t, task.Tool)
			case isAgent && !other.AsTool && !slices.Contains(names, t):
				d.at(at, "%q is an agent, which has no as_tool: true", t)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Agents)) {
		def, at := a.Agents[name], "agents."+name+".as_tool"
		switch {
		case !def.AsTool:
		case name == parley.MemoryAgent || task.Is(name):
			d.at(at, "%q cannot be a tool; the name is taken", name)
		case slices.Contains(names, name):
			d.at(at, "a toolset has a tool %q, too; give the agent another name", name)
		case !called[name] && !called[task.Tool]:
			d.at(at, "no agent lists %q or %s under tools, so nobody can give it tasks", name, task.Tool)
		}
	}
	if called[task.Tool] && able == 0 {
		for _, name := range slices.Sorted(maps.Keys(a.Agents)) {
			if i := slices.Index(a.Agents[name].Tools, task.Tool); i >= 0 {
				d.at(fmt.Sprintf("agents.%s.tools[%d]", name, i), "%s needs an agent with as_tool: true", task.Tool)
			}
		}
	}
	return own
}

var agentName = pattern.New(`^[A-Za-z][A-Za-z0-9_-]{0,39}$`)

// models picks the app's model and checks that its script is there.
func (a *App) models(s Settings, f appFile) {
	if f.Script != "" {
		if info, err := fs.Stat(a.Files, f.Script); err != nil {
			a.d.at("script", "%s", plainError(f.Script, err))
		} else if info.IsDir() {
			a.d.at("script", "%s is a folder", f.Script)
		}
		a.Script = f.Script
	}
	if a.Model == "" && f.ModelEnv != "" {
		a.Model = s.modelOf(f.ModelEnv)
	}
	if a.Model == "" {
		name := s.Models.Default
		if f.Hosted {
			name = cmp.Or(s.Models.Hosted, name)
		}
		a.Model = strings.ReplaceAll(name, "{app}", a.Name)
	}
	if a.Model == "" && f.Script != "" {
		a.Model = "scripted/" + a.Name
	}
	other, fixed := orString(s.App[a.Name].Model, s.Model), a.Policy.FixedModel
	if s.Scripts && f.Script != "" {
		other, fixed, a.Fallbacks = "scripted/"+a.Name, false, nil
	}
	if other != "" && !fixed {
		a.Model = other // instead of the models that the app and its agents name
		for name, def := range a.Agents {
			def.Model = ""
			if s.Scripts {
				def.Fallbacks = nil // the fallbacks may belong to a provider
			}
			a.Agents[name] = def
		}
	}
	if a.Model == "" {
		for _, name := range slices.Sorted(maps.Keys(a.Agents)) {
			if a.Agents[name].Model == "" {
				a.d.lacks("agents."+name, "model", "has no model, and the app names none; write model: PROVIDER/MODEL here or at the top of the file, or give --model")
			}
		}
	}
}
