package household

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/pattern"
)

// Automations, scripts and scenes are things that a question can be about: which there are, what
// one does, whether it is on, when it ran, and which of them use a thing.

// Patterns of questions about them.
var (
	routineWord = pattern.New(`\b(automations?|routines?|scripts?|scenes?)\b`)
	routineDoes = pattern.New(`\bwhat(?:'s| does| do| is| will| would| happens| did)?\b.*\b(?:do|does|for|run|start|activate|switch|turn|change|touch|set|trigger|look like|mean|about)\b`)
	routineRan  = pattern.New(`\b(?:run|ran|triggered|fired|executed|kicked in|work|worked)\b`)
	routineWhy  = pattern.New(`\b(?:what|when|how|why)\b.*\b(?:trigger|triggers|triggered|starts?|sets? off|fires?|kicks? in)\b`)
	isEnabled   = pattern.New(`^(?:and |so |but )*is\b.*\b(?:on|enabled|active|off|disabled)$`)
	byItself    = pattern.New(`^(?:and |so |but )*(?:will|does|would|can)\b.*\b(?:by (?:itself|themselves)|automatically|on its own)\b`)
	having      = pattern.New(`\b(?:have|exist|list|are there|got|know of)\b`)
	usedBy      = pattern.New(`\b(?:what|which|who|anything|something|any)\b.*\b(?:uses?|using|depends? on|touch|touches|controls?|reacts? to|messing with|messes with)\b`)
	usesLine    = pattern.New(`(?m)^Uses: (.+)$`)
	usedLine    = pattern.New(`(?m)^Used by (automation|script|scene): (.+)$`)
	severalOf   = pattern.New(`\b(?:automations|routines|scripts|scenes)\b|\b(?:any|which|what|every|each) (?:\S+ )?(?:automation|routine|script|scene)\b`)
	triggeredBy = pattern.New(`(?m)^- (\d{4}-\S+ \S+) triggered by (.+)$`)
)

// routine answers a question about automations, scripts and scenes. ok is false if it is not
// about one.
func (u *turn) routine(q *ask, a *answered) (calls []Call, ok bool) {
	flat := strings.Join(q.ws, " ")
	if q.intent == isAct || !asking.MatchString(flat) && !isEnabled.MatchString(flat) && !usedBy.MatchString(flat) && !byItself.MatchString(flat) {
		return nil, false
	}
	word, of := routineWord.MatchString(flat), flat
	if n := len(u.Earlier); n > 0 && !word && slices.ContainsFunc(q.ws, func(w string) bool { return singular[w] }) {
		before := strings.ToLower(u.Earlier[n-1].Question)
		if word = routineWord.MatchString(before) && len(u.asks) > 0; word { // "does it work?"
			of = strings.Join(clean(before), " ")
		}
	}
	uses := usedBy.MatchString(flat) && !re(`\bdid\b`).MatchString(flat) && (word || q.own()) && !metered(q)
	if uses || byItself.MatchString(flat) && q.own() {
		if calls, ok := u.users(q, a); ok {
			return calls, true
		}
	}
	about := word || isEnabled.MatchString(flat) || routineDoes.MatchString(flat) || routineWhy.MatchString(flat)
	nameless := routineDoes.MatchString(flat) && q.kind == nil && q.all && len(q.areas)+len(q.names) == 0 // "everything off"
	if !about || !word && !nameless && !u.namesRoutine(flat) {
		return nil, false
	}
	domains := routineDomains
	if domain := theDomain(flat); domain != "" { // a script is no automation, whatever its name
		domains = []string{domain}
	}
	all, calls := u.routines(domains...)
	if len(calls) > 0 {
		return calls, true
	}
	e, found := u.theRoutine(of, word, all)
	many := severalOf.MatchString(flat)
	if wholly := found && wholeName(e, flat); word && len(q.areas) > 0 && !wholly && (many || !found) {
		return u.routinesIn(q, flat, all, a), true
	}
	switch {
	case word && many && ranThen(q, flat) && !(found && wholeName(e, flat)):
		return u.ranAtAll(q, flat, all, a), true
	case word && many && q.kind != nil && q.kind.domain == "automation" && len(q.areas) == 0 && (q.state == "on" || q.state == "off") && !routineRan.MatchString(flat):
		u.listRoutines(flat, all, a)
		return nil, true
	case found && !(having.MatchString(flat) && !wholeName(e, flat)):
		return u.oneRoutine(q, flat, e, a), true
	case word && (q.aspect == "which" || q.aspect == "count" || re(`\b(?:what|which|how many|list|any|all)\b`).MatchString(flat)) && len(q.areas) == 0:
		u.listRoutines(flat, all, a)
		return nil, true
	}
	return nil, false
}

