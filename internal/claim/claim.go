// Package claim reads what the pages of a lake say: prices, times, days, numbers of things, telephone numbers, who is responsible.
//
// [Statements] takes a page apart into sentences, items of lists, rows of tables and fields of its front matter, each with what it stands
// under. [Read] finds the facts in one of them: a value, the words that say of what it is, and for when and for whom it holds.
// [World.Contradict] says whether two statements cannot both be true.
//
// It knows English and nothing of what is in any lake. The rules prefer to miss a contradiction: two statements contradict each other only
// if each word that names the thing of one, or narrows for when, for whom and where it is so, is matched by the other or by what that one stands
// under. So a word such as the group in "a group ticket" is enough to leave the two alone.
package claim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Statement is something that a page says.
type Statement struct {
	Path   string
	Kind   string // of the page, and its status, as its front matter has them
	Status string
	// Under is what it stands under, from the outside in: the title, headings, what leads to a list, the head of a table.
	Under []string
	Text  string
	Line  int // of the page; from 1
}

// Fact is a value that a statement gives to something.
type Fact struct {
	Kind    string // of value: money, time, count people
	Shown   string // the value as it is written
	value   value
	words   []string        // the phrase that names the thing, as stems of one word for each meaning
	does    []string        // what is done
	narrow  []string        // for when, for whom, for what
	rest    []string        // what is said besides
	inner   map[string]bool // words directly before another, as group in group ticket
	others  []value         // that go with it: of 1 kg, for three months
	mood    mood
	years   []string
	days    weekdays
	ours    bool // it is about those whose lake it is
	keyed   bool // it is a name and a value, without a verb
	more    bool // the clause says more before the value
	topical bool // what it is about is the topic of its page
	whole   bool // it holds for each of its things: each gauge, never
	about   about
}

// about is what a statement stands under, as words.
type about struct {
	words  map[string]bool // all that may be taken from there to complete a statement
	topic  []string        // of what the title and the headings are
	scopes []string        // for when and for whom
	years  []string
	days   weekdays
	event  bool   // it tells what was at a time
	series string // the folder and the kind of its page
	thing  bool   // its page is of a kind of things, such as customers
}

// Key says of what kind and unit the value is. Facts with other keys cannot be compared.
func (f Fact) Key() string { return f.Kind + f.value.rate }

// Differs reports whether two values of the same key cannot both be true of one thing.
func (f Fact) Differs(g Fact) bool { return f.Key() == g.Key() && f.value.denies(g.value) }

// World is what a statement is read with.
type World struct {
	Name string    // of the lake. What is not said to be of something else is of it.
	Day  time.Time // on which the lake is looked at
}

// Contradict reports whether two statements cannot both be true. why is for people.
func (w World) Contradict(a, b Statement) (why string, yes bool) {
	x, y, yes := w.Opposed(Read(a), Read(b))
	if !yes {
		return "", false
	}
	return fmt.Sprintf("%s says %s, and %s says %s", a.Path, x.Shown, b.Path, y.Shown), true
}

// Opposed finds a fact of each of two statements that cannot both be true.
func (w World) Opposed(xs, ys []Fact) (x, y Fact, yes bool) {
	for _, x := range xs {
		for _, y := range ys {
			if x.Differs(y) && w.deny(x, y) && !agrees(xs, y) && !agrees(ys, x) {
				return x, y, true
			}
		}
	}
	return x, y, false
}

// agrees reports whether one of the facts has the value of another: of a list of which some is the same, nothing is known.
func agrees(list []Fact, f Fact) bool {
	return slices.ContainsFunc(list, func(g Fact) bool { return g.Kind == f.Kind && !g.value.denies(f.value) })
}

// ownTopic is what a topic says of which thing a page is about.
func ownTopic(list []string, name map[string]bool) (out []string) {
	for _, w := range list {
		if !genres[w] && !name[w] && !idle[w] {
			out = append(out, w)
		}
	}
	return out
}

// sameTopic reports whether two pages may be about the same: one of them has no topic of its own, or they share it.
func sameTopic(a, b []string, name map[string]bool) bool {
	return len(ownTopic(a, name)) == 0 || len(ownTopic(b, name)) == 0 || sharedTopic(a, b, name)
}

func sharedTopic(a, b []string, name map[string]bool) bool {
	y := ownTopic(b, name)
	if !slices.Equal(numbersOf(a), numbersOf(b)) && len(numbersOf(a)) > 0 && len(numbersOf(b)) > 0 {
		return false // two of a series
	}
	return slices.ContainsFunc(ownTopic(a, name), func(w string) bool { return hasNear(y, w) })
}

func numbersOf(topic []string) (list []string) {
	for _, w := range topic {
		if strings.HasPrefix(w, "#") {
			list = append(list, w)
		}
	}
	return list
}

// hasAll reports whether a list has all words of another.
func hasAll(list, of []string) bool {
	return !slices.ContainsFunc(of, func(w string) bool { return !hasNear(list, w) })
}

// hasNear reports whether a list has a word or one that is made of it, such as apprentice and apprenticeship.
func hasNear(list []string, w string) bool {
	return slices.ContainsFunc(list, func(o string) bool { return near(o, w) })
}

func near(a, b string) bool {
	if a == b {
		return true
	}
	const least = 7 // letters in common; shorter ones, as in station and stations' master, are chance
	if len(a) > len(b) {
		a, b = b, a
	}
	return len(a) >= least && strings.HasPrefix(b, a) && len(b)-len(a) <= 5
}
