package replay_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/replay"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/plan"
	"github.com/parley-server/parley/internal/toolbox"
)

var ctx = context.Background()

// recorded runs f over an engine and returns the session's recording.
func recorded(t *testing.T, model enginetest.Model, app parley.App, f func(r *enginetest.Rig, s parley.SessionInfo)) *replay.Recording {
	t.Helper()
	r := enginetest.New(t, model, app)
	defer r.Close()
	s := r.Session()
	f(r, s)
	return recording(t, r, s.ID)
}

func recording(t *testing.T, r *enginetest.Rig, id parley.SessionID) *replay.Recording {
	t.Helper()
	events := r.Log(id)
	blobs := map[parley.Digest][]byte{}
	for _, ev := range events {
		p, err := ev.Payload()
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := p.(parley.TurnStarted); ok {
			body, err := r.Store.Blob(ctx, parley.System(), id, s.App)
			if err != nil {
				t.Fatal(err)
			}
			blobs[s.App] = body
		}
	}
	rec, err := replay.New(events, blobs)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func again(t *testing.T, rec *replay.Recording, o replay.Options) replay.Result {
	t.Helper()
	res, err := replay.Run(ctx, rec, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, enginetest.Types(res.Events))
	}
	return res
}

// same replays the recording, and again from its scenario file, and compares the events.
func same(t *testing.T, rec *replay.Recording) {
	t.Helper()
	res := again(t, rec, replay.Options{})
	if d := replay.Compare(rec.Events, res.Events); d != nil {
		t.Errorf("%s\nrecorded:\n%s\nagain:\n%s", d, enginetest.Types(rec.Events), enginetest.Types(res.Events))
	}
	file, err := rec.Scenario("about", func(s string) string { return s })
	if err != nil {
		t.Fatal(err)
	}
	read, err := replay.ReadScenario(file)
	if err != nil || !replay.IsScenario(file) {
		t.Fatal(err)
	}
	res = again(t, read, replay.Options{})
	if d := replay.Compare(rec.Events, res.Events); d != nil {
		t.Errorf("from its scenario: %s", d)
	}
}

// own is a toolset with tools whose input may hold a secret that must not be in the log.
type own struct{ t *testing.T }

func (own) Tools(context.Context) ([]parley.ToolDecl, error) {
	schema := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)
	return []parley.ToolDecl{
		{Name: "write", Description: "Write.", Effect: parley.EffectWrite, WorkspaceOwn: true, InputSchema: schema},
		{Name: "mail", Description: "Mail.", Effect: parley.EffectWrite, InputSchema: schema},
	}, nil
}

func (o own) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	if !strings.Contains(string(r.Input), "hunter22") {
		o.t.Errorf("%s was given %s", r.Name, r.Input)
	}
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: "done"}, nil
}

// TestReplayOfWhatTheLogLacks: the log has less than the whole input of some calls. A call that ran has
// its recorded result. A call that was refused for its input is refused again. The new call that
// replaces a lost input has its recorded result too.
func TestReplayOfWhatTheLogLacks(t *testing.T) {
	t.Parallel()
	decls, _ := own{}.Tools(ctx)
	app := enginetest.App(func(a *parley.App) {
		a.Tools = decls
		a.Agents = map[string]parley.AgentDef{"lead": {Name: "lead", Prompt: "Write.", Tools: []string{"write", "mail"}}}
		a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Tool: "write"}, {Verdict: parley.Allow}}
	})
	model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		got := enginetest.Results(r)
		if len(got) > 0 && !strings.Contains(got[0], "Make the call again") || len(got) > 2 {
			say(strings.Join(got, "; "))
			return seam.Reply{}, nil
		}
		in := map[string]string{"text": `password = "hunter22"`}
		return seam.Reply{Parts: []parley.Part{enginetest.Call("write", in), enginetest.Call("mail", in)}}, nil
	}
	box, err := toolbox.New([]seam.Toolset{own{t}}, toolbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	in := func(o *engine.Options) { o.Tools = map[string]*toolbox.Box{app.Name: box} }
	r := enginetest.New(t, model, app, in)
	defer func() { r.Close() }()
	s := r.Session()
	turn := r.Await(r.Send(s.ID, "go").ID)
	answer(t, r, turn, parley.Answer{Choice: parley.ChoiceAllow})
	r.Await(turn.ID)
	turn = r.Await(r.Send(s.ID, "and again").ID)
	r.Close()
	r = enginetest.Over(t, r.Store, r.Service, r.Model, app, in) // the input of the waiting write is lost
	answer(t, r, turn, parley.Answer{Choice: parley.ChoiceAllow})
	if turn = r.Await(turn.ID); turn.Status == parley.StatusWaiting {
		answer(t, r, turn, parley.Answer{Choice: parley.ChoiceAllow})
		turn = r.Await(turn.ID)
	}
	if turn.Status != parley.StatusCompleted {
		t.Errorf("the turn is %s", turn.Status)
	}
	same(t, recording(t, r, s.ID))
}

