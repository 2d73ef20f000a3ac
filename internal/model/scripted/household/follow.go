package household

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// own reports whether a question names what it is about.
func (q *ask) own() bool { return q.kind != nil || len(q.areas) > 0 || len(q.names) > 0 }

// anywhere matches questions about whatever does not answer, wherever it is.
var anywhere = pattern.New(`^(?:which|what) (?:\w+ ){0,2}(?:sensors?|devices?|things?|entities|gadgets?) (?:is|are|has|have)\b|^(?:what|which) (?:is|are) (?:unavailable|offline)\b|\b(?:any|all|every)(?: \w+)? (?:sensors?|devices?|things?)\b|\b(?:anything|everything)\b`)

// follow fills in from the topic what a question leaves out. What the question names
// stays. A complete question is left as it is.
func (u *turn) follow(q *ask, t *topic, flat string) {
	said := clean(re(`\bhow \S+ (?:is it|it is)\b|\bwas it\b.*\bat\b`).ReplaceAllString(flat, "")) // "how cold it is" refers to nothing earlier
	refers := slices.ContainsFunc(said, func(w string) bool { return pronouns[w] && w != "then" }) || t.intent == isCause && q.aspect == "doubt"
	connects := re(`^(?:and|or|so|but|what about|how about|also)\b|\b(?:too|as well|also)$`).MatchString(flat)
	fragment := q.plain && q.state == "" && !asking.MatchString(bared(flat)) // "the garage?"
	// A sentence with its own subject is complete. One of a word or two is not.
	if q.intent == isUnavailable && !refers && !connects && anywhere.MatchString(flat) {
		return
	}
	u.near(q, t)
	whole := q.intent != isState || !q.plain || q.kind != nil && len(q.areas) > 0
	if q.first && q.when.tool == "" && t.when.short() { // "who was first?" takes the topic's time
		q.when = t.when
	}
	if q.lost != "" || q.own() && !refers && !connects && (whole || !fragment) {
		if q.when.tool == "" && q.clock == "" && t.when.short() && !q.last && q.intent != isAct && re(`\b(?:did|was|were|got|went|came)\b`).MatchString(flat) {
			q.when, q.lent = t.when, true // it is still about last night
		}
		return
	}
	q.leaning = true
	ownState, own := q.state, q.own()
	before := t.ask
	open := before.intent == isRank || before.extreme != 0 || before.aspect == "who" || before.aspect == "which"
	if open && len(q.areas)+len(q.names) == 0 && slices.ContainsFunc(said, func(w string) bool { return singular[w] }) && len(before.names) == 0 && len(before.areas) == 0 {
		if areas, names := u.theOne(t); len(areas)+len(names) > 0 {
			before.areas, before.names, before.unknown = areas, names, nil
			if names != nil && before.kind != nil && !before.kind.measure && before.kind.domain != "person" {
				before.kind = nil
			}
			if q.intent == isAct && names != nil {
				before.kind = nil
			}
		}
	}
	if q.kind != nil && q.kind.measure && len(q.areas)+len(q.names) == 0 && before.kind != nil && !before.kind.measure && len(before.names) == 0 && slices.ContainsFunc(said, func(w string) bool { return singular[w] }) {
		if _, names := u.theOne(t); names != nil { // the battery of what the answer named
			names = slices.DeleteFunc(slices.Clone(names), func(w string) bool { return idle[w] })
			before.kind, before.areas, before.names, before.unknown = nil, nil, names, nil
		}
	}
	if before.intent == isCause && onlyThat.MatchString(flat) {
		q.aspect = "which" // which of them it was
	}
	switch {
	case before.intent == isCause && q.aspect != "" && q.intent != isAct && (!own || refers || q.aspect == "which" || q.aspect == "doubt"):
		var doubt []string // "the loo fan", even if the house has no such name
		for _, w := range q.ws {
			if !idle[w] && !pronouns[w] {
				doubt = append(doubt, w)
			}
		}
		*q = merged(before, *q)
		q.intent, q.kind, q.names, q.areas = isCause, before.kind, before.names, before.areas
		if q.aspect == "doubt" {
			q.unknown = doubt
		}
	case q.aspect == "why" && !own && !refers:
		*q = merged(before, *q)
		q.intent, q.aspect = before.intent, "why"
	case q.intent == isAct:
		u.subject(q, &before)
		if before.aspect == "which" || before.aspect == "count" {
			q.only = before.state
		}
	case q.intent == isCost || q.intent == isErrors:
	case q.intent == isRank && has(q.ws, "than"): // "is that warmer than the bedroom?"
		q.areas = append(slices.Clone(before.areas), q.areas...)
	case before.intent == isAct && fragment && own && !u.mark && before.deed.verb != "": // "and the kitchen", after a request
		u.subject(q, &before)
		q.intent, q.deed, q.again = isAct, before.deed, true
		if v := levelOf(flat, true); v != nil && q.deed.verb == "set" {
			q.deed.value, q.deed.by, q.deed.step = v, 0, 0
		}
	case (q.intent == isFigures || q.intent == isRank) && q.extreme != 0 && before.kind != nil && before.kind.measure:
		if before.intent == isRank || before.intent == isFigures || q.intent == isFigures {
			u.subject(q, &before)
		} else if q.kind == nil { // "which of all"
			q.kind = before.kind
		}
		if q.when.tool == "" && before.intent == isRank { // "and the warmest?"
			q.intent = isRank
		}
		u.window(q, &before)
		q.clock = ""
		if before.intent == isFigures && q.aspect == "" {
			q.intent = isFigures
		}
	case before.intent == isCause && re(`^(?:and )?(?:did|do|were|was)\b.*\b(?:too|also|as well)\b`).MatchString(flat): // "did the others, too?"
		q.intent, q.aspect, q.state = isCause, "", ""
		u.window(q, &before)
	case before.intent == isEnergy && !own && (usual.MatchString(flat) || has(q.ws, "normal|usual|unusual|typical")):
		*q = merged(before, *q)
		q.intent, q.aspect, q.compare = isEnergy, "normal", nil
	case before.kind != nil && before.kind.measure && !own && (usual.MatchString(flat) || has(q.ws, "normal|usual|unusual|typical")):
		u.subject(q, &before)
		q.intent, q.aspect, q.when, q.clock = isFigures, "normal", threeDays, ""
	case before.intent == isEnergy && q.when.tool != "" && len(q.names)+len(q.areas) == 0 && (q.intent == isPast || q.plain):
		own := *q
		*q = merged(before, own)
		q.intent = isEnergy
	case q.plain && q.kind != nil && !fragment && (!connects || q.kind.measure && re(`\bis it\b`).MatchString(flat)) && before.intent != isAct: // "how warm is it there?"
		u.subject(q, &before)
	case q.intent == isPast && !own && (before.intent == isFigures || before.intent == isRank || before.intent == isPast || before.intent == isUnavailable) && slices.Contains([]string{"when", "who", "since", "often"}, q.aspect) && q.state == "":
		aspect := q.aspect
		*q = merged(before, *q)
		q.intent, q.aspect = before.intent, aspect
		q.whose = before.aspect == "who" && aspect == "when"
	case q.intent == isWhere, q.plain:
		u.predicate(q, before, ownState, flat)
		if !own && q.only == "" && q.aspect == "since" && before.state != "" && len(before.names) == 0 && re(`^(?:yes|some|not all)\b`).MatchString(strings.ToLower(t.told)) {
			q.only = before.state // since when those are, of which it said so
		}
	case before.intent == isUnavailable && !own:
		q.intent = isUnavailable
	default:
		if !own || refers && len(q.names)+len(q.areas) == 0 {
			u.subject(q, &before)
		} else if q.kind == nil && len(q.names) == 0 {
			q.kind = before.kind
		}
		if q.aspect == "howlong" && q.when.tool == "" && before.when.tool == "" {
			q.last = true
		}
		if q.intent == before.intent || q.intent == isPast && before.intent == isFigures {
			u.window(q, &before)
		}
	}
	if q.aspect == "often" && ownState == "" && !own && t.freq != "" { // "and how often yesterday?"
		q.state = t.freq
	}
	if s := stateOf(q, flat); ownState == "" && s != "" && q.kind == t.kind && q.intent != isAct { // the word's meaning for this kind of thing
		q.state = s
	}
	if q.state != "" && ownState == q.state && q.state != t.state && timeIn(flat).tool == "" { // "she left in the morning, and back?"
		q.when = u.day(q.when)
	}
	q.lent = q.when.tool != "" && timeIn(flat).tool == ""
	if own := timeIn(flat); own.tool == "" && has(q.ws, "last|ever|latest") { // the last time ever
		q.when = span{}
	}
	if re(`\b(?:the )?(?:day|night|evening|morning|afternoon) before\b`).MatchString(flat) && q.when.tool != "day before yesterday" && q.compare == nil {
		if earlier := u.before(t.when); earlier.tool != "" {
			q.when = earlier
		}
	}
}

