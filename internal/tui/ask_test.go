package tui_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tui"
)

// patience bounds what a test waits for.
const patience = 30 * time.Second

// desk is a terminal with somebody at it.
type desk struct {
	t    *testing.T
	hand *os.File // what they see and type on
	term *tui.Terminal

	mu   sync.Mutex
	seen strings.Builder
	more chan struct{}
	at   int // of seen that was expected already
}

func sit(t *testing.T, env map[string]string) *desk {
	t.Helper()
	hand, tty, err := pty.Open()
	if err != nil {
		if runtime.GOOS == "linux" && os.Getuid() == 0 {
			t.Fatalf("no terminal can be opened, and as root on Linux one can: %v", err)
		}
		t.Skipf("no terminal can be opened here, so that nothing is tested: %v", err)
	}
	if err := pty.Setsize(hand, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, hand: hand, more: make(chan struct{}, 1)}
	d.term = tui.Open(tty, tty, tty, func(name string) string { return env[name] })
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, 4096)
		for {
			n, err := hand.Read(b)
			d.mu.Lock()
			d.seen.Write(b[:n])
			d.mu.Unlock()
			select {
			case d.more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_, _ = hand.WriteString("\n\x04") // ends whoever reads there still
		_ = tty.Close()
		<-read
		_ = hand.Close()
	})
	return d
}

func (d *desk) screen() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.ReplaceAll(d.seen.String(), "\r\n", "\n")
}

// sees waits for a text behind what was seen before.
func (d *desk) sees(text string) {
	d.t.Helper()
	late := time.After(patience)
	for {
		s := d.screen()
		if i := strings.Index(s[d.at:], text); i >= 0 {
			d.at += i + len(text)
			return
		}
		select {
		case <-d.more:
		case <-late:
			d.t.Fatalf("%q was never there:\n%s", text, s[d.at:])
		}
	}
}

func (d *desk) types(text string) {
	d.t.Helper()
	if _, err := d.hand.WriteString(text); err != nil {
		d.t.Fatal(err)
	}
}

type reply struct {
	answer parley.AnswerInteraction
	err    error
}

func (d *desk) ask(ctx context.Context, in parley.Interaction) <-chan reply {
	done := make(chan reply, 1)
	go func() {
		a, err := d.term.Ask(ctx, in)
		done <- reply{a, err}
	}()
	return done
}

func (d *desk) gets(done <-chan reply, want parley.Answer, given ...parley.Credentials) {
	d.t.Helper()
	select {
	case got := <-done:
		whole := parley.AnswerInteraction{Answer: want}
		for _, c := range given {
			whole.Credentials = c
		}
		if diff := cmp.Diff(whole, got.answer); diff != "" || got.err != nil {
			d.t.Errorf("%v (-want +got):\n%s", got.err, diff)
		}
	case <-time.After(patience):
		d.t.Fatalf("it still asks:\n%s", d.screen())
	}
}

// Each kind of interaction, as a person without colours sees and answers it.
func TestAsk(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{"TERM": "xterm", "NO_COLOR": "1"})
	type line struct{ sees, types string }
	two := asked(rooms, many)
	two.Title = "2 questions"
	perm := of(parley.KindPermission)
	perm.Title, perm.Reaches = "May home call turn_on?", []string{"light.desk"}
	perm.ExpiresAt = time.Date(2026, 11, 23, 6, 0, 0, 0, time.Local)
	for _, c := range []struct {
		name  string
		in    parley.Interaction
		lines []line
		want  parley.Answer
	}{
		{"question", asked(rooms), []line{
			{"\n? Where?\n  Ctrl-D leaves it open, Ctrl-C stops the turn.\n  1  Kitchen\n  2  Bath, upper\n  3  18\n  1-3, or other words; - skips it: ", "\n"},
			{"the answer is empty; give a number, or write an answer\n", ""},
			{"skips it: ", "9\n"},
			{"there is no option 9; give a number from 1 to 3; to answer with the number itself, write it in double quotes\n", ""},
			{"skips it: ", "2\n"},
			{"  Answered: Bath, upper\n", ""},
		}, parley.Answer{Choice: "answered", Answers: map[string]string{"Where?": "Bath, upper"}}},
		{"several questions", two, []line{
			{"? 2 questions\n", ""},
			{"1 of 2: Where?\n", ""},
			{"skips it: ", "the attic\n"},
			{"2 of 2: Which?\n", ""},
			{"One or more of 1-3, such as 1,3, or other words; - skips it: ", "1,3\n"},
		}, parley.Answer{Choice: "answered", Answers: map[string]string{"Where?": "the attic", "Which?": "Desk, Door"}}},
		{"skipped", asked(free), []line{{"Your answer; - skips it: ", "-\n"}, {"  Skipped\n", ""}}, parley.Answer{Choice: "deny"}},
		{"permission", perm, []line{
			{"? May home call turn_on?\n  tool: turn_on\n  entity_id: light.desk\n  acts on: light.desk\n  Open until Mon 23 Nov 06:00. Ctrl-D leaves it open, Ctrl-C stops the turn.\n" +
				"  1  Allow once\n  2  Allow for this session\n  3  Deny\n  4  Allow once, with another input\n  1-4: ", "perhaps\n"},
			{`"perhaps" is not one of the choices; give a number from 1 to 4`, ""},
			{"1-4: ", "2\n"},
			{"  Allowed for this session\n", ""},
		}, parley.Answer{Choice: "allow_session"}},
		{"denied", perm, []line{{"1-4: ", "no\n"}, {"Why, for the agent (Enter for no reason): ", "not at night\n"}, {"  Denied: not at night\n", ""}}, parley.Answer{Choice: "deny", Text: "not at night"}},
		{"edited", perm, []line{
			{"1-4: ", "4\n"},
			{"(Enter to go back): ", "{\n"},
			{"this is not a JSON object", ""},
			{"(Enter to go back): ", `{"entity_id": "light.shelf"}` + "\n"},
			{"Allowed once, with another input\n", ""},
		}, parley.Answer{Choice: "allow", Input: json.RawMessage(`{"entity_id":"light.shelf"}`)}},
		{"confirmation", of(parley.KindConfirmation), []line{{"  1  Yes, do it\n  2  No\n  1-2: ", "y\n"}, {"  Confirmed\n", ""}}, parley.Answer{Choice: "allow"}},
		{"an unknown write", of(parley.KindUnknown), []line{{"  1  It happened\n  2  It did not happen\n  3  Do it again\n  4  Leave it unknown\n  1-4: ", "1\n"}, {"It happened\n", ""}}, parley.Answer{Choice: "happened"}},
		{"a credential that nobody can give here", of(parley.KindCredential), []line{{"  1  Deny\n  1-1: ", "1\n"}}, parley.Answer{Choice: "deny"}},
	} {
		done := d.ask(t.Context(), c.in)
		for _, l := range c.lines {
			d.sees(l.sees)
			d.types(l.types)
		}
		d.gets(done, c.want)
		if t.Failed() {
			t.Fatalf("in %s", c.name)
		}
	}
	if strings.Contains(d.screen(), "\x1b") {
		t.Error("NO_COLOR is set, and there are escape sequences")
	}
}

