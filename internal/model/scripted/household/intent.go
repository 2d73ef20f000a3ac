package household

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

var (
	wantsUnavailable = pattern.New(`^(?:is |are )?(?:all|everything|everything is|all is) (?:good|ok|okay|fine|well|in order|alright)\b|\bunavailable\b|\boffline\b|\bnot (?:answer|answering|respond|responding|reachable|reporting|connected|working)\b|\b(?:isn't|aren't|doesn't|don't) (?:answer|answering|respond|responding|reachable|work|working|report|reporting|connect)\w*\b|\bunreachable\b|\bdead\b|\bout of order\b|\bbroken\b|\bfaulty\b|\b(?:is|are|does) (?:everything|all (?:the )?(?:devices|sensors|things)?) ?(?:all )?(?:work|working|ok|okay|fine|alright|all right)\b`)
	wantsErrors      = pattern.New(`\berrors?\b|\bwarnings?\b|\bin the logs?\b|\blog of\b|\blogged\b`)
	wantsCause       = pattern.New(`\bwhy\b|\bcaused?\b|\breason\b|\bflicker\w*|\bblink\w*|\bdiagnose\b|\bwrong with\b|\bwrong\b|\bproblems?\b|\bfaults?\b|\bissues?\b|\bgo(?:ing|es)? dark\b|\bwent dark\b|\bdropped? out\b|\bcut(?:ting)? out\b|\bby (?:itself|themselves)\b|\bon (?:its|their) own\b|\bwhat was that\b|\bwhat happened (?:to|with)\b|\bhow come\b|\bacting up\b|\bexplain\b|\bplay(?:ing|ed)? up\b|\b(?:weird|odd|strange|funny|fishy)\b|\bmatter with\b|\b(?:is|what'?s) up with\b`)
	wantsPlan        = pattern.New(`\bmitigat\w*|\bsimulate\b|\bprevent\b|\bwhat (?:should|can|could|shall|do) (?:i|we) do\b|\bhow (?:can|do|could|should) (?:i|we) (?:fix|stop|solve|avoid|mend|repair|prevent)\b|\badvi[sc]e\b|\brecommend\w*|\bfix (?:it|that|this)\b|\bwhat would you (?:do|suggest|advise|recommend)\b|\bwhat now\b|\bwhat (?:is|can be|could be) (?:to (?:do|be done)|done) (?:about|against)\b|\bwhat to do\b|\bmake a plan\b|\bcreate a\b.*\bplan\b|\bnext steps?\b`)
	wantsHappened    = pattern.New(`\banything (?:weird|odd|strange|funny|unusual|interesting|else) happen\w*|\bwhat(?: has)? changed\b|\bwhat happened\b|\bwhat(?:'s| has| was)? (?:been )?(?:going|went|gone|happening) on\b|\banything happen\w*|\bwhat was (?:up|going on)\b|\bwhat has happened\b|\bactivity\b|\bevents\b|\bdid anything\b|\blogbook\b|\bwhat did we miss\b|\bwhat's happened\b|\bhappened? (?:in|at)\b|\bwhat's been\b|\bsomething happen\w*|\bwhat did (?:the |my |our )?\S+(?: \S+)? (?:do|get up to)\b|\bwhat has (?:\S+ ){1,3}been (?:doing|up to)\b`)
	wantsCost        = pattern.New(`\bcosts?\b|\bprice\b|\btariff\b|\bexpensive\b|\bbill\b|\bhow much money\b|\beuros?\b|\bpay\b`)
	wantsUse         = pattern.New(`\b(?:use|used|using|usage|consume|consumed|consumption|need|needed|burn|burnt|burned|spend|spent|go through|went through|got through)\b`)
	wantsFigures     = pattern.New(`\blowest\b|\bhighest\b|\bminimum\b|\bmaximum\b|\baverage\b|\bmean\b|\bvar(?:y|ied|ies|iation)\b|\brange\b|\bpeak\b|\bfluctuat\w*|\bswing\b|\bhow (?:low|high)\b|\bat (?:its|their) (?:lowest|highest)\b|\bcoldest\b|\bwarmest\b|\bhottest\b`)
	wantsPast        = pattern.New(`\bdid\b|\bwas\b|\bwere\b|\bhas\b.*\b(?:been|run|opened|closed|left|come|moved|gone)\b|\bhave\b.*\b(?:been|opened|closed|left)\b|\bwhen\b|\bwhat time\b|\blast time\b|\bhow often\b|\bhow many times\b|\bhow long ago\b|\bwho\b.*\b(?:turned|switched|opened|closed|locked|unlocked|left|came|armed|disarmed|set|changed|did|started|stopped|was|arrived)\b|\blast (?:open|on|off|opened|closed|run|used|seen|moved|changed)\b|\bever\b`)
	wantsWhere       = pattern.New(`\b(?:which|what) (?:room|area|floor)\b.*\b(?:is|are) (?:it|that|they|the)\b|^(?:and )?where (?:is|are|was)\b|^where$`)
	wantsRank        = pattern.New(`\bwhich\b|\bwhat\b|\bwho\b|\bwhere\b|\bname\b|\bshow\b|\btell\b`)
)

