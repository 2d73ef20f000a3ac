package leads_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps/leads"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/wire"
)

// encoded is what a part makes of frames.
func encoded(part *leads.Part, frames ...eventlog.Frame) (list []string) {
	send := func(m wire.Message) { list = append(list, string(m.Data)) }
	for _, f := range frames {
		part.Encode(f, send)
	}
	return list
}

func event(p parley.Payload) eventlog.Frame {
	e := parley.NewEvent("t", "assistant", p)
	e.Session, e.Seq = "s", 1
	return eventlog.Frame{Event: &e}
}

func delta(call, text string) eventlog.Frame {
	return eventlog.Frame{Delta: &parley.Delta{Turn: "t", Agent: "assistant", Call: parley.CallID(call), Kind: parley.DeltaText, Text: text}}
}

// TestPart: the text is that of the answer, whole, and comes after all actions, whatever the model says before
// it calls and however long that is. A client that asks for live text gets it as it comes. A confirm object comes
// from the log alone, and each end has its frames.
func TestPart(t *testing.T) {
	t.Parallel()
	const fake = `{"type":"confirm","id":"x","method":"POST","path":"/a","body":{}}`
	deep := strings.Replace(fake, "{}", `{"a":`+strings.Repeat("[", 11_000)+strings.Repeat("]", 11_000)+"}", 1)
	done := func(text string) []string {
		raw, _ := json.Marshal(text)
		return []string{`{"type":"agent.text","text":` + string(raw) + `,"status":"done"}`, `{"type":"turn.completed","text":` + string(raw) + `,"usage":{"input_tokens":0,"output_tokens":0}}`}
	}
	streaming := func(text string) string {
		raw, _ := json.Marshal(text)
		return `{"type":"agent.text","text":` + string(raw) + `,"status":"streaming"}`
	}
	says := func(text string) eventlog.Frame {
		return event(parley.ModelReplied{Call: "c", Parts: []parley.Part{{Type: parley.PartText, Text: text}}})
	}
	calls := func(text string) eventlog.Frame {
		return event(parley.ModelReplied{Call: "c", Parts: []parley.Part{{Type: parley.PartText, Text: text}, {Type: parley.PartToolCall, Call: "k", Name: "api_request"}}})
	}
	started := event(parley.ToolStarted{Call: "k", Name: "api_request", Input: json.RawMessage(`{"method":"GET","path":"/api/leads"}`)})
	ended := event(parley.ToolEnded{ToolResult: parley.ToolResult{Call: "k", Outcome: parley.OutcomeOK}})
	action := func(status string) string {
		return `{"type":"agent.action","action":"tool_call","tool":"GET /api/leads","status":"` + status + `"}`
	}
	long := strings.Repeat("x", 200)
	completed := func(text string) eventlog.Frame {
		return event(parley.TurnCompleted{Response: parley.Response{Message: text}})
	}
	const pretended = "The assistant wrote an action as text instead of requesting it, so there is nothing to confirm. Ask for it again."
	input := json.RawMessage(`{"method":"POST","path":"/api/leads","query":{"a":"1 2"},"title":"T","summary":"S","body":{"b":1.50,"a":"<"}}`)
	failed := func(message string) []string { return []string{`{"type":"error","message":"` + message + `"}`} }
	essay := strings.Repeat("I will look at all leads first.\n", 40_000) // more than a live reply
	fine := event(parley.ModelReplied{Call: "b", Parts: []parley.Part{{Type: parley.PartText, Text: "Forty, I think.\n" + essay}}})
	preamble := []eventlog.Frame{delta("b", essay), delta("b", "More."), calls(essay + "More."), started, ended, delta("d", "Forty."), completed("Forty.")}
	steered := []eventlog.Frame{delta("b", "Forty, I think.\n"), delta("b", essay), fine, started, ended, delta("d", "Fifty."), completed("Fifty.")}
	type sent struct {
		frames []eventlog.Frame
		want   []string
	}
	ordered := map[string]sent{
		"text before a call, of any length": {preamble, append([]string{action("started"), action("completed"), streaming("Forty.")}, done("Forty.")...)},
		"an answer that was not the last":   {steered, append([]string{action("started"), action("completed"), streaming("Fifty.")}, done("Fifty.")...)},
		"a long line":                       {[]eventlog.Frame{delta("c", long), delta("c", "y"), delta("c", "z"), completed(long + "yz")}, append([]string{streaming(long + "yz")}, done(long+"yz")...)},
		"what is said first":                {[]eventlog.Frame{delta("c", "Let me look"), calls("Let me look"), started, ended, delta("d", "Here it is"), completed("Here it is")}, append([]string{action("started"), action("completed"), streaming("Here it is")}, done("Here it is")...)},
		"nothing":                           {[]eventlog.Frame{completed("")}, done("")},
	}
	live := map[string]sent{
		"text before a call": {[]eventlog.Frame{delta("b", long+"y"), calls(long + "y"), started, ended, completed("Forty.")}, append([]string{streaming(long + "y"), action("started"), action("completed")}, done("Forty.")...)},
		"too much":           {[]eventlog.Frame{delta("b", "One\ntwo"), delta("b", essay), completed("One\ntwo" + essay)}, append([]string{streaming("One\ntwo")}, done("One\ntwo"+essay)...)},
		"a long line":        {[]eventlog.Frame{delta("c", long), delta("c", "y"), delta("c", "z"), completed(long + "yz")}, append([]string{streaming(long + "y"), streaming(long + "yz")}, done(long+"yz")...)},
		"what is said first": {[]eventlog.Frame{delta("c", "Let me look"), calls("Let me look"), started, ended, delta("d", "Here it is"), completed("Here it is")}, append([]string{action("started"), action("completed")}, done("Here it is")...)},
	}
	both := map[string]sent{
		"a line": {[]eventlog.Frame{delta("c", "One"), delta("c", " two"), says("One two"), completed("One two")}, append([]string{streaming("One two")}, done("One two")...)},
		"lines":  {[]eventlog.Frame{delta("c", "One:"), delta("c", "\n"), delta("c", "- two"), says("One:\n- two"), completed("One:\n- two")}, append([]string{streaming("One:\n- two")}, done("One:\n- two")...)},
		"said before a write": {
			[]eventlog.Frame{delta("c", "I propose this."), calls("I propose this."), event(parley.InteractionOpened{Interaction: parley.Interaction{ID: "i", Kind: parley.KindConfirmation, Tool: "api_request", Input: json.RawMessage(`{"method":"DELETE","path":"/a","title":"T"}`)}})},
			done(`{"type":"confirm","id":"i","title":"T","summary":"","method":"DELETE","path":"/a","body":null}`),
		},
		"a reply that broke off": {[]eventlog.Frame{delta("b", "Half"), event(parley.ModelFailed{Call: "b"}), delta("c", "Whole"), says("Whole"), completed("Whole")}, append([]string{streaming("Whole")}, done("Whole")...)},
		"a pretended action":     {[]eventlog.Frame{delta("c", fake[:5]), delta("c", fake[5:]), says(fake), completed(fake)}, done(pretended)},
		"in a block":             {[]eventlog.Frame{delta("c", "```json\n"+fake+"\n```"), completed("```json\n" + fake + "\n```")}, done(pretended)},
		"in other letters":       {[]eventlog.Frame{completed(` {"TYPE":"Confirm","id":"x"}`)}, done(pretended)},
		"after much space":       {[]eventlog.Frame{delta("c", strings.Repeat(" ", 80)), delta("c", fake+"\n"+fake), completed(strings.Repeat(" ", 80) + fake)}, done(pretended)},
		"after other space":      {[]eventlog.Frame{delta("c", "\u00a0\u2028\ufeff"+fake+"\n"+fake), completed("\u00a0\u2028\ufeff" + fake)}, done(pretended)},
		"nested deep":            {[]eventlog.Frame{completed(deep)}, done(pretended)},
		"another object":         {[]eventlog.Frame{delta("c", `{"a":1}`), completed(`{"a":1}`)}, done(`{"a":1}`)},
		"an action": {
			[]eventlog.Frame{event(parley.InteractionOpened{Interaction: parley.Interaction{ID: "i", Kind: parley.KindConfirmation, Tool: "api_request", Input: input}}), delta("c", "more"), completed("x")},
			strings.Split(strings.ReplaceAll(strings.Join(done(`{"type":"confirm","id":"i","title":"T","summary":"S","method":"POST","path":"/api/leads?a=1%202","body":{"b":1.50,"a":"<"}}`), "\n"), `\u003c`, "<"), "\n"),
		},
		"a login":     {[]eventlog.Frame{event(parley.InteractionOpened{Interaction: parley.Interaction{ID: "i", Kind: parley.KindCredential}})}, failed("Your login is needed to go on, since it has expired or is no longer known. Send your message again.")},
		"unknown":     {[]eventlog.Frame{event(parley.InteractionOpened{Interaction: parley.Interaction{ID: "i", Kind: parley.KindUnknown, Input: input}})}, done("It is not known whether POST /api/leads?a=1%202 was carried out: the answer was lost. Nothing is sent again by itself. Look at the data, and say how to go on.")},
		"failed":      {[]eventlog.Frame{event(parley.TurnFailed{Error: parley.ErrorInfo{Message: "no"}}), completed("x")}, failed("no")},
		"cancelled":   {[]eventlog.Frame{event(parley.TurnCancelled{Reason: "enough"})}, failed("The request was cancelled: enough")},
		"expired":     {[]eventlog.Frame{event(parley.TurnExpired{})}, failed("The request expired.")},
		"cut off":     {[]eventlog.Frame{event(parley.TurnInterrupted{})}, failed("The request was cut off. Send your message again to go on.")},
		"it goes on":  {[]eventlog.Frame{event(parley.TurnInterrupted{Resumes: true}), completed("x")}, done("x")},
		"a call":      {[]eventlog.Frame{event(parley.ToolStarted{Call: "k", Name: "api_request", Input: input}), event(parley.ToolStarted{Call: "k", Name: "api_request", Input: input, Attempt: 2}), event(parley.ToolEnded{ToolResult: parley.ToolResult{Call: "k", Outcome: parley.OutcomeUnknown}})}, []string{`{"type":"agent.action","action":"tool_call","tool":"POST /api/leads","status":"started"}`, `{"type":"agent.action","action":"tool_call","tool":"POST /api/leads","status":"failed"}`}},
		"a skill":     {[]eventlog.Frame{event(parley.ToolStarted{Call: "k", Name: "Skill", Input: json.RawMessage(`{"skill":"leads"}`)}), event(parley.ToolEnded{ToolResult: parley.ToolResult{Call: "k", Outcome: parley.OutcomeOK}})}, []string{`{"type":"agent.action","action":"command","command":"Skill leads","status":"started"}`, `{"type":"agent.action","action":"command","command":"Skill leads","status":"completed"}`}},
		"not started": {[]eventlog.Frame{event(parley.ToolEnded{ToolResult: parley.ToolResult{Call: "k", Outcome: parley.OutcomeDenied}})}, nil},
	}
	final := func(list []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(f string) bool { return strings.Contains(f, `"status":"streaming"`) })
	}
	check := func(cases map[string]sent, live bool, part func([]string) []string) {
		for name, c := range cases {
			got := encoded(leads.NewPart("s", "t", 0, live), c.frames...)
			if diff := cmp.Diff(part(c.want), part(got), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s, live %v: %s", name, live, diff)
			}
		}
	}
	check(ordered, false, slices.Clone)
	check(live, true, slices.Clone)
	check(both, true, slices.Clone)
	check(both, false, final) // how much is sent before the end is what differs
}

