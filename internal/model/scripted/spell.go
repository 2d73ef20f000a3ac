package scripted

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// spelled joins words as the question writes them, two with the word between them, more with
// commas.
func spelled(question string, words []string) string {
	type at struct{ start, end int }
	var found []at
	var other []string // from an earlier question, or replacing an abbreviation
	lower := strings.ToLower(question)
	for _, w := range words {
		if i := strings.Index(lower, w); i >= 0 && len(lower) == len(question) {
			found = append(found, at{i, i + len(w)})
		} else {
			other = append(other, w)
		}
	}
	if len(found) == 0 {
		return strings.Join(other, " ")
	}
	slices.SortFunc(found, func(a, b at) int { return a.start - b.start })
	var out strings.Builder
	for i, f := range found {
		from := f.start
		if i > 0 {
			from = max(from, found[i-1].end)
			if between := question[found[i-1].end:from]; len(strings.Fields(between)) > 1 {
				out.WriteString(", ")
			} else {
				out.WriteString(between)
			}
		}
		out.WriteString(question[from:max(from, f.end)])
	}
	return strings.Join(append([]string{out.String()}, other...), ", ")
}

// slipped reports whether two words differ by an extra, missing or swapped letter, or in long
// words by another letter. The first and last letters must agree: light is not night, nor table
// tablet.
func slipped(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) < 4 || len(b)-len(a) > 1 || !utf8.ValidString(a) || a[0] != b[0] || a[len(a)-1] != b[len(b)-1] {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch {
	case len(a) < len(b):
		return a[i:] == b[i+1:]
	case i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i]:
		return a[i+2:] == b[i+2:]
	}
	return i < len(a) && len(a) > 6 && a[i+1:] == b[i+1:]
}

// sounds returns a word with one letter for those that sound the same: desision, decision.
func sounds(word string) string { return alikeLetters.Replace(word) }

var alikeLetters = strings.NewReplacer("c", "s", "z", "s")
