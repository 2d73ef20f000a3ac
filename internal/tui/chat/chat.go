// Package chat is the terminal client: a session on a screen, and beside a person who is asked.
//
// [Run] shows sessions, opens one and follows it: what agents say, what they do, what they ask.
// It speaks to the server by package client alone, like any other program, and so it works the
// same with a server on this machine and with one elsewhere. What it shows is a fold of the
// session's log, so two of them on one session show the same, and one that joins late or was cut
// off shows what it missed.
//
// With Options.Plain there is no screen: each thing is said once, as a line, and questions are
// asked in words. That is for screen readers, and for input or output that is no terminal.
//
// Nothing that a model, a tool or another person wrote reaches the terminal as a command to it.
// The terminal is as it was when Run returns, also after a panic or a signal.
package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

// Options of [Run].
type Options struct {
	// Connect returns a client. away is told, from any goroutine, when the server does not
	// answer, and with nil when it does again.
	Connect func(away func(error)) *client.Client
	Where   string      // how people call the server
	Own     func() bool // reports whether the server is in this process, and ends with it

	Session   parley.SessionID // the session to open; empty: the list of sessions, or what App says
	App       string           // the app of a new session
	Workspace parley.Workspace // of a new session; empty: the app's default
	Title     string           // of a new session
	Model     string           // of a new session; empty: the app's
	Runtime   string           // of a new session; empty: the app's

	Plain    bool
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string
}

// Left is how a chat ended.
type Left struct {
	Session parley.SessionID // the session that was open; empty: none
	Busy    bool             // one of its turns has not ended
}

// Run shows sessions until the person leaves, or the server refuses for good. When ctx ends or the
// terminal is gone (SIGHUP), it returns CodeCancelled.
func Run(ctx context.Context, o Options) (Left, error) {
	if o.Plain {
		return runPlain(ctx, o)
	}
	ctx, hung := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer hung()
	m := newModel(ctx, o)
	defer m.end()
	env := os.Environ()
	if o.Env("NO_COLOR") != "" { // any value says no, and Bubble Tea knows some
		env = append(env, "NO_COLOR=1")
	}
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(env), tea.WithoutSignalHandler())
	_, err := p.Run()
	left := m.left()
	switch {
	case m.fatal != nil:
		return left, m.fatal
	case errors.Is(err, tea.ErrProgramPanic):
		return left, parley.Errorf(parley.CodeInternal, "the chat has a bug and had to end: %w", err).WithHint("the session is not affected: open it again")
	case ctx.Err() != nil:
		return left, parley.Errorf(parley.CodeCancelled, "stopped: %w", context.Cause(ctx))
	case err != nil:
		return left, parley.Errorf(parley.CodeInternal, "the terminal: %w", err)
	}
	return left, nil
}

// utf8Terminal reports whether characters beyond ASCII can be shown.
func utf8Terminal(env func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := env(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true // nobody says, and it is so nearly everywhere
}

// errText is an error for people, with its hint.
func errText(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*parley.Error](err); ok && e.Hint != "" {
		text += "; " + e.Hint
	}
	return oneLine(text)
}

// editorOf is the person's editor, as words of a command.
func editorOf(env func(string) string) []string {
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if words := strings.Fields(env(name)); len(words) > 0 {
			return words
		}
	}
	return []string{"vi"}
}

// temp writes a text to a file of this person alone.
func temp(text, ext string) (string, error) {
	f, err := os.CreateTemp("", "parley-*"+ext)
	if err != nil {
		return "", err
	}
	_, err = io.WriteString(f, text)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return "", fmt.Errorf("write %s: %w", f.Name(), err)
	}
	return f.Name(), nil
}
