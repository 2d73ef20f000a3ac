package userfiles

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzWindow writes a text in pieces: what is taken does not depend on where it is cut, and is the
// lines that were asked for.
func FuzzWindow(f *testing.F) {
	f.Add("one\ntwo\nthree", 2, 1, 3)
	f.Add("ä\r\nö", 1, 0, 1)
	f.Add("caf\xe9\n", 1, 0, 2)
	f.Add("\xf0\x9f\x98", 1, 0, 1)
	f.Add("", 1, 1, 1)
	f.Fuzz(func(t *testing.T, text string, first, most, cut int) {
		first, most, cut = max(first%50, 1), max(most%50, 0), max(cut%9, 1)
		w := window{first: first, most: most, valid: true}
		for rest := []byte(text); len(rest) > 0; rest = rest[min(cut, len(rest)):] {
			_, _ = w.Write(rest[:min(cut, len(rest))])
		}
		if want := utf8.ValidString(text) && !strings.Contains(text, "\x00"); w.text() != want {
			t.Errorf("text is %v, want %v", w.text(), want)
		}
		all := strings.SplitAfter(text, "\n")
		if all[len(all)-1] == "" {
			all = all[:len(all)-1]
		}
		if w.all() != len(all) {
			t.Errorf("%d lines, want %d", w.all(), len(all))
		}
		all = all[min(first-1, len(all)):]
		if most > 0 {
			all = all[:min(most, len(all))]
		}
		if want := strings.Join(all, ""); string(w.taken) != want || w.whole() != len(all) || w.cut {
			t.Errorf("%q in %d lines, want %q in %d", w.taken, w.whole(), want, len(all))
		}
	})
}

// TestWindowIsBounded: of more than fits, whole lines are taken; of a line that does not fit, its beginning.
func TestWindowIsBounded(t *testing.T) {
	t.Parallel()
	feed := func(text []byte, cut int) (w window) {
		w = window{first: 1, valid: true}
		for len(text) > 0 {
			n := min(cut, len(text))
			_, _ = w.Write(text[:n])
			text = text[n:]
		}
		return w
	}
	for _, cut := range []int{1000, 32 << 10, MaxText + 5, 5 * MaxText} {
		if w := feed(bytes.Repeat([]byte("0123456789\n"), MaxText/4), cut); len(w.taken) != MaxText/11*11 || w.whole() != MaxText/11 || w.cut || w.all() != MaxText/4 {
			t.Errorf("pieces of %d: %d bytes, %d of %d lines", cut, len(w.taken), w.whole(), w.all())
		}
		w := feed(append(bytes.Repeat([]byte("€"), MaxText), "\nx"...), cut)
		if len(w.taken) > MaxText || len(w.taken) < MaxText-3 || !utf8.Valid(w.taken) || w.whole() != 1 || !w.cut || !w.text() || w.all() != 2 {
			t.Errorf("pieces of %d: %d bytes, %d of %d lines, cut %v, text %v", cut, len(w.taken), w.whole(), w.all(), w.cut, w.text())
		}
	}
}
