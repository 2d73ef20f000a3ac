package program_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/parley-server/parley"
)

// seat is a command at a terminal, with a person who types. Its standard output goes elsewhere.
type seat struct {
	t      *testing.T
	cmd    *exec.Cmd
	hand   *os.File
	answer bytes.Buffer // standard output
	seen   lines
	more   chan struct{}
	ended  chan struct{}
	at     int // how much of seen earlier calls have matched
}

// sit starts a command with a terminal as standard input and standard error. If drawn is true,
// standard output is the terminal too.
func (p *place) sit(drawn bool, args ...string) *seat {
	p.t.Helper()
	s := &seat{t: p.t, cmd: p.command(args...), more: make(chan struct{}, 1), ended: make(chan struct{})}
	s.cmd.Env = append(s.cmd.Env[:len(s.cmd.Env):len(s.cmd.Env)], "TERM=xterm", "NO_COLOR=1")
	if !drawn {
		s.cmd.Stdout = &s.answer
	}
	hand, err := pty.StartWithSize(s.cmd, &pty.Winsize{Rows: 40, Cols: 90})
	if err != nil {
		if runtime.GOOS == "linux" && os.Getuid() == 0 {
			p.t.Fatalf("no terminal can be opened, and as root on Linux one can: %v", err)
		}
		p.t.Skipf("no terminal can be opened here, so that nothing is tested: %v", err)
	}
	s.hand = hand
	go func() {
		defer close(s.ended)
		b := make([]byte, 4096)
		for {
			n, err := hand.Read(b)
			_, _ = s.seen.Write(b[:n])
			select {
			case s.more <- struct{}{}:
			default:
			}
			if err != nil {
				break
			}
		}
		_ = s.cmd.Wait()
	}()
	p.t.Cleanup(func() { _ = s.cmd.Process.Kill(); <-s.ended; _ = hand.Close() })
	return s
}

func (s *seat) screen() string { return strings.ReplaceAll(s.seen.String(), "\r\n", "\n") }

// sees waits for a text after the one that was matched last.
func (s *seat) sees(text string) {
	s.t.Helper()
	late := time.After(within)
	for over := false; ; {
		all := s.screen()
		if i := strings.Index(all[s.at:], text); i >= 0 {
			s.at += i + len(text)
			return
		}
		if over {
			s.t.Fatalf("%q was never there:\n%s", text, all)
		}
		select {
		case <-s.more:
		case <-s.ended:
			over = true
		case <-late:
			s.t.Fatalf("%q is not there:\n%s", text, all)
		}
	}
}

func (s *seat) types(text string) {
	s.t.Helper()
	if _, err := s.hand.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for the command to end with the exit code.
func (s *seat) ends(code int) {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(within):
		s.t.Fatalf("it does not end:\n%s", s.screen())
	}
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		s.t.Fatalf("exit %d, want %d:\n%s", got, code, s.screen())
	}
}

const (
	whichMenu = "One or more of 1-4, such as 1,4, or other words; - skips it: "
	allowMenu = "\n  1  Allow once\n  2  Allow for this session\n  3  Deny\n  4  Allow once, with another input\n  1-4: "
)

// last returns the answer of the newest turn.
func (s *process) last(of parley.SessionID) string {
	s.t.Helper()
	list := must[struct{ Turns []parley.TurnInfo }](s, http.MethodGet, "/v1/sessions/"+string(of)+"/turns", "").Turns
	if len(list) == 0 || list[0].Response == nil {
		s.t.Fatalf("no answer: %+v", list)
	}
	return list[0].Response.Message
}

// TestRun_asks_at_the_terminal: a question and then a permission, with the server killed
// between them. Only the answer goes to standard output.
func TestRun_asks_at_the_terminal(t *testing.T) {
	t.Parallel()
	p, house := atHome(t, "", mayTurn)
	s := p.serve()
	id := s.session("home")
	at := p.sit(false, "run", "--session", string(id), which)
	at.sees("? " + whichOne)
	at.sees(whichMenu)
	s.kill()
	at.types("2\n")
	at.sees("Answered: Bedside left")
	at.sees("The server does not answer; trying again.")
	s = p.serve()
	at.sees("light.bedroom_bedside_left")
	at.sees(allowMenu)
	at.types("1\n")
	at.ends(0)
	if got, want := at.answer.String(), s.last(id)+"\n"; got != want || !strings.Contains(got, "is on now") {
		t.Errorf("standard output:\n%s\nwant:\n%s", got, want)
	}
	if n := len(house.Calls()); n != 1 {
		t.Errorf("the house saw %v", house.Calls())
	}
}

