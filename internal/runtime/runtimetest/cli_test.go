package runtimetest_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/runtime/runtimetest"
	"github.com/parley-server/parley/internal/seam"
)

var ctx = context.Background()

// world is what programs act on. It outlives them.
type world struct {
	mu      sync.Mutex
	done    map[string]int
	died    bool
	running []<-chan struct{}
}

func (w *world) effects(gate func() error) runtimetest.Effects {
	return runtimetest.Effects{
		Add: func(what string) error {
			w.mu.Lock()
			if w.done == nil {
				w.done = map[string]int{}
			}
			w.done[what]++
			w.mu.Unlock()
			if gate == nil {
				return nil
			}
			return gate()
		},
		Die: func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			first := !w.died
			w.died = true
			return first
		},
	}
}

// within runs programs in this process.
func (w *world) within(gate func() error) *runtimetest.CLI {
	start := runtimetest.Within(w.effects(gate))
	return &runtimetest.CLI{Start: func(ctx context.Context, in io.Reader, out io.Writer) (<-chan struct{}, error) {
		gone, err := start(ctx, in, out)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.running = append(w.running, gone)
		return gone, err
	}}
}

// left counts the programs that run.
func (w *world) left() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, gone := range w.running {
		select {
		case <-gone:
		default:
			n++
		}
	}
	return n
}

// Live implements enginetest.World.
func (w *world) Live(o *engine.Options, gate func() error) func() {
	c := w.within(gate)
	o.Runtimes["cli"] = c
	return c.Close
}

func (w *world) Effects() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]int{}
	for what, n := range w.done {
		all[what] = n
	}
	return all
}

func (w *world) Close() {}

// app is an app whose turns a program makes.
func app(change ...func(*parley.App)) parley.App {
	return enginetest.App(append([]func(*parley.App){func(a *parley.App) {
		a.Runtime, a.Tools = "cli", runtimetest.CLITools()
		tools := []string{"look", "ask", "task", "add"}
		a.Agents = map[string]parley.AgentDef{"lead": {Name: "lead", Tools: tools}, "worker": {Name: "worker", Tools: tools}}
	}}, change...)...)
}

func asks(a *parley.App) {
	a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Tool: "add"}, {Verdict: parley.Allow}}
}

func auto(a *parley.App) { a.Resume = parley.ResumeAuto }

// rig starts an engine whose turns programs make.
func rig(t *testing.T, w *world, a parley.App, change ...func(*engine.Options)) *enginetest.Rig {
	c := w.within(nil)
	r := enginetest.New(t, enginetest.Echo, a, append(change, func(o *engine.Options) { o.Runtimes["cli"] = c })...)
	t.Cleanup(func() {
		r.Close()
		c.Close()
		if n := w.left(); n > 0 {
			t.Errorf("%d programs are left", n)
		}
	})
	return r
}

func answerAll(t *testing.T, r *enginetest.Rig, choice string) {
	t.Helper()
	list, err := r.Engine.Interactions(ctx, enginetest.User, 10)
	if err != nil || len(list) == 0 {
		t.Fatalf("nothing is asked: %v", err)
	}
	for _, in := range list {
		if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: choice}}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCLI: the work of a program with an agent in it becomes a turn like any other.
