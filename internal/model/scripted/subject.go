package scripted

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/keyword"
)

// subject is what a question is about: its own words, and the words it takes from the
// conversation.
type subject struct {
	Own, Carried []string

	question string
	terms    []*term
	pairs    [][2]string // stems of two words that are next to each other in the question
	wants    *figure     // the kind of figure that is asked for, or nil
}

// Words returns its own and its carried words.
func (s subject) Words() []string { return slices.Concat(s.Own, s.Carried) }

// Figure returns the kind of figure that is asked for, such as "a price", or "".
func (s subject) Figure() string {
	if s.wants == nil || s.wants.name == aPlace {
		return ""
	}
	return s.wants.name
}

// Place reports whether the question asks where something is.
func (s subject) Place() bool { return s.wants != nil && s.wants.name == aPlace }

// Narrow reports whether the question asks about one point of a larger topic.
func (s subject) Narrow() bool { return len(s.Own) > 0 && len(s.Carried) > 0 }

func (s subject) strong() []*term {
	return slices.DeleteFunc(slices.Clone(s.terms), func(t *term) bool { return t.weak || t.carried })
}

const (
	lookUp = "look up "
	asTo   = ", as to "
)

// subject finds what a question is about, from the question and the conversation. An
// agent that sees only part of them takes it from the reason of the handoff.
func (s *script) subject(v view) subject {
	var own, carried []string
	if v.Handed != nil {
		if _, asked, ok := strings.Cut(v.Handed.Why, lookUp); ok {
			mine, theirs, _ := strings.Cut(asked, asTo)
			own, carried = s.listed(mine), s.listed(theirs)
		}
	}
	if len(own) == 0 {
		own, carried = s.asked(v)
	}
	out := subject{Own: own, Carried: carried, question: v.Question}
	out.terms = append(s.terms(own, false), s.terms(carried, true)...)
	conditional(v.Question, out.terms)
	st := stems(v.Question)
	for i := 1; i < len(own); i++ {
		if a, b := stems(own[i-1]), stems(own[i]); holds(st, slices.Concat(a, b)) && len(a) > 0 && len(b) > 0 {
			out.pairs = append(out.pairs, [2]string{a[len(a)-1], b[0]})
		}
	}
	for _, w := range wanted {
		said, _ := s.asks("saying", v.Question)
		named := slices.ContainsFunc(own, func(o string) bool { return holds(st, stems(o)) })
		if w.name == aDate && (said || len(s.about(v.Question)) == 0 && !named) {
			continue // the question asks for the date of the record
		}
		if w.ask.MatchString(v.Question) {
			out.wants = &w.figure
			break
		}
	}
	for _, w := range wanted { // "and for kids?", after a question about the price for a member
		if out.wants == nil && w.ask.MatchString(strings.Join(carried, " ")) {
			out.wants = &w.figure
		}
	}
	return out
}

// listed returns the words in a handoff's reason. Another agent may have written it.
func (s *script) listed(text string) []string {
	if about := s.about(text); len(about) > 0 {
		return about
	}
	return strings.Fields(text)
}

// asked returns the words of the question, and the words it takes from an earlier one:
// "And for Android?" is about the phones of the question before.
func (s *script) asked(v view) (own, carried []string) {
	own = s.about(v.Question)
	earlier := s.earlier(v)
	if rest := s.withoutDeed(v.Question, own); len(rest) > 0 || len(earlier) > 0 {
		own = rest
	}
	switch {
	case len(own) == 0 && len(earlier) > 0:
		return earlier, nil
	case len(own) == 0:
		own = s.keywords(v.Question)
	case len(earlier) > 0 && ofThat.MatchString(v.Question):
		for _, w := range own {
			if !slices.Contains(earlier, w) {
				carried = append(carried, w)
			}
		}
		return earlier, carried
	case s.chosen[s.group(own)] && s.group(own) != s.group(earlier): // another topic
	case s.leans(v.Question):
		for _, w := range earlier {
			if !slices.Contains(own, w) {
				carried = append(carried, w)
			}
		}
	}
	if len(own) == 0 {
		own = strings.Fields(v.Question)
	}
	return own, carried
}

// condition matches the clause of a question that says when something would matter.
var condition = regexp.MustCompile(`(?i)\b(?:if|in case)\b[^,?]*`)

// conditional makes words of a condition weak, if others remain: somebody who asks whether anybody
// is on call if the server is down asks who is on call.
func conditional(question string, terms []*term) {
	at := condition.FindStringIndex(question)
	if at == nil {
		return
	}
	outside := stems(question[:at[0]] + "." + question[at[1]:])
	named := func(t *term) bool { return !t.weak && !t.carried && holds(outside, t.exact) }
	if !slices.ContainsFunc(terms, named) {
		return
	}
	for _, t := range terms {
		t.weak = t.weak || !holds(outside, t.exact)
	}
}

// whoDid matches what somebody did, in a question for who it was.
var whoDid = regexp.MustCompile(`(?i)\bwho (?:else |has |had |have |just |actually |first |really )*(\w+ed)\b`)

// withoutDeed returns the words without the verb of "who pushed it back?", if the word table does
// not know it: it says what somebody did to the subject, and is not one.
func (s *script) withoutDeed(question string, own []string) []string {
	m := whoDid.FindStringSubmatch(question)
	if m == nil || s.group([]string{strings.ToLower(m[1])}) != "" {
		return own
	}
	return slices.DeleteFunc(slices.Clone(own), func(w string) bool { return w == strings.ToLower(m[1]) })
}

// earlier returns the words of the last question that had words of its own.
func (s *script) earlier(v view) []string {
	var last []string
	for _, x := range slices.Backward(v.History) {
		about := s.about(x.Question)
		if len(about) > 0 && !s.leans(x.Question) {
			return about
		}
		if len(last) == 0 {
			last = about
		}
	}
	return last
}

