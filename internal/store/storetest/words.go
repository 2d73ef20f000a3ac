package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// User owns the sessions that [Words] makes.
var User = parley.Principal{User: "ann"}

// Words makes a batch of n events of about size bytes each, to append after number
// after. It also makes the session if after is 0.
func Words(id parley.SessionID, after int64, n, size int) seam.Batch {
	b := seam.Batch{Session: id, Epoch: 1, After: after}
	if after == 0 {
		b.Create, b.Index.Session = true, &parley.SessionInfo{ID: id, User: User.User}
	}
	for i := range n {
		data, _ := json.Marshal(map[string]any{"first": after + 1, "of": n, "text": strings.Repeat("x", size)})
		b.Events = append(b.Events, parley.Event{Session: id, Seq: after + 1 + int64(i), Type: "test.word", Data: data})
	}
	return b
}

// Marked is Words with the rows that [Whole] needs to check a batch.
func Marked(id parley.SessionID, after int64, n, size int) seam.Batch {
	b := Words(id, after, n, size)
	end := after + int64(n)
	b.Index.Keys = []seam.Key{{Session: id, Key: fmt.Sprint("batch ", after+1), Made: id}}
	b.Index.State = &seam.State{Seq: end, Version: 1, Body: []byte("state")}
	b.Index.Turns = []parley.TurnInfo{{ID: parley.TurnID(id), SessionID: id, Status: parley.StatusRunning, LastSeq: end}}
	b.Index.Rows = []seam.Row{{RowName: seam.RowName{Kind: seam.RowOutbox, ID: string(id)}, Session: id, Open: true, Body: fmt.Appendf(nil, "%d", end)}}
	return b
}

// Head returns the number of the last event from the session's row.
func Head(t testing.TB, s seam.Store, id parley.SessionID) int64 {
	t.Helper()
	in, err := s.Session(context.Background(), User, id)
	must(t, err)
	return in.Version
}

// Whole checks that a session ends at the end of a batch, that no number is missing and
// that each batch has its rows. It returns the last number, or 0 if there is no session.
func Whole(t testing.TB, s seam.Store, id parley.SessionID) int64 {
	t.Helper()
	ctx := context.Background()
	var last, ends int64
	for {
		page, err := s.Read(ctx, User, id, last, 0)
		if last == 0 && errors.Is(err, parley.ErrNotFound) {
			return 0 // its first append was not stored
		}
		must(t, err)
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			var mark struct{ First, Of int64 }
			must(t, json.Unmarshal(e.Data, &mark))
			if e.Seq != last+1 {
				t.Fatalf("%s: event %d follows %d", id, e.Seq, last)
			}
			if e.Seq == mark.First {
				if last != ends {
					t.Fatalf("%s: the batch before event %d is torn", id, e.Seq)
				}
				ends = mark.First + mark.Of - 1
				if _, err := s.Key(ctx, User, id, fmt.Sprint("batch ", e.Seq)); err != nil {
					t.Errorf("%s: the batch at event %d is without its key: %v", id, e.Seq, err)
				}
			}
			last = e.Seq
		}
	}
	if last != ends {
		t.Errorf("%s: ends at event %d within a batch that ends at %d", id, last, ends)
	}
	st, err := s.State(ctx, User, id)
	must(t, err)
	turn, err := s.Turn(ctx, User, parley.TurnID(id))
	must(t, err)
	row, err := s.Row(ctx, User, seam.RowName{Kind: seam.RowOutbox, ID: string(id)})
	must(t, err)
	if n := Head(t, s, id); n != last || st.Seq != last || turn.LastSeq != last || string(row.Body) != fmt.Sprint(last) {
		t.Errorf("%s: log ends at %d, row says %d, state %d, turn %d, index row %s", id, last, n, st.Seq, turn.LastSeq, row.Body)
	}
	return last
}
