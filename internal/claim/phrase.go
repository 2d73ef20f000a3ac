package claim

import (
	"cmp"
	"slices"
	"strings"
)

// facts are those of a clause: one for each value.
func (c clause) facts(how mood, ab about) (list []Fact) {
	c.people()
	c.telephones(ab)
	c.places()
	all := append(slices.Clone(c.subject), c.list...)
	verb := verbsIn(all)
	for v, t := range all {
		if t.kind != isValue {
			continue
		}
		f := Fact{about: ab, mood: how, Kind: t.v.kind, Shown: t.text, value: *t.v, inner: map[string]bool{}}
		f.value.bound, f.value.rate = boundOf(all, v), rateOf(all, v)
		f.arrange(all, verb, v, c.row)
		switch {
		case c.question:
			f.mood = asked
		case c.mood != isSo:
			f.mood = c.mood
		case how == isSo:
			f.mood = moodOf(all)
		}
		alone := !slices.ContainsFunc(all, func(o token) bool { return o.kind == isValue && o.v != t.v && o.v.kind != "year" })
		if f.Kind == "weekday" && !alone || f.Kind == "year" && !f.founds() {
			continue
		}
		if f.Kind == "year" {
			f.years = nil
		}
		list = append(list, f.halves()...)
	}
	slices.SortStableFunc(list, func(a, b Fact) int { return cmp.Compare(a.Kind, b.Kind) })
	return list
}

// halves are a fact, and for the hours at which something is open also when it opens and closes.
func (f Fact) halves() []Fact {
	list := []Fact{f}
	if f.Kind != "hours" || !f.opens() && !f.about.words["open"] {
		return list
	}
	for attribute, at := range map[string]float64{"open": f.value.lo, "close": f.value.hi} {
		half := f
		half.Kind, half.value = "time", value{kind: "time", lo: at, hi: at, either: f.value.either}
		half.does = append(slices.DeleteFunc(slices.Clone(f.does), func(w string) bool { return w == "open" || w == "close" }), attribute)
		half.words = slices.DeleteFunc(slices.Clone(f.words), func(w string) bool { return w == "open" || w == "close" })
		list = append(list, half)
	}
	return list
}

// verbsIn says which tokens are verbs. Many English words are verbs or nouns by where they stand.
func verbsIn(all []token) []bool {
	is := make([]bool, len(all))
	colon := slices.IndexFunc(all, func(t token) bool { return t.low == ":" })
	for i, t := range all {
		if t.kind != isWord {
			continue
		}
		prev, next := word(all, i-1), word(all, i+1)
		m := meaning(t.low)
		ending := strings.HasSuffix(t.low, "ed") || strings.HasSuffix(t.low, "ing")
		switch {
		case aux[t.low], prev == "please":
			is[i] = true
		case function[t.low], nouns[t.low], !verbs[m] && !(strings.HasSuffix(t.low, "ed") && len(t.low) > 4):
		case aux[next] || i+1 < len(all) && all[i+1].low == ":": // vital signs are
		case aux[prev] || prev == "been" || prev == "be" || prev == "to" || subjects[prev]:
			is[i] = verbs[m] || ending
		case determiners[prev] || prepositions[prev]: // a visit, of use
		case prev == "" && (i == 0 || all[i-1].kind == isMark): // at the beginning: an order, or a noun
			is[i] = !ending && !strings.HasSuffix(t.low, "s") && next != "of" && (determiners[next] || next != "" && !function[next] && !aux[next] && !verbs[meaning(next)]) && (colon < i) && verbs[m]
		case strings.HasSuffix(t.low, "ing"): // opening hours
		case next != "" && !function[next] && verbs[meaning(next)] && !strings.HasSuffix(t.low, "ed"): // a ticket check takes
		case strings.HasSuffix(t.low, "ed") && next != "" && !function[next] && !determiners[prev] && prev != "" && !function[prev]: // is it "books reserved online"?
			is[i] = true
		default:
			is[i] = verbs[m] || prev != "" && !function[prev]
		}
	}
	return is
}

