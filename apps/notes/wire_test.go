package notes_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps/notes"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/wire"
)

// recorder builds the frames of a turn, and the lines that they become.
type recorder struct {
	w   *notes.Wire
	seq int64
	out strings.Builder
}

func (r *recorder) send(m wire.Message) { fmt.Fprintf(&r.out, "%s\n", m.Data) }

func (r *recorder) event(agent parley.AgentPath, p parley.Payload) {
	e := parley.NewEvent("t1", agent, p)
	r.seq++
	e.Session, e.Seq, e.Time = "s1", r.seq, time.Unix(r.seq, 0).UTC()
	r.w.Encode(eventlog.Frame{Event: &e}, r.send)
}

func (r *recorder) delta(agent parley.AgentPath, call parley.CallID, text string, whole bool) {
	r.w.Encode(eventlog.Frame{Delta: &parley.Delta{Session: "s1", Turn: "t1", Agent: agent, Call: call, Text: text}, Partial: whole}, r.send)
}

func (r *recorder) ask(call parley.CallID, tool, input string) {
	r.event("lead", parley.ToolRequested{Call: call, Name: tool, Input: []byte(input)})
}

func (r *recorder) end(call parley.CallID, tool string, outcome parley.Outcome) {
	r.event("lead", parley.ToolEnded{Name: tool, ToolResult: parley.ToolResult{Call: call, Outcome: outcome}})
}

func replied(call parley.CallID, text string) parley.ModelReplied {
	return parley.ModelReplied{Call: call, Parts: []parley.Part{{Type: parley.PartText, Text: text}}}
}

func completed(text string) parley.TurnCompleted {
	return parley.TurnCompleted{Response: parley.Response{Message: text}}
}

// TestWire: what each course of a turn is on the wire.
func TestWire(t *testing.T) {
	t.Parallel()
	const tool, ran, done = `{"type":"tool","name":`, `{"type":"status","message":"`, `{"type":"done","session_id":"abc"}`
	for name, c := range map[string]struct {
		frames func(r *recorder)
		want   []string
	}{
		"calls at once end in any order, each once": {
			func(r *recorder) {
				r.ask("a", "Read", `{"file_path":"a"}`)
				r.ask("b", "mcp__linkedin__linkedin_post", `{"text":"<b> & \u00e9"}`)
				r.event("lead", parley.ToolStarted{Call: "a", Name: "Read", Attempt: 1})
				r.event("lead", parley.ToolStarted{Call: "a", Name: "Read", Attempt: 2})
				r.end("b", "mcp__linkedin__linkedin_post", parley.OutcomeError)
				r.end("a", "Read", parley.OutcomeOK)
				r.end("a", "Read", parley.OutcomeOK)
				r.delta("lead", "m2", "Done.", false)
				r.event("lead", replied("m2", "Done."))
				r.event("lead", completed("Done."))
			},
			[]string{
				ran + `Running tool: Read"}`, tool + `"Read","input":{"file_path":"a"}}`,
				ran + `Running tool: mcp__linkedin__linkedin_post"}`, tool + `"mcp__linkedin__linkedin_post","input":{"text":"<b> & \u00e9"}}`,
				ran + `Tool finished: mcp__linkedin__linkedin_post"}`, ran + `Tool finished: Read"}`,
				`{"type":"text","delta":"Done."}`, done,
			},
		},
		"fetched pages": {
			func(r *recorder) {
				r.ask("a", "WebFetch", `{"url":"https://example.com/?a=1&b=2","prompt":"x"}`)
				r.ask("b", "WebFetch", `{"prompt":"x"}`)
				r.ask("c", "WebSearch", `{"url":"https://example.com"}`)
			},
			[]string{
				ran + `Running tool: WebFetch https://example.com/?a=1&b=2"}`, tool + `"WebFetch","input":{"url":"https://example.com/?a=1&b=2","prompt":"x"}}`,
				ran + `Running tool: WebFetch"}`, tool + `"WebFetch","input":{"prompt":"x"}}`,
				ran + `Running tool: WebSearch"}`, tool + `"WebSearch","input":{"url":"https://example.com"}}`,
			},
		},
		"text of several calls, a late client, and the memory's": {
			func(r *recorder) {
				r.delta("memory", "m0", "not for people", false)
				r.event("memory", replied("m0", "not for people"))
				r.delta("lead", "m1", "Let me ", true)
				r.delta("lead", "m1", "Let me look", true)
				r.event("lead", replied("m1", "Let me look."))
				r.event("lead", replied("m2", "Here."))
				r.event("lead", completed("Here. And more."))
			},
			[]string{
				`{"type":"text","delta":"Let me "}`, `{"type":"text","delta":"look"}`, `{"type":"text","delta":"."}`,
				`{"type":"text","delta":"Here."}`, `{"type":"text","delta":" And more."}`, done,
			},
		},
		"a model call that is made again": {
			func(r *recorder) {
				r.delta("lead", "m1", "The file", false)
				r.event("lead", parley.ModelFailed{Call: "m1", Retry: true})
				r.event("lead", replied("m2", "It says."))
				r.event("lead", completed("It says."))
			},
			[]string{`{"type":"text","delta":"The file"}`, `{"type":"text","delta":"\n\nIt says."}`, done},
		},
		"a person is asked": {
			func(r *recorder) {
				r.event("lead", parley.InteractionOpened{Interaction: parley.Interaction{ID: "i1", Title: "Post \"x\""}})
			},
			[]string{ran + `Waiting for a person: Post \"x\" (interaction i1)"}`},
		},
		"failed, and nothing after it": {
			func(r *recorder) {
				r.event("lead", parley.TurnFailed{Error: parley.ErrorInfo{Code: "model", Message: "no"}})
				r.event("lead", completed("late"))
				r.w.Failed(errors.New("late"), r.send)
			},
			[]string{`{"type":"error","message":"no"}`},
		},
		"cancelled":   {func(r *recorder) { r.event("", parley.TurnCancelled{}) }, []string{`{"type":"error","message":"the turn was cancelled"}`}},
		"expired":     {func(r *recorder) { r.event("", parley.TurnExpired{Reason: "late"}) }, []string{`{"type":"error","message":"the turn expired: late"}`}},
		"interrupted": {func(r *recorder) { r.event("", parley.TurnInterrupted{Reason: "x"}) }, []string{`{"type":"error","message":"the turn was interrupted: x"}`}},
		"interrupted, and goes on": {
			func(r *recorder) {
				r.event("", parley.TurnInterrupted{Reason: "x", Resumes: true})
				r.event("", parley.TurnResumed{Auto: true})
				r.event("lead", completed("Here."))
			},
			[]string{`{"type":"text","delta":"Here."}`, done},
		},
		"the server stops": {
			func(r *recorder) {
				r.w.Failed(parley.Errorf(parley.CodeUnavailable, "the server is stopping"), r.send)
			},
			[]string{`{"type":"error","message":"the server is stopping"}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{w: notes.NewWire("abc")}
			r.event("lead", parley.AgentStarted{Name: "lead"})
			c.frames(r)
			if diff := cmp.Diff(c.want, strings.Split(strings.TrimSuffix(r.out.String(), "\n"), "\n")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