// line is the wire over an engine in memory. Tokens are the names of users.
func line(t *testing.T, model enginetest.Model, change ...func(*leads.Options)) (*enginetest.Rig, string) {
	t.Helper()
	r := enginetest.New(t, model, enginetest.App(func(a *parley.App) { a.Busy = parley.BusySteer }))
	t.Cleanup(r.Close)
	o := leads.Options{
		App: "test", Engine: r.Engine, Follow: r.Reader.Follow, Read: r.Reader.Read, Fail: api.WriteError,
		Whose: func(_ context.Context, _ *http.Request, token, org string) (parley.Principal, error) {
			if !strings.HasPrefix(token, "token-") {
				return parley.Principal{}, errors.New("who is that?")
			}
			return parley.Principal{User: token, Org: org}, nil
		},
	}
	for _, f := range change {
		f(&o)
	}
	s := httptest.NewServer(leads.Socket(o))
	t.Cleanup(s.Close)
	return r, "ws" + strings.TrimPrefix(s.URL, "http")
}

func dial(t *testing.T, url string) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

// TestSocket_strangers: a connection without a valid chat is closed in time, and one with a valid chat
// stays, whatever it says later.
func TestSocket_strangers(t *testing.T) {
	t.Parallel()
	_, url := line(t, enginetest.Echo, func(o *leads.Options) { o.Within = 300 * time.Millisecond })
	for name, said := range map[string]string{
		"nothing": "", "no token": `{"type":"chat","message":"x"}`, "a wrong one": `{"type":"chat","message":"x","token":"wrong"}`, "a reset": `{"type":"reset","sessionId":"x"}`, "no JSON": `x`,
	} {
		conn := dial(t, url)
		if said != "" {
			if err := conn.Write(t.Context(), websocket.MessageText, []byte(said)); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		for err == nil {
			_, _, err = conn.Read(t.Context())
		}
		if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := &browser{t: t, conn: dial(t, url), token: "token-a"}
	if f := b.ask("hello"); f.Type != "turn.completed" {
		t.Errorf("got %+v", f)
	}
	<-time.After(400 * time.Millisecond) // real sockets have no fake time
	for _, wrong := range []string{`{}`, `[]`, `{"type":"x"}`, `{"type":"chat"}`, `{"type":"chat","message":7,"token":"token-a"}`, `{"type":"chat","message":" ","token":"token-a"}`, `{"type":"chat","Token":"token-a","message":"x"}`, `{"type":"chat","message":"x","token":"token-a","token":"token-b"}`} {
		if err := b.conn.Write(t.Context(), websocket.MessageText, []byte(wrong)); err != nil {
			t.Fatal(err)
		}
		if f := b.read(); f.Type != "error" || f.Message == "" {
			t.Errorf("%s: got %+v", wrong, f)
		}
	}
	if f := b.ask("still there"); f.Type != "turn.completed" {
		t.Errorf("got %+v", f)
	}
}

// TestSocket_sessions: an unknown session and another's are alike: both begin a new one. A reset ends
// one that the connection has used, and no other.
func TestSocket_sessions(t *testing.T) {
	t.Parallel()
	r, url := line(t, enginetest.Echo)
	a, b := &browser{t: t, conn: dial(t, url), token: "token-a"}, &browser{t: t, conn: dial(t, url), token: "token-b"}
	a.ask("one")
	first := a.session
	if a.ask("two"); a.session != first {
		t.Errorf("got %s, want %s", a.session, first)
	}
	for _, id := range []string{first, "01ZZZZZZZZZZZZZZZZZZZZZZZZ", "x", strings.Repeat("x", 500), "../" + first} {
		b.session = id
		if f := b.ask("mine?"); f.Type != "turn.completed" || b.session == id || len(b.frames) < 3 || b.frames[0].Type != "session.id" || b.frames[1].Type != "turn.started" {
			t.Errorf("%s: got %+v", id, b.frames)
		}
	}
	c := &browser{t: t, conn: dial(t, url), token: "token-a"}
	c.ask("elsewhere")
	c.say(map[string]any{"type": "reset", "sessionId": first}) // which it has not used
	a.session = first
	if a.ask("three"); a.session != first {
		t.Errorf("another connection has reset it: %s", a.session)
	}
	a.say(map[string]any{"type": "reset", "sessionId": first})
	if a.ask("four"); a.session == first {
		t.Error("it was not reset")
	}
	info, err := r.Engine.Session(t.Context(), parley.Principal{User: "token-a"}, parley.SessionID(first))
	if err != nil || info.Status != parley.Ended {
		t.Errorf("got %+v, %v", info.Status, err)
	}
}

// declining is an engine in which an action is declined while somebody confirms it.
type declining struct{ leads.Engine }

func (d declining) Interaction(ctx context.Context, p parley.Principal, id parley.InteractionID) (seam.InteractionRow, error) {
	row, err := d.Engine.Interaction(ctx, p, id)
	if err == nil && row.Open {
		_, err = d.Answer(ctx, p, id, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceDeny}})
	}
	row.Kind = parley.KindConfirmation // the tool of this test asks for a permission
	return row, err
}

