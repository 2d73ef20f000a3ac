// Package claim reads what the pages of a lake say: prices, times, days, numbers of things, telephone numbers, who is responsible.
//
// [Statements] takes a page apart into sentences, items of lists, rows of tables and fields of its front matter, each with what it stands
// under. [Read] finds the facts in one of them: a value, the words that say of what it is, and for when and for whom it holds.
// [World.Contradict] says whether two statements cannot both be true.
//
// It knows English and nothing of what is in any lake. The rules prefer to miss a contradiction: two statements contradict each other only
// if each word of both is matched by the other, by what the other stands under, or says nothing of what the statement is about. So a word
// that narrows one of them, such as the group in "a group ticket", is enough to leave the two alone.
package claim

import (
	"cmp"
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
	Kind   string // of value: money, time, count people
	Shown  string // the value as it is written
	value  value
	others []value  // the clause has them besides
	words  []string // what the clause says besides its values, as stems of one word for each meaning
	mood   mood
	years  []string
	days   weekdays
	ours   bool            // it is about those whose lake it is
	keyed  bool            // it is a name and a value, without a verb
	bare   bool            // it has verbs alone, and names no thing
	whole  bool            // it holds for each of its things: each gauge, never
	inner  map[string]bool // words directly before another, as group in group ticket
	about  about
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

// Words are what the fact is about.
func (f Fact) Words() []string { return f.words }

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

func (w World) deny(x, y Fact) bool {
	switch {
	case !w.standing(x), !w.standing(y):
		return false
	case x.Kind != "date" && !slices.Equal(w.when(x), w.when(y)):
		return false
	case x.Kind != "weekday" && !x.sameDays(y):
		return false
	case !sameOthers(x, y) || !sameOthers(y, x):
		return false
	}
	name := stemsOf(w.Name)
	x.complete(name)
	y.complete(name)
	if !x.within(y, name) || !y.within(x, name) {
		return false
	}
	return x.sameThing(y, name)
}

// standing reports whether a fact is so for some time, and not what was, is to be, or is asked for.
func (w World) standing(f Fact) bool {
	if f.Kind == "year" { // when something was founded stays as it is
		return f.mood == isSo || f.mood == wasSo
	}
	if f.about.event {
		return f.mood == isSo && f.Kind == "date" && !f.keyed // what is agreed until a day
	}
	return f.mood == isSo
}

// when is the years that a fact is about, but for the present one.
func (w World) when(f Fact) []string {
	years := f.years
	if len(years) == 0 {
		years = f.about.years
	}
	now := fmt.Sprint(w.Day.Year())
	years = slices.DeleteFunc(slices.Clone(years), func(y string) bool { return y == now })
	slices.Sort(years)
	return slices.Compact(years)
}

// sameDays reports whether two facts are about the same days of the week. One that names no days is about the usual ones.
func (f Fact) sameDays(g Fact) bool {
	a, b := cmp.Or(f.days, f.about.days), cmp.Or(g.days, g.about.days)
	return a == b || a == 0 && b.usual() || b == 0 && a.usual() || a.usual() && b.usual()
}

// sameOthers reports whether the other values of a fact's clause are in the other one's clause, too.
func sameOthers(x, y Fact) bool {
	for _, v := range x.others {
		if v.kind == "weekday" || v.kind == "year" {
			continue
		}
		if !slices.ContainsFunc(y.others, func(o value) bool { return o.key() == v.key() && !o.denies(v) && !v.denies(o) }) {
			return false
		}
	}
	return true
}

// complete gives a fact that does not say of what it is the topic of its page.
func (f *Fact) complete(name map[string]bool) {
	says := 0
	for _, w := range f.words {
		if attributes[w] || f.idle(w) || name[w] {
			continue
		}
		if says++; says > 1 || !f.bare { // a verb alone, such as dries, is of the page's topic
			return
		}
	}
	if f.ours || slices.ContainsFunc(f.words, func(w string) bool { return name[w] }) {
		f.ours = true
		return
	}
	topic := slices.DeleteFunc(slices.Clone(f.about.topic), func(w string) bool { return genres[w] || f.idle(w) || attributes[w] || name[w] })
	f.words = append(slices.Clone(f.words), topic...)
	f.ours = len(topic) == 0
}

// idle reports whether a word says nothing of what the fact is about: it only says again of what kind the value is.
func (f Fact) idle(w string) bool {
	kind, _, _ := strings.Cut(f.Kind, " ")
	return idle[w] || idleFor[kind][w] || f.Kind == "count capacity" && (w == "room" || w == "space" || w == "seat") || (kind == "time" || kind == "hours") && w == "door" && f.opens()
}

func (f Fact) opens() bool {
	return slices.Contains(f.words, "open") || slices.Contains(f.words, "close")
}

// within reports whether all that narrows a fact is in the other one, or in what that one stands under.
func (f Fact) within(g Fact, name map[string]bool) bool {
	for _, w := range f.words {
		switch {
		case f.idle(w), name[w], hasNear(g.words, w), g.about.words[w]:
		case g.whole && !f.inner[w] && !scoped[w] && !strings.ContainsAny(w, "@#"): // what holds for each thing holds for this one
		case verbs[w] && (f.value.word != "" || g.keyed && (light[w] || f.Kind == "every")):
		default:
			return false
		}
	}
	for _, s := range f.about.scopes {
		if !hasNear(g.words, s) && !g.about.words[s] {
			return false
		}
	}
	return true
}

// sameThing reports whether enough is said to know that two facts, of which neither narrows the other, are about the same thing.
func (f Fact) sameThing(g Fact, name map[string]bool) bool {
	shared, titled, attribute := 0, false, false
	kind, unit, _ := strings.Cut(f.Kind, " ")
	for _, w := range f.words {
		if f.idle(w) || name[w] || !hasNear(g.words, w) && !g.about.words[w] {
			continue
		}
		if attributes[w] {
			attribute = true
			continue
		}
		shared++
		titled = titled || hasNear(f.about.topic, w) || hasNear(g.about.topic, w)
	}
	for _, w := range g.words {
		if g.idle(w) || name[w] || attributes[w] || hasNear(f.words, w) || !f.about.words[w] {
			continue
		}
		shared++
		titled = true
	}
	switch {
	case !titled && f.about.series == g.about.series && (f.about.thing || f.keyed && g.keyed && slices.Equal(f.words, g.words)):
		x, y := ownTopic(f.about.topic, name), ownTopic(g.about.topic, name)
		return (hasAll(x, y) || hasAll(y, x)) && (!f.about.thing || len(x) > 0 && len(y) > 0) // each is about the thing of its page
	case shared == 0:
		return f.ours && g.ours && (attribute || kind == "count" && unit != "" || kind == "phone" || kind == "person")
	case shared == 1 && !titled && !f.value.named():
		return sameTopic(f.about.topic, g.about.topic, name) || f.ours && g.ours
	}
	return true
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
