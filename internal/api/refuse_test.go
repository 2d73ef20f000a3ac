package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/redact/redacttest"
	"github.com/parley-server/parley/internal/store/mem"
)

// problem is the one error shape, decoded strictly: nothing else may be in it.
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

// What the description of the routes says is what the engine takes.
func TestLimits_are_the_engines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	type ask struct{ method, path, body, key string } // a path without /v1 is of a session
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
			if !strings.HasPrefix(a.path, "/v1") { // in one of its own, which is not busy
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

// A server that stops refuses on purpose: that is no error of its own.
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
	w.rig.Mem.SetFaults(mem.Faults{})
	w.rig.Close()
	if resp := w.ask("POST", "/v1/sessions/"+string(s.ID)+"/turns", `{"message":"hello"}`); resp.StatusCode != 503 {
		t.Errorf("stopped: got %d", resp.StatusCode)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "level=ERROR") || !strings.Contains(lines[0], "the disk is gone") || !strings.Contains(lines[1], "level=INFO") || !strings.Contains(lines[1], "shutting down") {
		t.Errorf("the log says\n%s", &log)
	}
}

// A refusal may say what it was given, but not when that is a secret.
func TestGuard_redacts_refusals(t *testing.T) {
	t.Parallel()
	red := redact.New(redacttest.Known)
	inner := http.NewServeMux()
	inner.HandleFunc("/refused", func(w http.ResponseWriter, r *http.Request) {
		api.WriteError(w, parley.Errorf(parley.CodeInvalid, "there is no model %q", r.URL.Query().Get("m")))
	})
	inner.HandleFunc("/plain", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(r.URL.RawQuery)))
		http.Error(w, r.URL.Query().Get("m"), http.StatusTeapot)
	})
	inner.HandleFunc("/fine", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Query().Get("m")) })
	h := api.Guard(inner, api.GuardOptions{Redact: func(b []byte) []byte { out, _ := red.JSON(b); return out }})
	for _, s := range redacttest.Secrets(1) {
		for path, clean := range map[string]bool{"/refused": true, "/plain": true, "/fine": false} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", path+"?m="+url.QueryEscape(s.Text()), nil))
			leaks := redacttest.Leaks(w.Body.Bytes(), []redacttest.Secret{s})
			if (leaks == nil) != clean || w.Body.Len() == 0 {
				t.Errorf("%s: %v in %d %s", path, leaks, w.Code, w.Body)
			}
		}
	}
}

