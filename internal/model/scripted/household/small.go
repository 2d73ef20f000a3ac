package household

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

const help = `I know this house through its Home Assistant. Ask me how things are, what happened and when, why something happened, what was used, or which errors there are; I say what the house has recorded. I can also change something, where that is allowed.

For example: *Why did the bedroom lights flicker last night?*`

var (
	remembering = pattern.New(`(?is)^\s*(?:please )?(?:remember|note|keep in mind|don't forget)(?: that)?[:,]? (.+?)[.!]*\s*$`)
	greeting    = words("hi hello hey thanks thank great nice good morning evening bye cheers ok okay you very much there super perfect lovely afternoon night goodnight parley")
	askHelp     = pattern.New(`(?i)^\W*(?:hey,? |hi,? |hello,? )?(?:help|what can you do|what can i ask|who are you|what are you|how do you work|what do you know)\b[^?]*\??\W*$`)
	askChanged  = pattern.New(`(?i)\bwhat (?:have|did|has|had) (?:you|parley) (?:already )?(?:chang|do|done|did|switch|turn|set)\w*|\b(?:did|have) you (?:really |already |actually )?(?:chang|do|done|did|switch|turn|set|open|clos|lock)\w*`)
	askUndo     = pattern.New(`(?i)^\W*(?:please )?(?:undo|revert|take (?:it|that) back|put (?:it|that|everything) back)\b(?: (?:it|that|this|please|again|(?:how|as|to what|to how) (?:it|they) (?:was|were)))*\W*$`)
)

// Done begins each line that reports a change.
const Done = "Done: "

// small answers what needs no look at the house. For anything else it returns "".
func small(t Turn) string {
	q := strings.TrimSpace(t.Question)
	ws := clean(q)
	if say, is := t.nodded(ws); is {
		return say
	}
	if len(ws) > 0 && !slices.ContainsFunc(ws, func(w string) bool { return !greeting[w] }) {
		if slices.ContainsFunc(ws, func(w string) bool { return w == "thanks" || w == "thank" || w == "cheers" }) {
			return "You are welcome."
		}
		return help
	}
	if askHelp.MatchString(q) || len(ws) == 0 {
		return help
	}
	if say := beyond(q); say != "" {
		return say
	}
	if m := remembering.FindStringSubmatch(q); m != nil {
		return "I keep in mind for this conversation: " + m[1] + "."
	}
	undo := askUndo.MatchString(q)
	if askChanged.MatchString(q) || undo {
		var done []string
		for _, x := range t.Earlier {
			for line := range strings.SplitSeq(x.Answer, "\n") {
				if rest, ok := strings.CutPrefix(line, Done); ok {
					done = append(done, "- "+rest)
				}
			}
		}
		switch {
		case undo && len(done) > 0:
			return "" // that is a request, see topic
		case undo:
			return "There is nothing to undo: I have changed nothing in this conversation."
		case len(done) == 0:
			return "Nothing: I have changed nothing in this conversation."
		}
		return "In this conversation:\n\n" + strings.Join(done, "\n")
	}
	return ""
}

var (
	agreeing = words("yes yeah yep yup sure ok okay please do it that so go ahead on then thanks thank you great good fine alright right perfect")
	agreed   = pattern.New(`^(?:yes|yeah|yep|yup|sure|ok|okay|fine|please|do it|do that|do so|go ahead|go on)\b`)
	praise   = pattern.New(`^(?:(?:ok|okay|oh|very|that is|that's|all|and|then|so) )*(?:ok|okay|great|nice|good|perfect|super|lovely|fine|right|alright|wonderful|excellent|cool)(?: (?:then|now|ok|okay|great|good))*$`)
)

// agrees reports whether a text is only a yes.
func agrees(ws []string) bool {
	return agreed.MatchString(strings.Join(ws, " ")) && !slices.ContainsFunc(ws, func(w string) bool { return !agreeing[w] })
}

// offers reports whether an answer asks for a yes: one of its paragraphs ends with a
// question. An answer that reports a change asks for nothing more.
func offers(answer string) bool {
	answer, _, _ = strings.Cut(answer, "```parley")
	if strings.Contains("\n"+answer, "\n"+Done) {
		return false
	}
	for line := range strings.SplitSeq(answer, "\n") {
		if !strings.HasPrefix(line, ">") && strings.HasSuffix(strings.TrimSpace(line), "?") {
			return true
		}
	}
	return false
}

// nodded answers a yes or a "great" in a conversation. A yes to an offer is a request,
// see topic. A yes to anything else changes nothing in the house.
func (t Turn) nodded(ws []string) (say string, is bool) {
	if len(t.Earlier) == 0 || slices.ContainsFunc(ws, func(w string) bool { return w == "thanks" || w == "thank" }) && !agrees(ws) {
		return "", false
	}
	last := t.Earlier[len(t.Earlier)-1].Answer
	switch flat := strings.Join(ws, " "); {
	case agrees(ws) && offers(last):
		return "", true
	case slices.Contains(ws, "thanks") || slices.Contains(ws, "thank"):
		return "You are welcome.", agrees(ws)
	case praise.MatchString(flat):
		return "Good. Ask on whenever you like.", true
	case agrees(ws) && strings.Contains("\n"+last, "\n"+Done):
		return "That is done, and I changed nothing more. To have it done once more, say *again*.", true
	case agrees(ws):
		return "I had asked nothing, so I changed nothing. Say what you want to know, or what is to be done.", true
	}
	return "", false
}

// facts returns what the person asked to remember, and what was kept of earlier turns.
func (t Turn) facts() []string {
	out := slices.Clone(t.Facts)
	for _, x := range t.Earlier {
		if m := remembering.FindStringSubmatch(x.Question); m != nil {
			out = append(out, m[1])
		}
	}
	return out
}

var factAsk = pattern.New(`(?i)^\W*(?:and |so )?(?:when|who|what|which|where|how|is|are|was|were|do|does|did|will|whose|why)\b`)

// naming returns the stems of the words in a text that name something.
func naming(text string) []string {
	var out []string
	for _, w := range clean(text) {
		if w = strings.TrimSuffix(w, "'s"); !idle[w] && !pronouns[w] && !slices.Contains(out, stem(w)) {
			out = append(out, stem(w))
		}
	}
	return out
}

// fact returns a fact that has every word of the question, if the house does not know
// all of them. Whether the heat pump runs is for the house to say; when it is due for
// service is not.
func (u *turn) fact() string {
	asked := naming(u.Question)
	q := strings.ToLower(u.Question)
	if len(asked) < 2 || !factAsk.MatchString(q) || wantsCause.MatchString(q) || wantsHappened.MatchString(q) {
		return ""
	}
	if !slices.ContainsFunc(asked, func(w string) bool { return !u.know.words[w] }) {
		return ""
	}
	for _, f := range slices.Backward(u.facts()) {
		have := naming(f)
		if !slices.ContainsFunc(asked, func(w string) bool { return !slices.Contains(have, w) }) {
			return f
		}
	}
	return ""
}

// related returns the facts that share two words with the question.
func (u *turn) related() []string {
	var out []string
	asked := naming(u.Question)
	for _, f := range u.facts() {
		n := 0
		for _, w := range naming(f) {
			if slices.Contains(asked, w) {
				n++
			}
		}
		if n >= 2 && len(out) < 3 {
			out = append(out, strings.TrimSuffix(f, ".")+".")
		}
	}
	return out
}
