package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/parley-server/parley"
)

// CheckLog returns what is wrong with the log of a session at rest, or nil. Numbers have no gaps,
// and times do not run backwards. Every call has ended exactly once, and before its turn. Nothing
// follows the end of a turn, and no turn follows the end of the session. The queue is not held while
// a turn runs that nobody has stopped. No turn begins while a rewind restores files; each rewind goes
// back to an event that was not taken back, and then the session knows what it knew there.
func CheckLog(events []parley.Event) error {
	var s parley.Session
	type call struct {
		turn  parley.TurnID
		ended int
	}
	calls := map[parley.CallID]*call{}
	ended := map[parley.TurnID]bool{}
	closed := false
	states := []parley.Session{{}} // after each event
	for i, e := range events {
		if e.Seq != int64(i)+1 {
			return fmt.Errorf("event %d has number %d", i+1, e.Seq)
		}
		if i > 0 && e.Time.Before(events[i-1].Time) {
			return fmt.Errorf("event %d is older than the one before", e.Seq)
		}
		if e.Turn != "" && ended[e.Turn] {
			return fmt.Errorf("event %d (%s) comes after the end of its turn", e.Seq, e.Type)
		}
		if e.Turn != "" && closed {
			return fmt.Errorf("event %d (%s) of a turn comes after the end of the session", e.Seq, e.Type)
		}
		p, err := e.Payload()
		if err != nil {
			return err
		}
		began := func(id parley.CallID) { calls[id] = &call{turn: e.Turn} }
		over := func(id parley.CallID) error {
			c := calls[id]
			if c == nil {
				return fmt.Errorf("event %d (%s) ends call %s, which never began", e.Seq, e.Type, id)
			}
			if c.ended++; c.ended > 1 {
				return fmt.Errorf("event %d (%s) ends call %s again", e.Seq, e.Type, id)
			}
			return nil
		}
		switch p := p.(type) {
		case parley.SessionEnded:
			closed = true
		case parley.SessionForked:
			closed = false // it was the parent that had ended
		case parley.TurnStarted:
			if s.Rewinding != nil {
				return fmt.Errorf("event %d begins a turn while the session is being rewound", e.Seq)
			}
		case parley.SessionRewinding:
			if s.Rewinding != nil || closed {
				return fmt.Errorf("event %d rewinds a session that is ended or being rewound", e.Seq)
			}
		case parley.SessionRewound:
			if closed || s.Rewinding != nil && s.Rewinding.ID != p.ID {
				return fmt.Errorf("event %d rewinds a session that is ended, or that is being rewound by %v", e.Seq, s.Rewinding)
			}
			if p.To < 1 || p.To >= e.Seq || s.Skipped(p.To) != 0 && s.Skipped(p.To+1) != 0 {
				return fmt.Errorf("event %d rewinds to event %d, which was taken back", e.Seq, p.To)
			}
		case parley.ModelStarted:
			began(p.Call)
		case parley.ToolRequested:
			began(p.Call)
		case parley.ToolStarted:
			if c := calls[p.Call]; c == nil || c.ended > 0 {
				return fmt.Errorf("event %d starts call %s, which was not open", e.Seq, p.Call)
			}
			if p.Attempt > 1 && p.Effect == parley.EffectWrite {
				return fmt.Errorf("event %d starts write %s a second time", e.Seq, p.Call)
			}
		case parley.ModelReplied:
			err = over(p.Call)
		case parley.ModelFailed:
			if p.Error.Code == parley.CodeCancelled && p.Error.Message == parley.Info(errors.New("")).Message {
				return fmt.Errorf("event %d says of a call that was cut off: %s", e.Seq, p.Error.Message)
			}
			err = over(p.Call)
		case parley.ToolEnded:
			err = over(p.Call)
		case parley.TurnCompleted, parley.TurnFailed, parley.TurnCancelled, parley.TurnExpired:
			if p, ok := p.(parley.TurnCancelled); ok && p.By == "rewound" && (s.Turn == nil || s.Turn.Status != parley.StatusInterrupted) {
				return fmt.Errorf("event %d rewinds although turn %s was not interrupted", e.Seq, e.Turn)
			}
			ended[e.Turn] = true
			for id, c := range calls {
				if c.turn == e.Turn && c.ended == 0 {
					return fmt.Errorf("event %d ends turn %s, but call %s has no outcome", e.Seq, e.Turn, id)
				}
			}
		}
		if err != nil {
			return err
		}
		if err := s.Apply(e); err != nil {
			return fmt.Errorf("event %d does not fold: %w", e.Seq, err)
		}
		states = append(states, *s.Clone())
		if p, ok := p.(parley.SessionRewound); ok && p.What.Conversation() {
			if then, now := known(states[p.To]), known(s); then != now {
				return fmt.Errorf("event %d rewinds to event %d, where the session knew\n%s\nand now it knows\n%s", e.Seq, p.To, then, now)
			}
		}
		if t := s.Turn; t != nil && t.Status != parley.StatusInterrupted && t.Stop == nil && s.Held {
			return fmt.Errorf("event %d (%s): the queue is held although turn %s runs and nobody has stopped it", e.Seq, e.Type, t.ID)
		}
	}
	return nil
}

// known is what prompts are made of, apart from attachments that are gone.
func known(s parley.Session) string {
	raw, err := json.Marshal(struct {
		Summary string
		Facts   []parley.Fact
		Pins    []parley.Pin
		History []parley.Exchange
		About   []string
	}{s.Summary, append([]parley.Fact{}, s.Facts...), append([]parley.Pin{}, s.Pins...), append([]parley.Exchange{}, s.History...), append([]string{}, s.About...)})
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// CheckNumbers returns an error if the numbers have gaps. Nothing else can be checked in a log from
// which retention has removed data.
func CheckNumbers(events []parley.Event) error {
	for i, e := range events {
		if e.Seq != int64(i)+1 {
			return fmt.Errorf("event %d has number %d", i+1, e.Seq)
		}
	}
	return nil
}

// Outcomes returns what became of the turns of a log. For each ended turn it has the outcomes of
// the tool calls, and then the turn's status and message. The outcomes are in the order of the
// tools' names, because reads run at once.
func Outcomes(events []parley.Event) []string {
	var out []string
	sorted := 0
	ended := func(what string) {
		slices.Sort(out[sorted:])
		out = append(out, what)
		sorted = len(out)
	}
	for _, e := range events {
		p, err := e.Payload()
		if err != nil {
			return append(out, err.Error())
		}
		switch p := p.(type) {
		case parley.ToolEnded:
			out = append(out, fmt.Sprintf("%s %s", p.Name, p.Outcome))
		case parley.TurnCompleted:
			ended("completed: " + p.Response.Message)
		case parley.TurnFailed:
			ended(fmt.Sprintf("failed: %s", p.Error.Code))
		case parley.TurnCancelled:
			ended("cancelled: " + p.Reason)
		}
	}
	return out
}
