package engine_test

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/parley-server/parley/internal/replay"
	"github.com/parley-server/parley/internal/seam"
)

// institute is a server with one tool, which asks for replies of the model before it does anything.
// It asks all at once or one after the other. It outlives crashes.
type institute struct {
	effect parley.Effect
	atOnce bool
	asks   []parley.Sampling
	errs   []error // of the replies
	mu     sync.Mutex
	did    int
	gate   func() error
}

func (l *institute) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{
		Name: "study", Description: "Study.", Effect: l.effect, Timeout: parley.Duration(10 * time.Second), InputSchema: json.RawMessage(`{"type":"object"}`),
	}}, nil
}

func (l *institute) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	got := make([]string, len(l.asks))
	errs := make([]error, len(l.asks))
	var work sync.WaitGroup
	for i, q := range l.asks {
		ask := func() {
			reply, err := r.Sample(ctx, q)
			got[i], errs[i] = reply.Text, err
			if err != nil {
				got[i] = string(parley.CodeOf(err))
			}
		}
		if l.atOnce {
			work.Go(ask)
		} else if ask(); errors.Is(errs[i], seam.ErrParked) {
			return parley.ToolResult{}, errs[i]
		}
	}
	work.Wait()
	for _, err := range errs {
		if errors.Is(err, seam.ErrParked) {
			return parley.ToolResult{}, err
		}
	}
	l.mu.Lock()
	l.did++
	l.errs = append(l.errs, errs...)
	gate := l.gate
	l.mu.Unlock()
	if gate != nil {
		if err := gate(); err != nil {
			return parley.ToolResult{}, err
		}
	}
	return parley.ToolResult{Output: strings.Join(got, "; ")}, nil
}

// Live implements enginetest.World.
func (l *institute) Live(o *engine.Options, gate func() error) func() {
	l.mu.Lock()
	l.gate = gate
	l.mu.Unlock()
	l.in(o)
	return func() {}
}

func (l *institute) Effects() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.effect == parley.EffectRead {
		return nil
	}
	return map[string]int{"studies": l.did}
}

func (l *institute) Close() {}

func (l *institute) in(o *engine.Options) { enginetest.With(l)(o) }

func (l *institute) app(change ...func(*parley.App)) parley.App {
	return withTool(l, "study", change...)
}

func wishes(key, text string) parley.Sampling {
	return parley.Sampling{Key: key, Server: "deep", System: "Be brief.", Messages: []parley.Message{parley.Text(parley.RoleUser, text)}, MaxTokens: 100}
}

// scholar calls the tool once and says its result. When a server asks for a reply, it repeats the
// last message.
func scholar(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if r.Agent == parley.SamplingAgent {
		say("reply to " + enginetest.Last(r))
		return seam.Reply{StopReason: "end_turn"}, nil
	}
	return mailer("study")(ctx, r, say)
}

// answers answers all open questions with the option label, or declines them if label is empty. It
// returns their texts.
func answers(t *testing.T, r *enginetest.Rig, label string) (texts []string) {
	t.Helper()
	list, err := r.Engine.Interactions(ctx, enginetest.User, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range list {
		texts = append(texts, in.Text)
		a := parley.Answer{Choice: parley.ChoiceDeny}
		if label != "" {
			a = parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{in.Questions[0].Question: label}}
		}
		if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: a}); err != nil {
			t.Error(err)
		}
	}
	return texts
}

// studied runs a turn whose server asks, and answers each question with label.
func studied(t *testing.T, r *enginetest.Rig, id parley.SessionID, label string) (parley.TurnInfo, []string) {
	t.Helper()
	turn := r.Send(id, "go")
	var asked []string
	for {
		got := r.Await(turn.ID)
		if got.Status != parley.StatusWaiting {
			return got, asked
		}
		asked = append(asked, answers(t, r, label)...)
	}
}