var sinceAsk = pattern.New(`\bsince (?:when|how long)\b|\bhow long (?:has|have|is|are)\b|^(?:and )?how long$`)

// leftSo asks whether somebody left a thing in a state in which it still is.
var leftSo = pattern.New(`\bdid (?:i|we) (?:leave|forget)\b|^(?:did|has|have) (?:\S+ ){1,2}(?:leave|left|forget|forgot|forgotten) (?:\S+ ){1,5}(?:open|on|unlocked|running)\b`)

// odd asks whether something is out of the ordinary.
var odd = pattern.New(`\b(?:anything|something) (?:\w+ ){0,2}(?:weird|odd|strange|funny|unusual|abnormal|amiss|fishy|out of the ordinary)\b|\b(?:weird|odd|strange|funny|abnormal|amiss|fishy)\b`)

// eating asks which thing it is that uses power now.
var eating = pattern.New(`^(?:and |so )?(?:what'?s?|which \S+|who'?s?)(?: is| are)? (?:using|eating|drawing|burning|guzzling|hogging|sucking|consuming)\b`)

func (u *turn) intentOf(q *ask, flat, rest string) (in intent, plain bool) {
	past := q.when.tool != "" && q.when.tool != "now"
	question := asking.MatchString(flat) || strings.HasSuffix(strings.TrimSpace(u.Question), "?") && !acting.MatchString(rest)
	switch {
	case wantsPlan.MatchString(flat):
		return isCause, false
	case !asking.MatchString(rest) && acting.MatchString(rest) && !strings.HasPrefix(rest, "make a "):
		return isAct, false
	case !q.own() && !slices.ContainsFunc(q.ws, func(w string) bool { return pronouns[w] }) && re(`\b(?:problems?|issues?|faults?|trouble|anything (?:wrong|weird|odd|strange|funny|unusual|amiss|fishy))\b`).MatchString(flat):
		return isErrors, false
	case wantsErrors.MatchString(flat):
		return isErrors, false
	case wantsCost.MatchString(flat):
		return isCost, false
	case wantsUnavailable.MatchString(flat) && (len(q.names) == 0 || len(q.unknown) == len(q.names)):
		return isUnavailable, false
	case wantsWhere.MatchString(flat) && q.extreme == 0:
		return isWhere, false
	case sinceAsk.MatchString(flat), leftSo.MatchString(flat) && (!past || re(`^did (?:i|we)\b`).MatchString(flat)):
		return isState, true
	case q.kind != nil && q.kind.domain == "sun" && !past && !wantsPast.MatchString(flat):
		return isState, true
	case wantsHappened.MatchString(flat) && (!wantsCause.MatchString(flat) || past && !strings.Contains(flat, "happened to") && !strings.Contains(flat, "happened with")):
		return isHappened, false
	case wantsCause.MatchString(flat), wantsUnavailable.MatchString(flat):
		return isCause, false
	case eating.MatchString(flat) && !past && (q.kind == nil || q.kind.class == "energy" || q.kind.class == "power"):
		q.extreme = 1
		return isRank, false
	case q.kind != nil && q.kind.class == "power" && q.extreme == 0 && (!past || has(q.ws, "now|currently")) && !wantsPast.MatchString(flat):
		return isState, false
	case q.kind != nil && (q.kind.class == "energy" || q.kind.class == "power" && wantsUse.MatchString(flat)) && q.extreme == 0:
		return isEnergy, false
	case has(q.ws, "how much") && (wantsUse.MatchString(flat) || has(q.ws, "charge|charged")) && (q.kind == nil || !q.kind.measure):
		return isEnergy, false
	case q.kind != nil && q.kind.measure && wantsFigures.MatchString(flat) && (past || wantsPast.MatchString(flat) || !wantsRank.MatchString(flat)):
		return isFigures, false
	case q.extreme != 0 && !wantsPast.MatchString(flat):
		return isRank, false
	case wantsPast.MatchString(flat) || past && question:
		if q.kind != nil && q.kind.measure && q.intent == isState && !has(q.ws, "when|often") {
			return isFigures, false
		}
		return isPast, !asking.MatchString(bared(flat)) && !wantsPast.MatchString(flat)
	}
	return isState, true
}

