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
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/replay"
	"github.com/parley-server/parley/internal/seam"
)

// canary has no shape by which redaction could recognise it.
const canary = "quiet canary over nine hills"

// crm is a service that needs a credential. It repeats what it was given in each way in which a
// service can. It outlives crashes.
type crm struct {
	effect parley.Effect
	memory bool // it can be asked what became of a call
	echo   bool

	mu   sync.Mutex
	done []string // "user credential text"
	gate func() error
}

func (c *crm) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{
		Name: "crm", Description: "Write to the CRM.", Effect: c.effect, KeyTTL: parley.Duration(time.Hour), Timeout: parley.Duration(10 * time.Second),
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
		Credentials: []parley.CredentialDecl{{Name: "CRM", Hosts: []string{"crm.example.com"}}},
	}}, nil
}

func (c *crm) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	v, err := r.Credential("CRM", "crm.example.com")
	if err != nil {
		return parley.ToolResult{}, seam.NotSent(err)
	}
	for _, refused := range [][2]string{{"OTHER", "crm.example.com"}, {"CRM", "evil.example.com"}, {"CRM", "sub.crm.example.com"}} {
		if v, err := r.Credential(refused[0], refused[1]); err == nil || v != "" {
			return parley.ToolResult{}, fmt.Errorf("%v was not refused", refused)
		}
	}
	c.mu.Lock()
	did := r.Principal.User + " " + v + " " + string(r.Call)
	if c.effect == parley.EffectWrite || !slices.Contains(c.done, did) {
		c.done = append(c.done, did)
	}
	gate := c.gate
	c.mu.Unlock()
	if gate != nil {
		if err := gate(); err != nil {
			return parley.ToolResult{}, err
		}
	}
	if !c.echo {
		return parley.ToolResult{Output: "written"}, nil
	}
	r.Progress("with " + v[:9])
	r.Progress(v[9:] + " it goes")
	if err := r.Keep(seam.File{Name: "request.txt", MediaType: "text/plain", Body: []byte("Authorization: " + v)}); err != nil {
		return parley.ToolResult{}, err
	}
	data, err := json.Marshal(map[string]string{"token": v})
	if err != nil {
		return parley.ToolResult{}, err
	}
	return parley.ToolResult{Output: strings.Repeat("x", 16<<10) + v, Data: data, About: []string{v}}, nil
}

func (c *crm) Reconcile(_ context.Context, r seam.Run) (parley.ToolResult, bool, error) {
	if !c.memory {
		return parley.ToolResult{}, false, nil
	}
	v, err := r.Credential("CRM", "crm.example.com")
	if err != nil {
		return parley.ToolResult{}, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, did := range c.done {
		if did == r.Principal.User+" "+v+" "+string(r.Call) {
			return parley.ToolResult{Outcome: parley.OutcomeOK, Output: "written"}, true, nil
		}
	}
	return parley.ToolResult{Outcome: parley.OutcomeError, Output: "not written"}, true, nil
}

func (c *crm) calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.done...)
}

// Live implements enginetest.World.
func (c *crm) Live(o *engine.Options, gate func() error) func() {
	c.mu.Lock()
	c.gate = gate
	c.mu.Unlock()
	c.in(o)
	return func() {}
}

func (c *crm) Effects() map[string]int {
	out := map[string]int{}
	for _, did := range c.calls() {
		out[did]++
	}
	if c.effect == parley.EffectRead {
		return nil
	}
	return map[string]int{"writes": len(out)}
}

func (c *crm) Close() {}

func (c *crm) in(o *engine.Options) {
	enginetest.With(c)(o)
}

func (c *crm) app(change ...func(*parley.App)) parley.App { return withTool(c, "crm", change...) }

