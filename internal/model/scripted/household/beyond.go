package household

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/pattern"
)

// beyonds are wishes that nothing in a house fulfils. The words for what is wished must not be
// taken for a question about a thing of the same name: plants for the moisture of the soil.
var beyonds = []struct {
	wish *pattern.Regexp
	what string
}{
	{pattern.New(`^(?:remind|wake) (?:me|us|him|her|them|everyone|everybody|[a-z]+)\b|^(?:set|make|add|create|give me|start|put|schedule)\b.*\b(?:reminders?|timers?|alarm clock)\b|^(?:set|put) an alarm\b|^(?:set|put) (?:the|my) alarm (?:for|at)\b|^(?:do not|don't) let (?:me|us) forget\b|^i (?:want|need|would like|'d like) (?:a|to set a) (?:reminder|timer)\b`), "set reminders, timers or alarm clocks"},
	{pattern.New(`^(?:send|notify|whatsapp|call)\b|^(?:text|email|e-mail|mail|phone|message) (?:me|us|him|her|them|my|the|\S+ (?:that|to|about|and))\b|^(?:leave|write) .*\b(?:message|note|email|mail)\b|^tell (?:him|her|them|my|[a-z]+) (?:that|to)\b`), "send messages or call anybody"},
	{pattern.New(`^(?:order|book) (?:me|us|some|more|a|an|the|new|\d+|\S+ for)\b|^(?:buy|reserve|pay|purchase)\b`), "order, book or pay anything"},
	{pattern.New(`^(?:add|put|write|note|delete|remove|take|cross|tick)\b.*\b(?:on|to|from|off|in) (?:the |my |our )?(?:\S+ )?(?:list|calendar)\b`), "change a list or a calendar"},
	{pattern.New(`^play (?:some |a bit of |any |a |an |me |us |something)\b|^play (?:\S+ ){0,3}(?:music|songs?|by)\b`), "choose what is played"},
}

// recalling matches a request to be told something, which is a question.
var recalling = pattern.New(`^remind (?:me|us) (?:again )?(?:what|who|whose|how|which|where|why|whether|if|of the (?:temperature|humidity|state|status)|when (?:did|does|do|is|are|was|were|has|have)|when \S+(?: \S+)? (?:left|came|went|was|opened|closed|ran|started))\b`)

// beyond answers a wish that nothing here can fulfil, and a question in another language. For
// anything else it returns "".
func beyond(question string) string {
	if keyword.Foreign(question) {
		return "I understand English only, so I have looked up nothing and changed nothing. Please ask again in English."
	}
	flat := polite.ReplaceAllString(strings.Join(clean(strings.ToLower(strings.ReplaceAll(question, "’", "'"))), " "), "")
	if recalling.MatchString(flat) {
		return ""
	}
	for _, b := range beyonds {
		if b.wish.MatchString(flat) {
			return "Nothing was done: I cannot " + b.what + ". I can say how things are in this house and what happened, and switch or set what is in it, where that is allowed."
		}
	}
	return ""
}

// advising matches a question for what somebody should do.
var advising = pattern.New(`^(?:(?:should|shall|must) (?:i|we)|do (?:i|we) (?:need|have) to) `)

// advise says that the records of a house do not tell what to do, beside what they do tell.
func (u *turn) advise(flat string, a *answered) {
	if slices.ContainsFunc(a.parts, func(part string) bool { return strings.Contains(part, "reports a fault") }) {
		a.say("Whether to %s is for you to decide. A machine that reports a fault of its own is for its installer or a technician.", advising.ReplaceAllString(flat, ""))
		return
	}
	a.say("Whether to %s I cannot say: Home Assistant records what is, and not what to do about it.", advising.ReplaceAllString(flat, ""))
}

// toBed matches a question for when somebody goes to sleep.
var toBed = pattern.New(`\b(?:go|goes|going|went|gone|get|got) to (?:bed|sleep)\b|\b(?:fall|fell|fallen) asleep\b`)

// bedtime says that nothing records when somebody sleeps, and when the lights of the bedroom went off.
func (u *turn) bedtime(q *ask, a *answered) []Call {
	room := slices.IndexFunc(u.know.areas, func(name string) bool { return strings.EqualFold(name, "bedroom") })
	a.say("I cannot tell: nothing in this house records when somebody goes to bed.")
	if room < 0 {
		return nil
	}
	when := q.when
	if when.tool == "yesterday" { // which may be past midnight
		when = span{tool: "yesterday night", said: "last night"}
	}
	own := ask{ws: clean("when did the lights go off"), kind: kindNamed("light"), areas: u.know.areas[room : room+1], when: when, intent: isPast, aspect: "when", state: "off"}
	a.parts[len(a.parts)-1] += " The lights there may be a hint:"
	return u.past(&own, a)
}

var (
	somebody  = `(?:we|i|you|they|he|she|any(?:one|body)|some(?:one|body)|the \w+|[A-Z]\w+)`
	forgotTo  = pattern.New(`(?i)^(.*?)\b(?:did|have|has) ` + somebody + ` (?:forget|forgot|forgotten) to (?:(switch|turn|put|close|shut|lock)(?: (off|out))?)(?: (.*?))??(?: (off|out))?((?: (?:last|yesterday|on|this|today)\b[^?]*)?)\W*$`)
	leftSoBy  = pattern.New(`(?i)^((?:which|what) .*?)\b(?:did|have|has) ` + somebody + ` (?:leave|left) (on|open|unlocked|running)\b(.*)$`)
	leftSoAll = pattern.New(`(?i)\b(?:were|was|are|is|have been|has been) left (on|open|unlocked|running)\b`)
)

// forgotten turns a question for what somebody forgot to do into one for what is so because of it:
// a light that somebody forgot to switch off is on.
func forgotten(text string) string {
	is := "are"
	if t := timeIn(strings.ToLower(text)); t.tool != "" && t.tool != "now" {
		is = "were"
	}
	if m := forgotTo.FindStringSubmatch(text); m != nil {
		state := map[string]string{"close": "open", "shut": "open", "lock": "unlocked"}[strings.ToLower(m[2])]
		if state == "" && m[3] == "" && m[5] == "" {
			return text
		}
		if m[1] == "" {
			is = map[string]string{"are": "is", "were": "was"}[is]
		}
		words := []string{strings.TrimSpace(m[1]), is, m[4], orText(state, "on"), strings.TrimSpace(m[6])}
		return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ") + "?"
	}
	text = leftSoBy.ReplaceAllString(text, "${1}"+is+" $2$3")
	return leftSoAll.ReplaceAllString(text, is+" $1")
}
