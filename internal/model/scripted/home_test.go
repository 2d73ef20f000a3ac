package scripted_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/scripted"
	"github.com/parley-server/parley/internal/model/scripted/household"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/homeassistant"
	"github.com/parley-server/parley/internal/tool/homeassistant"
)

const homeToken = "a-long-lived-token"

// house runs the home app's agent as the loop does, with the real tools over the simulated
// house, at a chosen hour. Actions are off, as by default.
type house struct {
	t       *testing.T
	model   *scripted.Model
	tools   *homeassistant.Toolset
	decls   []parley.ToolDecl
	history []parley.Message
	budgets parley.Budgets
	calls   int
	called  []string // in the last question
	system  string
	acts    bool // its calls are performed, as if a user allowed them
}

func homeModel(t *testing.T) *scripted.Model {
	t.Helper()
	raw, err := os.ReadFile("../../../apps/home/script.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m, err := scripted.New("scripted/home", raw, scripted.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// newHouse returns one house with the story of the night before. offered says whether the model
// has the tool that acts; a call of it is refused.
func newHouse(t *testing.T, now time.Time, offered bool, set ...func(*sim.Options)) *house {
	t.Helper()
	clock := func() time.Time { return now }
	so := sim.Options{Token: homeToken, Now: clock}
	for _, f := range set {
		f(&so)
	}
	at := sim.New(so)
	srv := httptest.NewServer(at)
	tools, err := homeassistant.New(homeassistant.Options{URL: srv.URL, Token: homeToken, Now: clock, AllowServices: []string{"*"}, Logger: slog.New(slog.DiscardHandler), Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tools.Close(); at.Close(); srv.Close() })
	h := &house{t: t, model: homeModel(t), tools: tools, budgets: homeBudgets(t)}
	all, err := tools.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if !d.Actuation || offered {
			h.decls = append(h.decls, d)
		}
	}
	h.decls = append(h.decls, parley.ToolDecl{Name: "AskUserQuestion"})
	return h
}

// homeBudgets returns the budgets of the running app.
func homeBudgets(t *testing.T) parley.Budgets {
	t.Helper()
	raw, err := os.ReadFile("../../../apps/home/app.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var app struct {
		Budgets struct {
			MaxSteps         int   `yaml:"maxSteps"`
			MaxToolCalls     int   `yaml:"maxToolCalls"`
			MaxTokensPerTurn int64 `yaml:"maxTokensPerTurn"`
		} `yaml:"budgets"`
	}
	if err := yaml.Load(raw, &app); err != nil {
		t.Fatal(err)
	}
	b := app.Budgets
	if b.MaxSteps == 0 || b.MaxToolCalls == 0 || b.MaxTokensPerTurn == 0 {
		t.Fatalf("the app has no budgets: %+v", b)
	}
	return parley.Budgets{MaxSteps: b.MaxSteps, MaxToolCalls: b.MaxToolCalls, MaxTokensPerTurn: b.MaxTokensPerTurn}
}

// forget begins a new session in the same house.
func (h *house) forget() { h.history = nil }

// ask runs one turn, within the app's budgets, and returns the answer without the hidden notes.
func (h *house) ask(question string) string {
	h.t.Helper()
	h.called = nil
	msgs := append(append([]parley.Message{}, h.history...), parley.Text(parley.RoleUser, question))
	tokens := int64(0)
	for range h.budgets.MaxSteps {
		rep, err := reply(h.t, h.model, seam.Request{Agent: "assistant", System: h.system, Messages: msgs, Tools: h.decls})
		if err != nil {
			h.t.Fatalf("%s: %v", question, err)
		}
		var results []parley.Part
		for i := range rep.Parts {
			p := &rep.Parts[i]
			if p.Type != parley.PartToolCall {
				continue
			}
			h.calls++
			p.Call = parley.CallID(fmt.Sprint("c", h.calls))
			h.called = append(h.called, p.Name+" "+string(p.Input))
			out, bad := h.run(p)
			results = append(results, parley.Part{Type: parley.PartToolResult, Call: p.Call, Name: p.Name, Text: out, IsError: bad})
		}
		if tokens += rep.Usage.InputTokens + rep.Usage.OutputTokens; tokens > h.budgets.MaxTokensPerTurn {
			h.t.Errorf("%s: the turn uses %d tokens, and %d are allowed: %v", question, tokens, h.budgets.MaxTokensPerTurn, h.called)
			return ""
		}
		if len(h.called) > h.budgets.MaxToolCalls {
			h.t.Errorf("%s: the turn makes %d calls, and %d are allowed: %v", question, len(h.called), h.budgets.MaxToolCalls, h.called)
			return ""
		}
		msgs = append(msgs, parley.Message{Role: parley.RoleAssistant, Parts: rep.Parts})
		if results == nil {
			answer, _, _ := strings.Cut(parley.PartsText(rep.Parts), "```parley\n")
			answer = strings.TrimSpace(answer)
			h.history = append(h.history, parley.Text(parley.RoleUser, question), parley.Text(parley.RoleAssistant, answer))
			return answer
		}
		msgs = append(msgs, parley.Message{Role: parley.RoleTool, Parts: results})
	}
	h.t.Errorf("%s: the turn does not end within its steps: %v", question, h.called)
	return ""
}

func (h *house) run(p *parley.Part) (out string, failed bool) {
	switch {
	case p.Name == homeassistant.CallService && !h.acts:
		return "Denied: This call is not allowed: actuation is off in this app (policy.allow_actuation)", true
	case p.Name == "AskUserQuestion":
		return "Denied: the user declined to answer", true
	}
	res, err := h.tools.Run(h.t.Context(), seam.Run{Call: p.Call, Name: p.Name, Input: p.Input, Progress: func(string) {}})
	switch {
	case err != nil:
		return "Failed: " + err.Error(), true
	case res.Outcome != parley.OutcomeOK:
		return "Failed: " + res.Output, true
	}
	return res.Output, false
}

// TestHomePromptFoldsEvidence: the prompt tells a provider's model to write the evidence in the
// form that the page folds. The scripted model writes that form too. The page's own test is
// beside web/src/ui/markdown.tsx.
func TestHomePromptFoldsEvidence(t *testing.T) {
	t.Parallel()
	prompt, err := os.ReadFile("../../../apps/home/prompts/assistant.md")
	if err != nil {
		t.Fatal(err)
	}
	const folded = "\n\n> " + household.Evidence + "\n>\n> - "
	answer := newHouse(t, hours[1], false).ask("Why did the bedroom lights flicker last night?")
	for name, text := range map[string]string{"the prompt": string(prompt), "the answer": answer} {
		if !strings.Contains(text, folded) {
			t.Errorf("%s lacks %q:\n%s", name, folded, text)
		}
	}
}

// hours are the hours of the tests. In the small hours, the night is not over; most questions
// are asked in the evening.
var hours = []time.Time{
	time.Date(2026, 11, 22, 1, 7, 20, 0, time.UTC),
	time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC),
	time.Date(2026, 11, 22, 22, 50, 0, 0, time.UTC),
}