// withTool is an app whose only agent has one tool.
func withTool(set seam.Toolset, name string, change ...func(*parley.App)) parley.App {
	tools, _ := set.Tools(context.Background())
	return enginetest.App(append([]func(*parley.App){func(a *parley.App) {
		a.Tools = tools
		a.Agents = map[string]parley.AgentDef{"lead": {Name: "lead", Prompt: "Be useful.", Tools: []string{name}}}
	}}, change...)...)
}

// clerk calls the CRM once and shows what became of it.
func clerk(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if got := enginetest.Results(r); len(got) > 0 || strings.Contains(enginetest.Last(r), "leave it") {
		if len(got) == 0 {
			got = []string{"left"}
		}
		say("result: " + got[len(got)-1])
		return seam.Reply{StopReason: "end_turn"}, nil
	}
	return seam.Reply{Parts: []parley.Part{enginetest.Call("crm", map[string]string{"text": "hi"})}, StopReason: "tool_use"}, nil
}

func withCRM(value string) parley.Send {
	return parley.Send{Message: "go", Credentials: parley.Credentials{"CRM": value}}
}

// waitsFor awaits a turn that asks for a credential.
func waitsFor(r *enginetest.Rig, turn parley.TurnID) seam.InteractionRow {
	r.T.Helper()
	if got := r.Await(turn); got.Status != parley.StatusWaiting || len(got.Interactions) != 1 {
		r.T.Fatalf("got %+v", got)
	}
	open, err := r.Engine.Interactions(ctx, enginetest.User, 10)
	if err != nil || len(open) != 1 || open[0].Kind != parley.KindCredential || strings.Join(open[0].Credentials, " ") != "CRM" {
		r.T.Fatalf("got %+v, %v", open, err)
	}
	return open[0]
}

func gives(value string) parley.AnswerInteraction {
	return parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAnswered}, Credentials: parley.Credentials{"CRM": value}}
}

// nowhere fails if a text occurs in the store or in what a session shows.
func nowhere(r *enginetest.Rig, secret string, ids ...parley.SessionID) {
	r.T.Helper()
	for _, id := range ids {
		for _, ev := range r.Log(id) {
			if raw, _ := json.Marshal(ev); strings.Contains(string(raw), secret) {
				r.T.Errorf("event %d has it: %s", ev.Seq, raw)
			}
		}
		arts, err := r.Store.Artifacts(ctx, enginetest.User, id)
		if err != nil {
			r.T.Fatal(err)
		}
		for _, a := range arts {
			body, err := r.Store.Blob(ctx, enginetest.User, id, a.SHA256)
			if err != nil || strings.Contains(string(body), secret) {
				r.T.Errorf("artifact %s has it, %v", a.Name, err)
			}
		}
	}
}

func TestCredential(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		send   parley.Send
		answer *parley.AnswerInteraction
		want   string
		calls  int
	}{
		"with the message":     {send: withCRM(canary), want: "result: written", calls: 1},
		"asked for, and given": {send: parley.Send{Message: "go"}, answer: new(gives(canary)), want: "result: written", calls: 1},
		"asked for, and held back": {
			send: parley.Send{Message: "go"}, answer: &parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceDeny, Text: "not today"}},
			want: "did not give the credential that this call needs: not today",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &crm{effect: parley.EffectWrite}
				r := enginetest.New(t, clerk, c.app(), c.in)
				defer r.Close()
				s := r.Session()
				turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, tc.send)
				if err != nil {
					t.Fatal(err)
				}
				if tc.answer != nil {
					in := waitsFor(r, turn.ID)
					for what, bad := range map[string]parley.AnswerInteraction{
						"no value":     {Answer: parley.Answer{Choice: parley.ChoiceAnswered}},
						"as a text":    {Answer: parley.Answer{Choice: parley.ChoiceAnswered, Text: canary}},
						"other name":   {Answer: parley.Answer{Choice: parley.ChoiceAnswered}, Credentials: parley.Credentials{"X": canary}},
						"no choice":    {Answer: parley.Answer{Choice: parley.ChoiceAllow}, Credentials: parley.Credentials{"CRM": canary}},
						"too short":    gives("12345"),
						"two lines":    gives("one\r\ntwo"),
						"not a name":   {Answer: parley.Answer{Choice: parley.ChoiceAnswered}, Credentials: parley.Credentials{"A B": canary}},
						"far too long": gives(strings.Repeat("x", parley.MaxCredential+1)),
					} {
						if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, bad); parley.CodeOf(err) != parley.CodeInvalid && parley.CodeOf(err) != parley.CodeTooLarge || strings.Contains(fmt.Sprintf("%+v", err), canary) {
							t.Errorf("%s: %v", what, err)
						}
					}
					if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, *tc.answer); err != nil {
						t.Fatal(err)
					}
				}
				got := r.Await(turn.ID)
				if got.Status != parley.StatusCompleted || !strings.Contains(got.Response.Message, tc.want) {
					t.Errorf("got %s %+v", got.Status, got.Response)
				}
				if calls := c.calls(); len(calls) != tc.calls || tc.calls > 0 && !strings.HasPrefix(calls[0], "ana "+canary) {
					t.Errorf("calls: %q", calls)
				}
				nowhere(r, canary, s.ID)
				// The credential is gone with the turn.
				waitsFor(r, r.Send(s.ID, "again").ID)
			})
		})
	}
}

