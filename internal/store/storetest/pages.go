package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// pagedRows is the number of rows in each paged list. Their times share three
// milliseconds, and their ids are not in the order of creation.
const pagedRows = 11

func pagedID(i int) parley.SessionID { return parley.SessionID(fmt.Sprintf("S%02d", i*7%pagedRows)) }

// paged reads a list page by page with every limit, each time over a new set of rows.
// After each page it changes one row of the page, deletes the page's last row, and
// changes or deletes rows of later pages. Each row that was left alone must be on
// exactly one page. fill makes a set of rows for p with a prefix. read returns a
// function for the keys of the next page. touch changes a row so that its place in the
// list changes.
func paged(t *testing.T, s seam.Store, fill func(p parley.Principal) []string, read func(p parley.Principal, limit int) func() []string, touch, remove func(key string)) {
	for limit := 1; limit <= pagedRows+1; limit++ {
		p := parley.Principal{User: fmt.Sprint("reader ", limit)}
		all := fill(p)
		left := map[string]bool{} // rows that were not touched
		for _, key := range all {
			left[key] = true
		}
		disturb := func(key string, how func(string)) {
			if left[key] {
				left[key] = false
				how(key)
			}
		}
		times, next, pages := map[string]int{}, read(p, limit), 0
		for {
			page := next()
			if len(page) == 0 {
				break
			}
			if pages++; pages > 2*pagedRows || len(page) > limit {
				t.Fatalf("limit %d: page %d has %d rows", limit, pages, len(page))
			}
			for _, key := range page {
				times[key]++
			}
			// A row counts once it was on a page, whatever happens to it later.
			seen := func(key string, how func(string)) {
				was := left[key]
				disturb(key, how)
				left[key] = was
			}
			seen(page[0], touch)
			if len(page) > 1 || pages%2 == 0 {
				seen(page[len(page)-1], remove)
			}
			rest := slices.DeleteFunc(slices.Clone(all), func(key string) bool { return times[key] > 0 || !left[key] })
			if len(rest) > 4 {
				disturb(rest[1], remove)
				disturb(rest[3], touch)
			}
		}
		for _, key := range all {
			if left[key] && times[key] != 1 || times[key] > 1 {
				t.Errorf("limit %d: %s was listed %d times", limit, key, times[key])
			}
		}
	}
}

// someOf makes sessions of p within three milliseconds. change edits each one's first
// batch.
func someOf(t *testing.T, s seam.Store, p parley.Principal, change func(b *seam.Batch, i int)) (ids []string) {
	t.Helper()
	for i := range pagedRows {
		id := pagedID(i) + parley.SessionID(" of "+p.User)
		b := creation(p, id, 1)
		b.Index.Session.UpdatedAt = at(i % 3)
		change(&b, i)
		must(t, s.Append(context.Background(), p, b))
		ids = append(ids, string(id))
	}
	return ids
}

// erase returns a function that deletes a session.
func erase(t *testing.T, s seam.Store) func(string) {
	return func(id string) { must(t, s.Delete(context.Background(), parley.System(), parley.SessionID(id))) }
}

func moved(t *testing.T, s seam.Store, change func(*parley.SessionInfo)) func(string) {
	return func(id string) {
		ctx := context.Background()
		in, err := s.Session(ctx, parley.System(), parley.SessionID(id))
		must(t, err)
		change(&in)
		must(t, s.Append(ctx, parley.System(), seam.Batch{Session: in.ID, Epoch: 1, After: in.Version, Index: seam.Index{Session: &in}}))
	}
}

func sessionPages(t *testing.T, s seam.Store) {
	clock := 100
	paged(t, s, func(p parley.Principal) []string { return someOf(t, s, p, func(*seam.Batch, int) {}) },
		func(p parley.Principal, limit int) func() []string {
			q := seam.SessionQuery{App: "notes", Limit: limit}
			return func() []string {
				page, err := s.Sessions(context.Background(), p, q)
				must(t, err)
				if len(page) > 0 {
					q.After = q.Mark(page[len(page)-1])
				}
				return ids(page)
			}
		},
		moved(t, s, func(in *parley.SessionInfo) { clock++; in.UpdatedAt = at(clock) }), erase(t, s))
}

func restPages(t *testing.T, s seam.Store)  { quietPages(t, s, parley.Active) }
func stepsPages(t *testing.T, s seam.Store) { quietPages(t, s, "") }

func quietPages(t *testing.T, s seam.Store, status parley.SessionStatus) {
	paged(t, s, func(p parley.Principal) []string {
		return someOf(t, s, p, func(b *seam.Batch, i int) { b.Index.Session.StepsSince = at(i % 3) })
	},
		func(p parley.Principal, limit int) func() []string {
			q := seam.RestQuery{App: "notes", Status: status, Before: at(1 << 20), Limit: limit}
			return func() []string {
				page, err := s.Resting(context.Background(), p, q)
				must(t, err)
				if len(page) > 0 {
					q.After = q.Mark(page[len(page)-1])
				}
				return ids(page)
			}
		},
		moved(t, s, func(in *parley.SessionInfo) { in.Waiting = 1 }), erase(t, s))
}