// onlyThat asks whether what was found concerns one thing alone.
var onlyThat = pattern.New(`^(?:and |so |but )*(?:is|was|were|are) (?:it|that|this|they) (?:just|only)\b`)

// threeDays is the time whose figures tell what is usual: as long as houses record at least.
var threeDays = span{tool: "-72h", said: "in the last three days"}

// near resolves a thing that is named without a room, and that several rooms have, to
// the one in the topic's room: "the ceiling light".
func (u *turn) near(q *ask, t *topic) {
	if len(t.areas) == 0 || len(q.areas) > 0 || q.lost != "" || q.all || q.kind == nil || len(q.unknown) > 0 {
		return
	}
	one := q.kind.domain == "light" || q.kind.domain == "climate" || q.kind.domain == "fan" || q.kind.class == "window" || q.kind.class == "shutter"
	if !one || !re(`\b(?:the|its) (?:\S+ )?(?:light|lamp|window|radiator|heating|blind|fan|thermostat)\b`).MatchString(strings.Join(q.ws, " ")) {
		return
	}
	here, all := 0, 0
	for _, e := range u.know.hits {
		if q.kind.fits(e) && u.namedAll(e, q.names) {
			all++
			if slices.Contains(t.areas, e.area) {
				here++
			}
		}
	}
	if here > 0 && all > here {
		q.areas = t.areas
	}
}

