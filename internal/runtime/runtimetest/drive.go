package runtimetest

import (
	"context"
	"errors"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Restart returns a host that goes on with log as after a crash: model calls
// without an end are closed, and a turn that ran is interrupted and resumed. A
// turn that waits for a human just waits.
func Restart(tb testing.TB, w *World, app *parley.App, log []parley.Event) *Host {
	h := newHost(tb, w, app)
	for _, e := range log {
		h.must(h.state.Apply(e.WithData(e.Data)))
	}
	h.log = append(h.log, log...)
	if t := h.state.Turn; t != nil && t.Status == parley.StatusRunning {
		for _, c := range t.Calls {
			u := c.Reserved
			u.Estimated = true
			h.stage(parley.NewEvent(h.turn, c.Agent, parley.ModelFailed{
				Call: c.Call, Usage: u, Error: parley.ErrorInfo{Code: parley.CodeUnavailable, Message: "the server stopped"},
			}))
		}
		h.stage(parley.NewEvent(h.turn, "", parley.TurnInterrupted{Reason: "crash"}))
		h.stage(parley.NewEvent(h.turn, "", parley.TurnResumed{Attempt: t.Attempts + 1, Auto: true}))
	}
	return h
}

// Drive runs the turn to its end, answering what is asked of a human. It returns
// ErrCrashed when the host did.
func (h *Host) Drive(ctx context.Context, rt seam.Runtime) error {
	for h.State().Turn != nil {
		e, err := rt.Run(ctx, h)
		switch {
		case errors.Is(err, seam.ErrParked):
			s := h.State()
			if len(s.Interactions) == 0 {
				h.tb.Errorf("Run returned ErrParked, and nothing is asked")
				return err
			}
			for _, in := range s.Interactions {
				if err := h.Answer(in, h.world.Choice(in)); err != nil {
					return err
				}
			}
		case errors.Is(err, ErrCrashed):
			return err
		default:
			if err := h.finish(ctx, e, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish closes the turn in one append with what is staged.
func (h *Host) finish(ctx context.Context, e seam.Ending, err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if terr := h.take(e.Events); terr != nil {
		return terr
	}
	t := h.state.Turn
	for _, c := range t.Tools.All() {
		if c.Status == parley.ToolIsStarted && c.Effect == parley.EffectWrite {
			h.tb.Errorf("the turn ends while the write %s has no outcome", c.Call)
		}
	}
	if len(t.Calls) > 0 && ctx.Err() == nil {
		h.tb.Errorf("the turn ends while the model calls %v are open", t.Calls)
	}
	var last parley.Payload
	switch {
	case ctx.Err() != nil:
		last = parley.TurnCancelled{Reason: context.Cause(ctx).Error(), Response: &e.Response, Usage: t.Spent.Usage}
	case err != nil:
		last = parley.TurnFailed{Error: parley.Info(err), Response: &e.Response, Usage: t.Spent.Usage}
	case e.Failed != nil:
		last = parley.TurnFailed{Error: parley.Info(e.Failed), Response: &e.Response, Usage: t.Spent.Usage}
	default:
		last = parley.TurnCompleted{Response: e.Response, Usage: t.Spent.Usage}
	}
	h.stage(parley.NewEvent(h.turn, "", last))
	return h.commit()
}
