package loop

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// told returns the note about the turn in a request.
func told(r seam.Request) string {
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if strings.HasPrefix(p.Text, aboutTurn) {
				return p.Text
			}
		}
	}
	return ""
}

func names(r seam.Request) string {
	var list []string
	for _, d := range r.Tools {
		list = append(list, d.Name)
	}
	return strings.Join(list, " ")
}

// TestTurnNote: the prompt says when the turn began, in local time of its zone, and what the turn may
// use, for every app. The note comes after the cached prefix and is the same in every call of
// the turn.
func TestTurnNote(t *testing.T) {
	t.Parallel()
	q := asked(parley.Budgets{MaxSteps: 3, MaxToolCalls: 5, MaxDurationMS: 90_000, MaxTokensPerTurn: 20_000, MaxTotalTokens: 50_000, MaxUSD: 0.25, MaxDepth: 2})
	q.Zone = &parley.Zone{Name: "Asia/Kolkata", Offset: 19800}
	q.Hints = map[string]any{"areas": []string{"bedroom"}}
	front := parley.AgentStarted{Name: "front"}
	g := testGiven(func(a *parley.App) { a.Budgets = parley.Budgets{MaxSteps: 8, MaxToolCalls: 16} })
	begun := join(past(2, 100), q, front, parley.ContextRetrieved{Snippets: []parley.Snippet{
		{Source: "house", Ref: "light.hall", Text: "off"}, {Source: "house", Ref: "light.bed", Text: "on", Pinned: true},
	}})
	first := request(t, g, fold(t, begun...)).Request
	want := `[about this turn]
now: Thursday, 1970-01-01 05:30 (Asia/Kolkata, UTC+05:30)
budget of this turn: 3 steps, each a reply of yours, 5 tool calls, 2 handoffs, 1m30s of running time, 20000 tokens in a prompt, 50000 tokens in all, 0.25 US dollars

## What this session allows
- add: a person is asked before each call. Ask for no permission yourself.

## Hints from the caller
{"areas":["bedroom"]}

## What the turn before was about, as it is now
[house light.bed] on

## Looked up for this question
[house light.hall] off`
	if diff := cmp.Diff(want, told(first)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	last := first.Messages[len(first.Messages)-1]
	if n := len(last.Parts); last.Role != parley.RoleUser || last.Parts[n-1].Text != want || last.Parts[n-2].Text != "What is the spec?" {
		t.Errorf("it stands not right behind the question: %v", last)
	}
	for _, text := range []string{"1970", "steps", "light."} {
		if strings.Contains(first.System, text) {
			t.Errorf("the system text, which is cached, has %q", text)
		}
	}

	// Hours later and after a crash the prefix is the same.
	s := fold(t, join(begun, says("front", "c", tool("a", "look", "{}")), ended("a", "A"), by("", parley.TurnInterrupted{}), by("", parley.TurnResumed{Attempt: 1}))...)
	s.UpdatedAt = s.UpdatedAt.Add(5 * time.Hour)
	again := request(t, g, s).Request
	again.Messages = again.Messages[:len(first.Messages)]
	again.MaxTokens = first.MaxTokens
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the prefix changed (-first +resumed):\n%s", diff)
	}
	next := request(t, g, fold(t, join(begun, parley.TurnCompleted{}, asked(parley.Budgets{}), front)...)).Request
	if next.System != first.System || !cmp.Equal(next.Messages[:4], first.Messages[:4]) {
		t.Error("the prefix of the next turn is another")
	}
}

