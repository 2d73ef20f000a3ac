// Package household answers what people ask about their house, by rules, from
// what the tools over a Home Assistant return.
//
// [Answer] is a function of a turn: it reads the question and those before it,
// and either calls tools or, once their results are there, answers. It knows
// English words for things, rooms, times and wishes; it knows nothing of any
// house. What there is in one it learns by a search, and what is so by the other
// tools, so every figure of an answer comes from a result.
//
// A question may leave out what the conversation is about. That is built again from
// the turns before (see topic): a follow-up replaces what it names and keeps the rest.
//
// An answer begins with its conclusion. Below it, where there is any, stands the
// evidence as a quotation that begins with [Evidence], which a page can fold.
// Names stand in place of ids; the ids are in the notes at the end, which
// programs read.
//
// It is small: a question of a form that it does not know is answered with what
// it found of the things that were named, or with what it can do.
package household

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/model/scripted/dialog"
	"github.com/parley-server/parley/internal/pattern"
)

// Turn is a question, with everything known so far.
type Turn struct {
	Question string
	Earlier  []Exchange // the session's earlier exchanges, oldest first
	Facts    []string   // kept from earlier turns
	Results  []Result   // of the calls of this turn
	Tools    []string   // the tools that may be called
	Off      string     // why nothing may be changed, if the prompt says so
}

// What a turn is told of a session, and its reply.
type (
	Exchange = dialog.Exchange
	Result   = dialog.Result
	Call     = dialog.Call
	Reply    = dialog.Reply
)

// Evidence begins the quotation with the evidence of an answer.
const Evidence = "**Evidence**"

// The tools that an answer uses.
const (
	search   = "index_search"
	query    = "ha_state_query"
	history  = "ha_history"
	logbook  = "ha_logbook"
	diagnose = "diagnose_entity"
	failures = "analyze_errors"
	act      = "ha_call_service"
	askUser  = "AskUserQuestion"
)

// turn is a Turn in progress.
type turn struct {
	Turn
	know   house // what the searches found out
	asks   []ask // of this question, one for each request in it
	mark   bool  // the text being read ends with a question mark
	looked reads // of what was recorded, for the request that is being answered
}

// Limits on the size of a question, in bytes, and on the number of earlier questions. A
// question about a lamp needs no more.
const (
	maxQuestion = 600
	maxEarlier  = 8
)

// maxCalls is how many calls a turn makes at most: as many as the app allows, or else the turn
// would end without an answer.
const maxCalls = 16

// Answer returns the reply for a turn.
func Answer(t Turn) Reply {
	t.Question = cut(t.Question, maxQuestion)
	t.Earlier = slices.Clone(t.Earlier[max(0, len(t.Earlier)-maxEarlier):])
	for i := range t.Earlier {
		t.Earlier[i].Question = cut(t.Earlier[i].Question, maxQuestion)
	}
	if say := small(t); say != "" {
		return Reply{Say: say}
	}
	u := &turn{Turn: t}
	found := u.results(search)
	if len(found) == 0 {
		return Reply{Say: "I look for what is meant.", Calls: u.searches()}
	}
	if r := found[0]; r.Failed {
		return Reply{Say: "I cannot look at the house now: " + failure(r.Output)}
	}
	u.know = readHouse(found)
	for _, r := range u.Results {
		if r.Tool == search || r.Tool == query {
			u.know.seen = append(u.know.seen, entities(r.Output, u.know.areas)...)
		}
	}
	if f := u.fact(); f != "" {
		return Reply{Say: "You told me: " + strings.TrimSuffix(f, ".") + "."}
	}
	took := u.take()
	u.Question = forgotten(u.Question)
	u.asks = u.read()
	a := newAnswer(u)
	a.took = took
	var calls []Call
	for i := range u.asks {
		before := a.length()
		u.looked = reads{}
		more := u.answer(&u.asks[i], a)
		if len(more) == 0 && u.looked.lost() {
			a.cut(before) // whatever it says, nothing was read that says it
			kept := len(a.parts)
			a.say("I cannot tell: what the house recorded could not be read. %s", failure(u.looked.why))
			a.unread += len(a.parts) - kept
		}
		calls = append(calls, more...)
	}
	// Look up everything before changing anything. Otherwise one request would see what
	// another has changed.
	look := slices.DeleteFunc(slices.Clone(calls), func(c Call) bool { return c.Tool == act })
	if len(look) > 0 && len(look) < len(calls) {
		calls = look
	}
	if calls = u.fresh(calls); len(u.Results)+len(calls) > maxCalls {
		return Reply{Say: "I cannot look into all of that at once: it takes more than I may look up for one question. Ask about a single thing, or about one room."}
	}
	if len(calls) > 0 {
		return Reply{Say: a.plan, Calls: calls}
	}
	return Reply{Say: a.text()}
}

