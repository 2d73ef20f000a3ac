package scripted

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/pattern"
)

// judge sorts the records into the one that holds, those that agree with it and those
// that do not.
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
	for _, x := range said { // a newer record about something else does not stand before the one that was asked for
		if x.core && x.score > w.Best.score && x.covers >= w.Best.covers && !s.differs(w.Best, x, sub) && !s.agrees(w.Best, x, sub) && !alike(w.Best.focus, x.focus) && !stays.MatchString(w.Best.Text) {
			w.Best = x
		}
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
			x.contradicted(w.Best)
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
	s.kept(w)
	s.spare(w)
	s.inTime(w)
}

// contradicted makes the contradicted sentences what an overridden record says. The other
// sentences still hold.
func (x *weighed) contradicted(by *weighed) {
	against := rejects(by.record)
	kept := func(sen sentence) bool {
		_, other := compare(by.sentences, []sentence{sen})
		return !other && !slices.ContainsFunc(against, func(name string) bool { return holds(sen.stems, stems(name)) })
	}
	said := func(sen sentence) bool { // it has no two words of a sentence that overrides it
		return !slices.ContainsFunc(by.focus, func(o sentence) bool { return shared(o, sen) >= 2 })
	}
	if changed := slices.DeleteFunc(slices.Clone(x.focus), said); len(changed) > 0 && !slices.ContainsFunc(x.focus, func(sen sentence) bool { return !kept(sen) }) {
		x.focus, x.Says = changed, shorten(plain(joined(changed)), maxSentence)
		return
	}
	for _, among := range [][]sentence{x.focus, x.sentences} {
		if taken := slices.DeleteFunc(slices.Clone(among), kept); len(taken) > 0 {
			x.focus, x.Says = taken, shorten(plain(joined(taken)), maxSentence)
			return
		}
	}
}

// shared counts the words that two sentences share, without stop words.
func shared(a, b sentence) int {
	mine := telling([]sentence{a})
	return len(slices.DeleteFunc(telling([]sentence{b}), func(w string) bool { return !slices.Contains(mine, w) }))
}

// inThis is the verdict on the part of a page that a newer record leaves as it is.
const inThis = "holds in this"

// kept finds an older record whose part the newer one leaves as it is without repeating
// the figure that is asked for: "The fee for children stays." That part then holds.
func (s *script) kept(w *weight) {
	wants := w.Subject.wants
	if wants == nil || w.Best == nil {
		return
	}
	for _, sen := range w.Best.sentences {
		if wants.in(sen.text) || !stays.MatchString(sen.text) {
			continue
		}
		for _, t := range w.Subject.strong() {
			if t.in(sen.stems) < byNear || slices.ContainsFunc(w.Best.sentences, func(o sentence) bool { return wants.in(o.text) && t.in(o.stems) >= byNear }) {
				continue
			}
			for _, x := range slices.Concat(w.Overridden, w.Also, w.Agree) {
				for _, o := range x.sentences {
					for c := range strings.SplitSeq(strings.TrimRight(o.text, "."), ", ") {
						if !wants.in(c) || t.in(stems(c)) < byNear {
							continue
						}
						gone := func(o *weighed) bool { return o == x }
						w.Overridden, w.Also, w.Agree = slices.DeleteFunc(w.Overridden, gone), slices.DeleteFunc(w.Also, gone), slices.DeleteFunc(w.Agree, gone)
						w.Best.Verdict, x.Verdict = "leaves it as it is", inThis
						w.Best.focus, w.Best.Says = []sentence{sen}, plain(sen.text)
						x.focus, x.Says = []sentence{o}, upper(c)+"."
						w.Agree = append(w.Agree, w.Best)
						w.Best = x
						return
					}
				}
			}
		}
	}
}

// related reports whether two texts share a word that is no figure.
func related(a, b []sentence) bool {
	mine := telling(a)
	return slices.ContainsFunc(telling(b), func(w string) bool {
		return !strings.ContainsAny(w[:1], "0123456789") && !aMoney.MatchString(w) && !aWeekday.MatchString(w+"day") && slices.Contains(mine, w)
	})
}

var aMoney = pattern.New(`^(?:euro|eur|dollar|usd|pound|cent)$`)

// open matches a text about something that has no new date yet.
var open = pattern.New(`(?i)\b(?:postpon\w*|delay\w*|cancel\w*|until further notice|on hold|tbd)\b`)