// metered reports whether the question is about a use of energy.
func metered(q *ask) bool {
	return q.kind != nil && (q.kind.class == "power" || q.kind.class == "energy") || q.extreme != 0
}

var routineDomains = []string{"automation", "script", "scene"}

// routines returns all automations, scripts and scenes of these domains, or the calls for them.
func (u *turn) routines(domains ...string) (all []entity, calls []Call) {
	for _, domain := range domains {
		c := Call{Tool: query, Input: map[string]any{"domain": domain, "limit": 100}}
		if r, ok := u.got(c); ok {
			all = append(all, entities(r.Output, u.know.areas)...)
		} else {
			calls = append(calls, c)
		}
	}
	return all, calls
}

func isRoutine(e entity) bool {
	return slices.Contains(routineDomains, e.domain())
}

// namesRoutine reports whether the words hold the whole name of one.
func (u *turn) namesRoutine(flat string) bool {
	return slices.ContainsFunc(u.know.hits, func(e entity) bool { return isRoutine(e) && wholeName(e, flat) })
}

func wholeName(e entity, flat string) bool {
	return strings.Contains(" "+flat+" ", " "+strings.Join(clean(strings.ToLower(e.name)), " ")+" ")
}

// theRoutine returns the one that the words name: by its whole name, or by the most of its words,
// if the question says that it means one.
func (u *turn) theRoutine(flat string, word bool, all []entity) (best entity, ok bool) {
	ws := clean(routineWord.ReplaceAllString(flat, ""))
	most, tied := 0.0, false
	for _, e := range all {
		name := clean(strings.ToLower(e.name))
		n := 0
		for _, w := range name {
			if len(w) > 2 && !keyword.IsStop(w) && slices.ContainsFunc(ws, func(have string) bool {
				return have == w || len(have) > 5 && alike(have, w) || stem(have) == stem(w) && !idle[have]
			}) {
				n++
			}
		}
		score := float64(n) + float64(n)/float64(len(name)+1)
		if wholeName(e, flat) {
			score += 10
		} else if !word {
			continue
		}
		switch {
		case score > most:
			best, most, tied = e, score, false
		case score == most && score > 0:
			tied = true
		}
	}
	return best, most > 0 && !tied
}

// theDomain returns the domain that the words name, or "".
func theDomain(flat string) string {
	domain := strings.TrimSuffix(routineWord.FindString(flat), "s")
	if domain == "routine" {
		return "automation"
	}
	return domain
}

// maxAsked is how many routines a question about a room looks into, one call for each.
const maxAsked = 9

