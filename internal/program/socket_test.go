package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/parley-server/parley"
)

// socket is a client of a session's WebSocket.
func (s *process) socket(id parley.SessionID, after int, header ...string) (*websocket.Conn, error) {
	s.t.Helper()
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	c, _, err := websocket.Dial(s.t.Context(), fmt.Sprintf("%s/v1/sessions/%s/events/ws?after=%d", s.url, id, after), &websocket.DialOptions{HTTPHeader: h})
	if err == nil {
		c.SetReadLimit(-1)
		s.t.Cleanup(func() { _ = c.CloseNow() })
	}
	return c, err
}

// heard reads a socket up to a message that contains text, or to its end. It returns the events and
// the status with which it was closed.
func heard(t *testing.T, c *websocket.Conn, text string) (events []string, status websocket.StatusCode) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for {
		_, b, err := c.Read(ctx)
		if ctx.Err() != nil {
			t.Fatalf("no %q came after %q", text, events)
		}
		if err != nil {
			return events, websocket.CloseStatus(err)
		}
		var e struct{ Seq int64 }
		if err := json.Unmarshal(b, &e); err != nil {
			t.Fatalf("%v in %s", err, b)
		}
		if e.Seq > 0 {
			events = append(events, string(b))
		}
		if text != "" && strings.Contains(string(b), text) {
			return events, -1
		}
	}
}

// TestSocket_through_a_kill: a conversation over the WebSocket of the real server goes on after the
// server was killed, and what the client saw is the log.
func TestSocket_through_a_kill(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve()
	id := s.session("chaos")
	c, err := s.socket(id, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(t.Context(), websocket.MessageText, []byte(`{"do":"send","id":"1","body":{"message":"What does the Google OAuth spec say?"}}`)); err != nil {
		t.Fatal(err)
	}
	got, _ := heard(t, c, `"tool.requested"`)
	s.kill()
	more, status := heard(t, c, "")
	got = append(got, more...)
	if status != -1 {
		t.Errorf("a server that was killed says %d", status)
	}
	s = p.serve()
	if c, err = s.socket(id, len(got)); err != nil {
		t.Fatal(err)
	}
	more, _ = heard(t, c, `"turn.completed"`)
	got = append(got, more...)
	for i, line := range s.log(id) {
		if i < len(got) && got[i] != line {
			t.Errorf("event %d was %s, and is %s", i+1, got[i], line)
		}
	}
	if n := len(s.log(id)); n < len(got) {
		t.Errorf("%d events were seen, and there are %d", len(got), n)
	}
	s.stop()
	if _, status := heard(t, c, ""); status != websocket.StatusGoingAway {
		t.Errorf("a server that stops says %d", status)
	}
}

// TestSocket_asks_who_it_is: the socket asks for a key as every door does. Revoking the key ends
// the connection.
func TestSocket_asks_who_it_is(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_AUTH_MODE=keys")
	_, key, _ := p.run("keys", "create", "laptop", "--user", "ana")
	key = strings.TrimSpace(key)
	s := p.serve()
	info := must[parley.SessionInfo](s, "POST", "/v1/sessions", `{"app":"chaos"}`, "X-API-Key", key)
	for name, header := range map[string][]string{
		"nobody": nil, "a wrong key": {"X-API-Key", "pk_wrong"}, "a page of elsewhere": {"X-API-Key", key, "Origin", "https://evil.example"},
	} {
		if _, err := s.socket(info.ID, 0, header...); err == nil {
			t.Errorf("%s is let in", name)
		}
	}
	c, err := s.socket(info.ID, 0, "X-API-Key", key, "Origin", s.url)
	if err != nil {
		t.Fatal(err)
	}
	heard(t, c, "session.created")
	if code, _, errs := p.run("keys", "revoke", "laptop"); code != 0 {
		t.Fatal(errs)
	}
	if _, status := heard(t, c, ""); status != websocket.StatusPolicyViolation {
		t.Errorf("after the key was revoked: closed with %d", status)
	}
}
