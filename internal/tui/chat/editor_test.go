package chat

import (
	"strings"
	"testing"
)

// Terminals paste line ends as the key Enter; they stay line ends. A long text is shown as a line
// that stands for it, is deleted as one character, and is sent whole.
func TestEditor_paste(t *testing.T) {
	t.Parallel()
	e := newEditor()
	e.paste("a\rb\r\nc\nd\x1b[2J")
	if e.text != "a\nb\nc\nd[2J" {
		t.Errorf("it becomes %q", e.text)
	}
	e.reset()
	long := strings.Repeat("line\n", 20)
	e.insert("see ")
	e.paste(strings.ReplaceAll(long, "\n", "\r"))
	if e.text != "see [pasted 1: 21 lines]" || e.value() != "see "+long {
		t.Errorf("it shows %q and sends %q", e.text, e.value())
	}
	e.key("backspace", "", 80)
	if e.text != "see " || e.value() != "see " {
		t.Errorf("deleted, it is %q and sends %q", e.text, e.value())
	}
}

// The cursor moves by what people see as one character, and lines are broken by their width.
func TestEditor_characters(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"a", "é", "e\u0301", "你", "🙂", "👩‍👩‍👧", "🇩🇪", "ש", "\n"} {
		e := newEditor()
		e.insert("x" + c + "y")
		e.key("left", "", 80)
		e.key("backspace", "", 80)
		if e.text != "xy" || e.at != 1 {
			t.Errorf("%q: deleted, there is %q, the cursor at %d", c, e.text, e.at)
		}
	}
	e := newEditor()
	e.insert("你好 世界 hello")
	for _, r := range e.rows(5) {
		if n := e.span(r.from, r.to); n > 5 && strings.TrimRight(e.text[r.from:r.to], " ") == e.text[r.from:r.to] {
			t.Errorf("%q has %d columns", e.text[r.from:r.to], n)
		}
	}
	e.set("one\ntwo")
	if !e.key("up", "", 80) || e.at != 3 || e.key("up", "", 80) {
		t.Errorf("up leads to %d", e.at)
	}
}
