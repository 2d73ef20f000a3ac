package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/redact/redacttest"
	"github.com/parley-server/parley/internal/seam"
)

// line is a client of the WebSocket.
type line struct {
	t *testing.T
	*websocket.Conn
	last int64            // the cursor
	logs []string         // events, as they came
	said []map[string]any // replies
}

func (w *world) connect(id parley.SessionID, query string, header ...string) (*line, *http.Response, error) {
	w.t.Helper()
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	c, resp, err := websocket.Dial(w.t.Context(), w.url+"/v1/sessions/"+string(id)+"/ws"+query, &websocket.DialOptions{HTTPHeader: h})
	if err == nil {
		c.SetReadLimit(-1)
		w.t.Cleanup(func() { _ = c.CloseNow() })
	}
	return &line{t: w.t, Conn: c}, resp, err
}

func (w *world) line(id parley.SessionID, query string) *line {
	w.t.Helper()
	l, _, err := w.connect(id, query)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// next reads one message.
func (l *line) next() map[string]any {
	l.t.Helper()
	ctx, stop := context.WithTimeout(l.t.Context(), time.Minute)
	defer stop()
	_, b, err := l.Read(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		l.t.Fatalf("%v in %s", err, b)
	}
	if seq, ok := m["seq"].(float64); ok {
		l.last = int64(seq)
		l.logs = append(l.logs, string(b))
	}
	if m["type"] == "reply" {
		l.said = append(l.said, m)
	}
	return m
}

func (l *line) until(types string) map[string]any {
	l.t.Helper()
	for {
		if m := l.next(); m["type"] == types {
			return m
		}
	}
}

// say sends a command and returns its reply.
func (l *line) say(message string) map[string]any {
	l.t.Helper()
	if err := l.Write(l.t.Context(), websocket.MessageText, []byte(message)); err != nil {
		l.t.Fatal(err)
	}
	return l.until("reply")
}

func field(m map[string]any, path ...string) any {
	var v any = m
	for _, name := range path {
		in, _ := v.(map[string]any)
		v = in[name]
	}
	return v
}

// TestSocket_a_whole_conversation: a message, a question, its answer, a retry, a cancel.
func TestSocket_a_whole_conversation(t *testing.T) {
	t.Parallel()
	model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if got := enginetest.Results(r); len(got) > 0 {
			say("done")
			return seam.Reply{}, nil
		}
		return seam.Reply{Parts: []parley.Part{enginetest.Call("mail", map[string]string{"text": "hi"})}}, nil
	}
	w := newWorld(t, model, enginetest.App(func(a *parley.App) {
		a.Policy = parley.Policy{Rules: []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}}}
	}))
	s := w.session(`{"app":"test"}`)
	l := w.line(s.ID, "")
	sent := l.say(`{"do":"send","id":"a","key":"k1","body":{"message":"mail it"}}`)
	turn, _ := field(sent, "body", "id").(string)
	if sent["id"] != "a" || sent["status"] != 202.0 || turn == "" {
		t.Fatalf("got %v", sent)
	}
	if again := l.say(`{"do":"send","id":"b","key":"k1","body":{"message":"mail it"}}`); field(again, "body", "id") != turn {
		t.Errorf("with the same key: %v", again)
	}
	var opened string
	for opened == "" {
		for _, e := range l.logs {
			var ev struct {
				Type string
				Data struct{ ID string }
			}
			if json.Unmarshal([]byte(e), &ev) == nil && ev.Type == "interaction.opened" {
				opened = ev.Data.ID
			}
		}
		if opened == "" {
			l.next()
		}
	}
	if got := l.say(fmt.Sprintf(`{"do":"answer","interaction":%q,"body":{"choice":"allow"}}`, opened)); got["status"] != 200.0 {
		t.Fatalf("answer: %v", got)
	}
	w.call(200, nil, "POST", "/v1/turns/"+turn+"/await", "")
	retried := l.say(fmt.Sprintf(`{"do":"retry","turn":%q}`, turn))
	second, _ := field(retried, "body", "id").(string)
	if retried["status"] != 202.0 || second == turn {
		t.Fatalf("retry: %v", retried)
	}
	if got := l.say(fmt.Sprintf(`{"do":"cancel","turn":%q,"body":{"reason":"enough"}}`, second)); got["status"] != 200.0 {
		t.Errorf("cancel: %v", got)
	}
	if got := l.say(fmt.Sprintf(`{"do":"rewind","key":"w","body":{"turn":%q}}`, turn)); got["status"] != 200.0 || field(got, "body", "turn") != turn {
		t.Errorf("rewind: %v", got)
	}
	if got := l.say(`{"do":"rewind","body":{}}`); got["status"] != 400.0 || field(got, "error", "field") != "turn" {
		t.Errorf("rewind to nothing: %v", got)
	}
	if got := l.say(fmt.Sprintf(`{"do":"resume","turn":%q}`, turn)); got["status"] != 409.0 || field(got, "error", "code") != "conflict" {
		t.Errorf("resume of a turn that is over: %v", got)
	}
	w.call(200, nil, "POST", "/v1/turns/"+second+"/await", "")
	// What the socket showed is the log, and a client that comes back gets the rest.
	all := jsonOf(w.rig.Log(s.ID))
	for l.last < int64(len(all)) {
		l.next()
	}
	if diff := cmp.Diff(all, l.logs); diff != "" {
		t.Errorf("(-log +socket):\n%s", diff)
	}
	for cut := range all {
		back := w.line(s.ID, fmt.Sprint("?after=", cut))
		for back.last < int64(len(all)) {
			back.next()
		}
		if diff := cmp.Diff(all[cut:], back.logs); diff != "" {
			t.Fatalf("after %d (-log +socket):\n%s", cut, diff)
		}
		_ = back.CloseNow()
	}
}

