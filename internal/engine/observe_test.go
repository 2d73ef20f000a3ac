package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// TestObserve: if something changes that a running turn names, the change is recorded in that turn
// and in no other. It is recorded only a few times.
func TestObserve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		slow := func(ctx context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
			select {
			case <-gate:
			case <-ctx.Done():
				return seam.Reply{}, ctx.Err()
			}
			say("done")
			return seam.Reply{}, nil
		}
		r := enginetest.New(t, slow, enginetest.App())
		defer r.Close()
		see := func(app, ref string) {
			r.Engine.Observe(engine.Observation{App: app, Source: "house", Ref: ref, Text: "off → on", At: time.Now().UTC()})
			synctest.Wait()
		}
		about, other := r.Session(), r.Session()
		see("test", "light.kitchen") // no turn runs
		one, two := r.Send(about.ID, "Is light.kitchen on?"), r.Send(other.ID, "Is light.kitchen_2 on?")
		synctest.Wait()
		see("elsewhere", "light.kitchen")
		see("test", "kitchen_2")
		see("test", "light.kitchen")
		for range 100 {
			see("test", "light.kitchen_2")
		}
		close(gate)
		r.Await(one.ID)
		r.Await(two.ID)
		count := func(id parley.SessionID) int {
			n := 0
			for _, ev := range r.Log(id) {
				if ev.Type == "context.observed" {
					n++
				}
			}
			return n
		}
		if diff := cmp.Diff([]int{1, 32}, []int{count(about.ID), count(other.ID)}); diff != "" {
			t.Errorf("noted (-want +got):\n%s", diff)
		}
	})
}
