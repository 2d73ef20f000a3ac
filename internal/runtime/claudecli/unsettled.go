package claudecli

import (
	"context"
	"errors"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// settle determines the outcome of writes that an earlier owner of the turn had started, and asks
// about those that nobody knows of.
func (t *turn) settle(ctx context.Context) error {
	now := t.h.State().Turn
	for _, c := range now.Tools.Open() {
		if c.Status == parley.ToolIsStarted && c.Effect != parley.EffectRead {
			if err := t.h.Settle(ctx, c.Call); err != nil {
				return err
			}
		}
	}
	now = t.h.State().Turn
	if now == nil {
		return errGone
	}
	for _, c := range now.Tools.Open() {
		if c.HookDue {
			if err := t.h.Hear(ctx, c.Call); err != nil {
				return err
			}
		}
		if c.Outcome != parley.OutcomeUnknown || c.Resolution != "" || ctx.Err() != nil {
			continue
		}
		if _, err := t.ask(ctx, parley.Interaction{
			Agent: c.Agent, Kind: parley.KindUnknown, Call: c.Call, Tool: c.Name, Input: c.Input, Title: "Did " + c.Name + " take effect?",
			Choices: []string{parley.ChoiceHappened, parley.ChoiceDidNot, parley.ChoiceAgain, parley.ChoiceLeave},
		}); err != nil {
			return err
		}
	}
	return nil
}

// ask asks a human and waits for the answer.
func (t *turn) ask(ctx context.Context, in parley.Interaction) (parley.Answer, error) {
	a, err := t.h.Ask(ctx, in)
	for errors.Is(err, seam.ErrParked) {
		if err = t.h.Wait(ctx, in.Call); err != nil {
			return a, err
		}
		a, err = t.h.Ask(ctx, in)
	}
	return a, err
}

// lost gives an outcome to what was under way when the CLI ended and the next one cannot go on with.
func (t *turn) lost(ctx context.Context, why string) error {
	made := make(chan struct{})
	t.rt.work.Go(func() { t.making.Wait(); close(made) })
	select { // calls of our tools have been told to stop, and say themselves how they ended
	case <-made:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	now := t.h.State().Turn
	if now == nil {
		return errGone
	}
	t.note(now.Active, parley.RuntimeNoted{Kind: "restarted", Text: why})
	for _, c := range now.Calls {
		u := c.Reserved
		u.Estimated = true
		if err := t.h.Stage(t.event(c.Agent, parley.ModelFailed{
			Call: c.Call, Usage: u, Retry: true, Error: parley.ErrorInfo{Code: parley.CodeUnavailable, Message: "the Claude CLI has ended"},
		})); err != nil {
			return err
		}
	}
	for _, c := range now.Tools.Open() {
		// What was only asked for, or only reads, is made by the next process. A call of ours was not cut off.
		if c.Status != parley.ToolIsStarted || c.Effect == parley.EffectRead || nativeIn(t.app, c.Name) == nil {
			continue
		}
		r := parley.ToolResult{Call: c.Call, Outcome: parley.OutcomeUnknown, Output: "The Claude CLI ended while it made the call. It is not known whether it took effect."}
		if err := t.h.End(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

const (
	notMade       = "The call was not made: "
	stoppedByUser = "the user stopped the turn"
)

// lostCalls ends the calls of a turn of the CLI that got no result.
func (t *turn) lostCalls(why string) {
	now := t.h.State().Turn
	if now == nil {
		return
	}
	for _, c := range now.Tools.Open() {
		if c.Status == parley.ToolIsEnded {
			continue
		}
		r := parley.ToolResult{Call: c.Call, Outcome: parley.OutcomeCancelled, Output: notMade + why + "."}
		if c.Status == parley.ToolIsStarted && c.Effect != parley.EffectRead {
			r.Outcome, r.Output = parley.OutcomeUnknown, "The call was cut off: "+why+". It is not known how far it came."
		}
		_ = t.h.End(context.WithoutCancel(t.ctx), r) // it has ended meanwhile
	}
}
