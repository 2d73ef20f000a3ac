package tui

import (
	"io"
	"strings"
)

// Answer draws Markdown on a screen while it is being written: each block as soon
// as the next one begins.
type Answer struct {
	w     io.Writer
	style func() Style
	held  string // what may still change
	drawn bool   // something was written
}

// Answer begins an answer on the screen.
func (t *Terminal) Answer() *Answer {
	return &Answer{w: t.Out, style: func() Style { return t.Style(t.Out) }}
}

// Add takes in what comes next.
func (a *Answer) Add(text string) error {
	a.held += text
	at := Stable(a.held)
	if at == 0 {
		return nil
	}
	ready := a.held[:at]
	a.held = a.held[at:]
	return a.draw(ready)
}

// End draws what is left, as when nothing more comes.
func (a *Answer) End() error {
	ready := a.held
	a.held = ""
	return a.draw(ready)
}

func (a *Answer) draw(source string) error {
	out := Render(source, a.style())
	if out == "" {
		return nil
	}
	if a.drawn {
		out = "\n" + out
	}
	a.drawn = true
	_, err := io.WriteString(a.w, out+"\n")
	return err
}

// Stable returns how much of a text will be drawn the same whatever follows: up to the
// last empty line, outside of code, after which something begins at the margin.
func Stable(text string) int {
	at, pos := 0, 0
	fence, blank := "", false
	for pos < len(text) {
		end := strings.IndexByte(text[pos:], '\n')
		line := text[pos:]
		if end >= 0 {
			line = text[pos : pos+end]
		}
		trimmed := strings.TrimLeft(line, " \t")
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) && strings.Trim(trimmed, fence[:1]+" \t\r") == "" {
				fence = ""
			}
			blank = false
		case strings.TrimSpace(line) == "":
			blank = true
		default:
			if blank && trimmed == line {
				at = pos
			}
			if strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~") {
				fence = trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, trimmed[:1]))]
			}
			blank = false
		}
		if end < 0 {
			break
		}
		pos += end + 1
	}
	return at
}
