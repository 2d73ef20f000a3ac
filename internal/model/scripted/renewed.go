package scripted

import "slices"

// renewed returns the weight if something newer contradicts the page that holds, in words that
// the question does not find. If it concerns the same sentence, the page no longer holds;
// otherwise the answer adds which part is out of date.
func (s *script) renewed(rs []record, w weight) weight {
	if w.Best == nil || w.Stale != nil || w.Later != nil || w.Best.Verdict == inThis {
		return w
	}
	page := w.Best
	if old := ofSource("Notion", w.Overridden); page.Title == "" && len(old) > 0 {
		page = old[0]
	}
	c, ok := s.conflict(rs, page.record)
	if !ok || page != w.Best && (c.Best.Line == w.Best.Line || !c.Best.at.After(w.Best.at) || !s.differs(c.Best, w.Best, c.Subject)) {
		return w
	}
	fresh := s.look(c.Best.record, w.Subject)
	fresh.focus, fresh.Says, fresh.core = c.Best.focus, c.Best.Says, true
	w.insert(fresh)
	mine, theirs := stems(joined(w.Best.focus)), stems(joined(fresh.focus))
	both := slices.ContainsFunc(c.Subject.strong(), func(t *term) bool { return t.in(mine) >= byNear && t.in(theirs) >= byNear })
	wants := w.Subject.wants
	spared := wants != nil && wants.in(w.Best.Says) && !wants.in(fresh.Says)
	for _, x := range c.Overridden {
		if !spared && (both || page != w.Best) && x.Line == w.Best.Line && slices.ContainsFunc(x.focus, func(a sentence) bool {
			return slices.ContainsFunc(w.Best.focus, func(b sentence) bool { return a.text == b.text })
		}) {
			return w.replaced(fresh)
		}
	}
	if page != w.Best {
		return w
	}
	if spared && both {
		w.Best.Says = clause(w.Best.Says, wants)
	}
	fresh.Verdict = "overrides another part of the page"
	w.Stale = fresh
	w.Overridden = slices.DeleteFunc(w.Overridden, func(x *weighed) bool { return x.Line == fresh.Line })
	return w
}

// staying returns the sentence with which a record that overrides another part of the page
// confirms the part that holds, or "".
func (w weight) staying() string {
	if w.Stale == nil {
		return ""
	}
	for _, sen := range w.Stale.sentences {
		if same, _ := compare([]sentence{sen}, w.Best.focus); same && stays.MatchString(sen.text) {
			return sen.text
		}
	}
	return ""
}

// rejected returns the weight if something newer decides against what a message says, in other
// words than the question's: "not WhatsApp" has no word in common with text messages.
func (s *script) rejected(rs []record, w weight) weight {
	if w.Best == nil || w.Best.User == "" {
		return w
	}
	for _, r := range rs {
		if !r.at.After(w.Best.at) {
			break
		}
		if kindOf(r, r.sentences) == statement && r.rank() >= w.Best.rank() && slices.ContainsFunc(slices.Concat(w.Best.topics, w.Best.names), func(m mention) bool {
			return m.for_ && slices.Contains(rejects(r), m.name)
		}) {
			fresh := s.look(r, w.Subject)
			w.insert(fresh)
			return w.replaced(fresh)
		}
	}
	return w
}

// insert adds a record to the others, sorted by date.
func (w *weight) insert(x *weighed) {
	w.All = slices.DeleteFunc(w.All, func(o *weighed) bool { return o.Line == x.Line })
	w.Also = slices.DeleteFunc(w.Also, func(o *weighed) bool { return o.Line == x.Line })
	at, _ := slices.BinarySearchFunc(w.All, x, func(a, b *weighed) int { return b.at.Compare(a.at) })
	w.All = slices.Insert(w.All, at, x)
}

// replaced returns the weight after something newer has replaced what held.
func (w weight) replaced(fresh *weighed) weight {
	w.Best.Verdict, fresh.Verdict = "overridden", "holds"
	w.Overridden = append([]*weighed{w.Best}, w.Overridden...)
	w.Best = fresh
	return w
}
