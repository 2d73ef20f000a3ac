// Package tui draws on a terminal and asks there.
//
// [Open] finds out what a command was started with: which of its streams are a
// screen, how wide it is, and whether a person can be asked. [Render] turns an
// answer's Markdown into text for a screen, [Answer] does so while the answer is
// still being written, and [Terminal.Ask] puts an [parley.Interaction] before a
// person. [Parse] reads the same answers from the arguments of a command.
//
// A pipe never gets an escape sequence, and nobody is asked through one. NO_COLOR
// and TERM=dumb turn escape sequences off on a screen, too. Control characters in
// what models and tools say never reach a screen.
//
// It knows no server: whoever calls it sends the answer.
package tui

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Style is how text is drawn.
type Style struct {
	Screen bool   // a person looks at it; false: a pipe or a file
	Colour bool   // escape sequences may be written
	Width  int    // columns
	Fit    bool   // no line may be longer than Width, since nobody breaks it: of code, too
	Code   string // how code is drawn, as the numbers of an escape sequence; empty: cyan
}

const (
	// widest is where prose is wrapped on a screen that is wider: longer lines are
	// hard to read.
	widest    = 100
	narrowest = 20
	unknown   = 80 // columns of a screen that does not say
)

func (s Style) sgr(code, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s Style) code(text string) string {
	if s.Code == "" {
		return s.sgr("36", text)
	}
	return s.sgr(s.Code, text)
}

// Bold emphasises text.
func (s Style) Bold(text string) string { return s.sgr("1", text) }

// Dim is for what is said beside the answer.
func (s Style) Dim(text string) string { return s.sgr("2", text) }

// Green is for what is right.
func (s Style) Green(text string) string { return s.sgr("32", text) }

// Yellow is for warnings.
func (s Style) Yellow(text string) string { return s.sgr("33", text) }

// Red is for errors.
func (s Style) Red(text string) string { return s.sgr("31", text) }

// Terminal is the three streams of a command.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer
	// CanAsk says that a person reads Err and types into In.
	CanAsk bool

	env  func(string) string
	keys *keyboard
}

// Open looks at the streams of a command. env looks up a variable.
func Open(in io.Reader, out, errs io.Writer, env func(string) string) *Terminal {
	t := &Terminal{In: in, Out: out, Err: errs, env: env}
	file, ok := in.(*os.File)
	t.CanAsk = ok && screen(in) && screen(errs)
	if t.CanAsk {
		t.keys = newKeyboard(file)
	}
	return t
}

func screen(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Style is how to draw on w, which is Out or Err, now: a window may have been
// resized.
func (t *Terminal) Style(w io.Writer) Style {
	if !screen(w) {
		return Style{Width: unknown}
	}
	s := Style{Screen: true, Width: unknown}
	name := t.env("TERM")
	s.Colour = t.env("NO_COLOR") == "" && name != "" && name != "dumb"
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			s.Width = max(narrowest, min(n, widest))
		}
	}
	return s
}

// Plain removes control characters from a text, and characters that change the order in
// which it is read.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ', r >= 0x7f && r <= 0x9f:
			return -1
		case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // overrides of direction
			return -1
		}
		return r
	}, s)
}
