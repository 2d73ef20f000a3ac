package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/extension"
	"github.com/parley-server/parley/internal/nearest"
	"github.com/parley-server/parley/internal/task"
)

// Named is a tool or an agent that a rule of an app's policy or script names.
type Named struct {
	At          string // where it stands in its file, such as "policy.rules[1].tool"
	File        string // "": the app's file
	Line        int    // of File
	By          string // the agent whose rule it is; "": the rule is for all of them
	Tool, Agent string // one of the two
}

// Strange returns the tools and agents that the policy's rules and more name, and that the app
// does not have. What may exist while the app runs is in unsure. decls are the tools of all
// toolsets; names of tools that are not known yet begin with one of the prefixes in unknown.
// resolved is what [App.Resolve] returned, or the zero value if it failed.
func (a *App) Strange(resolved parley.App, decls []parley.ToolDecl, unknown []string, more ...Named) (wrong, unsure []Mistake) {
	var tools []string
	for _, d := range slices.Concat(decls, task.Decls(a.App)) {
		tools = append(tools, d.Name)
	}
	if a.Extended() {
		tools = append(tools, extension.Tool, extension.CommandTool)
	}
	if len(a.Extensions) > 0 {
		unknown = append(slices.Clip(unknown), "mcp__") // of the files of users and workspaces
	}
	acts := func(d parley.ToolDecl) bool { return d.Actuation }
	if at := "policy.allowlisted_services"; a.d.lines[at] > 0 && len(a.Policy.AllowlistedServices) > 0 && len(unknown) == 0 && !slices.ContainsFunc(decls, acts) {
		unsure = append(unsure, a.Mistake(at, "has no effect: no tool of this app acts on such services"))
	}
	tools = slices.AppendSeq(tools, maps.Keys(a.absent))
	agents := slices.Sorted(maps.Keys(a.Agents))
	for _, n := range slices.Concat(a.ruled(), more) {
		say := func(list *[]Mistake, format string, args ...any) {
			m := Mistake{File: n.File, Line: n.Line, Text: n.At + ": " + fmt.Sprintf(format, args...)}
			if n.File == "" {
				m = a.Mistake(n.At, format, args...)
			}
			*list = append(*list, m)
		}
		by, some := resolved.Agents[n.By]
		switch {
		case n.Agent != "":
			switch {
			case n.Agent != parley.MemoryAgent && !slices.Contains(agents, n.Agent):
				say(&wrong, "there is no agent %q%s", n.Agent, nearest.Hint(n.Agent, agents))
			case some && !slices.Contains(by.Handoffs, n.Agent):
				say(&wrong, "%s cannot hand over to %s; list it in agents.%s.handoffs", n.By, n.Agent, n.By)
			}
		case slices.Contains(tools, n.Tool):
			if some && !slices.Contains(by.Tools, n.Tool) {
				say(&wrong, "%s does not have the tool %s; list it in agents.%s.tools", n.By, n.Tool, n.By)
			}
		case mayBe(n.Tool, unknown):
			say(&unsure, "whether there is a tool %q is known only while the app runs", n.Tool)
		case a.CallerTools != nil:
			say(&unsure, "there is no tool %q, unless a caller brings it%s", n.Tool, nearest.Hint(n.Tool, tools))
		case strings.Contains(n.Tool, "*"):
			say(&wrong, "there is no tool %q; a * stands for any letters only at the end of a name", n.Tool)
		default:
			say(&wrong, "there is no tool %q%s", n.Tool, nearest.Hint(n.Tool, tools))
		}
	}
	return wrong, unsure
}

// ruled returns the tools that the rules of the policy name, without those that end with *,
// which may stand for no tool at all.
func (a *App) ruled() (list []Named) {
	for i, r := range a.Policy.Rules {
		name, _, _ := strings.Cut(r.Tool, "(") // what follows narrows the rule to some calls
		if name != "" && !strings.HasSuffix(name, "*") {
			list = append(list, Named{At: fmt.Sprintf("policy.rules[%d].tool", i), Tool: name})
		}
	}
	return list
}
