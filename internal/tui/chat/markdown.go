package chat

import (
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley/internal/tui"
)

// blocks is the Markdown of a text, drawn. While the text grows, only what may still change is
// drawn again: the part after the last block that is complete.
type blocks struct {
	width, look int
	at          int      // bytes of the text that are drawn for good
	fence       string   // the line that opened the code in which they end
	done        []string // their lines
	tail        int      // length of the text to which rest belongs
	rest        []string
}

// maxBlock is how many bytes may change with each fragment. A longer block is drawn in pieces, so
// that a text without line breaks costs no more than another.
const maxBlock = 8 << 10

// lines are the lines of a text. live says that more of it may come.
func (b *blocks) lines(text string, live bool, w int, l *look) []string {
	if b.width != w || b.look != l.rev || b.at > len(text) {
		*b = blocks{width: w, look: l.rev}
	}
	style := l.style
	style.Width = w
	for {
		held, hard := text[b.at:], false
		window := held[:min(len(held), maxBlock)]
		n := tui.Stable(window)
		if b.fence != "" {
			n = closes(window, b.fence)
		}
		if n == 0 {
			if len(held) <= maxBlock {
				break
			}
			n, hard = cutAt(held), true
		}
		b.draw(held[:n], hard, style)
		b.at += n
		b.tail = 0
	}
	if !live {
		if b.at < len(text) {
			b.draw(text[b.at:], false, style)
			b.at = len(text)
		}
		return b.done
	}
	if b.tail != len(text) || b.rest == nil {
		b.tail, b.rest = len(text), nil
		if held := text[b.at:]; strings.TrimSpace(held) != "" {
			b.rest = b.piece(held, style)
		}
	}
	if len(b.rest) == 0 {
		return b.done
	}
	out := b.done[:len(b.done):len(b.done)]
	if len(out) > 0 && b.fence == "" {
		out = append(out, "")
	}
	return append(out, b.rest...)
}

// draw adds a piece of the text for good. hard says that it ends within a block.
func (b *blocks) draw(piece string, hard bool, style tui.Style) {
	lines := b.piece(piece, style)
	inside := b.fence != ""
	if len(lines) > 0 {
		if len(b.done) > 0 && !inside {
			b.done = append(b.done, "")
		}
		b.done = append(b.done, lines...)
	}
	switch open := opened(piece, b.fence); {
	case hard:
		b.fence = open
	default:
		b.fence = ""
	}
}

func (b *blocks) piece(text string, style tui.Style) []string {
	if b.fence != "" {
		text = b.fence + "\n" + text
	}
	s := strings.ReplaceAll(tui.Render(strings.ReplaceAll(text, "\t", "    "), style), "\t", " ") // a tab may also be written as an entity
	if s == "" {
		return nil
	}
	return fit(strings.Split(s, "\n"), style.Width)
}

// cutAt is where a long block is cut: behind a line, a word, or a character.
func cutAt(s string) int {
	part := s[:maxBlock]
	if i := strings.LastIndexByte(part, '\n'); i > maxBlock/4 {
		return i + 1
	}
	if i := strings.LastIndexByte(part, ' '); i > maxBlock/4 {
		return i + 1
	}
	n := maxBlock
	for n > maxBlock-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}

// opened is the line that opens the code in which a text ends, or "".
func opened(text, fence string) string {
	for line := range strings.SplitSeq(text, "\n") {
		trimmed := strings.TrimLeft(line, " ")
		mark := fenceOf(trimmed)
		switch {
		case mark == "":
		case fence == "":
			fence = trimmed
		case strings.HasPrefix(mark, fenceOf(fence)) && strings.Trim(trimmed, mark[:1]+" \t\r") == "":
			fence = ""
		}
	}
	return fence
}

// closes is where the code that fence opened ends in a text, or 0.
func closes(text, fence string) int {
	at := 0
	for line := range strings.SplitAfterSeq(text, "\n") {
		at += len(line)
		trimmed := strings.TrimLeft(strings.TrimRight(line, "\r\n"), " ")
		if mark := fenceOf(trimmed); mark != "" && strings.HasPrefix(mark, fenceOf(fence)) && strings.Trim(trimmed, mark[:1]+" \t") == "" {
			return at
		}
	}
	return 0
}

func fenceOf(line string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, c)); n >= 3 {
			return line[:n]
		}
	}
	return ""
}