func TestCLI(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		app     []func(*parley.App)
		message string
		during  func(t *testing.T, r *enginetest.Rig, s parley.SessionID)
		answer  string
		done    map[string]int
	}{
		"own tools, at once": {message: "look a & look b; add c", answer: "done: saw a, saw b, added c", done: map[string]int{"c": 1}},
		"permission": {
			app: []func(*parley.App){asks}, message: "add a & look b",
			during: func(t *testing.T, r *enginetest.Rig, _ parley.SessionID) { answerAll(t, r, parley.ChoiceAllow) },
			answer: "done: added a, saw b", done: map[string]int{"a": 1},
		},
		"two permissions at once": {
			app: []func(*parley.App){asks}, message: "add a & add b",
			during: func(t *testing.T, r *enginetest.Rig, _ parley.SessionID) { answerAll(t, r, parley.ChoiceAllow) },
			answer: "done: added a, added b", done: map[string]int{"a": 1, "b": 1},
		},
		"no permission": {
			app: []func(*parley.App){asks}, message: "add a",
			during: func(t *testing.T, r *enginetest.Rig, _ parley.SessionID) { answerAll(t, r, parley.ChoiceDeny) },
			answer: "done: not add: The user did not allow this call.",
		},
		"permission after it has parked": {
			app: []func(*parley.App){asks}, message: "look b; add a",
			during: func(t *testing.T, r *enginetest.Rig, _ parley.SessionID) {
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				answerAll(t, r, parley.ChoiceAllow)
			},
			answer: "done: saw b, added a", done: map[string]int{"a": 1},
		},
		"a question": {
			message: "ask which",
			during:  func(t *testing.T, r *enginetest.Rig, _ parley.SessionID) { answerAll(t, r, parley.ChoiceAnswered) },
			answer:  "done: heard answered",
		},
		"a sub-agent that asks": {
			app: []func(*parley.App){asks}, message: "task add a & look b",
			during: func(t *testing.T, r *enginetest.Rig, _ parley.SessionID) { answerAll(t, r, parley.ChoiceAllow) },
			answer: "done: task: added a, saw b", done: map[string]int{"a": 1},
		},
		"a steer": {
			message: "hear; add a",
			during: func(t *testing.T, r *enginetest.Rig, s parley.SessionID) {
				if _, err := r.Engine.Send(ctx, enginetest.User, s, parley.Send{Message: "be brief", Busy: parley.BusySteer}); err != nil {
					t.Error(err)
				}
			},
			answer: "done: added a, be brief", done: map[string]int{"a": 1},
		},
		"a crash of the program": {message: "add a; die; add b", answer: "done: added a, added b", done: map[string]int{"a": 1, "b": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var w world
				r := rig(t, &w, app(c.app...))
				s := r.Session()
				turn := r.Send(s.ID, c.message)
				synctest.Wait()
				if c.during != nil {
					c.during(t, r, s.ID)
				}
				got := r.Await(turn.ID)
				if got.Status != parley.StatusCompleted || got.Response == nil || got.Response.Message != c.answer {
					t.Errorf("%s %+v %+v", got.Status, got.Response, got.Error)
				}
				if diff := cmp.Diff(c.done, w.done); diff != "" {
					t.Errorf("effects (-want +got):\n%s", diff)
				}
				if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestCLI_own_turn: a program begins a turn by itself.
func TestCLI_own_turn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w world
		r := rig(t, &w, app(func(a *parley.App) { a.MaxOpenTurns = 2 }))
		s := r.Session()
		r.Await(r.Send(s.ID, "add a; later add b").ID)
		synctest.Wait()
		want := []string{"add ok", "completed: done: added a", "add ok", "completed: done: added b"}
		if diff := cmp.Diff(want, enginetest.Outcomes(r.Log(s.ID))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		rows, err := r.Engine.Turns(ctx, enginetest.User, seam.TurnQuery{Session: s.ID})
		if err != nil || len(rows) != 2 || rows[0].Origin != parley.OriginRuntime {
			t.Errorf("%+v, %v", rows, err)
		}
	})
}

// TestCLICrashAtEveryPoint: whenever the server stops, nothing is done twice.
func TestCLICrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	for name, sc := range map[string]enginetest.Scenario{
		"calls":      {App: app(), Messages: []string{"look a & look b; add c", "add d"}},
		"auto":       {App: app(auto), Messages: []string{"add a; add b"}},
		"permission": {App: app(asks), Messages: []string{"add a"}},
		"question":   {App: app(), Messages: []string{"ask which; add a"}},
		"sub-agent":  {App: app(auto), Messages: []string{"task add a"}},
		"dies":       {App: app(), Messages: []string{"add a; die; look b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc.Model = func() enginetest.Model { return enginetest.Echo }
			sc.World = func() enginetest.World { return &world{} }
			sc.Sparse = 6
			enginetest.CrashEverywhere(t, sc)
		})
	}
}