var (
	subjects     = set(`we they you it he she i who which that`)
	determiners  = set(`a an the this that these those its their our your his her my each every any all both no one some another such first second third last next`)
	prepositions = set(`of for in on at with by from to into onto per during under over above below about against through between within without before after until as than via near towards`)
	// openers begin a clause that the words before them are not of.
	openers = set(`that if when whenever unless while because before after where which who once until so than whoever`)
	// strict are prepositions before what narrows a fact wherever it stands.
	strict = set(`for of during without except per`)
)

// arrange sorts the words of a clause by what they have to do with the value at v: the phrase that names the thing, what is done, what
// narrows it, and the rest.
func (f *Fact) arrange(all []token, verb []bool, v int, row bool) {
	used := make([]bool, len(all))
	used[v] = true
	take := func(from, to int, into *[]string) {
		for i := max(from, 0); i < min(to, len(all)); i++ {
			if !used[i] {
				used[i] = true
				f.put(all, i, into)
			}
		}
	}
	left := func(end int) int { // where the phrase begins that ends there
		i := end
		for i > 0 {
			t := all[i-1]
			if t.kind == isMark && t.low != "-" && t.low != "/" || verb[i-1] || openers[t.low] || t.kind == isValue && t.v.kind != "year" && t.v.kind != "weekday" && i-1 < v && !attached(all, i-1) {
				break
			}
			if t.low == "and" || t.low == "or" || t.low == "but" || t.low == "then" {
				break
			}
			i--
		}
		return i
	}
	if f.value.word != "" { // wind force 6
		i := v
		for i > 0 && all[i-1].kind == isWord && !function[all[i-1].low] && !prepositions[all[i-1].low] && !verb[i-1] {
			i--
		}
		take(i, v, &f.words)
	}
	event := f.Kind == "time" && v > 1 && all[v-1].low == "at" // before the first bell at 8:00
	if event {
		b := left(v - 1)
		event = b > 0 && b < v-1 && slices.Contains([]string{"before", "after", "until"}, all[b-1].low)
	}
	colon := -1
	for i := v - 1; i >= 0; i-- {
		if all[i].low == ":" {
			colon = i
			break
		}
	}
	k := v - 1 // the last verb before the value
	for k >= 0 && !verb[k] && k > colon {
		k--
	}
	if k <= colon {
		k = -1
	}
	begin := v
	switch {
	case f.attributive(all, verb, v):
		for begin > 0 && all[begin-1].kind == isWord && !function[all[begin-1].low] && !verb[begin-1] {
			begin--
		}
		take(begin, v, &f.words)
	case v > 0 && all[v-1].low == "of" || event || k < 0 && colon < 0: // a herd of 72 cows; 12 dogs
		begin = left(v)
		if begin == v && v > 1 && (all[v-1].low == "," || openers[all[v-1].low]) { // a level with its time, once a minute; a contract until 2027
			begin = left(v - 1)
		}
		if all[max(v-1, 0)].low == "of" {
			for i := v - 2; i > begin; i-- { // of which only the last phrase is meant
				if prepositions[all[i].low] && all[i].low != "of" {
					begin = i
					break
				}
			}
		}
		take(begin, v, &f.words)
		if begin > 0 && verb[begin-1] { // juniors pay a fee of 48 euros
			group := begin
			for group > 0 && verb[group-1] {
				group--
			}
			take(left(group), group, &f.narrow)
		}
	case k < 0: // Helmets: 14 days
		begin = left(colon)
		if row {
			begin = 0
		}
		take(begin, colon, &f.words)
		take(colon, v, &f.words)
		f.keyed = true
	default:
		group := k
		for group > 0 && (verb[group-1] || all[group-1].kind == isWord && (adverb(all[group-1].low) || all[group-1].low == "to" && group > 1 && verb[group-2])) {
			group--
		}
		begin = left(group)
		take(begin, group, &f.words)
		take(group, k+1, &f.does)
		f.objects(all, verb, k+1, v, used)
	}
	if k < 0 && colon < 0 {
		f.keyed = !slices.Contains(verb, true)
	}
	if v == 0 && len(all) > 1 && all[1].low == ":" { // even weeks: Ana
		take(2, len(all), &f.words)
	}
	// Behind the value.
	end := v + 1
	for end < len(all) && all[end].low != ":" && !(subjects[all[end].low] && begin < v) {
		end++
	}
	if f.attributive(all, verb, v) { // a 15 m long pool
		for i := v + 1; i < len(all) && all[i].kind == isWord && !function[all[i].low] && !verb[i]; i++ {
			take(i, i+1, &f.words)
		}
	}
	f.objects(all, verb, v+1, end, used)
	// Before the phrase: another clause says something else, unless it is a condition; a place or a time at the beginning narrows it.
	if head := all[:begin]; len(head) > 0 && !slices.ContainsFunc(head, func(t token) bool { return t.low == "all" || t.low == "any" }) {
		at := 0
		for i := range head { // the nearest part
			if head[i].low == "," && i < len(head)-1 && !narrowing[head[0].low] {
				at = i + 1
			}
		}
		if condition := narrowing[head[at].low] || slices.Contains([]string{"after", "before", "once"}, head[at].low); condition || prepositions[head[at].low] && !slices.Contains(verb[at:begin], true) {
			if condition {
				f.narrow = append(f.narrow, "@"+head[at].low)
			}
			take(at, begin, &f.narrow)
		}
	}
	for i, t := range all {
		f.more = f.more || i < v && !used[i] && (t.kind == isWord && !function[t.low] && !prepositions[t.low] || t.kind == isValue && t.v.kind != "weekday" && t.v.kind != "year")
		switch {
		case t.kind == isValue && t.v.kind == "weekday":
			f.days |= weekdays(t.v.lo)
		case t.kind == isValue && t.v.kind == "year":
			f.years = append(f.years, t.text)
		case t.kind == isWord && (t.low == "we" || t.low == "our" || t.low == "us"):
			f.ours = true
		}
	}
	if i := slices.Index(f.does, "open"); i >= 0 && f.Kind == "time" && (word(all, v-1) == "until" || word(all, v-1) == "till" || word(all, v-1) == "to") {
		f.does[i] = "close"
	}
	if f.value.bound == 0 && (f.Kind == "count capacity" || slices.Contains(f.does, "hold") || slices.Contains(f.words, "room") && word(all, v-1) == "for") && strings.HasPrefix(f.Kind, "count") {
		f.value.bound = '<' // it holds no more
	}
	if f.value.bound == 0 && measures[f.Kind] && v > 0 && slices.ContainsFunc(all[:v], func(t token) bool { return t.low == "may" }) {
		f.value.bound = '<' // hedges may be 1.2 m high
	}
	f.whole = f.keyed && len(all) > 0 && slices.Contains([]string{"not", "no", "never"}, all[0].low) ||
		slices.ContainsFunc(all, func(t token) bool {
			return slices.Contains([]string{"each", "every", "all", "any", "always", "never", "nobody"}, t.low)
		})
	if f.whole && f.value.bound == '>' && slices.ContainsFunc(all[:v], func(t token) bool { return slices.Contains([]string{"nobody", "no", "never", "not"}, t.low) }) {
		f.value.bound = '<' // nobody works above 7
	}
}

