package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// many is a client of the WebSocket of several sessions.
func (w *world) many(query string) *crowd {
	w.t.Helper()
	c, _, err := websocket.Dial(w.t.Context(), w.url+"/v1/stream"+query, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	c.SetReadLimit(-1)
	w.t.Cleanup(func() { _ = c.CloseNow() })
	return &crowd{line: &line{t: w.t, Conn: c}, of: map[parley.SessionID][]string{}}
}

// crowd keeps the logs of the sessions that a client follows.
type crowd struct {
	*line
	of map[parley.SessionID][]string
}

func (c *crowd) next() map[string]any {
	c.t.Helper()
	n := len(c.logs)
	m := c.line.next()
	if len(c.logs) > n {
		id := parley.SessionID(m["session"].(string))
		c.of[id] = append(c.of[id], c.logs[n])
	}
	return m
}

func (c *crowd) say(format string, args ...any) map[string]any {
	c.t.Helper()
	if err := c.Write(c.t.Context(), websocket.MessageText, fmt.Appendf(nil, format, args...)); err != nil {
		c.t.Fatal(err)
	}
	for {
		if m := c.next(); m["type"] == "reply" {
			return m
		}
	}
}

// TestStreamSocket_sessions_come_and_go: a connection follows the sessions that its client names,
// takes commands for each, and shows nothing of a session that was taken out.
func TestStreamSocket_sessions_come_and_go(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	a := w.session(`{"app":"test"}`)
	c := w.many("?sessions=" + string(a.ID))
	made := c.say(`{"do":"create","id":"1","body":{"app":"test"}}`)
	b := parley.SessionID(fmt.Sprint(field(made, "body", "id")))
	if made["status"] != 201.0 || b == "" {
		t.Fatalf("create: %v", made)
	}
	if got := c.say(`{"do":"subscribe","id":"2","session":%q}`, b); got["status"] != 204.0 || got["id"] != "2" {
		t.Fatalf("subscribe: %v", got)
	}
	for i, id := range []parley.SessionID{a.ID, b, a.ID} {
		sent := c.say(`{"do":"send","session":%q,"key":"k%d","body":{"message":"hello"}}`, id, i)
		if sent["status"] != 202.0 {
			t.Fatalf("send: %v", sent)
		}
		w.call(200, nil, "POST", fmt.Sprintf("/v1/turns/%s/await", field(sent, "body", "id")), "")
	}
	if got := c.say(`{"do":"update","session":%q,"body":{"title":"Later"}}`, b); field(got, "body", "title") != "Later" {
		t.Errorf("update: %v", got)
	}
	for _, id := range []parley.SessionID{a.ID, b} {
		all := jsonOf(w.rig.Log(id))
		for len(c.of[id]) < len(all) {
			c.next()
		}
		if diff := cmp.Diff(all, c.of[id]); diff != "" {
			t.Errorf("(-log +socket):\n%s", diff)
		}
	}
	if got := c.say(`{"do":"unsubscribe","session":%q}`, a.ID); got["status"] != 204.0 {
		t.Fatalf("unsubscribe: %v", got)
	}
	had := len(c.of[a.ID])
	w.turn(a.ID, "unheard")
	c.say(`{"do":"end","session":%q}`, b)
	for !slices.ContainsFunc(c.of[b], func(e string) bool { return strings.Contains(e, "session.ended") }) {
		c.next()
	}
	if len(c.of[a.ID]) != had {
		t.Errorf("a session that was taken out is shown: %q", c.of[a.ID][had:])
	}
	// It may come back, from where the client was.
	c.say(`{"do":"subscribe","session":%q,"after":%d}`, a.ID, had)
	for all := jsonOf(w.rig.Log(a.ID)); len(c.of[a.ID]) < len(all); {
		c.next()
	}
	if diff := cmp.Diff(jsonOf(w.rig.Log(a.ID)), c.of[a.ID]); diff != "" {
		t.Errorf("(-log +socket):\n%s", diff)
	}
	// A session that goes is reported, and the others go on.
	w.call(204, nil, "DELETE", "/v1/sessions/"+string(b), "")
	for {
		if m := c.next(); m["type"] == "error" {
			if m["session"] != string(b) || field(m, "error", "code") != "not_found" {
				t.Errorf("got %v", m)
			}
			break
		}
	}
	if got := c.say(`{"do":"ping","id":"p"}`); got["status"] != 204.0 || got["id"] != "p" {
		t.Errorf("ping: %v", got)
	}
}

// TestStreamSocket_cut_after_every_message: a client that is cut after every message, and subscribes
// again behind what it has, ends with the logs.
func TestStreamSocket_cut_after_every_message(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	a, b := w.session(`{"app":"test"}`).ID, w.session(`{"app":"test"}`).ID
	for range 2 {
		w.turn(a, "one two three")
		w.turn(b, "four five six")
	}
	want := map[parley.SessionID][]string{a: jsonOf(w.rig.Log(a)), b: jsonOf(w.rig.Log(b))}
	got := map[parley.SessionID][]string{}
	for cuts := 0; len(got[a]) < len(want[a]) || len(got[b]) < len(want[b]); cuts++ {
		c := w.many([]string{"", fmt.Sprintf("?deltas=false&sessions=%s:%d", a, len(got[a]))}[cuts%2])
		if cuts%2 == 0 {
			c.of = map[parley.SessionID][]string{}
			if err := c.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, `{"do":"subscribe","session":%q,"after":%d}`, a, len(got[a]))); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, `{"do":"subscribe","session":%q,"after":%d}`, b, len(got[b]))); err != nil {
			t.Fatal(err)
		}
		for n := len(c.logs); len(c.logs) == n; {
			c.next()
		}
		for id, events := range c.of {
			got[id] = append(got[id], events...)
		}
		_ = c.CloseNow()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-logs +socket):\n%s", diff)
	}
}