// routinesIn says which ones use something in the rooms of the question, and when they ran if that
// is asked.
func (u *turn) routinesIn(q *ask, flat string, all []entity, a *answered) []Call {
	domain := orText(theDomain(flat), "automation")
	left := len(all) - min(len(all), maxAsked)
	all = all[:len(all)-left]
	var calls []Call
	used := map[string][]string{} // ids, by routine
	var ids []entity
	for _, e := range all {
		r, ok := u.got(usesOf(e))
		if !ok {
			calls = append(calls, usesOf(e))
			continue
		}
		for _, id := range usedIDs(e, r) {
			used[e.id] = append(used[e.id], id)
			if !slices.ContainsFunc(ids, func(o entity) bool { return o.id == id }) {
				ids = append(ids, entity{id: id})
			}
		}
	}
	if len(calls) > 0 {
		return calls
	}
	var things, here []entity
	if len(ids) > 0 { // one look at all of them: a turn has few calls
		if things, calls = u.live(ids[:min(len(ids), 100)]); len(calls) > 0 {
			return calls
		}
	}
	uses := map[string][]string{} // by routine, what it uses there
	for _, e := range all {
		for _, o := range things {
			grouped := o.class == "group" && slices.ContainsFunc(q.areas, func(area string) bool { return u.named(o, strings.ToLower(area)) })
			if slices.Contains(used[e.id], o.id) && (slices.Contains(q.areas, o.area) || grouped) {
				uses[e.id] = append(uses[e.id], o.the())
			}
		}
		if len(uses[e.id]) > 0 {
			here = append(here, e)
		}
	}
	where := strings.ToLower(listed(q.areas))
	if left > 0 {
		defer a.say("I looked into %d of %d.", len(all), len(all)+left)
	}
	if len(here) == 0 {
		a.say("No %s uses anything in the %s.", domain, where)
		u.listRoutines(flat, all, a)
		return nil
	}
	if len(here) == 1 && !severalOf.MatchString(flat) {
		return u.oneRoutine(q, flat, here[0], a)
	}
	if ranThen(q, flat) {
		ran, calls := u.runs(q, here)
		if len(calls) > 0 {
			return calls
		}
		var lines []string
		for _, e := range here {
			if ts := ran[e.id]; len(ts) > 0 {
				a.cite(e.id, e.name)
				lines = append(lines, fmt.Sprintf("- %s: %s; it uses %s", e.name, u.know.clocks(ts[:min(len(ts), 10)]), listed(uses[e.id])))
			}
		}
		using := fmt.Sprintf("%s that %s something in the %s", plural(len(here), domain, domain+"s"), plural(len(here), "uses", "use"), where)
		if len(lines) == 0 {
			a.say("No: %s %s %s %s.", plural(len(here), "the one", "none of the "+count(len(here))), using, plural(len(here), "did not run", "ran"), q.when.said)
		} else {
			a.say("%s of the %s %s ran %s:\n\n%s", upper(count(len(lines))), count(len(here)), using, q.when.said, strings.Join(lines, "\n"))
		}
		return nil
	}
	if routineRan.MatchString(flat) { // when they ran is in their attributes
		if here, calls = u.live(here); len(calls) > 0 {
			return calls
		}
	}
	var lines []string
	for _, e := range here {
		a.cite(e.id, e.name)
		line := fmt.Sprintf("- %s: uses %s", e.name, listed(uses[e.id]))
		if domain == "automation" && !e.is("on") {
			line += "; it is off"
		}
		if at := u.lastRun(e); routineRan.MatchString(flat) && at != "" {
			line += "; it last ran " + at
		}
		lines = append(lines, line)
	}
	a.say("%s %s something in the %s:\n\n%s", upper(count(len(here))), plural(len(here), domain+" uses", domain+"s use"), where, strings.Join(lines, "\n"))
	return nil
}

// usesOf is the call that tells what a routine uses.
func usesOf(e entity) Call {
	return Call{Tool: diagnose, Input: map[string]any{"entity": e.id, "start": "-72h"}}
}

// usedIDs returns what a routine uses, by its diagnosis.
func usedIDs(e entity, r Result) []string {
	m := usesLine.FindStringSubmatch(r.Output)
	if m == nil {
		return nil
	}
	return slices.DeleteFunc(strings.Split(m[1], ", "), func(id string) bool { return id == e.id })
}

