package engine

import (
	"cmp"
	"time"

	"github.com/parley-server/parley"
)

// What waits in one session is in its fold, so in memory and in every stored
// state, until the turn has ended.

// maxSteers bounds the messages for one turn's next step.
const maxSteers = 32

// maxWaiting bounds the bytes of messages that are queued, and of those that a
// turn was given while it ran: four of the longest.
func (e *Engine) maxWaiting() int { return 4 * cmp.Or(e.o.Limits.MaxMessage, parley.MaxMessage) }

// roomToSteer refuses a message for the turn that runs when it was given enough.
func (s *session) roomToSteer(c asked, m parley.Message) error {
	t := s.view.Turn
	if n := len(t.Steers); n >= maxSteers {
		return parley.Errorf(parley.CodeBusy, "%d messages wait already for the next step of this turn", n).
			WithHint("wait until the agent has read them, or cancel the turn").WithRetry(2 * time.Second)
	}
	bytes := weight(m)
	for _, waits := range t.Steers {
		bytes += weight(waits)
	}
	for _, a := range t.Agents {
		for _, item := range a.Items {
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

// roomInQueue refuses another turn when those that wait are enough.
func (s *session) roomInQueue(m parley.Message) error {
	bytes := weight(m)
	for _, q := range s.view.Queue {
		bytes += weight(q.Request.Message)
	}
	if maxWaiting := s.e.maxWaiting(); bytes > maxWaiting {
		return parley.Errorf(parley.CodeBusy, "the messages that wait in this session would have more than %d bytes", maxWaiting).
			WithField("message").WithHint("wait for one of its %d open turns to end, or send less", s.view.OpenTurns()).WithRetry(2 * time.Second)
	}
	return nil
}

// weight is about how many bytes a message takes.
func weight(m parley.Message) (bytes int) {
	for _, p := range m.Parts {
		bytes += 64 + len(p.Text)
	}
	return bytes
}