// answer writes the answer to one question, or returns the calls that it needs first.
func (u *turn) answer(q *ask, a *answered) []Call {
	if q.lost != "" && !q.leaning {
		a.say("There is no %s in this house, as far as Home Assistant knows. Its rooms are %s.", q.lost, listed(u.know.areas))
		return nil
	}
	if flat := strings.Join(q.ws, " "); advising.MatchString(flat) && q != &u.asks[0] && q.intent != isCause {
		u.advise(flat, a)
		return nil
	} else if toBed.MatchString(flat) && q.intent != isAct {
		return u.bedtime(q, a)
	}
	if q.intent == isAct && u.timed() {
		u.notNow(q, a)
		return nil
	}
	if q.kind != nil && q.kind.domain == "calendar" && q.intent != isAct {
		return u.calendar(q, a)
	}
	if forbidding.MatchString(polite.ReplaceAllString(strings.Join(q.ws, " "), "")) {
		a.say("Nothing was changed: I leave it as it is.")
		return nil
	}
	if calls, ok := u.routine(q, a); ok {
		return calls
	}
	if calls, ok := u.entries(q, a); ok {
		return calls
	}
	// A name that nothing in the house has does not mean something with a similar name.
	if q.kind == nil && len(q.unknown) > 0 && (q.intent == isState || q.intent == isPast || q.intent == isAct) && len(q.unknown) < len(q.names) {
		what := map[bool]string{true: "Nothing was changed: nothing", false: "I cannot tell: nothing"}[q.intent == isAct]
		a.say("%s called %s is in this house, as far as Home Assistant knows.%s", what, strings.Join(q.names, " "), u.offer(q))
		return nil
	}
	if q.kind != nil && q.kind.domain == "sun" && sunAhead.MatchString(strings.Join(q.ws, " ")) {
		return u.nextSun(q, a)
	}
	if ahead.MatchString(strings.Join(q.ws, " ")) && (q.intent == isState || q.intent == isPast || q.intent == isRank || q.intent == isFigures) {
		a.say("I cannot tell what will be: the house records what is and what was, and I read no forecast.")
		return nil
	}
	if relatives.MatchString(strings.Join(q.ws, " ")) && (q.state == "home" || q.state == "away") && q.intent != isAct {
		es, calls := u.list(kindNamed("person"))
		if len(calls) == 0 {
			a.say("I cannot tell: of the people of this house Home Assistant knows %s.", theNames(es))
		}
		return calls
	}
	if h := u.know.now.Hour(); (q.when.tool == "this evening" && h >= dawn || q.when.tool == "tonight" && h >= 12) && h < evening && (q.intent == isPast || q.intent == isHappened || q.intent == isFigures) {
		a.say("%s is still to come: it is %s.", upper(q.when.said), u.know.now.Format("15:04"))
		return nil
	}
	if calls, ok := u.compares(q, a); ok {
		return calls
	}
	if len(q.unsaid) > 0 && (q.intent == isState || q.intent == isPast) {
		a.say("I cannot tell: Home Assistant records nothing of this house that says \"%s\".", strings.Join(q.unsaid, " "))
		if !q.own() || re(`^(?:and |so |but )*(?:what|when|who|why|how|which|where)(?:'?s)?\b`).MatchString(strings.Join(q.ws, " ")) {
			return nil
		}
		a.parts[len(a.parts)-1] += " What it does record:"
		defer func(from int) { // it does not answer the question
			for i, part := range a.parts[min(from, len(a.parts)):] {
				if rest := answering.ReplaceAllString(part, ""); rest != part {
					a.parts[from+i] = upper(rest)
				}
			}
		}(len(a.parts))
		q.unsaid, q.state = nil, ""
	}
	if q.clause && q.intent == isPast && q.when.tool == "" {
		a.say("I cannot tell whether the one came with the other. Ask about a time, such as yesterday evening.")
		return nil
	}
	if q.clock != "" && q.intent == isWhere { // where somebody was at a time
		q.intent = isPast
	}
	switch q.intent {
	case isAct:
		return u.act(q, a)
	case isUnavailable:
		return u.unavailable(q, a)
	case isErrors:
		return u.errors(q, a)
	case isCause:
		return u.cause(q, a)
	case isHappened:
		return u.happened(q, a)
	case isEnergy:
		return u.energy(q, a)
	case isCost:
		a.say("I cannot say what it cost: the house has no price or tariff of electricity. With the price of a kilowatt hour the energy can be turned into money.")
		return nil
	case isFigures:
		return u.figures(q, a)
	case isRank:
		if q.kind != nil && q.kind.class == "power" && q.when.tool != "" && q.when.tool != "now" {
			a.say("Which of them used the most %s is not recorded. What they draw now:", q.when.said)
		}
		return u.rank(q, a)
	case isPast:
		return u.past(q, a)
	case isWhere:
		return u.where(q, a)
	}
	return u.state(q, a)
}

