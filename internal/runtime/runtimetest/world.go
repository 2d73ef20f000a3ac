package runtimetest

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// World is what the tools did. It is outside the log and survives a crash.
type World struct {
	Tools map[string]WorldTool
	// Choice is what a human answers to a question about a tool.
	Choice func(parley.Interaction) parley.Answer

	mu  sync.Mutex
	ran map[parley.CallID]int
}

// WorldTool is one tool of a World.
type WorldTool struct {
	Run       func(parley.ToolCall) parley.ToolResult // nil: ok, "done"
	Ask       bool                                    // a human must allow it
	Reconcile bool                                    // it can be asked for the outcome of a call
	Lost      bool                                    // the outcome of its first call is lost
}

// Ran counts how often a call took effect.
func (w *World) Ran(call parley.CallID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ran[call]
}

// sets returns the toolsets of the app's tools. effect is called when a call has taken effect.
func (w *World) sets(app *parley.App, effect func() error) (sets []seam.Toolset) {
	for i := range app.Tools {
		d := &app.Tools[i]
		if d.Run == parley.RunRuntime {
			continue
		}
		d.Description = "A tool."
		if d.InputSchema == nil {
			d.InputSchema = json.RawMessage(`{"type":"object"}`)
		}
		one := worldTool{w, *d, effect}
		if w.Tools[d.Name].Reconcile {
			sets = append(sets, reconciled{one})
			continue
		}
		sets = append(sets, one)
	}
	return sets
}

type worldTool struct {
	w      *World
	decl   parley.ToolDecl
	effect func() error
}

func (t worldTool) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{t.decl}, nil
}

// Run makes the call. If the tool is idempotent, a repeated key has no second effect.
func (t worldTool) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	w := t.w
	w.mu.Lock()
	if w.ran == nil {
		w.ran = map[parley.CallID]int{}
	}
	first := len(w.ran) == 0
	if t.decl.Effect != parley.EffectIdempotent || w.ran[r.Call] == 0 {
		w.ran[r.Call]++
	}
	w.mu.Unlock()
	res := t.answer(r)
	if w.Tools[r.Name].Lost && first {
		res = parley.ToolResult{Outcome: parley.OutcomeUnknown, Output: "timed out"}
	}
	return res, t.effect()
}

func (t worldTool) answer(r seam.Run) parley.ToolResult {
	if f := t.w.Tools[r.Name].Run; f != nil {
		return f(parley.ToolCall{Call: r.Call, Name: r.Name, Input: slices.Clone(r.Input)})
	}
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: "done"}
}

// reconciled is a tool that can be asked for the outcome of a call.
type reconciled struct{ worldTool }

func (t reconciled) Reconcile(_ context.Context, r seam.Run) (parley.ToolResult, bool, error) {
	if t.w.Ran(r.Call) == 0 {
		return parley.ToolResult{Outcome: parley.OutcomeError, Output: "it never arrived"}, true, nil
	}
	return t.answer(r), true, nil
}