// TestRun_question_goes_away: two terminals and another client show the same question. The
// first answer counts, and the others are told.
func TestRun_question_goes_away(t *testing.T) {
	t.Parallel()
	p, _ := atHome(t, "", mayTurn)
	s := p.serve()
	id := s.session("home")
	one := p.sit(true, "run", "--session", string(id), which)
	one.sees(whichMenu)
	turn := must[parley.SessionInfo](s, http.MethodGet, "/v1/sessions/"+string(id), "").Turn.ID
	open := s.waiting(turn).Interactions[0]
	two := p.sit(false, "session", "answer", string(open))
	two.sees(whichMenu)
	one.types("2") // half an answer, without a line end
	if a := s.answer(open, parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{whichOne: "Bedside right"}}); a.status != http.StatusOK {
		t.Fatalf("answer: %s", a)
	}
	one.sees("Answered elsewhere: Answered: Bedside right")
	two.sees("Answered elsewhere: Answered: Bedside right")
	one.sees(allowMenu)
	two.sees(allowMenu)
	two.types("3\n")
	two.sees("Why, for the agent (Enter for no reason): ")
	two.types("not now\n")
	one.sees("Answered elsewhere: Denied: not now")
	one.ends(0)
	two.ends(0)
	if got, want := two.answer.String(), s.last(id)+"\n"; got != want {
		t.Errorf("standard output:\n%s\nwant:\n%s", got, want)
	}
}

// TestRun_stopped_at_the_terminal: Ctrl-C cancels the turn and says so. Ctrl-D leaves the
// question open and says how to answer it.
func TestRun_stopped_at_the_terminal(t *testing.T) {
	t.Parallel()
	p, _ := atHome(t, "", mayTurn)
	s := p.serve()
	id := s.session("home")
	at := p.sit(true, "run", "--session", string(id), which)
	at.sees(whichMenu)
	at.types("\x03")
	at.sees("Stopped: the turn is cancelled.")
	at.ends(130)
	at = p.sit(true, "run", "--session", string(id), which)
	at.sees(whichMenu)
	at.types("\x04")
	at.sees("the turn waits for an answer: " + whichOne)
	at.sees("parley session answer")
	at.ends(4)
	if info := must[parley.SessionInfo](s, http.MethodGet, "/v1/sessions/"+string(id), ""); info.Turn == nil || info.Turn.Status != parley.StatusWaiting {
		t.Errorf("after Ctrl-D the turn is %+v", info.Turn)
	}
}

// TestRun_question_expires_at_the_terminal: the question expires while it is shown, and the
// turn goes on.
func TestRun_question_expires_at_the_terminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_ENABLED=asker")
	p.env = append(p.env, "PARLEY_APPS="+filepath.Join(p.dir, "apps"))
	dir := filepath.Join(p.dir, "apps", "asker")
	p.write(filepath.Join(dir, "lead.md"), "Ask.")
	p.write(filepath.Join(dir, "app.yaml"), `agents: {lead: {prompt: lead.md, tools: [AskUserQuestion]}}
tools: {ask: {}}
script: script.yaml
policy: {answer_within: 1500ms}
`)
	p.write(filepath.Join(dir, "script.yaml"), `agents:
  lead:
    - when: called "AskUserQuestion" .Results
      say: Nobody said anything.
    - call: [{tool: AskUserQuestion, input: {questions: [{question: "Tea?", header: Drink, multiSelect: false, options: [{label: "Yes", description: a}, {label: "No", description: b}]}]}}]
`)
	// No server runs: the command opens the data folder itself.
	at := p.sit(false, "run", "--app", "asker", "hello")
	at.sees("? Tea?")
	at.sees("1-2, or other words; - skips it: ")
	at.sees("The question is closed")
	at.ends(0)
	if got := at.answer.String(); got != "Nobody said anything.\n" {
		t.Errorf("standard output: %q", got)
	}
}

// TestSession_answer: without a terminal, the command asks nothing and says how to answer. The
// answer reaches the turn once, with and without a server, and after a kill.
func TestSession_answer(t *testing.T) {
	t.Parallel()
	p, house := atHome(t, "", mayTurn)
	s := p.serve()
	code, out, errs := p.run("run", "--app", "home", which)
	if code != 4 || out != "" {
		t.Fatalf("run: exit %d\n%s%s", code, out, errs)
	}
	open := waitingIn(t, errs)
	holds(t, errs, "the turn waits for an answer: "+whichOne, "parley session answer --data "+p.data+" "+open+" ANSWER\n",
		`answer with one or more of "Bedroom lights", "Bedside left", "Bedside right", "Bedroom ceiling", joined by commas, or other words; deny skips it`)
	if code, out, _ := p.run("session", "questions"); code != 0 || !strings.Contains(out, open) || !strings.Contains(out, "question") {
		t.Errorf("questions: exit %d\n%s", code, out)
	}
	s.kill()

	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{2, "there is no answer, and no terminal to ask on: " + whichOne, []string{open}},
		{2, "there is no option 9", []string{open, "9"}},
		{2, "there are 2 answers for 1 questions", []string{open, "1", "2"}},
		{2, "no server has the data folder open", []string{open, "1", "--no-wait"}},
		{1, "interaction", []string{"01ARZ3NDEKTSV4RRFFQ69G5FAV", "1"}},
	} {
		if code, _, errs := p.run(append([]string{"session", "answer"}, c.args...)...); code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%v: exit %d, want %d saying %q:\n%s", c.args, code, c.code, c.says, errs)
		}
	}
	// No server runs: the command itself carries the turn on, up to the permission.
	code, out, errs = p.run("session", "answer", open, "bedside left")
	if code != 4 || out != "" || !strings.Contains(errs, "Answered: Bedside left") {
		t.Fatalf("answer: exit %d\n%s%s", code, out, errs)
	}
	permission := waitingIn(t, errs)
	holds(t, errs, permission+" CHOICE\n", "answer with allow, allow_session or deny")

	s = p.serve()
	if code, _, errs := p.run("session", "answer", permission, "1"); code != 2 || !strings.Contains(errs, "not a choice of this permission") {
		t.Errorf("a number for a permission: exit %d\n%s", code, errs)
	}
	code, out, errs = p.run("session", "answer", permission, "allow")
	if code != 0 || !strings.Contains(out, "is on now") {
		t.Fatalf("allow: exit %d\n%s%s", code, out, errs)
	}
	again, same, errs := p.run("session", "answer", permission, "allow")
	if again != 0 || same != out || !strings.Contains(errs, "It was already answered this way: Allowed once") {
		t.Errorf("the same again: exit %d\n%s%s", again, same, errs)
	}
	if code, out, errs := p.run("session", "answer", permission); code != 0 || out != same || !strings.Contains(errs, "It was already answered: Allowed once") {
		t.Errorf("a second answer: exit %d\n%s%s", code, out, errs)
	}
	if code, out, errs := p.run("session", "answer", permission, "deny"); code != 1 || out != "" || !strings.Contains(errs, "was answered by local with allow") {
		t.Errorf("another answer: exit %d\n%s%s", code, out, errs)
	}
	if n := len(house.Calls()); n != 1 {
		t.Errorf("the house saw %v", house.Calls())
	}
	_ = s
}

