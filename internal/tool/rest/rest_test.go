package rest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/rest"
)

// api is a service that notes what it gets.
type api struct {
	*httptest.Server
	mu   sync.Mutex
	got  []string // METHOD target|header...|body
	then http.HandlerFunc
}

func newAPI(t *testing.T) *api {
	t.Helper()
	a := &api{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.got = append(a.got, fmt.Sprintf("%s %s|%s|%s|%s|%s", r.Method, r.RequestURI, r.Header.Get("Authorization"), r.Header.Get("X-Org-Id"), r.Header.Get("Idempotency-Key"), body))
		then := a.then
		a.mu.Unlock()
		if then != nil {
			then(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"ok":true}`)
	}))
	t.Cleanup(a.Close)
	return a
}

// answer sets how the service answers from now on.
func (a *api) answer(then http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.then = then
}

func (a *api) took() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	got := a.got
	a.got = nil
	return got
}

const token = "s3cr3t-token-4711"

func newTools(t *testing.T, o rest.Options) *rest.Toolset {
	t.Helper()
	tools, err := rest.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	return tools
}

func run(t *testing.T, tools *rest.Toolset, input string, change ...func(*seam.Run)) (parley.ToolResult, error) {
	t.Helper()
	r := seam.Run{
		Call: "call-1", Name: rest.Name, Input: json.RawMessage(input), Effect: tools.EffectOf(rest.Name, json.RawMessage(input)), Attempt: 1,
		Principal: parley.Principal{User: "leads:u1", Org: "leads:org_1"},
		Keep:      func(seam.File) error { return nil },
		Credential: func(name, host string) (string, error) {
			if name != rest.Credential || host != "127.0.0.1" {
				return "", fmt.Errorf("asked for %s to %s", name, host)
			}
			return token, nil
		},
	}
	for _, f := range change {
		f(&r)
	}
	return tools.Run(t.Context(), r)
}

// TestRequests: what is sent is what the input says, with the user's token and organisation; the body byte for byte
// as it is shown and kept, without space between its tokens.
func TestRequests(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	tools := newTools(t, rest.Options{BaseURLs: []string{a.URL, a.URL + "/v2/"}, Idempotent: []string{"POST /api/leads"}, KeyTTL: parley.Duration(time.Hour)})
	auth := "|Bearer " + token + "|org_1|"
	for input, want := range map[string]string{
		`{"method":"GET","path":"/api/leads"}`:                                                            "GET /api/leads" + auth + "|",
		`{"method":"HEAD","path":"/api/leads/"}`:                                                          "HEAD /api/leads/" + auth + "|",
		`{"method":"GET","path":"/api/leads","query":{"q":"a b+c&d","n":5,"x":true,"l":["1","2"]}}`:       "GET /api/leads?l=1&l=2&n=5&q=a%20b%2Bc%26d&x=true" + auth + "|",
		`{"method":"POST","path":"/api/leads","body":{"b" : 1.50,  "a":"<é>\u003c","n":[1e3]}}`:           "POST /api/leads" + auth + `call-1|{"b":1.50,"a":"<é>\u003c","n":[1e3]}`,
		`{"method":"PUT","path":"/api/x/a%20b","body":{}}`:                                                "PUT /api/x/a%20b" + auth + "|{}",
		`{"method":"DELETE","path":"/api/x/it's-(a)~$&+,=:@!*","query":{"force":true}}`:                   "DELETE /api/x/it's-(a)~$&+,=:@!*?force=true" + auth + "|",
		`{"method":"PATCH","path":"/api/%C3%A9","body":{"title":"t"},"title":"T","summary":"S"}`:          "PATCH /api/%C3%A9" + auth + `|{"title":"t"}`,
		`{"method":"DELETE","path":"/api/leads/1","body":null,"query":null,"fields":null,"entries":null}`: "DELETE /api/leads/1" + auth + "|",
	} {
		if _, err := run(t, tools, input); err != nil {
			t.Errorf("%s: %v", input, err)
		}
		if diff := cmp.Diff([]string{want}, a.took()); diff != "" {
			t.Errorf("%s: %s", input, diff)
		}
	}
	hint := func(base any) func(*seam.Run) {
		return func(r *seam.Run) { r.Hints = map[string]any{rest.BaseHint: base} }
	}
	if _, err := run(t, tools, `{"method":"GET","path":"/api/leads"}`, hint(strings.ToUpper(a.URL[:4])+a.URL[4:]+"/v2")); err != nil {
		t.Error(err)
	}
	if got := a.took(); len(got) != 1 || !strings.HasPrefix(got[0], "GET /v2/api/leads|") {
		t.Errorf("got %v", got)
	}
	for _, base := range []any{"http://evil.example", a.URL + "/v3", a.URL + "@evil.example", 7, nil, "//" + a.Listener.Addr().String(), a.URL + "/v2/..", a.URL + "/v2?x=1"} {
		if _, err := run(t, tools, `{"method":"GET","path":"/api/leads"}`, hint(base)); !seam.IsNotSent(err) || parley.CodeOf(err) != parley.CodeForbidden {
			t.Errorf("%v: %v", base, err)
		}
	}
	if got := a.took(); got != nil {
		t.Errorf("got %v", got)
	}
}

// TestProposals: what a person confirms is the request as it will be sent, and a GET that changes something is not
// called a look.
func TestProposals(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]rest.Proposal{
		`{"method":"POST","path":"/a","query":{"q":"b c"},"title":" Add\n it","body":{ "n" : [1.0, "<é> \u003c"] }}`: {Title: "Add it", Method: "POST", Path: "/a?q=b%20c", Body: []byte(`{"n":[1.0,"<é> \u003c"]}`)},
		`{"method":"GET","path":"/a/unsubscribe"}`: {Title: "Carry out GET /a/unsubscribe", Method: "GET", Path: "/a/unsubscribe"},
		`{"method":"DELETE","path":"/a"}`:          {Title: "Delete /a", Method: "DELETE", Path: "/a"},
	} {
		got, err := rest.Propose(json.RawMessage(input))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", input, err, diff)
		}
	}
	if _, err := rest.Propose(json.RawMessage(`{"method":"GET","path":"/é"}`)); err == nil || !strings.Contains(err.Error(), `"é"`) {
		t.Errorf("got %v", err)
	}
}

// wrong are inputs that nothing may be made of.
var wrong = []string{
	``, `null`, `[]`, `"GET"`, `{}`, `{"method":"GET"}`, `{"path":"/a"}`,
	// the method
	`{"method":"get","path":"/a"}`, `{"method":"Post","path":"/a"}`, `{"method":"POST ","path":"/a"}`, `{"method":"CONNECT","path":"/a"}`, `{"method":"TRACE","path":"/a"}`,
	`{"method":"OPTIONS","path":"/a"}`, `{"method":"PO\u0000ST","path":"/a"}`, `{"method":["GET"],"path":"/a"}`, `{"method":"GET /a HTTP/1.1\r\nX: y","path":"/a"}`,
	// fields in another case, twice, and unknown ones
	`{"Method":"GET","path":"/a"}`, `{"method":"GET","Method":"POST","path":"/a"}`, `{"method":"GET","method":"POST","path":"/a"}`, `{"method":"GET","path":"/a","PATH":"/b"}`,
	`{"method":"GET","path":"/a","headers":{"X-HTTP-Method-Override":"DELETE"}}`, `{"method":"GET","path":"/a","url":"http://evil.example"}`, `{"method":"GET","path":"/a","host":"evil.example"}`,
	`{"method":"GET","path":"/a","proxy":"http://evil.example:3128"}`, `{"method":"POST","path":"/a","body":{"a":1,"a":2}}`,
	// a body that does not belong there, or is none
	`{"method":"GET","path":"/a","body":{}}`, `{"method":"HEAD","path":"/a","body":{}}`, `{"method":"POST","path":"/a","body":"{}"}`, `{"method":"POST","path":"/a","body":[]}`,
	// parameters that change the method
	`{"method":"GET","path":"/a","query":{"_method":"DELETE"}}`, `{"method":"GET","path":"/a","query":{"X-HTTP-Method-Override":"DELETE"}}`, `{"method":"GET","path":"/a","query":{"_Method":"PUT"}}`,
	`{"method":"GET","path":"/a","query":{"httpMethod":"PUT"}}`, `{"method":"GET","path":"/a","query":{"x_method_override":"PUT"}}`, `{"method":"GET","path":"/a","query":{"":"x"}}`,
	`{"method":"GET","path":"/a","query":{"x":{"y":1}}}`, `{"method":"GET","path":"/a","query":{"x":null}}`, `{"method":"GET","path":"/a","query":[1]}`,
	`{"method":"GET","path":"/a","entries":"5"}`, `{"method":"GET","path":"/a","fields":"id"}`,
}

// paths are paths that nothing may be made of.
var paths = []string{
	"", "a", "api/leads", "http://evil.example/a", "//evil.example/a", "/\\evil.example", "/a//b", "//", "/a/./b", "/a/../b", "/..", "/.", "/a/..", "/a/.",
	"/a/%2e%2e/b", "/a/%2E%2E/b", "/a/%2e/b", "/a/.%2e/b", "/a%2fb", "/a%2Fb", "/a%5cb", "/a%5Cb", "/a\\b", "/a%252e", "/%25", "/a%00", "/a%0a", "/a%0D%0AX:y", "/a%7F", "/a b", "/a\tb", "/a\nb", "/a\x00b",
	"/a?x=1", "/a#x", "/a%3Fx=1", "/a%23x", "/a;x=1", "/a%3B", "/%61pi", "/%41", "/a%2", "/a%", "/a%zz", "/a%c3%a9", "/é", "/a%FF", "/a\"b", "/a<b", "/a{b}", "/a|b", "/a^b", "/a`b", "/a[b]",
	"/" + strings.Repeat("a", 2048), "@evil.example/", ":80/", "/a/\u2025/b", "/a/\uff0e\uff0e/b", "/a/%EF%BC%8E%EF%BC%8E\x7f",
}

// TestPaths: a path has one form. Nothing is sent for another, and nobody is asked about it.
func TestPaths(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	tools := newTools(t, rest.Options{BaseURLs: []string{a.URL}})
	list := wrong
	for _, p := range paths {
		for _, method := range []string{"GET", "DELETE"} {
			raw, err := json.Marshal(map[string]string{"method": method, "path": p})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(p, "\xff") {
				continue // it cannot be written
			}
			list = append(list, string(raw))
		}
	}
	for _, input := range list {
		if err := tools.Vet(rest.Name, json.RawMessage(input)); err == nil {
			t.Errorf("%s: a person would be asked", input)
		}
		if e := tools.EffectOf(rest.Name, json.RawMessage(input)); e != parley.EffectWrite {
			t.Errorf("%s: the effect is %s", input, e)
		}
		if _, err := run(t, tools, input); !seam.IsNotSent(err) {
			t.Errorf("%s: %v", input, err)
		}
	}
	if got := a.took(); got != nil {
		t.Errorf("got %v", got)
	}
}

// TestOneForm: what matches a pattern in any form that is let through is a write.
func TestOneForm(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	tools := newTools(t, rest.Options{BaseURLs: []string{a.URL}, Writes: []string{"GET /api/leads/*/merge", "* /api/reset"}})
	for path, want := range map[string]parley.Effect{
		"/api/leads/1/merge": parley.EffectWrite, "/api/leads/1/merge/": parley.EffectWrite, "/API/Leads/1/MERGE": parley.EffectWrite, "/api/reset": parley.EffectWrite,
		"/api/leads/1/merge.json": parley.EffectWrite, "/api/leads/1/merge.json/": parley.EffectWrite, "/api/leads/1/merge%20": parley.EffectWrite, "/api/leads/1/merge%C2%A0": parley.EffectWrite,
		"/api/leads./1/%EF%BD%8Derge": parley.EffectWrite, "/api/leads/1/m%E2%80%8Berge": parley.EffectWrite, "/api/re%C5%BFet": parley.EffectWrite,
		"/api/leads/a.b": parley.EffectRead, "/api/leads/%E6%A0%AA/x": parley.EffectRead,
		"/api/leads/1/merges": parley.EffectRead, "/api/leads/merge": parley.EffectRead, "/api/leads/1/2/merge": parley.EffectRead,
	} {
		for _, method := range []string{"GET", "HEAD"} {
			input := fmt.Sprintf(`{"method":%q,"path":%q}`, method, path)
			if got := tools.EffectOf(rest.Name, json.RawMessage(input)); got != want {
				t.Errorf("%s: got %s, want %s", input, got, want)
			}
			if want == parley.EffectWrite {
				if _, err := run(t, tools, input, func(r *seam.Run) { r.Effect = parley.EffectRead }); !seam.IsNotSent(err) {
					t.Errorf("%s ran as a read: %v", input, err)
				}
			}
		}
	}
	if got := a.took(); got != nil {
		t.Errorf("got %v", got)
	}
	for _, looks := range []string{"/api%EF%BC%8Freset", "/api/x/%EF%BC%8E%EF%BC%8E/reset", "/api/x/%E2%80%A5/reset", "/api/reset%EF%BC%9Bx", "/api/x%E2%80%8B/%E2%80%8B/reset", "/api/%EF%BC%8575"} {
		if _, err := rest.Parse(json.RawMessage(fmt.Sprintf(`{"method":"GET","path":%q}`, looks))); err == nil || !strings.Contains(err.Error(), "unified") {
			t.Errorf("%s: %v", looks, err)
		}
	}
	for _, bad := range []string{"", "GET", "get /a", "GET a", "GET /a?x", "FOO /a", "GET /a/../b"} {
		if _, err := rest.ParsePattern(bad); err == nil {
			t.Errorf("%q is a pattern", bad)
		}
	}
}

// TestOrganisations: an organisation is sent as whoever issued the token calls it, and one that no issuer has
// named as it is.
func TestOrganisations(t *testing.T) {
	t.Parallel()
	for org, want := range map[string]string{"clerk:org_1": "org_1", "leads:a:b": "a:b", "org_1": "org_1"} {
		if got := rest.OwnOrg(org); got != want {
			t.Errorf("%s: got %s", org, got)
		}
	}
	seen := map[string]string{}
	for _, org := range []string{"", "acme", "acme:west", ":west", "::", "a:b:c"} {
		kept := rest.KeptOrg(org)
		if rest.OwnOrg(kept) != org || seen[kept] != "" {
			t.Errorf("%q is kept as %q and sent as %q", org, kept, rest.OwnOrg(kept))
		}
		seen[kept] = org
	}
}

// TestRedirects: none is followed, and the token goes nowhere else.
func TestRedirects(t *testing.T) {
	t.Parallel()
	other, a := newAPI(t), newAPI(t)
	tools := newTools(t, rest.Options{BaseURLs: []string{a.URL}})
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{other.URL + "/x", "/api/other"} {
			a.answer(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", to)
				w.WriteHeader(status)
			})
			if _, err := run(t, tools, `{"method":"GET","path":"/api/leads"}`); err == nil || !strings.Contains(err.Error(), "redirects are not followed") {
				t.Errorf("%d: %v", status, err)
			}
			if _, err := run(t, tools, `{"method":"POST","path":"/api/leads","body":{}}`); err == nil || seam.IsNotSent(err) {
				t.Errorf("%d: %v", status, err) // whether it was done is not known
			}
			if got := a.took(); len(got) != 2 {
				t.Errorf("got %v", got)
			}
		}
	}
	if got := other.took(); got != nil {
		t.Errorf("got %v", got)
	}
}

