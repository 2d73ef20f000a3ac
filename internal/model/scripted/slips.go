package scripted

import "github.com/parley-server/parley/internal/keyword"

// alikeWords returns the words of the sources that a misspelt word may mean. A word that the
// sources have is spelt right.
func alikeWords(word []string, vocabulary map[string]bool) map[string]bool {
	if len(word) != 1 || vocabulary[word[0]] || len(word[0]) < 4 {
		return nil
	}
	out := map[string]bool{}
	for w := range vocabulary {
		if nearlySpelt(word[0], w) {
			out[w] = true
		}
	}
	for past, base := range irregular {
		if word[0] == base && vocabulary[past] || word[0] == past && vocabulary[base] {
			out[past], out[base] = true, true
		}
	}
	return out
}

// nearlySpelt reports whether two stems differ by one slip of the fingers, or long ones by two.
func nearlySpelt(a, b string) bool {
	n := min(len(a), len(b))
	if n < 4 || a[0] != b[0] {
		return false
	}
	allowed := 1
	if n >= 8 {
		allowed = 2
	}
	d := keyword.Slips(a, b)
	return d <= allowed && (n > 4 || len(a) != len(b) || d == 0)
}
