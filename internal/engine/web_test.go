package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// surfing is an app that allows everything, in which look reads the web and mail tells somebody
// outside something.
func surfing(a *parley.App) {
	a.Policy.Rules = []parley.Rule{{Verdict: parley.Allow}}
	a.Policy.Modes = []parley.PermissionMode{parley.ModeAcceptEdits, parley.ModeBypassPermissions}
	a.Tools = slices.Clone(a.Tools)
	for i := range a.Tools {
		a.Tools[i].Web = a.Tools[i].Name == "look"
		a.Tools[i].Outward = a.Tools[i].Name == "mail"
	}
}

// callingInTurn makes the calls that the last message names, one after the other.
func callingInTurn(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	var names []string
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == parley.RoleUser && strings.HasPrefix(m.Parts[0].Text, "call ") {
			names = strings.Fields(strings.TrimPrefix(m.Parts[0].Text, "call "))
			break
		}
	}
	if n := len(enginetest.Results(r)); n < len(names) {
		return seam.Reply{Parts: []parley.Part{enginetest.Call(names[n], map[string]string{"text": "hi"})}}, nil
	}
	say("done")
	return seam.Reply{}, nil
}

// TestOutwardAfterWeb: once a turn has content of the web, nothing but a human lets a call tell
// somebody outside something.
func TestOutwardAfterWeb(t *testing.T) {
	t.Parallel()
	setting := func(v parley.Verdict) func(*parley.App) {
		return func(a *parley.App) { a.Policy.OutwardAfterWeb = v }
	}
	for name, c := range map[string]struct {
		change  func(*parley.App)
		session parley.CreateSession
		message string
		asks    bool
		mails   int
	}{
		"without web":               {message: "call mail", mails: 1},
		"after web":                 {message: "call look mail", asks: true},
		"before web":                {message: "call mail look", mails: 1},
		"another tool after web":    {message: "call look put", mails: 0},
		"in acceptEdits":            {message: "call look mail", session: parley.CreateSession{Mode: parley.ModeAcceptEdits}, asks: true},
		"in bypassPermissions":      {message: "call look mail", session: parley.CreateSession{Mode: parley.ModeBypassPermissions}, asks: true},
		"the app allows it":         {message: "call look mail", change: setting(parley.Allow), mails: 1},
		"the app denies it":         {message: "call look mail", change: setting(parley.Deny)},
		"the session asks":          {message: "call look mail", change: setting(parley.Allow), session: parley.CreateSession{Policy: &parley.Policy{OutwardAfterWeb: parley.Ask}}, asks: true},
		"the session may not allow": {message: "call look mail", session: parley.CreateSession{Policy: &parley.Policy{OutwardAfterWeb: parley.Allow}}, asks: true},
		"nobody can be asked":       {message: "call look mail", change: func(a *parley.App) { a.Policy.Unattended = true }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				change := c.change
				if change == nil {
					change = func(*parley.App) {}
				}
				r := enginetest.New(t, callingInTurn, enginetest.App(surfing, change))
				defer r.Close()
				c.session.App = "test"
				s, _, err := r.Engine.Create(ctx, enginetest.User, c.session)
				if err != nil {
					t.Fatal(err)
				}
				turn := r.Await(r.Send(s.ID, c.message).ID)
				if asks := turn.Status == parley.StatusWaiting; asks != c.asks {
					t.Errorf("asks: %v, want %v: %+v", asks, c.asks, turn)
				}
				if _, _, mails := r.Service.Counts(); mails != c.mails {
					t.Errorf("%d mails, want %d", mails, c.mails)
				}
				if !c.asks || turn.Status != parley.StatusWaiting {
					return
				}
				state, err := r.Engine.State(ctx, enginetest.User, s.ID)
				if err != nil {
					t.Fatal(err)
				}
				in := state.Interactions[0]
				if diff := cmp.Diff([]string{parley.ChoiceAllow, parley.ChoiceDeny}, in.Choices); diff != "" || in.Kind != parley.KindConfirmation || !strings.Contains(in.Text, "text of strangers") {
					t.Errorf("asked: %+v\n%s", in, diff)
				}
				time.Sleep(time.Minute) // longer than sessions stay in memory
				if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
					t.Fatal(err)
				}
				if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
					t.Errorf("after the answer: %+v", got)
				}
				if _, _, mails := r.Service.Counts(); mails != 1 {
					t.Errorf("%d mails after the answer", mails)
				}
				if got := r.Await(r.Send(s.ID, "call mail").ID); got.Status != parley.StatusCompleted {
					t.Errorf("the next turn, without web: %+v", got)
				}
			})
		})
	}
}

// TestOutwardAfterWebCrash: wherever the server dies, the call is asked for and not made.
func TestOutwardAfterWebCrash(t *testing.T) {
	t.Parallel()
	for _, resume := range []parley.ResumeMode{parley.ResumeManual, parley.ResumeAuto} {
		t.Run(string(resume), func(t *testing.T) {
			t.Parallel()
			enginetest.CrashEverywhere(t, enginetest.Scenario{
				App:   enginetest.App(surfing, func(a *parley.App) { a.Resume = resume }),
				Model: always(callingInTurn), Messages: []string{"call look mail"}, Choice: parley.ChoiceDeny,
			})
		})
	}
}

// TestWebOfTheProvider: what a tool of the model's provider found counts, too.
func TestWebOfTheProvider(t *testing.T) {
	searched := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		reply, err := callingInTurn(ctx, r, say)
		reply.Parts = append([]parley.Part{{Type: parley.PartProvider, Provider: "p", Name: "web_search", Text: "searched"}}, reply.Parts...)
		return reply, err
	}
	rigged(t, searched, enginetest.App(surfing), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		if got := r.Await(r.Send(s.ID, "call mail").ID); got.Status != parley.StatusWaiting {
			t.Errorf("got %+v", got)
		}
	})
}
