package replay

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/parley-server/parley"
)

// Sub-agents work at once, so chance decides which of them comes first. The run keeps to the
// recording there: sub-agents of one agent start in the recorded order, which gives them the same
// paths, and models reply in the recorded order. A run that differs from its recording waits for
// nobody longer than abreast.

// wait waits until ready reports true. It gives up after abreast.
func wait(ctx context.Context, ready func() bool) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(abreast)
	for !ready() {
		select {
		case <-ctx.Done():
			return
		case <-late:
			return
		case <-tick.C:
		}
	}
}

// abreast limits the wait for other calls of a turn. In a run that is like its recording they
// begin at once, and their results are there.
const abreast = 2 * time.Second

// inTurn waits until the model calls that ended before c in the recording have ended.
func (s *stage) inTurn(ctx context.Context, c *modelCall) {
	s.mu.Lock()
	t := s.turn
	s.mu.Unlock()
	if len(t.began) > 0 {
		wait(ctx, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return !slices.ContainsFunc(t.calls, func(o *modelCall) bool { return !o.told && o.ended != 0 && o.ended < c.ended })
		})
	}
	s.mu.Lock()
	c.told = true
	s.mu.Unlock()
}

// behind waits until the sub-agents that the same agent started before a call have started.
func (s *stage) behind(ctx context.Context, name string, input json.RawMessage, now parley.CallID) {
	s.mu.Lock()
	t := s.turn
	var before *toolCall
	for _, c := range t.began {
		if c.name == name && s.ids.same(c.asked, input) && (c.again == "" || c.again == now) {
			c.again = now
			for _, o := range t.began[:slices.Index(t.began, c)] {
				if o.agent == c.agent {
					before = o
				}
			}
			break
		}
	}
	s.mu.Unlock()
	if before == nil {
		return
	}
	wait(ctx, func() bool {
		s.mu.Lock()
		id := before.again
		s.mu.Unlock()
		return id != "" && s.begun(id)
	})
}

// begun reports whether a call has started a sub-agent.
func (r *runner) begun(call parley.CallID) bool {
	s, err := r.engine.State(context.Background(), r.who, r.id)
	return err != nil || s.Turn == nil || s.Turn.Sub(call) != nil
}

// agentOf is the agent that makes a model call, or empty.
func (r *runner) agentOf(call parley.CallID) parley.AgentPath {
	s, err := r.engine.State(context.Background(), r.who, r.id)
	if err != nil || s.Turn == nil {
		return ""
	}
	for _, c := range s.Turn.Calls {
		if c.Call == call {
			return c.Agent
		}
	}
	return ""
}