// knownAtHome are questions that the model answers wrongly, with the reason.
var knownAtHome = map[string]string{
	"when did the heating kick in this morning": "the radiators are meant, and not the heat pump",
	"did Ana lock up when she left":             "who left is taken for a lock's name",
}

// TestHomeQuestions: the author of the first sheet knew the house but not the rules. The author
// of the rules wrote the second sheet before the rules. The others have later mistakes.
func TestHomeQuestions(t *testing.T) {
	t.Parallel()
	if len(knownAtHome) > 4 {
		t.Errorf("%d answers are known to be wrong", len(knownAtHome))
	}
	for _, now := range hours {
		for _, offered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s_offered_%t", now.Format("15h04"), offered), func(t *testing.T) {
				t.Parallel()
				h := newHouse(t, now, offered)
				same := func() *house { h.forget(); return h }
				homeQuestions(t, same, "home-first-twenty", "home-second-twenty", "home-more", "home-judged", "home-strangers")
			})
		}
	}
}

// TestHomeStories: other nights have other causes, and a night without a cause has none.
func TestHomeStories(t *testing.T) {
	t.Parallel()
	for story, want := range map[sim.Story]string{
		sim.StoryVoltageDip: `mains voltage dipped, each time when the heat pump compressor had just started`,
		sim.StoryZigbee:     `radio link was weak`,
		sim.StoryAutomation: `automation Bedroom night light did it, each time when bedroom motion`,
		sim.StoryQuiet:      `nothing unusual`,
	} {
		h := newHouse(t, hours[0], false, func(o *sim.Options) { o.Story = story })
		answer := h.ask("Why did the bedroom lights flicker last night?")
		if why := accepted(t, answer, []string{want}, nil); why != "" {
			t.Errorf("%s: %s\n%s", story, why, answer)
		}
		if story == sim.StoryZigbee {
			if answer := h.ask("Could it be the Zigbee?"); !strings.HasPrefix(answer, "Yes, that fits") {
				t.Errorf("it doubts its own finding: %s", answer)
			}
		}
	}
}

