package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// TestTurnOfManyCalls counts the bytes that whole turns allocate. Each turn makes its calls in
// four replies. Ten times as many calls take about ten times as much.
func TestTurnOfManyCalls(t *testing.T) {
	const replies = 4
	cost := func(tool string, calls int) (bytes uint64) {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			model := func(_ context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
				if asked++; asked > replies {
					say("done")
					return seam.Reply{StopReason: "end_turn"}, nil
				}
				r := seam.Reply{StopReason: "tool_use"}
				for i := range calls / replies {
					r.Parts = append(r.Parts, enginetest.Call(tool, map[string]any{"text": fmt.Sprint(asked, i)}))
				}
				return r, nil
			}
			r := enginetest.New(t, model, enginetest.App(func(a *parley.App) { a.Budgets = parley.Budgets{} }))
			defer r.Close()
			s := r.Session()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := r.Engine.Await(ctx, enginetest.User, r.Send(s.ID, "go").ID, time.Hour)
			runtime.ReadMemStats(&after)
			if err != nil || got.Status != parley.StatusCompleted || got.Spent.ToolCalls != calls {
				t.Fatalf("got %s, %d calls, %v, %v", got.Status, got.Spent.ToolCalls, got.Error, err)
			}
			bytes = after.TotalAlloc - before.TotalAlloc
		})
		return bytes
	}
	for _, tool := range []string{"look", "mail"} {
		few, many := cost(tool, 100), cost(tool, 1000)
		t.Logf("%s: %d KiB for 100 calls, %d KiB for 1,000", tool, few>>10, many>>10)
		if many > 15*few {
			t.Errorf("%s: a turn of 100 calls takes %d bytes and one of 1,000 takes %d", tool, few, many)
		}
	}
}
