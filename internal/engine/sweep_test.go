package engine_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// TestSweepLeavesNothing: temporary sessions and sessions of direct calls exist until their time is
// up, and as long as they wait for a human. After that a sweep removes them completely.
func TestSweepLeavesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, store seam.Store) {
		const day = 24 * time.Hour
		var later atomic.Int64
		app := enginetest.App(asking, keeping, func(a *parley.App) { a.Policy.AnswerWithin = parley.Duration(90 * day) })
		r := enginetest.Over(t, store, &enginetest.Service{}, words, app, byHand, func(o *engine.Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		})
		defer r.Close()
		temporary := func(message string) parley.SessionID {
			id := r.Session(func(c *parley.CreateSession) { c.Temporary = true }).ID
			r.Await(r.Send(id, message).ID)
			return id
		}
		direct := func(tool string) parley.TurnInfo {
			t.Helper()
			turn, err := r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: "test", Name: tool, Input: []byte(`{"text":"x"}`)})
			if err != nil {
				t.Fatal(err)
			}
			return r.Await(turn.ID)
		}
		names := map[parley.SessionID]string{temporary("only words"): "temporary", temporary("go"): "temporary that waits"}
		done, waits := direct("look"), direct("mail")
		if done.Status != parley.StatusCompleted || waits.Status != parley.StatusWaiting {
			t.Fatalf("the direct calls are %s and %s", done.Status, waits.Status)
		}
		names[done.SessionID], names[waits.SessionID] = "direct", "direct that waits"
		left := func(when string, want ...string) {
			t.Helper()
			sweep(t, r)
			there := map[string]bool{}
			list, err := store.Sessions(ctx, parley.System(), seam.SessionQuery{Limit: -1, Direct: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, in := range list {
				there[names[in.ID]] = true
			}
			for _, name := range want {
				if !there[name] {
					t.Errorf("%s: %s is gone", when, name)
				}
				delete(there, name)
			}
			if len(there) > 0 {
				t.Errorf("%s: still there are %v", when, there)
			}
		}
		left("at once", "temporary", "temporary that waits", "direct", "direct that waits")
		later.Store(int64(7*day - time.Hour))
		left("after 7 days less an hour", "temporary", "temporary that waits", "direct", "direct that waits")
		later.Store(int64(7*day + time.Hour))
		left("after 7 days", "temporary", "temporary that waits", "direct that waits")
		later.Store(int64(31 * day))
		left("after 31 days", "temporary that waits", "direct that waits")
		open, err := r.Engine.Interactions(ctx, enginetest.User, 10)
		if err != nil || len(open) != 2 {
			t.Fatalf("%d questions are open, %v", len(open), err)
		}
		for _, in := range open {
			if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
				t.Fatal(err)
			}
			if got := r.Await(in.Turn); got.Status != parley.StatusCompleted {
				t.Errorf("what waited is %s", got.Status)
			}
		}
		left("answered", "temporary that waits", "direct that waits")
		later.Store(int64(31*day + 7*day + time.Hour))
		left("7 days after the answer", "temporary that waits")
		later.Store(int64(62 * day))
		left("31 days after the answer")

		turns, err := store.Turns(ctx, parley.System(), seam.TurnQuery{Limit: -1})
		if err != nil || len(turns) > 0 {
			t.Errorf("turns that are left: %+v, %v", turns, err)
		}
		for _, in := range open {
			if _, err := store.Interaction(ctx, parley.System(), in.ID); parley.CodeOf(err) != parley.CodeNotFound {
				t.Errorf("a question that is left: %v", err)
			}
		}
		for id, name := range names {
			if _, err := store.Read(ctx, parley.System(), id, 0, 1); parley.CodeOf(err) != parley.CodeNotFound {
				t.Errorf("events of %s: %v", name, err)
			}
		}
	})
}

// deleting deletes every second session that a sweep has just listed.
type deleting struct {
	seam.Store
	gone func(parley.SessionID)
}

func (d *deleting) Resting(ctx context.Context, p parley.Principal, q seam.RestQuery) ([]parley.SessionInfo, error) {
	page, err := d.Store.Resting(ctx, p, q)
	for i, in := range page {
		if d.gone != nil && i%2 == 0 {
			d.gone(in.ID)
		}
	}
	return page, err
}

// holed is a store that cannot find part of any session.
type holed struct{ seam.Store }

func (holed) Claim(context.Context, parley.Principal, parley.SessionID, string) (int64, error) {
	return 0, parley.Errorf(parley.CodeNotFound, "there is no such row")
}

// TestSweepOfADamagedSession: if a sweep does not find part of a session, its caller does not get
// "not found".
func TestSweepOfADamagedSession(t *testing.T) {
	t.Parallel()
	app := enginetest.App(func(a *parley.App) { a.TTL.SessionIdle = parley.Duration(time.Hour) })
	r := enginetest.New(t, words, app, byHand)
	s, store := r.Session(), r.Store
	r.Close()
	r = enginetest.Over(t, holed{store}, &enginetest.Service{}, words, app, byHand, func(o *engine.Options) {
		o.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	})
	defer r.Close()
	if _, err := r.Engine.Sweep(ctx, enginetest.User); code(err) != parley.CodeInternal || !strings.Contains(err.Error(), string(s.ID)) {
		t.Errorf("got %v", err)
	}
}

// TestSweepDuringDeletions: a session that is deleted during a sweep causes no error, and the sweep
// still handles all other sessions.
func TestSweepDuringDeletions(t *testing.T) {
	eachStore(t, func(t *testing.T, store seam.Store) {
		var later atomic.Int64
		d := &deleting{Store: store}
		ttl := parley.TTL{SessionIdle: parley.Duration(time.Hour), TurnSteps: parley.Duration(3 * time.Hour), Ended: parley.Duration(2 * time.Hour)}
		app := enginetest.App(func(a *parley.App) { a.TTL = ttl })
		r := enginetest.Over(t, d, &enginetest.Service{}, words, app, byHand, func(o *engine.Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		})
		defer r.Close()
		var all sync.Map
		d.gone = func(id parley.SessionID) {
			if err := r.Engine.Delete(ctx, enginetest.User, id); err != nil && parley.CodeOf(err) != parley.CodeNotFound {
				t.Error(err)
			}
			all.Delete(id)
		}
		const n = 12
		for pass, hours := range []int{2, 6, 10} { // hours until they expire, are condensed, are deleted
			for range n {
				id := r.Session().ID
				r.Await(r.Send(id, "only words").ID)
				all.Store(id, true)
			}
			later.Store(int64(time.Duration(hours) * time.Hour))
			var hand sync.WaitGroup
			hand.Go(func() { // deletes more sessions, in addition to those deleted after the listing
				k := 0
				all.Range(func(id, _ any) bool {
					if k++; k%4 == 0 {
						d.gone(id.(parley.SessionID))
					}
					return true
				})
			})
			if done, err := r.Engine.Sweep(ctx, enginetest.User); err != nil {
				t.Errorf("sweep %d, which did %+v: %v", pass, done, err)
			}
			hand.Wait()
		}
	})
}
