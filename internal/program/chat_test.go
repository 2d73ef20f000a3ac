package program_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-server/parley"
)

// elsewhere says that a command is about a server at a URL.
const elsewhere = "--server"

// feed runs a command with a text as standard input.
func (p *place) feed(text string, args ...string) (code int, out, errs string) {
	p.t.Helper()
	cmd := p.command(args...)
	if slices.Contains(args, elsewhere) {
		cmd.Args = cmd.Args[:len(cmd.Args)-2] // without the data folder
	}
	var o, e bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), &o, &e
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// TestChat_pipe: each line is a message, sent when the turn before it has ended; the output has no
// escape sequence. Mistakes in the flags are said, and a key is not accepted in an address.
func TestChat_pipe(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve()
	code, out, errs := p.feed("What is the final spec for the login?\nAnd which library?\n", "chat", "--app", "chaos")
	if code != 0 || errs != "" || strings.Contains(out, "\x1b") || strings.Count(out, "Message: ") != 2 || !strings.Contains(out, "Google OAuth only") {
		t.Errorf("exit %d\n%s\n%s", code, out, errs)
	}
	if code, out, errs := p.feed("What is the final spec for the login?", "chat", "--app", "chaos", elsewhere, s.url); code != 0 || errs != "" || !strings.Contains(out, "Google OAuth only") {
		t.Errorf("at a URL: exit %d\n%s\n%s", code, out, errs)
	}
	key := filepath.Join(p.dir, "key")
	p.write(key, "two words\n")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"chat", "--app", "nope"}, `there is no app "nope"`},
		{[]string{"chat", "--title", "x"}, "name its app with --app"},
		{[]string{"chat", "--session", "last", "--app", "chaos"}, "--session is given"},
		{[]string{"chat", elsewhere, "https://me:secret@127.0.0.1:1"}, "everybody on this machine sees arguments"},
		{[]string{"chat", elsewhere, "127.0.0.1:1"}, "--server needs a URL"},
		{[]string{"chat", elsewhere, s.url, "--key-file", key}, "does not hold one key"},
	} {
		if code, out, errs := p.feed("", c.args...); code == 0 || !strings.Contains(errs, c.says) || strings.Contains(out+errs, "secret") {
			t.Errorf("%v: exit %d\n%s\n%s", c.args, code, out, errs)
		}
	}
}

// TestChat_killed_server: the chat says that the server is away, goes on when it is back, and gives
// the terminal back however it ends.
func TestChat_killed_server(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_SCRIPTED_PACE=20ms")
	s := p.serve()
	at := p.sit(true, "chat", "--app", "chaos")
	at.sees("commands")
	at.types("What is the final spec for the login?\r")
	at.sees("Answering")
	s.kill()
	at.sees("Trying")
	s = p.serve()
	at.sees("back.")
	at.sees("tokens")
	if err := at.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	at.ends(130)
	at.sees("\x1b[?1049l") // the screen before the chat
	list := must[struct{ Sessions []parley.SessionInfo }](s, "GET", "/v1/sessions", "").Sessions
	if len(list) != 1 || list[0].Totals.Turns != 1 {
		t.Errorf("the sessions are %+v", list)
	}
}

// TestChat_two: without a server a chat has the folder, and another command uses it meanwhile. When
// the terminal goes away, the chat ends.
func TestChat_two(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	at := p.sit(true, "chat", "--app", "chaos")
	at.sees("commands")
	code, out, errs := p.feed("What is the final spec for the login?\n", "chat", "--app", "chaos")
	if code != 0 || !strings.Contains(out, "Google OAuth only") {
		t.Fatalf("exit %d\n%s\n%s", code, out, errs)
	}
	if err := at.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	at.ends(130)
}
