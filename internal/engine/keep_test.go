package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestWhatAUserMayKeep: one session or byte too many is refused by every command
// that would add it, and given back by a deletion. A turn that was accepted is
// finished, and another user is not concerned.
func TestWhatAUserMayKeep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, enginetest.Echo, enginetest.App(), func(o *engine.Options) {
			o.Limits = engine.Limits{Sessions: 2, Bytes: 100_000}
		})
		defer r.Close()
		one, two := r.Session(), r.Session()
		refused := func(what string, err error) {
			t.Helper()
			if code(err) != parley.CodeQuota || parley.Info(err).Hint == "" {
				t.Errorf("%s: got %v, want %s with a hint", what, err, parley.CodeQuota)
			}
		}
		_, _, err := r.Engine.Create(ctx, enginetest.User, parley.CreateSession{App: "test"})
		refused("a third session", err)
		_, err = r.Engine.Fork(ctx, enginetest.User, one.ID, parley.ForkSession{})
		refused("a fork", err)
		_, err = r.Engine.Import(ctx, enginetest.User, engine.Imported{Events: r.Log(one.ID)})
		refused("an import", err)
		if _, _, err := r.Engine.Create(ctx, parley.Principal{User: "somebody else"}, parley.CreateSession{App: "test"}); err != nil {
			t.Errorf("another user: %v", err)
		}
		if err := r.Engine.Delete(ctx, enginetest.User, two.ID); err != nil {
			t.Fatal(err)
		}
		if _, err = r.Engine.Fork(ctx, enginetest.User, one.ID, parley.ForkSession{}); err != nil {
			t.Errorf("a fork in the place of a deleted session: %v", err)
		}
		long := r.Send(one.ID, strings.Repeat("x", 90_000)) // and its reply goes beyond
		if got := r.Await(long.ID); got.Status != parley.StatusCompleted {
			t.Errorf("the turn that was accepted: %+v", got)
		}
		_, err = r.Engine.Send(ctx, enginetest.User, one.ID, parley.Send{Message: "one more"})
		refused("a message", err)
	})
}
