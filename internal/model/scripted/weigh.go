package scripted

import (
	"regexp"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/keyword"
)

// sentence is a sentence of a record's text.
type sentence struct {
	text  string
	stems []string
}

// What a sentence is, by the words that people use for it.
var (
	joking   = regexp.MustCompile(`(?i)\b(?:april fools?\w*|first of april|1st of april|just kidding|kidding|only joking|joke|lol|haha\w*)\b|[😂🤣😜😉]|[;:]-?[)P](?:\s|$)`)
	wishing  = regexp.MustCompile(`(?i)\b(?:would be (?:great|nice|cool|good|lovely|helpful|awesome)|would (?:love|like|prefer)|i'd|we'd (?:love|like)|could (?:we|you|someone)|can (?:we|you)|should we|shouldn't we|shall we|why (?:don't|not)|what (?:if|about)|how about|any chance|maybe|perhaps|please add|i (?:wish|hope|suggest|propose|think|like|liked|prefer|used|guess|believe|feel|want)|my (?:suggestion|proposal|idea|wish)|suggestion|proposal|idea:|feature request)\b`)
	rumoured = regexp.MustCompile(`(?i)\b(?:rumou?rs?|i heard|heard that|apparently|someone said|people say|not sure|no idea)\b`)
	decided  = regexp.MustCompile(`(?i)\b(?:decision|decided?|agreed|approved|confirmed|final|from now on|as of|starting|scrap\w*|instead of|no longer|moved? to|moves to|replac\w+|switch\w*|drop\w*|correction|correct\w*|go with|going with|let's|settled)\b`)
	// changes is wider than changed: also what says what is so now.
	changes = regexp.MustCompile(`(?i)\b(?:scrap\w*|instead|no longer|any ?more|chang(?:e|ed|es)|change of plans?|mov(?:e|ed|es|ing)|postpon\w*|delay\w*|push(?:ed|es) (?:back|to)|cancel\w*|updat(?:e|ed|es)|overrid\w*|supersed\w*|forget|new|revert\w*|actually|now|correct(?:ion|ed)|drop(?:s|ped)?|replac\w*|switch\w*|add(?:ed|s)?|remov\w*|raise[sd]?|lower\w*|extend\w*|shorten\w*|against|from [\w ]{1,20} on)\b`)
	stays   = regexp.MustCompile(`(?i)\b(?:stay(?:s|ed)?|remain(?:s|ed)?|still|as before|unchanged|confirm\w*|nothing (?:to|has) change\w*|no change|reminder|same as|keep(?:s)? at)\b`)
	because = regexp.MustCompile(`(?i)\b(?:because|since|due to|so that|in order to|to (?:save|avoid|reduce|keep|meet|comply)|reason|owing to|thanks to|too (?:long|slow|expensive|much|many|risky|hard|late|big|complex)|needs? (?:\w+ ){0,3}more|crash\w*|object\w*|fail\w*|broken|insecure|unsafe|cannot|can't|complain\w*|cheaper|faster|safer|easier|costs? (?:us )?(?:too|more)|not allowed|forbid\w*|illegal)\b`)
	negated = regexp.MustCompile(`(?i)\b(?:not|no|never|none|without|n't)\b|n't\b`)
)

const (
	statement = ""
	asking    = "a question"
	wish      = "a wish"
	rumour    = "a rumour"
	joke      = "a joke"
)

func (x sentence) kind() string {
	switch {
	case wishing.MatchString(x.text) && !strings.Contains(strings.ToLower(x.text), "decision"):
		return wish
	case strings.HasSuffix(strings.TrimRight(x.text, " )\"'"), "?"):
		return asking
	case rumoured.MatchString(x.text):
		return rumour
	}
	return statement
}

// Who has what to say, by the words of an office.
var (
	junior  = regexp.MustCompile(`(?i)\b(?:intern|trainee|student|apprentice|customer|client|guest|visitor|prospect|user)\b`)
	senior  = regexp.MustCompile(`(?i)\b(?:c[a-z]o|ciso|chief|founder|co-?founder|owner|president|director|vp|head|lead|leader|manager|principal|officer|pm|board|chair\w*)\b`)
	office  = regexp.MustCompile(`(?i)(?:^(?:head|vp|director|chief)\b.*|\b(?:intern|trainee|student|customer|founder|owner|president|director|vp|head|lead|leader|manager|principal|officer|engineer|designer|developer|agent|analyst|architect|tester|admin|administrator|scientist|writer|marketer|accountant|consultant|assistant|specialist|support|sales|marketing|legal|finance|operations|team|board))$`)
	letters = regexp.MustCompile(`^[A-Z]{2,4}$`) // CEO, SRE
)

