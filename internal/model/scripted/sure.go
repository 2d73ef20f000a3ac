package scripted

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// The kinds of weight of which nothing is claimed: the records are quoted, and that is all.
const (
	kindNearest = "nearest" // they share words with the question
	kindNewest  = "newest"  // they do not, and are what is new in the sources
)

// answer weighs the records for a question. If no rule is sure of what they say, it falls back
// to the records that are nearest to the question.
func (s *script) answer(v view, rs []record, sub subject) weight {
	if s.surveys(v) {
		w := s.sift(v, rs, sub, false)
		if w.Kind == "conflicts" && len(w.Conflicts) != 1 && s.topicless(v) {
			return s.fallback(rs, sub, s.nearest(rs, sub))
		}
		return w
	}
	sub = s.heard(rs, sub)
	hits := s.nearest(rs, sub)
	w := s.sift(v, rs, sub, false)
	if w.Kind == "" && !s.sure(v, w, hits) {
		return s.fallback(rs, sub, hits)
	}
	w.Absent, w.Alone = s.unheard(rs, sub), w.alone(rs) && !rivalled(w, hits)
	return w
}

// fallback returns the nearest records, or the newest if none is near and the question names
// nothing that could be missed.
func (s *script) fallback(rs []record, sub subject, hits []hit) weight {
	w := weight{Subject: sub, Kind: kindNearest}
	for _, word := range s.unheard(rs, sub) {
		if !slices.Contains(sub.Ignored, word) {
			w.Absent = append(w.Absent, word)
		}
	}
	near := worthQuoting(hits)
	if len(w.Absent) > 0 && !slices.ContainsFunc(near, func(h hit) bool {
		return slices.ContainsFunc(sub.strong(), func(t *term) bool { return h.has(t, byKin) && !slices.Contains(s.Weak, t.words) })
	}) {
		near = nil // what the question names is nowhere, and its other words say little
	}
	for _, h := range near {
		w.All = append(w.All, h.weighed)
		h.By = s.overriddenBy(rs, h.weighed, sub)
	}
	for i, x := range w.All { // what is overridden does not come before what overrides it
		if j := slices.IndexFunc(w.All, func(o *weighed) bool { return o.whose() == x.By }); j > i {
			copy(w.All[i:], w.All[i+1:j+1])
			w.All[j] = x
			break
		}
	}
	if len(w.All) == 0 && sub.Figure() != "" { // few records have a time of day, if that is what is asked for
		w.All = s.figured(rs, sub)
	}
	if len(w.All) == 0 && len(w.Absent) == 0 && !within.MatchString(sub.question) {
		w.Kind = kindNewest
		for _, r := range rs[:min(len(rs), maxQuoted)] {
			w.All = append(w.All, s.look(r, sub))
		}
	}
	return w
}

// overriddenBy returns whose record overrides what is quoted of another one, or "".
func (s *script) overriddenBy(rs []record, x *weighed, sub subject) string {
	c, ok := s.conflict(rs, x.record)
	if !ok {
		return ""
	}
	for _, o := range c.Overridden {
		if o.Line == x.Line && slices.ContainsFunc(o.focus, func(sen sentence) bool { return strings.Contains(s.excerpt(x, sub), sen.text) }) {
			return c.Best.whose()
		}
	}
	return ""
}

// figured returns the records with the kind of figure that is asked for, if they are few.
func (s *script) figured(rs []record, sub subject) []*weighed {
	var out []*weighed
	for _, r := range rs {
		if sub.wants.in(r.Text) {
			out = append(out, s.look(r, sub))
		}
	}
	if len(out) > maxQuoted || len(out)*2 > len(rs) {
		return nil
	}
	return out
}

