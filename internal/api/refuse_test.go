package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/store/mem"
)

// problem decodes an error strictly: it must have exactly the one error shape.
func problem(t *testing.T, resp *http.Response) parley.ErrorInfo {
	t.Helper()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var p api.Problem
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil || p.Error.Code == "" || p.Error.Message == "" {
		t.Fatalf("status %d, and not the one error shape: %s", resp.StatusCode, raw)
	}
	if ct := resp.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("an error's Content-Type is %q", ct)
	}
	return p.Error
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App(), func(o *api.Options) { o.MaxBody = 4 << 10 })
	s := w.session(`{"app":"test"}`)
	path := "/v1/sessions/" + string(s.ID)
	long := strings.Repeat("x", 8<<10)
	for _, c := range []struct {
		name         string
		method, path string
		body         string
		header       []string
		status       int
		code         parley.Code
		field        string
		says         string
	}{
		{"too_large", "POST", path + "/turns", `{"message":"` + long + `"}`, nil, 413, "too_large", "", "too large"},
		{"no_json", "POST", path + "/turns", `hello`, nil, 400, "invalid", "", "not valid JSON"},
		{"half_json", "POST", path + "/turns", `{"message":"a"`, nil, 400, "invalid", "", "not valid JSON"},
		{"two_bodies", "POST", path + "/turns", `{"message":"a"}{}`, nil, 400, "invalid", "", "not valid JSON"},
		{"no_body", "POST", path + "/turns", ``, nil, 400, "invalid", "", "no body"},
		{"a_list", "POST", path + "/turns", `[]`, nil, 400, "invalid", "", "object"},
		{"unknown_field", "POST", path + "/turns", `{"message":"a","massage":"b"}`, nil, 400, "invalid", "massage", `"massage" is not known`},
		{"unknown_field_deep", "POST", path + "/turns", `{"message":"a","budgets":{"max_stepz":1}}`, nil, 400, "invalid", "budgets.max_stepz", "not known"},
		{"misspelt_field", "POST", "/v1/sessions", `{"ap":"test"}`, nil, 400, "invalid", "ap", `the field "ap" is not known here; did you mean app?`},
		{"misspelt_field_deep", "POST", path + "/turns", `{"message":"a","budgets":{"max_stepz":1}}`, nil, 400, "invalid", "budgets.max_stepz", "did you mean budgets.max_steps?"},
		{"misspelt_field_in_a_list", "POST", "/v1/sessions", `{"app":"test","policy":{"rules":[{"verdict":"deny"},{"verdict":"deny","tol":"x"}]}}`, nil, 400, "invalid", "policy.rules[1].tol", "did you mean policy.rules[1].tool?"},
		{"unlike_every_field", "POST", "/v1/sessions", `{"app":"test","zzzzzz":1}`, nil, 400, "invalid", "zzzzzz", `the field "zzzzzz" is not known herewhat`},
		{"misspelt_parameter", "GET", "/v1/sessions?limt=3", "", nil, 400, "invalid", "limt", "did you mean limit?"},
		{"misspelt_app", "POST", "/v1/sessions", `{"app":"tset"}`, nil, 404, "not_found", "app", `there is no app "tset"; did you mean test?`},
		{"wrong_type", "POST", path + "/turns", `{"message":7}`, nil, 400, "invalid", "message", "expected string"},
		{"missing_field", "POST", path + "/turns", `{}`, nil, 400, "invalid", "message", `"message" is missing`},
		{"empty_message", "POST", path + "/turns", `{"message":""}`, nil, 400, "invalid", "message", "empty"},
		{"blank_message", "POST", path + "/turns", `{"message":" \n"}`, nil, 400, "invalid", "message", "empty"},
		{"wider_budget", "POST", path + "/turns", `{"message":"a","budgets":{"max_steps":1000}}`, nil, 400, "invalid", "budgets.max_steps", "exceeds"},
		{"unknown_model", "POST", path + "/turns", `{"message":"a","model":"gpt"}`, nil, 400, "invalid", "model", "gpt"},
		{"unknown_busy", "POST", path + "/turns", `{"message":"a","busy":"queue"}`, nil, 400, "invalid", "busy", "busy"},
		{"wrong_content_type", "POST", path + "/turns", `message=a`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "invalid", "", "Content-Type"},
		{"unknown_session", "POST", "/v1/sessions/01ARZ3NDEKTSV4RRFFQ69G5FAV/turns", `{"message":"a"}`, nil, 404, "not_found", "", ""},
		{"no_session_id", "GET", "/v1/sessions/" + strings.Repeat("a", 100), "", nil, 400, "invalid", "id", "id"},
		{"unknown_turn", "GET", "/v1/turns/01ARZ3NDEKTSV4RRFFQ69G5FAV", "", nil, 404, "not_found", "", ""},
		{"unknown_app", "POST", "/v1/sessions", `{"app":"nothing"}`, nil, 404, "not_found", "app", "nothing"},
		{"empty_app", "POST", "/v1/sessions", `{"app":""}`, nil, 400, "invalid", "app", "app"},
		{"stale_cursor", "GET", path + "/events?after=99", "", nil, 400, "invalid", "after", "99"},
		{"stale_cursor_of_a_stream", "GET", path + "/events?after=99&format=sse", "", nil, 400, "invalid", "after", "99"},
		{"stale_cursor_in_the_header", "GET", path + "/events", "", []string{"Accept", "text/event-stream", "Last-Event-ID", "99"}, 400, "invalid", "after", "99"},
		{"cursor_of_several_sessions", "GET", path + "/events?format=sse", "", []string{"Last-Event-ID", string(s.ID) + ":1"}, 400, "invalid", "Last-Event-ID", "cursor"},
		{"negative_cursor", "GET", path + "/events?after=-1", "", nil, 400, "invalid", "after", ""},
		{"no_number", "GET", path + "/events?after=abc", "", nil, 400, "invalid", "after", ""},
		{"unknown_type", "GET", path + "/events?types=turn.teleported", "", nil, 400, "invalid", "types", "turn.teleported"},
		{"unknown_format", "GET", path + "/events?format=xml", "", nil, 400, "invalid", "format", ""},
		{"unknown_parameter", "GET", path + "/events?since=3", "", nil, 400, "invalid", "since", "since"},
		{"limit_too_high", "GET", "/v1/sessions?limit=5000", "", nil, 400, "invalid", "limit", ""},
		{"unknown_status", "GET", "/v1/sessions?status=sleeping", "", nil, 400, "invalid", "status", ""},
		{"no_time", "GET", "/v1/sessions?before=yesterday", "", nil, 400, "invalid", "before", ""},
		{"await_too_long", "POST", "/v1/turns/x/await", `{"timeout_ms":9999999}`, nil, 400, "invalid", "timeout_ms", ""},
		{"stale_version", "PATCH", path, `{"title":"x","expected_version":77}`, nil, 409, "conflict", "expected_version", ""},
		{"fork_beyond_the_end", "POST", path + "/fork", `{"at":77}`, nil, 400, "invalid", "at", ""},
		{"fork_before_the_beginning", "POST", path + "/fork", `{"at":-1}`, nil, 400, "invalid", "at", ""},
		{"rewind_to_nothing", "POST", path + "/rewind", `{}`, nil, 400, "invalid", "turn", "names no turn"},
		{"rewind_without_a_body", "POST", path + "/rewind", ``, nil, 400, "invalid", "", "no body"},
		{"rewind_to_an_unknown_turn", "POST", path + "/rewind", `{"turn":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}`, nil, 404, "not_found", "turn", "check the id"},
		{"rewind_of_what_there_is_not", "POST", path + "/rewind", `{"turn":"01ARZ3NDEKTSV4RRFFQ69G5FAV","what":"all"}`, nil, 400, "invalid", "what", "both, conversation, files"},
		{"undo_of_no_rewind", "POST", path + "/rewind", `{"undo":1}`, nil, 404, "not_found", "undo", "no rewind"},
		{"undo_of_an_impossible_event", "POST", path + "/rewind", `{"undo":-1}`, nil, 400, "invalid", "undo", "numbers"},
		{"stale_version_of_a_rewind", "POST", path + "/rewind", `{"undo":1,"expected_version":77}`, nil, 409, "conflict", "expected_version", ""},
		{"key_too_long", "POST", path + "/turns", `{"message":"a"}`, []string{"Idempotency-Key", strings.Repeat("k", 300)}, 400, "invalid", "Idempotency-Key", ""},
		{"wrong_method", "PUT", path, "", nil, 405, "invalid", "", "GET, PATCH, DELETE"},
		{"wrong_method_of_a_list", "DELETE", "/v1/sessions", "", nil, 405, "invalid", "", "GET, POST"},
		{"unknown_path", "GET", "/v1/nothing", "", nil, 404, "not_found", "", "/v1/nothing"},
		{"unknown_path_below", "POST", path + "/nothing", "{}", nil, 404, "not_found", "", "nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := c.header
			if c.body != "" && !slices.Contains(header, "Content-Type") {
				header = append(header, "Content-Type", "application/json")
			}
			resp := w.ask(c.method, c.path, c.body, header...)
			got := problem(t, resp)
			if resp.StatusCode != c.status || got.Code != c.code || got.Field != c.field || !strings.Contains(got.Message+got.Hint, c.says) {
				t.Errorf("got %d %+v, want %d %s, field %q, saying %q", resp.StatusCode, got, c.status, c.code, c.field, c.says)
			}
		})
	}
	if log := w.rig.Log(s.ID); len(log) != 1 {
		t.Errorf("refused requests left %d events", len(log)-1)
	}
	w.call(202, nil, "POST", path+"/turns", `{"message":"still here"}`)
}

