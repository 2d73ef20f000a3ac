package claim

import (
	"path"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

var (
	// reasons begin clauses that say something else.
	reasons = set(`because whereas although though so but while`)
	// relatives begin clauses about what stands before them.
	relatives = set(`which who where that whose`)
	// reporting verbs have what is said behind them.
	reporting = set(`ask asks asked tell note remember say says know mind remind reminds means mean ensure notice know`)
	joins     = set(`and or then`)
)

// split takes the tokens of a statement apart where another thing is said.
func split(list []token) (out []clause) {
	var now clause
	lead := isSo
	flush := func(subject []token) {
		if len(now.list) > 0 {
			now.mood = lead
			out = append(out, now)
		}
		now = clause{subject: subject}
	}
	for i := 0; i < len(list); i++ {
		t, next := list[i], token{}
		if i+1 < len(list) {
			next = list[i+1]
		}
		switch {
		case t.low == ";" || t.low == "!" || t.low == "(" || t.low == ")" || t.low == "?":
			now.question = t.low == "?"
			flush(nil)
			continue
		case t.low == ":" && hasVerb(list[i+1:]) && len(now.list) > 0 && (!narrowing[now.list[0].low] || slices.ContainsFunc(now.list, func(t token) bool { return reporting[t.low] })):
			if !narrowing[now.list[0].low] && !slices.ContainsFunc(now.list, func(t token) bool { return reporting[t.low] }) {
				lead = moodOf(now.list)
			}
			now = clause{} // what leads to it
			continue
		case t.low == "," && relatives[next.low]:
			flush(last(now.list))
			i++
			continue
		case t.low == "," && reasons[next.low]:
			flush(nil)
			i++
			continue
		case t.low == "dear" && i == 0:
			for i+1 < len(list) && list[i].low != "," {
				i++
			}
			continue
		case t.low == "," && hasValue(now.list) && (next.participle() || next.low == "of" && word(list, i+2) == "which"):
			flush(nil) // it adds something
			continue
		case t.low == "," && joins[next.low] && hasValue(now.list), t.low == "," && now.goesOn(untilComma(list[i+1:])):
			rest := list[i+1:]
			if joins[next.low] {
				rest = list[i+2:]
				i++
			}
			flush(now.subjectFor(rest))
			continue
		case reasons[t.low] && i > 0 && hasValue(now.list) && t.low != "while":
			flush(nil)
			continue
		case joins[t.low] && hasValue(now.list) && (hasValue(untilComma(list[i+1:])) || verbs[meaning(next.low)] && next.kind == isWord) && !inRange(list, i):
			flush(now.subjectFor(list[i+1:]))
			continue
		case t.low == "that" && i > 0 && len(now.list) <= 5 && slices.ContainsFunc(now.list, func(t token) bool { return reporting[t.low] }):
			now = clause{}
			continue
		}
		now.list = append(now.list, t)
	}
	flush(nil)
	return out
}

// hasVerb reports whether tokens up to the next mark are a sentence.
func hasVerb(list []token) bool {
	list = untilComma(list)
	return slices.ContainsFunc(list, func(t token) bool { return t.kind == isWord && aux[t.low] }) || slices.Contains(verbsIn(list), true)
}

func untilComma(list []token) []token {
	for i, t := range list {
		if t.low == "," || t.low == ";" || t.low == "(" {
			return list[:i]
		}
	}
	return list
}

// goesOn reports whether tokens behind a comma say another thing than the clause before: they have a value, which is no further one of a list,
// and no day on which all of it holds.
func (c clause) goesOn(next []token) bool {
	if !hasValue(c.list) {
		return false
	}
	of := slices.IndexFunc(next, func(t token) bool { return t.kind == isValue && t.v.kind != "weekday" && t.v.kind != "year" })
	if of < 0 {
		return false
	}
	only := !slices.ContainsFunc(next, func(t token) bool { return t.kind == isWord && !function[t.low] })
	return !only || !slices.ContainsFunc(c.list, func(t token) bool { return t.kind == isValue && t.v.kind == next[of].v.kind })
}

// inRange reports whether a conjunction stands between the values of a range or a list.
func inRange(list []token, i int) bool {
	return i > 0 && i+1 < len(list) && list[i-1].kind == isValue && list[i+1].kind == isValue && list[i-1].v.kind == list[i+1].v.kind
}

// subjectFor is the subject of a clause, if the next one has none of its own.
func (c clause) subjectFor(next []token) []token {
	for _, t := range next {
		if t.kind == isWord && (!function[t.low] || pronoun(t.low)) {
			if !verbs[meaning(t.low)] && !roles[meaning(t.low)] {
				return nil
			}
			break
		}
		if t.kind == isValue {
			break
		}
	}
	var list []token
	for _, t := range c.list {
		if t.kind == isValue || t.kind == isWord && verbs[meaning(t.low)] {
			break
		}
		list = append(list, t)
		if t.kind == isWord && aux[t.low] {
			break
		}
	}
	if len(list) == 0 {
		return c.subject
	}
	return list
}

var aux = set(`is are was were be has have had may can must will shall`)

func pronoun(w string) bool {
	return slices.Contains([]string{"it", "they", "we", "you", "he", "she", "i", "this", "these"}, w)
}

// last is the last noun and what stands directly before it.
func last(list []token) (out []token) {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].kind != isWord || function[list[i].low] {
			break
		}
		out = append([]token{list[i]}, out...)
	}
	return out
}