// listRoutines says which there are.
func (u *turn) listRoutines(flat string, all []entity, a *answered) {
	domain := theDomain(flat)
	var on, off []string
	for _, e := range all {
		switch {
		case e.domain() != domain:
		case domain == "automation" && !e.is("on"):
			off = append(off, e.name)
		default:
			on = append(on, e.name)
		}
	}
	switch n := len(on) + len(off); {
	case n == 0:
		a.say("There is no %s in this house.", domain)
	case domain == "automation" && re(`\b(?:off|disabled|inactive|not on)\b`).MatchString(flat):
		if len(off) == 0 {
			a.say("None is off: all %s automations are on.", count(len(on)))
			return
		}
		a.say("%s %s off; the other %s %s on.", listed(off), plural(len(off), "is", "are"), count(len(on)), plural(len(on), "is", "are"))
	case domain == "automation":
		a.say("%s %s on: %s.", upper(count(len(on))), plural(len(on), "automation is", "automations are"), listed(on))
		if len(off) > 0 {
			a.say("%s %s off.", listed(off), plural(len(off), "is", "are"))
		}
	default:
		a.say("There %s: %s.", plural(n, "is one "+domain, "are "+count(n)+" "+domain+"s"), listed(on))
	}
}

// oneRoutine says what was asked of one.
func (u *turn) oneRoutine(q *ask, flat string, e entity, a *answered) []Call {
	live, calls := u.live([]entity{e})
	c := usesOf(e)
	r, ok := u.got(c)
	if !ok {
		calls = append(calls, c)
	}
	wrong, more := u.brokeOff(e)
	if calls = append(calls, more...); len(calls) > 0 {
		return calls
	}
	if len(live) > 0 {
		e = live[0]
	}
	used, calls := u.used(e, r)
	if len(calls) > 0 {
		return calls
	}
	a.cite(e.id, e.name)
	kind := e.domain()
	name := fmt.Sprintf("%s \"%s\"", kind, e.name)
	ran := "It has not run in the time that is recorded."
	at := u.lastRun(e)
	if at != "" {
		ran = fmt.Sprintf("It last ran %s.", at)
		if m := triggeredBy.FindAllStringSubmatch(r.Output, -1); m != nil {
			ran = fmt.Sprintf("It last ran %s, triggered by %s.", at, u.known(m[len(m)-1][2]))
		}
	}
	if wrong != nil {
		ran = map[bool]string{true: ran + " "}[at != ""] + "It " + u.failedSaid(e, wrong) + "."
	}
	state := ""
	if kind == "automation" {
		state = "It is " + map[bool]string{true: "on", false: "off, so it does nothing by itself"}[e.is("on")] + "."
	}
	switch {
	case kind == "automation" && isEnabled.MatchString(flat):
		yes := e.is("on") != has(q.ws, "off|disabled")
		a.say("%s: the %s is %s.", map[bool]string{true: "Yes", false: "No"}[yes], name, map[bool]string{true: "on", false: "off, so it does nothing by itself"}[e.is("on")])
		a.say("%s", ran)
	case ranThen(q, flat) && q.aspect == "":
		then, calls := u.runs(q, []entity{e})
		if len(calls) > 0 {
			return calls
		}
		if ts := then[e.id]; len(ts) > 0 {
			a.say("Yes: the %s ran %s, %s.", name, q.when.said, u.know.clocks(ts[:min(len(ts), 10)]))
		} else {
			a.say("No: the %s did not run %s. %s", name, q.when.said, ran)
		}
	case routineRan.MatchString(flat) && !routineDoes.MatchString(flat):
		yes := ""
		if re(`^(?:and |so |but )*(?:does|do|did|is)\b.*\bwork(?:s|ed|ing)?\b`).MatchString(flat) {
			yes = "I cannot tell: "
			switch {
			case wrong != nil:
				yes = "No: "
			case at != "":
				yes = "Yes, as far as can be told: "
			}
		}
		a.say("%s %s", upper(yes+strings.Replace(ran, "It", "the "+name, 1)), state)
	default:
		said := fmt.Sprintf("The %s concerns %s.", name, listed(used))
		if kind == "scene" {
			said = fmt.Sprintf("The %s sets %s.", name, listed(used))
		}
		if len(used) == 0 {
			said = fmt.Sprintf("What the %s concerns is not recorded.", name)
		}
		a.say("%s %s", said, strings.TrimSpace(state))
		if kind != "scene" {
			a.say("%s", ran)
		}
		a.say("Its steps are in its own settings, which I cannot read.")
	}
	return nil
}

