package program_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
)

// following is a command that follows a turn while the server dies.
type following struct {
	t         *testing.T
	cmd       *exec.Cmd
	out, errs lines
	done      chan struct{}
}

func follows(t *testing.T, cmd *exec.Cmd) *following {
	t.Helper()
	f := &following{t: t, cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &f.out, &f.errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(f.done); _ = cmd.Wait() }()
	return f
}

// says waits until the command has printed the text.
func (f *following) says(text string) {
	f.t.Helper()
	for end := time.Now().Add(within); !strings.Contains(f.errs.String(), text); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("it never said %q:\n%s", text, f.errs.String())
		}
	}
}

// ends waits for the command and returns its exit code.
func (f *following) ends() int {
	f.t.Helper()
	select {
	case <-f.done:
	case <-time.After(within):
		_ = f.cmd.Process.Kill()
		<-f.done
		f.t.Fatalf("it did not end:\n%s", f.errs.String())
	}
	return f.cmd.ProcessState.ExitCode()
}

const (
	waitsForServer = "The server does not answer. Waiting for it to come back"
	goesOn         = "it goes on by itself"
)

// TestRun_through_a_crash: if the turn resumes by itself, the command that follows it says that
// it waits for the server, and ends with the answer. If the turn does not, the command says
// what to do.
func TestRun_through_a_crash(t *testing.T) {
	t.Parallel()
	// turn returns the running turn of the only session of s
	turn := func(s *process) parley.TurnInfo {
		t.Helper()
		var got parley.TurnInfo
		s.until("a model is called", func() bool {
			list := must[struct{ Sessions []parley.SessionInfo }](s, "GET", "/v1/sessions", "").Sessions
			if len(list) == 0 || list[0].Turn == nil || !strings.Contains(strings.Join(s.log(list[0].ID), ""), `"model.started"`) {
				return false
			}
			got = parley.TurnInfo{ID: list[0].Turn.ID, SessionID: list[0].ID}
			return true
		})
		return got
	}
	for name, c := range map[string]struct {
		app  string
		json bool
		then func(s *process, turn parley.TurnInfo) // runs when the server is back
		code int
		errs []string
	}{
		"auto":   {app: "desk-auto", errs: []string{waitsForServer, "The server is back.", goesOn}},
		"json":   {app: "desk-auto", json: true, errs: []string{waitsForServer}},
		"manual": {app: "desk-manual", code: 3, errs: []string{waitsForServer, "to go on from there: parley session resume --data "}},
		"cancelled": {app: "desk-auto", then: func(s *process, turn parley.TurnInfo) {
			_ = s.ask("POST", "/v1/turns/"+string(turn.ID)+"/cancel", object("reason", "enough"))
		}, code: 3, errs: []string{"the turn was cancelled: enough"}},
		"a message": {app: "desk-auto", then: func(s *process, turn parley.TurnInfo) {
			_ = s.ask("POST", "/v1/sessions/"+string(turn.SessionID)+"/turns", `{"message":"talk 1","busy":"interrupt"}`)
		}, code: 3, errs: []string{"the turn was cancelled: interrupted by a new message"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.withDesk("http://127.0.0.1:1", "20ms")
			s := p.serve()
			message := "talk 100"
			if c.then != nil {
				message = "talk 2000" // it is still running when it is stopped
			}
			args := []string{"run", "--app", c.app, message}
			if c.json {
				args = append(args, "--json")
			}
			f := follows(t, p.command(args...))
			asked := turn(s)
			s.kill()
			f.says(waitsForServer)
			s = p.serve()
			if c.then != nil {
				c.then(s, asked)
			}
			if code := f.ends(); code != c.code {
				t.Errorf("it ended with %d, want %d", code, c.code)
			}
			said, out := f.errs.String(), f.out.String()
			for _, want := range c.errs {
				if !strings.Contains(said, want) {
					t.Errorf("it does not say %q:\n%s", want, said)
				}
			}
			answers := strings.Count(out, "word99")
			switch {
			case c.json:
				if n := strings.Count(out, `"turn.completed"`); n != 1 || strings.Count(out, `"turn.started"`) != 1 || !strings.Contains(out, `"resumes":true`) {
					t.Errorf("its events are:\n%s", out)
				}
			case c.code == 0 && (answers != 1 || strings.Count(out, "word0 ") != 1), c.code != 0 && out != "":
				t.Errorf("its answer is %q", out)
			}
			if name == "manual" { // the command that it suggested
				code, out, errs := p.run("session", "resume", string(asked.ID))
				if code != 0 || strings.Count(out, "word99") != 1 {
					t.Errorf("resumed: %d %q\n%s", code, out, errs)
				}
			}
		})
	}
}
