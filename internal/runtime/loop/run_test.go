package loop_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/runtime/loop"
	"github.com/parley-server/parley/internal/runtime/runtimetest"
	"github.com/parley-server/parley/internal/seam"
)

// A bench runs one turn of one agent with a look (read) and an add (write) in a
// bubble of fake time.
type bench struct {
	model   runtimetest.Func
	world   runtimetest.World
	budgets parley.Budgets
	files   []parley.Part // of the message
	host    *runtimetest.Host
	began   time.Time
}

// run drives the turn to its end. wrap may put something between the loop and
// its model or host.
func (b *bench) run(t *testing.T, ctx context.Context, script runtimetest.Script, wrap ...func(*seam.Models, *seam.Host)) []parley.Event {
	t.Helper()
	app := &parley.App{
		Name: "test", Entry: "front", Model: "m",
		Agents: map[string]parley.AgentDef{"front": {Name: "front", Prompt: "You answer.", Tools: []string{"look", "add"}}},
		Tools:  []parley.ToolDecl{{Name: "look", Effect: parley.EffectRead}, {Name: "add", Effect: parley.EffectWrite}},
	}
	b.model.ModelInfo = seam.ModelInfo{Name: "m", ContextTokens: 20_000, MaxOutputTokens: 1000, InputUSD: 1, OutputUSD: 2}
	b.model.Script = script
	message := parley.Text(parley.RoleUser, "What is the spec?")
	message.Parts = append(message.Parts, b.files...)
	b.host = runtimetest.NewHost(t, &b.world, app, parley.TurnRequest{Origin: parley.OriginUser, Message: message, Budgets: b.budgets})
	var models seam.Models = &b.model
	var host seam.Host = b.host
	for _, f := range wrap {
		f(&models, &host)
	}
	b.began = time.Now()
	if err := b.host.Drive(ctx, through{loop.New(models, loop.Options{}), host}); err != nil {
		t.Fatal(err)
	}
	return b.host.Log()
}

// through runs a runtime with another host than it is given.
type through struct {
	seam.Runtime
	host seam.Host
}

func (r through) Run(ctx context.Context, _ seam.Host) (seam.Ending, error) {
	return r.Runtime.Run(ctx, r.host)
}

// types are the events from turn.started on.
func types(log []parley.Event) string {
	var ts []string
	for _, e := range log[1:] {
		ts = append(ts, string(e.Type))
	}
	return strings.Join(ts, " ")
}

func payload[P parley.Payload](t *testing.T, log []parley.Event) []P {
	t.Helper()
	var ps []P
	for _, e := range log {
		p, err := e.Payload()
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := p.(P); ok {
			ps = append(ps, p)
		}
	}
	return ps
}

func say(text string) runtimetest.Script {
	return func(seam.Request) (seam.Reply, error) { return runtimetest.Say(text), nil }
}

func TestCancelKeepsWhatWasSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bench
		ctx, cancel := context.WithCancelCause(t.Context())
		b.model.Between = func(_ context.Context, n int) {
			if n == 2 {
				cancel(parley.Errorf(parley.CodeCancelled, "the user pressed stop"))
			}
		}
		log := b.run(t, ctx, say("It is Google, as of now."))
		if got, want := types(log), "turn.started agent.started model.started model.failed turn.cancelled"; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		started, lost := payload[parley.ModelStarted](t, log)[0], payload[parley.ModelFailed](t, log)[0]
		want := parley.ModelFailed{
			Call: started.Call, Partial: "It is Goog", Usage: started.Reserved,
			Error: parley.ErrorInfo{Code: parley.CodeCancelled, Message: "the user pressed stop"},
		}
		want.Usage.Estimated = true
		if diff := cmp.Diff(want, lost); diff != "" {
			t.Errorf("model.failed (-want +got):\n%s", diff)
		}
		if got := b.host.Published(started.Call); got != lost.Partial {
			t.Errorf("got %q shown, want what is kept: %q", got, lost.Partial)
		}
		if got := payload[parley.TurnCancelled](t, log)[0].Response.Message; got != "It is Goog" {
			t.Errorf("got answer %q, want what was said", got)
		}
	})
}

func TestCancelWhileToolsRunWaitsForThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bench
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := parley.Errorf(parley.CodeCancelled, "stop")
		b.world.Tools = map[string]runtimetest.WorldTool{"add": {Run: func(parley.ToolCall) parley.ToolResult {
			cancel(stop)
			return parley.ToolResult{Outcome: parley.OutcomeOK, Output: "added"}
		}}}
		log := b.run(t, ctx, func(seam.Request) (seam.Reply, error) {
			return runtimetest.Use("", runtimetest.Tool("add", "{}"), runtimetest.Tool("add", `{"n":2}`)), nil
		})
		want := "turn.started agent.started model.started model.replied tool.requested tool.requested tool.started tool.ended turn.cancelled"
		if got := types(log); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestReadsRunAtOnceAndWritesDoNot(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"look", "add"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var b bench
				b.world.Tools = map[string]runtimetest.WorldTool{tool: {Run: func(parley.ToolCall) parley.ToolResult {
					<-time.After(time.Second)
					return parley.ToolResult{Outcome: parley.OutcomeOK}
				}}}
				b.run(t, t.Context(), func(r seam.Request) (seam.Reply, error) {
					if len(runtimetest.Results(r)) > 0 {
						return runtimetest.Say("Done."), nil
					}
					return runtimetest.Use("", runtimetest.Tool(tool, `{"n":1}`), runtimetest.Tool(tool, `{"n":2}`), runtimetest.Tool(tool, `{"n":3}`)), nil
				})
				want := map[string]time.Duration{"look": time.Second, "add": 3 * time.Second}[tool]
				if got := time.Since(b.began); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		})
	}
}

func TestASteerIsShownBeforeTheTurnEnds(t *testing.T) {
	t.Parallel()
	asked := func(seen *[]string) runtimetest.Script {
		return func(r seam.Request) (seam.Reply, error) {
			said := slices.DeleteFunc(slices.Clone(r.Messages[len(r.Messages)-1].Parts), func(p parley.Part) bool { return strings.HasPrefix(p.Text, "[about this turn]") })
			*seen = append(*seen, said[len(said)-1].Text)
			return runtimetest.Say("Reply " + string(rune('0'+len(*seen)))), nil
		}
	}
	t.Run("one that comes while the model speaks", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var b bench
			var seen []string
			b.model.Before = func(seam.Request) {
				if len(seen) == 0 {
					b.host.Steer("in short")
				}
			}
			log := b.run(t, t.Context(), asked(&seen))
			if diff := cmp.Diff([]string{"What is the spec?", "in short"}, seen); diff != "" {
				t.Errorf("seen by the model (-want +got):\n%s", diff)
			}
			if got := payload[parley.TurnCompleted](t, log)[0].Response.Message; got != "Reply 2" {
				t.Errorf("got answer %q, want the second reply", got)
			}
		})
	})
	t.Run("one that slips in before model.started", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var b bench
			var seen []string
			log := b.run(t, t.Context(), asked(&seen), func(_ *seam.Models, h *seam.Host) { *h = &slippery{Host: b.host} })
			if diff := cmp.Diff([]string{"in short"}, seen); diff != "" {
				t.Errorf("seen by the model (-want +got):\n%s", diff)
			}
			if lost := payload[parley.ModelFailed](t, log); len(lost) != 1 || !lost[0].Retry || lost[0].Usage != (parley.Usage{}) {
				t.Errorf("got %+v, want the call without the message given up at no cost", lost)
			}
		})
	})
}

// slippery is a host into which a message comes between the state that a request
// is made from and its model.started.
type slippery struct {
	*runtimetest.Host
	done bool
}

func (h *slippery) Emit(ctx context.Context, events ...parley.Event) error {
	if !h.done {
		h.done = true
		h.Steer("in short")
	}
	return h.Host.Emit(ctx, events...)
}

