package loop

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

// response is a reply's text as an answer: the end notes, where there are any,
// become fields. Notes that cannot be read are left out of the text all the
// same; they are not for people.
func response(text string) parley.Response {
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

// cited adds what the provider's own tools found for the agent in this turn.
func cited(r parley.Response, a *parley.Agent) parley.Response {
	for _, it := range a.Items {
		for _, c := range it.Citations {
			if !slices.Contains(r.Citations, c) {
				r.Citations = append(r.Citations, c)
			}
		}
	}
	return r
}

// visible passes on the fragments of a reply up to its end notes. It holds back
// only what may be the beginning of them.
type visible struct {
	held   string
	hidden bool
}

func (v *visible) next(text string) string {
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

// rest is what was held back and turned out to be text.
func (v *visible) rest() string {
	text := v.held
	v.held = ""
	return text
}
