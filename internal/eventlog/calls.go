package eventlog

import (
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/redact"
)

// call is a model call or tool call that accepts text. Its fields are guarded by its
// hub's lock, except those that never change.
type call struct {
	id    parley.CallID
	turn  parley.TurnID
	agent parley.AgentPath

	n       int64 // source fragments so far, of all kinds
	started bool  // it is running, and keeps the hub in memory
	sealed  bool  // an append that ends it is under way: its text is no longer kept
	size    int   // bytes of text, of all kinds
	saved   int   // bytes of the answer's text that are in the store
	stored  bool  // a save has begun: text of it may be in the store
	kinds   []*text
}

// text is what a call has shown of one kind. It only grows, so every run of fragments is
// a slice of it and need not be copied.
type text struct {
	kind parley.DeltaKind
	in   *redact.Stream
	out  strings.Builder
}

func (c *call) text(kind parley.DeltaKind, red *redact.Redactor) *text {
	for _, t := range c.kinds {
		if t.kind == kind {
			return t
		}
	}
	t := &text{kind: kind, in: red.NewStream()}
	c.kinds = append(c.kinds, t)
	return t
}

// answer is the text of the kind that is kept.
func (c *call) answer() string {
	for _, t := range c.kinds {
		if t.kind == parley.DeltaText {
			return t.out.String()
		}
	}
	return ""
}

// begins returns the call that accepts text from e on; started is false if the call was
// only requested.
func begins(e parley.Event) (id parley.CallID, started bool) {
	switch e.Type {
	case "model.started":
		if p, ok := payload[parley.ModelStarted](e); ok {
			return p.Call, true
		}
	case "tool.requested":
		if p, ok := payload[parley.ToolRequested](e); ok {
			return p.Call, false
		}
	case "tool.started":
		if p, ok := payload[parley.ToolStarted](e); ok {
			return p.Call, true
		}
	}
	return "", false
}

// ends returns the call that e ends. tail says that text held back by redaction is to be
// shown first: after a failure the event has the text as it was shown, and the two must
// agree.
func ends(e parley.Event) (id parley.CallID, tail bool) {
	switch e.Type {
	case "model.replied":
		if p, ok := payload[parley.ModelReplied](e); ok {
			return p.Call, true
		}
	case "model.failed":
		if p, ok := payload[parley.ModelFailed](e); ok {
			return p.Call, false
		}
	case "tool.ended":
		if p, ok := payload[parley.ToolEnded](e); ok {
			return p.Call, true
		}
	}
	return "", false
}

// endsTurn reports whether no call of e's turn can be running after e.
func endsTurn(t parley.EventType) bool {
	switch t {
	case "turn.completed", "turn.failed", "turn.cancelled", "turn.expired", "turn.interrupted":
		return true
	}
	return false
}

func payload[P parley.Payload](e parley.Event) (P, bool) {
	p, err := e.Payload()
	if err != nil {
		var none P
		return none, false
	}
	q, ok := p.(P)
	return q, ok
}
