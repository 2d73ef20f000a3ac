package replay_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
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

// TestReplayOfForksInTheMiddle: a session is forked after each of its events, also in the middle of
// an append. Each fork goes on and replays without a difference.
func TestReplayOfForksInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model enginetest.Model
		app   parley.App
	}{
		"asked":     {mailer, enginetest.App(asks)},
		"unasked":   {mailer, enginetest.App()},
		"two reads": {twice, enginetest.App()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var forks []*replay.Recording
			synctest.Test(t, func(t *testing.T) {
				model := func(c2 context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
					if enginetest.Last(r) == "say hello" {
						return enginetest.Echo(c2, r, say)
					}
					return c.model(c2, r, say)
				}
				r := enginetest.New(t, model, c.app)
				defer r.Close()
				s := r.Session()
				turn := r.Await(r.Send(s.ID, "go").ID)
				for _, id := range turn.Interactions {
					if _, err := r.Engine.Answer(ctx, enginetest.User, id, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
						t.Fatal(err)
					}
				}
				if turn = r.Await(turn.ID); turn.Status != parley.StatusCompleted {
					t.Fatalf("the turn is %s", turn.Status)
				}
				for at := range int64(len(r.Log(s.ID))) {
					made, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{At: at + 1})
					if err != nil {
						t.Fatal(err)
					}
					r.Await(r.Send(made.ID, "say hello").ID)
					forks = append(forks, recording(t, r, made.ID))
				}
			})
			for i, rec := range forks {
				t.Run(fmt.Sprint("after event ", i+1), func(t *testing.T) { same(t, rec) })
			}
		})
	}
}

// twice looks at two things at once.
func twice(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if len(enginetest.Results(r)) > 0 {
		say("both seen")
		return seam.Reply{}, nil
	}
	return seam.Reply{Parts: []parley.Part{
		enginetest.Call("look", map[string]string{"text": "a"}), enginetest.Call("look", map[string]string{"text": "b"}),
	}}, nil
}

// TestReplayOfACopyWithoutGrants: what was granted for a session is not granted in its fork or its
// import, which ask again, also when they are replayed. The copies of an ended session go on.
func TestReplayOfACopyWithoutGrants(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]bool{"open": false, "ended": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var fork, imported *replay.Recording
			synctest.Test(t, func(t *testing.T) {
				r := enginetest.New(t, mailer, enginetest.App(asks))
				defer r.Close()
				run := func(id parley.SessionID, choice string) {
					t.Helper()
					turn := r.Await(r.Send(id, "go").ID)
					if len(turn.Interactions) != 1 {
						t.Fatalf("the turn is %s and asks %v", turn.Status, turn.Interactions)
					}
					if _, err := r.Engine.Answer(ctx, enginetest.User, turn.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: choice}}); err != nil {
						t.Fatal(err)
					}
					r.Await(turn.ID)
				}
				s := r.Session()
				run(s.ID, parley.ChoiceAllowSession)
				waits := r.Session()
				r.Await(r.Send(waits.ID, "go").ID)
				if end {
					if _, err := r.Engine.End(ctx, enginetest.User, s.ID, ""); err != nil {
						t.Fatal(err)
					}
				}
				made, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
				if err != nil {
					t.Fatal(err)
				}
				run(made.ID, parley.ChoiceAllow)
				fork = recording(t, r, made.ID)
				of := s.ID
				if !end {
					of = waits.ID
				}
				rec := recording(t, r, of)
				blobs := map[parley.Digest][]byte{}
				for d := range rec.Apps {
					if blobs[d], err = r.Store.Blob(ctx, parley.System(), of, d); err != nil {
						t.Fatal(err)
					}
				}
				made, err = r.Engine.Import(ctx, enginetest.User, engine.Imported{Events: r.Log(of), Blobs: blobs})
				if err != nil {
					t.Fatal(err)
				}
				run(made.ID, parley.ChoiceAllow)
				imported = recording(t, r, made.ID)
			})
			same(t, fork)
			same(t, imported)
		})
	}
}
