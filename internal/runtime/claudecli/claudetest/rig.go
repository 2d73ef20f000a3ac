// Package claudetest has what the tests of the runtime with the stand-in for the Claude CLI and
// those with the real one have in common: an engine whose model follows a script in the message, and
// the flows.
package claudetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/confine"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/runtime/claudecli"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/anthropic"
	"github.com/parley-server/parley/internal/tool/ask"
	"github.com/parley-server/parley/internal/tool/plan"
	"github.com/parley-server/parley/internal/tool/shell"
	tools "github.com/parley-server/parley/internal/tool/workspace"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/workspace"
)

var ctx = context.Background()

// Step is what the scripted model says: text, and calls of tools.
type Step struct {
	Text string `json:"text,omitempty"` // [sees]: what the model sees of earlier turns
	Fail string `json:"fail,omitempty"` // "overloaded": the first call fails; "forbidden": each does
	Use  []Use  `json:"use,omitempty"`
	// Tokens is how large the model says that the prompt was.
	Tokens int64 `json:"tokens,omitempty"`
	// Until is a file for which the model waits when it has said the text and before it makes the calls.
	Until string `json:"until,omitempty"`
}

// Use is a call of a tool.
type Use struct {
	Name  string         `json:"name"`
	Input map[string]any `json:"input"`
}

// Script is a message that tells the model what to say.
func Script(steps ...Step) string {
	raw, err := json.Marshal(steps)
	if err != nil {
		panic(err)
	}
	return "SCRIPT " + string(raw)
}

// model is one that says the next step of the script in the last message that has one.
type model struct {
	mu     sync.Mutex
	failed map[string]bool
}

