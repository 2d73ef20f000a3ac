package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// beginner is a runtime that can begin turns by itself.
type beginner struct {
	seam.Runtime
	start func(context.Context, parley.SessionID, seam.OwnTurn) (parley.TurnID, error)
}

func (b *beginner) Starts(start func(context.Context, parley.SessionID, seam.OwnTurn) (parley.TurnID, error)) {
	b.start = start
}

// TestPairs_of_own_turns is TestPairs with a runtime that begins turns by itself: the turn with
// which a pair begins, or one beside it, or both. Which of them, and with which message, depends
// only on the pair. Stores other than the one in memory are tested with a third of the pairs.
func TestPairs_of_own_turns(t *testing.T) {
	eachStore(t, func(t *testing.T, store seam.Store) {
		h := &pairs{t: t, store: store, held: held{gate: make(chan struct{})}, kept: archive.NewFolder(datafolder.New(t.TempDir(), nil)), saw: map[parley.EventType]bool{}}
		h.app = enginetest.App(asking, queued, func(a *parley.App) {
			a.Resume, a.MaxOpenTurns = parley.ResumeAuto, 5
			a.TTL = parley.TTL{SessionIdle: parley.Duration(2 * longAgo), TurnSteps: parley.Duration(longAgo)}
		})
		h.change = func(o *engine.Options) {
			h.own = &beginner{Runtime: o.Runtimes["loop"]}
			o.Runtimes["loop"] = h.own
		}
		h.moves = slices.Concat([]string{"own", "own again", "owns"}, pairMoves)
		h.start(&enginetest.Service{}, h.app)
		_, all := store.(*mem.Store)
		for i, first := range h.moves {
			for j, second := range h.moves {
				if !all && (i+2*j)%3 > 0 {
					continue
				}
				h.begins = (i+j)%3 > 0 || i > 2 && j > 2 // otherwise a user's turn begins the pair
				h.play([]string{"long one", "mail one"}[(i+j)%2], first, second)
			}
		}
		h.r.Close()
	})
}

// beginOwn has the runtime begin a turn, and checks the session afterwards.
func (h *pairs) beginOwn(message string) (parley.TurnID, error) {
	before := h.state()
	id, err := h.own.start(ctx, h.id, seam.OwnTurn{Message: message, Key: message})
	if err != nil {
		return id, err
	}
	if h.acks[id] == "" {
		h.acks[id] = message
	}
	row, err := h.r.Engine.Turn(ctx, enginetest.User, id)
	if err != nil || row.Origin != parley.OriginRuntime {
		h.t.Errorf("%s: the runtime has begun %+v, %v", h.what, row, err)
	}
	now := h.state()
	if before.Held && before.Turn == nil && (!now.Held || now.Turn != nil) {
		h.t.Errorf("%s: the runtime has released a held queue\n%s", h.what, enginetest.Types(h.r.Log(h.id)))
	}
	return id, nil
}

// doOwn is one move of the runtime.
func (h *pairs) doOwn(move string) error {
	switch move {
	case "own":
		h.n++
		_, err := h.beginOwn(fmt.Sprint("own ", h.n))
		return err
	case "own again": // as a program does that has not received the answer
		h.n++
		message := fmt.Sprint("own ", h.n)
		id, err := h.beginOwn(message)
		if err != nil {
			return err
		}
		if again, err := h.own.start(ctx, h.id, seam.OwnTurn{Message: message, Key: message}); err != nil || again != id {
			h.t.Errorf("%s: the same again is %s, %v, not %s", h.what, again, err, id)
		}
		return nil
	case "owns": // more than the session allows
		for range h.app.MaxOpenTurns + 1 {
			h.n++
			if _, err := h.beginOwn(fmt.Sprint("long own ", h.n)); err != nil {
				return err
			}
		}
		if open := h.state().OpenTurns(); open > h.app.MaxOpenTurns {
			h.t.Errorf("%s: %d turns are open\n%s", h.what, open, enginetest.Types(h.r.Log(h.id)))
		}
		return nil
	}
	h.t.Fatalf("there is no move %q", move)
	return nil
}
