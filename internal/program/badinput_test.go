package program_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
)

// problemOf returns the error in an answer, which must have the one shape.
func problemOf(t *testing.T, a answer) parley.ErrorInfo {
	t.Helper()
	var p struct {
		Error parley.ErrorInfo `json:"error"`
	}
	d := json.NewDecoder(bytes.NewReader(a.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil || p.Error.Code == "" || strings.TrimSpace(p.Error.Message) == "" {
		t.Errorf("an error of an unknown form (%v): %s", err, a)
	}
	if kind := a.header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("an error as %s: %s", kind, a)
	}
	return p.Error
}

// serves checks that the server still works after a request that it refused: it runs a whole
// turn.
func (s *process) serves(what string) {
	s.t.Helper()
	if a := s.ask("GET", "/healthz", ""); a.status != http.StatusOK {
		s.t.Errorf("after %s: healthz: %s", what, a)
	}
	if end := s.settle(s.send(s.session("chaos"), spec).ID); end.Status != parley.StatusCompleted || !strings.Contains(end.Response.Message, "Google OAuth") {
		s.t.Errorf("after %s: a turn is %s: %+v", what, end.Status, end)
	}
}

// TestBadRequest_is_refused_clearly sends wrong requests. The server refuses each with one
// error of the one shape and keeps running.
func TestBadRequest_is_refused_clearly(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_SCRIPTED_PACE=0s")
	p.withDesk("http://127.0.0.1:1", "20ms")
	s := p.serve()
	id := s.session("chaos")
	old := s.send(id, spec, "Idempotency-Key", "k1")
	s.settle(old.ID)
	before := s.log(id)
	other := s.session("chaos")

	turns := "/v1/sessions/" + string(id) + "/turns"
	events := "/v1/sessions/" + string(id) + "/events"
	head := fmt.Sprint(len(before))
	ahead := fmt.Sprint(len(before) + 1)
	sse, ndjson := "text/event-stream", "application/x-ndjson"
	huge := object("message", strings.Repeat("x", 1<<20))
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		code                     parley.Code
		says                     string
	}{
		{"body too large", "POST", turns, huge, nil, 413, parley.CodeTooLarge, "too large"},
		{"body too large for the chat", "POST", "/chat", huge, nil, 413, parley.CodeTooLarge, "bytes"},
		{"message too large", "POST", turns, object("message", strings.Repeat("x", 257<<10)), nil, 413, parley.CodeTooLarge, "message"},
		{"message too large for the chat", "POST", "/chat", object("session_id", "a", "message", strings.Repeat("x", 257<<10)), nil, 413, parley.CodeTooLarge, "message"},
		{"not JSON", "POST", turns, "message=hello", nil, 400, parley.CodeInvalid, "JSON"},
		{"not JSON for the chat", "POST", "/chat", "message=hello", nil, 400, parley.CodeInvalid, "JSON"},
		{"half a JSON", "POST", turns, `{"message":"hel`, nil, 400, parley.CodeInvalid, "JSON"},
		{"a list", "POST", turns, `["hello"]`, nil, 400, parley.CodeInvalid, "object"},
		{"null", "POST", turns, `null`, nil, 400, parley.CodeInvalid, ""},
		{"null for the chat", "POST", "/chat", `null`, nil, 400, parley.CodeInvalid, "session_id"},
		{"more behind the object", "POST", turns, `{"message":"a"} {"message":"b"}`, nil, 400, parley.CodeInvalid, ""},
		{"more behind the object of the chat", "POST", "/chat", `{"session_id":"a","message":"a"}{}`, nil, 400, parley.CodeInvalid, "behind"},
		{"no body", "POST", turns, "", nil, 400, parley.CodeInvalid, "body"},
		{"a field twice", "POST", turns, `{"message":"a","message":"b"}`, nil, 400, parley.CodeInvalid, `"message" is given twice`},
		{"a field twice inside", "POST", turns, `{"message":"a","budgets":{"max_steps":1,"max_steps":2}}`, nil, 400, parley.CodeInvalid, `"budgets.max_steps" is given twice`},
		{"a field twice for the chat", "POST", "/chat", `{"session_id":"a","message":"a","session_id":"b"}`, nil, 400, parley.CodeInvalid, `"session_id" is given twice`},
		{"a name in other letters", "POST", turns, `{"MESSAGE":"a"}`, nil, 400, parley.CodeInvalid, `"MESSAGE" is not known here; did you mean message?`},
		{"a name in other letters beside", "POST", turns, `{"message":"a","Message":"b"}`, nil, 400, parley.CodeInvalid, `"Message"`},
		{"a name in other letters for the chat", "POST", "/chat", `{"session_id":"a","Message":"a"}`, nil, 400, parley.CodeInvalid, `"Message"`},
		{"no UTF-8", "POST", turns, "{\"message\":\"a\xffb\"}", nil, 400, parley.CodeInvalid, `"message" is not text in UTF-8`},
		{"no UTF-8 for the chat", "POST", "/chat", "{\"session_id\":\"a\xff\",\"message\":\"a\"}", nil, 400, parley.CodeInvalid, `"session_id" is not text in UTF-8`},
		{"half a character", "POST", "/v1/sessions", `{"app":"chaos","title":"\ud83d"}`, nil, 400, parley.CodeInvalid, `"title" has half`},
		{"a parameter twice", "GET", events + "?limit=1&limit=2", "", nil, 400, parley.CodeInvalid, `"limit" is given twice`},
		{"a parameter twice to follow", "GET", events + "?after=1&after=2", "", []string{"Accept", sse}, 400, parley.CodeInvalid, `"after" is given twice`},
		{"a parameter that is no UTF-8", "GET", "/v1/sessions?app=%ff", "", nil, 400, parley.CodeInvalid, `"app" is not text in UTF-8`},
		{"a key that is no UTF-8", "POST", turns, object("message", "a"), []string{"Idempotency-Key", "k\xff"}, 400, parley.CodeInvalid, "Idempotency-Key"},
		{"a rule for no tool", "PATCH", "/v1/sessions/" + string(id), `{"rules":[{"tool":"","verdict":"allow"}]}`, nil, 400, parley.CodeInvalid, "a rule for no tool was not granted"},
		{"an empty import", "POST", "/v1/sessions/import", "", []string{"Content-Type", "application/zip"}, 400, parley.CodeInvalid, "body"},
		{"a path with ..", "GET", "/v1/../v1/apps", "", nil, 404, parley.CodeNotFound, "nothing at"},
		{"a path with //", "POST", "//v1/sessions", "{}", nil, 404, parley.CodeNotFound, "nothing at"},
		{"a path without its slash", "POST", "/v1", "{}", nil, 404, parley.CodeNotFound, "nothing at /v1 paths are taken"},
		{"unknown field", "POST", turns, object("message", "a", "mesage", "b"), nil, 400, parley.CodeInvalid, `"mesage"`},
		{"unknown field for the chat", "POST", "/chat", object("session_id", "a", "message", "a", "mesage", "b"), nil, 400, parley.CodeInvalid, `"mesage"`},
		{"wrong type", "POST", turns, `{"message":7}`, nil, 400, parley.CodeInvalid, `"message"`},
		{"wrong type for the chat", "POST", "/chat", `{"session_id":"a","message":7}`, nil, 400, parley.CodeInvalid, `"message"`},
		{"wrong type inside", "POST", turns, `{"message":"a","budgets":{"max_steps":"many"}}`, nil, 400, parley.CodeInvalid, "max_steps"},
		{"negative budget", "POST", turns, `{"message":"a","budgets":{"max_steps":-1}}`, nil, 400, parley.CodeInvalid, "max_steps is negative"},
		{"budget above the app's", "POST", turns, `{"message":"a","budgets":{"max_steps":1000}}`, nil, 400, parley.CodeInvalid, "max_steps"},
		{"empty message", "POST", turns, object("message", ""), nil, 400, parley.CodeInvalid, "empty"},
		{"blank message", "POST", turns, object("message", " \n\t"), nil, 400, parley.CodeInvalid, "empty"},
		{"empty message for the chat", "POST", "/chat", object("session_id", "a", "message", " "), nil, 400, parley.CodeInvalid, "empty"},
		{"no message", "POST", turns, `{}`, nil, 400, parley.CodeInvalid, "message"},
		{"no session for the chat", "POST", "/chat", object("message", "a"), nil, 400, parley.CodeInvalid, "session_id"},
		{"session too long for the chat", "POST", "/chat", object("message", "a", "session_id", strings.Repeat("ä", 129)), nil, 400, parley.CodeInvalid, "128"},
		{"unknown busy mode", "POST", turns, object("message", "a", "busy", "later"), nil, 400, parley.CodeInvalid, "busy"},
		{"unknown model", "POST", turns, object("message", "a", "model", "gpt"), nil, 400, parley.CodeInvalid, "gpt"},
		{"unknown session", "POST", "/v1/sessions/nothing/turns", object("message", "a"), nil, 404, parley.CodeNotFound, "session"},
		{"unknown session to read", "GET", "/v1/sessions/nothing", "", nil, 404, parley.CodeNotFound, "session"},
		{"unknown session to page", "GET", "/v1/sessions/nothing/events", "", nil, 404, parley.CodeNotFound, "session"},
		{"unknown session to page from a cursor", "GET", "/v1/sessions/nothing/events?after=3", "", nil, 404, parley.CodeNotFound, "session"},
		{"unknown session to follow", "GET", "/v1/sessions/nothing/events", "", []string{"Accept", sse}, 404, parley.CodeNotFound, "check the id"},
		{"unknown session to follow as lines", "GET", "/v1/sessions/nothing/events", "", []string{"Accept", ndjson}, 404, parley.CodeNotFound, "session"},
		{"id too long", "GET", "/v1/sessions/" + strings.Repeat("0", 65), "", nil, 400, parley.CodeInvalid, "id"},
		{"id with a slash", "GET", "/v1/sessions/..%2f..%2fetc", "", nil, 404, parley.CodeNotFound, "session"},
		{"unknown turn", "GET", "/v1/turns/nothing", "", nil, 404, parley.CodeNotFound, "turn"},
		{"unknown turn to cancel", "POST", "/v1/turns/nothing/cancel", "", nil, 404, parley.CodeNotFound, "turn"},
		{"unknown turn to await", "POST", "/v1/turns/nothing/await", `{"timeout_ms":10}`, nil, 404, parley.CodeNotFound, "turn"},
		{"a turn that has ended, to resume", "POST", "/v1/turns/" + string(old.ID) + "/resume", "", nil, 409, parley.CodeConflict, ""},
		{"unknown interaction", "POST", "/v1/interactions/nothing/answer", object("choice", "allow"), nil, 404, parley.CodeNotFound, "interaction"},
		{"unknown artifact", "GET", "/v1/artifacts/nothing", "", nil, 404, parley.CodeNotFound, "artifact"},
		{"unknown app", "POST", "/v1/sessions", object("app", "chaoss"), nil, 404, parley.CodeNotFound, "apps here: chaos, desk-auto"},
		{"no app", "POST", "/v1/sessions", `{}`, nil, 400, parley.CodeInvalid, "app"},
		{"same key, another body", "POST", turns, object("message", "something else"), []string{"Idempotency-Key", "k1"}, 422, parley.CodeKeyReused, "key"},
		{"key too long", "POST", turns, object("message", "a"), []string{"Idempotency-Key", strings.Repeat("k", 256)}, 400, parley.CodeInvalid, "Idempotency-Key"},
		{"stale version", "POST", turns, `{"message":"a","expected_version":2}`, nil, 409, parley.CodeConflict, "version"},
		{"cursor ahead of the log", "GET", events + "?after=" + ahead, "", []string{"Accept", sse}, 400, parley.CodeInvalid, "cursor"},
		{"cursor ahead of the log, as lines", "GET", events + "?after=" + ahead, "", []string{"Accept", ndjson}, 400, parley.CodeInvalid, "cursor"},
		{"cursor ahead of the log, as a page", "GET", events + "?after=" + ahead, "", nil, 400, parley.CodeInvalid, "cursor"},
		{"cursor of another session", "GET", "/v1/sessions/" + string(other) + "/events", "", []string{"Accept", sse, "Last-Event-ID", head}, 400, parley.CodeInvalid, "cursor"},
		{"cursor of another wire", "GET", events, "", []string{"Accept", sse, "Last-Event-ID", string(id) + ":2"}, 400, parley.CodeInvalid, "cursor"},
		{"cursor no number", "GET", events + "?after=two", "", nil, 400, parley.CodeInvalid, "after"},
		{"cursor negative", "GET", events + "?after=-1", "", nil, 400, parley.CodeInvalid, "after"},
		{"cursor beyond all numbers", "GET", events + "?after=99999999999999999999", "", nil, 400, parley.CodeInvalid, "after"},
		{"cursor of words", "GET", events, "", []string{"Accept", sse, "Last-Event-ID", "the last"}, 400, parley.CodeInvalid, "cursor"},
		{"stream of nothing", "GET", "/v1/stream", "", nil, 400, parley.CodeInvalid, "session"},
		{"stream with a broken list", "GET", "/v1/stream?sessions=" + string(id) + ":x", "", nil, 400, parley.CodeInvalid, "cursor"},
		{"unknown event type", "GET", events + "?types=turn.exploded", "", nil, 400, parley.CodeInvalid, "turn.exploded"},
		{"unknown query parameter", "GET", events + "?since=2", "", nil, 400, parley.CodeInvalid, `"since"`},
		{"limit too large", "GET", events + "?limit=1001", "", nil, 400, parley.CodeInvalid, "limit"},
		{"unknown format", "GET", events + "?format=xml", "", nil, 400, parley.CodeInvalid, "format"},
		{"wrong method", "PUT", turns, object("message", "a"), nil, 405, parley.CodeInvalid, "POST"},
		{"wrong method for the chat", "GET", "/chat", "", nil, 405, parley.CodeInvalid, "POST"},
		{"no such path", "GET", "/v1/nothing", "", nil, 404, parley.CodeNotFound, "/v1/nothing"},
		{"no such app's page", "GET", "/apps/nothing/", "", nil, 404, parley.CodeNotFound, "nothing"},
		{"wrong content type", "POST", turns, "hello", []string{"Content-Type", "text/plain"}, 415, parley.CodeInvalid, "Content-Type"},
		{"wrong content type for the chat", "POST", "/chat", "hello", []string{"Content-Type", "text/plain"}, 415, parley.CodeInvalid, "Content-Type"},
		{"another host", "GET", "/v1/sessions", "", []string{"Host", "evil.example"}, 403, parley.CodeForbidden, "evil.example"},
		{"a page of elsewhere", "POST", turns, object("message", "a"), []string{"Origin", "https://evil.example"}, 403, parley.CodeForbidden, "evil.example"},
		{"a page of elsewhere to the chat", "POST", "/chat", object("session_id", "a", "message", "a"), []string{"Origin", "https://evil.example"}, 403, parley.CodeForbidden, "evil.example"},
		{"a page without an origin", "POST", turns, object("message", "a"), []string{"Origin", "null"}, 403, parley.CodeForbidden, ""},
	} {
		a := s.ask(c.method, c.path, c.body, c.header...)
		e := problemOf(t, a)
		t.Logf("%-40s %d %s: %s (hint: %s; field: %s)", c.name, a.status, e.Code, e.Message, e.Hint, e.Field)
		if e.Hint == "" {
			t.Errorf("%s: no hint: %s", c.name, e.Message)
		}
		if a.status != c.status || e.Code != c.code {
			t.Errorf("%s: got %d %s, want %d %s", c.name, a.status, e.Code, c.status, c.code)
		}
		if all := e.Message + " " + e.Hint + " " + e.Field; !strings.Contains(all, c.says) {
			t.Errorf("%s: %q does not name %q", c.name, all, c.says)
		}
		s.serves(c.name)
	}
	if diff := cmp.Diff(before, s.log(id)); diff != "" {
		t.Errorf("a refused request changed the log:\n%s", diff)
	}
	if again := s.send(id, spec, "Idempotency-Key", "k1"); again.ID != old.ID {
		t.Errorf("the same key and body gave another turn: %s, %s", again.ID, old.ID)
	}

	// A second message while a turn runs.
	desk := s.session("desk-auto")
	turn := s.send(desk, "talk 1000")
	for _, accept := range []string{"application/json", sse} {
		a := s.ask("POST", "/v1/sessions/"+string(desk)+"/turns", object("message", "b"), "Accept", accept)
		e := problemOf(t, a)
		t.Logf("%-40s %d %s: %s (hint: %s)", "second message, "+accept, a.status, e.Code, e.Message, e.Hint)
		if a.status != http.StatusConflict || e.Code != parley.CodeBusy || e.Hint == "" {
			t.Errorf("a second message: %s", a)
		}
	}
	s.ask("POST", "/v1/turns/"+string(turn.ID)+"/cancel", "")
	if end := s.settle(turn.ID); end.Status != parley.StatusCancelled {
		t.Errorf("the turn is %s", end.Status)
	}
	s.serves("a second message")
}

