package chat

import "slices"

const (
	// maxShown is how many bytes of a conversation are kept in memory. What is let go can be read
	// from the log again.
	maxShown = 24 << 20
	// maxItems is how many items of one turn are.
	maxItems = 6000
	// briefly is how much is kept of a call's input or output when there is too much.
	briefly = 2 << 10
)

// bytes is about how much memory an item takes.
func (it *item) bytes() int {
	n := 512 + len(it.text) + len(it.input) + len(it.output) + len(it.progress)
	for _, f := range it.files {
		n += len(f.Diff) + len(f.Path)
	}
	for _, line := range it.drawn.lines {
		n += len(line) + 16
	}
	for _, line := range it.blocks.done {
		n += len(line) + 16
	}
	for _, c := range it.inner {
		n += c.bytes()
	}
	return n
}

func (t *turn) bytes() int {
	n := 1024 + len(t.message)
	for _, it := range t.items {
		n += it.bytes()
	}
	return n
}

// lighten lets the details of an item go.
func (it *item) lighten() {
	it.drawn, it.blocks = drawn{}, blocks{}
	if len(it.output) > briefly {
		it.omitted += len(it.output) - briefly
		it.output, _ = clipAt(it.output, briefly)
	}
	if len(it.input) > briefly {
		it.input = tooLong(len(it.input))
	}
	for i := range it.files {
		if len(it.files[i].Diff) > briefly {
			it.files[i].Diff = ""
		}
	}
	for _, c := range it.inner {
		c.lighten()
	}
}

// trim keeps a conversation within bounds. atEnd says that its end is on the screen, so that its
// beginning may go.
func (c *conversation) trim(atEnd bool) {
	total := 0
	for _, t := range c.turns {
		total += t.bytes()
		if n := len(t.items) - maxItems; n > 0 && atEnd && !t.status.Ended() {
			t.forget(n + maxItems/2)
		}
	}
	if total <= maxShown {
		return
	}
	total = 0
	for i, t := range c.turns {
		if i < len(c.turns)-1 || len(t.items) > 200 {
			for _, it := range t.items[:max(len(t.items)-50, 0)] {
				it.lighten()
			}
		}
		total += t.bytes()
	}
	if !atEnd {
		return
	}
	n := 0
	for n < len(c.turns)-1 && total > maxShown/2 {
		total -= c.turns[n].bytes()
		n++
	}
	if n > 0 {
		c.turns = slices.Clone(c.turns[n:])
		c.older, c.from = c.turns[0].id, c.turns[0].first-1
	}
}

// forget lets the first n items of a turn go.
func (t *turn) forget(n int) {
	for n < len(t.items) && t.items[n].seq == t.items[n-1].seq { // of one event
		n++
	}
	gone, kept := t.items[:n], t.items[n:]
	t.from = kept[0].seq - 1
	for _, it := range gone {
		if it.live || it.kind == kindTool && it.status != "ended" { // more comes of it
			kept = append([]*item{it}, kept...)
			continue
		}
		delete(t.calls, it.call)
		delete(t.texts, textKey{it.call, ""})
		delete(t.texts, textKey{it.call, "thinking"})
	}
	t.items = append([]*item{{kind: kindGap, turn: t, text: "… earlier steps"}}, kept...)
}