func TestAModelThatIsSilent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		at      int           // the fragment after which it hangs; 0: before the first
		own     time.Duration // of the model, before it begins
		partial string
		took    time.Duration // four times the patience, and between them at most 0.5, 1 and 2 s
	}{
		"from the beginning":                      {0, 0, "", 4 * time.Minute},
		"from the beginning, of one that loads":   {0, 5 * time.Minute, "", 20 * time.Minute},
		"in the middle":                           {2, 0, "It is Goog", 4 * time.Minute},
		"in the middle, of one that had to begin": {2, 5 * time.Minute, "It is Goog", 4 * time.Minute},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var b bench
				b.model.Between = func(ctx context.Context, n int) {
					if n == tt.at {
						<-ctx.Done()
					}
				}
				log := b.run(t, t.Context(), say("It is Google."), func(m *seam.Models, _ *seam.Host) {
					b.model.ModelInfo.FirstTokenMS = tt.own.Milliseconds()
					if tt.at == 0 {
						*m = hanging{&b.model}
					}
				})
				lost := payload[parley.ModelFailed](t, log)
				if len(lost) != 4 || lost[0].Partial != tt.partial || lost[0].Error.Code != parley.CodeUnavailable || !lost[2].Retry || lost[3].Retry {
					t.Errorf("got %+v, want four attempts", lost)
				}
				if got := payload[parley.TurnFailed](t, log); len(got) != 1 || got[0].Error.Code != parley.CodeUnavailable || got[0].Response.Message != tt.partial {
					t.Errorf("got %+v, want the turn to fail as unavailable", got)
				}
				if took := time.Since(b.began); took < tt.took || took > tt.took+4*time.Second {
					t.Errorf("got %s, want a little more than %s", took, tt.took)
				}
			})
		})
	}
}

// hanging is a model that never begins.
type hanging struct{ *runtimetest.Func }

func (m hanging) Model(string) (seam.Model, error) { return m, nil }

func (m hanging) Stream(ctx context.Context, _ seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		<-ctx.Done()
		yield(seam.ModelDelta{}, ctx.Err())
	}
}

func TestASlowModelIsNotASilentOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bench
		b.model.Between = func(context.Context, int) { <-time.After(50 * time.Second) }
		log := b.run(t, t.Context(), say("It is Google."))
		if got, want := types(log), "turn.started agent.started model.started model.replied turn.completed"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if r := payload[parley.ModelReplied](t, log)[0]; r.TookMS != 150_000 {
			t.Errorf("got %d ms, want three pauses", r.TookMS)
		}
	})
}

func TestATurnThatWasStoppedBeforeItBeganCallsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bench
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(parley.Errorf(parley.CodeCancelled, "stop"))
		if got := types(b.run(t, ctx, say("no"))); got != "turn.started turn.cancelled" {
			t.Errorf("got %s, want nothing but the end", got)
		}
	})
}

// forgetful is a host that answers a call and journals nothing.
type forgetful struct{ *runtimetest.Host }

func (forgetful) Call(context.Context, parley.ToolCall) (parley.ToolResult, error) {
	return parley.ToolResult{}, nil
}

func TestAHostWithoutProgressFailsTheTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bench
		log := b.run(t, t.Context(), func(seam.Request) (seam.Reply, error) {
			return runtimetest.Use("", runtimetest.Tool("look", "")), nil
		}, func(_ *seam.Models, h *seam.Host) { *h = forgetful{b.host} })
		if got := payload[parley.TurnFailed](t, log); len(got) != 1 || got[0].Error.Code != parley.CodeInternal {
			t.Errorf("got %+v, want an internal error", got)
		}
	})
}

