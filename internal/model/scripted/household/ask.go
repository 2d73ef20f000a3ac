package household

import (
	"regexp"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// intent is what a question asks for.
type intent int

const (
	isState       intent = iota // how things are
	isAct                       // something is to be done
	isUnavailable               // what is unavailable
	isErrors                    // what the error log has
	isCause                     // why something happened
	isHappened                  // what happened
	isEnergy                    // what was used
	isCost                      // what that costs
	isFigures                   // the lowest, highest and mean values of a period
	isRank                      // which has the most
	isPast                      // whether, when, how often or by whom something reached a state
	isWhere                     // in which room
)

// ask is one question or request, with what it takes from the earlier ones.
type ask struct {
	text    string
	ws      []string
	intent  intent
	plain   bool // no words state the intent
	kind    *kind
	areas   []string
	lost    string   // a room that the house does not have
	names   []string // words that name a thing
	unknown []string // the names that nothing in the house has
	when    span
	clock   string   // a time of day: "03:00"
	but     subjects // what is excluded
	only    string   // of several things, only those in this state
	state   string   // the state asked about: on, open, home ...
	all     bool     // all of them are meant
	extreme int      // -1 for the lowest, 1 for the highest
	aspect  string   // since, when, count, which, others, why, who, begin, advice, plan, where, doubt
	deed    deed
	leaning bool
	compare *comparison // nil: nothing is compared
	unsaid  []string    // words after a thing that are not part of its name, such as "asleep" in "Bruno asleep"
	lent    bool        // the time comes from the topic
	last    bool        // the last time it happened is meant
	again   bool        // the deed comes from the request before
	first   bool        // the first of several
	out     bool        // only of the time in which nobody was at home
	clause  bool        // it says when something else happened: "when Ana left"
	whose   bool        // it is about the time of the things that the answer before named
}

var (
	leaningStart = pattern.New(`^(?:and|or|so|but|what about|how about|also|then|since when|how long|which one|which ones|which|why|how often|how many times|how come|when|at what time|on which|who|where)\b`)
	pronouns     = words("it its that they them those these this one ones others there their he she him her his then")
	polite       = pattern.New(`^(?:(?:hey|hi|hello|ok|okay|so|and|then|now|also|please|just|could|can|would|will|you|kindly|i want you to|i would like you to|i'd like you to|let's|lets|parley|go and|go ahead and)[ ,]+)*`)
	acting       = pattern.New(`^(?:turn|switch|set|open|close|shut|lock|unlock|start|stop|dim|brighten|make|raise|lower|put|pause|resume|arm|disarm|activate|run|increase|decrease|reduce|heat|cool|play|charge|begin|kill|enable|disable|warm|water|mow|clean|lift|pull|undo)\b`)
	asking       = pattern.New(`^(?:is|are|was|were|has|have|had|did|does|do|what|what's|whats|when|which|who|who's|whos|whose|where|why|how|how's|any|whether|could it|can it|could that)\b`)
	number       = pattern.New(`(-?\d+(?:[.,]\d+)?)`)
	filler       = pattern.New(`^(?:(?:never ?mind|nevermind|forget (?:it|that|about it)|on second thoughts?|scratch that|oh|hm+|actually|sorry|well,|no,|yes,|yeah,|wait,?|thanks,?|thank you,?|great,|ok,|okay,)[ ,.]*(?:then |but |and )?(?:\s|$))+`)
	telling      = pattern.New(`^(?:please )?(?:(?:tell|show|give|remind) me|let me know|say)\b(?: about)?\s*`)
	remark       = pattern.New(`^\W*(?:that is|that's|it is|it's|this is) (?:far |much |way )?(?:too|so|very) \w+(?: in here)?(?:,|;|\.| so| and)+ *`)
	joined       = pattern.New(`\s*(?:,? and (?:then )?|, then |; ?|, )`)
	onlyNames    = pattern.New(`^(?:and |so |but |what about |how about |as for )?(?:the |my |our )?(?:\S+ ?){1,3}$`)
)

// clause matches the part of a question that says at which event something was, or was to be.
var clause = pattern.New(`^(?:and |so |but )?(?:why|did|does|do|will|would)\b.{6,}?( when (?:the |my |our )?\S+ .*\w)$`)

// read reads the question and fills in what it leaves out from the earlier ones.
func (u *turn) read() []ask {
	return u.asked(u.Question, u.about(u.Earlier))
}

// parts splits a question at each "and" that begins another question or request. A
// request that only names another thing takes the verb of the one before.
func (u *turn) parts(text string) []string {
	text = strings.TrimSpace(strings.ToLower(strings.ReplaceAll(text, "’", "'")))
	var out []string
	for sentence := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '?' || r == '!' || r == '\n' }) {
		sentence = remark.ReplaceAllString(sentence, "")
		for _, s := range strings.Split(sentence, ". ") {
			s = strings.Trim(filler.ReplaceAllString(strings.Trim(s, " .,"), ""), " .,")
			if s == "" {
				continue
			}
			from := 0
			for _, m := range joined.FindAllStringIndex(s, -1) {
				rest := strings.TrimSpace(s[m[1]:])
				spelled := strings.Join(spell(rest, nil), " ")
				if strings.Contains(s[m[0]:m[1]], ",") && onlyNames.MatchString(s[from:m[0]]) && !remarked.MatchString(s[from:m[0]]) && !acting.MatchString(polite.ReplaceAllString(s[from:m[0]], "")) && asking.MatchString(spelled) {
					continue // "and Ana, when did she come back"
				}
				if m[0] > from && (acting.MatchString(polite.ReplaceAllString(spelled, "")) || asking.MatchString(spelled) || telling.MatchString(spelled) || advising.MatchString(spelled)) {
					if slices.ContainsFunc(clean(s[from:m[0]]), func(w string) bool { return !greeting[w] }) { // not "hey, "
						out = append(out, s[from:m[0]])
					}
					from = m[1]
				}
			}
			out = append(out, twoThings(s[from:])...)
		}
	}
	// "The lamps kept going dark. What was that?" is one question.
	for i := len(out) - 1; i > 0; i-- {
		ws := clean(out[i])
		own := kindOf(ws) != nil || acting.MatchString(polite.ReplaceAllString(out[i-1], "")) && (asking.MatchString(out[i]) || telling.MatchString(out[i]))
		if bare(ws) && !own && !acting.MatchString(out[i]) {
			out[i-1] += " " + out[i]
			out = slices.Delete(out, i, i+1)
		}
	}
	if len(out) == 0 {
		out = []string{text}
	}
	return out[:min(len(out), 3)]
}

