package rule

import (
	"errors"

	"github.com/parley-server/parley"
)

// PageBytes bounds the data of one Read. Every stream that nobody reads holds a
// page, and whoever reads a whole log asks a few times more: 64 KiB are some
// hundred short events.
const PageBytes = 64 << 10

// Page gathers the events of one Read. Make one with NewPage.
type Page struct {
	Events []parley.Event
	limit  int
	bytes  int
}

// NewPage makes a page for the limit that a caller of Read gave.
func NewPage(limit int) *Page { return &Page{limit: Events(limit)} }

// Left is how many more events the page takes.
func (p *Page) Left() int { return p.limit - len(p.Events) }

// Takes reports whether an event with so many bytes of data still belongs to the
// page, and counts it if so. The first always does.
func (p *Page) Takes(size int) bool {
	if p.Left() <= 0 || len(p.Events) > 0 && p.bytes+size > PageBytes {
		p.limit = len(p.Events) // what comes after belongs to the next page
		return false
	}
	p.bytes += size
	return true
}

// ListBytes bounds the rows of one list whose rows may be large, as turns are with
// what was said in them.
const ListBytes = 1 << 20

// ErrFull ends the reading of rows for a list that takes no more.
var ErrFull = errors.New("the page is full")

// Rows counts those of one list. The zero value has none.
type Rows struct{ n, bytes int }

// Takes reports whether a row of so many bytes still belongs to a list that was
// asked for with [List], and counts it if so. The first always does, and where all
// were asked for, every one.
func (r *Rows) Takes(limit, size int) bool {
	if r.n > 0 && limit >= 0 && r.bytes+size > ListBytes {
		r.bytes = ListBytes // what comes after belongs to the next page
		return false
	}
	r.n++
	r.bytes += size
	return true
}
