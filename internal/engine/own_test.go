package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

const (
	ownText = `api_key = "zx81-q9TnW2xRb4LpV"`
	cutText = `api_key = "[redacted]"`
)

// folder is a workspace whose tool "write" writes text to a file. It outlives crashes.
type folder struct {
	t       *testing.T
	effect  parley.Effect
	own     bool
	subject string

	mu    sync.Mutex
	files []string
	gate  func() error
}

func (f *folder) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{
		Name: "write", Description: "Write.", Effect: f.effect, WorkspaceOwn: f.own, Subject: f.subject, KeyTTL: parley.Duration(time.Hour),
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
	}}, nil
}

func (f *folder) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	var in struct{ Text string }
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return parley.ToolResult{}, seam.NotSent(err)
	}
	f.mu.Lock()
	f.files = append(f.files, in.Text)
	gate := f.gate
	f.mu.Unlock()
	if in.Text == cutText {
		f.t.Errorf("the tool was given the redacted form")
	}
	if gate != nil {
		if err := gate(); err != nil {
			return parley.ToolResult{}, err
		}
	}
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: "written: " + in.Text}, nil
}

func (f *folder) written() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.files)
}

// in adds the folder's tool to an engine's options.
func (f *folder) in(o *engine.Options) {
	enginetest.With(f)(o)
}

func (f *folder) app(change ...func(*parley.App)) parley.App {
	decls, _ := f.Tools(context.Background())
	return enginetest.App(append([]func(*parley.App){func(a *parley.App) {
		a.Tools = decls
		a.Agents = map[string]parley.AgentDef{"lead": {Name: "lead", Prompt: "Write.", Tools: []string{"write"}}}
	}}, change...)...)
}

// writes is a model that writes text into n files at once. It repeats the calls that it is asked
// to make again.
func writes(text string, n int) enginetest.Model {
	return func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		got := enginetest.Results(r)
		again := len(got) == 0
		for _, res := range got[max(0, len(got)-n):] {
			again = again || strings.Contains(res, "Make the call again")
		}
		if !again {
			say("done: " + strings.Join(got, "; "))
			return seam.Reply{}, nil
		}
		var parts []parley.Part
		for range n {
			parts = append(parts, enginetest.Call("write", map[string]string{"text": text}))
		}
		return seam.Reply{Parts: parts}, nil
	}
}

// noSecret checks the log and fails the test if the secret is in it.
func noSecret(t *testing.T, log []parley.Event) {
	t.Helper()
	if err := enginetest.CheckLog(log); err != nil {
		t.Error(err)
	}
	for _, ev := range log {
		if strings.Contains(string(ev.Data), "q9TnW2xRb4LpV") {
			t.Errorf("the secret is in the log: %s %s", ev.Type, ev.Data)
		}
	}
}

// TestInputThatRedactionChanges: an input that looks like a secret reaches a workspace-own tool,
// and no other tool. A text that only looks as if it had been redacted reaches both.
func TestInputThatRedactionChanges(t *testing.T) {
	t.Parallel()
	const literal = "the log shows [redacted] where a key was"
	for name, tc := range map[string]struct {
		own     bool
		text    string
		calls   int
		written []string
		said    string
	}{
		"of a workspace-own tool":    {true, ownText, 1, []string{ownText}, "the input as you wrote it"},
		"two at once":                {true, ownText, 2, []string{ownText, ownText}, "the input as you wrote it"},
		"of another tool":            {false, ownText, 1, nil, "Refer to the secret by its name"},
		"a literal of own":           {true, literal, 1, []string{literal}, "done: written: " + literal},
		"a literal of another tool":  {false, literal, 1, []string{literal}, "done: written: " + literal},
		"the redacted form as text":  {false, "x = " + cutText[:9] + " [redacted]", 1, []string{"x = " + cutText[:9] + " [redacted]"}, "written"},
		"a secret beside a literal":  {true, literal + " " + ownText, 1, []string{literal + " " + ownText}, "written"},
		"refused beside a literal":   {false, literal + " " + ownText, 1, nil, "Refer to the secret"},
		"with what HTML would spell": {false, "a <b> & c [redacted]", 1, []string{"a <b> & c [redacted]"}, "written"},
	} {
		for _, effect := range []parley.Effect{parley.EffectRead, parley.EffectIdempotent, parley.EffectWrite} {
			t.Run(name+"/"+string(effect), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					f := &folder{t: t, effect: effect, own: tc.own}
					r := enginetest.New(t, writes(tc.text, tc.calls), f.app(), f.in)
					defer r.Close()
					s := r.Session()
					got := r.Await(r.Send(s.ID, "go").ID)
					if got.Status != parley.StatusCompleted || !strings.Contains(got.Response.Message, tc.said) {
						t.Errorf("got %s %+v, want %q", got.Status, got.Response, tc.said)
					}
					if diff := cmp.Diff(tc.written, f.written()); diff != "" {
						t.Errorf("written (-want +got):\n%s", diff)
					}
					noSecret(t, r.Log(s.ID))
				})
			})
		}
	}
}

