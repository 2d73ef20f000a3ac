package loop

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/parley-server/parley"
)

// A lookup finds a call of the turn, or nil.
type lookup func(parley.CallID) *parley.Tool

// indexed is a lookup for who looks up all calls of a turn.
func indexed(t *parley.Turn) lookup {
	calls := make(map[parley.CallID]*parley.Tool, t.Tools.Len())
	for _, c := range t.Tools.All() {
		calls[c.Call] = c
	}
	return func(call parley.CallID) *parley.Tool { return calls[call] }
}

// last is the call whose result counts: c, or the one that did it again.
func last(find lookup, c *parley.Tool) *parley.Tool {
	for c.RedoneBy != "" {
		again := find(c.RedoneBy)
		if again == nil || again.Seq <= c.Seq {
			break
		}
		c = again
	}
	return c
}

// resultOf is what a model reads about a call, and whether it is an error to
// it. A call that was done again gives the result of that.
func resultOf(find lookup, c *parley.Tool) (text string, isError bool) {
	c = last(find, c)
	if c.Status != parley.ToolIsEnded {
		if c.Status == parley.ToolIsStarted && writes(c) {
			return "It is unknown whether this call took effect.", true
		}
		return "The call did not run.", true
	}
	switch c.Outcome {
	case parley.OutcomeOK:
		if blank(c.Output) {
			return "(no output)", false
		}
		return c.Output, false
	case parley.OutcomeError:
		return words("Failed: ", "The call failed.", c), true
	case parley.OutcomeDenied:
		return words("Denied: ", "The call was not allowed and did not run.", c), true
	case parley.OutcomeCancelled:
		return words("Cancelled: ", "The call was cancelled and had no effect.", c), true
	}
	return unknownWords(c), true
}

// words says what is known of a failure, after one word that names it; or else
// the whole sentence.
func words(name, sentence string, c *parley.Tool) string {
	said := c.Output
	if c.Error != nil && c.Error.Message != "" && !strings.Contains(said, c.Error.Message) {
		said = joinLines(c.Error.Message, said)
	}
	if blank(said) {
		return sentence
	}
	return name + said
}

func unknownWords(c *parley.Tool) string {
	switch c.Resolution {
	case parley.ChoiceHappened:
		return "The answer of this call was lost, but a person has confirmed that it took effect. Do not repeat it."
	case parley.ChoiceDidNot:
		return "The answer of this call was lost, and a person has confirmed that it took no effect."
	case parley.ChoiceAgain:
		return "It is unknown whether this call took effect. A person asked to do it again, but that did not come to pass. Do not repeat it."
	case parley.ChoiceLeave:
		return "It is unknown whether this call took effect, and nobody has found out. Do not repeat it; tell the user."
	}
	return joinLines(words("", "It is unknown whether this call took effect.", c), "Do not repeat it; tell the user.")
}

// toolResult is the result part of a call part. The model is told when a person
// edited what ran.
func toolResult(find lookup, p parley.Part) parley.Part {
	r := parley.Part{Type: parley.PartToolResult, Call: p.Call, Name: p.Name}
	c := find(p.Call)
	if c == nil {
		r.Text, r.IsError = "The call did not run.", true
		return r
	}
	r.Text, r.IsError = resultOf(find, c)
	if c.Redacted && c.Status == parley.ToolIsEnded && c.Attempt > 0 {
		r.Text = "[the tool was given the input as you wrote it; its record says [redacted] where something looks like a secret]\n" + r.Text
	}
	if c.Status != parley.ToolIsRequested && !sameJSON(c.Input, p.Input) {
		who := "a person"
		if c.Hook != nil && c.Hook.Changed != "" {
			who = "the hook " + c.Hook.Changed
		} else if c.HookAsked != nil && c.HookAsked.Changed != "" {
			who = "the hook " + c.HookAsked.Changed
		}
		r.Text = "[" + who + " changed the input of this call to " + string(compactJSON(c.Input)) + "]\n" + r.Text
	}
	r.Text = parley.WithHooks(r.Text, c.HookSays)
	return r
}

func sameJSON(a, b json.RawMessage) bool {
	a, b = compactJSON(a), compactJSON(b)
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// handoffResult is the result part of a handoff part of the agent's reply.
// Which one is taken follows from the app and the reply alone.
func (g given) handoffResult(a *parley.Agent, parts []parley.Part, p parley.Part) parley.Part {
	r := parley.Part{Type: parley.PartToolResult, Call: p.Call, Name: p.Name}
	first, _ := handoffPart(parts)
	switch {
	case !g.mayHandOff(a, first.Name) && first.Call == p.Call:
		r.Text, r.IsError = "This agent cannot hand over to "+p.Name+".", true
		if to := g.app.Agents[a.Name].Handoffs; len(to) > 0 && a.Parent == "" {
			r.Text += " It can hand over to " + strings.Join(to, ", ") + "."
		}
	case first.Call != p.Call:
		r.Text, r.IsError = "Ignored: only the first handoff of a reply counts.", true
	default:
		r.Text = "control passed to " + p.Name
	}
	return r
}
