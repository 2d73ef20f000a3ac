package program_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/parley-server/parley"
)

// TestParameters_that_are_wrong_are_named sends invalid values for every query parameter in the
// document. A new parameter needs a row here.
func TestParameters_that_are_wrong_are_named(t *testing.T) {
	t.Parallel()
	const (
		number = "0 -1 abc 1.5 99999999999999999999"
		turn   = "abc -1 0 01arz3ndektsv4rrffq69g5fav 01ARZ3NDEKTSV4RRFFQ69G5FA!"
		flag   = "2 -1 true yes"
		truth  = "2 yes -1"
		mark   = "abc -1 !"
		after  = "abc -1 1.x 99999999999999999999"
		day    = "yesterday -1 2026-13-01 2026-11-01T00:00:00Z"
	)
	wrong := map[string]string{
		"/v1/sessions app":    "nosuch -1",
		"/v1/sessions status": "sleeping ACTIVE",
		"/v1/sessions limit":  number + " 501",
		"/v1/sessions before": "yesterday -1 2026-11-01",
		"/v1/sessions cursor": mark,
		"/v1/sessions direct": truth,

		"/v1/sessions/import app":       "", // not tested here: the server checks the archive before the app
		"/v1/sessions/import workspace": "", // likewise

		"/v1/sessions/{id}/turns status": "done RUNNING running,done",
		"/v1/sessions/{id}/turns before": turn,
		"/v1/sessions/{id}/turns limit":  number + " 501",

		"/v1/sessions/{id}/resources cursor": mark + " ZG9jcyA",
		"/v1/sessions/{id}/resources limit":  number + " 201",
		"/v1/apps/{app}/commands workspace":  "../x",
		"/v1/apps/{app}/resources cursor":    mark + " ZG9jcyA",
		"/v1/apps/{app}/resources limit":     number + " 201",

		"/v1/sessions/{id}/window before": turn,
		"/v1/sessions/{id}/window turns":  number + " 201",
		"/v1/sessions/{id}/window events": number + " 99 10001",

		"/v1/sessions/{id}/events after":  after,
		"/v1/sessions/{id}/events types":  "nosuch turn turn.* ,",
		"/v1/sessions/{id}/events deltas": truth,
		"/v1/sessions/{id}/events limit":  number + " 1001",
		"/v1/sessions/{id}/events format": "xml JSON",
		"/v1/sessions/{id}/events view":   "nosuch SDK",

		"/v1/sessions/{id}/turns view":          "nosuch SDK",
		"/v1/sessions/{id}/turns types":         "nosuch assistant", // without a view
		"/v1/sessions/{id}/turns deltas":        truth,
		"/v1/sessions/{id}/turns/stream deltas": truth,
		"/v1/sessions/{id}/turns/stream view":   "nosuch SDK",
		"/v1/sessions/{id}/turns/stream types":  "nosuch assistant",
		"/v1/sessions/{id}/events/stream view":  "nosuch SDK",
		"/v1/sessions/{id}/events/lines view":   "nosuch SDK",
		"/v1/sessions/{id}/events/ws view":      "nosuch SDK",
		"/v1/sessions/{id}/ws view":             "nosuch SDK",

		"/v1/sessions/{id}/events/stream after":  after,
		"/v1/sessions/{id}/events/stream types":  "nosuch turn",
		"/v1/sessions/{id}/events/stream deltas": truth,
		"/v1/sessions/{id}/events/lines after":   after,
		"/v1/sessions/{id}/events/lines types":   "nosuch turn",
		"/v1/sessions/{id}/events/lines deltas":  truth,
		"/v1/sessions/{id}/events/ws after":      after,
		"/v1/sessions/{id}/ws after":             after,
		"/v1/sessions/{id}/events/ws types":      "nosuch turn",
		"/v1/sessions/{id}/ws types":             "nosuch turn",
		"/v1/sessions/{id}/events/ws deltas":     truth,
		"/v1/sessions/{id}/ws deltas":            truth,

		"/v1/stream sessions": "{id}:abc {id}:-1 {id},{id} ,",
		"/v1/stream deltas":   truth,

		"/v1/interactions limit":  number + " 501",
		"/v1/interactions cursor": mark,

		"/v1/deliveries dead": truth,

		"/v1/artifacts/{id} inline": truth,

		"/v1/usage from": day,
		"/v1/usage to":   day,

		// What names a workspace, a file in it or a version of that is tested in api, which has some.
		"/v1/workspaces app":                    "nosuch -1",
		"/v1/workspaces/tree app":               "nosuch -1",
		"/v1/workspaces/tree workspace":         "",
		"/v1/workspaces/tree path":              "",
		"/v1/workspaces/tree after":             "",
		"/v1/workspaces/tree depth":             number + " 65",
		"/v1/workspaces/tree limit":             number + " 2001",
		"/v1/workspaces/tree ignored":           truth,
		"/v1/workspaces/file app":               "nosuch -1",
		"/v1/workspaces/file workspace":         "",
		"/v1/workspaces/file path":              "",
		"/v1/workspaces/file version":           "",
		"/v1/workspaces/file line":              number,
		"/v1/workspaces/file lines":             number,
		"/v1/workspaces/file/move app":          "nosuch -1",
		"/v1/workspaces/file/move workspace":    "",
		"/v1/workspaces/file/move path":         "",
		"/v1/workspaces/content app":            "nosuch -1",
		"/v1/workspaces/content workspace":      "",
		"/v1/workspaces/content path":           "",
		"/v1/workspaces/content inline":         truth,
		"/v1/workspaces/backlinks app":          "nosuch -1",
		"/v1/workspaces/backlinks workspace":    "",
		"/v1/workspaces/backlinks path":         "",
		"/v1/workspaces/history app":            "nosuch -1",
		"/v1/workspaces/history workspace":      "",
		"/v1/workspaces/history path":           "",
		"/v1/workspaces/history after":          "",
		"/v1/workspaces/history limit":          number + " 201",
		"/v1/workspaces/history/file app":       "nosuch -1",
		"/v1/workspaces/history/file workspace": "",
		"/v1/workspaces/history/file path":      "",
		"/v1/workspaces/history/file id":        "",
		"/v1/workspaces/history/file line":      number,
		"/v1/workspaces/history/file lines":     number,

		"/chat cursor":                                   flag,
		"/chat ping":                                     flag,
		"/events/{session_id} after":                     after + " 1.2-3",
		"/events/{session_id} cursor":                    flag,
		"/events/{session_id} ping":                      flag,
		"/apps/{app}/entities/{entity_id}/history hours": "0 -1 abc NaN 745",
		"/apps/{app}/entities/{entity_id}/history from":  "yesterday -1 2026-11-01",
		"/apps/{app}/entities/{entity_id}/history to":    "yesterday -1 2026-11-01",
	}
	for row, values := range map[string]string{"/{id} app": "", "/{id}/stream app": "", "/{id}/stream after": after, " app": "nosuch -1", " limit": number + " 201", " cursor": mark} {
		wrong["/v1/conversations"+row] = values
	}
	wrong["/v1/sessions/{id}/attachments name"] = "" // tested in api: it needs a file
	wrong["/v1/schedules app"] = "nosuch -1"
	// Lakes are tested in api, which has some, and what is proposed for one in tidy.
	for _, op := range []string{"", "/{id}", "/{id}/apply", "/{id}/reject"} {
		wrong["/v1/proposals"+op+" app"], wrong["/v1/proposals"+op+" workspace"] = "", ""
	}
	wrong["/v1/proposals after"], wrong["/v1/proposals limit"], wrong["/v1/proposals/{id} finding"] = "", number+" 101", ""
	for op, names := range map[string]string{
		"": "kind owner status tag folder title after", "/search": "kind owner status tag folder title after q", "/graph": "kind owner status tag folder title", "/tags": "", "/tree": "path after",
		"/entity": "path version reason", "/entity/move": "path", "/links": "path", "/backlinks": "path after", "/history": "path after", "/history/entity": "path commit", "/diff": "path from to",
		"/validate": "paths after", "/changes": "cursor", "/changes/stream": "cursor",
	} {
		wrong["/v1/entities"+op+" app"], wrong["/v1/entities"+op+" workspace"] = "nosuch -1", ""
		for name := range strings.FieldsSeq(names) {
			wrong["/v1/entities"+op+" "+name] = ""
		}
		switch op {
		case "", "/search", "/tree", "/backlinks", "/history", "/validate", "/changes":
			wrong["/v1/entities"+op+" limit"] = number + " 501"
		}
	}
	lakeNeeds := map[string]string{
		"/search": "q=a", "/entity": "path=a", "/entity/move": "path=a", "/links": "path=a", "/backlinks": "path=a", "/history": "path=a", "/history/entity": "path=a&commit=abcd", "/diff": "path=a",
	}
	p, _ := atHome(t, "", "")
	p.env = append(p.env, "PARLEY_ENABLED=chaos,home")
	s := p.serve()
	id := string(s.session("home"))
	in := strings.NewReplacer("{id}", id, "{session_id}", id, "{app}", "home", "{entity_id}", "light.bedroom")
	// The other parameters that a request needs, so that only one is wrong.
	others := map[string]string{
		"/v1/stream deltas":                             "sessions=" + id,
		"/apps/{app}/entities/{entity_id}/history from": "to=2026-11-02T00:00:00Z",
		"/apps/{app}/entities/{entity_id}/history to":   "from=2026-11-01T00:00:00Z",
	}
	refused := func(method, path, name, value, other string, header ...string) {
		t.Helper()
		body := ""
		switch {
		case path == "/v1/entities/entity/move":
			body = object("to", "b.md")
		case strings.HasPrefix(path, "/v1/entities") && method == http.MethodPost:
			body = object("path", "a.md", "body", "a")
		case strings.HasPrefix(path, "/v1/entities") && method == http.MethodPut:
			body = object("body", "a", "version", "b")
		case path == "/v1/workspaces/file/move":
			body = object("to", "b", "version", strings.Repeat("0", 64))
		case strings.HasPrefix(path, "/v1/sessions/{id}/turns") && method == http.MethodPost:
			body = object("message", "hello")
		case method == http.MethodPut:
			body = object("text", "a")
		case method == http.MethodPost:
			body = object("session_id", "a", "message", "hello")
		}
		a := s.ask(method, in.Replace(path)+"?"+name+"="+url.QueryEscape(value)+"&"+other, body, header...)
		want := http.StatusBadRequest
		if name == "app" {
			want = http.StatusNotFound
		}
		if e := problemOf(t, a); a.status != want || e.Field != name {
			t.Errorf("%s %s with %s=%s: got %s, want %d and the field", method, path, name, value, a, want)
		}
	}
	used := map[string]bool{} // a path may have the parameter for several methods
	for _, known := range parameters(t, s) {
		path, name, _ := strings.Cut(known.row, " ")
		values, ok := wrong[known.row]
		if !ok {
			t.Errorf("%s has no row in the table", known.row)
		}
		used[known.row] = true
		other := others[known.row]
		if strings.HasPrefix(path, "/v1/workspaces/") {
			other = "workspace=notes&path=a"
			if name != "app" {
				other += "&app=home"
			}
			if strings.HasSuffix(path, "/history/file") {
				other += "&id=b"
			}
		}
		if op, ok := strings.CutPrefix(path, "/v1/entities"); ok {
			other = lakeNeeds[op]
		}
		for value := range strings.FieldsSeq(in.Replace(values)) {
			if path == "/v1/sessions/{id}/events" && value == "turn.*" {
				continue // a pattern of types is valid
			}
			refused(known.method, path, name, value, other)
			if path == "/v1/sessions/{id}/events" && name != "format" { // this path with other parameters is a stream
				refused(known.method, path, name, value, "", "Accept", "text/event-stream")
			}
		}
	}
	for row := range wrong {
		if !used[row] {
			t.Errorf("%s is in the table, and no route has it", row)
		}
	}
	for _, path := range []string{"/v1/sessions?limit=%zz", "/v1/sessions?limit=1;before=2", "/events/" + id + "?after=%", "/chat?cursor=%zz"} {
		if a := s.ask("GET", path, ""); a.status != http.StatusBadRequest || problemOf(t, a).Code != parley.CodeInvalid {
			t.Errorf("GET %s: %s", path, a)
		}
	}
}

type parameter struct{ method, row string }

// parameters returns the query parameters in the server's document.
func parameters(t *testing.T, s *process) (list []parameter) {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(s.ask("GET", "/openapi.json", "").body, &doc); err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths {
		for method, raw := range item {
			var op struct {
				Parameters []struct{ Name, In string }
			}
			if json.Unmarshal(raw, &op) != nil {
				continue // a field of the path itself
			}
			for _, p := range op.Parameters {
				if p.In == "query" {
					list = append(list, parameter{strings.ToUpper(method), path + " " + p.Name})
				}
			}
		}
	}
	if len(list) < 20 {
		t.Errorf("the document has %d parameters", len(list))
	}
	return list
}
