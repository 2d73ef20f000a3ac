package tui_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/tui"
)

const page = `# The login

The **final** spec is *Google OAuth* only, see [the page](https://notion.so/p) and
` + "`auth.md`" + `.

1. First
   - inner &amp; more
2. Second \*not emphasis\*

> A word from Ana
> that is quoted.

` + "```go\nfunc  f() {}\n\n\t// kept\n```" + `

| When | Value |
|:-----|------:|
| 22:34 | 196.3 V |
| 7:01 | 8 V |

---
- [x] done
- [ ] open
`

func TestRender(t *testing.T) {
	t.Parallel()
	const plain = `# The login

The final spec is Google OAuth only, see
the page (https://notion.so/p) and
` + "`auth.md`" + `.

1. First
   • inner & more
2. Second *not emphasis*

│ A word from Ana that is quoted.

    func  f() {}

    	// kept

When     Value
──────────────
22:34  196.3 V
7:01       8 V

────────────────────────────────────────

• [x] done
• [ ] open`
	if diff := cmp.Diff(plain, tui.Render(page, tui.Style{Screen: true, Width: 42})); diff != "" {
		t.Errorf("without colour (-want +got):\n%s", diff)
	}
	const colour = "\x1b[1mThe login\x1b[0m\n\nThe \x1b[1mfinal\x1b[0m spec is \x1b[3mGoogle OAuth\x1b[0m only, see \x1b[4mthe page\x1b[0m \x1b[2m(https://notion.so/p)\x1b[0m and \x1b[36mauth.md\x1b[0m."
	got := tui.Render(page, tui.Style{Screen: true, Colour: true, Width: 100})
	if diff := cmp.Diff(colour, strings.Join(strings.Split(got, "\n")[:3], "\n")); diff != "" {
		t.Errorf("with colour (-want +got):\n%s", diff)
	}
}

// A table that does not fit loses nothing.
func TestRender_wide_table(t *testing.T) {
	t.Parallel()
	got := tui.Render("| Source | Says |\n|--|--|\n| Notion | Email and password, the only source that says so |\n", tui.Style{Width: 30})
	want := "Source: Notion\nSays: Email and password,\n  the only source that says so"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What a model writes never reaches the terminal as a command to it, however it is
// written.
func TestRender_gives_a_terminal_nothing_to_obey(t *testing.T) {
	t.Parallel()
	for _, evil := range []string{
		"a\x1b[31mb", "`\x1b]0;title\x07`", "&#27;[2J", "&#x1b;[2J", "```\n\x1b[2J\n```", "[x](http://a/\x1b[2J)", "<b \x1b[2J>", "\u009b2J",
		"| a\x1b[1m |\n|--|\n| &#x9b;b |", "a\u202eb", "<http://a/&#27;>",
	} {
		got := tui.Render(evil, tui.Style{Width: 80})
		if strings.ContainsFunc(got, func(r rune) bool {
			return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f || r == 0x202e
		}) {
			t.Errorf("%q became %q", evil, got)
		}
	}
	if got, want := tui.Plain("a\x1b[31mb\x07\u009bc\nd\té"), "a[31mbc\nd\té"; got != want {
		t.Errorf("Plain: got %q, want %q", got, want)
	}
}

// What is drawn while an answer is written is the answer, drawn at once, wherever
// the text is cut.
func TestAnswer_drawn_in_pieces(t *testing.T) {
	t.Parallel()
	want := tui.Render(page, tui.Style{Width: 80}) + "\n"
	for size := 1; size < 40; size++ {
		var b strings.Builder
		a := tui.Open(nil, &b, &b, func(string) string { return "" }).Answer()
		for rest := page; rest != ""; {
			n := min(size, len(rest))
			if err := a.Add(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := a.End(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Fatalf("in pieces of %d (-want +got):\n%s", size, diff)
		}
	}
	var b strings.Builder
	a := tui.Open(nil, &b, &b, func(string) string { return "" }).Answer()
	for _, piece := range []string{"One.\n\nTw", "o.", "\n\nThree"} {
		if err := a.Add(piece); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.String(); got != "One.\n\nTwo.\n" {
		t.Errorf("before the end: %q", got)
	}
}