// TestCredentialEchoed: a service and a model repeat a credential, also in pieces.
func TestCredentialEchoed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &crm{effect: parley.EffectIdempotent, echo: true}
		parrot := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			for _, m := range r.Messages {
				if raw, _ := json.Marshal(m); strings.Contains(string(raw), canary) {
					t.Errorf("a prompt has it: %s", raw)
				}
			}
			if len(enginetest.Results(r)) == 0 {
				return clerk(ctx, r, say)
			}
			for i := range canary { // as if the model had guessed it
				say(canary[i : i+1])
			}
			return seam.Reply{StopReason: "end_turn"}, nil
		}
		r := enginetest.New(t, parrot, c.app(), c.in)
		defer r.Close()
		s := r.Session()
		seen := make(chan string, 1)
		following, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			var all strings.Builder
			for f, err := range r.Reader.Follow(following, enginetest.User, s.ID, 0) {
				if err != nil {
					break
				}
				switch {
				case f.Delta != nil:
					all.WriteString(f.Delta.Text)
				case f.Event != nil:
					all.WriteString("\n" + string(f.Event.Data) + "\n")
				}
			}
			seen <- all.String()
		}()
		synctest.Wait() // until the client follows
		send := withCRM(canary)
		send.Message = "my token is " + canary
		turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, send)
		if err != nil {
			t.Fatal(err)
		}
		got := r.Await(turn.ID)
		if got.Status != parley.StatusCompleted || got.Response.Message != eventlog.Mark {
			t.Errorf("got %s %+v", got.Status, got.Response)
		}
		synctest.Wait()
		stop()
		shown := <-seen
		for at := range len(canary) - 8 { // no part of it either
			if strings.Contains(shown, canary[at:at+8]) {
				t.Errorf("%q was shown", canary[at:at+8])
			}
		}
		if !strings.Contains(shown, "with [redacted] it goes") {
			t.Errorf("the progress was not shown: %s", strings.ReplaceAll(shown, "xxxx", ""))
		}
		nowhere(r, canary, s.ID)
		arts, err := r.Store.Artifacts(ctx, enginetest.User, s.ID)
		if err != nil || len(arts) != 2 {
			t.Errorf("artifacts: %+v, %v", arts, err)
		}
	})
}

func TestCredentialCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	ask := func(a *parley.App) {
		a.Policy.Rules = []parley.Rule{{Verdict: parley.Confirm, Effect: parley.EffectWrite}}
	}
	auto := func(a *parley.App) { a.Resume = parley.ResumeAuto }
	for name, tc := range map[string]struct {
		crm     *crm
		app     func(*parley.App)
		resends bool
		named   string
	}{
		"write":               {crm: &crm{effect: parley.EffectWrite}, named: "CRM"},
		"write, sent again":   {crm: &crm{effect: parley.EffectWrite}, named: "CRM", resends: true},
		"write, to be asked":  {crm: &crm{effect: parley.EffectWrite, memory: true}, named: "CRM"},
		"idempotent, by auto": {crm: &crm{effect: parley.EffectIdempotent}, app: auto, named: "CRM"},
		"read":                {crm: &crm{effect: parley.EffectRead}, named: "CRM"},
		"confirmed":           {crm: &crm{effect: parley.EffectWrite}, app: ask, named: "CRM"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := tc.app
			if app == nil {
				app = func(*parley.App) {}
			}
			enginetest.CrashEverywhere(t, enginetest.Scenario{
				App: tc.crm.app(app), Model: always(clerk), Messages: []string{"go"},
				Credentials: parley.Credentials{tc.named: canary}, Resends: tc.resends, Sparse: 3,
				World: func() enginetest.World { return &crm{effect: tc.crm.effect, memory: tc.crm.memory} },
			})
		})
	}
}

