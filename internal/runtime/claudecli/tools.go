package claudecli

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// native is a tool of the CLI.
type native struct {
	name    string // in the log, and in an app's file
	cli     string // for the CLI's option
	api     string // in the model's calls, if it has another name there
	effect  parley.Effect
	path    string // see parley.ToolDecl
	subject string
	edits   bool
	shell   bool
	timeout time.Duration // from its start, for calls with effects
}

// longestShell is longer than the longest time limit of Bash, after which the CLI moves the command
// to the background.
const longestShell = 11 * time.Minute

// natives are the CLI's tools that an app may have, as of version 2.1.329. Whatever else an app
// lists, also under the name of one of the CLI's further tools, is a tool of ours, which the CLI
// gets from an MCP server.
var natives = []native{
	{name: "Read", path: "file_path", effect: parley.EffectRead},
	{name: "Write", path: "file_path", effect: parley.EffectWrite, edits: true, timeout: time.Minute},
	{name: "Edit", path: "file_path", effect: parley.EffectWrite, edits: true, timeout: time.Minute},
	{name: "NotebookEdit", path: "notebook_path", effect: parley.EffectWrite, edits: true, timeout: time.Minute},
	{name: "Bash", shell: true, subject: "{command}", effect: parley.EffectWrite, timeout: longestShell},
	{name: "KillShell", shell: true, cli: "TaskStop", api: "TaskStop", effect: parley.EffectWrite, timeout: time.Minute},
	{name: "Task", api: "Agent", effect: parley.EffectRead},
}

// builtin are tools of the CLI for which apps may have one of the same name and purpose.
var builtin = []string{"Bash", "BashOutput", "Edit", "Glob", "Grep", "KillShell", "NotebookEdit", "Read", "Skill", "TodoWrite", "WebFetch", "WebSearch", "Write"}

// aliases lead from the names of the CLI's tools to the tools of ours that are in their places.
func aliases(ours []parley.ToolDecl) map[string]string {
	m := map[string]string{}
	for _, d := range ours {
		if slices.Contains(builtin, d.Name) {
			m[d.Name] = ourPrefix + d.Name
		}
	}
	return m
}

// asking are tools of ours that the CLI has too. The CLI's model gets the CLI's tool, and the call
// is made by ours.
var asking = []string{askTool, parley.ToolExitPlan}

const askTool = "AskUserQuestion"

func nativeOf(name string) *native {
	if i := slices.IndexFunc(natives, func(n native) bool { return n.name == name }); i >= 0 {
		return &natives[i]
	}
	return nil
}

// nativeIn is the CLI's tool of that name, if the app as [Runtime.Equip] returns it has it.
func nativeIn(app *parley.App, name string) *native {
	n := nativeOf(name)
	if n == nil || !slices.ContainsFunc(app.Tools, func(d parley.ToolDecl) bool { return d.Name == name && d.Run == parley.RunRuntime }) {
		return nil
	}
	return n
}

// ourPrefix begins the names of the tools that the CLI gets from us.
const ourPrefix = "mcp__parley__"

// logged is the name in the log of a tool that the CLI's model calls.
func logged(tool string) string {
	if name, ours := strings.CutPrefix(tool, ourPrefix); ours {
		return name
	}
	for _, n := range natives {
		if n.api == tool || n.cli == tool {
			return n.name
		}
	}
	return tool
}

// LoggedName is the name in the log, and in apps, of a tool that the CLI's model knows under another.
func LoggedName(tool string) string { return logged(tool) }

// anyInput is the schema of tools whose input the CLI checks.
var anyInput = json.RawMessage(`{"type":"object"}`)

func (n native) decl() parley.ToolDecl {
	d := parley.ToolDecl{
		Name: n.name, Description: n.name + " of the Claude CLI.", InputSchema: anyInput, Effect: n.effect, Run: parley.RunRuntime,
		Path: n.path, Subject: n.subject, Edits: n.edits, WorkspaceOwn: n.edits, Timeout: parley.Duration(n.timeout),
	}
	if n.path != "" {
		d.Subject = "{" + n.path + "}"
	}
	return d
}

