package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
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

// office is a service with one tool whose calls read or write, as their input says. Tokens that begin
// with "old" have expired. It outlives crashes.
type office struct {
	keyed bool // writes are made once for their key

	mu   sync.Mutex
	done []string // "call input token"
	gate func() error
}

func (o *office) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{
		Name: "office", Description: "Work with the office.", Effect: parley.EffectWrite, Reads: "GET", Confirm: true,
		KeyTTL: parley.Duration(time.Hour), Timeout: parley.Duration(10 * time.Second),
		InputSchema: json.RawMessage(`{"type":"object","properties":{"method":{"type":"string"},"text":{"type":"string"}},"required":["method"]}`),
		Credentials: []parley.CredentialDecl{{Name: "CRM", Hosts: []string{"crm.example.com"}}},
	}}, nil
}

func (o *office) EffectOf(_ string, input json.RawMessage) parley.Effect {
	var in struct{ Method string }
	switch err := json.Unmarshal(input, &in); {
	case err == nil && in.Method == "GET":
		return parley.EffectRead
	case o.keyed:
		return parley.EffectIdempotent
	}
	return parley.EffectWrite
}

func (o *office) Prepare(_ context.Context, r seam.Run) (*parley.Interaction, error) {
	if v, err := r.Credential("CRM", "crm.example.com"); err == nil && strings.HasPrefix(v, "old") {
		return &parley.Interaction{Kind: parley.KindCredential, Credentials: []string{"CRM"}, Title: "The login has expired"}, nil
	}
	return nil, nil
}

func (o *office) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	v, err := r.Credential("CRM", "crm.example.com")
	if err != nil {
		return parley.ToolResult{}, seam.NotSent(err)
	}
	o.mu.Lock()
	did := fmt.Sprintf("%s %s", r.Input, v)
	if r.Effect != parley.EffectRead {
		did = string(r.Call) + " " + did
	}
	if r.Effect != parley.EffectIdempotent || !slices.Contains(o.done, did) {
		o.done = append(o.done, did)
	}
	gate := o.gate
	o.mu.Unlock()
	if gate != nil {
		if err := gate(); err != nil {
			return parley.ToolResult{}, err
		}
	}
	return parley.ToolResult{Output: "done"}, nil
}

// writes are the writes that were made, with their inputs and tokens.
func (o *office) writes() (list []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, did := range o.done {
		if !strings.HasPrefix(did, "{") {
			_, what, _ := strings.Cut(did, " ")
			list = append(list, what)
		}
	}
	return list
}

// Live implements enginetest.World.
func (o *office) Live(opt *engine.Options, gate func() error) func() {
	o.mu.Lock()
	o.gate = gate
	o.mu.Unlock()
	enginetest.With(o)(opt)
	return func() {}
}

// Effects implements enginetest.World.
func (o *office) Effects() map[string]int { return map[string]int{"writes": len(o.writes())} }

// Close implements enginetest.World.
func (o *office) Close() {}

const wish = `{"method":"POST","text":"a \u003c b"}`

// asksFor looks, then writes, then says what came of it.
func asksFor(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	results := enginetest.Results(r)
	switch len(results) {
	case 0:
		return seam.Reply{Parts: []parley.Part{enginetest.Call("office", map[string]string{"method": "GET"})}}, nil
	case 1:
		return seam.Reply{Parts: []parley.Part{enginetest.Call("office", json.RawMessage(wish))}}, nil
	}
	say(strings.Join(results, "; "))
	return seam.Reply{}, nil
}

// TestConfirmationCrashAtEveryPoint: a write that was confirmed is made once, or reported as unknown,
// wherever the server stops; one whose service knows keys is made once.
func TestConfirmationCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	auto := func(a *parley.App) { a.Resume = parley.ResumeAuto }
	for name, tc := range map[string]struct {
		keyed  bool
		change func(*parley.App)
		choice string
	}{
		"write":      {change: func(*parley.App) {}},
		"by auto":    {change: auto},
		"idempotent": {keyed: true, change: auto},
		"declined":   {change: auto, choice: parley.ChoiceDeny},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enginetest.CrashEverywhere(t, enginetest.Scenario{
				App: withTool(&office{keyed: tc.keyed}, "office", tc.change), Model: always(asksFor), Messages: []string{"go"}, Choice: tc.choice,
				Credentials: parley.Credentials{"CRM": canary}, Sparse: 3,
				World: func() enginetest.World { return &office{keyed: tc.keyed} },
			})
		})
	}
}

