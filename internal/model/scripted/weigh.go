package scripted

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// weighed is a record with its value for a question.
type weighed struct {
	record
	Says    string // its sentences that are about the question
	Verdict string // "holds", "agrees", "overridden" and so on, in a few words
	Kind    string // what it is if it is not a statement, such as "a wish"
	By      string // if it is only quoted: whose record overrides that

	focus  []sentence
	score  int
	terms  []int // how well it matches each term of the subject
	covers int   // how many of the terms that count it has
	pairs  int   // how many word pairs of the question it has
	core   bool  // it has as much to do with the question as any other record
}

func (x *weighed) statement() bool { return x.Kind == statement && x.rank() > 1 }

// Record returns the record without its weight.
func (x *weighed) Record() record { return x.record }

// weight is the value of a search's records for a question.
type weight struct {
	Best       *weighed   // what holds; nil when nothing was decided
	Agree      []*weighed // they say the same as Best
	Overridden []*weighed // they contradict Best and no longer hold; newest first
	Also       []*weighed // they say something else that does not contradict Best
	Wishes     []*weighed // wishes, questions, jokes, and remarks by people who do not decide
	All        []*weighed // all records: newest first, undated ones last
	Missing    []string   // words of the question that none of these records has
	Absent     []string   // words of the question that nothing found has; only these may be reported
	Alone      bool       // no other record found has a word of the question
	Subject    subject
	Kind       string   // what was asked for: "conflicts", "voice", "author", "inventory", "decisions", or "" for a subject
	Aside      bool     // the records are about the question's wider subject, not about the question
	Wider      bool     // they have none of the question's own words
	Against    []string // with Aside: what the question names and Best rejects
	Conflicts  []weight // one for each page
	Page       record   // the page of a conflict
	Stays      string   // what Best says of the part that stays as it was
	Later      *weighed // with a question about a month: the record that holds from a later month on
	Stale      *weighed // the record that overrides another part of the page that holds
	Name       string   // the name of a voice
	Span       string   // the past time that is asked about: "yesterday (2026-11-22)"
	Then       *weighed // the newest record of that time, if what holds is not of it
	Lapsed     bool     // the question asks what came to be with its subject then, and nothing did
	Before     bool     // with the kind "quiet": All is the newest from before that time
	After      bool     // with the kind "quiet": All is the oldest from after it
}

// records returns all records, without their weight.
func (w weight) records() []record {
	out := make([]record, len(w.All))
	for i, x := range w.All {
		out[i] = x.record
	}
	return out
}

// Found reports whether any record is about the question.
func (w weight) Found() bool { return len(w.All) > 0 }

// Figured reports whether Best has the figure that is asked for, or no figure is asked
// for.
func (w weight) Figured() bool {
	return w.Best == nil || w.Subject.wants == nil || w.Subject.wants.name == aPlace || w.Subject.wants.in(w.Best.Says)
}

// leansBack matches a sentence that depends on the one before it.
var leansBack = pattern.New(`(?i)\b(?:earlier|later|before that|after that|then|it)\b`)

// staleFor returns the record that overrides another part of the page that holds, if that concerns the
// question: it leaves as it is what was asked for, has a word of the question, or the question asks
// whether the page is up to date.
func (s *script) staleFor(w weight) *weighed {
	current, _ := s.asks("current", w.Subject.question)
	if w.Stale == nil || !current && w.Stays == "" && !leansBack.MatchString(w.Best.Says) && !slices.ContainsFunc(w.Subject.terms, func(t *term) bool { return w.Stale.has(t, byNear) }) {
		return nil
	}
	return w.Stale
}

// Several reports whether the records are decisions about different things.
func (w weight) Several() bool { return w.Best != nil && w.Best.Verdict == "decided" }

// weigh decides which of the records found holds for a question. With sorted, the caller
// has already removed the irrelevant ones. If no record answers the question, weigh
// falls back to its wider subject.
func (s *script) weigh(rs []record, sub subject, sorted bool) weight {
	w := s.direct(rs, sub, sorted)
	if !w.Found() && len(sub.Carried) > 0 && s.faint(sub.Own) { // "so what do I tell customers?"
		sub.Own, sub.Carried = sub.Carried, nil
		sub.terms = s.terms(sub.Own, false)
		w = s.direct(rs, sub, sorted)
	}
	if w.Found() {
		w = s.rejected(rs, s.renewed(rs, w))
		w.Stays = w.staying()
		w.Aside = w.Aside || s.noWay(w) || s.noDoer(w)
		return w
	}
	if by := s.spokenBy(rs, sub); by.Found() {
		return by
	}
	return s.aside(rs, sub, w)
}

