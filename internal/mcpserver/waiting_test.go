package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/mcpserver"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/ask"
)

// curious lets the agents of an app ask questions.
func curious(a *parley.App) {
	decls, err := ask.New().Tools(context.Background())
	if err != nil {
		panic(err)
	}
	def := a.Agents["lead"]
	def.Tools = append(def.Tools, ask.Tool)
	a.Agents["lead"] = def
	a.Tools = append(a.Tools, decls...)
}

// asker asks which lamp, and repeats the answer.
func asker(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if res := enginetest.Results(r); len(res) > 0 {
		say("told: " + res[len(res)-1])
		return seam.Reply{}, nil
	}
	question := args{"question": "Which lamp?", "header": "Lamp", "multiSelect": false, "options": []args{
		{"label": "Ceiling", "description": "the big one"}, {"label": "Bedside", "description": ""},
	}}
	return seam.Reply{Parts: []parley.Part{enginetest.Call(ask.Tool, args{"questions": []args{question}})}}, nil
}

// TestHostWithoutForms: a host that cannot show a form gets the question at once, whichever tool it
// calls. Its model passes on the user's answer.
func TestHostWithoutForms(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, asker, enginetest.App(curious))
		c := h.host(era, "", nil)
		got := c.call("test.ask", args{"message": "turn off the lamp"})
		open := got["waiting_for"].([]any)[0].(map[string]any)
		if diff := cmp.Diff([]any{map[string]any{"question": "Which lamp?", "header": "Lamp", "options": []any{
			map[string]any{"label": "Ceiling", "description": "the big one"}, map[string]any{"label": "Bedside"},
		}}}, open["questions"]); diff != "" || open["kind"] != "question" {
			t.Errorf("%v: %s", open, diff)
		}
		if said := got["response"].(map[string]any)["finalMessage"].(string); !strings.Contains(said, "Which lamp?") {
			t.Errorf("a host of the seed reads %q", said)
		}
		if e := c.refused("test.answer", args{"interaction_id": open["interactionId"], "answers": []string{"a", "b"}}); e.Field != "answers" {
			t.Errorf("two answers to one question: %+v", e)
		}
		answered := c.call("test.answer", args{"interaction_id": open["interactionId"], "answers": []string{"Bedside"}})
		if diff := cmp.Diff(map[string]any{"status": "answered", "continuation_id": got["continuation_id"]}, answered); diff != "" {
			t.Error(diff)
		}
		end := c.call("test.await_continuation", args{"continuation_id": got["continuation_id"]})
		if said := end["response"].(map[string]any)["finalMessage"].(string); end["status"] != "completed" || end["waiting_for"] != nil || !strings.Contains(said, "Bedside") {
			t.Errorf("got %v", end)
		}
		if e := c.refused("test.answer", args{"interaction_id": open["interactionId"], "answers": []string{"Ceiling"}}); e.Code != parley.CodeConflict {
			t.Errorf("another answer: %+v", e)
		}
		if e := h.host(era, "ben", nil).refused("test.answer", args{"interaction_id": open["interactionId"], "answers": []string{"Ceiling"}}); e.Code != parley.CodeNotFound {
			t.Errorf("another user: %+v", e)
		}

		// The error for the next message to a waiting session has the open question.
		s := c.call("test.start_session", nil)["session_id"].(string)
		turn := c.call("test.send_message", args{"session_id": s, "message": "one"})["continuation_id"].(string)
		waits := h.Await(parley.TurnID(turn)).Interactions[0]
		if e := c.refused("test.send_message", args{"session_id": s, "message": "two"}); e.Code != parley.CodeBusy || !strings.Contains(e.Message, "Which lamp?") || !strings.Contains(e.Message, string(waits)) || !strings.Contains(e.Hint, turn) {
			t.Errorf("busy: %+v", e)
		}
		if got := c.call("test.answer", args{"interaction_id": waits, "choice": "deny"})["status"]; got != "answered" {
			t.Errorf("declined: %v", got)
		}
	})
}

