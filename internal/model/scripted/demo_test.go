package scripted_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/scripted"
	"github.com/parley-server/parley/internal/records"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/notion"
	"github.com/parley-server/parley/internal/tool/slack"
)

// stage runs the chaos app's agents as the loop does, with the real tools over real files, and
// without an engine.
type stage struct {
	t       *testing.T
	model   *scripted.Model
	tools   map[string]seam.Toolset
	history []parley.Message
	calls   int
	last    string // the synthesizer's last text
	about   string // what the prompt says of the turn, such as its time
}

// chaos is the app's model. It is loaded once, because that takes as long as a hundred answers.
var chaos = sync.OnceValues(func() (*scripted.Model, error) {
	raw, err := os.ReadFile("../../../apps/chaos/script.yaml")
	if err != nil {
		return nil, err
	}
	return scripted.New("scripted/chaos", raw, scripted.Options{})
})

func newStage(t *testing.T, data string) *stage {
	t.Helper()
	m, err := chaos()
	if err != nil {
		t.Fatal(err)
	}
	f := records.Folder{FS: os.DirFS(data), Name: "data"}
	return &stage{t: t, model: m, tools: map[string]seam.Toolset{notion.Tool: notion.New(f), slack.Tool: slack.New(f)}}
}

var (
	handoffs = map[string]string{"interface": "scavenger", "scavenger": "synthesizer", "synthesizer": "interface"}
	offered  = []parley.ToolDecl{{Name: notion.Tool}, {Name: slack.Tool}}
)

func reply(t *testing.T, m seam.Model, r seam.Request) (seam.Reply, error) {
	t.Helper()
	var text strings.Builder
	for d, err := range m.Stream(t.Context(), r) {
		if err != nil {
			return seam.Reply{}, err
		}
		text.WriteString(d.Text)
		if d.Reply != nil {
			if got := parley.PartsText(d.Reply.Parts); got != text.String() {
				t.Errorf("streamed %q, replied %q", text.String(), got)
			}
			return *d.Reply, nil
		}
	}
	t.Fatal("the stream ended without a reply")
	return seam.Reply{}, nil
}

// ask runs one turn and returns the agents in order, the queries, and the answer.
func (s *stage) ask(question string) (agents, queries []string, answer string) {
	s.t.Helper()
	agent := "interface"
	branches := map[string][]parley.Message{}
	for range 12 {
		agents = append(agents, agent)
		if branches[agent] == nil {
			if agent == "interface" {
				branches[agent] = append(branches[agent], s.history...)
			}
			branches[agent] = append(branches[agent], parley.Text(parley.RoleUser, question))
			if s.about != "" {
				say(branches, agent, parley.Part{Type: parley.PartText, Text: s.about})
			}
		}
		if in := branches["handed"]; in != nil {
			say(branches, agent, in[0].Parts[0])
			delete(branches, "handed")
		}
		req := seam.Request{Agent: agent, Messages: branches[agent], Handoffs: []seam.Handoff{{Agent: handoffs[agent]}}}
		if agent == "scavenger" {
			req.Tools = offered
		}
		rep, err := reply(s.t, s.model, req)
		if err != nil {
			s.t.Fatal(err)
		}
		next, handed := s.perform(branches, agent, rep, &queries)
		if next == "" && handed == "" {
			answer = parley.PartsText(rep.Parts)
			s.history = append(s.history, parley.Text(parley.RoleUser, question), parley.Text(parley.RoleAssistant, answer))
			return agents, queries, answer
		}
		if next != "" {
			branches["handed"] = []parley.Message{parley.Text(parley.RoleUser, handed)}
			agent = next
		}
	}
	s.t.Fatalf("the turn does not end: %v", agents)
	return nil, nil, ""
}

func say(branches map[string][]parley.Message, agent string, p parley.Part) {
	b := branches[agent]
	if n := len(b); b[n-1].Role == parley.RoleUser {
		b[n-1].Parts = append(b[n-1].Parts, p)
		return
	}
	branches[agent] = append(b, parley.Message{Role: parley.RoleUser, Parts: []parley.Part{p}})
}

