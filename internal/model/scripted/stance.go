package scripted

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// asks reports whether a question matches the script's pattern with this name, and not the one
// with "not " before it.
func (s *script) asks(name, question string) (bool, error) {
	re, ok := s.patterns[name]
	if !ok {
		return false, fmt.Errorf("asks: the script has no pattern %q", name)
	}
	if not, ok := s.patterns["not "+name]; ok && not.MatchString(question) {
		return false, nil
	}
	return re.MatchString(question), nil
}

// weighed returns the weight of the text that was handed over or, without a handoff, of
// the records quoted in an earlier answer.
func (s *script) weighed(v view) (weight, error) {
	if v.memo.done {
		return v.memo.weight, nil
	}
	text, asked := "", v
	if v.Handed != nil {
		text = v.Handed.Text
	} else if x, ok := s.settled(v); ok {
		text, asked.Question = recalled(x.Answer), x.Question
	}
	rs, err := s.records(text)
	if err != nil {
		return weight{}, err
	}
	v.memo.done = true
	v.memo.weight = s.sift(asked, rs, s.subject(v), v.Handed == nil)
	if v.Handed != nil && !v.memo.weight.Found() && len(rs) > 0 {
		// The agent that compared the records did not see the conversation. It found
		// that they answer the question as it stands.
		alone := view{Question: v.Question, Handed: v.Handed}
		if v.memo.weight = s.sift(alone, rs, s.subject(alone), false); !v.memo.weight.Found() {
			v.memo.weight = s.latest(rs, s.subject(alone))
		}
	}
	v.memo.weight = v.memo.weight.told(v.Handed)
	return v.memo.weight, nil
}

// memo caches what the rules of one reply ask for repeatedly.
type memo struct {
	weight weight
	done   bool
	more   []string // words to search with
	asked  bool
}

// compared returns the weight of what the previous agent found.
func (s *script) compared(v view) (weight, error) {
	rs, err := s.records(v.Handed.Results)
	if err != nil {
		return weight{}, err
	}
	sub := s.subject(v)
	w := s.sift(v, rs, sub, false)
	w.Absent, w.Alone = s.unheard(rs, sub), w.alone(rs)
	return w, nil
}

// Lines by which the comparing agent informs the answering agent, which sees less.
var (
	notMentioned = regexp.MustCompile(`(?m)^Not mentioned: (.+)$`)
	onlySource   = regexp.MustCompile(`(?m)^Only source: `)
)

// told adds to the weight what the agent that read every result says of it.
func (w weight) told(h *handed) weight {
	if h == nil {
		return w
	}
	w.Absent = nil
	for _, m := range notMentioned.FindAllStringSubmatch(h.Text, -1) {
		w.Absent = append(w.Absent, m[1])
	}
	w.Alone = onlySource.MatchString(h.Text)
	return w
}

// sift weighs records for what the question asks about: the sources themselves, or a
// subject.
func (s *script) sift(v view, rs []record, sub subject, sorted bool) weight {
	since := s.decidedSince(v, rs)
	switch name := voice(v.Question); {
	case since != nil:
		return s.latest(since, sub)
	case s.conflicting(v):
		return s.conflicts(rs, sub)
	case s.counting(v):
		return s.inventory(rs, sub)
	case name != "" || s.verbatim(v):
		return s.said(name, rs, sub)
	}
	return s.weigh(rs, sub, sorted)
}

// The two forms in which an answer shows a record: a quotation with its source below, or
// a row of a table.
var (
	quotedFrom = regexp.MustCompile(`^> — (\w+)(?:, (.*))?, ([^,]*)$`)
	inChannel  = regexp.MustCompile(`^(.*) in (\S+)$`)
	barInCell  = strings.NewReplacer(`\|`, "\x00")
)

