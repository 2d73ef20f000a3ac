package replay_test

import (
	"context"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/seam"
)

// withHooks is a toolset without tools whose hooks say one thing each.
type withHooks map[string]string

func (withHooks) Tools(context.Context) ([]parley.ToolDecl, error) { return nil, nil }

func (withHooks) Run(context.Context, seam.Run) (parley.ToolResult, error) {
	return parley.ToolResult{}, nil
}

func (h withHooks) Hooks() (list []hook.Hook) {
	for _, event := range hook.Events {
		if out, ok := h[event]; ok {
			list = append(list, hook.Hook{
				Entry: hook.Entry{Event: event, Name: "guard", Timeout: time.Minute}, Level: "app",
				Do: func(context.Context, []byte) (hook.Said, error) { return hook.Said{Out: []byte(out)}, nil },
			})
		}
	}
	return list
}

// TestReplayOfHooks: what hooks decided is in the recording, and nobody asks them again.
func TestReplayOfHooks(t *testing.T) {
	t.Parallel()
	model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if got := enginetest.Results(r); len(got) > 0 {
			say(got[0])
			return seam.Reply{}, nil
		}
		return seam.Reply{Parts: []parley.Part{enginetest.Call("mail", map[string]string{"text": "hi"})}}, nil
	}
	for name, hooks := range map[string]withHooks{
		"changed":   {hook.PreToolUse: `{"hookSpecificOutput":{"updatedInput":{"text":"ho"}}}`, hook.PostToolUse: `{"hookSpecificOutput":{"additionalContext":"it is Sunday"}}`},
		"denied":    {hook.PreToolUse: `{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"no"}}`},
		"replaced":  {hook.PostToolUse: `{"hookSpecificOutput":{"updatedToolOutput":"nothing"}}`},
		"permitted": {hook.PermissionRequest: `{"hookSpecificOutput":{"decision":{"behavior":"allow"}}}`},
		"blocked":   {hook.UserPromptSubmit: `{"decision":"block","reason":"no"}`},
		"told":      {hook.UserPromptSubmit: "it is Sunday", hook.SessionStart: "the branch is main"},
		"goes on":   {hook.Stop: `{"decision":"block","reason":"more"}`},
	} {
		app := enginetest.App(func(a *parley.App) { a.Budgets.MaxSteps = 30 })
		if name == "permitted" {
			app.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Tool: "mail"}}
		}
		r := enginetest.New(t, model, app, func(o *engine.Options) {
			o.Tools["test"], _ = o.Tools["test"].With(ctx, []seam.Toolset{hooks})
		})
		s := r.Session()
		if turn := r.Await(r.Send(s.ID, "go").ID); (turn.Status == parley.StatusCompleted) == (name == "blocked") {
			t.Errorf("%s: %s", name, turn.Status)
		}
		same(t, recording(t, r, s.ID))
		r.Close()
	}
}
