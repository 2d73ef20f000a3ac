package replay

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// stage replaces the outside world while one turn runs.
type stage struct {
	mu    sync.Mutex
	turn  *turn
	do    func(command)                       // carries a command out; does not wait for its effect
	over  func(recorded []parley.CallID) bool // reports whether the calls have ended in the run
	begun func(parley.CallID) bool            // reports whether the call has started a sub-agent in the run
	// agentOf is the agent in the run that makes a model call.
	agentOf func(parley.CallID) parley.AgentPath
	ask     func(r seam.Request)
	info    func(name string) seam.ModelInfo
	other   seam.Models // answers instead of the recording; may be nil
	app     *parley.App
	ids     *ids

	rewound *parley.SessionRewound            // the recorded rewind that the run makes; nil: none
	changed []parley.CallID                   // the recorded calls that changed files
	inputs  map[parley.CallID]json.RawMessage // of the recorded calls
}

func (s *stage) now() *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn
}

// Model implements seam.Models: every name is a recorded model.
func (s *stage) Model(name string) (seam.Model, error) {
	if s.other != nil {
		m, err := s.other.Model(name)
		if err != nil {
			return nil, err
		}
		return watched{m, s}, nil
	}
	info := s.info(name)
	if t := s.now(); t != nil {
		for _, c := range t.calls {
			if c.model == name && c.window > 0 {
				info.ContextTokens = c.window // it determines how much of the session the model saw
			}
		}
	}
	return recorded{s, info}, nil
}

// Names implements seam.Models.
func (s *stage) Names() []string { return nil }

// watched passes requests to another model and records them.
type watched struct {
	seam.Model
	s *stage
}

func (m watched) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	m.s.ask(r)
	return m.Model.Stream(ctx, r)
}

// recorded replays a recorded call.
type recorded struct {
	s    *stage
	info seam.ModelInfo
}

func (m recorded) Info() seam.ModelInfo { return m.info }

func (m recorded) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		m.s.ask(r)
		c := m.s.next(r.Agent, m.s.agentOf(r.Call))
		if c == nil {
			yield(seam.ModelDelta{}, parley.Errorf(parley.CodeModel, "the recording has no further reply of agent %s in this turn", r.Agent))
			return
		}
		m.s.inTurn(ctx, c)
		for _, cmd := range c.during {
			m.s.do(cmd)
		}
		if c.reply == nil {
			m.fail(ctx, translated(m.s.ids, c.failed), yield)
			return
		}
		reply := translated(m.s.ids, *c.reply)
		for _, p := range reply.Parts {
			d := seam.ModelDelta{}
			switch p.Type {
			case parley.PartText:
				d.Text = p.Text
			case parley.PartThinking:
				d.Thinking = p.Text
			}
			if (d.Text != "" || d.Thinking != "") && !yield(d, nil) {
				return
			}
		}
		parts := slices.Clone(reply.Parts)
		for i := range parts {
			parts[i].Call = ""
		}
		yield(seam.ModelDelta{Reply: &seam.Reply{
			Model: reply.Model, Parts: parts, Usage: reply.Usage, StopReason: reply.StopReason, Warning: reply.Warning, State: reply.State, Citations: reply.Citations,
		}}, nil)
	}
}

// fail ends a call as recorded: a call that was cut off waits to be cut off.
func (m recorded) fail(ctx context.Context, f *parley.ModelFailed, yield func(seam.ModelDelta, error) bool) {
	if f.Partial != "" && !yield(seam.ModelDelta{Text: f.Partial}, nil) {
		return
	}
	if f.Error.Code == parley.CodeCancelled {
		<-ctx.Done()
		yield(seam.ModelDelta{}, ctx.Err())
		return
	}
	if f.Usage.OutputTokens > 0 && !f.Usage.Estimated { // it was cut off for its length
		yield(seam.ModelDelta{Reply: &seam.Reply{
			Model: m.info.Name, Parts: []parley.Part{{Type: parley.PartText, Text: f.Partial}}, Usage: f.Usage, StopReason: "max_tokens",
		}}, nil)
		return
	}
	yield(seam.ModelDelta{}, &parley.Error{Code: f.Error.Code, Message: f.Error.Message, Hint: f.Error.Hint})
}

// next takes the next recorded call of the agent at path. An agent that the recording does not have
// takes those of its definition.
func (s *stage) next(agent string, path parley.AgentPath) *modelCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == nil {
		return nil
	}
	known := s.turn.agents[path] == agent || slices.ContainsFunc(s.turn.calls, func(c *modelCall) bool { return c.agent == agent && c.path == path })
	for _, c := range s.turn.calls {
		if !c.used && c.agent == agent && (c.path == path || !known) {
			c.used = true
			return c
		}
	}
	return nil
}

// take finds a recorded call of the same tool, with the same input if there is one.
func (s *stage) take(name string, input json.RawMessage) *toolCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == nil {
		return nil
	}
	var other *toolCall
	for _, c := range s.turn.tools {
		if c.used || c.name != name || c.ended == nil || c.input == nil {
			continue
		}
		if s.ids.same(c.input, input) {
			c.used = true
			return c
		}
		if other == nil {
			other = c
		}
	}
	if other != nil && s.other == nil {
		other.used = true
		return other
	}
	return nil
}

