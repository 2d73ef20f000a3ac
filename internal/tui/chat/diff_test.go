package chat

import "testing"

// A change that somebody is asked about is drawn as one, and a list in a text is not taken for it.
func TestCutDiff(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"page.md\nwhy\n\n+---\n+title: x\n+\n", "page.md\nwhy\n", "+---\n+title: x\n+"},
		{"@@ -1 +1 @@\n-a\n+b", "", "@@ -1 +1 @@\n-a\n+b"},
		{"Do this:\n- one\n- two", "Do this:\n- one\n- two", ""},
		{"no change\n\n same", "no change\n\n same", ""},
		{"", "", ""},
	} {
		if before, diff := cutDiff(c[0]); before != c[1] || diff != c[2] {
			t.Errorf("%q: %q and %q", c[0], before, diff)
		}
	}
}