// answer answers the questions that a turn waits for.
func answer(t *testing.T, r *enginetest.Rig, turn parley.TurnInfo, a parley.Answer) {
	t.Helper()
	for _, id := range turn.Interactions {
		if _, err := r.Engine.Answer(ctx, enginetest.User, id, parley.AnswerInteraction{Answer: a}); err != nil {
			t.Fatal(err)
		}
	}
}

// mailer mails, and says the result.
func mailer(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if res := enginetest.Results(r); len(res) > 0 {
		say("done: " + res[len(res)-1])
		return seam.Reply{}, nil
	}
	return seam.Reply{Parts: []parley.Part{
		enginetest.Call("look", map[string]string{"text": "a"}), enginetest.Call("look", map[string]string{"text": "b"}),
		enginetest.Call("mail", map[string]string{"text": enginetest.Last(r)}),
	}}, nil
}

func asks(a *parley.App) {
	a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}, {Verdict: parley.Allow, Effect: parley.EffectRead}}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model enginetest.Model
		app   parley.App
		run   func(t *testing.T, r *enginetest.Rig, s parley.SessionInfo)
	}{
		"two turns": {enginetest.Echo, enginetest.App(), func(_ *testing.T, r *enginetest.Rig, s parley.SessionInfo) {
			r.Await(r.Send(s.ID, "one").ID)
			r.Await(r.Send(s.ID, "two").ID)
		}},
		"tools": {mailer, enginetest.App(), func(_ *testing.T, r *enginetest.Rig, s parley.SessionInfo) {
			r.Await(r.Send(s.ID, "one").ID)
			r.Await(r.Send(s.ID, "two").ID)
		}},
		"an edited permission": {mailer, enginetest.App(asks), func(t *testing.T, r *enginetest.Rig, s parley.SessionInfo) {
			turn := r.Await(r.Send(s.ID, "one").ID)
			answer(t, r, turn, parley.Answer{Choice: parley.ChoiceAllow, Input: json.RawMessage(`{"text":"edited"}`)})
			r.Await(turn.ID)
		}},
		"a denial, then one for the session": {mailer, enginetest.App(asks), func(t *testing.T, r *enginetest.Rig, s parley.SessionInfo) {
			turn := r.Await(r.Send(s.ID, "one").ID)
			answer(t, r, turn, parley.Answer{Choice: parley.ChoiceDeny, Text: "not now"})
			r.Await(turn.ID)
			turn = r.Await(r.Send(s.ID, "two").ID)
			answer(t, r, turn, parley.Answer{Choice: parley.ChoiceAllowSession})
			r.Await(turn.ID)
			r.Await(r.Send(s.ID, "three").ID)
		}},
		"one for the session that is revoked": {mailer, enginetest.App(asks), func(t *testing.T, r *enginetest.Rig, s parley.SessionInfo) {
			turn := r.Await(r.Send(s.ID, "one").ID)
			answer(t, r, turn, parley.Answer{Choice: parley.ChoiceAllowSession})
			r.Await(turn.ID)
			if _, err := r.Engine.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{Rules: &[]parley.Rule{}}); err != nil {
				t.Fatal(err)
			}
			turn = r.Await(r.Send(s.ID, "two").ID)
			answer(t, r, turn, parley.Answer{Choice: parley.ChoiceDeny})
			r.Await(turn.ID)
		}},
		"words in place of an answer": {mailer, enginetest.App(asks), func(t *testing.T, r *enginetest.Rig, s parley.SessionInfo) {
			turn := r.Await(r.Send(s.ID, "one").ID)
			if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "leave it, please", Busy: parley.BusySteer}); err != nil {
				t.Error(err)
			}
			r.Await(turn.ID)
		}},
		"a model that fails": {func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			if enginetest.Last(r) == "no" {
				say("half")
				return seam.Reply{}, parley.Errorf(parley.CodeForbidden, "not today").WithHint("tomorrow")
			}
			return enginetest.Echo(ctx, r, say)
		}, enginetest.App(), func(_ *testing.T, r *enginetest.Rig, s parley.SessionInfo) {
			r.Await(r.Send(s.ID, "no").ID)
			r.Await(r.Send(s.ID, "yes").ID)
		}},
		"a direct call": {enginetest.Echo, enginetest.App(), func(t *testing.T, r *enginetest.Rig, s parley.SessionInfo) {
			turn, err := r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{Session: s.ID, Name: "look", Input: json.RawMessage(`{"text":"x"}`)})
			if err != nil {
				t.Fatal(err)
			}
			r.Await(turn.ID)
		}},
		"what is set in between": {enginetest.Echo, enginetest.App(), func(t *testing.T, r *enginetest.Rig, s parley.SessionInfo) {
			r.Await(r.Send(s.ID, "one").ID)
			title := "A title"
			pins := []parley.Pin{{Label: "house", Text: "red"}}
			if _, err := r.Engine.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{Title: &title, Pins: &pins, Preferences: map[string]any{"tone": "dry"}}); err != nil {
				t.Fatal(err)
			}
			r.Await(r.Send(s.ID, "two").ID)
			if _, err := r.Engine.End(ctx, enginetest.User, s.ID, "enough"); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			same(t, recorded(t, c.model, c.app, func(r *enginetest.Rig, s parley.SessionInfo) { c.run(t, r, s) }))
		})
	}
}

