//go:build claude

package real_test

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
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/runtime/claudecli"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/anthropic"
	"github.com/parley-server/parley/internal/tool/ask"
	"github.com/parley-server/parley/internal/tool/plan"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/workspace"
)

var ctx = context.Background()

// cli is the executable.
func cli(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("node_modules")
	if err != nil {
		t.Fatal(err)
	}
	path, err := claudecli.Locate(claudecli.Where{Path: os.Getenv("PARLEY_TEST_CLAUDE"), NodeModules: dir})
	if err != nil {
		t.Fatalf("%v; run `make test-claude`, which installs it", err)
	}
	return path
}

// step is what the scripted model says: text, and calls of tools.
type step struct {
	Text string `json:"text,omitempty"`
	Use  []use  `json:"use,omitempty"`
}

type use struct {
	Name  string         `json:"name"`
	Input map[string]any `json:"input"`
}

// script is a message that tells the model what to say.
func script(steps ...step) string {
	raw, err := json.Marshal(steps)
	if err != nil {
		panic(err)
	}
	return "SCRIPT " + string(raw)
}

// scripted is the model: it says the next step of the script in the last message that has one.
func scripted(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	var steps []step
	at := 0
	for _, m := range r.Messages {
		switch m.Role {
		case parley.RoleAssistant:
			at++
		case parley.RoleUser:
			for _, p := range m.Parts {
				if _, raw, ok := strings.Cut(p.Text, "SCRIPT "); ok && p.Type == parley.PartText {
					var found []step
					if json.NewDecoder(strings.NewReader(raw)).Decode(&found) == nil {
						steps, at = found, 0
					}
				}
			}
		}
	}
	if at >= len(steps) {
		say("nothing more to say")
		return seam.Reply{StopReason: "end_turn"}, nil
	}
	s := steps[at]
	for _, w := range strings.SplitAfter(s.Text, " ") {
		if w != "" {
			say(w)
		}
	}
	reply := seam.Reply{StopReason: "end_turn"}
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

// rig is an engine whose turns the real CLI makes.
type rig struct {
	*enginetest.Rig
	rt   *claudecli.Runtime
	data string // the runtime's folder
	work string // the session's workspace
}

func newRig(t testing.TB, dir string, change ...func(*parley.App, *claudecli.Options, *engine.Options)) *rig {
	t.Helper()
	path := cli(t)
	r := &rig{data: filepath.Join(dir, "claude"), work: filepath.Join(dir, "workspaces", "shared")}
	if err := os.MkdirAll(r.work, 0o700); err != nil {
		t.Fatal(err)
	}
	app := parley.App{
		Name: "test", Title: "test", Runtime: "claude", Entry: "main", Model: "test/model", Busy: parley.BusySteer, MaxOpenTurns: 8, Mode: parley.ModeBypassPermissions,
		Policy: parley.Policy{Modes: []parley.PermissionMode{parley.ModeDefault, parley.ModeAcceptEdits, parley.ModePlan, parley.ModeBypassPermissions}},
		Agents: map[string]parley.AgentDef{"main": {Name: "main", Prompt: "You are a test.", Tools: []string{
			"Read", "Write", "Edit", "Bash", "KillShell", "Task", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "count",
		}}},
	}
	o := claudecli.Options{Find: func() (string, error) { return path, nil }, Data: r.data, Translate: translate}
	tools := &counter{}
	box, err := toolbox.New([]seam.Toolset{tools, ask.New(), plan.New()}, toolbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	app.Tools = append(box.Decls(), natives...)
	folders, err := workspace.New(workspace.Options{Shared: map[string]workspace.Shared{"shared": {Dir: r.work}}, Default: "shared/shared"})
	if err != nil {
		t.Fatal(err)
	}
	var all []func(*engine.Options)
	all = append(all, func(e *engine.Options) {
		for _, f := range change {
			f(&app, &o, e)
		}
		r.rt = claudecli.New(enginetest.Models{F: scripted}, o)
		e.Runtimes["claude"] = r.rt
		e.Apps, e.Tools = nil, nil
		if e.Scopes, err = scope.New(scope.Options{Apps: []scope.App{{App: app, Tools: box, Folders: folders}}}); err != nil {
			t.Fatal(err)
		}
	})
	r.Rig = enginetest.New(t, scripted, app, all...)
	return r
}

func (r *rig) stop() {
	r.Close()
	_ = r.rt.Close()
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

func (r *rig) file(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.work, name))
	if err != nil {
		return "no file"
	}
	return string(b)
}

// told lists events as short lines.
func told(events []parley.Event) string {
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

func count(events []parley.Event, kind string) (n int) {
	return len(slices.DeleteFunc(types(events), func(k string) bool { return k != kind }))
}

// within waits for something that the log does not tell.
func within(t testing.TB, what string, f func() bool) {
	t.Helper()
	for range 600 {
		if f() {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatalf("%s: not within 15 s", what)
}