// TestSocket_declinedMeanwhile: who confirms an action while it is declined elsewhere is told so in the
// words of this wire, without ids.
func TestSocket_declinedMeanwhile(t *testing.T) {
	t.Parallel()
	r := enginetest.New(t, func(_ context.Context, q seam.Request, say func(string)) (seam.Reply, error) {
		if len(enginetest.Results(q)) > 0 {
			say("declined")
			return seam.Reply{}, nil
		}
		return seam.Reply{Parts: []parley.Part{enginetest.Call("mail", map[string]string{"text": "hi"})}}, nil
	}, enginetest.App(func(a *parley.App) {
		a.Busy = parley.BusySteer
		a.Policy = parley.Policy{Rules: []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}}}
	}))
	t.Cleanup(r.Close)
	srv := httptest.NewServer(leads.Socket(leads.Options{
		App: "test", Engine: declining{r.Engine}, Follow: r.Reader.Follow, Read: r.Reader.Read, Fail: api.WriteError,
		Whose: func(context.Context, *http.Request, string, string) (parley.Principal, error) {
			return parley.Principal{User: "ann"}, nil
		},
	}))
	t.Cleanup(srv.Close)
	b := &browser{t: t, conn: dial(t, "ws"+strings.TrimPrefix(srv.URL, "http")), token: "token-a"}
	if f := b.ask("mail it"); f.Type != "turn.completed" {
		t.Fatalf("got %+v", b.frames)
	}
	var id parley.InteractionID
	for _, e := range r.Log(parley.SessionID(b.session)) {
		if p, err := e.Payload(); err == nil {
			if in, ok := p.(parley.InteractionOpened); ok {
				id = in.Interaction.ID
			}
		}
	}
	if f := b.ask("CONFIRM_ACTION: " + string(id)); f.Type != "error" || f.Message != "This action is no longer waiting: it was declined, or not confirmed in time. Nothing was sent." {
		t.Errorf("got %+v", f)
	}
}