// ran reports whether the recorded call that again repeats already had its input: it ran,
// or a human was asked about it, and again has no answer yet.
func (s *stage) ran(again parley.Tool, input json.RawMessage) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == nil {
		return false
	}
	for _, c := range s.turn.tools {
		same := c.name == again.Name && (s.ids.same(c.asked, input) || s.ids.same(c.input, input))
		if !same || c.again != "" && c.again != again.Call {
			continue
		}
		c.again = again.Call
		return c.input != nil || again.Answer == nil && slices.ContainsFunc(s.turn.asked, func(q *question) bool {
			return q.Kind == parley.KindPermission && q.Call == c.call
		})
	}
	return false
}

// hadCredential reports whether the recorded call that again repeats had its credentials after
// the given number of answers, that is, whether it stopped asking then.
func (s *stage) hadCredential(again parley.Tool, _ string, answers int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == nil {
		return true
	}
	for _, c := range s.turn.tools {
		if c.name != again.Name || !s.ids.same(c.asked, again.Input) && !s.ids.same(c.input, again.Input) || c.again != "" && c.again != again.Call {
			continue
		}
		c.again = again.Call
		times := 0
		for _, q := range s.turn.asked {
			if q.Kind == parley.KindCredential && q.Call == c.call {
				times++
			}
		}
		return answers >= times
	}
	return true
}

// Tools implements seam.Toolset: those of the app.
func (s *stage) Tools(context.Context) ([]parley.ToolDecl, error) { return s.app.Tools, nil }

var errLost = errors.New("the recorded call has no outcome that is known")

// again asks the same again.
func (a *asking) again(ctx context.Context, r seam.Run, x *ids) error {
	if a.sampling != nil && r.Sample != nil {
		if _, err := r.Sample(ctx, translated(x, *a.sampling)); errors.Is(err, seam.ErrParked) {
			return err
		}
		return nil // what came of it is in the result
	}
	if a.question == nil {
		return nil
	}
	in := translated(x, a.question.Interaction)
	in.ID, in.Session, in.Turn = "", "", ""
	_, err := r.Ask(ctx, in)
	return err
}

// Run implements seam.Toolset.
func (s *stage) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	c := s.take(r.Name, r.Input)
	if c == nil {
		return parley.ToolResult{}, seam.NotSent(parley.Errorf(parley.CodeTool, "the recording has no result of this call"))
	}
	// Names that are derived from the call, such as a file's, must use the id that it has now.
	s.ids.learn(c.call, r.Call)
	for _, a := range c.asks {
		if err := a.again(ctx, r, s.ids); err != nil {
			s.mu.Lock()
			c.used = false // it is made again when the answer is there
			s.mu.Unlock()
			return parley.ToolResult{}, err
		}
	}
	if c.cut {
		s.mu.Lock()
		c.here = true
		s.mu.Unlock()
		s.stop(ctx, c)
		<-ctx.Done()
		return parley.ToolResult{}, ctx.Err()
	}
	for _, cmd := range c.during {
		s.do(cmd)
	}
	switch c.ended.Outcome {
	case parley.OutcomeOK, parley.OutcomeError:
		res := translated(s.ids, c.ended.ToolResult)
		res.Call, res.Artifact, res.Mode = r.Call, nil, c.mode
		return res, nil
	case parley.OutcomeCancelled:
		<-ctx.Done()
		return parley.ToolResult{}, ctx.Err()
	}
	return parley.ToolResult{}, errLost
}

// Reaches implements seam.Reacher: what was recorded of the same call.
func (s *stage) Reaches(tool string, input json.RawMessage) ([]string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == nil {
		return nil, false
	}
	for _, q := range s.turn.asked {
		if q.Tool == tool && len(q.Reaches) > 0 && s.ids.same(q.Input, input) {
			return q.Reaches, true
		}
	}
	for _, c := range s.turn.tools {
		if c.name == tool && len(c.reaches) > 0 && s.ids.same(c.input, input) {
			return c.reaches, true
		}
	}
	return nil, false
}

// EffectOf implements seam.Effecter: what was recorded of the same call. Only a call that ran has
// one; another was at most asked for, as a write is.
func (s *stage) EffectOf(tool string, input json.RawMessage) parley.Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		for _, c := range s.turn.tools {
			if c.name == tool && c.effect != "" && s.ids.same(c.input, input) {
				return c.effect
			}
		}
	}
	return parley.EffectWrite
}

// Words implements seam.Worder: the recorded words for the same call.
func (s *stage) Words(tool string, input json.RawMessage) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rewound != nil {
		return s.wordsFor(tool, input)
	}
	if s.turn == nil {
		return ""
	}
	for _, q := range s.turn.asked {
		if q.Kind == parley.KindPermission && q.Tool == tool && q.Detail != "" && s.ids.same(q.Input, input) {
			return strings.TrimSuffix(q.Title, "?")
		}
	}
	return ""
}

// Zone implements seam.Zoned: the recorded zone, even if that was none.
func (s *stage) Zone(time.Time) (parley.Zone, bool) {
	if t := s.now(); t != nil && t.started.Zone != nil {
		return *t.started.Zone, true
	}
	return parley.Zone{}, true
}

// Attached implements seam.Attacher: what was attached then.
func (s *stage) Attached(context.Context, []parley.EntityRef) []parley.AttachedEntity {
	if t := s.now(); t != nil {
		return t.entities
	}
	return nil
}

// Retrieve implements seam.Retriever.
func (s *stage) Retrieve(context.Context, parley.Principal, string, []string, int) ([]parley.Snippet, error) {
	if t := s.now(); t != nil {
		return t.snippets, nil
	}
	return nil, nil
}