func TestStatus_of_every_code(t *testing.T) {
	t.Parallel()
	want := map[parley.Code]int{
		parley.CodeInvalid: 400, parley.CodeNotFound: 404, parley.CodeUnauthenticated: 401, parley.CodeForbidden: 403,
		parley.CodeBusy: 409, parley.CodeConflict: 409, parley.CodeKeyReused: 422, parley.CodeTooLarge: 413,
		parley.CodeRateLimited: 429, parley.CodeUnavailable: 503, parley.CodeFenced: 503, parley.CodeCondensed: 410,
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

// Every route of the table is tried by another user with ids of the first: it
// must not be told that they exist.
func TestRoutes_show_nothing_of_another_user(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	s := w.session(`{"app":"test","outside_id":"shared"}`)
	turn := w.turn(s.ID, "hello")
	bodies := map[string]string{
		"POST /v1/sessions/{id}/turns":          `{"message":"mine now"}`,
		"POST /v1/sessions/{id}/turns/stream":   `{"message":"mine now"}`,
		"PATCH /v1/sessions/{id}":               `{"title":"mine now"}`,
		"POST /v1/interactions/{id}/answer":     `{"choice":"allow"}`,
		"DELETE /v1/sessions/{id}/queue/{turn}": "",
	}
	tried := 0
	for _, r := range w.api.Routes() {
		if !strings.Contains(r.Path, "{") || r.Path == "/v1/apps/{app}" { // apps are nobody's
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
	// The same outside id is another session for another user.
	var his parley.SessionInfo
	w.call(201, &his, "POST", "/v1/sessions", `{"app":"test","outside_id":"shared"}`, "Test-User", "bob")
	if his.ID == s.ID {
		t.Error("an outside id led to another user's session")
	}
}

// A sweep is for the sessions of whoever asks.
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
	for got["deleted"] == 0 { // times in the log are of milliseconds
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

// TestSpec_says_how_to_log_in_and_what_comes_back: generated clients send no key that
// the document does not know, and fail at a status that it does not name.
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
				t.Errorf("security names %q, which is no scheme", name)
			}
		}
	}
	if len(spec.Security) != 3 || len(spec.Security[0]) != 0 {
		t.Errorf("security: %v", spec.Security)
	}
	create := spec.Paths["/v1/sessions"]["post"].Responses
	for _, want := range []int{201, 200} { // the second time it is there already
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

func TestGuard(t *testing.T) {
	t.Parallel()
	inner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/panic":
			panic("boom")
		case "/late":
			w.WriteHeader(200)
			_, _ = w.Write([]byte("begun"))
			_ = http.NewResponseController(w).Flush()
			panic("boom")
		}
		w.WriteHeader(http.StatusTeapot)
	})
	const ours = "http://localhost:5173"
	h := api.Guard(inner, api.GuardOptions{Hosts: []string{"box.lan"}, Origins: []string{ours}})
	for _, c := range []struct {
		name, method, host string
		header             []string
		status             int
		allow              string // Access-Control-Allow-Origin
	}{
		{"loopback_name", "GET", "localhost:8000", nil, 418, ""},
		{"loopback_address", "GET", "127.0.0.1:8000", nil, 418, ""},
		{"loopback_address_v6", "GET", "[::1]:8000", nil, 418, ""},
		{"the_name_it_listens_on", "GET", "BOX.lan:8000", nil, 418, ""},
		{"a_name_that_was_rebound", "GET", "evil.example:8000", nil, 403, ""},
		{"a_name_that_looks_like_ours", "GET", "localhost.evil.example", nil, 403, ""},
		{"no_host", "GET", "", nil, 403, ""},
		{"no_browser", "POST", "localhost:8000", nil, 418, ""},
		{"our_own_page", "POST", "localhost:8000", []string{"Origin", "http://localhost:8000"}, 418, ""},
		{"a_listed_page", "POST", "localhost:8000", []string{"Origin", ours}, 418, ours},
		{"a_listed_page_reads", "GET", "localhost:8000", []string{"Origin", ours}, 418, ours},
		{"a_page_of_elsewhere", "POST", "localhost:8000", []string{"Origin", "https://evil.example"}, 403, ""},
		{"a_page_of_elsewhere_deletes", "DELETE", "localhost:8000", []string{"Origin", "https://evil.example"}, 403, ""},
		{"a_page_of_elsewhere_reads_nothing", "GET", "localhost:8000", []string{"Origin", "https://evil.example"}, 418, ""},
		{"a_page_without_origin", "POST", "localhost:8000", []string{"Origin", "null"}, 403, ""},
		{"a_page_in_a_file", "POST", "localhost:8000", []string{"Origin", "file://"}, 403, ""},
		{"a_page_in_a_file_behind_a_proxy", "POST", "localhost:8000", []string{"Origin", "file://", "X-Forwarded-Host", ""}, 403, ""},
		{"an_extension", "POST", "localhost:8000", []string{"Origin", "chrome-extension://localhost:8000"}, 403, ""},
		{"no_origin_at_all", "POST", "localhost:8000", []string{"Origin", "http://"}, 403, ""},
		{"another_port_is_elsewhere", "POST", "localhost:8000", []string{"Origin", "http://localhost:9999"}, 403, ""},
		{"a_form_of_elsewhere", "POST", "localhost:8000", []string{"Sec-Fetch-Site", "cross-site"}, 403, ""},
		{"our_page_behind_a_proxy", "POST", "localhost:8000", []string{"Origin", "https://ha.example", "Sec-Fetch-Site", "same-origin"}, 418, ""},
		{"our_page_behind_a_proxy_without_https", "POST", "localhost:8000", []string{"Origin", "http://ha.local:8123", "X-Forwarded-Host", "ha.local:8123"}, 418, ""},
		{"a_page_of_elsewhere_behind_a_proxy", "POST", "localhost:8000", []string{"Origin", "https://evil.example", "X-Forwarded-Host", "ha.example"}, 403, ""},
		{"a_page_of_the_same_site", "POST", "localhost:8000", []string{"Origin", "https://evil.ha.example", "Sec-Fetch-Site", "same-site", "X-Forwarded-Host", "ha.example"}, 403, ""},
		{"a_preflight", "OPTIONS", "localhost:8000", []string{"Origin", ours, "Access-Control-Request-Method", "PATCH", "Access-Control-Request-Headers", "idempotency-key,x-any"}, 204, ours},
		{"a_preflight_of_elsewhere", "OPTIONS", "localhost:8000", []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "PATCH"}, 204, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(c.method, "/", nil)
			r.Host = c.host
			for i := 0; i < len(c.header); i += 2 {
				r.Header.Set(c.header[i], c.header[i+1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if got := w.Header().Get("Access-Control-Allow-Origin"); w.Code != c.status || got != c.allow {
				t.Errorf("got %d and allowed %q, want %d and %q", w.Code, got, c.status, c.allow)
			}
			exposed := strings.Split(w.Header().Get("Access-Control-Expose-Headers"), ", ")
			for _, name := range []string{"Mcp-Session-Id", "WWW-Authenticate", "Retry-After"} {
				if slices.Contains(exposed, name) != (c.allow != "") {
					t.Errorf("exposed are %q", exposed)
				}
			}
			if c.name == "a_preflight" {
				want := "idempotency-key,x-any"
				if got := w.Header().Get("Access-Control-Allow-Headers"); got != want || !strings.Contains(w.Header().Get("Access-Control-Allow-Methods"), "PATCH") {
					t.Errorf("preflight: headers %q, methods %q", got, w.Header().Get("Access-Control-Allow-Methods"))
				}
			}
			if w.Code == 403 {
				problem(t, w.Result())
			}
		})
	}

	t.Run("two_origins", func(t *testing.T) {
		t.Parallel()
		r := httptest.NewRequest("POST", "/", nil)
		r.Host = "localhost:8000"
		r.Header["Origin"] = []string{"http://localhost:8000", "https://evil.example"}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != 403 {
			t.Errorf("got %d", w.Code)
		}
	})

	t.Run("what_no_door_takes", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			method, target string
			header         []string
			status         int
		}{
			"a packed body":        {"POST", "/", []string{"Content-Encoding", "gzip"}, 415},
			"a plain body":         {"POST", "/", []string{"Content-Encoding", "identity"}, 418},
			"a path with a zero":   {"GET", "/a%00b", nil, 400},
			"a path of bad UTF-8":  {"GET", "/a%ffb", nil, 400},
			"a path of good UTF-8": {"GET", "/%C3%A4", nil, 418},
			"a star":               {"GET", "*", nil, 400},
		} {
			r := httptest.NewRequest(c.method, c.target, nil)
			r.Host = "localhost:8000"
			for i := 0; i < len(c.header); i += 2 {
				r.Header.Set(c.header[i], c.header[i+1])
			}
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != c.status {
				t.Errorf("%s: got %d, want %d", name, w.Code, c.status)
			}
			if w.Code != 418 {
				problem(t, w.Result())
			}
		}
	})

	t.Run("own_pages_only", func(t *testing.T) {
		t.Parallel()
		own := api.OwnPages(inner, []string{ours})
		for origin, want := range map[string]int{"": 418, ours: 418, "http://localhost:8000": 418, "https://evil.example": 403, "null": 403, "file://": 403} {
			r := httptest.NewRequest("GET", "/", nil)
			r.Host = "localhost:8000"
			if origin != "" {
				r.Header.Set("Origin", origin)
			}
			w := httptest.NewRecorder()
			if own.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%s: got %d, want %d", origin, w.Code, want)
			}
		}
	})

	t.Run("a_panic_costs_one_request", func(t *testing.T) {
		t.Parallel()
		srv := httptest.NewServer(h)
		defer srv.Close()
		resp, err := http.Get(srv.URL + "/panic")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got := problem(t, resp); resp.StatusCode != 500 || strings.Contains(got.Message, "boom") {
			t.Errorf("got %d %+v", resp.StatusCode, got)
		}
		late, err := http.Get(srv.URL + "/late")
		if err != nil {
			t.Fatal(err)
		}
		defer late.Body.Close()
		if b, err := io.ReadAll(late.Body); err == nil {
			t.Errorf("a stream that broke looks whole: %q", b)
		}
		after, err := http.Get(srv.URL + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer after.Body.Close()
		if after.StatusCode != 418 {
			t.Errorf("afterwards: got %d", after.StatusCode)
		}
	})
}

