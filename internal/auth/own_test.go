package auth_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/auth"
)

// TestOwn: at the origin of an app's page, whose scripts are others', a caller is limited to the app,
// and a key that opens more is refused, since the page sees it. A key for the page opens nothing else.
func TestOwn(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/keys.json"
	keys, err := auth.OpenKeys(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]string{"none": ""}
	for _, k := range []auth.Key{{Name: "whole", User: "ana"}, {Name: "desk", User: "ana", App: "desk"}, {Name: "metrics", Metrics: true}} {
		if made[k.Name], _, err = keys.Create(k, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if raw, _ := os.ReadFile(file); !strings.Contains(string(raw), `"version": 2`) {
		t.Errorf("a program that does not know keys for one app would accept them for everything:\n%s", raw)
	}
	for _, c := range []struct {
		mode      auth.Mode
		key, host string
		want      string // the user and the app that may be reached, or the code of the refusal
	}{
		{auth.ModeKeys, "whole", "ours", "ana "},
		{auth.ModeKeys, "desk", "ours", "forbidden"},
		{auth.ModeKeys, "whole", "desk", "forbidden"},
		{auth.ModeKeys, "desk", "desk", "ana desk"},
		{auth.ModeKeys, "desk", "shop", "forbidden"},
		{auth.ModeKeys, "metrics", "desk", "forbidden"},
		{auth.ModeKeys, "none", "desk", "unauthenticated"},
		{auth.ModeNone, "none", "ours", "local "},
		{auth.ModeNone, "none", "desk", "local desk"},
		{auth.ModeNone, "desk", "desk", "ana desk"},
		{auth.ModeNone, "desk", "ours", "forbidden"},
		{auth.ModeNone, "whole", "desk", "forbidden"},
	} {
		got := ""
		door := auth.Door(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			who, err := auth.Of(r.Context())
			if err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			got = who.User + " " + auth.App(r.Context())
		}), auth.Options{
			Mode: c.mode, Verifiers: []auth.Verifier{keys},
			Own:  func(r *http.Request) (string, bool) { return r.Host, r.Host != "ours" },
			Fail: func(_ http.ResponseWriter, err error) { got = string(parley.CodeOf(err)) },
		})
		r := httptest.NewRequest("GET", "/", nil)
		if r.Host = c.host; made[c.key] != "" {
			r.Header.Set("Authorization", "Bearer "+made[c.key])
		}
		door.ServeHTTP(httptest.NewRecorder(), r)
		if got != c.want {
			t.Errorf("%s with the key %s at the origin %s: got %q, want %q", c.mode, c.key, c.host, got, c.want)
		}
	}
	for _, k := range []auth.Key{{Name: "a", App: "a/b"}, {Name: "a", App: "desk", Metrics: true}} {
		if _, _, err := keys.Create(k, time.Now()); parley.CodeOf(err) != parley.CodeInvalid {
			t.Errorf("%+v: %v", k, err)
		}
	}
}
