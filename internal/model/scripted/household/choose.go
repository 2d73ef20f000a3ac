package household

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// maxOptions is the number of options in one question.
const maxOptions = 4

// which asks the person which of the targets es is meant; all are the targets of the
// wish, also those for which there is nothing to do.
func (u *turn) which(q *ask, es, all []entity) Call {
	ask := fmt.Sprintf("Which one shall I %s?", q.wish())
	if len(es) > maxOptions {
		ask = fmt.Sprintf("%d things fit, of which these are the first four. %s", len(es), ask)
	}
	var options []any
	for _, e := range es[:min(len(es), maxOptions)] {
		options = append(options, map[string]any{"label": labelOf(e, all), "description": cut(e.told(), 395) + " now"})
	}
	return Call{Tool: askUser, Input: map[string]any{"questions": []any{map[string]any{"question": ask, "header": "Which one", "multiSelect": true, "options": options}}}}
}

// labelOf is the name of e as an option of a question. The room is added to tell
// things of one name apart, and the id only if that is not enough.
func labelOf(e entity, all []entity) string {
	alike := func(same func(o entity) bool) bool {
		return slices.ContainsFunc(all, func(o entity) bool { return o.id != e.id && o.name == e.name && same(o) })
	}
	switch {
	case e.name == "" || alike(func(o entity) bool { return o.area == e.area }):
		return cut(e.id, 90)
	case alike(func(entity) bool { return true }) && e.area != "":
		return cut(e.name+", "+e.area, 90)
	}
	return cut(e.name, 90)
}

// choices returns the labels that a person chose, and any other words of the answer.
func choices(output string) (labels []string, words string) {
	var in struct {
		Questions []struct {
			Question string `json:"question"`
			Options  []struct {
				Label string `json:"label"`
			} `json:"options"`
		} `json:"questions"`
		Answers map[string]string `json:"answers"`
	}
	if json.Unmarshal([]byte(output), &in) != nil {
		return nil, ""
	}
	for _, q := range in.Questions {
		answer, ok := in.Answers[q.Question]
		if !ok {
			continue
		}
		// A label may contain another label, or the comma that separates two. So the
		// longest labels are looked for first.
		byLength := slices.Clone(q.Options)
		slices.SortStableFunc(byLength, func(a, b struct {
			Label string `json:"label"`
		},
		) int {
			return len(b.Label) - len(a.Label)
		})
		rest := ", " + answer + ", "
		chosen := map[string]bool{}
		for _, o := range byLength {
			if before, after, ok := strings.Cut(rest, ", "+o.Label+", "); ok {
				chosen[o.Label], rest = true, before+", "+after
			}
		}
		words += strings.Trim(rest, ", ")
		for _, o := range q.Options {
			if chosen[o.Label] {
				labels = append(labels, o.Label)
			}
		}
	}
	return labels, words
}

// afterAsking acts on the things chosen. Any other words mean that nothing is done, even
// beside a choice: they may take it back.
func (u *turn) afterAsking(q *ask, r Result, a *answered) []Call {
	labels, said := choices(r.Output)
	switch {
	case r.Failed || len(labels) == 0 && said == "":
		a.say("Nothing was changed, because nothing was chosen.")
		if _, words, ok := strings.Cut(r.Output, "and said: "); ok && r.Failed {
			a.say("You said:\n\n%s", quote(words))
		}
		return nil
	case said != "":
		a.say("Nothing was changed. I do not know what to do by this answer:\n\n%s\n\nName what is meant, and I do that.", quote(said))
		return nil
	}
	all, calls := u.targets(q)
	if len(calls) > 0 {
		return calls
	}
	var es []entity
	for _, e := range all {
		if slices.Contains(labels, labelOf(e, all)) {
			es = append(es, e)
		}
	}
	if len(es) != len(labels) {
		a.say("Nothing was changed: what you chose is not in the house any more.")
		return nil
	}
	return q.deed.calls(es)
}
