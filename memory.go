package parley

import (
	"slices"
	"time"
)

// MemoryAgent is the name of the agent instance that condenses earlier turns
// into memory. Its model calls belong to the turn that needs the room; they are
// no steps of it and are not shown as answers.
const MemoryAgent = "memory"

// Limits of a session's memory. What goes beyond is cut where it is folded, so
// that no log can make a fold grow without bound.
const (
	MaxFacts       = 64
	MaxPins        = 32
	maxMemoryText  = 32 << 10 // bytes of the summary, and of one pin
	maxFactText    = 1 << 10
	maxSnippets    = 32
	maxSnippetText = 4 << 10

	// MaxAbout is how many things a session is about, of at most MaxAboutID bytes each.
	MaxAbout   = 8
	MaxAboutID = 255

	maxResults    = 16  // lines of an exchange; of more calls the last have one
	maxResultLine = 320 // bytes
)

// MaxGrowth bounds how many times MemoryOptions.LastK messages a session keeps for
// models with a large window.
const MaxGrowth = 10

// Fact is a lasting insight with where it comes from.
type Fact struct {
	Text   string    `json:"text"`
	Source string    `json:"source,omitempty"`
	Seq    int64     `json:"seq,omitempty"` // of the event up to which it was drawn
	Time   time.Time `json:"time,omitzero"`
}

// Pin is a text that every prompt holds.
type Pin struct {
	Label string `json:"label"`
	Text  string `json:"text"`
}

// Snippet is something that was looked up for a turn.
type Snippet struct {
	Source string `json:"source"`
	Ref    string `json:"ref"`
	Text   string `json:"text"`
	Pinned bool   `json:"pinned,omitempty"` // it is there because the turn before was about it
}

// MemoryUpdated changes what it names. With Through, the exchanges up to and
// including that number are now in the summary and leave the prompt.
type MemoryUpdated struct {
	Summary *string `json:"summary,omitempty"`
	Facts   *[]Fact `json:"facts,omitempty"` // replaces all
	Pins    *[]Pin  `json:"pins,omitempty"`  // replaces all
	Through int64   `json:"through,omitempty"`
	Dropped int     `json:"dropped,omitempty"` // exchanges that left
	By      string  `json:"by,omitempty"`      // a user, or "memory"
}

// ContextRetrieved adds snippets to the prompts of its turn.
type ContextRetrieved struct {
	Snippets []Snippet `json:"snippets"`
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
}

// forget takes the exchanges up to and including number through out of the
// prompt, and what providers keep of them.
func (s *Session) forget(through int64) {
	n := 0
	for n < len(s.History) && s.History[n].Seq <= through {
		n++
	}
	s.dropHistory(n)
	s.Provider = nil
}

func (t *Turn) retrieved(p ContextRetrieved) {
	t.Retrieved = true
	for _, sn := range p.Snippets {
		if len(t.Snippets) == maxSnippets {
			return
		}
		sn.Text = clip(sn.Text, maxSnippetText)
		t.Snippets = append(slices.Clip(t.Snippets), sn)
	}
}

// clip cuts text to at most n bytes, at the beginning of a character.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	return text[:n]
}