// TestSocket_refuses_commands: a wrong command gets an error of the one shape in its reply, and the
// connection stays open.
func TestSocket_refuses_commands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	s := w.session(`{"app":"test"}`)
	l := w.line(s.ID, "?types=turn.*&deltas=false")
	for _, c := range []struct {
		message string
		status  float64
		field   string
		says    string
	}{
		{`hello`, 400, "", "JSON"},
		{`[]`, 400, "", "JSON"},
		{`{}`, 400, "do", "no command"},
		{`{"do":"delete"}`, 400, "do", "no command"},
		{`{"do":"send","mood":1}`, 400, "mood", "not known"},
		{`{"do":"send","do":"send"}`, 400, "do", "twice"},
		{`{"do":7}`, 400, "do", "text"},
		{`{"do":"send"}`, 400, "", "body"},
		{`{"do":"send","body":{}}`, 400, "message", ""},
		{`{"do":"send","body":{"message":"x","mood":1}}`, 400, "mood", ""},
		{`{"do":"send","body":{"message":" "}}`, 400, "message", "empty"},
		{`{"do":"send","id":"` + strings.Repeat("x", 200) + `","body":{"message":"x"}}`, 400, "id", "128"},
		{`{"do":"cancel"}`, 400, "turn", "not the id of a turn"},
		{`{"do":"cancel","turn":"../x"}`, 400, "turn", "not the id of a turn"},
		{`{"do":"cancel","turn":"a?b#c%2f"}`, 404, "", ""},
		{`{"do":"answer","interaction":"x","body":{"choice":"allow"}}`, 404, "", ""},
	} {
		got := l.say(c.message)
		message, _ := field(got, "error", "message").(string)
		if got["status"] != c.status || !strings.Contains(message, c.says) || message == "" || c.field != "" && field(got, "error", "field") != c.field {
			t.Errorf("%.80s: got %v; want %v, field %q, saying %q", c.message, got, c.status, c.field, c.says)
		}
	}
	if got := l.say(`{"do":"send","id":"last","body":{"message":"hello"}}`); got["status"] != 202.0 {
		t.Errorf("after all that: %v", got)
	}
}

// TestSocket_is_refused_before_the_handshake, like a stream that asks for the same.
func TestSocket_is_refused_before_the_handshake(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App(), func(o *api.Options) { o.MaxUserStreams = 2 })
	s := w.session(`{"app":"test"}`)
	for _, c := range []struct {
		name   string
		id     parley.SessionID
		query  string
		header []string
		status int
	}{
		{"no session", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "", nil, 404},
		{"another's session", s.ID, "", []string{"Test-User", "bob"}, 404},
		{"nobody", s.ID, "", []string{"Test-User", "nobody"}, 401},
		{"a page of elsewhere", s.ID, "", []string{"Origin", "https://evil.example"}, 403},
		{"a page without an origin", s.ID, "", []string{"Origin", "null"}, 403},
		{"another port", s.ID, "", []string{"Origin", "http://127.0.0.1:1"}, 403},
		{"a cursor beyond the end", s.ID, "?after=99", nil, 400},
		{"no cursor", s.ID, "?after=x", nil, 400},
		{"an unknown parameter", s.ID, "?mood=1", nil, 400},
		{"an unknown type", s.ID, "?types=x", nil, 400},
		{"a listed page", s.ID, "", []string{"Origin", "http://localhost:5173"}, 101},
		{"our page", s.ID, "", []string{"Origin", w.url}, 101},
		{"one too many", s.ID, "", nil, 429},
	} {
		_, resp, err := w.connect(c.id, c.query, c.header...)
		if resp == nil || resp.StatusCode != c.status || (err == nil) != (c.status == 101) {
			t.Errorf("%s: got %v, %v; want %d", c.name, resp, err, c.status)
		}
		if resp != nil && c.status != 101 {
			problem(t, resp)
		}
	}
	path := "/v1/sessions/" + string(s.ID) + "/ws"
	for _, method := range []string{"GET", "HEAD"} {
		if resp := w.ask(method, path, "", "Test-User", "carl"); resp.StatusCode != 404 {
			t.Errorf("another's %s without a handshake: %s", method, resp.Status)
		}
	}
	w2 := newWorld(t, enginetest.Echo, enginetest.App())
	path = "/v1/sessions/" + string(w2.session(`{"app":"test"}`).ID) + "/ws"
	for _, method := range []string{"GET", "HEAD"} {
		if resp := w2.ask(method, path, ""); resp.StatusCode != http.StatusUpgradeRequired {
			t.Errorf("%s without a handshake: %s", method, resp.Status)
		}
	}
}

