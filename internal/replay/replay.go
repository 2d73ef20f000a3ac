// Package replay runs a session again from its log: the same commands, the recorded
// replies of its models and results of its tools, the real engine and loop, and a store in
// memory. It contacts nothing outside.
//
// If log and app are complete, the replay has the same events, apart from ids, times and
// what chance brought (interruptions, repeated attempts, the order of parallel reads and of
// sub-agents that work at once: each is compared by itself).
// [Compare] finds the first difference between two logs. With another model, prompt or
// policy, the tools still answer as recorded, which shows how the same questions would
// have been answered.
//
// It cannot reproduce a turn that timed out, or what was condensed. It has no artifacts, so another
// model does not see the images of messages and results. A recording that ends
// in a running turn is compared up to its end.
package replay

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/parley-server/parley"
)

// Recording is a session to run again.
type Recording struct {
	Events []parley.Event
	Apps   map[parley.Digest]parley.App // that its turns began with
}

// New makes a recording of a log, and of the blobs that it refers to.
func New(events []parley.Event, blobs map[parley.Digest][]byte) (*Recording, error) {
	r := &Recording{Events: events, Apps: map[parley.Digest]parley.App{}}
	for _, ev := range events {
		p, err := ev.Payload()
		if err != nil {
			return nil, parley.Errorf(parley.CodeOf(err), "event %d cannot be run again: %w", ev.Seq, err)
		}
		started, ok := p.(parley.TurnStarted)
		if !ok || r.Apps[started.App].Name != "" {
			continue
		}
		body, ok := blobs[started.App]
		if !ok {
			return nil, parley.Errorf(parley.CodeInvalid, "the recording lacks the app that the turn of event %d began with", ev.Seq).
				WithHint("export the session again; a file of an older version may lack it")
		}
		var app parley.App
		if err := json.Unmarshal(body, &app); err != nil {
			return nil, parley.Errorf(parley.CodeInvalid, "the app that the turn of event %d began with cannot be read: %w", ev.Seq, err)
		}
		r.Apps[started.App] = app
	}
	if len(r.Apps) == 0 {
		return nil, parley.Errorf(parley.CodeInvalid, "the session has no turns to run again")
	}
	return r, nil
}