// spare finds an overridden record of which the newer one changes only another part than
// the question asks about. The part asked about then holds.
func (s *script) spare(w *weight) {
	for _, x := range w.Overridden {
		part, sub := x.untouched(w), w.Subject
		says := ""
		if part == nil && sub.wants != nil && !sub.wants.in(w.Best.Says) && !open.MatchString(w.Best.Text) {
			if i := slices.IndexFunc(x.focus, func(sen sentence) bool { return sub.wants.in(sen.text) }); i >= 0 {
				part = x.focus[i : i+1]
				says = clause(x.focus[i].text, sub.wants)
			}
		}
		if part == nil || sub.wants != nil && says == "" && !sub.wants.in(joined(part)) && sub.wants.in(w.Best.Says) {
			continue
		}
		whole, only := &weighed{record: w.Best.record, focus: w.Best.sentences}, &weighed{record: x.record, focus: part}
		if _, other := compare(w.Best.sentences, part); other && says == "" && ofOneThing(whole, only) {
			continue // the newer record contradicts this part
		}
		against := rejects(w.Best.record)
		if slices.ContainsFunc(part, func(sen sentence) bool {
			return slices.ContainsFunc(against, func(name string) bool { return holds(sen.stems, stems(name)) })
		}) {
			continue // it names what was decided against
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

// begins matches the month from which a record's content applies.
var begins = pattern.New(`(?i)\b(?:from|as of|starting(?: in)?) (` + months + `)\b`)

// inTime makes the older record hold if the question is about a month before the newer
// one takes effect.
func (s *script) inTime(w *weight) {
	asked := within.FindStringSubmatch(w.Subject.question)
	if w.Best == nil || len(w.Overridden) == 0 || asked == nil || asked[2] != "" || !w.Best.Dated() {
		return
	}
	from := begins.FindStringSubmatch(w.Best.Says)
	if from == nil || ahead(w.Best.at, asked[1]) >= ahead(w.Best.at, from[1]) {
		return
	}
	w.Best.Verdict, w.Overridden[0].Verdict = "from "+from[1]+" on", "holds until then"
	w.Later, w.Best = w.Best, w.Overridden[0]
	w.Overridden = w.Overridden[1:]
}

// ahead returns how many months after a day a month comes next, 0 for the day's own
// month.
func ahead(day time.Time, month string) int {
	m, _ := time.Parse("January", upper(strings.ToLower(month)))
	return (int(m.Month()) - int(day.Month()) + 12) % 12
}

// untouched returns the sentences of an overridden record with a word of the question
// that Best lacks, and with none that Best has.
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

// overrules reports whether the newer record may override the older one. Leaders may.
// Others may if they report a decision.
func overrules(newer, older *weighed) bool {
	if older.User == "" || newer.rank() >= older.rank() {
		return true
	}
	return newer.User == "" || decided.MatchString(newer.Text)
}

// differs reports whether the newer record contradicts the older one about the question:
// it makes another choice, rejects the older choice, gives another figure, or says that
// things have changed.
func (s *script) differs(newer, older *weighed, sub subject) bool {
	n, o := s.choice(newer.record, sub), s.choice(older.record, sub)
	if o != "" && slices.Contains(rejects(newer.record), o) || s.widens(newer, older) {
		return true
	}
	if n != "" && o != "" {
		return n != o
	}
	same, other := compare(newer.focus, older.focus)
	switch {
	case other:
		return ofOneThing(newer, older)
	case same || !newer.Dated():
		return false
	}
	text := joined(newer.focus)
	return changes.MatchString(text) && !stays.MatchString(text) && shares(newer, older, sub) && sameMatter(newer, older, sub)
}

// ofOneThing reports whether two records give different figures of one thing, in sentences
// with a word in common or about a page's title. The costs of a repair and the least that
// somebody may order are both in euros, and neither corrects the other.
func ofOneThing(newer, older *weighed) bool {
	for _, n := range newer.focus {
		for _, o := range older.focus {
			if _, other := compare([]sentence{n}, []sentence{o}); other && (older.covered(n, o) || related([]sentence{n}, []sentence{o})) {
				return true
			}
		}
	}
	return false
}

// covered reports whether a sentence has a word of a page's title that covers another sentence of
// the page. A word that some sentences of the page repeat is about these alone.
func (x *weighed) covered(by, of sentence) bool {
	return slices.ContainsFunc(x.title, func(w string) bool {
		repeated := slices.ContainsFunc(x.sentences, func(o sentence) bool { return slices.Contains(o.stems, w) })
		return slices.Contains(by.stems, w) && !keyword.IsStop(w) && (!repeated || slices.Contains(of.stems, w))
	})
}

// sameMatter reports whether two records that share a word of a question speak of one
// thing: a call by video and an engineer on call have a word in common, and are two.
func sameMatter(newer, older *weighed, sub subject) bool {
	if sub.wants != nil && sub.wants.name != aPlace && sub.wants.in(joined(newer.focus)) && !sub.wants.in(older.Text) {
		return false // of what was asked for it says nothing
	}
	if newer.covers >= 2 && older.covers >= 2 {
		return true
	}
	mine, both := telling(newer.sentences), 0
	for _, w := range slices.Concat(telling(older.focus), older.title) {
		if slices.Contains(mine, w) && !keyword.IsStop(w) {
			both++
		}
	}
	return both >= min(2, len(sub.strong()))
}

// shares reports whether two records are about the same word of the question. A page
// that was found by its title is about all of it.
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

// agrees reports whether two records share the choice, a figure, or most words.
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
