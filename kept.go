package parley

import (
	"slices"
	"strings"
)

// kept is what the end of the turn takes over from its calls: into an Exchange and the
// Session, and by retention, which takes the calls.
func (t *Turn) kept() CondensedTurn {
	if t.Kept != nil {
		return *t.Kept
	}
	k := CondensedTurn{Turn: t.ID}
	for _, c := range t.Tools.All() {
		if c.Effect != EffectRead && c.Effect != "" {
			k.Effects = append(k.Effects, Effected{Call: c.Call, Tool: c.Name, Outcome: c.Outcome, Resolution: c.Resolution})
		}
		if c.Status == ToolIsEnded && c.RedoneBy == "" {
			k.Results = append(k.Results, c.line())
		}
	}
	if n := len(k.Results); n > maxResults {
		k.Results = slices.Clone(k.Results[n-maxResults:])
	}
	k.About = t.about()
	return k
}

// about are the things that the turn's calls were about: of each the main one, the
// newest call first, then of each the next. Of many calls all have a part in it, and
// what was asked about last has the first.
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

// line is what later prompts say of an ended call.
func (c *Tool) line() string {
	text := c.Output
	switch {
	case c.Outcome == OutcomeUnknown || c.Outcome == "":
		text = "unknown whether it took effect" // Exchange.Effects has what a person said of it
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