// sure reports whether what holds by the rules is an answer: it is among the nearest records, it
// has what the question is about, and nothing near it speaks against it unseen.
func (s *script) sure(v view, w weight, hits []hit) bool {
	if group := s.groupOf(w.Subject); w.Aside { // of another thing of the kind, or of the wider kind
		return s.chosen[group] || s.Groups[group].Of != ""
	} else if !w.Found() {
		return false
	}
	mine := 0.0
	strong := false
	accounted := func(h hit) bool {
		return slices.ContainsFunc(w.All, func(x *weighed) bool { return x.Line == h.Line })
	}
	for _, h := range hits {
		if accounted(h) {
			mine, strong = max(mine, h.near), strong || h.strong
		}
	}
	if !strong || mine <= hits[0].near && !accounted(hits[0]) {
		return false
	}
	if w.Best == nil {
		return true
	}
	if s.missesThing(w) || s.echoed(w, hits) {
		return false
	}
	unclear := func(h hit) bool { return h.strong && h.near >= mine*asNear && s.unsettled(w, h) }
	named := w.Subject.strong()
	lacks := func(t *term) bool { return !w.Best.has(t, byNear) }
	if len(named) > 0 && len(w.Subject.Carried) > 0 && !slices.ContainsFunc(named, func(t *term) bool { return w.Best.has(t, byKin) }) {
		return false // what is new in the question is not in it
	}
	if len(w.Subject.Ignored) > 0 && (slices.ContainsFunc(named, lacks) || len(named) < 2 && slices.ContainsFunc(hits, unclear)) {
		return false // too little of the question is understood
	}
	if len(named) > 0 && !slices.ContainsFunc(named, func(t *term) bool { return w.Best.has(t, byNear) }) &&
		slices.ContainsFunc(named, func(t *term) bool { return slices.Contains(w.Missing, t.words) && !t.name }) && !s.chosen[s.groupOf(w.Subject)] {
		return false
	}
	yesno, _ := s.asks("yesno", v.Question)
	crux := s.crux(w, hits)
	return crux == nil || !yesno || !slices.Contains([]string{"yes", "no"}, s.stance(w)) || !slices.ContainsFunc(hits, func(h hit) bool {
		return h.has(crux, byWord) && h.at.After(w.Best.at) && kindOf(h.record, h.sentences) == statement && s.unsettled(w, h)
	})
}

// missesThing reports whether the question names a thing that no source has, and what holds has
// none of its other words as they are. Of a choice, a thing of its kind that no source has is not
// missed: it was not chosen.
func (s *script) missesThing(w weight) bool {
	missed, exact := false, false
	for _, t := range w.Subject.strong() {
		exact = exact || w.Best.has(t, byWord)
		missed = missed || slices.Contains(w.Missing, t.words) && !t.name && s.group([]string{t.words}) == "" && !slices.Contains(s.Weak, t.words)
	}
	yesno, _ := s.asks("yesno", w.Subject.question)
	chosen := s.chosen[s.groupOf(w.Subject)] && s.choice(w.Best.record, w.Subject) != ""
	return missed && (!exact && !chosen || !yesno)
}

// echoed reports whether something newer that was not compared with what holds takes up one of its
// words that nothing else has: "the Ion died" concerns the page with "the desk is an Ion".
func (s *script) echoed(w weight, hits []hit) bool {
	return slices.ContainsFunc(hits, func(h hit) bool {
		wants := w.Subject.wants
		return h.echo == w.Best.Line && s.unsettled(w, h) && (w.Stale == nil || w.Stale.Line != h.Line) && (wants == nil || wants.in(h.Text))
	})
}

// crux returns the word of the question that the fewest records have, of those that what holds
// has; nil if it has none.
func (s *script) crux(w weight, hits []hit) *term {
	var out *term
	few := 0
	for _, t := range w.Subject.strong() {
		if !w.Best.has(t, byWord) {
			continue
		}
		n := 0
		for _, h := range hits {
			if h.has(t, byWord) {
				n++
			}
		}
		if out == nil || n < few {
			out, few = t, n
		}
	}
	return out
}

// unsettled reports whether the rules have not compared a record with what holds.
func (s *script) unsettled(w weight, h hit) bool {
	for _, xs := range [][]*weighed{{w.Best, w.Later}, w.Agree, w.Overridden, w.Wishes} {
		if slices.ContainsFunc(xs, func(x *weighed) bool { return x != nil && x.Line == h.Line }) {
			return false
		}
	}
	return true
}

// rivalled reports whether another record is nearly as near as the one that holds.
func rivalled(w weight, hits []hit) bool {
	return w.Best != nil && slices.ContainsFunc(hits, func(h hit) bool { return h.strong && h.Line != w.Best.Line && h.near > hits[0].near*asNear })
}

// uncertain matches the line by which the comparing agent hands over records that it claims nothing
// of.
var uncertain = pattern.New(`(?m)^Source of Truth: not certain\. The (nearest|newest) sources:`)

// overriddenLine begins the line that follows a quoted record which something newer overrides.
const overriddenLine = "Overridden by: "

// quoted returns the weight of records that were handed over as the nearest or the newest, in
// their order, and whether they were.
func (s *script) quoted(h *handed, rs []record, sub subject) (weight, bool) {
	m := uncertain.FindStringSubmatch(h.Text)
	if m == nil {
		return weight{}, false
	}
	w := weight{Subject: sub, Kind: m[1]}
	slices.SortStableFunc(rs, func(a, b record) int { return strings.Index(h.Text, a.Line) - strings.Index(h.Text, b.Line) })
	for _, r := range rs {
		x := s.look(r, sub)
		if _, after, ok := strings.Cut(h.Text, r.Line+"\n"+overriddenLine); ok {
			x.By, _, _ = strings.Cut(after, "\n")
		}
		w.All = append(w.All, x)
	}
	return w.told(h), true
}
