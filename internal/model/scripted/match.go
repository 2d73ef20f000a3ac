package scripted

import (
	"slices"
	"strings"
	"unicode"
)

// token is a word of a text, in lower case, with its position.
type token struct {
	word       string
	start, end int
}

func tokens(text string) []token {
	var out []token
	start := -1
	end := func(i int) {
		if start >= 0 {
			out = append(out, token{strings.ToLower(text[start:i]), start, i})
			start = -1
		}
	}
	for i, r := range text {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			if start < 0 {
				start = i
			}
		default:
			end(i)
		}
	}
	end(len(text))
	return out
}

// phrase is a sequence of words that names something.
type phrase []string

func newPhrase(s string) phrase {
	var p phrase
	for _, t := range tokens(s) {
		p = append(p, t.word)
	}
	return p
}

// at reports whether the phrase occurs at token i of the text, and how many tokens it takes. Its
// last word may have a plural or another short ending, and its words may be joined differently:
// email/password, e-mail password.
func (p phrase) at(text string, ts []token, i int) bool {
	if len(p) == 0 || i+len(p) > len(ts) {
		return false
	}
	for j, w := range p {
		have := ts[i+j].word
		if have != w && (j < len(p)-1 || !ending(have, w)) {
			return false
		}
		if j > 0 && !joins(text[ts[i+j-1].end:ts[i+j].start]) {
			return false
		}
	}
	return true
}

func ending(have, w string) bool {
	rest, ok := strings.CutPrefix(have, w)
	return ok && (rest == "s" || rest == "es" || rest == "ed" || rest == "ing")
}

// joins reports whether the characters between two words keep them together.
func joins(between string) bool {
	if between == "." || between == "'" || between == "’" {
		return true
	}
	mark := strings.TrimSpace(between)
	return mark == "" || len(mark) == 1 && strings.Contains("/&+-_", mark)
}

// in reports whether the phrase occurs anywhere in the text.
func (p phrase) in(text string, ts []token) bool {
	for i := range ts {
		if p.at(text, ts, i) {
			return true
		}
	}
	return false
}

// mention is a thing named in a text, and whether the text is for it.
type mention struct {
	name, group string
	start, end  int
	for_        bool
}

// named is a phrase and what it names.
type named struct {
	phrase phrase
	topic  *topic
}

// index orders the topics' phrases by their first word, the longest first.
func index(topics []*topic) map[string][]named {
	m := map[string][]named{}
	for _, t := range topics {
		for _, text := range append([]string{t.Name}, t.Also...) {
			if p := newPhrase(text); len(p) > 0 {
				m[p[0]] = append(m[p[0]], named{p, t})
			}
		}
	}
	for _, ns := range m {
		slices.SortStableFunc(ns, func(a, b named) int { return len(b.phrase) - len(a.phrase) })
	}
	return m
}

// mentions finds the known topics of a text, in its order and without overlap.
func (s *script) mentions(text string) []mention {
	var out []mention
	ts := tokens(text)
	for i := 0; i < len(ts); i++ {
		word := ts[i].word
	search:
		for _, first := range []string{word, strings.TrimSuffix(word, "s"), strings.TrimSuffix(word, "es")} {
			for _, n := range s.index[first] {
				if !n.phrase.at(text, ts, i) || n.topic.Word && strings.ToLower(text[ts[i].start:ts[i].end]) == text[ts[i].start:ts[i].end] {
					continue
				}
				last := i + len(n.phrase) - 1
				m := mention{name: n.topic.Name, group: n.topic.Group, start: ts[i].start, end: ts[last].end}
				m.for_ = isFor(text, m.start, m.end)
				out = append(out, m)
				i = last
				break search
			}
		}
	}
	return out
}