// rank is how much a record's author can decide: 3 leads, 2 does the work or is
// not known, 1 asks for things. A page counts for 2 against what is newer.
func (r record) rank() int {
	switch {
	case junior.MatchString(r.User):
		return 1
	case senior.MatchString(r.User):
		return 3
	}
	return 2
}

// Who is the record's author, or what it is.
func (r record) Who() string {
	switch {
	case office.MatchString(r.User) || letters.MatchString(r.User):
		return "the " + r.User
	case r.User != "":
		return r.User
	case r.Title != "":
		return "the " + r.Source + " page \"" + r.Title + "\""
	}
	return "the " + r.Source + " record"
}

// Dated reports whether it is known of when the record is.
func (r record) Dated() bool { return !r.at.IsZero() }

// When is the date, or the word for that there is none.
func (r record) When() string {
	if r.Dated() {
		return r.Date
	}
	return "undated"
}

// On is " of DATE", or says that there is none.
func (r record) On() string {
	if r.Dated() {
		return " of " + r.Date
	}
	return ", which is undated"
}

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
	Missing    []string   // words of the question that no source has
	Subject    subject
	Kind       string   // what was asked for: "conflicts", "voice", "decisions"; "": a subject
	Aside      bool     // about the question's wider subject, not about what it asks
	Against    []string // what the question names and what holds is against, where it is aside
	Conflicts  []weight // page by page
	Page       record   // of a conflict
	Stale      *weighed // what overrides another part of the page that holds
	Name       string   // of a voice
}

// Found reports whether anything is about the question.
func (w weight) Found() bool { return len(w.All) > 0 }

// Several reports whether these are decisions about different things.
func (w weight) Several() bool { return w.Best != nil && w.Best.Verdict == "decided" }

