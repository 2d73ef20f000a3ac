package customers_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/model/scripted/customers"
)

// TestTimes: a time of a question is asked of the API as it is meant, also where something has not been done since.
func TestTimes(t *testing.T) {
	t.Parallel()
	skill := func(path, fields string) string {
		return "### `GET " + path + "`\n\nQuery:\n- `q` text\n- `status` list of texts, one of `new`, `contacted`, `won`\n" + fields + "- `created_from` day\n- `created_until` day\n- `fields` list, one of `id`, `name`\n"
	}
	skills := map[string]string{
		"leads":    skill("/api/leads", "- `last_contact_from` day\n- `last_contact_until` day\n"),
		"projects": skill("/api/projects", "- `due_from` day\n- `due_until` day\n"),
	}
	for question, want := range map[string]map[string]any{
		"Which projects are due before the end of the year?":         {"due_until": "2026-12-31"},
		"Which projects are due before the start of next month?":     {"due_until": "2026-05-31"},
		"Which projects are due after the end of this quarter?":      {"due_from": "2026-07-01"},
		"Which leads were added since the beginning of the year?":    {"created_from": "2026-01-01"},
		"Which leads have we not talked to since April?":             {"last_contact_until": "2026-03-31"},
		"Which leads haven't been contacted since last week?":        {"last_contact_until": "2026-05-10"},
		"Which leads were not contacted since the end of last week?": {"last_contact_until": "2026-05-16"},
		"Which leads have we talked to since April?":                 {"last_contact_from": "2026-04-01"},
	} {
		turn := customers.Turn{Question: question, Tools: []string{"api_request", "Skill"}, Skills: []string{"leads", "projects"}, Now: time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)}
		var asked map[string]any
		for range 10 {
			r := customers.Answer(turn)
			if len(r.Calls) == 0 {
				break
			}
			for _, c := range r.Calls {
				out := `{"items":[],"total":0}`
				if c.Tool == "Skill" {
					for _, v := range c.Input {
						if name, ok := v.(string); ok && skills[name] != "" {
							out = skills[name]
						}
					}
				} else if asked == nil {
					asked, _ = c.Input["query"].(map[string]any)
				}
				turn.Results = append(turn.Results, customers.Result{Tool: c.Tool, Input: c.Input, Output: out})
			}
		}
		for _, other := range []string{"fields", "page_size", "sort", "page"} {
			delete(asked, other)
		}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("%s: %s", question, diff)
		}
	}
}
