package api_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/redact/redacttest"
)

// TestGuard_redacts_refusals: a refusal may quote its input, but not a secret.
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
		allow              string // expected Access-Control-Allow-Origin
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
			if c.method != "POST" {
				return
			}
			// The handshake of a WebSocket is judged as a POST is.
			for _, upgrade := range []string{"websocket", "WebSocket", "h2c, websocket"} {
				r := r.Clone(t.Context())
				r.Method = "GET"
				r.Header.Set("Upgrade", upgrade)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if got := w.Header().Get("Access-Control-Allow-Origin"); w.Code != c.status || got != c.allow {
					t.Errorf("as the handshake of %s: got %d and allowed %q, want %d and %q", upgrade, w.Code, got, c.status, c.allow)
				}
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

	t.Run("requests_that_no_door_accepts", func(t *testing.T) {
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

// TestLengthsThatAreTooLarge: a request whose Content-Length is too large is refused without
// waiting for its body, and is told the limit.
func TestLengthsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	id := string(w.session(`{"app":"test"}`).ID)
	for path, says := range map[string]string{
		"/v1/sessions": "at most 1 MiB", "/v1/sessions/import": "", "/v1/sessions/" + id + "/turns": "at most 1 MiB", "/v1/sessions/" + id + "/fork": "at most 1 MiB",
		"/v1/sessions/" + id + "/attachments?name=a.txt": "the file is larger than 20 MiB",
	} {
		r := httptest.NewRequest(http.MethodPost, path, iotest.ErrReader(errors.New("its bytes were waited for")))
		r.ContentLength = 99_999_999_999_999
		r.Header.Set("Content-Type", "application/json")
		got := httptest.NewRecorder()
		w.api.ServeHTTP(got, r)
		if e := problem(t, got.Result()); got.Code != http.StatusRequestEntityTooLarge || e.Code != parley.CodeTooLarge || e.Hint == "" || !strings.Contains(e.Message, says) {
			t.Errorf("POST %s: got %d %+v, want %q", path, got.Code, e, says)
		}
	}
}

// TestGuard_headers_given_twice: a header that says what a request is about may be sent only once.
// With two of them, a proxy before the server might use the other one.
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
