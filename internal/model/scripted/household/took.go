package household

import (
	"fmt"
	"slices"
	"strings"
)

// take replaces words that name nothing in the house by what they clearly mean: the maker of one
// of its things, or the beginning of a word for a kind of thing. It returns what it took for what,
// for the answer to say.
func (u *turn) take() []string {
	var took []string
	for i := range u.Earlier {
		u.Earlier[i].Question, _ = u.taken(u.Earlier[i].Question)
	}
	u.Question, took = u.taken(u.Question)
	return took
}

func (u *turn) taken(text string) (string, []string) {
	var took []string
	for _, w := range clean(text) {
		if len(w) < 4 || idle[w] || pronouns[w] || also[w] != "" || u.know.words[w] || u.know.words[stem(w)] || kindWords[w] || wantsUse.MatchString(w) || u.inHouse(w) {
			continue
		}
		name := u.madeBy(w)
		if name == "" {
			name = kindBegun(w)
		}
		if i := strings.Index(strings.ToLower(text), w); name != "" && i >= 0 && len(strings.ToLower(text)) == len(text) {
			text = text[:i] + name + text[i+len(w):]
			took = append(took, fmt.Sprintf("I took \"%s\" as the %s.", w, name))
		}
	}
	return text, took
}

// kindWords has every word of the phrases for kinds of things and for rooms.
var kindWords = func() map[string]bool {
	m := map[string]bool{}
	for _, k := range kinds {
		for _, w := range strings.FieldsFunc(k.words+"|"+k.low+"|"+k.high, func(r rune) bool { return r == '|' || r == ' ' }) {
			m[w] = true
		}
	}
	for _, names := range rooms {
		for _, n := range names {
			for w := range strings.FieldsSeq(n) {
				m[w] = true
			}
		}
	}
	return m
}()

// madeBy returns the name of the one thing that a maker or an integration has in the house, or "".
func (u *turn) madeBy(w string) string {
	var name []string
	for _, e := range u.know.hits {
		if !slices.Contains(e.tags, w) {
			continue
		}
		own := slices.DeleteFunc(clean(strings.ToLower(e.name)), func(word string) bool { return word == e.class })
		if name == nil {
			name = own
			continue
		}
		n := 0
		for n < len(name) && n < len(own) && name[n] == own[n] {
			n++
		}
		if name = name[:n]; n == 0 {
			return "" // several things
		}
	}
	return strings.Join(name, " ")
}

// kindBegun returns the word for a kind of thing that begins with w, if there is one kind alone:
// "tele" is the television.
func kindBegun(w string) string {
	found := ""
	var of *kind
	for _, k := range kinds {
		for word := range strings.SplitSeq(k.words, "|") {
			if !strings.HasPrefix(word, w) || strings.Contains(word, " ") || k.measure {
				continue
			}
			if of != nil && of != k {
				return ""
			}
			if of = k; found == "" || len(word) > len(found) {
				found = word
			}
		}
	}
	return found
}
