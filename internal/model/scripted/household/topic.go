package household

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// topic is what the conversation is about when a question comes. It is rebuilt from the
// texts of the turns before; nothing else of them is kept.
type topic struct {
	ask            // the last question as it was understood: things, time, what is asked about them
	told string    // the first sentence of its answer
	did  []changed // the changes that the last reporting answer names
	all  []changed // the changes that all answers name
	freq string    // the state of the last question with "how often"
	open bool      // the last answer asks for a yes
}

// changed is a thing and its state before the change, in the words of an answer.
type changed struct{ name, was string }

// doneLine matches the line that reports a change, see report.
var doneLine = pattern.New(`(?m)^` + Done + `(?:the )?(.+?) (?:is|are) .* \((?:it was|they were) (.+)\)\.$`)

// about returns the topic after some exchanges, or nil if none was about the house.
func (u *turn) about(earlier []Exchange) *topic {
	var t *topic
	for i, x := range earlier {
		if say := small(Turn{Question: x.Question, Earlier: earlier[:i]}); say != "" {
			if t != nil {
				t.open = false
			}
			continue
		}
		for _, q := range u.asked(x.Question, t) {
			t = t.after(q)
		}
		if t == nil {
			continue
		}
		t.told, _, _ = strings.Cut(firstLine(x.Answer), ". ")
		t.open = offers(x.Answer)
		if done := doneLine.FindAllStringSubmatch(x.Answer, -1); done != nil {
			t.did = nil
			for _, m := range done {
				t.did = append(t.did, changed{m[1], m[2]})
				t.all = append(t.all, changed{m[1], m[2]})
			}
		}
	}
	return t
}

// after returns the topic after a question.
func (t *topic) after(q ask) *topic {
	next := &topic{ask: q}
	if t != nil {
		next.did, next.all, next.freq = t.did, t.all, t.freq
	}
	if q.aspect == "often" {
		next.freq = q.state
	}
	return next
}

// asked returns the questions and requests of a text. Each may lean on the one before
// it.
func (u *turn) asked(text string, t *topic) []ask {
	var out []ask
	u.mark = strings.HasSuffix(strings.TrimSpace(text), "?")
	parts := u.parts(text)
	for i, part := range parts {
		if i > 0 && asking.MatchString(part) && slices.ContainsFunc(clean(part), func(w string) bool { return pronouns[w] }) {
			part = "and " + part // it leans on the part before
		}
		for _, full := range t.inFull(part, u.mark) {
			q := u.one(full, t)
			if i+1 >= len(parts) || q.intent == isAct || !remarked.MatchString(part) || !asking.MatchString(parts[i+1]) {
				out = append(out, q)
			} // else it only leads to the question: "the air is stuffy, is the CO2 too high?"
			t = t.after(q)
		}
	}
	return out
}

// remarked matches a statement.
var remarked = pattern.New(`^(?:and |so |but )?(?:it's|that's|there's|the|my|our|it|that|this|there|i|we|he|she)\b(?:.* (?:feels?|is|are|looks?|smells?|sounds?|seems?|keeps?|gets?|was|were|think|thought)\b)?`)

const (
	lightly = `(?:(?:and|now|then|please|ok|okay|no|yes|yeah|actually|rather|but|just|maybe|also|well|hm+) )*`
	finally = `(?: (?:again|then|now|please|too|as well|instead|after all|thanks))*`
	more    = `more|less|brighter|dimmer|darker|warmer|hotter|cooler|colder|higher|lower|louder|quieter`
)

// Short forms of a request that follow an earlier one, with their full forms.
var inShort = []struct {
	words *pattern.Regexp
	full  string
}{
	{pattern.New(`^` + lightly + `(?:back )?(on|off)` + finally + `$`), "turn it $1"},
	{pattern.New(`^` + lightly + `((?:a (?:bit|little|tad|touch) |slightly |much |even |still |some |a lot )*(?:` + more + `))` + finally + `$`), "make it $1"},
	{pattern.New(`^` + lightly + `(?:(?:turn|put|set|bring) (?:it|them|that) )?(a (?:bit|little|tad|touch) |slightly )?(?:some )?(up|down)( a (?:bit|little|tad|touch)| slightly)?` + finally + `$`), "make it $1$2$3"},
	{pattern.New(`^` + lightly + `(?:(?:put|set|turn|bring) (?:it|that) )?(?:back |up |down )?(?:to |at )?(-?\d+(?:[.,]\d+)? ?(?:%|percent|degrees?|°c?|°)?)` + finally + `$`), "set it to $1"},
	{pattern.New(`^` + lightly + `((?:a (?:bit|little|tad|touch) |some |even |much )*)more` + finally + `$`), "make it ${1}more"},
	{pattern.New(`^` + lightly + `((?:a (?:bit|little|tad|touch) |some |even |much )*)less` + finally + `$`), "make it ${1}less"},
	{pattern.New(`^` + lightly + `(?:to )?half(?:way)?(?: (?:open|closed|up|down))?` + finally + `$`), "set it to 50 %"},
	{pattern.New(`^` + lightly + `(?:(?:that|this|it) is |that's |it's |this is )?(?:far |much |way |a (?:bit|little) )?too (?:dark|dim|cold|chilly|cool|quiet|low|little)(?: (?:in here|for me|now))?` + finally + `$`), "make it more"},
	{pattern.New(`^` + lightly + `(?:(?:that|this|it) is |that's |it's |this is )?(?:far |much |way |a (?:bit|little) )?too (?:bright|hot|warm|loud|noisy|high|much)(?: (?:in here|for me|now))?` + finally + `$`), "make it less"},
	{pattern.New(`^` + lightly + `(?:put|turn|switch) (it|that|them|those) back (on|off)` + finally + `$`), "turn $1 $2"},
}

