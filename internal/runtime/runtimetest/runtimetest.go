// Package runtimetest is the suite that every [seam.Runtime] which calls models
// by itself passes. [Run] takes it through whole turns against a [Host] in
// memory and a [World] of tools, and then again from every prefix of each log
// and through a crash at every commit: the answer and the outcomes stay the
// same, no write happens twice, and every request is valid for every provider
// ([Validate]).
//
// The parts may be used alone: Validate by the tests of models, Host and [Func]
// by a runtime's own tests.
package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
			var whole *Host
			t.Run("to_the_end", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := sc.begin(t, newRuntime)
					r.drive()
					r.check(false)
					if got := r.host.Commits(); sc.commits > 0 && got != sc.commits {
						t.Errorf("got %d commits, want %d:\n%s", got, sc.commits, list(r.host.Log()))
					}
					whole = r.host
				})
			})
			t.Run("from_every_prefix", func(t *testing.T) {
				log := whole.Log()
				for n := 2; n <= len(log); n++ {
					for _, happened := range []bool{false, true} {
						synctest.Test(t, func(t *testing.T) {
							sc.fromPrefix(t, newRuntime, log[:n], happened, slices.Contains(whole.ends, n))
						})
					}
				}
			})
			t.Run("crash_at_every_commit", func(t *testing.T) {
				for n := 1; n <= whole.Commits(); n++ {
					for _, landed := range []bool{false, true} {
						synctest.Test(t, func(t *testing.T) { sc.crash(t, newRuntime, n, landed) })
					}
				}
			})
		})
	}
}

// A run is one life of a scenario's world, through several hosts.
type run struct {
	tb      testing.TB
	sc      *scenario
	world   *World
	app     *parley.App
	runtime func() seam.Runtime
	host    *Host
}

func (sc *scenario) world(tb testing.TB, newRuntime func(seam.Models) seam.Runtime, ended int) *run {
	r := &run{tb: tb, sc: sc, world: &World{Tools: sc.tools, Choice: sc.choose}, app: sc.app()}
	script := sc.script(ended)
	r.runtime = func() seam.Runtime {
		return newRuntime(&Func{ModelInfo: info, Script: script, Before: r.sent})
	}
	return r
}

var info = seam.ModelInfo{Name: "func/test", Provider: "func", ContextTokens: 100_000, MaxOutputTokens: 4_000, InputUSD: 1, OutputUSD: 5}

func (sc *scenario) begin(tb testing.TB, newRuntime func(seam.Models) seam.Runtime) *run {
	r := sc.world(tb, newRuntime, 0)
	r.host = NewHost(tb, r.world, r.app, sc.request())
	return r
}

// sent checks a request as it leaves.
func (r *run) sent(req seam.Request) {
	if err := Validate(req.Messages); err != nil {
		r.tb.Errorf("a request is not valid: %v\n%v", err, req.Messages)
	}
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	if !r.host.dead && !r.host.isOpen(req.Call) {
		r.tb.Errorf("the request of call %s left before its model.started was committed", req.Call)
	}
}

func (r *run) drive() {
	r.tb.Helper()
	if err := r.host.Drive(context.Background(), r.runtime()); err != nil {
		r.tb.Fatalf("got error %v, want none", err)
	}
}

// fromPrefix goes on from the first events of a log that is whole. Where the
// prefix ends within a call, happened says whether its effect took place. A
// prefix that ends within an append is what a fork may leave, not a crash: then
// the turn may come out otherwise, but it comes to an end with valid requests
// and no write twice.
func (sc *scenario) fromPrefix(
	t *testing.T, newRuntime func(seam.Models) seam.Runtime, prefix []parley.Event, happened, whole bool,
) {
	ended := 0
	for _, e := range prefix {
		if e.Type == "model.replied" || e.Type == "model.failed" {
			ended++
		}
	}
	r := sc.world(t, newRuntime, ended)
	open := map[parley.CallID]parley.ToolStarted{}
	for _, e := range prefix {
		switch p := payload(t, e).(type) {
		case parley.ToolStarted:
			open[p.Call] = p
		case parley.ToolEnded:
			if s, ok := open[p.Call]; ok {
				r.world.run(parley.ToolCall{Call: s.Call, Name: s.Name, Input: s.Input}, s.Effect)
				delete(open, p.Call)
			}
		}
	}
	for _, s := range open {
		if happened {
			r.world.run(parley.ToolCall{Call: s.Call, Name: s.Name, Input: s.Input}, s.Effect)
		}
	}
	r.host = Restart(t, r.world, r.app, prefix)
	r.drive()
	if r.once(); whole {
		r.check(true)
	}
	if t.Failed() {
		t.Fatalf("from the first %d events:\n%s", len(prefix), list(r.host.Log()))
	}
}

// crash lets the n-th commit of a turn crash and goes on with what is committed.
func (sc *scenario) crash(t *testing.T, newRuntime func(seam.Models) seam.Runtime, n int, landed bool) {
	r := sc.begin(t, newRuntime)
	r.host.CrashAt(n, landed)
	err := r.host.Drive(context.Background(), r.runtime())
	if err == nil && sc.commits == 0 && r.host.Commits() < n {
		return // more of it happened to go into one commit
	}
	if !errors.Is(err, ErrCrashed) {
		t.Fatalf("got error %v at commit %d, want the crash", err, n)
	}
	if log := r.host.Log(); len(log) > 1 {
		r.host = Restart(t, r.world, r.app, log)
	} else { // not even the turn began: the client asks again
		r.host = NewHost(t, r.world, r.app, sc.request())
	}
	r.drive()
	r.check(true)
	if t.Failed() {
		t.Fatalf("after a crash at commit %d, landed %v:\n%s", n, landed, list(r.host.Log()))
	}
}

// check compares how the turn came out with what the scenario says. After a
// crash a write may be unknown where it was known else.
func (r *run) check(crashed bool) {
	r.tb.Helper()
	log := r.host.Log()
	var s parley.Session
	var message string
	var code parley.Code
	var got []string
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
			message, code = p.Response.Message, p.Error.Code
		case parley.ToolEnded:
			o := p.Outcome
			if crashed && o == parley.OutcomeUnknown {
				o = parley.OutcomeOK
			}
			if !strings.HasSuffix(string(p.Call), "-again") || !crashed {
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
	for _, e := range r.host.Log() {
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
