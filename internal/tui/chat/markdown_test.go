package chat

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
)

const answerText = `# The login

The **final** spec is *Google OAuth* only, see [the page](https://notion.so/p).

1. First
   - inner
2. Second

` + "```go\nfunc  f() {}\n\n\t// kept: a line that is longer than the screen is wide, so that it has to be broken\n```" + `

| When | Value |
|:-----|------:|
| 22:34 | 196.3 V |

> quoted 你好 🙂 e` + "\u0301" + ` שלום

~~~diff
-old
+new
~~~
Done.
`

// What is drawn while a text grows is what is drawn of the whole.
func TestBlocks(t *testing.T) {
	t.Parallel()
	l := newLook(true, true, 1)
	var whole blocks
	want := whole.lines(answerText, false, 44, l)
	for size := 1; size < 50; size++ {
		var b blocks
		for at := 0; at < len(answerText); at += size {
			b.lines(answerText[:min(at+size, len(answerText))], true, 44, l)
		}
		if diff := cmp.Diff(want, b.lines(answerText, false, 44, l)); diff != "" {
			t.Fatalf("in pieces of %d (-want +got):\n%s", size, diff)
		}
	}
}

// A text without line breaks, and code without an end, are drawn in pieces: all of it, and each
// piece once.
func TestBlocks_long(t *testing.T) {
	t.Parallel()
	l := newLook(true, true, 1)
	word := strings.Repeat("a", 1<<20)
	var b blocks
	drawn := 0
	for at := 64 << 10; at <= len(word); at += 64 << 10 {
		b.lines(word[:at], true, 80, l)
		if b.at < drawn || at-b.at > maxBlock {
			t.Fatalf("of %d bytes %d may still change", at, at-b.at)
		}
		drawn = b.at
	}
	n := 0
	for _, line := range b.lines(word, false, 80, l) {
		if ansi.StringWidth(line) > 80 {
			t.Fatalf("a line has %d columns", ansi.StringWidth(line))
		}
		n += strings.Count(line, "a")
	}
	if n != len(word) {
		t.Errorf("%d of %d characters are drawn", n, len(word))
	}
	code := "```go\n" + strings.Repeat("x := 1\n", 5000) + "```\n\nAnd then."
	var c blocks
	lines := c.lines(code, false, 80, l)
	for i, line := range lines[:5000] {
		if got := ansi.Strip(line); got != "▏ x := 1" {
			t.Fatalf("line %d is %q", i, got)
		}
	}
	if got := ansi.Strip(strings.Join(lines[5000:], "|")); got != "|And then." {
		t.Errorf("behind the code there is %q", got)
	}
}

// FuzzDrawn: whatever models, tools and people write, lines fit the screen, and the terminal is
// told nothing but styles.
func FuzzDrawn(f *testing.F) {
	for _, s := range []string{
		answerText, "a\x1b[31mb", "`\x1b]0;title\x07`", "&#27;[2J", "\u009b2J", "a\u202eb", "| a\x1b[1m |\n|--|\n| &#x9b;b |", "\xff\xfe", "👩‍👩‍👧‍👦👍🏽🇩🇪", "ﷺ͜͡͡", "\t\t\tx", "a\rb", "- [ ] x\n- [x] y",
		strings.Repeat("[", 300), strings.Repeat("> ", 200) + "x", strings.Repeat("`", 50), "```\n" + strings.Repeat("z", 200),
	} {
		f.Add(s, 20)
	}
	l := newLook(true, true, 1)
	f.Fuzz(func(t *testing.T, s string, w int) {
		w = 12 + max(w, -w)%120
		if w < 12 {
			w = 12
		}
		d := drawing{look: l, width: w, open: true}
		tn := newTurn("t")
		tn.message, tn.reason, tn.err, tn.status = s, s, &parley.ErrorInfo{Message: s, Hint: s}, parley.StatusFailed
		items := []*item{
			tn.head,
			{kind: kindMessage, text: s, label: "x"},
			{kind: kindText, text: s},
			{kind: kindText, text: s, live: true},
			{kind: kindThought, text: s},
			{kind: kindThought, text: s, live: true},
			{kind: kindTool, name: s, output: s, input: []byte(s), status: parley.ToolIsEnded, outcome: parley.OutcomeOK, images: []parley.ArtifactRef{{Name: s, MediaType: s}}},
			{kind: kindTool, name: s, output: s, title: s, status: parley.ToolIsEnded, outcome: parley.OutcomeError},
			{kind: kindFiles, files: []parley.FileSaved{{Path: s, Diff: s, Added: 1}}},
			{kind: kindAnswered, text: s, label: s, by: s},
			{kind: kindNote, text: s},
			{kind: kindEnd, turn: tn, text: s},
		}
		for _, it := range items {
			if it.turn == nil {
				it.turn = tn
			}
			for _, line := range d.lines(it) {
				if n := ansi.StringWidth(line); n > w {
					t.Fatalf("kind %d: %d columns, not %d: %q", it.kind, n, w, line)
				}
				harmless(t, line)
			}
		}
		a := newAsking(parley.Interaction{
			Kind: parley.KindQuestion, Title: s, Text: s, Detail: s, Tool: s, URL: s, Reaches: []string{s},
			Questions: []parley.Question{{Question: s, Header: s, Options: []parley.Option{{Label: s, Description: s}}}},
		}, 0, d.now)
		m := &model{ed: newEditor(), look: l, w: w, h: 30, o: Options{Env: func(string) string { return "" }}}
		lines, _, _ := a.draw(m, w, 20)
		for _, line := range lines {
			if n := ansi.StringWidth(line); n > w {
				t.Fatalf("a question: %d columns, not %d: %q", n, w, line)
			}
			harmless(t, line)
		}
		e := newEditor()
		e.insert(s)
		for _, r := range e.rows(w) {
			if n := e.span(r.from, r.to); n > w && e.next(r.from) < r.to {
				t.Fatalf("the message: %d columns, not %d: %q", n, w, e.text[r.from:r.to])
			}
		}
		for e.at > 0 {
			at := e.prev(e.at)
			if at >= e.at {
				t.Fatalf("no character before %d in %q", e.at, e.text)
			}
			e.at = at
		}
	})
}
