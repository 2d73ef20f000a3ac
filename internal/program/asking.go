package program

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tui"
)

// asking is an interaction shown to the person at the terminal.
type asking struct {
	in     parley.Interaction
	sent   atomic.Bool // their answer is being sent, or was accepted
	cancel context.CancelCauseFunc
	done   chan error
}

// outcome receives how the asking ended; on nil it never receives.
func (a *asking) outcome() <-chan error {
	if a == nil {
		return nil
	}
	return a.done
}

// gone ends the asking because there is nothing left to answer.
type gone struct{ why string }

func (g *gone) Error() string { return g.why }

// opened adds what event seq asks, unless it was answered already.
func (r *runner) opened(ctx context.Context, seq int64, in parley.Interaction) error {
	i := slices.Index(r.open, in.ID)
	switch {
	case i >= 0:
		r.open = slices.Delete(r.open, i, i+1)
	case seq <= r.asked:
		return nil
	}
	if in.Kind == parley.KindClient { // nobody is asked; it is followed like a call that runs
		if err := r.endBlock(); err != nil {
			return err
		}
		r.note("  %s", tui.Plain(in.Title)+"; until one does, the turn waits")
		return nil
	}
	if in.ID == r.first {
		r.waiting = slices.Insert(r.waiting, 0, in)
	} else {
		r.waiting = append(r.waiting, in)
	}
	if len(r.open) > 0 {
		return nil
	}
	return r.next(ctx)
}

// next shows the first open interaction to the person, if none is shown. If nobody can be
// asked, it returns an error that says how to answer.
func (r *runner) next(ctx context.Context) error {
	if r.asking != nil || len(r.waiting) == 0 {
		return nil
	}
	if err := r.endBlock(); err != nil {
		return err
	}
	in := r.waiting[0]
	if r.json || !r.t.CanAsk {
		return r.waits(in)
	}
	if !tui.Knows(in.Kind) {
		for _, line := range tui.Details(in) {
			r.note("  %s", line)
		}
		return r.waits(in)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	a := &asking{in: in, cancel: cancel, done: make(chan error, 1)}
	r.asking = a
	go func() {
		defer cancel(nil)
		a.done <- r.put(ctx, a)
	}()
	return nil
}

// put asks until the server accepts an answer.
func (r *runner) put(ctx context.Context, a *asking) error {
	for {
		answer, err := r.t.Ask(ctx, a.in)
		if err != nil {
			return err
		}
		a.sent.Store(true)
		_, err = r.l.telling(func(err error) {
			if err != nil {
				r.t.Refused(parley.Errorf(parley.CodeUnavailable, "The server does not answer; trying again."))
			}
		}).AnswerWith(ctx, a.in.ID, answer)
		switch parley.CodeOf(err) {
		case parley.CodeInvalid, parley.CodeTooLarge, parley.CodeForbidden:
			a.sent.Store(false)
			r.t.Refused(err)
			continue
		}
		return err
	}
}

// handled by answered
func (r *runner) answered(ctx context.Context, err error) error {
	in := r.asking.in
	r.asking = nil
	var left *gone
	switch {
	case errors.As(err, &left):
		r.away(left)
	case errors.Is(err, tui.ErrLeft):
		return r.waits(in)
	case parley.CodeOf(err) == parley.CodeConflict, parley.CodeOf(err) == parley.CodeNotFound:
		r.t.Refused(err) // somebody else answered first, or it expired
	case err != nil:
		return err
	}
	r.drop(in.ID)
	for _, line := range r.held {
		r.note("%s", line)
	}
	r.held = nil
	return r.next(ctx)
}

// away tells the person why a question is no longer shown.
func (r *runner) away(g *gone) {
	if g.why != "" {
		r.note("\n  %s", tui.Plain(g.why))
	}
}

// closed removes an interaction that somebody else has answered, or that has expired. If
// it is shown to the person, it is dismissed with a reason.
func (r *runner) closed(ctx context.Context, id parley.InteractionID, why func(parley.Interaction) string) error {
	if a := r.asking; a != nil && a.in.ID == id {
		if !a.sent.Load() {
			a.cancel(&gone{why(a.in)})
		}
		return nil // answered goes on
	}
	r.drop(id)
	return nil
}

// dismiss removes what is shown to the person, and waits for that.
func (r *runner) dismiss(why *gone) {
	if r.asking == nil {
		return
	}
	r.asking.cancel(why)
	var left *gone
	if errors.As(<-r.asking.done, &left) && !r.asking.sent.Load() {
		r.away(left)
	}
	r.asking = nil
}

// waits is the error of a turn that waits for an answer which cannot be given here.
func (r *runner) waits(in parley.Interaction) error {
	return &exitError{exitWaits, parley.Errorf(parley.CodeConflict, "the turn waits for an answer: %s", tui.Plain(in.Title)).
		WithHint("%s", r.howTo(in))}
}

// howTo says which command answers an interaction.
func (r *runner) howTo(in parley.Interaction) string {
	how := r.answerWith + " " + string(in.ID)
	if in.Kind == parley.KindQuestion {
		for range in.Questions {
			how += " ANSWER"
		}
	} else {
		how += " CHOICE"
	}
	return how + "\n  " + tui.Forms(in)
}
