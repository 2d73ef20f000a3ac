package engine_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// TestClaimAndStopAndCrash: a client has claimed a write, the turn is stopped, and the server
// stops or crashes. Whatever comes first, the client can report until its deadline, and the turn
// ends then.
func TestClaimAndStopAndCrash(t *testing.T) {
	t.Parallel()
	cancel := func(t *testing.T, r *enginetest.Rig, turn parley.TurnInfo) {
		if got, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, "enough"); err != nil || !got.Stopping {
			t.Errorf("cancelled: %+v, %v", got, err)
		}
	}
	interrupt := func(t *testing.T, r *enginetest.Rig, turn parley.TurnInfo) {
		if _, err := r.Engine.Send(ctx, enginetest.User, turn.SessionID, parley.Send{Message: "now", Busy: parley.BusyInterrupt}); err != nil {
			t.Error(err)
		}
	}
	supersede := func(t *testing.T, r *enginetest.Rig, turn parley.TurnInfo) {
		if _, err := r.Engine.Send(ctx, enginetest.User, turn.SessionID, parley.Send{Message: "now"}); err != nil {
			t.Error(err)
		}
	}
	for name, tc := range map[string]struct {
		before, after func(*testing.T, *enginetest.Rig, parley.TurnInfo) // before the crash, and after it
		crashes       int
		direct        bool // the call is made without a model
		auto          bool // the app's turns continue automatically
		want          parley.TurnStatus
	}{
		"cancelled before":                    {before: cancel, crashes: 1, want: parley.StatusCancelled},
		"cancelled before, auto":              {before: cancel, crashes: 1, auto: true, want: parley.StatusCancelled},
		"cancelled before, many crashes":      {before: cancel, crashes: 4, auto: true, want: parley.StatusCancelled},
		"replaced before":                     {before: interrupt, crashes: 1, want: parley.StatusCancelled},
		"cancelled after":                     {crashes: 1, after: cancel, want: parley.StatusCancelled},
		"cancelled after, many crashes":       {crashes: 4, after: cancel, want: parley.StatusCancelled},
		"cancelled after, auto":               {crashes: 1, auto: true, after: cancel, want: parley.StatusCancelled},
		"superseded":                          {crashes: 1, after: supersede, want: parley.StatusCancelled},
		"cancelled twice":                     {before: cancel, crashes: 1, after: cancel, want: parley.StatusCancelled},
		"called directly":                     {direct: true, crashes: 1, want: parley.StatusCompleted},
		"called directly, cancelled before":   {direct: true, before: cancel, crashes: 1, want: parley.StatusCancelled},
		"called directly, many crashes":       {direct: true, crashes: 4, want: parley.StatusCompleted},
		"called directly, cancelled, crashes": {direct: true, crashes: 4, after: cancel, want: parley.StatusCancelled},
	} {
		for end, reports := range map[string]bool{"": true, ", no report": false} {
			for how, stop := range map[string]func(*enginetest.Rig){
				", kill": (*enginetest.Rig).Kill, ", shutdown": (*enginetest.Rig).Close,
			} {
				t.Run(name+end+how, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						app := clientApp(queued, func(a *parley.App) {
							if tc.auto {
								a.Resume = parley.ResumeAuto
							}
							for i := range a.Tools {
								a.Tools[i].Timeout = parley.Duration(time.Minute)
							}
						})
						service, model := &enginetest.Service{}, mailer("mail")
						r := enginetest.Over(t, mem.New(), service, model, app)
						defer func() { r.Close() }()
						var turn parley.TurnInfo
						if tc.direct {
							var err error
							if turn, err = r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: "test", Name: "mail", Input: json.RawMessage(`{"text":"x"}`)}); err != nil {
								t.Fatal(err)
							}
						} else {
							turn = r.Send(r.Session().ID, "go")
						}
						in := offer(t, r, turn.ID)
						claimed, err := claim(r, in.ID, ownToken)
						if err != nil {
							t.Fatal(err)
						}
						synctest.Wait()
						if tc.before != nil {
							tc.before(t, r, turn)
						}
						for range tc.crashes {
							disk := r.Mem.Clone()
							stop(r)
							synctest.Wait()
							if how == ", shutdown" {
								disk = r.Mem
							}
							r = enginetest.Over(t, disk, service, model, app)
							recovered(t, r)
							time.Sleep(5 * time.Second) // longer than the pause before a resumption
						}
						if tc.after != nil {
							tc.after(t, r, turn)
						}
						want := "mail unknown"
						if reports {
							want = "mail ok"
							if res, err := report(r, in.ID, ownToken, "mailed"); err != nil || res.Output != "mailed" {
								t.Errorf("the report: %+v, %v", res, err)
							}
						}
						synctest.Wait()
						if !reports {
							time.Sleep(time.Until(claimed.Deadline) + time.Second)
							_, err := report(r, in.ID, ownToken, "mailed")
							wantCode(t, "a report after the deadline", err, parley.CodeConflict)
						}
						if row, err := r.Engine.Turn(ctx, enginetest.User, turn.ID); err != nil || row.Status != tc.want {
							t.Errorf("the turn is %s, want %s: %v", row.Status, tc.want, err)
						}
						log := r.Log(turn.SessionID)
						if err := enginetest.CheckLog(log); err != nil {
							t.Error(err)
						}
						if got := enginetest.Outcomes(log)[0]; got != want {
							t.Errorf("got %q, want %q\n%s", got, want, enginetest.Types(log))
						}
						rows, err := r.Engine.Turns(ctx, enginetest.User, seam.TurnQuery{Session: turn.SessionID, Statuses: []parley.TurnStatus{parley.StatusRunning, parley.StatusInterrupted}})
						if err != nil || len(rows) > 0 {
							t.Errorf("left open: %+v, %v", rows, err)
						}
					})
				})
			}
		}
	}
}
