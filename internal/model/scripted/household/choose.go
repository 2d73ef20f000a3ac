package household

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxOptions is the number of options in one question.
const maxOptions = 4

// which asks the person which of several things is meant.
func (u *turn) which(q *ask, es []entity) Call {
	ask := fmt.Sprintf("Which one shall I %s?", q.wish())
	if len(es) > maxOptions {
		ask = fmt.Sprintf("%d things fit, of which these are the first four. %s", len(es), ask)
	}
	var options []any
	for _, e := range es[:min(len(es), maxOptions)] {
		label := e.name
		if slices.ContainsFunc(es, func(o entity) bool { return o.id != e.id && o.name == e.name }) || label == "" {
			label = e.id
		}
		options = append(options, map[string]any{"label": cut(label, 90), "description": cut(e.told()+" now ("+e.id, 399) + ")"})
	}
	return Call{askUser, map[string]any{"questions": []any{map[string]any{"question": ask, "header": "Which one", "multiSelect": true, "options": options}}}}
}

var chosenID = regexp.MustCompile(` now \((\S+)\)$`)

// choices reads the options that a person chose, and any other words of the answer.
func choices(output string) (ids []string, words string) {
	var in struct {
		Questions []struct {
			Question string `json:"question"`
			Options  []struct {
				Label       string `json:"label"`
				Description string `json:"description"`
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
			Label       string `json:"label"`
			Description string `json:"description"`
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
			if m := chosenID.FindStringSubmatch(o.Description); chosen[o.Label] && m != nil {
				ids = append(ids, m[1])
			}
		}
	}
	return ids, words
}

// afterAsking acts on the things chosen. Any other words mean that nothing is done, even
// beside a choice: they may take it back.
func (u *turn) afterAsking(q *ask, r Result, a *answered) []Call {
	ids, said := choices(r.Output)
	switch {
	case r.Failed || len(ids) == 0 && said == "":
		a.say("Nothing was changed, because nothing was chosen.")
		if _, words, ok := strings.Cut(r.Output, "and said: "); ok && r.Failed {
			a.say("You said:\n\n%s", quote(words))
		}
		return nil
	case said != "":
		a.say("Nothing was changed. I do not know what to do by this answer:\n\n%s\n\nName what is meant, and I do that.", quote(said))
		return nil
	}
	var es []entity
	for _, id := range ids {
		es = append(es, entity{id: id})
	}
	return q.deed.calls(es)
}
