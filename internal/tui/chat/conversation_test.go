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
			before = append(before, head.turns...)
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

// A conversation that becomes too large lets its beginning go, and can read it again.
func TestTrim(t *testing.T) {
	t.Parallel()
	c := newConversation(parley.SessionInfo{})
	seq := int64(0)
	event := func(turn parley.TurnID, p parley.Payload) {
		seq++
		e := parley.NewEvent(turn, "a", p)
		e.Seq, e.Time = seq, time.Unix(seq, 0)
		c.apply(e)
	}
	output := strings.Repeat("x", 60<<10)
	var ids []parley.TurnID
	for i := range 100 {
		id := parley.TurnID(rune('A' + i))
		ids = append(ids, id)
		event(id, parley.TurnStarted{TurnRequest: parley.TurnRequest{Message: parley.Text(parley.RoleUser, "hello")}})
		for j := range 20 {
			call := parley.CallID(string(id) + string(rune('a'+j)))
			event(id, parley.ToolStarted{Call: call, Name: "look"})
			event(id, parley.ToolEnded{ToolResult: parley.ToolResult{Call: call, Outcome: parley.OutcomeOK, Output: output}, Name: "look"})
		}
		event(id, parley.TurnCompleted{})
		c.trim(true)
		total := 0
		for _, t := range c.turns {
			total += t.bytes()
		}
		if total > maxShown {
			t.Fatalf("after turn %d it has %d bytes", i, total)
		}
	}
	if n := len(c.turns); n == 0 || n == 100 || c.older != c.turns[0].id || c.from != c.turns[0].first-1 || c.turns[n-1].id != ids[99] {
		t.Errorf("it keeps %d turns, from %d, before %s", n, c.from, c.older)
	}
	event("long", parley.TurnStarted{})
	for j := range maxItems + 10 {
		event("long", parley.ToolStarted{Call: parley.CallID(rune(0x4e00 + j)), Name: "look"})
		event("long", parley.ToolEnded{ToolResult: parley.ToolResult{Call: parley.CallID(rune(0x4e00 + j)), Outcome: parley.OutcomeOK}, Name: "look"})
	}
	c.trim(true)
	long := c.turns[len(c.turns)-1]
	if n := len(long.items); n > maxItems || long.items[0].kind != kindGap || long.from == 0 || long.items[1].seq != long.from+1 {
		t.Errorf("of a long turn %d items stay, from %d, the first is of event %d", n, long.from, long.items[1].seq)
	}
}
