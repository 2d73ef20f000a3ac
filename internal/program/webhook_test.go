package program_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/sim/nodetest"
)

const webhookSecret = "whsec_c2VjcmV0LW9mLWEtc2VydmljZS1mb3ItdGVzdHM="

// letters is the operator's own service. It sends mails and outlives the server.
type letters struct {
	*httptest.Server
	// answers says what becomes of the answer to the n-th call or, if ask is set, to the n-th
	// question about one: "" (it is sent), "lost", or "hang" until the client disconnects.
	answers func(ask bool, n int) string

	mu      sync.Mutex
	mailed  map[string]string // text by Idempotency-Key
	calls   int
	asked   int
	arrived chan struct{} // closed at the first call
	held    chan struct{} // closed at the first answer that hangs
}

func newLetters(t *testing.T, answers func(ask bool, n int) string) *letters {
	check, err := webhooks.NewWebhook(webhookSecret)
	if err != nil {
		t.Fatal(err)
	}
	l := &letters{answers: answers, mailed: map[string]string{}, arrived: make(chan struct{}), held: make(chan struct{})}
	hold := sync.OnceFunc(func() { close(l.held) })
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = check.Verify(body, r.Header)
		}
		var m struct {
			Type string
			Data struct {
				Call  string
				Input struct{ Text string }
			}
		}
		if err == nil {
			err = json.Unmarshal(body, &m)
		}
		if err != nil {
			t.Errorf("a message: %v", err)
		}
		w.Header().Set("Content-Type", "application/json")
		l.mu.Lock()
		ask := m.Type == "tool.reconcile"
		var n int
		switch m.Type {
		case "tool.call":
			if l.calls++; l.calls == 1 {
				close(l.arrived)
			}
			l.mailed[r.Header.Get("Idempotency-Key")] = m.Data.Input.Text
			n = l.calls
		case "tool.reconcile":
			l.asked++
			n = l.asked
		}
		text, happened := l.mailed[m.Data.Call]
		l.mu.Unlock()
		becomes := ""
		if l.answers != nil {
			becomes = l.answers(ask, n)
		}
		switch becomes {
		case "lost":
			panic(http.ErrAbortHandler)
		case "hang":
			hold()
			<-r.Context().Done()
		}
		if ask {
			fmt.Fprintf(w, `{"happened":%v,"output":"mailed %s"}`, happened, text)
		} else {
			fmt.Fprintf(w, `"mailed %s"`, m.Data.Input.Text)
		}
	}))
	t.Cleanup(l.Close)
	return l
}

// withLetters gives the program an app whose tool calls the service.
func (p *place) withLetters(l *letters, more string) {
	p.t.Helper()
	dir := filepath.Join(p.dir, "apps", "letters")
	p.write(filepath.Join(dir, "clerk.md"), "Do as you are told.")
	p.write(filepath.Join(dir, "mail.json"), `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`)
	p.write(filepath.Join(dir, "app.yaml"), `model: test/clerk
agents:
  clerk: {prompt: clerk.md, tools: [mail]}
tools:
  http:
    url: `+l.URL+`/tools
    secret: ${LETTERS_SECRET}
    tools:
      mail:
        description: Mails a text.
        input: mail.json
        subject: "{text}"
`+more+`policy: {rules: [{verdict: allow}]}
resume: auto
`)
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(dir), "PARLEY_ENABLED=letters", "PARLEY_TEST_DESK=http://127.0.0.1:1", "LETTERS_SECRET="+webhookSecret)
}

// TestService_of_ones_own: a tool is a service that an app.yaml names. Its calls are journaled,
// checked by policy and shown like those of every tool, from an agent and over MCP.
func TestService_of_ones_own(t *testing.T) {
	t.Parallel()
	l := newLetters(t, nil)
	p := newPlace(t)
	p.withLetters(l, "")
	if code, out, errs := p.run("app", "check"); code != 0 || !strings.Contains(out, "letters: 1 agent, 1 tool") {
		t.Fatalf("app check: exit %d\n%s%s", code, out, errs)
	}
	s := p.serve()
	id := s.session("letters")
	turn := s.settle(s.send(id, "mail hello").ID)
	if turn.Status != parley.StatusCompleted || !strings.Contains(turn.Response.Message, `"mailed hello"`) || l.calls != 1 {
		t.Errorf("%+v after %d calls", turn, l.calls)
	}
	if log := strings.Join(s.log(id), "\n"); strings.Contains(log, webhookSecret) || !strings.Contains(log, `"outcome":"ok"`) {
		t.Errorf("the log:\n%s", log)
	}
}

