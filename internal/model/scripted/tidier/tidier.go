// Package tidier is what Tachikoma does without a provider: it looks through a lake with tidy_scan, judges the pairs of statements by
// rules, and proposes with tidy_propose.
//
// It knows English words for how people say that something is so, was so or is to be so, and nothing of what is in any lake: see
// [Contradict]. What a reader would need the rest of the pages for it leaves to people.
package tidier

import (
	"fmt"

	"github.com/parley-server/parley/internal/model/scripted/dialog"
	"github.com/parley-server/parley/internal/pattern"
)

const (
	scan    = "tidy_scan"
	propose = "tidy_propose"
)

// pairOf is a pair of statements as tidy_scan lists it.
var pairOf = pattern.New(`(?m)^([0-9a-f]{12})\n  ([^\n]+?\.md): ([^\n]*)\n  ([^\n]+?\.md): ([^\n]*)$`)

// Answer returns the reply for a turn, of which these are the results so far.
func Answer(results []dialog.Result) dialog.Reply {
	if len(results) == 0 {
		return dialog.Reply{Calls: []dialog.Call{{Tool: scan, Input: map[string]any{}}}}
	}
	last := results[len(results)-1]
	if last.Failed || last.Tool != scan {
		return dialog.Reply{Say: last.Output}
	}
	input := map[string]any{}
	var judged []any
	for _, m := range pairOf.FindAllStringSubmatch(last.Output, -1) {
		one := map[string]any{"id": m[1], "contradicts": false}
		if why, yes := Contradict(Statement{m[2], m[3]}, Statement{m[4], m[5]}); yes {
			one["contradicts"], one["why"] = true, why
		}
		judged = append(judged, one)
	}
	if judged != nil {
		input["contradictions"] = judged
	}
	return dialog.Reply{Calls: []dialog.Call{{Tool: propose, Input: input}}}
}

// Statement is a sentence of a page.
type Statement struct{ Path, Text string }

// Contradict judges two statements that have values in common. They contradict each other if all that one of them says, the other says
// too, except for the value of one thing. It is not so if they are about other times, one of them says what somebody wants, proposes or has
// measured once, or under which condition it holds; or if too little is said to know that both are about the same. why is for people.
func Contradict(a, b Statement) (why string, yes bool) {
	x, y := read(a), read(b)
	unit, differ := "", 0
	for u, values := range x.values {
		others, both := y.values[u]
		if !both {
			continue
		}
		switch shared := meet(values, others); {
		case shared == 0:
			unit = u
			differ++
		case shared < len(values) && shared < len(others):
			return "", false // a list of which some is the same
		}
	}
	switch {
	case differ != 1: // none, or they are about different things
		return "", false
	case x.mood != y.mood || x.mood == task || x.onlyFor(y) || y.onlyFor(x):
		return "", false
	case x.year != "" && y.year != "" && x.year != y.year:
		return "", false
	case unit != "date" && (len(x.values["date"]) > 0) != (len(y.values["date"]) > 0):
		return "", false // what was on a day
	}
	if !x.within(y) && !y.within(x) {
		return "", false
	}
	said := 0
	for w := range x.words {
		if y.words[w] {
			said++
		}
	}
	named := 0
	for w := range x.name {
		if y.name[w] || y.words[w] {
			named++
		}
	}
	for w := range y.name {
		if x.words[w] {
			named++
		}
	}
	if said < 2 && (said == 0 && named < 2 || named == 0) {
		return "", false
	}
	return fmt.Sprintf("%s says %s, and %s says %s", a.Path, x.shown[unit], b.Path, y.shown[unit]), true
}

// within reports whether all that a statement says besides its values is said by another, or is what that one's page is about.
func (s said) within(other said) bool {
	for w := range s.words {
		if !other.words[w] && !other.name[w] {
			return false
		}
	}
	return len(s.words) > 0
}

func meet(a, b []string) (n int) {
	for _, v := range a {
		for _, w := range b {
			if v == w {
				n++
				break
			}
		}
	}
	return n
}
