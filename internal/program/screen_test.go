package program_test

import (
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// drawn is the screen of a command at a terminal: what a person sees there.
type drawn struct {
	*seat
	parser      *ansi.Parser
	read        int // how much of what was written is on the screen
	rows        [][]rune
	x, y        int
	savedX      int
	savedY      int
	top, bottom int // the lines that scroll
	last        rune
	unknown     []string // what the screen does not know
}

// watch draws what a command writes that was started with sit.
func (s *seat) watch() *drawn {
	d := &drawn{seat: s, parser: ansi.NewParser()}
	d.rows = make([][]rune, 40)
	for i := range d.rows {
		d.rows[i] = d.blank()
	}
	d.bottom = len(d.rows)
	d.parser.SetHandler(ansi.Handler{Print: d.print, Execute: d.control, HandleCsi: d.csi, HandleEsc: d.esc})
	return d
}

func (d *drawn) blank() []rune { return []rune(strings.Repeat(" ", 90)) }

func (d *drawn) print(r rune) {
	if w := ansi.StringWidth(string(r)); w != 1 { // none of these is what a test looks for
		r = ' '
	}
	if d.x >= len(d.rows[0]) {
		d.x = 0
		d.feed()
	}
	d.rows[d.y][d.x], d.last = r, r
	d.x++
}

func (d *drawn) feed() {
	if d.y == d.bottom-1 {
		d.scroll(1)
	} else if d.y < len(d.rows)-1 {
		d.y++
	}
}

// scroll moves the lines that scroll up; n below zero moves them down.
func (d *drawn) scroll(n int) {
	for ; n > 0; n-- {
		copy(d.rows[d.top:d.bottom], d.rows[d.top+1:d.bottom])
		d.rows[d.bottom-1] = d.blank()
	}
	for ; n < 0; n++ {
		copy(d.rows[d.top+1:d.bottom], d.rows[d.top:d.bottom-1])
		d.rows[d.top] = d.blank()
	}
}

func (d *drawn) control(b byte) {
	switch b {
	case '\n':
		d.feed()
	case '\r':
		d.x = 0
	case '\b':
		d.x = max(d.x-1, 0)
	case '\t':
		d.x = min((d.x/8+1)*8, len(d.rows[0])-1)
	}
}

func (d *drawn) esc(c ansi.Cmd) {
	switch c.Final() {
	case '7':
		d.savedX, d.savedY = d.x, d.y
	case '8':
		d.x, d.y = d.savedX, d.savedY
	case 'M':
		if d.y == d.top {
			d.scroll(-1)
		} else {
			d.y = max(d.y-1, 0)
		}
	}
}

func (d *drawn) csi(c ansi.Cmd, p ansi.Params) {
	at := func(i, def int) int {
		n, _, ok := p.Param(i, def)
		if !ok {
			return def
		}
		return n
	}
	n := max(at(0, 1), 1)
	row := d.rows[d.y]
	if c.Prefix() != 0 || c.Intermediate() != 0 { // modes and questions
		return
	}
	switch c.Final() {
	case 'A':
		d.y -= n
	case 'B', 'e':
		d.y += n
	case 'C', 'a':
		d.x += n
	case 'D':
		d.x -= n
	case 'E':
		d.y, d.x = d.y+n, 0
	case 'F':
		d.y, d.x = d.y-n, 0
	case 'G', '`':
		d.x = n - 1
	case 'd':
		d.y = n - 1
	case 'H', 'f':
		d.y, d.x = n-1, max(at(1, 1), 1)-1
	case 'I':
		for range n {
			d.control('\t')
		}
	case 'Z':
		d.x = max((d.x-1)/8-(n-1), 0) * 8
	case 'J':
		switch at(0, 0) {
		case 0:
			d.erase(row[min(d.x, len(row)):])
			for _, r := range d.rows[d.y+1:] {
				d.erase(r)
			}
		case 1:
			for _, r := range d.rows[:d.y] {
				d.erase(r)
			}
			d.erase(row[:min(d.x+1, len(row))])
		default:
			for _, r := range d.rows {
				d.erase(r)
			}
		}
	case 'K':
		switch at(0, 0) {
		case 0:
			d.erase(row[min(d.x, len(row)):])
		case 1:
			d.erase(row[:min(d.x+1, len(row))])
		default:
			d.erase(row)
		}
	case 'X':
		d.erase(row[min(d.x, len(row)):min(d.x+n, len(row))])
	case '@':
		d.rows[d.y] = []rune(string(row[:d.x]) + strings.Repeat(" ", n) + string(row[d.x:]))[:len(row)]
	case 'P':
		d.rows[d.y] = []rune(string(row[:d.x]) + string(row[min(d.x+n, len(row)):]) + strings.Repeat(" ", n))[:len(row)]
	case 'L', 'M':
		if c.Final() == 'L' {
			n = -n
		}
		top := d.top
		d.top = d.y
		d.scroll(n)
		d.top = top
	case 'S':
		d.scroll(n)
	case 'T':
		d.scroll(-n)
	case 'b':
		for range n {
			d.print(d.last)
		}
	case 'r':
		d.top, d.bottom = n-1, at(1, len(d.rows))
		d.x, d.y = 0, 0
	case 'm', 'h', 'l', 'n', 'c', 't', 'q', 'u', 's', 'g':
	default:
		d.unknown = append(d.unknown, string(rune(c.Final())))
	}
	d.x, d.y = min(max(d.x, 0), len(row)), min(max(d.y, 0), len(d.rows)-1)
}

func (d *drawn) erase(cells []rune) {
	for i := range cells {
		cells[i] = ' '
	}
}

// screen is what is on the screen now.
func (d *drawn) screen() string {
	all := d.seen.String()
	for ; d.read < len(all); d.read++ {
		d.parser.Advance(all[d.read])
	}
	var b strings.Builder
	for _, row := range d.rows {
		b.WriteString(strings.TrimRight(string(row), " ") + "\n")
	}
	return b.String()
}

// until waits until something is so of the screen.
func (d *drawn) until(what string, is func(screen string) bool) {
	d.t.Helper()
	late := time.After(within)
	for over := false; ; {
		now := d.screen()
		if len(d.unknown) > 0 {
			d.t.Fatalf("the test's screen does not know %q", d.unknown)
		}
		if is(now) {
			return
		}
		if over {
			d.t.Fatalf("%s: never:\n%s", what, now)
		}
		select {
		case <-d.more:
		case <-d.ended:
			over = true
		case <-late:
			d.t.Fatalf("%s: not yet:\n%s", what, now)
		}
	}
}

// shows waits until all texts are on the screen. A text may go on in the next line.
func (d *drawn) shows(texts ...string) {
	d.t.Helper()
	for _, text := range texts {
		d.until(text, func(screen string) bool {
			return strings.Contains(screen, text) || strings.Contains(strings.Join(strings.Fields(screen), " "), text)
		})
	}
}
