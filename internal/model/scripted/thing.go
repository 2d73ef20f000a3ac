package scripted

import (
	"slices"
	"strings"
	"unicode"

	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/pattern"
)

// introduces is a word before a noun.
var introduces = pattern.New(`(?i)^(?:the|a|an|any|our|your|my|his|her|their|its|this|that|these|those|no|about|for|with|of|on|in|at|from|per|some|new|another)$`)

// tail reports whether a word follows a word that the sources know, directly or after others of its
// kind: the hashes of "password hashes". It only says more of that word.
func tail(question string, t *term, known func(word string) bool) bool {
	ts, st := tokens(question), stems(question)
	for i := 1; i < len(ts); i++ {
		if i+len(t.exact) > len(st) || !slices.Equal(st[i:i+len(t.exact)], t.exact) {
			continue
		}
		for j := i - 1; j >= 0 && !keyword.IsStop(ts[j].word) && !introduces.MatchString(ts[j].word); j-- {
			if known(ts[j].word) {
				return true
			}
		}
	}
	return false
}

// thing reports whether a word that no source has is clearly what the question asks about: a name,
// or a noun of its own. In "are we ditching passwords" and "the signup form" it is not: the first is
// a verb, and the second says nothing that "signup" does not.
func (s *script) thing(question string, t *term, known func(word string) bool) bool {
	if t.name || s.group([]string{t.words}) != "" {
		return true
	}
	ts, st := tokens(question), stems(question)
	for i := range ts {
		if i+len(t.exact) > len(st) || !slices.Equal(st[i:i+len(t.exact)], t.exact) {
			continue
		}
		first := []rune(question[ts[i].start:ts[i].end])[0]
		if i > 0 && unicode.IsUpper(first) || strings.ContainsAny(ts[i].word, "0123456789") {
			return true
		}
		if i >= 2 && ts[i-2].word == "who" {
			return true // "who teaches maths?"
		}
		for j := i - 1; j >= 0; j-- {
			w := ts[j].word
			if introduces.MatchString(w) {
				return true
			}
			if keyword.IsStop(w) || known(w) {
				break
			}
		}
		if next := i + len(t.exact); next < len(ts) && (i == 1 && asksFirst.MatchString(ts[0].word) && !keyword.IsStop(ts[next].word)) {
			return true // "is parking free?"
		}
	}
	return false
}
