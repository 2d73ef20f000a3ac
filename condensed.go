package parley

import (
	"encoding/json"
	"maps"
)

// CondensedTurn is what folds keep of a turn whose steps were condensed: everything that
// the end of a turn adds to a Session, except provider state.
type CondensedTurn struct {
	Turn     TurnID            `json:"turn"`
	Spent    Spent             `json:"spent"`
	Effects  []Effected        `json:"effects,omitempty"`  // its calls with effects
	Answered map[string]string `json:"answered,omitempty"` // by agent name: the last model that replied
	Results  []string          `json:"results,omitempty"`  // see Exchange; empty in logs from fold versions before 10
	About    []string          `json:"about,omitempty"`    // see Session; empty in logs from fold versions before 10
	Through  int64             `json:"through,omitempty"`  // from its last context.compacted
	Unread   bool              `json:"unread,omitempty"`   // hooks kept its message from all models
}

// Condensing makes the CondensedTurns of a stretch of a log before the steps are removed.
// The stretch must begin where no turn is open. The zero value is ready to use.
type Condensing struct {
	Turns []CondensedTurn

	s       Session
	through int64
}

// Apply advances by one whole event.
func (c *Condensing) Apply(e Event) error {
	if c.s.Seq == 0 {
		c.s.Seq = e.Seq - 1
	}
	open := c.s.Turn
	ends := open != nil && open.ID == e.Turn && endsTurn(e.Type)
	if ends {
		k := open.kept()
		k.Spent, k.Answered, k.Through = open.Spent, c.s.Answered, c.through
		k.Spent.RanMS = 0 // other events of the log tell this
		c.Turns = append(c.Turns, k)
		c.s.Answered, c.through = nil, 0
	}
	if err := c.s.Apply(e); err != nil {
		return err
	}
	if e.Type == (ContextCompacted{}).EventType() && c.s.Turn != nil && c.s.Turn.ID == e.Turn {
		p, err := e.Payload()
		if err != nil {
			return err
		}
		c.through = max(c.through, p.(ContextCompacted).Through)
	}
	c.s.History, c.s.HistoryBytes = nil, 0 // not needed here
	return nil
}

func endsTurn(t EventType) bool {
	switch t {
	case "turn.completed", "turn.failed", "turn.cancelled", "turn.expired":
		return true
	}
	return false
}

// Condensed is what all history.condensed events of a log keep of the steps they removed.
// The zero value stands for a log with all its steps.
type Condensed struct {
	Events []Event // in log order

	all   []HistoryCondensed
	turns map[TurnID]CondensedTurn
	bases map[int64]json.RawMessage // from early versions: whole states, by event number
}

// Around returns the event that condensed the data of event seq, if there is one and seq
// is not its last event.
func (c *Condensed) Around(seq int64) (h HistoryCondensed, ok bool) {
	for _, h := range c.all {
		if h.From <= seq && seq < h.To {
			return h, true
		}
	}
	return h, false
}

// Old reports whether some of it was kept by an early version, which kept a whole state
// of its own fold.
func (c *Condensed) Old() bool { return len(c.bases) > 0 }

// IsOld reports whether an early version wrote this event, with a whole state.
func (h HistoryCondensed) IsOld() bool { return len(h.Base) > 0 && string(h.Base) != "null" }

// Add takes in an event. Only history.condensed events count.
func (c *Condensed) Add(e Event) error {
	if e.Type != (HistoryCondensed{}).EventType() {
		return nil
	}
	p, err := e.Payload()
	if CodeOf(err) == CodeUpgradeRequired {
		return nil // the driver of the session gets the error when it reaches this event
	}
	if err != nil {
		return err
	}
	h, ok := p.(HistoryCondensed)
	if !ok {
		return nil
	}
	c.Events, c.all = append(c.Events, e), append(c.all, h)
	for _, t := range h.Turns {
		if c.turns == nil {
			c.turns = map[TurnID]CondensedTurn{}
		}
		c.turns[t.Turn] = t
	}
	if h.IsOld() {
		if c.bases == nil {
			c.bases = map[int64]json.RawMessage{}
		}
		c.bases[h.To] = h.Base
	}
	return nil
}

// ApplyCondensed is Apply for a log whose steps were condensed; kept comes from the whole
// log. After the last condensed event the Session is what it was before, without provider
// state. Inside a turn that was condensed it holds less.
func (s *Session) ApplyCondensed(e Event, kept Condensed) error {
	if e.Seq != s.Seq+1 {
		return s.Apply(e) // which returns the error
	}
	if e.Data == nil && IsStep(e.Type) {
		s.Skip(e)
	} else {
		if t := s.Turn; t != nil && t.ID == e.Turn && endsTurn(e.Type) {
			s.restore(kept.turns[t.ID])
		}
		if err := s.Apply(e); err != nil {
			return err
		}
	}
	if base := kept.bases[e.Seq]; base != nil {
		var was Session
		if err := json.Unmarshal(base, &was); err != nil || was.Seq != e.Seq {
			return Errorf(CodeInternal, "the state kept at event %d cannot be read: %v", e.Seq, err)
		}
		*s = was
	}
	return nil
}

// restore gives the open turn what its condensed steps would have added.
func (s *Session) restore(k CondensedTurn) {
	if k.Turn == "" {
		return
	}
	t := s.Turn
	ran := t.Spent.RanMS
	t.Spent, t.Kept = k.Spent, &k
	t.Spent.RanMS = ran
	if len(k.Answered) > 0 {
		answered := maps.Clone(s.Answered)
		if answered == nil {
			answered = map[string]string{}
		}
		maps.Copy(answered, k.Answered)
		s.Answered = answered
	}
	if k.Through > 0 {
		s.forget(k.Through)
	}
}

// Skip passes over an event whose data is gone, or that this version does not know. After
// an unknown event the session may be shown but not driven.
func (s *Session) Skip(e Event) {
	s.Seq, s.UpdatedAt = e.Seq, e.Time
}
