package sdkview_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/sdkview"
	"github.com/parley-server/parley/internal/sim/nodetest"
	"github.com/parley-server/parley/internal/wire"
)

// others are events that no transcript's turn has, in a turn of their own.
func others() (log []parley.Event) {
	const turn = "01TURN"
	at := time.Date(2026, 11, 21, 3, 33, 9, 0, time.UTC)
	add := func(agent parley.AgentPath, p parley.Payload) {
		e := parley.NewEvent(turn, agent, p)
		e.Session, e.Seq, e.Time = "01SESSION", int64(len(log)+1), at
		log, at = append(log, e), at.Add(time.Second)
	}
	add("", parley.SessionCreated{App: "test", Mode: parley.ModePlan, Workspace: "vault"})
	add("", parley.HistoryRestored{User: "before", Reply: "yes"})
	add("", parley.TurnStarted{TurnRequest: parley.TurnRequest{Origin: parley.OriginUser, Message: parley.Message{Role: parley.RoleUser, Parts: []parley.Part{
		{Type: parley.PartText, Text: "look at this"}, {Type: parley.PartImage, Artifact: "01A", MediaType: "image/png"}, {Type: parley.PartFile, Name: "a.pdf"},
	}}}})
	mode := parley.ModeDefault
	add("", parley.SessionUpdated{Mode: &mode})
	add("lead", parley.AgentStarted{Name: "lead"})
	add("", parley.ContextCompacted{TokensBefore: 900, TokensAfter: 100})
	add("lead", parley.HookRan{Event: "PreToolUse", Name: "check.sh", Call: "c1", Decision: parley.Deny, Reason: "not today"})
	add("lead", parley.HookRan{Event: "Stop", Name: "stop.sh", Error: &parley.ErrorInfo{Code: parley.CodeTimeout, Message: "it took too long"}})
	add("", parley.ToolRequested{Call: "c1", Name: "look", Input: json.RawMessage(`{"text":"x"}`)})
	add("", parley.ToolEnded{ToolResult: parley.ToolResult{Call: "c1", Outcome: parley.OutcomeDenied, Error: &parley.ErrorInfo{Code: parley.CodeForbidden, Message: "denied"}}, Name: "look"})
	add("lead", parley.ModelStarted{Call: "m1", Model: "test/model", Window: 1000})
	add("lead", parley.ModelReplied{Call: "m1", Model: "test/model", Parts: []parley.Part{{Type: parley.PartHandoff, Call: "h1", Name: "other", Text: "it knows"}}, StopReason: "tool_use"})
	add("lead", parley.AgentHandoff{From: "lead", To: "other", Name: "other", Call: "h1"})
	add("", parley.TurnSteered{Message: parley.Text(parley.RoleUser, "and quickly")})
	add("", parley.TurnInterrupted{Reason: "the server stopped"})
	add("", parley.TurnResumed{Attempt: 1})
	add("", parley.TurnFailed{Error: parley.ErrorInfo{Code: "budget_steps", Message: "too many"}, Usage: parley.Usage{USD: 0.1}})
	return log
}

// TestTypes compiles what the view sends as values of the SDK's own type SDKMessage.
func TestTypes(t *testing.T) {
	t.Parallel()
	nodetest.Install(t, "jsclient")
	var all []json.RawMessage
	times := map[string]int{}
	add := func(list []wire.Message) {
		for _, m := range list { // a few of each kind, since the compiler looks at each for long
			kind := nameOf(decoded(t, m.Data))
			if c, ok := decoded(t, m.Data)["message"].(map[string]any); ok {
				if parts, ok := c["content"].([]any); ok && len(parts) > 0 {
					kind += fmt.Sprint(parts[0].(map[string]any)["type"])
				}
			}
			if times[kind]++; times[kind] <= 3 {
				all = append(all, m.Data)
			}
		}
	}
	for _, name := range []string{"01-simple-partial", "03-permission-allow", "04-permission-deny", "06-ask-user-question", "07-interrupt-stream", "08-interrupt-tool", "26-subagent"} {
		synctest.Test(t, func(t *testing.T) {
			r := rig(t, app())
			defer r.Close()
			id := drive(t, r, name)
			add(shown(sdkview.NewSDK(options(t, r, id)), events(r.Log(id))))
		})
	}
	add(shown(sdkview.NewSDK(sdkview.Options{Session: "01SESSION", Deltas: true}), events(others())))
	var b bytes.Buffer
	b.WriteString("import type { SDKMessage } from '@anthropic-ai/claude-agent-sdk';\n\nexport const messages: SDKMessage[] = [\n")
	for _, m := range all {
		b.Write(m)
		b.WriteString(",\n")
	}
	b.WriteString("];\n")
	dir := t.TempDir()
	for _, name := range []string{"reader.ts", "tsconfig.json", "package.json"} {
		body, err := os.ReadFile(filepath.Join("jsclient", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "messages.gen.ts"), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	modules, err := filepath.Abs("jsclient/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	tsc := exec.CommandContext(t.Context(), "node", filepath.Join(modules, "typescript", "bin", "tsc"), "-p", dir, "--preserveSymlinks")
	if out, err := tsc.CombinedOutput(); err != nil {
		if len(out) > 6000 {
			out = out[:6000]
		}
		t.Errorf("%d messages do not compile: %v\n%s", len(all), err, out)
	}
	if len(times) < 25 {
		t.Errorf("only these messages: %v", times)
	}
}
