package scripted

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/model/scripted/dialog"
	"github.com/parley-server/parley/internal/pattern"
)

// functions returns the functions of a script's templates. They come in addition to
// those of text/template.
//
//	keywords TEXT          the words that say what a text is about
//	words LIST             the words of a list, with spaces between them
//	has TEXT WORD...       whether any of the words or phrases is in the text
//	only TEXT WORD...      whether the text has keywords, and none but these
//	find PATTERN TEXT      what the first group of the regular expression matches, or ""
//	finds PATTERN TEXT     the same for every match, a list
//	lines PREFIX TEXT      the lines of a text that begin with a prefix, a list
//	section PREFIX TEXT    the line that begins with a prefix, and all lines up to a blank one
//	list ITEM...           a list
//	add LIST ITEM          the list with one more item
//	nth N LIST             the item at N, counted from 0, or ""
//	tail N LIST            the last N items of a list
//	join SEPARATOR LIST    the items as one text
//	upto N TEXT            the first N bytes of a text
//	json X                 the value as JSON
//	text NAME VIEW         the output of the template with this name, for a condition
//
//	called TOOL RESULTS    whether the agent has called a tool in this turn
//	result TOOL RESULTS    the tool's last successful output, or ""
//	refused TOOL RESULTS   the tool's last failure, or ""
//
//	records X              the records in results or in a text, newest first
//	quote TEXT             the text as a Markdown quotation
//	cell TEXT              the text for a cell of a Markdown table
//	notWhy VIEW RECORD     the thing that "Why not X?" names and the record does not
//	                       decide against, as the question spells it, or ""
//	mentioned NAME WEIGHT  the record of a weight that has a name, or nothing
//	either VIEW RECORD     of the two that a question offers, the one that a record
//	                       speaks of alone, then the other; or nothing
//	comesTo WEIGHT         the day that a time before or after a changed day comes to, or ""
//	rejects RECORD         what a record decides against, a list
//	whose RECORD           "the CEO's Slack message of 2026-02-27"
//	source RECORD          "Slack, CEO in #engineering"
//	by RECORD              "CEO in #engineering"
//	library NAME           the library to build a topic with, or ""
//	dated TEXT             whether a text names a day or a month
//	upper TEXT             the text with a capital first letter
//	spelled TEXT LIST      words of a question, spelled as in the question
//
//	asks NAME TEXT         whether a question matches the script's pattern of this name
//	about VIEW             words and phrases of the question that name something
//	subject VIEW           these as .Own, and those of the question before it as .Carried
//	first VIEW BOOL        the words of the first search; true: with more words of their group
//	more VIEW              the words of a further search, or nothing
//	unfound RESULTS        whether any of the results found nothing
//
//	compared VIEW          the weight of the results that were handed over
//	weighed VIEW           the weight of the text that was handed over, or else of the
//	                       earlier answer that the question follows: .Best, .Agree,
//	                       .Overridden, .Also, .Wishes, .All, .Missing, .Absent, .Alone,
//	                       .Beyond, .Subject, .Found, .Several
//	stance WEIGHT          the answer to a yes-or-no question: yes, no, wish, joke,
//	                       unmentioned, unsaid, undecided, except, unsure, or ""
//	exception WEIGHT       the sentence of what holds that names an exception, or ""
//	parts VIEW             the view of each question, if there are several in one
//	match WEIGHT BOOL      the record that the question's words are about; true: also among wishes
//	stale WEIGHT           what overrides another part of the page that holds, if the question
//	                       concerns it; or nothing
//	cited WEIGHT           the record that the answer quotes
//	others WEIGHT WEIGHED BOOL  all records but this one; true: with wishes
//
// A weighed record is a record with .Says, .Verdict, .Kind and .Record. For these:
//
//	choice RECORD SUBJECT    the choice it makes of the kind that is asked about, or ""
//	says WEIGHED SUBJECT     this choice, or else its sentences about the question
//	apart RECORD RECORD      the time between two records: "43 days (about 6 weeks)"
//	covered RESULTS          the pages and channels that results come from
//	counted LIST             the pages and channels that weighed records come from
//	topicless VIEW           whether it asks who, why or when, without a subject
//	surveys VIEW             whether the question is about all sources, without a subject
//	excerpt WEIGHED SUBJECT  its text, or the sentences about the subject of a long one
//	brief WEIGHED SUBJECT    its line, with the excerpt for its text
//	reason WEIGHED           its sentence that gives a reason, or ""
//	ago VIEW RECORD          how long before the turn it was written: "43 days (about 6 weeks)
//	                         ago"; "" if the day of the turn is not known
//	aged VIEW WEIGHT         the records whose age is asked for, a list
//	party VIEW               the person or office, if it asks what they did: "Did the CTO
//	                         agree?"; or ""
//	theirs NAME WEIGHT       the record of this person, or the one that names them; or nothing
//	out WEIGHT               what the question names and the record that holds rejects, a list
//	people WEIGHT            who wrote the records, a list
//	edge QUESTION TEXT       the end of a time in a text that a question asks for: "Until 16:00"
//	contact WEIGHT           the newest record that says whom to turn to, with this for .Says; or nothing
//	taker WEIGHT             what takes the figure of a question, of things with limits: "UPS"; or ""
//	fits WEIGHT              whether a figure of the question is within a limit: yes, no, or ""
//	deed WEIGHT              the sentence of what holds that names who did what was asked, or ""
//	rest WEIGHED             its sentences about something else, a list
//	extras WEIGHT WEIGHED    the clauses with a figure in what is contradicted of it that nothing
//	                         newer has another figure for, a list
//	of SOURCE LIST           the records of one source
//	last LIST                the last record
//
// For the conversation:
//
//	followup VIEW          whether an earlier turn has settled what the question is about
//	settled VIEW           that turn: .Question, .Answer
//
// A record has Source, Title, Channel, User, Date, Text, and Line: the whole record as
// the tool returned it.
func (s *script) functions() template.FuncMap {
	return template.FuncMap{
		"keywords": s.keywords,
		"words":    func(l []string) string { return strings.Join(l, " ") },
		"has":      has,
		"only":     s.only,
		"find":     find,
		"lines":    linesWith,
		"finds":    finds,
		"section":  section,
		"list":     func(items ...string) []string { return items },
		"add":      func(list []string, item string) []string { return append(slices.Clip(list), item) },
		"nth":      nth,
		"tail":     func(n int, list []string) []string { return list[max(0, len(list)-n):] },
		"join":     func(sep string, list []string) string { return strings.Join(list, sep) },
		"upto":     func(n int, text string) string { return clip(text, n) },
		"json":     asJSON,
		"text":     s.text,
		"called": func(tool string, rs []dialog.Result) bool {
			return slices.ContainsFunc(rs, func(r dialog.Result) bool { return r.Tool == tool })
		},
		"result":  func(tool string, rs []dialog.Result) string { return output(tool, rs, false) },
		"refused": func(tool string, rs []dialog.Result) string { return output(tool, rs, true) },
		"records": s.records,
		"quote":   quote,
		"cell":    func(text string) string { return strings.ReplaceAll(keyword.Fold(text), "|", `\|`) },
		"excerpt": s.excerpt,
		"brief": func(x *weighed, sub subject) string {
			return strings.TrimSuffix(x.Line, x.Text) + s.excerpt(x, sub)
		},
		"says":     s.says,
		"compared": s.compared,
		"unfound": func(rs []dialog.Result) bool {
			return slices.ContainsFunc(rs, func(r dialog.Result) bool { return strings.HasPrefix(r.Output, "No relevant ") || r.Failed })
		},
		"rest":      remains,
		"extras":    extras,
		"apart":     apart,
		"surveys":   s.surveys,
		"topicless": s.topicless,
		"covered":   func(rs []dialog.Result) (string, error) { all, err := s.records(rs); return covered(all), err },
		"of":        ofSource,
		"counted": func(xs []*weighed) string {
			var all []record
			for _, x := range xs {
				all = append(all, x.record)
			}
			return covered(all)
		},
		"ago":       view.ago,
		"aged":      aged,
		"party":     s.party,
		"theirs":    theirs,
		"out":       s.out,
		"people":    people,
		"last":      func(xs []*weighed) *weighed { return xs[len(xs)-1] },
		"others":    others,
		"cited":     s.cited,
		"stale":     s.staleFor,
		"dated":     func(text string) bool { return aDay.MatchString(text) },
		"upper":     upper,
		"rejects":   rejects,
		"choice":    s.choice,
		"whose":     record.whose,
		"source":    record.source,
		"by":        record.by,
		"library":   s.library,
		"followup":  s.followup,
		"settled":   s.settledTurn,
		"about":     func(v view) []string { return s.about(v.Question) },
		"subject":   s.subject,
		"first":     s.firstSearch,
		"more":      s.more,
		"weighed":   s.weighed,
		"asks":      s.asks,
		"stance":    s.stance,
		"exception": s.exception,
		"parts":     s.parts,
		"match":     s.match,
		"reason":    reason,
		"notWhy":    s.notWhy,
		"mentioned": mentioned,
		"either":    either,
		"comesTo":   comesTo,
		"deed":      deed,
		"edge":      edge,
		"contact":   contact,
		"taker":     s.taker,
		"fits":      s.fits,
		"spelled":   spelled,
	}
}

