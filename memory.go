package parley

import (
	"slices"
	"time"
)

// MemoryAgent is the name of the agent instance that summarizes earlier turns. Its model
// calls belong to the turn that needs the room. They are not steps of that turn and are
// not shown as answers.
const MemoryAgent = "memory"

// Limits of a session's memory. The fold cuts off what exceeds them, so no log can make a
// fold grow without bound.
const (
	MaxFacts       = 64
	MaxPins        = 32
	maxMemoryText  = 32 << 10 // bytes of the summary, and of each pin
	maxFactText    = 1 << 10
	maxSnippets    = 32
	maxSnippetText = 4 << 10

	// MaxAbout is how many things a session can be about; each id has at most MaxAboutID
	// bytes.
	MaxAbout   = 8
	MaxAboutID = 255

	maxResults    = 16  // lines per exchange; of more calls the last ones count
	maxResultLine = 320 // bytes
)

// MaxGrowth is how many times MemoryOptions.LastK messages a session keeps for models
// with a large window.
const MaxGrowth = 10

// Fact is a lasting insight and its source.
type Fact struct {
	Text   string    `json:"text"`
	Source string    `json:"source,omitempty"`
	Seq    int64     `json:"seq,omitempty"` // the last event it was drawn from
	Time   time.Time `json:"time,omitzero"`
}

// Pin is a text that is part of every prompt.
type Pin struct {
	Label string `json:"label"`
	Text  string `json:"text"`
}

// Snippet is something that was looked up for a turn.
type Snippet struct {
	Source string `json:"source"`
	Ref    string `json:"ref"`
	Text   string `json:"text"`
	Pinned bool   `json:"pinned,omitempty"` // looked up because the turn before was about it
}

// MemoryUpdated changes the fields that are set. If Through is set, the exchanges up to
// and including that number are now in the summary and no longer in the prompt.
type MemoryUpdated struct {
	Summary *string `json:"summary,omitempty"`
	Facts   *[]Fact `json:"facts,omitempty"` // replaces all facts
	Pins    *[]Pin  `json:"pins,omitempty"`  // replaces all pins
	Through int64   `json:"through,omitempty"`
	Dropped int     `json:"dropped,omitempty"` // exchanges that left the prompt
	By      string  `json:"by,omitempty"`      // a user, or "memory"
	// Told is what hooks tell models at the start of the session. Nil: the hooks have not been
	// asked. Empty: they had nothing to say.
	Told *[]string `json:"told,omitempty"`
}

// ContextRetrieved adds snippets and the session's attached entities to the prompts of its turn.
type ContextRetrieved struct {
	Snippets []Snippet        `json:"snippets"`
	Entities []AttachedEntity `json:"entities,omitempty"`
}

// EventType implements Payload.
func (MemoryUpdated) EventType() EventType { return "memory.updated" }

// EventType implements Payload.
func (ContextRetrieved) EventType() EventType { return "context.retrieved" }

func (s *Session) applyMemory(p MemoryUpdated) {
	if p.Summary != nil {
		s.Summary = clip(*p.Summary, maxMemoryText)
	}
	if p.Facts != nil {
		s.Facts = nil
		for _, f := range (*p.Facts)[:min(len(*p.Facts), MaxFacts)] {
			f.Text = clip(f.Text, maxFactText)
			s.Facts = append(s.Facts, f)
		}
	}
	if p.Pins != nil {
		s.Pins = nil
		for _, pin := range (*p.Pins)[:min(len(*p.Pins), MaxPins)] {
			pin.Text = clip(pin.Text, maxMemoryText)
			s.Pins = append(s.Pins, pin)
		}
	}
	if p.Through > 0 {
		s.forget(p.Through)
	}
	if p.Told != nil {
		s.Opened, s.Told = true, nil
		room := maxTold
		for _, text := range *p.Told {
			if text = clip(text, room); text != "" {
				s.Told = append(s.Told, text)
			}
			room -= len(text)
		}
	}
}

// forget removes the exchanges up to and including number through from the prompt, and
// the provider state that knows them.
func (s *Session) forget(through int64) {
	n := 0
	for n < len(s.History) && s.History[n].Seq <= through {
		n++
	}
	s.dropHistory(n)
	s.Provider = nil
}

func (t *Turn) retrieved(p ContextRetrieved) {
	t.Retrieved, t.Attached = true, attachedOf(p.Entities)
	for _, sn := range p.Snippets {
		if len(t.Snippets) == maxSnippets {
			return
		}
		sn.Text = clip(sn.Text, maxSnippetText)
		t.Snippets = append(slices.Clip(t.Snippets), sn)
	}
}

// clip cuts text to at most n bytes, never inside a character.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	return text[:n]
}