// noDoer reports whether the question asks who does something that no record names in full: who
// gives lessons is not who teaches maths.
func (s *script) noDoer(w weight) bool {
	doer, _ := s.asks("doer", w.Subject.question)
	teller, _ := s.asks("teller", w.Subject.question)
	owner, _ := s.asks("owner", w.Subject.question)
	return doer && !teller && !owner && w.Best != nil && slices.ContainsFunc(w.Missing, func(word string) bool {
		return !holds(stems(w.Subject.question), append([]string{"who"}, stems(word)...)) // the verb itself may have other words
	})
}

// faint reports whether all words say little by themselves.
func (s *script) faint(words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(s.Weak, w) })
}

// manner matches what somebody wants to do, in a question for how to do it.
var manner = pattern.New(`(?i)\bhow (?:(?:do|does|can|could|should|would|may|must) (?:i|we|you|one)|to) (\w+)`)

// noWay reports whether the question asks how to do something that the record that holds does not
// name, in any form: how to reach somebody is not how to see somebody.
func (s *script) noWay(w weight) bool {
	m := manner.FindStringSubmatch(w.Subject.question)
	if m == nil || w.Best == nil || s.idle(strings.ToLower(m[1])) || s.chosen[s.groupOf(w.Subject)] {
		return false
	}
	way := s.terms([]string{strings.ToLower(m[1])}, false)[0]
	return !slices.ContainsFunc(append(slices.Clone(w.Overridden), w.Best), func(x *weighed) bool { return x.has(way, byNear) })
}

// by reports whether a term names the record's author or channel.
func (x *weighed) by(t *term) bool {
	return x.User != "" && holds(slices.Concat(stems(x.User), stems(x.Channel)), t.exact)
}

// spokenBy returns the weight of a record whose author the question names by name,
// office or channel, and of the records it overrides. The text itself need not name its
// author.
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

