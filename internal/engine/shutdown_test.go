package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// almanac has one tool, which answers after some time.
type almanac struct {
	takes  time.Duration
	effect parley.Effect
	calls  atomic.Int64
}

func (a *almanac) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{Name: "look", Effect: a.effect, Timeout: parley.Duration(time.Hour), InputSchema: json.RawMessage(`{"type":"object"}`)}}, nil
}

func (a *almanac) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	a.calls.Add(1)
	select {
	case <-time.After(a.takes):
		return parley.ToolResult{Output: "it rains"}, nil
	case <-ctx.Done():
		return parley.ToolResult{}, context.Cause(ctx)
	}
}

// TestShutdownInARead: a server that is stopped without waiting leaves a read as a crash would. The
// model never hears that the read was cancelled, because the next start makes the read again.
func TestShutdownInARead(t *testing.T) {
	t.Parallel()
	for name, times := range map[string]int{"once": 1, "twice": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := &almanac{takes: 15 * time.Second, effect: parley.EffectRead}
				model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
					if got := enginetest.Results(r); len(got) > 0 {
						say(got[0])
						return seam.Reply{StopReason: "end_turn"}, nil
					}
					return seam.Reply{Parts: []parley.Part{enginetest.Call("look", map[string]string{})}, StopReason: "tool_use"}, nil
				}
				app := withTool(a, "look", func(a *parley.App) { a.Resume = parley.ResumeAuto })
				r := enginetest.New(t, model, app, enginetest.With(a))
				s := r.Session()
				turn := r.Send(s.ID, "what does the sky do?")
				for range times {
					time.Sleep(10 * time.Second)
					now, stop := context.WithCancel(t.Context())
					stop()
					_ = r.Engine.Close(now) // it returns an error, since it had no time to end its turns
					_ = r.Writer.Close(t.Context())
					r = enginetest.Over(t, r.Mem, r.Service, model, app, enginetest.With(a))
					if _, err := r.Engine.Recover(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				defer r.Close()
				if end := r.Await(turn.ID); end.Status != parley.StatusCompleted || end.Response.Message != "it rains" {
					t.Errorf("the turn is %s: %+v, %v", end.Status, end.Response, end.Error)
				}
				if n := a.calls.Load(); n != int64(times+1) {
					t.Errorf("the tool was called %d times", n)
				}
				if got := enginetest.Outcomes(r.Log(s.ID)); !slices.Equal(got, []string{"look ok", "completed: it rains"}) {
					t.Errorf("the log has %v", got)
				}
			})
		})
	}
}
