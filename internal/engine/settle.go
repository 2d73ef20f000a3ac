package engine

import (
	"context"
	"errors"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

// settleLate is how long after its deadline a new owner of the turn must assume that a started
// write may still take effect. It covers a toolset's grace period and clock differences.
const settleLate = 5 * time.Second

// Settle determines the outcome of a started write whose owner is gone, for example after
// a crash. Until its deadline and settleLate have passed the write counts as running: the
// owner may only have lost the session, and its request may still be on the way. If the
// service can be asked and says yes, that ends the wait at once; a no, or no answer,
// counts only afterwards. Like a running call, this is not cut when somebody stops the
// turn, nor by the turn's time budget; the turn ends after it. It holds no lock.
func (h *host) Settle(ctx context.Context, call parley.CallID) error {
	if err := h.toAsk(ctx, call); err != nil {
		return err
	}
	ctx, done := h.outlasting(ctx)
	defer done()
	for first := true; ; first = false {
		t := h.State().Turn
		if t == nil {
			return errNotHere
		}
		c := t.Tool(call)
		if c == nil || c.Status != parley.ToolIsStarted {
			return nil
		}
		if c.Run == parley.RunClient {
			if err := h.reported(ctx, call); err != nil {
				return err
			}
			return h.unreported(ctx, call)
		}
		if first { // turn.resumed is committed before it waits or asks
			if err := h.lasting(ctx, func() error {
				return h.step(ctx, func(s *session) error { return h.commit(ctx, s) })
			}); err != nil {
				return err
			}
		}
		left := c.Deadline.Add(settleLate).Sub(h.Now())
		over := left <= 0 || h.over(t, c) // before it is asked: what ends meanwhile is asked about again
		res := h.asked(ctx, t, c)
		if over || res.Outcome == parley.OutcomeOK {
			err := h.end(ctx, toolbox.Result{ToolResult: res})
			if t := h.State().Turn; err != nil && t != nil && t.Tool(call) != nil && t.Tool(call).Status == parley.ToolIsEnded {
				return nil // the call itself has said meanwhile how it ended
			}
			return err
		}
		if err := h.s.e.rest(ctx, left); err != nil {
			return err
		}
	}
}

// over reports whether a started write of an earlier owner can no longer take effect.
func (h *host) over(t *parley.Turn, c *parley.Tool) bool {
	if h.s.e.o.NothingRuns || !h.s.e.o.Alone {
		return h.s.e.o.NothingRuns
	}
	_, missing := h.declared(t, c)
	return missing == "" && h.r.box.Over(c.Name, c.Call)
}

// outlasting returns ctx without cancellation by a person or by the time budget. It is still
// cancelled when the server stops, which leaves the call to the next owner, and when this
// process loses the session.
func (h *host) outlasting(ctx context.Context) (context.Context, func()) {
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	ends := func(cause error) {
		_, wasStopped := errors.AsType[*stopped](cause)
		_, wasSlow := errors.AsType[*outOfTime](cause)
		if !wasStopped && !wasSlow && !errors.Is(cause, seam.ErrNotNeeded) {
			cancel(cause)
		}
	}
	unhook := context.AfterFunc(ctx, func() { ends(context.Cause(ctx)) })
	unrun := context.AfterFunc(h.r.ctx, func() { ends(context.Cause(h.r.ctx)) })
	leave := context.AfterFunc(h.s.e.open, func() { cancel(errShutdown) })
	return out, func() {
		unhook()
		unrun()
		leave()
		cancel(nil)
	}
}

// asked returns what is now known about a started write: the service's answer if it can be
// asked, otherwise unknown.
func (h *host) asked(ctx context.Context, t *parley.Turn, c *parley.Tool) parley.ToolResult {
	if res, known, _ := h.ask(ctx, t, c); known {
		return res
	}
	res := unknownResult(c.Call)
	if _, missing := h.declared(t, c); missing != "" {
		res.Output += " " + missing
	}
	return res
}

// ask asks the service for the outcome of a started write. known is false if the service does
// not know or cannot be asked. An error may be temporary.
func (h *host) ask(ctx context.Context, t *parley.Turn, c *parley.Tool) (res parley.ToolResult, known bool, err error) {
	box := h.r.box
	decl, missing := h.declared(t, c)
	// A service is asked about the original input, or not at all.
	input := h.s.inputOf(c, decl.WorkspaceOwn)
	if missing != "" || input == nil || !box.CanReconcile(c.Name) {
		return res, false, nil
	}
	d := seam.Decision{Call: parley.ToolCall{Call: c.Call, Agent: c.Agent, Name: c.Name, Input: input}, Effect: c.Effect, Attempt: c.Attempt, Started: c.StartedAt}
	ctx, cancel := context.WithTimeout(ctx, defaultTimeout)
	defer cancel()
	run := h.runOf(d)
	space := h.r.tools.Workspace()
	run.Workspace = space.Open
	defer space.Close()
	run.Others = func(ctx context.Context) ([]seam.Other, bool) {
		calls, known, err := h.s.e.others(ctx, c)
		if err != nil {
			h.s.e.o.Logger.Warn("other calls of a tool could not be read", "session", h.s.id, "call", c.Call, "err", err)
		}
		return calls, known && err == nil
	}
	res, known, err = box.Reconcile(ctx, run)
	if err != nil {
		why, _ := run.Redact(err.Error())
		h.s.e.o.Logger.Warn("the outcome of a write could not be determined", "session", h.s.id, "call", c.Call, "err", why)
	}
	res.Call = c.Call
	return res, known && err == nil, err
}