// Equip implements [seam.Equipped].
//
// Where the model can run commands in Parley's sandbox, files are read and changed by Parley's tools, too.
// The CLI's own look up a path after it was judged, and a command may have put a link there since, so
// that a harmless name is that of a file that commands themselves cannot change, such as CLAUDE.md.
func (rt *Runtime) Equip(app *parley.App) *parley.App {
	out := *app
	out.Tools = slices.Clone(app.Tools)
	commands := slices.ContainsFunc(app.Tools, func(d parley.ToolDecl) bool { return d.Name == "Bash" })
	for i, d := range out.Tools {
		n := nativeOf(d.Name)
		switch {
		case n == nil, n.shell && !rt.opt.Shell, n.path != "" && !rt.opt.Shell && (commands || !rt.opt.Fenced):
		default:
			own := n.decl()
			own.Description, own.Rule = d.Description, d.Rule
			out.Tools[i] = own
		}
	}
	// The CLI brings agents of its own. They have the tools of the entry agent.
	entry := app.Agents[app.Entry]
	if slices.Contains(entry.Tools, "Task") {
		out.Agents = maps.Clone(app.Agents)
		if _, taken := out.Agents[helper]; !taken {
			out.Agents[helper] = parley.AgentDef{Name: helper, Description: "An agent of the Claude CLI.", Tools: entry.Tools, AsTool: true}
		}
	}
	return &out
}

// helper is the name in the log of the CLI's own agents.
const helper = "helper"

// kit is what the CLI of an app has.
type kit struct {
	cli     []string                     // the CLI's tools
	ours    map[string][]parley.ToolDecl // tools of ours, by server
	servers []string
	agents  map[string]agentSpec
}

// kitOf divides the tools of the app's agents into the CLI's and ours.
func kitOf(app *parley.App, entry string, noTools bool) kit {
	k := kit{cli: []string{}, ours: map[string][]parley.ToolDecl{}, agents: map[string]agentSpec{}}
	if noTools {
		return k
	}
	used := map[string]bool{}
	for name, def := range app.Agents {
		if name == entry || def.AsTool && name != helper {
			for _, t := range def.Tools {
				used[t] = true
			}
		}
		if name != entry && def.AsTool && name != helper && slices.Contains(app.Agents[entry].Tools, "Task") {
			k.agents[name] = agentSpec{Description: def.Description, Prompt: def.Prompt, Tools: cliNames(app, def.Tools)}
		}
	}
	for _, d := range app.Tools {
		switch n := nativeIn(app, d.Name); {
		case !used[d.Name]:
		case d.Name == "BashOutput" && nativeIn(app, "Bash") != nil: // the CLI's model reads a file for that
		case n != nil && n.cli != "":
			k.cli = append(k.cli, n.cli)
		case n != nil, slices.Contains(asking, d.Name):
			k.cli = append(k.cli, d.Name)
		case d.Run == parley.RunRuntime || d.Run == parley.RunClient && !strings.HasPrefix(d.Name, parley.CallerPrefix):
			// AgentOutputTool and tools that are named like agents: the CLI has other ways.
			if d.Run == parley.RunClient {
				k.offer(d)
			}
		default:
			k.offer(d)
		}
	}
	slices.Sort(k.cli)
	k.servers = slices.Sorted(maps.Keys(k.ours))
	return k
}

// offer adds a tool of ours. One that comes from an MCP server keeps its name.
func (k *kit) offer(d parley.ToolDecl) {
	server := "parley"
	if name, _, ok := splitMCP(d.Name); ok {
		server = name
	}
	k.ours[server] = append(k.ours[server], d)
}

// splitMCP splits the name of a tool of an MCP server.
func splitMCP(name string) (server, tool string, ok bool) {
	rest, ok := strings.CutPrefix(name, "mcp__")
	if !ok {
		return "", "", false
	}
	server, tool, ok = strings.Cut(rest, "__")
	return server, tool, ok && server != "" && tool != ""
}

// cliName is the name under which the CLI has a tool of the log.
func cliName(app *parley.App, name string) string {
	if n := nativeIn(app, name); n != nil {
		if n.cli != "" {
			return n.cli
		}
		return n.name
	}
	if _, _, ok := splitMCP(name); ok || slices.Contains(asking, name) {
		return name
	}
	return ourPrefix + name
}

func cliNames(app *parley.App, names []string) (list []string) {
	for _, n := range names {
		list = append(list, cliName(app, n))
	}
	return list
}

func join(names []string) string { return strings.Join(names, ",") }