// TestReplayOfACancel: the text from before the cancel is said again, and then the turn is cancelled.
func TestReplayOfACancel(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if enginetest.Last(r) == "hang" {
			say("so far ")
			<-ctx.Done()
			return seam.Reply{}, ctx.Err()
		}
		return enginetest.Echo(ctx, r, say)
	}
	same(t, recorded(t, hang, enginetest.App(), func(r *enginetest.Rig, s parley.SessionInfo) {
		turn := r.Send(s.ID, "hang")
		for {
			got, err := r.Engine.Turn(ctx, enginetest.User, turn.ID)
			if err != nil {
				t.Fatal(err)
			}
			if got.Status == parley.StatusStreaming {
				break
			}
		}
		if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, "too slow"); err != nil {
			t.Fatal(err)
		}
		r.Await(turn.ID)
		r.Await(r.Send(s.ID, "again").ID)
	}))
}

// anyName has the same model under every name.
type anyName enginetest.Models

func (m anyName) Model(string) (seam.Model, error) { return enginetest.Models(m).Model("test/model") }
func (anyName) Names() []string                    { return nil }

// TestChanges: a changed prompt shows in the first request, a changed policy in the first call that it
// forbids, and a changed model in its first reply.
func TestChanges(t *testing.T) {
	t.Parallel()
	rec := recorded(t, mailer, enginetest.App(), func(r *enginetest.Rig, s parley.SessionInfo) { r.Await(r.Send(s.ID, "one").ID) })
	base := again(t, rec, replay.Options{})

	prompted := again(t, rec, replay.Options{Prompts: map[string]string{"lead": "Be brief."}})
	d := replay.Prompts(base.Requests, prompted.Requests)
	if d == nil || !strings.Contains(d.String(), "model call 1, of agent lead") || !strings.Contains(d.String(), "- system: Be useful.\n  + system: Be brief.") {
		t.Errorf("another prompt: %v", d)
	}
	if d := replay.Prompts(base.Requests, again(t, rec, replay.Options{}).Requests); d != nil {
		t.Errorf("the same prompt: %v", d)
	}

	forbidden := again(t, rec, replay.Options{Policy: &parley.Policy{Rules: []parley.Rule{{Verdict: parley.Deny, Tool: "mail", Reason: "no mail on Sundays"}}}})
	d = replay.Compare(rec.Events, forbidden.Events)
	if d == nil || d.Turn != 1 || !strings.Contains(d.String(), "tool.") {
		t.Errorf("another policy: %v", d)
	}

	other := again(t, rec, replay.Options{Model: "x/y", Models: anyName{F: func(_ context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
		say("I mail nothing.")
		return seam.Reply{}, nil
	}}})
	d = replay.CompareModels(rec.Events, other.Events)
	if d == nil || !strings.Contains(d.String(), "model.replied") || !strings.Contains(d.String(), "I mail nothing.") {
		t.Errorf("another model: %v", d)
	}

	// A model with the same calls and text differs only in its name, price and thoughts.
	alike := again(t, rec, replay.Options{Model: "x/y", Models: anyName{F: func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		reply, err := mailer(ctx, r, say)
		thought := parley.Part{Type: parley.PartThinking, Text: "hm", Provider: "x"}
		reply.Parts = append([]parley.Part{thought}, reply.Parts...)
		reply.Usage.OutputTokens = 99
		return reply, err
	}}})
	if d := replay.CompareModels(rec.Events, alike.Events); d != nil {
		t.Errorf("another model that says the same: %v", d)
	}
	if d := replay.Compare(rec.Events, alike.Events); d == nil {
		t.Error("another model is no difference")
	}
}

