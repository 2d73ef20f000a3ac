package tidy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/claim"
	"github.com/parley-server/parley/internal/pattern"
)

// said is a fact that a page gives.
type said struct {
	p     *page
	s     claim.Statement
	fact  claim.Fact
	facts []claim.Fact    // all of the statement
	words map[string]bool // of the statement
	title map[string]bool // of the page's title
	about map[string]bool // all of them, and what it stands under
}

func meanings(texts ...string) map[string]bool {
	m := map[string]bool{}
	for _, t := range texts {
		for _, w := range claim.Meanings(t) {
			m[w] = true
		}
	}
	return m
}

// standard are the fields of front matter that are about the page.
var standard = []string{"title", "kind", "tags", "owner", "status", "created", "updated", "aliases", "review", "id", "date", "author", "lang"}

// says are the facts of a page.
func says(p *page) (list []said) {
	body := afterFront(p.Body)
	page := claim.Page{Path: p.Path, Title: p.Title, Kind: p.Kind, Status: p.Status, Body: body, Line: 1 + strings.Count(p.Body[:len(p.Body)-len(body)], "\n"), Fields: map[string]string{}}
	for name, v := range p.Front {
		switch v.(type) {
		case string, int, int64, float64:
			if !slices.Contains(standard, name) {
				page.Fields[name] = fmt.Sprint(v)
			}
		}
	}
	title := meanings(p.Title)
	for _, s := range claim.Statements(page) {
		if strings.HasPrefix(s.Text, strings.TrimPrefix(toSettle, "> ")) {
			continue
		}
		facts := claim.Read(s)
		if len(facts) == 0 {
			continue
		}
		words := meanings(s.Text)
		about := meanings(append([]string{s.Text, p.Title}, s.Under...)...)
		for _, f := range facts {
			list = append(list, said{p: p, s: s, fact: f, facts: facts, words: words, title: title, about: about})
		}
	}
	return list
}

// maxPosting is the most statements with a word that are compared for it. More have one that says nothing of what they are about.
const maxPosting = 200

// contradictions finds pairs of statements that are about the same and have other values: first those that contradict each other by the
// rules of package claim, then the likeliest. Pages that are over are not asked.
func (f *finder) contradictions() []Finding {
	var all []said
	seen := map[string]int{}                // in how many pages a word is
	kinds := map[string]map[string]int{}    // and in how many of a kind
	sizes := map[string]int{}               // pages of a kind
	byWord := map[string]map[string][]int{} // facts by key and word
	for _, p := range f.pages {
		if p.over() || p.Path == "INDEX.md" {
			continue
		}
		own := map[string]bool{}
		for _, s := range says(p) {
			key := s.fact.Key()
			if byWord[key] == nil {
				byWord[key] = map[string][]int{}
			}
			for w := range s.about {
				byWord[key][w] = append(byWord[key][w], len(all))
				own[w] = true
			}
			all = append(all, s)
		}
		if kinds[p.Kind] == nil {
			kinds[p.Kind] = map[string]int{}
		}
		sizes[p.Kind]++
		for w := range own {
			seen[w]++
			kinds[p.Kind][w]++
		}
	}
	weight := func(w string) float64 { return math.Log(float64(len(f.pages)+1) / float64(seen[w]+1)) }
	// A word of a template says nothing.
	template := func(kind, w string) bool { return sizes[kind] >= 8 && kinds[kind][w]*10 >= sizes[kind]*4 }
	type scored struct {
		Finding
		score float64
	}
	var found []scored
	done := map[[2]int]bool{}
	pair := func(i, j int) {
		a, b := all[i], all[j]
		if a.p == b.p || !a.fact.Differs(b.fact) || done[[2]int{i, j}] {
			return
		}
		done[[2]int{i, j}] = true
		score := opposed(a, b, weight, template)
		if _, _, yes := f.world.Opposed(a.facts, b.facts); yes {
			score += certain
		}
		if score < likely {
			return
		}
		worse, better := a, b
		if later(b.p, a.p) {
			worse, better = b, a
		}
		x := Finding{
			Kind: Contradiction, Path: worse.p.Path, Line: worse.s.Line, Other: better.p.Path, Says: worse.s.Text, OtherSays: better.s.Text,
			Why: "it may contradict " + better.p.Path, stands: worse.s, otherStands: better.s,
		}
		if !strings.Contains(worse.p.Body, note(x)) { // its owner knows
			found = append(found, scored{x, score})
		}
	}
	for _, words := range byWord {
		for _, list := range words {
			if len(list) > maxPosting {
				continue
			}
			for n, i := range list {
				for _, j := range list[n+1:] {
					pair(min(i, j), max(i, j))
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.Path, b.Path), strings.Compare(a.Other, b.Other), strings.Compare(a.Says, b.Says), strings.Compare(a.OtherSays, b.OtherSays))
	})
	found = slices.CompactFunc(found, func(a, b scored) bool {
		return a.Path == b.Path && a.Other == b.Other && a.Says == b.Says && a.OtherSays == b.OtherSays
	})
	// A statement is judged against the likest one. After all these come those that are second: the first may be of another year, or only
	// proposed.
	out, judged, taken := []Finding{}, map[string]int{}, make([]bool, len(found))
	for most := 1; most <= partners; most++ {
		for i, x := range found {
			a, b := x.Path+"\x00"+x.Says, x.Other+"\x00"+x.OtherSays
			if taken[i] || x.score < certain && (judged[a] >= most || judged[b] >= most) {
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
func opposed(a, b said, weight func(string) float64, template func(kind, w string) bool) float64 {
	ra, rb := rates.FindString(strings.ToLower(a.s.Text)), rates.FindString(strings.ToLower(b.s.Text))
	if a.fact.Kind == "date" && !strings.Contains(strings.ToLower(a.s.Text+b.s.Text), "until") {
		return 0 // of the days on which something was, there are many
	}
	unit := strings.TrimPrefix(a.fact.Kind, "count ")
	own, all, most := 0.0, 0.0, 0.0
	n, titled := 0, false
	for w := range a.about {
		if !b.about[w] || a.p.Kind == b.p.Kind && template(a.p.Kind, w) && !a.title[w] && !b.title[w] {
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
	for _, c := range []said{a, b} {
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
	if ya, yb := years.FindString(dayIn.ReplaceAllString(a.s.Text+" "+a.p.Title, "")), years.FindString(dayIn.ReplaceAllString(b.s.Text+" "+b.p.Title, "")); ya != "" && yb != "" && ya != yb {
		return 0 // they are about other years
	}
	return score
}

var (
	years = pattern.New(`\b20\d\d\b`)
	rates = pattern.New(`(?i)\b(?:a|an|each|every|per) (second|minute|hour|day|week|month|quarter|year)\b`)
)

// partners is how many statements one is judged against.
const partners = 2

const (
	// likely is the least score of a pair that is judged.
	likely = 0.9
	// certain is added for a pair that contradicts each other by the rules.
	certain = 100
)

// later reports whether a was looked at before b, so that what b says is the likelier.
func later(a, b *page) bool {
	return cmp.Or(strings.Compare(a.Updated, b.Updated), strings.Compare(a.Created, b.Created), strings.Compare(a.Path, b.Path)) < 0
}
