package program_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api/apitest"
)

const (
	// within bounds every wait in a test: far more than it takes, even on a busy machine.
	within = 90 * time.Second
	// lifetime bounds the life of a process that a test starts.
	lifetime = 4 * time.Minute
)

// place is a data folder, and a program that can be started on it. The program is this test
// binary, by TestMain.
type place struct {
	t    *testing.T
	dir  string // working folder
	data string
	// store is the value of --store; empty: no flag.
	store string
	env   []string
}

func newPlace(t *testing.T, env ...string) *place {
	t.Helper()
	dir := t.TempDir()
	p := &place{t: t, dir: dir, data: filepath.Join(dir, "data")}
	for _, kv := range os.Environ() {
		if ours(kv) {
			p.env = append(p.env, kv)
		}
	}
	p.env = append(p.env, "PARLEY_TEST_AS_PROGRAM=1", "HOME="+dir, "PARLEY_SCRIPTED_PACE=1ms", "PARLEY_ENABLED=chaos")
	p.env = append(p.env, env...)
	return p
}

// withDesk gives the program two apps over one service: desk-auto and desk-manual, named for
// how their turns resume after a crash.
func (p *place) withDesk(url, pace string) {
	p.t.Helper()
	apps := filepath.Join(p.dir, "apps")
	for _, resume := range []string{"auto", "manual"} {
		dir := filepath.Join(apps, "desk-"+resume)
		p.write(filepath.Join(dir, "clerk.md"), "Do as you are told.")
		p.write(filepath.Join(dir, "app.yaml"), `title: Desk
model: test/clerk
agents:
  clerk: {prompt: clerk.md, tools: [mail]}
tools: {desk: {}}
policy: {rules: [{verdict: allow}]}
resume: `+resume+"\n")
	}
	p.env = append(p.env, "PARLEY_APPS="+apps, "PARLEY_ENABLED=chaos,desk-auto,desk-manual", "PARLEY_TEST_DESK="+url, "PARLEY_TEST_PACE="+pace)
}

func (p *place) write(name, text string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// command is one run of the program over the data folder.
func (p *place) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(p.t.Context(), lifetime)
	p.t.Cleanup(cancel)
	args = append(args, "--data", p.data)
	if p.store != "" && !slices.Contains(args, "--store") {
		args = append(args, "--store", p.store)
	}
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.dir, p.env, within
	return cmd
}

// run runs a command to its end.
func (p *place) run(args ...string) (code int, out, errs string) {
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

// process is a running server.
type process struct {
	t      *testing.T
	url    string
	cmd    *exec.Cmd
	leash  io.Closer
	done   chan struct{} // closed when it has ended
	killed time.Time
	errs   lines

	document sync.Once
	checker  *apitest.Checker // nil: answers are not checked
}

// lines records the output of a process.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serve starts the server and returns when it listens.
func (p *place) serve(args ...string) *process {
	p.t.Helper()
	return p.start(p.command(append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...))
}

// start runs a command that serves, and returns when it listens.
func (p *place) start(cmd *exec.Cmd) *process {
	p.t.Helper()
	s, up := p.begin(cmd)
	if !up {
		p.t.Fatalf("the server did not start:\n%s", s.errs.String())
	}
	return s
}

// tryServe starts a server, and reports whether it listens or has ended.
func (p *place) tryServe() (s *process, up bool) {
	p.t.Helper()
	return p.begin(p.command("serve", "--addr", "127.0.0.1:0"))
}

func (p *place) begin(cmd *exec.Cmd) (s *process, up bool) {
	p.t.Helper()
	cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], "PARLEY_TEST_LEASH=1")
	s = &process{t: p.t, cmd: cmd, done: make(chan struct{})}
	cmd.Stderr = &s.errs
	leash, err := cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	s.leash = leash
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() {
		defer close(s.done)
		r := bufio.NewReader(out)
		first, _ := r.ReadString('\n')
		said <- first
		_, _ = io.Copy(io.Discard, r)
		_ = cmd.Wait()
	}()
	p.t.Cleanup(func() {
		s.kill()
		if p.t.Failed() {
			p.t.Logf("a server said:\n%s", s.errs.String())
		}
	})
	select {
	case first := <-said:
		url, ok := strings.CutPrefix(strings.TrimSpace(first), "listening on ")
		if !ok {
			s.kill()
			return s, false
		}
		s.url = url
	case <-time.After(within):
		s.kill()
		p.t.Errorf("the server did not start in %s", within)
		return s, false
	}
	return s, true
}

// kill ends the process as the kernel does, without warning.
func (s *process) kill() {
	if s.killed.IsZero() {
		s.killed = time.Now()
	}
	_ = s.cmd.Process.Kill()
	<-s.done
	_ = s.leash.Close()
}

