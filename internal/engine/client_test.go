package engine_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// TestClientCrashAtEveryPoint: clients run the tools. They outlive the server and repeat all that
// they said, or die whenever the server does not answer.
func TestClientCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	ask := func(a *parley.App) {
		a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}, {Verdict: parley.Allow, Effect: parley.EffectRead}}
	}
	auto := func(a *parley.App) { a.Resume = parley.ResumeAuto }
	for name, sc := range map[string]enginetest.Scenario{
		"read":       {App: enginetest.App(), Model: always(mailer("look")), Messages: []string{"go"}},
		"two reads":  {App: enginetest.App(auto), Model: always(lookTwice), Messages: []string{"go"}},
		"idempotent": {App: enginetest.App(), Model: always(mailer("put")), Messages: []string{"go"}},
		"write":      {App: enginetest.App(), Model: always(mailer("mail")), Messages: []string{"go", "and then?"}},
		"asked":      {App: enginetest.App(ask), Model: always(mailer("mail")), Messages: []string{"go"}},
		"auto":       {App: enginetest.App(auto), Model: always(mailer("mail")), Messages: []string{"go"}},
	} {
		enginetest.ByClients(&sc.App)
		for mind, forgets := range map[string]bool{"": false, "forgets": true} {
			sc := sc
			sc.Client = func(s *enginetest.Service) *enginetest.Client {
				return &enginetest.Client{Service: s, Forgets: forgets}
			}
			t.Run(name+" "+mind, func(t *testing.T) {
				t.Parallel()
				enginetest.CrashEverywhere(t, sc)
			})
		}
	}
}

// callers changes an app so that callers may offer tools.
func callers(a *parley.App) {
	a.CallerTools = &parley.CallerTools{Timeout: parley.Duration(10 * time.Second)}
}

