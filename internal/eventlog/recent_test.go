package eventlog_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// counted counts how often the log is read.
type counted struct {
	seam.Store
	reads *atomic.Int64
}

func (c counted) Read(ctx context.Context, p parley.Principal, id parley.SessionID, after int64, limit int) ([]parley.Event, error) {
	c.reads.Add(1)
	return c.Store.Read(ctx, p, id, after, limit)
}

// TestFollow_a_turn_that_has_begun: the events of a running turn come from memory, to its owner only.
func TestFollow_a_turn_that_has_begun(t *testing.T) {
	t.Parallel()
	var reads atomic.Int64
	d := &desk{t: t, store: mem.New()}
	d.w, d.r = eventlog.New(counted{d.store, &reads}, nil, eventlog.Options{})
	t.Cleanup(func() { _ = d.w.Close(context.Background()) })
	d.open("s1")
	d.append(steered("go"), started("c1"))
	d.append(steered("and on"))
	d.say("c1", "Hel")

	follows := func(name string, after int64, want []string, read bool) {
		t.Helper()
		before := reads.Load()
		tp := d.follow(after)
		got := tp.until("partial")
		tp.stop()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: frames (-want +got):\n%s", name, diff)
		}
		if (reads.Load() > before) != read {
			t.Errorf("%s: the store was read %d times, want any: %t", name, reads.Load()-before, read)
		}
	}
	all := []string{"1 session.created", "2 turn.steered", "3 model.started", "4 turn.steered", `partial c1 n=1 "Hel"`}
	follows("from the turn's beginning", 1, all[1:], false)
	follows("from within", 3, all[3:], false)
	follows("from the log's beginning", 0, all, true)
	follows("from the end", 4, all[4:], true) // whether the cursor is one of this session, the store says
	for _, err := range d.r.Follow(t.Context(), parley.Principal{User: "eve"}, d.id, 1) {
		if parley.CodeOf(err) != parley.CodeNotFound {
			t.Errorf("another user: got %v, want %s", err, parley.CodeNotFound)
		}
	}
	d.append(steered(strings.Repeat("long ", 4<<10)))
	follows("behind a message that is not kept", 1, append(all[1:4:4], "5 turn.steered", all[4]), true)
	d.append(steered("short"))
	follows("after it", 5, []string{"6 turn.steered", all[4]}, false)
	d.append(replied("c1", "Hello"), parley.NewEvent(turn, "", parley.TurnCompleted{}))
	if got := d.follow(5).until("8"); len(got) != 3 {
		t.Errorf("after the turn: got %q", got)
	}
}
