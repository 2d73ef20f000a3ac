package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/extension"
	"github.com/parley-server/parley/internal/nearest"
	"github.com/parley-server/parley/internal/pattern"
	"github.com/parley-server/parley/internal/workspace"
)

// AppFile is the name of the file that makes a folder an app.
const AppFile = "app.yaml"

const (
	maxAppFile = 1 << 20
	maxPrompt  = 256 << 10 // far more than a model reads with profit
)

// appFile is app.yaml.
type appFile struct {
	Name         string                  `yaml:"name"`            // default and only choice: the folder's name
	Title        string                  `yaml:"title"`           // for people; default: the name
	Description  string                  `yaml:"description"`     // for people, in a sentence or two
	Runtime      string                  `yaml:"runtime"`         // what carries out a turn; default loop
	Runtimes     []string                `yaml:"runtimes"`        // runtimes that sessions may choose instead; default: none
	Entry        string                  `yaml:"entry"`           // the agent that gets the user's message; default: the only agent
	ModelEnv     string                  `yaml:"model_env"`       // variable of the server that names a model of anthropic, or of PROVIDER/, for when Model is empty and that provider is set up; default: none
	Model        string                  `yaml:"model"`           // for agents that name none; default: that of the first provider that is set up, or scripted/<name> when there is a script
	Fallbacks    []string                `yaml:"fallbacks"`       // models to call, in this order, when Model does not answer; default: none
	Hosted       bool                    `yaml:"hosted"`          // with no model named, let the first provider keep the agents if it can; default false
	Script       string                  `yaml:"script"`          // rules of the model scripted/<name>; default: none
	Data         string                  `yaml:"data,ref"`        // folder of the app's data, from the app's folder; default: data
	Agents       map[string]agentFile    `yaml:"agents"`          // by name
	Tools        toolsFile               `yaml:"tools"`           // toolsets, by kind
	Policy       parley.Policy           `yaml:"policy"`          // default: reads allowed, the rest asked
	Mode         parley.PermissionMode   `yaml:"mode"`            // the permission mode of sessions that name none; default: default
	Budgets      parley.Budgets          `yaml:"budgets"`         // default: none
	Memory       parley.MemoryOptions    `yaml:"memory"`          // default: as much as fits the model
	Busy         parley.BusyMode         `yaml:"busy"`            // reject, enqueue, interrupt, steer; default reject
	MaxOpenTurns int                     `yaml:"max_open_turns"`  // running and queued; default 1, with enqueue 8
	Resume       parley.ResumeMode       `yaml:"resume"`          // auto or manual, after a crash; default manual
	TTL          ttlFile                 `yaml:"ttl"`             // how long sessions and steps are kept; default: until deleted
	LiveFiles    bool                    `yaml:"live_files"`      // keep its sessions as files too, in the data folder
	Streaming    streamingFile           `yaml:"streaming"`       // how often streamed text and live files are updated
	Concurrency  concurrencyFile         `yaml:"concurrency"`     // another way to write max_open_turns
	Wires        []string                `yaml:"wires"`           // seed wires that show this app; default: none
	Workspaces   *workspacesFile         `yaml:"workspaces"`      // where its sessions find files; default: they have none
	Extensions   []string                `yaml:"extensions"`      // whose folders may add skills, instructions and slash commands: platform, user, workspace; default: all if it has workspaces, else none
	Exec         bool                    `yaml:"workspace_exec"`  // programs and URLs that are named in files of users and workspaces may be used, each after a person has approved it; default false
	ExecEnv      []string                `yaml:"workspace_env"`   // environment variables of the server that ${NAME} in these files may stand for; default none
	ExecHosts    []string                `yaml:"workspace_hosts"` // hosts that URLs in these files may name; default none
	Schedules    map[string]scheduleFile `yaml:"schedules"`       // turns that begin at times, by name; default: none
	Examples     []string                `yaml:"examples"`        // questions that a page may offer
	FollowUps    []string                `yaml:"follow_ups"`      // questions that it may offer below an answer
	CallerTools  *callerToolsFile        `yaml:"caller_tools"`    // lets callers offer tools with a message; default: they may not
	Logo         string                  `yaml:"logo"`            // picture in the app's folder, at most 64 KiB; default: none
	Accent       string                  `yaml:"accent"`          // colour of its page, such as "#1f6feb"; default: Parley's
	Page         string                  `yaml:"page"`            // folder, in the app's folder, with the app's own page, which gets its own origin; default: none
}