// answering matches the beginning of a sentence that answers for yes or no.
var answering = pattern.New(`^(?:Yes|No)[:,] `)

// calendar says that the entries of a calendar cannot be read: no tool returns them.
func (u *turn) calendar(q *ask, a *answered) []Call {
	es, calls := u.list(q.kind)
	if len(calls) > 0 {
		return calls
	}
	if len(es) == 0 {
		a.say("I cannot tell: Home Assistant knows no calendar of this house.")
	}
	for _, e := range es {
		a.cite(e.id, e.name+": "+e.told())
		a.say("%s", u.single(q, e))
	}
	return nil
}

// entries answers whether something is on a list, of which only the number of entries is known.
func (u *turn) entries(q *ask, a *answered) (calls []Call, ok bool) {
	i := slices.IndexFunc(u.know.hits, func(e entity) bool { return e.domain() == "todo" && wholeName(e, strings.Join(q.ws, " ")) })
	if i < 0 || q.intent == isAct || len(q.unknown) == 0 {
		return nil, false
	}
	es, calls := u.live(u.know.hits[i : i+1])
	if len(calls) == 0 {
		a.say("I cannot tell: %s", lowerStart(u.single(q, es[0])))
	}
	return calls, true
}

// relatives matches people who are named by what they are to somebody.
var relatives = pattern.New(`\b(?:the|my|our) (?:kids|children|child|baby|son|daughter|wife|husband|mum|dad|mother|father|parents|guests?|cleaner|nanny)\b`)

// evening is the hour at which the evening begins, as it does for the tools.
const evening = 17

// forbidding matches a request not to do something.
var forbidding = pattern.New(`^(?:do not|don't|never) ` + strings.TrimPrefix(acting.String(), "^"))

// ahead matches words for the future.
var ahead = pattern.New(`\btomorrow\b|\bnext (?:hour|week|month|weekend|monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b|^(?:(?:when|what time|how long|how|where|what) will|will|is it going to|is it gonna|are we going to)\b`)

func (u *turn) results(tool string) []Result {
	return slices.DeleteFunc(slices.Clone(u.Results), func(r Result) bool { return r.Tool != tool })
}

// got returns the result of a call that was made in this turn.
func (u *turn) got(c Call) (Result, bool) {
	for _, r := range u.Results {
		if r.Tool == c.Tool && sameInput(r.Input, c.Input) {
			u.looked.add(r)
			return r, true
		}
	}
	return Result{}, false
}

// fresh returns the calls that were not made yet.
func (u *turn) fresh(calls []Call) []Call {
	var out []Call
	for _, c := range calls {
		if !slices.ContainsFunc(out, func(o Call) bool { return o.Tool == c.Tool && sameInput(o.Input, c.Input) }) {
			out = append(out, c)
		}
	}
	return out
}

func sameInput(a, b map[string]any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

func (u *turn) may(tool string) bool { return slices.Contains(u.Tools, tool) }