// lastTime matches a time that has the word last in it.
var lastTime = pattern.New(`\blast (?:night|week|weekend|month|year|evening|` + weekday + `)`)

var bothOf = pattern.New(`^(.*?\b(?:turn|switch)(?: on| off)) (.+?) and (?:the )?(.+)$`)

// bothAre matches a question about the states of two things: "is the window shut and the door
// locked?"
var bothAre = pattern.New(`^((?:and |so |but )?(?:is|are|was|were)) (.+ (?:` + endState + `)) and (?:(?:is|are|was|were) )?(?:the |my |our )?(\S+ (?:\S+ )*(?:` + endState + `))$`)

// bothIn matches a question whether two things are in one state: "are the window and the door shut?"
var bothIn = pattern.New(`^(?:and |so |but )?(are|were) (.+) and (?:the |my |our )?(.+) (` + endState + `)$`)

const endState = `on|off|open|closed|shut|locked|unlocked|running|home|away|armed|disarmed|docked|playing|charging`

// twoThings splits a request for things of two kinds, such as the TV and the kitchen
// lights, and a question about the states of two.
func twoThings(s string) []string {
	if m := bothAre.FindStringSubmatch(s); m != nil && clean(m[3])[0] != "not" {
		return []string{m[1] + " " + m[2], m[1] + " the " + m[3]}
	}
	if m := bothIn.FindStringSubmatch(s); m != nil {
		if a, b := kindOf(clean(m[2])), kindOf(clean(m[3])); a != nil && b != nil && a != b {
			is := map[string]string{"are": "is ", "were": "was "}[m[1]]
			return []string{is + m[2] + " " + m[4], is + "the " + m[3] + " " + m[4]}
		}
	}
	m := bothOf.FindStringSubmatch(s)
	if m == nil {
		return []string{s}
	}
	a, b := kindOf(clean(m[2])), kindOf(clean(m[3]))
	if a == nil || b == nil || a == b {
		return []string{s}
	}
	return []string{m[1] + " " + m[2], m[1] + " the " + m[3]}
}

