package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/seam"
)

// hooked is a toolset that has hooks and no tools. Each hook is a function.
type hooked struct {
	mu    sync.Mutex
	list  []hook.Hook
	heard []string
}

func (h *hooked) Tools(context.Context) ([]parley.ToolDecl, error) { return nil, nil }
func (h *hooked) Run(context.Context, seam.Run) (parley.ToolResult, error) {
	return parley.ToolResult{}, errors.New("it has no tools")
}
func (h *hooked) Hooks() []hook.Hook { return h.list }

// on adds a hook. What say returns decides its outcome: JSON, "2 why" for exit code 2, "1" for a
// crash, "hang" for a hook that never ends.
func (h *hooked) on(level, event string, say func(m map[string]any) string) *hooked {
	name := fmt.Sprintf("%s%d", level, len(h.list))
	h.list = append(h.list, hook.Hook{
		Entry: hook.Entry{Event: event, Name: name, Timeout: 30 * time.Second}, Level: level,
		Do: func(ctx context.Context, message []byte) (hook.Said, error) {
			var m map[string]any
			if err := json.Unmarshal(message, &m); err != nil {
				return hook.Said{}, err
			}
			h.mu.Lock()
			h.heard = append(h.heard, fmt.Sprint(m["hook_event_name"], " ", m["tool_name"]))
			h.mu.Unlock()
			switch said := say(m); {
			case said == "hang":
				<-ctx.Done()
				return hook.Said{}, context.Cause(ctx)
			case said == "1":
				return hook.Said{Code: 1, Err: "panic"}, nil
			case strings.HasPrefix(said, "2 "):
				return hook.Said{Code: 2, Err: said[2:]}, nil
			default:
				return hook.Said{Out: []byte(said)}, nil
			}
		},
	})
	return h
}

// in gives an engine the hooks beside its tools.
func (h *hooked) in(o *engine.Options) {
	box, left := o.Tools["test"].With(context.Background(), []seam.Toolset{h})
	if left != nil {
		panic(left)
	}
	o.Tools["test"] = box
}

func says(text string) func(map[string]any) string {
	return func(map[string]any) string { return text }
}

