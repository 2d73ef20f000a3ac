package scripted

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kljensen/snowball/english"

	"github.com/parley-server/parley/internal/keyword"
)

// stem is what a word has in common with its other forms: remind, reminded and reminders have
// one stem.
func stem(word string) string {
	if i := slices.Index(numerals, word); i >= 0 {
		return strconv.Itoa(i + 2)
	}
	return english.Stem(word, true)
}

// numerals are the words for 2 to 12. One is a pronoun too.
var numerals = strings.Fields("two three four five six seven eight nine ten eleven twelve")

// root returns the beginning that a word shares with its stem. It is part of the other forms
// too, as a search needs it: "polic" of policy and policies.
func root(word string) string {
	st, n := stem(word), 0
	for n < len(st) && n < len(word) && st[n] == word[n] {
		n++
	}
	// Long nouns in -e keep it: database, databases.
	if n < 4 || n >= 7 && word[n:] == "e" {
		return word
	}
	return word[:n]
}

func stems(text string) []string {
	ts := tokens(text)
	out := make([]string, len(ts))
	for i, t := range ts {
		out[i] = stem(t.word)
	}
	return out
}

// holds reports whether the stems contain the phrase consecutively.
func holds(text, phrase []string) bool {
	for i := 0; i+len(phrase) <= len(text); i++ {
		if slices.Equal(text[i:i+len(phrase)], phrase) {
			return len(phrase) > 0
		}
	}
	return false
}

// term is a word or phrase of a question, with other words for the same.
type term struct {
	words   string
	exact   []string   // its stems
	near    [][]string // stems of other words for the same
	kin     [][]string // stems of others of the same kind: PayPal for Stripe
	weak    bool       // says little: app, system
	name    bool       // is one of a kind: DHL, iOS
	carried bool       // comes from an earlier question of the conversation
}

// anHour matches a time of day such as 3am.
var anHour = regexp.MustCompile(`^\d{1,2}(?:am|pm)$`)

// How well a text matches a term.
const (
	absent = iota
	byKin
	byNear
	byWord
)

func (t *term) in(text []string) int {
	if holds(text, t.exact) {
		return byWord
	}
	for _, p := range t.near {
		if holds(text, p) {
			return byNear
		}
	}
	// auth in OAuth, logins in weblogins
	if len(t.exact) == 1 && len(t.exact[0]) >= 4 && slices.ContainsFunc(text, func(w string) bool {
		return strings.HasSuffix(w, t.exact[0]) || len(t.exact[0]) > 4 && strings.Contains(w, t.exact[0]) // data is not in database
	}) {
		return byNear
	}
	for _, p := range t.kin {
		if holds(text, p) {
			return byKin
		}
	}
	return absent
}

// weight is what a term counts when it matches this well.
func (t *term) weight(level int) int {
	switch {
	case t.carried:
		return [...]int{0, 1, 2, 2}[level]
	case t.weak:
		return [...]int{0, 0, 2, 2}[level]
	case t.name:
		return [...]int{0, 3, 8, 9}[level]
	}
	return [...]int{0, 3, 5, 6}[level]
}

// meaning is a word or phrase of the script's word table.
type meaning struct {
	stems []string
	group string
	kind  string // the kind of the group that it names; "": the group itself
}

// table merges groups and topics into one list, indexed by the first stem, the longest phrase
// first.
func (s *script) table() map[string][]meaning {
	m := map[string][]meaning{}
	add := func(text, group, kind string) {
		if p := stems(text); len(p) > 0 && group != "" {
			m[p[0]] = append(m[p[0]], meaning{p, group, kind})
		}
	}
	for name, g := range s.Groups {
		for _, w := range slices.Concat(g.Words, g.Search) {
			add(w, name, "")
		}
		for _, k := range g.Kinds {
			add(k, name, k)
		}
	}
	for _, t := range s.Topics {
		if t.Word {
			continue
		}
		for _, w := range append([]string{t.Name}, t.Also...) {
			add(w, t.Group, t.Name)
		}
	}
	for _, ms := range m {
		slices.SortFunc(ms, func(a, b meaning) int {
			if d := len(b.stems) - len(a.stems); d != 0 {
				return d
			}
			return strings.Compare(a.group+a.kind, b.group+b.kind)
		})
	}
	return m
}

// at returns all meanings of the longest known phrase that begins at token i.
func (s *script) at(text []string, i int) (found []meaning, n int) {
	for _, m := range s.meanings[text[i]] {
		if len(m.stems) < n {
			break
		}
		if i+len(m.stems) <= len(text) && slices.Equal(text[i:i+len(m.stems)], m.stems) {
			found, n = append(found, m), len(m.stems)
		}
	}
	return found, n
}

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
		if len(keyword.Of(w)) > 0 && (!s.idle(w) || s.building(ts, i)) {
			out = add(out, w)
		}
	}
	return out
}

// literal is a question without the phrases that do not mean what their words do: who
// made a call did not telephone. The rest keeps its position.
func (s *script) literal(question string) string {
	for _, re := range s.idioms {
		question = re.ReplaceAllStringFunc(question, func(m string) string { return strings.Repeat(" ", len(m)) })
	}
	return question
}

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

// terms returns the terms of a list of words and phrases.
func (s *script) terms(words []string, carried bool) []*term {
	var out []*term
	strong := false
	for _, w := range words {
		t := &term{words: w, exact: stems(w), carried: carried}
		t.weak = slices.Contains(s.Weak, w) || len(t.exact) == 1 && (strings.Trim(w, "0123456789.,-") == "" || anHour.MatchString(w))
		strong = strong || !t.weak
		if len(t.exact) == 0 {
			t.exact = []string{w} // only punctuation: c++
		}
		if found, n := s.at(t.exact, 0); n == len(t.exact) {
			for _, m := range found {
				s.relate(t, m)
				t.name = t.name || m.kind != ""
			}
		}
		out = append(out, t)
	}
	if !strong {
		for _, t := range out {
			t.weak = false
		}
	}
	return out
}

// relate adds the related words of a term's meaning. A thing is related to others of its kind,
// and the word for the kind to all other words for it.
func (s *script) relate(t *term, m meaning) {
	for _, ms := range s.meanings {
		for _, o := range ms {
			switch {
			case o.group != m.group:
			case o.kind == m.kind || m.kind == "" && o.kind != "" && !s.chosen[m.group]: // a country is named by its name
				t.near = append(t.near, o.stems)
			default:
				t.kin = append(t.kin, o.stems)
			}
		}
	}
}

// search returns the search words for a list of words and phrases: their roots, because the
// tools find everything that contains a word.
func (s *script) search(words []string) []string {
	var out []string
	for _, w := range words {
		for _, k := range keyword.Of(w) {
			if s.fixed[k] { // Kubernetes is not a plural
				out = add(out, k)
				continue
			}
			out = add(out, root(k))
		}
	}
	return out
}

// maxSearch is the most words of a second search.
const maxSearch = 24

// nearWords returns what to search with if the words of a question found little: other words for
// the same.
func (s *script) nearWords(words, asked []string) []string {
	var out []string
	for _, w := range words {
		st := stems(w)
		if len(st) == 0 {
			continue
		}
		found, n := s.at(st, 0)
		if n < len(st) {
			continue
		}
		for _, m := range found {
			g := s.Groups[m.group]
			for _, k := range s.search(slices.Concat(g.Search, g.Words)) {
				if !slices.ContainsFunc(asked, func(a string) bool { return strings.Contains(k, a) || strings.Contains(a, k) }) && len(k) > 2 {
					out = add(out, k)
				}
			}
		}
	}
	return out[:min(len(out), maxSearch)]
}
