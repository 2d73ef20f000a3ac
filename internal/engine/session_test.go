package engine_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestForkAgainAfterGrowth: a fork without a number is made at the end of the session at the first
// request. If the session has grown since, a second request with the key is still the same request.
func TestForkAgainAfterGrowth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, mailer("mail"), enginetest.App(asking))
		defer r.Close()
		s := r.Session()
		fork, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{Key: "f"})
		if err != nil {
			t.Fatal(err)
		}
		r.Await(r.Send(s.ID, "go").ID)
		if same, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{Key: "f"}); err != nil || same.ID != fork.ID {
			t.Errorf("the same fork: %v, %v", same.ID, err)
		}
		if _, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{Key: "f", At: 1}); code(err) != parley.CodeKeyReused {
			t.Errorf("another place under the same key: %v", err)
		}
	})
}

func TestForkInMidTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, mailer("mail"), enginetest.App(asking))
		defer r.Close()
		s := r.Session()
		turn := r.Send(s.ID, "go")
		waiting := r.Await(turn.ID)
		fork, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{Key: "f"})
		if err != nil {
			t.Fatal(err)
		}
		if same, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{Key: "f"}); err != nil || same.ID != fork.ID {
			t.Errorf("the same fork: %v, %v", same.ID, err)
		}
		log, copied := r.Log(s.ID), r.Log(fork.ID)
		if err := enginetest.CheckLog(copied); err != nil {
			t.Error(err)
		}
		for i, e := range log {
			f := copied[i]
			if f.Session = e.Session; !f.Equal(e) {
				t.Errorf("event %d differs in the fork", i+1)
			}
		}
		if fork.Waiting != 0 || fork.Turn != nil || fork.Parent != s.ID {
			t.Errorf("got %+v", fork)
		}
		if open, _ := r.Engine.Interactions(ctx, enginetest.User, 10); len(open) != 1 || open[0].ID != waiting.Interactions[0] {
			t.Errorf("open: %+v", open)
		}
		if got := r.Await(r.Send(fork.ID, "go").ID); got.Status != parley.StatusWaiting {
			t.Errorf("the fork: %+v", got)
		}
		if _, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{At: 99}); code(err) != parley.CodeInvalid {
			t.Errorf("a fork beyond the end: %v", err)
		}
	})
}

func TestImport(t *testing.T) {
	rigged(t, mailer("mail"), enginetest.App(asking), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		r.Await(r.Send(s.ID, "go").ID)
		log := r.Log(s.ID)
		got, err := r.Engine.Import(ctx, parley.Principal{User: "ben"}, engine.Imported{Events: log})
		if err != nil {
			t.Fatal(err)
		}
		copied := r.Log(got.ID)
		if err := enginetest.CheckLog(copied); err != nil {
			t.Error(err)
		}
		for i, e := range log {
			if f := copied[i]; f.Type != e.Type || !f.Time.Equal(e.Time) || e.Turn != "" && f.Turn == e.Turn {
				t.Errorf("event %d: %s", i+1, f.AppendJSON(nil))
			}
		}
		if got.User != "ben" || got.Waiting != 0 || got.Turn != nil {
			t.Errorf("got %+v", got)
		}
		if open, _ := r.Engine.Interactions(ctx, parley.Principal{User: "ben"}, 10); len(open) != 0 {
			t.Errorf("open: %+v", open)
		}
		for name, events := range map[string][]parley.Event{
			"a gap": append(append([]parley.Event{}, log[:2]...), log[3:]...), "no beginning": log[1:], "nothing": nil,
		} {
			if _, err := r.Engine.Import(ctx, enginetest.User, engine.Imported{Events: events}); code(err) != parley.CodeInvalid {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestEndAndDelete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated("one", "two")
		r := enginetest.New(t, g.model, enginetest.App())
		defer r.Close()
		s := r.Session()
		one := r.Send(s.ID, "one")
		queued, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "x", Busy: parley.BusyEnqueue})
		if !errors.Is(err, parley.ErrBusy) {
			t.Errorf("one open turn is the limit: %+v, %v", queued, err)
		}
		for range 2 {
			if got, err := r.Engine.End(ctx, enginetest.User, s.ID, "done"); err != nil || got.Status != parley.Ended {
				t.Errorf("got %+v, %v", got, err)
			}
		}
		if got := r.Await(one.ID); got.Status != parley.StatusCancelled {
			t.Errorf("got %+v", got)
		}
		if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "more"}); code(err) != parley.CodeConflict {
			t.Errorf("a message to an ended session: %v", err)
		}
		d := r.Session()
		two := r.Send(d.ID, "two")
		if err := r.Engine.Delete(ctx, enginetest.User, d.ID); err != nil {
			t.Fatal(err)
		}
		_, err = r.Engine.Session(ctx, enginetest.User, d.ID)
		_, terr := r.Engine.Turn(ctx, enginetest.User, two.ID)
		if code(err) != parley.CodeNotFound || code(terr) != parley.CodeNotFound || code(r.Engine.Delete(ctx, enginetest.User, d.ID)) != parley.CodeNotFound {
			t.Errorf("after deletion: %v, %v", err, terr)
		}
	})
}

func TestUpdateAndVersion(t *testing.T) {
	rigged(t, enginetest.Echo, enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		title := "Login"
		got, err := r.Engine.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{Title: &title, ExpectedVersion: 1})
		if err != nil || got.Title != title || got.Version != 2 {
			t.Errorf("got %+v, %v", got, err)
		}
		if _, err := r.Engine.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{Title: &title, ExpectedVersion: 1}); code(err) != parley.CodeConflict {
			t.Errorf("a stale version: %v", err)
		}
		if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "x", ExpectedVersion: 1}); code(err) != parley.CodeConflict {
			t.Errorf("a stale version: %v", err)
		}
		bad := "test2/model"
		if _, err := r.Engine.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{Model: &bad}); code(err) != parley.CodeInvalid {
			t.Errorf("a model that is not there: %v", err)
		}
	})
}
