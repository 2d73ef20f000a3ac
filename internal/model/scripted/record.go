package scripted

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/model/scripted/dialog"
	"github.com/parley-server/parley/internal/pattern"
	"github.com/parley-server/parley/internal/records"
)

// record is a line of a tool's result.
type record struct {
	Source, Title, Channel, User, Date, Text, Line string
	at                                             time.Time

	// What it says and names, computed once because templates ask for it repeatedly.
	sentences             []sentence
	title                 []string // stems
	topics, titled, names []mention
}

// record matches [Source | ... | date] text. The date is the last part in the brackets, so a
// title may contain brackets and bars.
var recordLine = pattern.New(`^\[([A-Za-z][\w ]*) \| (?:(.*?) \| )?(?:Last updated: )?(\d{4}-\d\d-\d\d[^|\]]*|[^|\]]*)\] ?(.*)$`)

func (s *script) records(x any) ([]record, error) {
	var texts []string
	switch x := x.(type) {
	case string:
		texts = []string{x}
	case []dialog.Result:
		for _, r := range x {
			if !r.Failed {
				texts = append(texts, r.Output)
			}
		}
	default:
		return nil, fmt.Errorf("records: want results or a text, got %T", x)
	}
	var out []record
	seen := map[string]bool{}
	for _, text := range texts {
		for line := range strings.SplitSeq(text, "\n") {
			m := recordLine.FindStringSubmatch(line)
			if m == nil || seen[line] {
				continue
			}
			seen[line] = true
			r := record{Source: m[1], Title: m[2], Date: m[3], Text: m[4], Line: line, at: records.Time(m[3])}
			if channel, user, ok := strings.Cut(m[2], " | "); ok && r.Source == "Slack" {
				r.Title, r.Channel, r.User = "", channel, user
			}
			r.topics, r.titled, r.names = s.mentions(r.Text), s.mentions(r.Title), names(r.Text)
			r.names = slices.DeleteFunc(r.names, func(n mention) bool { // Password, of Email and Password
				return slices.ContainsFunc(r.topics, func(m mention) bool { return n.start < m.end && m.start < n.end })
			})
			r.title = stems(r.Title)
			for _, text := range sentences(r.Text) {
				r.sentences = append(r.sentences, sentence{text, stems(text)})
			}
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b record) int { return b.at.Compare(a.at) })
	return out, nil
}

// all returns the stems of title and text.
func (r record) all() []string {
	out := slices.Clone(r.title)
	for _, x := range r.sentences {
		out = append(out, x.stems...)
	}
	return out
}

func (r record) source() string {
	if by := r.by(); by != "" {
		return r.Source + ", " + by
	}
	return r.Source
}

func (r record) by() string {
	if r.User != "" {
		return r.User + " in " + r.Channel
	}
	return r.Title
}

func (r record) whose() string {
	switch {
	case r.User == "":
		return r.Who() + r.On()
	case strings.Contains(r.User, "("): // Tom (intern)
		return "the " + r.Source + " message by " + r.User + r.On()
	}
	return r.Who() + "'s " + r.Source + " message" + r.On()
}

// The words for offices, and how much their holders decide.
var (
	junior  = pattern.New(`(?i)\b(?:intern|trainee|student|apprentice|customer|client|guest|visitor|prospect|user)\b`)
	senior  = pattern.New(`(?i)\b(?:c[a-z]o|ciso|chief|founder|co-?founder|owner|president|director|vp|head|lead|leader|manager|principal|officer|pm|board|chair\w*)\b`)
	office  = pattern.New(`(?i)(?:^(?:head|vp|director|chief)\b.*|\b(?:intern|trainee|student|customer|founder|owner|president|director|vp|head|lead|leader|manager|principal|officer|engineer|designer|developer|agent|analyst|architect|tester|admin|administrator|scientist|writer|marketer|accountant|consultant|assistant|treasurer|coach|trainer|teacher|nurse|editor|driver|caretaker|secretary|coordinator|planner|buyer|recruiter|technician|researcher|specialist|support|sales|marketing|legal|finance|operations|team|board|chair|president))$`)
	letters = pattern.New(`^[A-Z]{2,4}$`) // CEO, SRE
)

// spoken reports whether a name is that of the record's author, in part or as initials: DPO.
func (r record) spoken(name string) bool {
	if holds(stems(r.User), stems(name)) {
		return true
	}
	var initials strings.Builder
	for _, t := range tokens(r.User) {
		initials.WriteString(t.word[:1])
	}
	return len(initials.String()) > 1 && initials.String() == strings.ToLower(name)
}

// rank is how much a record's author can decide: 3 leads; 2 does the work or is unknown; 1 only
// asks for things. A page counts as 2 against newer records.
func (r record) rank() int {
	switch {
	case junior.MatchString(r.User):
		return 1
	case senior.MatchString(r.User):
		return 3
	}
	return 2
}

// Who returns the record's author, or what the record is.
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

// Dated reports whether the record's date is known.
func (r record) Dated() bool { return !r.at.IsZero() }

// When returns the date, or the word for a missing date.
func (r record) When() string {
	if r.Dated() {
		return r.Date
	}
	return "undated"
}

// On returns " of DATE", or says that there is no date.
func (r record) On() string {
	if r.Dated() {
		return " of " + r.Date
	}
	return ", which is undated"
}