// TestEachWriteIsConfirmed: no rule, mode or earlier yes stands for the confirmation of a write, and a
// read of the same tool asks nobody.
func TestEachWriteIsConfirmed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		app     func(*parley.App)
		session func(*parley.CreateSession)
	}{
		"nothing is said": {},
		"rules allow it": {app: func(a *parley.App) {
			a.Policy.Rules = []parley.Rule{{Verdict: parley.Allow}, {Verdict: parley.Allow, Tool: "office"}, {Verdict: parley.Allow, Tool: "office(*)"}}
		}},
		"nothing is asked": {
			app:     func(a *parley.App) { a.Policy.Modes = []parley.PermissionMode{parley.ModeBypassPermissions} },
			session: func(s *parley.CreateSession) { s.Mode = parley.ModeBypassPermissions },
		},
		"the session asks": {session: func(s *parley.CreateSession) {
			s.Policy = &parley.Policy{Rules: []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := &office{}
				change := c.app
				if change == nil {
					change = func(*parley.App) {}
				}
				r := enginetest.New(t, asksFor, withTool(o, "office", change), o.in)
				defer r.Close()
				s := r.Session()
				if c.session != nil {
					s = r.Session(c.session)
				}
				turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, withCRM(canary))
				if err != nil {
					t.Fatal(err)
				}
				in := asksNow(r, turn.ID)
				if in.Kind != parley.KindConfirmation || string(in.Input) != wish || len(in.Choices) != 2 || len(o.writes()) != 0 {
					t.Fatalf("got %+v, %v", in, o.writes())
				}
				for what, answer := range map[string]parley.Answer{
					"for the session": {Choice: parley.ChoiceAllowSession}, "another input": {Choice: parley.ChoiceAllow, Input: json.RawMessage(`{"method":"DELETE"}`)},
					"the same input": {Choice: parley.ChoiceAllow, Input: json.RawMessage(wish)},
				} {
					if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: answer}); parley.CodeOf(err) != parley.CodeInvalid {
						t.Errorf("%s: %v", what, err)
					}
				}
				for range 2 { // the same again changes nothing
					if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
						t.Fatal(err)
					}
				}
				if got := r.Await(turn.ID); got.Status != parley.StatusCompleted || len(o.writes()) != 1 || o.writes()[0] != wish+" "+canary {
					t.Errorf("got %s %+v, %v", got.Status, got.Response, o.writes())
				}
			})
		})
	}
}

func (o *office) in(opt *engine.Options) { enginetest.With(o)(opt) }

// asksNow is the interaction that a turn waits for.
func asksNow(r *enginetest.Rig, turn parley.TurnID) parley.Interaction {
	r.T.Helper()
	info := r.Await(turn)
	if info.Status != parley.StatusWaiting || len(info.Interactions) != 1 {
		r.T.Fatalf("the turn is %s and waits for %v", info.Status, info.Interactions)
	}
	row, err := r.Engine.Interaction(ctx, enginetest.User, info.Interactions[0])
	if err != nil {
		r.T.Fatal(err)
	}
	return row.Interaction
}

// TestConfirmedWithAnExpiredLogin: a write that is confirmed while the login is missing or has expired
// waits for another one, and is not asked about again.
func TestConfirmedWithAnExpiredLogin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &office{}
		r := enginetest.New(t, asksFor, withTool(o, "office"), o.in)
		defer r.Close()
		s := r.Session()
		turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, withCRM(canary))
		if err != nil {
			t.Fatal(err)
		}
		in := asksNow(r, turn.ID)
		if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{
			Answer: parley.Answer{Choice: parley.ChoiceAllow}, Credentials: parley.Credentials{"CRM": "old-token-1"},
		}); err != nil {
			t.Fatal(err)
		}
		for _, again := range []string{"old-token-2", "a-new-token"} {
			in = asksNow(r, turn.ID)
			if in.Kind != parley.KindCredential || len(o.writes()) != 0 {
				t.Fatalf("got %+v, %v", in, o.writes())
			}
			if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{
				Answer: parley.Answer{Choice: parley.ChoiceAnswered}, Credentials: parley.Credentials{"CRM": again},
			}); err != nil {
				t.Fatal(err)
			}
		}
		if got := r.Await(turn.ID); got.Status != parley.StatusCompleted || len(o.writes()) != 1 || o.writes()[0] != wish+" a-new-token" {
			t.Errorf("got %s %+v, %v", got.Status, got.Response, o.writes())
		}
		for _, ev := range r.Log(s.ID) {
			if raw := string(ev.Data); strings.Contains(raw, "old-token") || strings.Contains(raw, "a-new-token") || strings.Contains(raw, canary) {
				t.Errorf("the log has a login: %s", raw)
			}
		}
	})
}

