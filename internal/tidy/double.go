package tidy

import (
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/parley-server/parley"
)

type fault = parley.EntityFault

func mapKeys(m map[string]int) iter.Seq[string] { return maps.Keys(m) }

const (
	// doubled is which part of the words of the smaller page the other one has, if they say the
	// same; alike is enough if the names are alike, too.
	doubled = 0.8
	alike   = 0.55
	// fewWords are too few to say what a page is about.
	fewWords = 6
)

// duplicates finds pages that say what others say: pages of one kind whose words are those of the
// other, and whose names are alike or whose words are almost all the same. Pages about different
// days, or with different numbers, are different.
func (f *finder) duplicates() (list []Finding) {
	f.specific()
	byWord := map[string][]*page{}
	for _, p := range f.pages {
		for w := range p.own {
			byWord[w] = append(byWord[w], p)
		}
	}
	for i, p := range f.pages {
		if p.top() {
			continue
		}
		shared := map[*page]int{}
		for w := range p.own {
			if len(byWord[w])*3 > len(f.pages) && len(f.pages) > 30 {
				continue // says nothing of what a page is about
			}
			for _, o := range byWord[w] {
				shared[o]++
			}
		}
		for _, o := range f.pages[i+1:] {
			if shared[o] == 0 && squeezed(p.Title) != squeezed(o.Title) || o.top() || !f.same(p, o) {
				continue
			}
			worse, better := f.order(p, o)
			list = append(list, f.double(worse, better))
		}
	}
	return list
}

// specific finds which words of each page are its own, and not those of all pages of its kind,
// such as those of a template.
func (f *finder) specific() {
	count, pages := map[string]map[string]int{}, map[string]int{}
	for _, p := range f.pages {
		pages[p.Kind]++
		if count[p.Kind] == nil {
			count[p.Kind] = map[string]int{}
		}
		for w := range p.words {
			count[p.Kind][w]++
		}
	}
	for _, p := range f.pages {
		p.own = map[string]bool{}
		for w := range p.words {
			if pages[p.Kind] < 8 || count[p.Kind][w]*10 < pages[p.Kind]*4 {
				p.own[w] = true
			}
		}
	}
}

// same reports whether two pages say the same.
func (f *finder) same(p, o *page) bool {
	if p.Kind != o.Kind || p.over() != o.over() && p.Kind != "decision" || day(p) != day(o) || len(p.own) < fewWords || len(o.own) < fewWords {
		return false
	}
	small, large := p, o
	if len(o.own) < len(p.own) {
		small, large = o, p
	}
	in := share(small.own, large.own)
	if n := share(small.numbers, large.numbers); len(small.numbers) > 0 && (n < 0.5 || n < 1 && share(large.numbers, small.numbers) < 1) {
		return false // each has numbers of its own, as two things of a series have
	}
	return in >= doubled && (len(small.own) >= 10 || named(p, o)) || in >= alike && named(p, o)
}

// share is which part of a is in b.
func share(a, b map[string]bool) float64 {
	if len(a) == 0 {
		return 0
	}
	n := 0
	for w := range a {
		if b[w] {
			n++
		}
	}
	return float64(n) / float64(len(a))
}

// day is that in a page's name.
func day(p *page) string { return dayIn.FindString(path.Base(p.Path)) }

// named reports whether two pages have almost the same name or title, or the same number.
func named(p, o *page) bool {
	a, b := squeezed(p.Title), squeezed(o.Title)
	if a == b || len(min(a, b)) >= 5 && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) {
		return true
	}
	n, m := number(p), number(o)
	return n != "" && n == m
}

// number is what a page's name begins with, as in 0023-tablets.md.
func number(p *page) string {
	name := path.Base(p.Path)
	i := strings.IndexByte(name, '-')
	if i < 3 || digitsOf(name[:i]) != name[:i] || day(p) != "" {
		return ""
	}
	return name[:i]
}

// order says which of two pages goes: the one that fewer pages link to, or the later one, or the
// shorter one.
func (f *finder) order(p, o *page) (worse, better *page) {
	switch a, b := len(f.back[p.Path]), len(f.back[o.Path]); {
	case p.Created != o.Created && p.Created > o.Created:
		return p, o
	case p.Created != o.Created:
		return o, p
	case a != b && a < b:
		return p, o
	case a != b:
		return o, p
	case len(p.Body) < len(o.Body):
		return p, o
	}
	return o, p
}

// double is the finding that a page says what a better one says. Its change leads the links to the
// better one and deletes the page.
func (f *finder) double(p, o *page) Finding {
	x := Finding{Kind: Duplicate, Path: p.Path, Line: 1, Other: o.Path, Why: "it says what " + o.Path + " says"}
	edits := []Edit{{Path: p.Path, Base: p.Version, Do: DoDelete}}
	for _, from := range f.back[p.Path] {
		b := f.byPath[from]
		lines := strings.Split(b.Body, "\n")
		done := map[int]string{}
		for _, l := range b.Links {
			if l.Path != p.Path || l.Line < 1 || l.Line > len(lines) {
				continue
			}
			old := strings.TrimRight(lines[l.Line-1], "\r")
			now, ok := done[l.Line]
			if !ok {
				now = old
			}
			done[l.Line] = retarget(now, from, l, o)
		}
		for _, n := range slices.Sorted(maps.Keys(done)) {
			now := done[n]
			if old := strings.TrimRight(lines[n-1], "\r"); old != now {
				edits = append(edits, Edit{Path: from, Base: b.Version, Do: DoReplace, Old: old, New: now})
			}
		}
	}
	x.mend("deletes it, and leads the links to "+o.Path, edits...)
	return x
}