// TestSessionPolicyInPrompt: the prompt says what the session allows. A tool is not offered if none of
// its calls can run.
func TestSessionPolicyInPrompt(t *testing.T) {
	t.Parallel()
	on, off := true, false
	house := func(p parley.Policy) given {
		return testGiven(func(a *parley.App) {
			a.Policy = p
			a.Tools = append(a.Tools, parley.ToolDecl{Name: "act", Effect: parley.EffectWrite, Subject: "{service}", Actuation: true}, parley.ToolDecl{Name: "ask", Effect: parley.EffectRead, Asks: true})
			a.Agents["front"] = parley.AgentDef{Name: "front", Prompt: "You answer.", Tools: []string{"look", "act", "ask"}}
		})
	}
	open := parley.Policy{AllowActuation: &on, AllowlistedServices: []string{"light.*"}}
	rules := func(p parley.Policy, r ...parley.Rule) parley.Policy { p.Rules = r; return p }
	reads := parley.Rule{Verdict: parley.Allow, Effect: parley.EffectRead}
	const none = "act: not available "
	for name, tt := range map[string]struct {
		app    parley.Policy
		own    *parley.Policy
		mode   parley.PermissionMode
		origin parley.Origin
		events []any
		tools  string
		says   string
	}{
		"what is asked for":              {app: open, tools: "look act ask", says: "act: a person is asked before each call. Ask for no permission yourself.\n- act: only for light.*."},
		"what runs unasked":              {app: rules(open, parley.Rule{Verdict: parley.Allow}), tools: "look act ask", says: "act: runs without asking."},
		"a rule for some calls":          {app: rules(open, parley.Rule{Verdict: parley.Ask}, parley.Rule{Verdict: parley.Deny, Tool: "act(light.on)", Reason: "too bright"}), tools: "look act ask", says: "act(light.on): not allowed (too bright)."},
		"off in the app":                 {app: parley.Policy{}, tools: "look ask", says: none + "(actuation is off in this app"},
		"off in the session":             {app: open, own: &parley.Policy{AllowActuation: &off}, tools: "look ask", says: none + "(actuation is off in this session"},
		"the session's own list":         {app: open, own: &parley.Policy{AllowlistedServices: []string{"light.turn_off"}}, tools: "look act ask", says: "only for light.turn_off."},
		"an empty list of the session":   {app: open, own: &parley.Policy{AllowlistedServices: []string{}}, tools: "look ask", says: none + "(the session's list of allowed services is empty"},
		"an empty list of the app":       {app: parley.Policy{AllowActuation: &on}, tools: "look ask", says: none + "(the app's list of allowed services is empty"},
		"plan mode":                      {app: open, mode: parley.ModePlan, tools: "look ask", says: "The permission mode is plan.\n- " + none},
		"denied by the app":              {app: rules(open, parley.Rule{Verdict: parley.Deny, Tool: "a*", Effect: parley.EffectWrite, Reason: "not here"}), tools: "look ask", says: none + "(not here)"},
		"denied by the session":          {app: open, own: &parley.Policy{Rules: []parley.Rule{{Verdict: parley.Deny, Tool: "act(*)"}}}, tools: "look ask", says: none[:len(none)-1] + "."},
		"nobody to ask":                  {app: rules(open, reads), origin: parley.OriginSchedule, tools: "look", says: none + "(it needs a human's permission"},
		"nobody to ask, but it was done": {app: rules(open, reads), events: []any{parley.SessionUpdated{Rules: &[]parley.Rule{{Verdict: parley.Allow, Tool: "act(light.on)"}}}}, origin: parley.OriginSchedule, tools: "look act", says: "act: a person is asked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := asked(parley.Budgets{})
			if tt.origin != "" {
				q.Origin = tt.origin
			}
			g := house(tt.app)
			s := fold(t, join(tt.events, q, parley.AgentStarted{Name: "front"})...)
			s.Policy, s.Mode = tt.own, tt.mode
			r := request(t, g, s).Request
			if names(r) != tt.tools || !strings.Contains(told(r), "## What this session allows\n- ") || !strings.Contains(told(r), tt.says) {
				t.Errorf("offers %q, want %q, and says\n%s\nwant %q", names(r), tt.tools, told(r), tt.says)
			}
		})
	}

	t.Run("plan mode with a way out", func(t *testing.T) {
		t.Parallel()
		g := testGiven(func(a *parley.App) {
			a.Policy = open
			a.Tools = append(a.Tools, parley.ToolDecl{Name: parley.ToolExitPlan, Effect: parley.EffectRead, Asks: true})
			a.Agents["front"] = parley.AgentDef{Name: "front", Prompt: "You answer.", Tools: []string{"look", parley.ToolExitPlan}}
		})
		s := fold(t, join(asked(parley.Budgets{}), parley.AgentStarted{Name: "front"})...)
		for _, mode := range []parley.PermissionMode{parley.ModePlan, parley.ModeAcceptEdits} {
			s.Mode = mode
			if r := request(t, g, s).Request; strings.Contains(told(r), "then call ExitPlanMode with the plan") != (mode == parley.ModePlan) {
				t.Errorf("in %s it says %s", mode, told(r))
			}
		}
	})

	t.Run("a tool that was called in the turn stays declared", func(t *testing.T) {
		t.Parallel()
		s := fold(t, join(asked(parley.Budgets{}), parley.AgentStarted{Name: "front"}, says("front", "c", tool("a", "act", "{}")), ended("a", "done"))...)
		s.Mode = parley.ModePlan
		if r := request(t, house(open), s).Request; names(r) != "look act ask" {
			t.Errorf("offers %q", names(r))
		}
	})
}