// TestCLICutAtEveryFrame: a client that follows from any event gets the rest.
func TestCLICutAtEveryFrame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w world
		r := rig(t, &w, app())
		s := r.Session()
		r.Await(r.Send(s.ID, "look a & add b; task add c; die; add d").ID)
		log := r.Log(s.ID)
		for n := range log {
			brief, cancel := context.WithCancel(ctx)
			var got []parley.Event
			for f, err := range r.Reader.Follow(brief, enginetest.User, s.ID, int64(n)) {
				if err != nil {
					t.Fatal(err)
				}
				if f.Event != nil {
					got = append(got, *f.Event)
				}
				if len(got) == len(log)-n {
					break
				}
			}
			cancel()
			if !slices.EqualFunc(got, log[n:], parley.Event.Equal) {
				t.Errorf("after %d: %d events, want %d", n, len(got), len(log)-n)
			}
		}
	})
}

// TestCLIManyHands: several clients at once send random commands to sessions that programs
// work in. Every log is right, no effect happens twice, and no program is left.
func TestCLIManyHands(t *testing.T) {
	t.Parallel()
	const sessions, clients, moves = 12, 3, 12
	var w world
	c := w.within(nil)
	r := enginetest.New(t, enginetest.Echo, app(asks, auto, func(a *parley.App) { a.MaxOpenTurns = 4 }), func(o *engine.Options) {
		o.Runtimes["cli"], o.Patience = c, 20*time.Millisecond
	})
	var all sync.WaitGroup
	for n := range sessions {
		all.Go(func() {
			s := r.Session()
			var group sync.WaitGroup
			for k := range clients {
				group.Go(func() {
					rnd := rand.New(rand.NewPCG(uint64(n), uint64(k)))
					for m := range moves {
						if err := move(r, s.ID, rnd, fmt.Sprintf("%d-%d-%d", n, k, m)); err != nil {
							t.Errorf("session %d: %v", n, err)
						}
					}
				})
			}
			group.Wait()
			if _, err := r.Engine.End(ctx, enginetest.User, s.ID, "the test is over"); err != nil {
				t.Error(err)
			}
			if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
				t.Errorf("session %d: %v", n, err)
			}
		})
	}
	all.Wait()
	r.Close()
	c.Close()
	for what, n := range w.done {
		if n > 1 {
			t.Errorf("%s was done %d times", what, n)
		}
	}
	if n := w.left(); n > 0 {
		t.Errorf("%d programs are left", n)
	}
}

// move sends one random command.
func move(r *enginetest.Rig, id parley.SessionID, rnd *rand.Rand, name string) error {
	e := r.Engine
	info, err := e.Session(ctx, enginetest.User, id)
	if err != nil {
		return err
	}
	switch rnd.IntN(7) {
	case 0, 1, 2:
		busy := []parley.BusyMode{parley.BusyReject, parley.BusyEnqueue, parley.BusyInterrupt, parley.BusySteer}[rnd.IntN(4)]
		message := []string{"add " + name, "look a & add " + name, "task add " + name, "hear", "add " + name + "; later look b"}[rnd.IntN(5)]
		_, err = e.Send(ctx, enginetest.User, id, parley.Send{Message: message, Busy: busy})
	case 3:
		if info.Turn != nil {
			_, err = e.Cancel(ctx, enginetest.User, info.Turn.ID, "")
		}
	case 4, 5:
		var list []seam.InteractionRow
		if list, err = e.Interactions(ctx, enginetest.User, 20); err == nil && len(list) > 0 {
			in := list[rnd.IntN(len(list))]
			_, err = e.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: in.Choices[rnd.IntN(len(in.Choices))]}})
		}
	case 6:
		_, err = e.Fork(ctx, enginetest.User, id, parley.ForkSession{})
	}
	switch parley.CodeOf(err) {
	case "", parley.CodeBusy, parley.CodeConflict, parley.CodeNotFound:
		return nil
	}
	return err
}