func (m *model) next(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	var steps []Step
	var all []string
	script, at := "", 0
	for line := range strings.Lines(r.System) { // the CLI may say there what a hook has told an agent at its start
		if strings.Contains(line, "a hook says") {
			all = append(all, line)
		}
	}
	for _, msg := range r.Messages {
		switch msg.Role {
		case parley.RoleAssistant:
			at++
			all = append(all, parley.PartsText(msg.Parts))
		case parley.RoleUser:
			for _, p := range msg.Parts {
				all = append(all, p.Text)
				if _, raw, ok := strings.Cut(p.Text, "SCRIPT "); ok && p.Type == parley.PartText {
					var found []Step
					if json.NewDecoder(strings.NewReader(raw)).Decode(&found) == nil {
						steps, at, script = found, 0, raw
					}
				}
			}
		}
	}
	if n := len(all); n > 0 && strings.Contains(all[n-1], "create a detailed summary of the conversation") {
		left, err := json.Marshal(steps[min(at, len(steps)):])
		say("<summary>SCRIPT " + string(left) + "</summary>")
		return seam.Reply{StopReason: "end_turn"}, err
	}
	if at >= len(steps) {
		say("nothing more to say")
		return seam.Reply{StopReason: "end_turn"}, nil
	}
	s := steps[at]
	m.mu.Lock()
	key := script + strconv.Itoa(at)
	again := m.failed[key]
	m.failed[key] = true
	m.mu.Unlock()
	switch {
	case s.Fail == "overloaded" && !again:
		return seam.Reply{}, parley.Errorf(parley.CodeUnavailable, "it is overloaded")
	case s.Fail == "forbidden":
		return seam.Reply{}, parley.Errorf(parley.CodeForbidden, "not with this account")
	}
	if s.Text == sees {
		s.Text = strings.Join(all, " | ")
	}
	for _, w := range strings.SplitAfter(s.Text, " ") {
		if w != "" {
			say(w)
		}
	}
	for s.Until != "" {
		if _, err := os.Stat(s.Until); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return seam.Reply{}, context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
	reply := seam.Reply{StopReason: "end_turn", Usage: parley.Usage{InputTokens: s.Tokens, OutputTokens: 10}}
	for _, u := range s.Use {
		raw, _ := json.Marshal(u.Input)
		reply.Parts = append(reply.Parts, parley.Part{Type: parley.PartToolCall, Name: u.Name, Input: raw})
		reply.StopReason = "tool_use"
	}
	return reply, nil
}

// translate serves a model as Anthropic's API.
func translate(m seam.Model, agent string) http.Handler {
	return anthropic.New(anthropic.Options{
		Brain: m, ID: func(prefix string) string { return prefix + "_" + rand.Text() },
		Models: []anthropic.Model{{ID: "claude-sonnet-5-5", MaxInput: 1_000_000, MaxTokens: 128_000, Adaptive: true, Effort: true, Sampling: true, Prefill: true}},
		Asked:  func(_ []byte, r *seam.Request) { r.Agent = agent },
	})
}

// Rig is an engine whose turns a CLI makes.
type Rig struct {
	*enginetest.Rig
	Runtime *claudecli.Runtime
	Data    string // the runtime's folder
	Work    string // the session's workspace

	// reading is called while a call reads: of look, and of AskUserQuestion after its answer. nil: nothing is.
	reading func(ctx context.Context, tool string)
}

// Change changes a rig before it starts.
type Change func(*parley.App, *claudecli.Options, *engine.Options)

// New starts a rig in a folder, over a store. path is the executable of the CLI.
func New(t testing.TB, path, dir string, store seam.Store, change ...Change) *Rig {
	t.Helper()
	r := &Rig{Data: filepath.Join(dir, "claude"), Work: filepath.Join(dir, "workspaces", "shared")}
	if err := os.MkdirAll(r.Work, 0o700); err != nil {
		t.Fatal(err)
	}
	app := parley.App{
		Name: "test", Title: "test", Runtime: "claude", Entry: "main", Model: "test/model", Busy: parley.BusySteer, MaxOpenTurns: 8, Mode: parley.ModeBypassPermissions,
		Policy: parley.Policy{Modes: []parley.PermissionMode{parley.ModeDefault, parley.ModeAcceptEdits, parley.ModePlan, parley.ModeBypassPermissions}},
		Agents: map[string]parley.AgentDef{"main": {Name: "main", Prompt: "You are a test.", Tools: []string{
			"Read", "Write", "Edit", "Bash", "BashOutput", "KillShell", "Task", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "count", "look",
		}}},
	}
	o := claudecli.Options{Shell: true, Find: func() (string, error) { return path, nil }, Data: r.Data, Translate: translate}
	own := &counter{}
	_, err := os.Stat(filepath.Join(filepath.Dir(path), "plays.json"))
	o.Fenced = err != nil && confine.CanFence() // the stand-in keeps a diary elsewhere
	folders, err := workspace.New(workspace.Options{Shared: map[string]workspace.Shared{"shared": {Dir: r.Work}}, Default: "shared/shared"})
	if err != nil {
		t.Fatal(err)
	}
	data := datafolder.New(dir, func() error { return nil })
	checks := checkpoint.New(checkpoint.Options{Data: data})
	t.Cleanup(func() { _ = checks.Close() })
	o.Witness = tools.NewWitness(func() *checkpoint.Store { return checks })
	m := &model{failed: map[string]bool{}}
	var all []func(*engine.Options)
	all = append(all, func(e *engine.Options) {
		for _, f := range change {
			f(&app, &o, e)
		}
		sets := []seam.Toolset{own, looker{r}, asker{ask.New(), r}, plan.New()}
		for _, l := range toolbox.Sets[*listener](e.Tools["test"]) {
			sets = append(sets, l)
		}
		sets = append(sets, confined(t, dir)) // with o.Shell, it only knows what rules are about
		if !o.Shell {
			sets = append(sets, tools.New(tools.Options{Checkpoints: func() *checkpoint.Store { return checks }}))
		}
		box, err := toolbox.New(sets, toolbox.Options{})
		if err != nil {
			t.Fatal(err)
		}
		app.Tools = box.Decls()
		for _, d := range natives {
			if !slices.ContainsFunc(app.Tools, func(own parley.ToolDecl) bool { return own.Name == d.Name }) {
				app.Tools = append(app.Tools, d)
			}
		}
		e.Files = tools.NewRestorer(checks, nil)
		r.Runtime = claudecli.New(enginetest.Models{F: m.next}, o)
		e.Runtimes["claude"] = r.Runtime
		e.Archive = shelf{archive.NewFolder(data), r.Runtime}
		e.Apps, e.Tools = nil, nil
		if e.Scopes, err = scope.New(scope.Options{Apps: []scope.App{{App: app, Tools: box, Folders: folders}}}); err != nil {
			t.Fatal(err)
		}
	})
	r.Rig = enginetest.Over(t, store, &enginetest.Service{}, m.next, app, all...)
	return r
}

// confined is a toolset with Bash in a sandbox.
func confined(t testing.TB, dir string) *shell.Toolset {
	s := shell.New(shell.Options{Guarded: []string{"CLAUDE.md"}, Folder: func(elems ...string) (string, error) {
		at := filepath.Join(append([]string{dir, "scratch"}, elems...)...)
		return at, os.MkdirAll(at, 0o700)
	}})
	t.Cleanup(s.Close)
	return s
}

// Stop ends the rig and its CLIs.
func (r *Rig) Stop() {
	r.Close()
	_ = r.Runtime.Close()
}

// natives are declared by the app as its own; the runtime replaces them.
var natives = func() (list []parley.ToolDecl) {
	for _, name := range []string{"Read", "Write", "Edit", "Bash", "KillShell", "Task"} {
		list = append(list, parley.ToolDecl{Name: name, Description: name, InputSchema: json.RawMessage(`{"type":"object"}`)})
	}
	return list
}()

// counter is a toolset of the app.
type counter struct{ n int }

func (*counter) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{Name: "count", Description: "Counts.", InputSchema: json.RawMessage(`{"type":"object","properties":{"what":{"type":"string"}}}`), Effect: parley.EffectWrite}}, nil
}