// TestSocket_steers: a chat that comes while a turn works joins it, and is answered with it.
func TestSocket_steers(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan bool, 8), make(chan bool)
	r, url := line(t, func(ctx context.Context, q seam.Request, say func(string)) (seam.Reply, error) {
		if strings.Contains(enginetest.Last(q), "slow") {
			begun <- true
			select {
			case <-goOn:
			case <-ctx.Done():
			}
		}
		say(fmt.Sprint("heard ", enginetest.Last(q)))
		return seam.Reply{}, nil
	})
	b := &browser{t: t, conn: dial(t, url), token: "token-a"}
	b.say(map[string]any{"type": "chat", "message": "slow", "token": b.token})
	<-begun
	list, _, err := r.Engine.SessionPage(t.Context(), parley.Principal{User: "token-a"}, seam.SessionQuery{App: "test", Limit: 5})
	if err != nil || len(list) != 1 {
		t.Fatalf("%v %v", list, err)
	}
	b.say(map[string]any{"type": "chat", "message": "and this", "token": b.token, "sessionId": string(list[0].ID)})
	for {
		if events := r.Log(list[0].ID); strings.Contains(enginetest.Types(events), "turn.steered") {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	close(goOn)
	f := b.read()
	if f.Type != "turn.completed" {
		t.Errorf("got %+v", b.frames)
	}
	if !strings.Contains(f.Text, "and this") { // its turn had ended before it could read it
		f = b.read()
	}
	if !strings.Contains(f.Text, "and this") {
		t.Errorf("got %+v", f)
	}
	if f := b.ask("then"); !strings.Contains(f.Text, "then") {
		t.Errorf("got %+v", b.frames)
	}
}
