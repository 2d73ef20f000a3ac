package household

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// What lies before the recorded history cannot be told, and "no" is not the answer for a time of
// which only a part is recorded.

// afterThat stands for the recorded part of a time in an answer about all of it.
const afterThat = "after that"

// partly returns when the record of things begins, if it begins within the time that was asked
// for, and makes the shares of their states those of the recorded part.
func partly(past map[string]*series) (from time.Time) {
	for _, p := range past {
		if p.recorded.IsZero() {
			continue
		}
		if p.recorded.After(from) {
			from = p.recorded
		}
		sum := 0.0
		for _, share := range p.share {
			sum += share
		}
		for s, share := range p.share {
			p.share[s] = 100 * share / max(sum, 0.1)
		}
	}
	return from
}

// notAll is the sentence for a time of which only a part is recorded.
func (u *turn) notAll(said string, from time.Time) string {
	return fmt.Sprintf("That cannot be told for all of %s: the history only begins %s.", strings.TrimPrefix(strings.TrimPrefix(said, "on "), "in "), u.know.when(from))
}

// qualified puts that sentence before what was said of the recorded part, or behind a yes, which
// stays true whatever was before.
func (u *turn) qualified(a *answered, first int, said string, from time.Time) {
	if len(a.parts) <= first || from.IsZero() || strings.Contains(a.parts[first], "annot ") {
		return
	}
	part := a.parts[first]
	if strings.HasPrefix(part, "Yes") && !strings.Contains(part, "all the time") {
		a.parts[first] = strings.Replace(part, " "+afterThat, " "+said, 1) + " Nothing is recorded from before " + u.know.since(from) + "."
		return
	}
	a.parts[first] = u.notAll(said, from) + " " + upper(strings.TrimPrefix(strings.TrimPrefix(part, "No: "), "Yes: "))
}

// unrecorded says that a time lies before the recorded history, or returns the call that tells when
// that begins.
func (u *turn) unrecorded(es []entity, said string, a *answered) []Call {
	begin, calls := u.begins(es[0])
	if len(calls) > 0 {
		return calls
	}
	if !begin.IsZero() {
		a.say("That cannot be told: the history of the house only goes back to %s.", u.know.since(begin))
		return nil
	}
	a.say("That cannot be told: nothing is recorded of %s %s.", theNames(es), said)
	return nil
}

// begins returns when the record of a thing begins, if that is less than a month ago.
func (u *turn) begins(e entity) (time.Time, []Call) {
	c := Call{Tool: history, Input: map[string]any{"entities": idsOf([]entity{e}), "start": "-720h", "plot": false}}
	r, ok := u.got(c)
	if !ok {
		return time.Time{}, []Call{c}
	}
	if p := pastOf(r.Output)[e.id]; p != nil {
		return p.recorded, nil
	}
	return time.Time{}, nil
}

// nightOver is the hour at which a night ends for a question whether something happened in it. The
// tools' nights last longer, since a cause may show only in the morning.
const nightOver = 6

var aNight = pattern.New(`^(?:(last|yesterday|day before yesterday|` + weekdays + `) )?(?:night|tonight)$`)

// period returns the time of a question for the tools, with the end of a night.
func (u *turn) period(s span, otherwise string) map[string]any {
	tool := u.span(s, otherwise)
	in := map[string]any{"start": tool}
	m := aNight.FindStringSubmatch(tool)
	if m == nil {
		return in
	}
	now, back := u.know.now, 0
	switch day := m[1]; {
	case day == "" && now.Hour() < 12, day == "last" && now.Hour() >= dawn, day == "yesterday":
		back = 1
	case day == "last", day == "day before yesterday":
		back = 2
	case day != "":
		back = 1 + slices.IndexFunc([]int{1, 2, 3, 4, 5, 6, 7}, func(n int) bool {
			return strings.EqualFold(now.AddDate(0, 0, -n).Weekday().String(), day)
		})
	}
	const layout = "2006-01-02 15:04"
	at := func(back, hour int) time.Time {
		return time.Date(now.Year(), now.Month(), now.Day()-back, hour, 0, 0, 0, now.Location())
	}
	in["start"] = at(back, partBegins["night"]).Format(layout)
	if end := at(back-1, nightOver); end.Before(now) {
		in["end"] = end.Format(layout)
	}
	return in
}