var (
	backAgain = pattern.New(`^` + lightly + `(?:(?:undo|revert|reset)\b(?: (?:it|that|this|them|the (?:last )?change))?|(?:put|take|change|turn|set|bring|switch) (?:it|that|this|them|both|everything|the \S+(?: \S+)?) back(?: (?:to )?(?:how|what|as|the way) (?:it|they) (?:was|were)(?: before)?| to normal)?|back to (?:how|what|the way) (?:it|they) (?:was|were)(?: before)?|(?:to |back )?(?:as|how|what|the way) it was(?: before)?)` + finally + `$`)
	oncemore  = pattern.New(`^` + lightly + `(?:(?:do|try|say|check|show|look) (?:it |that |this |the same )?(?:again|once more|once again|another time)|once more|once again|again|one more time|the same again|same again|further)(?: (?:please|then|now))*$`)
	bothAgain = pattern.New(`^` + lightly + `(?:(?:turn|switch) )?(?:both(?: of them)? (on|off)|(on|off) both)` + finally + `$`)
)

// inFull completes a part of a question: it says what to do with "it", what to do again,
// and what to undo.
func (t *topic) inFull(part string, question bool) []string {
	text := strings.Trim(strings.Join(clean(part), " "), " ")
	if t == nil {
		return []string{part}
	}
	if backAgain.MatchString(text) && len(t.did) > 0 {
		var out []string
		did := t.did
		if strings.Contains(text, "both") {
			did = t.all[max(0, len(t.all)-2):]
		}
		for _, c := range did {
			if full := c.back(); full != "" {
				out = append(out, full)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	if re(`^`+lightly+`(?:even |some |a (?:bit|little) )?more`+finally+`$`).MatchString(text) && t.deed.step != 0 { // more of what was asked for
		return []string{t.text}
	}
	if byHowMuch.MatchString(text) && (t.compare != nil || t.extreme != 0) { // the answer to the comparison tells it
		return []string{t.text}
	}
	if m := re(`^` + lightly + `(?:or )?than (.+)$`).FindStringSubmatch(text); m != nil && t.compare != nil { // "and than the bathroom?"
		if left, _, ok := strings.Cut(t.text, " than "); ok {
			return []string{left + " than " + m[1]}
		}
	}
	if oncemore.MatchString(text) || t.open && t.intent == isAct && agrees(clean(part)) {
		return []string{t.text}
	}
	if m := bothAgain.FindStringSubmatch(text); m != nil && len(t.all) >= 2 {
		last := t.all[len(t.all)-2:]
		return []string{"turn " + m[1] + m[2] + " the " + last[0].name, "turn " + m[1] + m[2] + " the " + last[1].name}
	}
	if t.intent != isAct && (question || t.clock != "") { // "and at 7?"
		return []string{part}
	}
	for _, s := range inShort {
		if m := s.words.FindStringSubmatchIndex(text); m != nil {
			return []string{string(s.words.ExpandString(nil, s.full, text, m))}
		}
	}
	return []string{part}
}

// back returns the request that restores the earlier state, or "" if there are no words
// for it.
func (c changed) back() string {
	verb := map[string]string{"on": "turn on", "off": "turn off", "open": "open", "closed": "close", "locked": "lock", "unlocked": "unlock", "disarmed": "disarm", "running": "start", "not running": "stop"}[c.was]
	if verb != "" {
		return verb + " the " + c.name
	}
	if m := levelWithUnit.FindStringSubmatch(c.was); m != nil && !strings.Contains(c.was, "but off") {
		return "set the " + c.name + " to " + m[0]
	}
	if strings.Contains(c.was, "but off") {
		return "turn off the " + c.name
	}
	return ""
}

// singular has the words that refer to one thing of an answer.
var singular = words("it its he him his she her there that one")

// theOne returns what the answer named if the question named nothing, as in "which room
// is the coldest": the first room or thing in the answer.
func (u *turn) theOne(t *topic) (areas, names []string) {
	ws := clean(strings.ToLower(t.told))
	first := len(ws)
	for _, area := range u.know.areas {
		if i := indexOf(ws, clean(strings.ToLower(area))); i >= 0 && i < first {
			first, areas = i, []string{area}
		}
	}
	for _, e := range u.know.hits {
		name := clean(strings.ToLower(e.short()))
		if i := indexOf(ws, name); i >= 0 && (i < first || i == first && len(name) > len(names)) && e.domain() != "automation" {
			first, areas, names = i, nil, name
		}
	}
	return areas, names
}

// indexOf returns the index of some words in others, or -1.
func indexOf(ws, part []string) int {
	for i := 0; len(part) > 0 && i+len(part) <= len(ws); i++ {
		if slices.Equal(ws[i:i+len(part)], part) {
			return i
		}
	}
	return -1
}
