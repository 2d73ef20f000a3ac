package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// TestStoppedAfterACrash: a crash cuts off a write, and the turn is stopped before it is resumed.
// If the service can be asked about the write, it is asked before the turn ends, and messages that
// were sent after the stop run then. Otherwise the turn ends at once.
func TestStoppedAfterACrash(t *testing.T) {
	const all = 15 * time.Second // the deadline of the mail and 5 s
	type rig = enginetest.Rig
	cancel := func(t *testing.T, r *rig, _ parley.SessionID, one parley.TurnID) {
		got, err := r.Engine.Cancel(ctx, enginetest.User, one, "enough")
		if err != nil || !got.Stopping && got.Status != parley.StatusCancelled {
			t.Errorf("cancelled: %+v, %v", got, err)
		}
	}
	send := func(busy parley.BusyMode) func(*testing.T, *rig, parley.SessionID, parley.TurnID) {
		return func(t *testing.T, r *rig, id parley.SessionID, _ parley.TurnID) { say(t, r, id, "now", busy) }
	}
	stop := func(t *testing.T, r *rig, id parley.SessionID, _ parley.TurnID) { end(t, r, id) }
	ending := func(t *testing.T, r *rig, id parley.SessionID, _ parley.TurnID) { // until the crash
		if _, err := r.Engine.End(ctx, enginetest.User, id, "done"); err == nil {
			t.Error("the session ended before its write")
		}
	}
	deleting := func(t *testing.T, r *rig, id parley.SessionID, _ parley.TurnID) {
		if err := r.Engine.Delete(ctx, enginetest.User, id); err == nil {
			t.Error("the session was deleted before its write had ended")
		}
	}
	yes := func(time.Duration) (bool, bool) { return true, true }
	no := func(time.Duration) (bool, bool) { return false, true }
	is := func(mail string, turns ...string) []string { return append([]string{mail, "go: cancelled"}, turns...) }
	for name, tc := range map[string]struct {
		says    func(time.Duration) (yes, known bool) // nil: it cannot be asked
		do      func(t *testing.T, r *rig, id parley.SessionID, one parley.TurnID)
		before  bool // the turn is stopped before the crash
		crashes int  // further crashes while the service is asked
		want    []string
		waits   bool // the turn waits until a no is final
	}{
		"cancelled, yes":            {says: yes, do: cancel, want: is("mail ok", "two: pending")},
		"cancelled, no":             {says: no, do: cancel, want: is("mail error", "two: pending"), waits: true},
		"cancelled, no idea":        {do: cancel, want: is("mail unknown", "two: pending")},
		"cancelled, crash":          {says: no, do: cancel, crashes: 1, want: is("mail error", "two: pending"), waits: true},
		"cancelled, many crashes":   {says: no, do: cancel, crashes: 3, want: is("mail unknown", "two: pending")},
		"superseded, yes":           {says: yes, do: send(""), want: is("mail ok", "now: completed", "two: completed")},
		"superseded, no":            {says: no, do: send(""), want: is("mail error", "now: completed", "two: completed"), waits: true},
		"superseded, crash":         {says: no, do: send(""), crashes: 1, want: is("mail error", "now: completed", "two: completed"), waits: true},
		"superseded, no idea":       {do: send(parley.BusyInterrupt), want: is("mail unknown", "now: completed", "two: completed")},
		"session ended, yes":        {says: yes, do: stop, want: is("mail ok", "two: cancelled")},
		"session ended, no":         {says: no, do: stop, want: is("mail error", "two: cancelled"), waits: true},
		"cancelled before, yes":     {says: yes, do: cancel, before: true, want: is("mail ok", "two: pending")},
		"cancelled before, no":      {says: no, do: cancel, before: true, want: is("mail error", "two: pending"), waits: true},
		"cancelled before, no idea": {do: cancel, before: true, want: is("mail unknown", "two: pending")},
		"ending, yes":               {says: yes, do: ending, before: true, want: is("mail ok", "two: pending")},
		"ending, no":                {says: no, do: ending, before: true, want: is("mail error", "two: pending"), waits: true},
		"ending, no idea":           {do: ending, before: true, want: is("mail unknown", "two: pending")},
		"deleting, yes":             {says: yes, do: deleting, before: true, want: is("mail ok", "two: pending")},
		"replaced before, no":       {says: no, do: send(parley.BusyInterrupt), before: true, want: is("mail error", "now: completed", "two: completed"), waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				app := enginetest.App(queued)
				model := func(c context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
					if enginetest.Last(r) == "go" {
						return mailer("mail")(c, r, say)
					}
					return enginetest.Echo(c, r, say)
				}
				service := &enginetest.Service{}
				hang := make(chan struct{})
				service.SetGate(func(context.Context, seam.Run) error { <-hang; return nil })
				began, asked := time.Now(), 0
				set := seam.Toolset(service)
				if tc.says != nil {
					set = replies{service, tc.says, &asked, began}
				}
				r := enginetest.Over(t, mem.New(), service, model, app, enginetest.With(set))
				id := r.Session().ID
				one := r.Send(id, "go")
				say(t, r, id, "two", parley.BusyEnqueue)
				synctest.Wait()
				if tc.before {
					go tc.do(t, r, id, one.ID)
					synctest.Wait()
				}
				restart := func() {
					disk := r.Mem.Clone()
					r.Kill()
					synctest.Wait()
					r = enginetest.Over(t, disk, service, model, app, enginetest.With(set))
					recovered(t, r)
					synctest.Wait()
				}
				restart()
				defer func() { r.Close() }()
				close(hang)
				if !tc.before {
					go tc.do(t, r, id, one.ID)
					synctest.Wait()
				}
				for range tc.crashes {
					restart()
					time.Sleep(4 * time.Second) // longer than the pause before a resumption
				}
				time.Sleep(time.Minute)
				log := r.Log(id)
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
				got := enginetest.Outcomes(log)[:1]
				rows, err := r.Engine.Turns(ctx, enginetest.User, seam.TurnQuery{Session: id})
				if err != nil {
					t.Fatal(err)
				}
				turns := map[string]string{}
				for _, row := range rows {
					turns[row.Message] = string(row.Status)
				}
				for _, message := range []string{"go", "now", "two"} {
					if status := turns[message]; status != "" {
						got = append(got, message+": "+status)
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s\n%s", diff, enginetest.Types(log))
				}
				for _, ev := range log {
					took := ev.Time.Sub(began)
					if ev.Type == "tool.ended" && tc.crashes < 2 && (tc.waits && took != all || !tc.waits && took > all/2) {
						t.Errorf("the mail ended after %s", took)
					}
				}
				if _, _, mails := service.Counts(); mails != 1 {
					t.Errorf("it was mailed %d times", mails)
				}
			})
		})
	}
}

