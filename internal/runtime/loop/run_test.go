package loop_test

import (
	"context"
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

// bench runs one turn of one agent in fake time. The agent has the tools look (read) and add (write).
type bench struct {
	model   runtimetest.Func
	world   runtimetest.World
	budgets parley.Budgets
	files   []parley.Part // attached to the message
	host    *runtimetest.Rig
	began   time.Time
}

// run drives the turn to its end. wrap may replace the loop's models or host.
func (b *bench) run(t *testing.T, ctx context.Context, script runtimetest.Script, wrap ...func(*seam.Models, *seam.Host)) []parley.Event {
	t.Helper()
	app := &parley.App{
		Name: "test", Entry: "front", Model: "m",
		Agents: map[string]parley.AgentDef{"front": {Name: "front", Prompt: "You answer.", Tools: []string{"look", "add"}}},
		Tools:  []parley.ToolDecl{{Name: "look", Effect: parley.EffectRead}, {Name: "add", Effect: parley.EffectWrite}},
	}
	b.model.ModelInfo = seam.ModelInfo{Name: "m", ContextTokens: 20_000, MaxOutputTokens: 1000, InputUSD: 1, OutputUSD: 2}
	b.model.Script = script
	b.host = runtimetest.NewRig(t, &b.world, app)
	var models seam.Models = &b.model
	var host seam.Host = filed{b.host, b.files}
	for _, f := range wrap {
		f(&models, &host)
	}
	b.began = time.Now()
	request := parley.TurnRequest{Message: parley.Text(parley.RoleUser, "What is the spec?"), Budgets: b.budgets}
	if err := b.host.Drive(ctx, through{loop.New(models, loop.Options{}), host}, request); err != nil {
		t.Fatal(err)
	}
	return b.host.Log()
}

// filed is a host whose turn has files beside its message.
type filed struct {
	*runtimetest.Rig
	files []parley.Part
}

func (h filed) State() *parley.Session {
	s := h.Rig.State().Clone()
	if s.Turn != nil {
		m := &s.Turn.Request.Message
		m.Parts = append(slices.Clip(m.Parts), h.files...)
	}
	return s
}

// through runs a runtime with a different host from the one it is given.
type through struct {
	seam.Runtime
	host seam.Host
}

func (r through) Run(ctx context.Context, _ seam.Host) (seam.Ending, error) {
	return r.Runtime.Run(ctx, r.host)
}

// types returns the types of the events from turn.started on.
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

// said is the text of a response, if there is one.
func said(r *parley.Response) string {
	if r == nil {
		return ""
	}
	return r.Message
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
		if got := said(payload[parley.TurnCancelled](t, log)[0].Response); got != "It is Goog" {
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
			synctest.Wait() // the request to stop is in the log before the tool ends
			return parley.ToolResult{Outcome: parley.OutcomeOK, Output: "added"}
		}}}
		log := b.run(t, ctx, func(seam.Request) (seam.Reply, error) {
			return runtimetest.Use("", runtimetest.Tool("add", "{}"), runtimetest.Tool("add", `{"n":2}`)), nil
		})
		want := "turn.started agent.started model.started model.replied tool.requested tool.requested tool.started turn.stop_requested tool.ended tool.ended turn.cancelled"
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
			log := b.run(t, t.Context(), asked(&seen), func(_ *seam.Models, h *seam.Host) { *h = &slippery{Rig: b.host} })
			if diff := cmp.Diff([]string{"in short"}, seen); diff != "" {
				t.Errorf("seen by the model (-want +got):\n%s", diff)
			}
			if lost := payload[parley.ModelFailed](t, log); len(lost) != 1 || !lost[0].Retry || lost[0].Usage != (parley.Usage{}) {
				t.Errorf("got %+v, want the call without the message given up at no cost", lost)
			}
		})
	})
}

// slippery is a host that gets a message after a request was made from the state and before the
// request's model.started.
type slippery struct {
	*runtimetest.Rig
	done bool
}

func (h *slippery) Emit(ctx context.Context, events ...parley.Event) error {
	if !h.done {
		h.done = true
		h.Steer("in short")
	}
	return h.Rig.Emit(ctx, events...)
}

func (m hanging) Model(string) (seam.Model, error) { return m, nil }

func (m hanging) Stream(ctx context.Context, _ seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		<-ctx.Done()
		yield(seam.ModelDelta{}, ctx.Err())
	}
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

// forgetful is a host that answers a call without journaling anything.
type forgetful struct{ *runtimetest.Rig }

func (forgetful) Call(context.Context, parley.ToolCall, seam.Sampler) (parley.ToolResult, error) {
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

func (m several) Model(name string) (seam.Model, error) {
	if f, ok := m[name]; ok {
		return f, nil
	}
	return nil, parley.Errorf(parley.CodeInvalid, "there is no model %q", name)
}

func (m several) Names() []string { return nil }

func (m *counting) Model(string) (seam.Model, error) { return m, nil }

func (m *counting) Names() []string { return nil }
