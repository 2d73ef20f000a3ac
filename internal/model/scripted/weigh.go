package scripted

import (
	"regexp"
	"slices"
	"strings"
)

// weighed is a record with what it is worth for a question.
type weighed struct {
	record
	Says    string // its sentences that are about the question
	Verdict string // holds, agrees, overridden ..., in a few words
	Kind    string // what it is when it is no statement: "a wish"

	focus  []sentence
	score  int
	terms  []int // how well it has each of the subject's
	covers int   // how many of those that count it has
	pairs  int   // how many neighbours in the question it has together
	core   bool  // has as much to do with the question as any
}

func (x *weighed) statement() bool { return x.Kind == statement && x.rank() > 1 }

// Record is the record alone.
func (x *weighed) Record() record { return x.record }

// weight is what the records of a search are worth for a question.
type weight struct {
	Best       *weighed   // what holds; nil when nothing was decided
	Agree      []*weighed // says the same
	Overridden []*weighed // says else and holds no more, the newest first
	Also       []*weighed // says something else that does not contradict it
	Wishes     []*weighed // wishes, questions, jokes, and the word of who does not decide
	All        []*weighed // all, the newest first, what is undated last
	Missing    []string   // words of the question that none of these records has
	Absent     []string   // and that nothing that was found has, which alone may be said
	Alone      bool       // nothing else that was found has a word of the question
	Subject    subject
	Kind       string   // what was asked for: "conflicts", "voice", "author", "inventory", "decisions"; "": a subject
	Aside      bool     // about the question's wider subject, not about what it asks
	Wider      bool     // and none of the question's own words is in it
	Against    []string // what the question names and what holds is against, where it is aside
	Conflicts  []weight // page by page
	Page       record   // of a conflict
	Stays      string   // what that says of the part that holds: that it stays
	Later      *weighed // what holds from a later month on than the one that is asked about
	Stale      *weighed // what overrides another part of the page that holds
	Name       string   // of a voice
}

// Found reports whether anything is about the question.
func (w weight) Found() bool { return len(w.All) > 0 }

// Figured reports whether what holds has the figure that is asked for, or none is.
func (w weight) Figured() bool {
	return w.Best == nil || w.Subject.wants == nil || w.Subject.wants.name == aPlace || w.Subject.wants.in(w.Best.Says)
}

// Several reports whether these are decisions about different things.
func (w weight) Several() bool { return w.Best != nil && w.Best.Verdict == "decided" }

// weigh says what holds, as to a question, of all that was found; with sorted,
// what has little to do with the question was already left out. Where nothing
// answers the question, it is what is known of its wider subject.
func (s *script) weigh(rs []record, sub subject, sorted bool) weight {
	w := s.direct(rs, sub, sorted)
	if !w.Found() {
		if right := s.respelled(sub, rs); right != nil {
			sub, w = *right, s.direct(rs, *right, sorted)
		}
	}
	if w.Found() {
		w = s.rejected(rs, s.renewed(rs, w))
		w.Stays = w.staying()
		return w
	}
	if by := s.spokenBy(rs, sub); by.Found() {
		return by
	}
	return s.aside(rs, sub, w)
}

// by reports whether a term names who wrote the record, or its channel.
func (x *weighed) by(t *term) bool {
	return x.User != "" && holds(slices.Concat(stems(x.User), stems(x.Channel)), t.exact)
}

// spokenBy is the weight of what somebody said whom a question names, by name,
// office or channel, and of what that overrides: no text need name its author.
func (s *script) spokenBy(rs []record, sub subject) weight {
	for _, r := range rs {
		by := slices.Concat(stems(r.User), stems(r.Channel))
		if r.User == "" || len(sub.strong()) == 0 || slices.ContainsFunc(sub.strong(), func(t *term) bool { return !holds(by, t.exact) }) {
			continue
		}
		own := s.about(r.Text)
		w := s.direct(rs, subject{Own: own, question: r.Text, terms: s.terms(own, false)}, false)
		if w.Best != nil && w.Best.Line == r.Line {
			w.Kind, w.Subject.question, w.Missing = "author", sub.question, nil
			return w
		}
		return s.said(strings.ToLower(r.User), rs, sub)
	}
	return weight{}
}

