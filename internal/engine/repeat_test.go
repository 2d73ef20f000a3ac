package engine_test

import (
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// TestRepeatsOutliveTheirSource: a command that was acknowledged under a key gets the same answer
// again, whatever became of its app or of the session it was made from.
func TestRepeatsOutliveTheirSource(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store seam.Store) {
		app := enginetest.App()
		h := &held{}
		r := enginetest.Over(t, store, &enginetest.Service{}, h.model, app)
		e, id := r.Engine, r.Session().ID
		r.Await(r.Send(id, "one").ID)
		fork := func() (parley.SessionInfo, error) {
			return e.Fork(ctx, enginetest.User, id, parley.ForkSession{Key: "f"})
		}
		create := func() (parley.SessionInfo, bool, error) {
			return e.Create(ctx, enginetest.User, parley.CreateSession{App: app.Name, Key: "c"})
		}
		look := parley.CallTool{App: app.Name, Name: "look", Input: []byte(`{"text":"x"}`), Key: "l"}
		alone, err := e.CallTool(ctx, enginetest.User, look)
		if err != nil {
			t.Fatal(err)
		}
		r.Await(alone.ID)
		in := parley.CallTool{Session: id, Name: "look", Input: []byte(`{"text":"x"}`), Key: "i"}
		called, err := e.CallTool(ctx, enginetest.User, in)
		if err != nil {
			t.Fatal(err)
		}
		r.Await(called.ID)
		other, err := e.CallTool(ctx, enginetest.User, parley.CallTool{App: app.Name, Name: "look", Input: []byte(`{"text":"y"}`)})
		if err != nil {
			t.Fatal(err)
		}
		r.Await(other.ID)
		again, err := e.Retry(ctx, enginetest.User, other.ID, "r", "")
		if err != nil {
			t.Fatal(err)
		}
		r.Await(again.ID)
		forked, err := fork()
		if err != nil {
			t.Fatal(err)
		}
		made, _, err := create()
		if err != nil {
			t.Fatal(err)
		}

		// The app is off: existing results are found, and nothing new is made.
		r.Close()
		off := app
		off.Name = "other"
		r = enginetest.Over(t, r.Store, r.Service, h.model, off)
		e = r.Engine
		if got, err := fork(); err != nil || got.ID != forked.ID {
			t.Errorf("the fork again: %s, %v", got.ID, err)
		}
		if got, isNew, err := create(); err != nil || isNew || got.ID != made.ID {
			t.Errorf("the session again: %s, new: %v, %v", got.ID, isNew, err)
		}
		for want, call := range map[parley.TurnID]parley.CallTool{alone.ID: look, called.ID: in} {
			if got, err := e.CallTool(ctx, enginetest.User, call); err != nil || got.ID != want {
				t.Errorf("the call %q again: %s, %v", call.Key, got.ID, err)
			}
			call.Key += "2"
			if _, err := e.CallTool(ctx, enginetest.User, call); err == nil {
				t.Errorf("a call of an app that is off was made")
			}
		}

		// The sessions they were made from are deleted.
		for _, gone := range []parley.SessionID{id, other.SessionID} {
			if err := e.Delete(ctx, enginetest.User, gone); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := fork(); err != nil || got.ID != forked.ID {
			t.Errorf("the fork of a session that is gone, again: %s, %v", got.ID, err)
		}
		if _, err := e.Fork(ctx, enginetest.User, id, parley.ForkSession{Key: "f", Title: "another"}); code(err) != parley.CodeKeyReused {
			t.Errorf("another fork with its key: %v", err)
		}
		if _, err := e.Fork(ctx, parley.Principal{User: "bob", Org: "acme"}, id, parley.ForkSession{Key: "f"}); code(err) != parley.CodeNotFound {
			t.Errorf("another user's request: %v", err)
		}
		if got, err := e.Retry(ctx, enginetest.User, other.ID, "r", ""); err != nil || got.ID != again.ID {
			t.Errorf("the retry of a call that is gone, again: %s, %v", got.ID, err)
		}
		for _, key := range []string{"", "r2", "f", "l"} {
			if _, err := e.Retry(ctx, enginetest.User, other.ID, key, ""); code(err) != parley.CodeNotFound {
				t.Errorf("a retry with the key %q: %v", key, err)
			}
		}
		r.Close()
	})
}