// direct is weigh without the wider subject.
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
	if widest*2 < len(sub.strong()) || len(w.All) == 0 { // the records only share a word with the question
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

// lacks collects the words of the question that none of the records has.
func (w *weight) lacks() {
	for i, t := range w.Subject.terms {
		if !t.weak && !t.carried && !slices.ContainsFunc(w.All, func(x *weighed) bool { return x.terms[i] > byKin || x.by(t) }) {
			w.Missing = append(w.Missing, t.words)
			if t.name && w.Best != nil { // a wish for something else shares a word with the question
				w.All = slices.DeleteFunc(w.All, func(x *weighed) bool { return x.Kind != statement && x.covers <= w.Best.covers })
				w.Wishes = slices.DeleteFunc(w.Wishes, func(x *weighed) bool { return x.covers <= w.Best.covers })
			}
		}
	}
}

// unheard returns the words of a question that no record found has, in any form or
// synonym. Both tools were searched for them.
func (s *script) unheard(rs []record, sub subject) []string {
	var out []string
	asked := stems(sub.question)
	for _, t := range sub.terms {
		if t.weak || s.idle(t.words) || len(sub.Carried) > 0 && s.faint([]string{t.words}) || t.carried && !holds(asked, t.exact) || slices.ContainsFunc(rs, func(r record) bool {
			return r.has(t, map[bool]int{true: byNear, false: byKin}[t.name]) // French is not German
		}) {
			continue
		}
		out = append(out, t.words)
	}
	return out
}

// Beyond returns the words that the question adds to what was said before and that it does not
// have: "is that true for invoices, too?"
func (w weight) Beyond() []string {
	if ofThat.MatchString(w.Subject.question) && w.Best != nil {
		var out []string
		for i, t := range w.Subject.terms {
			if t.carried && w.Best.terms[i] < byNear {
				out = append(out, t.words)
			}
		}
		return out
	}
	return slices.DeleteFunc(slices.Clone(w.Absent), func(word string) bool { return !slices.Contains(w.Subject.Carried, word) })
}

// has reports whether a record's text, author or channel matches a term at least at this
// level.
func (r record) has(t *term, level int) bool {
	return t.in(r.all()) >= level || holds(slices.Concat(stems(r.User), stems(r.Channel)), t.exact)
}

// alone reports whether the record that holds is the only one found with a word of the
// question.
func (w weight) alone(rs []record) bool {
	return w.Best != nil && w.Later == nil && w.Stale == nil && !w.Aside && !slices.ContainsFunc(rs, func(r record) bool {
		return r.Line != w.Best.Line && slices.ContainsFunc(w.Subject.terms, func(t *term) bool { return !t.weak && !t.carried && r.has(t, byNear) })
	})
}

// aside returns the weight for the wider subject of a question that the records do not
// answer: the kind of decision that the question, or the one before it, is about.
func (s *script) aside(rs []record, sub subject, none weight) weight {
	var kinds, others []string // words for what can be decided, and other words
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
	slices.SortStableFunc(others, func(a, b string) int { return count(a) - count(b) }) // the rarest word tells the most
	candidates := slices.Concat(kinds, others)
	for i, w := range slices.Concat(candidates, candidates) {
		word := w
		if of := s.Groups[s.Groups[s.group([]string{w})].Of].Words; len(of) > 0 {
			word = of[0]
		}
		wider := subject{Own: []string{word}, question: word, terms: s.terms([]string{word}, false), wants: sub.wants}
		// In the second round, wishes are enough.
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

// look weighs one record for a subject.
func (s *script) look(r record, sub subject) *weighed {
	x := &weighed{record: r, terms: make([]int, len(sub.terms))}
	scores := make([]int, len(r.sentences))
	best, top := 0, 0
	for i, sen := range r.sentences {
		before := []string(nil) // the subject of a sentence such as "It is checked every six months"
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
	if best == 0 && sub.wants != nil { // the record was found by its title
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
		if mine || i > 0 && scores[i-1]*3 > best*2 && rest.MatchString(sen.text) || x.figureAt(i, sub.wants) || x.leadsToRest(i) || i > 0 && limits(sub.question, sen) && slices.ContainsFunc(x.focus, func(f sentence) bool { return f.text == r.sentences[i-1].text }) {
			says = append(says, sen.text)
		}
	}
	x.Says = shorten(plain(strings.Join(says, " ")), maxSentence)
	return x
}

// leadsToRest reports whether the sentence after this one is about the question and speaks of the
// rest: "We added UPS for parcels over 10 kg. DHL stays for the rest."
func (x *weighed) leadsToRest(i int) bool {
	return i+1 < len(x.sentences) && rest.MatchString(x.sentences[i+1].text) && slices.ContainsFunc(x.focus, func(f sentence) bool { return f.text == x.sentences[i+1].text })
}

// anaphor matches a sentence whose subject is in the sentence before it.
var anaphor = pattern.New(`^(?:It|They|This|These|Its|Their)\b`)

// remains returns the sentences of an older record that the record that holds does not
// contradict.
func remains(older *weighed) []string {
	var out []string
	for _, sen := range older.sentences {
		if !slices.ContainsFunc(older.focus, func(f sentence) bool { return f.text == sen.text }) {
			out = append(out, sen.text)
		}
	}
	return out
}

// extras returns the clauses behind the first one of the contradicted sentences that have a figure
// of which nothing newer has another: "by SMS, 48 hours before the visit" keeps its 48 hours when
// SMS is replaced.
func extras(w weight, older *weighed) []string {
	var out []string
	newer := func(text *pattern.Regexp) bool {
		return slices.ContainsFunc(w.All, func(x *weighed) bool {
			return x.Line != older.Line && x.Kind == statement && x.at.After(older.at) && text.MatchString(x.Text)
		})
	}
	for _, sen := range older.focus {
		clauses := strings.Split(strings.TrimRight(sen.text, ".!"), ", ")
		for _, c := range clauses[1:] {
			if aTime.MatchString(c) && !newer(aTime) || aPrice.MatchString(c) && !newer(aPrice) {
				out = append(out, c)
			}
		}
	}
	return out
}

// The figures that a clause may have of its own.
var (
	aTime  = pattern.New(`(?i)\b` + span + `\b`)
	aPrice = pattern.New(`(?i)` + money)
)

func ofSource(source string, xs []*weighed) []*weighed {
	return slices.DeleteFunc(slices.Clone(xs), func(x *weighed) bool { return x.Source != source })
}

// cited returns the record that the answer quotes: the one that holds, or that of the reason which
// the question asks for.
func (s *script) cited(w weight) *weighed {
	why, _ := s.asks("why", w.Subject.question)
	who, _ := s.asks("who", w.Subject.question)
	if of := s.match(w, false); why && !who && !w.Aside && reason(of) != "" {
		return of
	}
	return w.Best
}

// others returns all records but the one that is quoted. Wishes and the like are no source of a decision;
// they are included only on request.
func others(w weight, cited *weighed, wishes bool) []*weighed {
	return slices.DeleteFunc(slices.Clone(w.All), func(x *weighed) bool { return x == cited || x.Kind != statement && !wishes })
}
