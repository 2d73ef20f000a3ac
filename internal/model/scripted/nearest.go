package scripted

import (
	"cmp"
	"math"
	"slices"

	"github.com/parley-server/parley/internal/keyword"
)

// A question that the rules do not understand is answered by retrieval: the records are ranked by
// the words that they share with it, and the nearest are quoted. Nothing is claimed of them.
// A word counts more the fewer records have it. A word that no record has counts nothing,
// whatever it means.

// hit is a record with how near it is to a question.
type hit struct {
	*weighed
	near   float64
	strong bool   // it has a word of the question that says something, not only common ones
	echo   string // the line of the older record that it takes up; it has little of the question itself
}

// How much a word of a question counts.
const (
	own     = 1.0
	byName  = 2.0 // one of a kind, such as DHL
	weakly  = 0.5
	idly    = 0.3 // a word that seldom says what a question is about
	earlier = 0.5 // a word of the question before
)

// maxClues bounds the work for a pasted text. A question has a dozen words.
const maxClues = 64

// How well a record has a word of the question.
var levels = [...]float64{absent: 0, byKin: 0.2, byNear: 0.9, byWord: 1}

const byShape = 0.7 // it is misspelt

// clue is a word or phrase of a question with its weight.
type clue struct {
	*term
	counts float64
}

// clues returns what to rank records by: the subject's terms, and the question's other words.
func (s *script) clues(sub subject) []clue {
	var out []clue
	taken := map[string]bool{}
	about := s.about(sub.question)
	for _, t := range sub.terms[:min(len(sub.terms), maxClues)] {
		c := clue{t, own}
		switch {
		case t.carried || !holds(stems(sub.question), t.exact):
			c.counts = earlier
		case t.name:
			c.counts = byName
		case slices.Contains(s.Weak, t.words):
			c.counts = weakly
		case s.idle(t.words) && !(slices.Contains(s.Ask, t.words) && slices.Contains(about, t.words)):
			c.counts = idly
		}
		out = append(out, c)
		for _, w := range t.exact {
			taken[w] = true
		}
	}
	for _, w := range keyword.Of(sub.question) {
		if len(out) >= maxClues {
			break
		}
		if st := stem(w); !taken[st] {
			taken[st] = true
			out = append(out, clue{s.terms([]string{w}, false)[0], idly})
		}
	}
	return out
}

// nearest ranks the records for a question, the nearest first. Records without any of its words
// are left out. Of two that are about as near, the newer comes first: it may override the other.
func (s *script) nearest(rs []record, sub subject) []hit {
	vocabulary := map[string]bool{}
	all := make([][]string, len(rs))
	for i, r := range rs {
		all[i] = slices.Concat(r.all(), stems(r.User), stems(r.Channel))
		for _, w := range all[i] {
			vocabulary[w] = true
		}
	}
	hits := make([]hit, len(rs))
	for i, r := range rs {
		hits[i] = hit{weighed: s.look(r, sub)}
	}
	best := make([]map[int]float64, len(rs)) // by record and sentence
	for _, c := range s.clues(sub) {
		level := make([]float64, len(rs))
		have := 0
		like := alikeWords(c.exact, vocabulary)
		in := func(text []string) float64 {
			v := levels[c.in(text)]
			if v == levels[byKin] && c.name {
				v = byShape // it is in question with others of its kind
			}
			if v < byShape && slices.ContainsFunc(text, func(w string) bool { return like[w] }) {
				v = byShape
			}
			return v
		}
		for i := range rs {
			if level[i] = in(rs[i].all()); level[i] == 0 && c.counts > weakly {
				level[i] = in(all[i]) // its author or its channel
			}
			if level[i] >= byShape {
				have++
			}
		}
		rare := math.Log(1 + float64(len(rs))/float64(max(have, 1)))
		for i, r := range rs {
			if level[i] == 0 {
				continue
			}
			hits[i].near += c.counts * rare * level[i]
			hits[i].strong = hits[i].strong || level[i] >= byShape && c.counts >= weakly
			if best[i] == nil {
				best[i] = map[int]float64{}
			}
			byAuthor := in(r.all()) == 0
			for j, sen := range r.sentences {
				v := in(sen.stems)
				if byAuthor {
					v = level[i] // all of it is theirs
				}
				best[i][j] += c.counts * rare * v
			}
		}
	}
	for i, r := range rs {
		top, figured := 0.0, false
		for j, sen := range r.sentences {
			v := best[i][j]
			top, figured = max(top, v), figured || v > 0 && sub.wants != nil && sub.wants.in(sen.text)
		}
		hits[i].near += top / 2 // words of one sentence belong together
		if hits[i].Kind == joke {
			hits[i].near /= 2
		}
		if figured {
			hits[i].near *= 1.5 // it has the kind of figure that is asked for
		}
	}
	s.echo(hits, all)
	hits = slices.DeleteFunc(hits, func(h hit) bool { return h.near == 0 })
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.near, a.near) })
	if len(hits) > 0 {
		about := hits[0].near * asNear
		slices.SortStableFunc(hits, func(a, b hit) int {
			if a.near >= about && b.near >= about {
				return b.at.Compare(a.at)
			}
			return cmp.Compare(b.near, a.near)
		})
	}
	return hits
}

// faintStem reports whether a stem is of a word that says little by itself, such as product.
func (s *script) faintStem(w string) bool {
	return slices.ContainsFunc(s.Weak, func(weak string) bool { return stem(weak) == w })
}

// echo brings records near that are newer than the nearest one and have a word of it that no other
// record has. Words of the script's table are compared by the rules.
func (s *script) echo(hits []hit, words [][]string) {
	if len(hits) < 3 {
		return // every word is rare among two records
	}
	top := 0
	for i := range hits {
		if hits[i].near > hits[top].near {
			top = i
		}
	}
	in := map[string]int{}
	for _, text := range words {
		for _, w := range slices.Compact(slices.Sorted(slices.Values(text))) {
			in[w]++
		}
	}
	for i := range hits {
		h := &hits[i]
		if i == top || !h.at.After(hits[top].at) || h.near >= hits[top].near*asNear || kindOf(h.record, h.sentences) != statement {
			continue
		}
		for _, sen := range hits[top].focus {
			if slices.ContainsFunc(sen.stems, func(w string) bool {
				return in[w] == 2 && len(w) > 2 && s.meanings[w] == nil && !keyword.IsStop(w) && holds(h.all(), []string{w}) && !s.faintStem(w)
			}) {
				h.near, h.strong, h.echo = max(h.near, hits[top].near*asNear*0.9), true, hits[top].Line
			}
		}
	}
}

const (
	asNear    = 0.8  // of the nearest: about as near
	worth     = 0.45 // of the nearest: worth to be shown
	maxQuoted = 3
)

// worthQuoting returns the nearest records, if they are near enough to be shown.
func worthQuoting(hits []hit) []hit {
	if !slices.ContainsFunc(hits, func(h hit) bool { return h.strong }) {
		return nil
	}
	var out []hit
	for _, h := range hits {
		if h.near >= hits[0].near*worth && len(out) < maxQuoted {
			out = append(out, h)
		}
	}
	return out
}