// TestOwnInputAcrossAPermission: a call that waits for a person is made with its original input
// while this process lives. After that it is never made with the redacted input.
func TestOwnInputAcrossAPermission(t *testing.T) {
	t.Parallel()
	edited := strings.Replace(ownText, "zx81", "ab12", 1)
	input := func(text string) json.RawMessage {
		raw, _ := json.Marshal(map[string]string{"text": text})
		return raw
	}
	for name, tc := range map[string]struct {
		wait    time.Duration
		restart bool
		answer  parley.Answer
		refused bool // of the answer
		written []string
		asked   int
	}{
		"at once":                       {time.Second, false, parley.Answer{Choice: parley.ChoiceAllow}, false, []string{ownText}, 1},
		"when the session has left":     {10 * time.Minute, false, parley.Answer{Choice: parley.ChoiceAllow}, false, []string{ownText}, 1},
		"for the session":               {time.Second, false, parley.Answer{Choice: parley.ChoiceAllowSession}, false, []string{ownText}, 1},
		"after too long":                {2 * time.Hour, false, parley.Answer{Choice: parley.ChoiceAllow}, false, []string{ownText}, 2},
		"after a restart":               {time.Second, true, parley.Answer{Choice: parley.ChoiceAllow}, false, []string{ownText}, 2},
		"denied after a restart":        {time.Second, true, parley.Answer{Choice: parley.ChoiceDeny}, false, nil, 1},
		"edited":                        {time.Second, false, parley.Answer{Choice: parley.ChoiceAllow, Input: input(edited)}, false, []string{edited}, 1},
		"edited after a restart":        {time.Second, true, parley.Answer{Choice: parley.ChoiceAllow, Input: input(edited)}, false, []string{edited}, 1},
		"edited to what was shown":      {time.Second, false, parley.Answer{Choice: parley.ChoiceAllow, Input: input(cutText)}, true, nil, 1},
		"edited to no secret":           {time.Second, false, parley.Answer{Choice: parley.ChoiceAllow, Input: input("plain")}, false, []string{"plain"}, 1},
		"edited to the mark in escapes": {time.Second, false, parley.Answer{Choice: parley.ChoiceAllow, Input: json.RawMessage(`{"text":"\u005bredacted]"}`)}, true, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &folder{t: t, effect: parley.EffectWrite, own: true}
				app := f.app(asking)
				r := enginetest.New(t, writes(ownText, 1), app, f.in)
				s := r.Session()
				turn := r.Await(r.Send(s.ID, "go").ID)
				time.Sleep(tc.wait)
				if tc.restart {
					r.Close()
					r = enginetest.Over(t, r.Store, r.Service, r.Model, app, f.in)
				}
				defer func() { r.Close() }()
				asked := 0
				for ; turn.Status == parley.StatusWaiting; asked++ {
					a := tc.answer
					if asked > 0 {
						a = parley.Answer{Choice: parley.ChoiceAllow}
					}
					_, err := r.Engine.Answer(t.Context(), enginetest.User, turn.Interactions[0], parley.AnswerInteraction{Answer: a})
					if refused := err != nil; refused != (tc.refused && asked == 0) {
						t.Fatalf("the answer: %v", err)
					}
					if tc.refused {
						return
					}
					turn = r.Await(turn.ID)
				}
				if turn.Status != parley.StatusCompleted || asked != tc.asked {
					t.Errorf("turn is %s after %d questions, want %d: %+v", turn.Status, asked, tc.asked, turn.Response)
				}
				if diff := cmp.Diff(tc.written, f.written()); diff != "" {
					t.Errorf("written (-want +got):\n%s", diff)
				}
				noSecret(t, r.Log(s.ID))
				if n := r.Engine.HeldInputs(); n != 0 {
					t.Errorf("%d bytes of inputs are held when the turn has ended", n)
				}
			})
		})
	}
}

