package homeassistant

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Reconciles implements [seam.Choosy].
func (t *Toolset) Reconciles(tool string) bool { return tool == CallService }

// Reconcile implements seam.Reconciler: from the states, it finds out whether a service call
// took effect whose answer was lost. That is possible for services that set a state.
//
// It answers yes if the state became as asked after the call and nobody else can have done it:
// the state's context names the user of our token and no other cause, such as an automation, and
// no other call of this server reached the entity meanwhile. It answers no if the state is
// different once the call has had time to arrive. Otherwise the outcome is not known, also if
// the state was already as asked before the call.
//
// Home Assistant chooses a call's context and names it in the answer, which was lost. So another
// program with the same token cannot be told from us, and neither can calls of a session that
// has been deleted since. The house's clock is compared with ours: if it runs ahead, a change by
// one of those shortly before the call may be taken for the call's.
func (t *Toolset) Reconcile(ctx context.Context, r seam.Run) (res parley.ToolResult, known bool, err error) {
	if r.Name != CallService {
		return res, false, nil
	}
	var in callInput
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return res, false, fmt.Errorf("input: %w", err)
	}
	if err := t.index.ready(ctx); err != nil {
		return res, false, err
	}
	c, err := t.check(in)
	if err != nil || len(c.entities) == 0 || len(c.entities) > maxLive {
		return res, false, nil // the house has changed since, or its states cannot be read
	}
	us, err := t.whoWeAre(ctx)
	if err != nil {
		return res, false, err
	}
	began := r.Started
	if began.IsZero() {
		return res, false, nil
	}
	late := t.o.lateness
	if at, ok := t.recent.when(r.Call); ok {
		late = max(0, late-time.Since(at))
	}
	states, yes, sure, err := t.tookEffect(ctx, c, began, us)
	if err != nil {
		return res, false, err
	}
	if sure && !yes && late > 0 { // it may still be on its way
		timer := time.NewTimer(late)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return res, false, nil
		}
		if states, yes, sure, err = t.tookEffect(ctx, c, began, us); err != nil {
			return res, false, err
		}
	}
	if !sure {
		return res, false, nil
	}
	if yes {
		if anotherReached(ctx, r, c) {
			return res, false, nil
		}
		out := callAnswer{Service: c.in.Service, Entities: t.found(c, states), found: true}
		res, err = answer{out.text(), out, out.about()}.result(r.Call)
		return res, err == nil, err
	}
	e := parley.ErrorInfo{Code: parley.CodeTool, Message: c.in.Service + " did not take effect: the connection to Home Assistant was lost before it arrived", Hint: "it can be called again"}
	return parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeError, Output: e.Message + "\n" + e.Hint, Error: &e}, true, nil
}

// whoWeAre returns the id of the user of our token.
func (t *Toolset) whoWeAre(ctx context.Context) (string, error) {
	var user struct {
		ID string `json:"id"`
	}
	if err := t.client.ask(ctx, "auth/current_user", nil, &user); err != nil {
		return "", err
	}
	if user.ID == "" {
		return "", parley.Errorf(parley.CodeTool, "Home Assistant does not say whose token this is")
	}
	return user.ID, nil
}

// anotherReached reports whether another call of this server may have acted on the same entities
// as r.
func anotherReached(ctx context.Context, r seam.Run, c checked) bool {
	if r.Others == nil {
		return true
	}
	others, known := r.Others(ctx)
	return !known || slices.ContainsFunc(others, func(o seam.Other) bool {
		return len(o.Reaches) == 0 || slices.ContainsFunc(o.Reaches, func(id string) bool { return slices.Contains(c.reached, id) })
	})
}

// tookEffect looks at all entities, each once. yes means that each became as asked, by a call of
// the user us. sure is false if only some did, or if nothing can be said.
func (t *Toolset) tookEffect(ctx context.Context, c checked, began time.Time, us string) (states []wireState, yes, sure bool, err error) {
	did, didNot := 0, 0
	for _, e := range c.entities {
		var s wireState
		if err := t.client.get(ctx, "states/"+e.ID, nil, &s); err != nil {
			return nil, false, false, err
		}
		states = append(states, s)
		ok, known := c.asked(&s)
		switch {
		case !known, unknown(s.State) && !ok:
			return nil, false, false, nil
		case ok && s.Updated.Before(began):
			return nil, false, false, nil // it was already so before the call, so it proves nothing
		case ok && (s.Context.User != us || s.Context.Parent != ""):
			return nil, false, false, nil // somebody else did it, or it is not known who
		case ok:
			did++
		case s.Updated.Before(began):
			didNot++ // untouched since before the call
		default: // it changed to something else since: not known
			return nil, false, false, nil
		}
	}
	return states, did > 0 && didNot == 0, did == 0 || didNot == 0, nil
}

// found returns the effects of a reconciled call, from the states that show it. The earlier
// states are no longer known.
func (t *Toolset) found(c checked, states []wireState) []effect {
	out := make([]effect, 0, len(states))
	for i, e := range c.entities {
		f := effect{ID: e.ID, Name: e.Name}
		t.became(&f, c, &states[i])
		out = append(out, f)
	}
	return out
}

// recent remembers when calls began, so that Reconcile knows how long ago one may have been
// sent. It holds few, and forgets those that ended.
type recent struct {
	mu sync.Mutex
	at map[parley.CallID]time.Time
}

const maxRecent = 1000

func (r *recent) began(c parley.CallID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil || len(r.at) >= maxRecent {
		r.at = map[parley.CallID]time.Time{}
	}
	r.at[c] = time.Now()
}

func (r *recent) ended(c parley.CallID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.at, c)
}

func (r *recent) when(c parley.CallID) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.at[c]
	return t, ok
}