// TestCut: an answer is cut to what was asked for, and the whole is kept.
func TestCut(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	whole := `{"items":[{"id":1,"name":"A","note":"x"},{"id":2,"name":"B","note":"y"},{"id":3,"name":"C","note":"z"}],"total":3}`
	a.answer(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, whole)
	})
	tools := newTools(t, rest.Options{BaseURLs: []string{a.URL}})
	for input, want := range map[string]string{
		`{"method":"GET","path":"/l"}`: whole,
		`{"method":"GET","path":"/l","fields":["items[].name","total"],"entries":2}`: `{"items":[{"name":"A"},{"name":"B"}],"total":3}` + "\n[the answer has 1 more entries; the whole, 114 bytes, is in the artifact api_request-call-1.json]",
		`{"method":"GET","path":"/l","fields":["total"]}`:                            `{"total":3}` + "\n[the answer has more fields; the whole, 114 bytes, is in the artifact api_request-call-1.json]",
		`{"method":"GET","path":"/l","entries":3}`:                                   whole,
	} {
		var kept []string
		res, err := run(t, tools, input, func(r *seam.Run) {
			r.Keep = func(f seam.File) error { kept = append(kept, string(f.Body)); return nil }
		})
		if diff := cmp.Diff(want, res.Output); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", input, err, diff)
		}
		if cut := want != whole; cut != (len(kept) == 1 && kept[0] == whole) {
			t.Errorf("%s: kept %v", input, kept)
		}
	}
}

