// Package keyword finds the words of a question that say what it is about, and checks
// whether a text has them.
package keyword

import (
	"strings"
	"unicode"
)

// Of returns the keywords of a query: its words in lower case, in order, each
// once, without punctuation and stop words. A query of stop words has none.
//
// Marks between words separate them, so "email/password" is two; an apostrophe
// and a dot or dash between digits do not, so "it's" and "2026-02-27" are one
// word each; "c++" and "c#" keep their signs.
func Of(query string) []string {
	var out []string
	seen := map[string]bool{}
	for _, w := range split(query) {
		w = strings.TrimSuffix(w, "'s")
		if w == "" || seen[w] || IsStop(w) {
			continue
		}
		seen[w] = true
		out = append(out, w)
	}
	return out
}

func split(s string) []string {
	rs := []rune(strings.ToLower(s))
	at := func(i int) rune {
		if i < 0 || i >= len(rs) {
			return ' '
		}
		return rs[i]
	}
	var words []string
	var w strings.Builder
	end := func() {
		if w.Len() > 0 {
			words = append(words, w.String())
			w.Reset()
		}
	}
	for i, r := range rs {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r):
			w.WriteRune(r)
		case (r == '\'' || r == '’') && unicode.IsLetter(at(i-1)) && unicode.IsLetter(at(i+1)):
			w.WriteByte('\'')
		case (r == '.' || r == '-') && unicode.IsDigit(at(i-1)) && unicode.IsDigit(at(i+1)):
			w.WriteRune(r)
		case r == '+' && w.Len() > 0 && (at(i+1) == '+' || at(i-1) == '+'),
			r == '#' && w.Len() > 0 && !unicode.IsLetter(at(i+1)):
			w.WriteRune(r)
		default:
			end()
		}
	}
	end()
	return words
}

// In reports whether any of the keywords occurs in one of the texts, whatever
// the case. A keyword may be a part of a word: "auth" occurs in "OAuth".
func In(keywords []string, texts ...string) bool {
	for _, t := range texts {
		t = strings.ToLower(t)
		for _, k := range keywords {
			if strings.Contains(t, k) {
				return true
			}
		}
	}
	return false
}

// Fold makes one line of a text: each line break, with the white space around
// it, becomes one space.
func Fold(text string) string {
	if !strings.ContainsAny(text, breaks) {
		return text
	}
	var b strings.Builder
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(breaks, r) }) {
		if line = strings.TrimSpace(line); line != "" {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(line)
		}
	}
	return b.String()
}

const breaks = "\n\r\v\f\u0085\u2028\u2029"

// IsStop reports whether a lower-case word is too common in English to say what
// a question is about.
func IsStop(word string) bool { return stops[word] }

var stops = func() map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(`
		a about above after again against ain't all also am an and any are aren't as at
		be because been before being below between both but by
		can can't cannot could couldn't
		d did didn't do does doesn't doing don don't done down during
		each else ever every few for from further
		get gets getting give go goes going gonna got
		had hadn't has hasn't have haven't having he he'd he'll he's her here here's hers herself hi him himself his how how's
		i i'd i'll i'm i've if in into is isn't it it'd it'll it's its itself
		just let let's like ll
		m may maybe me might mine more most much must mustn't my myself
		no nor not now
		of off ok okay on once one only or other ought our ours ourselves out over own
		please
		re really
		s same shall shan't she she'd she'll she's should shouldn't so some such
		t than that that'll that's the their theirs them themselves then there there's these they they'd they'll they're they've this those through to too
		under until up upon us
		ve very
		was wasn't way we we'd we'll we're we've were weren't what what'll what're what's when when's where where's whether which while who who'd who's whom whose why why's will with won't would wouldn't
		yes yet you you'd you'll you're you've your yours yourself yourselves`) {
		m[w] = true
	}
	return m
}()
