package program

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/auth"
)

// TestScopes_by_the_table_of_routes: a key opens exactly the routes of its scopes. A new route of
// the API is tried by itself; what deletes needs manage unless the test says otherwise.
func TestScopes_by_the_table_of_routes(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	for _, s := range auth.Scopes {
		var err error
		if k.keys[string(s)], _, err = k.house.access.Keys.Create(auth.Key{Name: "only-" + string(s), User: "ana", Scopes: []auth.Scope{s}}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	odd := map[string]auth.Scope{
		"GET /v1/me/signins": auth.ScopeManage, "GET /v1/me/keys": auth.ScopeManage, "POST /v1/signout": auth.ScopeManage,
		"GET /v1/logins": auth.ScopeManage, "POST /v1/logins": auth.ScopeManage, "POST /v1/turns/{id}/await": auth.ScopeRead,
		"DELETE /v1/sessions/{id}/queue/{turn}": auth.ScopeSend,
	}
	fill := strings.NewReplacer("{app}", "home", "{id}", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "{turn}", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "{name}", "nothing")
	try := func(method, path, pattern string, needs auth.Scope) {
		for _, s := range auth.Scopes {
			status, text, _ := k.ask(string(s), method, fill.Replace(path), `{"app":"none"}`)
			refused := status == http.StatusForbidden && strings.Contains(text, "--scope")
			if refused == (s == needs) {
				t.Errorf("%s with a key for %s: %d %s, and it needs %s", pattern, s, status, text, needs)
			}
		}
	}
	tried := 0
	for _, r := range k.house.api.Routes() {
		at := r.Method + " " + r.Path
		needs := map[string]auth.Scope{"GET": auth.ScopeRead, "DELETE": auth.ScopeManage}[r.Method]
		if needs == "" {
			needs = auth.ScopeSend
		}
		if s, ok := odd[at]; ok {
			needs = s
			delete(odd, at)
		}
		if r.Path == "/healthz" || r.Path == "/readyz" { // ask nobody
			continue
		}
		try(r.Method, r.Path, at, needs)
		tried++
	}
	for _, path := range []string{"/chat", "/mcp", "/apps/home/mcp"} {
		try("POST", path, path, auth.ScopeSend)
	}
	if tried < 45 || len(odd) > 0 {
		t.Errorf("%d routes were tried, and these do not exist: %v", tried, odd)
	}
	// A key with all of them is one without.
	all, _, err := k.house.access.Keys.Create(auth.Key{Name: "all", User: "ana", Scopes: auth.Scopes}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	k.keys["all"] = all
	var made parley.SessionInfo
	k.must(&made, "all", "POST", "/v1/sessions", `{"app":"home"}`)
	k.must(nil, "read", "GET", "/v1/sessions/"+string(made.ID), "")
	k.must(nil, "manage", "DELETE", "/v1/sessions/"+string(made.ID), "")
}
