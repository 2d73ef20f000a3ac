package parley

import (
	"slices"
	"strings"
)

// kept is what the end of the turn takes over from its calls, into an Exchange and the
// Session. Retention keeps the same when it removes the calls.
func (t *Turn) kept() CondensedTurn {
	if t.Kept != nil {
		return *t.Kept
	}
	k := CondensedTurn{Turn: t.ID, Unread: t.unread()}
	for _, c := range t.Tools.All() {
		if c.Effect != EffectRead && c.Effect != "" {
			k.Effects = append(k.Effects, Effected{Call: c.Call, Tool: c.Name, Outcome: c.Outcome, Resolution: c.Resolution})
		}
		if c.Status == ToolIsEnded && c.RedoneBy == "" && c.Agent.Depth() == 0 { // a sub-agent's result says what it found
			k.Results = append(k.Results, c.line())
		}
	}
	if n := len(k.Results); n > maxResults {
		k.Results = slices.Clone(k.Results[n-maxResults:])
	}
	k.About = t.about()
	return k
}

// about lists what the turn's calls were about: first the main id of each call, from the
// newest call to the oldest, then the second id of each, and so on. So every call is
// represented, and the newest comes first.
func (t *Turn) about() (ids []string) {
	for i := range MaxAbout {
		for at := t.Tools.Len() - 1; at >= 0 && len(ids) < MaxAbout; at-- {
			of := t.Tools.at(at).About
			if i < len(of) && of[i] != "" && len(of[i]) <= MaxAboutID && !slices.Contains(ids, of[i]) {
				ids = append(ids, of[i])
			}
		}
	}
	return ids
}

// line describes an ended call in later prompts.
func (c *Tool) line() string {
	text := c.Output
	switch {
	case c.Outcome == OutcomeUnknown || c.Outcome == "":
		text = "unknown whether it took effect" // Exchange.Effects has the person's decision
		if c.Resolution != "" {
			text += "; a person decided: " + c.Resolution
		}
	case c.Outcome != OutcomeOK:
		if strings.TrimSpace(text) == "" && c.Error != nil {
			text = c.Error.Message
		}
		text = string(c.Outcome) + ": " + text
	case strings.TrimSpace(text) == "":
		text = "no output"
	}
	line := Cut(c.Name, 64)
	if in := Cut(string(c.Input), 80); in != "" && in != "{}" && in != "null" {
		line += " " + in
	}
	return clip(line+": "+Cut(text, 160), maxResultLine)
}
