package program

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/sim/claudecli"
)

// TestMain makes this test binary the program under test.
func TestMain(m *testing.M) {
	claudecli.Main() // this binary is also a stand-in for the Claude CLI
	if os.Getenv("PARLEY_TEST_AS_PROGRAM") == "1" {
		Main(stock...)
		return
	}
	os.Exit(m.Run())
}

const (
	// patience bounds every wait in a test: far more than it takes, even on a busy machine.
	patience = 90 * time.Second
	// life bounds the life of a process that a test starts.
	life = 4 * time.Minute
)

// program is the parley command over a data folder of its own.
type program struct {
	t    *testing.T
	dir  string // working folder
	data string
	env  []string
}

func newProgram(t *testing.T, env ...string) *program {
	t.Helper()
	p := &program{t: t, dir: t.TempDir()}
	p.data = filepath.Join(p.dir, "data")
	for _, kv := range os.Environ() {
		if ours(kv) {
			p.env = append(p.env, kv)
		}
	}
	p.env = append(p.env, "PARLEY_TEST_AS_PROGRAM=1", "HOME="+p.dir, "PARLEY_DATA="+p.data, "PARLEY_SCRIPTED_PACE=0s")
	p.env = append(p.env, env...)
	return p
}

func (p *program) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(p.t.Context(), life)
	p.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.dir, p.env, patience
	return cmd
}

// run runs a command to its end.
func (p *program) run(args ...string) (code int, out, errs string) {
	p.t.Helper()
	cmd := p.command(args...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil {
		if _, ok := err.(*exec.ExitError); !ok {
			p.t.Fatalf("parley %v: %v", args, err)
		}
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// must runs a command that has to succeed.
func (p *program) must(args ...string) string {
	p.t.Helper()
	code, out, errs := p.run(args...)
	if code != 0 {
		p.t.Fatalf("parley %v: exit %d\n%s%s", args, code, out, errs)
	}
	return out
}

// server is a running parley serve.
type server struct {
	*client.Client
	cmd  *exec.Cmd
	url  string
	out  *bytes.Buffer
	errs *bytes.Buffer
	done chan error
}

func (p *program) serve(args ...string) *server {
	p.t.Helper()
	if len(args) == 0 {
		args = []string{"serve"}
	}
	if args[0] == "demo" && !slices.Contains(args, "--crm-addr") {
		args = append(args, "--crm-addr", "127.0.0.1:0")
	}
	cmd := p.command(append(args, "--addr", "127.0.0.1:0")...)
	s := &server{cmd: cmd, out: &bytes.Buffer{}, errs: &bytes.Buffer{}, done: make(chan error, 1)}
	cmd.Stderr = s.errs
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	lines := bufio.NewReader(pipe)
	first, err := lines.ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		p.t.Fatalf("parley %v ended, or said nothing in %s: %v\n%s", args, life, cmd.ProcessState, s.errs)
	}
	read := make(chan struct{})
	go func() { defer close(read); _, _ = io.Copy(s.out, lines) }()
	go func() { <-read; s.done <- cmd.Wait() }()
	p.t.Cleanup(func() { s.kill() })
	url, ok := strings.CutPrefix(strings.TrimSpace(first), "listening on ")
	if !ok {
		p.t.Fatalf("the first line is %q", first)
	}
	s.url, s.Client = url, client.New(client.Options{BaseURL: url, Retry: 100 * time.Millisecond})
	return s
}

func (s *server) kill() {
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	s.wait()
}

func (s *server) wait() error {
	select {
	case err := <-s.done:
		s.done <- err
		return err
	case <-time.After(patience):
		return fmt.Errorf("it did not end in %s", patience)
	}
}

func (s *server) stop(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.wait(); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, s.errs)
	}
}

const (
	question1 = "I'm starting on the login system. What's the final spec?"
	question2 = "What library should I use for that?"
)

func TestServe_owns_its_data_folder(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "PARLEY_ENABLED=chaos")
	s := p.serve()
	info, err := os.Stat(filepath.Join(p.data, socketFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info, err)
	}

	code, _, errs := p.run("serve", "--addr", "127.0.0.1:0")
	if code != exitFailed || !strings.Contains(errs, fmt.Sprint("process ", s.cmd.Process.Pid)) || !strings.Contains(errs, s.url) {
		t.Errorf("a second serve: exit %d, and it does not say who has the folder:\n%s", code, errs)
	}

	// Commands are clients of the running server.
	code, answer, steps := p.run("run", question1)
	if code != 0 || !strings.Contains(answer, "Google OAuth") || !strings.Contains(steps, "scavenger") {
		t.Errorf("run: exit %d\n%s%s", code, answer, steps)
	}
	list, err := s.Sessions(t.Context(), client.SessionFilter{})
	if err != nil || len(list) != 1 {
		t.Fatalf("the server has %d sessions, %v", len(list), err)
	}
	if out := p.must("session", "list"); !strings.Contains(out, string(list[0].ID)) {
		t.Errorf("session list:\n%s", out)
	}
	if code, out, errs := p.run("run", "--session", "last", question2); code != 0 || !strings.Contains(out, "authlib") {
		t.Errorf("a follow-up: exit %d\n%s%s", code, out, errs)
	}
	if out := p.must("doctor"); !strings.Contains(out, "has the folder, and is ready") || strings.Contains(out, "fail") {
		t.Errorf("doctor beside the server:\n%s", out)
	}

	s.stop(t)
	if _, err := os.Stat(filepath.Join(p.data, socketFile)); err == nil {
		t.Error("the socket is still there")
	}
	// No process uses the folder now, so the same command opens it.
	if out := p.must("session", "list"); !strings.Contains(out, string(list[0].ID)) {
		t.Errorf("session list without a server:\n%s", out)
	}
}

