package engine_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// TestSweepLeavesNothing: temporary sessions and those of direct calls are there until
// their time, and as long as they wait for a human; then nothing of them is.
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