// TestConfirmationAndCommands does with a write that waits what else can be done with a turn. A write
// that is no longer asked about is not made, whoever says yes.
func TestConfirmationAndCommands(t *testing.T) {
	t.Parallel()
	type stand struct {
		*enginetest.Rig
		s    parley.SessionID
		turn parley.TurnID
		in   parley.InteractionID
	}
	message := func(busy parley.BusyMode) func(st stand) error {
		return func(st stand) error {
			c := withCRM(canary)
			c.Busy = busy
			_, err := st.Engine.Send(ctx, enginetest.User, st.s, c)
			return err
		}
	}
	for name, c := range map[string]struct {
		do     func(st stand) error
		closed bool // what was asked is over
	}{
		"steer":     {message(parley.BusySteer), true},
		"interrupt": {message(parley.BusyInterrupt), true},
		"queue":     {message(parley.BusyEnqueue), false},
		"cancel": {func(st stand) error {
			_, err := st.Engine.Cancel(ctx, enginetest.User, st.turn, "no")
			return err
		}, true},
		"end": {func(st stand) error {
			_, err := st.Engine.End(ctx, enginetest.User, st.s, "over")
			return err
		}, true},
		"fork": {func(st stand) error {
			f, err := st.Engine.Fork(ctx, enginetest.User, st.s, parley.ForkSession{})
			if err == nil && f.Waiting != 0 {
				err = fmt.Errorf("the fork waits for %d", f.Waiting)
			}
			return err
		}, false},
		"rewind": {func(st stand) error {
			if _, err := st.Engine.Rewind(ctx, enginetest.User, st.s, parley.RewindSession{Turn: st.turn}); parley.CodeOf(err) != parley.CodeConflict && parley.CodeOf(err) != parley.CodeBusy {
				return fmt.Errorf("it was rewound: %w", err)
			}
			return nil
		}, false},
		"expire": {func(stand) error {
			time.Sleep(25 * time.Hour) // in a bubble
			return nil
		}, true},
		"another's yes": {func(st stand) error {
			_, err := st.Engine.Answer(ctx, parley.Principal{User: "eve", Org: enginetest.User.Org}, st.in, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}})
			if parley.CodeOf(err) != parley.CodeNotFound {
				return fmt.Errorf("another user may answer: %w", err)
			}
			return nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := &office{}
				r := enginetest.New(t, asksFor, withTool(o, "office", func(a *parley.App) { a.MaxOpenTurns = 4 }), o.in)
				defer r.Close()
				s := r.Session()
				turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, withCRM(canary))
				if err != nil {
					t.Fatal(err)
				}
				in := asksNow(r, turn.ID)
				if err := c.do(stand{r, s.ID, turn.ID, in.ID}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				var yes sync.WaitGroup
				errs := make([]error, 2)
				for i := range errs { // at once: one of them counts
					yes.Go(func() {
						_, errs[i] = r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{
							Answer: parley.Answer{Choice: parley.ChoiceAllow}, Credentials: parley.Credentials{"CRM": canary},
						})
					})
				}
				yes.Wait()
				synctest.Wait()
				want := 1
				if c.closed {
					want = 0
				}
				for _, err := range errs {
					if c.closed != (parley.CodeOf(err) == parley.CodeConflict) || !c.closed && err != nil {
						t.Errorf("the answer: %v", err)
					}
				}
				if got := o.writes(); len(got) != want {
					t.Errorf("got %v, want %d", got, want)
				}
			})
		})
	}
}
