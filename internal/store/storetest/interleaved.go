package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// interleaved checks logs that grew in turns, by many appends of one to three events: from every event
// on, in forks that begin within an append, condensed, and after their parents are deleted.
func interleaved(t *testing.T, s seam.Store) {
	ctx := context.Background()
	logs := map[parley.SessionID][]parley.Event{}
	ids := []parley.SessionID{"A", "B", "C"}
	for _, id := range ids {
		create(t, s, ann, id, 1)
		logs[id] = steered(id, 1, 1)
	}
	for round := range 40 {
		for i, id := range ids {
			for range 1 + (round+i)%2 { // some appends follow one of the same session
				n := len(logs[id])
				events := steered(id, int64(n+1), 1+(round+i)%3)
				events[0].Type = "model.replied"
				must(t, s.Append(ctx, ann, seam.Batch{Session: id, Epoch: 1, After: int64(n), Events: events}))
				logs[id] = append(logs[id], events...)
			}
		}
	}
	fork := func(from, id parley.SessionID, at int) {
		forked(t, s, from, id, int64(at))
		for _, e := range logs[from][:at] {
			e.Session = id
			logs[id] = append(logs[id], e)
		}
		logs[id] = append(logs[id], steered(id, int64(at+1), 1)...)
	}
	check := func(when string) {
		t.Helper()
		for id, log := range logs {
			equal(t, fmt.Sprintf("%s: the log of %s", when, id), readAll(t, s, ann, id), log)
			for after := 0; after < len(log); after += 7 {
				page, err := s.Read(ctx, ann, id, int64(after), 5)
				must(t, err)
				equal(t, fmt.Sprintf("%s: a page of %s after %d", when, id, after), page, log[after:min(after+5, len(log))])
			}
		}
	}
	check("as they grew")
	fork("A", "D", 50)
	fork("D", "E", 51)
	fork("B", "F", len(logs["B"]))
	check("forked")
	half := len(logs["A"]) / 2
	must(t, s.Append(ctx, ann, seam.Batch{Session: "A", Epoch: 1, After: int64(len(logs["A"])), Condense: int64(half)}))
	for i := range half {
		if parley.IsStep(logs["A"][i].Type) {
			logs["A"][i] = logs["A"][i].WithData(nil)
		}
	}
	check("condensed")
	for _, gone := range []parley.SessionID{"A", "B", "D"} {
		must(t, s.Delete(ctx, ann, gone))
		delete(logs, gone)
		n := len(logs["C"]) // whose events may take the rows that are free now
		events := steered("C", int64(n+1), 2)
		must(t, s.Append(ctx, ann, seam.Batch{Session: "C", Epoch: 1, After: int64(n), Events: events}))
		logs["C"] = append(logs["C"], events...)
		check("without " + string(gone))
	}
	for id := range logs {
		must(t, s.Delete(ctx, ann, id))
	}
	if rows, ok := s.(interface{ EventRows() (int, error) }); ok {
		n, err := rows.EventRows()
		if err != nil || n != 0 {
			t.Errorf("got %d rows of events, %v, after everything was deleted", n, err)
		}
	}
}
