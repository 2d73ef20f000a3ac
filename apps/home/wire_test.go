package home_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps/home"
	"github.com/parley-server/parley/internal/eventlog"
)

// story is a session's log with the text in flight between its events.
type story struct {
	frames []eventlog.Frame
	seq    int64
	turn   parley.TurnID
}

func (s *story) event(agent parley.AgentPath, p parley.Payload) {
	e := parley.NewEvent(s.turn, agent, p)
	s.seq++
	e.Session, e.Seq, e.Time = "s1", s.seq, time.UnixMilli(1000*s.seq).UTC()
	s.frames = append(s.frames, eventlog.Frame{Event: &e})
}

func (s *story) delta(agent parley.AgentPath, call parley.CallID, text string) {
	s.frames = append(s.frames, eventlog.Frame{Delta: &parley.Delta{Session: "s1", Turn: s.turn, Agent: agent, Call: call, Text: text}})
}

func (s *story) start(turn parley.TurnID, client, message string) {
	s.turn = turn
	s.event("", parley.TurnStarted{TurnRequest: parley.TurnRequest{Origin: parley.OriginUser, Client: client, Message: parley.Text(parley.RoleUser, message)}})
	s.event("assistant", parley.AgentStarted{Name: "assistant"})
}

func (s *story) text(call parley.CallID, pieces ...string) []parley.Part {
	s.event("assistant", parley.ModelStarted{Call: call, Model: "m"})
	for _, p := range pieces {
		s.delta("assistant", call, p)
	}
	return []parley.Part{{Type: parley.PartText, Text: strings.Join(pieces, "")}}
}

// flicker is a session with everything that this wire can show: a question with calls, a turn
// that waits and is steered, and one that fails.
func flicker() story {
	var s story
	s.event("", parley.SessionCreated{App: "home", User: "ana"})
	s.start("t1", "mcp", "why did the lights flicker?")
	s.event("", parley.ContextRetrieved{Snippets: []parley.Snippet{{Source: "index", Ref: "light.bedroom", Text: "Bedroom light"}}})
	plan := append(s.text("c1", "I look at ", "the history."), parley.Part{Type: parley.PartToolCall, Call: "k1", Name: "ha_history", Input: json.RawMessage(`{"entity":"light.bedroom"}`)})
	s.event("assistant", parley.ModelReplied{Call: "c1", Model: "m", Parts: plan})
	s.event("assistant", parley.ToolStarted{Call: "k1", Name: "ha_history", Input: json.RawMessage(`{"entity":"light.bedroom"}`), Effect: parley.EffectRead, Attempt: 1})
	s.event("assistant", parley.ToolEnded{ToolResult: parley.ToolResult{Call: "k1", Outcome: parley.OutcomeOK, Output: "3 dips"}, Name: "ha_history"})
	s.text("c2", "Volt")
	s.event("assistant", parley.ModelFailed{Call: "c2", Error: parley.ErrorInfo{Code: parley.CodeUnavailable, Message: "overloaded"}, Retry: true, Partial: "Volt"})
	said := s.text("c3", "Voltage ", "dips", "\n\n")
	s.event("", parley.TurnSteered{Message: parley.Text(parley.RoleUser, "be brief")})
	s.delta("assistant", "c3", "<notes>")
	s.frames = s.frames[:len(s.frames)-1] // the answer's notes are not shown
	s.event("assistant", parley.ModelReplied{Call: "c3", Model: "m", Parts: said})
	s.event("assistant", parley.ModelStarted{Call: "m1", Model: "m"})
	s.frames[len(s.frames)-1].Event.Agent = "assistant/memory#2"
	said = s.text("c4", "Dips ", "at 2 & 3.", "\n")
	s.event("assistant", parley.ModelReplied{Call: "c4", Model: "m", Parts: said})
	s.event("", parley.TurnCompleted{Response: parley.Response{Message: "Dips at 2 & 3.", Citations: []parley.Citation{{Source: "history", Ref: "light.bedroom"}}, FollowUps: []string{"Mitigate?"}}})
	s.start("t2", "page", "turn it off")
	s.event("assistant", parley.InteractionOpened{Interaction: parley.Interaction{ID: "i1", Kind: parley.KindPermission, Title: "Turn off Desk lamp?", Detail: "light.turn_off on light.desk"}})
	s.event("", parley.InteractionAnswered{ID: "i1", Answer: parley.Answer{Choice: parley.ChoiceDeny}})
	s.text("c5", "I stop")
	s.event("assistant", parley.ModelFailed{Call: "c5", Error: parley.ErrorInfo{Code: parley.CodeCancelled, Message: "cut off"}, Partial: "I stop"})
	s.event("", parley.TurnFailed{Error: parley.ErrorInfo{Code: "budget_steps", Message: "the turn has used its steps"}})
	s.start("t3", home.QuietClient, "quietly")
	said = s.text("c6", "Do", "ne.")
	s.event("assistant", parley.ModelReplied{Call: "c6", Model: "m", Parts: said})
	s.event("", parley.TurnCompleted{Response: parley.Response{Message: "Done."}})
	s.start("t4", "", "again")
	s.text("c7", "Half")
	s.event("assistant", parley.ModelFailed{Call: "c7", Error: parley.ErrorInfo{Code: parley.CodeCancelled, Message: "interrupted"}, Partial: "Half"})
	s.event("", parley.TurnInterrupted{Reason: "the server stopped"})
	s.event("", parley.TurnResumed{Attempt: 1})
	said = s.text("c8", "Whole.")
	s.event("assistant", parley.ModelReplied{Call: "c8", Model: "m", Parts: said})
	s.event("", parley.TurnCompleted{Response: parley.Response{Message: "Whole."}})
	return s
}