func replayed(t *testing.T, r *enginetest.Rig, app parley.App, id parley.SessionID) {
	t.Helper()
	log := r.Log(id)
	rec := &replay.Recording{Events: log, Apps: map[parley.Digest]parley.App{}}
	for _, e := range log {
		if p, err := e.Payload(); err == nil {
			if s, ok := p.(parley.TurnStarted); ok {
				rec.Apps[s.App] = app
			}
		}
	}
	got, err := replay.Run(ctx, rec, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := replay.Compare(log, got.Events); d != nil {
		t.Errorf("a replay differs: %s\n%s\nagain:\n%s", d, enginetest.Types(log), enginetest.Types(got.Events))
	}
}

// TestSample: a server gets replies of the model once a person has allowed it. That person sees
// everything that the model reads. These calls cost like others, but are not steps and are in no
// prompt. A read that is made again does not pay for a reply twice.
func TestSample(t *testing.T) {
	t.Parallel()
	for _, effect := range []parley.Effect{parley.EffectRead, parley.EffectWrite} {
		for _, atOnce := range []bool{false, true} {
			t.Run(fmt.Sprint(effect, " at once ", atOnce), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					l := &institute{effect: effect, atOnce: atOnce, asks: []parley.Sampling{wishes("a", "first?\nsecond line"), wishes("b", "other?")}}
					var mu sync.Mutex
					var seen []seam.Request
					model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
						mu.Lock()
						seen = append(seen, r)
						mu.Unlock()
						return scholar(ctx, r, say)
					}
					r := enginetest.New(t, model, l.app(), l.in)
					defer r.Close()
					s := r.Session()
					got, asked := studied(t, r, s.ID, parley.SamplingOnce)
					if want := "done: reply to first?\nsecond line; reply to other?"; got.Status != parley.StatusCompleted || got.Response.Message != want {
						t.Fatalf("got %s %+v %v", got.Status, got.Response, got.Error)
					}
					if got.Spent.Steps != 2 || got.Spent.Usage.Tokens() != 4*15 {
						t.Errorf("spent %+v", got.Spent)
					}
					slices.Sort(asked)
					if len(asked) != 2 || !strings.Contains(asked[0], "> first?\n> second line\n") || !strings.Contains(asked[0], "> Be brief.\n") || !strings.Contains(asked[0], "goes to the server deep") {
						t.Errorf("asked %q", asked)
					}
					models, replies := 0, 0
					for _, e := range r.Log(s.ID) {
						p, _ := e.Payload()
						switch p := p.(type) {
						case parley.ModelStarted:
							if (p.For != nil) != e.Agent.OfSampling() {
								t.Errorf("event %d: %+v", e.Seq, p)
							}
							if p.For != nil {
								models++
								if e.Agent != "lead/sampling.deep" || p.For.System != "Be brief." || p.Reserved.OutputTokens != 100 {
									t.Errorf("%s %+v", e.Agent, p)
								}
							}
						case parley.ModelReplied:
							if e.Agent.OfSampling() {
								replies++
							}
						}
					}
					if models != 2 || replies != 2 {
						t.Errorf("%d calls and %d replies", models, replies)
					}
					for _, q := range seen {
						if q.Agent == parley.SamplingAgent && (q.System != "Be brief." || len(q.Tools) > 0 || len(q.Messages) != 1 || q.MaxTokens != 100) {
							t.Errorf("the model was asked %+v", q)
						}
					}
					if !atOnce { // a replay asks one after the other
						replayed(t, r, l.app(), s.ID)
					}
				})
			})
		}
	}
}

// TestSampleInSession: permission for the session holds for this server and this session, until it
// is revoked.
func TestSampleInSession(t *testing.T) {
	t.Parallel()
	l := &institute{effect: parley.EffectRead, asks: []parley.Sampling{wishes("a", "1"), wishes("b", "2")}}
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, scholar, l.app(), l.in)
		defer r.Close()
		s := r.Session()
		if got, asked := studied(t, r, s.ID, parley.SamplingSession); got.Response == nil || got.Response.Message != "done: reply to 1; reply to 2" || len(asked) != 1 {
			t.Errorf("got %+v after %q", got.Response, asked)
		}
		if _, asked := studied(t, r, s.ID, ""); len(asked) != 0 {
			t.Errorf("asked again: %q", asked)
		}
		l.asks[0].Server = "other"
		if _, asked := studied(t, r, s.ID, ""); len(asked) != 1 {
			t.Errorf("another server: %q", asked)
		}
		l.asks[0].Server = "deep"
		if _, asked := studied(t, r, r.Session().ID, ""); len(asked) != 2 {
			t.Errorf("another session: %q", asked)
		}
		info, err := r.Engine.Session(ctx, enginetest.User, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		rules, err := r.Engine.Rules(ctx, enginetest.User, s.ID)
		if err != nil || len(rules) != 1 || rules[0].Tool != "sampling:deep" {
			t.Errorf("%+v, %v", rules, err)
		}
		if _, err := r.Engine.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{Rules: &[]parley.Rule{}, ExpectedVersion: info.Version}); err != nil {
			t.Fatal(err)
		}
		if _, asked := studied(t, r, s.ID, ""); len(asked) != 2 {
			t.Errorf("after it was taken back: %q", asked)
		}
		replayed(t, r, l.app(), s.ID)
	})
}