// TestEditedToALiteral: a person may edit an input to a text that only looks as if it had been
// redacted, if nothing was redacted from the call.
func TestEditedToALiteral(t *testing.T) {
	t.Parallel()
	const literal = "the log shows [redacted] where a key was"
	for _, own := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := &folder{t: t, effect: parley.EffectWrite, own: own}
			r := enginetest.New(t, writes("plain", 1), f.app(asking), f.in)
			defer r.Close()
			turn := r.Await(r.Send(r.Session().ID, "go").ID)
			raw, _ := json.Marshal(map[string]string{"text": literal})
			if _, err := r.Engine.Answer(ctx, enginetest.User, turn.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow, Input: raw}}); err != nil {
				t.Fatalf("the answer: %v", err)
			}
			r.Await(turn.ID)
			if diff := cmp.Diff([]string{literal}, f.written()); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOwnInputOfADirectCall: the input of a queued direct call is in memory too. A retry asks for
// it again.
func TestOwnInputOfADirectCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &folder{t: t, effect: parley.EffectWrite, own: true}
		r := enginetest.New(t, enginetest.Echo, f.app(), f.in)
		defer func() { r.Close() }()
		s := r.Session(func(c *parley.CreateSession) { c.Busy, c.MaxOpenTurns = parley.BusyEnqueue, 5 })
		f.gate = func() error { time.Sleep(30 * time.Second); return nil }
		raw, _ := json.Marshal(map[string]string{"text": ownText})
		call := parley.CallTool{App: "test", Session: s.ID, Name: "write", Input: raw}
		var turns []parley.TurnInfo
		for range 2 {
			turn, err := r.Engine.CallTool(t.Context(), enginetest.User, call)
			if err != nil {
				t.Fatal(err)
			}
			turns = append(turns, turn)
		}
		for _, turn := range turns {
			if got, err := r.Engine.Await(t.Context(), enginetest.User, turn.ID, 5*time.Minute); err != nil || !got.Status.Ended() {
				t.Errorf("got %s, %v", got.Status, err)
			}
		}
		if diff := cmp.Diff([]string{ownText, ownText}, f.written()); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
		again, err := r.Engine.Retry(t.Context(), enginetest.User, turns[0].ID, "", "")
		if err != nil {
			t.Fatal(err)
		}
		r.Await(again.ID)
		res, err := r.Engine.CallResult(t.Context(), enginetest.User, again.ID)
		if err != nil || res.Outcome != parley.OutcomeError || !strings.Contains(res.Output, "Make the call again") {
			t.Errorf("the retry: %+v, %v", res, err)
		}
		if n := len(f.written()); n != 2 {
			t.Errorf("%d files are written, want 2", n)
		}
		noSecret(t, r.Log(s.ID))
	})
}

