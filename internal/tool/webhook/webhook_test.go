package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/callout"
	"github.com/parley-server/parley/internal/httpcall"
	"github.com/parley-server/parley/internal/seam"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="

// service is one that answers a message, after it has checked who sends it.
func service(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, m callout.Message)) *httptest.Server {
	t.Helper()
	check, err := webhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if err := check.Verify(body, r.Header); err != nil {
			t.Errorf("the signature: %v", err)
		}
		var m callout.Message
		if err := json.Unmarshal(body, &m); err != nil {
			t.Error(err)
		}
		answer(w, r, m)
	}))
	t.Cleanup(web.Close)
	return web
}

func toolset(t *testing.T, url string) *Toolset {
	t.Helper()
	s, err := New(Options{URL: url, Secret: secret, Tools: []callout.Tool{
		{ToolDecl: parley.ToolDecl{Name: "find", Effect: parley.EffectRead}},
		{ToolDecl: parley.ToolDecl{Name: "typed", Effect: parley.EffectRead, OutputSchema: json.RawMessage(`{"type":"object"}`)}},
		{ToolDecl: parley.ToolDecl{Name: "mail", Effect: parley.EffectWrite}, Reconcile: true},
		{ToolDecl: parley.ToolDecl{Name: "shout", Effect: parley.EffectWrite}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func run(tool string, effect parley.Effect) seam.Run {
	return seam.Run{
		Call: "01J", Name: tool, Input: json.RawMessage(`{"text":"a"}`), Effect: effect, Attempt: 2, App: "crm", Session: "s1",
		Principal: parley.Principal{User: "ana", Org: "acme"}, Keep: func(seam.File) error { return nil },
	}
}

// TestCall: what the service is told, and who tells it.
func TestCall(t *testing.T) {
	t.Parallel()
	var got callout.Message
	var header http.Header
	web := service(t, func(w http.ResponseWriter, r *http.Request, m callout.Message) {
		got, header = m, r.Header
		_, _ = io.WriteString(w, "found")
	})
	s := toolset(t, web.URL+"/tools")
	res, err := s.Run(t.Context(), run("find", parley.EffectRead))
	if err != nil || res.Outcome != parley.OutcomeOK || res.Output != "found" || res.Call != "01J" {
		t.Fatalf("%+v, %v", res, err)
	}
	want := callout.Data{Call: "01J", Tool: "find", Input: json.RawMessage(`{"text":"a"}`), App: "crm", Session: "s1", User: "ana", Org: "acme", Attempt: 2}
	if fmt.Sprint(got.Data) != fmt.Sprint(want) || got.Type != "tool.call" || got.Timestamp.IsZero() {
		t.Errorf("the service was told %+v", got)
	}
	for name, value := range map[string]string{"Webhook-Id": "01J", "Idempotency-Key": "01J", "Content-Type": "application/json"} {
		if header.Get(name) != value {
			t.Errorf("%s is %q, want %q", name, header.Get(name), value)
		}
	}
}

// TestAnswers: what each answer of a service says of the world.
func TestAnswers(t *testing.T) {
	t.Parallel()
	type file struct{ name, kind string }
	for _, c := range []struct {
		name    string
		tool    string
		status  int
		kind    string
		body    string
		outcome parley.Outcome // empty: it is left open
		output  string
		data    bool
		kept    file
	}{
		{"JSON", "find", 200, "application/json", `{"a": 1}`, parley.OutcomeOK, `{"a":1}`, false, file{}},
		{"JSON of a tool with a schema", "typed", 200, "application/json; charset=utf-8", `{"a": 1}`, parley.OutcomeOK, `{"a":1}`, true, file{}},
		{"JSON of a kind of its own", "typed", 200, "application/hal+json", `{"a": 1}`, parley.OutcomeOK, `{"a":1}`, true, file{}},
		{"JSON that is none", "mail", 200, "application/json", `{"a`, parley.OutcomeOK, `{"a`, false, file{}},
		{"text", "mail", 201, "text/plain", "mailed", parley.OutcomeOK, "mailed", false, file{}},
		{"nothing", "mail", 204, "", "", parley.OutcomeOK, "Done.", false, file{}},
		{"a file", "find", 200, "image/png", "\x89PNG\xff", parley.OutcomeOK, "map.png, 5 bytes of image/png, was kept as an artifact.", false, file{"map.png", "image/png"}},
		{"a table", "find", 200, "text/csv", "a,b\n", parley.OutcomeOK, "map.png, 4 bytes of text/csv, was kept as an artifact.", false, file{"map.png", "text/csv"}},
		{"a page", "find", 200, "text/html; charset=utf-8", "<p>", parley.OutcomeOK, "map.png, 3 bytes of text/html, was kept as an artifact.", false, file{"map.png", "text/html; charset=utf-8"}},
		{"too much", "mail", 200, "text/plain", strings.Repeat("a", httpcall.MaxAnswer+1), parley.OutcomeOK, "It is done. The answer", false, file{}},
		{"a refusal", "mail", 422, "application/json", `{"error":{"message":"no such address","hint":"ask for it"}}`, parley.OutcomeError, "no such address\nask for it", false, file{}},
		{"a refusal in text", "mail", 404, "text/plain", "no such thing\n", parley.OutcomeError, "no such thing", false, file{}},
		{"a refusal without words", "mail", 403, "", "", parley.OutcomeError, "the service answered 403 Forbidden", false, file{}},
		{"too often", "mail", 429, "", "", parley.OutcomeError, "429 Too Many Requests", false, file{}},
		{"a time-out", "mail", 408, "", "", "", "408 Request Timeout", false, file{}},
		{"a fault", "mail", 500, "text/plain", "panic", "", "500 Internal Server Error", false, file{}},
		{"a gateway", "mail", 502, "", "", "", "502 Bad Gateway", false, file{}},
		{"another place", "mail", 307, "", "", "", "307 Temporary Redirect", false, file{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			web := service(t, func(w http.ResponseWriter, _ *http.Request, _ callout.Message) {
				if c.kind != "" {
					w.Header().Set("Content-Type", c.kind)
				}
				w.Header().Set("Content-Disposition", `attachment; filename="../../map.png"`)
				w.Header().Set("Location", "/")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			var kept file
			r := run(c.tool, parley.EffectWrite)
			r.Keep = func(f seam.File) error { kept = file{f.Name, f.MediaType}; return nil }
			res, err := toolset(t, web.URL).Run(t.Context(), r)
			if c.outcome == "" {
				if err == nil || seam.IsNotSent(err) || !strings.Contains(err.Error(), c.output) {
					t.Errorf("%+v, %v", res, err)
				}
				return
			}
			if err != nil || res.Outcome != c.outcome || !strings.HasPrefix(res.Output, c.output) && !strings.HasSuffix(res.Output, c.output) || (res.Data != nil) != c.data || kept != c.kept {
				t.Errorf("%+v, %v; kept %v", res, err, kept)
			}
		})
	}
}

// TestLost: a call that never left is told from one of which nobody knows, and nothing
// is sent twice behind the engine's back.
func TestLost(t *testing.T) {
	t.Parallel()
	var arrived atomic.Int32
	web := service(t, func(_ http.ResponseWriter, _ *http.Request, m callout.Message) {
		arrived.Add(1)
		if m.Type == "tool.call" {
			panic(http.ErrAbortHandler)
		}
	})
	s := toolset(t, web.URL)
	for _, tool := range []string{"mail", "shout"} {
		if _, err := s.Run(t.Context(), run(tool, parley.EffectWrite)); err == nil || seam.IsNotSent(err) {
			t.Errorf("%s: a connection that was cut: %v", tool, err)
		}
	}
	if _, err := s.Run(t.Context(), run("find", parley.EffectRead)); err == nil || seam.IsNotSent(err) {
		t.Errorf("a read: %v", err)
	}
	if n := arrived.Load(); n != 3 {
		t.Errorf("%d requests of three calls", n)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	_ = l.Close()
	if _, err := toolset(t, url).Run(t.Context(), run("mail", parley.EffectWrite)); !seam.IsNotSent(err) || strings.Contains(err.Error(), "Post") {
		t.Errorf("nobody listens: %v", err)
	}

	// A service that has kept the connection open and goes away in the next call.
	var first atomic.Bool
	held := service(t, func(w http.ResponseWriter, _ *http.Request, _ callout.Message) {
		if arrived.Add(1); !first.CompareAndSwap(false, true) {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "a")
	})
	arrived.Store(0)
	s = toolset(t, held.URL)
	if _, err := s.Run(t.Context(), run("find", parley.EffectRead)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), run("find", parley.EffectRead)); err == nil || arrived.Load() != 2 {
		t.Errorf("%v, and %d requests of two calls", err, arrived.Load())
	}

	ctx, stop := context.WithCancel(t.Context())
	hang := service(t, func(_ http.ResponseWriter, r *http.Request, _ callout.Message) { stop(); <-r.Context().Done() })
	if _, err := toolset(t, hang.URL).Run(ctx, run("mail", parley.EffectWrite)); err == nil || seam.IsNotSent(err) {
		t.Errorf("cancelled under way: %v", err)
	}
}

// TestReconcile: the service is asked what became of a call, by an id of its own.
func TestReconcile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, tool, body string
		status           int
		known, fails     bool
		outcome          parley.Outcome
		output           string
	}{
		{"it happened", "mail", `{"happened":true,"output":"mailed"}`, 200, true, false, parley.OutcomeOK, "mailed"},
		{"it happened, without words", "mail", `{"happened":true}`, 200, true, false, parley.OutcomeOK, "Done."},
		{"it happened, as JSON", "mail", `{"happened":true,"output":{"id":7}}`, 200, true, false, parley.OutcomeOK, `{"id":7}`},
		{"it did not", "mail", `{"happened":false}`, 200, true, false, parley.OutcomeError, "it did not happen"},
		{"it cannot tell", "mail", `{"happened":null}`, 200, false, false, "", ""},
		{"another answer", "mail", `{}`, 200, false, false, "", ""},
		{"no JSON", "mail", `yes`, 200, false, true, "", ""},
		{"not there", "mail", ``, 404, false, true, "", ""},
		{"a tool that cannot be asked", "shout", ``, 500, false, false, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			web := service(t, func(w http.ResponseWriter, r *http.Request, m callout.Message) {
				if m.Type != "tool.reconcile" || m.Data.Call != "01J" || r.Header.Get("webhook-id") != "01J_reconcile" || r.Header.Get("Idempotency-Key") != "" || c.tool == "shout" {
					t.Errorf("asked %+v with %v", m, r.Header)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			res, known, err := toolset(t, web.URL).Reconcile(t.Context(), run(c.tool, parley.EffectWrite))
			if known != c.known || (err != nil) != c.fails || res.Outcome != c.outcome || !strings.Contains(res.Output, c.output) {
				t.Errorf("%+v, %v, %v", res, known, err)
			}
		})
	}
}

// TestNew: what is wrong is named, and no password is repeated.
func TestNew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o     Options
		field string
	}{
		{Options{URL: "crm", Secret: secret}, "url"},
		{Options{URL: "ftp://crm", Secret: secret}, "url"},
		{Options{URL: "http://ana:pass%word@crm", Secret: secret}, "url"},
		{Options{URL: "http://ana:password@crm", Secret: secret}, "url"},
		{Options{URL: "http://crm", Secret: "whsec_short"}, "secret"},
		{Options{URL: "http://crm", Secret: strings.TrimPrefix(secret, "whsec_")}, "secret"},
		{Options{URL: "http://crm", Secret: secret, Private: []string{"a:b"}}, "private"},
	} {
		_, err := New(c.o)
		var e *parley.Error
		if err == nil || !asError(err, &e) || e.Field != c.field || strings.Contains(err.Error(), "pass") || strings.Contains(err.Error(), "whsec_M") {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
	s, err := New(Options{URL: "http://crm.internal", Secret: secret, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := s.Tools(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

func asError(err error, e **parley.Error) bool {
	var ok bool
	*e, ok = errors.AsType[*parley.Error](err)
	return ok
}
