package scripted

import (
	"cmp"
	"regexp"
	"slices"
)

// judge sorts the records into what holds, what agrees with it and what does not.
func (s *script) judge(w *weight) {
	sub := w.Subject
	var said []*weighed
	for _, x := range w.All {
		switch {
		case x.Kind != "":
			x.Verdict = x.Kind + ", no decision"
			w.Wishes = append(w.Wishes, x)
		case x.rank() == 1:
			x.Kind = "a remark"
			x.Verdict = "a remark, no decision"
			w.Wishes = append(w.Wishes, x)
		default:
			said = append(said, x)
		}
	}
	for i, x := range said {
		if !x.core && !slices.ContainsFunc(said, func(o *weighed) bool { return o.core && x.at.After(o.at) && s.differs(x, o, sub) }) {
			continue
		}
		if !slices.ContainsFunc(said[i+1:], func(o *weighed) bool { return s.differs(x, o, sub) && !overrules(x, o) }) {
			w.Best = x
			break
		}
		x.Verdict = "newer, but of less weight"
		w.Also = append(w.Also, x)
	}
	if w.Best == nil {
		return
	}
	w.Best.Verdict = "holds"
	if !w.Best.Dated() {
		w.Best.Verdict = "undated"
	}
	for _, x := range said {
		switch {
		case x == w.Best || x.Verdict != "":
		case s.differs(w.Best, x, sub):
			x.Verdict = "overridden"
			if !x.Dated() {
				x.Verdict = "undated, so overridden"
			}
			w.Overridden = append(w.Overridden, x)
		case s.agrees(w.Best, x, sub):
			x.Verdict = "agrees"
			w.Agree = append(w.Agree, x)
		case x.core:
			x.Verdict = "does not contradict it"
			w.Also = append(w.Also, x)
		}
	}
	w.All = slices.DeleteFunc(w.All, func(x *weighed) bool { return x.Verdict == "" })
	s.spare(w)
}

// open is said of what has no new date yet.
var open = regexp.MustCompile(`(?i)\b(?:postpon\w*|delay\w*|cancel\w*|until further notice|on hold|tbd)\b`)

// spare takes for what holds a part of a record that something newer overrides
// in another part alone, where that part is what the question asks about.
func (s *script) spare(w *weight) {
	for _, x := range w.Overridden {
		part := x.untouched(w)
		says := ""
		if sub := w.Subject; part == nil && sub.wants != nil && !sub.wants.in(w.Best.Says) && !open.MatchString(w.Best.Text) {
			if i := slices.IndexFunc(x.focus, func(sen sentence) bool { return sub.wants.in(sen.text) }); i >= 0 {
				part = x.focus[i : i+1]
				says = clause(x.focus[i].text, sub.wants)
			}
		}
		if part == nil {
			continue
		}
		for _, o := range w.Overridden {
			if o != x {
				w.Also = append(w.Also, o)
			}
		}
		x.focus, x.Says, x.Verdict = part, shorten(cmp.Or(says, plain(joined(part))), maxSentence), "holds"
		w.Best.Verdict, w.Stale = "overrides another part of the page", w.Best
		w.Best, w.Overridden = x, nil
		return
	}
}

// untouched are the sentences of an overridden record that have a word of the
// question that what holds lacks, and none that it has.
func (x *weighed) untouched(w *weight) []sentence {
	var out []sentence
	for i, t := range w.Subject.terms {
		if t.weak || t.carried || w.Best.terms[i] >= byNear || !affirmed(x, t) {
			continue
		}
		var mine []sentence
		touched := false
		for _, sen := range x.focus {
			if t.in(sen.stems) < byNear {
				continue
			}
			mine = append(mine, sen)
			for j, o := range w.Subject.terms {
				touched = touched || o != t && !o.weak && o.in(sen.stems) >= byNear && w.Best.terms[j] >= byNear
			}
		}
		if !touched {
			out = append(out, mine...)
		}
	}
	if len(w.Subject.strong()) < 2 || len(out) == 0 {
		return nil
	}
	return slices.CompactFunc(out, func(a, b sentence) bool { return a.text == b.text })
}

// overrules reports whether the newer record may take back what the older says:
// who leads may, who does the work when it says that it was decided.
func overrules(newer, older *weighed) bool {
	if older.User == "" || newer.rank() >= older.rank() {
		return true
	}
	return newer.User == "" || decided.MatchString(newer.Text)
}

// differs reports whether the newer record says something else than the older
// one about the question: another choice, a no to its choice, another figure, or
// in so many words that things have changed.
func (s *script) differs(newer, older *weighed, sub subject) bool {
	n, o := s.choice(newer.record, sub), s.choice(older.record, sub)
	if o != "" && slices.Contains(rejects(newer.record), o) {
		return true
	}
	if n != "" && o != "" {
		return n != o
	}
	same, other := compare(newer.focus, older.focus)
	switch {
	case other:
		return true
	case same || !newer.Dated():
		return false
	}
	text := joined(newer.focus)
	return changes.MatchString(text) && !stays.MatchString(text) && shares(newer, older, sub)
}

// shares reports whether what two records say of the question is about one of
// its words. A page that was found by its title is about all of it.
func shares(a, b *weighed, sub subject) bool {
	x, y := stems(joined(a.focus)), stems(joined(b.focus))
	named := false
	for _, t := range sub.strong() {
		inX, inY := t.in(x) > absent, t.in(y) > absent
		named = named || inY
		if inX && inY {
			return true
		}
	}
	return !named
}

// agrees reports whether both say the same: the choice, a figure, or the words.
func (s *script) agrees(newer, older *weighed, sub subject) bool {
	n, o := s.choice(newer.record, sub), s.choice(older.record, sub)
	if same, _ := compare(newer.focus, older.focus); same || n != "" && n == o {
		return true
	}
	mine := stems(joined(newer.focus))
	theirs, both := stems(joined(older.focus)), 0
	for _, w := range theirs {
		if slices.Contains(mine, w) {
			both++
		}
	}
	return both*3 >= len(theirs)*2
}