// TestApprovals: the model of a host may not answer a permission, or it would approve its own
// actions. The operator can allow it.
func TestApprovals(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		for _, allowed := range []bool{false, true} {
			h := newHouse(t, mailer, enginetest.App(asking), func(o *mcpserver.Options) { o.Approvals = allowed })
			c := h.host(era, "", nil)
			res, text := c.try("mail", args{"text": "direct"})
			var e struct{ Error parley.ErrorInfo }
			_ = json.Unmarshal([]byte(text), &e)
			list, _ := res.Meta["parley/waiting-for"].([]any)
			if !res.IsError || e.Error.Code != "waiting" || len(list) != 1 {
				t.Fatalf("a direct call that waits: %q, %v", text, res.Meta)
			}
			id := list[0].(map[string]any)["interactionId"]
			if !allowed {
				for _, choice := range []string{"", "allow", "deny"} {
					if e := c.refused("test.answer", args{"interaction_id": id, "choice": choice}); e.Code != parley.CodeForbidden || !strings.Contains(e.Hint, "mcp.approvals") {
						t.Errorf("choice %q: %+v", choice, e)
					}
				}
			} else {
				c.call("test.answer", args{"interaction_id": id, "choice": "allow"})
				c.call("test.await_continuation", args{"continuation_id": res.Meta["parley/continuation"]})
			}
			if _, _, mails := h.Service.Counts(); mails != map[bool]int{true: 1}[allowed] {
				t.Errorf("approvals %v: %d mails", allowed, mails)
			}
		}
	})
}

// sampler is a tool whose server asks for a reply of the app's model.
type sampler struct{}

func (sampler) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{Name: "study", Description: "Study.", Effect: parley.EffectRead, InputSchema: json.RawMessage(`{"type":"object"}`)}}, nil
}

func (sampler) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	reply, err := r.Sample(ctx, parley.Sampling{Key: "a", Server: "deep", Messages: []parley.Message{parley.Text(parley.RoleUser, "Say it.")}, MaxTokens: 100})
	return parley.ToolResult{Output: "got " + reply.Text}, err
}

// TestSamplingIsForAPerson: the model of a host may not answer the question whether a server gets a
// reply of the app's model, although it answers other questions. The operator can allow it.
func TestSamplingIsForAPerson(t *testing.T) {
	model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		res := enginetest.Results(r)
		switch {
		case r.Agent == parley.SamplingAgent:
			say("a word")
		case len(res) > 0:
			say("told: " + res[len(res)-1])
		default:
			return seam.Reply{Parts: []parley.Part{enginetest.Call("study", args{})}}, nil
		}
		return seam.Reply{}, nil
	}
	decls, _ := sampler{}.Tools(t.Context())
	app := enginetest.App(func(a *parley.App) {
		def := a.Agents["lead"]
		def.Tools = append(def.Tools, "study")
		a.Agents["lead"] = def
		a.Tools = append(a.Tools, decls...)
	})
	inEras(t, func(t *testing.T, era string) {
		for _, allowed := range []bool{false, true} {
			h := houseOf(t, enginetest.New(t, model, app, enginetest.With(sampler{})), app, func(o *mcpserver.Options) { o.Approvals = allowed })
			c := h.host(era, "", nil)
			got := c.call("test.ask", args{"message": "study"})
			open, _ := got["waiting_for"].([]any)
			if len(open) != 1 || open[0].(map[string]any)["sampling"] != "deep" {
				t.Fatalf("it waits for %v", got)
			}
			answer := args{"interaction_id": open[0].(map[string]any)["interactionId"], "answers": []string{parley.SamplingSession}}
			if allowed {
				c.call("test.answer", answer)
				end := c.call("test.await_continuation", args{"continuation_id": got["continuation_id"]})
				if said, _ := end["response"].(map[string]any)["finalMessage"].(string); !strings.Contains(said, "a word") {
					t.Errorf("allowed: %q", said)
				}
				continue
			}
			if e := c.refused("test.answer", answer); e.Code != parley.CodeForbidden || !strings.Contains(e.Hint, "mcp.approvals") {
				t.Errorf("the host's model answers: %+v", e)
			}
			row, err := h.Engine.Interaction(t.Context(), enginetest.User, parley.InteractionID(answer["interaction_id"].(string)))
			if err != nil || !row.Open {
				t.Errorf("after that: %+v, %v", row, err)
			}
		}
	})
}

