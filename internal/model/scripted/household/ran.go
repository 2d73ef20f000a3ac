package household

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ranThen reports whether the question is whether one ran in a period that it names.
func ranThen(q *ask, flat string) bool {
	did := re(`\bwhat did (?:all )?(?:the |our |my )?(?:automations|routines|scripts|scenes) do\b`).MatchString(flat)
	return q.when.tool != "" && q.when.tool != "now" && (did || routineRan.MatchString(flat) && !routineDoes.MatchString(flat))
}

// runs returns when routines ran in the period of the question, by id. One logbook has them all.
func (u *turn) runs(q *ask, es []entity) (map[string][]time.Time, []Call) {
	c := Call{Tool: logbook, Input: map[string]any{"entities": idsOf(es[:min(len(es), 50)]), "start": u.span(q.when, "-72h"), "limit": 200}}
	r, ok := u.got(c)
	if !ok {
		return nil, []Call{c}
	}
	ran := map[string][]time.Time{}
	for _, row := range bookOf(r.Output) {
		if !row.at.IsZero() && (strings.HasPrefix(row.state, "triggered") || strings.HasPrefix(row.state, "started")) {
			ran[row.id] = append(ran[row.id], row.at)
		}
	}
	return ran, nil
}

// ranAtAll says which routines of the house ran in the period of the question.
func (u *turn) ranAtAll(q *ask, flat string, all []entity, a *answered) []Call {
	domain := orText(theDomain(flat), "automation")
	if len(all) == 0 {
		a.say("There is no %s in this house.", domain)
		return nil
	}
	ran, calls := u.runs(q, all)
	if len(calls) > 0 {
		return calls
	}
	var lines []string
	for _, e := range all {
		if ts := ran[e.id]; len(ts) > 0 {
			a.cite(e.id, e.name)
			often := ""
			if len(ts) > 1 {
				often = times(len(ts)) + ", "
			}
			lines = append(lines, fmt.Sprintf("- %s: %s%s", e.name, often, u.know.clocks(ts[:min(len(ts), 10)])))
		}
	}
	yes := re(`^(?:and |so |but )*(?:did|has|have)\b`).MatchString(flat)
	switch {
	case len(lines) == 0 && yes:
		a.say("No: no %s ran %s.", domain, q.when.said)
	case len(lines) == 0:
		a.say("None: no %s ran %s.", domain, q.when.said)
	default:
		said := fmt.Sprintf("%s ran %s", count(len(lines))+" "+plural(len(lines), domain, domain+"s"), q.when.said)
		a.say("%s:\n\n%s", upper(map[bool]string{true: "yes, "}[yes]+said), strings.Join(lines, "\n"))
	}
	return nil
}

// brokeOff returns the last error that the log has of a routine itself: its name begins the message.
func (u *turn) brokeOff(e entity) (*fault, []Call) {
	c := Call{Tool: failures, Input: map[string]any{"query": e.name}}
	r, ok := u.got(c)
	if !ok {
		return nil, []Call{c}
	}
	fs := slices.DeleteFunc(faultsOf(r.Output), func(f fault) bool { return !strings.HasPrefix(f.text, e.name+": ") })
	if len(fs) == 0 {
		return nil, nil
	}
	last := slices.MaxFunc(fs, func(a, b fault) int { return a.last.Compare(b.last) })
	return &last, nil
}

// scriptError is how Home Assistant says where in a routine an error was, which tells a householder
// nothing.
const scriptError = `^Error executing script\. (?:Error for \w+ at pos \d+: )?`

// failedSaid says when a routine failed, and why.
func (u *turn) failedSaid(e entity, f *fault) string {
	why := re(scriptError).ReplaceAllString(strings.TrimPrefix(u.known(f.text), e.name+": "), "")
	return fmt.Sprintf("failed %s (%s)", u.know.when(f.last), lowerSentence(why))
}

// failedFor says which routine failed to act on a thing, by the log; or "".
func (u *turn) failedFor(e entity, since string) (string, []Call) {
	c := Call{Tool: failures, Input: map[string]any{"entity": e.id, "since": since}}
	r, ok := u.got(c)
	if !ok {
		return "", []Call{c}
	}
	for _, f := range faultsOf(r.Output) {
		if name, why, ok := strings.Cut(f.text, ": Error executing script."); ok && why != "" {
			return fmt.Sprintf("\"%s\" %s.", name, u.failedSaid(entity{name: name}, &f)), nil
		}
	}
	return "", nil
}

// lastRun says when one last ran, or "".
func (u *turn) lastRun(e entity) string {
	last, _ := e.attrs["last_triggered"].(string)
	at, err := time.Parse(time.RFC3339, last)
	if err != nil {
		return ""
	}
	return u.know.when(at.In(u.know.now.Location()))
}
