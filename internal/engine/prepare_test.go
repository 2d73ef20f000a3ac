package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// gateway is a service that can be called only after a human has logged in. It outlives crashes.
type gateway struct {
	effect parley.Effect
	clicks int // how many answers it needs; more than 3: it never has enough

	mu    sync.Mutex
	asked int
	in    bool
	calls int
	gate  func() error
}

func (g *gateway) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{
		Name: "crm", Description: "Write to the CRM.", Effect: g.effect, KeyTTL: parley.Duration(time.Hour), Timeout: parley.Duration(10 * time.Second),
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
	}}, nil
}

func (g *gateway) Prepare(_ context.Context, r seam.Run) (*parley.Interaction, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.in || g.asked >= g.clicks {
		return nil, nil
	}
	g.asked++
	return &parley.Interaction{
		Kind: parley.KindQuestion, Title: "Log in", Text: "Open https://crm.example.com", URL: "https://crm.example.com",
		Questions: []parley.Question{{Question: "Done?", Header: "Login", Options: []parley.Option{{Label: "Done"}}}},
	}, nil
}

func (g *gateway) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	if err := r.Hide(canary); err != nil {
		return parley.ToolResult{}, seam.NotSent(err)
	}
	g.mu.Lock()
	g.calls++
	gate := g.gate
	g.mu.Unlock()
	if gate != nil {
		if err := gate(); err != nil {
			return parley.ToolResult{}, err
		}
	}
	r.Progress("with " + canary)
	return parley.ToolResult{Output: "written with " + canary}, nil
}

func (g *gateway) login() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.in = true
}

// Live implements enginetest.World.
func (g *gateway) Live(o *engine.Options, gate func() error) func() {
	g.mu.Lock()
	g.gate = gate
	g.mu.Unlock()
	g.with(o)
	return func() {}
}

func (g *gateway) Effects() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.effect == parley.EffectRead {
		return nil
	}
	return map[string]int{"writes": g.calls}
}

func (g *gateway) Close() {}

func (g *gateway) with(o *engine.Options) {
	enginetest.With(g)(o)
}

func (g *gateway) app(change ...func(*parley.App)) parley.App { return withTool(g, "crm", change...) }

// TestPrepareCrashAtEveryPoint: a call that needs a login asks for it across every crash, and is
// made once.
func TestPrepareCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	for name, effect := range map[string]parley.Effect{"write": parley.EffectWrite, "read": parley.EffectRead} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enginetest.CrashEverywhere(t, enginetest.Scenario{
				App: (&gateway{effect: effect}).app(), Model: always(clerk), Messages: []string{"go"}, Sparse: 3,
				World: func() enginetest.World { return &gateway{effect: effect, clicks: 2} },
			})
		})
	}
}

// TestPrepareAndCommands does each thing that can be done with a turn to a turn that waits for a
// login.
func TestPrepareAndCommands(t *testing.T) {
	t.Parallel()
	type stand struct {
		*enginetest.Rig
		g *gateway
		s parley.SessionID
	}
	send := func(r stand, c parley.Send) parley.TurnID {
		r.T.Helper()
		info, err := r.Engine.Send(ctx, enginetest.User, r.s, c)
		if err != nil {
			r.T.Fatal(err)
		}
		return info.ID
	}
	waits := func(r stand, turn parley.TurnID) seam.InteractionRow {
		r.T.Helper()
		got := r.Await(turn)
		if got.Status != parley.StatusWaiting || len(got.Interactions) != 1 {
			r.T.Fatalf("got %+v with %+v", got, got.Response)
		}
		in, err := r.Engine.Interaction(ctx, enginetest.User, got.Interactions[0])
		if err != nil || in.URL != "https://crm.example.com" {
			r.T.Fatalf("got %+v, %v", in, err)
		}
		return in
	}
	answer := func(r stand, in seam.InteractionRow, a parley.Answer) {
		r.T.Helper()
		if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: a}); err != nil {
			r.T.Fatal(err)
		}
	}
	done := parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{"Done?": "Done"}}
	ended := func(r stand, turn parley.TurnID, status parley.TurnStatus, said string, calls int) {
		r.T.Helper()
		got := r.Await(turn)
		if got.Status != status || said != "" && (got.Response == nil || !strings.Contains(got.Response.Message, said)) {
			r.T.Errorf("got %s %+v %v, want %s %q", got.Status, got.Response, got.Error, status, said)
		}
		r.g.mu.Lock()
		defer r.g.mu.Unlock()
		if r.g.calls != calls {
			r.T.Errorf("it was called %d times, want %d", r.g.calls, calls)
		}
	}
	for name, do := range map[string]func(r stand){
		"logged in": func(r stand) {
			turn := send(r, parley.Send{Message: "go"})
			in := waits(r, turn)
			r.g.login()
			answer(r, in, done)
			ended(r, turn, parley.StatusCompleted, "written with [redacted]", 1)
			nowhere(r.Rig, canary, r.s)
		},
		"said so three times": func(r stand) {
			turn := send(r, parley.Send{Message: "go"})
			for range 3 {
				answer(r, waits(r, turn), done)
			}
			ended(r, turn, parley.StatusCompleted, "they were asked 3 times", 0)
		},
		"declined": func(r stand) {
			turn := send(r, parley.Send{Message: "go"})
			answer(r, waits(r, turn), parley.Answer{Choice: parley.ChoiceDeny, Text: "not there"})
			ended(r, turn, parley.StatusCompleted, "did not do what this call needs first: not there", 0)
		},
		"cancelled": func(r stand) {
			turn := send(r, parley.Send{Message: "go"})
			waits(r, turn)
			if _, err := r.Engine.Cancel(ctx, enginetest.User, turn, ""); err != nil {
				r.T.Fatal(err)
			}
			ended(r, turn, parley.StatusCancelled, "", 0)
		},
		"expired": func(r stand) {
			turn := send(r, parley.Send{Message: "go"})
			in := waits(r, turn)
			time.Sleep(25 * time.Hour) // of the bubble's clock
			synctest.Wait()
			if row, err := r.Engine.Interaction(ctx, enginetest.User, in.ID); err != nil || row.Open {
				r.T.Errorf("it is open: %+v, %v", row, err)
			}
			ended(r, turn, parley.StatusCompleted, "", 0)
		},
		"queued and interrupted": func(r stand) {
			turn := send(r, parley.Send{Message: "go"})
			waits(r, turn)
			r.g.login()
			next := send(r, parley.Send{Message: "go", Busy: parley.BusyInterrupt})
			ended(r, next, parley.StatusCompleted, "written", 1)
			ended(r, turn, parley.StatusCancelled, "", 1)
		},
		"forked": func(r stand) {
			turn := send(r, parley.Send{Message: "go"})
			in := waits(r, turn)
			fork, err := r.Engine.Fork(ctx, enginetest.User, r.s, parley.ForkSession{})
			if err != nil {
				r.T.Fatal(err)
			}
			r.g.login()
			answer(r, in, done)
			ended(r, turn, parley.StatusCompleted, "written", 1)
			own := r.Send(fork.ID, "go").ID
			ended(r, own, parley.StatusCompleted, "written", 2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := &gateway{effect: parley.EffectWrite, clicks: 10}
				allow := func(a *parley.App) { a.Policy.Rules = []parley.Rule{{Verdict: parley.Allow}} }
				r := enginetest.New(t, clerk, g.app(allow), g.with)
				defer r.Close()
				do(stand{r, g, r.Session().ID})
			})
		})
	}
}