// A secret is not shown, and the terminal shows what is typed again afterwards.
func TestAsk_secret(t *testing.T) {
	t.Parallel()
	d := sit(t, nil)
	in := of(parley.KindCredential)
	in.Choices = []string{parley.ChoiceAnswered, parley.ChoiceDeny}
	in.Credentials = []string{"CRM", "MAIL"}
	done := d.ask(t.Context(), in)
	d.sees("1  Type it; it is not shown\n  2  Deny\n")
	d.sees("1-2: ")
	d.types("1\n")
	d.sees("(not shown): ")
	d.types("\n")
	d.sees("nothing was typed")
	d.sees("1-2: ")
	d.types("1\n")
	d.sees("CRM (not shown): ")
	d.types("hunter2\n")
	d.sees("MAIL (not shown): ")
	d.types("hunter22\n")
	d.gets(done, parley.Answer{Choice: "answered"}, parley.Credentials{"CRM": "hunter2", "MAIL": "hunter22"})
	done = d.ask(t.Context(), asked(free))
	d.sees("skips it: ")
	d.types("shown\n")
	d.sees("shown")
	d.gets(done, parley.Answer{Choice: "answered", Answers: map[string]string{"Why?": "shown"}})
	if strings.Contains(d.screen(), "hunter2") {
		t.Errorf("the secret is on the screen:\n%s", d.screen())
	}
}

// A question that goes away leaves the keys to the next one: what was typed for the
// one is no answer to the other.
func TestAsk_goes_away(t *testing.T) {
	t.Parallel()
	d := sit(t, nil)
	elsewhere := errors.New("answered elsewhere")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := d.ask(ctx, of(parley.KindPermission))
	d.sees("1-4: ")
	d.types("1") // and then it goes away
	d.sees("1")
	cancel(elsewhere)
	if got := <-done; !errors.Is(got.err, elsewhere) {
		t.Fatalf("got %+v", got)
	}
	done = d.ask(t.Context(), asked(free))
	d.sees("skips it: ")
	d.types("dark\n")
	d.gets(done, parley.Answer{Choice: "answered", Answers: map[string]string{"Why?": "dark"}})
	done = d.ask(t.Context(), asked(free))
	d.sees("skips it: ")
	d.types("\x04") // Ctrl-D
	if got := <-done; !errors.Is(got.err, tui.ErrLeft) {
		t.Errorf("Ctrl-D: got %+v", got)
	}
}

func TestStyle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env    map[string]string
		colour bool
	}{
		"a terminal": {map[string]string{"TERM": "xterm-256color"}, true},
		"NO_COLOR":   {map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
		"dumb":       {map[string]string{"TERM": "dumb"}, false},
		"unknown":    {nil, false},
	} {
		d := sit(t, c.env)
		if s := d.term.Style(d.term.Out); !s.Screen || s.Colour != c.colour || s.Width != 80 || !d.term.CanAsk {
			t.Errorf("%s: got %+v, asks %v", name, s, d.term.CanAsk)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	piped := tui.Open(r, w, w, func(string) string { return "xterm" })
	if s := piped.Style(w); s.Screen || s.Colour || piped.CanAsk {
		t.Errorf("a pipe: got %+v, asks %v", s, piped.CanAsk)
	}
}