// recalled returns the records that an answer shows, in the form in which the tools
// returned them.
func recalled(answer string) string {
	var out, quote []string
	line := func(source, by, date, text string) {
		head := source
		if m := inChannel.FindStringSubmatch(by); m != nil && source == "Slack" {
			head += " | " + m[2] + " | " + m[1]
		} else if by != "" {
			head += " | " + by
		}
		out = append(out, "["+head+" | "+date+"] "+text)
	}
	for l := range strings.SplitSeq(answer, "\n") {
		if m := quotedFrom.FindStringSubmatch(l); m != nil {
			line(m[1], m[2], m[3], strings.TrimSpace(strings.Join(quote, " ")))
			quote = nil
		} else if rest, ok := strings.CutPrefix(l, ">"); ok {
			quote = append(quote, strings.TrimSpace(rest))
		} else if cells := strings.Split(barInCell.Replace(l), "|"); len(cells) == 6 {
			for i := range cells {
				cells[i] = strings.ReplaceAll(strings.TrimSpace(cells[i]), "\x00", "|")
			}
			if source, by, ok := strings.Cut(cells[1], ", "); ok {
				line(source, by, cells[2], cells[3])
			}
		}
	}
	return strings.Join(out, "\n")
}

// match returns the statement that shares the most words with the question. The
// statement that holds wins a tie. "Why were third-party providers ruled out" is about
// the page that ruled them out, even if a later record overrides it.
func (s *script) match(w weight, wishesToo bool) *weighed {
	if w.Best == nil && !wishesToo || !wishesToo && len(s.about(w.Subject.question)) == 0 {
		return w.Best
	}
	count := func(x *weighed) int {
		n := 0
		for i, t := range w.Subject.terms {
			if !t.weak && !t.carried {
				n += x.terms[i]
			}
		}
		return n
	}
	best := w.Best
	if wishesToo && len(w.Wishes) > 0 {
		best = w.Wishes[0]
	}
	if m := within.FindStringSubmatch(w.Subject.question); m != nil && !wishesToo {
		for _, x := range w.All {
			if strings.EqualFold(x.at.Month().String(), m[1]) && x.Dated() && reason(x) != "" {
				return x
			}
		}
	}
	for _, x := range w.All {
		if (wishesToo || x.Kind == statement && reason(x) != "") && (best == nil || count(x) > count(best)) {
			best = x
		}
	}
	return best
}

// reason returns the sentence of a record that gives a reason, or "".
func reason(x *weighed) string {
	if x == nil {
		return ""
	}
	for _, list := range [][]sentence{x.focus, x.sentences} {
		for _, sen := range list {
			if because.MatchString(sen.text) {
				return plain(sen.text)
			}
		}
	}
	return ""
}

// deed returns the sentence of what holds in which somebody other than its author does what the
// question asks about: "The data protection officer objected to WhatsApp."
func deed(w weight) string {
	m := whoDid.FindStringSubmatch(w.Subject.question)
	if m == nil || w.Best == nil {
		return ""
	}
	for _, t := range w.Subject.terms {
		if !slices.Equal(t.exact, stems(m[1])) {
			continue
		}
		for _, sen := range w.Best.sentences {
			ts := tokens(sen.text)
			for i := range ts {
				if i > 0 && t.in(sen.stems[i:i+1]) >= byNear && !pronoun.MatchString(sen.text[:ts[i].start]) {
					return plain(sen.text)
				}
			}
		}
	}
	return ""
}

// pronoun matches a beginning of a sentence that does not name who acts.
var pronoun = regexp.MustCompile(`(?i)\b(?:i|we|you|he|she|it|they|this|that|which|who)\W*(?:\w+\W+)?$`)

var gone = regexp.MustCompile(`(?i)\b(?:is|are|was|were|has|have) .*\b(?:out|dead|gone|dropped|scrapped|cancell?ed|abandoned|obsolete|over)(?: for .*)?\W*$`)

