package eventlog

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/redact"
)

// Clean are events that hold no secret. Only [Writer.Redact] makes them, and
// nothing else can be appended, so that whoever decides by events has decided by what
// a restart will find in the log. The zero value holds none.
type Clean struct {
	events []parley.Event
	used   *int // of the array behind events, by whoever has the most of it
}

// Events are to be read only.
func (c Clean) Events() []parley.Event { return slices.Clip(c.events) }

// Len is how many they are.
func (c Clean) Len() int { return len(c.events) }

// With returns c with more behind it. A c that grows by one event at a time is not copied
// each time. It is not safe to call from two goroutines at once on what has one origin.
func (c Clean) With(more Clean) Clean {
	if c.used == nil || *c.used != len(c.events) { // what is behind c is another's
		c.events, c.used = slices.Clip(c.events), new(int)
	}
	c.events = append(c.events, more.events...)
	*c.used = len(c.events)
	return c
}

// Mark stands where a secret was.
const Mark = redact.Mark

// Redact returns events without the secrets in their data. Doing it twice changes
// nothing more. Where the input of a call is not what it was, the event says so in its
// field Redacted: a text that only reads like [Mark] is told from it by that.
//
// What a provider wants back byte for byte, the signatures of a reply's parts and
// its state, is not matched by shape. What of it holds a known value is dropped whole,
// and nothing signed is altered: where a secret is in a signed part, the part
// belongs to no provider any more and its seal goes, so that of its thinking the
// rest stays for people and no provider is sent it; one of the provider's own goes.
func (w *Writer) Redact(events ...parley.Event) Clean {
	out := slices.Clone(events)
	for i, e := range out {
		if raw, found := w.l.red.JSON(e.Data, opaque(e.Type)...); found {
			if e.Type == (parley.ModelReplied{}).EventType() {
				raw = w.l.redactReply(e, raw)
			}
			out[i] = marked(e, e.WithData(raw))
		}
	}
	return Clean{events: out}
}

var (
	opaqueInReply = []string{"parts.signature", "state"}
	opaqueInBase  = []string{"*.signature", "*.state"} // a fold, of clean events
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

// marked returns clean, which is what became of e, with Redacted set where the input of
// a call was changed. The parts of a reply have it from redactReply.
func marked(e, clean parley.Event) parley.Event {
	before, err := e.WithData(e.Data).Payload() // spelt as after is: what is cached may not be
	if err != nil {
		return clean // of a later version: it is not driven here
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

// redactReply goes over a reply in which something was found. raw is what it is
// redacted without regard to what is signed.
func (l *log) redactReply(e parley.Event, raw []byte) []byte {
	p, ok := payload[parley.ModelReplied](e)
	if !ok {
		return raw // of a later version: it is not driven here
	}
	if l.red.Knows(p.State) {
		p.State = nil
	}
	parts := make([]parley.Part, 0, len(p.Parts))
	for _, part := range p.Parts {
		if part.Signature != nil && !l.intact(part) {
			if part.Type == parley.PartProvider {
				continue
			}
			part.Signature, part.Provider = nil, ""
		}
		if part.Type == parley.PartToolCall {
			_, found := l.red.JSON(part.Input)
			part.Redacted = part.Redacted || found
		}
		parts = append(parts, part)
	}
	p.Parts = parts
	raw, _ = l.red.JSON(parley.NewEvent("", "", p).Data, opaqueInReply...)
	return raw
}

// intact reports whether a signed part holds no secret.
func (l *log) intact(part parley.Part) bool {
	raw, err := json.Marshal(part)
	if err != nil {
		return false
	}
	_, found := l.red.JSON(raw, "signature")
	return !found
}

// RedactText returns text as events would show it, for what is kept or shown beside
// the log, and whether that differs.
func (w *Writer) RedactText(text string) (string, bool) { return w.l.red.String(text) }

// RedactText is that of [Writer.RedactText].
func (r *Reader) RedactText(text string) (string, bool) { return r.l.red.String(text) }

// RedactFile returns what may be kept of a file: a text without secrets. ok is false for
// one that is no text and holds a secret: it would be broken without.
func (w *Writer) RedactFile(body []byte) (clean []byte, ok bool) {
	if json.Valid(body) { // it stays so, and a secret in it may be spelt with escapes
		body, _ = w.l.red.JSON(body)
		return body, true
	}
	text, found := w.l.red.String(string(body))
	switch {
	case !found:
		return body, true
	case slices.Contains(body, 0): // not so in a text, of whatever encoding has ASCII in it
		return nil, false
	}
	return []byte(text), true
}