var isDated = pattern.New(`\b(?:19|20)\d\d-\d\d(?:-\d\d)?\b`)

// aboutOf reads what a statement stands under.
func aboutOf(s Statement) about {
	a := about{words: map[string]bool{}}
	name := strings.TrimSuffix(path.Base(s.Path), path.Ext(s.Path))
	a.event = isDated.MatchString(name)
	under := slices.Clone(s.Under)
	if len(under) == 0 {
		under = []string{name}
	}
	a.series = path.Dir(s.Path) + " " + s.Kind
	a.thing = s.Kind != "" && !genres[meaning(s.Kind)] && !texts[s.Kind]
	for _, e := range []string{s.Kind, s.Status} {
		if happened[meaning(e)] || scoped[meaning(e)] {
			a.event = true
		}
	}
	for _, text := range under {
		if strings.HasPrefix(text, "|") { // the head of a table belongs to its rows
			for _, t := range tokens(text) {
				if t.kind == isWord {
					a.words[meaning(t.low)] = true
				}
			}
			continue
		}
		a.event = a.event || isDated.MatchString(text)
		dated := isDated.MatchString(name) || slices.ContainsFunc(tokens(text), func(t token) bool {
			return t.kind == isValue && t.v.kind == "date" || t.kind == isNum && len(t.text) == 4
		})
		leads := strings.HasSuffix(text, ":") // to a list
		list := combine(tokens(text))
		title := !leads && !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "…")
		for k, t := range list {
			switch {
			case t.kind == isValue && t.v.kind == "weekday" && (title || leads):
				a.days |= weekdays(t.v.lo)
			case t.kind == isValue && t.v.kind == "year" && (title || leads):
				a.years = append(a.years, t.text)
			case t.kind == isValue && t.v.kind == "date" && title:
				a.event = true
			case t.kind == isNum && title:
				a.topic = append(a.topic, "#"+t.low)
			case t.kind == isWord && !function[t.low]:
				m := meaning(t.low)
				a.words[m] = true
				if title && (happened[m] && dated || told[t.low]) {
					a.event = true
				}
				if scoped[m] && (k == 0 || list[k-1].low != "new") && (title || leads) && !slices.Contains(a.scopes, m) {
					a.scopes = append(a.scopes, m)
				}
				if title && !slices.Contains(a.topic, m) {
					a.topic = append(a.topic, m)
				}
			}
			if t.kind == isValue && t.v.kind != "weekday" && title {
				for _, w := range tokens(t.text) {
					if w.kind == isWord && !function[w.low] {
						a.words[meaning(w.low)] = true
					}
				}
			}
		}
	}
	return a
}

// founds reports whether a fact is about the year in which something began.
func (f Fact) founds() bool {
	return slices.ContainsFunc(append(slices.Clone(f.words), f.does...), func(w string) bool { return w == "found" || w == "build" || w == "bear" || w == "born" })
}

// moodOf is how tokens say what they say.
func moodOf(list []token) mood {
	past := false
	for i, t := range list {
		if t.kind != isWord {
			continue
		}
		prev := word(list, i-1)
		switch {
		case wishes[t.low] || soon[t.low] && t.low != "will":
			return wanted
		case pasts[t.low] && !(aux[prev] || prev == "been") && !(i+1 < len(list) && t.low == "left" && i > 0 && prev == "the"):
			past = true
		case strings.HasSuffix(t.low, "ed") && len(t.low) > 4 && !aux[prev] && prev != "been" && prev != "" && !function[prev] && i+1 < len(list) && (list[i+1].kind != isWord || function[list[i+1].low]):
			past = true
		}
	}
	if past {
		return wasSo
	}
	return isSo
}