// offeredMail is a tool that a caller offers.
var offeredMail = []parley.OfferedTool{{Name: "mail", Description: "Mails from here.", InputSchema: []byte(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`)}}

// TestCallerToolsCrashAtEveryPoint: the tools that a caller offers are in the log of its turn, so
// the turn goes on with them after a crash.
func TestCallerToolsCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	enginetest.CrashEverywhere(t, enginetest.Scenario{
		App: enginetest.App(callers), Model: always(mailer("client_mail")), Messages: []string{"go"}, Offers: offeredMail,
		Client: func(s *enginetest.Service) *enginetest.Client { return &enginetest.Client{Service: s} },
	})
}

// TestCallerTools: a caller's tools are off by default. They are writes, have a name of their own,
// and end with their turn. A retry has them again.
func TestCallerTools(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app := enginetest.App(callers, func(a *parley.App) {
			a.MaxOpenTurns = 4
			a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}}
		})
		r := enginetest.New(t, mailer("client_mail"), app)
		defer r.Close()
		s := r.Session()
		send := func(tools []parley.OfferedTool, busy parley.BusyMode) (parley.TurnInfo, error) {
			return r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "go", Tools: tools, Busy: busy})
		}
		one := offeredMail[0]
		with := func(change func(*parley.OfferedTool)) []parley.OfferedTool {
			bad := one
			change(&bad)
			return []parley.OfferedTool{one, bad}
		}
		for field, tools := range map[string][]parley.OfferedTool{
			"tools[1].name":         {one, one},
			"tools[1].description":  with(func(o *parley.OfferedTool) { o.Name, o.Description = "b", " " }),
			"tools[1].input_schema": with(func(o *parley.OfferedTool) { o.Name, o.InputSchema = "b", []byte(`{"type":"string"}`) }),
			"tools[0].name":         {{Name: "a.b", Description: "x"}},
			"tools[0].input_schema": {{Name: "b", Description: "x", InputSchema: []byte(`{"type":"object","properties":{"a":{"type":"nothing"}}}`)}},
			"tools":                 slices.Repeat([]parley.OfferedTool{one}, parley.MaxCallerTools+1),
		} {
			_, err := send(tools, "")
			if e, ok := errors.AsType[*parley.Error](err); !ok || e.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
		large := one
		large.InputSchema = []byte(`{"type":"object","description":"` + strings.Repeat("x", parley.MaxCallerToolBytes) + `"}`)
		if _, err := send([]parley.OfferedTool{large}, ""); err == nil {
			t.Error("tools with too many bytes are taken")
		}

		turn, err := send(offeredMail, "")
		if err != nil {
			t.Fatal(err)
		}
		info := r.Await(turn.ID)
		asked, err := r.Engine.Interaction(ctx, enginetest.User, info.Interactions[0])
		if err != nil || asked.Kind != parley.KindPermission || asked.Tool != "client_mail" {
			t.Fatalf("%+v, %v", asked, err)
		}
		_, err = send(offeredMail, parley.BusySteer)
		wantCode(t, "tools for a turn that is open", err, parley.CodeInvalid)
		if _, err := r.Engine.Answer(ctx, enginetest.User, asked.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow, Input: []byte(`{"text":"edited"}`)}}); err != nil {
			t.Fatal(err)
		}
		own := &enginetest.Client{Service: r.Service}
		serve := func(turn parley.TurnID) string {
			t.Helper()
			if _, err := own.Serve(ctx, r.Engine, offer(t, r, turn).ID); err != nil {
				t.Fatal(err)
			}
			return r.Await(turn).Response.Message
		}
		if got := serve(turn.ID); !strings.HasSuffix(got, "mailed edited") {
			t.Errorf("got %q", got)
		}
		next, err := send(nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Await(next.ID); !strings.Contains(got.Response.Message, `There is no tool "client_mail"`) {
			t.Errorf("the next turn still has the tool: %q", got.Response.Message)
		}
		again, err := r.Engine.Retry(ctx, enginetest.User, turn.ID, "", "")
		if err != nil {
			t.Fatal(err)
		}
		info = r.Await(again.ID)
		if _, err := r.Engine.Answer(ctx, enginetest.User, info.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		if got := serve(again.ID); got != "done: mailed hi" {
			t.Errorf("a retry: %q", got)
		}
		if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
			t.Error(err)
		}

		off := enginetest.New(t, enginetest.Echo, enginetest.App())
		defer off.Close()
		_, err = off.Engine.Send(ctx, enginetest.User, off.Session().ID, parley.Send{Message: "go", Tools: offeredMail})
		wantCode(t, "an app that takes none", err, parley.CodeForbidden)
	})
}

func lookTwice(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if len(enginetest.Results(r)) > 0 {
		say("both seen")
		return seam.Reply{}, nil
	}
	return seam.Reply{Parts: []parley.Part{
		enginetest.Call("look", map[string]string{"text": "a"}), enginetest.Call("look", map[string]string{"text": "b"}),
	}}, nil
}

// TestClientsAreOfferedInOrder: the calls of one reply are offered in its order.
func TestClientsAreOfferedInOrder(t *testing.T) {
	t.Parallel()
	letters := []string{"a", "b", "c", "d", "e", "f"}
	many := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if len(enginetest.Results(r)) > 0 {
			say("all seen")
			return seam.Reply{}, nil
		}
		var parts []parley.Part
		for _, text := range letters {
			parts = append(parts, enginetest.Call("look", map[string]string{"text": text}))
		}
		return seam.Reply{Parts: parts}, nil
	}
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, many, clientApp())
		defer r.Close()
		turn := r.Send(r.Session().ID, "go")
		synctest.Wait()
		var got []string
		for _, id := range r.Await(turn.ID).Interactions {
			row, err := r.Engine.Interaction(ctx, enginetest.User, id)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(row.Input))
		}
		var want []string
		for _, text := range letters {
			want = append(want, `{"text":"`+text+`"}`)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// clientApp is an app whose tools clients run.
func clientApp(change ...func(*parley.App)) parley.App {
	return enginetest.App(append([]func(*parley.App){enginetest.ByClients}, change...)...)
}

// offer returns the call that a turn offers to clients.
func offer(t *testing.T, r *enginetest.Rig, turn parley.TurnID) seam.InteractionRow {
	t.Helper()
	info := r.Await(turn)
	if info.Status != parley.StatusWaiting || len(info.Interactions) != 1 || info.Offered != 1 {
		t.Fatalf("the turn is %s and waits for %v, of which %d are offered", info.Status, info.Interactions, info.Offered)
	}
	if in, err := r.Engine.Session(ctx, enginetest.User, info.SessionID); err != nil || in.Waiting != 1 || in.Offered != 1 {
		t.Fatalf("the session waits for %d, of which %d are offered: %v", in.Waiting, in.Offered, err)
	}
	row, err := r.Engine.Interaction(ctx, enginetest.User, info.Interactions[0])
	if err != nil || row.Kind != parley.KindClient {
		t.Fatalf("%+v, %v", row, err)
	}
	return row
}

// client runs a test over an engine whose tools clients run, in fake time.
func client(t *testing.T, tool string, f func(t *testing.T, r *enginetest.Rig, turn parley.TurnID, in seam.InteractionRow), change ...func(*parley.App)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, mailer(tool), clientApp(change...))
		defer r.Close()
		s := r.Session()
		turn := r.Send(s.ID, "go")
		f(t, r, turn.ID, offer(t, r, turn.ID))
		if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
			t.Error(err)
		}
	})
}

const ownToken = "0123456789abcdefghijklmnop"

func claim(r *enginetest.Rig, id parley.InteractionID, token string) (parley.Claimed, error) {
	return r.Engine.Claim(ctx, enginetest.User, id, parley.ClaimCall{Token: token})
}

func report(r *enginetest.Rig, id parley.InteractionID, token, output string) (parley.ToolResult, error) {
	return r.Engine.Report(ctx, enginetest.User, id, parley.ReportCall{Token: token, Output: output})
}

func wantCode(t *testing.T, what string, err error, want parley.Code) {
	t.Helper()
	if parley.CodeOf(err) != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

// TestClaim: of two claims one wins, and only its token may report. A repeated claim or report gets
// the same answer, also after the turn.
func TestClaim(t *testing.T) {
	client(t, "mail", func(t *testing.T, r *enginetest.Rig, turn parley.TurnID, in seam.InteractionRow) {
		_, err := claim(r, in.ID, "short")
		wantCode(t, "a short token", err, parley.CodeInvalid)
		_, err = report(r, in.ID, ownToken, "mailed")
		wantCode(t, "a report without a claim", err, parley.CodeConflict)
		_, err = r.Engine.Claim(ctx, parley.Principal{User: "bob"}, in.ID, parley.ClaimCall{})
		wantCode(t, "somebody else's claim", err, parley.CodeNotFound)
		_, err = r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceClaimed}})
		wantCode(t, "a claim as an answer", err, parley.CodeInvalid)

		one, err := claim(r, in.ID, ownToken)
		if err != nil || one.Token != ownToken || one.Attempt != 1 || one.LeftMS != 10_000 || one.Effect != parley.EffectWrite || string(one.Input) != `{"text":"hi"}` {
			t.Fatalf("%+v, %v", one, err)
		}
		again, err := claim(r, in.ID, ownToken)
		if diff := cmp.Diff(one, again); err != nil || diff != "" {
			t.Errorf("the same claim again: %v\n%s", err, diff)
		}
		_, err = claim(r, in.ID, "")
		wantCode(t, "another claim", err, parley.CodeConflict)
		_, err = report(r, in.ID, ownToken+"x", "mailed")
		wantCode(t, "another token", err, parley.CodeForbidden)
		if hint := parley.Info(err).Hint; !strings.Contains(hint, "the token of the claim") {
			t.Errorf("the hint for another token is %q", hint)
		}
		if info, err := r.Engine.Turn(ctx, enginetest.User, turn); err != nil || info.Status != parley.StatusRunning {
			t.Errorf("while it is claimed the turn is %s, %v", info.Status, err)
		}

		res, err := report(r, in.ID, ownToken, "mailed")
		if err != nil || res.Outcome != parley.OutcomeOK || res.Output != "mailed" {
			t.Fatalf("%+v, %v", res, err)
		}
		if got := r.Await(turn); got.Response == nil || got.Response.Message != "done: mailed" {
			t.Fatalf("%+v", got)
		}
		twice, err := report(r, in.ID, ownToken, "mailed")
		if diff := cmp.Diff(res, twice); err != nil || diff != "" {
			t.Errorf("the same report again: %v\n%s", err, diff)
		}
		_, err = report(r, in.ID, ownToken, "not mailed")
		wantCode(t, "another report", err, parley.CodeConflict)
		for _, ev := range r.Log(in.Session) {
			if bytes.Contains(ev.Data, []byte(ownToken)) {
				t.Errorf("%s has the token: %s", ev.Type, ev.Data)
			}
		}
	})
}

// TestClaimTwice: of clients that claim at once, one wins.
func TestClaimTwice(t *testing.T) {
	client(t, "look", func(t *testing.T, r *enginetest.Rig, turn parley.TurnID, in seam.InteractionRow) {
		var won atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				c, err := claim(r, in.ID, "")
				if err != nil {
					wantCode(t, "a later claim", err, parley.CodeConflict)
					return
				}
				won.Add(1)
				for range 3 {
					all.Go(func() {
						if res, err := report(r, in.ID, c.Token, "seen"); err != nil || res.Output != "seen" {
							t.Errorf("%+v, %v", res, err)
						}
					})
				}
			})
		}
		all.Wait()
		if got := r.Await(turn); won.Load() != 1 || got.Status != parley.StatusCompleted {
			t.Errorf("%d won, and the turn is %s", won.Load(), got.Status)
		}
	})
}

// TestClaimLate: after the deadline a read is offered again. Of a write, a person is asked whether
// it took effect. A late report is refused, but that of a write is kept.
func TestClaimLate(t *testing.T) {
	t.Run("read", func(t *testing.T) {
		client(t, "look", func(t *testing.T, r *enginetest.Rig, turn parley.TurnID, in seam.InteractionRow) {
			for n := 1; n <= 5; n++ {
				c, err := claim(r, in.ID, ownToken)
				if err != nil || c.Attempt != n {
					t.Fatalf("%+v, %v", c, err)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				_, err = report(r, in.ID, ownToken, "seen")
				wantCode(t, "a late report", err, parley.CodeConflict)
				if n < 5 {
					in = offer(t, r, turn)
				}
			}
			got := r.Await(turn)
			if got.Response == nil || !strings.Contains(got.Response.Message, "claimed this call 5 times") {
				t.Errorf("%+v", got)
			}
		})
	})
	t.Run("write", func(t *testing.T) {
		client(t, "mail", func(t *testing.T, r *enginetest.Rig, turn parley.TurnID, in seam.InteractionRow) {
			if _, err := claim(r, in.ID, ownToken); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			info := r.Await(turn)
			asked, err := r.Engine.Interaction(ctx, enginetest.User, info.Interactions[0])
			if err != nil || asked.Kind != parley.KindUnknown || info.Offered != 0 {
				t.Fatalf("%+v, %d offered, %v", asked, info.Offered, err)
			}
			for range 3 {
				_, err = report(r, in.ID, ownToken, "mailed with sk-ant-api03-"+strings.Repeat("x1Y", 30))
				wantCode(t, "a late report", err, parley.CodeConflict)
			}
			var kept []string
			for _, ev := range r.Log(in.Session) {
				if p, _ := ev.Payload(); ev.Type == "context.observed" {
					kept = append(kept, p.(parley.ContextObserved).Text)
				}
			}
			if len(kept) != 1 || !strings.Contains(kept[0], "ok: mailed with") || strings.Contains(kept[0], "x1Y") {
				t.Fatalf("kept: %q", kept)
			}
			tells(t, r, asked.ID, asked.Text+"\n"+kept[0])
			if _, err := r.Engine.Answer(ctx, enginetest.User, asked.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAgain}}); err != nil {
				t.Fatal(err)
			}
			again := offer(t, r, turn)
			if again.Call == in.Call {
				t.Error("the write is offered under its old id")
			}
			if _, err := r.Engine.Answer(ctx, enginetest.User, again.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceDeny, Text: "enough"}}); err != nil {
				t.Fatal(err)
			}
			if got := r.Await(turn); got.Status != parley.StatusCompleted || !strings.Contains(got.Response.Message, "enough") {
				t.Errorf("%+v", got)
			}
		})
	})
}

// tells checks the text of an open question wherever it can be read: in the lists, and in the
// folds.
func tells(t *testing.T, r *enginetest.Rig, id parley.InteractionID, want string) {
	t.Helper()
	row, err := r.Engine.Interaction(ctx, enginetest.User, id)
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := r.Engine.Inbox(ctx, enginetest.User, seam.InteractionMark{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	said := []string{row.Text}
	for _, in := range list {
		said = append(said, in.Text)
	}
	var s parley.Session
	var v parley.Transcript
	for _, ev := range r.Log(row.Session) {
		if err := s.Apply(ev); err != nil {
			t.Fatal(err)
		}
		v.Apply(ev)
	}
	for _, in := range slices.Concat(s.Interactions, v.Turns[len(v.Turns)-1].Interactions) {
		said = append(said, in.Text)
	}
	if want := []string{want, want, want, want}; !slices.Equal(said, want) {
		t.Errorf("it says %q, want %q", said, want)
	}
}

// TestClaimLateFirst: a report may come after the deadline, but before the server has noticed that
// the deadline has passed. The question has that report, too.
func TestClaimLateFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64 // how far the engine's clock is ahead of the one that the run sleeps by
		r := enginetest.New(t, mailer("mail"), clientApp(), func(o *engine.Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		})
		defer r.Close()
		turn := r.Send(r.Session().ID, "go")
		in := offer(t, r, turn.ID)
		if _, err := claim(r, in.ID, ownToken); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ahead.Store(int64(10 * time.Second))
		_, err := report(r, in.ID, ownToken, "mailed")
		wantCode(t, "a late report", err, parley.CodeConflict)
		info := r.Await(turn.ID)
		if len(info.Interactions) != 1 {
			t.Fatalf("it waits for %v", info.Interactions)
		}
		asked, err := r.Engine.Interaction(ctx, enginetest.User, info.Interactions[0])
		if err != nil || asked.Kind != parley.KindUnknown || !strings.Contains(asked.Text, "\nThe client that had claimed mail reported after the deadline: ok: mailed") {
			t.Fatalf("%+v, %v", asked, err)
		}
		tells(t, r, asked.ID, asked.Text)
	})
}

// TestClaimAndCommands: what may happen while a call is claimed, and while it is offered.
func TestClaimAndCommands(t *testing.T) {
	t.Run("cancel, offered", func(t *testing.T) {
		client(t, "mail", func(t *testing.T, r *enginetest.Rig, turn parley.TurnID, in seam.InteractionRow) {
			if got, err := r.Engine.Cancel(ctx, enginetest.User, turn, ""); err != nil || got.Status != parley.StatusCancelled {
				t.Errorf("%+v, %v", got, err)
			}
			_, err := claim(r, in.ID, "")
			wantCode(t, "a claim", err, parley.CodeConflict)
		})
	})
	for name, later := range map[string]time.Duration{"cancel, claimed write": 0, "cancel, claimed write of a turn that has parked": time.Hour} {
		t.Run(name, func(t *testing.T) { cancelsClaimed(t, later) })
	}
	t.Run("cancel, claimed read", func(t *testing.T) {
		client(t, "look", func(t *testing.T, r *enginetest.Rig, turn parley.TurnID, in seam.InteractionRow) {
			if _, err := claim(r, in.ID, ownToken); err != nil {
				t.Fatal(err)
			}
			if got, err := r.Engine.Cancel(ctx, enginetest.User, turn, ""); err != nil || got.Status != parley.StatusCancelled {
				t.Errorf("%+v, %v", got, err)
			}
			_, err := report(r, in.ID, ownToken, "seen")
			wantCode(t, "a report", err, parley.CodeConflict)
		})
	})
	t.Run("plan mode, offered", func(t *testing.T) {
		client(t, "mail", func(t *testing.T, r *enginetest.Rig, turn parley.TurnID, in seam.InteractionRow) {
			plan := parley.ModePlan
			if _, err := r.Engine.Update(ctx, enginetest.User, in.Session, parley.UpdateSession{Mode: &plan}); err != nil {
				t.Fatal(err)
			}
			_, err := claim(r, in.ID, "")
			wantCode(t, "a claim in plan mode", err, parley.CodeForbidden)
			r.Await(turn)
			if got := enginetest.Outcomes(r.Log(in.Session)); got[0] != "mail denied" {
				t.Errorf("got %v", got)
			}
		})
	})
	t.Run("nobody claims", func(t *testing.T) {
		client(t, "look", func(t *testing.T, r *enginetest.Rig, turn parley.TurnID, in seam.InteractionRow) {
			time.Sleep(time.Minute + time.Second)
			_, err := claim(r, in.ID, "")
			wantCode(t, "a claim that comes too late", err, parley.CodeConflict)
			if got := r.Await(turn); got.Status != parley.StatusCompleted || !strings.Contains(got.Response.Message, "No client made this call") {
				t.Errorf("%+v", got)
			}
		}, func(a *parley.App) {
			for i := range a.Tools {
				a.Tools[i].ClaimWithin = parley.Duration(time.Minute)
			}
		})
	})
	t.Run("time budget", func(t *testing.T) {
		client(t, "look", func(t *testing.T, r *enginetest.Rig, turn parley.TurnID, in seam.InteractionRow) {
			time.Sleep(time.Hour) // the clock stands
			if _, err := claim(r, in.ID, ownToken); err != nil {
				t.Fatal(err)
			}
			time.Sleep(6 * time.Second)
			if got := r.Await(turn); got.Status != parley.StatusFailed || got.Error.Code != "budget_duration" {
				t.Errorf("%+v", got)
			}
		}, func(a *parley.App) { a.Budgets.MaxDurationMS = 5000 })
	})
	t.Run("fork, claimed write", func(t *testing.T) {
		client(t, "mail", func(t *testing.T, r *enginetest.Rig, turn parley.TurnID, in seam.InteractionRow) {
			if _, err := claim(r, in.ID, ownToken); err != nil {
				t.Fatal(err)
			}
			fork, err := r.Engine.Fork(ctx, enginetest.User, in.Session, parley.ForkSession{})
			if err != nil {
				t.Fatal(err)
			}
			if err := enginetest.CheckLog(r.Log(fork.ID)); err != nil {
				t.Error(err)
			}
			if _, err := report(r, in.ID, ownToken, "mailed"); err != nil {
				t.Error(err)
			}
			r.Await(turn)
		})
	})
}

// cancelsClaimed cancels a turn right after a client has claimed its write. The client claims it
// this long after the call was offered. The turn waits for the report.
func cancelsClaimed(t *testing.T, later time.Duration) {
	client(t, "mail", func(t *testing.T, r *enginetest.Rig, turn parley.TurnID, in seam.InteractionRow) {
		time.Sleep(later)
		if _, err := claim(r, in.ID, ownToken); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Engine.Cancel(ctx, enginetest.User, turn, ""); err != nil || !got.Stopping {
			t.Errorf("%+v, %v", got, err)
		}
		if res, err := report(r, in.ID, ownToken, "mailed"); err != nil || res.Output != "mailed" {
			t.Errorf("%+v, %v", res, err)
		}
		if got := r.Await(turn); got.Status != parley.StatusCancelled {
			t.Errorf("the turn is %s", got.Status)
		}
		if got := enginetest.Outcomes(r.Log(in.Session)); got[0] != "mail ok" {
			t.Errorf("got %v", got)
		}
	})
}

// TestReport: an output that is too large becomes an artifact, and secrets are removed before it is
// cut. A report over the limits is refused.
func TestReport(t *testing.T) {
	client(t, "look", func(t *testing.T, r *enginetest.Rig, turn parley.TurnID, in seam.InteractionRow) {
		if _, err := claim(r, in.ID, ownToken); err != nil {
			t.Fatal(err)
		}
		secret := "sk-ant-api03-" + strings.Repeat("x1Y", 30)
		c := parley.ReportCall{Token: ownToken, Output: strings.Repeat("a line\n", 2330) + secret + strings.Repeat("\nand more", 9000), Files: []parley.ReportFile{
			{Name: "shot.png", MediaType: "image/png", Data: dot},
		}}
		for what, bad := range map[string]parley.ReportCall{
			"outcome":       {Token: ownToken, Outcome: "denied"},
			"no token":      {},
			"data":          {Token: ownToken, Data: []byte("{")},
			"file's name":   {Token: ownToken, Files: []parley.ReportFile{{}}},
			"large":         {Token: ownToken, Output: strings.Repeat("x", 8<<20+1)},
			"too many":      {Token: ownToken, Files: slices.Repeat(c.Files, 9)},
			"another token": {Token: "x"},
		} {
			if _, err := r.Engine.Report(ctx, enginetest.User, in.ID, bad); err == nil {
				t.Errorf("%s: no error", what)
			}
		}
		res, err := r.Engine.Report(ctx, enginetest.User, in.ID, c)
		if err != nil || res.Artifact == nil || len(res.Output) > 16<<10 {
			t.Fatalf("%d bytes, %+v, %v", len(res.Output), res.Artifact, err)
		}
		r.Await(turn)
		files := 0
		for _, ev := range r.Log(in.Session) {
			if bytes.Contains(ev.Data, []byte("x1Yx1Y")) {
				t.Errorf("%s has the secret", ev.Type)
			}
			if p, _ := ev.Payload(); ev.Type == "artifact.stored" {
				files++
				_, body, err := r.Engine.Artifact(ctx, enginetest.User, p.(parley.ArtifactStored).ID)
				if err != nil || bytes.Contains(body, []byte("x1Yx1Y")) {
					t.Errorf("an artifact has the secret, or %v", err)
				}
			}
		}
		if files != 2 {
			t.Errorf("%d artifacts, want 2", files)
		}
	})
}

// TestClaimedBesideAnOffer: while a client has claimed one call the turn runs, although another
// call is only offered. So the deadline of the claimed call is noticed, also after a crash.
func TestClaimedBesideAnOffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app := clientApp(func(a *parley.App) { a.Resume = parley.ResumeAuto })
		first := enginetest.New(t, lookTwice, app)
		s := first.Session()
		turn := first.Send(s.ID, "go")
		synctest.Wait()
		info, err := first.Engine.Turn(ctx, enginetest.User, turn.ID)
		if err != nil || len(info.Interactions) != 2 {
			t.Fatalf("%d calls are offered", len(info.Interactions))
		}
		if _, err := claim(first, info.Interactions[0], ownToken); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		disk := first.Mem.Clone()
		first.Kill()
		r := enginetest.Over(t, disk, first.Service, lookTwice, app)
		defer r.Close()
		done, err := r.Engine.Recover(ctx)
		if err != nil {
			t.Fatal(err)
		}
		<-done
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if info, err = r.Engine.Turn(ctx, enginetest.User, turn.ID); err != nil || info.Status != parley.StatusWaiting || len(info.Interactions) != 2 {
			t.Errorf("after the deadline the turn is %s with %d offers, %v\n%s", info.Status, len(info.Interactions), err, enginetest.Types(r.Log(s.ID)))
		}
		// The end of a step may make the turn wait, and its row says so.
		if _, err := claim(r, info.Interactions[0], ownToken); err != nil {
			t.Fatal(err)
		}
		if _, err := report(r, info.Interactions[0], ownToken, "seen"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if row, err := r.Store.Turn(ctx, enginetest.User, turn.ID); err != nil || row.Status != parley.StatusWaiting {
			t.Errorf("the row of a turn that waits says %s, %v", row.Status, err)
		}
	})
}
