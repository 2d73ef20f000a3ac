package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

var ctx = context.Background()

// rigged runs f in a bubble of fake time, over an engine in memory.
func rigged(t *testing.T, model enginetest.Model, app parley.App, f func(t *testing.T, r *enginetest.Rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, model, app)
		defer r.Close()
		f(t, r)
	})
}

func TestPlainTurnIsTwoAppends(t *testing.T) {
	rigged(t, enginetest.Echo, enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		turn := r.Send(s.ID, "hello")
		got := r.Await(turn.ID)
		if got.Status != parley.StatusCompleted || got.Response.Message != "you said: hello" {
			t.Fatalf("got %+v", got)
		}
		events := r.Log(s.ID)
		want := "session.created\nturn.started\nagent.started\nmodel.started\nmodel.replied\nturn.completed\n"
		if diff := cmp.Diff(want, enginetest.Types(events)); diff != "" {
			t.Error(diff)
		}
		info, err := r.Engine.Session(ctx, enginetest.User, s.ID)
		if err != nil || info.Version != 6 || info.Totals.Turns != 1 || info.Totals.Usage.Tokens() != 15 {
			t.Errorf("got %+v, %v", info, err)
		}
	})
}

// mailer asks for one call of a tool and then says its result.
func mailer(tool string) enginetest.Model {
	return func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if res := enginetest.Results(r); len(res) > 0 {
			say("done: " + res[len(res)-1])
			return seam.Reply{}, nil
		}
		return seam.Reply{Parts: []parley.Part{enginetest.Call(tool, map[string]string{"text": "hi"})}}, nil
	}
}

func TestToolRound(t *testing.T) {
	rigged(t, mailer("look"), enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		got := r.Await(r.Send(s.ID, "go").ID)
		if got.Status != parley.StatusCompleted || got.Response.Message != "done: seen hi" {
			t.Fatalf("got %+v %v", got, got.Error)
		}
		want := "session.created\nturn.started\nagent.started\nmodel.started\nmodel.replied\ntool.requested\ntool.started\ntool.ended\nmodel.started\nmodel.replied\nturn.completed\n"
		if diff := cmp.Diff(want, enginetest.Types(r.Log(s.ID))); diff != "" {
			t.Error(diff)
		}
	})
}

func TestBusy(t *testing.T) {
	gate := make(chan struct{})
	slow := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		say("thinking ")
		select {
		case <-gate:
		case <-ctx.Done():
			return seam.Reply{}, ctx.Err()
		}
		say("about " + enginetest.Last(r))
		return seam.Reply{}, nil
	}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate = make(chan struct{})
		r := enginetest.New(t, slow, enginetest.App())
		defer r.Close()
		s := r.Session()
		one := r.Send(s.ID, "one")
		_, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "two"})
		if !errors.Is(err, parley.ErrBusy) {
			t.Fatalf("a second message: %v", err)
		}
		synctest.Wait()
		if got, _ := r.Engine.Turn(ctx, enginetest.User, one.ID); got.Status != parley.StatusStreaming {
			t.Errorf("status is %s", got.Status)
		}
		got, err := r.Engine.Cancel(ctx, enginetest.User, one.ID, "no")
		if err != nil || got.Status != parley.StatusCancelled || got.Reason != "no" || got.Response.Message != "thinking " {
			t.Errorf("got %+v, %v", got, err)
		}
		close(gate)
		if got := r.Await(r.Send(s.ID, "three").ID); got.Status != parley.StatusCompleted || got.Response.Message != "thinking about three" {
			t.Errorf("got %+v", got)
		}
	})
}