// weigh says what holds, as to a question, of all that was found; with sorted,
// what has little to do with the question was already left out. Where nothing
// answers the question, it is what is known of its wider subject.
func (s *script) weigh(rs []record, sub subject, sorted bool) weight {
	w := s.direct(rs, sub, sorted)
	if w.Found() {
		return s.renewed(rs, w)
	}
	return s.aside(rs, sub, w)
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
	for i, t := range sub.terms {
		if !t.weak && !t.carried && !slices.ContainsFunc(w.All, func(x *weighed) bool { return x.terms[i] > byKin }) {
			w.Missing = append(w.Missing, t.words)
		}
	}
	if sorted {
		for _, x := range w.All {
			x.core = true
		}
		s.judge(&w)
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
	return w
}

// aside is the weight of what the sources do say on the wider subject of a
// question that they do not answer: the kind of decision that it, or the one
// that it leans on, is about.
func (s *script) aside(rs []record, sub subject, none weight) weight {
	for _, words := range [][]string{sub.Own, sub.Carried} {
		for _, w := range words {
			group := s.group([]string{w})
			if !s.chosen[group] {
				continue
			}
			wider := subject{Own: []string{w}, question: w, terms: s.terms([]string{w}, false)}
			if got := s.direct(rs, wider, false); got.Best != nil {
				got.Aside, got.Missing = true, slices.DeleteFunc(slices.Clone(sub.Own), func(o string) bool { return o == w })
				for _, m := range s.mentions(sub.question) {
					if slices.Contains(rejects(got.Best.record), m.name) {
						got.Against = add(got.Against, m.name)
					}
				}
				return got
			}
		}
	}
	return none
}

// relevant reports whether a record has to do with the question as much as the
// one that has most: nearly as many of its words or a choice of the kind that is asked
// about, which makes it core; or else, as it may override one that is, a sentence
// like its, the word of a page's title, or a word said in the same channel.
func (s *script) relevant(x, top *weighed, sub subject) bool {
	x.core = x.score*3 > top.score*2 || s.chooses(x, sub)
	if x.core || alike(x.focus, top.focus) || s.rivals(x, top, sub) {
		return true
	}
	for _, t := range sub.strong() {
		if t.in(x.title) == byWord {
			return true
		}
		if (t.in(top.title) == byWord || x.Channel != "" && x.Channel == top.Channel) && t.in(x.all()) == byWord {
			return true
		}
	}
	return false
}

// rivals reports whether both records name something of the kind of decision
// that the question asks about, of which only one can hold.
func (s *script) rivals(x, top *weighed, sub subject) bool {
	group := s.groupOf(sub)
	names := func(r record) bool {
		return slices.ContainsFunc(slices.Concat(r.topics, r.titled), func(m mention) bool { return m.group == group })
	}
	return s.chosen[group] && !s.otherHead(sub, group) && names(x.record) && names(top.record)
}

// chooses reports whether a record names something of the kind that a question
// asks about, where it asks about nothing else.
func (s *script) chooses(x *weighed, sub subject) bool {
	group := s.groupOf(sub)
	if !s.chosen[group] || s.otherHead(sub, group) {
		return false
	}
	for _, t := range sub.strong() {
		if found, n := s.at(t.exact, 0); n != len(t.exact) || !slices.ContainsFunc(found, func(m meaning) bool { return m.group == group }) {
			return false
		}
	}
	return slices.ContainsFunc(slices.Concat(x.topics, x.titled), func(m mention) bool { return m.group == group })
}

// alike reports whether two texts speak of one thing: at least three words, and
// half of those of the shorter, are the same.
func alike(a, b []sentence) bool {
	x, y := telling(a), telling(b)
	if len(x) > len(y) {
		x, y = y, x
	}
	same := 0
	for _, w := range x {
		if slices.Contains(y, w) {
			same++
		}
	}
	return same >= 3 && same*2 >= len(x)
}

func telling(focus []sentence) []string {
	var out []string
	for _, sen := range focus {
		for _, w := range sen.stems {
			if !keyword.IsStop(w) {
				out = add(out, w)
			}
		}
	}
	return out
}

// look reads a record as to a subject.
func (s *script) look(r record, sub subject) *weighed {
	x := &weighed{record: r, terms: make([]int, len(sub.terms))}
	scores := make([]int, len(r.sentences))
	best, top := 0, 0
	for i, sen := range r.sentences {
		for _, t := range sub.terms {
			scores[i] += t.weight(t.in(sen.stems))
		}
		if scores[i] > 0 && sub.wants != nil && sub.wants.MatchString(sen.text) {
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
			if sub.wants.MatchString(sen.text) {
				scores[i], best = 5, 5
			}
		}
	}
	for i, sen := range r.sentences {
		if best == 0 || scores[i]*3 > best*2 {
			x.focus = append(x.focus, sen)
			if sub.wants != nil && sub.wants.MatchString(sen.text) {
				top = 5
			}
		}
	}
	x.score += top
	x.Kind = kindOf(r, x.focus)
	var says []string
	for _, sen := range x.focus {
		says = append(says, sen.text)
	}
	x.Says = shorten(plain(strings.Join(says, " ")), maxSentence)
	return x
}

func kindOf(r record, focus []sentence) string {
	if joking.MatchString(r.Text) {
		return joke
	}
	kind := ""
	for _, sen := range focus {
		k := sen.kind()
		if k == statement {
			return statement
		}
		if kind == "" || k == wish {
			kind = k
		}
	}
	return kind
}

// openers are words before what is said.
var openers = regexp.MustCompile(`(?i)^(?:(?:hey|hi|hello)(?: \w+)?[,!] *|(?:decision|reminder|heads up|fyi|update|correction|note|breaking|confirmed|announcement|psa)\b[^:.!?]{0,60}: *)+`)

// plain is a sentence without the words that only lead to it.
func plain(text string) string {
	text = strings.TrimPrefix(text, "… ")
	if cut := openers.ReplaceAllString(text, ""); cut != "" {
		return upper(cut)
	}
	return text
}

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

func joined(focus []sentence) string {
	var out []string
	for _, x := range focus {
		out = append(out, x.text)
	}
	return strings.Join(out, " ")
}

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