// used returns the names of what one uses, or the calls for them.
func (u *turn) used(e entity, r Result) (names []string, calls []Call) {
	var es []entity
	for _, id := range usedIDs(e, r) {
		es = append(es, entity{id: id})
	}
	if len(es) == 0 {
		return nil, nil
	}
	es, calls = u.live(es[:min(len(es), 20)])
	for _, o := range es {
		names = append(names, o.the())
	}
	return names, calls
}

// users says which automations, scripts and scenes use a thing.
func (u *turn) users(q *ask, a *answered) (calls []Call, ok bool) {
	of := *q
	if of.kind != nil && of.kind.domain == "automation" { // "which automations touch the lamp"
		of.kind = nil
	}
	es, calls := u.chosen(&of)
	if len(calls) == 0 && len(es) == 0 && q.kind != nil { // "when Ana leaves" names nothing of the vacuum
		of.names, of.unknown = nil, nil
		es, calls = u.chosen(&of)
	}
	if len(calls) > 0 {
		return calls, true
	}
	es = slices.DeleteFunc(slices.Clone(es), isRoutine)
	if len(es) == 0 || len(es) > 4 {
		return nil, false
	}
	by, active := map[string][]string{}, map[string]int{}
	for _, e := range es {
		var more []Call
		by[e.id], active[e.id], more = u.usersOf(e)
		calls = append(calls, more...)
	}
	if len(calls) > 0 {
		return calls, true
	}
	for _, e := range es {
		a.cite(e.id, e.name)
		yes := ""
		if byItself.MatchString(strings.Join(q.ws, " ")) { // what uses a thing need not switch it
			yes = map[bool]string{true: "It may: ", false: "No: "}[active[e.id] > 0]
		}
		if len(by[e.id]) == 0 {
			a.say("%s", upper(yes+fmt.Sprintf("no automation, script or scene uses %s.", e.the())))
			continue
		}
		a.say("%s %s used by %s.", upper(yes+e.the()), map[bool]string{true: "are", false: "is"}[e.many()], listed(by[e.id]))
	}
	return nil, true
}

// usersOf returns the automations, scripts and scenes that use a thing, by their sort: "the
// automations A and B", and how many of the automations are on. Or it returns the calls for them.
func (u *turn) usersOf(e entity) (by []string, active int, calls []Call) {
	all, calls := u.routines(routineDomains...)
	c := Call{Tool: diagnose, Input: map[string]any{"entity": e.id}}
	r, ok := u.got(c)
	if !ok {
		calls = append(calls, c)
	}
	if len(calls) > 0 {
		return nil, 0, calls
	}
	for _, m := range usedLine.FindAllStringSubmatch(r.Output, -1) {
		var names []string
		for _, id := range strings.Split(m[2], ", ") {
			i := slices.IndexFunc(all, func(o entity) bool { return o.id == id })
			if i < 0 {
				continue
			}
			name := all[i].name
			switch {
			case m[1] == "automation" && !all[i].is("on"):
				name += " (which is off)"
			case m[1] == "automation":
				active++
			}
			names = append(names, name)
		}
		if len(names) > 0 {
			by = append(by, fmt.Sprintf("the %s %s", plural(len(names), m[1], m[1]+"s"), listed(names)))
		}
	}
	return by, active, nil
}