// attributive reports whether a value stands before its noun, as in a 15 m long pool.
func (f *Fact) attributive(all []token, verb []bool, v int) bool {
	n := word(all, v+1)
	return n != "" && !function[n] && !prepositions[n] && !narrowing[n] && !verb[v+1] && !strings.HasPrefix(f.Kind, "count") && !openers[n] &&
		(v > 0 && determiners[all[v-1].low] || attributes[meaning(n)] && word(all, v+2) != "" && !function[word(all, v+2)] && !verb[v+2])
}

// measures are kinds of values of which a permission names the most.
var measures = set(`length weight volume area duration temperature speed pace`)

func adverb(w string) bool {
	return strings.HasSuffix(w, "ly") || slices.Contains([]string{"not", "always", "usually", "also", "now", "still", "only", "never", "been", "be"}, w)
}

// attached reports whether a value belongs to the noun before it: a rye loaf of 1 kg.
func attached(all []token, i int) bool {
	return i > 0 && (all[i-1].low == "of" || all[i-1].low == ",")
}

// objects sorts the phrases between a verb and the value, or behind the value.
func (f *Fact) objects(all []token, verb []bool, from, to int, used []bool) {
	prep := ""
	behind := from > 0 && used[from-1] && all[from-1].kind == isValue
	for i := from; i < to; i++ {
		t := all[i]
		switch {
		case used[i]:
		case behind && verb[i]: // 12 dogs fit; else another clause
			if len(f.words) > 0 || len(f.does) > 0 && f.does[len(f.does)-1] != meaning(word(all, i-1)) {
				return
			}
			f.put(all, i, &f.does)
		case behind && i == from && attributes[meaning(t.low)] && t.kind == isWord && !function[t.low]: // 142 m long
			f.put(all, i, &f.words)
		case behind && t.low == "," && i+1 < to && !prepositions[all[i+1].low] && !narrowing[all[i+1].low] && all[i+1].kind == isWord:
			return // an apposition
		case t.kind == isMark:
			prep = ","
		case narrowing[t.low] || (t.low == "after" || t.low == "before" || t.low == "once" || t.low == "only") && t.kind == isWord:
			prep = t.low
			if t.low != "only" {
				f.narrow = append(f.narrow, "@"+t.low)
			}
		case prepositions[t.low]:
			if !narrowing[prep] && prep != "after" && prep != "before" && (t.low != "of" || prep == "" || prep == ",") {
				prep = t.low
			}
		case t.kind == isValue:
			if t.v.kind != "weekday" && t.v.kind != "year" && slices.Contains([]string{"", "at", "for", "of", "after", "within", "before", "if", "when", "while"}, prep) {
				v := *t.v
				f.others = append(f.others, v)
			}
		default:
			used[i] = true
			money := strings.HasPrefix(f.Kind, "money") || strings.HasPrefix(f.Kind, "count")
			days := (prep == "on" || prep == "in" || prep == "at") && (timely[meaning(t.low)] || scoped[meaning(t.low)] && !f.compound(all, i))
			switch {
			case behind && prep == "of" && all[from].low == "of": // 12 hours of community work
				f.put(all, i, &f.words)
			case prep == "" && !behind, f.Kind == "phone" && (prep == "for" || prep == "of" || prep == "in"):
				f.put(all, i, &f.words)
			case prep == "" || strict[prep] || narrowing[prep] || prep == "after" || prep == "before" || prep == "once" || prep == "only" || days || money && (prep == "in" || prep == "at" || prep == "with") || t.capital() || t.kind == isNum:
				f.put(all, i, &f.narrow)
			default:
				f.put(all, i, &f.rest)
			}
		}
	}
}

