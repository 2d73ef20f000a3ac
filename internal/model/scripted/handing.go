package scripted

import (
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

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
	sub := s.understood(v.Handed, s.subject(v))
	if v.Handed != nil {
		if w, ok := s.quoted(v.Handed, rs, sub); ok {
			v.memo.weight = w
			return w, nil
		}
	}
	v.memo.weight = s.sift(asked, rs, sub, v.Handed == nil)
	if v.Handed != nil && !v.memo.weight.Found() && len(rs) > 0 {
		// The agent that compared the records did not see the conversation. It found
		// that they answer the question as it stands.
		alone := view{Question: v.Question, Handed: v.Handed}
		if v.memo.weight = s.sift(alone, rs, s.understood(v.Handed, s.subject(alone)), false); !v.memo.weight.Found() {
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
	return s.answer(v, rs, s.subject(v)), nil
}

// Lines by which the comparing agent informs the answering agent, which sees less.
var (
	notMentioned = pattern.New(`(?m)^Not mentioned: (.+)$`)
	onlySource   = pattern.New(`(?m)^Only source: `)
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
		return s.during(v, s.latest(since, sub), rs)
	case s.conflicting(v):
		return s.conflicts(rs, sub)
	case s.counting(v):
		return s.inventory(rs, sub)
	case name != "" || s.verbatim(v):
		w := s.said(name, rs, sub)
		return s.during(v, w, w.records())
	}
	return s.dated(v, s.weigh(rs, sub, sorted))
}

// The two forms in which an answer shows a record: a quotation with its source below, or
// a row of a table.
var (
	quotedFrom = pattern.New(`^> — (\w+)(?:, (.*))?, ([^,]*)$`)
	inChannel  = pattern.New(`^(.*) in (\S+)$`)
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