// bare reports whether the words name nothing.
func bare(ws []string) bool {
	for _, w := range ws {
		if !idle[w] && !pronouns[w] {
			return false
		}
	}
	return true
}

// exception matches what is excluded from "all".
var exception = pattern.New(`,? ?\b(?:except|excepting|excluding|besides|apart from|other than|but not|but for|all but|save for|without)\b(?: for)? (.+)$`)

// subjects are rooms, and words of names.
type subjects struct{ areas, names []string }

func (s subjects) some() bool { return len(s.areas)+len(s.names) > 0 }

func (u *turn) subjectsIn(flat string) subjects {
	q := ask{ws: clean(flat)}
	q.kind = kindOf(q.ws)
	q.areas, q.lost = u.areasIn(q.ws)
	q.names, _ = u.namesIn(&q)
	return subjects{q.areas, q.names}
}

// excepted reports whether an entity is excluded.
func (u *turn) excepted(q *ask, e entity) bool {
	named := len(q.but.names) > 0 && !slices.ContainsFunc(q.but.names, func(w string) bool { return !u.named(e, w) })
	in := slices.Contains(q.but.areas, e.area) && (len(q.but.names) == 0 || named)
	return in || named && len(q.but.areas) == 0
}

// one reads a single question.
func (u *turn) one(text string, t *topic) ask {
	q := ask{text: text, ws: clean(re(`\bin bed\b`).ReplaceAllString(strings.Join(spell(text, u.know.words), " "), "asleep"))}
	flat := strings.Join(q.ws, " ")
	if m := whileOut.FindString(flat); m != "" {
		q.out = true
		flat = strings.TrimSpace(strings.Replace(flat, m, "", 1))
		q.ws = clean(flat)
		flat = strings.Join(q.ws, " ")
	}
	whole := flat
	if m := clause.FindStringSubmatchIndex(flat); m != nil { // it names no thing that is asked about
		q.clause = true
		flat = flat[:m[2]]
		q.ws = clean(flat)
	}
	if m := exception.FindStringSubmatchIndex(flat); m != nil {
		q.but = u.subjectsIn(flat[m[2]:m[3]])
		flat = strings.TrimSpace(flat[:m[0]])
		q.ws = clean(flat)
	}
	if m := purpose.FindStringSubmatchIndex(flat); m != nil { // "warm enough for a baby" names no baby
		flat = flat[:m[2]]
		q.ws = clean(flat)
	}
	rest := polite.ReplaceAllString(flat, "")
	if !asking.MatchString(rest) && acting.MatchString(rest) { // the time in a request is not a name
		if t := timingIn(rest); t != "" {
			q.ws = clean(strings.Replace(flat, t, "", 1))
		}
	}
	q.when, q.clock = timeIn(whole), clockIn(whole)
	q.kind = kindOf(q.ws)
	q.all = has(q.ws, "all|every|everything|everywhere")
	q.first = has(q.ws, "first|earliest")
	q.areas, q.lost = u.areasIn(q.ws)
	if q.kind != nil && q.kind.measure && !asking.MatchString(rest) && acting.MatchString(rest) { // "the heating down by two degrees"
		if k := unmeasured(q.ws); k != nil {
			q.kind = k
		}
	}
	q.compare = u.comparisonIn(&q, flat, t)
	q.names, q.unknown = u.namesIn(&q)
	q.extreme = extremeOf(q.ws, q.kind)
	q.last = re(`\b(?:last|latest)\b`).MatchString(lastTime.ReplaceAllString(flat, ""))
	if m := re(`\bhow (cold|cool|chilly|low|warm|hot|high|humid|loud|bright)\b.*\b(?:get|got|go|gotten)\b`).FindStringSubmatch(flat); m != nil {
		q.extreme = 1
		if slices.Contains([]string{"cold", "cool", "chilly", "low"}, m[1]) {
			q.extreme = -1
		}
	}
	q.intent, q.plain = u.intentOf(&q, flat, rest)
	q.aspect = aspectOf(flat)
	if usual.MatchString(flat) && q.kind != nil && q.kind.measure {
		q.aspect, q.intent, q.plain = "normal", isFigures, false
		if q.kind.class == "energy" {
			q.intent = isEnergy
		} else if q.when.tool == "" {
			q.when = threeDays
		}
	}
	if odd.MatchString(flat) && q.kind != nil && q.kind.measure && q.intent != isAct {
		q.aspect, q.intent, q.plain = "odd", isFigures, false
		if q.when.tool == "" || q.when.tool == "now" {
			q.when = span{tool: "-24h", said: "in the last day"}
		}
	}
	if q.intent == isEnergy && (q.when.tool == "now" || q.when.tool == "" && drawing.MatchString(flat)) { // what is used now is power
		q.kind, q.intent, q.plain = kindNamed("power meter"), isState, false
	}
	if cutOff.MatchString(flat) && q.intent != isAct && q.intent != isCause && q.intent != isHappened { // the voltage tells
		q.kind, q.names, q.unknown, q.intent, q.plain, q.aspect = kindNamed("voltmeter"), nil, nil, isFigures, false, "cut"
	}
	if q.kind == nil && q.intent != isAct {
		q.kind = impliedKind(&q, flat)
	}
	switch {
	case q.kind != nil && q.kind.domain == "person" && q.aspect != "who" && len(q.names) > 0 && len(q.unknown) == 0 && !slices.ContainsFunc(u.things(&q), func(e entity) bool { return e.domain() == "person" }):
		q.kind = nil // did anyone ring the doorbell?
	case q.kind != nil && q.kind.domain == "person" && len(q.areas) > 0: // motion shows who is in a room
		q.kind = kindNamed("motion sensor")
	case q.kind != nil && q.kind.class == "energy" && q.intent == isRank:
		q.kind = kindNamed("power meter")
	case q.kind != nil && (q.kind.domain == "sun" || q.kind.domain == "weather"):
		q.areas, q.lost = nil, ""
	}
	if len(q.unsaid) > 0 && q.intent != isAct && re(`\b(?:go|going|went|gone|goes|act|acting|acted|behaving|behaved) (?:all |so |completely )?`+regexp.QuoteMeta(q.unsaid[0])+`\b`).MatchString(flat) {
		q.intent, q.plain, q.unsaid = isCause, false, q.unsaid[1:] // whatever the word, they did not do what they should
	}
	q.state = stateOf(&q, withoutNames(&q, flat))
	if t != nil {
		u.follow(&q, t, flat)
	}
	if other := opposite[q.state]; other != "" && negative.MatchString(flat) {
		q.state, q.only = other, ""
	}
	if q.intent == isAct && !q.again {
		q.deed = deedOf(rest, &q)
	}
	return q
}

