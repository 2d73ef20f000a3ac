package scripted

import "slices"

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
	for _, t := range sub.terms {
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
