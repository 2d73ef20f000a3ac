package chaos_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps/chaos"
	"github.com/parley-server/parley/apps/chaos/chaostest"
	"github.com/parley-server/parley/internal/eventlog"
)

// recorder builds the frames of a turn.
type recorder struct {
	frames []eventlog.Frame
	seq    int64
}

func (r *recorder) event(agent parley.AgentPath, p parley.Payload) {
	e := parley.NewEvent("t1", agent, p)
	r.seq++
	e.Session, e.Seq, e.Time = "s1", r.seq, time.Unix(r.seq, 0).UTC()
	r.frames = append(r.frames, eventlog.Frame{Event: &e})
}

func (r *recorder) delta(agent parley.AgentPath, call parley.CallID, text string) {
	r.frames = append(r.frames, eventlog.Frame{Delta: &parley.Delta{Session: "s1", Turn: "t1", Agent: agent, Call: call, Text: text}})
}

func (r *recorder) partial(agent parley.AgentPath, call parley.CallID, text string) {
	r.delta(agent, call, text)
	r.frames[len(r.frames)-1].Partial = true
}

func (r *recorder) say(agent parley.AgentPath, call parley.CallID, texts ...string) {
	r.event(agent, parley.ModelStarted{Call: call, Model: "m"})
	for _, text := range texts {
		r.delta(agent, call, text)
	}
	r.event(agent, replied(call, strings.Join(texts, "")))
}

func replied(call parley.CallID, text string) parley.ModelReplied {
	return parley.ModelReplied{Call: call, Model: "m", Parts: []parley.Part{{Type: parley.PartText, Text: text}}}
}

func completed(text string) parley.TurnCompleted {
	return parley.TurnCompleted{Response: parley.Response{Message: text}}
}

func frames(w *chaos.Wire, list []eventlog.Frame) string {
	var out []byte
	for _, f := range list {
		out, _ = w.Append(out, f)
	}
	return string(out)
}

func started(call parley.CallID, name, query string) parley.ToolStarted {
	in, _ := json.Marshal(map[string]string{"query": query})
	return parley.ToolStarted{Call: call, Name: name, Input: in, Effect: parley.EffectRead, Attempt: 1}
}

func toolEnded(call parley.CallID, name, output string) parley.ToolEnded {
	return parley.ToolEnded{ToolResult: parley.ToolResult{Call: call, Outcome: parley.OutcomeOK, Output: output}, Name: name, Effect: parley.EffectRead}
}

// demo is the first question, which goes through all three agents and back. The two reads run
// at once, and the second ends first.
func demo() []eventlog.Frame {
	var r recorder
	r.event("", parley.TurnStarted{TurnRequest: parley.TurnRequest{Origin: parley.OriginUser, Message: parley.Text(parley.RoleUser, "spec?")}})
	r.event("interface", parley.AgentStarted{Name: "interface"})
	r.say("interface", "c1")
	r.event("interface", parley.AgentHandoff{From: "interface", To: "scavenger", Name: "scavenger"})
	r.say("scavenger", "c2", "I call both.")
	r.event("scavenger", parley.ToolRequested{Call: "n", Name: "read_notion_mock", Input: json.RawMessage(`{"query":"login system"}`)})
	r.event("scavenger", parley.ToolRequested{Call: "s", Name: "read_slack_mock", Input: json.RawMessage(`{"query":"login system auth"}`)})
	r.event("scavenger", started("s", "read_slack_mock", "login system auth"))
	r.event("scavenger", started("n", "read_notion_mock", "login system"))
	r.event("scavenger", toolEnded("s", "read_slack_mock", chaostest.SlackResult))
	r.event("scavenger", toolEnded("n", "read_notion_mock", chaostest.NotionResult))
	r.say("scavenger", "c3")
	r.event("scavenger", parley.AgentHandoff{From: "scavenger", To: "synthesizer", Name: "synthesizer"})
	r.say("synthesizer", "c4", "Source of truth.")
	r.event("synthesizer", parley.AgentHandoff{From: "synthesizer", To: "interface", Name: "interface"})
	r.say("interface", "c5", "Google ", "OAuth only — ", "überall.")
	r.event("", completed("Google OAuth only — überall."))
	return r.frames
}

