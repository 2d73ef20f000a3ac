package livefiles_test

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/livefiles"
)

// forgetful is a log that is not found for a while.
type forgetful struct {
	livefiles.Log
	lost *atomic.Bool
}

func (f forgetful) Whole(ctx context.Context, p parley.Principal, id parley.SessionID, after int64) iter.Seq2[parley.Event, error] {
	if !f.lost.Load() {
		return f.Log.Whole(ctx, p, id, after)
	}
	return func(yield func(parley.Event, error) bool) {
		yield(parley.Event{}, parley.Errorf(parley.CodeNotFound, "there is no session %s", id))
	}
}

// TestFiles_of_a_session_that_is_there: a session that was not found, but is there, keeps its files.
func TestFiles_of_a_session_that_is_there(t *testing.T) {
	t.Parallel()
	live(t, clerk, enginetest.App(), func(t *testing.T, r *rig) {
		id := r.Session().ID
		r.Await(r.Send(id, "plot").ID)
		settled()
		r.same("before", id)
		r.files.Die()
		var lost atomic.Bool
		lost.Store(true)
		o := r.options()
		o.Log = forgetful{o.Log, &lost}
		r.files = livefiles.Start(o)
		r.Await(r.Send(id, "plot").ID)
		settled()
		if _, err := os.Stat(filepath.Join(r.data, "sessions", string(id))); err != nil {
			t.Errorf("its files are gone: %v", err)
		}
		lost.Store(false)
		r.Await(r.Send(id, "and more").ID)
		settled()
		synctest.Wait()
		r.same("found again", id)
	})
}
