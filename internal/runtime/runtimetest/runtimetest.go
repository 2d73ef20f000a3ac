// Package runtimetest is a test suite for every [seam.Runtime] that calls models itself. [Run]
// runs whole turns with the real engine, a store in memory and a [World] of tools. It then
// repeats them with a crash before and after every append and in every effect. The answer and
// the outcomes must stay the same, no write may happen twice, and every request must be valid
// for every provider ([Validate]).
//
// The parts can be used alone: Validate in tests of models, [Rig] and [Func] in a runtime's own
// tests. [CLI] stands in for runtimes that drive a program which calls models and runs tools
// itself.
package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Run runs the suite. newRuntime is called for each process that a scenario
// lives through.
func Run(t *testing.T, newRuntime func(seam.Models) seam.Runtime) {
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			appends, effects := 0, 0
			t.Run("to_the_end", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := sc.begin(t, newRuntime)
					r.drive()
					r.check(false)
					appends, effects = int(r.rig.appends.Load()), int(r.rig.effects.Load())
					if sc.commits > 0 && appends != sc.commits {
						t.Errorf("got %d commits, want %d:\n%s", appends, sc.commits, list(r.rig.Log()))
					}
				})
			})
			t.Run("crash_everywhere", func(t *testing.T) {
				for n := range appends {
					for _, where := range []string{"before", "after"} {
						synctest.Test(t, func(t *testing.T) { sc.crash(t, newRuntime, n+1, where) })
					}
				}
				for n := range effects {
					synctest.Test(t, func(t *testing.T) { sc.crash(t, newRuntime, n+1, "effect") })
				}
			})
		})
	}
}

// A run is one life of a scenario's world, across several processes.
type run struct {
	tb      testing.TB
	sc      *scenario
	world   *World
	app     *parley.App
	runtime func() seam.Runtime
	rig     *Rig
}

var info = seam.ModelInfo{Name: "func/test", Provider: "func", ContextTokens: 100_000, MaxOutputTokens: 4_000, InputUSD: 1, OutputUSD: 5}

func (sc *scenario) begin(tb testing.TB, newRuntime func(seam.Models) seam.Runtime) *run {
	r := &run{tb: tb, sc: sc, world: &World{Tools: sc.tools, Choice: sc.choose}, app: sc.app()}
	script := sc.script(0)
	r.runtime = func() seam.Runtime {
		return newRuntime(&Func{ModelInfo: info, Script: script, Before: r.sent})
	}
	r.rig = NewRig(tb, r.world, r.app)
	return r
}

// sent checks a request as it leaves.
func (r *run) sent(req seam.Request) {
	if err := Validate(req.Messages); err != nil {
		r.tb.Errorf("a request is not valid: %v\n%v", err, req.Messages)
	}
	if !r.rig.isOpen(req.Call) {
		r.tb.Errorf("the request of call %s left before its model.started was committed", req.Call)
	}
}

func (r *run) drive() {
	r.tb.Helper()
	if err := r.rig.Drive(context.Background(), r.runtime(), r.sc.request()); err != nil {
		r.tb.Fatalf("got error %v, want none", err)
	}
}

// crash crashes a turn at its n-th append or effect, and then continues with what was committed.
func (sc *scenario) crash(t *testing.T, newRuntime func(seam.Models) seam.Runtime, n int, where string) {
	r := sc.begin(t, newRuntime)
	r.rig.crashAt, r.rig.where = n, where
	err := r.rig.Drive(context.Background(), r.runtime(), sc.request())
	if err == nil && sc.commits == 0 {
		return // more of it happened to go into one commit
	}
	if !errors.Is(err, ErrCrashed) {
		t.Fatalf("got error %v %s %d, want the crash", err, where, n)
	}
	r.rig, err = r.rig.Restart()
	if err != nil {
		t.Fatal(err)
	}
	r.drive() // the client repeats its request with the same key
	r.check(true)
	if t.Failed() {
		t.Fatalf("after a crash %s %d:\n%s", where, n, list(r.rig.Log()))
	}
}

// check compares how the turn came out with what the scenario says. After a crash, the outcome of a
// write may be unknown that is otherwise known.
func (r *run) check(crashed bool) {
	r.tb.Helper()
	log := r.rig.Log()
	var s parley.Session
	var message string
	var code parley.Code
	var got []string
	again := map[parley.CallID]bool{}
	for i, e := range log {
		if e.Seq != int64(i+1) {
			r.tb.Fatalf("event %d has number %d", i+1, e.Seq)
		}
		if err := s.Apply(e); err != nil {
			r.tb.Fatalf("the log does not fold: %v", err)
		}
		switch p := payload(r.tb, e).(type) {
		case parley.TurnCompleted:
			message = p.Response.Message
		case parley.TurnFailed:
			code = p.Error.Code
			if p.Response != nil {
				message = p.Response.Message
			}
		case parley.ToolRequested:
			again[p.Call] = p.Redo != ""
		case parley.ToolEnded:
			o := p.Outcome
			if crashed && o == parley.OutcomeUnknown {
				o = parley.OutcomeOK
			}
			if !again[p.Call] || !crashed {
				got = append(got, p.Name+" "+string(o))
			}
		}
	}
	lost := crashed && r.sc.lost != "" && message == r.sc.lost
	if !lost && message != r.sc.message || code != r.sc.code {
		r.tb.Errorf("got answer %q, code %q, want %q, %q", message, code, r.sc.message, r.sc.code)
	}
	want := r.sc.outcomes
	if crashed && r.sc.loose {
		want, got = nil, nil
	}
	if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
		r.tb.Errorf("outcomes (-want +got):\n%s", diff)
	}
	r.once()
}

// once checks that nothing took effect twice.
func (r *run) once() {
	r.tb.Helper()
	for _, e := range r.rig.Log() {
		if p, ok := payload(r.tb, e).(parley.ToolStarted); ok && p.Effect != parley.EffectRead && r.world.Ran(p.Call) > 1 {
			r.tb.Errorf("%s %s took effect %d times", p.Name, p.Call, r.world.Ran(p.Call))
		}
	}
}

func list(log []parley.Event) string {
	var b strings.Builder
	for _, e := range log {
		fmt.Fprintf(&b, "%d %s %s %s\n", e.Seq, e.Type, e.Agent, e.Data)
	}
	return b.String()
}