// wire returns the expected frames, with the answer split into the pieces.
func wire(frames string, pieces ...string) string {
	var tokens []string
	for _, text := range pieces {
		tokens = append(tokens, "event: token\ndata: {\"text\":\""+text+"\"}")
	}
	return strings.Replace(frames, chaostest.Tokens, strings.Join(tokens, "\n\n"), 1) + "\n"
}

var demoWire = wire(chaostest.Demo, "Google ", "OAuth only — ", "überall.")

func TestWire_first_question_to_the_letter(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(demoWire, frames(&chaos.Wire{}, demo())); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

func TestWire_follow_up_has_only_the_answer(t *testing.T) {
	t.Parallel()
	var r recorder
	r.event("interface", parley.AgentStarted{Name: "interface"})
	r.say("interface", "c1", "Use ", "authlib.")
	r.event("", completed("Use authlib."))
	want := wire(chaostest.Memory, "Use ", "authlib.")
	if diff := cmp.Diff(want, frames(&chaos.Wire{}, r.frames)); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

// frame is a parsed frame of the wire.
type frame struct{ id, event, data string }

func parse(t *testing.T, wire string) []frame {
	t.Helper()
	var out []frame
	for block := range strings.SplitSeq(strings.TrimSuffix(wire, "\n\n"), "\n\n") {
		var f frame
		for line := range strings.SplitSeq(block, "\n") {
			name, value, ok := strings.Cut(line, ": ")
			switch {
			case !ok:
				t.Fatalf("a line without a field: %q", line)
			case name == "id":
				f.id = value
			case name == "event":
				f.event = value
			case name == "data":
				f.data = value
			default:
				t.Fatalf("field %q", line)
			}
		}
		if !json.Valid([]byte(f.data)) {
			t.Fatalf("data %q is not JSON", f.data)
		}
		out = append(out, f)
	}
	return out
}

func tokens(t *testing.T, list []frame) string {
	t.Helper()
	var b strings.Builder
	for _, f := range list {
		if f.event == "token" {
			var d struct{ Text string }
			if err := json.Unmarshal([]byte(f.data), &d); err != nil {
				t.Fatal(err)
			}
			b.WriteString(d.Text)
		}
	}
	return b.String()
}

func TestWire_text(t *testing.T) {
	t.Parallel()
	const answer = "Google OAuth."
	for _, c := range []struct {
		name string
		turn func(r *recorder)
		want string
	}{
		{"no_deltas_came", func(r *recorder) {
			r.event("interface", replied("c1", answer))
		}, answer},
		{"not_even_a_reply", func(*recorder) {}, answer},
		{"the_last_fragment_was_missed", func(r *recorder) {
			r.delta("interface", "c1", "Google ")
			r.event("interface", replied("c1", answer))
		}, answer},
		{"joined_in_the_middle", func(r *recorder) {
			r.partial("interface", "c1", "Google O")
			r.delta("interface", "c1", "Auth.")
			r.event("interface", replied("c1", answer))
		}, answer},
		{"a_resync_repeats_what_was_sent", func(r *recorder) {
			r.delta("interface", "c1", "Google ")
			r.partial("interface", "c1", "Google OA")
			r.delta("interface", "c1", "uth.")
			r.event("interface", replied("c1", answer))
		}, answer},
		{"a_resync_is_behind_what_was_sent", func(r *recorder) {
			r.delta("interface", "c1", "Google OA")
			r.partial("interface", "c1", "Goo")
			r.delta("interface", "c1", "gle ")
			r.delta("interface", "c1", "OAuth.")
			r.event("interface", replied("c1", answer))
		}, answer},
		{"thinking_is_not_text", func(r *recorder) {
			r.frames = append(r.frames, eventlog.Frame{Delta: &parley.Delta{Turn: "t1", Agent: "interface", Call: "c1", Kind: parley.DeltaThinking, Text: "hm"}})
			r.event("interface", replied("c1", answer))
		}, answer},
		{"text_of_another_agent_is_not_text", func(r *recorder) {
			r.delta("scavenger", "c0", "raw")
			r.event("scavenger", replied("c0", "raw"))
			r.delta("interface", "c1", answer)
		}, answer},
		{"the_answer_goes_on_behind_the_reply", func(r *recorder) {
			r.delta("interface", "c1", "Google")
			r.event("interface", replied("c1", "Google OAuth"))
		}, answer},
		{"a_call_is_repeated", func(r *recorder) {
			r.delta("interface", "c1", "Goo")
			r.event("interface", parley.ModelFailed{Call: "c1", Retry: true, Partial: "Goo"})
			r.delta("interface", "c2", "Google ")
			r.event("interface", replied("c2", answer))
		}, "Goo\n\n" + answer},
		{"a_call_that_had_said_nothing_is_repeated", func(r *recorder) {
			r.event("interface", parley.ModelFailed{Call: "c1", Retry: true})
			r.delta("interface", "c2", answer)
		}, answer},
		{"the_reply_says_something_else", func(r *recorder) {
			r.delta("interface", "c1", "Facebook")
			r.event("interface", replied("c1", answer))
		}, "Facebook\n\n" + answer},
		{"words_before_a_handoff_stand_apart", func(r *recorder) {
			r.delta("interface", "c1", "Let me look.")
			r.event("interface", replied("c1", "Let me look."))
			r.delta("interface", "c2", "Google ")
			r.event("interface", replied("c2", answer))
		}, "Let me look.\n\n" + answer},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var r recorder
			r.event("interface", parley.AgentStarted{Name: "interface"})
			c.turn(&r)
			r.event("", completed(answer))
			got := parse(t, frames(&chaos.Wire{}, r.frames))
			if diff := cmp.Diff(c.want, tokens(t, got)); diff != "" {
				t.Errorf("tokens joined (-want +got):\n%s", diff)
			}
			if last := got[len(got)-1]; last.event != "done" {
				t.Errorf("the last frame is %v, want done", last)
			}
		})
	}
}