// TestStreamSocket_refuses: wrong commands are refused in their reply, and what a handshake asks for
// before it.
func TestStreamSocket_refuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	a := w.session(`{"app":"test"}`).ID
	var theirs parley.SessionInfo
	w.call(201, &theirs, "POST", "/v1/sessions", `{"app":"test"}`, "Test-User", "bob")
	for query, status := range map[string]int{
		"": 101, "?sessions=" + string(theirs.ID): 404, "?sessions=" + string(a) + ":99": 400, "?mood=1": 400, "?deltas=no": 400,
		"?sessions=" + strings.Repeat("x,", 60) + "x": 400, "?sessions=" + string(a): 101,
	} {
		_, resp, err := websocket.Dial(t.Context(), w.url+"/v1/stream"+query, nil)
		if resp == nil || resp.StatusCode != status || (err == nil) != (status == 101) {
			t.Errorf("%.60s: got %v, %v; want %d", query, resp, err, status)
		}
		if resp != nil && status != 101 {
			problem(t, resp)
		}
	}
	c := w.many("?sessions=" + string(a))
	for _, k := range []struct {
		message string
		status  float64
		field   string
	}{
		{`{"do":"subscribe"}`, 400, "session"},
		{`{"do":"subscribe","session":"` + string(theirs.ID) + `"}`, 404, ""},
		{`{"do":"subscribe","session":"../x"}`, 404, ""},
		{`{"do":"subscribe","session":"` + string(a) + `"}`, 409, ""},
		{`{"do":"subscribe","session":"` + string(a) + `","after":-1}`, 400, "after"},
		{`{"do":"subscribe","session":"` + string(a) + `","after":"1"}`, 400, "after"},
		{`{"do":"subscribe","session":"` + string(a) + `","body":{}}`, 400, "body"},
		{`{"do":"unsubscribe","session":"` + string(theirs.ID) + `"}`, 404, "session"},
		{`{"do":"send","body":{"message":"x"}}`, 400, "session"},
		{`{"do":"send","session":"` + string(a) + `","after":3,"body":{"message":"x"}}`, 400, "after"},
		{`{"do":"send","session":"` + string(theirs.ID) + `","body":{"message":"x"}}`, 404, ""},
		{`{"do":"update","session":"../x","body":{"title":"x"}}`, 400, "session"},
		{`{"do":"unqueue","session":"` + string(a) + `"}`, 400, "turn"},
		{`{"do":"delete","session":"` + string(a) + `"}`, 400, "do"},
		{`{"do":"ping","session":"` + string(a) + `"}`, 400, "session"},
	} {
		got := c.say("%s", k.message)
		if got["status"] != k.status || k.field != "" && field(got, "error", "field") != k.field || field(got, "error", "message") == nil {
			t.Errorf("%s: got %v", k.message, got)
		}
	}
	// A connection of one session is about that session alone.
	l := w.line(a, "")
	if got := l.say(fmt.Sprintf(`{"do":"send","session":%q,"body":{"message":"x"}}`, theirs.ID)); got["status"] != 400.0 || field(got, "error", "field") != "session" {
		t.Errorf("another session: %v", got)
	}
	for _, do := range []string{"subscribe", "create"} {
		if got := l.say(fmt.Sprintf(`{"do":%q}`, do)); got["status"] != 400.0 || field(got, "error", "field") != "do" {
			t.Errorf("%s: %v", do, got)
		}
	}
}