// got is a frame as the client gets it.
type got struct {
	id   string
	data string
}

func split(raw string) []got {
	var list []got
	for _, f := range strings.SplitAfter(raw, "\n\n") {
		if f == "" {
			continue
		}
		id, data, ok := strings.Cut(strings.TrimSuffix(f, "\n\n"), "\n")
		if !ok {
			id, data = "", id
		}
		list = append(list, got{strings.TrimPrefix(id, "id: "), strings.TrimPrefix(data, "data: ")})
	}
	return list
}

// folded returns the state that a client builds from the frames: everything except partials
// unchanged, and before each plan, error and final the joined partials.
func folded(t *testing.T, list []got) string {
	t.Helper()
	var b, text strings.Builder
	for _, g := range list {
		var m struct {
			Type    string
			Payload struct {
				Partial string `json:"partial_response"`
				Step    struct{ Type string }
			}
		}
		if err := json.Unmarshal([]byte(g.data), &m); err != nil {
			t.Fatalf("%q: %v", g.data, err)
		}
		if m.Type == "partial" {
			text.WriteString(m.Payload.Partial)
			continue
		}
		if kind := m.Payload.Step.Type; m.Type == "final" || kind == "plan" || kind == "error" {
			fmt.Fprintf(&b, "text %q\n", text.String())
			text.Reset()
		}
		fmt.Fprintf(&b, "%s\n", g.data)
	}
	return b.String()
}