// waitingIn returns the interaction's id from the suggested command in a message.
func waitingIn(t *testing.T, errs string) string {
	t.Helper()
	_, line, ok := strings.Cut(errs, "parley session answer")
	line, _, _ = strings.Cut(line, "\n")
	for word := range strings.FieldsSeq(line) {
		if len(word) == 26 && ok {
			return word
		}
	}
	t.Fatalf("it does not say how to answer:\n%s", errs)
	return ""
}

// TestRun_in_a_pipe: events are lines, and a message can come from standard input. A reader
// that closes the pipe early causes no error.
func TestRun_in_a_pipe(t *testing.T) {
	t.Parallel()
	p, _ := atHome(t, "", mayTurn)
	p.serve()
	code, out, errs := p.run("run", "--json", "--app", "home", which)
	var last parley.Event
	for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	if code != 4 || last.Type != "interaction.opened" || !strings.Contains(errs, "parley session answer") {
		t.Errorf("--json: exit %d after %s\n%s", code, last.Type, errs)
	}
	open := waitingIn(t, errs)

	pipe := func(input string, args ...string) (int, string, string) {
		cmd := p.command(args...)
		var o, e bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &o, &e
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode(), o.String(), e.String()
	}
	if code, out, errs := pipe("Bedside left\n", "session", "answer", "--json", open, "-"); code != 4 || !strings.Contains(out, `"interaction.answered"`) || strings.Contains(out, `"turn.started"`) {
		t.Errorf("an answer from standard input: exit %d\n%s%s", code, out, errs)
	}
	if code, _, errs := pipe(which+"\n", "run", "--app", "home", "-"); code != 4 || !strings.Contains(errs, whichOne) {
		t.Errorf("a message from standard input: exit %d\n%s", code, errs)
	}
	for input, says := range map[string]string{"": "standard input is empty", "\xff": "not UTF-8", strings.Repeat("a", 300<<10): "more than 262144 bytes"} {
		if code, _, errs := pipe(input, "run", "--app", "home", "-"); code != 2 || !strings.Contains(errs, says) {
			t.Errorf("of %.10q: exit %d, want 2 and %q:\n%s", input, code, says, errs)
		}
	}
	for _, args := range [][]string{{"session", "answer", open, "-"}, {"session", "import", "-"}} {
		if code, _, errs := pipe("", args...); code != 2 || !strings.Contains(errs, "standard input is empty") {
			t.Errorf("%v with nothing: exit %d\n%s", args, code, errs)
		}
	}
	if code, _, errs := pipe("", "--apps", t.TempDir(), "session", "list"); code != 0 || !strings.Contains(errs, "--apps is not used") {
		t.Errorf("--apps of a command of a server: exit %d\n%s", code, errs)
	}
	if code, _, errs := pipe("a", "run", "--app", "home", "-", "-"); code != 2 || !strings.Contains(errs, "given twice") {
		t.Errorf("- twice: exit %d\n%s", code, errs)
	}

	for _, args := range [][]string{{"session", "events", "last"}, {"session", "list"}, {"doctor"}, {"models"}, {"run", "--json", "--app", "home", "who are you?"}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close() // the reader closes before the first word
		cmd := p.command(args...)
		var e bytes.Buffer
		cmd.Stdout, cmd.Stderr = w, &e
		err = cmd.Run()
		_ = w.Close()
		ended, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if err != nil || ended.Signaled() || strings.Contains(e.String(), "pipe") {
			t.Errorf("%v into a closed pipe: %v\n%s", args, err, &e)
		}
	}
}