// keywords returns the words of a text without the ignored ones. If none remain, it
// keeps the ignored ones.
func (s *script) keywords(text string) []string {
	all := keyword.Of(text)
	kept := slices.DeleteFunc(slices.Clone(all), func(w string) bool { return slices.Contains(s.Ignore, w) })
	if len(kept) == 0 {
		return all
	}
	return kept
}

func has(text string, words ...string) bool {
	ts := tokens(text)
	return slices.ContainsFunc(words, func(w string) bool { return newPhrase(w).in(text, ts) })
}

func (s *script) only(text string, words ...string) bool {
	all := keyword.Of(text)
	return len(all) > 0 && !slices.ContainsFunc(all, func(w string) bool { return !slices.Contains(words, w) })
}

func find(pattern, text string) (string, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return "", err
	}
	m := re.FindStringSubmatch(text)
	if len(m) == 0 {
		return "", nil
	}
	return m[min(1, len(m)-1)], nil
}

func finds(pattern, text string) ([]string, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range re.FindAllStringSubmatch(text, -1) {
		out = append(out, m[min(1, len(m)-1)])
	}
	return out, nil
}

func section(prefix, text string) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if len(out) == 0 && !strings.HasPrefix(line, prefix) {
			continue
		}
		if strings.TrimSpace(line) == "" {
			break
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func nth(n int, list []string) string {
	if n < 0 || n >= len(list) {
		return ""
	}
	return list[n]
}

func asJSON(x any) (string, error) {
	raw, err := json.Marshal(x)
	return string(raw), err
}

func output(tool string, rs []dialog.Result, failed bool) string {
	for _, r := range slices.Backward(rs) {
		if r.Tool == tool && r.Failed == failed {
			return r.Output
		}
	}
	return ""
}

func linesWith(prefix, text string) []string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, prefix) {
			out = append(out, line)
		}
	}
	return out
}