func TestRetries(t *testing.T) {
	t.Parallel()
	broken := parley.Errorf(parley.CodeModel, "the provider refused the request")
	tests := map[string]struct {
		err      *parley.Error
		attempts int
		least    time.Duration
		code     parley.Code
		charged  bool
	}{
		"a busy model is tried four times":                  {parley.Errorf(parley.CodeRateLimited, "busy"), 4, time.Second, parley.CodeRateLimited, false},
		"it is given the time that it asks for":             {parley.Errorf(parley.CodeRateLimited, "busy").WithRetry(20 * time.Second), 4, time.Minute, parley.CodeRateLimited, false},
		"but not any time":                                  {parley.Errorf(parley.CodeRateLimited, "busy").WithRetry(time.Hour), 1, 0, parley.CodeRateLimited, false},
		"what is wrong stays wrong":                         {broken, 1, 0, parley.CodeModel, true},
		"a call that may have been done counts as reserved": {parley.Errorf(parley.CodeUnavailable, "connection lost"), 4, time.Second, parley.CodeUnavailable, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var b bench
				log := b.run(t, t.Context(), func(seam.Request) (seam.Reply, error) { return seam.Reply{}, tt.err })
				lost := payload[parley.ModelFailed](t, log)
				if len(lost) != tt.attempts {
					t.Errorf("got %d attempts, want %d", len(lost), tt.attempts)
				}
				if got := lost[0].Usage.Tokens() > 0; got != tt.charged {
					t.Errorf("got usage %+v, want charged %v", lost[0].Usage, tt.charged)
				}
				if got := payload[parley.TurnFailed](t, log)[0].Error.Code; got != tt.code {
					t.Errorf("got code %s, want %s", got, tt.code)
				}
				if took := time.Since(b.began); took < tt.least || took > tt.least+5*time.Second {
					t.Errorf("got %s, want a little more than %s", took, tt.least)
				}
			})
		})
	}
}

func TestAnErrorNobodyExplainedSaysNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bench
		log := b.run(t, t.Context(), func(seam.Request) (seam.Reply, error) {
			return seam.Reply{}, errors.New("Post https://example.test/?key=secret: EOF")
		})
		want := parley.ErrorInfo{Code: parley.CodeModel, Message: "the model call failed", Hint: "try again, or choose another model"}
		if diff := cmp.Diff(want, payload[parley.TurnFailed](t, log)[0].Error); diff != "" {
			t.Errorf("error (-want +got):\n%s", diff)
		}
	})
}

func TestAnAnswerThatIsCutOffForLengthIsAnError(t *testing.T) {
	t.Parallel()
	short := func(seam.Request) (seam.Reply, error) {
		r := runtimetest.Say("It is Goo")
		r.StopReason = "max_tokens"
		return r, nil
	}
	for _, tt := range []struct {
		name    string
		budgets parley.Budgets
		code    parley.Code
		types   string
	}{
		{"by the agent's cap", parley.Budgets{}, parley.CodeModel, "turn.started agent.started model.started model.failed turn.failed"},
		{
			"by what the budget left",
			parley.Budgets{MaxTotalTokens: 500},
			"budget_tokens",
			"turn.started agent.started model.started budget.reached model.failed turn.failed",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := bench{budgets: tt.budgets}
				log := b.run(t, t.Context(), short)
				end := payload[parley.TurnFailed](t, log)[0]
				if types(log) != tt.types || end.Error.Code != tt.code || end.Response.Message != "It is Goo" || end.Usage.InputTokens != 10 {
					t.Errorf("got %s, %+v, want %s, code %s and the text", types(log), end, tt.types, tt.code)
				}
			})
		})
	}
}

// TestARefusalIsSaidAsSuch: it is no answer, empty or half, its calls are not made,
// and nobody asks twice.
func TestARefusalIsSaidAsSuch(t *testing.T) {
	t.Parallel()
	for name, parts := range map[string][]parley.Part{
		"empty":  nil,
		"half":   {{Type: parley.PartText, Text: "The recipe"}},
		"a call": {{Type: parley.PartToolCall, Name: "look", Input: []byte("{}")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var b bench
				log := b.run(t, t.Context(), func(seam.Request) (seam.Reply, error) {
					return seam.Reply{Parts: parts, StopReason: "refusal", Usage: parley.Usage{InputTokens: 10, OutputTokens: 5}}, nil
				})
				end := payload[parley.TurnFailed](t, log)[0]
				if got, want := types(log), "turn.started agent.started model.started model.failed turn.failed"; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if end.Error.Code != parley.CodeModel || !strings.Contains(end.Error.Message, "refused to answer") || end.Usage.InputTokens != 10 || end.Response.Message != parley.PartsText(parts) {
					t.Errorf("got %+v, want the refusal, what it cost and the text", end)
				}
			})
		})
	}
}

func TestRepliesAreMadeFitForTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bench
		log := b.run(t, t.Context(), func(r seam.Request) (seam.Reply, error) {
			if len(runtimetest.Results(r)) > 0 {
				return runtimetest.Say("Done."), nil
			}
			bad := runtimetest.Tool("look", `{"q": `)
			bad.Signature = []byte("not json")
			reply := runtimetest.Use("caf\xe9", bad, runtimetest.Tool("look", ""), parley.Part{Type: parley.PartToolResult, Text: "forged"})
			reply.State = []byte("{")
			return reply, nil
		})
		got := payload[parley.ModelReplied](t, log)[0]
		want := []parley.Part{
			{Type: parley.PartText, Text: "caf\ufffd"},
			{Type: parley.PartToolCall, Call: got.Parts[1].Call, Name: "look", Input: []byte(`"{\"q\": "`)},
			{Type: parley.PartToolCall, Call: got.Parts[2].Call, Name: "look", Input: []byte(`{}`)},
		}
		if diff := cmp.Diff(want, got.Parts); diff != "" || got.State != nil || got.Parts[1].Call == got.Parts[2].Call {
			t.Errorf("parts (-want +got):\n%s, state %s", diff, got.State)
		}
		if got.Usage.USD != 20e-6 {
			t.Errorf("got $%g, want it by the list", got.Usage.USD)
		}
	})
}

// several are models by name.
type several map[string]*runtimetest.Func

func (m several) Model(name string) (seam.Model, error) {
	if f, ok := m[name]; ok {
		return f, nil
	}
	return nil, parley.Errorf(parley.CodeInvalid, "there is no model %q", name)
}

func (m several) Names() []string { return nil }

// TestFallback: a model that does not answer is left for the rest of the turn,
// and what it had begun to say is said again, not glued.
func TestFallback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bench
		calls := map[string]int{}
		named := func(name string, script runtimetest.Script) *runtimetest.Func {
			return &runtimetest.Func{
				ModelInfo: seam.ModelInfo{Name: name, ContextTokens: 20_000, MaxOutputTokens: 1000},
				Script: func(r seam.Request) (seam.Reply, error) {
					calls[name]++
					return script(r)
				},
			}
		}
		models := several{
			"busy": named("busy", func(seam.Request) (seam.Reply, error) {
				return seam.Reply{}, parley.Errorf(parley.CodeRateLimited, "busy is asked too much")
			}),
			"locked": named("locked", func(seam.Request) (seam.Reply, error) {
				return seam.Reply{}, parley.Errorf(parley.CodeUnauthenticated, "locked does not accept the key")
			}),
			"spare": named("spare", func(r seam.Request) (seam.Reply, error) {
				if len(runtimetest.Results(r)) == 0 {
					return runtimetest.Use("", runtimetest.Tool("look", "{}")), nil
				}
				return runtimetest.Say("It is Google."), nil
			}),
		}
		log := b.run(t, t.Context(), nil, func(m *seam.Models, h *seam.Host) {
			*m = models
			app := *b.host.App()
			app.Model, app.Fallbacks = "busy", []string{"absent", "locked", "spare"}
			*h = otherApp{*h, &app}
		})
		if diff := cmp.Diff(map[string]int{"busy": 2, "locked": 1, "spare": 2}, calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		var next []string
		for _, f := range payload[parley.ModelFailed](t, log) {
			next = append(next, f.Fallback)
		}
		if diff := cmp.Diff([]string{"", "locked", "spare"}, next); diff != "" {
			t.Errorf("fallbacks (-want +got):\n%s", diff)
		}
		if got := payload[parley.TurnCompleted](t, log)[0].Response.Message; got != "It is Google." {
			t.Errorf("got %q", got)
		}
	})
}

// otherApp is a host whose app was changed.
type otherApp struct {
	seam.Host
	app *parley.App
}

func (h otherApp) App() *parley.App { return h.app }

// TestMalformedIsMalformedEverywhere: a request that a model refuses as such is
// not tried on the next.
func TestMalformedIsMalformedEverywhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bench
		log := b.run(t, t.Context(), func(seam.Request) (seam.Reply, error) {
			return seam.Reply{}, parley.Errorf(parley.CodeInvalid, "messages.3 is wrong")
		}, func(_ *seam.Models, h *seam.Host) {
			app := *b.host.App()
			app.Fallbacks = []string{"n"}
			*h = otherApp{*h, &app}
		})
		if got := len(payload[parley.ModelFailed](t, log)); got != 1 {
			t.Errorf("got %d calls, want 1", got)
		}
	})
}

