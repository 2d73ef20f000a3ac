package claim

import (
	"math"
	"slices"
	"strings"
)

// clause is a part of a statement with one thing to say.
type clause struct {
	list     []token
	subject  []token // of the clause before, if it has none of its own
	question bool
	row      bool // of a table
	mood     mood // of what leads to it
}

// Read finds the facts in a statement.
func Read(s Statement) (list []Fact) {
	text := pointers.ReplaceAllString(s.Text, "")
	ab := aboutOf(s)
	how := isSo
	if task.MatchString(strings.TrimSpace(text)) {
		how = toDo
	}
	for _, c := range clausesOf(s, text) {
		list = append(list, c.facts(how, ab)...)
	}
	return list
}

// clausesOf takes a statement apart.
func clausesOf(s Statement, text string) []clause {
	if strings.HasPrefix(strings.TrimSpace(text), "|") {
		return rows(s, text)
	}
	return split(combine(tokens(text)))
}

// rows are the clauses of a row: each cell with a value, with the cells that have none and the head of its column.
func rows(s Statement, text string) (list []clause) {
	cells := cellsOf(text)
	var heads []string
	if n := len(s.Under); n > 0 && strings.HasPrefix(s.Under[n-1], "|") {
		heads = cellsOf(s.Under[n-1])
	}
	first := func(i int) string {
		if i < len(heads) {
			return heads[i]
		}
		return ""
	}
	var subject []token
	for i, cell := range cells {
		own := tokens(cell)
		if i == 0 || !hasValue(combine(own)) && len(own) > 0 && (len(own) > 1 || own[0].kind != isNum) && !namesOnly(first(i), cell) {
			subject = append(subject, tokens(cell+" ")...)
		}
	}
	kinds := map[string]int{} // of values in the row
	for _, cell := range cells[min(1, len(cells)):] {
		kinds[kindIn(tokens(cell))]++
	}
	for i, cell := range cells[min(1, len(cells)):] {
		head := first(i + 1)
		own := tokens(cell)
		if len(own) == 1 && own[0].kind == isNum { // a number of what the head says
			if h := tokens(head); len(h) > 0 && h[0].kind == isWord {
				last := h[0]
				if m := meaning(last.low); numbered[m] {
					own = []token{last, own[0]}
				} else {
					own = append(own, last)
				}
			}
		}
		if !hasValue(combine(own)) && !namesOnly(head, cell) {
			continue
		}
		if kinds[kindIn(own)] == 1 { // what the only column of its kind is called narrows nothing
			head = strings.Join(slices.DeleteFunc(strings.Fields(head), func(w string) bool {
				m := meaning(strings.Trim(w, ".,:"))
				return !verbs[m] && !attributes[m] && !roles[m] && !numbered[m]
			}), " ")
		}
		colon := token{text: ":", low: ":", kind: isMark}
		row := append(slices.Clone(subject), tokens(head)...)
		if len(row) > 0 {
			row = append(row, colon)
		}
		list = append(list, clause{list: combine(append(row, own...)), row: true})
	}
	return list
}

// kindIn is of what kind the value in a cell is.
func kindIn(cell []token) string {
	for _, t := range combine(cell) {
		if t.kind == isValue {
			return t.v.kind
		}
	}
	return ""
}

// namesOnly reports whether a cell is a person's name in a column for such.
func namesOnly(head, cell string) bool {
	list := tokens(cell)
	role := slices.ContainsFunc(tokens(head), func(t token) bool { return roles[meaning(t.low)] })
	return role && len(list) > 0 && len(list) <= 3 && !slices.ContainsFunc(list, func(t token) bool { return !t.named() })
}

func cellsOf(row string) (list []string) {
	row = strings.TrimSpace(row)
	row = strings.TrimSuffix(strings.TrimPrefix(row, "|"), "|")
	for c := range strings.SplitSeq(row, "|") {
		list = append(list, strings.TrimSpace(c))
	}
	return list
}

func hasValue(list []token) bool {
	return slices.ContainsFunc(list, func(t token) bool { return t.kind == isValue })
}

// combine makes values of numbers with what they are of, and ranges of values.
func combine(list []token) []token {
	for i := range list {
		if list[i].low == "last" && (determiners[word(list, i-1)] || i == 0) { // the last ferry; it is no verb
			list[i].low = "final"
		}
	}
	list = days(list)
	var out []token
	for i := 0; i < len(list); i++ {
		t := list[i]
		n, isNumber := math.NaN(), false
		switch {
		case t.kind == isNum:
			n, isNumber = number(t.text), true
		case t.kind == isWord && numbers[t.low] != 0:
			n, isNumber = numbers[t.low], true
			if i+1 < len(list) && list[i+1].low == "hundred" {
				n *= 100
				i++
			}
		}
		if !isNumber || math.IsNaN(n) {
			out = append(out, t)
			continue
		}
		v, used := counted(list, i, n, out)
		if v == nil {
			out = append(out, t)
			continue
		}
		shown := t.text
		for k := 1; k <= used; k++ {
			shown += " " + list[i+k].text
		}
		if v.word != "" && len(out) > 0 && meaning(out[len(out)-1].low) == v.word {
			shown = out[len(out)-1].text + " " + shown
		}
		out = append(out, token{text: shown, low: strings.ToLower(shown), kind: isValue, v: v})
		i += used
	}
	return often(ranges(out))
}