// boundOf says how exactly a value is meant.
func boundOf(list []token, i int) byte {
	var before []string
	for k := i - 1; k >= 0 && k >= i-4 && list[k].kind == isWord; k-- {
		before = append([]string{list[k].low}, before...)
	}
	text := " " + strings.Join(before, " ") + " "
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, " "+w+" ") })
	}
	mark := ""
	if i > 0 {
		mark = list[i-1].low
	}
	after := word(list, i+1)
	switch {
	case has("about", "around", "roughly", "approximately", "nearly", "almost", "some", "ca", "circa", "approx", "estimated") || mark == "~" || mark == "≈":
		return '~'
	case has("at least", "no less than", "minimum", "min", "more than", "over", "above", "from", "not below") && !has("no more than", "not more than", "not over", "not above") || after == "minimum":
		if has("from") && !strings.HasPrefix(list[i].v.kind, "money") {
			return 0
		}
		return '>'
	case has("at most", "up to", "no more than", "not more than", "maximum", "max", "less than", "under", "below", "within", "limit", "not over", "not above") || after == "maximum" || after == "max":
		return '<'
	}
	return 0
}

// rateOf is per what a value is: a month, each person.
func rateOf(list []token, i int) string {
	w := word(list, i+1)
	if differences[w] {
		return " " + w
	}
	if list[i].v.kind != "money" && !strings.HasPrefix(list[i].v.kind, "money") && w != "per" && !(w == "a" || w == "an") {
		return ""
	}
	if w == "" && i+1 < len(list) && list[i+1].low == "/" {
		w = "/"
	}
	if !slices.Contains([]string{"a", "an", "per", "each", "every", "/"}, w) {
		return ""
	}
	if n := word(list, i+2); n != "" && !function[n] && (w == "per" || w == "/" || perhaps[n]) {
		return " per " + meaning(n)
	}
	return ""
}

// differences are words behind a value that is only a difference: 2 euros more.
var differences = set(`more less extra cheaper dearer fewer longer shorter later earlier off discount higher lower older younger`)

// perhaps are words behind "a" that say per what a value is.
var perhaps = set(`second minute hour day night week month quarter year season term head person kilo kg litre metre piece time visit lesson session page child adult ticket seat`)

// isRate reports whether a word says per what the value before it is.
func isRate(list []token, i int) bool {
	return i >= 2 && list[i-2].kind == isValue && rateOf(list, i-2) != "" || i >= 1 && list[i-1].kind == isValue && list[i].low == "per"
}

// people makes values of the names of those who are responsible.
func (c *clause) people() {
	role := slices.ContainsFunc(append(slices.Clone(c.subject), c.list...), func(t token) bool { return t.kind == isWord && roles[meaning(t.low)] })
	var names []string
	var rest []token
	shown := ""
	for i := 0; i < len(c.list); i++ {
		n := 0
		for i+n < len(c.list) && c.list[i+n].named() {
			n++
		}
		if n > 0 && n <= 3 && (role && c.isPerson(i, n) || n == 2 && i+n == len(c.list) && i > 1 && (c.list[i-1].low == ":" || c.list[i-1].low == "is")) {
			var name []string
			for _, t := range c.list[i : i+n] {
				if !slices.Contains([]string{"dr", "mr", "mrs", "ms", "sister", "prof", "professor"}, t.low) {
					name = append(name, t.low)
				}
				shown = strings.TrimSpace(shown + " " + t.text)
			}
			if len(name) > 0 {
				names = append(names, strings.Join(name, " "))
			}
			i += n - 1
			continue
		}
		rest = append(rest, c.list[i])
	}
	if len(names) == 0 || hasValue(rest) {
		return
	}
	c.list = append(rest, token{text: shown, low: strings.ToLower(shown), kind: isValue, v: &value{kind: "person", text: names}})
}

// isPerson reports whether n words that begin with capitals name who has the role of the clause.
func (c *clause) isPerson(i, n int) bool {
	before, after := "", ""
	if i > 0 {
		before = c.list[i-1].low
	}
	if i+n < len(c.list) {
		after = c.list[i+n].low
	}
	if roles[meaning(before)] && i+n == len(c.list) && slices.ContainsFunc(c.list[:i], func(t token) bool { return t.low == ":" }) {
		return true
	}
	if slices.Contains([]string{":", "is", "are", "by", "and", ","}, before) || before == "," && i > 1 {
		return before != "and" && before != "," || i > 1 && c.list[i-2].named()
	}
	return i == 0 && (slices.Contains([]string{"is", "are", "looks", "owns", "has", "takes"}, after) || roles[meaning(after)] && !strings.HasSuffix(after, "s'"))
}

// places makes a value of where something is, if nothing else is said of it.
func (c *clause) places() {
	if hasValue(c.list) {
		return
	}
	for i := 2; i < len(c.list); i++ {
		t := c.list[i]
		if m := meaning(word(c.list, i-1)); t.kind == isNum && placed[m] && slices.Contains([]string{"in", "at", "on", "to", "is"}, word(c.list, i-2)) {
			v := exact(m+" #", t.text)
			v.word = m
			c.list[i] = token{text: c.list[i-1].text + " " + t.text, low: t.low, kind: isValue, v: v}
			return
		}
	}
}
