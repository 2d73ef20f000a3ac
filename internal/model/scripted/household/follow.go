package household

import "slices"

// lean takes over from the question before what this one leaves out.
func (u *turn) lean(q, before *ask, flat string) {
	ownState := q.state // that it says itself
	own := q.kind != nil || len(q.areas) > 0 || len(q.names) > 0
	said := clean(re(`\bhow \S+ (?:is it|it is)\b`).ReplaceAllString(flat, "")) // "how cold it is" refers to nothing
	refers := slices.ContainsFunc(said, func(w string) bool { return pronouns[w] && w != "then" })
	leads := leaningStart.MatchString(flat) && re(`^(?:and|or|so|but|what about|how about|also)\b`).MatchString(flat)
	refers = refers || before.intent == isCause && q.aspect == "doubt"
	if own && !refers && !leads && (q.intent != isState || !q.plain || q.kind != nil && len(q.areas) > 0) {
		return
	}
	if q.lost != "" || own && !refers && !leads {
		return
	}
	thing := func() { // what it is about, for a question that names nothing
		if q.kind == nil {
			q.kind = before.kind
		}
		// A thing that is named is not looked for in the room of before, unless there
		// is one of that name in it.
		elsewhere := len(q.names) > 0 && !slices.ContainsFunc(u.know.hits, func(e entity) bool {
			return slices.Contains(before.areas, e.area) && !slices.ContainsFunc(q.names, func(w string) bool { return !u.named(e, w) })
		})
		if len(q.names) == 0 {
			q.names, q.unknown = before.names, before.unknown
		}
		if len(q.areas) == 0 && !elsewhere {
			q.areas = before.areas
		}
	}
	q.leaning = true
	switch {
	case before.intent == isCause && q.aspect != "" && q.intent != isAct && (!own || refers || q.aspect == "which" || q.aspect == "doubt"):
		var doubt []string // "the loo fan", whatever it is to the house
		for _, w := range q.ws {
			if !idle[w] && !pronouns[w] {
				doubt = append(doubt, w)
			}
		}
		*q = merged(*before, *q)
		q.intent, q.kind, q.names, q.areas = isCause, before.kind, before.names, before.areas
		if q.aspect == "doubt" {
			q.unknown = doubt
		}
	case q.aspect == "why" && !own:
		*q = merged(*before, *q)
		q.intent, q.aspect = before.intent, "why"
	case q.intent == isAct:
		thing()
	case q.intent == isCost || q.intent == isErrors:
	case q.intent == isPast && !own && (before.intent == isFigures || before.intent == isRank || before.intent == isPast || before.intent == isUnavailable) && (q.aspect == "when" || q.aspect == "who" || q.aspect == "since" || q.aspect == "often") && q.state == "":
		aspect := q.aspect
		*q = merged(*before, *q)
		q.intent, q.aspect = before.intent, aspect
	case q.intent == isWhere, q.plain:
		intent, aspect, deed := before.intent, q.aspect, before.deed
		where := q.intent == isWhere
		kept := *before
		if own && len(q.names) > 0 && q.kind == nil && len(q.areas) == 0 { // another thing
			kept.kind = nil
			if before.kind != nil && before.kind.domain != "person" {
				kept.kind = before.kind
				if len(before.names) > 0 || !before.kind.measure {
					kept.kind = nil
				}
			}
			kept.areas, kept.names = nil, nil
		}
		if len(q.areas) > 0 { // another room
			kept.areas = nil
			if len(q.names) == 0 && before.kind != nil {
				kept.names = nil
			}
		}
		*q = merged(kept, *q)
		if intent == isAct {
			intent, deed = isState, before.deed
		}
		q.intent, q.deed = intent, deed
		switch {
		case aspect != "":
			q.aspect = aspect
		case ownState == "" && slices.Contains([]string{"when", "who", "count", "since", "often"}, before.aspect): // And Ana?
			q.aspect = before.aspect
		}
		if aspect == "since" && (intent == isPast || intent == isHappened) {
			q.intent = isState
		}
		if where && before.intent != isUnavailable && before.intent != isRank {
			q.intent = isWhere
		}
	case before.intent == isUnavailable && !own:
		q.intent = isUnavailable
	default:
		if !own {
			thing()
		} else if q.kind == nil && len(q.names) == 0 {
			q.kind = before.kind
		}
	}
	if before.when.tool == "yesterday" && re(`\bday before\b`).MatchString(flat) {
		q.when = span{tool: "day before yesterday", said: "the day before yesterday"}
	}
}

// merged is the question before with what the later one says itself.
func merged(before, q ask) ask {
	out := before
	out.text, out.ws, out.leaning, out.aspect, out.plain = q.text, q.ws, true, q.aspect, false
	if q.kind != nil {
		out.kind = q.kind
	}
	if len(q.areas) > 0 {
		out.areas = q.areas
	}
	if len(q.names) > 0 {
		out.names, out.unknown = q.names, q.unknown
	}
	if q.when.tool != "" {
		out.when = q.when
	}
	if q.state != "" {
		out.state = q.state
	}
	if q.extreme != 0 {
		out.extreme = q.extreme
	}
	return out
}
