// Package prompt has what the prompts and answers of all runtimes have in common: how a turn is
// described, what a model is told of earlier turns, and the notes at the end of an answer.
package prompt

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/parley-server/parley"
)

// endNotes opens the block in which a model may put what belongs to its answer
// but not into its text: {"citations": [...], "follow_ups": [...]}, up to the
// closing fence. An app's prompt asks for it.
const endNotes = "```parley\n"

// Response is a reply's text as an answer: the end notes, where there are any,
// become fields. Notes that cannot be read are left out of the text all the
// same; they are not for people.
func Response(text string) parley.Response {
	before, after, found := strings.Cut(text, endNotes)
	if !found {
		return parley.Response{Message: text}
	}
	r := parley.Response{Message: strings.TrimRight(before, " \n")}
	raw, _, _ := strings.Cut(after, "```")
	var notes struct {
		Citations        []parley.Citation `json:"citations"`
		FollowUps        []string          `json:"follow_ups"`
		ReasoningSummary string            `json:"reasoning_summary"`
	}
	if json.Unmarshal([]byte(raw), &notes) == nil {
		r.Citations, r.FollowUps, r.ReasoningSummary = notes.Citations, notes.FollowUps, notes.ReasoningSummary
	}
	if r.Message == "" {
		r.Message = text
	}
	return r
}

// Cited adds what the provider's own tools found for the agent in this turn.
func Cited(r parley.Response, a *parley.Agent) parley.Response {
	for _, it := range a.Items {
		for _, c := range it.Citations {
			if !slices.Contains(r.Citations, c) {
				r.Citations = append(r.Citations, c)
			}
		}
	}
	return r
}

// Visible passes on the fragments of a reply up to its end notes. It holds back
// only what may be the beginning of them.
type Visible struct {
	held   string
	hidden bool
}

// Next returns what of the text held back and the next fragment may be shown.
func (v *Visible) Next(text string) string {
	if v.hidden {
		return ""
	}
	text = v.held + text
	if before, _, found := strings.Cut(text, endNotes); found {
		v.hidden, v.held = true, ""
		return strings.TrimRight(before, "\n")
	}
	keep := 0
	for n := min(len(endNotes)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, endNotes[:n]) {
			keep = n
			break
		}
	}
	v.held = text[len(text)-keep:]
	return text[:len(text)-keep]
}

// Rest is what was held back and turned out to be text.
func (v *Visible) Rest() string {
	text := v.held
	v.held = ""
	return text
}