// TestService_killed_in_a_write: the server dies while the service works. It does not repeat
// the call; it asks the service for the outcome, or else a person.
func TestService_killed_in_a_write(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, more string }{{"a service that can be asked", "        reconcile: true\n"}, {"one that cannot", ""}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLetters(t, func(ask bool, _ int) string { return map[bool]string{false: "hang"}[ask] })
			p := newPlace(t)
			p.withLetters(l, c.more)
			s := p.serve()
			turn := s.send(s.session("letters"), "mail hello").ID
			select {
			case <-l.arrived:
			case <-time.After(within):
				t.Fatal("the service was not called")
			}
			s.kill()
			s = p.serve()
			if c.more == "" {
				in := s.interaction(s.waiting(turn).Interactions[0])
				if in.Kind != parley.KindUnknown {
					t.Errorf("a person is asked %+v", in)
				}
			}
			end := s.settle(turn)
			if end.Status != parley.StatusCompleted || strings.Contains(end.Response.Message, "mailed hello") != (c.more != "") {
				t.Errorf("%+v with %+v", end, end.Response)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.calls != 1 || (l.asked > 0) != (c.more != "") {
				t.Errorf("the service was called %d times and asked %d times", l.calls, l.asked)
			}
		})
	}
}

// TestService_killed_after_a_lost_answer: the answer to a call is lost while the server lives. Then
// the server is killed, either between two attempts of an idempotent call, or while it asks what
// became of a write. The next server continues from there, and the write is not made again.
func TestService_killed_after_a_lost_answer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, more   string
		answers      func(ask bool, n int) string
		calls, asked int
	}{
		{"between two attempts", "        effect: idempotent\n        key_ttl: 1h\n", func(_ bool, n int) string {
			return []string{"lost", "hang", ""}[min(n, 3)-1]
		}, 3, 0},
		{"before the answer about a write", "        reconcile: true\n", func(ask bool, n int) string {
			switch {
			case !ask:
				return "lost"
			case n == 1:
				return "hang"
			}
			return ""
		}, 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLetters(t, c.answers)
			p := newPlace(t)
			p.withLetters(l, c.more)
			s := p.serve()
			id := s.session("letters")
			turn := s.send(id, "mail hello").ID
			select {
			case <-l.held:
			case <-time.After(within):
				t.Fatalf("the service was called %d times:\n%s", l.calls, strings.Join(s.log(id), "\n"))
			}
			s.kill()
			s = p.serve()
			end := s.settle(turn)
			if end.Status != parley.StatusCompleted || !strings.Contains(end.Response.Message, "mailed hello") {
				t.Errorf("%+v with %+v", end, end.Response)
			}
			if log := strings.Join(s.log(id), "\n"); strings.Count(log, `"tool.ended"`) != 1 || !strings.Contains(log, `"outcome":"ok"`) {
				t.Errorf("the log:\n%s", log)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.calls != c.calls || l.asked != c.asked || len(l.mailed) != 1 {
				t.Errorf("the service was called %d times with %d keys and asked %d times, want %d, 1, %d", l.calls, len(l.mailed), l.asked, c.calls, c.asked)
			}
		})
	}
}

// TestService_that_is_wrong: each mistake is reported with its line.
func TestService_that_is_wrong(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.withLetters(newLetters(t, nil), "        effect: wirte\n        key_ttl: 1h\n      Two words: {description: x}\n")
	p.env = slices.DeleteFunc(p.env, func(v string) bool { return strings.HasPrefix(v, "LETTERS_SECRET=") })
	if _, out, _ := p.run("app", "check"); strings.Count(out, "tools.http.secret: ") != 1 || !strings.Contains(out, "refers to ${LETTERS_SECRET}, which is not set") {
		t.Errorf("a secret that is not set:\n%s", out)
	}
	p.env = append(p.env, "LETTERS_SECRET=whsec_short")
	code, out, _ := p.run("app", "check")
	if n := strings.Count(out, "app.yaml:"); n != 4 {
		t.Errorf("%d mistakes, want each once:\n%s", n, out)
	}
	for _, says := range []string{
		`app.yaml:7: tools.http.secret: is not a signing secret`,
		`app.yaml:13: tools.http.tools.mail.effect: "wirte" is not one of read, idempotent, write`,
		`app.yaml:14: tools.http.tools.mail.key_ttl: is only for idempotent tools`,
		`app.yaml:15: tools.http.tools.Two words: cannot be a tool's name`,
	} {
		if code != 1 || !strings.Contains(out, says) {
			t.Errorf("exit %d without %q:\n%s", code, says, out)
		}
	}
	if strings.Contains(out, "whsec_short") {
		t.Errorf("the secret is repeated:\n%s", out)
	}
}