// TestCredentialAndCommands does with a turn that has credentials, or waits for them, what
// else can be done with a turn.
func TestCredentialAndCommands(t *testing.T) {
	t.Parallel()
	type stand struct {
		*enginetest.Rig
		crm *crm
		s   parley.SessionID
	}
	send := func(r stand, c parley.Send) parley.TurnInfo {
		r.T.Helper()
		info, err := r.Engine.Send(ctx, enginetest.User, r.s, c)
		if err != nil {
			r.T.Fatal(err)
		}
		return info
	}
	ended := func(r stand, id parley.TurnID, status parley.TurnStatus, said string) {
		r.T.Helper()
		got := r.Await(id)
		if got.Status != status || said != "" && (got.Response == nil || !strings.Contains(got.Response.Message, said)) {
			r.T.Errorf("got %s %+v %v, want %s %q", got.Status, got.Response, got.Error, status, said)
		}
	}
	busy := func(b parley.BusyMode) parley.Send {
		c := withCRM(canary)
		c.Busy = b
		return c
	}
	for name, do := range map[string]func(r stand){
		"steer brings it": func(r stand) {
			turn := send(r, parley.Send{Message: "go"})
			in := waitsFor(r.Rig, turn.ID)
			if got := send(r, busy(parley.BusySteer)); got.ID != turn.ID {
				r.T.Errorf("got %s", got.ID)
			}
			ended(r, turn.ID, parley.StatusCompleted, "written")
			if row, err := r.Engine.Interaction(ctx, enginetest.User, in.ID); err != nil || row.Answer == nil || row.Answer.Choice != parley.ChoiceAnswered || row.Answer.Text != "" {
				r.T.Errorf("got %+v, %v", row.Answer, err)
			}
		},
		"steer without it declines": func(r stand) {
			turn := send(r, parley.Send{Message: "go"})
			waitsFor(r.Rig, turn.ID)
			send(r, parley.Send{Message: "leave it", Busy: parley.BusySteer})
			if got := r.Await(turn.ID); got.Status != parley.StatusCompleted || len(r.crm.calls()) != 0 {
				r.T.Errorf("got %s, calls %q", got.Status, r.crm.calls())
			}
		},
		"cancel": func(r stand) {
			turn := send(r, parley.Send{Message: "go"})
			waitsFor(r.Rig, turn.ID)
			if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, ""); err != nil {
				r.T.Fatal(err)
			}
			ended(r, turn.ID, parley.StatusCancelled, "")
		},
		"queued behind": func(r stand) {
			turn := send(r, parley.Send{Message: "go"})
			in := waitsFor(r.Rig, turn.ID)
			next := send(r, busy(parley.BusyEnqueue))
			// What came with the queued message is not for the turn before it.
			if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAnswered}}); parley.CodeOf(err) != parley.CodeInvalid {
				r.T.Errorf("an answer without a value: %v", err)
			}
			if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, gives(canary+" first")); err != nil {
				r.T.Fatal(err)
			}
			ended(r, turn.ID, parley.StatusCompleted, "written")
			ended(r, next.ID, parley.StatusCompleted, "written")
			if calls := r.crm.calls(); len(calls) != 2 || !strings.HasPrefix(calls[0], "ana "+canary+" first ") || strings.Contains(calls[1], "first") {
				r.T.Errorf("calls: %q", calls)
			}
		},
		"interrupt": func(r stand) {
			turn := send(r, parley.Send{Message: "go"})
			waitsFor(r.Rig, turn.ID)
			next := send(r, busy(parley.BusyInterrupt))
			ended(r, next.ID, parley.StatusCompleted, "written")
			ended(r, turn.ID, parley.StatusCancelled, "")
		},
		"refused": func(r stand) {
			turn := send(r, parley.Send{Message: "go"})
			waitsFor(r.Rig, turn.ID)
			if _, err := r.Engine.Send(ctx, enginetest.User, r.s, busy(parley.BusyReject)); parley.CodeOf(err) != parley.CodeBusy {
				r.T.Errorf("got %v", err)
			}
			waitsFor(r.Rig, turn.ID)
		},
		"retry asks": func(r stand) {
			turn := send(r, withCRM(canary))
			ended(r, turn.ID, parley.StatusCompleted, "written")
			again, err := r.Engine.Retry(ctx, enginetest.User, turn.ID, "", "")
			if err != nil {
				r.T.Fatal(err)
			}
			in := waitsFor(r.Rig, again.ID)
			if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, gives(canary)); err != nil {
				r.T.Fatal(err)
			}
			ended(r, again.ID, parley.StatusCompleted, "written")
		},
		"fork does not have it": func(r stand) {
			turn := send(r, parley.Send{Message: "go"})
			waitsFor(r.Rig, turn.ID)
			info, err := r.Engine.Fork(ctx, enginetest.User, r.s, parley.ForkSession{})
			if err != nil {
				r.T.Fatal(err)
			}
			mine, err := r.Engine.Send(ctx, enginetest.User, r.s, busy(parley.BusySteer))
			if err != nil {
				r.T.Fatal(err)
			}
			ended(r, mine.ID, parley.StatusCompleted, "written")
			waitsFor(r.Rig, r.Send(info.ID, "go").ID)
			nowhere(r.Rig, canary, info.ID)
		},
		"key with another value": func(r stand) {
			c := withCRM(canary)
			c.Key = "k"
			turn := send(r, c)
			c.Credentials = parley.Credentials{"CRM": canary + " renewed"}
			if again := send(r, c); again.ID != turn.ID {
				r.T.Errorf("got %s", again.ID)
			}
			ended(r, turn.ID, parley.StatusCompleted, "written")
			nowhere(r.Rig, "renewed", r.s)
		},
		"key again brings it": func(r stand) {
			c := parley.Send{Message: "go", Key: "k"}
			turn := send(r, c)
			waitsFor(r.Rig, turn.ID)
			c.Credentials = parley.Credentials{"CRM": canary}
			send(r, c)
			ended(r, turn.ID, parley.StatusCompleted, "written")
		},
		"direct call": func(r stand) {
			call := parley.CallTool{App: "test", Name: "crm", Input: json.RawMessage(`{"text":"hi"}`), Credentials: parley.Credentials{"CRM": canary}}
			turn, err := r.Engine.CallTool(ctx, enginetest.User, call)
			if err != nil {
				r.T.Fatal(err)
			}
			ended(r, turn.ID, parley.StatusCompleted, "")
			if len(r.crm.calls()) != 1 {
				r.T.Errorf("calls: %q", r.crm.calls())
			}
			call.Credentials = nil
			if turn, err = r.Engine.CallTool(ctx, enginetest.User, call); err != nil {
				r.T.Fatal(err)
			}
			in := waitsFor(r.Rig, turn.ID)
			if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, gives(canary)); err != nil {
				r.T.Fatal(err)
			}
			ended(r, turn.ID, parley.StatusCompleted, "")
			nowhere(r.Rig, canary, turn.SessionID)
		},
		"expires": func(r stand) {
			turn := send(r, parley.Send{Message: "go"})
			waitsFor(r.Rig, turn.ID)
			time.Sleep(25 * time.Hour)
			ended(r, turn.ID, parley.StatusCompleted, "nobody answered in time")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &crm{effect: parley.EffectWrite}
				r := stand{enginetest.New(t, clerk, c.app(func(a *parley.App) { a.MaxOpenTurns = 4 }), c.in), c, ""}
				defer r.Close()
				r.s = r.Session().ID
				do(r)
				if err := enginetest.CheckLog(r.Log(r.s)); err != nil {
					t.Error(err)
				}
				nowhere(r.Rig, canary, r.s)
			})
		})
	}
}