// direct is weigh of what answers the question alone.
func (s *script) direct(rs []record, sub subject, sorted bool) weight {
	w := weight{Subject: sub}
	var top *weighed
	widest := 0
	for _, r := range rs {
		x := s.look(r, sub)
		if x.covers == 0 && !sorted {
			continue
		}
		widest = max(widest, x.covers)
		if top == nil || x.statement() && !top.statement() || x.statement() == top.statement() && x.score > top.score {
			top = x
		}
		w.All = append(w.All, x)
	}
	if sorted {
		for _, x := range w.All {
			x.core = true
		}
		s.judge(&w)
		w.lacks()
		return w
	}
	if widest*2 < len(sub.strong()) || len(w.All) == 0 { // it is about something else that has a word in common
		w.All = nil
		return w
	}
	chosen := slices.ContainsFunc(w.All, func(x *weighed) bool { return x.statement() && s.chooses(x, sub) })
	w.All = slices.DeleteFunc(w.All, func(x *weighed) bool {
		return !s.relevant(x, top, sub) || chosen && x.statement() && !s.chooses(x, sub)
	})
	s.judge(&w)
	w.lacks()
	return w
}

// lacks notes which words of the question none of the records has.
func (w *weight) lacks() {
	for i, t := range w.Subject.terms {
		if !t.weak && !t.carried && !slices.ContainsFunc(w.All, func(x *weighed) bool { return x.terms[i] > byKin || x.by(t) }) {
			w.Missing = append(w.Missing, t.words)
			if t.name && w.Best != nil { // a wish for something else that shares a word
				w.All = slices.DeleteFunc(w.All, func(x *weighed) bool { return x.Kind != statement && x.covers <= w.Best.covers })
				w.Wishes = slices.DeleteFunc(w.Wishes, func(x *weighed) bool { return x.covers <= w.Best.covers })
			}
		}
	}
}

// unheard are the words of a question that nothing that was found has, in no form
// and in no other words for the same. Both tools were searched for them.
func (s *script) unheard(rs []record, sub subject) []string {
	var out []string
	asked := stems(sub.question)
	for _, t := range sub.terms {
		if t.weak || s.idle(t.words) || t.carried && !holds(asked, t.exact) || slices.ContainsFunc(rs, func(r record) bool {
			return r.has(t, map[bool]int{true: byNear, false: byKin}[t.name]) // French is no German
		}) {
			continue
		}
		out = append(out, t.words)
	}
	return out
}

// Beyond are those of them that the question asks of what was said before: "is that
// true for invoices, too?"
func (w weight) Beyond() []string {
	return slices.DeleteFunc(slices.Clone(w.Absent), func(word string) bool { return !slices.Contains(w.Subject.Carried, word) })
}

// has reports whether a record, who wrote it or its channel has a term so well.
func (r record) has(t *term, level int) bool {
	return t.in(r.all()) >= level || holds(slices.Concat(stems(r.User), stems(r.Channel)), t.exact)
}

// alone reports whether what holds is all that was found with a word of the question.
func (w weight) alone(rs []record) bool {
	return w.Best != nil && w.Later == nil && w.Stale == nil && !w.Aside && !slices.ContainsFunc(rs, func(r record) bool {
		return r.Line != w.Best.Line && slices.ContainsFunc(w.Subject.terms, func(t *term) bool { return !t.weak && !t.carried && r.has(t, byNear) })
	})
}