func TestServe_killed_in_the_middle_goes_on(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "PARLEY_SCRIPTED_PACE=60ms") // it is killed long before the end
	s := p.serve()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	made, _, err := s.CreateSession(ctx, parley.CreateSession{App: "chaos"})
	if err != nil {
		t.Fatal(err)
	}
	turn, err := s.Send(ctx, made.ID, parley.Send{Message: question1})
	if err != nil {
		t.Fatal(err)
	}
	var seen []parley.Event
	for f, err := range s.FollowTurn(ctx, turn) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Event != nil {
			seen = append(seen, *f.Event)
		}
		if f.Delta != nil && f.Delta.Agent == "interface" && len(f.Delta.Text) > 0 && f.Delta.N > 5 {
			break // in the middle of the answer
		}
	}
	s.kill()

	p.env = append(p.env, "PARLEY_SCRIPTED_PACE=0s")
	s = p.serve()
	for _, err := range s.FollowTurn(ctx, turn) { // it resumes by itself
		if err != nil {
			t.Fatal(err)
		}
	}
	turn, err = s.Turn(ctx, turn.ID)
	if err != nil || turn.Status != parley.StatusCompleted || !strings.Contains(turn.Response.Message, "Google OAuth") {
		t.Fatalf("after the restart: %+v, %v", turn, err)
	}
	page, err := s.Events(ctx, made.ID, 0, client.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range page.Events {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has number %d", i+1, e.Seq)
		}
	}
	// Events seen before the kill are unchanged.
	after := page.Events[turn.FirstSeq-1:]
	for i, e := range seen {
		if !e.Equal(after[i]) {
			t.Errorf("event %d changed:\n%s\n%s", e.Seq, e.AppendJSON(nil), after[i].AppendJSON(nil))
		}
	}
	if out := p.must("session", "why", string(made.ID)); !strings.Contains(out, "resumed 1 time after an interruption") {
		t.Errorf("why:\n%s", out)
	}
}

func TestDemo_both_questions_on_the_wire(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	s := p.serve("demo")
	ask := func(message string) []string {
		t.Helper()
		body, _ := json.Marshal(map[string]string{"session_id": "b6f4-browser", "message": message})
		resp, err := http.Post(s.url+"/chat", "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		var frames []string
		for block := range strings.SplitSeq(strings.TrimSuffix(string(raw), "\n\n"), "\n\n") {
			name, data, ok := strings.Cut(block, "\ndata: ")
			if !ok || !strings.HasPrefix(name, "event: ") {
				t.Fatalf("an unknown frame: %q", block)
			}
			name = strings.TrimPrefix(name, "event: ")
			var fields map[string]string
			if err := json.Unmarshal([]byte(data), &fields); err != nil {
				t.Fatal(err)
			}
			line := name
			for _, f := range []string{"agent", "from", "to", "tool"} {
				if fields[f] != "" {
					line += " " + fields[f]
				}
			}
			if name != "token" || len(frames) == 0 || frames[len(frames)-1] != "token" {
				frames = append(frames, line)
			}
		}
		return frames
	}
	want := []string{
		"agent_start interface", "handoff interface scavenger", "agent_start scavenger",
		"tool_call scavenger read_notion_mock", "tool_result scavenger read_notion_mock",
		"tool_call scavenger read_slack_mock", "tool_result scavenger read_slack_mock",
		"handoff scavenger synthesizer", "agent_start synthesizer",
		"handoff synthesizer interface", "agent_start interface", "token", "done",
	}
	if diff := cmp.Diff(want, ask(question1)); diff != "" {
		t.Errorf("question 1 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"agent_start interface", "token", "done"}, ask(question2)); diff != "" {
		t.Errorf("question 2 (-want +got):\n%s", diff)
	}

	// The other doors on the same listener.
	noRedirect := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, c := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"GET", "/chat", 405, "use POST"},
		{"GET", "/apps/nothing/", 404, "nothing"},
		{"GET", "/v1/apps", 200, `"scripted":true`},
		{"GET", "/openapi.json", 200, "3.1.0"},
		{"GET", "/docs", 200, "Parley API"},
		{"GET", "/healthz", 200, "ok"},
		{"GET", "/readyz", 200, "ok"},
		{"GET", "/metrics", 200, `parley_turns_total{app="chaos",status="completed"} 2`},
		{"GET", "/v1/nothing", 404, "not_found"},
	} {
		r, _ := http.NewRequestWithContext(t.Context(), c.method, s.url+c.path, nil)
		resp, err := noRedirect.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.status || !strings.Contains(string(body), c.says) {
			t.Errorf("%s %s: got %d, want %d saying %q:\n%.300s", c.method, c.path, resp.StatusCode, c.status, c.says, body)
		}
	}
	s.stop(t)
	if !strings.Contains(s.out.String(), "scripted") {
		t.Errorf("it does not say that the model is scripted:\n%s", s.out)
	}
}