// counted is the value of a number, and how many tokens behind it belong to it. nil: it is none, or the name of a thing.
func counted(list []token, i int, n float64, before []token) (v *value, used int) {
	next, after := word(list, i+1), word(list, i+2)
	if i+2 < len(list) && list[i+1].low == "-" && units[after].kind != "" && len(after) > 2 { // a 50-minute crossing
		return inUnit(n, units[after]), 2
	}
	if list[i].kind == isNum && len(list[i].text) == 4 && n >= 1800 && n < 2100 && units[next].kind == "" && (next == "" || function[next]) {
		return quantity("year", n), 0
	}
	prev := ""
	if len(before) > 0 && before[len(before)-1].kind == isWord {
		prev = before[len(before)-1].low
	}
	switch m := meaning(prev); {
	case prev != "" && numbered[m] && (next == "" || function[next] || units[next].kind == ""):
		v = quantity(m+" #", n)
		v.word = m
		return v, 0
	case prev != "" && placed[m]:
		return nil, 0 // the name of a place: see places
	}
	if u, ok := units[next]; ok && next != "" && (list[i].kind != isWord || len(next) > 2) {
		v = inUnit(n, u)
		if u.kind == "temperature" && (after == "celsius" || after == "c") {
			return v, 2
		}
		return v, 1
	}
	if prev == "every" || prev == "each" || prev != "" && !function[prev] && !verbs[meaning(prev)] && verbs[meaning(next)] {
		return nil, 0 // every 4th; crane 2 lifts
	}
	switch {
	case list[i].low == "one", verbs[meaning(next)] && !strings.HasSuffix(next, "s") && !nouns[next]: // fifteen cost
		return nil, 0
	case next == "" || function[next]:
		if list[i].kind == isNum && len(before) > 0 && slices.Contains([]string{"is", ":", "="}, before[len(before)-1].low) { // the port is 8080
			for _, t := range before {
				if m := meaning(t.low); t.kind == isWord && numbered[m] {
					v = quantity(m+" #", n)
					v.word = m
					return v, 0
				}
			}
		}
		if m := meaning(prev); m == "hold" || prev == "seats" { // the hall seats 120
			return quantity("count capacity", n), 0
		}
		return nil, 0
	case people[meaning(next)] && slices.ContainsFunc(list, func(t token) bool { return meaning(t.low) == "hold" || t.low == "room" || t.low == "space" }), next == "seats", next == "places":
		return quantity("count capacity", n), 1
	}
	return quantity("count "+meaning(next), n), 1
}

// people are those that a place has room for.
var people = stemmed(`people person persons guest guests visitor visitors seats places passenger passengers spectator spectators`)

// paired are things that are odd or even.
var paired = set(`week day number side year month house page floor`)

// word is a token's text if it is a word.
func word(list []token, i int) string {
	if i < 0 || i >= len(list) || list[i].kind != isWord {
		return ""
	}
	return list[i].low
}

// days makes values of weekdays and ranges of them.
func days(list []token) (out []token) {
	of := func(i int) (weekdays, bool) {
		w := word(list, i)
		if w == "weekdays" || w == "weekday" || w == "workdays" {
			return workdays, true
		}
		if w == "weekends" || w == "weekend" {
			return weekend, true
		}
		d, ok := weekdayNames[w]
		if !ok {
			d, ok = weekdayNames[strings.TrimSuffix(w, "s")]
		}
		if ok && (w == "sun" || w == "mon" || w == "sat" || w == "wed") && !list[i].capital() {
			ok = false
		}
		return 1 << d, ok
	}
	for i := 0; i < len(list); i++ {
		d, ok := of(i)
		if next := word(list, i+1); !ok && (list[i].low == "odd" || list[i].low == "even") && paired[strings.TrimSuffix(next, "s")] {
			out = append(out, token{text: list[i].text + " " + list[i+1].text, low: list[i].low, kind: isValue, v: exact("parity "+meaning(next), list[i].low)})
			i++
			continue
		}
		if !ok {
			out = append(out, list[i])
			continue
		}
		text := list[i].text
		for i+2 < len(list) {
			e, more := of(i + 2)
			between := list[i+1].low
			if i+3 < len(list) && !more && (between == "," || between == "and") { // Monday, and Tuesday
				break
			}
			if !more || !slices.Contains([]string{"-", "to", "and", "or", ",", "till", "through", "/", "&"}, between) {
				break
			}
			if between == "-" || between == "to" || between == "till" || between == "through" {
				for day := d; day != e && day != 0 && d != workdays; {
					if day <<= 1; day > 1<<6 {
						day = 1
					}
					d |= day
				}
			}
			d |= e
			text += " " + between + " " + list[i+2].text
			i += 2
		}
		out = append(out, token{text: text, low: strings.ToLower(text), kind: isValue, v: &value{kind: "weekday", text: d.names(), lo: float64(d), hi: float64(d)}})
	}
	return out
}

