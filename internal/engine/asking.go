package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/policy"
	"github.com/parley-server/parley/internal/seam"
)

// asking holds the questions that one attempt of a call asks humans. A call that only reads is
// run again from the beginning once an answer has come. It then asks the same questions again,
// so each question has its own key. The questions are opened after the attempt has returned, so
// that an outage of the store does not use up the tool's time. A call with effects must not run
// twice, so it waits for the answer (see wait).
type asking struct {
	h *host
	d seam.Decision

	mu    sync.Mutex
	keys  map[string]bool
	wants []parley.Interaction // not answered yet
}

// ask implements Ask of [seam.Run]. Credentials that were given but are lost, for example after
// a restart, are asked for again.
func (a *asking) ask(ctx context.Context, in parley.Interaction) (parley.Answer, error) {
	if in.Kind != parley.KindCredential {
		return a.once(ctx, in)
	}
	key := in.AskedAs()
	for n := 0; ; n++ {
		in.Key = fmt.Sprintf("%s#%d", key, n+1)
		answer, err := a.once(ctx, in)
		if err != nil || answer.Choice != parley.ChoiceAnswered {
			return answer, err
		}
		answer.Secrets = parley.Credentials{}
		for _, name := range in.Credentials {
			if v, ok := a.h.s.e.credentials.get(a.h.s.id, a.h.r.turn, name); ok {
				answer.Secrets[name] = v
			}
		}
		if len(answer.Secrets) == len(in.Credentials) {
			return answer, nil
		}
	}
}

func (a *asking) once(ctx context.Context, in parley.Interaction) (parley.Answer, error) {
	answer, err := a.want(&in)
	if a.d.Effect != parley.EffectRead && errors.Is(err, seam.ErrParked) {
		return a.wait(ctx, in)
	}
	return answer, err
}

// want returns the answer to a question. If there is none yet, it notes the question and
// returns ErrParked.
func (a *asking) want(in *parley.Interaction) (parley.Answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	again := a.keys[in.AskedAs()]
	a.keys[in.AskedAs()] = true
	name := a.d.Call.Name
	t := a.h.State().Turn
	switch {
	case in.Kind == parley.KindCredential && (in.Key == "" || len(in.Credentials) == 0):
		return parley.Answer{}, parley.Errorf(parley.CodeInvalid, "%s asks for credentials without a key or without their names", name)
	case in.Kind == parley.KindPermission || in.Kind == parley.KindUnknown || in.Kind == parley.KindClient:
		return parley.Answer{}, parley.Errorf(parley.CodeInvalid, "%s asks for %s, which can be asked about a call but not by it", name, in.Kind)
	case again:
		return parley.Answer{}, parley.Errorf(parley.CodeInvalid, "%s has asked under the key %q already", name, in.AskedAs()).
			WithHint("give each question of a call a key of its own")
	case t == nil: // it was ended, and nobody waits for this attempt
		return parley.Answer{}, errNotHere
	case !policy.Attended(a.h.r.app, t.Request):
		return parley.Answer{Choice: parley.ChoiceDeny, Text: "there is nobody to ask; decide yourself, and say what you assumed"}, nil
	}
	in.Agent, in.Call, in.Tool = a.d.Call.Agent, a.d.Call.Call, name
	if answer, ok := t.AnswerTo(in.Call, in.AskedAs()); ok {
		return answer, nil
	}
	if a.d.Effect == parley.EffectRead {
		a.wants = append(a.wants, *in)
	}
	return parley.Answer{}, seam.ErrParked
}

// wait asks a question and waits for the answer. If the call cannot wait any longer, the
// question is closed, because nobody would read a later answer.
func (a *asking) wait(ctx context.Context, in parley.Interaction) (parley.Answer, error) {
	over := context.WithoutCancel(ctx)
	for {
		answer, err := a.h.Ask(ctx, in)
		if !errors.Is(err, seam.ErrParked) {
			return answer, err
		}
		if err = a.h.waitWhile(ctx, in.Same); err == nil {
			continue
		}
		reason := "nobody answered while the call could wait"
		if ctx.Err() != nil || a.h.r.ctx.Err() != nil {
			reason = "the call was stopped"
		}
		if cerr := a.h.unask(over, in, reason); cerr != nil {
			return parley.Answer{}, cerr
		}
		if ctx.Err() != nil {
			return parley.Answer{}, context.Cause(ctx)
		}
		answer, err = a.h.Ask(over, in) // the interaction is closed: this returns its answer
		if err == nil && answer.Text == "" {
			answer.Text = reason
		}
		return answer, err
	}
}

// unask closes a question that nobody waits for any more, if it is still open.
func (h *host) unask(ctx context.Context, in parley.Interaction, reason string) error {
	return h.lasting(ctx, func() error {
		return h.with(ctx, func(s *session) error {
			at := slices.IndexFunc(s.view.Interactions, in.Same)
			if at < 0 {
				return nil
			}
			open := s.view.Interactions[at]
			return h.commit(ctx, s, parley.NewEvent(open.Turn, open.Agent, parley.InteractionExpired{ID: open.ID, Reason: reason}))
		})
	})
}

// open opens the questions that have no answer. Its error, normally ErrParked, ends the
// attempt: what the tool made of the missing answer is not a result.
func (a *asking) open(ctx context.Context) error {
	a.mu.Lock()
	wants := a.wants
	a.mu.Unlock()
	var parked error
	for _, in := range wants {
		if _, err := a.h.Ask(ctx, in); err != nil && !errors.Is(err, seam.ErrParked) {
			return err
		}
		parked = seam.ErrParked
	}
	return parked
}
