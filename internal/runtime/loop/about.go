package loop

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/policy"
	"github.com/parley-server/parley/internal/prompt"
	"github.com/parley-server/parley/internal/seam"
)

// The system text has the agent's prompt and the session's memory. It stays the same from turn
// to turn, so it is cached. Data of this turn, and the session's present permissions, come
// after the question, where no cached text follows. All of it comes from the log and the turn's
// app, so a resumed turn and a replay read the same.

// aboutTurn begins what the loop tells behind the question.
const aboutTurn = "[about this turn]"

// note is what a prompt says of the open turn: when it is, what it may use, what the
// session allows, and, for agents with a history, what the caller and the app's tools
// add to the question.
func (g given) note(s *parley.Session, a *parley.Agent, def parley.AgentDef) string {
	t := s.Turn
	var b strings.Builder
	b.WriteString(aboutTurn + "\nnow: " + prompt.When(t))
	if may := allowance(t.Request.Budgets); may != "" {
		b.WriteString("\nbudget of this turn: " + may)
	}
	section := func(title string) { b.WriteString("\n\n## " + title) }
	if may := g.allowed(s, def); may != "" {
		section("What this session allows")
		b.WriteString("\n" + may)
	}
	if def.History == parley.HistoryNone || a.Parent != "" {
		return b.String()
	}
	snippets := func(title string, which []parley.Snippet) {
		if len(which) > 0 {
			section(title)
		}
		for _, sn := range which {
			fmt.Fprintf(&b, "\n[%s %s] %s", sn.Source, sn.Ref, sn.Text)
		}
	}
	if hints := t.Request.Hints; len(hints) > 0 {
		if raw, err := json.Marshal(hints); err == nil { // sorted by key, so the prompt is stable
			section("Hints from the caller")
			b.WriteString("\n" + string(raw))
		}
	}
	if a.Transfer != nil {
		section("Taken over from another model")
		b.WriteString("\n" + a.Transfer.Text)
	}
	pinned := func(sn parley.Snippet) bool { return sn.Pinned }
	snippets("What the turn before was about, as it is now", slices.DeleteFunc(slices.Clone(t.Snippets), func(sn parley.Snippet) bool { return !sn.Pinned }))
	snippets("Looked up for this question", slices.DeleteFunc(slices.Clone(t.Snippets), pinned))
	return b.String()
}

// allowance says in words what b bounds.
func allowance(b parley.Budgets) string {
	var list []string
	add := func(set bool, format string, n any) {
		if set {
			list = append(list, fmt.Sprintf(format, n))
		}
	}
	add(b.MaxSteps > 0, "%v steps, each a reply of yours", b.MaxSteps)
	add(b.MaxToolCalls > 0, "%v tool calls", b.MaxToolCalls)
	add(b.MaxDepth > 0, "%v handoffs", b.MaxDepth)
	add(b.MaxDurationMS > 0, "%v of running time", msec(b.MaxDurationMS))
	add(b.MaxTokensPerTurn > 0, "%v tokens in a prompt", b.MaxTokensPerTurn)
	add(b.MaxTotalTokens > 0, "%v tokens in all", b.MaxTotalTokens)
	add(b.MaxUSD > 0, "%v US dollars", b.MaxUSD)
	return strings.Join(list, ", ")
}

// offered are the tools that the agent's model is told of. One of which no call can
// run is left out, unless the agent has called it in this turn already: providers
// refuse a history with calls of a tool that they are not told of.
func (g given) offered(s *parley.Session, a *parley.Agent, def parley.AgentDef, m seam.ModelInfo) []parley.ToolDecl {
	var ds []parley.ToolDecl
	for _, d := range g.decls(s.Turn, def) {
		if g.replaced(s, d, m) && !called(a, d.Name) {
			continue
		}
		if verdict, _ := policy.Tool(g.app, s, d); verdict != parley.Deny || called(a, d.Name) {
			ds = append(ds, d)
		}
	}
	return ds
}

// replaced reports whether the model's provider runs a tool in place of d. Nobody is asked about
// calls of such a tool, so it takes the place only where nobody would be.
func (g given) replaced(s *parley.Session, d parley.ToolDecl, m seam.ModelInfo) bool {
	if d.Instead == "" || !slices.Contains(m.ServerTools, d.Instead) {
		return false
	}
	verdict, _ := policy.Tool(g.app, s, d)
	rules, _ := policy.Exceptions(g.app, s, d)
	return verdict == parley.Allow && len(rules) == 0
}

// except says which calls of a tool only read.
func except(d parley.ToolDecl) string {
	if d.Reads == "" {
		return ""
	}
	return " except " + d.Reads
}

// planning says what to do in plan mode.
func planning(mode parley.PermissionMode, def parley.AgentDef) string {
	if mode != parley.ModePlan || !slices.Contains(def.Tools, parley.ToolExitPlan) {
		return ""
	}
	return " Nothing is changed until the user has approved a plan: look at what you need, ask what is unclear, and then call " + parley.ToolExitPlan + " with the plan."
}

// called reports whether the agent has asked for the tool in this turn.
func called(a *parley.Agent, tool string) bool {
	return slices.ContainsFunc(a.Items, func(it parley.Item) bool {
		return slices.ContainsFunc(it.Parts, func(p parley.Part) bool { return p.Type == parley.PartToolCall && p.Name == tool })
	})
}

// allowed says what the session's policy makes of the agent's tools; "" when it
// lets all of them run unasked.
func (g given) allowed(s *parley.Session, def parley.AgentDef) string {
	var lines []string
	if mode := s.Mode; mode != "" && mode != parley.ModeDefault && g.app.Policy.Offers(mode) {
		lines = append(lines, "The permission mode is "+string(mode)+"."+planning(mode, def))
	}
	for _, d := range g.decls(s.Turn, def) {
		verdict, why := policy.Tool(g.app, s, d)
		rules, services := policy.Exceptions(g.app, s, d)
		because := ""
		if why != "" {
			because = " (" + why + ")"
		}
		switch {
		case verdict == parley.Deny:
			lines = append(lines, d.Name+": not available"+because+". Say so when it is wanted.")
			continue
		case verdict == parley.Ask:
			lines = append(lines, d.Name+": a person is asked before each call"+except(d)+because+". Ask for no permission yourself.")
		case verdict == parley.Confirm:
			lines = append(lines, d.Name+": a person confirms each call"+except(d)+because+". Ask for no permission yourself.")
		case d.Effect != parley.EffectRead:
			lines = append(lines, d.Name+": runs without asking.")
		}
		if d.Actuation {
			lines = append(lines, d.Name+": only for "+strings.Join(services, ", ")+".")
		}
		for _, r := range rules {
			line := r.Tool + ": " + map[parley.Verdict]string{parley.Allow: "runs without asking", parley.Ask: "a person is asked", parley.Confirm: "a person confirms it"}[r.Verdict]
			if r.Verdict != parley.Allow && r.Verdict != parley.Ask && r.Verdict != parley.Confirm {
				line = r.Tool + ": not allowed"
			}
			if r.Reason != "" {
				line += " (" + r.Reason + ")"
			}
			lines = append(lines, line+".")
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return "- " + strings.Join(lines, "\n- ")
}