// TestCredentialsOfTwoUsers: each user has a credential of the same name. The credential of one is
// not treated as a secret in the sessions of the other, who could otherwise find out what it is.
func TestCredentialsOfTwoUsers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &crm{effect: parley.EffectWrite}
		hold := make(chan struct{})
		c.gate = func() error { <-hold; return nil }
		r := enginetest.New(t, clerk, c.app(), c.in)
		defer r.Close()
		bob := parley.Principal{User: "bob", Org: "acme"}
		s := r.Session()
		other, _, err := r.Engine.Create(ctx, bob, parley.CreateSession{App: "test"})
		if err != nil {
			t.Fatal(err)
		}
		mine, err := r.Engine.Send(ctx, enginetest.User, s.ID, withCRM(canary))
		if err != nil {
			t.Fatal(err)
		}
		his := withCRM("the value of bob")
		his.Message = "is it " + canary + "?"
		theirs, err := r.Engine.Send(ctx, bob, other.ID, his)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		close(hold)
		r.Await(mine.ID)
		if _, err := r.Engine.Await(ctx, bob, theirs.ID, time.Minute); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(c.calls(), "\n")
		if !strings.Contains(got, "ana "+canary) || !strings.Contains(got, "bob the value of bob") {
			t.Errorf("calls: %s", got)
		}
		if first := r.Log(other.ID)[1]; !strings.Contains(string(first.Data), canary) {
			t.Errorf("bob can tell what ana's credential is: %s", first.Data)
		}
		nowhere(r, canary, s.ID)
	})
}

func TestCredentialUnattended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &crm{effect: parley.EffectWrite}
		r := enginetest.New(t, clerk, c.app(func(a *parley.App) { a.Policy.Unattended = true }), c.in)
		defer r.Close()
		s := r.Session()
		if got := r.Await(r.Send(s.ID, "go").ID); !strings.Contains(got.Response.Message, "needs the credential CRM") {
			t.Errorf("got %+v", got.Response)
		}
	})
}

// TestCredentialLimits: what a user holds is bounded, and freed with the turns.
func TestCredentialLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &crm{effect: parley.EffectWrite}
		r := enginetest.New(t, clerk, c.app(func(a *parley.App) { a.MaxOpenTurns = 100 }), c.in)
		defer r.Close()
		s := r.Session()
		first := r.Send(s.ID, "go")
		waitsFor(r, first.ID)
		big := parley.Send{Message: "go", Busy: parley.BusyEnqueue, Credentials: parley.Credentials{}}
		for i := range parley.MaxCredentials {
			big.Credentials[fmt.Sprint("C", i)] = strings.Repeat("v", parley.MaxCredential-2) + fmt.Sprintf("%02d", i)
		}
		var err error
		n := 0
		for ; err == nil; n++ {
			_, err = r.Engine.Send(ctx, enginetest.User, s.ID, big)
		}
		if parley.CodeOf(err) != parley.CodeBusy || n < 5 || n > 20 {
			t.Errorf("message %d: %v", n, err)
		}
		if _, err := r.Engine.End(ctx, enginetest.User, s.ID, ""); err != nil {
			t.Fatal(err)
		}
		s = r.Session()
		if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "go", Credentials: big.Credentials}); err != nil {
			t.Errorf("after the turns have ended: %v", err)
		}
	})
}

