package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/ask"
)

// told is what an agent's events were, in words. Text is joined.
func told(t *testing.T, a *client.Agent, id parley.SessionID, message string, on func(client.AgentEvent)) []string {
	t.Helper()
	var list []string
	text := ""
	flush := func() {
		if text != "" {
			list = append(list, "text "+text)
		}
		text = ""
	}
	for e := range a.SendMessage(t.Context(), id, message) {
		if on != nil {
			on(e)
		}
		if d, ok := e.(client.TextDelta); ok {
			if d.Text == "" {
				t.Error("a TextDelta without text")
			}
			text += d.Text
			continue
		}
		flush()
		switch e := e.(type) {
		case client.ToolUse:
			list = append(list, fmt.Sprintf("use %s %s", e.Name, e.Input))
		case client.ToolResult:
			list = append(list, "result "+e.Output)
		case client.Done:
			list = append(list, fmt.Sprintf("done %v %s", e.IsError, e.Result))
		case client.Error:
			list = append(list, "error "+e.Message)
		}
	}
	flush()
	return list
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// worker looks something up and says what it found, in many words.
func worker(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if res := enginetest.Results(r); len(res) > 0 {
		for _, w := range strings.SplitAfter("I have found that "+res[0], " ") {
			say(w)
		}
		return seam.Reply{}, nil
	}
	say("I will look. ")
	return seam.Reply{Parts: []parley.Part{enginetest.Call("look", map[string]string{"text": "x"})}}, nil
}

// The events of an agent are the same however often the connection is cut: nothing comes twice, and
// nothing is missing.
func TestAgent(t *testing.T) {
	t.Parallel()
	var cuts atomic.Int64
	c, _ := serve(t, worker, cutter(&cuts))
	plain, _ := serve(t, worker, nil)
	var all [2][]string
	for i, c := range []*client.Client{plain, c} {
		a := c.Agent("test")
		id, err := a.CreateSession(t.Context(), "", []parley.HistoryMessage{{Role: parley.RoleUser, Content: "before"}, {Role: parley.RoleAssistant, Content: "yes"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = told(t, a, id, "go", func(e client.AgentEvent) {
			if d, ok := e.(client.Done); ok && (d.Usage != client.DoneUsage{InputTokens: 20, OutputTokens: 10}) {
				t.Errorf("it used %+v", d.Usage)
			}
		})
		if err := a.CloseSession(t.Context(), id); err != nil {
			t.Error(err)
		}
		for e := range a.SendMessage(t.Context(), id, "more") {
			if e, ok := e.(client.Error); !ok || parley.CodeOf(e.Err) != parley.CodeConflict || e.Message == "" {
				t.Errorf("after its end: %#v", e)
			}
		}
	}
	if cuts.Load() < 3 {
		t.Errorf("got only %d cuts", cuts.Load())
	}
	same(t, all[1], all[0]...)
	if len(all[0]) != 5 || all[0][0] != "text I will look. " || !strings.HasPrefix(all[0][1], `use look {"text":"x"}`) ||
		!strings.HasPrefix(all[0][2], "result ") || all[0][3] != "text I have found that "+strings.TrimPrefix(all[0][2], "result ") ||
		!strings.HasPrefix(all[0][4], "done false ") {
		t.Errorf("got\n%s", strings.Join(all[0], "\n"))
	}
}

// A question is a use of AskUserQuestion, and its answer the result.
func TestAgentIsAsked(t *testing.T) {
	t.Parallel()
	asks := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if res := enginetest.Results(r); len(res) > 0 {
			say("thanks")
			return seam.Reply{}, nil
		}
		return seam.Reply{Parts: []parley.Part{enginetest.Call(ask.Tool, map[string]any{"questions": []any{map[string]any{
			"question": "Which?", "header": "Lamp", "multiSelect": false, "options": []any{map[string]any{"label": "Left", "description": "l"}, map[string]any{"label": "Right", "description": "r"}},
		}}})}}, nil
	}
	c, _ := serve(t, asks, nil, func(a *parley.App) {
		decls, err := ask.New().Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		def := a.Agents["lead"]
		def.Tools = append(def.Tools, ask.Tool)
		a.Agents["lead"], a.Tools = def, append(a.Tools, decls...)
	})
	a := c.Agent("test")
	id, err := a.CreateSession(t.Context(), "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := told(t, a, id, "go", func(e client.AgentEvent) {
		if use, ok := e.(client.ToolUse); ok {
			if err := a.Answer(t.Context(), id, use.ID, map[string]string{"Which?": "Right"}); err != nil {
				t.Error(err)
			}
		}
	})
	if len(got) != 4 || !strings.HasPrefix(got[0], "use AskUserQuestion {") || !strings.Contains(got[1], `"answers":{"Which?":"Right"}`) || got[2] != "text thanks" || got[3] != "done false thanks" {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if err := a.Answer(t.Context(), id, "nothing", nil); !errors.Is(err, parley.ErrNotFound) {
		t.Errorf("an answer to nothing: %v", err)
	}
}

// An interrupt ends the turn, and without a turn it does nothing. What cannot be sent is an Error.
func TestAgentIsInterrupted(t *testing.T) {
	t.Parallel()
	slow := func(ctx context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
		say("one ")
		<-ctx.Done()
		return seam.Reply{}, context.Cause(ctx)
	}
	c, _ := serve(t, slow, nil)
	a := c.Agent("test")
	id, err := a.CreateSession(t.Context(), "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := a.Interrupt(t.Context(), id); err != nil {
			t.Error(err)
		}
		got := told(t, a, id, "go", func(e client.AgentEvent) {
			if _, ok := e.(client.TextDelta); ok {
				if err := a.Interrupt(t.Context(), id); err != nil {
					t.Error(err)
				}
			}
		})
		same(t, got, "text one ", "done true the turn was cancelled: interrupted")
	}
	same(t, told(t, a, "nothing", "go", nil), "error there is no session \"nothing\"")
	same(t, told(t, a, id, " ", nil), "error the message is empty")
}

// What a session is created with goes to the server as it is.
func TestAgentCreates(t *testing.T) {
	t.Parallel()
	var body string
	c, _ := serve(t, enginetest.Echo, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/sessions" && r.Method == http.MethodPost {
				raw, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				body, r.Body = string(raw), io.NopCloser(bytes.NewReader(raw))
			}
			next.ServeHTTP(w, r)
		})
	})
	history := []parley.HistoryMessage{{Role: parley.RoleUser, Content: "before"}}
	_, err := c.Agent("test").CreateSession(t.Context(), "vault", history, []parley.EntityRef{{Path: "docs/a.md"}})
	if parley.CodeOf(err) != parley.CodeInvalid { // the app of this test has no workspaces
		t.Errorf("got %v", err)
	}
	if want := `{"app":"test","workspace":"vault","history":[{"role":"user","content":"before"}],"attached_entities":[{"path":"docs/a.md"}]}`; body != want {
		t.Errorf("the request is\n%s\nwant\n%s", body, want)
	}
}