func (c *counter) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	c.n++
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: fmt.Sprintf("counted %d", c.n)}, nil
}

// looker is a toolset of the app that only reads.
type looker struct{ rig *Rig }

func (looker) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{Name: "look", Description: "Looks.", InputSchema: json.RawMessage(`{"type":"object"}`), Effect: parley.EffectRead}}, nil
}

func (l looker) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	l.rig.reads(ctx, r.Name)
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: "nothing new"}, ctx.Err()
}

// asker asks as the tool of every app does.
type asker struct {
	ask.Toolset
	rig *Rig
}

func (a asker) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	put := r.Ask
	r.Ask = func(ctx context.Context, in parley.Interaction) (parley.Answer, error) {
		answer, err := put(ctx, in)
		if err == nil {
			a.rig.reads(ctx, r.Name)
			err = ctx.Err()
		}
		return answer, err
	}
	return a.Toolset.Run(ctx, r)
}

func (r *Rig) reads(ctx context.Context, tool string) {
	if r.reading != nil {
		r.reading(ctx, tool)
	}
}

// File is what a file of the workspace contains.
func (r *Rig) File(name string) string {
	b, err := os.ReadFile(filepath.Join(r.Work, name))
	if err != nil {
		return "no file"
	}
	return string(b)
}

// Told lists events as short lines.
func Told(events []parley.Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%d %s %s", e.Seq, e.Type, e.Agent)
		var v map[string]any
		_ = json.Unmarshal(e.Data, &v)
		for _, k := range []string{"name", "outcome", "output", "status", "text", "response", "error"} {
			if x, ok := v[k]; ok {
				raw, _ := json.Marshal(x)
				b.WriteString(" " + k + "=" + string(bytes.TrimSpace(raw[:min(len(raw), 200)])))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func types(events []parley.Event) (list []string) {
	for _, e := range events {
		list = append(list, string(e.Type))
	}
	return list
}

// Count counts the events of a type.
func Count(events []parley.Event, kind string) (n int) {
	return len(slices.DeleteFunc(types(events), func(k string) bool { return k != kind }))
}

// within waits for something that the log does not tell.
func within(t testing.TB, what string, f func() bool) {
	t.Helper()
	for range 2400 {
		if f() {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatalf("%s: not within a minute", what)
}

// put makes an empty file in the workspace.
func (r *Rig) put(t testing.TB, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.Work, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// pause is longer than the commands of the flows pause.
func (r *Rig) pause() { time.Sleep(200 * time.Millisecond) }
