//go:build unix

package program_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-server/parley"
)

// withPress gives the program an app whose tool is a shell script. The script notes each of its
// calls in the file printed. With HANG=1 it opens the file held and does not end.
func (p *place) withPress(more string) (printed, held string) {
	p.t.Helper()
	dir := filepath.Join(p.dir, "apps", "press")
	printed, held = filepath.Join(p.dir, "printed"), filepath.Join(p.dir, "held")
	login := filepath.Join(p.dir, "login")
	p.write(login, "press-login-0815\n")
	p.write(filepath.Join(dir, "clerk.md"), "Do as you are told.")
	p.write(filepath.Join(dir, "press.sh"), `in=$(cat)
case $in in
*tool.reconcile*)
	echo asked >>"$PRINTED"
	grep -q '^print' "$PRINTED" && echo '{"happened":true,"output":"it was printed"}' ;;
*)
	echo print >>"$PRINTED"
	[ "$HANG" = 1 ] || { echo "printed with $PRESS_TOKEN and $LOGIN in $MODE"; exit 0; }
	exec >"$HELD"
	echo held
	sleep 1000 &
	sleep 1000 ;;
esac
`)
	p.write(filepath.Join(dir, "app.yaml"), `model: test/clerk
agents:
  clerk: {prompt: clerk.md, tools: [mail]}
tools:
  command:
    run: [sh, ./press.sh]
    env: {PRINTED: "`+printed+`", HELD: "`+held+`", HANG: "${PRESS_HANG}", PRESS_TOKEN: "${PRESS_TOKEN}", LOGIN: "file:`+login+`", MODE: production}
    tools:
      mail:
        description: Prints a text.
        input: {type: object, properties: {text: {type: string}}, required: [text], additionalProperties: false}
        subject: "{text}"
`+more+`policy: {rules: [{verdict: allow}]}
resume: auto
`)
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(dir), "PARLEY_ENABLED=press", "PARLEY_TEST_DESK=http://127.0.0.1:1", "PRESS_TOKEN=press-secret-4711", "PRESS_HANG=0")
	return printed, held
}

// TestCommand_of_ones_own: a tool is a program that an app.yaml names. A secret that the
// program gets stays out of the log, whatever its variable is called.
func TestCommand_of_ones_own(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.withPress("")
	if code, out, errs := p.run("app", "check"); code != 0 || !strings.Contains(out, "press: 1 agent, 1 tool") {
		t.Fatalf("app check: exit %d\n%s%s", code, out, errs)
	}
	s := p.serve()
	id := s.session("press")
	turn := s.settle(s.send(id, "mail hello").ID)
	if turn.Status != parley.StatusCompleted || !strings.Contains(turn.Response.Message, "printed with") ||
		!strings.Contains(turn.Response.Message, "in production") || strings.Contains(turn.Response.Message, "press-login") {
		t.Errorf("%+v with %+v", turn, turn.Response)
	}
	if log := strings.Join(s.log(id), "\n"); strings.Contains(log, "press-secret-4711") || strings.Contains(log, "press-login-0815") || !strings.Contains(log, `"outcome":"ok"`) {
		t.Errorf("the log:\n%s", log)
	}
}

// TestCommand_killed_in_a_write: the server dies while the program runs. The program and its
// children die too. The program is not run again: it is asked for the outcome of the call, or
// else a person is.
func TestCommand_killed_in_a_write(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, more string }{{"a program that can be asked", "        reconcile: true\n"}, {"one that cannot", ""}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			printed, held := p.withPress(c.more)
			p.env = append(p.env, "PRESS_HANG=1")
			begun, gone := pipeOf(t, held)
			s := p.serve()
			turn := s.send(s.session("press"), "mail hello").ID
			waitFor(t, begun, "the program")
			s.kill()
			waitFor(t, gone, "the end of what the program started")
			s = p.serve()
			if c.more == "" {
				in := s.interaction(s.waiting(turn).Interactions[0])
				if in.Kind != parley.KindUnknown {
					t.Errorf("a person is asked %+v", in)
				}
			}
			end := s.settle(turn)
			if end.Status != parley.StatusCompleted || strings.Contains(end.Response.Message, "it was printed") != (c.more != "") {
				t.Errorf("%+v with %+v", end, end.Response)
			}
			lines, err := os.ReadFile(printed)
			if err != nil || strings.Count(string(lines), "print\n") != 1 || strings.Contains(string(lines), "asked") != (c.more != "") {
				t.Errorf("the program was run for %q, %v", lines, err)
			}
		})
	}
}

func waitFor(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(within):
		t.Fatal("timed out waiting for " + what)
	}
}

// TestCommand_that_is_wrong: each mistake is reported with its line.
func TestCommand_that_is_wrong(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.withPress("        effect: wirte\n")
	file := filepath.Join(p.dir, "apps", "press", "app.yaml")
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p.write(file, strings.Replace(strings.Replace(string(body), "run: [sh, ./press.sh]", "run: ./absent.sh\n    at_once: 1000\n    memory: much", 1), "MODE:", "A.B:", 1))
	code, out, _ := p.run("app", "check")
	for _, says := range []string{
		`app.yaml:6: tools.command.run: the program "./absent.sh" cannot be run: `,
		`app.yaml:7: tools.command.at_once: has to be from 1 to 100`,
		`app.yaml:8: tools.command.memory: "much" is not a size`,
		`tools.command.env.A.B: is not a valid variable name`,
		`tools.command.tools.mail.effect: "wirte" is not one of read, idempotent, write`,
	} {
		if code != 1 || !strings.Contains(out, says) {
			t.Errorf("exit %d without %q:\n%s", code, says, out)
		}
	}
}

// TestExample_command_tool runs the example program in JavaScript.
func TestExample_command_tool(t *testing.T) {
	t.Parallel()
	example, err := filepath.Abs("../../examples/command-tool")
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t, "PARLEY_ENABLED=diary", "PARLEY_APPS="+filepath.Join(example, "apps"), "DIARY="+filepath.Join(t.TempDir(), "diary.txt"))
	p.serve()
	_, _, errs := p.run("run", "Write that we planted tomatoes")
	if code, out, errs := p.run("session", "answer", waitingIn(t, errs), "allow"); code != 0 || !strings.Contains(out, "It stands in the diary.") {
		t.Errorf("allowed: exit %d\n%s%s", code, out, errs)
	}
	if code, out, errs := p.run("run", "What stands there about tomatoes?"); code != 0 || !strings.Contains(out, "we planted tomatoes") {
		t.Errorf("the diary entry: exit %d\n%s%s", code, out, errs)
	}
}

// pipeOf makes a named pipe that a program opens and writes a byte to. begun is closed then,
// and gone when no process has the pipe open any more.
func pipeOf(t *testing.T, path string) (begun, gone chan struct{}) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	begun, gone = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		f, err := os.Open(path)
		if err != nil {
			return
		}
		defer f.Close()
		b := make([]byte, 100)
		_, _ = f.Read(b)
		close(begun)
		for err == nil {
			_, err = f.Read(b)
		}
	}()
	return begun, gone
}
