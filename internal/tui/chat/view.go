package chat

import "slices"

// placed is an item among those that can be on the screen, with the empty line before it.
type placed struct {
	it  *item
	gap bool
}

// viewport shows a stretch of the items, whose last line is line `line` of item `at`; -1 is the end.
// Only the items near it are drawn.
type viewport struct {
	list   []placed
	follow bool // it stays at the end
	at     int  // the item of the last line
	line   int  // that line, from 0
	height int
	focus  *item   // chosen with the keys; nil: none
	rows   []*item // what is on each line of the screen
	top    bool    // the first line of all is on the screen
}

func (v *viewport) reset() { *v = viewport{follow: true, height: v.height} }

// place lists the items of a conversation in their order.
func (v *viewport) place(c *conversation) {
	v.list = v.list[:0]
	var before *item
	add := func(it *item) {
		v.list = append(v.list, placed{it, before != nil && apart(before, it)})
		before = it
	}
	for _, t := range c.turns {
		add(t.head)
		for _, it := range t.items {
			if it.kind == kindText && it.text == "" || it.kind == kindThought && it.text == "" {
				continue
			}
			add(it)
		}
		if t.end != nil {
			add(t.end)
		}
	}
}

// apart reports whether there is an empty line between two items.
func apart(a, b *item) bool {
	quiet := func(k itemKind) bool {
		switch k {
		case kindTool, kindAgent, kindNote, kindThought, kindAnswered, kindFiles, kindGap:
			return true
		}
		return false
	}
	switch {
	case b.kind == kindEnd && b.turn.status != "completed":
		return true
	case b.kind == kindEnd:
		return false
	}
	return !quiet(a.kind) || !quiet(b.kind)
}

func (v *viewport) index(it *item) int {
	return slices.IndexFunc(v.list, func(p placed) bool { return p.it == it })
}

// window returns the lines that are on the screen, from the bottom up to height.
func (v *viewport) window(d drawing, height int) []string {
	v.height = height
	if len(v.list) == 0 {
		v.rows, v.top = nil, true
		return nil
	}
	if v.follow || v.at >= len(v.list) {
		v.at = len(v.list) - 1
		v.line = len(d.lines(v.list[v.at].it)) - 1
	}
	lines := make([]string, height)
	v.rows = make([]*item, height)
	n := height
	at, line := v.at, min(v.line, len(d.lines(v.list[v.at].it))-1)
	for n > 0 && at >= 0 {
		it := v.list[at].it
		drawn := d.lines(it)
		for ; line >= 0 && n > 0; line-- {
			n--
			lines[n], v.rows[n] = v.marked(d, it, line, drawn[line]), it
		}
		if line >= 0 {
			break
		}
		if v.list[at].gap && n > 0 && len(drawn) > 0 {
			n--
		}
		if at--; at >= 0 {
			line = len(d.lines(v.list[at].it)) - 1
		}
	}
	v.top = at < 0
	if v.top && n > 0 && !v.follow { // the beginning is not at the top: go down
		v.down(d, n)
		if v.follow || n < height {
			return v.window(d, height)
		}
	}
	if n > 0 { // all of it fits: it begins at the top
		copy(lines, lines[n:])
		copy(v.rows, v.rows[n:])
		clear(lines[height-n:])
		clear(v.rows[height-n:])
	}
	return lines
}

// marked shows which item is chosen.
func (v *viewport) marked(d drawing, it *item, line int, text string) string {
	if v.focus != it || line != 0 {
		return text
	}
	return d.mark.of(strip(text))
}

// up moves the view towards the beginning.
func (v *viewport) up(d drawing, n int) {
	if len(v.list) == 0 || v.top {
		return
	}
	if v.follow {
		v.at = len(v.list) - 1
		v.line = len(d.lines(v.list[v.at].it)) - 1
		v.follow = false
	}
	for ; n > 0; n-- {
		if v.line--; v.line >= 0 {
			continue
		}
		for v.line < 0 {
			if v.at == 0 {
				v.line = 0
				return
			}
			if v.list[v.at].gap {
				n--
			}
			v.at--
			v.line = len(d.lines(v.list[v.at].it)) - 1
		}
	}
}

// down moves the view towards the end.
func (v *viewport) down(d drawing, n int) {
	if v.follow || len(v.list) == 0 {
		return
	}
	for ; n > 0; n-- {
		if v.line+1 < len(d.lines(v.list[v.at].it)) {
			v.line++
			continue
		}
		for {
			if v.at == len(v.list)-1 {
				v.follow = true
				return
			}
			v.at++
			if v.list[v.at].gap {
				n--
			}
			if v.line = 0; len(d.lines(v.list[v.at].it)) > 0 {
				break
			}
		}
	}
	if v.at == len(v.list)-1 && v.line >= len(d.lines(v.list[v.at].it))-1 {
		v.follow = true
	}
}

// end goes to the end and stays there.
func (v *viewport) end() { v.follow = true }

// reveal brings an item onto the screen.
func (v *viewport) reveal(d drawing, it *item) {
	i := v.index(it)
	if i < 0 || slices.Contains(v.rows, it) {
		return
	}
	v.follow = false
	v.at = i
	v.line = min(len(d.lines(it))-1, v.height/2)
	for left := v.height / 2; left > 0 && v.at < len(v.list)-1; {
		v.at++
		n := len(d.lines(v.list[v.at].it))
		v.line = n - 1
		if n > left {
			v.line = left
			break
		}
		left -= n + 1
	}
	if v.at == len(v.list)-1 && v.line >= len(d.lines(v.list[v.at].it))-1 {
		v.follow = true
	}
}

// step chooses the item before or after the chosen one that has details.
func (v *viewport) step(by int, can func(*item) bool) {
	i := len(v.list)
	if v.focus != nil {
		i = v.index(v.focus)
	} else if by > 0 {
		return
	}
	for i += by; i >= 0 && i < len(v.list); i += by {
		if can(v.list[i].it) {
			v.focus = v.list[i].it
			return
		}
	}
}
