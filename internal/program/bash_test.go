//go:build linux

package program_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tool/shell"
)

// withShell gives the program an app whose agent runs its message as a command, and returns the workspace.
func (p *place) withShell(more string) string {
	p.t.Helper()
	app, users := filepath.Join(p.dir, "apps", "shell"), filepath.Join(p.dir, "users")
	p.write(filepath.Join(app, "clerk.md"), "Run commands.")
	p.write(filepath.Join(app, "app.yaml"), `model: scripted/shell
script: script.yaml
agents: {clerk: {prompt: clerk.md, tools: [Bash, BashOutput, KillShell, Read]}}
tools: {workspace: {}, bash: {}}
workspaces: {default: main}
policy: {rules: [{verdict: allow, tool: "Bash(*)"}, {verdict: ask, tool: "Bash(touch asked*)"}], modes: [plan]}
resume: auto
`+more)
	p.write(filepath.Join(app, "script.yaml"), `agents:
  clerk:
    - when: .Results
      say: 'done: {{ (index .Results 0).Output }}'
    - when: and (gt (len .Question) 11) (eq (slice .Question 0 11) "background ")
      call: [{tool: Bash, input: {command: '{{ slice .Question 11 }}', run_in_background: true}}]
    - call: [{tool: Bash, input: {command: '{{ .Question }}'}}]
`)
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(app), "PARLEY_ENABLED=shell", "PARLEY_WORKSPACES_DIR="+users)
	return filepath.Join(users, "local", "main")
}

// needSandbox skips a test where commands cannot be confined, but not in CI.
func needSandbox(t *testing.T) {
	t.Helper()
	if _, err := shell.Check(t.Context(), t.TempDir()); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("commands cannot be confined here: ", err)
	}
}

// TestBash_of_a_killed_server: a command ends with the server, also one in the background in a session of
// processes of its own. The turn says that it is not known what the command has done, and it is not run again.
func TestBash_of_a_killed_server(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	p := newPlace(t)
	dir := p.withShell("")
	s := p.serve()
	id := s.session("shell")
	if end := s.settle(s.send(id, "background setsid sleep 1000 & while :; do touch alive; sleep 0.05; done").ID); end.Status != parley.StatusCompleted {
		t.Fatalf("%+v", end)
	}
	s.send(id, "echo once >> runs; while :; do touch alive2; sleep 0.05; done")
	wait := func(name string) {
		t.Helper()
		for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return
			}
			if time.Now().After(late) {
				t.Fatalf("no %s", name)
			}
		}
	}
	wait("alive")
	wait("alive2")
	s.kill()
	for _, name := range []string{"alive", "alive2"} { // until nobody makes it again
		for late := time.Now().Add(time.Minute); ; {
			_ = os.Remove(filepath.Join(dir, name))
			time.Sleep(200 * time.Millisecond)
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				break
			}
			if time.Now().After(late) {
				t.Fatalf("a command still runs: %s", name)
			}
		}
	}
	s = p.serve()
	log := ""
	for late := time.Now().Add(time.Minute); !strings.Contains(log, `"outcome":"unknown"`); time.Sleep(20 * time.Millisecond) {
		if log = strings.Join(s.log(id), "\n"); time.Now().After(late) {
			t.Fatalf("the log does not say that the outcome is unknown:\n%s", log)
		}
	}
	if body, _ := os.ReadFile(filepath.Join(dir, "runs")); string(body) != "once\n" {
		t.Errorf("the command ran: %q", body)
	}
	if left, _ := os.ReadDir(filepath.Join(p.data, "scratch")); len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}

// TestBash_in_a_session: rules and modes are about commands, doctor says what confines them, a rewind
// lists them as what it does not undo, and the end of the session ends them.
func TestBash_in_a_session(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	p := newPlace(t)
	dir := p.withShell("")
	s := p.serve()
	id := s.session("shell")
	ask := func(text string) string {
		t.Helper()
		end := must[parley.TurnInfo](s, "POST", "/v1/turns/"+string(s.send(id, text).ID)+"/await", `{"timeout_ms":60000}`)
		if end.Response == nil {
			return string(end.Status)
		}
		return end.Response.Message
	}
	if got := ask("pwd; echo hello > a.txt; cat a.txt"); !strings.Contains(got, "/workspace\nhello") {
		t.Errorf("got %q", got)
	}
	if body, err := os.ReadFile(filepath.Join(dir, "a.txt")); string(body) != "hello\n" {
		t.Errorf("the file has %q, %v", body, err)
	}
	if got := ask("ls; touch asked"); got != "waiting" {
		t.Errorf("a command that a rule asks about, behind another: %q", got)
	}
	if code, out, errs := p.run("session", "end", string(id)); code != 0 {
		t.Fatalf("%s%s", out, errs)
	}
	id = s.session("shell")
	must[parley.SessionInfo](s, "PATCH", "/v1/sessions/"+string(id), `{"mode":"plan"}`)
	if got := ask("touch planned; ls"); !strings.Contains(got, "plan mode") {
		t.Errorf("a write in plan mode: %q", got)
	}
	if got := ask("cat a.txt"); !strings.Contains(got, "hello") {
		t.Errorf("a read in plan mode: %q", got)
	}
	must[parley.SessionInfo](s, "PATCH", "/v1/sessions/"+string(id), `{"mode":"default"}`)
	ask("background while :; do touch alive; sleep 0.05; done")
	_, turns, _ := p.run("session", "rewind", string(id))
	turn, _, _ := strings.Cut(turns, " ")
	if _, out, errs := p.run("session", "rewind", string(id), turn); !strings.Contains(out, "while :; do touch alive") {
		t.Errorf("the preview of a rewind does not list the command:\n%s%s", out, errs)
	}
	if code, out, errs := p.run("session", "end", string(id)); code != 0 {
		t.Fatalf("%s%s", out, errs)
	}
	for late := time.Now().Add(time.Minute); ; {
		_ = os.Remove(filepath.Join(dir, "alive"))
		time.Sleep(200 * time.Millisecond)
		if _, err := os.Stat(filepath.Join(dir, "alive")); err != nil {
			break
		}
		if time.Now().After(late) {
			t.Fatal("the command outlives its session")
		}
	}
	s.stop()
	if _, out, _ := p.run("doctor"); !strings.Contains(out, "commands are confined by namespaces, Landlock") {
		t.Errorf("doctor: %s", out)
	}
	p.write(filepath.Join(p.dir, "parley.yaml"), "bash: {unconfined: true}\n")
	if _, out, _ := p.run("doctor"); !strings.Contains(out, "commands are not confined") {
		t.Errorf("doctor: %s", out)
	}
}
