package eventlog_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

func TestAppend_with_unknown_outcome_reads_the_log_first(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk went away")
	t.Run("it took place", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, eventlog.Options{})
		tp := d.follow(0)
		tp.until("1 ")
		d.store.SetFaults(mem.Faults{After: func(mem.Call) error { return broken }})
		d.append(steered("one"))
		tp.until("2 turn.steered")
	})
	t.Run("it did not", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, eventlog.Options{})
		tp := d.follow(0)
		tp.until("1 ")
		d.store.SetFaults(mem.Faults{Before: func(mem.Call) error { return broken }})
		err := d.try(t.Context(), steered("one"))
		if parley.CodeOf(err) != parley.CodeUnavailable || !errors.Is(err, broken) {
			t.Errorf("got %v, want unavailable because of %v", err, broken)
		}
		if strings.Contains(err.Error(), broken.Error()) {
			t.Errorf("the message tells clients about the disk: %v", err)
		}
		d.store.SetFaults(mem.Faults{})
		d.append(steered("two"))
		got := tp.collect(2)
		if len(got) != 1 || !strings.Contains(string(got[0].Event.Data), "two") {
			t.Errorf("got %v, want only the second", got)
		}
	})
	t.Run("another's event stands there", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, eventlog.Options{})
		theirs := d.batch(steered("theirs"))
		d.store.SetFaults(mem.Faults{Before: func(mem.Call) error {
			d.store.SetFaults(mem.Faults{})
			return errors.Join(d.store.Append(t.Context(), parley.Local, theirs), broken)
		}})
		err := d.try(t.Context(), steered("ours"))
		if !errors.Is(err, parley.ErrConflict) {
			t.Errorf("got %v, want a conflict", err)
		}
	})
	t.Run("outcome unknown", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, eventlog.Options{})
		d.store.SetFaults(mem.Faults{After: func(mem.Call) error {
			d.store.Close()
			return errors.Join(broken, d.w.Close(t.Context())) // closing the writer ends its attempts to learn the outcome
		}})
		err := d.try(t.Context(), steered("one"))
		if _, ok := errors.AsType[*parley.Error](err); ok || !errors.Is(err, broken) {
			t.Errorf("got %v, want an error without a code", err)
		}
	})
}

func TestAppend_given_up_before_it_began_says_so(t *testing.T) {
	t.Parallel()
	d := newDesk(t, eventlog.Options{})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := d.try(ctx, steered("x")); !errors.Is(err, &parley.Error{Code: parley.CodeCancelled}) {
		t.Errorf("got %v, want cancelled", err)
	}
}

func TestAppend_shows_all_events_of_a_batch_together(t *testing.T) {
	t.Parallel()
	d := newDesk(t, eventlog.Options{})
	tp := d.follow(1)
	d.append(started("c1"))
	tp.collect(2)
	d.append(replied("c1", "x"), steered("a"), steered("b"))
	var more []bool
	for _, f := range tp.collect(5) {
		more = append(more, f.More)
	}
	if diff := cmp.Diff([]bool{true, true, false}, more); diff != "" {
		t.Errorf("More (-want +got):\n%s", diff)
	}
}

func TestFork_is_seen_in_the_new_session(t *testing.T) {
	t.Parallel()
	d := newDesk(t, eventlog.Options{})
	d.append(steered("a"), steered("b"))
	child := &desk{t: t, w: d.w, r: d.r, store: d.store, id: "s2", seq: 2}
	b := child.batch(parley.NewEvent("", "", parley.SessionForked{Parent: d.id, At: 2}))
	b.Create, b.Owner = true, "node"
	b.Index.Session = &parley.SessionInfo{ID: "s2", App: "chaos", User: "local", Status: parley.Active, Parent: d.id}
	if err := d.w.Fork(t.Context(), parley.Local, d.id, 2, b, d.w.Redact(b.Events...)); err != nil {
		t.Fatal(err)
	}
	got := child.follow(0).until("3 ")
	if diff := cmp.Diff([]string{"1 session.created", "2 turn.steered", "3 session.forked"}, got); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

func TestAppend_that_failed_leaves_the_call_open(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, eventlog.Options{})
		d.append(started("c1"))
		d.say("c1", "te")
		d.store.SetFaults(mem.Faults{Before: func(c mem.Call) error {
			if c.Method == "Append" {
				return parley.Errorf(parley.CodeUnavailable, "no room")
			}
			return nil
		}})
		if err := d.try(t.Context(), replied("c1", "te")); err == nil {
			t.Fatal("the append succeeded")
		}
		d.say("c1", "xt")
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		got, err := d.store.Chunks(context.Background(), parley.Local, d.id)
		if diff := cmp.Diff([]seam.Chunk{{Session: d.id, Call: "c1", N: 2, Text: "text"}}, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

func TestStreaming_is_true_between_the_first_text_and_the_reply(t *testing.T) {
	t.Parallel()
	d := newDesk(t, eventlog.Options{})
	var got []bool
	ask := func() { got = append(got, d.r.Streaming(d.id, turn)) }
	ask()
	d.append(started("c1"))
	ask()
	d.say("c1", "x")
	ask()
	d.append(replied("c1", "x"))
	ask()
	if diff := cmp.Diff([]bool{false, false, true, false}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWatch_rings_for_the_owner_alone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, eventlog.Options{})
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var mu sync.Mutex
		rung := map[string][]eventlog.Bell{}
		hold := make(chan struct{})
		for _, p := range []parley.Principal{parley.Local, {User: "eve"}, parley.System()} {
			var mine []eventlog.Bell
			wg.Go(func() {
				for b, err := range d.r.Watch(ctx, p) {
					if err == nil {
						mine = append(mine, b)
						<-hold
					}
				}
				mu.Lock()
				defer mu.Unlock()
				rung[p.User] = mine
			})
		}
		synctest.Wait()
		d.append(steered("a"))
		synctest.Wait() // both watchers are busy with the first notification now
		d.append(steered("b"))
		d.append(steered("c"))
		close(hold)
		synctest.Wait()
		stop()
		wg.Wait()
		bells := []eventlog.Bell{{Session: "s1", Seq: 2}, {Session: "s1", Seq: 4}}
		want := map[string][]eventlog.Bell{"local": bells, "system": bells, "eve": nil}
		if diff := cmp.Diff(want, rung, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("bells (-want +got):\n%s", diff)
		}
	})
}
