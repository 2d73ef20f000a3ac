package engine

import (
	"context"
	"slices"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Wait waits until nothing is asked about a call any more. It holds no lock meanwhile.
func (h *host) Wait(ctx context.Context, call parley.CallID) error {
	for {
		changed, park, err := h.asking(ctx, call)
		if err != nil || changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-park:
			return seam.ErrParked
		case <-h.s.e.open.Done():
			return seam.ErrParked
		case <-h.r.ctx.Done():
			return context.Cause(h.r.ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// asking returns a channel that is closed when the session changes, or nil if nothing is
// asked about the call; and the one that is closed when the run has to park, or nil while
// the turn has something else to do.
func (h *host) asking(ctx context.Context, call parley.CallID) (changed, park <-chan struct{}, err error) {
	err = h.lasting(ctx, func() error {
		return h.with(ctx, func(s *session) error {
			changed = nil
			if slices.ContainsFunc(s.view.Interactions, func(in parley.Interaction) bool { return in.Call == call }) {
				changed, park = s.changed, h.r.park
			}
			return nil
		})
	})
	return changed, park, err
}

// pace lets the clock of a run stand while its turn waits for a human, and makes the run
// park when that takes too long. It is called after each commit, with the lock held.
func (s *session) pace() {
	r, t := s.run, s.view.Turn
	if r == nil || t == nil || t.ID != r.turn {
		return
	}
	switch waits := t.Status == parley.StatusWaiting; {
	case waits && r.idle == nil:
		r.stopTimers()
		park := make(chan struct{})
		r.park = park
		r.idle = time.AfterFunc(s.e.o.Patience, func() { close(park) })
	case !waits && r.idle != nil:
		r.idle.Stop()
		r.idle, r.park = nil, nil
		if r.budget != nil {
			r.budget.Reset(max(0, r.limit-t.Ran(s.e.now())))
		}
	}
}

func (r *run) stopTimers() {
	for _, t := range []*time.Timer{r.budget, r.idle} {
		if t != nil {
			t.Stop()
		}
	}
}