// leaning matches a question that continues the one before.
var leaning = regexp.MustCompile(`(?i)^\W*(?:and|or|but|so|what about|how about|what else|why not)\b`)

// ofThat matches a question about what was said before, whatever else it names: "is that
// still true after the launch moved?"
var ofThat = regexp.MustCompile(`(?i)^\W*(?:(?:and|so|but|then)\W+)?(?:is|was|are|were|does|did|do|has|have) (?:that|this|it) (?:still|true|right|correct|valid|current|change|changed|hold|holds)\b`)

func (s *script) leans(question string) bool {
	return leaning.MatchString(question) || has(question, "that", "it", "they", "them", "those", "these", "this", "one", "then", "there", "its", "their")
}

// rest matches a sentence that continues the one before it.
var rest = regexp.MustCompile(`(?i)\b(?:the rest|the others?|otherwise|all others?)\b`)

// together counts the word pairs of the question that are also next to each other in a
// record. A page about video visits fits better than one about visits.
func (s subject) together(r record) int {
	n := 0
	for _, p := range s.pairs {
		if near(r.title, p) || slices.ContainsFunc(r.sentences, func(x sentence) bool { return near(x.stems, p) }) {
			n++
		}
	}
	return n
}

// near reports whether a text has both words, with at most one word between them.
func near(text []string, pair [2]string) bool {
	for i, w := range text {
		if w == pair[0] && slices.Contains(text[max(0, i-2):min(i+3, len(text))], pair[1]) {
			return true
		}
	}
	return false
}

// more returns the words of one further search. If the first search left a word of the
// question unfound in a source, it adds other words for it. It also adds names from a
// page that no message mentions, because a message may have replaced them since. A
// source that failed, or that a person refused, is not searched again.
func (s *script) more(v view) []string {
	if !v.memo.asked {
		v.memo.asked, v.memo.more = true, s.further(v)
	}
	return v.memo.more
}

func (s *script) further(v view) []string {
	failed := func(r result) bool { return r.Failed }
	if n := len(v.Results); n < 2 || s.surveys(v) || slices.ContainsFunc(v.Results, failed) {
		return nil
	} else if n > 4 {
		return s.last(v)
	}
	sub := s.subject(v)
	found := make([][]record, 2)
	var out, asked []string
	for i, r := range v.Results {
		rs, _ := s.records([]result{r})
		found[i%2] = append(found[i%2], rs...)
		if i%2 == 1 {
			asked = append(asked, strings.Fields(fmt.Sprint(r.Input["query"]))...)
		}
	}
	if len(v.Results) > 2 {
		if out = s.pageWords(found, sub, asked); len(out) == 0 {
			return s.last(v)
		}
		return out
	}
	lacking := func(t *term) bool {
		return slices.ContainsFunc(found, func(rs []record) bool {
			return !slices.ContainsFunc(rs, func(r record) bool { return t.in(r.all()) >= byNear })
		})
	}
	if slices.ContainsFunc(sub.strong(), lacking) {
		out = s.nearWords(sub.Words(), asked)
	}
	for i, rs := range found {
		for _, x := range s.direct(rs, sub, false).All {
			candidates := x.names
			if x.User == "" {
				candidates = slices.Concat(x.topics, x.names)
			}
			for _, m := range candidates {
				named := func(r record) bool {
					return slices.ContainsFunc(slices.Concat(r.topics, r.names), func(o mention) bool { return o.name == m.name })
				}
				if slices.ContainsFunc(found[1-i], named) {
					continue
				}
				for _, k := range s.search([]string{m.name}) {
					if m.for_ && !slices.Contains(asked, k) && len(out) < maxSearch {
						out = add(out, k)
					}
				}
			}
		}
	}
	for _, k := range s.pageWords(found, sub, asked) {
		if len(out) < maxSearch {
			out = add(out, k)
		}
	}
	if len(out) == 0 {
		return s.last(v)
	}
	return out
}

// pageWords returns words of a page's title if no message with a statement was found. A
// message that overrides the page may use the title's words instead of the question's.
func (s *script) pageWords(found [][]record, sub subject, asked []string) []string {
	var out []string
	all := s.direct(slices.Concat(found...), sub, false).All
	if slices.ContainsFunc(all, func(x *weighed) bool { return x.Title == "" && x.statement() }) {
		return nil
	}
	for _, x := range all {
		for _, k := range s.search(s.about(x.Title)) {
			if !slices.Contains(asked, k) && len(k) > 3 && len(out) < maxSearch {
				out = add(out, k)
			}
		}
	}
	return out
}

// last returns the words of a search for everything, once, after no other search found
// anything about the question. The question's words may be misspelled, and the answer
// can then at least say what the sources are about.
func (s *script) last(v view) []string {
	done := func(r result) bool { return r.Failed || fmt.Sprint(r.Input["query"]) == strings.Join(s.Survey, " ") }
	rs, err := s.records(v.Results)
	if err != nil || slices.ContainsFunc(v.Results, done) || s.direct(rs, s.subject(v), false).Found() {
		return nil
	}
	return s.Survey
}

// firstSearch returns the words of the first search. A single word is widened. With
// widen, all are: messages are brief and seldom use a specification's words.
func (s *script) firstSearch(v view, widen bool) []string {
	if s.surveys(v) {
		return s.Survey
	}
	sub := s.subject(v)
	words := s.search(sub.Words())
	if len(words) == 0 {
		words = sub.Words()
	}
	if len(sub.Words()) > 1 && !widen {
		return words
	}
	for _, w := range s.Groups[s.group(sub.Words())].Search {
		if !keyword.In(words, w) {
			words = add(words, w)
		}
	}
	return words
}
