package engine_test

import (
	"context"
	"sync"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// lossy is a service whose first answers to each call are lost on the way, though the calls took
// effect. Each call with a new key takes effect.
type lossy struct {
	t      *testing.T
	lose   int
	unsure int // how often it cannot say what became of a mail

	mu    sync.Mutex
	made  map[parley.CallID]int // how often each call arrived
	asked int
	done  map[string]int
}

// Live implements enginetest.World.
func (l *lossy) Live(o *engine.Options, gate func() error) func() {
	var set seam.Toolset = lossyTools{l, gate}
	if l.unsure > 0 {
		set = lossyAsked{lossyTools{l, gate}}
	}
	enginetest.With(set)(o)
	return func() {}
}

// Effects implements enginetest.World.
func (l *lossy) Effects() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done
}

// Close implements enginetest.World.
func (l *lossy) Close() {}

type lossyTools struct {
	*lossy
	gate func() error
}

func (l lossyTools) Tools(c context.Context) ([]parley.ToolDecl, error) {
	return (&enginetest.Service{}).Tools(c)
}

func (l lossyTools) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	l.mu.Lock()
	l.made[r.Call]++
	n := l.made[r.Call]
	if n == 1 || r.Name != "put" { // a put with a key that it knows takes effect only once
		l.done[r.Name]++
	}
	l.mu.Unlock()
	if err := l.gate(); err != nil {
		return parley.ToolResult{}, err
	}
	if n <= l.lose {
		return parley.ToolResult{}, errLost
	}
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: "done"}, nil
}

type lossyAsked struct{ lossyTools }

// Reconcile implements seam.Reconciler.
func (l lossyAsked) Reconcile(_ context.Context, r seam.Run) (parley.ToolResult, bool, error) {
	l.mu.Lock()
	made := l.made[r.Call] > 0
	l.asked++
	unsure := l.asked <= l.unsure
	l.mu.Unlock()
	if err := l.gate(); err != nil {
		return parley.ToolResult{}, false, err
	}
	switch {
	case unsure:
		return parley.ToolResult{}, false, errLost
	case made:
		return parley.ToolResult{Outcome: parley.OutcomeOK, Output: "done"}, true, nil
	}
	return parley.ToolResult{Outcome: parley.OutcomeError, Output: "it was never made"}, true, nil
}

// TestCrashWhileAnswersAreLost: the server dies at any point while it repeats an idempotent call
// whose answers are lost, or asks what became of a write. The outcome is that of a run without a
// crash, and nothing takes effect twice.
func TestCrashWhileAnswersAreLost(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tool         string
		lose, unsure int
		resume       parley.ResumeMode
	}{
		"repeated":       {tool: "put", lose: 2, resume: parley.ResumeManual},
		"repeated, auto": {tool: "put", lose: 2, resume: parley.ResumeAuto},
		"asked":          {tool: "mail", lose: 1, unsure: 3, resume: parley.ResumeManual},
		"asked, auto":    {tool: "mail", lose: 1, unsure: 3, resume: parley.ResumeAuto},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enginetest.CrashEverywhere(t, enginetest.Scenario{
				App:    enginetest.App(func(a *parley.App) { a.Resume, a.Policy.Unattended = tc.resume, true }),
				Sparse: 3, Model: always(mailer(tc.tool)), Messages: []string{"go"},
				World: func() enginetest.World {
					return &lossy{t: t, lose: tc.lose, unsure: tc.unsure, made: map[parley.CallID]int{}, done: map[string]int{}}
				},
			})
		})
	}
}