// drawing matches a question for what a room or a thing uses as we speak.
var drawing = pattern.New(`\bhow much (?:\S+ )?(?:is|are) (?:the |my |our )?(?:\S+ ){1,3}(?:using|drawing|consuming|burning|pulling)\b`)

var (
	purpose = pattern.New(`\b(?:enough|too \w+|safe|good)( for (?:an? |the |my |our )?\w+)$`)
	cutOff  = pattern.New(`\bpower (?:has |have )?(?:gone|went|go|been|was|is) (?:out|off|down|away)\b|\bpower (?:cut|failure|outage)\b|\bblackout\b`)
)

// negative matches a question for those that are not in a state.
var (
	negative = pattern.New(`\b(?:which|what|who|any|how many)\b.*\b(?:is|are|was|were|has|have|do|does|did) not\b`)
	opposite = map[string]string{"on": "off", "off": "on", "open": "closed", "closed": "open", "home": "away", "away": "home", "locked": "unlocked", "unlocked": "locked", "armed": "disarmed", "disarmed": "armed"}
)

// withoutNames returns the text without the words of names: "the left lamp" has not
// left.
func withoutNames(q *ask, flat string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(flat), func(w string) bool { return adjective[w] && slices.Contains(q.names, w) }), " ")
}

func kindOf(ws []string) *kind {
	var best *kind
	length := 0
	for _, k := range kinds {
		found := at(ws, k.words)
		if len(found) == 0 {
			found = at(ws, strings.Trim(k.low+"|"+k.high, "|"))
		}
		switch {
		case len(found) == 0:
		case best == nil, len(found) > length && !best.measure, k.measure && !best.measure:
			best, length = k, len(found)
		}
	}
	if best != nil && best.class == "door" && has(ws, "ring|rings|rang|rung|who is at the door|who's at the door") {
		return nil // the doorbell's
	}
	// "hot water", "heat pump": the word is part of a name.
	if best != nil && best.class == "temperature" && has(ws, "hot water|hot tub") {
		return kindNamed("hot water")
	}
	if best != nil && best.domain == "climate" && !has(ws, "radiator|radiators|heating|thermostat|thermostats|heater|heaters") && has(ws, "heat pump|heat recovery") {
		return nil
	}
	if flat := strings.Join(ws, " "); best == nil && re(`\b(?:the|a|my|our) (?:\S+ ){0,2}switch(?:es)?\b`).MatchString(flat) {
		return kindNamed("plug")
	}
	if flat := strings.Join(ws, " "); best != nil && best.name == "player" && (re(`\bplay(?:ing|ed|s)? up\b`).MatchString(flat) || acting.MatchString(polite.ReplaceAllString(flat, ""))) {
		return nil // the lamp plays up; and a wish names what it is for
	}
	// "the mains power" is a number; "the power went" is not
	return best
}

