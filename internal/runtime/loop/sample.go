package loop

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// maxSamples is how many servers get replies of models at once in a turn. The next is
// refused: if it waited, so would the deadline of its call.
const maxSamples = 4

// sample makes a model call for a server, in a call of a tool. It draws on the budgets of the
// turn, but is no step of it. It is not repeated when it fails: the server may ask again.
func (f *flight) sample(ctx context.Context, c parley.ToolCall, q parley.Sampling) (parley.Sampled, error) {
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	st, reserved, err := f.beginSample(own, c, q)
	if err != nil {
		return parley.Sampled{}, err
	}
	reply, serr := st.run(own, cancel)
	event := func(p parley.Payload) parley.Event { return parley.NewEvent(st.delta.Turn, st.delta.Agent, p) }
	if reply == nil {
		lost := parley.ModelFailed{Call: st.call, Usage: reserved, Error: parley.Info(serr)}
		lost.Usage.Estimated = true
		if ctx.Err() != nil {
			lost.Error = cutOff(ctx)
		} else if refused(serr) && st.fragments == 0 {
			lost.Usage = parley.Usage{}
		}
		if err := keep(ctx, f.host, event(lost)); err != nil {
			return parley.Sampled{}, err
		}
		return parley.Sampled{}, serr
	}
	done := replied(reply, st.call, st.model.Info(), f.host.NewCall)
	done.TTFTMS, done.TookMS = st.ttft.Milliseconds(), st.took.Milliseconds()
	done.State, done.Citations = nil, nil
	done.Parts = slices.DeleteFunc(done.Parts, func(p parley.Part) bool { // it was given no tools; what it asks for is not done
		return p.Type != parley.PartText && p.Type != parley.PartThinking
	})
	// Committed before the server has it: a call that is made again gets the same.
	if err := keep(ctx, f.host, event(done)); err != nil {
		return parley.Sampled{}, err
	}
	if t := f.host.State().Turn; t != nil {
		if got, ok := t.SampledFor(q.Call, q.Key); ok { // as the log has it, without secrets
			return got, nil
		}
	}
	return parley.Sampled{}, parley.Errorf(parley.CodeConflict, "the call that asked has ended")
}

// beginSample commits the start of a call.
func (f *flight) beginSample(ctx context.Context, c parley.ToolCall, q parley.Sampling) (*stream, parley.Usage, error) {
	h, none := f.host, parley.Usage{}
	select {
	case f.pool <- struct{}{}:
		defer func() { <-f.pool }()
	case <-ctx.Done():
		return nil, none, context.Cause(ctx)
	}
	s := h.State()
	t := s.Turn
	if t == nil || t.ID != h.Turn() {
		return nil, none, parley.Errorf(parley.CodeConflict, "the turn has ended")
	}
	at := 0
	for _, open := range t.Calls {
		if open.Agent.OfSampling() {
			at++
		}
	}
	if at >= maxSamples {
		return nil, none, parley.Errorf(parley.CodeUnavailable, "%d servers have the model reply to them just now", at).WithHint("ask again in a while")
	}
	name := f.sampleModel(s, c, q.Hints)
	m, err := f.models.Model(name)
	if err != nil {
		return nil, none, err
	}
	info := m.Info()
	req := seam.Request{Model: name, Agent: parley.SamplingAgent, Session: s.ID, Call: h.NewCall(), System: q.System}
	var th thread
	for _, msg := range q.Messages {
		th.add(msg.Role, msg.Parts...)
	}
	req.Messages = th
	input := ratioOf(info).of(tokens(len(req.System)) + messageTokens(req.Messages))
	window, output := windowOf(info), q.MaxTokens
	if info.MaxOutputTokens > 0 {
		output = min(output, info.MaxOutputTokens)
	}
	if output = min(output, window-input); output <= 0 {
		return nil, none, parley.Errorf(parley.CodeTooLarge, "what is asked does not fit %s: about %d of %d tokens", name, input, window)
	}
	output, bound, over := fit(t, info, input, output, min(output, leastOutput))
	if over {
		return nil, none, budgetError(bound)
	}
	req.MaxTokens = output
	reserved := parley.Usage{InputTokens: input, OutputTokens: output}
	reserved.USD = atMost(info, reserved)
	of := c.Agent
	if of == "" { // a call without an agent
		of = parley.AgentPath(f.given.app.Entry)
	}
	path := of.Sampling(q.Server)
	if err := h.Emit(ctx, parley.NewEvent(t.ID, path, parley.ModelStarted{
		Call: req.Call, Model: name, Context: digest(req), Reserved: reserved, Window: window, For: &q,
	})); err != nil {
		return nil, none, err
	}
	return &stream{
		host: quiet{h}, model: m, call: req.Call, name: name, say: m.Stream(ctx, req), opt: f.opt, delta: parley.Delta{Session: s.ID, Turn: t.ID, Agent: path, Call: req.Call},
	}, reserved, nil
}

// sampleModel is the model that replies to a server: the first of the app's that fits a hint, or
// else the one of the agent whose call it is.
func (f *flight) sampleModel(s *parley.Session, c parley.ToolCall, hints []string) string {
	app := f.given.app
	a := s.Turn.Agent(c.Agent)
	if a == nil {
		a = &parley.Agent{Name: app.Entry}
	}
	own, _ := f.given.modelNames(s, a, app.Agents[a.Name])
	if app.Policy.Narrowed(s.Policy).FixedModel {
		return own
	}
	names := append([]string{own, app.Model}, app.Fallbacks...)
	for _, agent := range slices.Sorted(maps.Keys(app.Agents)) {
		def := app.Agents[agent]
		names = append(append(names, def.Model), def.Fallbacks...)
	}
	for _, hint := range hints {
		for _, name := range names {
			if _, err := f.given.model(name); name != "" && hint != "" && err == nil && !slices.Contains(a.GivenUp, name) && strings.Contains(strings.ToLower(name), strings.ToLower(hint)) {
				return name
			}
		}
	}
	return own
}