func decides(what, why string) func(map[string]any) string {
	return says(fmt.Sprintf(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":%q,"permissionDecisionReason":%q}}`, what, why))
}

func changes(input string) func(map[string]any) string {
	return says(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":` + input + `}}`)
}

// hookRan returns the hook.ran events of a log as a short text.
func hookRan(log []parley.Event) string {
	var list []string
	for _, ev := range log {
		if p, ok := mustPayload(ev).(parley.HookRan); ok {
			text := p.Event + " " + p.Name + " " + string(p.Decision)
			if p.Error != nil {
				text += " failed"
			}
			list = append(list, strings.TrimSpace(text))
		}
	}
	return strings.Join(list, "; ")
}

func mustPayload(ev parley.Event) parley.Payload {
	p, err := ev.Payload()
	if err != nil {
		panic(err)
	}
	return p
}

// endOfCall is the end of the only tool call of a log.
func endOfCall(t *testing.T, log []parley.Event) (end parley.ToolEnded) {
	t.Helper()
	n := 0
	for _, ev := range log {
		if p, ok := mustPayload(ev).(parley.ToolEnded); ok {
			end = p
			n++
		}
	}
	if n != 1 {
		t.Fatalf("%d calls ended", n)
	}
	return end
}

// TestPreToolUse: what hooks decide before a call, combined with what the policy says. Hooks fail
// closed, and never allow more than the policy and the mode do.
func TestPreToolUse(t *testing.T) {
	t.Parallel()
	ask := func(a *parley.App) { a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}} }
	deny := func(a *parley.App) {
		a.Policy.Rules = append(a.Policy.Rules, parley.Rule{Verdict: parley.Deny, Tool: "mail", Reason: "never"})
	}
	confirm := func(a *parley.App) { a.Policy.Rules = []parley.Rule{{Verdict: parley.Confirm, Tool: "mail"}} }
	plan := func(a *parley.App) { a.Policy.Modes = []parley.PermissionMode{parley.ModePlan} }
	for name, c := range map[string]struct {
		app     func(*parley.App)
		hooks   *hooked
		mode    parley.PermissionMode
		outcome parley.Outcome // empty: a human is asked
		mails   int
		says    string // in the call's output
		ran     string
	}{
		"nothing to say":       {hooks: (&hooked{}).on("app", hook.PreToolUse, says("")), outcome: parley.OutcomeOK, mails: 1, ran: "PreToolUse app0"},
		"text is no decision":  {hooks: (&hooked{}).on("app", hook.PreToolUse, says("looks fine")), outcome: parley.OutcomeOK, mails: 1, ran: "PreToolUse app0"},
		"denied":               {hooks: (&hooked{}).on("app", hook.PreToolUse, decides("deny", "not on Sundays")), outcome: parley.OutcomeDenied, says: "not on Sundays", ran: "PreToolUse app0 deny"},
		"exit code 2":          {hooks: (&hooked{}).on("app", hook.PreToolUse, says("2 not on Sundays")), outcome: parley.OutcomeDenied, says: "not on Sundays", ran: "PreToolUse app0 deny"},
		"crash":                {hooks: (&hooked{}).on("app", hook.PreToolUse, says("1")), outcome: parley.OutcomeDenied, says: "could not be asked: it ended with exit code 1", ran: "PreToolUse app0 deny failed"},
		"hangs":                {hooks: (&hooked{}).on("app", hook.PreToolUse, says("hang")), outcome: parley.OutcomeDenied, says: "longer than 30s", ran: "PreToolUse app0 deny failed"},
		"bad JSON":             {hooks: (&hooked{}).on("app", hook.PreToolUse, says(`{"decision":`)), outcome: parley.OutcomeDenied, says: "not JSON", ran: "PreToolUse app0 deny failed"},
		"no such decision":     {hooks: (&hooked{}).on("app", hook.PreToolUse, decides("maybe", "")), outcome: parley.OutcomeDenied, says: "is not a decision for PreToolUse", ran: "PreToolUse app0 deny failed"},
		"about another event":  {hooks: (&hooked{}).on("app", hook.PreToolUse, says(`{"hookSpecificOutput":{"hookEventName":"Stop"}}`)), outcome: parley.OutcomeDenied, ran: "PreToolUse app0 deny failed"},
		"allows what is asked": {app: ask, hooks: (&hooked{}).on("app", hook.PreToolUse, decides("allow", "")), outcome: parley.OutcomeOK, mails: 1, ran: "PreToolUse app0 allow"},
		"asks":                 {hooks: (&hooked{}).on("app", hook.PreToolUse, decides("ask", "sure?")), ran: "PreToolUse app0 ask"},
		"allow lifts no denial": {
			app: deny, hooks: (&hooked{}).on("app", hook.PreToolUse, decides("allow", "")), outcome: parley.OutcomeDenied, says: "never", ran: "PreToolUse app0 allow",
		},
		"allow lifts no mode": {
			app: plan, mode: parley.ModePlan, hooks: (&hooked{}).on("app", hook.PreToolUse, decides("allow", "")), outcome: parley.OutcomeDenied, says: "plan mode", ran: "PreToolUse app0 allow",
		},
		"allow confirms nothing": {app: confirm, hooks: (&hooked{}).on("app", hook.PreToolUse, decides("allow", "")), ran: "PreToolUse app0 allow"},
		"the strictest counts": {
			hooks: (&hooked{}).on("app", hook.PreToolUse, decides("allow", "")).on("app", hook.PreToolUse, decides("deny", "no")), outcome: parley.OutcomeDenied, ran: "PreToolUse app0 allow; PreToolUse app1 deny",
		},
		"the operator is asked last": {
			hooks:   (&hooked{}).on("platform", hook.PreToolUse, decides("allow", "")).on("workspace", hook.PreToolUse, decides("deny", "no")),
			outcome: parley.OutcomeDenied, ran: "PreToolUse workspace1 deny",
		},
		"changes the input": {hooks: (&hooked{}).on("app", hook.PreToolUse, changes(`{"text":"other"}`)), outcome: parley.OutcomeOK, mails: 1, says: "other", ran: "PreToolUse app0"},
		"the operator sees what others change": {
			hooks: (&hooked{}).on("platform", hook.PreToolUse, func(m map[string]any) string {
				if strings.Contains(fmt.Sprint(m["tool_input"]), "evil") {
					return "2 evil"
				}
				return ""
			}).on("workspace", hook.PreToolUse, changes(`{"text":"evil"}`)),
			outcome: parley.OutcomeDenied, says: "evil", ran: "PreToolUse workspace1; PreToolUse platform0 deny",
		},
		"one change counts": {
			hooks:   (&hooked{}).on("app", hook.PreToolUse, changes(`{"text":"one"}`)).on("app", hook.PreToolUse, changes(`{"text":"two"}`)),
			outcome: parley.OutcomeOK, mails: 1, says: "one", ran: "PreToolUse app0; PreToolUse app1",
		},
		"an input that does not fit": {hooks: (&hooked{}).on("app", hook.PreToolUse, changes(`{"text":1}`)), outcome: parley.OutcomeDenied, says: "does not fit", ran: "PreToolUse app0 deny failed"},
		"a secret in the input": {
			hooks: (&hooked{}).on("app", hook.PreToolUse, changes(`{"text":"sk-ant-api03-`+strings.Repeat("Ab3", 31)+`AA"}`)), outcome: parley.OutcomeDenied, says: "looks like a secret", ran: "PreToolUse app0 deny failed",
		},
		"stops the turn": {hooks: (&hooked{}).on("app", hook.PreToolUse, says(`{"continue":false,"stopReason":"enough"}`)), outcome: parley.OutcomeCancelled, ran: "PreToolUse app0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				change := []func(*parley.App){}
				if c.app != nil {
					change = append(change, c.app)
				}
				r := enginetest.New(t, mailer("mail"), enginetest.App(change...), c.hooks.in)
				defer r.Close()
				s := r.Session(func(p *parley.CreateSession) { p.Mode = c.mode })
				turn := r.Await(r.Send(s.ID, "go").ID)
				log := r.Log(s.ID)
				if got := hookRan(log); got != c.ran {
					t.Errorf("ran %q, want %q", got, c.ran)
				}
				if c.outcome == "" {
					if turn.Status != parley.StatusWaiting {
						t.Errorf("nobody was asked: %s", turn.Status)
					}
					return
				}
				end := endOfCall(t, log)
				if end.Outcome != c.outcome || !strings.Contains(end.Output, c.says) {
					t.Errorf("got %s: %s, want %s: %s", end.Outcome, end.Output, c.outcome, c.says)
				}
				if _, _, n := r.Service.Counts(); n != c.mails {
					t.Errorf("%d mails, want %d", n, c.mails)
				}
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
				if c.outcome == parley.OutcomeCancelled && (turn.Status != parley.StatusCancelled || !strings.Contains(turn.Reason, "enough")) {
					t.Errorf("the turn is %s: %s", turn.Status, turn.Reason)
				}
			})
		})
	}
}