// ranges joins two values of a kind that have a dash or "to" between them.
func ranges(list []token) (out []token) {
	for i := 0; i < len(list); i++ {
		t := list[i]
		if i+2 < len(list) && (list[i+1].low == "-" || list[i+1].low == "to" || list[i+1].low == "till" || list[i+1].low == "until" || list[i+1].low == "and" && word(out, len(out)-1) == "between") {
			if to := list[i+2]; to.kind == isValue && to.v.text == nil && to.v.kind != "year" {
				from := math.NaN()
				switch {
				case t.kind == isValue && t.v.kind == to.v.kind && t.v.text == nil:
					from = t.v.lo
				case t.kind == isNum || t.kind == isWord && numbers[t.low] != 0: // 2 to 8 °C
					from = number(t.text)
					if t.kind == isWord {
						from = numbers[t.low]
					}
					if to.v.kind == "time" {
						from *= 60
					} else if f := factor(to); f > 0 {
						from *= f
					}
				}
				if !math.IsNaN(from) {
					v := *to.v
					v.lo, v.hi = from, to.v.hi
					if t.v != nil {
						v.either = v.either || t.v.either
					}
					if v.kind == "time" {
						v.kind = "hours"
					}
					text := t.text + " " + list[i+1].text + " " + to.text
					out = append(out, token{text: text, low: strings.ToLower(text), kind: isValue, v: &v})
					i += 2
					continue
				}
			}
		}
		out = append(out, t)
	}
	return out
}

// factor is by how much the number of a value was multiplied for its unit.
func factor(t token) float64 {
	n := number(strings.TrimRightFunc(strings.Fields(t.text)[0], func(r rune) bool { return r != '.' && (r < '0' || r > '9') }))
	if math.IsNaN(n) || n == 0 {
		return 1
	}
	return t.v.lo / n
}

var adverbs = map[string]float64{"daily": 1, "nightly": 1, "weekly": 7, "fortnightly": 14, "monthly": month, "quarterly": 3 * month, "yearly": 12 * month, "annually": 12 * month, "hourly": 1.0 / 24}

// often makes values of how often something is done: every 4 hours, each week, monthly.
func often(list []token) (out []token) {
	for i := 0; i < len(list); i++ {
		t := list[i]
		next := word(list, i+1)
		switch u, ok := units[next]; {
		case (t.low == "every" || t.low == "each" || t.low == "once" && (next == "a" || next == "every" || next == "each")) && i+1 < len(list):
			j := i + 1
			if t.low == "once" {
				j++
				next = word(list, j)
				u, ok = units[next]
			}
			if j < len(list) && list[j].kind == isValue && list[j].v.kind == "duration" {
				v := *list[j].v
				v.kind = "every"
				text := t.text + " " + list[j].text
				out = append(out, token{text: text, low: strings.ToLower(text), kind: isValue, v: &v})
				i = j
				continue
			}
			if ok && u.kind == "duration" && len(next) > 2 && (i == 0 || list[i-1].kind != isValue) {
				v := inUnit(1, u)
				v.kind = "every"
				text := t.text + " " + list[j].text
				out = append(out, token{text: text, low: strings.ToLower(text), kind: isValue, v: v})
				i = j
				continue
			}
			if next == "quarter" {
				v := quantity("every", 3*month)
				v.loose = true
				out = append(out, token{text: t.text + " " + next, low: t.low + " " + next, kind: isValue, v: v})
				i = j
				continue
			}
			if j < len(list) && list[j].kind == isValue && list[j].v.kind == "weekday" {
				continue // every Tuesday is Tuesdays
			}
		case t.kind == isWord && adverbs[t.low] != 0 && (next == "" || function[next]) && len(out) > 0 && (out[len(out)-1].kind == isWord || out[len(out)-1].low == ":"):
			v := quantity("every", adverbs[t.low])
			v.loose = adverbs[t.low] >= month
			out = append(out, token{text: t.text, low: t.low, kind: isValue, v: v})
			continue
		}
		out = append(out, t)
	}
	return out
}
