package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/parley-server/parley"
)

// What waits in one session is part of its fold until the turn has ended. So it is held
// in memory and in every stored state.

// maxSteers limits the messages for one turn's next step.
const maxSteers = 32

// maxWaiting limits the bytes of queued messages, and of messages given to a turn while
// it ran: four of the longest.
func (e *Engine) maxWaiting() int { return 4 * cmp.Or(e.o.Limits.MaxMessage, parley.MaxMessage) }

// roomToSteer refuses a message for the running turn if that was given enough already.
func (s *session) roomToSteer(c asked, m parley.Message) error {
	t := s.view.Turn
	n := len(t.Steers)
	for _, a := range t.Agents {
		n += len(a.Steers)
	}
	if n >= maxSteers {
		return parley.Errorf(parley.CodeBusy, "%d messages are already waiting for the next step of this turn", n).
			WithHint("wait until the agent has read them, or cancel the turn").WithRetry(2 * time.Second)
	}
	bytes := weight(m)
	for _, waits := range t.Steers {
		bytes += weight(waits)
	}
	for _, a := range t.Agents {
		for _, item := range append(slices.Clip(a.Steers), a.Items...) {
			if item.Kind == parley.ItemSteer {
				bytes += weight(parley.Message{Parts: item.Parts})
			}
		}
	}
	if maxWaiting := s.e.maxWaiting(); bytes > maxWaiting {
		return tooLong("what this turn was told while it ran", maxWaiting, "bytes").WithField("message").
			WithHint("send it when turn %s has ended%s", t.ID, s.orSend(c, "busy=enqueue"))
	}
	return nil
}

// roomInQueue refuses another turn if enough are queued.
func (s *session) roomInQueue(r parley.TurnRequest) error {
	bytes := weight(r.Message) + offeredSize(r.Tools)
	for _, q := range s.view.Queue {
		bytes += weight(q.Request.Message) + offeredSize(q.Request.Tools)
	}
	if maxWaiting := s.e.maxWaiting(); bytes > maxWaiting {
		return parley.Errorf(parley.CodeBusy, "the messages that wait in this session would have more than %d bytes", maxWaiting).
			WithField("message").WithHint("wait for one of its %d open turns to end, or send less", s.view.OpenTurns()).WithRetry(2 * time.Second)
	}
	return nil
}

// weight is roughly the size of a message in bytes.
func weight(m parley.Message) (bytes int) {
	for _, p := range m.Parts {
		bytes += 64 + len(p.Text) + len(p.URI) + len(p.Title)
	}
	return bytes
}
