package program_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommands_that_look_make_no_folder: a command that only reads reports a mistyped folder
// and does not create it. It does not turn another program's folder into a data folder either.
func TestCommands_that_look_make_no_folder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	other := filepath.Join(p.dir, "pictures")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	file, loop := filepath.Join(p.dir, "a file"), filepath.Join(p.dir, "loop")
	p.write(file, "precious")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	none := map[string]string{
		filepath.Join(p.dir, "typo"): " does not exist",
		other:                        " holds no sessions",
		file:                         " is a file",
		filepath.Join(file, "data"):  ": not a directory",
		loop:                         ": too many levels of symbolic links", // like an unreadable folder, it is not reported as empty
	}
	const id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	for _, args := range [][]string{
		{"session", "list"},
		{"session", "show", "last"},
		{"session", "events", id},
		{"session", "why", id},
		{"session", "export", id},
		{"session", "questions"},
		{"session", "answer", id, "allow"},
		{"session", "calls"},
		{"session", "claim", id},
		{"session", "report", id, "done", "--token", "env:PATH"},
		{"session", "end", id},
		{"session", "delete", id},
		{"session", "sweep"},
		{"session", "retry", id},
		{"session", "resume", id},
		{"session", "cancel", id},
	} {
		for dir, what := range none {
			p.data = dir
			if code, out, errs := p.run(args...); code != 1 || out != "" || !strings.Contains(errs, "the data folder "+dir+what) {
				t.Errorf("%v: exit %d\n%s%s", args, code, out, errs)
			}
		}
	}
	for _, args := range [][]string{{"models"}, {"doctor"}, {"keys", "list"}, {"app", "check"}, {"version"}} {
		for _, dir := range []string{filepath.Join(p.dir, "typo"), other} {
			p.data = dir
			code, _, errs := p.run(args...)
			if code != 0 {
				t.Errorf("%v: exit %d\n%s", args, code, errs)
			}
			if says := strings.Contains(errs, "There is no data folder at "+dir); args[0] == "keys" && says != strings.HasSuffix(dir, "typo") {
				t.Errorf("%v in %s says %q", args, dir, errs)
			}
		}
	}
	// A refused command changes nothing.
	p.env = append(p.env, "PARLEY_API_KEYS=fixed=pk_"+strings.Repeat("k", 32))
	for want, args := range map[string][]string{
		`there is no key "nobody"`:        {"keys", "revoke", "nobody"},
		"comes from the settings":         {"keys", "revoke", "fixed"},
		`there is already a key "fixed"`:  {"keys", "create", "fixed"},
		`"a key" is not a name for a key`: {"keys", "create", "a key"},
		"read the export":                 {"session", "import", filepath.Join(p.dir, "none.zip")},
	} {
		for _, dir := range []string{filepath.Join(p.dir, "typo"), other} {
			p.data = dir
			if code, out, errs := p.run(args...); code != 1 || out != "" || !strings.Contains(errs, want) {
				t.Errorf("%v: exit %d\n%s%s", args, code, out, errs)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(p.dir, "typo")); err == nil {
		t.Error("the mistyped folder was made")
	}
	if list, err := os.ReadDir(other); err != nil || len(list) != 0 {
		t.Errorf("in the other folder: %v, %v", list, err)
	}
}

// TestRun_of_an_app_that_is_off says why the app is off.
func TestRun_of_an_app_that_is_off(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_ENABLED=chaos,home")
	for _, args := range [][]string{{"run", "--app", "home", "hello"}, {"mcp", "--app", "home"}} {
		if code, _, errs := p.run(args...); code == 0 || !strings.Contains(errs, "the app home is off: no Home Assistant is set up: set HOME_ASSISTANT_URL") {
			t.Errorf("%v: exit %d\n%s", args, code, errs)
		}
	}
	p.serve()
	if code, out, errs := p.run("doctor"); code != 0 || !strings.Contains(out, "home is off: no Home Assistant is set up") {
		t.Errorf("doctor: exit %d\n%s%s", code, out, errs)
	}
	p = newPlace(t)
	if code, _, errs := p.run("run", "--app", "home", "hello"); code != 2 || !strings.Contains(errs, "the app home is off: the setting enabled does not name it") {
		t.Errorf("not enabled: exit %d\n%s", code, errs)
	}
}

// TestRun_without_settings: the apps that need nothing to be set up are on, and a command that takes
// one asks which.
func TestRun_without_settings(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_ENABLED=")
	if code, out, errs := p.run("run", "hello"); code != 2 || out != "" || !strings.Contains(errs, "there are several apps\n  choose one with --app: chaos, major\n") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

// TestRun_of_no_app: a wrong name of an app is wrong usage, with the nearest name, wherever a command
// takes one.
func TestRun_of_no_app(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if code, _, errs := p.run("run", "--app", "chaos", "What is the final spec for the login?"); code != 0 {
		t.Fatalf("exit %d\n%s", code, errs)
	}
	for _, args := range [][]string{{"run", "--app", "choas", "hello"}, {"mcp", "--app", "choas"}, {"session", "list", "--app", "choas"}} {
		if code, out, errs := p.run(args...); code != 2 || out != "" || !strings.Contains(errs, `there is no app "choas"; did you mean chaos?`) || !strings.Contains(errs, "apps here: chaos") {
			t.Errorf("%v: exit %d\n%s%s", args, code, out, errs)
		}
	}
}

// TestDataFolder_that_is_a_file: every command says the same of a data folder that is a file.
func TestDataFolder_that_is_a_file(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.data = filepath.Join(p.dir, "file")
	p.write(p.data, "")
	for _, args := range [][]string{{"run", "hello"}, {"serve", "--addr", "127.0.0.1:0"}, {"session", "list"}, {"session", "why", "last"}, {"doctor"}} {
		code, out, errs := p.run(args...)
		if said := out + errs; code != 1 || strings.Count(said, p.data) != 1 || !strings.Contains(said, "the data folder "+p.data+" is a file\n") || !strings.Contains(said, "name another with --data or PARLEY_DATA\n") {
			t.Errorf("%v: exit %d\n%s", args, code, said)
		}
	}
}

// TestDoctor_asks_the_server: the server's settings and keys count, not the command's.
func TestDoctor_asks_the_server(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	env := p.env
	p.env = append(env[:len(env):len(env)], "OPENAI_BASE_URL=http://127.0.0.1:1/v1", "PARLEY_MODEL=scripted/chaos")
	s := p.serve()
	p.env = env
	type report struct {
		Version string
		OK      bool
		Server  *struct {
			PID              int
			Command, Address string
			Version          string
		}
		Checks []struct{ Verdict, Check, Says, Hint, Asked string }
	}
	read := func(code int, out string) (r report) {
		t.Helper()
		if err := json.Unmarshal([]byte(out), &r); err != nil || r.OK != (code == 0) || r.Version == "" {
			t.Fatalf("exit %d, %v:\n%s", code, err, out)
		}
		return r
	}
	if _, out, _ := p.run("doctor", "--apps", filepath.Join(p.dir, "nowhere")); !strings.Contains(out, "warn  settings     --apps is not used: process ") || !strings.Contains(out, "stop it, or name another folder with --data") {
		t.Errorf("with --apps:\n%s", out)
	}
	code, out, _ := p.run("doctor", "--json")
	r := read(code, out)
	if code != 1 || r.Server == nil || r.Server.PID != s.cmd.Process.Pid || r.Server.Address != s.url || r.Server.Version != r.Version {
		t.Errorf("exit %d, server %+v", code, r.Server)
	}
	found := false
	for _, c := range r.Checks {
		if c.Verdict == "fail" && c.Check == "provider" {
			found = c.Asked == "server" && strings.HasPrefix(c.Says, "openai: ") && c.Hint != ""
		}
	}
	if !found {
		t.Errorf("it does not say what the server's provider is: %+v", r.Checks)
	}
	code, out, _ = p.run("models")
	if code != 0 || !strings.Contains(out, "openai: ") {
		t.Errorf("models does not ask the server: exit %d\n%s", code, out)
	}

	// Another folder, the same address.
	p.data = filepath.Join(p.dir, "other")
	_, out, _ = p.run("doctor", "--addr", strings.TrimPrefix(s.url, "http://"))
	holds(t, out, "warn  address", "listens on 127.0.0.1:", "with another data folder", "name its folder with --data")
	if _, err := os.Stat(p.data); err == nil {
		t.Error("doctor made the folder")
	}
	s.kill()
	code, out, _ = p.run("doctor", "--json")
	if r := read(code, out); code != 0 || r.Server != nil {
		t.Errorf("without a server: exit %d, %+v", code, r.Server)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, want, _ := p.run("version")
	if code, out, _ := p.run("--version"); code != 0 || out != want || !strings.HasPrefix(out, "parley ") {
		t.Errorf("--version: exit %d %q, and version %q", code, out, want)
	}
}

// TestSession_without_an_id: a command that needs an id or a file says which command lists or makes it.
func TestSession_without_an_id(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, lists := range map[string]string{
		"resume": "parley session why", "retry": "parley session why", "cancel": "parley session why", "answer": "parley session questions",
		"show": "parley session list", "events": "parley session list", "why": "parley session list", "rewind": "parley session rewind ID", "end": "parley session list",
		"delete": "parley session list", "export": "parley session list", "replay": "parley session export", "to-test": "parley session export", "import": "parley session export",
	} {
		code, out, errs := p.run("session", name)
		if code != 2 || out != "" || !strings.Contains(errs, "an argument is missing; usage: parley session "+name) || !strings.Contains(errs, lists) {
			t.Errorf("session %s: exit %d %q\n%s", name, code, out, errs)
		}
	}
}