func TestServe_stop_ends_streams(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	s := p.serve()
	made, _, err := s.CreateSession(t.Context(), parley.CreateSession{App: "chaos"})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(s.url + "/v1/sessions/" + string(made.ID) + "/events?format=sse")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	began := time.Now()
	s.stop(t)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("with an open stream it took %s to stop", took)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("the stream was torn: %v", err)
	}
}

func TestServe_beyond_this_machine_needs_a_word(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "example.com:80"} {
		code, _, errs := p.run("serve", "--addr", addr)
		if code != exitUsage || !strings.Contains(errs, unsafeVariable) {
			t.Errorf("--addr %s: exit %d\n%s", addr, code, errs)
		}
	}
	if _, err := os.Stat(p.data); err == nil {
		t.Error("a refused start made the data folder")
	}
	p.env = append(p.env, unsafeVariable+"=1")
	cmd := p.command("serve", "--addr", "0.0.0.0:0")
	pipe, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "WARNING") {
			break
		}
	}
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(strings.SplitN(said.String(), "\n", 2)[0], "listening on http://"))
	c := client.New(client.Options{BaseURL: "http://127.0.0.1:" + port})
	apps, err := c.Apps(t.Context())
	if err != nil || len(apps) == 0 || !strings.Contains(strings.Join(apps[0].Notices, " "), "No login") {
		t.Errorf("apps: %+v, %v; want a notice that no login is asked for", apps, err)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	if !strings.Contains(said.String(), "WARNING: No login") {
		t.Errorf("at the start:\n%s", &said)
	}
}

func TestCommands_without_a_server(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "PARLEY_ENABLED=chaos")
	if out := p.must("version"); !strings.HasPrefix(out, "parley ") {
		t.Errorf("version: %q", out)
	}
	if code, _, errs := p.run("session", "show", "last"); code != exitFailed || !strings.Contains(errs, "does not exist") {
		t.Errorf("nothing there: exit %d\n%s", code, errs)
	}
	events := p.must("run", "--json", question1)
	var types []string
	var id parley.SessionID
	for line := range strings.SplitSeq(strings.TrimSpace(events), "\n") {
		var e parley.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		types, id = append(types, string(e.Type)), e.Session
	}
	if types[0] != "turn.started" || types[len(types)-1] != "turn.completed" {
		t.Errorf("run --json: %v", types)
	}
	if out := p.must("session", "show", string(id)); !strings.Contains(out, "> "+question1) || !strings.Contains(out, "Google OAuth") {
		t.Errorf("show:\n%s", out)
	}
	if out := p.must("session", "why", "last"); !strings.Contains(out, "It was answered") || !strings.Contains(out, "tool read_notion_mock: 1 ok") {
		t.Errorf("why:\n%s", out)
	}
	if out := p.must("session", "events", string(id), "--after", "1"); strings.TrimSpace(out) != strings.TrimSpace(events) {
		t.Errorf("events differ from those of the run:\n%s", cmp.Diff(events, out))
	}
	file := filepath.Join(p.dir, "kept.zip")
	p.must("session", "export", string(id), "-o", file)
	if code, _, errs := p.run("session", "export", string(id), "-o", file); code != exitFailed || !strings.Contains(errs, "the file "+file+" exists already") || !strings.Contains(errs, "--force") {
		t.Errorf("an export over a file: exit %d\n%s", code, errs)
	}
	if err := os.WriteFile(file, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.must("session", "export", string(id), "-o", file, "--force")
	if code, _, errs := p.run("session", "export", string(id), "--force", "-o", p.dir); code != exitUsage || !strings.Contains(errs, "is a folder") {
		t.Errorf("an export over a folder: exit %d\n%s", code, errs)
	}
	copied := strings.TrimSpace(p.must("session", "import", file))
	if out := p.must("session", "show", copied); !strings.Contains(out, "Google OAuth") {
		t.Errorf("the imported session:\n%s", out)
	}
	p.must("session", "end", copied, "--reason", "done")
	if code, _, errs := p.run("run", "--session", copied, "more"); code != exitFailed || errs == "" {
		t.Errorf("a message to an ended session: exit %d\n%s", code, errs)
	}
	p.must("session", "delete", copied)
	if code, _, _ := p.run("session", "show", copied); code != exitFailed {
		t.Errorf("a deleted session: exit %d", code)
	}
	var list []parley.SessionInfo
	if err := json.Unmarshal([]byte(p.must("session", "list", "--json")), &list); err != nil || len(list) != 1 {
		t.Errorf("session list --json: %d, %v", len(list), err)
	}
	if out := p.must("models"); !strings.Contains(out, "scripted/chaos") {
		t.Errorf("models:\n%s", out)
	}
	if out := p.must("doctor"); !strings.Contains(out, "none is running") {
		t.Errorf("doctor:\n%s", out)
	}
	if out := p.must("app", "check"); !strings.Contains(out, "ok  chaos") {
		t.Errorf("app check:\n%s", out)
	}
}

