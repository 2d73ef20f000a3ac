package loop

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/runtime/runtimetest"
	"github.com/parley-server/parley/internal/seam"
)

// show writes messages as text, one part a line, without the note about the turn.
func show(ms []parley.Message) string {
	var b strings.Builder
	for _, m := range ms {
		b.WriteString("# " + string(m.Role) + "\n")
		for _, p := range m.Parts {
			switch p.Type {
			case parley.PartText:
				if strings.HasPrefix(p.Text, aboutTurn) {
					continue
				}
				b.WriteString(p.Text)
			case parley.PartToolCall:
				b.WriteString("-> " + string(p.Call) + " " + p.Name + " " + string(p.Input))
			case parley.PartHandoff:
				b.WriteString("=> " + string(p.Call) + " " + p.Name + " " + p.Text)
			case parley.PartToolResult:
				b.WriteString("<- " + string(p.Call) + " ")
				if p.IsError {
					b.WriteString("! ")
				}
				b.WriteString(p.Text)
			default:
				b.WriteString("(" + string(p.Type) + ")")
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func request(t *testing.T, g given, s *parley.Session) callModel {
	t.Helper()
	acts := next(g, s)
	if len(acts) == 1 {
		if c, ok := acts[0].(callModel); ok {
			if err := runtimetest.Validate(c.Request.Messages); err != nil {
				t.Errorf("%v:\n%s", err, show(c.Request.Messages))
			}
			return c
		}
	}
	t.Fatalf("got %v, want a model call", lines(acts))
	return callModel{}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	front := parley.AgentStarted{Name: "front"}
	resolved := func(choice string) []any {
		return join(asked(parley.Budgets{}), front, says("front", "c", tool("w", "add", "{}")),
			parley.ToolStarted{Call: "w", Name: "add", Input: []byte("{}"), Effect: parley.EffectWrite},
			parley.ToolEnded{ToolResult: parley.ToolResult{Call: "w", Outcome: parley.OutcomeUnknown, Output: "timed out"}},
			parley.InteractionOpened{Interaction: parley.Interaction{ID: "i", Kind: parley.KindUnknown, Call: "w"}},
			parley.InteractionAnswered{ID: "i", Answer: parley.Answer{Choice: choice}})
	}
	tests := map[string]struct {
		events []any
		want   string
	}{
		"only the question": {join(asked(parley.Budgets{}), front), "# user\nWhat is the spec?\n"},
		"each call has one result": {
			join(asked(parley.Budgets{}), front, says("front", "c", text("I look."), tool("a", "look", "{}"), tool("b", "look", `{"p":1}`)), ended("a", "A"),
				parley.ToolEnded{ToolResult: parley.ToolResult{Call: "b", Outcome: parley.OutcomeError, Error: &parley.ErrorInfo{Message: "no such page"}}}),
			"# user\nWhat is the spec?\n# assistant\nI look.\n-> a look {}\n-> b look {\"p\":1}\n# tool\n<- a A\n<- b ! Failed: no such page\n",
		},
		"denied, cancelled and without output": {
			join(asked(parley.Budgets{}), front, says("front", "c", tool("a", "look", "{}"), tool("b", "add", "{}"), tool("d", "look", "{}")), ended("a", ""),
				parley.ToolEnded{ToolResult: parley.ToolResult{Call: "b", Outcome: parley.OutcomeDenied, Output: "not today"}},
				parley.ToolEnded{ToolResult: parley.ToolResult{Call: "d", Outcome: parley.OutcomeCancelled}}),
			"# user\nWhat is the spec?\n# assistant\n-> a look {}\n-> b add {}\n-> d look {}\n# tool\n" +
				"<- a (no output)\n<- b ! Denied: not today\n<- d ! The call was cancelled and had no effect.\n",
		},
		"an unknown outcome that a person cleared up": {
			resolved(parley.ChoiceHappened),
			"# user\nWhat is the spec?\n# assistant\n-> w add {}\n# tool\n" +
				"<- w ! The answer of this call was lost, but a person has confirmed that it took effect. Do not repeat it.\n",
		},
		"one that nobody cleared up, or that nobody was asked about in time": {
			resolved(parley.ChoiceLeave),
			"# user\nWhat is the spec?\n# assistant\n-> w add {}\n# tool\n" +
				"<- w ! It is unknown whether this call took effect, and nobody has found out. Do not repeat it; tell the user.\n",
		},
		"one that was done again": {
			join(resolved(parley.ChoiceAgain), by("", parley.ToolRequested{Call: "w2", Name: "add", Input: []byte("{}"), Redo: "w"}), ended("w2", "added")),
			"# user\nWhat is the spec?\n# assistant\n-> w add {}\n# tool\n<- w added\n",
		},
		"an input that a person changed": {
			join(asked(parley.Budgets{}), front, says("front", "c", tool("w", "add", `{"n":1}`)),
				parley.ToolStarted{Call: "w", Name: "add", Input: []byte(`{"n": 2}`), Effect: parley.EffectWrite}, ended("w", "added")),
			"# user\nWhat is the spec?\n# assistant\n-> w add {\"n\":1}\n# tool\n<- w [a person changed the input of this call to {\"n\":2}]\nadded\n",
		},
		"a reply that was cut off": {
			join(asked(parley.Budgets{}), front, parley.ModelStarted{Call: "c"}, parley.ModelFailed{Call: "c", Partial: "The spec "},
				by("", parley.TurnInterrupted{}), by("", parley.TurnResumed{Attempt: 1}), by("", parley.TurnSteered{Message: parley.Text(parley.RoleUser, "in short")})),
			"# user\nWhat is the spec?\n# assistant\nThe spec\n[cut off]\n# user\n[Your reply was cut off there. Give it again from its beginning.]\nin short\n",
		},
		"a call that is made again": {
			join(asked(parley.Budgets{}), front, parley.ModelStarted{Call: "c"}, parley.ModelFailed{Call: "c", Retry: true, Partial: "The spec "}),
			"# user\nWhat is the spec?\n",
		},
		"handoffs that are not taken": {
			join(asked(parley.Budgets{}), front, says("front", "c", hand("h", "judge", ""), hand("i", "finder", ""))),
			"# user\nWhat is the spec?\n# assistant\n=> h judge \n=> i finder \n# tool\n" +
				"<- h ! This agent cannot hand over to judge. It can hand over to finder.\n<- i ! Ignored: only the first handoff of a reply counts.\n",
		},
		"what an agent is handed": {
			join(asked(parley.Budgets{}), front, says("front", "c", text("One moment."), hand("h", "finder", "needs data")),
				parley.AgentHandoff{From: "front", To: "finder", Name: "finder", Why: "needs data", Call: "h"}),
			"# user\nWhat is the spec?\n[handed over by front]\nreason: needs data\n[text of front]\nOne moment.\n",
		},
		"what it hands back": {
			join(asked(parley.Budgets{}), front, says("front", "c", hand("h", "finder", "")),
				parley.AgentHandoff{From: "front", To: "finder", Name: "finder"},
				says("finder", "d", text("I look."), tool("a", "look", `{ "q": "login" }`)), by("finder", ended("a", "line 1\nline 2")),
				says("finder", "e", text("It is Google."), hand("i", "front", "")),
				by("finder", parley.AgentHandoff{From: "finder", To: "front", Name: "front"})),
			"# user\nWhat is the spec?\n# assistant\n=> h finder \n# tool\n<- h control passed to finder\n# user\n" +
				"[handed over by finder]\n[result of look {\"q\":\"login\"}]\nline 1\nline 2\n[text of finder]\nI look.\nIt is Google.\n",
		},
		"after a rewind": {
			join(asked(parley.Budgets{}), parley.TurnCompleted{Response: parley.Response{Message: "Google."}},
				asked(parley.Budgets{}), parley.TurnCompleted{Response: parley.Response{Message: "It is posted."}},
				by("", parley.SessionRewound{
					Rewind:      parley.Rewind{What: parley.RewindConversation, To: 3},
					Effects:     []parley.EffectLeft{{Call: "w", Tool: "add", Text: `{"n":1}`, Outcome: parley.OutcomeOK}, {Call: "v", Tool: "add", Outcome: parley.OutcomeUnknown, Resolution: parley.ChoiceHappened}},
					EffectsMore: 1, FilesMore: 2,
					Files: []parley.FileRewound{{Path: "a.md", Outcome: parley.FileLeft}}, Memory: &parley.Remembered{Since: 3},
				}),
				asked(parley.Budgets{}), parley.TurnCompleted{Response: parley.Response{Message: "Still Google."}},
				asked(parley.Budgets{}), front),
			"# user\nWhat is the spec?\n# assistant\nGoogle.\n# user\n" +
				"[The user went back to an earlier point of this conversation. What you had done after that point is not in the conversation any more, but it stays done. " +
				"Do not do it again unless the user asks for it again:\n- add {\"n\":1}: done\n- add: done, as a person confirmed\n- and one more call\n" +
				"These files may differ from what this conversation says of them. Read them again before you rely on them or change them:\n- a.md\n- and 2 more files]\n" +
				"What is the spec?\n# assistant\nStill Google.\n# user\nWhat is the spec?\n",
		},
		"after files were restored": {
			join(asked(parley.Budgets{}), parley.TurnCompleted{Response: parley.Response{Message: "Google."}},
				by("", parley.SessionRewound{
					Rewind: parley.Rewind{What: parley.RewindFiles, To: 1},
					Files:  []parley.FileRewound{{Path: "b.md", Outcome: parley.FileLeft}, {Path: "a.md", Outcome: parley.FileRestored}},
				}),
				asked(parley.Budgets{}), front),
			"# user\nWhat is the spec?\n# assistant\nGoogle.\n# user\n[The user put files back to what they were at an earlier point. " +
				"These files may differ from what this conversation says of them. Read them again before you rely on them or change them:\n- a.md]\nWhat is the spec?\n",
		},
		"earlier turns": {
			join(asked(parley.Budgets{}), parley.TurnCompleted{Response: parley.Response{Message: "Google."}},
				asked(parley.Budgets{}), front, says("front", "x", tool("w", "add", "{}")),
				parley.ToolStarted{Call: "w", Name: "add", Effect: parley.EffectWrite}, ended("w", "ok"),
				parley.TurnCancelled{Response: &parley.Response{Message: "I have ad"}},
				asked(parley.Budgets{}), parley.TurnFailed{},
				asked(parley.Budgets{}), front),
			"# user\nWhat is the spec?\n# assistant\nGoogle.\n# user\nWhat is the spec?\n" +
				"[tool calls of this turn and what they returned, shortened]\n- add: ok\n# assistant\nI have ad\n[cut off: the turn was cancelled]\n" +
				"[calls with effects in this turn: add: done]\n# user\nWhat is the spec?\n# assistant\n[no answer: the turn failed]\n# user\nWhat is the spec?\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := request(t, testGiven(), fold(t, tt.events...))
			if diff := cmp.Diff(tt.want, show(c.Request.Messages)); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequest(t *testing.T) {
	t.Parallel()
	front := parley.AgentStarted{Name: "front"}

	t.Run("names agent, model, tools and handoffs", func(t *testing.T) {
		t.Parallel()
		g := testGiven(func(a *parley.App) {
			a.Agents["finder"] = parley.AgentDef{Name: "finder", Description: "finds"}
		})
		got := request(t, g, fold(t, asked(parley.Budgets{}), front)).Request
		want := seam.Request{
			Model: "m", Agent: "front", Session: "s",
			System: "You answer.",
			Messages: []parley.Message{{Role: parley.RoleUser, Parts: []parley.Part{
				text("What is the spec?"), text("[about this turn]\nnow: Thursday, 1970-01-01 00:00 (UTC)\n\n## What this session allows\n- add: a person is asked before each call. Ask for no permission yourself."),
			}}},
			Tools: []parley.ToolDecl{g.app.Tools[0], g.app.Tools[2]}, Handoffs: []seam.Handoff{{Agent: "finder", Description: "finds"}},
			MaxTokens: 4000,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
	})
	t.Run("offers no tools when the turn wants none, no handoffs when depth is used up", func(t *testing.T) {
		t.Parallel()
		q := asked(parley.Budgets{MaxDepth: 1})
		q.NoTools = true
		got := request(t, testGiven(), fold(t, join(q, front, says("front", "c", hand("h", "finder", "")), parley.AgentHandoff{From: "front", To: "finder", Name: "finder"})...)).Request
		if got.Tools != nil || got.Handoffs != nil {
			t.Errorf("got tools %v, handoffs %v, want none", got.Tools, got.Handoffs)
		}
	})
	t.Run("an agent without history sees the question only", func(t *testing.T) {
		t.Parallel()
		g := testGiven(func(a *parley.App) { a.Entry = "finder" })
		s := fold(t, asked(parley.Budgets{}), parley.TurnCompleted{Response: parley.Response{Message: "Google."}}, asked(parley.Budgets{}),
			by("finder", parley.AgentStarted{Name: "finder"}))
		if got := show(request(t, g, s).Request.Messages); got != "# user\nWhat is the spec?\n" {
			t.Errorf("got\n%s", got)
		}
	})
	t.Run("the turn's model wins over the session's, the agent's, the app's", func(t *testing.T) {
		t.Parallel()
		var names []string
		for _, m := range []struct{ agent, turn, session string }{{"a", "t", "s"}, {"a", "", "s"}, {"a", "", ""}, {"", "", ""}} {
			g := testGiven(func(a *parley.App) {
				d := a.Agents["front"]
				d.Model = m.agent
				a.Agents["front"] = d
			})
			q := asked(parley.Budgets{})
			q.Model = m.turn
			names = append(names, request(t, g, fold(t, parley.SessionUpdated{Model: &m.session}, q, front)).Request.Model)
		}
		if diff := cmp.Diff([]string{"t", "s", "a", "m"}, names); diff != "" {
			t.Errorf("models (-want +got):\n%s", diff)
		}
	})
	t.Run("reserves its input and its cap, and the cap fits the budget", func(t *testing.T) {
		t.Parallel()
		s := fold(t, asked(parley.Budgets{MaxTotalTokens: 1000}), front)
		c := request(t, testGiven(), s)
		if got := c.Reserved.Tokens(); got != 1000 || c.Request.MaxTokens != c.Reserved.OutputTokens || c.Bound == nil {
			t.Errorf("got %d reserved, cap %d, bound %v, want the 1000 that are left", got, c.Request.MaxTokens, c.Bound)
		}
		s = fold(t, asked(parley.Budgets{MaxUSD: 0.01}), front)
		c = request(t, testGiven(), s)
		if c.Reserved.USD > 0.01 || c.Reserved.USD < 0.0099 {
			t.Errorf("got $%g reserved, want the 0.01 that are left", c.Reserved.USD)
		}
	})
	t.Run("reserves what writing its input to a cache costs", func(t *testing.T) {
		t.Parallel()
		g := testGiven()
		cached := func(name string) (seam.ModelInfo, error) {
			m, err := testGiven().model(name)
			m.CacheWriteUSD = 2 * m.InputUSD
			return m, err
		}
		plain := request(t, g, fold(t, asked(parley.Budgets{}), front)).Reserved
		g.model = cached
		m, _ := cached(g.app.Model)
		got := request(t, g, fold(t, asked(parley.Budgets{}), front)).Reserved
		spent := price(m, parley.Usage{CacheWriteTokens: got.InputTokens, OutputTokens: got.OutputTokens})
		if m.InputUSD <= 0 || got.InputTokens != plain.InputTokens || got.USD <= plain.USD || got.USD < spent {
			t.Errorf("got $%g reserved of a call that may cost $%g", got.USD, spent)
		}
	})
}

// past makes n earlier turns with replies of the given size.
func past(n, size int) []any {
	var es []any
	for range n {
		es = append(es, asked(parley.Budgets{}), parley.TurnCompleted{Response: parley.Response{Message: strings.Repeat("word ", size/5)}})
	}
	return es
}

func TestHistory(t *testing.T) {
	t.Parallel()
	front := parley.AgentStarted{Name: "front"}
	exchanges := func(t *testing.T, g given, s *parley.Session) int {
		return (len(request(t, g, s).Request.Messages) - 1) / 2
	}

	t.Run("what does not fit the model is dropped for good, with room to spare", func(t *testing.T) {
		t.Parallel()
		s := fold(t, join(past(20, 9000), asked(parley.Budgets{}), front)...)
		got := next(testGiven(), s)
		if diff := cmp.Diff([]string{"compact through 27, 13 dropped"}, lines(got)); diff != "" {
			t.Fatalf("actions (-want +got):\n%s", diff)
		}
		e := parley.NewEvent(s.Turn.ID, "front", got[0].(compact).ContextCompacted)
		e.Seq = s.Seq + 1
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
		if n := exchanges(t, testGiven(), s); n != 7 {
			t.Errorf("got %d exchanges in the prompt, want the 7 that are left", n)
		}
	})
	t.Run("a question that is too large takes no history with it", func(t *testing.T) {
		t.Parallel()
		q := asked(parley.Budgets{})
		q.Message = parley.Text(parley.RoleUser, strings.Repeat("word ", 60_000))
		if diff := cmp.Diff([]string{"fail too_large: "}, lines(next(testGiven(), fold(t, join(past(2, 100), q, front)...)))); diff != "" {
			t.Errorf("actions (-want +got):\n%s", diff)
		}
	})
	t.Run("a large question leaves history out of its own prompt only", func(t *testing.T) {
		t.Parallel()
		q := asked(parley.Budgets{})
		q.Message = parley.Text(parley.RoleUser, strings.Repeat("word ", 18_000))
		if n := exchanges(t, testGiven(), fold(t, join(past(5, 9000), q, front)...)); n != 1 {
			t.Errorf("got %d exchanges in the prompt, want 1", n)
		}
	})
	t.Run("the soft budget bounds the prompt and never fails", func(t *testing.T) {
		t.Parallel()
		for limit, want := range map[int64]int{7000: 2, 10: 0} {
			if n := exchanges(t, testGiven(), fold(t, join(past(5, 9000), asked(parley.Budgets{MaxTokensPerTurn: limit}), front)...)); n != want {
				t.Errorf("limit %d: got %d exchanges in the prompt, want %d", limit, n, want)
			}
		}
	})
	t.Run("history makes room when the hard budget is nearly used up", func(t *testing.T) {
		t.Parallel()
		if n := exchanges(t, testGiven(), fold(t, join(past(5, 9000), asked(parley.Budgets{MaxTotalTokens: 7000}), front)...)); n != 2 {
			t.Errorf("got %d exchanges in the prompt, want 2", n)
		}
	})
	t.Run("history tokens and last k are kept to", func(t *testing.T) {
		t.Parallel()
		s := fold(t, join(past(5, 300), asked(parley.Budgets{}), front)...)
		s.Memory = parley.MemoryOptions{LastK: 4}
		if n := exchanges(t, testGiven(), s); n != 2 {
			t.Errorf("got %d exchanges, want 2", n)
		}
		s.Memory = parley.MemoryOptions{HistoryTokens: 300}
		if diff := cmp.Diff([]string{"compact through 9, 4 dropped"}, lines(next(testGiven(), s))); diff != "" {
			t.Errorf("actions (-want +got):\n%s", diff)
		}
	})
}

func TestProviderState(t *testing.T) {
	t.Parallel()
	front := parley.AgentStarted{Name: "front"}
	replies := func(call string, parts ...parley.Part) []any {
		es := says("front", call, parts...)
		r := es[1].(entryOf).payload.(parley.ModelReplied)
		r.State = json.RawMessage(`"conv_1"`)
		es[1] = by("front", r)
		return es
	}
	done := parley.TurnCompleted{Response: parley.Response{Message: "Google."}}
	tests := map[string]struct {
		events []any
		model  string
		want   string
	}{
		"after the agent's own reply": {join(asked(parley.Budgets{}), front, replies("c", tool("a", "look", "{}")), ended("a", "x")), "m", `"conv_1"`},
		"in the next turn":            {join(asked(parley.Budgets{}), front, replies("c", text("Google.")), done, asked(parley.Budgets{}), front), "m", `"conv_1"`},
		"not with another model": {
			join(asked(parley.Budgets{}), front, replies("c", text("Google.")), done, asked(parley.Budgets{}), front, parley.ContextTransferred{From: "m", To: "other"}), "other", "",
		},
		"not after a turn of which it saw only the beginning": {
			join(asked(parley.Budgets{}), front, replies("c", hand("h", "finder", "")), parley.AgentHandoff{From: "front", To: "finder", Name: "finder"},
				says("finder", "d", text("Google.")), done, asked(parley.Budgets{}), front), "m", "",
		},
		"not after a failure": {
			join(asked(parley.Budgets{}), front, replies("c", tool("a", "look", "{}")), ended("a", "x"), parley.ModelStarted{Call: "d"}, parley.ModelFailed{Call: "d", Retry: true}), "m", "",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := testGiven(func(a *parley.App) { a.Model = tt.model })
			if got := string(request(t, g, fold(t, tt.events...)).Request.State); got != tt.want {
				t.Errorf("got state %s, want %s", got, tt.want)
			}
		})
	}
}

// TestHostedState: a conversation that the provider stores is continued across all agents with the
// same model.
func TestHostedState(t *testing.T) {
	t.Parallel()
	front, none := parley.AgentStarted{Name: "front"}, parley.Budgets{}
	replies := func(agent parley.AgentPath, call, state string, parts ...parley.Part) []any {
		es := says(agent, call, parts...)
		r := es[1].(entryOf).payload.(parley.ModelReplied)
		r.State = json.RawMessage(state)
		es[1] = by(agent, r)
		return es
	}
	begun := join(asked(none), front)
	hands := parley.AgentHandoff{From: "front", To: "finder", Name: "finder"}
	back := by("finder", parley.AgentHandoff{From: "finder", To: "front", Name: "front"})
	done := parley.TurnCompleted{Response: parley.Response{Message: "Google."}}
	circle := join(begun, replies("front", "c", `"1"`, hand("h", "finder", "")), hands, replies("finder", "d", `"2"`, hand("i", "front", "")), back)
	failed := func(agent parley.AgentPath) []any {
		return join(by(agent, parley.ModelStarted{Call: "f", Model: "m"}), by(agent, parley.ModelFailed{Call: "f", Retry: true}))
	}
	for name, tt := range map[string]struct {
		events []any
		want   string
	}{
		"at the beginning":                     {begun, ""},
		"of the agent that handed over":        {join(begun, replies("front", "c", `"1"`, hand("h", "finder", "")), hands), `"1"`},
		"of the last agent, back at the first": {circle, `"2"`},
		"not when the last gave none":          {join(begun, replies("front", "c", `"1"`, hand("h", "finder", "")), hands, says("finder", "d", hand("i", "front", "")), back), ""},
		"not after another agent's failure":    {join(begun, replies("front", "c", `"1"`, hand("h", "finder", "")), hands, failed("finder")), ""},
		"not after a failure in the circle":    {join(circle, failed("front")), ""},
		"in the next turn, after the circle":   {join(circle, replies("front", "e", `"3"`, text("Google.")), done, asked(none), front), `"3"`},
		"not in a turn after one without it":   {join(circle, replies("front", "e", `"3"`, text("Google.")), done, asked(none), front, says("front", "g", text("Yes.")), done, asked(none), front), ""},
		"not after a cancel": {
			join(circle, replies("front", "e", `"3"`, text("Google.")), parley.TurnCancelled{}, asked(none), front), "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := testGiven()
			g.model = func(string) (seam.ModelInfo, error) {
				m := testModel
				m.Hosted = true
				return m, nil
			}
			if got := string(request(t, g, fold(t, tt.events...)).Request.State); got != tt.want {
				t.Errorf("got state %s, want %s", got, tt.want)
			}
		})
	}
}

// TestTransfer: when another model continues a session, it is told once whose answers it reads.
func TestTransfer(t *testing.T) {
	t.Parallel()
	front := parley.AgentStarted{Name: "front"}
	before := join(asked(parley.Budgets{}), front, says("front", "c", tool("w", "add", "{}")),
		parley.ToolStarted{Call: "w", Name: "add", Effect: parley.EffectWrite}, ended("w", "added"),
		says("front", "d", text("Added.")), parley.TurnCompleted{Response: parley.Response{Message: "Added."}}, asked(parley.Budgets{}), front)
	same := testGiven()
	if got := lines(next(same, fold(t, before...))); len(got) != 1 || !strings.HasPrefix(got[0], "call") {
		t.Errorf("got %v, want a call by the same model", got)
	}
	g := testGiven(func(a *parley.App) { a.Model = "other" })
	acts := next(g, fold(t, before...))
	moved, ok := acts[0].(transfer)
	if !ok || len(acts) != 1 {
		t.Fatalf("got %v, want a transfer", lines(acts))
	}
	want := "The answers in this session so far were given by the model m; you go on from here. Stand by what was said, and do nothing again that was done.\n" +
		"- asked: What is the spec?; answered: Added. [calls with effects: 1]"
	if diff := cmp.Diff(parley.ContextTransferred{From: "m", To: "other", Text: want}, moved.ContextTransferred); diff != "" {
		t.Errorf("transfer (-want +got):\n%s", diff)
	}
	if req := request(t, g, fold(t, append(before, by("front", moved.ContextTransferred))...)).Request; !strings.Contains(told(req), want) {
		t.Errorf("told %q", told(req))
	}
}

// TestAttachments: a model that accepts images gets the picture, in the question and in later turns.
// Any other model gets a note about it in later turns.
func TestAttachments(t *testing.T) {
	t.Parallel()
	with := asked(parley.Budgets{})
	with.Message.Parts = append(with.Message.Parts, parley.Part{Type: parley.PartImage, Artifact: "a1", Name: "plot.png", MediaType: "image/png"})
	front := parley.AgentStarted{Name: "front"}
	log := join(with, front, says("front", "c", text("A plot.")), parley.TurnCompleted{Response: parley.Response{Message: "A plot."}}, asked(parley.Budgets{}), front)
	for sees, want := range map[bool]string{true: "image", false: "[attached: plot.png, which you cannot see]"} {
		g := testGiven()
		info := g.model
		g.model = func(name string) (seam.ModelInfo, error) {
			m, err := info(name)
			m.Images = sees
			return m, err
		}
		parts := request(t, g, fold(t, log...)).Request.Messages[0].Parts
		if got := parts[len(parts)-1]; string(got.Type) != want && got.Text != want {
			t.Errorf("sees %v: got %+v", sees, got)
		}
	}
}
