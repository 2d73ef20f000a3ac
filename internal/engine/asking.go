package engine

import (
	"context"
	"errors"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/policy"
	"github.com/parley-server/parley/internal/seam"
)

// asking holds the questions that one attempt of a call asks humans. Only a call that
// reads may ask. When an answer is there the call starts again from its beginning and
// asks the same questions, so each question has a key of its own. The questions are
// opened when the attempt has returned, so that an outage of the store does not use up
// the tool's time.
type asking struct {
	h *host
	d seam.Decision

	mu    sync.Mutex
	keys  map[string]bool
	wants []parley.Interaction // not answered yet
}

// ask implements Ask of [seam.Run].
func (a *asking) ask(_ context.Context, in parley.Interaction) (parley.Answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	again := a.keys[in.AskedAs()]
	a.keys[in.AskedAs()] = true
	name := a.d.Call.Name
	t := a.h.State().Turn
	switch {
	case a.d.Effect != parley.EffectRead:
		return parley.Answer{}, parley.Errorf(parley.CodeInvalid, "%s has effects, so it cannot stop to ask", name)
	case in.Kind == parley.KindPermission || in.Kind == parley.KindUnknown:
		return parley.Answer{}, parley.Errorf(parley.CodeInvalid, "%s asks for %s, which can be asked about a call but not by it", name, in.Kind)
	case again:
		return parley.Answer{}, parley.Errorf(parley.CodeInvalid, "%s has asked under the key %q already", name, in.AskedAs()).
			WithHint("give each question of a call a key of its own")
	case t == nil: // it was ended, and nobody waits for this attempt
		return parley.Answer{}, errNotHere
	case !policy.Attended(a.h.r.app, t.Request.Origin):
		return parley.Answer{Choice: parley.ChoiceDeny, Text: "there is nobody to ask; decide yourself, and say what you assumed"}, nil
	}
	in.Agent, in.Call, in.Tool = a.d.Call.Agent, a.d.Call.Call, name
	if answer, ok := t.AnswerTo(in.Call, in.AskedAs()); ok {
		return answer, nil
	}
	a.wants = append(a.wants, in)
	return parley.Answer{}, seam.ErrParked
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