// perform runs a reply's calls and writes the handover.
func (s *stage) perform(branches map[string][]parley.Message, agent string, rep seam.Reply, queries *[]string) (next, handed string) {
	var results []parley.Part
	text := ""
	for i := range rep.Parts {
		p := &rep.Parts[i]
		switch p.Type {
		case parley.PartText:
			text = p.Text
			if agent == "synthesizer" {
				s.last = text
			}
		case parley.PartToolCall:
			s.calls++
			p.Call = parley.CallID(fmt.Sprint("c", s.calls))
			res, err := s.tools[p.Name].Run(s.t.Context(), seam.Run{Name: p.Name, Input: p.Input})
			if err != nil {
				s.t.Fatal(err)
			}
			if res.Outcome != parley.OutcomeOK {
				res.Output = "Failed: " + res.Output
			}
			*queries = append(*queries, p.Name+" "+string(p.Input))
			results = append(results, parley.Part{Type: parley.PartToolResult, Call: p.Call, Name: p.Name, Text: res.Output, IsError: res.Outcome != parley.OutcomeOK})
		case parley.PartHandoff:
			s.calls++
			p.Call = parley.CallID(fmt.Sprint("c", s.calls))
			next = p.Name
			results = append(results, parley.Part{Type: parley.PartToolResult, Call: p.Call, Name: p.Name, Text: "control passed to " + p.Name})
			handed = "[handed over by " + agent + "]"
			if p.Text != "" {
				handed += "\nreason: " + p.Text
			}
			calls := map[parley.CallID]parley.Part{}
			for _, m := range branches[agent] {
				for _, q := range m.Parts {
					if q.Type == parley.PartToolCall {
						calls[q.Call] = q
					}
					if c, ok := calls[q.Call]; ok && q.Type == parley.PartToolResult {
						handed += "\n[result of " + q.Name + " " + string(c.Input) + "]\n" + q.Text
					}
				}
			}
			if text != "" {
				handed += "\n[text of " + agent + "]\n" + text
			}
		}
	}
	branches[agent] = append(branches[agent], parley.Message{Role: parley.RoleAssistant, Parts: rep.Parts})
	if results != nil {
		branches[agent] = append(branches[agent], parley.Message{Role: parley.RoleTool, Parts: results})
	}
	if next == "" && results != nil {
		return "", " " // only tools: the same agent continues
	}
	return next, handed
}

func data(t *testing.T, notionJSON, slackJSON string) string {
	t.Helper()
	dir := t.TempDir()
	for name, body := range map[string]string{"mock_notion.json": notionJSON, "mock_slack.json": slackJSON} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const question = "I'm starting on the login system. What's the final spec?"

var whole = []string{"interface", "scavenger", "scavenger", "synthesizer", "interface"}

// TestTheDemo is the story of the demo: a question that is looked up and a follow-up from
// memory.
func TestTheDemo(t *testing.T) {
	t.Parallel()
	s := newStage(t, "../../../apps/chaos/data")
	agents, queries, answer := s.ask(question)
	if diff := cmp.Diff(whole, agents); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`read_notion_mock {"query":"login system"}`, `read_slack_mock {"query":"login system auth"}`}, queries); diff != "" {
		t.Errorf("queries (-want +got):\n%s", diff)
	}
	want := `**Go with Google OAuth only.** Notion says Email/Password (page "MVP Authentication Specs", 2026-01-15); the CEO's Slack message of 2026-02-27 overrides it: Google OAuth only.

> Hey team, scrap the email/password login for the MVP. It's taking too long to secure. Let's just drop in Google OAuth and call it a day.
>
> — Slack, CEO in #engineering, 2026-02-27

| Other sources | Date | Says | Weight |
| --- | --- | --- | --- |
| Notion, MVP Authentication Specs | 2026-01-15 | For the MVP, we will implement a standard Email and Password authentication system. Do not use third-party providers yet to save time. | overridden |

**Recommendation:** Google OAuth. The Notion page "MVP Authentication Specs" is out of date and should be corrected.`
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	summary := `Source of Truth: Google OAuth (Slack, CEO in #engineering, 2026-02-27)

Conflict: the Notion page "MVP Authentication Specs" of 2026-01-15 says Email/Password; the CEO's Slack message of 2026-02-27 is newer and overrides it.

Newest source:
[Slack | #engineering | CEO | 2026-02-27] Hey team, scrap the email/password login for the MVP. It's taking too long to secure. Let's just drop in Google OAuth and call it a day.

Other sources:
[Notion | MVP Authentication Specs | Last updated: 2026-01-15] For the MVP, we will implement a standard Email and Password authentication system. Do not use third-party providers yet to save time.`
	if diff := cmp.Diff(summary, s.last); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}

	agents, _, answer = s.ask("What library should I use for that?")
	if diff := cmp.Diff([]string{"interface"}, agents); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
	want = "For **Google OAuth**, which we settled on above, I recommend `react-oauth/google` in the React front end and `authlib` in the Python back end."
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// TestMemoryOrSearch: after the first question, which questions are answered from memory, and
// which are looked up.
func TestMemoryOrSearch(t *testing.T) {
	t.Parallel()
	for q, want := range map[string]struct {
		search bool
		says   string
	}{
		"Which package is best for it?":                     {false, "`authlib`"},
		"Why?":                                              {false, "> Hey team, scrap"},
		"Who decided that?":                                 {false, "CEO in #engineering, 2026-02-27"},
		"Can you summarise that?":                           {false, "**Google OAuth.**"},
		"So is email/password out for the login?":           {false, "Google OAuth"},
		"Thanks!":                                           {false, "You are welcome"},
		"Has anything changed about the login?":             {true, "Google OAuth"},
		"Which library should I use for payments?":          {true, "I found nothing about **payments**"},
		"Does it need two-factor codes?":                    {true, "I found nothing about **two-factor codes**"},
		"Now the database: what's the latest decision?":     {true, "I found nothing about **database** in Notion or Slack"},
		"Is password login still what we want for the MVP?": {true, "Google OAuth only"},
	} {
		t.Run(q, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "../../../apps/chaos/data")
			s.ask(question)
			agents, _, answer := s.ask(q)
			if got := len(agents) > 1; got != want.search || !strings.Contains(answer, want.says) {
				t.Errorf("agents %v, answer\n%s\nwant search %v and %q", agents, answer, want.search, want.says)
			}
		})
	}
}

