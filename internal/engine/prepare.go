package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/policy"
	"github.com/parley-server/parley/internal/seam"
)

// Some calls first need something that only a human can do, such as a login. The human is asked
// before the call begins. So the turn can wait as it does for a permission: through restarts, and
// with nothing in memory. To find out what is missing, an outside service may have to be asked;
// that is done without the session's lock.

// errPrepare says that the toolset has to be asked whether the call can be made.
var errPrepare = errors.New("the tool is to be asked what its call needs")

// readiness is what a toolset says about a call.
type readiness struct {
	known bool
	needs *parley.Interaction // nil: nothing
	wrong error
}

// prepare asks the toolset whether a call can be made.
func (h *host) prepare(ctx context.Context, call parley.CallID) (readiness, error) {
	r := seam.Run{
		Call: call, Principal: h.r.owner, Session: h.s.id, App: h.r.app.Name, Space: h.r.tools.Space(), Hide: h.hide, Progress: func(string) {}, Hints: h.hints(),
	}
	if t := h.State().Turn; t != nil && t.Tool(call) != nil {
		r.Name, r.Input = t.Tool(call).Name, t.Tool(call).Input
	}
	decl, _ := h.r.box.Decl(r.Name)
	r.Credential = h.credential(decl)
	needs, err := h.r.box.Prepare(ctx, r)
	if ctx.Err() != nil {
		return readiness{}, context.Cause(ctx)
	}
	return readiness{known: true, needs: needs, wrong: err}, nil
}

const (
	// maxPrepared is how often a human is asked the same for one call.
	maxPrepared = 3
	notPrepared = "The user did not do what this call needs first"
)

// prepareKey is the key of the nth time that a human is asked to prepare a call.
func prepareKey(n int) string { return fmt.Sprintf("prepare#%d", n+1) }

// prepared makes sure that a human has done what a call needs. It returns [seam.ErrParked] while
// the human is being asked, and errPrepare if it is not known what the call needs. refusal tells
// the model why the call is not made.
func (h *host) prepared(ctx context.Context, s *session, c *parley.Tool, decl parley.ToolDecl, ready readiness) (refusal string, err error) {
	switch {
	case !h.r.box.Prepares(c.Name):
		return "", nil
	case !ready.known:
		return "", errPrepare
	case ready.wrong != nil:
		info := parley.Info(ready.wrong)
		return "The call was not made: " + sentence(info.Message, info.Hint), nil
	case ready.needs == nil:
		return "", nil
	case ready.needs.Kind == parley.KindCredential: // those that the turn has are no longer valid
		for _, name := range ready.needs.Credentials {
			s.e.credentials.forget(s.id, h.r.turn, name)
		}
		return h.provided(ctx, s, c, decl)
	}
	n := 0
	for {
		answer, ok := s.view.Turn.AnswerTo(c.Call, prepareKey(n))
		if !ok {
			break
		}
		if n++; answer.Choice != parley.ChoiceAnswered {
			return sentence(notPrepared, answer.Text), nil
		}
	}
	switch {
	case n == maxPrepared:
		return notPrepared + fmt.Sprintf(": they were asked %d times.", n), nil
	case !policy.Attended(h.r.app, s.view.Turn.Request):
		return "This call needs something that only a person can do, and there is nobody to ask: " + ready.needs.Title + ". The call was not made.", nil
	}
	for _, in := range s.view.Interactions {
		if in.Call == c.Call && in.Key == prepareKey(n) {
			return "", seam.ErrParked
		}
	}
	in := *ready.needs
	in.Agent, in.Call, in.Key, in.Tool = c.Agent, c.Call, prepareKey(n), c.Name
	in.Choices = []string{parley.ChoiceAnswered, parley.ChoiceDeny}
	if err := h.commit(ctx, s, s.opening(h.r.app, in)); err != nil {
		return "", err
	}
	return "", seam.ErrParked
}

// hide is Hide of [seam.Run].
func (h *host) hide(values ...string) error {
	return h.s.e.credentials.conceal(h.r.owner, h.s.id, h.r.turn, values, h.s.e.now())
}
