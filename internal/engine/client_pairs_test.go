package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// TestPairs_of_clients is TestPairs for calls that clients run, over each store. A write is offered
// to clients, or a client has claimed it. With which of the two a pair begins depends only on the
// pair.
func TestPairs_of_clients(t *testing.T) {
	eachStore(t, func(t *testing.T, store seam.Store) {
		h := &pairs{t: t, store: store, held: held{gate: make(chan struct{})}, kept: archive.NewFolder(datafolder.New(t.TempDir(), nil)), saw: map[parley.EventType]bool{}}
		h.app = clientApp(queued, func(a *parley.App) {
			for i := range a.Tools {
				a.Tools[i].Timeout = parley.Duration(300 * time.Millisecond) // a claim that nobody reports ends then
			}
			a.Resume, a.MaxOpenTurns = parley.ResumeAuto, 20
			a.TTL = parley.TTL{SessionIdle: parley.Duration(2 * longAgo), TurnSteps: parley.Duration(longAgo)}
		})
		h.moves = slices.Concat(pairMoves, []string{"claim", "report"})
		h.client = &enginetest.Client{Service: &enginetest.Service{}}
		h.start(h.client.Service, h.app)
		for i, first := range h.moves {
			for j, second := range h.moves {
				h.play([]string{"mail one", "mail taken"}[(i+j)%2], first, second)
			}
		}
		h.r.Close()
	})
}

// reports lets the client repeat the reports that the server may not have received.
func (h *pairs) reports() {
	if h.client == nil {
		return
	}
	if err := h.client.Again(ctx, h.r.Engine); code(err) != "" && code(err) != parley.CodeConflict {
		h.t.Errorf("%s: a report: %v", h.what, err)
	}
}
