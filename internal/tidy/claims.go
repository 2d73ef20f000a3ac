package tidy

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/kljensen/snowball/english"

	"github.com/parley-server/parley/internal/pattern"
)

// claim is a statement with a value: a price, a time, a number of something.
type claim struct {
	p      *page
	text   string
	line   int
	unit   string // of what the value is
	values []string
	words  map[string]bool // of the statement
	title  map[string]bool
	about  map[string]bool // both
}

var (
	ends   = pattern.New(`[.!?;]["')]?(?:\s+|$)|\n+`)
	money  = pattern.New(`[€$£]\s?(\d[\d.,]*)`)
	clock  = pattern.New(`\b(\d{1,2}:\d\d)\b`)
	years  = pattern.New(`\b20\d\d\b`)
	counts = pattern.New(`\b(\d+(?:[.,]\d+)?) (?:([\pL]{2,}))`)
	levels = pattern.New(`\b([\pL]{4,}) (\d+(?:\.\d+)?)\b`)
	parity = pattern.New(`(?i)\b(odd|even)\b`)
	rates  = pattern.New(`(?i)\b(?:a|an|each|every|per) (second|minute|hour|day|week|month|quarter|year)\b`)
)

// names are words before a number that names something, and counts nothing.
var names = map[string]bool{"number": true, "code": true, "serial": true, "version": true, "page": true, "room": true, "chapter": true, "gauge": true, "decision": true, "ticket": true}

// claims are the statements of a page.
func claims(p *page) (list []claim) {
	// Front matter lines count, so that lines are those of the file.
	before := strings.Count(p.Body[:len(p.Body)-len(afterFront(p.Body))], "\n")
	at := 0
	title := stems(p.Title)
	for at < len(p.text) {
		next, end := len(p.text), len(p.text)
		if m := ends.FindStringIndex(p.text[at:]); m != nil {
			next, end = at+m[1], at+m[0]
		}
		text := strings.TrimSpace(p.text[at:end])
		line := before + strings.Count(p.text[:at], "\n") + 1
		at = next
		if len(text) < 12 || len(text) > 400 || strings.HasPrefix(text, "#") || strings.HasPrefix(text, toSettle) {
			continue
		}
		c := claim{p: p, text: text, line: line, words: map[string]bool{}, title: map[string]bool{}, about: map[string]bool{}}
		for _, w := range stems(text) {
			c.words[w], c.about[w] = true, true
		}
		for _, w := range title {
			c.title[w], c.about[w] = true, true
		}
		for _, v := range valuesOf(text) {
			one := c
			one.unit, one.values = v.unit, v.values
			list = append(list, one)
		}
	}
	return list
}

type valued struct {
	unit   string
	values []string
}

// valuesOf are the values in a statement, by what they are of.
func valuesOf(text string) (list []valued) {
	add := func(unit, value string) {
		value = strings.ReplaceAll(strings.TrimRight(value, ".,"), ",", "")
		for i := range list {
			if list[i].unit == unit {
				list[i].values = append(list[i].values, value)
				return
			}
		}
		list = append(list, valued{unit, []string{value}})
	}
	for _, m := range money.FindAllStringSubmatch(text, -1) {
		add("€", m[1])
	}
	for _, m := range clock.FindAllStringSubmatch(text, -1) {
		add("time", m[1])
	}
	for _, m := range dayIn.FindAllString(text, -1) {
		add("date", m)
	}
	for _, m := range parity.FindAllStringSubmatch(text, -1) {
		add("odd or even", strings.ToLower(m[1]))
	}
	rest := money.ReplaceAllString(clock.ReplaceAllString(dayIn.ReplaceAllString(text, " "), " "), " ")
	for _, m := range counts.FindAllStringSubmatch(rest, -1) {
		if unit := english.Stem(folded(m[2]), false); !common[folded(m[2])] {
			add(unit, m[1])
		}
	}
	for _, m := range levels.FindAllStringSubmatch(rest, -1) {
		if w := folded(m[1]); !common[w] && !names[w] && !years.MatchString(m[2]) {
			add(english.Stem(w, false)+" #", m[2])
		}
	}
	return list
}