// TestTooLong_says_the_limit: the limit of a message is in a unit for people, who type it.
func TestTooLong_says_the_limit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	s := w.session(`{"app":"test"}`)
	got := problem(t, w.ask("POST", "/v1/sessions/"+string(s.ID)+"/turns", `{"message":"`+strings.Repeat("x", parley.MaxMessage+1)+`"}`, "Content-Type", "application/json"))
	if got.Code != parley.CodeTooLarge || got.Field != "message" || got.Message != "message is longer than 256 KiB" {
		t.Errorf("got %+v", got)
	}
}

// TestLimits_are_the_engines: the limits in the description of the routes are the engine's limits.
func TestLimits_are_the_engines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	type ask struct{ method, path, body, key string } // a path without /v1 is relative to a session
	text := func(n int) string { return strings.Repeat("ä", n) }
	for name, f := range map[string]struct {
		most int
		ask  func(n int) ask
	}{
		"key":    {parley.MaxKey, func(n int) ask { return ask{"POST", "/turns", `{"message":"a"}`, strings.Repeat("k", n)} }},
		"fork":   {parley.MaxKey, func(n int) ask { return ask{"POST", "/fork", `{}`, strings.Repeat("f", n)} }},
		"create": {parley.MaxKey, func(n int) ask { return ask{"POST", "/v1/sessions", `{"app":"test"}`, strings.Repeat("c", n)} }},
		"title":  {parley.MaxTitle, func(n int) ask { return ask{"PATCH", "", `{"title":"` + text(n) + `"}`, ""} }},
		"pin": {parley.MaxPin, func(n int) ask {
			return ask{"PATCH", "", `{"pins":[{"label":"a","text":"` + strings.Repeat("x", n-1) + `"}]}`, ""}
		}},
		"outside_id": {parley.MaxOutsideID, func(n int) ask {
			return ask{"POST", "/v1/sessions", `{"app":"test","outside_id":"` + text(n) + `"}`, ""}
		}},
		"message": {parley.MaxMessage, func(n int) ask {
			return ask{"POST", "/turns", `{"message":"` + strings.Repeat("x", n) + `"}`, ""}
		}},
		"reason": {parley.MaxReason, func(n int) ask { return ask{"POST", "/end", `{"reason":"` + text(n) + `"}`, ""} }},
	} {
		for n, good := range map[int]bool{f.most: true, f.most + 1: false} {
			a := f.ask(n)
			if !strings.HasPrefix(a.path, "/v1") { // each request gets its own session, which is not busy
				a.path = "/v1/sessions/" + string(w.session(`{"app":"test"}`).ID) + a.path
			}
			header := []string{"Content-Type", "application/json"}
			if a.key != "" {
				header = append(header, "Idempotency-Key", a.key)
			}
			resp := w.ask(a.method, a.path, a.body, header...)
			if resp.StatusCode/100 == 2 != good || resp.StatusCode >= 500 {
				b, _ := io.ReadAll(resp.Body)
				t.Errorf("%s of %d: got %d %s", name, n, resp.StatusCode, b)
			}
		}
	}
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ MaxLength int }
			}
		}
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name   string
				Schema struct{ MaxLength int }
			}
		}
	}
	w.call(200, &doc, "GET", "/openapi.json", "")
	seen := 0
	for path, item := range doc.Paths {
		for method, op := range item {
			for _, p := range op.Parameters {
				if p.Name == "Idempotency-Key" {
					if seen++; p.Schema.MaxLength != parley.MaxKey {
						t.Errorf("%s %s: a key may have %d characters", method, path, p.Schema.MaxLength)
					}
				}
			}
		}
	}
	if seen < 4 {
		t.Errorf("%d routes take a key", seen)
	}
	if got := doc.Components.Schemas["ReasonBody"].Properties["reason"].MaxLength; got != parley.MaxReason {
		t.Errorf("a reason may have %d characters", got)
	}
}