// TestLimits_are_said_and_end allows one stream, and sends a body that does not state its
// length.
func TestLimits_are_said_and_end(t *testing.T) {
	t.Parallel()
	s := newPlace(t, "PARLEY_SCRIPTED_PACE=0s", "PARLEY_LIMITS_MAX_STREAMS=1").serve()
	id := s.session("chaos")
	ctx, stop := context.WithCancel(t.Context())
	w := newWatcher("sse", id)
	gone := make(chan struct{})
	go func() { defer close(gone); _ = w.follow(ctx, s.url, 0) }()
	if err := w.until(t.Context(), "its first event", func() bool { return len(w.events) == 1 }); err != nil {
		t.Fatal(err)
	}
	events, turns := "/v1/sessions/"+string(id)+"/events", "/v1/sessions/"+string(id)+"/turns"
	for _, c := range []struct{ method, path, body string }{
		{"GET", events, ""},
		{"GET", "/v1/stream?sessions=" + string(id), ""},
		{"POST", turns, object("message", "hello")},
		{"POST", "/chat", object("session_id", "a", "message", "hello")},
	} {
		a := s.ask(c.method, c.path, c.body, "Accept", "text/event-stream")
		e := problemOf(t, a)
		t.Logf("a second stream, %s: %s", c.path, a)
		if a.status != http.StatusTooManyRequests || e.Code != parley.CodeRateLimited || e.Hint == "" || a.header.Get("Retry-After") == "" {
			t.Errorf("a second stream: %s %s: %s", c.method, c.path, a)
		}
	}
	if log := s.log(id); len(log) != 1 {
		t.Errorf("a refused request is in the log: %v", log)
	}
	s.serves("too many streams")
	stop()
	<-gone
	s.until("a place for a stream", func() bool {
		a := s.ask("POST", turns, object("message", spec), "Accept", "text/event-stream")
		return a.status == http.StatusOK && bytes.HasSuffix(a.body, []byte("\n\n")) && bytes.Contains(a.body, []byte("event: turn.completed\n"))
	})

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+turns, io.MultiReader(strings.NewReader(`{"message":"`), strings.NewReader(strings.Repeat("x", 1<<20))))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := streams.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	a := answer{resp.StatusCode, resp.Header, b}
	if e := problemOf(t, a); err != nil || a.status != http.StatusRequestEntityTooLarge || e.Code != parley.CodeTooLarge {
		t.Errorf("a body without a length: %s, %v", a, err)
	}
	s.serves("a body without a length")
}