// having matches a question whether there is something, and usedUp a record that says that
// there is none.
var (
	having = regexp.MustCompile(`(?i)\b(?:have|has|got|(?:is|are) there)\b`)
	usedUp = regexp.MustCompile(`(?i)\b(?:r[au]n(?:ning)? out of|out of stock|sold out|used up|(?:none|nothing) left)\b`)
)

// stance returns the sources' answer to a yes-or-no question: yes, no, joke, wish (it
// was only requested), unmentioned (the sources do not mention the thing), unsaid (they
// do not describe its state), undecided (no source reports a decision), except and unsure
// (see throughout), or "" if they do not tell.
func (s *script) stance(w weight) string { return s.throughout(w, s.plainly(w)) }

// plainly returns the stance without regard to words such as "all" and "only".
func (s *script) plainly(w weight) string {
	yes, no := "yes", "no"
	if gone.MatchString(w.Subject.question) {
		yes, no = no, yes
	}
	if w.Best != nil && s.reversed(w) {
		return "unsaid" // what is kept for ten years may be kept longer
	}
	if w.Best != nil && len(w.Missing) == 0 && spoken.MatchString(w.Subject.question) {
		return yes
	}
	if w.Best != nil && w.Best.Verdict == inThis && changes.MatchString(w.Subject.question) {
		return no
	}
	if w.Kind == "author" {
		return "" // the question is about the author, not about what was said
	}
	if w.Best != nil && bounded(w) {
		return "" // what is over ten kilos, and what is not, is for the reader to see
	}
	unsaid := slices.ContainsFunc(w.Subject.strong(), func(t *term) bool { return slices.Contains(w.Missing, t.words) })
	named := slices.ContainsFunc(w.Subject.strong(), func(t *term) bool { return t.name && slices.Contains(w.Missing, t.words) })
	switch {
	case named:
		return "unmentioned"
	case unsaid && state.MatchString(w.Subject.question):
		return "unsaid"
	case w.Best != nil && !s.borne(w):
		if slices.ContainsFunc(w.Wishes, func(x *weighed) bool { return x.covers >= w.Best.covers && x.Kind != asking }) {
			return "wish"
		}
		return "undecided"
	case w.Best != nil && otherDay(w):
		return no
	}
	if w.Best != nil {
		chosen := s.choice(w.Best.record, w.Subject)
		for _, m := range s.mentions(w.Subject.question) {
			switch {
			case m.name == chosen && len(w.Missing) == 0:
				return yes
			case slices.Contains(rejects(w.Best.record), m.name), chosen != "" && m.name != chosen && m.group == s.groupOf(w.Subject):
				return no
			}
		}
	}
	var open []int // terms that are missing from the record that holds
	for i, t := range w.Subject.terms {
		if !t.weak && !t.carried && (w.Best == nil || w.Best.terms[i] < byNear) {
			open = append(open, i)
		}
	}
	has := func(x *weighed) bool {
		return slices.ContainsFunc(open, func(i int) bool { return x.terms[i] >= byNear })
	}
	if len(open) == 0 && w.Best != nil {
		switch {
		case !s.affirms(w), having.MatchString(w.Subject.question) && usedUp.MatchString(joined(w.Best.focus)) && !usedUp.MatchString(w.Subject.question):
			return no
		case comparing.MatchString(w.Subject.question):
			return "" // "older phones" are not the phones that the record is about
		}
		return yes
	}
	for _, x := range w.Wishes {
		if has(x) {
			if x.Kind == joke {
				return "joke"
			}
			return "wish"
		}
	}
	taken := false
	for _, x := range w.Overridden {
		for _, i := range open {
			taken = taken || x.terms[i] >= byNear && affirmed(x, w.Subject.terms[i])
		}
	}
	if taken {
		return no
	}
	if slices.ContainsFunc(open, func(i int) bool { return slices.Contains(w.Missing, w.Subject.terms[i].words) }) {
		return "unmentioned"
	}
	return ""
}

