// Package household answers what people ask about their house, by rules, from
// what the tools over a Home Assistant return.
//
// [Answer] is a function of a turn: it reads the question and those before it,
// and either calls tools or, once their results are there, answers. It knows
// English words for things, rooms, times and wishes; it knows nothing of any
// house. What there is in one it learns by a search, and what is so by the other
// tools, so every figure of an answer comes from a result.
//
// A question may leave out what the conversation is about. That is built anew from
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
	"regexp"
	"slices"
	"strings"
)

// Turn is what is asked, and what is known by now.
type Turn struct {
	Question string
	Earlier  []Exchange // of the session, the oldest first
	Facts    []string   // that were kept of earlier turns
	Results  []Result   // of the calls of this turn
	Tools    []string   // that may be called
	Off      string     // why nothing may be changed, where the prompt says so
}

// Exchange is an earlier question with its answer.
type Exchange struct{ Question, Answer string }

// Result is that of a call.
type Result struct {
	Tool   string
	Input  map[string]any
	Output string
	Failed bool
}

// Call asks for a tool.
type Call struct {
	Tool  string
	Input map[string]any
}

// Reply has calls, or is the answer.
type Reply struct {
	Say   string
	Calls []Call
}

// Evidence begins the quotation that holds what an answer rests on.
const Evidence = "**Evidence**"

// The tools that are used.
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

// turn is a Turn while it is answered.
type turn struct {
	Turn
	know house // what the search has told
	asks []ask // of this question, one for each wish in it
	mark bool  // the text that is read ends with a question mark
}

// What is read of a question, in bytes, and of how many before it. Nobody asks
// about a lamp at more length.
const (
	maxQuestion = 600
	maxEarlier  = 8
)

// Answer gives the reply of a turn.
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
		return Reply{Say: "I cannot look at the house now.\n\n" + quote(strings.TrimPrefix(r.Output, "Failed: "))}
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
	u.asks = u.read()
	a := newAnswer(u)
	var calls []Call
	for i := range u.asks {
		calls = append(calls, u.answer(&u.asks[i], a)...)
	}
	// All is looked up before anything is done: what one wish has done would else stand
	// for the others, too.
	look := slices.DeleteFunc(slices.Clone(calls), func(c Call) bool { return c.Tool == act })
	if len(look) > 0 && len(look) < len(calls) {
		calls = look
	}
	if len(calls) > 0 {
		return Reply{Say: a.plan, Calls: u.fresh(calls)}
	}
	return Reply{Say: a.text()}
}

// answer writes what one wish comes to, or says what has to be called first.
func (u *turn) answer(q *ask, a *answered) []Call {
	if q.lost != "" && !q.leaning {
		a.say("There is no %s in this house, as far as Home Assistant knows. Its rooms are %s.", q.lost, listed(u.know.areas))
		return nil
	}
	if q.intent == isAct && u.timed() {
		u.notNow(q, a)
		return nil
	}
	// What has a name that nothing here has is not what is like it.
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
	if calls, ok := u.compares(q, a); ok {
		return calls
	}
	if len(q.unsaid) > 0 && (q.intent == isState || q.intent == isPast) {
		a.say("I cannot tell: Home Assistant records nothing of this house that says \"%s\".", strings.Join(q.unsaid, " "))
		if !re(`^(?:and |so |but )*(?:is|are|was|were|has|have|had|does|do|did) `).MatchString(strings.Join(q.ws, " ")) {
			return nil
		}
		a.parts[len(a.parts)-1] += " What it does record:"
		q.unsaid, q.state = nil, ""
	}
	if q.clock != "" && q.intent == isWhere { // where somebody was
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
		return u.rank(q, a)
	case isPast:
		return u.past(q, a)
	case isWhere:
		return u.where(q, a)
	}
	return u.state(q, a)
}

// ahead are words for what is to come.
var ahead = regexp.MustCompile(`\btomorrow\b|\bnext (?:hour|week|month|weekend|monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b|^(?:will|is it going to|is it gonna|are we going to)\b`)

func (u *turn) results(tool string) []Result {
	return slices.DeleteFunc(slices.Clone(u.Results), func(r Result) bool { return r.Tool != tool })
}

// got is the result of a call, when it was made.
func (u *turn) got(c Call) (Result, bool) {
	for _, r := range u.Results {
		if r.Tool == c.Tool && sameInput(r.Input, c.Input) {
			return r, true
		}
	}
	return Result{}, false
}

// fresh are the calls that were not made yet.
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