// TestMessageAfterAStop: a message that is queued after a turn was stopped, but before the turn has
// ended, was not stopped with it and runs.
func TestMessageAfterAStop(t *testing.T) {
	gate := make(chan struct{})
	slow := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if enginetest.Last(r) == "one" {
			<-gate // whatever its context says
		}
		say("done")
		return seam.Reply{}, nil
	}
	rigged(t, slow, enginetest.App(queued), func(t *testing.T, r *enginetest.Rig) {
		gate = make(chan struct{})
		id := r.Session().ID
		one := r.Send(id, "one")
		synctest.Wait()
		if got, err := r.Engine.Cancel(ctx, enginetest.User, one.ID, "enough"); err != nil || got.Status.Ended() {
			t.Fatalf("got %s, %v", got.Status, err)
		}
		say(t, r, id, "two", parley.BusyEnqueue)
		close(gate)
		wants(t, r, id, "one: cancelled", "two: completed")
	})
}

// TestRetryOfACutWrite: a turn that was interrupted in a write is not asked again as long as
// nothing is known about the write. Resumed, it says or asks what became of it.
func TestRetryOfACutWrite(t *testing.T) {
	t.Parallel()
	for tool, refused := range map[string]bool{"mail": true, "put": true, "look": false} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				app := enginetest.App(func(a *parley.App) { a.Policy.Unattended = true })
				first := enginetest.New(t, mailer(tool), app)
				hang := make(chan struct{})
				first.Service.SetGate(func(context.Context, seam.Run) error { <-hang; return nil })
				s := first.Session()
				turn := first.Send(s.ID, "go")
				time.Sleep(time.Second)
				synctest.Wait()
				disk := first.Dies(hang)
				first.Service.SetGate(nil)
				r := enginetest.Over(t, disk, first.Service, mailer(tool), app)
				defer r.Close()
				recovered(t, r)
				again, err := r.Engine.Retry(ctx, enginetest.User, turn.ID, "k", "")
				if !refused {
					if err != nil || again.RetryOf != turn.ID {
						t.Errorf("got %+v, %v", again, err)
					}
					r.Await(again.ID)
					return
				}
				if code(err) != parley.CodeConflict || !strings.Contains(err.Error(), tool) {
					t.Fatalf("got %+v, %v", again, err)
				}
				if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, ""); err != nil {
					t.Fatal(err)
				}
				r.Await(turn.ID)
				if again, err = r.Engine.Retry(ctx, enginetest.User, turn.ID, "k", ""); err != nil {
					t.Fatal(err)
				}
				r.Await(again.ID)
				if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
