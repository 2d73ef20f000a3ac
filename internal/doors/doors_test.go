package doors_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/doors"
	"github.com/parley-server/parley/internal/wire"
)

func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
}

// TestTable_returns: who may come without a key to where another service sends browsers, and where such
// a browser is sent on to.
func TestTable_returns(t *testing.T) {
	t.Parallel()
	d := doors.New(wire.Limits{})
	if err := d.Route("mine", http.MethodGet, "/api/mine/back", says("handed in")); err != nil {
		t.Fatal(err)
	}
	d.Return("/api/mine/back")
	for _, c := range []struct {
		method, path string
		header       []string
		open         bool
	}{
		{"GET", "/api/mine/back?state=s", []string{"Accept", "text/html,*/*;q=0.8"}, true},
		{"GET", "/api/mine/back", []string{"Sec-Fetch-Mode", "navigate", "Accept", "*/*"}, true},
		{"GET", "/api/mine/back", []string{"Sec-Fetch-Mode", "cors", "Accept", "text/html"}, false},
		{"GET", "/api/mine/back", []string{"Accept", "application/json"}, false},
		{"GET", "/api/mine/back", nil, false},
		{"GET", "/api/mine/back", []string{"Accept", "text/html", "Authorization", "Bearer pk_wrong"}, false},
		{"GET", "/api/mine/back", []string{"Accept", "text/html", "X-API-Key", "pk_wrong"}, false},
		{"POST", "/api/mine/back", []string{"Accept", "text/html"}, false},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		for i := 0; i < len(c.header); i += 2 {
			r.Header.Set(c.header[i], c.header[i+1])
		}
		if got := d.IsOpen(r); got != c.open {
			t.Errorf("%v: open %t", c, got)
		}
	}
	w := httptest.NewRecorder()
	doors.Back(w, httptest.NewRequest("GET", "/api/mine/back?code=c%2B1&state=s", nil))
	if to := w.Header().Get("Location"); w.Code != http.StatusSeeOther || to != "../../login.html?at=%2Fapi%2Fmine%2Fback&code=c%2B1&state=s" || w.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("%d to %s", w.Code, to)
	}
}

// TestTable: what each door answers, who needs an identity, and what is refused before a handler.
func TestTable(t *testing.T) {
	t.Parallel()
	d := doors.New(wire.Limits{MaxBody: 3})
	d.Handle("/v1/", says("api"))
	d.Open("/healthz", says("well"))
	d.Page("/apps/{app}/", says("page"))
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if err := d.Route("mine", method, "/mine/{id}", says("mine by "+method)); err != nil {
			t.Fatal(err)
		}
	}
	for _, taken := range []struct{ by, method, path string }{{"mine", "GET", "/mine/{id}"}, {"yours", "PUT", "/mine/{id}"}, {"yours", "", "/mine/{other}"}, {"yours", "", "/v1/"}, {"yours", "", "x"}, {"yours", "", "/{"}} {
		if err := d.Route(taken.by, taken.method, taken.path, says("taken")); err == nil {
			t.Errorf("%v is not taken", taken)
		}
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
		open               bool
	}{
		{"GET", "/v1/x", "", 200, "api", false},
		{"GET", "/healthz", "", 200, "well", true},
		{"GET", "/apps/a/", "", 200, "page", true},
		{"GET", "/apps/a?x=1", "", 307, "", true},
		{"POST", "/apps/a", "", 404, "as they are written", true},
		{"GET", "/mine/1", "", 200, "mine by GET", false},
		{"POST", "/mine/1", "abc", 200, "mine by POST", false},
		{"POST", "/mine/1", "abcd", 413, "more than 3 bytes", false},
		{"PUT", "/mine/1", "", 405, "GET, POST", false},
		{"GET", "/v1//x", "", 404, "as they are written", false},
		{"GET", "/v1/%2e%2e/healthz", "", 404, "as they are written", false},
		{"GET", "/v1/a%2fb", "", 404, "as they are written", false},
		{"GET", "/nothing", "", 404, "", false},
	} {
		r, w := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body)), httptest.NewRecorder()
		d.ServeHTTP(w, r)
		said := w.Body.String() + w.Header().Get("Allow")
		if w.Code != c.status || !strings.Contains(said, c.says) || d.IsOpen(r) != c.open {
			t.Errorf("%s %s: %d %s, open %t; want %d %s, %t", c.method, c.path, w.Code, said, d.IsOpen(r), c.status, c.says, c.open)
		}
		if to := w.Header().Get("Location"); c.status == 307 && to != "./a/?x=1" {
			t.Errorf("%s leads to %s", c.path, to)
		}
	}
	if by, methods := d.Owner("/mine/{id}"); by != "mine" || !slices.Equal(methods, []string{"GET", "POST"}) {
		t.Errorf("%s has it with %v", by, methods)
	}
	if got := d.Public(); !slices.Equal(got, []string{"/healthz", "/apps/{app}/"}) || len(d.Patterns()) != 4 {
		t.Errorf("public are %v of %v", got, d.Patterns())
	}
}
