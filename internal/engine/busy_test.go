package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestBusyHintNamesWhatCanBeDone: the hint of a busy error mentions a mode only to callers who
// can choose it, and the queue only if it has room.
func TestBusyHintNamesWhatCanBeDone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		app  []func(*parley.App)
		send parley.Send
		want bool
	}{
		"one turn at a time":       {nil, parley.Send{}, false},
		"a queue":                  {[]func(*parley.App){queued}, parley.Send{}, true},
		"a queue, by another door": {[]func(*parley.App){queued}, parley.Send{Fixed: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &held{gate: make(chan struct{})}
			r := enginetest.New(t, h.model, enginetest.App(c.app...))
			defer close(h.gate)
			s := r.Session()
			say(t, r, s.ID, "long one", "")
			c.send.Message, c.send.Busy = "two", parley.BusyReject
			_, err := r.Engine.Send(ctx, enginetest.User, s.ID, c.send)
			e, ok := errors.AsType[*parley.Error](err)
			if !ok || e.Code != parley.CodeBusy || strings.Contains(e.Hint, "busy=enqueue") != c.want || c.send.Fixed && strings.Contains(e.Hint, "busy=") {
				t.Errorf("got %v", err)
			} else {
				t.Log(e.Hint)
			}
		})
	}
}
