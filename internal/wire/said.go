package wire

import (
	"strings"

	"github.com/parley-server/parley"
)

// Said tracks what was sent of a turn's text, on a wire where text can only be added. The zero
// value has sent nothing.
type Said struct {
	// Paragraphs begins a paragraph for the text of each further call.
	Paragraphs bool

	of  Text
	gap bool // something was sent that the call does not continue
}

// begin switches to call. The text of earlier calls stays.
func (t *Said) begin(call parley.CallID) {
	sent := t.of.Sent > 0
	t.gap = t.of.Begin(call) && sent && t.Paragraphs || t.gap
}

// Delta returns what a fragment, or with partial the whole text so far, adds.
func (t *Said) Delta(d parley.Delta, partial bool) string {
	t.begin(d.Call)
	t.of.Add(d.Text, partial)
	return t.rest()
}

// Whole returns what the final text of a call adds. If the text is not what was sent, it is sent
// again as a paragraph of its own.
func (t *Said) Whole(call parley.CallID, said string) string {
	t.begin(call)
	if !t.of.Begins(said) {
		// What was sent cannot be taken back: send the text again, separately.
		t.gap, t.of.Sent = true, 0
	}
	t.of.Add(said, true)
	return t.rest()
}

// Failed says that a call has failed. If it is repeated, the new one begins a paragraph.
func (t *Said) Failed(call parley.CallID) {
	if t.of.Call() == call {
		t.gap = t.gap || t.of.Sent > 0
		t.of.Forget()
	}
}

// Final returns what the turn's answer has beyond its last call's text.
func (t *Said) Final(message string) string {
	if strings.HasPrefix(string(t.of.Seen()), message) {
		return ""
	}
	return t.Whole(t.of.Call(), message)
}

func (t *Said) rest() string {
	s := t.of.Rest(t.of.Seen())
	if s != "" && t.gap {
		t.gap = false
		return "\n\n" + s
	}
	return s
}