func TestErrors_say_when_to_come_back(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	s := w.session(`{"app":"test"}`)
	w.rig.Close()
	resp := w.ask("POST", "/v1/sessions/"+string(s.ID)+"/turns", `{"message":"hello"}`)
	got := problem(t, resp)
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("got %d %+v, Retry-After %q", resp.StatusCode, got, resp.Header.Get("Retry-After"))
	}
	if resp := w.ask("GET", "/readyz", ""); resp.StatusCode != 503 {
		t.Errorf("readyz: got %d", resp.StatusCode)
	}
	if resp := w.ask("GET", "/healthz", ""); resp.StatusCode != 200 {
		t.Errorf("healthz: got %d", resp.StatusCode)
	}
}

// TestErrors_are_logged_as_what_they_are: refusals of a server that is stopping are intended, and
// are not logged as errors.
func TestErrors_are_logged_as_what_they_are(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := newWorld(t, enginetest.Echo, enginetest.App(), func(o *api.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	s := w.session(`{"app":"test"}`)
	w.rig.Mem.SetFaults(mem.Faults{Before: func(mem.Call) error { return errors.New("the disk is gone") }})
	if resp := w.ask("POST", "/v1/sessions", `{"app":"test"}`, "Content-Type", "application/json"); resp.StatusCode < 500 {
		t.Errorf("without a disk: got %d", resp.StatusCode)
	}
	w.rig.Mem.SetFaults(mem.Faults{Before: func(mem.Call) error { return parley.Errorf(parley.CodeTimeout, "docs did not answer") }})
	if resp := w.ask("POST", "/v1/sessions", `{"app":"test"}`, "Content-Type", "application/json"); resp.StatusCode != 504 {
		t.Errorf("too slow: got %d", resp.StatusCode)
	}
	w.rig.Mem.SetFaults(mem.Faults{})
	w.rig.Close()
	if resp := w.ask("POST", "/v1/sessions/"+string(s.ID)+"/turns", `{"message":"hello"}`); resp.StatusCode != 503 {
		t.Errorf("stopped: got %d", resp.StatusCode)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	want := [][2]string{{"level=ERROR", "the disk is gone"}, {"level=WARN", "docs did not answer"}, {"level=INFO", "shutting down"}}
	if len(lines) != len(want) {
		t.Fatalf("the log says\n%s", &log)
	}
	for i, w := range want {
		if !strings.Contains(lines[i], w[0]) || !strings.Contains(lines[i], w[1]) {
			t.Errorf("want %q, got %s", w, lines[i])
		}
	}
}

func TestStatus_of_every_code(t *testing.T) {
	t.Parallel()
	want := map[parley.Code]int{
		parley.CodeInvalid: 400, parley.CodeNotFound: 404, parley.CodeUnauthenticated: 401, parley.CodeForbidden: 403,
		parley.CodeBusy: 409, parley.CodeConflict: 409, parley.CodeKeyReused: 422, parley.CodeTooLarge: 413,
		parley.CodeRateLimited: 429, parley.CodeUnavailable: 503, parley.CodeFenced: 503, parley.CodeCondensed: 410, parley.CodeDeleted: 410,
		parley.CodeUpgradeRequired: 409, parley.CodeTimeout: 504, parley.CodeCancelled: 503, parley.CodeModel: 502,
		parley.CodeTool: 502, parley.CodeInternal: 500, "something_new": 500,
	}
	got := map[parley.Code]int{}
	for c := range want {
		got[c] = api.Status(c)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

// TestRoutes_show_nothing_of_another_user: another user tries every route of the table with ids of
// the first user, and must not learn that they exist.
func TestRoutes_show_nothing_of_another_user(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	s := w.session(`{"app":"test","outside_id":"shared"}`)
	turn := w.turn(s.ID, "hello")
	bodies := map[string]string{
		"POST /v1/sessions/{id}/turns":              `{"message":"mine now"}`,
		"POST /v1/sessions/{id}/attachments":        `a text of mine`,
		"PATCH /v1/conversations/{id}":              `{"title":"mine now"}`,
		"POST /v1/sessions/{id}/turns/stream":       `{"message":"mine now"}`,
		"POST /v1/sessions/{id}/rewind":             `{"turn":"` + string(turn.ID) + `"}`,
		"PATCH /v1/sessions/{id}":                   `{"title":"mine now"}`,
		"POST /v1/sessions/{id}/approvals/{digest}": `{"state":"allowed"}`,
		"POST /v1/interactions/{id}/answer":         `{"choice":"allow"}`,
		"POST /v1/interactions/{id}/report":         `{"token":"x"}`,
		"DELETE /v1/sessions/{id}/queue/{turn}":     "",
	}
	tried := 0
	for _, r := range w.api.Routes() {
		if !strings.Contains(r.Path, "{") || strings.HasPrefix(r.Path, "/v1/apps/{app}") { // apps belong to no user
			continue
		}
		tried++
		id := string(s.ID)
		if strings.HasPrefix(r.Path, "/v1/turns/") {
			id = string(turn.ID)
		}
		path := strings.NewReplacer("{id}", id, "{turn}", string(turn.ID)).Replace(r.Path)
		resp := w.ask(r.Method, path, bodies[r.Method+" "+r.Path], "Test-User", "bob", "Content-Type", "application/json")
		if got := problem(t, resp); resp.StatusCode != 404 || got.Code != parley.CodeNotFound {
			t.Errorf("%s %s: got %d %s, want 404", r.Method, r.Path, resp.StatusCode, got.Code)
		}
		for _, form := range []string{"sse", "ndjson"} {
			if strings.HasSuffix(r.Path, "/events") {
				if resp := w.ask("GET", path+"?format="+form, "", "Test-User", "bob"); resp.StatusCode != 404 {
					t.Errorf("%s as %s: got %d, want 404", r.Path, form, resp.StatusCode)
				}
			}
		}
	}
	if tried < 19 {
		t.Errorf("only %d routes were tried", tried)
	}
	if resp := w.ask("GET", "/v1/stream?sessions="+string(s.ID), "", "Test-User", "bob"); resp.StatusCode != 404 {
		t.Errorf("/v1/stream: got %d, want 404", resp.StatusCode)
	}
	var list struct{ Sessions []parley.SessionInfo }
	w.call(200, &list, "GET", "/v1/sessions", "", "Test-User", "bob")
	if len(list.Sessions) != 0 {
		t.Errorf("bob's list has %d sessions", len(list.Sessions))
	}
	// For another user the same outside id is another session.
	var his parley.SessionInfo
	w.call(201, &his, "POST", "/v1/sessions", `{"app":"test","outside_id":"shared"}`, "Test-User", "bob")
	if his.ID == s.ID {
		t.Error("an outside id led to another user's session")
	}
}

// TestSweep_condenses: the document describes an event whose data was condensed, and each answer is
// checked against the document.
func TestSweep_condenses(t *testing.T) {
	t.Parallel()
	app := enginetest.App()
	app.TTL.TurnSteps = parley.Duration(time.Nanosecond)
	w := newWorld(t, enginetest.Echo, app)
	s := w.session(`{"app":"test"}`).ID
	w.turn(s, "hello")
	var got map[string]int
	for got["condensed"] == 0 { // times in the log are in milliseconds
		w.call(200, &got, "POST", "/v1/sweep", "")
	}
	var page struct{ Events []map[string]any }
	w.call(200, &page, "GET", "/v1/sessions/"+string(s)+"/events", "")
	n := 0
	for _, e := range page.Events {
		if e["condensed"] == true {
			n++
		}
	}
	if n == 0 {
		t.Errorf("no event is condensed: %v", page.Events)
	}
}

// TestSweep_leaves_the_sessions_of_others: a sweep covers only the sessions of its caller.
func TestSweep_leaves_the_sessions_of_others(t *testing.T) {
	t.Parallel()
	app := enginetest.App()
	app.TTL.Ended = parley.Duration(time.Nanosecond)
	w := newWorld(t, enginetest.Echo, app)
	ended := func(user string) string {
		var s parley.SessionInfo
		w.call(201, &s, "POST", "/v1/sessions", `{"app":"test"}`, "Test-User", user)
		w.call(200, nil, "POST", "/v1/sessions/"+string(s.ID)+"/end", "", "Test-User", user)
		return "/v1/sessions/" + string(s.ID)
	}
	sweep := func(user string) (got map[string]int) {
		w.call(200, &got, "POST", "/v1/sweep", "", "Test-User", user)
		return got
	}
	older, newer := ended("ana"), ended("bob")
	deleted := map[string]int{"expired": 0, "condensed": 0, "deleted": 1}
	got := sweep("bob")
	for got["deleted"] == 0 { // times in the log are in milliseconds
		got = sweep("bob")
	}
	if diff := cmp.Diff(deleted, got); diff != "" {
		t.Errorf("bob's sweep (-want +got):\n%s", diff)
	}
	w.call(404, nil, "GET", newer, "", "Test-User", "bob")
	w.call(200, nil, "GET", older, "")
	if diff := cmp.Diff(deleted, sweep("ana")); diff != "" {
		t.Errorf("ana's sweep (-want +got):\n%s", diff)
	}
	if resp := w.ask("POST", "/v1/sweep", "", "Test-User", "nobody"); resp.StatusCode != 401 {
		t.Errorf("nobody: got %d, want 401", resp.StatusCode)
	}
}

// TestSpec_says_how_to_log_in_and_what_comes_back: generated clients send only the keys that the
// document defines, and fail on a status that it does not list.
func TestSpec_says_how_to_log_in_and_what_comes_back(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	var spec struct {
		Security   []map[string][]string
		Components struct {
			SecuritySchemes map[string]struct{ Type, Scheme, In, Name string }
		}
		Paths map[string]map[string]struct {
			Responses map[string]json.RawMessage
		}
	}
	w.call(200, &spec, "GET", "/openapi.json", "")
	if got := spec.Components.SecuritySchemes; got["bearer"].Scheme != "bearer" || got["key"].Name != "X-API-Key" || got["key"].In != "header" {
		t.Errorf("schemes: %+v", got)
	}
	for _, one := range spec.Security {
		for name := range one {
			if spec.Components.SecuritySchemes[name].Type == "" {
				t.Errorf("security names %q, which is not a scheme", name)
			}
		}
	}
	if len(spec.Security) != 3 || len(spec.Security[0]) != 0 {
		t.Errorf("security: %v", spec.Security)
	}
	create := spec.Paths["/v1/sessions"]["post"].Responses
	for _, want := range []int{201, 200} { // the second time the session already exists
		resp := w.ask("POST", "/v1/sessions", `{"app":"test","outside_id":"deal-7"}`)
		if resp.StatusCode != want || create[strconv.Itoa(want)] == nil {
			t.Errorf("got %d, want %d, which is in the document: %t", resp.StatusCode, want, create[strconv.Itoa(want)] != nil)
		}
	}
	for path, item := range spec.Paths {
		for method, op := range item {
			for _, status := range []string{"400", "500", "503", "default"} {
				if op.Responses[status] == nil {
					t.Errorf("%s %s does not say that it answers %s", method, path, status)
				}
			}
		}
	}
}

func TestSpec_describes_every_route(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	var spec struct {
		OpenAPI string
		Paths   map[string]map[string]json.RawMessage
	}
	resp := w.ask("GET", "/openapi.json", "")
	raw, _ := io.ReadAll(resp.Body)
	if err := json.Unmarshal(raw, &spec); err != nil || spec.OpenAPI != "3.1.0" {
		t.Fatalf("openapi %q: %v", spec.OpenAPI, err)
	}
	if strings.Contains(string(raw), "$schema") {
		t.Error("the document has $schema fields")
	}
	for _, r := range w.api.Routes() {
		if spec.Paths[r.Path][strings.ToLower(r.Method)] == nil {
			t.Errorf("%s %s is not in the document", r.Method, r.Path)
		}
	}
	page := w.ask("GET", "/docs", "")
	html, _ := io.ReadAll(page.Body)
	for _, want := range []string{"/v1/sessions/{id}/turns", "Idempotency-Key", `id="type-TurnInfo"`} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the page does not show %s", want)
		}
	}
	for _, bad := range []string{"<script", "http://", "https://"} {
		if strings.Contains(string(html), bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	if csp := page.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") {
		t.Errorf("the page's policy is %q", csp)
	}
}

// withoutApps is an engine whose apps are all switched off.
type withoutApps struct{ api.Engine }

func (withoutApps) App(name string) (parley.App, error) {
	return parley.App{}, parley.Errorf(parley.CodeNotFound, "there is no app %q", name).WithField("app")
}

// TestSessionsOfAnAppThatIsOff: the list for an app that was switched off still has its sessions. The
// name is an error only if the user has no session of that app.
func TestSessionsOfAnAppThatIsOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App(), func(o *api.Options) { o.Engine = withoutApps{o.Engine} })
	w.session(`{"app":"test"}`)
	var list struct{ Sessions []parley.SessionInfo }
	w.call(200, &list, "GET", "/v1/sessions?app=test", "")
	if len(list.Sessions) != 1 {
		t.Errorf("got %d sessions, want 1", len(list.Sessions))
	}
	w.call(200, &list, "GET", "/v1/sessions?app=test&status=ended", "")
	if len(list.Sessions) != 0 {
		t.Errorf("got %d sessions that have ended, want none", len(list.Sessions))
	}
	for _, header := range [][]string{nil, {"Test-User", "bob"}} {
		name := "nosuch"
		if header != nil {
			name = "test" // bob has no session of this app
		}
		if e := problem(t, w.ask("GET", "/v1/sessions?app="+name, "", header...)); e.Code != parley.CodeNotFound || e.Field != "app" {
			t.Errorf("the sessions of %s: got %+v", name, e)
		}
	}
}
