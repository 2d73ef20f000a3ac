//go:build linux

package program_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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

// lifeline is a pipe with a name. A command that runs has it open for writing.
type lifeline struct {
	t    *testing.T
	path string
	read *bufio.Reader
}

func newLifeline(t *testing.T, dir, name string) *lifeline {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(dir, 0o755), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	return &lifeline{t: t, path: path}
}

// up waits until the command has written a line.
func (l *lifeline) up() {
	l.t.Helper()
	f, err := os.Open(l.path) // which waits for the other end
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = f.Close() })
	l.read = bufio.NewReader(f)
	if line, err := l.read.ReadString('\n'); line != "up\n" {
		l.t.Fatalf("%s: %q, %v", l.path, line, err)
	}
}

// over waits until nothing of the command runs any more.
func (l *lifeline) over() {
	l.t.Helper()
	if rest, err := io.ReadAll(l.read); len(rest) > 0 || err != nil {
		l.t.Errorf("%s: %q, %v", l.path, rest, err)
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
	// Each command has a pipe open for writing as long as anything of it runs.
	pipes := map[string]*lifeline{"alive": newLifeline(t, dir, "alive"), "alive2": newLifeline(t, dir, "alive2")}
	if end := s.settle(s.send(id, "background exec 3>alive; setsid sleep 1000 & echo up >&3; sleep 1000").ID); end.Status != parley.StatusCompleted {
		t.Fatalf("%+v", end)
	}
	turn := s.send(id, "echo once >> runs; exec 3>alive2; echo up >&3; sleep 1000").ID
	for _, l := range pipes {
		l.up()
	}
	s.kill()
	for _, l := range pipes {
		l.over()
	}
	s = p.serve()
	must[parley.TurnInfo](s, "POST", "/v1/turns/"+string(turn)+"/await", `{"timeout_ms":60000}`)
	if log := strings.Join(s.log(id), "\n"); !strings.Contains(log, `"outcome":"unknown"`) {
		t.Errorf("the log does not say that the outcome is unknown:\n%s", log)
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
	alive := newLifeline(t, dir, "alive")
	ask("background exec 3>alive; echo up >&3; sleep 1000")
	alive.up()
	_, turns, _ := p.run("session", "rewind", string(id))
	turn, _, _ := strings.Cut(turns, " ")
	if _, out, errs := p.run("session", "rewind", string(id), turn); !strings.Contains(out, "exec 3>alive") {
		t.Errorf("the preview of a rewind does not list the command:\n%s%s", out, errs)
	}
	if code, out, errs := p.run("session", "end", string(id)); code != 0 {
		t.Fatalf("%s%s", out, errs)
	}
	alive.over() // the command does not outlive its session
	s.stop()
	if _, out, _ := p.run("doctor"); !strings.Contains(out, "commands are confined by namespaces, Landlock") {
		t.Errorf("doctor: %s", out)
	}
	p.write(filepath.Join(p.dir, "parley.yaml"), "bash: {unconfined: true}\n")
	if _, out, _ := p.run("doctor"); !strings.Contains(out, "commands are not confined") {
		t.Errorf("doctor: %s", out)
	}
}
