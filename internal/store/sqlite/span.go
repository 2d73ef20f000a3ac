package sqlite

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
)

// Events of one append are rows one after another, and an index entry for each of them would
// cost an append a page of its session's own. Instead a session's row has the spans of the latest appends
// (migration 0015), and maxTail of them at a time become a row of the table spans.

// maxTail is how many spans a session's row has before they move. They are some 200 bytes.
const maxTail = 16

// span says that the events first to last of a log are the rows of the table events from at on.
type span struct{ first, last, at int64 }

func (s span) end() int64 { return s.at + s.last - s.first }

// String is a span as it is stored.
func (s span) String() string {
	b := strconv.AppendInt(make([]byte, 0, 32), s.first, 10)
	b = strconv.AppendInt(append(b, ' '), s.last, 10)
	return string(strconv.AppendInt(append(b, ' '), s.at, 10))
}

// formSpans is what parseSpans reads.
func formSpans(all []span) string {
	texts := make([]string, len(all))
	for i, s := range all {
		texts[i] = s.String()
	}
	return strings.Join(texts, " ")
}

func parseSpans(text string) (all []span, err error) {
	var n [3]int64
	i := 0
	for field := range strings.FieldsSeq(text) {
		if n[i%3], err = strconv.ParseInt(field, 10, 64); err != nil {
			return nil, fmt.Errorf("spans of events: %w", err)
		}
		if i++; i%3 == 0 {
			all = append(all, span{n[0], n[1], n[2]})
		}
	}
	if i%3 != 0 {
		return nil, fmt.Errorf("spans of events: %q is cut off", text)
	}
	return all, nil
}

// grow adds a span to the end of a session's tail and returns the new tail. A tail that is full is stored
// as a row of its own first.
func grow(c *conn, id parley.SessionID, tail string, s span) (string, error) {
	if tail == "" {
		return s.String(), nil
	}
	at := len(tail)
	for range 3 {
		at = strings.LastIndexByte(tail[:max(at, 0)], ' ')
	}
	last, err := parseSpans(tail[at+1:])
	if err != nil {
		return "", err
	}
	if l := last[0]; l.last+1 == s.first && l.end()+1 == s.at { // nobody else has appended in between
		return tail[:at+1] + span{l.first, s.last, l.at}.String(), nil
	}
	if strings.Count(tail, " ")/3+1 < maxTail {
		return tail + " " + s.String(), nil
	}
	all, err := parseSpans(tail)
	if err != nil {
		return "", err
	}
	return s.String(), storeSpans(c, id, all)
}

func storeSpans(c *conn, id parley.SessionID, all []span) error {
	return c.exec(`INSERT INTO spans (session, first, body) VALUES (?, ?, ?)`, string(id), all[0].first, formSpans(all))
}

// spansOf returns where the events of a log are, from one number to another. The log's session may
// be gone. Its statements must see one snapshot, since an append moves spans.
func spansOf(c *conn, log parley.SessionID, first, last int64) (all []span, err error) {
	add := func(s *zombie.Stmt) error {
		some, err := parseSpans(s.ColumnText(0))
		for _, sp := range some {
			if sp.last >= first && sp.first <= last {
				all = append(all, sp)
			}
		}
		return err
	}
	err = c.rows(`SELECT body FROM spans WHERE session = ?1 AND first <= ?3
		AND first >= coalesce((SELECT max(first) FROM spans WHERE session = ?1 AND first <= ?2), 0) ORDER BY first`, add, string(log), first, last)
	if err != nil {
		return nil, err
	}
	err = c.rows(`SELECT tail FROM sessions WHERE id = ?`, add, string(log))
	return all, err
}

// putEvents adds the events of a batch and returns where they are.
func putEvents(c *conn, r rows) (s span, err error) {
	for _, e := range r.Events {
		if err := putEvent(c, e); err != nil {
			return s, err
		}
	}
	n := int64(len(r.Events))
	return span{r.After + 1, r.After + n, c.LastInsertRowID() - n + 1}, nil
}

// keepSpans makes the spans up to a number all that is known of a log whose session is gone.
func keepSpans(c *conn, log parley.SessionID, last int64) error {
	all, err := spansOf(c, log, 0, last)
	if err != nil {
		return err
	}
	if err := c.exec(`DELETE FROM spans WHERE session = ?`, string(log)); err != nil {
		return err
	}
	for i := range all {
		if s := &all[i]; s.last > last {
			s.last = last
		}
	}
	for some := range slices.Chunk(all, maxTail) {
		if err := storeSpans(c, log, some); err != nil {
			return err
		}
	}
	return nil
}