// contradictions finds pairs of statements that are about the same and have other values, the
// likeliest first. Pages that are over are not asked.
func (f *finder) contradictions() []Finding {
	seen := map[string]int{} // in how many pages a word is
	for _, p := range f.pages {
		for w := range p.words {
			seen[w]++
		}
	}
	weight := func(w string) float64 {
		return math.Log(float64(len(f.pages)+1) / float64(seen[w]+1))
	}
	byUnit := map[string][]claim{}
	for _, p := range f.pages {
		if p.over() || p.Path == "INDEX.md" {
			continue
		}
		for _, c := range claims(p) {
			byUnit[c.unit] = append(byUnit[c.unit], c)
		}
	}
	type scored struct {
		Finding
		score float64
	}
	var all []scored
	for unit, list := range byUnit {
		for i, a := range list {
			for _, b := range list[i+1:] {
				if a.p == b.p || meets(a.values, b.values) {
					continue
				}
				if score := f.opposed(unit, a, b, weight); score > 0 {
					worse, better := a, b
					if later(b.p, a.p) {
						worse, better = b, a
					}
					x := Finding{
						Kind: Contradiction, Path: worse.p.Path, Line: worse.line, Other: better.p.Path, Says: worse.text, OtherSays: better.text,
						Why: "it may contradict " + better.p.Path,
					}
					if !strings.Contains(worse.p.Body, note(x)) { // its owner knows
						all = append(all, scored{x, score})
					}
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.Path, b.Path), strings.Compare(a.Other, b.Other), strings.Compare(a.Says, b.Says))
	})
	// A statement is judged against the likest one. After all these come those that are second: the first may be of another year, or only
	// proposed.
	out, judged, taken := []Finding{}, map[string]int{}, make([]bool, len(all))
	for most := 1; most <= partners; most++ {
		for i, x := range all {
			a, b := x.Path+"\x00"+x.Says, x.Other+"\x00"+x.OtherSays
			if taken[i] || judged[a] >= most || judged[b] >= most {
				continue
			}
			judged[a]++
			judged[b]++
			taken[i] = true
			out = append(out, x.Finding)
		}
	}
	return out
}

// opposed says how likely two statements with other values are about the same; 0: they are not.
func (f *finder) opposed(unit string, a, b claim, weight func(string) float64) float64 {
	ra, rb := rates.FindString(strings.ToLower(a.text)), rates.FindString(strings.ToLower(b.text))
	if unit == "date" && !strings.Contains(strings.ToLower(a.text+b.text), "until") {
		return 0 // of the days on which something was, there are many
	}
	own, all, most := 0.0, 0.0, 0.0
	n, titled := 0, false
	for w := range a.about {
		if !b.about[w] || a.p.Kind == b.p.Kind && !a.p.own[w] && !b.p.own[w] && !a.title[w] && !b.title[w] {
			continue // of a template, it says nothing
		}
		all += weight(w)
		switch {
		case a.words[w] && b.words[w]:
			own += weight(w)
			n++
			titled = titled || a.title[w] && w != unit || b.title[w] && w != unit
		default:
			titled = titled || w != unit
		}
	}
	if ra != "" && ra == rb {
		n++
	}
	if !titled && n < 3 || n == 0 {
		return 0 // the subjects of the pages are others
	}
	for _, c := range []claim{a, b} {
		sum := 0.0
		for w := range c.words {
			sum += weight(w)
		}
		if most == 0 || sum < most {
			most = sum
		}
	}
	if most == 0 {
		return 0
	}
	score := (own + all) / 2 / math.Sqrt(most+1)
	if ra != "" && ra == rb {
		score *= 1.3
	}
	if ya, yb := years.FindString(dayIn.ReplaceAllString(a.text+" "+a.p.Title, "")), years.FindString(dayIn.ReplaceAllString(b.text+" "+b.p.Title, "")); ya != "" && yb != "" && ya != yb {
		return 0 // they are about other years
	}
	if score < likely {
		return 0
	}
	return score
}

// partners is how many statements one is judged against.
const partners = 2

// likely is the least score of a pair that is judged.
const likely = 1.6

func meets(a, b []string) bool {
	return slices.ContainsFunc(a, func(v string) bool { return slices.Contains(b, v) })
}

// later reports whether a was looked at before b, so that what b says is the likelier.
func later(a, b *page) bool {
	return cmp.Or(strings.Compare(a.Updated, b.Updated), strings.Compare(a.Created, b.Created), strings.Compare(a.Path, b.Path)) < 0
}
