package notebook_test

import (
	"testing"
	"time"

	"github.com/parley-server/parley/internal/model/scripted/notebook"
)

// FuzzAnswer: whatever is asked, whatever the tools return and whatever was answered before, a turn
// ends within some steps with something to say.
func FuzzAnswer(f *testing.F) {
	out := "Shopping list.md\nJournal/2026-03-09.md\nHouse/electricity.csv"
	text := "     1\t# List\n     2\t\n     3\t- [ ] Milk\n     4\t| A | B |\n     5\t|---|---|\n     6\t| x | 2 |"
	for _, q := range []string{
		"What is on my shopping list?", "tick off !!!", "tick off milk", "undo", "add x to it", "I bought , and", "remove from list", "replace a with b everywhere", "rename the heading List to L",
		"summarise it", "how many in total?", "reply to : x", "post to LinkedIn: x", "look up on the web x", "read http://x", "create a note", "create a list: a, b", "journal: x", "the second one", "and ?", "which x are y", "what is open for x",
		"remind me to x y", "what's in the x folder", "notes about", "save that as a note", "\x00", "most", "show me the picture of x",
	} {
		f.Add(q, out, text, "I added Milk.\n\n`Shopping list.md`\n```diff\n - [ ] Butter\n+- [ ] Milk\n```")
		f.Add(q, "", "Failed: no", "`a.md` urn:li:share:1 http://x")
		f.Add(q, "a.csv:1:x\na.md:2:- [ ] y\n(3 more; use a narrower pattern or path)", "m,n\n1,2", "created `a.md`")
		f.Add(q, "<web-content-0>\nTitle: x\nURL: http://x\n\n1. a\n   http://x\n   b\n</web-content-0>", `The comments`+"\n"+`[{"comment_urn":"u","author":"","text":"t"}]`, "")
	}
	tools := []string{"Read", "Write", "Edit", "Glob", "Grep", "WebSearch", "WebFetch", "linkedin_post", "linkedin_read_comments", "linkedin_post_comment", "linkedin_reply_comment"}
	f.Fuzz(func(t *testing.T, question, listed, text, before string) {
		turn := notebook.Turn{
			Question: question, Tools: tools, Person: "petra", Now: time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC),
			Earlier: []notebook.Exchange{{Question: "When is it?", Answer: before}},
		}
		for range 40 {
			r := notebook.Answer(turn)
			if len(r.Calls) == 0 {
				if r.Say == "" {
					t.Fatalf("it says nothing to %q", question)
				}
				return
			}
			for _, c := range r.Calls {
				out := text
				if c.Tool == "Glob" || c.Tool == "Grep" {
					out = listed
				}
				turn.Results = append(turn.Results, notebook.Result{Tool: c.Tool, Input: c.Input, Output: out})
			}
		}
		t.Fatalf("the turn about %q does not end", question)
	})
}
