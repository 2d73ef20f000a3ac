package engine

import (
	"bytes"
	"container/list"
	"encoding/json"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

const (
	// maxInputs limits the held inputs in bytes, including their overhead. Beyond it the
	// oldest are dropped.
	maxInputs = 32 << 20
	// maxInputsOf is one user's share, so that nobody pushes out everyone else's: more
	// than a model writes in one reply.
	maxInputsOf = 8 << 20
	// holdInput is how long an input is held for a call that waits for a person.
	holdInput = time.Hour
	// inputCost is roughly the overhead of an entry, in bytes.
	inputCost = 512
)

// inputs holds, in memory only, what must not be in the log: inputs of calls of
// workspace-own tools that redaction changed. An input is held until its call has ended,
// for at most holdInput. It may be gone at any time: then the call is not made and is
// asked for again. Safe for concurrent use.
type inputs struct {
	mu    sync.Mutex
	order list.List // of *heldInput, oldest first
	of    map[parley.SessionID]map[inputKey]*list.Element
	bytes int
	users map[parley.Principal]int // bytes per user
}

// inputKey names the input of a call, or the input that a person edited it to.
type inputKey struct {
	call   parley.CallID
	edited bool
}

type heldInput struct {
	inputKey
	owner   parley.Principal
	session parley.SessionID
	turn    parley.TurnID
	body    json.RawMessage
	since   time.Time
}

func (h *heldInput) size() int { return len(h.body) + inputCost }

// put holds h in place of what was held under its key. It drops inputs that are too large
// or have no body.
func (in *inputs) put(h heldInput) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.remove(in.of[h.session][h.inputKey])
	in.expire(h.since)
	if h.body == nil {
		return
	}
	if in.users[h.owner]+h.size() > maxInputsOf {
		return
	}
	for in.bytes+h.size() > maxInputs {
		in.remove(in.order.Front())
	}
	if in.of == nil {
		in.of, in.users = map[parley.SessionID]map[inputKey]*list.Element{}, map[parley.Principal]int{}
	}
	if in.of[h.session] == nil {
		in.of[h.session] = map[inputKey]*list.Element{}
	}
	in.of[h.session][h.inputKey] = in.order.PushBack(&h)
	in.bytes += h.size()
	in.users[h.owner] += h.size()
}

// get returns what is held, or nil.
func (in *inputs) get(s parley.SessionID, k inputKey, now time.Time) json.RawMessage {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.expire(now)
	if e := in.of[s][k]; e != nil {
		return e.Value.(*heldInput).body
	}
	return nil
}

// drop removes the held inputs of a session for which which returns true.
func (in *inputs) drop(s parley.SessionID, which func(*heldInput) bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, e := range in.of[s] {
		if which(e.Value.(*heldInput)) {
			in.remove(e)
		}
	}
}

// tidy removes inputs that were held for too long.
func (in *inputs) tidy(now time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.expire(now)
}

// expire is tidy with the lock held.
func (in *inputs) expire(now time.Time) {
	for e := in.order.Front(); e != nil && now.Sub(e.Value.(*heldInput).since) > holdInput; e = in.order.Front() {
		in.remove(e)
	}
}

func (in *inputs) remove(e *list.Element) {
	if e == nil {
		return
	}
	h := in.order.Remove(e).(*heldInput)
	in.bytes -= h.size()
	if in.users[h.owner] -= h.size(); in.users[h.owner] == 0 {
		delete(in.users, h.owner)
	}
	if delete(in.of[h.session], h.inputKey); len(in.of[h.session]) == 0 {
		delete(in.of, h.session)
	}
}

// hold keeps what redaction removes from the input of a call, if its tool may have it.
// was is the event before redaction, is the one for the log.
func (s *session) hold(was, is parley.Event) {
	switch is.Type {
	case "tool.requested", "interaction.answered", "turn.queued", "turn.started":
	default:
		return
	}
	if bytes.Equal(was.Data, is.Data) {
		return // the original was lost already
	}
	p, err := is.Payload()
	if err != nil {
		return
	}
	k, tool, _, redacted := s.callIn(p)
	box := s.box()
	if !redacted {
		return
	}
	if d, _ := box.Decl(tool); !d.WorkspaceOwn {
		return
	}
	if p, err = was.Payload(); err != nil {
		return
	}
	_, _, input, _ := s.callIn(p)
	s.e.inputs.put(heldInput{inputKey: k, owner: s.view.Principal(), session: s.id, turn: is.Turn, body: input, since: s.e.now()})
}

// callIn returns the call input that an event contains.
func (s *session) callIn(p parley.Payload) (k inputKey, tool string, input json.RawMessage, redacted bool) {
	var wish *parley.ToolCall
	switch p := p.(type) {
	case parley.ToolRequested:
		return inputKey{call: p.Call}, p.Name, p.Input, p.Redacted
	case parley.InteractionAnswered:
		for _, in := range s.view.Interactions {
			if in.ID == p.ID {
				return inputKey{in.Call, true}, in.Tool, p.Answer.Input, p.Redacted
			}
		}
	case parley.TurnQueued:
		wish = p.Call
	case parley.TurnStarted:
		wish = p.Call
	}
	if wish != nil {
		return inputKey{call: wish.Call}, wish.Name, wish.Input, wish.Redacted
	}
	return inputKey{}, "", nil, false
}

// letGo drops the inputs and credentials that are not needed after the given committed events.
// Those of a write with an unknown outcome stay until the turn ends, because the write may
// still be repeated.
func (s *session) letGo(events []parley.Event) {
	var late []parley.TurnID
	for _, ev := range events {
		switch ev.Type {
		case "turn.queued":
			if p, err := ev.Payload(); err == nil {
				if queued, ok := p.(parley.TurnQueued); ok && queued.Late {
					late = append(late, ev.Turn)
				}
			}
		case "tool.ended":
			if p, err := ev.Payload(); err == nil {
				if ended, ok := p.(parley.ToolEnded); ok && ended.Outcome != parley.OutcomeUnknown {
					s.e.inputs.drop(s.id, func(h *heldInput) bool { return h.call == ended.Call })
				}
			}
		case "turn.completed", "turn.failed", "turn.cancelled", "turn.expired":
			s.e.inputs.drop(s.id, func(h *heldInput) bool { return h.turn == ev.Turn })
			for _, next := range late { // a message that the turn did not read keeps the credentials that came with it
				s.e.credentials.move(s.id, ev.Turn, next, true)
			}
			late = nil
			s.e.credentials.drop(s.id, ev.Turn)
		}
	}
}

// keyOf names the input that a call runs with.
func keyOf(c *parley.Tool) inputKey {
	return inputKey{c.Call, c.Answer != nil && len(c.Answer.Input) > 0}
}

// inputOf returns the input that a call is to run with, or nil if it was redacted and is
// no longer held. own says that its tool may have the original.
func (s *session) inputOf(c *parley.Tool, own bool) json.RawMessage {
	k := keyOf(c)
	input, redacted := c.Input, c.Redacted
	if k.edited && !c.Consumed {
		input, redacted = c.Answer.Input, c.EditCut
	}
	switch {
	case !redacted:
		return input
	case !own:
		return nil
	}
	if held := s.e.inputs.get(s.id, k, s.e.now()); held != nil || s.e.o.RunRedacted == nil || !s.e.o.RunRedacted(*c, input) {
		return held
	}
	return input
}
