package engine

import (
	"context"
	"slices"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Wait waits until no interaction about the call is open. It does not hold the lock while it
// waits.
func (h *host) Wait(ctx context.Context, call parley.CallID) error {
	return h.waitWhile(ctx, func(in parley.Interaction) bool { return in.Call == call })
}

// waitWhile waits while something is open that is asked.
func (h *host) waitWhile(ctx context.Context, asked func(parley.Interaction) bool) error {
	for {
		changed, park, err := h.asking(ctx, asked)
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

// asking returns two channels. changed is closed when the session changes; it is nil if no
// open interaction is one of those asked. park is closed when the run must park; it is nil while
// the turn has other work to do.
func (h *host) asking(ctx context.Context, asked func(parley.Interaction) bool) (changed, park <-chan struct{}, err error) {
	err = h.lasting(ctx, func() error {
		return h.with(ctx, func(s *session) error {
			changed = nil
			if slices.ContainsFunc(s.view.Interactions, asked) {
				changed, park = s.changed, h.r.park
			}
			return nil
		})
	})
	return changed, park, err
}

// pace stops the clock of a run while its turn waits for a human, and makes the run park when
// that takes longer than Patience. It is called after each commit, with the lock held.
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
