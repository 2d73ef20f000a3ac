package customers_test

import (
	"testing"
	"time"

	"github.com/parley-server/parley/internal/model/scripted/customers"
)

// FuzzAnswer: whatever is asked, whatever the API and the skills say and whatever was answered
// before, a turn ends within some steps with something to say.
func FuzzAnswer(f *testing.F) {
	skill := "### `GET /api/leads`\n\nQuery:\n- `q` text: “x”\n- `status` list of texts, one of `new`, `won`\n- `min_score` integer\n- `owner_id` text\n- `city` text\n- `sort` text, one of `-score`, `score`\n- `fields` list, one of `id`, `name`\n" +
		"### `POST /api/leads`\n\nBody:\n- `name` text, needed\n- `owner_id` text\n- `score` integer\n### `GET /api/leads/summary`\n\nQuery:\n- as of `GET /api/leads`: `q`, `status`\n- `group_by` text, one of `city`, `owner_id`\n"
	one := `{"items":[{"id":"lead-1","name":"Ana"},{"id":"lead-2","name":"Ana B"}],"total":2,"sum_of":"value","id":"lead-1","name":"Ana"}`
	for _, q := range []string{
		"How many leads?", "and in Berlin?", "", "?", "the second one", "what is his", "mark it as won", "delete", "delete it", "create a lead", "create a lead , with", "note: x", "add a note to : y", "compare A and B", "who has the most leads",
		"sort them by", "set the score of Ana to ten", "set the score of Ana to 10", "assign Ana to me", "top 0 leads", "top 99999999999999999999 leads", "leads worth more than 9.9.9", "since May 40", "due before 2026-99-99", "\x00", "`lead-1`", "leads named \"", "unassign it", "rename it to",
	} {
		f.Add(q, skill, one, "1. **Ana** (`lead-1`)\n2. **B** (`lead-2`)")
		f.Add(q, "", `{"items":7,"total":"x"}`, "`lead-1`")
		f.Add(q, skill, "[]", "")
		f.Add(q+"\n\nWhat the user's page shows, as data:\n{\"id\":\"lead-1\"}", skill, "Denied: no", "x")
	}
	f.Fuzz(func(t *testing.T, question, skill, answer, before string) {
		turn := customers.Turn{
			Question: question, Tools: []string{"api_request", "Skill"}, Skills: []string{"leads", "companies", "projects", "notes", "users"}, Now: time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC),
			Earlier: []customers.Exchange{{Question: "Which leads are new?", Answer: before}},
		}
		for range 40 {
			r := customers.Answer(turn)
			if len(r.Calls) == 0 {
				if r.Say == "" {
					t.Fatalf("it says nothing to %q", question)
				}
				return
			}
			for _, c := range r.Calls {
				out := answer
				if c.Tool == "Skill" {
					out = skill
				}
				turn.Results = append(turn.Results, customers.Result{Tool: c.Tool, Input: c.Input, Output: out})
			}
		}
		t.Fatalf("the turn about %q does not end", question)
	})
}