// TestHomeLastNight: whenever it is asked, the night that the house calls the last one has its
// story. Before five in the morning, the current night is not over.
func TestHomeLastNight(t *testing.T) {
	t.Parallel()
	for _, hour := range []int{0, 2, 3, 4, 5, 12, 19} {
		h := newHouse(t, time.Date(2026, 11, 23, hour, 20, 0, 0, time.UTC), false)
		answer := h.ask("Why did the bedroom lights flicker last night?")
		if why := accepted(t, answer, []string{"mains voltage dipped"}, nil); why != "" {
			t.Errorf("at %d:20: %s\n%s", hour, why, answer)
		}
	}
}

// TestHomeUsesFacts: the model uses the facts kept from earlier turns, in the form that the
// loop sends.
func TestHomeUsesFacts(t *testing.T) {
	t.Parallel()
	h := newHouse(t, hours[1], false)
	h.system = "You are the assistant.\n\n## Pinned\nWiring: the bedroom is on circuit B\n\n## Facts from earlier in this session\n- the boiler man comes on Friday (the user)\n"
	for ask, want := range map[string]string{
		"When does the boiler man come?":                                          `You told me: the boiler man comes on Friday\.$`,
		"How warm is the bedroom?":                                                `The bedroom has 1[789]`,
		"On which circuit is the bedroom?":                                        `circuit B`,
		"Is the heat pump's compressor running?":                                  `^(Yes|No): the heat pump compressor`,
		"What is the temperature of the bedroom, and is the bedroom window open?": `The bedroom has .*\n\nNo: the bedroom window`,
	} {
		h.forget()
		if answer := h.ask(ask); !regexp.MustCompile(want).MatchString(answer) {
			t.Errorf("%s: %s\nwant %s", ask, answer, want)
		}
	}
}

// TestHomeConversations: follow-ups refer to earlier answers and actions. Each conversation has
// its own house.
func TestHomeConversations(t *testing.T) {
	t.Parallel()
	evening := time.Date(2026, 11, 22, 21, 20, 0, 0, time.UTC)
	homeQuestions(t, func() *house {
		h := newHouse(t, evening, true)
		h.acts = true
		return h
	}, "home-conversations")
}

// TestHomeFresh: sheets by people who had read what is in the house and no rule. Each has its hour,
// and each conversation its own house. The last four have likes of the questions that failed.
func TestHomeFresh(t *testing.T) {
	t.Parallel()
	for sheet, at := range map[string]time.Duration{"home-fresh-a": 21*time.Hour + 20*time.Minute, "home-fresh-b": 14*time.Hour + 10*time.Minute, "home-fresh-c": time.Hour + 22*time.Minute, "home-fresh-d": 19*time.Hour + 6*time.Minute, "home-mended": 21*time.Hour + 50*time.Minute, "home-judged-second": 21*time.Hour + 50*time.Minute} {
		homeQuestions(t, func() *house {
			h := newHouse(t, time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC).Add(at), true)
			h.acts = !slices.Contains([]string{"home-fresh-c", "home-mended", "home-judged-second"}, sheet) // asked where nothing may be changed, as by default
			return h
		}, sheet)
	}
}

func homeQuestions(t *testing.T, begin func() *house, sheets ...string) {
	openers, openersRight, asks, right := 0, 0, 0, 0
	for _, name := range sheets {
		raw, err := os.ReadFile("testdata/questions/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var sh sheet
		if err := yaml.Load(raw, &sh); err != nil {
			t.Fatal(err)
		}
		for _, conversation := range sh[0].Conversations {
			h := begin()
			for i, q := range conversation {
				answer := h.ask(q.Ask)
				why := accepted(t, answer, q.Want, q.Avoid)
				if m := machine.FindString(answer); m != "" {
					why = fmt.Sprintf("it has %q, which no householder reads", m)
				}
				asks++
				if i == 0 {
					openers++
				}
				if why == "" {
					right++
					if i == 0 {
						openersRight++
					}
				}
				switch reason, is := knownAtHome[q.Ask]; {
				case why != "" && !is:
					t.Errorf("%s: %s\n%s", q.Ask, why, answer)
				case why == "" && is:
					t.Errorf("%s: is right now; it was known to fail: %s", q.Ask, reason)
				}
			}
		}
	}
	t.Logf("openers %d of %d, all %d of %d", openersRight, openers, right, asks)
}

// machine matches text that is for programs, not for people.
var machine = regexp.MustCompile(`\b[a-z_]+\.[a-z0-9_]*_[a-z0-9_]+\b|\d{4}-\d\d-\d\dT|\x60\x60`)