// otherDay reports whether the question names a day of the week, and what holds another.
func otherDay(w weight) bool {
	days := aWeekday.FindAllString(strings.ToLower(w.Subject.question), -1)
	text := strings.ToLower(joined(w.Best.focus))
	return len(days) > 0 && aWeekday.MatchString(text) && !slices.ContainsFunc(days, func(d string) bool { return strings.Contains(text, d) })
}

var aWeekday = regexp.MustCompile(`(?i)\b(?:mon|tues|wednes|thurs|fri|satur|sun)day`)

// borne reports whether the record that holds reports the event the question asks about:
// a decision, a change or a completion. Without it, the answer is not yes.
func (s *script) borne(w weight) bool {
	q, text := w.Subject.question, joined(w.Best.focus)
	switch {
	case deciding.MatchString(q) && !decided.MatchString(w.Best.Text),
		changing.MatchString(q) && !changes.MatchString(text) && !stays.MatchString(w.Best.Text) && len(w.Overridden) == 0:
		return false
	}
	done := stems(finished.FindString(q))
	return len(done) == 0 || holds(stems(w.Best.Text), done)
}

// reversed reports whether the question and the record that holds use opposite words of
// the same group, such as delete and keep.
func (s *script) reversed(w weight) bool {
	text := stems(joined(w.Best.focus))
	for _, g := range s.Groups {
		back := func(st []string) bool {
			return slices.ContainsFunc(g.Reverse, func(word string) bool { return holds(st, stems(word)) })
		}
		for _, t := range w.Subject.strong() {
			if len(g.Reverse) > 0 && slices.ContainsFunc(slices.Concat(g.Words, g.Search), func(word string) bool { return slices.Equal(stems(word), t.exact) }) && back(t.exact) != back(text) {
				return true
			}
		}
	}
	return false
}

// Patterns of questions. state asks how a thing is or what became of it; a record in
// other words does not answer that. The others ask whether a thing was decided, changed
// or finished.
var (
	state    = regexp.MustCompile(`(?i)^\W*(?:(?:and|so|but|then)\W+)?(?:is|are|was|were|has|have|had)\b`)
	deciding = regexp.MustCompile(`(?i)\b(?:decided|agreed|approved|confirmed|settled|official|final|granted)\b`)
	changing = regexp.MustCompile(`(?i)\b(?:mov(?:e|ed|es|ing)|chang(?:e|ed|es|ing)|replac(?:e|ed|es|ing)|switch(?:ed|es|ing)?|postponed|delayed|raised|lowered|increased|extended|shortened)\b`)
	finished = regexp.MustCompile(`(?i)\b(?:finished|implemented|built|deployed|tested|launched|released|announced|signed|started|completed)\b`)
)

// spoken matches a question that asks whether somebody mentioned a thing, for or against
// it.
var spoken = regexp.MustCompile(`(?i)\b(?:say|said|says|write|written|wrote|post|posted|talk|talked|talking|mention|mentioned|mentions)\b.*\b(?:about|of|on)\b|\b(?:mention|consider|discuss|evaluat)(?:e?d|s)?\b`)

// comparing matches a question about things other than the ones it names.
var comparing = regexp.MustCompile(`(?i)\b(?:old|new|big|larg|small|long|short|high|low|cheap|fast|soon|heavi|earli|lat)er\b|\b(?:another|other|else|more than|less than|fewer)\b`)

// number matches a number. Its second group is set if the number is an hour of the day.
var number = regexp.MustCompile(`(?i)\b(\d+(?:[.,:]\d+)*)( ?(?:am|pm|o'clock)\b)?`)

// bound is a figure up to which, or from which on, something is so.
var bound = regexp.MustCompile(`(?i)\b(?:over|above|under|below|up to|at least|at most|more than|less than|heavier than|lighter than) \d+(?:[.,]\d+)? ?([a-z%€$£]+)`)

// countedFigure is a figure with what it counts.
var countedFigure = regexp.MustCompile(`(?i)\b\d+(?:[.,]\d+)? ?([a-z%€$£]+)`)