// TestPrepare: a token that has expired, or that the API does not accept any more, is asked for before
// anything is sent.
func TestPrepare(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	valid := true
	a.answer(func(w http.ResponseWriter, _ *http.Request) {
		if !valid {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"id":"u1","orgs":[{"id":"o1"},"o2"]}`)
	})
	now := time.Unix(1_800_000_000, 0)
	clock := func() time.Time { return now }
	ids, err := rest.NewIdentities(a.URL+"/me", nil, false, clock)
	if err != nil {
		t.Fatal(err)
	}
	tools := newTools(t, rest.Options{BaseURLs: []string{a.URL}, Identities: ids, Now: clock})
	input := `{"method":"GET","path":"/api/leads"}`
	asks := func(token string) bool {
		t.Helper()
		in, err := tools.Prepare(t.Context(), seam.Run{Name: rest.Name, Input: json.RawMessage(input), Credential: func(string, string) (string, error) { return token, nil }})
		if err != nil || in != nil && in.Kind != parley.KindCredential {
			t.Fatalf("%+v, %v", in, err)
		}
		return in != nil
	}
	jwt := func(exp time.Time) string {
		return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, exp.Unix())) + ".sig"
	}
	if asks(token) || asks(jwt(now.Add(time.Second))) || !asks(jwt(now)) || !asks(jwt(now.Add(-time.Hour))) {
		t.Error("an expired token counts")
	}
	p, ok, err := ids.Whose(t.Context(), token)
	if diff := cmp.Diff(rest.Person{User: "u1", Orgs: []string{"o1", "o2"}}, p); diff != "" || !ok || err != nil {
		t.Errorf("%v %v %s", ok, err, diff)
	}
	a.took()
	valid = false
	if asks(token) || a.took() != nil {
		t.Error("the answer does not count for a minute")
	}
	input = `{"method":"POST","path":"/api/leads"}`
	if !asks(token) || len(a.took()) != 1 {
		t.Error("a write would be sent with a token that has ended meanwhile")
	}
	if input = `{"method":"GET","path":"/api/leads"}`; !asks(token) || a.took() != nil {
		t.Error("the refusal does not count for a while")
	}
	now = now.Add(time.Minute)
	if !asks(token) {
		t.Error("the token still counts")
	}
	a.took()
	if !asks(token) || a.took() != nil {
		t.Error("the refusal does not count for a while")
	}
	valid = true
	now = now.Add(6 * time.Second)
	if asks(token) {
		t.Error("the refusal counts for ever")
	}
	for _, odd := range []string{"", "a b", "a\r\nb", strings.Repeat("x", 9000)} {
		if _, ok, err := ids.Whose(t.Context(), odd); ok || err != nil {
			t.Errorf("%q: %v, %v", odd, ok, err)
		}
	}
	for _, who := range []struct{ org, want string }{{"", "leads:o1"}, {"o2", "leads:o2"}, {"o3", ""}} {
		got, err := p.Principal("leads", who.org)
		if (err == nil) != (who.want != "") || got.Org != who.want {
			t.Errorf("%q: %v, %v", who.org, got, err)
		}
	}
}

// TestIdentityAnswers: an answer that is not what is expected lets nobody in, and is not kept.
func TestIdentityAnswers(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	ids, err := rest.NewIdentities(a.URL, nil, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ids.Close()
	for i, said := range []string{`{}`, `[]`, `x`, `{"id":""}`, `{"id":{"id":{"id":"x"}}}`, `{"id":"a b"}`, `{"id":null}`, `{"orgs":["o"]}`} {
		a.answer(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, said) })
		if p, ok, err := ids.Whose(t.Context(), fmt.Sprint("token-", i)); ok || parley.CodeOf(err) != parley.CodeUnavailable {
			t.Errorf("%s: %+v, %v, %v", said, p, ok, err)
		}
	}
	for status, refused := range map[int]bool{401: true, 403: true, 404: false, 500: false, 302: false, 204: false} {
		a.answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		_, ok, err := ids.Whose(t.Context(), fmt.Sprint("status-", status))
		if ok || (err == nil) != refused {
			t.Errorf("%d: %v, %v", status, ok, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a.answer(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"id":7}`) })
	if _, ok, err := ids.Whose(ctx, "given-up"); ok || err == nil {
		t.Error("it did not end with its caller")
	}
	if p, ok, err := ids.Whose(t.Context(), "number"); !ok || p.User != "7" || err != nil {
		t.Errorf("%+v %v %v", p, ok, err)
	}
}