func TestTheFirstMessage(t *testing.T) {
	t.Parallel()
	for q, want := range map[string]struct {
		search bool
		says   string
	}{
		"hi":                                  {false, "I am ChaosContext."},
		"What can you do?":                    {false, "I am ChaosContext."},
		"What library should I use for that?": {false, "Nothing has been settled"},
		"What's the final spec?":              {true, "MVP Authentication Specs"},
		"Which auth do we use?":               {true, "**Google OAuth.**"},
		"??":                                  {false, "I am ChaosContext."},
		"语言":                                  {false, "English"},
	} {
		agents, _, answer := newStage(t, "../../../apps/chaos/data").ask(q)
		if got := len(agents) > 1; got != want.search || !strings.Contains(answer, want.says) {
			t.Errorf("%s: agents %v, answer\n%s", q, agents, answer)
		}
	}
}

// TestOtherData: with other questions and other data, the newest record wins, the conflict is
// named, and the source is quoted.
func TestOtherData(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		notion, slack, question string
		want                    []string // parts of the answer
		not                     []string
	}{
		"Notion is newer, among what has little to do with it": {
			`{"docs":[{"title":"Storage decision","last_updated":"2026-03-05","content":"After the load test we moved from MongoDB to PostgreSQL for everything. Do not use MySQL."},{"title":"Lunch","last_updated":"2026-04-01","content":"The canteen has a database of recipes."}]}`,
			`{"messages":[{"channel":"#backend","user":"Ana","date":"2026-02-10","text":"Let's use MongoDB for the database, it is quick."},{"channel":"#random","user":"Ben","date":"2026-05-01","text":"Which movie do we use for Friday?"}]}`,
			"Which database do we use?",
			[]string{"**PostgreSQL.** Slack says MongoDB (Ana in #backend, 2026-02-10); the Notion page \"Storage decision\" of 2026-03-05 overrides it", "> After the load test we moved", "**Recommendation:** PostgreSQL.\n"},
			[]string{"canteen", "movie", "out of date"},
		},
		"a day that moved": {
			`{"docs":[{"title":"Launch plan","last_updated":"2026-01-10","content":"The public launch is on March 3."}]}`,
			`{"messages":[{"channel":"#launch","user":"PM","date":"2026-02-20","text":"Heads up: launch moved to March 24, legal needs more time."}]}`,
			"When is the launch?",
			[]string{"the PM's Slack message of 2026-02-20", `Notion says "The public launch is on March 3" (page "Launch plan", 2026-01-10)`, "overrides it", "> Heads up: launch moved to March 24"},
			nil,
		},
		"a price": {
			`{"docs":[{"title":"Pricing","last_updated":"2026-05-10","content":"The Pro plan costs $12."}]}`,
			`{"messages":[{"channel":"#sales","user":"Eve","date":"2026-02-20","text":"Pro costs $10 for the beta."}]}`,
			"What does Pro cost?",
			[]string{`the Notion page "Pricing" of 2026-05-10 overrides it`, "> The Pro plan costs $12."},
			nil,
		},
		"sources that agree": {
			`{"docs":[{"title":"Button styles","last_updated":"2026-01-10","content":"Primary buttons are orange."}]}`,
			`{"messages":[{"channel":"#design","user":"Cleo","date":"2026-02-20","text":"Reminder: primary buttons are orange, with white labels."}]}`,
			"What colour are the primary buttons?",
			[]string{"The Notion page \"Button styles\" of 2026-01-10 says the same.", "> Reminder: primary buttons", "go by Cleo's Slack message of 2026-02-20"},
			[]string{"overrides"},
		},
		"a technology that the script does not know": {
			`{"docs":[{"title":"Infra","last_updated":"2026-01-10","content":"We provision everything with Terraform."}]}`,
			`{"messages":[{"channel":"#infra","user":"Dan","date":"2026-02-20","text":"We provision with Pulumi instead of Terraform from now on."}]}`,
			"How do we provision?",
			[]string{"**Pulumi.** Notion says \"We provision everything with Terraform\"", "Dan's Slack message of 2026-02-20 overrides it"},
			nil,
		},
		"three messages of one source": {
			`{"docs":[]}`,
			`{"messages":[{"channel":"#pay","user":"Dan","date":"2026-02-20","text":"Payments: PayPal."},{"channel":"#pay","user":"Eve","date":"2026-04-20","text":"Payments: we go with Adyen, not Stripe."},{"channel":"#pay","user":"Dan","date":"2026-03-20","text":"Payments: Stripe, PayPal is out."}]}`,
			"Which payments provider?",
			[]string{"**Adyen.**", "overrides Stripe (Dan's Slack message of 2026-03-20) and PayPal (Dan's Slack message of 2026-02-20)"},
			nil,
		},
		"a long page and a mark that tables use": {
			`{"docs":[{"title":"Storage | v2","last_updated":"2026-03-01","content":"` + strings.Repeat("Many words about nothing in particular. ", 100) + `The database is PostgreSQL. ` + strings.Repeat("More of the same. ", 100) + `"}]}`,
			`{"messages":[{"channel":"#db","user":"Dan","date":"2026-02-20","text":"database: MySQL | for now"}]}`, "Which database?",
			[]string{"**PostgreSQL.** Slack says MySQL", "> — Notion, Storage | v2, 2026-03-01", `| Slack, Dan in #db | 2026-02-20 | database: MySQL \| for now | overridden |`, "> … The database is PostgreSQL. …\n"},
			[]string{"Many words"},
		},
		"one source only": {
			`{"docs":[]}`, `{"messages":[{"channel":"#pay","user":"Dan","date":"2026-02-20","text":"Use Stripe for payments."}]}`, "Which payments provider?",
			[]string{"**Stripe.** That is Dan's Slack message of 2026-02-20, the only source on this.", "> Use Stripe for payments."},
			[]string{"| Source |"},
		},
		"one file is broken": {
			`{"docs":[{"title":"x","last_updated":"2026-03-10"}]}`, `{"messages":[{"channel":"#pay","user":"Dan","date":"2026-02-20","text":"Use Stripe for payments."}]}`, "Which payments provider?",
			[]string{"**Stripe.**", "One source could not be read, so this may not be all: `Failed: data/mock_notion.json:1:10: docs[0] has no \"content\"`"},
			[]string{"only source"}, // the other could not be read
		},
		"both files are broken": {
			`{`, `[]`, "Which payments provider?",
			[]string{"I could not look this up", "data/mock_notion.json:1:", "data/mock_slack.json:1:1: is a list"},
			nil,
		},
		"nothing is found": {
			`{"docs":[]}`, `{"messages":[]}`, "What about the zeppelin?",
			[]string{"I found nothing about **zeppelin** in Notion or Slack", "Try the words"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agents, _, answer := newStage(t, data(t, c.notion, c.slack)).ask(c.question)
			// The Scavenger may search twice.
			want, got := slices.Compact(slices.Clone(whole)), slices.Compact(agents)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("agents (-want +got):\n%s", diff)
			}
			for _, w := range c.want {
				if !strings.Contains(answer+"\n", w) {
					t.Errorf("got\n%s\nwant %q", answer, w)
				}
			}
			for _, w := range c.not {
				if strings.Contains(answer, w) {
					t.Errorf("got\n%s\nwant no %q", answer, w)
				}
			}
		})
	}
}