// TestSampleNot: a server that gets no reply is told why, and its call continues.
func TestSampleNot(t *testing.T) {
	t.Parallel()
	with := func(f func(q *parley.Sampling)) parley.Sampling {
		q := wishes("a", "1")
		f(&q)
		return q
	}
	long := strings.Repeat("x", 33<<10)
	for name, c := range map[string]struct {
		ask  parley.Sampling
		app  func(*parley.App)
		say  string
		want string
		asks int
	}{
		"declined":              {ask: wishes("a", "1"), want: "forbidden", asks: 1},
		"answered in own words": {ask: wishes("a", "1"), say: "rather not", want: "forbidden", asks: 1},
		"unattended":            {ask: wishes("a", "1"), app: func(a *parley.App) { a.Policy.Unattended = true }, want: "forbidden"},
		"too long":              {ask: with(func(q *parley.Sampling) { q.System = long }), want: "too_large"},
		"no tokens":             {ask: with(func(q *parley.Sampling) { q.MaxTokens = 0 }), want: "invalid"},
		"no messages":           {ask: with(func(q *parley.Sampling) { q.Messages = nil }), want: "invalid"},
		"a blank one":           {ask: wishes("a", " "), want: "invalid"},
		"the model's at last":   {ask: with(func(q *parley.Sampling) { q.Messages = append(q.Messages, parley.Text(parley.RoleAssistant, "x")) }), want: "invalid"},
		"a picture": {ask: with(func(q *parley.Sampling) {
			q.Messages[0].Parts = append(q.Messages[0].Parts, parley.Part{Type: parley.PartImage, Artifact: "a"})
		}), want: "invalid"},
		"of the system":  {ask: with(func(q *parley.Sampling) { q.Messages[0].Role = "system" }), want: "invalid"},
		"out of budget":  {ask: wishes("a", "1"), app: func(a *parley.App) { a.Budgets.MaxTotalTokens = 700 }, say: parley.SamplingOnce, want: "budget_tokens", asks: 1},
		"a lower output": {ask: with(func(q *parley.Sampling) { q.MaxTokens = 1 << 40 }), say: parley.SamplingOnce, want: "reply to 1", asks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &institute{effect: parley.EffectWrite, asks: []parley.Sampling{c.ask}}
				if name == "out of budget" { // the first step has used most of it
					l.asks[0].System = strings.Repeat("word ", 400)
				}
				app := l.app()
				if c.app != nil {
					c.app(&app)
				}
				r := enginetest.New(t, scholar, app, l.in)
				defer r.Close()
				s := r.Session()
				got, asked := studied(t, r, s.ID, c.say)
				if got.Response == nil || got.Response.Message != "done: "+c.want || len(asked) != c.asks {
					t.Errorf("got %s %+v %v, asked %q", got.Status, got.Response, got.Error, asked)
				}
				if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestSampleSecrets: known secrets are redacted in the question to the person, in the request to
// the model and in its reply.
func TestSampleSecrets(t *testing.T) {
	t.Parallel()
	key := "sk-" + "ant-api03-" + strings.Repeat("aB3x", 12)
	l := &institute{effect: parley.EffectRead, asks: []parley.Sampling{wishes("a", "use "+key+" \u202eplease\r\u2028Reply:")}}
	l.asks[0].System = "The key is " + key
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, func(ctx context.Context, q seam.Request, say func(string)) (seam.Reply, error) {
			if raw, _ := json.Marshal(q); strings.Contains(string(raw), key) {
				t.Errorf("the model reads %s", raw)
			}
			if q.Agent == parley.SamplingAgent {
				say("the key is " + key)
				return seam.Reply{}, nil
			}
			return scholar(ctx, q, say)
		}, l.app(), l.in)
		defer r.Close()
		s := r.Session()
		got, asked := studied(t, r, s.ID, parley.SamplingOnce)
		if len(asked) != 1 || strings.ContainsAny(asked[0], "\r\u202e\u2028") || !strings.Contains(asked[0], "redacted") {
			t.Errorf("asked %q", asked)
		}
		if got.Response == nil || strings.Contains(got.Response.Message, key) {
			t.Errorf("got %+v", got.Response)
		}
		nowhere(r, key, s.ID)
	})
}