// TestWire_text_is_whole_after_a_resync_at_every_frame: the wire may replace missed deltas by a
// partial after any frame. The text that the client puts together is still the answer.
func TestWire_text_is_whole_after_a_resync_at_every_frame(t *testing.T) {
	t.Parallel()
	all := demo()
	want := tokens(t, parse(t, demoWire))
	for cut := range all {
		var list []eventlog.Frame
		said := map[parley.CallID]string{}
		agent := map[parley.CallID]parley.AgentPath{}
		for i, f := range all {
			if f.Delta != nil {
				said[f.Delta.Call] += f.Delta.Text
				agent[f.Delta.Call] = f.Delta.Agent
			}
			list = append(list, f)
			if i == cut {
				for call, text := range said {
					list = append(list, eventlog.Frame{Partial: true, Delta: &parley.Delta{Turn: "t1", Agent: agent[call], Call: call, Text: text}})
				}
			}
			if f.Event != nil && f.Event.Type == "model.replied" {
				clear(said) // only open calls have partials
			}
		}
		if got := tokens(t, parse(t, frames(&chaos.Wire{}, list))); got != want {
			t.Errorf("resync after frame %d: got %q, want %q", cut, got, want)
		}
	}
}

// TestWire_goes_on_after_a_crash: an interruption has no frame if the turn resumes by itself. A
// later interruption that says it will not resume is an error frame.
func TestWire_goes_on_after_a_crash(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		next parley.Payload
		want []frame
	}{
		"and ends":    {completed("whole"), []frame{{event: "token", data: `{"text":"whole"}`}, {event: "done", data: `{}`}}},
		"or does not": {parley.TurnInterrupted{Reason: "its app is off"}, []frame{{event: "error", data: `{"message":"the turn was interrupted: its app is off"}`}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r recorder
			r.event("interface", parley.AgentStarted{Name: "interface"})
			r.event("", parley.TurnInterrupted{Reason: "the server stopped", Resumes: true})
			r.event("", c.next)
			want := append([]frame{{event: "agent_start", data: `{"agent":"interface"}`}}, c.want...)
			if diff := cmp.Diff(want, parse(t, frames(&chaos.Wire{}, r.frames)), cmp.AllowUnexported(frame{})); diff != "" {
				t.Errorf("frames (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWire_ends_with_one_error(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  parley.Payload
		want string
	}{
		{"failed", parley.TurnFailed{Error: parley.ErrorInfo{Code: parley.CodeModel, Message: "the model is away"}}, `{"message":"the model is away"}`},
		{"budget", parley.TurnFailed{Error: parley.ErrorInfo{Code: "budget_steps", Message: "at most 8 steps are allowed"}}, `{"message":"at most 8 steps are allowed"}`},
		{"cancelled", parley.TurnCancelled{Reason: "enough"}, `{"message":"the turn was cancelled: enough"}`},
		{"cancelled_without_a_reason", parley.TurnCancelled{}, `{"message":"the turn was cancelled"}`},
		{"expired", parley.TurnExpired{}, `{"message":"the turn expired"}`},
		{"interrupted", parley.TurnInterrupted{Reason: "the server stopped"}, `{"message":"the turn was interrupted: the server stopped"}`},
		{"waits_for_a_human", parley.InteractionOpened{Interaction: parley.Interaction{Title: "May it?"}}, `{"message":"the turn waits for an answer that cannot be given here: May it?"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var r recorder
			r.event("interface", parley.AgentStarted{Name: "interface"})
			r.event("scavenger", started("n", "read_notion_mock", "x"))
			r.event("", c.end)
			r.event("", completed("too late"))
			got := parse(t, frames(&chaos.Wire{}, r.frames))
			want := []frame{
				{event: "agent_start", data: `{"agent":"interface"}`},
				{event: "tool_call", data: `{"agent":"scavenger","tool":"read_notion_mock","query":"x"}`},
				{event: "error", data: c.want},
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(frame{})); diff != "" {
				t.Errorf("frames (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWire_fail_speaks_once(t *testing.T) {
	t.Parallel()
	var w chaos.Wire
	first := string(w.Fail(nil, parley.Errorf(parley.CodeUnavailable, "the server is shutting down")))
	if want := "event: error\ndata: {\"message\":\"the server is shutting down\"}\n\n"; first != want {
		t.Errorf("got %q, want %q", first, want)
	}
	if again := w.Fail(nil, parley.ErrNotFound); len(again) != 0 {
		t.Errorf("a second error: %q", again)
	}
}

func TestWire_calls_that_never_began_are_shown_whole(t *testing.T) {
	t.Parallel()
	var r recorder
	r.event("scavenger", parley.ToolRequested{Call: "n", Name: "read_notion_mock", Input: json.RawMessage(`{"q":1}`)})
	r.event("scavenger", parley.ToolEnded{ToolResult: parley.ToolResult{Call: "n", Outcome: parley.OutcomeError, Output: "query is missing"}, Name: "read_notion_mock"})
	r.event("scavenger", started("s", "read_slack_mock", "x"))
	again := started("s", "read_slack_mock", "x")
	again.Attempt = 2 // a repeated read is still one call
	r.event("scavenger", again)
	r.event("scavenger", toolEnded("s", "read_slack_mock", "\"scrap\" <it>\nnow"))
	want := []frame{
		{event: "tool_call", data: `{"agent":"scavenger","tool":"read_notion_mock","query":"{\"q\":1}"}`},
		{event: "tool_result", data: `{"agent":"scavenger","tool":"read_notion_mock","result":"query is missing"}`},
		{event: "tool_call", data: `{"agent":"scavenger","tool":"read_slack_mock","query":"x"}`},
		{event: "tool_result", data: `{"agent":"scavenger","tool":"read_slack_mock","result":"\"scrap\" <it>\nnow"}`},
	}
	if diff := cmp.Diff(want, parse(t, frames(&chaos.Wire{}, r.frames)), cmp.AllowUnexported(frame{})); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

// TestWire_cursor_is_never_ahead_of_what_was_shown: a client may resume after an id on the
// native wire, so everything up to that id must have been shown.
func TestWire_cursor_is_never_ahead_of_what_was_shown(t *testing.T) {
	t.Parallel()
	got := parse(t, frames(&chaos.Wire{Cursor: true}, demo()))
	var ids []string
	for _, f := range got {
		if f.id != "" {
			ids = append(ids, f.event+" "+f.id)
		}
	}
	// The result of the first call comes with event 13, which ended that call. The result of
	// the second was held back until then.
	want := []string{
		"agent_start 2", "agent_start 5", "tool_result 13", "agent_start 16", "agent_start 19", "done 22",
	}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
}
