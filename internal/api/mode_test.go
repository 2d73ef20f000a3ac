package api_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestModes_that_an_app_does_not_offer: this wire refuses such a mode and names the field. A fork or
// an import cannot bring one in either.
func TestModes_that_an_app_does_not_offer(t *testing.T) {
	t.Parallel()
	const bypass = `"bypassPermissions"`
	modeOf := func(w *world, id parley.SessionID) (is struct{ Mode parley.PermissionMode }) {
		w.t.Helper()
		w.call(200, &is, "GET", "/v1/sessions/"+string(id)+"/window", "")
		return is
	}
	open := newWorld(t, enginetest.Echo, enginetest.App(func(a *parley.App) { a.Policy.Modes = []parley.PermissionMode{parley.ModeBypassPermissions} }))
	free := open.session(`{"app":"test","mode":` + bypass + `}`)
	if got := modeOf(open, free.ID).Mode; got != parley.ModeBypassPermissions {
		t.Fatalf("where it is offered the mode is %q", got)
	}
	resp := open.ask("GET", "/v1/sessions/"+string(free.ID)+"/export", "")
	archive, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp.StatusCode, err)
	}

	w := newWorld(t, enginetest.Echo, enginetest.App())
	own := w.session(`{"app":"test","mode":"plan"}`)
	path := "/v1/sessions/" + string(own.ID)
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		field              string
	}{
		"create":               {"POST", "/v1/sessions", `{"app":"test","mode":` + bypass + `}`, 403, "mode"},
		"create with a policy": {"POST", "/v1/sessions", `{"app":"test","policy":{"modes":[` + bypass + `]}}`, 400, "policy.modes[0]"},
		"update":               {"PATCH", path, `{"mode":` + bypass + `}`, 403, "mode"},
		"fork":                 {"POST", path + "/fork", `{"mode":` + bypass + `}`, 400, "mode"},
		"a message":            {"POST", path + "/turns", `{"message":"a","mode":` + bypass + `}`, 400, "mode"},
	} {
		resp := w.ask(c.method, c.path, c.body, "Content-Type", "application/json")
		if got := problem(t, resp); resp.StatusCode != c.status || got.Field != c.field || got.Message == "" {
			t.Errorf("%s: %d %+v, want %d and the field %s", name, resp.StatusCode, got, c.status, c.field)
		}
	}
	if got := modeOf(w, own.ID).Mode; got != parley.ModePlan {
		t.Errorf("after that the mode is %q", got)
	}
	var made parley.SessionInfo
	w.call(http.StatusCreated, &made, "POST", "/v1/sessions/import", string(archive), "Content-Type", "application/zip")
	if got := modeOf(w, made.ID).Mode; got != "" && got != parley.ModeDefault {
		t.Errorf("the mode of an import is %q", got)
	}
}