// turnPages: turns of many sessions share three ids, as turns of forks may.
func turnPages(t *testing.T, s seam.Store) {
	paged(t, s, func(p parley.Principal) []string {
		return someOf(t, s, p, func(b *seam.Batch, i int) {
			b.Index.Turns = []parley.TurnInfo{{ID: parley.TurnID(fmt.Sprint("t", i%3)), SessionID: b.Session, Status: parley.StatusPending}}
		})
	},
		func(p parley.Principal, limit int) func() []string {
			q := seam.TurnQuery{Statuses: []parley.TurnStatus{parley.StatusPending}, Limit: limit}
			if limit%2 == 0 {
				q.Statuses = nil // another query plan
			}
			return func() (keys []string) {
				page, err := s.Turns(context.Background(), p, q)
				must(t, err)
				for _, row := range page {
					keys = append(keys, string(row.SessionID))
					q.After = q.Mark(row)
				}
				return keys
			}
		},
		func(key string) { // the turn has ended
			id := parley.SessionID(key)
			of, err := s.Turns(context.Background(), parley.System(), seam.TurnQuery{Session: id})
			must(t, err)
			of[0].Status = parley.StatusCompleted
			must(t, s.Append(context.Background(), parley.System(), seam.Batch{Session: id, Epoch: 1, After: 1, Index: seam.Index{Turns: of}}))
		}, erase(t, s))
}

// asking makes the interaction of a session, open or closed. Many share an id.
func asking(id parley.SessionID, i int, open bool) []seam.InteractionRow {
	return []seam.InteractionRow{{Open: open, Interaction: parley.Interaction{
		ID: parley.InteractionID(fmt.Sprint("i", i%2)), Session: id, Kind: parley.KindQuestion, OpenedAt: at(i % 3), ExpiresAt: at(100 + i%3),
	}}}
}

func interactionPages(t *testing.T, s seam.Store) { askedPages(t, s, time.Time{}) }
func duePages(t *testing.T, s seam.Store)         { askedPages(t, s, at(1<<20)) }

func askedPages(t *testing.T, s seam.Store, due time.Time) {
	numbers := map[string]int{}
	paged(t, s, func(p parley.Principal) []string {
		return someOf(t, s, p, func(b *seam.Batch, i int) {
			b.Index.Interactions, numbers[string(b.Session)] = asking(b.Session, i, true), i
		})
	},
		func(p parley.Principal, limit int) func() []string {
			q := seam.InteractionQuery{Due: due, Limit: limit}
			return func() (keys []string) {
				page, err := s.Interactions(context.Background(), p, q)
				must(t, err)
				for _, row := range page {
					keys = append(keys, string(row.Session))
					q.After = q.Mark(row)
				}
				return keys
			}
		},
		func(key string) { // the interaction is answered
			id := parley.SessionID(key)
			must(t, s.Append(context.Background(), parley.System(), seam.Batch{Session: id, Epoch: 1, After: 1, Index: seam.Index{Interactions: asking(id, numbers[key], false)}}))
		}, erase(t, s))
}

// largeRows: a page of large rows ends early, and the next page continues after it.
func largeRows(t *testing.T, s seam.Store) {
	const rows = 12
	long := strings.Repeat("x", 300<<10)
	someOf(t, s, parley.Principal{User: "large"}, func(b *seam.Batch, i int) {
		if i > 0 {
			return
		}
		for n := range rows {
			b.Index.Turns = append(b.Index.Turns, parley.TurnInfo{ID: parley.TurnID(fmt.Sprintf("large%02d", n)), SessionID: b.Session, Status: parley.StatusCompleted, Message: long})
			b.Index.Interactions = append(b.Index.Interactions, seam.InteractionRow{Open: true, Interaction: parley.Interaction{
				ID: parley.InteractionID(fmt.Sprintf("large%02d", n)), Session: b.Session, Kind: parley.KindQuestion, Title: long, OpenedAt: at(n),
			}})
		}
	})
	p := parley.Principal{User: "large"}
	turns, asked := 0, 0
	for q := (seam.TurnQuery{Limit: 500}); ; {
		page, err := s.Turns(context.Background(), p, q)
		must(t, err)
		if len(page) == 0 {
			break
		}
		if len(page) > 3 {
			t.Errorf("%d turns of 300 KiB on a page", len(page))
		}
		turns += len(page)
		q.After = q.Mark(page[len(page)-1])
	}
	for q := (seam.InteractionQuery{Limit: 500}); ; {
		page, err := s.Interactions(context.Background(), p, q)
		must(t, err)
		if len(page) == 0 {
			break
		}
		if len(page) > 3 {
			t.Errorf("%d interactions of 300 KiB on a page", len(page))
		}
		asked += len(page)
		q.After = q.Mark(page[len(page)-1])
	}
	if turns != rows || asked != rows {
		t.Errorf("%d turns and %d interactions on all pages, want %d of each", turns, asked, rows)
	}
	all, err := s.Turns(context.Background(), parley.System(), seam.TurnQuery{Limit: -1})
	must(t, err)
	if len(all) < rows {
		t.Errorf("%d turns, want all of them", len(all))
	}
}