// ttlFile is parley.TTL, with two alternative names for its fields.
type ttlFile struct {
	SessionIdle parley.Duration `yaml:"session_idle"` // such as 168h
	TurnSteps   parley.Duration `yaml:"turn_steps"`
	Ended       parley.Duration `yaml:"ended"`
	NoArchive   bool            `yaml:"no_archive"`

	SessionIdleDays            float64 `yaml:"session_idle_days"`            // session_idle in days
	ContinuationRetentionHours float64 `yaml:"continuation_retention_hours"` // turn_steps in hours
}

type streamingFile struct {
	PartialUpdateIntervalMS int64 `yaml:"partial_update_interval_ms"` // of the wire /events; default 500
	FlushCadenceMS          int64 `yaml:"flush_cadence_ms"`           // of live files; default 2000
}

type concurrencyFile struct {
	MaxOpenContinuationsPerSession int `yaml:"max_open_continuations_per_session"` // max_open_turns
}

// toolsFile holds the app's toolsets: the kinds that come with Parley, the app's own services,
// and the tools that clients run.
type toolsFile struct {
	HTTP    some[serviceFile]         `yaml:"http"`    // services that calls are posted to
	OpenAPI some[apiFile]             `yaml:"openapi"` // APIs with an OpenAPI description
	Command some[commandFile]         `yaml:"command"` // programs that calls run
	MCP     some[mcpFile]             `yaml:"mcp"`     // MCP servers
	Web     *webFile                  `yaml:"web"`     // the web: WebFetch and WebSearch
	REST    *restFile                 `yaml:"rest"`    // a REST API that skills describe: api_request
	Bash    *bashFile                 `yaml:"bash"`    // commands in the session's workspace: Bash, BashOutput, KillShell
	Client  map[string]clientToolFile `yaml:"client"`  // tools that clients of a session run
	Others  map[string]toolFile       `yaml:",rest"`
}

type toolFile struct {
	Data  string `yaml:"data,ref"`  // default: the app's
	URL   string `yaml:"url,ref"`   // of the service, if the toolset has one; default: from the service's own variables
	Token string `yaml:"token,ref"` // the credential for that service
}

// App is an app as read from its folder. Only its tools are missing: make the toolsets,
// then call [App.Resolve].
type App struct {
	parley.App

	Files  fs.FS    // its folder
	Where  string   // its folder, in messages
	Dir    string   // its folder on disk, absolute; "" for an app inside the program
	Script string   // path in Files of the scripted model's rules; "" is none
	Reads  []string // see [Read.Files]

	LiveFiles    bool            // its sessions are also kept as files
	PartialEvery parley.Duration // how long the wire /events collects text; 0: the wire's default
	FlushEvery   parley.Duration // how often live files are updated; 0: their default

	Workspaces *workspace.Options // nil: it has none
	Extensions []string           // levels whose folders add to it: platform, user, workspace
	Exec       Exec
	Page       Page
	Schedules  map[string]parley.ScheduleSpec // by name

	Git      GitFile   // of the granted workspaces
	Toolsets []Toolset // to make, in the order of their kinds
	Data     Folder

	d      *decoder
	absent map[string]string // see [App.Leave]
}

// Toolset is a toolset to make.
type Toolset struct {
	Kind    string            // such as "notion"
	At      string            // its path in the app's file; for the kinds "http", "openapi", "command", "mcp", "rest" and "client"
	HTTP    *Service          // of kind "http", and of no other
	API     *API              // of kind "openapi", and of no other
	Command *Command          // of kind "command", and of no other
	MCP     *MCPServer        // of kind "mcp", and of no other
	Web     *Web              // of kind "web", and of no other
	REST    *REST             // of kind "rest", and of no other
	Bash    *Bash             // of kind "bash", and of no other
	Client  []parley.ToolDecl // of kind "client", and of no other
	Data    Folder
	URL     string // of its service; "": the toolset's own default
	Token   string // the credential for that service
}

// Known lists the names that an app's folder may refer to. A nil list allows any name.
type Known struct {
	Toolsets []string
	Wires    []string
	Runtimes []string
}

var appName = pattern.New(`^[a-z][a-z0-9-]{0,39}$`)