// TestIdentityOutage: an API that cannot be asked is in the log, once, and not in what strangers are told.
func TestIdentityOutage(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	ids, err := rest.NewIdentities(a.URL+"/internal/me", nil, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ids.Close()
	var log bytes.Buffer
	ids.Logger = slog.New(slog.NewTextHandler(&log, nil))
	host := strings.TrimPrefix(a.URL, "http://")
	a.answer(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for i := range 3 {
		_, ok, err := ids.Whose(t.Context(), fmt.Sprint("stranger-", i))
		if said := fmt.Sprintf("%+v", parley.Info(err)); ok || parley.CodeOf(err) != parley.CodeUnavailable || strings.Contains(said, host) {
			t.Errorf("got %v, %s", ok, said)
		}
	}
	a.answer(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"id":7}`) })
	for i := range 2 {
		if _, ok, err := ids.Whose(t.Context(), fmt.Sprint("number-", i)); !ok || err != nil {
			t.Errorf("%v %v", ok, err)
		}
	}
	said := log.String()
	if strings.Count(said, "does not say whose") != 1 || strings.Count(said, "says again") != 1 || !strings.Contains(said, host) || strings.Contains(said, "stranger-") {
		t.Errorf("got\n%s", said)
	}
}

// TestIdentitiesUnderWay: callers that give up leave a limited number of requests behind, and Close
// ends those.
func TestIdentitiesUnderWay(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	entered := make(chan struct{}, 100)
	a.answer(func(_ http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-r.Context().Done()
	})
	ids, err := rest.NewIdentities(a.URL, nil, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ids.Close()
	answered := make(chan error, 1)
	go func() {
		_, _, err := ids.Whose(t.Context(), "patient")
		answered <- err
	}()
	<-entered
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	n := 0
	for ; n < 5000; n++ {
		if _, _, err := ids.Whose(gone, fmt.Sprint("token-", n)); parley.CodeOf(err) == parley.CodeUnavailable {
			break
		}
	}
	if n < 100 || n == 5000 {
		t.Errorf("%d tokens are asked about", n)
	}
	ids.Close()
	select {
	case err := <-answered:
		if parley.CodeOf(err) != parley.CodeUnavailable {
			t.Errorf("got %v", err)
		}
	case <-time.After(5 * time.Second): // a request takes 10 s to end by itself
		t.Error("a request goes on after Close")
	}
	if _, ok, err := ids.Whose(t.Context(), "late"); ok || parley.CodeOf(err) != parley.CodeUnavailable {
		t.Errorf("after Close: %v, %v", ok, err)
	}
}

// TestOptions: a mistake names its option.
func TestOptions(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]rest.Options{
		"base_urls": {}, "base_urls[0]": {BaseURLs: []string{"crm.example.com"}}, "base_urls[1]": {BaseURLs: []string{"https://a.example", "http://b.example"}},
		"writes[0]": {BaseURLs: []string{"https://a.example"}, Writes: []string{"x"}}, "key_ttl": {BaseURLs: []string{"https://a.example"}, Idempotent: []string{"POST /a"}},
		"private": {BaseURLs: []string{"https://a.example"}, Private: []string{"a/b/c"}},
	} {
		_, err := rest.New(o)
		joined, ok := err.(interface{ Unwrap() []error })
		if !ok || len(joined.Unwrap()) != 1 || parley.Info(joined.Unwrap()[0]).Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, at := range []string{"", "x", "ftp://a", "https://u:p@a.example/me", "http://b.example/me"} {
		if _, err := rest.NewIdentities(at, nil, false, nil); err == nil {
			t.Errorf("%q may be asked", at)
		}
	}
	if u, err := rest.Base("HTTPS://API.Example.com:443/v1/"); err != nil || u.String() != "https://api.example.com/v1" {
		t.Errorf("%v %v", u, err)
	}
}
