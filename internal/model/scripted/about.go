package scripted

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/pattern"
)

// about returns the words and phrases of a question that name something.
func (s *script) about(question string) []string {
	var out []string
	question = s.literal(question)
	ts, st := tokens(question), stems(question)
	for i := 0; i < len(ts); i++ {
		if p := s.parted(ts, st, i); p != "" {
			out = add(out, p)
			continue
		}
		if found, n := s.at(st, i); n > 1 && found[0].kind == "" || n == 1 && !keyword.IsStop(ts[i].word) && !s.idle(ts[i].word) {
			out = add(out, strings.ToLower(question[ts[i].start:ts[i+n-1].end]))
			i += n - 1
			continue
		}
		w := ts[i].word
		if question[ts[i].start:ts[i].end] == "US" { // and not the pronoun
			w = "USA"
		}
		if len(keyword.Of(w)) > 0 && (!s.idle(w) || s.building(ts, i) || topical(ts, i)) {
			out = add(out, w)
		}
	}
	return out
}

// literal is a question without the phrases that do not mean what their words do: who
// made a call did not telephone, and yesterday is when. The rest keeps its position.
func (s *script) literal(question string) string {
	question = aClock.ReplaceAllStringFunc(timeless(question), func(m string) string { return strings.Repeat(" ", len(m)) })
	question = aLength.ReplaceAllStringFunc(question, func(m string) string { return strings.Repeat(" ", len(m)) })
	for _, re := range s.idioms {
		question = re.ReplaceAllStringFunc(question, func(m string) string { return strings.Repeat(" ", len(m)) })
	}
	return question
}

// aClock matches a time of the day, which is compared with limits and names nothing.
var aClock = pattern.New(`\b\d{1,2}:\d\d\b`)

// aLength matches a length of time after a verb, which is compared with limits likewise.
var aLength = pattern.New(`(?i)\b(?:half an?|one|two|three|four|five|six|seven|eight|ten|twelve|fourteen|thirty) (?:second|minute|hour)s?\b`)

// particles end phrasal verbs, possibly after an object. In and on are prepositions too, except
// at the end or before another preposition.
var (
	particles   = strings.Fields("back out up off in on")
	preposition = strings.Fields("in on")
	follows     = strings.Fields("with using by via through to and or")
)

// parted finds a verb of the table whose words are separated: "send it back".
func (s *script) parted(ts []token, st []string, i int) string {
	for _, m := range s.meanings[st[i]] {
		if len(m.stems) != 2 || !slices.Contains(particles, m.stems[1]) {
			continue
		}
		j := i + 1 + slices.Index(st[i+1:min(i+5, len(st))], m.stems[1])
		if j > i+1 && (!slices.Contains(preposition, m.stems[1]) || j+1 == len(ts) || slices.Contains(follows, ts[j+1].word)) {
			return ts[i].word + " " + m.stems[1]
		}
	}
	return ""
}

// topical reports whether a word ends a question after "about": "anything about timing?" asks about
// timing, which elsewhere says little.
func topical(ts []token, i int) bool {
	return i > 1 && i == len(ts)-1 && ts[i-1].word == "about" && ts[i-2].word != "what" && ts[i-2].word != "how"
}

// building reports whether a word is a library with books. A library for programs is asked for
// with "which", "a" or "for".
func (s *script) building(ts []token, i int) bool {
	return (ts[i].word == "library" || ts[i].word == "libraries") && i > 0 && slices.Contains([]string{"the", "our", "school"}, ts[i-1].word) &&
		(i+1 == len(ts) || !slices.Contains([]string{"for", "to", "you", "we", "i", "that", "which"}, ts[i+1].word))
}

// idle reports whether a word of a question does not say what it is about.
func (s *script) idle(word string) bool {
	return slices.Contains(s.Ignore, word) || slices.Contains(s.Ask, word) || slices.Contains(s.Refer, word) || slices.Contains(s.Fresh, word)
}

func add(list []string, item string) []string {
	if slices.Contains(list, item) {
		return list
	}
	return append(list, item)
}
