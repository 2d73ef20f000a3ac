package household

import (
	"regexp"
	"slices"
	"strings"
)

// topic is what a conversation is about when a question comes. It is built anew from
// the turns before, whose texts are all that is kept of them.
type topic struct {
	ask            // the last question, as it was understood: things, time, what is asked of them
	told string    // the first sentence of its answer
	did  []changed // what the last answer that tells of a change has changed
	all  []changed // what all have
	freq string    // the state of which it was asked how often it was
	open bool      // the last answer asks for a yes
}

// changed is a thing with what it was before, in the words of an answer.
type changed struct{ name, was string }

// doneLine is how an answer tells of a change, see report.
var doneLine = regexp.MustCompile(`(?m)^` + Done + `(?:the )?(.+?) (?:is|are) .* \((?:it was|they were) (.+)\)\.$`)

// about is the topic after some exchanges, nil when none was about the house.
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

// after is the topic when a question was asked.
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

// asked are the wishes and questions of a text, of which each may lean on the one
// before it.
func (u *turn) asked(text string, t *topic) []ask {
	var out []ask
	u.mark = strings.HasSuffix(strings.TrimSpace(text), "?")
	for _, part := range u.parts(text) {
		for _, full := range t.inFull(part, u.mark) {
			q := u.one(full, t)
			out = append(out, q)
			t = t.after(q)
		}
	}
	return out
}

const (
	lightly = `(?:(?:and|now|then|please|ok|okay|no|yes|yeah|actually|rather|but|just|maybe|also|well|hm+) )*`
	finally = `(?: (?:again|then|now|please|too|as well|instead|after all|thanks))*`
	more    = `more|less|brighter|dimmer|darker|warmer|hotter|cooler|colder|higher|lower|louder|quieter`
)

// What people leave out of a wish when it is clear what they speak of, and the same
// in full.
var inShort = []struct {
	words *regexp.Regexp
	full  string
}{
	{regexp.MustCompile(`^` + lightly + `(?:back )?(on|off)` + finally + `$`), "turn it $1"},
	{regexp.MustCompile(`^` + lightly + `((?:a (?:bit|little|tad|touch) |slightly |much |even |still |some |a lot )*(?:` + more + `))` + finally + `$`), "make it $1"},
	{regexp.MustCompile(`^` + lightly + `(?:(?:turn|put|set|bring) (?:it|them|that) )?(a (?:bit|little|tad|touch) |slightly )?(?:some )?(up|down)( a (?:bit|little|tad|touch)| slightly)?` + finally + `$`), "make it $1$2$3"},
	{regexp.MustCompile(`^` + lightly + `(?:(?:put|set|turn|bring) (?:it|that) )?(?:back |up |down )?(?:to |at )?(-?\d+(?:[.,]\d+)? ?(?:%|percent|degrees?|°c?|°)?)` + finally + `$`), "set it to $1"},
	{regexp.MustCompile(`^` + lightly + `((?:a (?:bit|little|tad|touch) |some |even |much )*)more` + finally + `$`), "make it ${1}more"},
	{regexp.MustCompile(`^` + lightly + `((?:a (?:bit|little|tad|touch) |some |even |much )*)less` + finally + `$`), "make it ${1}less"},
	{regexp.MustCompile(`^` + lightly + `(?:to )?half(?:way)?(?: (?:open|closed|up|down))?` + finally + `$`), "set it to 50 %"},
	{regexp.MustCompile(`^` + lightly + `(?:(?:that|this|it) is |that's |it's |this is )?(?:far |much |way |a (?:bit|little) )?too (?:dark|dim|cold|chilly|cool|quiet|low|little)(?: (?:in here|for me|now))?` + finally + `$`), "make it more"},
	{regexp.MustCompile(`^` + lightly + `(?:(?:that|this|it) is |that's |it's |this is )?(?:far |much |way |a (?:bit|little) )?too (?:bright|hot|warm|loud|noisy|high|much)(?: (?:in here|for me|now))?` + finally + `$`), "make it less"},
	{regexp.MustCompile(`^` + lightly + `(?:put|turn|switch) (it|that|them|those) back (on|off)` + finally + `$`), "turn $1 $2"},
}

var (
	backAgain = regexp.MustCompile(`^` + lightly + `(?:(?:undo|revert|reset)\b(?: (?:it|that|this|them|the (?:last )?change))?|(?:put|take|change|turn|set|bring|switch) (?:it|that|this|them|both|everything|the \S+(?: \S+)?) back(?: (?:to )?(?:how|what|as|the way) (?:it|they) (?:was|were)(?: before)?| to normal)?|back to (?:how|what|the way) (?:it|they) (?:was|were)(?: before)?|(?:to |back )?(?:as|how|what|the way) it was(?: before)?)` + finally + `$`)
	oncemore  = regexp.MustCompile(`^` + lightly + `(?:(?:do|try|say|check|show|look) (?:it |that |this |the same )?(?:again|once more|once again|another time)|once more|once again|again|one more time|the same again|same again|further)(?: (?:please|then|now))*$`)
	bothAgain = regexp.MustCompile(`^` + lightly + `(?:(?:turn|switch) )?(?:both(?: of them)? (on|off)|(on|off) both)` + finally + `$`)
)

// inFull writes out what a part of a question leaves out: what is to be done with
// "it", what is to be done again, and what is to be taken back.
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
	if re(`^`+lightly+`(?:even |some |a (?:bit|little) )?more`+finally+`$`).MatchString(text) && t.deed.step != 0 { // of what was wished
		return []string{t.text}
	}
	if byHowMuch.MatchString(text) && (t.compare != nil || t.extreme != 0) { // its answer tells it
		return []string{t.text}
	}
	if oncemore.MatchString(text) || t.open && t.intent == isAct && agrees(clean(part)) {
		return []string{t.text}
	}
	if m := bothAgain.FindStringSubmatch(text); m != nil && len(t.all) >= 2 {
		last := t.all[len(t.all)-2:]
		return []string{"turn " + m[1] + m[2] + " the " + last[0].name, "turn " + m[1] + m[2] + " the " + last[1].name}
	}
	if t.intent != isAct && (question || t.clock != "") { // and at 7?
		return []string{part}
	}
	for _, s := range inShort {
		if m := s.words.FindStringSubmatchIndex(text); m != nil {
			return []string{string(s.words.ExpandString(nil, s.full, text, m))}
		}
	}
	return []string{part}
}

// back is the wish that makes a thing what it was, "" when there is no word for it.
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

// singular are the words that mean one thing of an answer.
var singular = words("it its he him his she her there that one")

// theOne is what an answer named when the question had named nothing, as in "which
// room is the coldest": the first room or thing in it.
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

// indexOf is where some words stand in others, -1 for nowhere.
func indexOf(ws, part []string) int {
	for i := 0; len(part) > 0 && i+len(part) <= len(ws); i++ {
		if slices.Equal(ws[i:i+len(part)], part) {
			return i
		}
	}
	return -1
}