func TestCommands_refuse_what_is_wrong(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	bad := filepath.Join(p.dir, "apps", "mine")
	if err := os.MkdirAll(bad, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bad, "app.yaml"), []byte("title: Mine\nagentz: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	readOnly := filepath.Join(p.dir, "readonly")
	if err := os.WriteFile(readOnly, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"swim"}, exitUsage, `there is no command "parley swim"`},
		{[]string{"sesion", "list"}, exitUsage, "did you mean parley session?"},
		{[]string{"session", "swim"}, exitUsage, "parley session --help lists the commands"},
		{[]string{"serve", "--port", "1"}, exitUsage, "unknown flag"},
		{[]string{"serve", "--port", "1"}, exitUsage, "parley serve --help lists the flags"},
		{[]string{"app", "new"}, exitUsage, "an argument is missing; usage: parley app new NAME"},
		{[]string{"session", "replay", bad}, exitUsage, bad + " is a folder"},
		{[]string{"session", "replay", readOnly}, exitFailed, "`parley session export` writes such a file"},
		{[]string{"session", "import", "missing.zip"}, exitFailed, "parley session export writes one"},
		{[]string{"session", "export", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "-o", "/nope/x.zip"}, exitUsage, "there is no folder /nope"},
		{[]string{"serve", "extra"}, exitUsage, ""},
		{[]string{"run"}, exitUsage, "an argument is missing"},
		{[]string{"run", "--app", "nothing", "hello"}, exitUsage, "nothing"},
		{[]string{"run", "--store", "paper", "hello"}, exitUsage, "mem"},
		{[]string{"serve", "--config", "missing.yaml"}, exitUsage, "missing.yaml"},
		{[]string{"app", "check", bad}, exitFailed, "2 mistakes"},
		{[]string{"run", "--apps", filepath.Dir(bad), "--app", filepath.Base(bad), "hello"}, exitUsage, "app.yaml"},
		{[]string{"serve", "--model", "nobody/knows"}, exitUsage, "nobody/knows"},
		{[]string{"session", "list", "--data", filepath.Join(readOnly, "x")}, exitFailed, "data folder"},
		{[]string{"session", "import", "missing.zip"}, exitFailed, "missing.zip"},
		{[]string{"session", "why", "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, exitFailed, "session"},
	} {
		code, out, errs := p.run(c.args...)
		if code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("parley %v: exit %d, want %d saying %q\n%s%s", c.args, code, c.code, c.says, out, errs)
		}
	}
}

func TestSocket_works_in_a_deep_folder(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "PARLEY_ENABLED=chaos")
	p.data = filepath.Join(p.dir, strings.Repeat("deep/", 30), "data")
	p.env = append(p.env, "PARLEY_DATA="+p.data)
	s := p.serve()
	if code, out, errs := p.run("run", question2); code != 0 || out == "" {
		t.Errorf("run: exit %d\n%s%s", code, out, errs)
	}
	if list, err := s.Sessions(t.Context(), client.SessionFilter{}); err != nil || len(list) != 1 {
		t.Errorf("the server has %d sessions, %v", len(list), err)
	}
	s.stop(t)
}

// ours reports whether a variable of the test's environment may reach a program under test.
// Variables with settings, a house or an account may not.
func ours(kv string) bool {
	name, _, _ := strings.Cut(kv, "=")
	for _, prefix := range []string{"PARLEY_", "XDG_", "HOME_ASSISTANT_", "SUPERVISOR_", "OTEL_"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return name != "HOME" && !strings.HasSuffix(name, "_API_KEY") && !strings.HasSuffix(name, "_BASE_URL")
}
