//go:build linux

package shell_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/shell"
)

const patience = time.Minute

func quote(s string) string { b, _ := json.Marshal(s); return string(b) }

// rig is a toolset with a workspace.
type rig struct {
	t     *testing.T
	tools *shell.Toolset
	space string
	dir   string
	call  int

	session  parley.SessionID
	readOnly bool
	stopped  chan struct{}
	progress []string
}

func newRig(t *testing.T, o shell.Options) *rig {
	t.Helper()
	dir := t.TempDir()
	g := &rig{t: t, dir: dir, space: filepath.Join(dir, "workspace"), session: "s1"}
	if err := os.Mkdir(g.space, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := shell.Check(t.Context(), dir); err != nil && !o.Unconfined {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("commands cannot be confined here: ", err)
	}
	o.Folder = func(elems ...string) (string, error) {
		path := filepath.Join(append([]string{dir, "scratch"}, elems...)...)
		return path, os.MkdirAll(path, 0o700)
	}
	g.tools = shell.New(o)
	t.Cleanup(g.tools.Close)
	return g
}

func (g *rig) run(name, input string) parley.ToolResult {
	g.t.Helper()
	return g.runCtx(g.t.Context(), name, input)
}

func (g *rig) runCtx(ctx context.Context, name, input string) parley.ToolResult {
	g.t.Helper()
	root, err := os.OpenRoot(g.space)
	if err != nil {
		g.t.Fatal(err)
	}
	defer root.Close()
	g.call++
	res, err := g.tools.Run(ctx, seam.Run{
		Call: parley.CallID(string(rune('a' + g.call))), Name: name, Input: json.RawMessage(input), Session: g.session, ReadOnly: g.readOnly, Stopped: g.stopped,
		Effect: g.tools.EffectOf(name, json.RawMessage(input)), Workspace: func() (*os.Root, error) { return root, nil }, Progress: func(s string) { g.progress = append(g.progress, s) },
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return res
}

func (g *rig) bash(command string) string {
	g.t.Helper()
	return g.run(shell.Bash, `{"command":`+quote(command)+`}`).Output
}

// TestBash: a command runs in the workspace, and what it did is told.
func TestBash(t *testing.T) {
	t.Parallel()
	g := newRig(t, shell.Options{Env: map[string]string{"MINE": "yes"}})
	for command, want := range map[string]string{
		"echo a; echo b >&2":           "a\nb",
		"pwd; echo $HOME $MINE":        "/workspace\n/tmp yes",
		"echo x; exit 3":               "Exit code 3\nx",
		"touch made":                   "The command has ended without output.",
		"printf 'a\\000b\\377'":        "a\uFFFDb\uFFFD",
		"kill -9 $$":                   "Exit code 137",
		"read x; echo \"[$x]\"":        "[]",
		"sleep 1000 & echo left":       "left",
		"env | grep -c PARLEY || true": "0",
		"echo $((6*7)) > n; cat n":     "42",
	} {
		if got := g.bash(command); got != want {
			t.Errorf("%s: got %q, want %q", command, got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(g.space, "made")); err != nil {
		t.Error(err)
	}
	g.bash("echo kept > /tmp/kept")
	if got := g.bash("cat /tmp/kept; true > x"); got != "kept" {
		t.Errorf("the next command finds in /tmp: %q", got)
	}
	g.session = "s2"
	if got := g.bash("cat /tmp/kept 2>/dev/null; true > x"); got != "The command has ended without output." {
		t.Errorf("another session finds in /tmp: %q", got)
	}
	g.readOnly = true
	if got := g.bash("touch no; true"); !strings.Contains(got, "Read-only") {
		t.Errorf("a read-only workspace: %q", got)
	}
}

// TestReads: a command line that only looks runs where nothing can be changed, whatever the list says, and
// without the operator's variables.
func TestReads(t *testing.T) {
	t.Parallel()
	g := newRig(t, shell.Options{Env: map[string]string{"TOKEN": "hunter2"}})
	if got := g.bash("printenv TOKEN | rev; echo done"); got != "done" {
		t.Errorf("a read finds the operator's variable: %q", got)
	}
	if got := g.bash("echo $TOKEN"); got != "hunter2" {
		t.Errorf("a write finds %q", got)
	}
	g.bash("echo text > a.txt; echo t > /tmp/t")
	effect := func(line string) parley.Effect {
		return g.tools.EffectOf(shell.Bash, json.RawMessage(`{"command":`+quote(line)+`}`))
	}
	if effect("cat a.txt") != parley.EffectRead || effect("rm a.txt") != parley.EffectWrite {
		t.Error("the effects are wrong")
	}
	if got := g.tools.EffectOf(shell.Bash, json.RawMessage(`{"command":"cat a.txt","run_in_background":true}`)); got != parley.EffectWrite {
		t.Errorf("in the background: %s", got)
	}
	if got := g.bash("cat a.txt"); got != "text" {
		t.Errorf("got %q", got)
	}
	if got := g.bash("ls /tmp"); got != "The command has ended without output." {
		t.Errorf("its /tmp has %q", got)
	}
	// uniq is on the list, and writes its second argument.
	if got := g.bash("uniq a.txt out.txt"); !strings.Contains(got, "Read-only file system") {
		t.Errorf("got %q", got)
	}
}

var idOf = regexp.MustCompile(`bash_[a-z0-9]+`)

func (g *rig) background(command string) string {
	g.t.Helper()
	id := idOf.FindString(g.run(shell.Bash, `{"run_in_background":true,"command":`+quote(command)+`}`).Output)
	if id == "" {
		g.t.Fatal("no id")
	}
	return id
}

// await asks for output until it has what is wanted. The command has written it, so it is on its way.
func (g *rig) await(id, want string) string {
	g.t.Helper()
	var all string
	for late := time.Now().Add(patience); time.Now().Before(late); runtime.Gosched() {
		all += g.run(shell.Output, `{"bash_id":"`+id+`"}`).Output + "\n"
		if strings.Contains(all, want) {
			return all
		}
	}
	g.t.Fatalf("got %q, want %q", all, want)
	return ""
}

// ended waits until a command has ended, and returns what BashOutput says of it.
func (g *rig) ended(id string) string {
	g.t.Helper()
	select {
	case <-g.tools.Ended(id):
	case <-time.After(patience):
		g.t.Fatal("it does not end: ", id)
	}
	return g.run(shell.Output, `{"bash_id":"`+id+`"}`).Output
}

// pipe makes a pipe with a name in the workspace. A command that writes to it or reads from it waits for
// the test, which does the other.
func (g *rig) pipe(name string) string {
	g.t.Helper()
	path := filepath.Join(g.space, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		g.t.Fatal(err)
	}
	return path
}

// up waits until a command has written to a pipe.
func (g *rig) up(path string) {
	if _, err := os.ReadFile(path); err != nil {
		g.t.Error(err)
	}
}

// TestBackground: a command in the background is read in pieces, and ended, by its session alone.
func TestBackground(t *testing.T) {
	t.Parallel()
	g := newRig(t, shell.Options{})
	up, on := g.pipe("up"), g.pipe("go")
	id := g.background("echo one; echo > up; read x < go; echo two; echo three")
	g.up(up)
	g.await(id, "Status: running\none")
	if err := os.WriteFile(on, []byte("\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if all := g.ended(id); all != "Status: completed\ntwo\nthree" {
		t.Errorf("at its end: %q", all)
	}
	if res := g.run(shell.Kill, `{"shell_id":"`+id+`"}`); !strings.Contains(res.Output, "ended already: completed") {
		t.Errorf("got %q", res.Output)
	}
	server := g.background("(setsid sleep 1000 &); echo up; echo > up; exec sleep 1000")
	g.up(up)
	mine := g.session
	g.session = "other"
	for _, name := range []string{shell.Output, shell.Kill} {
		if res := g.run(name, `{"bash_id":"`+server+`","shell_id":"`+server+`"}`); res.Outcome != parley.OutcomeError {
			t.Errorf("another session: %+v", res)
		}
	}
	g.session = mine
	if res := g.run(shell.Kill, `{"shell_id":"`+server+`"}`); !strings.Contains(res.Output, "was ended") {
		t.Errorf("got %q", res.Output)
	}
	if got := g.ended(server); !strings.Contains(got, "Status: killed") {
		t.Errorf("got %q", got)
	}
	if got := g.ended(g.background("echo noise; echo error: x; exit 4")); !strings.Contains(got, "failed with exit code 4") {
		t.Errorf("got %q", got)
	}
	if res := g.run(shell.Output, `{"bash_id":"`+g.background("echo noise; echo error: x; sleep 1000")+`","filter":"("}`); res.Outcome != parley.OutcomeError {
		t.Errorf("a wrong filter: %+v", res)
	}
	refused := false
	for n := 0; n < 10 && !refused; n++ {
		res := g.run(shell.Bash, `{"run_in_background":true,"command":"sleep 1000"}`)
		if refused = res.Outcome == parley.OutcomeError; refused && !strings.Contains(res.Output, "which is the limit") {
			t.Errorf("got %q", res.Output)
		}
	}
	if !refused {
		t.Error("there is no limit")
	}
	g.tools.End(g.session)
	if res := g.run(shell.Output, `{"bash_id":"`+server+`"}`); res.Outcome != parley.OutcomeError {
		t.Errorf("after the session's end: %+v", res)
	}
	if left, _ := filepath.Glob(filepath.Join(g.dir, "scratch", "sessions", "*")); len(left) > 0 {
		t.Errorf("temporary files are left: %q", left)
	}
}

// TestBashEnds: a command goes on in the background when its time is up, and is ended with its turn.
func TestBashEnds(t *testing.T) {
	t.Parallel()
	g := newRig(t, shell.Options{})
	res := g.run(shell.Bash, `{"timeout":300,"command":"echo begun; touch slow; sleep 1000"}`)
	if id := idOf.FindString(res.Output); id == "" || !strings.Contains(res.Output, "did not end within 300ms") {
		t.Errorf("got %q", res.Output)
	} else {
		g.await(id, "begun")
	}
	if res := g.run(shell.Bash, `{"timeout":100,"command":"echo begun; sleep 1000"}`); !strings.HasPrefix(res.Output, "Exit code ") || !strings.HasSuffix(res.Output, "The command was ended after 100ms.") {
		t.Errorf("one that reads: %q", res.Output)
	}
	g.stopped = make(chan struct{})
	up := g.pipe("up")
	go func() {
		g.up(up)
		close(g.stopped)
	}()
	if got := g.bash("trap '' TERM; echo > up; sleep 1000; sleep 1000"); !strings.Contains(got, "the turn was stopped") {
		t.Errorf("a stopped turn: %q", got)
	}
	g.stopped = nil
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if res := g.runCtx(ctx, shell.Bash, `{"command":"touch x; sleep 1000"}`); !strings.Contains(res.Output, "the turn's time was up") {
		t.Errorf("a turn whose time is up: %q", res.Output)
	}
}

// TestBashIsBounded: output, memory, processes, time and what decides about agents have limits, and the model is told.
func TestBashIsBounded(t *testing.T) {
	t.Parallel()
	g := newRig(t, shell.Options{Memory: 256 << 20, Guarded: []string{"CLAUDE.md"}})
	got := g.bash("echo begin; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo end")
	if len(got) > 1<<20+200 || !strings.HasPrefix(got, "begin\nxxx") || !strings.HasSuffix(got, "xxx\nend") || !strings.Contains(got, "bytes of output were not kept here") {
		t.Errorf("%d bytes: %.60q", len(got), got)
	}
	if got := g.bash("echo > CLAUDE.md; sleep 1000"); !strings.Contains(got, "it made CLAUDE.md") || !strings.Contains(got, "CLAUDE.md.refused") {
		t.Errorf("got %q", got)
	}
	if len(g.progress) == 0 {
		t.Log("the machine was too fast for progress")
	}
	if got := g.bash("head -c 600000000 /dev/zero | tail -c 600000000 | wc -c"); !strings.Contains(got, "it used more memory than it may, which is 256 MiB.") {
		t.Errorf("got %q", got)
	}
	short := newRig(t, shell.Options{Background: time.Second})
	if got := short.ended(short.background("echo one; sleep 1000")); !strings.Contains(got, "Status: failed. The command was ended: it ran for longer than 1s, which is the limit.") {
		t.Errorf("got %q", got)
	}
	many := newRig(t, shell.Options{Processes: 20})
	if got := many.bash("for i in $(seq 1 60); do sleep 1000 & done; wait"); !strings.Contains(got, "more processes and threads than it may, which is 20.") {
		t.Errorf("got %q", got)
	}
}

// TestGit: a repository with a program is no longer one when the command has ended, and the model is told
// why.
func TestGit(t *testing.T) {
	t.Parallel()
	g := newRig(t, shell.Options{})
	if got := g.bash("git init -q mine && git -C mine config user.name a && echo ok"); got != "ok" {
		t.Errorf("a repository: %q", got)
	}
	if got := g.bash("git init -q other && git -C other config alias.st '!x'"); !strings.Contains(got, "it made other/.git/config, with which git would run programs") {
		t.Errorf("got %q", got)
	}
}

// TestFullFolders: when the workspace and the temporary folder hold what they may, the model is told that
// it can only remove.
func TestFullFolders(t *testing.T) {
	t.Parallel()
	g := newRig(t, shell.Options{Disk: 8 << 20})
	if got := g.bash("head -c 7M /dev/zero > one; true"); got != "The command has ended without output." {
		t.Fatal(got)
	}
	if got := g.bash("head -c 7M /dev/zero > /tmp/two; true"); !strings.Contains(got, "hold more than commands may fill") {
		t.Errorf("beyond the limit: %q", got)
	}
	if got := g.bash("echo > three; rm one"); !strings.HasPrefix(got, "The workspace and /tmp hold more") || !strings.Contains(got, "denied") {
		t.Errorf("full: %q", got)
	}
	if got := g.bash("echo > three; ls"); got != "three" {
		t.Errorf("after the removal: %q", got)
	}
}

// TestEndedCommands: of the commands that have ended, a session's last 8 are kept, and 8 MiB of a user's.
func TestEndedCommands(t *testing.T) {
	t.Parallel()
	g := newRig(t, shell.Options{})
	var ids []string
	for range 9 {
		ids = append(ids, g.background("seq 200000"))
		<-g.tools.Ended(ids[len(ids)-1])
		g.tools.Settled()
	}
	for i, id := range ids {
		res := g.run(shell.Output, `{"bash_id":"`+id+`","filter":"^1$"}`)
		if kept := res.Outcome == parley.OutcomeOK; kept != (i > 0) {
			t.Errorf("number %d is kept: %v", i+1, kept)
		}
	}
}

// TestFilter: a filter is matched while others use the tools, and one that would take long is refused.
func TestFilter(t *testing.T) {
	t.Parallel()
	var within func()
	g := newRig(t, shell.Options{Now: func() time.Time {
		if within != nil {
			within()
		}
		return time.Now()
	}})
	id := g.background("echo noise; echo error: x; head -c 8000 /dev/zero | tr '\\0' x; echo error")
	<-g.tools.Ended(id)
	g.tools.Settled()
	for _, filter := range []string{"(x{1,500}){1,500}", "(((a{10}){10}){10}){10}", strings.Repeat("[a-z][0-9]", 101), `\pL{900}{900}`} {
		if res := g.run(shell.Output, `{"bash_id":"`+id+`","filter":`+quote(filter)+`}`); res.Outcome != parley.OutcomeError {
			t.Errorf("%s: %+v", filter, res)
		}
	}
	looks := 0
	within = func() { g.tools.Over("", "x"); looks++ } // which needs the lock
	if got := g.run(shell.Output, `{"bash_id":"`+id+`","filter":"error"}`).Output; got != "Status: completed\nerror: x" || looks == 0 {
		t.Errorf("got %q, %d looks", got, looks)
	}
	within = nil
}

// TestEndWhileACallWaits: a command that a call waits for does not outlive its session.
func TestEndWhileACallWaits(t *testing.T) {
	t.Parallel()
	g := newRig(t, shell.Options{})
	up := g.pipe("up")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.up(up)
		g.tools.End(g.session)
	}()
	// On a slow machine its time is up before the session ends; then the end of the session ends it.
	got := g.run(shell.Bash, `{"timeout":3000,"command":"echo > /tmp/x; echo > up; sleep 1000"}`).Output
	if got != "The session has ended. The command was ended. What it had done by then stays." && idOf.FindString(got) == "" {
		t.Errorf("got %q", got)
	}
	<-ended
	if left, _ := filepath.Glob(filepath.Join(g.dir, "scratch", "sessions", "*")); len(left) > 0 {
		t.Errorf("temporary files are left: %q", left)
	}
}

// TestUnconfined: where an operator allows it, commands run without a sandbox, each a write, and nothing
// is left running.
func TestUnconfined(t *testing.T) {
	t.Parallel()
	g := newRig(t, shell.Options{Unconfined: true})
	if got := g.bash("pwd; echo x > x; exit 2"); got != "Exit code 2\n"+g.space {
		t.Errorf("got %q", got)
	}
	if got := g.tools.EffectOf(shell.Bash, json.RawMessage(`{"command":"ls"}`)); got != parley.EffectWrite {
		t.Errorf("ls is a %s", got)
	}
	up := g.pipe("up")
	id := g.background("echo > up; sleep 1000")
	g.up(up)
	if res := g.run(shell.Kill, `{"shell_id":"`+id+`"}`); !strings.Contains(res.Output, "was ended") {
		t.Errorf("got %q", res.Output)
	}
}