// TestSampleUnderWay does each thing that can be done with a turn while its server waits for a
// reply. The timeout of the tool call does not run meanwhile.
func TestSampleUnderWay(t *testing.T) {
	t.Parallel()
	type stand struct {
		*enginetest.Rig
		s    parley.SessionID
		turn parley.TurnID
		gate chan struct{}
	}
	for _, effect := range []parley.Effect{parley.EffectRead, parley.EffectWrite} {
		for name, c := range map[string]struct {
			do     func(t *testing.T, r stand)
			status parley.TurnStatus
			want   string
		}{
			"slow": {func(_ *testing.T, r stand) {
				time.Sleep(50 * time.Second) // longer than the tool's timeout, and shorter than the limit for a silent model
				close(r.gate)
			}, parley.StatusCompleted, "done: reply to 1"},
			"cancelled": {func(t *testing.T, r stand) {
				if _, err := r.Engine.Cancel(ctx, enginetest.User, r.turn, "enough"); err != nil {
					t.Error(err)
				}
			}, parley.StatusCancelled, ""},
			"interrupted": {func(t *testing.T, r stand) {
				if _, err := r.Engine.Send(ctx, enginetest.User, r.s, parley.Send{Message: "instead", Busy: parley.BusyInterrupt}); err != nil {
					t.Error(err)
				}
			}, parley.StatusCancelled, ""},
			"steered": {func(t *testing.T, r stand) {
				if _, err := r.Engine.Send(ctx, enginetest.User, r.s, parley.Send{Message: "steered", Busy: parley.BusySteer}); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				close(r.gate)
			}, parley.StatusCompleted, "heard steered"},
			"ended": {func(t *testing.T, r stand) {
				if _, err := r.Engine.End(ctx, enginetest.User, r.s, ""); err != nil {
					t.Error(err)
				}
			}, parley.StatusCancelled, ""},
			"the server stops": {func(_ *testing.T, r stand) { r.Close() }, parley.StatusInterrupted, ""},
			"out of time":      {func(*testing.T, stand) { time.Sleep(time.Hour) }, parley.StatusFailed, ""},
		} {
			t.Run(fmt.Sprint(effect, " ", name), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					l := &institute{effect: effect, asks: []parley.Sampling{wishes("a", "1")}}
					at := stand{gate: make(chan struct{})}
					at.Rig = enginetest.New(t, func(ctx context.Context, q seam.Request, say func(string)) (seam.Reply, error) {
						if q.Agent == parley.SamplingAgent {
							select {
							case <-at.gate:
							case <-ctx.Done():
								return seam.Reply{}, ctx.Err()
							}
						} else if last := enginetest.Last(q); last == "steered" || last == "instead" {
							say("heard " + last)
							return seam.Reply{}, nil
						}
						return scholar(ctx, q, say)
					}, l.app(func(a *parley.App) { a.Budgets.MaxDurationMS, a.MaxOpenTurns = 15*60_000, 3 }), l.in)
					defer at.Close()
					at.s = at.Session().ID
					at.turn = at.Send(at.s, "go").ID
					at.Await(at.turn)
					answers(t, at.Rig, parley.SamplingOnce)
					synctest.Wait()
					if got, err := at.Engine.Turn(ctx, enginetest.User, at.turn); err != nil || got.Status != parley.StatusRunning {
						t.Fatalf("%s, %v", got.Status, err)
					}
					c.do(t, at)
					if name == "the server stops" {
						disk, err := at.Store.Turn(ctx, enginetest.User, at.turn)
						if err != nil || disk.Status != parley.StatusRunning && disk.Status != c.status {
							t.Errorf("%s, %v", disk.Status, err)
						}
						return
					}
					got := at.Await(at.turn)
					if name == "out of time" && got.Status == parley.StatusCompleted { // the model was silent for too long, so the server got nothing
						if got.Response.Message != "done: unavailable" {
							t.Errorf("got %+v", got.Response)
						}
					} else if got.Status != c.status || c.want != "" && (got.Response == nil || got.Response.Message != c.want) {
						t.Errorf("got %s %+v %v", got.Status, got.Response, got.Error)
					}
					synctest.Wait()
					log := at.Log(at.s)
					if err := enginetest.CheckLog(log); err != nil {
						t.Errorf("%v\n%s", err, enginetest.Types(log))
					}
				})
			})
		}
	}
}

// TestSampleAtOnce: a turn makes four such model calls at once, and refuses any more.
func TestSampleAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &institute{effect: parley.EffectWrite, atOnce: true}
		for i := range 6 {
			l.asks = append(l.asks, wishes(fmt.Sprint("k", i), "same"))
		}
		gate := make(chan struct{})
		r := enginetest.New(t, func(ctx context.Context, q seam.Request, say func(string)) (seam.Reply, error) {
			if q.Agent == parley.SamplingAgent {
				<-gate
			}
			return scholar(ctx, q, say)
		}, l.app(), l.in)
		defer r.Close()
		turn := r.Send(r.Session().ID, "go")
		r.Await(turn.ID)
		synctest.Wait()
		answers(t, r, parley.SamplingOnce)
		synctest.Wait()
		close(gate)
		got := r.Await(turn.ID)
		if got.Response == nil || strings.Count(got.Response.Message, "reply to same") != 4 || strings.Count(got.Response.Message, "unavailable") != 2 {
			t.Errorf("got %s %+v", got.Status, got.Response)
		}
	})
}