// timely are meanings of words for when.
var timely = stemmed(`day days week weeks month months season morning evening afternoon night year years race match eve`)

// compound reports whether a word only modifies the next one, as winter in winter garden.
func (f *Fact) compound(all []token, i int) bool {
	n := word(all, i+1)
	return n != "" && !function[n] && !timely[meaning(n)]
}

// put adds what a token says.
func (f *Fact) put(all []token, i int, into *[]string) {
	t := all[i]
	switch {
	case t.kind == isNum, t.kind == isWord && numbers[t.low] > 1:
		*into = append(*into, "#"+t.low)
	case t.kind == isValue && t.v.kind != "weekday" && t.v.kind != "year":
		f.others = append(f.others, *t.v)
	case t.kind == isWord && !function[t.low] && !isRate(all, i):
		m := meaning(t.low)
		*into = append(*into, m)
		if n := word(all, i+1); n != "" && !function[n] {
			f.inner[m] = true
		}
	}
}

// telephones makes values of short numbers that are called.
func (c *clause) telephones(ab about) {
	for i, t := range c.list {
		if t.kind != isNum || len(t.text) < 3 || strings.ContainsAny(t.text, ".,") {
			continue
		}
		before := meaning(word(c.list, i-1))
		if before == "phone" && i > 0 || ab.words["phone"] && i > 0 && c.list[i-1].low == ":" {
			c.list[i].kind, c.list[i].v = isValue, exact("phone", t.text)
		}
	}
}
