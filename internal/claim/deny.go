package claim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// deny reports whether two facts with other values cannot both be true.
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
	return x.sameDeed(y) && x.within(y, name) && y.within(x, name) && x.sameThing(y, name)
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
	return !slices.ContainsFunc(x.others, func(v value) bool {
		return !slices.ContainsFunc(y.others, func(o value) bool { return o.key() == v.key() && !o.denies(v) && !v.denies(o) })
	})
}

// complete gives a fact that does not say of what it is the topic of its page.
func (f *Fact) complete(name map[string]bool) {
	for _, w := range f.words {
		if !attributes[w] && !f.idle(w) && !name[w] {
			return
		}
	}
	if f.ours || slices.ContainsFunc(f.words, func(w string) bool { return name[w] }) {
		f.ours = true
		return
	}
	for _, said := range [][]string{f.rest, f.narrow} { // there is room for 22 people in the hut
		if !strings.HasPrefix(f.Kind, "count") {
			break
		}
		said = slices.DeleteFunc(slices.Clone(said), func(w string) bool { return f.idle(w) || strings.ContainsAny(w, "@#") })
		if len(said) > 0 {
			f.words = append(slices.Clone(f.words), said...)
			return
		}
	}
	if f.more {
		return // who knows of what it is
	}
	f.topical = true
	topic := slices.DeleteFunc(ownTopic(f.about.topic, name), func(w string) bool { return f.idle(w) || attributes[w] })
	f.words = append(slices.Clone(f.words), topic...)
	f.ours = len(topic) == 0
}

// idle reports whether a word says nothing of what the fact is about: it only says again of what kind the value is.
func (f Fact) idle(w string) bool {
	kind, _, _ := strings.Cut(f.Kind, " ")
	return idle[w] || idleFor[kind][w] || f.Kind == "count capacity" && (w == "room" || w == "space" || w == "seat") || (kind == "time" || kind == "hours") && w == "door" && f.opens()
}

func (f Fact) opens() bool {
	return slices.Contains(f.does, "open") || slices.Contains(f.does, "close") || slices.Contains(f.words, "open") || slices.Contains(f.words, "close")
}

// deeds are what is done, but for verbs that only join a thing and its value.
func (f Fact) deeds() (list []string) {
	for _, w := range append(slices.Clone(f.does), f.words...) {
		if !light[w] && !f.idle(w) && (slices.Contains(f.does, w) || verbs[w] && attributes[w]) {
			list = append(list, w)
		}
	}
	return list
}

// sameDeed reports whether the same is done. If only one of them says what, it is the same, unless that is what the value is of, as when
// something opens.
func (f Fact) sameDeed(g Fact) bool {
	x, y := f.deeds(), g.deeds()
	has := func(h Fact, w string) bool {
		return slices.Contains(h.does, w) || hasNear(h.words, w) || slices.Contains(h.narrow, w) || h.about.words[w]
	}
	for _, side := range []struct {
		list []string
		of   []string
		in   Fact
	}{{x, y, g}, {y, x, f}} {
		for _, w := range side.list {
			if has(side.in, w) {
				continue
			}
			if len(side.of) > 0 || attributes[w] && w != "start" && w != "leave" && (f.Kind == "time" || f.Kind == "hours" || f.Kind == "date") {
				return false
			}
		}
	}
	return true
}

// nameless reports whether a fact says nothing of what it is about.
func (f Fact) nameless(name map[string]bool) bool {
	return !f.ours && !f.topical && !slices.ContainsFunc(f.words, func(w string) bool { return !f.idle(w) && !name[w] && !attributes[w] })
}

// says reports whether a fact's clause has a word.
func (f Fact) says(w string) bool {
	return hasNear(f.words, w) || slices.Contains(f.does, w) || hasNear(f.narrow, w) || hasNear(f.rest, w)
}

// within reports whether all that narrows a fact is in the other one, or in what that one stands under.
func (f Fact) within(g Fact, name map[string]bool) bool {
	said := func(w string) bool { return g.says(w) || g.about.words[w] }
	for _, w := range f.words {
		switch {
		case f.idle(w), name[w], said(w), attributes[w] && (w == "start" || w == "leave") && len(g.does) == 0, attributes[w] && f.Kind != "time" && f.Kind != "hours" && unsaid(g, w):
		case g.whole && !f.inner[w] && !scoped[w] && !strings.ContainsAny(w, "@#"): // what holds for each thing holds for this one
		default:
			return false
		}
	}
	for _, w := range append(slices.Clone(f.narrow), f.about.scopes...) {
		switch {
		case f.idle(w), name[w], said(w):
		case g.whole && !f.inner[w] && !scoped[w] && !strings.ContainsAny(w, "@#"):
		default:
			return false
		}
	}
	// Where both say more, it has to be the same.
	return len(f.rest) == 0 || len(g.rest) == 0 || !slices.ContainsFunc(f.rest, func(w string) bool { return !f.idle(w) && !name[w] && !said(w) })
}

// unsaid reports whether a fact names no attribute beside the kind of its value, as long does.
func unsaid(g Fact, w string) bool {
	return !slices.ContainsFunc(g.words, func(o string) bool { return attributes[o] && o != w })
}

// sameThing reports whether enough is said to know that two facts, of which neither narrows the other, are about the same thing.
func (f Fact) sameThing(g Fact, name map[string]bool) bool {
	shared, titled, attribute := 0, false, false
	ofName := 0 // words of the lake's name, which say more together with others
	kind, unit, _ := strings.Cut(f.Kind, " ")
	for _, w := range slices.Concat(f.words, f.does, f.narrow, f.rest) {
		if f.idle(w) || light[w] || strings.ContainsAny(w, "@") || !g.says(w) && !g.about.words[w] {
			continue
		}
		if name[w] {
			ofName++
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
		if g.idle(w) || name[w] || attributes[w] || f.says(w) || !f.about.words[w] {
			continue
		}
		shared++
		titled = true
	}
	if shared > 0 {
		shared += ofName
	}
	direct := f.topical || g.topical || slices.ContainsFunc(append(slices.Clone(f.words), f.does...), func(w string) bool {
		return !f.idle(w) && !name[w] && !attributes[w] && (hasNear(g.words, w) || hasNear(g.does, w))
	})
	switch {
	case !direct && !f.ours && !g.ours, f.nameless(name), g.nameless(name):
		return false
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
