package household

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// unavailable says what is unavailable.
func (u *turn) unavailable(q *ask, a *answered) []Call {
	c := Call{Tool: query, Input: map[string]any{"state": "unavailable", "limit": 100, "attributes": false}}
	r, ok := u.got(c)
	if !ok {
		return []Call{c}
	}
	es := entities(r.Output, u.know.areas)
	if len(q.areas) > 0 {
		es = slices.DeleteFunc(es, func(e entity) bool { return !slices.Contains(q.areas, e.area) })
	}
	var faults []fault
	if len(q.areas) == 0 && q.aspect != "since" && q.aspect != "where" && (q.aspect == "faults" || defects.MatchString(strings.Join(q.ws, " "))) {
		log := Call{Tool: failures, Input: map[string]any{"since": "-36h"}}
		r, ok := u.got(log)
		if !ok {
			return []Call{log}
		}
		faults = slices.DeleteFunc(faultsOf(r.Output), func(f fault) bool { return f.level == "WARNING" })
	}
	if len(es) == 0 {
		a.say("Nothing%s is unavailable: all that Home Assistant knows answers.", inAreas(q))
		u.faulty(faults, a)
		return nil
	}
	var names []string
	for _, e := range es {
		a.cite(e.id, e.name+": unavailable")
		name := lowerFirst(e.short())
		if e.area != "" && !strings.Contains(strings.ToLower(name), strings.ToLower(e.area)) {
			name += " in the " + strings.ToLower(e.area)
		}
		names = append(names, name)
	}
	switch q.aspect {
	case "since":
		return u.lostSince(es, a)
	case "where":
		u.placed(es, a)
		return nil
	}
	if has(q.ws, "sensor|sensors") && !slices.ContainsFunc(es, func(e entity) bool { return strings.HasSuffix(e.domain(), "sensor") }) {
		a.say("No sensor is unavailable. %s %s not answer: the %s.", upper(count(len(es)))+plural(len(es), " other thing", " other things"), plural(len(es), "does", "do"), listed(names))
	} else {
		a.say("%s %s not answer: the %s.", upper(count(len(es)))+plural(len(es), " thing", " things"), plural(len(es), "does", "do"), listed(names))
	}
	for _, e := range es {
		a.prove("%s: not answering%s", e.name, u.sinceOf(e))
	}
	u.faulty(faults, a)
	return nil
}

var (
	// defects matches a question for more than what does not answer.
	defects = pattern.New(`\b(?:broken|faulty|defective|wrong|(?:out of|in) order|good|ok|okay|fine|well|all ?right)\b`)
	// ownWord matches a message by which a machine reports a fault of its own; others tell of a
	// connection or of a single action that failed.
	ownWord = pattern.New(`(?i)\b(?:fault|defect|failure|malfunction|jammed|blocked|leak)`)
)

// faulty adds the faults that the log has, as a machine that answers may be broken all the same.
func (u *turn) faulty(faults []fault, a *answered) {
	others := 0
	for _, f := range faults {
		if !ownWord.MatchString(f.text) {
			others++
			continue
		}
		a.say("The %s reports a fault, %s: %s.", lowerFirst(f.about), u.know.when(f.last), lowerSentence(u.faultText(f)))
		a.cites = append(a.cites[:min(len(a.cites), maxCites-1)], cite{"Home Assistant log", f.about, cut(f.text, 300)})
		a.prove("Log, about %s: %s (%d %s, last %s)", f.about, u.faultText(f), f.count, plural(f.count, "entry", "entries"), u.know.when(f.last))
	}
	if others > 0 {
		a.say("The log has errors about %s other %s, too; ask for the errors to read them.", count(others), plural(others, "thing", "things"))
	}
}

func inAreas(q *ask) string {
	if len(q.areas) == 0 {
		return ""
	}
	return " in the " + strings.ToLower(listed(q.areas))
}

// lostSince says since when things are unavailable, as far as the history goes.
func (u *turn) lostSince(es []entity, a *answered) []Call {
	c := Call{Tool: history, Input: map[string]any{"entities": idsOf(es[:min(len(es), 8)]), "start": "-720h", "plot": false}}
	r, ok := u.got(c)
	if !ok {
		return []Call{c}
	}
	past := pastOf(r.Output)
	for _, e := range es {
		p := past[e.id]
		switch {
		case p == nil || p.share["unavailable"] == 0:
			a.say("Since when %s does not answer is not recorded.", e.the())
		case len(p.changes) > 0:
			a.say("%s has not answered since %s.", upper(e.the()), u.know.since(p.changes[len(p.changes)-1].at))
		case p.recorded.IsZero():
			a.say("%s has not answered for the whole month that I can look back on.", upper(e.the()))
		default:
			a.say("%s has not answered since %s at least. That is as far back as the history goes, so it may be longer.", upper(e.the()), u.know.since(p.recorded))
		}
	}
	return nil
}
