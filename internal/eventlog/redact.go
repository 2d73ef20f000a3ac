package eventlog

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/redact"
)

// Clean are events without secrets. Only [Writer.Redact] makes them, and only they can be
// appended. So a decision based on them is based on what a restart will find in the log.
// The zero value holds none.
type Clean struct {
	events []parley.Event
	used   *int // how much of the array behind events is used, by the longest Clean that shares it
}

// Events returns the events, which must not be modified.
func (c Clean) Events() []parley.Event { return slices.Clip(c.events) }

// Len is the number of events.
func (c Clean) Len() int { return len(c.events) }

// With returns c followed by more. Growing a Clean one event at a time does not copy it
// each time. With must not be called concurrently on values with a common origin.
func (c Clean) With(more Clean) Clean {
	if c.used == nil || *c.used != len(c.events) { // the space behind c belongs to another
		c.events, c.used = slices.Clip(c.events), new(int)
	}
	c.events = append(c.events, more.events...)
	*c.used = len(c.events)
	return c
}

// Mark replaces a secret.
const Mark = redact.Mark

// Redact returns events without the secrets in their data. Redacting twice changes nothing
// more. It also removes the secrets of the event's session, see [Writer.Hide]. If the input of
// a call was changed, the event's field Redacted is set, to distinguish it from an input that
// merely contains [Mark].
//
// Data that a provider wants back byte for byte, the signatures of a reply's parts and
// its state, is not matched by shape. If it contains a known secret it is dropped whole,
// and nothing signed is altered. If a signed part contains a secret, the part loses its
// provider and its signature: the rest of its thinking stays for people, but no provider
// gets it. A part of the kind "provider" is removed.
func (w *Writer) Redact(events ...parley.Event) Clean {
	out := slices.Clone(events)
	for i, e := range out {
		red := w.l.redactor(e.Session)
		if raw, found := red.JSON(e.Data, opaque(e.Type)...); found {
			if e.Type == (parley.ModelReplied{}).EventType() {
				raw = redactReply(red, e, raw)
			}
			out[i] = marked(e, e.WithData(raw))
		}
	}
	return Clean{events: out}
}

var (
	opaqueInReply = []string{"parts.signature", "state"}
	opaqueInBase  = []string{"*.signature", "*.state"} // a fold, made from clean events
)

// opaque names the places in an event's data that are not matched by shape.
func opaque(t parley.EventType) []string {
	switch t {
	case "model.replied":
		return opaqueInReply
	case "history.condensed":
		return opaqueInBase
	}
	return nil
}

// marked returns clean, the redacted form of e, with Redacted set if the input of a call
// was changed. For the parts of a reply, redactReply sets it.
func marked(e, clean parley.Event) parley.Event {
	before, err := e.WithData(e.Data).Payload() // encoded like after; a cached payload may not be
	if err != nil {
		return clean // of a later version, which is not driven here
	}
	after, err := clean.Payload()
	if err != nil {
		return clean
	}
	differs := func(a, b json.RawMessage) bool { return !bytes.Equal(a, b) }
	switch p := after.(type) {
	case parley.ToolRequested:
		p.Redacted = p.Redacted || differs(before.(parley.ToolRequested).Input, p.Input)
		after = p
	case parley.ToolStarted:
		p.Redacted = p.Redacted || differs(before.(parley.ToolStarted).Input, p.Input)
		after = p
	case parley.InteractionAnswered:
		p.Redacted = p.Redacted || differs(before.(parley.InteractionAnswered).Answer.Input, p.Answer.Input)
		after = p
	case parley.TurnStarted:
		markCall(p.Call, before.(parley.TurnStarted).Call)
	case parley.TurnQueued:
		markCall(p.Call, before.(parley.TurnQueued).Call)
	default:
		return clean
	}
	return clean.WithData(parley.NewEvent("", "", after).Data)
}

func markCall(c, was *parley.ToolCall) {
	if c != nil && was != nil {
		c.Redacted = c.Redacted || !bytes.Equal(was.Input, c.Input)
	}
}

// redactReply redacts a reply in which something was found. raw is the reply redacted
// without regard to signatures.
func redactReply(red *redact.Redactor, e parley.Event, raw []byte) []byte {
	p, ok := payload[parley.ModelReplied](e)
	if !ok {
		return raw // of a later version, which is not driven here
	}
	if red.Knows(p.State) {
		p.State = nil
	}
	parts := make([]parley.Part, 0, len(p.Parts))
	for _, part := range p.Parts {
		if part.Signature != nil && !intact(red, part) {
			if part.Type == parley.PartProvider {
				continue
			}
			part.Signature, part.Provider = nil, ""
		}
		if part.Type == parley.PartToolCall {
			_, found := red.JSON(part.Input)
			part.Redacted = part.Redacted || found
		}
		parts = append(parts, part)
	}
	p.Parts = parts
	raw, _ = red.JSON(parley.NewEvent("", "", p).Data, opaqueInReply...)
	return raw
}

// intact reports whether a signed part contains no secret.
func intact(red *redact.Redactor, part parley.Part) bool {
	raw, err := json.Marshal(part)
	if err != nil {
		return false
	}
	_, found := red.JSON(raw, "signature")
	return !found
}

// RedactText returns text as events would show it, and whether that differs. It is for
// what is stored or shown beside the log.
func (w *Writer) RedactText(text string) (string, bool) { return w.l.red.String(text) }

// RedactTextOf is RedactText for a text that comes from a session.
func (w *Writer) RedactTextOf(session parley.SessionID, text string) (string, bool) {
	return w.l.redactor(session).String(text)
}

// RedactText is [Writer.RedactText].
func (r *Reader) RedactText(text string) (string, bool) { return r.l.red.String(text) }

// RedactFile returns what may be stored of a file: text without secrets. ok is false for
// a file that is not text and contains a secret, since redaction would break it.
func (w *Writer) RedactFile(body []byte) (clean []byte, ok bool) {
	return redactFile(w.l.red, body)
}

// RedactFileOf is RedactFile for a file that comes from a session.
func (w *Writer) RedactFileOf(session parley.SessionID, body []byte) (clean []byte, ok bool) {
	return redactFile(w.l.redactor(session), body)
}

func redactFile(red *redact.Redactor, body []byte) (clean []byte, ok bool) {
	if json.Valid(body) { // it stays valid, and a secret in it may be written with escapes
		body, _ = red.JSON(body)
		return body, true
	}
	text, found := red.String(string(body))
	switch {
	case !found:
		return body, true
	case slices.Contains(body, 0): // text in an ASCII-compatible encoding has none
		return nil, false
	}
	return []byte(text), true
}
