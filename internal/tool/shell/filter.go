package shell

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"
)

const (
	// maxFilter limits the steps of a regular expression when its repetitions are written out: the time to
	// match a line grows with them.
	maxFilter = 1000
	// maxMatched is how much of a line is matched.
	maxMatched = 4 << 10
	// maxFiltering is how long lines are matched.
	maxFiltering = 2 * time.Second
)

// compile compiles a model's regular expression. The error says what is wrong with it.
func compile(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > maxFilter {
		return nil, fmt.Errorf("has %d bytes; the limit is %d", len(pattern), maxFilter)
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("is not a regular expression: %w", err)
	}
	if steps(tree) > maxFilter {
		return nil, errors.New("repeats too much; use * or + instead of numbers")
	}
	return regexp.Compile(pattern)
}

// steps is about how many steps an expression has when its repetitions are written out.
func steps(r *syntax.Regexp) int {
	n := 1
	for _, sub := range r.Sub {
		n += steps(sub)
	}
	switch r.Op {
	case syntax.OpRepeat:
		n *= max(1, r.Min, r.Max)
	case syntax.OpLiteral:
		n += len(r.Rune)
	case syntax.OpCharClass:
		n += len(r.Rune) / 2
	}
	return min(n, 1<<20)
}

// matching returns the lines of a text that match.
func matching(filter *regexp.Regexp, text string, now func() time.Time) string {
	late := now().Add(maxFiltering)
	var kept []string
	for line := range strings.SplitSeq(text, "\n") {
		if now().After(late) {
			kept = append(kept, "[the filter took too long: lines from here on are left out]")
			break
		}
		if filter.MatchString(line[:min(len(line), maxMatched)]) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}