// TestStreamSocket_limits: a connection follows at most 50 sessions, and ends with the server even
// if it follows none.
func TestStreamSocket_limits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	c, none := w.many("?deltas=false"), w.many("")
	for i := range 51 {
		if i == 40 {
			c.say(`{"do":"ping"}`)
		}
		id := w.session(`{"app":"test"}`).ID
		raw, _ := json.Marshal(map[string]any{"do": "subscribe", "session": id})
		if i >= 45 { // beyond what may be said at once: another connection begins with the list
			continue
		}
		if got := c.say("%s", raw); got["status"] != 204.0 {
			t.Fatalf("session %d: %v", i, got)
		}
	}
	var list struct{ Sessions []parley.SessionInfo }
	w.call(200, &list, "GET", "/v1/sessions?limit=60", "")
	var ids []string
	for _, s := range list.Sessions {
		ids = append(ids, string(s.ID))
	}
	full := w.many("?sessions=" + strings.Join(ids[:50], ","))
	if got := full.say(`{"do":"subscribe","session":%q}`, ids[50]); got["status"] != 400.0 || field(got, "error", "field") != "session" {
		t.Errorf("the session after the limit: %v", got)
	}
	w.rig.Reader.Hangup()
	for name, c := range map[string]*crowd{"full": full, "empty": none} {
		if code, _ := closing(t, c.Conn); code != websocket.StatusGoingAway {
			t.Errorf("the %s connection was closed with %d", name, code)
		}
	}
}

// closing reads to the end of a connection.
func closing(t *testing.T, c *websocket.Conn) (code websocket.StatusCode, last string) {
	t.Helper()
	for {
		_, b, err := c.Read(t.Context())
		if err != nil {
			return websocket.CloseStatus(err), last
		}
		last = string(b)
	}
}

// TestStreamSocket_of_one_app: a caller who is limited to an app follows only its sessions.
func TestStreamSocket_of_one_app(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App(), func(o *api.Options) {
		o.Only = func(context.Context) string { return "other" }
	})
	info, _, err := w.rig.Engine.Create(t.Context(), parley.Principal{User: "ana", Org: "acme"}, parley.CreateSession{App: "test"})
	if err != nil {
		t.Fatal(err)
	}
	c := w.many("")
	if got := c.say(`{"do":"subscribe","session":%q}`, info.ID); got["status"] != 404.0 {
		t.Errorf("a session of another app: %v", got)
	}
	if got := c.say(`{"do":"create","body":{"app":"test"}}`); got["status"] != 403.0 {
		t.Errorf("a session in another app: %v", got)
	}
}