// day returns the whole day that a part of a day belongs to. Before dawn, "this morning"
// is yesterday's.
func (u *turn) day(s span) span {
	if strings.HasPrefix(s.tool, "this ") && u.know.now.Hour() < dawn {
		s.tool = "yesterday" + strings.TrimPrefix(s.tool, "this")
	}
	return s.day()
}

// before returns the same time one day earlier. Before dawn, the last completed night
// belongs to the day before yesterday.
func (u *turn) before(s span) span {
	if s.tool == "last night" && u.know.now.Hour() < dawn {
		return span{tool: strings.ToLower(u.know.now.AddDate(0, 0, -3).Weekday().String()) + " night", said: "the night before", half: s.half}
	}
	return s.before()
}

// dawn is the hour before which people count the night as part of the day before. The
// tools do the same.
const dawn = 5

// subject takes the topic's subject if the question names none.
func (u *turn) subject(q, before *ask) {
	// A thing that is named is not looked for in the topic's room, unless that room has
	// one of the name.
	elsewhere := len(q.names) > 0 && !slices.ContainsFunc(u.know.hits, func(e entity) bool {
		return slices.Contains(before.areas, e.area) && !slices.ContainsFunc(q.names, func(w string) bool { return !u.named(e, w) })
	})
	named := len(q.names) > 0
	switch {
	case q.kind != nil:
	case !named:
		q.kind = before.kind
	case before.kind != nil && slices.ContainsFunc(u.know.hits, func(e entity) bool {
		return before.kind.fits(e) && !slices.ContainsFunc(q.names, func(w string) bool { return !u.named(e, w) })
	}): // "the left one"
		q.kind = before.kind
	}
	if !named && (q.kind == before.kind || len(q.areas) == 0) && (len(q.areas) == 0 || q.kind == nil) {
		q.names, q.unknown = before.names, before.unknown
	}
	if len(q.areas) == 0 && !elsewhere {
		q.areas = before.areas
	}
}