// aside is the weight of what the sources do say on the wider subject of a
// question that they do not answer: the kind of decision that it, or the one
// that it leans on, is about.
func (s *script) aside(rs []record, sub subject, none weight) weight {
	var kinds, others []string // what can be decided, and what else is known
	for _, w := range sub.Words() {
		switch g := s.group([]string{w}); {
		case s.chosen[g] || s.Groups[g].Of != "":
			kinds = append(kinds, w)
		case g != "" || len(w) > 3 && !slices.Contains(s.Weak, w):
			others = append(others, w)
		}
	}
	count := func(w string) int {
		t := s.terms([]string{w}, false)[0]
		return len(slices.DeleteFunc(slices.Clone(rs), func(r record) bool { return !r.has(t, byNear) }))
	}
	slices.SortStableFunc(others, func(a, b string) int { return count(a) - count(b) }) // what is rare tells most
	candidates := slices.Concat(kinds, others)
	for i, w := range slices.Concat(candidates, candidates) {
		word := w
		if of := s.Groups[s.Groups[s.group([]string{w})].Of].Words; len(of) > 0 {
			word = of[0]
		}
		wider := subject{Own: []string{word}, question: word, terms: s.terms([]string{word}, false), wants: sub.wants}
		// Then what was only wished for.
		if got := s.direct(rs, wider, false); got.Best != nil || i >= len(candidates) && got.Found() {
			got.Aside, got.Wider, got.Missing = true, word != w, slices.DeleteFunc(slices.Clone(sub.Own), func(o string) bool { return o == word })
			for _, m := range s.mentions(sub.question) {
				if got.Best != nil && slices.Contains(rejects(got.Best.record), m.name) {
					got.Against = add(got.Against, m.name)
				}
			}
			return got
		}
	}
	return none
}

// look reads a record as to a subject.
func (s *script) look(r record, sub subject) *weighed {
	x := &weighed{record: r, terms: make([]int, len(sub.terms))}
	scores := make([]int, len(r.sentences))
	best, top := 0, 0
	for i, sen := range r.sentences {
		before := []string(nil) // what "It is checked every six months" goes on with
		if i > 0 && anaphor.MatchString(sen.text) && slices.ContainsFunc(sub.terms, func(t *term) bool { return t.in(sen.stems) > absent }) {
			before = r.sentences[i-1].stems
		}
		for _, t := range sub.terms {
			scores[i] += t.weight(max(t.in(sen.stems), t.in(before)))
		}
		if scores[i] > 0 && sub.wants != nil && sub.wants.in(sen.text) {
			scores[i] += 5
		}
		best = max(best, scores[i])
	}
	all := r.all()
	for i, t := range sub.terms {
		x.terms[i] = t.in(all)
		x.score += t.weight(x.terms[i])
		if !t.weak && !t.carried && x.terms[i] > absent {
			x.covers++
		}
	}
	if best == 0 && sub.wants != nil { // found by its title
		for i, sen := range r.sentences {
			if sub.wants.in(sen.text) {
				scores[i], best = 5, 5
			}
		}
	}
	for i, sen := range r.sentences {
		if best == 0 || scores[i]*3 > best*2 {
			x.focus = append(x.focus, sen)
			if sub.wants != nil && sub.wants.in(sen.text) {
				top = 5
			}
		}
	}
	x.pairs = sub.together(r)
	x.score += top + 4*x.pairs
	x.Kind = kindOf(r, x.focus)
	var says []string
	for i, sen := range r.sentences {
		mine := slices.ContainsFunc(x.focus, func(f sentence) bool { return f.text == sen.text })
		if mine || i > 0 && scores[i-1]*3 > best*2 && rest.MatchString(sen.text) || x.figureAt(i, sub.wants) {
			says = append(says, sen.text)
		}
	}
	x.Says = shorten(plain(strings.Join(says, " ")), maxSentence)
	return x
}

// anaphor begins a sentence about what the one before it names.
var anaphor = regexp.MustCompile(`^(?:It|They|This|These|Its|Their)\b`)

// remains are the sentences of an older record that what holds does not contradict.
func remains(older *weighed) []string {
	var out []string
	for _, sen := range older.sentences {
		if !slices.ContainsFunc(older.focus, func(f sentence) bool { return f.text == sen.text }) {
			out = append(out, sen.text)
		}
	}
	return out
}

func ofSource(source string, xs []*weighed) []*weighed {
	return slices.DeleteFunc(slices.Clone(xs), func(x *weighed) bool { return x.Source != source })
}

// others are all but what holds; wishes and the like, which are no source of
// what was decided, only where they are asked for.
func others(w weight, wishes bool) []*weighed {
	return slices.DeleteFunc(slices.Clone(w.All), func(x *weighed) bool { return x == w.Best || x.Kind != statement && !wishes })
}