// TestConfirmation: a call that must be confirmed is confirmed each time, whatever else allows it,
// and its input cannot be edited.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app := enginetest.App(func(a *parley.App) {
			a.Policy.Rules = []parley.Rule{{Verdict: parley.Allow}, {Verdict: parley.Confirm, Tool: "mail", Reason: "mails leave the house"}}
			a.Policy.Modes = []parley.PermissionMode{parley.ModeBypassPermissions}
		})
		r := enginetest.New(t, mailer("mail"), app)
		defer r.Close()
		s := r.Session(func(c *parley.CreateSession) { c.Mode = parley.ModeBypassPermissions })
		for _, choice := range []string{parley.ChoiceAllow, parley.ChoiceDeny} {
			turn := r.Send(s.ID, "go")
			r.Await(turn.ID)
			open, err := r.Engine.Interactions(ctx, enginetest.User, 10)
			if err != nil || len(open) != 1 || open[0].Kind != parley.KindConfirmation || open[0].Text != "mails leave the house" {
				t.Fatalf("got %+v, %v", open, err)
			}
			for _, bad := range []parley.Answer{{Choice: parley.ChoiceAllowSession}, {Choice: parley.ChoiceAllow, Input: json.RawMessage(`{"text":"other"}`)}} {
				if _, err := r.Engine.Answer(ctx, enginetest.User, open[0].ID, parley.AnswerInteraction{Answer: bad}); parley.CodeOf(err) != parley.CodeInvalid {
					t.Errorf("%+v: %v", bad, err)
				}
			}
			if _, err := r.Engine.Answer(ctx, enginetest.User, open[0].ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: choice}}); err != nil {
				t.Fatal(err)
			}
			if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
				t.Errorf("got %+v", got)
			}
			if _, _, mails := r.Service.Counts(); mails != 1 {
				t.Errorf("%d mails", mails)
			}
		}
	})
}

// TestCredentialReplay replays sessions whose turns had credentials, or were asked for them.
func TestCredentialReplay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &crm{effect: parley.EffectWrite}
		r := enginetest.New(t, clerk, c.app(), c.in)
		defer r.Close()
		s := r.Session()
		turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, withCRM(canary))
		if err != nil {
			t.Fatal(err)
		}
		r.Await(turn.ID)
		turn = r.Send(s.ID, "again")
		if _, err := r.Engine.Answer(ctx, enginetest.User, waitsFor(r, turn.ID).ID, gives(canary)); err != nil {
			t.Fatal(err)
		}
		r.Await(turn.ID)
		log := r.Log(s.ID)
		rec := &replay.Recording{Events: log, Apps: map[parley.Digest]parley.App{}}
		for _, ev := range log {
			p, err := ev.Payload()
			if err != nil {
				t.Fatal(err)
			}
			if started, ok := p.(parley.TurnStarted); ok {
				body, err := r.Store.Blob(ctx, enginetest.User, s.ID, started.App)
				var app parley.App
				if err != nil || json.Unmarshal(body, &app) != nil {
					t.Fatal(err)
				}
				rec.Apps[started.App] = app
			}
		}
		got, err := replay.Run(ctx, rec, replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if a, b := enginetest.Types(log), enginetest.Types(got.Events); a != b {
			t.Errorf("got\n%s\nwant\n%s", b, a)
		}
	})
}
