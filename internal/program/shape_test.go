package program

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/parley-server/parley"
)

// TestShape_by_the_tables requests everything in the tables of patterns and routes in every
// wrong way. Each refusal is one error of the one shape, from whatever door.
func TestShape_by_the_tables(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	const none = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	fill := strings.NewReplacer("{app}", "home", "{session_id}", none, "{id}", none, "{turn}", none)
	methods := map[string][]string{} // by path; nil: the methods are not known here
	for _, pattern := range k.house.table.Patterns() {
		methods[fill.Replace(pattern)] = nil
	}
	for _, r := range k.house.api.Routes() {
		path := fill.Replace(r.Path)
		methods[path] = append(methods[path], r.Method)
	}
	methods["/v1/sessions/import"] = nil // "import" could also be a session's id
	for _, path := range []string{"/metrics", "/openapi.json", "/docs", "/"} {
		methods[path] = []string{"GET"}
	}
	for _, path := range k.house.table.Patterns() {
		if app, has := k.house.table.Owner(path); app != "" && !slices.Contains(has, "") {
			methods[fill.Replace(path)] = has
		}
	}
	// refused checks an answer, and returns its error if it has one.
	refused := func(what string, status int, text string, h http.Header) parley.ErrorInfo {
		t.Helper()
		if status/100 == 3 && (!strings.HasPrefix(strings.Fields(what)[1], "/apps") || !strings.HasPrefix(what, "GET ") && !strings.HasPrefix(what, "HEAD ")) {
			t.Errorf("%s: a program is sent elsewhere: %d %q", what, status, h.Get("Location"))
		}
		if status < 400 {
			if to := h.Get("Location"); strings.Contains(to, "://") || strings.HasPrefix(to, "//") {
				t.Errorf("%s: leads to %s", what, to)
			}
			return parley.ErrorInfo{}
		}
		if status >= 500 && status != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", what, status, text)
		}
		var p struct {
			JSONRPC string            `json:"jsonrpc"`
			ID      any               `json:"id"`
			Error   *parley.ErrorInfo `json:"error"`
			Detail  string            `json:"detail"`
		}
		if strings.HasPrefix(text, `{"error":{"code":-`) || strings.Contains(text, `"jsonrpc":"2.0"`) {
			if !strings.HasSuffix(strings.Fields(what)[1], "/mcp") {
				t.Errorf("%s: JSON-RPC: %s", what, text)
			}
			return parley.ErrorInfo{}
		}
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&p); err != nil || p.Error == nil || p.Error.Code == "" || p.Error.Message == "" || h.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s: %v: %.300s", what, status, h.Get("Content-Type"), err, text)
			return parley.ErrorInfo{}
		}
		at, _, _ := strings.Cut(strings.Fields(what)[1], "?")
		wire := strings.Contains(at, "/api/claude/") || strings.Contains(at, "/api/linkedin/") || strings.Contains(at, "/api/chat/")
		own := strings.HasPrefix(at, "/api/claude/") || strings.HasPrefix(at, "/api/linkedin/") || strings.HasPrefix(at, "/api/chat/") // also where there is nothing
		if p.Detail != "" && (!wire || p.Detail != p.Error.Message) || p.Detail == "" && own {
			t.Errorf("%s: the detail is %q: %s", what, p.Detail, text)
		}
		if status < 500 && p.Error.Hint == "" && !strings.HasSuffix(strings.Fields(what)[1], "/mcp") {
			t.Errorf("%s: no hint: %s", what, text)
		}
		return *p.Error
	}
	ask := func(method, path, body string, header ...string) (int, parley.ErrorInfo, http.Header) {
		t.Helper()
		status, text, h := k.ask("ana", method, path, body, header...)
		if method == http.MethodHead {
			if text != "" {
				t.Errorf("HEAD %s has a body", path)
			}
			return status, parley.ErrorInfo{}, h
		}
		return status, refused(fmt.Sprintf("%s %s", method, path), status, text, h), h
	}
	for _, path := range []string{"/api/claude/", "/api/claude/none", "/api/claude/chat/none", "/api/linkedin/none", "/api/chat/none", "/api/none", "/api/claude/../none"} {
		ask("GET", path, "")
		ask("POST", path, "{}")
	}
	all := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "get"}
	tried := 0
	for path, known := range methods {
		for _, method := range all {
			tried++
			status, _, h := ask(method, path, "{}")
			takes := slices.Contains(known, method) || method == "HEAD" && slices.Contains(known, "GET")
			if known != nil && !takes && (status != http.StatusMethodNotAllowed || h.Get("Allow") == "") {
				t.Errorf("%s %s: got %d, Allow %q, want 405", method, path, status, h.Get("Allow"))
			}
			if known != nil && !takes && !slices.Equal(sorted(strings.Split(h.Get("Allow"), ", ")), sorted(withHead(path, known))) {
				t.Errorf("%s %s: Allow is %q, and it takes %v", method, path, h.Get("Allow"), known)
			}
			if takes && method != "HEAD" && status == http.StatusMethodNotAllowed {
				t.Errorf("%s %s: 405", method, path)
			}
		}
		if status, text, _ := k.ask("ana", "OPTIONS", path, ""); status != http.StatusNoContent || text != "" {
			t.Errorf("OPTIONS %s: %d %s", path, status, text)
		}
		for _, body := range []string{"", "{", "null", "[]", `"a"`, "\x00\xff", strings.Repeat("[", 5000), `{"a":1}{`} {
			for _, method := range known {
				if method == "POST" || method == "PATCH" || method == "PUT" {
					tried++
					ask(method, path, body)
				}
			}
		}
		for _, method := range known {
			if method != "POST" && method != "PATCH" {
				continue
			}
			for _, header := range [][]string{{"Content-Type", "text/plain"}, {"Content-Type", ";;"}, {"Content-Encoding", "gzip"}, {"Accept", "image/png"}} {
				tried++
				ask(method, path, "{}", header...)
			}
			if path != "/v1/sessions/import" {
				size := 2 << 20
				if strings.HasSuffix(path, "/report") {
					size = 13 << 20 // with files
				}
				if status, e, _ := ask(method, path, `{"a":"`+strings.Repeat("x", size)+`"}`); status != http.StatusRequestEntityTooLarge && !ignoresBody(status) {
					t.Errorf("%s %s with %d MiB: %d %+v", method, path, size>>20, status, e)
				}
			}
		}
		bare := strings.TrimSuffix(path, "/")
		if bare == "" {
			continue
		}
		for _, odd := range []string{bare + "/nothing-here", bare + "//", "/" + path, bare + "/%2e%2e/x", bare + "%2F", bare + "/%00", bare + "/%ff", bare + "?%zz=1", bare + "?a=1;b=2", bare + "/..", bare + ";x", bare + "?a=1&a=2", bare + "?a=%ff"} {
			for _, method := range []string{"GET", "POST"} {
				tried++
				ask(method, odd, "{}")
			}
		}
	}
	for _, path := range []string{"//v1/apps", "/v1//apps", "/v1/./apps", "/v1/apps/../apps", "//v1/..", "/v1/../x", "/v1/..", "/chat/../v1/apps", "/v1"} {
		for _, method := range all {
			w := httptest.NewRecorder()
			k.house.table.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, http.NoBody))
			if w.Code != http.StatusNotFound || w.Header().Get("Content-Type") != "application/json" || !strings.Contains(w.Body.String(), `"hint":"`) {
				t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
			}
		}
	}
	for _, path := range []string{"/nothing", "/v1/nothing", "/v1", "/v2/sessions", "/assets/nothing.js", "/apps/home/nothing", "/apps/nothing/", "/apps/nothing", "/events", "/chat/", "/mcp/", "/healthz/", "/metrics/x"} {
		for _, method := range []string{"POST", "PUT", "DELETE"} {
			if status, e, _ := ask(method, path, "{}"); status != http.StatusNotFound || e.Code != parley.CodeNotFound {
				t.Errorf("%s %s: got %d %+v, want 404", method, path, status, e)
			}
		}
	}
	if tried < 800 {
		t.Errorf("only %d requests were made", tried)
	}
}

// ignoresBody reports whether the server answers before it checks a body's size, because it
// reads no body or the path is not found.
func ignoresBody(status int) bool { return status/100 == 2 || status == 404 }

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// withHead adds HEAD for the page. HEAD is allowed wherever GET is.
func withHead(path string, known []string) []string {
	if path == "/" {
		return []string{"GET", "HEAD"}
	}
	return known
}