// answer is the response to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, bytes.TrimSpace(a.body)) }

// try makes one request; header lists names and values in turn.
func (s *process) try(ctx context.Context, method, path, body string, header ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	} else {
		req.Body = http.NoBody
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && len(path) > 1 {
		s.documented(req, resp, b)
	}
	return answer{resp.StatusCode, resp.Header, b}, err
}

// documented checks an answer against the server's own document.
func (s *process) documented(req *http.Request, resp *http.Response, body []byte) {
	s.t.Helper()
	s.document.Do(func() {
		resp, err := http.Get(s.url + "/openapi.json")
		if err != nil {
			return // the server is gone
		}
		defer resp.Body.Close()
		if raw, err := io.ReadAll(resp.Body); err == nil && resp.StatusCode == http.StatusOK {
			if s.checker, err = apitest.New(raw); err != nil {
				s.t.Errorf("the document: %v", err)
			}
		}
	})
	if s.checker == nil {
		return
	}
	if err := s.checker.Answer(req, resp.StatusCode, resp.Header, body); err != nil {
		s.t.Errorf("not as the document says: %v", err)
	}
}

// ask makes a request that must get an answer.
func (s *process) ask(method, path, body string, header ...string) answer {
	s.t.Helper()
	a, err := s.try(s.t.Context(), method, path, body, header...)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// must makes a request that must succeed, and decodes its answer.
func must[T any](s *process, method, path, body string, header ...string) T {
	s.t.Helper()
	a := s.ask(method, path, body, header...)
	var v T
	if a.status/100 != 2 {
		s.t.Fatalf("%s %s: %s", method, path, a)
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		s.t.Fatalf("%s %s: %v in %s", method, path, err, a)
	}
	return v
}

func (s *process) session(app string) parley.SessionID {
	s.t.Helper()
	return must[parley.SessionInfo](s, "POST", "/v1/sessions", object("app", app)).ID
}

func (s *process) send(id parley.SessionID, message string, header ...string) parley.TurnInfo {
	s.t.Helper()
	return must[parley.TurnInfo](s, "POST", "/v1/sessions/"+string(id)+"/turns", object("message", message), header...)
}

// settle follows a turn to its end: it resumes a turn that a crash interrupted, and leaves an
// unknown write unanswered.
func (s *process) settle(id parley.TurnID) parley.TurnInfo {
	s.t.Helper()
	for until := time.Now().Add(within); time.Now().Before(until); {
		t := must[parley.TurnInfo](s, "POST", "/v1/turns/"+string(id)+"/await", `{"timeout_ms":20000}`)
		switch {
		case t.Status.Ended():
			return t
		case t.Status == parley.StatusInterrupted:
			// The server may resume it by itself first.
			if a := s.ask("POST", "/v1/turns/"+string(id)+"/resume", ""); a.status != 200 && a.status != 409 {
				s.t.Fatalf("resume: %s", a)
			}
		case t.Status == parley.StatusWaiting:
			for _, in := range t.Interactions {
				if a := s.ask("POST", "/v1/interactions/"+string(in)+"/answer", object("choice", parley.ChoiceLeave)); a.status != 200 {
					s.t.Fatalf("answer: %s", a)
				}
			}
		}
	}
	s.t.Fatalf("turn %s did not end", id)
	return parley.TurnInfo{}
}

// log reads a session's whole log, each event as the server wrote it.
func (s *process) log(id parley.SessionID) []string {
	s.t.Helper()
	var all []string
	for after, more := int64(0), true; more; {
		page := must[struct {
			Events []json.RawMessage
			Next   int64
			More   bool
		}](s, "GET", fmt.Sprintf("/v1/sessions/%s/events?after=%d&limit=7", id, after), "")
		for _, e := range page.Events {
			all = append(all, string(e))
		}
		after, more = page.Next, page.More
	}
	return all
}

func decode(t *testing.T, log []string) []parley.Event {
	t.Helper()
	var events []parley.Event
	for _, raw := range log {
		var e parley.Event
		if err := json.Unmarshal([]byte(raw), &e); err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		events = append(events, e)
	}
	return events
}

// object returns a JSON object of strings.
func object(fields ...string) string {
	m := map[string]string{}
	for i := 0; i < len(fields); i += 2 {
		m[fields[i]] = fields[i+1]
	}
	b, _ := json.Marshal(m) // strings always encode
	return string(b)
}

// ours is as in the tests inside the package.
func ours(kv string) bool {
	name, _, _ := strings.Cut(kv, "=")
	for _, prefix := range []string{"PARLEY_", "XDG_", "HOME_ASSISTANT_", "SUPERVISOR_", "OTEL_"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return name != "HOME" && name != "GOGC" && !strings.HasSuffix(name, "_API_KEY") && !strings.HasSuffix(name, "_BASE_URL")
}
