package mcpserver_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

func said(content args) func(*mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return func(*mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: content}, nil
	}
}

// sent starts a session, sends a message and returns its turn, which asks for a mail.
func (c *host) sent() (turn string) {
	s := c.call("test.start_session", nil)["session_id"]
	return c.call("test.send_message", args{"session_id": s, "message": "mail"})["continuation_id"].(string)
}

func TestPersonIsAsked(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, mailer, enginetest.App(asking))
		var asked *mcp.ElicitParams
		c := h.host(era, "", forms(func(p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			asked = p
			return &mcp.ElicitResult{Action: "accept", Content: args{"choice": "allow"}}, nil
		}))
		got := c.call("test.await_continuation", args{"continuation_id": c.sent()})
		if diff := cmp.Diff(map[string]any{"status": "completed", "response": map[string]any{"finalMessage": "done: mailed hi"}}, got); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(asked.Message, "mail") || !strings.Contains(asked.Message, `"text": "hi"`) {
			t.Errorf("the form does not show the question: %q", asked.Message)
		}
		schema, _ := json.Marshal(asked.RequestedSchema)
		if want := `"enum":["allow","allow_session","deny"]`; !strings.Contains(string(schema), want) {
			t.Errorf("the form is %s", schema)
		}
		// The same holds for ask and for a direct call.
		if got := c.call("test.ask", args{"message": "x"})["response"]; !cmp.Equal(got, map[string]any{"finalMessage": "done: mailed hi"}) {
			t.Errorf("ask: %v", got)
		}
		if res, text := c.try("mail", args{"text": "direct"}); res.IsError || text != "mailed direct" {
			t.Errorf("direct: %q", text)
		}
		if _, _, mails := h.Service.Counts(); mails != 3 {
			t.Errorf("%d mails", mails)
		}
	})
}

func TestPersonSaysNo(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		for name, answer := range map[string]*mcp.ElicitResult{
			"by the form": {Action: "accept", Content: args{"choice": "deny", "text": "not now"}},
			"by a word":   {Action: "decline"},
		} {
			h := newHouse(t, mailer, enginetest.App(asking))
			c := h.host(era, "", forms(func(*mcp.ElicitParams) (*mcp.ElicitResult, error) { return answer, nil }))
			got := c.call("test.await_continuation", args{"continuation_id": c.sent()})
			message := got["response"].(map[string]any)["finalMessage"].(string)
			if got["status"] != "completed" || !strings.Contains(message, "did not allow") || answer.Content != nil && !strings.Contains(message, "not now") {
				t.Errorf("%s: %v", name, got)
			}
			if _, _, mails := h.Service.Counts(); mails != 0 {
				t.Errorf("%s: %d mails", name, mails)
			}
		}
	})
}

// TestQuestionStaysOpen: the question stays open if the host cannot ask or the person puts the form
// aside. The status is running, and the text names the interaction.
func TestQuestionStaysOpen(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		for name, o := range map[string]*mcp.ClientOptions{
			"no forms":  nil,
			"refused":   forms(said(args{"choice": "deny", "text": strings.Repeat("x", 4*parley.MaxAnswer+1)})),
			"put aside": forms(func(*mcp.ElicitParams) (*mcp.ElicitResult, error) { return &mcp.ElicitResult{Action: "cancel"}, nil }),
		} {
			h := newHouse(t, mailer, enginetest.App(asking))
			c := h.host(era, "", o)
			turn := parley.TurnID(c.sent())
			waiting := h.Await(turn)
			res, _ := c.try("test.await_continuation", args{"continuation_id": turn})
			got := res.StructuredContent.(map[string]any)
			open, _ := got["waiting_for"].([]any)
			if got["status"] != "running" || got["response"] != nil || len(open) != 1 {
				t.Fatalf("%s: %v", name, got)
			}
			if diff := cmp.Diff(map[string]any{
				"expiresAt":     float64(h.interaction(waiting).ExpiresAt.UnixMilli()),
				"interactionId": string(waiting.Interactions[0]), "continuationId": string(turn), "kind": "permission", "tool": "mail",
				"title": open[0].(map[string]any)["title"], "input": map[string]any{"text": "hi"}, "choices": []any{"allow", "allow_session", "deny"},
			}, open[0]); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			last := res.Content[len(res.Content)-1].(*mcp.TextContent).Text
			if !strings.Contains(last, "Only a person can answer") || !strings.Contains(last, string(turn)) {
				t.Errorf("%s: it does not say how to go on: %q", name, last)
			}
			// Another client answers while the host waits.
			go func() {
				_, err := h.Engine.Answer(context.Background(), enginetest.User, waiting.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}})
				if err != nil {
					t.Error(err)
				}
			}()
			if got := c.call("test.await_continuation", args{"continuation_id": turn, "known": []string{string(waiting.Interactions[0])}}); got["status"] != "completed" {
				t.Errorf("%s: %v", name, got)
			}
		}
	})
}

