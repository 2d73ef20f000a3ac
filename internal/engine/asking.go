package engine

import (
	"context"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// asking is what one attempt of a call asks of humans. A call that only reads may
// ask; it is begun anew when an answer is there, and asks the same again from its
// beginning. So each of its questions has a key of its own.
type asking struct {
	h *host
	d seam.Decision

	mu   sync.Mutex
	keys map[string]bool
	err  error // why the attempt ends without a result
}

// ask implements Ask of [seam.Run].
func (a *asking) ask(ctx context.Context, in parley.Interaction) (parley.Answer, error) {
	a.mu.Lock()
	again := a.keys[in.AskedAs()]
	a.keys[in.AskedAs()] = true
	a.mu.Unlock()
	name := a.d.Call.Name
	switch {
	case a.d.Effect != parley.EffectRead:
		return parley.Answer{}, parley.Errorf(parley.CodeInvalid, "%s has effects, so it can not stop to ask", name)
	case in.Kind == parley.KindPermission || in.Kind == parley.KindUnknown:
		return parley.Answer{}, parley.Errorf(parley.CodeInvalid, "%s asks for %s, which is asked about a call and not by it", name, in.Kind)
	case again:
		return parley.Answer{}, parley.Errorf(parley.CodeInvalid, "%s has asked under the key %q already", name, in.AskedAs()).
			WithHint("give each question of a call a key of its own")
	case a.h.r.app.Policy.Unattended || !attended(a.h.State().Turn.Request.Origin):
		return parley.Answer{Choice: parley.ChoiceDeny, Text: "there is nobody to ask; decide yourself, and say what you assumed"}, nil
	}
	in.Agent, in.Call, in.Tool = a.d.Call.Agent, a.d.Call.Call, name
	answer, err := a.h.Ask(ctx, in)
	if err != nil && !isCode(err, parley.CodeInvalid) {
		a.mu.Lock()
		a.err = err
		a.mu.Unlock()
	}
	return answer, err
}

// open is the error with which the attempt ends when a question is open, or could
// not be asked: whatever its tool made of that is no result.
func (a *asking) open() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}