// TestOwnInputDoneAgain: when a person wants an unknown write repeated, it is repeated with its
// original input.
func TestOwnInputDoneAgain(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint(restart), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &folder{t: t, effect: parley.EffectWrite, own: true, gate: func() error { return errors.New("connection reset") }}
				r := enginetest.New(t, writes(ownText, 1), f.app(), f.in)
				s := r.Session()
				turn := r.Await(r.Send(s.ID, "go").ID)
				if restart {
					r.Close()
					r = enginetest.Over(t, r.Store, r.Service, r.Model, f.app(), f.in)
				}
				defer func() { r.Close() }()
				f.mu.Lock()
				f.gate = nil
				f.mu.Unlock()
				if _, err := r.Engine.Answer(t.Context(), enginetest.User, turn.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAgain}}); err != nil {
					t.Fatal(err)
				}
				if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
					t.Errorf("got %s", got.Status)
				}
				if diff := cmp.Diff([]string{ownText, ownText}, f.written()); diff != "" {
					t.Errorf("written (-want +got):\n%s", diff)
				}
				noSecret(t, r.Log(s.ID))
			})
		})
	}
}

// Live implements enginetest.World: it sets up one life of the process with the folder's tool.
func (f *folder) Live(o *engine.Options, gate func() error) func() {
	f.mu.Lock()
	f.gate = gate
	f.mu.Unlock()
	f.in(o)
	return func() {}
}

// Effects implements enginetest.World.
func (f *folder) Effects() map[string]int {
	out := map[string]int{}
	for _, text := range f.written() {
		out[text]++
	}
	return out
}

// Close implements enginetest.World.
func (f *folder) Close() {}

// TestOwnInputCrashAtEveryPoint: wherever the process dies, no tool gets the redacted form and no
// write is made twice. The model is asked for the input that was lost.
func TestOwnInputCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	lost := regexp.MustCompile(`write error\n?|Failed: The call was not made[^;]*; |\[[^]]*\[redacted\][^]]*\]\s*`)
	for name, c := range map[string]struct {
		effect parley.Effect
		change func(*parley.App)
	}{
		"a write":           {parley.EffectWrite, func(*parley.App) {}},
		"a write, asked":    {parley.EffectWrite, asking},
		"a write, resumed":  {parley.EffectWrite, func(a *parley.App) { a.Resume = parley.ResumeAuto }},
		"an idempotent one": {parley.EffectIdempotent, func(*parley.App) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &folder{t: t, effect: c.effect, own: true}
			enginetest.CrashEverywhere(t, enginetest.Scenario{
				App: f.app(c.change), Model: always(writes(ownText, 1)), Messages: []string{"go"},
				World: func() enginetest.World { return &folder{t: t, effect: c.effect, own: true} },
				Told:  func(s string) string { return lost.ReplaceAllString(s, "") },
			})
		})
	}
}

// TestOwnInputOfAToolThatIsNoLongerOwn: while a call waits for a person, the app is changed, and its
// tool is not workspace-own any more. The original input, which is still held, does not reach it.
func TestOwnInputOfAToolThatIsNoLongerOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &folder{t: t, effect: parley.EffectWrite, own: true}
		var scopes *scope.Scopes
		boxed := func() *toolbox.Box {
			box, err := toolbox.New([]seam.Toolset{f}, toolbox.Options{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			return box
		}
		r := enginetest.New(t, writes(ownText, 1), f.app(asking), f.in, func(o *engine.Options) {
			var err error
			scopes, err = scope.New(scope.Options{Apps: []scope.App{{App: f.app(asking), Tools: boxed()}}, Clean: o.Log.RedactFile, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			o.Scopes = scopes
		})
		defer r.Close()
		s := r.Session()
		turn := r.Await(r.Send(s.ID, "go").ID)
		synctest.Wait() // until the turn has parked: a running turn keeps its tools
		if r.Engine.HeldInputs() == 0 {
			t.Fatal("the input is not held")
		}
		f.own = false
		if err := scopes.Replace(scope.App{App: f.app(asking), Tools: boxed()}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Engine.Answer(ctx, enginetest.User, turn.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		if got := r.Await(turn.ID); !got.Status.Ended() {
			t.Errorf("the turn is %s", got.Status)
		}
		if got := f.written(); got != nil {
			t.Errorf("written: %q", got)
		}
		noSecret(t, r.Log(s.ID))
	})
}