// TestAnsweredElsewhere: while one person looks at the form, another one answers. The form is
// withdrawn, and a later answer of the first person changes nothing.
func TestAnsweredElsewhere(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, mailer, enginetest.App(asking))
		var turn parley.TurnID
		c := h.host(era, "", forms(func(*mcp.ElicitParams) (*mcp.ElicitResult, error) {
			row, err := h.Engine.Turn(context.Background(), enginetest.User, turn)
			if err != nil || len(row.Interactions) != 1 {
				t.Errorf("%+v, %v", row, err)
				return &mcp.ElicitResult{Action: "cancel"}, nil
			}
			if _, err := h.Engine.Answer(context.Background(), enginetest.User, row.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
				t.Error(err)
			}
			return &mcp.ElicitResult{Action: "accept", Content: args{"choice": "deny"}}, nil
		}))
		turn = parley.TurnID(c.sent())
		if got := c.call("test.await_continuation", args{"continuation_id": turn}); got["status"] != "completed" {
			t.Errorf("got %v", got)
		}
		if _, _, mails := h.Service.Counts(); mails != 1 {
			t.Errorf("%d mails: the first answer did not count", mails)
		}
	})
}

// TestForgedRequestState: the state that a host carries for the server is checked. It is not
// accepted from another user, for another tool, or after a change.
func TestForgedRequestState(t *testing.T) {
	t.Parallel()
	h := newHouse(t, mailer, enginetest.App(asking))
	o := forms(said(args{"choice": "allow"}))
	o.MultiRoundTrip = &mcp.MultiRoundTripOptions{Disabled: true}
	c := h.host(eras[1], "", o)
	turn := c.sent()
	first, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "test.await_continuation", Arguments: args{"continuation_id": turn}})
	if err != nil || len(first.InputRequests) != 1 || first.RequestState == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	answers := mcp.InputResponseMap{}
	for id := range first.InputRequests {
		answers[id] = &mcp.ElicitResult{Action: "accept", Content: args{"choice": "allow"}}
	}
	ben := h.host(eras[1], "ben", o)
	for name, try := range map[string]func() (*mcp.CallToolResult, error){
		"changed": func() (*mcp.CallToolResult, error) {
			return c.CallTool(t.Context(), &mcp.CallToolParams{Name: "test.await_continuation", Arguments: args{"continuation_id": turn}, InputResponses: answers, RequestState: "x" + first.RequestState})
		},
		"of another tool": func() (*mcp.CallToolResult, error) {
			return c.CallTool(t.Context(), &mcp.CallToolParams{Name: "test.ask", Arguments: args{"message": "x"}, InputResponses: answers, RequestState: first.RequestState})
		},
		"of another user": func() (*mcp.CallToolResult, error) {
			return ben.CallTool(t.Context(), &mcp.CallToolParams{Name: "mail", Arguments: args{"text": "x"}, InputResponses: answers, RequestState: first.RequestState})
		},
	} {
		if res, err := try(); err == nil {
			t.Errorf("%s: taken: %+v", name, res)
		}
	}
	if _, _, mails := h.Service.Counts(); mails != 0 {
		t.Errorf("%d mails", mails)
	}
	// A host that sends no answer is asked again, and the state that it was given is valid.
	again, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "test.await_continuation", Arguments: args{"continuation_id": turn}, RequestState: first.RequestState})
	if err != nil || len(again.InputRequests) != 1 {
		t.Fatalf("%+v, %v", again, err)
	}
	done, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "test.await_continuation", Arguments: args{"continuation_id": turn}, InputResponses: answers, RequestState: again.RequestState})
	if err != nil || done.StructuredContent.(map[string]any)["status"] != "completed" {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestFormOutlastsTheTimeout: the time that a person takes does not count against the host's timeout.
func TestFormOutlastsTheTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app := enginetest.App(asking)
		c, end := inMemory(t, enginetest.New(t, mailer, app), app, forms(func(*mcp.ElicitParams) (*mcp.ElicitResult, error) {
			time.Sleep(5 * time.Minute) // fake time: a person thinks
			return &mcp.ElicitResult{Action: "accept", Content: args{"choice": "allow"}}, nil
		}))
		defer end()
		began := time.Now()
		if got := c.call("test.await_continuation", args{"continuation_id": c.sent(), "timeout_ms": 2000}); got["status"] != "completed" || time.Since(began) < 5*time.Minute {
			t.Errorf("after %s: %v", time.Since(began), got)
		}
	})
}

// interaction returns the first interaction that a turn waits for.
func (h *house) interaction(t parley.TurnInfo) parley.Interaction {
	h.t.Helper()
	row, err := h.Engine.Interaction(context.Background(), enginetest.User, t.Interactions[0])
	if err != nil {
		h.t.Fatal(err)
	}
	return row.Interaction
}