// bared returns the text without words that only connect it with what was said before.
func bared(flat string) string {
	return re(`^(?:and |so |but |or )*(?:what about |how about )?`).ReplaceAllString(flat, "")
}

// stateOf returns the state that a question is about. "Leave" and "come home" are states
// of people only.
func stateOf(q *ask, flat string) string {
	if q.kind != nil && q.kind.domain == "alarm_control_panel" && re(`\b(?:go|went|gone|going) off\b|\btriggered\b`).MatchString(flat) {
		return "triggered"
	}
	if q.kind != nil && q.kind.domain == "cover" && re(`\b(?:up|down)\b`).MatchString(flat) && q.intent != isAct {
		return map[bool]string{true: "open", false: "closed"}[has(q.ws, "up")]
	}
	if q.kind != nil && (q.kind.class == "smoke" || q.kind.name == "leak sensor") {
		return map[bool]string{true: "off", false: "on"}[re(`\bdry\b`).MatchString(flat)]
	}
	if q.kind != nil && q.kind.domain == "weather" {
		return re(`rain|snow|sun|cloud|wind|fog|clear`).FindString(flat)
	}
	if q.kind != nil && q.kind.domain == "sun" {
		if re(`\bsets?\b|\bsunset\b|\bdown\b|\bdark\b|\bdusk\b`).MatchString(flat) {
			return "down"
		}
		if re(`\b(?:rise|rose|risen|rises|sunrise|up|dawn|light)\b`).MatchString(flat) {
			return "up"
		}
		return ""
	}
	if q.kind != nil && q.kind.domain == "light" && re(`\b(?:go|goes|went|gone) out\b`).MatchString(flat) {
		return "off"
	}
	if m := re(`\b(?:left|leave) (?:\S+ ){0,4}(on|open|unlocked)\b`).FindStringSubmatch(flat); m != nil {
		return m[1]
	}
	s := stateIn(re(`\bon `+weekday).ReplaceAllString(flat, "")) // "on Friday" is no state
	if (s == "away" || s == "home") && q.kind != nil && q.kind.domain != "person" {
		s = stateIn(re(`\b(?:left|leave|leaves|gone|away|home|back|arrived?|returned?|out)\b`).ReplaceAllString(flat, ""))
	}
	return s
}

func stateIn(flat string) string {
	for _, s := range stateWords {
		if s.re.MatchString(flat) {
			return s.name
		}
	}
	return ""
}