func (s Settings) loadApp(name string, dir Folder, known Known) (*App, error) {
	a := &App{Files: dir.FS, Where: dir.Name}
	if s.Apps != "" && dir.Name == filepath.Join(s.Apps, name) {
		var err error
		if a.Dir, err = filepath.Abs(dir.Name); err != nil {
			return nil, parley.Errorf(parley.CodeInternal, "%s: %w", dir.Name, err)
		}
	}
	a.d = &decoder{file: path.Join(filepath.ToSlash(dir.Name), AppFile), dir: a.Dir, env: s.env}
	raw, err := readFile(dir.FS, AppFile, maxAppFile)
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "%w", Mistakes{{File: a.d.file, Text: err.Error()}})
	}
	var f appFile
	if !a.d.parse(raw, &f) {
		return nil, a.d.err()
	}
	if !appName.MatchString(name) {
		a.d.at("", "%q cannot be an app's name; use lower-case letters, digits and -", name)
	}
	if f.Name != "" && f.Name != name {
		a.d.at("name", "is %q, and the folder is named %q; an app has the name of its folder", f.Name, name)
	}
	a.App = parley.App{
		Name: name, Title: orString(f.Title, name), Description: f.Description, Runtime: orString(f.Runtime, "loop"), Runtimes: f.Runtimes,
		Model: f.Model, Fallbacks: f.Fallbacks, Budgets: f.Budgets, Policy: f.Policy, Mode: f.Mode, Memory: f.Memory,
		Busy: parley.BusyMode(orString(string(f.Busy), string(parley.BusyReject))), MaxOpenTurns: f.MaxOpenTurns,
		Resume: parley.ResumeMode(orString(string(f.Resume), string(parley.ResumeManual))),
		TTL:    parley.TTL{SessionIdle: f.TTL.SessionIdle, TurnSteps: f.TTL.TurnSteps, Ended: f.TTL.Ended, NoArchive: f.TTL.NoArchive},
		Wires:  f.Wires, Examples: f.Examples, FollowUps: f.FollowUps,
	}
	a.elsewhere(f)
	a.LiveFiles = f.LiveFiles
	if own := s.App[name]; own.LiveFiles != nil {
		a.LiveFiles = *own.LiveFiles
	}
	if own := s.App[name]; own.Runtime != "" {
		a.Runtime = own.Runtime
	}
	if own := s.App[name]; own.AllowActuation != nil {
		a.Policy.AllowActuation = own.AllowActuation
	}
	if own := s.App[name]; own.AllowlistedServices != nil {
		a.Policy.AllowlistedServices = own.AllowlistedServices
	}
	if own := s.App[name]; own.Modes != nil {
		a.Policy.Modes = own.Modes
	}
	a.agents(f)
	a.check(f, known)
	a.models(s, f)
	a.folders(s, f)
	a.workspaces(s, f.Workspaces)
	a.extensions(f)
	a.exec(f)
	a.hooks()
	a.page(f)
	a.schedules(s, f)
	return a, a.d.err()
}

// elsewhere applies the settings written under alternative names.
func (a *App) elsewhere(f appFile) {
	span := func(at, own string, have *parley.Duration, n float64, unit time.Duration) {
		switch {
		case n == 0:
		case n < 0 || n > 36_500*24:
			a.d.at(at, "has to be more than 0, and less than a hundred years")
		case *have != 0:
			a.d.at(at, "sets the same as %s; leave one of them out", own)
		default:
			*have = parley.Duration(n * float64(unit))
		}
	}
	span("ttl.session_idle_days", "ttl.session_idle", &a.TTL.SessionIdle, f.TTL.SessionIdleDays, 24*time.Hour)
	span("ttl.continuation_retention_hours", "ttl.turn_steps", &a.TTL.TurnSteps, f.TTL.ContinuationRetentionHours, time.Hour)
	for at, v := range map[string]struct {
		ms   int64
		into *parley.Duration
	}{
		"streaming.partial_update_interval_ms": {f.Streaming.PartialUpdateIntervalMS, &a.PartialEvery},
		"streaming.flush_cadence_ms":           {f.Streaming.FlushCadenceMS, &a.FlushEvery},
	} {
		if v.ms < 0 || v.ms > time.Hour.Milliseconds() {
			a.d.at(at, "has to be more than 0, and at most an hour")
			continue
		}
		*v.into = parley.Duration(time.Duration(v.ms) * time.Millisecond)
	}
	switch n := f.Concurrency.MaxOpenContinuationsPerSession; {
	case n == 0:
	case a.MaxOpenTurns != 0:
		a.d.at("concurrency.max_open_continuations_per_session", "sets the same as max_open_turns; leave one of them out")
	default:
		a.MaxOpenTurns = n
	}
}