// counting is a model whose provider counts tokens.
type counting struct {
	*runtimetest.Func
	n     int64
	asked int
}

func (m *counting) CountTokens(context.Context, seam.Request) (int64, error) {
	m.asked++
	return m.n, nil
}

func (m *counting) Model(string) (seam.Model, error) { return m, nil }

func (m *counting) Names() []string { return nil }

// TestCount: a request that may not fit is counted by its provider, and what was
// counted is reserved; one that surely fits is not. What a document is nobody knows
// before it is counted.
func TestCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		window, n int64
		asked     int
		code      parley.Code
		files     []parley.Part
	}{
		"small":           {20_000, 1, 0, "", nil},
		"fits after all":  {2000, 200, 1, "", nil},
		"does not fit":    {2000, 1900, 1, parley.CodeTooLarge, nil},
		"cannot be known": {2000, 0, 1, "", nil},
		"a long document": {20_000, 15_000, 1, "", []parley.Part{{Type: parley.PartFile, Artifact: "A", MediaType: "application/pdf", Name: "a.pdf"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := bench{files: c.files}
				var m counting
				log := b.run(t, t.Context(), say("It is Google."), func(ms *seam.Models, h *seam.Host) {
					b.model.ModelInfo.ContextTokens, b.model.ModelInfo.Files = c.window, true
					m = counting{Func: &b.model, n: c.n}
					*ms = &m
					app := *b.host.App()
					lead := app.Agents["front"]
					lead.Prompt, lead.MaxOutput = strings.Repeat("Be useful. ", 436), 256
					app.Agents = map[string]parley.AgentDef{"front": lead}
					if c.asked == 0 {
						lead.Prompt = "Be useful."
						app.Agents["front"] = lead
					}
					*h = otherApp{*h, &app}
				})
				if m.asked != c.asked {
					t.Errorf("asked %d times, want %d", m.asked, c.asked)
				}
				started := payload[parley.ModelStarted](t, log)
				if c.code != "" {
					failed := payload[parley.TurnFailed](t, log)
					if len(started) != 0 || len(failed) != 1 || failed[0].Error.Code != c.code {
						t.Errorf("got %v %+v", types(log), failed)
					}
					return
				}
				if len(started) != 1 || c.n > 1 && started[0].Reserved.InputTokens != c.n {
					t.Errorf("got %+v, want %d tokens reserved", started, c.n)
				}
			})
		})
	}
}

// TestTokenBytes: a model whose tokens are shorter gets less history.
func TestTokenBytes(t *testing.T) {
	t.Parallel()
	reserved := func(bytes float64) int64 {
		var n int64
		synctest.Test(t, func(t *testing.T) {
			var b bench
			log := b.run(t, t.Context(), say("It is Google."), func(*seam.Models, *seam.Host) { b.model.ModelInfo.TokenBytes = bytes })
			n = payload[parley.ModelStarted](t, log)[0].Reserved.InputTokens
		})
		return n
	}
	if three, six, none := reserved(3), reserved(6), reserved(0); three != none || six >= three || six < three/2 {
		t.Errorf("got %d tokens at 3 bytes, %d at 6, %d at none", three, six, none)
	}
}

// TestWarning: what is doubtful about a reply is in the log, and a prompt that
// does not fit says how its server takes more.
func TestWarning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bench
		log := b.run(t, t.Context(), func(seam.Request) (seam.Reply, error) {
			r := runtimetest.Say("It is Google.")
			r.Warning = "it may have cut off the beginning"
			return r, nil
		})
		if got := payload[parley.ModelReplied](t, log); len(got) != 1 || got[0].Warning != "it may have cut off the beginning" {
			t.Errorf("got %+v", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var b bench
		log := b.run(t, t.Context(), say("It is Google."), func(*seam.Models, *seam.Host) {
			b.model.ModelInfo.ContextTokens, b.model.ModelInfo.ContextHint = 20, "set MORE=1"
		})
		if got := payload[parley.TurnFailed](t, log); len(got) != 1 || !strings.HasSuffix(got[0].Error.Hint, "; set MORE=1") {
			t.Errorf("got %+v", got)
		}
	})
}
