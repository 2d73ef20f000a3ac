package engine

import (
	"context"
	"errors"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/policy"
	"github.com/parley-server/parley/internal/seam"
)

// asking is what one attempt of a call asks of humans. A call that only reads may
// ask; it is begun anew when an answer is there, and asks the same again from its
// beginning. So each of its questions has a key of its own. They are opened when the
// attempt has come back: the tool's time does not count while the store is away.
type asking struct {
	h *host
	d seam.Decision

	mu    sync.Mutex
	keys  map[string]bool
	wants []parley.Interaction // without an answer yet
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
		return parley.Answer{}, parley.Errorf(parley.CodeInvalid, "%s has effects, so it can not stop to ask", name)
	case in.Kind == parley.KindPermission || in.Kind == parley.KindUnknown:
		return parley.Answer{}, parley.Errorf(parley.CodeInvalid, "%s asks for %s, which is asked about a call and not by it", name, in.Kind)
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

// open opens what was asked without an answer. Its error is the end of the attempt then,
// ErrParked as a rule: whatever its tool made of that is no result.
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