// unmeasured returns the kind of thing in a request that also has words for a measurement.
func unmeasured(ws []string) *kind {
	for _, k := range kinds {
		if !k.measure && k.domain != "" && at(ws, k.words) != nil {
			return k
		}
	}
	return nil
}

func kindNamed(name string) *kind {
	return kinds[slices.IndexFunc(kinds, func(k *kind) bool { return k.name == name })]
}

// impliedKind returns the kind that a state implies, such as a lock for "locked".
func impliedKind(q *ask, flat string) *kind {
	switch {
	case len(q.names) > 0 && q.aspect != "who":
		return nil
	case re(`\bleft (?:the house|home)|\b(?:at|come|came|comes|get|got|gone|went|go|arrive|arrived) (?:back )?home\b|\bis (?:home|in|out|away)\b|\bhome (?:alone|yet)|\blast to leave|\bfirst to leave|\bleft\b.*\bfirst`).MatchString(flat) && q.intent != isAct:
		return kindNamed("person")
	case q.intent == isEnergy:
		return kindNamed("energy meter")
	case q.intent == isRank && re(`\b(?:most|highest)\b.*\b(?:power|electricity|energy)|\bhungriest\b|\b(?:uses?|using|needs?|draws?|consumes?) (?:the )?most\b`).MatchString(flat):
		return kindNamed("power meter")
	}
	return nil
}

func extremeOf(ws []string, k *kind) int {
	switch {
	case has(ws, "lowest|minimum|least|lower|min") || k != nil && has(ws, k.low):
		return -1
	case has(ws, "highest|maximum|most|peak|max|biggest|largest|greatest") || k != nil && has(ws, k.high):
		return 1
	}
	for _, k := range kinds {
		if has(ws, k.low) {
			return -1
		}
		if has(ws, k.high) {
			return 1
		}
	}
	return 0
}
