package chat

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
)

func readLogs(t *testing.T) map[string][]parley.Event {
	t.Helper()
	names, err := filepath.Glob("../../../testdata/logs/*.ndjson")
	if err != nil || len(names) == 0 {
		t.Fatal("there are no logs:", err)
	}
	out := map[string][]parley.Event{}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var list []parley.Event
		in := bufio.NewScanner(bytes.NewReader(raw))
		in.Buffer(nil, 16<<20)
		for in.Scan() {
			var e parley.Event
			if err := json.Unmarshal(in.Bytes(), &e); err != nil {
				t.Fatal(err)
			}
			list = append(list, e)
		}
		out[filepath.Base(name)] = list
	}
	return out
}

// pages draws a whole conversation.
func pages(c *conversation, w int, open bool) []string {
	var v viewport
	v.place(c)
	d := drawing{look: newLook(true, true, 1), width: w, open: open, now: time.Unix(1_800_000_000, 0)}
	var out []string
	for _, p := range v.list {
		if p.gap {
			out = append(out, "")
		}
		out = append(out, d.lines(p.it)...)
	}
	return out
}

// Of every log: what is shown does not depend on where the reading began, once the rest is read,
// fits any width, and never has anything that a terminal obeys.
func TestConversation(t *testing.T) {
	t.Parallel()
	for name, events := range readLogs(t) {
		whole := newConversation(parley.SessionInfo{})
		for _, e := range events {
			whole.apply(e)
		}
		for _, w := range []int{100, 40, 12} {
			for _, line := range pages(whole, w, true) {
				if n := ansi.StringWidth(line); n > w {
					t.Errorf("%s: a line is %d wide, not %d: %q", name, n, w, line)
				}
				harmless(t, line)
			}
		}
		want := strings.Join(pages(whole, 100, false), "\n")
		for cut := range events {
			// A turn that the cut goes through is known by its row, as the server lists it.
			head := newConversation(parley.SessionInfo{})
			for _, e := range events[:cut] {
				head.apply(e)
			}
			tail := newConversation(parley.SessionInfo{})
			var before []*turn
			var part *turn
			for _, s := range head.turns {
				before = append(before, s)
			}
			tail.queue = append(tail.queue, head.queue...)
			if n := len(before); n > 0 && !before[n-1].status.Ended() && len(head.turns) == n {
				part = before[n-1]
				seeded := tail.seed(parley.TurnInfo{ID: part.id, Status: part.status, Message: part.message, FirstSeq: part.first, CreatedAt: part.asked, Origin: part.origin})
				seeded.from = events[cut-1].Seq
				seeded.by, seeded.resources, seeded.files = part.by, part.resources, part.files
				before = before[:n-1]
			}
			tail.open = append(tail.open, head.open...)
			if cut > 0 {
				tail.seq = events[cut-1].Seq
			}
			for _, e := range events[cut:] {
				tail.apply(e)
			}
			if part != nil {
				tail.prepend(nil, part, part.first-1, "")
			}
			tail.prepend(before, nil, 0, "")
			if got := strings.Join(pages(tail, 100, false), "\n"); got != want && !strings.Contains(name, "rewind") {
				t.Fatalf("%s, read from %d on (-whole +got):\n%s", name, cut, cmp.Diff(want, got))
			}
		}
	}
}
