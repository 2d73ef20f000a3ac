package rule

import (
	"errors"

	"github.com/parley-server/parley"
)

// PageBytes limits the data of one Read. Every stream that nobody reads holds a page;
// whoever reads a whole log just reads more pages. 64 KiB is some hundred short events.
const PageBytes = 64 << 10

// Page gathers the events of one Read. Make one with NewPage.
type Page struct {
	Events []parley.Event
	limit  int
	bytes  int
}

// NewPage makes a page for the limit passed to Read.
func NewPage(limit int) *Page { return &Page{limit: Events(limit)} }

// Left is how many more events the page accepts.
func (p *Page) Left() int { return p.limit - len(p.Events) }

// Takes reports whether an event with size bytes of data still fits on the page, and
// counts it if so. The first always does.
func (p *Page) Takes(size int) bool {
	if p.Left() <= 0 || len(p.Events) > 0 && p.bytes+size > PageBytes {
		p.limit = len(p.Events) // later events belong to the next page
		return false
	}
	p.bytes += size
	return true
}

// ListBytes limits the rows of one list whose rows may be large, such as turns with their
// messages.
const ListBytes = 1 << 20

// ErrFull stops reading rows once a list is full.
var ErrFull = errors.New("the page is full")

// Rows counts the rows of one list. The zero value has none.
type Rows struct{ n, bytes int }

// Takes reports whether a row of size bytes still fits on a list with a limit from
// [List], and counts it if so. The first always does, and an unlimited list takes every
// row.
func (r *Rows) Takes(limit, size int) bool {
	if r.n > 0 && limit >= 0 && r.bytes+size > ListBytes {
		r.bytes = ListBytes // later rows belong to the next page
		return false
	}
	r.n++
	r.bytes += size
	return true
}
