package prompt

import (
	"strings"

	"github.com/parley-server/parley"
)

// foundThen introduces what an earlier turn's tools returned.
const foundThen = "[tool calls of this turn and what they returned, shortened]"

// Found lists what the turn's tools returned, a line each; "" when it called none.
func Found(x parley.Exchange) string {
	if len(x.Results) == 0 {
		return ""
	}
	return foundThen + "\n- " + strings.Join(x.Results, "\n- ")
}

// Effects names the calls with effects of a turn that did not complete, and of any turn
// the calls whose outcome is unknown.
func Effects(x parley.Exchange) string {
	var did []string
	for _, e := range x.Effects {
		switch {
		case e.Outcome == parley.OutcomeUnknown || e.Outcome == "":
			did = append(did, e.Tool+": "+Resolved(e.Resolution))
		case x.Status == parley.StatusCompleted:
		case e.Outcome == parley.OutcomeOK:
			did = append(did, e.Tool+": done")
		default:
			did = append(did, e.Tool+": "+string(e.Outcome)+", not done")
		}
	}
	if did == nil {
		return ""
	}
	return "[calls with effects in this turn: " + strings.Join(did, "; ") + "]"
}

// Resolved says what a person decided about an unknown outcome.
func Resolved(choice string) string {
	switch choice {
	case parley.ChoiceHappened:
		return "done, as a person confirmed"
	case parley.ChoiceDidNot:
		return "not done, as a person confirmed"
	}
	return "unknown whether it was done"
}

// When is the time at which the turn began, by the clocks of its zone.
func When(t *parley.Turn) string {
	at := t.Zone.In(t.StartedAt)
	name := "UTC"
	if t.Zone != nil {
		name = t.Zone.Name + ", UTC" + at.Format("-07:00")
	}
	return at.Format("Monday, 2006-01-02 15:04") + " (" + name + ")"
}