// bounded reports whether the question has a figure for which what holds sets a bound.
func bounded(w weight) bool {
	for _, b := range bound.FindAllStringSubmatch(w.Best.Text, -1) {
		for _, m := range countedFigure.FindAllStringSubmatch(w.Subject.question, -1) {
			if stem(strings.ToLower(m[1])) == stem(strings.ToLower(b[1])) {
				return true
			}
		}
	}
	return false
}

// affirms reports whether the record that holds agrees with what the question says.
func (s *script) affirms(w weight) bool {
	text := joined(w.Best.focus)
	for _, m := range number.FindAllStringSubmatch(w.Subject.question, -1) {
		n, hour := m[1], m[2]
		if hour == "" && !slices.ContainsFunc(number.FindAllStringSubmatchIndex(text, -1), func(at []int) bool {
			return text[at[2]:at[3]] == n && isFor(text, at[2], at[3])
		}) {
			return false
		}
	}
	for _, t := range w.Subject.strong() {
		if slices.ContainsFunc(rejects(w.Best.record), func(name string) bool { return t.in(stems(name)) >= byNear }) {
			return false // the email of Email/Password
		}
		if len(w.Subject.strong()) > 1 && s.group([]string{t.words}) != "" && len(s.mentions(t.words)) == 0 {
			continue // this names the kind of thing; one of a kind may be replaced by another
		}
		if !affirmed(w.Best, t) {
			return false
		}
	}
	return true
}

// affirmed reports whether every mention of a thing in a record is in favour of it.
func affirmed(x *weighed, t *term) bool {
	named := false
	for _, sen := range x.focus {
		ts := tokens(sen.text)
		for i := range ts {
			if i+len(t.exact) > len(ts) || !slices.Equal(sen.stems[i:i+len(t.exact)], t.exact) {
				continue
			}
			named = true
			if !isFor(sen.text, ts[i].start, ts[i+len(t.exact)-1].end) {
				return false
			}
		}
	}
	return named || !negated.MatchString(joined(x.focus))
}

// oldest matches a question about a first decision. A first decision need not change
// anything.
var oldest = regexp.MustCompile(`(?i)\b(?:oldest|earliest|very first)\b`)

// decidedSince returns the records in which something was decided or changed in the
// period that the question names. It returns nil if the question has a topic.
func (s *script) decidedSince(v view, rs []record) []record {
	if !s.everything(v) {
		return nil
	}
	from := sinceWhen(v.Question, rs)
	to := until(v.Question, from)
	out := []record{}
	for _, r := range rs {
		if kindOf(r, r.sentences) == statement && r.rank() > 1 && (!r.at.Before(from) || !r.Dated() && from.IsZero()) && (to.IsZero() || r.at.Before(to)) &&
			(oldest.MatchString(v.Question) || changes.MatchString(r.Text) || decided.MatchString(r.Text) || len(rejects(r)) > 0) {
			out = append(out, r)
		}
	}
	return out
}

// everything reports whether a question asks for all decisions, whatever their topic.
func (s *script) everything(v view) bool {
	if s.counting(v) {
		return false
	}
	all, _ := s.asks("everything", v.Question)
	if n := len(v.History); n > 0 && s.leans(v.Question) && (within.MatchString(v.Question) || since.MatchString(v.Question)) {
		all, _ = s.asks("everything", v.History[n-1].Question) // "and in March?"
		all = all && len(s.about(v.History[n-1].Question)) == 0
	}
	return all && len(s.about(v.Question)) == 0
}

// latest returns the weight of records about different things. All of them hold.
func (s *script) latest(rs []record, sub subject) weight {
	w := weight{Subject: sub, Kind: "decisions"}
	for _, r := range rs {
		x := s.look(r, sub)
		x.Says, x.Verdict = shorten(plain(r.Text), maxSentence), "decided"
		w.All = append(w.All, x)
	}
	if len(w.All) > 0 {
		w.Best = w.All[0]
	}
	return w
}