// withoutApps is an engine whose apps are all switched off.
type withoutApps struct{ api.Engine }

func (withoutApps) App(name string) (parley.App, error) {
	return parley.App{}, parley.Errorf(parley.CodeNotFound, "there is no app %q", name).WithField("app")
}

// The list of an app that was switched off has what was said in it. Only where there
// is nothing is the name a mistake.
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
			name = "test" // of which bob has nothing
		}
		if e := problem(t, w.ask("GET", "/v1/sessions?app="+name, "", header...)); e.Code != parley.CodeNotFound || e.Field != "app" {
			t.Errorf("the sessions of %s: got %+v", name, e)
		}
	}
}

// A body that says that it is too large is refused before its bytes are waited for.
func TestLengthsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	id := string(w.session(`{"app":"test"}`).ID)
	for _, path := range []string{"/v1/sessions", "/v1/sessions/import", "/v1/sessions/" + id + "/turns", "/v1/sessions/" + id + "/fork"} {
		r := httptest.NewRequest(http.MethodPost, path, iotest.ErrReader(errors.New("its bytes were waited for")))
		r.ContentLength = 99_999_999_999_999
		r.Header.Set("Content-Type", "application/json")
		got := httptest.NewRecorder()
		w.api.ServeHTTP(got, r)
		if e := problem(t, got.Result()); got.Code != http.StatusRequestEntityTooLarge || e.Code != parley.CodeTooLarge || e.Hint == "" {
			t.Errorf("POST %s: got %d %+v", path, got.Code, e)
		}
	}
}

// A header that says what a request is about is sent once: of two, somebody before the
// server might have gone by the other.
func TestGuard_headers_given_twice(t *testing.T) {
	t.Parallel()
	h := api.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), api.GuardOptions{})
	for _, name := range []string{"Idempotency-Key", "Last-Event-ID", "Mcp-Session-Id"} {
		for values, want := range map[string]int{"a": 200, "a|b": 400, "a|a": 400, "\xff": 400} {
			r := httptest.NewRequest("GET", "/v1/sessions", nil)
			for v := range strings.SplitSeq(values, "|") {
				r.Header.Add(name, v)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want || want == 400 && problem(t, w.Result()).Field != name {
				t.Errorf("%s %q: got %d %s", name, values, w.Code, w.Body)
			}
		}
	}
}
