package replay_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/replay"
	"github.com/parley-server/parley/internal/seam"
)

// TestReplayOfAFork: a session is forked while its turn is open. The fork, which cancelled the turn
// and went on, replays without a difference; so does the session itself.
func TestReplayOfAFork(t *testing.T) {
	t.Parallel()
	mails := func(c context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if enginetest.Last(r) == "go" {
			return mailer(c, r, say)
		}
		return enginetest.Echo(c, r, say)
	}
	claim := func(t *testing.T, r *enginetest.Rig, turn parley.TurnInfo) {
		if _, err := r.Engine.Claim(ctx, enginetest.User, turn.Interactions[0], parley.ClaimCall{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		model enginetest.Model
		app   parley.App
		do    func(*testing.T, *enginetest.Rig, parley.TurnInfo) // before the fork
		waits bool
	}{
		"permission":    {mails, enginetest.App(asks), nil, true},
		"client":        {mails, enginetest.App(enginetest.ByClients), nil, true},
		"claimed":       {mails, enginetest.App(enginetest.ByClients), claim, true},
		"claimed write": {writes, enginetest.App(enginetest.ByClients), claim, true},
		"model":         {holds, enginetest.App(), nil, false},
		"queued behind": {mails, enginetest.App(asks, func(a *parley.App) { a.MaxOpenTurns, a.Busy = 4, parley.BusyEnqueue }), func(t *testing.T, r *enginetest.Rig, turn parley.TurnInfo) {
			r.Send(turn.SessionID, "next")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var fork, itself *replay.Recording
			synctest.Test(t, func(t *testing.T) {
				r := enginetest.New(t, c.model, c.app)
				defer r.Close()
				s := r.Session()
				r.Await(r.Send(s.ID, "say hello").ID)
				turn := r.Send(s.ID, "go")
				synctest.Wait()
				if c.waits {
					turn = r.Await(turn.ID)
				}
				if c.do != nil {
					c.do(t, r, turn)
				}
				made, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
				if err != nil {
					t.Fatal(err)
				}
				if got := r.Await(r.Send(made.ID, "say hello").ID); got.Status != parley.StatusCompleted {
					t.Fatalf("the fork's turn is %s: %v", got.Status, got.Error)
				}
				if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, ""); err != nil {
					t.Fatal(err)
				}
				r.Await(turn.ID)
				fork, itself = recording(t, r, made.ID), recording(t, r, s.ID)
			})
			same(t, fork)
			same(t, itself)
		})
	}
}

// writes mails only.
func writes(c context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if enginetest.Last(r) != "go" || len(enginetest.Results(r)) > 0 {
		return enginetest.Echo(c, r, say)
	}
	return seam.Reply{Parts: []parley.Part{enginetest.Call("mail", map[string]string{"text": "hi"})}}, nil
}

// holds is a model that answers "go" when it is cancelled.
func holds(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if enginetest.Last(r) == "go" {
		<-ctx.Done()
		return seam.Reply{}, ctx.Err()
	}
	return enginetest.Echo(ctx, r, say)
}