// TestSampleWhileAsked: a turn counts as running while a server gets a reply, even if another
// request waits for permission.
func TestSampleWhileAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &institute{effect: parley.EffectWrite, atOnce: true, asks: []parley.Sampling{wishes("a", "same"), wishes("b", "same")}}
		gate := make(chan struct{})
		r := enginetest.New(t, func(ctx context.Context, q seam.Request, say func(string)) (seam.Reply, error) {
			if q.Agent == parley.SamplingAgent {
				<-gate
			}
			return scholar(ctx, q, say)
		}, l.app(), l.in)
		defer r.Close()
		turn := r.Send(r.Session().ID, "go")
		r.Await(turn.ID)
		synctest.Wait()
		list, err := r.Engine.Interactions(ctx, enginetest.User, 10)
		if err != nil || len(list) != 2 {
			t.Fatalf("%d questions, %v", len(list), err)
		}
		if _, err := r.Engine.Answer(ctx, enginetest.User, list[0].ID, parley.AnswerInteraction{Answer: enginetest.First(list[0].Interaction, "")}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, err := r.Engine.Turn(ctx, enginetest.User, turn.ID); err != nil || got.Status != parley.StatusRunning {
			t.Errorf("%s, %v", got.Status, err)
		}
		time.Sleep(10 * time.Second)
		close(gate)
		got := r.Await(turn.ID)
		if got.Status != parley.StatusWaiting || got.Spent.RanMS != 10_000 {
			t.Errorf("%s after %d ms", got.Status, got.Spent.RanMS)
		}
		answers(t, r, parley.SamplingOnce)
		if got := r.Await(turn.ID); got.Response == nil || got.Response.Message != "done: reply to same; reply to same" {
			t.Errorf("%s %+v", got.Status, got.Response)
		}
	})
}

// TestSampleModel: a hint chooses among the models of the app only.
func TestSampleModel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hints []string
		fixed bool
		want  string
	}{
		{nil, false, "test/model"},
		{[]string{"gpt", "SMALL"}, false, "test/small"},
		{[]string{"elsewhere"}, false, "test/model"},
		{[]string{"small"}, true, "test/model"},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &institute{effect: parley.EffectRead, asks: []parley.Sampling{wishes("a", "1")}}
			l.asks[0].Hints = c.hints
			got := ""
			r := enginetest.New(t, func(ctx context.Context, q seam.Request, say func(string)) (seam.Reply, error) {
				if q.Agent == parley.SamplingAgent {
					got = q.Model
				}
				return scholar(ctx, q, say)
			}, l.app(func(a *parley.App) { a.Fallbacks, a.Policy.FixedModel = []string{"test/small"}, c.fixed }), l.in)
			defer r.Close()
			studied(t, r, r.Session().ID, parley.SamplingOnce)
			if got != c.want {
				t.Errorf("%q: got %q", c.hints, got)
			}
		})
	}
}

// TestSampleCrashAtEveryPoint: wherever the crash comes, the model call has an end. A read asks
// again for the replies that it did not get and takes the others from the log. A write does not
// happen twice.
func TestSampleCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	auto := func(a *parley.App) { a.Resume = parley.ResumeAuto }
	for name, tc := range map[string]struct {
		effect parley.Effect
		atOnce bool
		asks   []parley.Sampling
		app    func(*parley.App)
	}{
		"read":          {effect: parley.EffectRead, asks: []parley.Sampling{wishes("a", "1"), wishes("b", "2")}},
		"read, at once": {effect: parley.EffectRead, atOnce: true, asks: []parley.Sampling{wishes("a", "1"), wishes("b", "2")}},
		"write":         {effect: parley.EffectWrite, asks: []parley.Sampling{wishes("a", "1"), wishes("b", "2")}},
		"write, auto":   {effect: parley.EffectWrite, asks: []parley.Sampling{wishes("a", "1")}, app: auto},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := tc.app
			if app == nil {
				app = func(*parley.App) {}
			}
			again := func() *institute { return &institute{effect: tc.effect, atOnce: tc.atOnce, asks: tc.asks} }
			enginetest.CrashEverywhere(t, enginetest.Scenario{
				App: again().app(app), Model: always(scholar), Messages: []string{"go"}, Sparse: 3,
				World: func() enginetest.World { return again() },
			})
		})
	}
}