// patterned is a pattern and the name of what it finds.
type patterned struct {
	re   *pattern.Regexp
	name string
}

func patterns(in ...[2]string) []patterned {
	var out []patterned
	for _, p := range in {
		out = append(out, patterned{re(p[0]), p[1]})
	}
	return out
}

var stateWords = patterns(
	[2]string{`\bunlock(?:ed)?\b`, "unlocked"},
	[2]string{`\block(?:ed)?\b`, "locked"},
	[2]string{`\bdisarm(?:ed)?\b`, "disarmed"},
	[2]string{`\barm(?:ed)?\b`, "armed"},
	[2]string{`\bfinish(?:ed|es)?\b|\bend(?:ed)?\b|\bdone\b|\bready\b|\bstop(?:ped)?\b`, "finished"},
	[2]string{`\bopen(?:ed|ing|s)?\b`, "open"},
	[2]string{`\bclosed?\b|\bshut\b`, "closed"},
	[2]string{`\bleave\b|\bleft\b|\bleaves\b|\bgo out\b|\bwent out\b|\bgone\b|\bout\b|\baway\b|\bgo away\b`, "away"},
	[2]string{`\bhome\b|\bcome back\b|\bcame back\b|\barrive[ds]?\b|\breturn(?:ed)?\b|\bget back\b|\bgot back\b|\bhouse\b.*\bin\b`, "home"},
	[2]string{`\boff\b|\bout\b|\binactive\b|\bdisabled\b`, "off"},
	[2]string{`\brun(?:ning|s)?\b|\bran\b|\bstart(?:ed|s)?\b|\bwork(?:ing)?\b|\bcharg(?:e|ed|ing)\b|\bkick(?:ed)? in\b|\bcome on\b|\bcame on\b|\bgo on\b|\bwent on\b|\bon at\b|\bon\b|\bburning\b|\bcleaning\b|\bplaying\b|\bused\b|\bactive\b|\benabled\b`, "on"},
)

func aspectOf(flat string) string {
	for _, a := range aspects {
		if a.re.MatchString(flat) {
			return a.name
		}
	}
	return ""
}

var aspects = patterns(
	[2]string{`\bsimulate\b|\bmitigat|\bplan\b`, "plan"},
	[2]string{wantsPlan.String(), "advice"},
	[2]string{`\b(?:until|till) when\b`, "until"},
	[2]string{`\bhow long (?:was|were|did)\b|\bfor how long\b`, "howlong"},
	[2]string{`^(?:and )?(?:since when|since how long|how long)\b|\bhow long has\b|\bhow long have\b|\bsince when\b`, "since"},
	[2]string{`\bwhen did (?:it|that|they|this) (?:begin|start)\b|\bwhen (?:was|were) the first\b|\bfirst time\b|\bbeg[iau]n\b`, "begin"},
	[2]string{`\bhow often\b|\bhow many times\b`, "often"},
	[2]string{`\bhow many\b|\bcount\b`, "count"},
	[2]string{`\bothers?\b|\brest\b`, "others"},
	[2]string{`^(?:and )?who\b|\bwho\b`, "who"},
	[2]string{`^(?:could|can|might|may|is|was) (?:it|that|this) (?:be|have been|been|the|because|due|caused|from|down to)\b|^(?:was|is) (?:it|that|this) the\b|\bto blame\b|\bresponsible\b|\bculprit\b|^maybe it\b`, "doubt"},
	[2]string{`^(?:and |but )?(?:why|how come)\b`, "why"},
	[2]string{`\bwhen\b|\bwhat time\b|\blast time\b|\bhow long ago\b`, "when"},
	[2]string{`\bwhich (?:room|area|floor)\b|\bwhere\b`, "where"},
	[2]string{`\bon which\b|\bwhich phase\b`, "on"},
	[2]string{`^(?:and |so )?which\b|\bwhich (?:ones?|lamps?|lights?|of)\b|^(?:and )?what ones\b`, "which"},
)