// TestLongMessages: where the settings allow long messages, every door accepts them, in every
// form in which JSON can write them.
func TestLongMessages(t *testing.T) {
	t.Parallel()
	s := newPlace(t, "PARLEY_SCRIPTED_PACE=0s", "PARLEY_LIMITS_MAX_MESSAGE=512KiB").serve()
	id := s.session("chaos")
	send := func(door, message string) answer {
		switch door {
		case "/chat":
			return s.ask("POST", door, `{"session_id":"a","message":"`+message+`"}`)
		case "/apps/chaos/mcp":
			return s.ask("POST", door, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chaos.ask","arguments":{"message":"`+message+`"},`+
				`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
				"Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "chaos.ask")
		}
		return s.ask("POST", "/v1/sessions/"+string(id)+"/turns", `{"busy":"enqueue","message":"`+message+`"}`)
	}
	for _, door := range []string{"/v1", "/chat", "/apps/chaos/mcp"} {
		for name, c := range map[string]struct {
			message string
			good    bool
		}{
			"above the default": {strings.Repeat("x", 400<<10), true},
			"escaped":           {strings.Repeat(`\u00e9`, 255<<10), true},
			"too long":          {strings.Repeat("x", 512<<10+1), false},
		} {
			a := send(door, c.message)
			// An accepted message may still be too long for a model's window.
			refused := a.status == http.StatusRequestEntityTooLarge || bytes.Contains(a.body, []byte(`message is longer than`))
			if refused == c.good || a.status >= 500 {
				t.Errorf("%s, %s: %d %.300s", door, name, a.status, a.body)
			}
			if door != "/apps/chaos/mcp" && !c.good {
				if e := problemOf(t, a); e.Field != "message" {
					t.Errorf("%s, %s: %+v", door, name, e)
				}
			}
		}
	}
}