func TestSeedFrames(t *testing.T) {
	t.Parallel()
	s := flicker()
	w := home.NewWire(home.Cursor{})
	w.NoIDs = true
	var out []byte
	for _, f := range s.frames {
		out = w.Append(out, f)
	}
	want := `data: {"type":"progress","session_id":"s1","continuation_id":"t1","payload":{"message":"Gathering what the question is about"}}

data: {"type":"step","session_id":"s1","continuation_id":"t1","payload":{"step":{"ts":4000,"type":"retrieval","detail":{"snippets":[{"source":"index","ref":"light.bedroom","text":"Bedroom light"}]}}}}

data: {"type":"partial","session_id":"s1","continuation_id":"t1","payload":{"partial_response":"I look at"}}

data: {"type":"partial","session_id":"s1","continuation_id":"t1","payload":{"partial_response":" the history."}}

data: {"type":"step","session_id":"s1","continuation_id":"t1","payload":{"step":{"ts":6000,"type":"plan","detail":{"agent":"assistant","callId":"c1","model":"m","text":"I look at the history."}}}}

data: {"type":"step","session_id":"s1","continuation_id":"t1","payload":{"step":{"ts":7000,"type":"tool_call","detail":{"agent":"assistant","attempt":1,"callId":"k1","effect":"read","input":{"entity":"light.bedroom"},"tool":"ha_history"}}}}

data: {"type":"step","session_id":"s1","continuation_id":"t1","payload":{"step":{"ts":8000,"type":"tool_result","detail":{"agent":"assistant","callId":"k1","outcome":"ok","result":"3 dips","tool":"ha_history"}}}}

data: {"type":"partial","session_id":"s1","continuation_id":"t1","payload":{"partial_response":"Volt"}}

data: {"type":"step","session_id":"s1","continuation_id":"t1","payload":{"step":{"ts":10000,"type":"error","detail":{"agent":"assistant","callId":"c2","code":"unavailable","message":"overloaded","retry":true}}}}

data: {"type":"partial","session_id":"s1","continuation_id":"t1","payload":{"partial_response":"Voltage"}}

data: {"type":"partial","session_id":"s1","continuation_id":"t1","payload":{"partial_response":" dips"}}

data: {"type":"progress","session_id":"s1","continuation_id":"t1","payload":{"message":"message from the user: be brief"}}

data: {"type":"step","session_id":"s1","continuation_id":"t1","payload":{"step":{"ts":15000,"type":"plan","detail":{"agent":"assistant","callId":"c3","text":"Voltage dips"}}}}

data: {"type":"partial","session_id":"s1","continuation_id":"t1","payload":{"partial_response":"Dips"}}

data: {"type":"partial","session_id":"s1","continuation_id":"t1","payload":{"partial_response":" at 2 & 3."}}

data: {"type":"final","session_id":"s1","continuation_id":"t1","payload":{"final_response":{"finalMessage":"Dips at 2 & 3.","citations":[{"source":"history","ref":"light.bedroom"}],"followUps":["Mitigate?"]}}}

data: {"type":"progress","session_id":"s1","continuation_id":"t2","payload":{"message":"Gathering what the question is about"}}

data: {"type":"progress","session_id":"s1","continuation_id":"t2","payload":{"message":"waiting for a permission: Turn off Desk lamp? (light.turn_off on light.desk; interaction i1)"}}

data: {"type":"progress","session_id":"s1","continuation_id":"t2","payload":{"message":"answered: deny"}}

data: {"type":"partial","session_id":"s1","continuation_id":"t2","payload":{"partial_response":"I stop"}}

data: {"type":"step","session_id":"s1","continuation_id":"t2","payload":{"step":{"ts":24000,"type":"error","detail":{"code":"budget_steps","message":"the turn has used its steps"}}}}

data: {"type":"final","session_id":"s1","continuation_id":"t2","payload":{"message":"the turn has used its steps"}}

data: {"type":"progress","session_id":"s1","continuation_id":"t3","payload":{"message":"Gathering what the question is about"}}

data: {"type":"final","session_id":"s1","continuation_id":"t3","payload":{"final_response":{"finalMessage":"Done."}}}

`
	if diff := cmp.Diff(want, string(out[:min(len(out), len(want))])); diff != "" {
		t.Error(diff)
	}
}

// TestInterruptionThatGoesOn: an interruption that resumes is a step, not the end of the turn.
// The final frame comes with the turn's own end.
func TestInterruptionThatGoesOn(t *testing.T) {
	t.Parallel()
	for _, resumes := range []bool{true, false} {
		s := &story{}
		s.start("t1", "", "again")
		s.event("", parley.TurnInterrupted{Reason: "the server stopped", Resumes: resumes})
		w, raw := home.NewWire(home.Cursor{}), []byte(nil)
		for _, f := range s.frames {
			raw = w.Append(raw, f)
		}
		if finals := strings.Count(string(raw), `"type":"final"`); finals != map[bool]int{true: 0, false: 1}[resumes] || !strings.Contains(string(raw), "the turn was interrupted: the server stopped") {
			t.Errorf("resumes: %t, %d final frames in %s", resumes, finals, raw)
		}
	}
}