// Agents are the names of the agents of all its apps, sorted.
func (r *Recording) Agents() []string {
	all := map[string]bool{}
	for _, app := range r.Apps {
		for name := range app.Agents {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// A turn of the recording.
type turn struct {
	id       parley.TurnID
	started  parley.TurnStarted
	calls    []*modelCall
	tools    []*toolCall
	asked    []*question
	hooks    []parley.HookRan // decisions of the engine's hooks about calls
	heard    []*hearing       // answers of the engine's hooks about everything else
	snippets []parley.Snippet
	entities []parley.AttachedEntity
	agents   map[parley.AgentPath]string // the names of their definitions
	began    []*toolCall                 // calls that started sub-agents, in the order in which these started
	end      parley.Payload              // nil: it was still open
	steers   int
	mode     *parley.PermissionMode // that the call which ends next has set
}

// modelCall is a call of a model and what came of it.
type modelCall struct {
	agent  string // the definition's name
	path   parley.AgentPath
	ended  int64 // the event's number; 0: it has not ended
	model  string
	window int64 // of the model; 0: it was not recorded
	reply  *parley.ModelReplied
	failed *parley.ModelFailed
	during []command // that came while it was under way
	used   bool
	told   bool // its outcome has been given to the run
}

// toolCall is a call of a tool and what came of it.
type toolCall struct {
	call   parley.CallID
	name   string
	agent  parley.AgentPath
	asked  json.RawMessage // as it was requested
	input  json.RawMessage // that ran
	ended  *parley.ToolEnded
	during []command
	used   bool
	again  parley.CallID         // what repeats it, where that has to be known
	cut    bool                  // the cancel of the turn ended it, before or after it started
	mode   parley.PermissionMode // that the session had from its end on
	here   bool                  // it has come in the run as far as in the recording

	asks    []*asking // of the call itself, in order
	reaches []string
	effect  parley.Effect        // as it was begun; empty: it was not
	claim   parley.InteractionID // the last one, of a call that clients ran
}

// question is an interaction and its answer, nil when nobody answered in time.
type question struct {
	parley.Interaction
	answer *parley.Answer
	// instead is a message that was sent in place of an answer. Without parts, none was.
	instead parley.Message
	expired bool
	given   bool // the run has asked it, too
}

// asking is what a call asked a human or a model, or both.
type asking struct {
	key      string
	question *question
	sampling *parley.Sampling
}

// asks is what the call asked under a key.
func (c *toolCall) asksAs(key string) *asking {
	for _, a := range c.asks {
		if a.key == key {
			return a
		}
	}
	a := &asking{key: key}
	c.asks = append(c.asks, a)
	return a
}

// command is what somebody did to a running turn.
type command struct {
	steer  parley.Message
	cancel bool
	reason string
}

// read takes the recording's turns apart.
func (r *Recording) read() map[parley.TurnID]*turn {
	turns := map[parley.TurnID]*turn{}
	calls := map[parley.CallID]*modelCall{}
	tools := map[parley.CallID]*toolCall{}
	questions := map[parley.InteractionID]*question{}
	names := map[parley.TurnID]map[parley.AgentPath]string{}
	for _, ev := range r.Events {
		p, err := ev.Payload()
		if err != nil {
			continue // New has looked
		}
		t := turns[ev.Turn]
		if s, ok := p.(parley.TurnStarted); ok {
			names[ev.Turn] = map[parley.AgentPath]string{}
			turns[ev.Turn] = &turn{id: ev.Turn, started: s, agents: names[ev.Turn]}
			continue
		}
		if t == nil {
			continue
		}
		doing := func(c command) {
			open := false
			for _, m := range t.calls {
				if m.reply == nil && m.failed == nil {
					m.during, open = append(m.during, c), true
				}
			}
			for _, tc := range t.tools {
				if tc.ended == nil && tc.input != nil && !open {
					tc.during, open = append(tc.during, c), true
				}
			}
		}
		switch p := p.(type) {
		case parley.AgentStarted:
			names[ev.Turn][ev.Agent] = p.Name
			if tc := tools[p.Call]; tc != nil {
				t.began = append(t.began, tc)
			}
		case parley.AgentHandoff:
			names[ev.Turn][p.To] = p.Name
		case parley.ModelStarted:
			c := &modelCall{agent: names[ev.Turn][ev.Agent], path: ev.Agent, model: p.Model, window: p.Window}
			if p.For != nil {
				c.agent = parley.SamplingAgent
				if tc := tools[p.For.Call]; tc != nil {
					tc.asksAs(p.For.Key).sampling = p.For
				}
			}
			calls[p.Call] = c
			t.calls = append(t.calls, c)
		case parley.ModelReplied:
			if c := calls[p.Call]; c != nil {
				c.reply, c.ended = &p, ev.Seq
			}
		case parley.ModelFailed:
			if c := calls[p.Call]; c != nil {
				c.failed, c.ended = &p, ev.Seq
			}
		case parley.ToolRequested:
			tc := &toolCall{call: p.Call, name: p.Name, agent: ev.Agent, asked: p.Input}
			tools[p.Call] = tc
			t.tools = append(t.tools, tc)
		case parley.ToolStarted:
			if tc := tools[p.Call]; tc != nil {
				tc.input, tc.reaches, tc.effect = p.Input, p.Reaches, p.Effect
				if p.Claim != nil {
					tc.claim = p.Claim.Interaction
				}
			}
		case parley.SessionUpdated:
			t.mode = p.Mode
		case parley.ToolEnded:
			if tc := tools[p.Call]; tc != nil {
				if tc.ended = &p; t.mode != nil {
					tc.mode = *t.mode
				}
			}
			t.mode = nil
		case parley.HookRan:
			if p.From != "" && p.Call != "" {
				t.hooks = append(t.hooks, p)
			} else if p.From != "" {
				t.hear(ev.Agent, p)
			}
		case parley.ContextRetrieved:
			t.snippets, t.entities = p.Snippets, p.Entities
		case parley.InteractionOpened:
			q := &question{Interaction: p.Interaction}
			questions[p.ID] = q
			t.asked = append(t.asked, q)
			if tc := tools[p.Call]; tc != nil && p.Kind != parley.KindCredential && (p.Key != "" || p.Kind == parley.KindQuestion) {
				tc.asksAs(p.AskedAs()).question = q
			}
		case parley.InteractionAnswered:
			if q := questions[p.ID]; q != nil {
				q.answer = &p.Answer
			}
		case parley.InteractionExpired:
			if q := questions[p.ID]; q != nil {
				q.expired = p.Reason != "the turn ended"
			}
		case parley.TurnSteered:
			t.steers++
			if q := lastAnswered(t); q != nil {
				q.instead = p.Message
				break
			}
			doing(command{steer: p.Message})
		case parley.TurnStopRequested:
			doing(command{cancel: true, reason: p.Reason})
		case parley.TurnCancelled:
			if t.end == nil {
				for _, m := range t.calls {
					if m.failed != nil && m.failed.Error.Code == parley.CodeCancelled && m.during == nil {
						m.during = append(m.during, command{cancel: true, reason: p.Reason})
					}
				}
				t.cutOff(p.Reason)
			}
			t.end = p
		case parley.TurnCompleted, parley.TurnFailed, parley.TurnExpired:
			t.end = p
		}
	}
	for _, t := range turns {
		// A call that an interruption cut off was made again under another id.
		t.calls = slices.DeleteFunc(t.calls, func(c *modelCall) bool {
			return c.reply == nil && (c.failed == nil || c.failed.Error.Code == "interrupted")
		})
	}
	return turns
}

// cutOff finds the calls that the cancel of a turn cut off, where nothing else tells when it came:
// the run cancels the turn when they are as far as they were. A turn that waited for a human is
// cancelled when it waits.
func (t *turn) cutOff(reason string) {
	if slices.ContainsFunc(t.asked, func(q *question) bool { return q.answer == nil && !q.expired }) {
		return
	}
	for _, m := range t.calls {
		if m.during != nil && m.reply == nil {
			return
		}
	}
	for _, c := range t.tools {
		if slices.ContainsFunc(c.during, func(d command) bool { return d.cancel }) {
			return
		}
	}
	for _, c := range t.tools {
		asked := slices.ContainsFunc(t.asked, func(q *question) bool { return q.Call == c.call })
		if c.ended == nil || asked || c.claim != "" {
			continue
		}
		if o := c.ended.Outcome; o == parley.OutcomeCancelled || o == parley.OutcomeUnknown {
			c.cut = true
			c.during = append(c.during, command{cancel: true, reason: reason})
		}
	}
}

// lastAnswered is the question that a message was sent in place of an answer to:
// it is declined in the words of the message.
func lastAnswered(t *turn) *question {
	for _, q := range slices.Backward(t.asked) {
		if q.answer != nil && q.instead.Parts == nil && q.answer.Text != "" && (q.answer.Choice == parley.ChoiceDeny || q.answer.Choice == parley.ChoiceLeave) {
			return q
		}
		return nil
	}
	return nil
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return strings.TrimSpace(string(raw))
	}
	return b.String()
}
