//go:build unix

package program_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley"
)

// TestWorkspaceInAFolderThatWentAway: no workspace is made in a folder that has replaced the data
// folder.
func TestWorkspaceInAFolderThatWentAway(t *testing.T) {
	t.Parallel()
	p := newPlace(t).on("mem")
	p.withPress("workspaces: {default: main}\n")
	s := p.serve()
	if err := os.Rename(p.data, p.data+"-aside"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(p.data, 0o700); err != nil {
		t.Fatal(err)
	}
	a := s.ask("POST", "/v1/sessions", object("app", "press"))
	if e := problemOf(t, a); a.status != 503 || !strings.Contains(e.Message, "data folder") || !strings.Contains(e.Hint, "put back") {
		t.Errorf("got %s", a)
	}
	if list, err := os.ReadDir(p.data); err != nil || len(list) != 0 {
		t.Errorf("the other folder has %v, %v", list, err)
	}
}

// TestWorkspace: a session gets the workspace that is asked for, over the API or by commands, or
// else the app's default one, which is made below the data folder. Any other workspace is refused
// by name.
func TestWorkspace(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	handbook := filepath.Join(p.dir, "handbook")
	p.write(filepath.Join(handbook, "x.md"), "x")
	p.withPress("workspaces: {default: main, shared: {handbook: " + handbook + "}}\n")
	users := filepath.Join(p.dir, "workspaces")
	p.write(filepath.Join(users, "local", "vault", "x.md"), "x")
	p.write(filepath.Join(users, "bob", "his", "x.md"), "x")
	p.env = append(p.env, "PARLEY_WORKSPACES_DIR="+users)
	s := p.serve()
	in := func(id parley.SessionID) parley.Workspace {
		return must[parley.SessionInfo](s, "GET", "/v1/sessions/"+string(id), "").Workspace
	}
	first := s.session("press")
	if got := in(first); got != "main" {
		t.Errorf("a session that names none is in %q", got)
	}
	if _, err := os.Stat(filepath.Join(users, "local", "main")); err != nil {
		t.Error(err)
	}
	for _, w := range []parley.Workspace{"vault", "shared/handbook"} {
		made := must[parley.SessionInfo](s, "POST", "/v1/sessions", object("app", "press", "workspace", string(w)))
		if made.Workspace != w || in(made.ID) != w || !strings.Contains(s.log(made.ID)[0], `"workspace":"`+string(w)+`"`) {
			t.Errorf("asked for %q, got %q", w, made.Workspace)
		}
	}
	for w, status := range map[string]int{"his": 404, "../bob/his": 400, "none": 404, "shared/none": 404} {
		a := s.ask("POST", "/v1/sessions", object("app", "press", "workspace", w))
		var wrong struct{ Error parley.ErrorInfo }
		if err := json.Unmarshal(a.body, &wrong); err != nil || a.status != status || wrong.Error.Field != "workspace" || wrong.Error.Hint == "" {
			t.Errorf("asked for %q: %s", w, a)
		}
	}
	if fork := must[parley.SessionInfo](s, "POST", "/v1/sessions/"+string(first)+"/fork", "{}"); fork.Workspace != "main" || !fork.ReadOnly {
		t.Errorf("the fork: %+v", fork)
	}
	export := filepath.Join(p.dir, "it.zip")
	if code, _, errs := p.run("session", "export", string(first), "-o", export); code != 0 {
		t.Fatal(errs)
	}
	for args, want := range map[string]parley.Workspace{"": "main", "--workspace=vault": "vault"} {
		code, out, errs := p.run(strings.Fields("session import " + export + " " + args)...)
		if id := parley.SessionID(strings.TrimSpace(out)); code != 0 || in(id) != want {
			t.Errorf("import %s: exit %d, in %q\n%s", args, code, in(id), errs)
		}
	}
	if code, _, errs := p.run("session", "import", export, "--workspace", "his"); code != 1 || !strings.Contains(errs, `there is no workspace "his"`) {
		t.Errorf("import into another's: exit %d\n%s", code, errs)
	}
	code, out, errs := p.run("run", "--app", "press", "--workspace", "vault", "mail hello")
	if code != 0 {
		t.Errorf("run: exit %d\n%s%s", code, out, errs)
	}
	if last := must[struct{ Sessions []parley.SessionInfo }](s, "GET", "/v1/sessions?limit=1", ""); len(last.Sessions) != 1 || last.Sessions[0].Workspace != "vault" {
		t.Errorf("run made %+v", last)
	}
	if code, _, _ := p.run("run", "--session", "last", "--workspace", "vault", "hi"); code != 2 {
		t.Errorf("run in a session with another workspace: exit %d", code)
	}
	if code, _, errs := p.run("run", "--app", "chaos", "--workspace", "vault", "hi"); code == 0 {
		t.Errorf("run of an app without workspaces: %s", errs)
	}
}
