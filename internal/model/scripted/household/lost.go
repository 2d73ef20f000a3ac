package household

import (
	"fmt"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// reads counts the results that tell of the past, and have been looked at for one request. The
// states of now are in memory also while Home Assistant cannot be reached; the past is not.
type reads struct {
	ok, failed int
	why        string // the first failure
}

func (r *reads) add(res Result) {
	switch res.Tool {
	case history, logbook, failures, diagnose:
	default:
		return
	}
	if !res.Failed {
		r.ok++
		return
	}
	if r.failed++; r.why == "" {
		r.why = res.Output
	}
}

// lost reports whether the past was wanted and nothing of it could be read.
func (r *reads) lost() bool { return r.failed > 0 && r.ok == 0 }

// mark is how much of an answer there is.
type mark struct{ parts, evidence, cites, next int }

func (a *answered) length() mark {
	return mark{len(a.parts), len(a.evidence), len(a.cites), len(a.next)}
}

// cut takes back what was said since then.
func (a *answered) cut(m mark) {
	a.parts, a.evidence, a.cites, a.next = a.parts[:m.parts], a.evidence[:m.evidence], a.cites[:m.cites], a.next[:m.next]
}

var (
	atAddress = pattern.New(` at https?://\S+`)
	sinceTime = pattern.New(` \(since [^)]*\)`)
	technical = pattern.New(`\b(cannot be reached|was lost): .*`)
	oldIndex  = pattern.New(`^(.+) old and may be out of date: (.+)$`)
)

// reason is why a tool failed, without addresses and times that say nothing to a householder.
func reason(text string) string {
	text = firstLine(strings.TrimPrefix(text, "Failed: "))
	text = sinceTime.ReplaceAllString(atAddress.ReplaceAllString(text, ""), "")
	return strings.TrimRight(cut(technical.ReplaceAllString(text, "$1"), 200), ". ")
}

// failure is why a tool failed and what to do about it, in sentences.
func failure(text string) string {
	said := upper(reason(text)) + "."
	if _, hint, ok := strings.Cut(text, "\n"); ok && strings.TrimSpace(hint) != "" {
		said += " " + upper(strings.TrimRight(strings.TrimSpace(cut(firstLine(hint), 300)), ".")) + "."
	}
	return said
}

// outOfDate says how old the states are, from the age that the tools give.
func outOfDate(age string) string {
	m := oldIndex.FindStringSubmatch(age)
	if m == nil {
		return fmt.Sprintf("The data are not live (%s), so this may have changed since.", reason(age))
	}
	old := m[1]
	if d, err := time.ParseDuration(old); err == nil {
		old = took(d)
	}
	return fmt.Sprintf("%s, so this is as it was %s ago and may have changed since.", upper(reason(m[2])), old)
}