func quote(text string) string {
	return "> " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n> ")
}

// followup reports whether the question is about something that this session has
// settled.
func (s *script) followup(v view) bool {
	if has(v.Question, s.Fresh...) && !lastHand.MatchString(v.Question) || s.surveys(v) {
		return false
	}
	_, ok := s.settled(v)
	return ok
}

// lastHand asks who changed what was found, and not whether it has changed since.
var lastHand = pattern.New(`(?i)^\W*(?:(?:and|so|but)\W+)?who (?:last )?(?:updated|changed) (?:it|that|this)\W*$`)

func (s *script) settledTurn(v view) exchange {
	x, _ := s.settled(v)
	return x
}

// closest begins an answer that quotes the nearest records and claims nothing of them.
const closest = "**Closest I found"

// settled finds the newest earlier turn that has all words of the question. Turns that
// ended in a recommendation come first, then turns that name a topic. Words that only
// refer to something, or say what is wanted, do not count.
func (s *script) settled(v view) (exchange, bool) {
	about := s.about(v.Question)
	if len(keyword.Of(v.Question)) == 0 && !has(v.Question, s.Refer...) {
		return exchange{}, false
	}
	for _, settles := range []func(exchange) bool{
		func(x exchange) bool { return strings.Contains(x.Answer, "**Recommendation:**") },
		func(x exchange) bool { return len(s.mentions(x.Answer)) > 0 },
	} {
		for _, x := range slices.Backward(v.History) {
			if len(about) == 0 && strings.Contains(x.Answer, closest) {
				break // nothing was settled last: what the question refers to is to be looked up
			}
			text := strings.ToLower(x.Question + "\n" + x.Answer)
			unknown := func(w string) bool {
				return slices.ContainsFunc(s.search([]string{w}), func(r string) bool { return !strings.Contains(text, r) })
			}
			if x.Complete && settles(x) && !slices.ContainsFunc(about, unknown) {
				return x, true
			}
		}
	}
	return exchange{}, false
}

func (s *script) library(name string) string {
	for _, t := range s.Topics {
		if strings.EqualFold(t.Name, strings.TrimSpace(name)) {
			return t.Library
		}
	}
	return ""
}

// group returns the group that most of the words belong to.
func (s *script) group(words []string) string {
	count := map[string]int{}
	for _, w := range words {
		if st := stems(w); len(st) > 0 {
			found, n := s.at(st, 0)
			for i, m := range found {
				if n == len(st) && !slices.ContainsFunc(found[:i], func(o meaning) bool { return o.group == m.group }) {
					count[m.group]++
				}
			}
		}
	}
	at := ""
	for name, n := range count {
		// In a tie, a group with choices wins.
		switch a, b := s.chosen[name], s.chosen[at]; {
		case at == "" || n > count[at], n == count[at] && (a && !b || a == b && name < at):
			at = name
		}
	}
	return at
}
