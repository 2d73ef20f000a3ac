package proc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/proc"
)

// TestTail: what is kept ends where the output ends, and no part of a secret is in it,
// wherever the cut falls.
func TestTail(t *testing.T) {
	t.Parallel()
	const most = 5000
	secret := strings.Repeat("0123456789abcdef", 250) // as long as a large key
	clean := func(text string) string { return strings.ReplaceAll(text, secret, "[redacted]") }
	for after := 0; after < most+len(secret)+200; after += 101 {
		tail := &proc.Tail{Max: most, Clean: clean}
		text := strings.Repeat("é", 9000) + secret + strings.Repeat("z", after)
		for part := range strings.SplitSeq(text, "a") { // several writes
			fmt.Fprint(tail, part, "a")
		}
		got := tail.String()
		if len(got) > most || len(got) < 900 || strings.Contains(got, "0123") || strings.Contains(got, "cdef") {
			t.Fatalf("%d bytes after a secret: kept %d bytes, %q", after, len(got), got)
		}
		if want := strings.Repeat("z", min(after, 50)) + "a"; !strings.HasSuffix(got, want) {
			t.Errorf("%d bytes after a secret: it does not end with them: %q", after, got)
		}
	}
	few := &proc.Tail{Max: most}
	fmt.Fprint(few, " KeyError: 7\xff\n")
	if got := few.String(); got != "KeyError: 7\uFFFD" {
		t.Errorf("got %q", got)
	}
}