// window takes the topic's time: the day, the hour, or both, whichever the question does
// not name.
func (u *turn) window(q, before *ask) {
	if q.when.tool == "" {
		q.when = before.when
	}
	if q.clock == "" {
		q.clock = before.clock
	}
}

// predicate takes what was asked before, for a question that names only another thing,
// another time or another aspect.
func (u *turn) predicate(q *ask, before ask, ownState, flat string) {
	aspect, where, intent := q.aspect, q.intent == isWhere, before.intent
	kept := before
	if len(q.names) > 0 && q.kind == nil && len(q.areas) == 0 { // another thing
		person := before.kind != nil && before.kind.domain == "person"
		if person || before.kind != nil && (len(before.names) > 0 || !before.kind.measure) {
			kept.kind = nil
		}
		kept.areas, kept.names = nil, nil
	}
	if len(q.areas) > 0 { // another room
		kept.areas = nil
		if len(q.names) == 0 && before.kind != nil {
			kept.names = nil
		}
	}
	if q.kind != nil && q.kind != before.kind && len(q.names) > 0 { // a thing of another kind
		kept.names, kept.unknown, kept.areas = nil, nil, nil
	}
	only := ""
	if !q.own() && (before.aspect == "which" || before.aspect == "count" || before.only != "") {
		only = before.state
	}
	*q = merged(kept, *q)
	q.only = only
	if intent == isAct {
		intent, q.but, q.all = isState, subjects{}, false
	}
	past := q.when.tool != "" && q.when.tool != "now"
	switch {
	case intent == isState && past:
		intent = isPast
		if q.kind != nil && q.kind.measure {
			intent = isFigures
		}
	case intent == isPast && ownState != "" && !past && re(`^(?:and |so )?(?:is|are)\b`).MatchString(flat): // "and is it so now?"
		intent, q.when = isState, span{}
	}
	if q.clock != "" && intent == isState {
		intent = isPast
		if q.kind != nil && q.kind.measure {
			intent = isFigures
		}
	}
	q.intent = intent
	switch {
	case aspect != "":
		q.aspect = aspect
	case ownState == "" && slices.Contains([]string{"when", "who", "count", "since", "often", "howlong"}, before.aspect): // "And Ana?"
		q.aspect = before.aspect
	}
	if aspect == "since" && (intent == isPast || intent == isHappened) {
		q.intent = isState
	}
	if q.aspect == "howlong" && q.when.tool == "" { // it takes the topic's time
		q.last = true
	}
	if where && before.intent != isUnavailable && before.intent != isRank {
		q.intent = isWhere
	}
}

// merged returns the earlier question, changed by what the later one states.
func merged(before, q ask) ask {
	out := before
	out.text, out.ws, out.leaning, out.aspect, out.plain, out.only = q.text, q.ws, true, q.aspect, false, q.only
	out.whose, out.compare, out.unsaid, out.out = q.whose, q.compare, q.unsaid, q.out
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
	if q.clock != "" {
		out.clock = q.clock
	}
	if q.state != "" {
		out.state = q.state
	}
	if q.extreme != 0 {
		out.extreme = q.extreme
	}
	if q.but.some() {
		out.but = q.but
	}
	return out
}
