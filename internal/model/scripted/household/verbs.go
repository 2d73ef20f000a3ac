package household

import "strings"

func byWhom(c change) string {
	if c.by == "" {
		return ""
	}
	return ", by " + c.by
}

// verbed returns the verb for a change to a state.
func verbed(state string) string {
	switch state {
	case "home":
		return "came home"
	case "away":
		return "left"
	case "open":
		return "was opened"
	case "closed":
		return "was closed"
	case "locked", "unlocked", "armed", "disarmed":
		return "was " + state
	case "finished":
		return "finished"
	case "off":
		return "went off"
	case "rain", "snow":
		return "turned to " + state
	case "up":
		return "rose"
	case "down":
		return "set"
	}
	return "came on"
}

// was returns "was" or "were" for an entity.
func was(e entity) string { return map[bool]string{true: "were", false: "was"}[e.many()] }

// verbedOf returns the verb for a change of one entity to a state.
func verbedOf(e entity, state string) string {
	if e.class == "motion" && state == "on" {
		return "saw motion"
	}
	if e.many() {
		return strings.Replace(verbed(state), "was ", "were ", 1)
	}
	return verbed(state)
}

// did returns the verb for what a person did to bring about a state.
func did(state string) string {
	switch state {
	case "open":
		return "opened"
	case "closed":
		return "closed"
	case "on", "off":
		return "turned " + state
	case "finished":
		return "ended"
	}
	return state
}

// doneWord names the state itself, in a sentence about the past.
func doneWord(state string) string {
	switch state {
	case "home":
		return "at home"
	case "away":
		return "out"
	}
	return state
}
