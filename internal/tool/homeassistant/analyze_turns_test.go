package homeassistant_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/tool/homeassistant"
)

// A user with too many waiting queries gets an error that says what to do.
func TestAnalyze_refuses_who_asks_too_much(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.live()
	ctx, stop := context.WithCancel(t.Context())
	leave, err := r.tools.EnterAnalyze(ctx, parley.Principal{})
	if err != nil {
		t.Fatal(err)
	}
	var queue sync.WaitGroup
	full := make(chan error, homeassistant.MaxQueued+1)
	for range homeassistant.MaxQueued + 1 { // one of them is refused: then the queue is full
		queue.Go(func() {
			leave, err := r.tools.EnterAnalyze(ctx, parley.Principal{})
			if full <- err; err == nil {
				leave()
			}
		})
	}
	if err := <-full; !errors.Is(err, fair.ErrFull) {
		t.Errorf("one too many: %v", err)
	}
	r.refused("ha_analyze", m{"sql": "SELECT 1"}, parley.CodeBusy, "of your queries are already waiting", "ask again")
	stop()
	queue.Wait()
	leave()
	r.ok("ha_analyze", m{"sql": "SELECT 1"})
}