// TestQueuedBehindAQuestion: await_continuation on a turn that is queued behind a waiting turn returns
// at once with the open question of the waiting one.
func TestQueuedBehindAQuestion(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, asker, enginetest.App(curious, func(a *parley.App) { a.MaxOpenTurns = 2 }))
		c := h.host(era, "", nil)
		s := c.call("test.start_session", nil)["session_id"].(string)
		first := parley.TurnID(c.call("test.send_message", args{"session_id": s, "message": "one"})["continuation_id"].(string))
		waits := h.Await(first).Interactions[0]
		second, err := h.Engine.Send(t.Context(), enginetest.User, parley.SessionID(s), parley.Send{Message: "two", Busy: parley.BusyEnqueue})
		if err != nil {
			t.Fatal(err)
		}
		got := c.call("test.await_continuation", args{"continuation_id": second.ID})
		open, _ := got["waiting_for"].([]any)
		if got["status"] != "pending" || len(open) != 1 || open[0].(map[string]any)["continuationId"] != string(first) || open[0].(map[string]any)["interactionId"] != string(waits) {
			t.Errorf("got %v", got)
		}
	})
}

// TestCancelledRequestHasNoAnswer: a cancelled request gets no answer, neither an empty one nor an
// error. Nothing is logged either.
func TestCancelledRequestHasNoAnswer(t *testing.T) {
	t.Parallel()
	started, stopped := make(chan struct{}, 1), make(chan struct{}, 1)
	log := &logged{}
	h := newHouse(t, stuck(started, stopped), enginetest.App(), func(o *mcpserver.Options) { o.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	post := func(session, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Session-Id", session)
		r.Header.Set("MCP-Protocol-Version", "2025-11-25")
		if session == "" {
			r.Header.Del("Mcp-Session-Id")
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	resp := post("", hello)
	session := resp.Header.Get("Mcp-Session-Id")
	post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	asked := post(session, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"test.ask","arguments":{"message":"x"}}}`)
	<-started
	post(session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"no more"}}`)
	<-stopped
	got, err := io.ReadAll(asked.Body)
	if err != nil || bytes.Contains(got, []byte(`"id":7`)) {
		t.Errorf("a cancelled request is answered: %s, %v", got, err)
	}
	// A client that tries to resume the stream learns that there is none, and does not ask again.
	_, after, _ := strings.Cut(string(got), "id: ")
	after, _, _ = strings.Cut(after, "\n")
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url, nil)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Session-Id", session)
	r.Header.Set("Last-Event-ID", after)
	again, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Body.Close()
	if body, _ := io.ReadAll(again.Body); after == "" || again.StatusCode != http.StatusMethodNotAllowed || len(body) > 0 {
		t.Errorf("the rest of the stream after %q: %d %q", after, again.StatusCode, body)
	}
	if said := log.String(); said != "" {
		t.Errorf("the log has: %s", said)
	}
}

// TestBridgeGivesNoAnswerToWhatWasCancelled: the host of the bridge gets no answer to a cancelled
// request either.
func TestBridgeGivesNoAnswerToWhatWasCancelled(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		started, stopped := make(chan struct{}, 1), make(chan struct{}, 1)
		h := newHouse(t, stuck(started, stopped), enginetest.App())
		in, host := io.Pipe()
		var out logged
		ended := make(chan error)
		go func() {
			ended <- mcpserver.Bridge(context.Background(), in, &out, mcpserver.BridgeOptions{URL: h.url})
		}()
		line := func(text string) { _, _ = io.WriteString(host, text+"\n") }
		meta := ""
		if era >= "2026" {
			meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + era + `","io.modelcontextprotocol/clientCapabilities":{}}`
		} else {
			line(hello)
			line(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		}
		line(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"test.ask","arguments":{"message":"x"}` + meta + `}}`)
		<-started
		line(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
		<-stopped
		_ = host.Close() // the bridge ends when everything under way has ended
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := out.String(); strings.Contains(got, `"id":7`) {
			t.Errorf("it is answered: %s", got)
		}
	})
}

// logged keeps the text that is written to it.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
