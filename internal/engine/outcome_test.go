package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// TestOutcomesTravel: what a call that only reads, or that has a key, has brought is appended with the
// next model call, and the outcome of a write at once. A server that dies before the outcome of a call with a key is
// appended makes the call again with that key.
func TestOutcomesTravel(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]string{
		"look": "turn.started agent.started model.started | model.replied tool.requested tool.started tool.ended model.started | model.replied turn.completed",
		"put":  "turn.started agent.started model.started | model.replied tool.requested tool.started | tool.ended model.started | model.replied turn.completed",
		"mail": "turn.started agent.started model.started | model.replied tool.requested tool.started | tool.ended | model.started | model.replied turn.completed",
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				app := enginetest.App(func(a *parley.App) { a.Resume, a.Policy.Unattended = parley.ResumeAuto, true })
				keys := map[parley.CallID]int{}
				service := &enginetest.Service{}
				service.SetGate(func(_ context.Context, r seam.Run) error { keys[r.Call]++; return nil })
				r := enginetest.New(t, mailer(tool), app, enginetest.With(service))
				s := r.Session()
				var appends []string
				var left *mem.Store // the disk as it was before the outcome
				r.Mem.SetFaults(mem.Faults{Before: func(c mem.Call) error {
					var types []string
					for _, ev := range c.Batch.Events {
						types = append(types, string(ev.Type))
						if ev.Type == "tool.ended" && tool == "put" {
							left = r.Mem.Clone()
						}
					}
					if len(types) > 0 {
						appends = append(appends, strings.Join(types, " "))
					}
					return nil
				}})
				turn := r.Send(s.ID, "go")
				r.Await(turn.ID)
				if diff := cmp.Diff(want, strings.Join(appends, " | ")); diff != "" {
					t.Errorf("appends (-want +got):\n%s", diff)
				}
				r.Close()
				if tool != "put" {
					return
				}
				r = enginetest.Over(t, left, service, mailer(tool), app, enginetest.With(service))
				defer r.Close()
				if _, err := r.Engine.Recover(ctx); err != nil {
					t.Fatal(err)
				}
				if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
					t.Errorf("after the crash the turn is %s: %v", got.Status, got.Error)
				}
				log := r.Log(s.ID)
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
				if got := enginetest.Outcomes(log); got[0] != "put ok" || len(keys) != 1 {
					t.Errorf("got %v with %d keys", got, len(keys))
				}
				for key, made := range keys {
					if made != 2 {
						t.Errorf("the call %s was made %d times", key, made)
					}
				}
			})
		})
	}
}