// TestSocket_redacts_refusals: a refusal may quote the command. It does not pass the guard, but it
// is redacted, too.
func TestSocket_redacts_refusals(t *testing.T) {
	t.Parallel()
	red := redact.New(redacttest.Known)
	w := newWorld(t, enginetest.Echo, enginetest.App(), func(o *api.Options) {
		o.Redact = func(b []byte) []byte { out, _ := red.JSON(b); return out }
	})
	l := w.line(w.session(`{"app":"test"}`).ID, "")
	for _, secret := range redacttest.Secrets(1)[:10] {
		text, _ := json.Marshal(secret.Text())
		for _, form := range []string{`{"do":%s}`, `{"do":"cancel","turn":%s}`, `{"do":"send","body":{"message":"x","busy":%s}}`} {
			got, err := json.Marshal(l.say(fmt.Sprintf(form, text)))
			if err != nil {
				t.Fatal(err)
			}
			if leaks := redacttest.Leaks(got, []redacttest.Secret{secret}); leaks != nil {
				t.Errorf("%s: %v in %s", form, leaks, got)
			}
		}
	}
}

// TestSocket_client_tools: a call is claimed over HTTP and reported over a WebSocket.
func TestSocket_client_tools(t *testing.T) {
	t.Parallel()
	model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if got := enginetest.Results(r); len(got) > 0 {
			say(got[0])
			return seam.Reply{}, nil
		}
		return seam.Reply{Parts: []parley.Part{enginetest.Call("look", map[string]string{"text": "hi"})}}, nil
	}
	w := newWorld(t, model, enginetest.App(enginetest.ByClients))
	s := w.session(`{"app":"test"}`)
	var turn parley.TurnInfo
	w.call(202, &turn, "POST", "/v1/sessions/"+string(s.ID)+"/turns", `{"message":"look"}`)
	w.call(200, &turn, "POST", "/v1/turns/"+string(turn.ID)+"/await", "")
	in := string(turn.Interactions[0])
	path := "/v1/interactions/" + in
	w.call(400, nil, "POST", path+"/claim", `{"token":"short"}`)
	w.call(409, nil, "POST", path+"/report", `{"token":"x","output":"seen"}`)
	var claimed parley.Claimed
	w.call(200, &claimed, "POST", path+"/claim", "")
	if claimed.Tool != "look" || claimed.Token == "" || claimed.LeftMS <= 0 || string(claimed.Input) != `{"text":"hi"}` {
		t.Errorf("claimed: %+v", claimed)
	}
	l := w.line(s.ID, "")
	if got := l.say(fmt.Sprintf(`{"do":"claim","interaction":%q}`, in)); got["status"] != 409.0 {
		t.Errorf("a second claim: %v", got)
	}
	if got := l.say(fmt.Sprintf(`{"do":"report","interaction":%q,"body":{"token":"x","output":"seen"}}`, in)); got["status"] != 403.0 {
		t.Errorf("another token: %v", got)
	}
	report := fmt.Sprintf(`{"do":"report","interaction":%q,"body":{"token":%q,"output":"seen","files":[{"name":"a.png","data":"iVBORw=="}]}}`, in, claimed.Token)
	for range 2 {
		if got := l.say(report); got["status"] != 200.0 || field(got, "body", "output") != "seen" {
			t.Errorf("report: %v", got)
		}
	}
	w.call(200, &turn, "POST", "/v1/turns/"+string(turn.ID)+"/await", "")
	if turn.Response == nil || !strings.HasPrefix(turn.Response.Message, "seen") {
		t.Errorf("got %+v", turn)
	}
	for _, ev := range w.rig.Log(s.ID) {
		if strings.Contains(string(ev.Data), claimed.Token) {
			t.Errorf("%s has the token", ev.Type)
		}
	}
}
