package scripted

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/pattern"
)

// proper matches a name: capitals inside a word, or a capital in mid-sentence.
var proper = pattern.New(`\b(?:[A-Z][\w+#]*[a-z0-9][A-Z]\w*|[a-z]+[A-Z]\w+|[A-Z][a-zA-Z0-9+#]+)(?:[ .-][A-Z][a-zA-Z0-9+#]+)*`)

// common lists capitalized words that are not names of choices.
var common = strings.Fields("MVP CEO CTO CFO COO PM QA UI UX API OK FYI TBD ETA PR PRs Q1 Q2 Q3 Q4 TL DR I Monday Tuesday Wednesday Thursday Friday Saturday Sunday " +
	"January February March April May June July August September October November December Slack Notion Hey Hi Hello Team Please Let Update Decision")

// names returns the names in a text that no topic has.
func names(text string) []mention {
	var out []mention
	for _, m := range proper.FindAllStringIndex(text, -1) {
		name := text[m[0]:m[1]]
		before := strings.TrimRight(text[:m[0]], " \"'(*")
		begins := before == "" || strings.ContainsAny(before[len(before)-1:], ".!?:;\n")
		inner := strings.ToLower(name[1:]) != name[1:] && !strings.Contains(name, " ")
		if slices.Contains(common, name) || keyword.IsStop(strings.ToLower(name)) || begins && !inner {
			continue
		}
		out = append(out, mention{name: name, start: m[0], end: m[1], for_: isFor(text, m[0], m[1])})
	}
	return out
}

const verbs = `us(?:e|es|ed|ing)|go(?:ing)? (?:with|for)|went with|switch\w* to|mov\w+ to|migrat\w+ to|adopt\w*|implement\w*|pick\w*|cho(?:o|)s\w+|build\w*|keep\w*|support\w*|need\w*|want\w*|stay\w*`

// cue matches a phrase that marks what follows as decided for or against. Of two that begin at
// the same place the longer comes first.
var cue = pattern.New(`(?i)\b(?:from (?:now|today|tomorrow|next|\d|` + months + `)|(?:goes|go|went|sent|send|sends|delivered|run|runs)(?: out)? over|` + // a time, a means
	`(?P<against>(?:not|never|no longer|stop|stopped|avoid|without|\w*n't)(?: \w+){0,2}? (?:` + verbs + `)|` +
	`instead of|rather than|no longer|away from|g[eo]t(?:ting)? rid of|moving off|off of|replac\w+|scrap\w*|remov\w*|forget\w*|kill\w*|abandon\w*|left|leaving|quit\w*|ditch\w*|retir\w*|phas\w+ out|discontinu\w*|deprecat\w*|stop\w*|reject\w*|object\w*(?: to)?|forbid\w*|ban\w*|avoid\w*|cancel\w*|without|against|not|never|from|over)|` +
	`(?P<for>drop\w* in|replaced (?:by|with)|` + verbs + `|instead|with|by|but|to|prefer\w*|decided on|agreed on|settled on|now)|` +
	`(?P<drop>drop\w*))\b`)

// after matches words after a thing that say something about it.
var afterCue = pattern.New(`(?i)^[^.!?;\n]{0,30}?\b(?:is|are|was|were|has been|have been|gets?|got)\s+(?:now\s+)?(?:out|dead|gone|off|dropped|deprecated|scrapped|replaced|cancelled|canceled|abandoned|removed|rejected|no longer|not)\b`)

// reach is the greatest distance between a name and its cue, about a dozen words.
const reach = 80

// isFor judges by the nearest cue before a name in its sentence, and by the words right after
// it. A name without either is decided for.
func isFor(text string, start, end int) bool {
	if rest := clip(text[end:], reach); afterCue.MatchString(rest) {
		if sep := strings.IndexAny(rest, ",;"); sep < 0 || afterCue.MatchString(rest[:sep]) {
			return false
		}
	}
	from := max(strings.LastIndexAny(text[:start], ".!?;\n")+1, start-reach)
	before := text[from:start]
	at := cue.FindAllStringSubmatchIndex(before, -1)
	if len(at) == 0 {
		return !strings.Contains(before, "n't ")
	}
	m := at[len(at)-1]
	if object := strings.TrimSpace(before[m[1]:]); m[2] >= 0 && elsewhere.MatchString(object) { // "instead of Moodle for the grades"
		return true
	}
	return m[2] < 0 && m[6] < 0
}

// elsewhere matches a name that is decided against, with the words that lead to another.
var elsewhere = pattern.New(`^(?:the )?[A-Z]\w+ (?:for|in|on|at)\b`)

// rejects returns what the record decides against.
func rejects(r record) []string {
	var out []string
	for _, m := range slices.Concat(r.topics, r.names) {
		if !m.for_ && !slices.Contains(out, m.name) {
			out = append(out, m.name)
		}
	}
	return out
}

const (
	maxSentence = 240 // bytes: a cell of a table stays a few lines
	maxExcerpt  = 600 // bytes: a quotation of a page is a paragraph
)

func shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.TrimSpace(clip(text, n)) + " …"
}

// excerpt returns a short record's text, or else its sentences about the question, with marks
// where others were left out. If the question is about one point of a larger topic, only these
// sentences and what the record leaves as it is are returned.
func (s *script) excerpt(x *weighed, sub subject) string {
	if len(x.Text) <= maxExcerpt && !sub.Narrow() {
		return x.Text
	}
	var b strings.Builder
	left := false
	for _, sen := range x.sentences {
		about := stays.MatchString(sen.text) || slices.ContainsFunc(x.focus, func(f sentence) bool { return f.text == sen.text })
		if !about || b.Len()+len(sen.text) > maxExcerpt {
			left = true
			continue
		}
		if left {
			b.WriteString("… ")
		}
		b.WriteString(sen.text + " ")
		left = false
	}
	if b.Len() == 0 {
		return shorten(x.Text, maxExcerpt)
	}
	if left {
		b.WriteString("…")
	}
	return strings.TrimSpace(b.String())
}

// title matches a text that ends in the title of a person, whose full stop ends no sentence.
var title = pattern.New(`\b(?:Mr|Ms|Mrs|Dr|Prof)\.\s*$`)

var sentenceEnd = pattern.New(`[.!?]+(?:\s+|$)`)

func sentences(text string) []string {
	var out []string
	for at, from := 0, 0; from < len(text); {
		m := sentenceEnd.FindStringIndex(text[at:])
		if m == nil {
			return append(out, strings.TrimSpace(text[from:]))
		}
		if at += m[1]; !title.MatchString(text[from:at]) || at == len(text) {
			out = append(out, strings.TrimSpace(text[from:at]))
			from = at
		}
	}
	return out
}

const months = `january|february|march|april|may|june|july|august|september|october|november|december`