// TestRunning: a session that was exported during a turn is replayed up to the same point, wherever that
// is.
func TestRunning(t *testing.T) {
	t.Parallel()
	whole := recorded(t, mailer, enginetest.App(), func(r *enginetest.Rig, s parley.SessionInfo) { r.Await(r.Send(s.ID, "one").ID) })
	for n := 2; n < len(whole.Events); n++ {
		rec := &replay.Recording{Events: whole.Events[:n], Apps: whole.Apps}
		res := again(t, rec, replay.Options{})
		if d := replay.Compare(rec.Events, res.Events); d != nil {
			t.Errorf("up to %s: %s", rec.Events[n-1].Type, d)
		}
	}
}

// TestScenarios replays every stored scenario: those of the demos and those that
// `parley session to-test` adds. Each gives the same events again.
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "scenarios", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no scenarios: %v", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			file, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			rec, err := replay.ReadScenario(file)
			if err != nil {
				t.Fatal(err)
			}
			res := again(t, rec, replay.Options{})
			if d := replay.Compare(rec.Events, res.Events); d != nil {
				t.Error(d)
			}
		})
	}
}

func TestBadScenarios(t *testing.T) {
	t.Parallel()
	for want, file := range map[string]string{
		"there is no log.ndjson": "hello\n",
		"log.ndjson:1: ":         "-- log.ndjson --\nno json\n",
		"event 2 stands where 1": "-- log.ndjson --\n{\"seq\":2}\n",
		"a scenario holds":       "-- x --\n",
		"has no turns":           "-- log.ndjson --\n{\"session\":\"S\",\"seq\":1,\"time\":\"2026-11-21T08:00:00Z\",\"type\":\"session.created\",\"data\":{\"app\":\"a\"}}\n",
		"cannot be run again: ":  "-- log.ndjson --\n{\"session\":\"S\",\"seq\":1,\"time\":\"2026-11-21T08:00:00Z\",\"type\":\"from.the.future\",\"data\":{}}\n",
		"lacks the app":          "-- log.ndjson --\n{\"session\":\"S\",\"seq\":1,\"time\":\"2026-11-21T08:00:00Z\",\"type\":\"turn.started\",\"data\":{\"origin\":\"user\",\"message\":{\"role\":\"user\",\"parts\":[]},\"budgets\":{},\"app\":\"x\"}}\n",
	} {
		if _, err := replay.ReadScenario([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func FuzzReadScenario(f *testing.F) {
	f.Add([]byte("-- log.ndjson --\n{\"seq\":1}\n"))
	f.Fuzz(func(_ *testing.T, file []byte) {
		if rec, err := replay.ReadScenario(file); err == nil {
			_, _ = rec.Scenario("", func(s string) string { return s })
		}
	})
}

// TestPromptsOfAReplay: a replay sends the models the recorded prompts byte for byte, with the time and
// the limits of that turn.
func TestPromptsOfAReplay(t *testing.T) {
	t.Parallel()
	zone := func(o *engine.Options) { o.Zone = time.FixedZone("Asia/Kolkata", 19800) }
	r := enginetest.New(t, enginetest.Echo, enginetest.App(), zone)
	defer r.Close()
	s := r.Session()
	for _, budgets := range []parley.Budgets{{}, {MaxSteps: 3, MaxDurationMS: 60_000}} {
		turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "go", Budgets: budgets})
		if err != nil {
			t.Fatal(err)
		}
		r.Await(turn.ID)
	}
	rec := recording(t, r, s.ID)
	asked := func(events []parley.Event) (digests []parley.Digest) {
		for _, ev := range events {
			if p, err := ev.Payload(); err == nil {
				if m, ok := p.(parley.ModelStarted); ok {
					digests = append(digests, m.Context)
				}
			}
		}
		return digests
	}
	res := again(t, rec, replay.Options{Info: func(name string) seam.ModelInfo {
		m, err := enginetest.Models{F: enginetest.Echo}.Model(name)
		if err != nil {
			t.Error(err)
			return seam.ModelInfo{}
		}
		return m.Info()
	}})
	if diff := cmp.Diff(asked(rec.Events), asked(res.Events)); diff != "" || len(res.Requests) != 2 {
		t.Errorf("prompts differ (-recorded +again): %s\n%v", diff, res.Requests)
	}
	for _, req := range res.Requests {
		if text := req.Messages[len(req.Messages)-1].Text(); !strings.Contains(text, "Asia/Kolkata, UTC+05:30") {
			t.Errorf("told %q", text)
		}
	}
}

// TestReplayOfClients: calls that clients ran are claimed and reported again, also those
// that were claimed and never reported, or declined.
func TestReplayOfClients(t *testing.T) {
	t.Parallel()
	model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if res := enginetest.Results(r); len(res) > 0 {
			say("done: " + res[len(res)-1])
			return seam.Reply{}, nil
		}
		return seam.Reply{Parts: []parley.Part{enginetest.Call(enginetest.Last(r), map[string]string{"text": "hi"})}}, nil
	}
	app := enginetest.App(enginetest.ByClients, func(a *parley.App) {
		for i := range a.Tools {
			a.Tools[i].Timeout = parley.Duration(50 * time.Millisecond)
		}
	})
	var rec *replay.Recording
	synctest.Test(t, func(t *testing.T) {
		rec = recorded(t, model, app, func(r *enginetest.Rig, s parley.SessionInfo) {
			own := &enginetest.Client{Service: r.Service}
			turn := func(message string, do ...func(in parley.InteractionID) error) {
				id := r.Send(s.ID, message).ID
				for _, f := range do {
					if err := f(r.Await(id).Interactions[0]); err != nil {
						t.Fatal(err)
					}
				}
				r.Await(id)
			}
			serve := func(in parley.InteractionID) error { _, err := own.Serve(ctx, r.Engine, in); return err }
			never := func(in parley.InteractionID) error {
				_, err := r.Engine.Claim(ctx, enginetest.User, in, parley.ClaimCall{})
				return err
			}
			answer := func(choice string) func(in parley.InteractionID) error {
				return func(in parley.InteractionID) error {
					_, err := r.Engine.Answer(ctx, enginetest.User, in, parley.AnswerInteraction{Answer: parley.Answer{Choice: choice}})
					return err
				}
			}
			turn("look", serve)
			turn("look", never, serve)
			turn("look", answer(parley.ChoiceDeny))
			turn("mail", serve)
			turn("mail", never, answer(parley.ChoiceHappened))
		})
	})
	same(t, rec)
}

// TestReplayOfAPlan: a plan is approved in the recording, so the session leaves plan mode at the same
// place again, and the calls after it are made.
func TestReplayOfAPlan(t *testing.T) {
	t.Parallel()
	decls, _ := plan.New().Tools(ctx)
	app := enginetest.App(func(a *parley.App) {
		def := a.Agents["lead"]
		def.Tools = append(def.Tools, plan.Enter, plan.Exit)
		a.Agents["lead"], a.Tools = def, append(a.Tools, decls...)
	})
	model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		calls := []parley.Part{
			enginetest.Call(plan.Enter, map[string]any{}), enginetest.Call("mail", map[string]any{"text": "early"}),
			enginetest.Call(plan.Exit, map[string]any{"plan": "Mail it."}), enginetest.Call("mail", map[string]any{"text": "late"}),
		}
		if n := len(enginetest.Results(r)); n < len(calls) {
			return seam.Reply{Parts: calls[n : n+1]}, nil
		}
		say(strings.Join(enginetest.Results(r), " | "))
		return seam.Reply{}, nil
	}
	rec := recorded(t, model, app, func(r *enginetest.Rig, s parley.SessionInfo) {
		turn := r.Send(s.ID, "go")
		for got := r.Await(turn.ID); got.Status == parley.StatusWaiting; got = r.Await(turn.ID) {
			in, err := r.Engine.Interaction(ctx, enginetest.User, got.Interactions[0])
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: enginetest.First(in.Interaction, "")}); err != nil {
				t.Fatal(err)
			}
		}
		if got := r.Await(turn.ID); got.Status != parley.StatusCompleted || !strings.Contains(got.Response.Message, "mailed late") {
			t.Fatalf("got %+v", got)
		}
		var modes []parley.PermissionMode
		for _, ev := range r.Log(s.ID) {
			if p, err := ev.Payload(); err == nil {
				if u, ok := p.(parley.SessionUpdated); ok && u.Mode != nil {
					modes = append(modes, *u.Mode)
				}
			}
		}
		if diff := cmp.Diff([]parley.PermissionMode{parley.ModePlan, parley.ModeDefault}, modes); diff != "" {
			t.Error(diff)
		}
	})
	same(t, rec)
}