// TestExample_http_tool runs the example service in JavaScript. The scheme's own client checks
// its requests.
func TestExample_http_tool(t *testing.T) {
	t.Parallel()
	example, err := filepath.Abs("../../examples/http-tool")
	if err != nil {
		t.Fatal(err)
	}
	nodetest.Install(t, example)
	ctx, stop := context.WithTimeout(t.Context(), lifetime)
	t.Cleanup(stop)
	node := exec.CommandContext(ctx, "node", "service.mjs")
	node.Dir, node.Env = example, append(os.Environ(), "PORT=0", "CONTACTS_SECRET="+webhookSecret)
	said, err := node.StdoutPipe()
	if err == nil {
		err = node.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = node.Wait() })
	address, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t, "PARLEY_ENABLED=contacts", "PARLEY_APPS="+filepath.Join(example, "apps"), "CONTACTS_URL="+strings.TrimSpace(address), "CONTACTS_SECRET="+webhookSecret)
	p.serve()
	if code, out, errs := p.run("run", "Who is Ana?"); code != 0 || !strings.Contains(out, "ana@example.com") {
		t.Errorf("a contact that is there: exit %d\n%s%s", code, out, errs)
	}
	if code, out, errs := p.run("run", "Add Rui, rui"); code != 4 {
		t.Errorf("a write is not asked for: exit %d\n%s%s", code, out, errs)
	} else if code, out, errs = p.run("session", "answer", waitingIn(t, errs), "allow"); code != 0 || !strings.Contains(out, "rui is no mail address") {
		t.Errorf("an input that the service refuses: exit %d\n%s%s", code, out, errs)
	}
	_, _, errs := p.run("run", "Add Rui, rui@example.com")
	if code, out, errs := p.run("session", "answer", waitingIn(t, errs), "allow"); code != 0 || !strings.Contains(out, "Rui is contact 2.") {
		t.Errorf("allowed: exit %d\n%s%s", code, out, errs)
	}
	if code, out, errs := p.run("run", "Who is Rui?"); code != 0 || strings.Count(out, "rui@example.com") != 1 {
		t.Errorf("the contact that was added: exit %d\n%s%s", code, out, errs)
	}
}

// TestExample_client_tool runs the example client in JavaScript beside a server.
func TestExample_client_tool(t *testing.T) {
	t.Parallel()
	example, err := filepath.Abs("../../examples/client-tool")
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t, "PARLEY_ENABLED=desk", "PARLEY_APPS="+filepath.Join(example, "apps"))
	server := p.serve()
	ctx, stop := context.WithTimeout(t.Context(), lifetime)
	t.Cleanup(stop)
	node := exec.CommandContext(ctx, "node", "client.mjs")
	node.Dir, node.Env = example, append(os.Environ(), "PARLEY_URL="+server.url, "NOTES="+filepath.Join(t.TempDir(), "notes.txt"))
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = node.Wait() })
	if code, out, errs := p.run("run", "What have I noted?"); code != 0 || !strings.Contains(out, "no notes yet") {
		t.Errorf("a read: exit %d\n%s%s", code, out, errs)
	}
	_, _, errs := p.run("run", "Note that the plants need water.")
	if code, out, errs := p.run("session", "answer", waitingIn(t, errs), "allow"); code != 0 || !strings.Contains(out, "written down") {
		t.Errorf("a write that is allowed: exit %d\n%s%s", code, out, errs)
	}
	if code, out, errs := p.run("run", "What have I noted?"); code != 0 || strings.Count(out, "the plants need water") != 1 {
		t.Errorf("what was noted: exit %d\n%s%s", code, out, errs)
	}
}
