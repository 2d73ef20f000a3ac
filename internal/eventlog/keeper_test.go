package eventlog_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

func TestTick_keeps_new_text_once(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, eventlog.Options{})
		var saves atomic.Int64
		d.store.SetFaults(mem.Faults{Before: func(c mem.Call) error {
			if c.Method == "SaveChunks" {
				saves.Add(1)
			}
			return nil
		}})
		chunks := func() []seam.Chunk {
			synctest.Wait()
			c, err := d.store.Chunks(context.Background(), parley.Local, d.id)
			if err != nil {
				t.Error(err)
			}
			return c
		}
		d.append(started("c1"))
		d.say("c1", "one ")
		d.say("c1", "two ")
		d.w.Publish(parley.Delta{Session: d.id, Call: "c1", Kind: parley.DeltaThinking, Text: "hm"})
		time.Sleep(249 * time.Millisecond)
		if got := chunks(); len(got) > 0 {
			t.Errorf("kept too early: %v", got)
		}
		time.Sleep(time.Millisecond)
		want := []seam.Chunk{{Session: d.id, Call: "c1", N: 3, Text: "one two "}}
		if diff := cmp.Diff(want, chunks()); diff != "" {
			t.Errorf("first tick (-want +got):\n%s", diff)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := saves.Load(); n != 1 {
			t.Errorf("%d saves, want 1: nothing was new", n)
		}
		d.say("c1", "three")
		time.Sleep(250 * time.Millisecond)
		want = append(want, seam.Chunk{Session: d.id, Call: "c1", N: 4, Text: "three"})
		if diff := cmp.Diff(want, chunks()); diff != "" {
			t.Errorf("second tick (-want +got):\n%s", diff)
		}
		d.say("c1", ", four")
		b := d.batch(replied("c1", "one two three, four"))
		b.Index.DropChunks = []parley.CallID{"c1"}
		d.send(b)
		time.Sleep(time.Second)
		if got := chunks(); len(got) > 0 {
			t.Errorf("text of an ended call was kept: %v", got)
		}
	})
}

func TestTick_under_way_ends_before_the_append_that_drops_its_chunks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, eventlog.Options{})
		d.append(started("c1"))
		d.say("c1", "text")
		hold := make(chan struct{})
		d.store.SetFaults(mem.Faults{Before: func(c mem.Call) error {
			if c.Method == "SaveChunks" {
				<-hold
			}
			return nil
		}})
		time.Sleep(250 * time.Millisecond)
		synctest.Wait() // the save hangs in the store
		var appended sync.WaitGroup
		appended.Go(func() {
			b := d.batch(replied("c1", "text"))
			b.Index.DropChunks = []parley.CallID{"c1"}
			d.send(b)
		})
		synctest.Wait()
		close(hold)
		appended.Wait()
		time.Sleep(time.Second)
		got, err := d.store.Chunks(context.Background(), parley.Local, d.id)
		if err != nil || len(got) > 0 {
			t.Errorf("got %v, %v, want no chunks", got, err)
		}
	})
}

func TestTick_tries_again_what_the_store_refused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, eventlog.Options{})
		d.store.SetFaults(mem.Faults{Before: func(c mem.Call) error {
			if c.Method == "SaveChunks" {
				return errors.New("no room")
			}
			return nil
		}})
		d.append(started("c1"))
		d.say("c1", "text")
		time.Sleep(time.Second)
		synctest.Wait()
		d.store.SetFaults(mem.Faults{})
		time.Sleep(time.Second)
		synctest.Wait()
		got, err := d.store.Chunks(context.Background(), parley.Local, d.id)
		if diff := cmp.Diff([]seam.Chunk{{Session: d.id, Call: "c1", N: 1, Text: "text"}}, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

func TestClose_keeps_what_is_new(t *testing.T) {
	t.Parallel()
	d := newDesk(t, eventlog.Options{FlushEvery: time.Hour})
	d.append(started("c1"))
	d.say("c1", "text")
	if err := d.w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := d.store.Chunks(t.Context(), parley.Local, d.id)
	if diff := cmp.Diff([]seam.Chunk{{Session: d.id, Call: "c1", N: 1, Text: "text"}}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestAppend_drops_only_text_that_may_be_stored: most calls end before any of their text is stored, and
// their append has nothing to remove then.
func TestAppend_drops_only_text_that_may_be_stored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, eventlog.Options{})
		var dropped []parley.CallID
		failing := false
		d.store.SetFaults(mem.Faults{Before: func(c mem.Call) error {
			switch {
			case c.Method == "Append":
				dropped = append(dropped, c.Batch.Index.DropChunks...)
			case failing:
				return errors.New("the outcome is unknown")
			}
			return nil
		}})
		end := func(call parley.CallID) {
			b := d.batch(replied(call, "done"))
			b.Index.DropChunks = []parley.CallID{call}
			d.send(b)
		}
		d.append(started("short"), started("long"), started("unclear"))
		d.say("short", "done")
		end("short")
		d.say("long", "done")
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		end("long")
		failing = true
		d.say("unclear", "done")
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		failing = false
		end("unclear")
		end("of an earlier process")
		if diff := cmp.Diff([]parley.CallID{"long", "unclear", "of an earlier process"}, dropped); diff != "" {
			t.Errorf("dropped (-want +got):\n%s", diff)
		}
	})
}