func orString(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (a *App) check(f appFile, known Known) {
	a.known("runtime", a.Runtime, known.Runtimes, "runtime")
	a.unique("runtimes", f.Runtimes)
	for i, name := range f.Runtimes {
		a.known(fmt.Sprintf("runtimes[%d]", i), name, known.Runtimes, "runtime")
	}
	a.choice("busy", string(a.Busy), string(parley.BusyReject), string(parley.BusyEnqueue), string(parley.BusyInterrupt), string(parley.BusySteer))
	if a.Mode != "" {
		a.choice("mode", string(a.Mode), permissionModes...)
	}
	if !a.Policy.Offers(a.Mode) && slices.Contains(permissionModes, string(a.Mode)) {
		a.d.at("mode", "is %s, which policy.modes does not offer", a.Mode)
	}
	a.choice("resume", string(a.Resume), string(parley.ResumeAuto), string(parley.ResumeManual))
	switch {
	case a.MaxOpenTurns < 0:
		at := "max_open_turns"
		if f.MaxOpenTurns == 0 {
			at = "concurrency.max_open_continuations_per_session"
		}
		a.d.at(at, "has to be at least 1")
	case a.MaxOpenTurns == 0 && a.Busy == parley.BusyEnqueue:
		a.MaxOpenTurns = 8
	case a.MaxOpenTurns == 0:
		a.MaxOpenTurns = 1
	}
	for kind := range f.Tools.Others {
		a.known("tools."+kind, kind, known.Toolsets, "toolset")
	}
	a.unique("wires", f.Wires)
	for i, w := range f.Wires {
		a.known(fmt.Sprintf("wires[%d]", i), w, known.Wires, "wire")
	}
	a.policy("policy.", f.Policy)
	for name, d := range map[string]parley.Duration{"session_idle": f.TTL.SessionIdle, "turn_steps": f.TTL.TurnSteps, "ended": f.TTL.Ended} {
		if d < 0 {
			a.d.at("ttl."+name, "cannot be negative; leave it out to keep for ever")
		}
	}
	if f.Memory.SummaryTokens < 0 {
		a.d.at("memory.summary_tokens", "cannot be negative; leave it out for no summary")
	}
	b := f.Budgets
	for name, n := range map[string]float64{
		"max_steps": float64(b.MaxSteps), "max_tool_calls": float64(b.MaxToolCalls), "max_duration_ms": float64(b.MaxDurationMS),
		"max_tokens_per_turn": float64(b.MaxTokensPerTurn), "max_total_tokens": float64(b.MaxTotalTokens), "max_usd": b.MaxUSD, "max_depth": float64(b.MaxDepth),
	} {
		if n < 0 {
			a.d.at("budgets."+name, "cannot be negative; leave it out for no limit")
		}
	}
	if f.Memory.LastK < 0 {
		a.d.at("memory.last_k", "cannot be negative; leave it out for all that fits")
	}
	if f.Memory.HistoryTokens < 0 {
		a.d.at("memory.history_tokens", "cannot be negative; leave it out for all that fits")
	}
}

// folder is a folder next to app.yaml, or anywhere if the path is absolute.
func (a *App) folder(dir, at string) Folder {
	if full := home(dir, a.d.env); filepath.IsAbs(full) {
		return Folder{os.DirFS(full), full}
	}
	clean := path.Clean(filepath.ToSlash(dir))
	if !fs.ValidPath(clean) {
		a.d.at(at, "%q leads out of the app's folder; write an absolute path", dir)
		return Folder{}
	}
	return Folder{sub(a.Files, clean), path.Join(filepath.ToSlash(a.Where), clean)}
}

func (a *App) choice(at, got string, known ...string) {
	switch dot := strings.LastIndexByte(at, '.'); {
	case slices.Contains(known, got):
	case got == "" && dot > 0:
		a.d.lacks(at[:dot], at[dot+1:], "has no %s; it is one of %s", at[dot+1:], strings.Join(known, ", "))
	default:
		a.d.at(at, "%q is not one of %s", got, strings.Join(known, ", "))
	}
}

// Mistake is a mistake in the value at path in the app's file; without such a value, in
// the one that contains it.
func (a *App) Mistake(path, format string, args ...any) Mistake {
	d := &decoder{file: a.d.file, lines: a.d.lines}
	d.at(path, format, args...)
	return d.wrong[0]
}

// permissionModes are all modes that exist.
var permissionModes = []string{
	string(parley.ModeDefault), string(parley.ModeAcceptEdits), string(parley.ModePlan), string(parley.ModeBypassPermissions),
}

func (a *App) known(at, name string, known []string, what string) {
	if known != nil && !slices.Contains(known, name) {
		a.d.at(at, "there is no %s %q%s", what, name, nearest.Hint(name, known))
	}
}

func (a *App) unique(at string, names []string) {
	for i, n := range names {
		if slices.Contains(names[:i], n) {
			a.d.at(fmt.Sprintf("%s[%d]", at, i), "%q is listed twice", n)
		}
	}
}

// Resolve returns the app that the engine runs, now that its tools are known: the
// declarations of every tool that some agent has, in the order of decls. An agent's tool
// that ends with * stands for all tools that begin like it. A tool that no toolset has is
// an error with its line.
func (a *App) Resolve(decls []parley.ToolDecl, unknown ...string) (parley.App, error) {
	d := &decoder{file: a.d.file, lines: a.d.lines}
	var names []string
	for _, t := range decls {
		names = append(names, t.Name)
	}
	own := a.tasks(d, names)
	for _, t := range extension.Decls() { // replaced by what each scope has
		if !slices.Contains(names, t.Name) && a.lists(t.Name) {
			own = append(own, t)
		}
	}
	decls = append(slices.Clip(decls), own...)
	for _, t := range own {
		names = append(names, t.Name)
	}
	used := map[string]bool{}
	out := a.App
	out.Agents = maps.Clone(a.Agents)
	for _, name := range slices.Sorted(maps.Keys(a.Agents)) {
		def := out.Agents[name]
		def.Tools = nil
		for i, t := range a.Agents[name].Tools {
			found := []string{t}
			if start, ok := strings.CutSuffix(t, "*"); ok {
				found = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, start) })
			}
			if a.absent[t] != "" {
				continue
			}
			if _, agent := a.Agents[t]; agent && !slices.Contains(names, t) {
				continue // tasks has said what is wrong
			}
			if len(found) == 0 || !slices.Contains(names, found[0]) {
				if mayBe(t, unknown) || len(a.Extensions) > 0 && strings.HasPrefix(t, "mcp__") && strings.HasSuffix(t, "*") {
					continue // a scope's own files may have such a server
				}
				d.at(fmt.Sprintf("agents.%s.tools[%d]", name, i), "there is no tool %q%s", t, nearest.Hint(t, names))
			}
			for _, n := range found {
				used[n] = true
				if !slices.Contains(def.Tools, n) {
					def.Tools = append(def.Tools, n)
				}
			}
		}
		def.Prompt += rules(decls, def.Tools)
		out.Agents[name] = def
	}
	if err := d.err(); err != nil {
		return parley.App{}, err
	}
	out.Tools = []parley.ToolDecl{}
	for _, t := range decls {
		if used[t.Name] {
			out.Tools = append(out.Tools, t)
		}
	}
	return out, nil
}

