package scripted

import (
	"slices"
	"strconv"
	"strings"

	"github.com/kljensen/snowball/english"
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

// irregular are stems of past forms that have another stem than their verb.
var irregular = func() map[string]string {
	m := map[string]string{}
	for pair := range strings.FieldsSeq(`lost/lose left/leave bought/buy went/go paid/pay sent/send kept/keep sold/sell began/begin broke/break broken/break
		chose/choose chosen/choose ran/run took/take taken/take gave/give given/give made/make met/meet built/build held/hold spent/spend brought/bring thought/think
		spoke/speak wrote/write written/write drove/drive rode/ride fell/fall rose/rise grew/grow knew/know saw/see seen/see stole/steal stolen/steal wore/wear won/win
		ate/eat found/find felt/feel heard/hear sat/sit caught/catch taught/teach lent/lend led/lead told/tell said/say died/dead`) {
		past, base, _ := strings.Cut(pair, "/")
		m[stem(past)] = stem(base)
	}
	return m
}()
