// Package nearest finds the known name that a misspelt one was meant to be.
package nearest

import (
	"slices"
	"strings"
)

// Hint suggests the known name nearest to a wrong one, or lists the few there
// are. It begins with a semicolon, and is empty where no name is known.
func Hint(name string, known []string) string {
	switch at := Name(name, known); {
	case at != "":
		return "; did you mean " + at + "?"
	case len(known) == 0:
		return ""
	}
	known = slices.Sorted(slices.Values(known))
	return "; known are " + strings.Join(known, ", ")
}

// Name returns the known name nearest to a wrong one, or "" if none is near: at
// most two slips away, and not all of a short name.
func Name(name string, known []string) string {
	best, at := 3, ""
	for _, k := range known {
		if d := Within(strings.ToLower(name), k, best); d < best && d < len(name) {
			best, at = d, k
		}
	}
	return at
}

// Distance is the number of slips between two words: a letter that is missing, one
// too many, another one, or two that are swapped.
func Distance(a, b string) int { return Within(a, b, max(len(a), len(b))) }

// Within is [Distance] up to limit. Beyond that it stops counting, and returns limit+1.
func Within(a, b string, limit int) int {
	ra, rb := []rune(a), []rune(b)
	if n := len(ra) - len(rb); max(n, -n) > limit {
		return limit + 1
	}
	prev2, prev, row := make([]int, len(rb)+1), make([]int, len(rb)+1), make([]int, len(rb)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(ra); i++ {
		row[0] = i
		low := i
		for j := 1; j <= len(rb); j++ {
			cost := 1
			if ra[i-1] == rb[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && ra[i-1] == rb[j-2] && ra[i-2] == rb[j-1] {
				row[j] = min(row[j], prev2[j-2]+1)
			}
			low = min(low, row[j])
		}
		if low > limit {
			return limit + 1
		}
		prev2, prev, row = prev, row, prev2
	}
	return min(prev[len(rb)], limit+1)
}