// TestPostToolUse: hooks are asked after the end of a call. They may tell the model more, or
// replace the result. A hook that says nothing, or fails, changes nothing. The result is in the log
// before the hooks are asked.
func TestPostToolUse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		say  func(map[string]any) string
		want string // what the model read
		ran  string
	}{
		"nothing":  {says(""), "seen hi", "PostToolUse app0"},
		"blocks":   {says(`{"decision":"block","reason":"look closer"}`), "seen hi\n[a hook says: look closer]", "PostToolUse app0"},
		"code 2":   {says("2 look closer"), "seen hi\n[a hook says: look closer]", "PostToolUse app0"},
		"context":  {says(`{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"it is Sunday"}}`), "seen hi\n[a hook says: it is Sunday]", "PostToolUse app0"},
		"replaces": {says(`{"hookSpecificOutput":{"hookEventName":"PostToolUse","updatedToolOutput":"nothing to see"}}`), "nothing to see", "PostToolUse app0"},
		"crash":    {says("1"), "seen hi", "PostToolUse app0  failed"},
		"hangs":    {says("hang"), "seen hi", "PostToolUse app0  failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := (&hooked{}).on("app", hook.PostToolUse, c.say).on("app", hook.PostToolUseFailure, says("1"))
				r := enginetest.New(t, mailer("look"), enginetest.App(), h.in)
				defer r.Close()
				s := r.Session()
				turn := r.Await(r.Send(s.ID, "go").ID)
				if turn.Response == nil || turn.Response.Message != "done: "+c.want {
					t.Errorf("the model read %+v, want %q", turn.Response, c.want)
				}
				if got := hookRan(r.Log(s.ID)); got != c.ran {
					t.Errorf("ran %q, want %q", got, c.ran)
				}
			})
		})
	}
}