// TestCutAfterEveryFrame: a client is cut off after any frame, and resumes at once or when all is
// over. It ends with the same state as a client that was never cut.
func TestCutAfterEveryFrame(t *testing.T) {
	t.Parallel()
	s := flicker()
	whole := home.NewWire(home.Cursor{})
	var raw []byte
	var ends []int // of the story's frames, as offsets in raw
	for _, f := range s.frames {
		raw = whole.Append(raw, f)
		ends = append(ends, len(raw))
	}
	all := split(string(raw))
	want := folded(t, all)
	offset := 0
	for n, g := range all {
		if g.id == "" {
			t.Fatalf("frame %d has no id: %s", n, g.data)
		}
		offset += len("id: ") + len(g.id) + len("\ndata: ") + len(g.data) + len("\n\n")
		at, _ := slices.BinarySearch(ends, offset)
		for back := at; back < len(s.frames); back++ {
			list := slices.Clone(all[:n+1])
			list = append(list, resumed(t, s, g.id, back)...)
			if diff := cmp.Diff(want, folded(t, list)); diff != "" {
				t.Fatalf("cut behind frame %d (id %s), back at %d:\n%s", n, g.id, back, diff)
			}
		}
	}
}

// resumed returns the frames for a client that resumes with the cursor id, when the story has
// reached frame back.
func resumed(t *testing.T, s story, id string, back int) []got {
	t.Helper()
	c, err := home.ParseCursor("after", id)
	if err != nil {
		t.Fatal(err)
	}
	w := home.NewWire(c)
	var raw []byte
	open := map[parley.CallID]*parley.Delta{}
	turn := parley.TurnID("")
	for _, f := range s.frames {
		if f.Event != nil && f.Event.Seq <= c.Seq {
			turn = f.Event.Turn
		}
	}
	for _, f := range s.frames[:back+1] {
		switch {
		case f.Delta != nil && open[f.Delta.Call] == nil:
			d := *f.Delta
			open[d.Call] = &d
		case f.Delta != nil:
			open[f.Delta.Call].Text += f.Delta.Text
		default:
			if f.Event.Seq <= c.Seq {
				if f.Event.Turn == turn && turn != "" {
					w.Prime(*f.Event)
				}
			} else {
				raw = w.Append(raw, f)
			}
			p, err := f.Event.Payload()
			if err != nil {
				t.Fatal(err)
			}
			switch p := p.(type) {
			case parley.ModelReplied:
				delete(open, p.Call)
			case parley.ModelFailed:
				delete(open, p.Call)
			}
		}
	}
	for _, d := range open {
		raw = w.Append(raw, eventlog.Frame{Delta: d, Partial: true})
	}
	for _, f := range s.frames[back+1:] {
		raw = w.Append(raw, f)
	}
	return split(string(raw))
}

func TestParseCursor(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]home.Cursor{
		"": {}, "0": {}, "8": {Seq: 8}, "8.150": {Seq: 8, Text: 150}, "12-1": {Seq: 11, Frames: 1},
	} {
		if got, err := home.ParseCursor("after", id); err != nil || got != want {
			t.Errorf("%q: %+v, %v", id, got, err)
		}
	}
	for _, id := range []string{"x", "-1", "8.", "8.-1", "8.x", "0-1", "12-", "12-9", "12-1.4", "08", "99999999999999999999", " 8", "8.99999999999"} {
		if got, err := home.ParseCursor("after", id); parley.CodeOf(err) != parley.CodeInvalid {
			t.Errorf("%q: %+v, %v", id, got, err)
		}
	}
}

// FuzzCursor: whatever the log, an accepted cursor never makes the wire fail.
func FuzzCursor(f *testing.F) {
	for _, id := range []string{"", "8", "8.150", "12-1", "0", "x.1-2"} {
		f.Add(id)
	}
	s := flicker()
	f.Fuzz(func(t *testing.T, id string) {
		c, err := home.ParseCursor("after", id)
		if err != nil {
			return
		}
		w := home.NewWire(c)
		var out []byte
		for _, fr := range s.frames {
			if fr.Event != nil && fr.Event.Seq <= c.Seq {
				w.Prime(*fr.Event)
			} else {
				out = w.Append(out, fr)
			}
		}
		for _, g := range split(string(out)) {
			if _, err := home.ParseCursor("after", g.id); err != nil || !json.Valid([]byte(g.data)) {
				t.Errorf("after %q: a frame %q %s", id, g.id, g.data)
			}
		}
	})
}
