package parley

import (
	"encoding/json"
	"maps"
)

// CondensedTurn is what folds keep of a turn whose steps retention took: all that
// the end of the turn takes over into a Session, but for what providers keep.
type CondensedTurn struct {
	Turn     TurnID            `json:"turn"`
	Spent    Spent             `json:"spent"`
	Effects  []Effected        `json:"effects,omitempty"`  // its calls with effects
	Answered map[string]string `json:"answered,omitempty"` // by agent name: the model that replied last
	Results  []string          `json:"results,omitempty"`  // see Exchange; versions before 10 of the fold kept none
	About    []string          `json:"about,omitempty"`    // see Session; likewise
	Through  int64             `json:"through,omitempty"`  // of its last context.compacted
}

// Condensing makes the CondensedTurns of a stretch of a log, before its steps are
// taken. The stretch begins where no turn is open. The zero value is ready.
type Condensing struct {
	Turns []CondensedTurn

	s       Session
	through int64
}

// Apply goes on by one whole event.
func (c *Condensing) Apply(e Event) error {
	if c.s.Seq == 0 {
		c.s.Seq = e.Seq - 1
	}
	open := c.s.Turn
	ends := open != nil && open.ID == e.Turn && endsTurn(e.Type)
	if ends {
		k := open.kept()
		k.Spent, k.Answered, k.Through = open.Spent, c.s.Answered, c.through
		k.Spent.RanMS = 0 // the log's other events say it
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
	c.s.History, c.s.HistoryBytes = nil, 0 // of no use here
	return nil
}

func endsTurn(t EventType) bool {
	switch t {
	case "turn.completed", "turn.failed", "turn.cancelled", "turn.expired":
		return true
	}
	return false
}

// Condensed is what all history.condensed events of a log keep of what they took.
// The zero value is that of a log with all its steps.
type Condensed struct {
	Events []Event // in their order

	all   []HistoryCondensed
	turns map[TurnID]CondensedTurn
	bases map[int64]json.RawMessage // of early versions: whole states, by their number
}

// Around is what took the data of event seq, if one did and seq is not where it
// ended.
func (c *Condensed) Around(seq int64) (h HistoryCondensed, ok bool) {
	for _, h := range c.all {
		if h.From <= seq && seq < h.To {
			return h, true
		}
	}
	return h, false
}

// Old reports whether some of it was kept by a version that kept a whole state, as
// its own fold had it.
func (c *Condensed) Old() bool { return len(c.bases) > 0 }

// IsOld reports whether an early version wrote this, with a whole state.
func (h HistoryCondensed) IsOld() bool { return len(h.Base) > 0 && string(h.Base) != "null" }

// Add takes an event in. Only history.condensed says anything.
func (c *Condensed) Add(e Event) error {
	if e.Type != (HistoryCondensed{}).EventType() {
		return nil
	}
	p, err := e.Payload()
	if CodeOf(err) == CodeUpgradeRequired {
		return nil // whoever drives the session is told when he comes to it
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

// ApplyCondensed is Apply in a log of which retention took steps; kept comes from
// the whole log. After the last event that was taken the Session is what it was
// before, without what providers keep. Within a turn whose steps were taken it is
// less.
func (s *Session) ApplyCondensed(e Event, kept Condensed) error {
	if e.Seq != s.Seq+1 {
		return s.Apply(e) // which says so
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
			return Errorf(CodeInternal, "the state that was kept at event %d can not be read: %v", e.Seq, err)
		}
		*s = was
	}
	return nil
}

// restore gives the open turn what its steps would have brought.
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

// Skip goes past an event whose data is gone, or that this version does not know.
// A session of which an unknown event was skipped may be shown and not driven.
func (s *Session) Skip(e Event) {
	s.Seq, s.UpdatedAt = e.Seq, e.Time
}