// TestPermissionRequest: a hook may allow or deny one call in place of a human. It cannot lift a
// denial, and cannot confirm what only a human may confirm.
func TestPermissionRequest(t *testing.T) {
	t.Parallel()
	answers := func(d string) func(map[string]any) string {
		return says(`{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":` + d + `}}`)
	}
	for name, c := range map[string]struct {
		rule    parley.Verdict
		say     func(map[string]any) string
		outcome parley.Outcome // empty: a human is asked
		says    string
	}{
		"allows":           {parley.Ask, answers(`{"behavior":"allow"}`), parley.OutcomeOK, "mailed hi"},
		"allows another":   {parley.Ask, answers(`{"behavior":"allow","updatedInput":{"text":"ho"}}`), parley.OutcomeOK, "mailed ho"},
		"denies":           {parley.Ask, answers(`{"behavior":"deny","message":"no mail"}`), parley.OutcomeDenied, "no mail"},
		"has no opinion":   {parley.Ask, says(""), "", ""},
		"exit code 2":      {parley.Ask, says("2 no"), "", ""},
		"fails":            {parley.Ask, says("1"), "", ""},
		"is not asked":     {parley.Allow, answers(`{"behavior":"deny"}`), parley.OutcomeOK, "mailed hi"},
		"lifts no denial":  {parley.Deny, answers(`{"behavior":"allow"}`), parley.OutcomeDenied, ""},
		"confirms nothing": {parley.Confirm, answers(`{"behavior":"allow"}`), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := (&hooked{}).on("app", hook.PermissionRequest, c.say)
				app := enginetest.App(func(a *parley.App) { a.Policy.Rules = []parley.Rule{{Verdict: c.rule, Tool: "mail"}} })
				r := enginetest.New(t, mailer("mail"), app, h.in)
				defer r.Close()
				s := r.Session()
				turn := r.Await(r.Send(s.ID, "go").ID)
				if c.outcome == "" {
					if turn.Status != parley.StatusWaiting {
						t.Fatalf("nobody was asked: %s", turn.Status)
					}
					return
				}
				if end := endOfCall(t, r.Log(s.ID)); end.Outcome != c.outcome || !strings.Contains(end.Output, c.says) {
					t.Errorf("got %s: %s", end.Outcome, end.Output)
				}
			})
		})
	}
}

// TestEditedInputIsGuarded: an input that a person has edited is shown to the hooks again.
func TestEditedInputIsGuarded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := (&hooked{}).on("platform", hook.PreToolUse, func(m map[string]any) string {
			if strings.Contains(fmt.Sprint(m["tool_input"]), "evil") {
				return "2 evil is not sent"
			}
			return ""
		})
		app := enginetest.App(func(a *parley.App) { a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Tool: "mail"}} })
		r := enginetest.New(t, mailer("mail"), app, h.in)
		defer r.Close()
		s := r.Session()
		turn := r.Await(r.Send(s.ID, "go").ID)
		if _, err := r.Engine.Answer(t.Context(), enginetest.User, turn.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow, Input: []byte(`{"text":"evil"}`)}}); err != nil {
			t.Fatal(err)
		}
		r.Await(turn.ID)
		if end := endOfCall(t, r.Log(s.ID)); end.Outcome != parley.OutcomeDenied || !strings.Contains(end.Output, "evil is not sent") {
			t.Errorf("got %s: %s", end.Outcome, end.Output)
		}
	})
}

// TestHooksCrashAtEveryPoint: nothing happens twice, and what hooks decided holds after a crash at
// every write.
func TestHooksCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	with := func(h *hooked) func(o *engine.Options) { return h.in }
	ask := func(a *parley.App) { a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}} }
	post := `{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"it is Sunday"}}`
	for name, sc := range map[string]enginetest.Scenario{
		"guards":  {App: enginetest.App(), Model: always(mailer("mail")), Options: with((&hooked{}).on("app", hook.PreToolUse, changes(`{"text":"ho"}`)).on("app", hook.PostToolUse, says(post)))},
		"reads":   {App: enginetest.App(), Model: always(mailer("look")), Options: with((&hooked{}).on("app", hook.PreToolUse, decides("allow", "")).on("app", hook.PostToolUse, says(post)))},
		"denies":  {App: enginetest.App(), Model: always(mailer("mail")), Options: with((&hooked{}).on("app", hook.PreToolUse, says("2 no")))},
		"permits": {App: enginetest.App(ask), Model: always(mailer("mail")), Options: with((&hooked{}).on("app", hook.PermissionRequest, says(`{"hookSpecificOutput":{"decision":{"behavior":"allow"}}}`)))},
		"asks":    {App: enginetest.App(), Model: always(mailer("mail")), Options: with((&hooked{}).on("app", hook.PreToolUse, decides("ask", "")))},
		"stops":   {App: enginetest.App(), Model: always(mailer("mail")), Options: with((&hooked{}).on("app", hook.PreToolUse, says(`{"continue":false}`)))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc.Messages = []string{"go"}
			enginetest.CrashEverywhere(t, sc)
		})
	}
}