// rules are what a prompt says about the agent's tools, each once.
func rules(decls []parley.ToolDecl, tools []string) string {
	var said []string
	for _, t := range decls {
		if t.Rule != "" && slices.Contains(tools, t.Name) && !slices.Contains(said, t.Rule) {
			said = append(said, t.Rule)
		}
	}
	if said == nil {
		return ""
	}
	return "\n\n" + strings.Join(said, "\n\n")
}

// mayBe reports whether a tool, or a tool that matches a pattern, may be among those that are
// not known yet. Their names begin with one of the prefixes.
func mayBe(tool string, prefixes []string) bool {
	start, many := strings.CutSuffix(tool, "*")
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(start, p) || many && strings.HasPrefix(p, start) })
}

// lists reports whether an agent lists a tool by its full name.
func (a *App) lists(tool string) bool {
	for _, def := range a.Agents {
		if slices.Contains(def.Tools, tool) {
			return true
		}
	}
	return false
}

// Extended reports whether folders of files, of other levels or the app's own, may add to the
// app.
func (a *App) Extended() bool {
	return len(a.Extensions) > 0 || a.lists(extension.Tool) || a.lists(extension.CommandTool) || slices.ContainsFunc(extension.Places, func(name string) bool {
		_, err := fs.Stat(a.Files, name)
		return err == nil
	})
}

func readFile(fsys fs.FS, name string, limit int64) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, fmt.Errorf("%q is not a path inside the app's folder", name)
	}
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, plainError(name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", name)
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, info.Size(), limit)
	}
	raw, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, plainError(name, err)
	}
	return raw, nil
}

func plainError(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is missing", name)
	case errors.Is(err, fs.ErrInvalid):
		return fmt.Errorf("%q is not a path inside the app's folder", name)
	}
	return err
}
