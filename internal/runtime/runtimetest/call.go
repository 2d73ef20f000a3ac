package runtimetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// World is what lies outside of the log and survives a crash: what the tools
// did.
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
	Ask       bool                                    // a human has to allow it
	Reconcile bool                                    // it can tell what became of a call
}

// Ran counts how often a call took effect.
func (w *World) Ran(call parley.CallID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ran[call]
}

// run does the call. A key that was seen before has no effect again where the
// tool is idempotent.
func (w *World) run(c parley.ToolCall, effect parley.Effect) parley.ToolResult {
	w.mu.Lock()
	if w.ran == nil {
		w.ran = map[parley.CallID]int{}
	}
	if effect != parley.EffectIdempotent || w.ran[c.Call] == 0 {
		w.ran[c.Call]++
	}
	w.mu.Unlock()
	return w.answer(c)
}

func (w *World) answer(c parley.ToolCall) parley.ToolResult {
	res := parley.ToolResult{Outcome: parley.OutcomeOK, Output: "done"}
	if f := w.Tools[c.Name].Run; f != nil {
		res = f(c)
	}
	res.Call = c.Call
	return res
}

// Begin implements [seam.Host].
func (h *Host) Begin(ctx context.Context, c parley.ToolCall) (seam.Decision, error) {
	if err := ctx.Err(); err != nil {
		return seam.Decision{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return seam.Decision{}, ErrCrashed
	}
	tool := h.state.Turn.Tool(c.Call)
	if tool == nil || tool.Status == parley.ToolIsEnded {
		return seam.Decision{}, parley.Errorf(parley.CodeConflict, "call %s was not requested, or has ended", c.Call)
	}
	decl, ok := h.decl(tool)
	if !ok {
		return h.refuse(c, parley.OutcomeError, "there is no tool "+c.Name)
	}
	old := h.now().Sub(tool.StartedAt) > time.Duration(decl.KeyTTL)
	if tool.Status == parley.ToolIsStarted && (decl.Effect == parley.EffectWrite || decl.Effect == parley.EffectIdempotent && old) {
		h.tb.Errorf("the write %s %s was begun twice", c.Name, c.Call)
	}
	if h.world.Tools[c.Name].Ask && !tool.Granted {
		if tool.Answer != nil {
			return h.refuse(c, parley.OutcomeDenied, "a person said no")
		}
		if tool.Asked == "" {
			h.open(parley.Interaction{Kind: parley.KindPermission, Call: c.Call, Tool: c.Name, Input: c.Input, Agent: c.Agent})
			if err := h.commit(); err != nil {
				return seam.Decision{}, err
			}
		}
		return seam.Decision{}, seam.ErrParked
	}
	d := seam.Decision{
		Run: true, Call: c, Effect: decl.Effect, Deadline: h.now().Add(time.Minute), Attempt: tool.Attempt + 1,
	}
	if tool.Answer != nil && tool.Answer.Input != nil {
		d.Call.Input = tool.Answer.Input
	}
	h.stage(parley.NewEvent(h.turn, c.Agent, parley.ToolStarted{
		Call: c.Call, Name: c.Name, Input: d.Call.Input, Effect: d.Effect, Grant: tool.Asked, Deadline: d.Deadline, Attempt: d.Attempt, Run: decl.Run,
	}))
	return d, h.commit()
}

// decl finds the tool among those that the call's agent has.
func (h *Host) decl(c *parley.Tool) (parley.ToolDecl, bool) {
	t := h.state.Turn
	if a := t.Agent(c.Agent); a != nil && !slices.Contains(h.app.Agents[a.Name].Tools, c.Name) {
		return parley.ToolDecl{}, false
	}
	for _, d := range h.app.Tools {
		if d.Name == c.Name {
			return d, true
		}
	}
	return parley.ToolDecl{}, false
}

func (h *Host) refuse(c parley.ToolCall, o parley.Outcome, why string) (seam.Decision, error) {
	res := parley.ToolResult{Call: c.Call, Outcome: o, Error: &parley.ErrorInfo{Code: parley.CodeTool, Message: why}}
	h.stage(parley.NewEvent(h.turn, c.Agent, parley.ToolEnded{ToolResult: res, Name: c.Name}))
	return seam.Decision{Call: c, Result: res}, h.commit()
}

// End implements [seam.Host].
func (h *Host) End(_ context.Context, r parley.ToolResult) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return ErrCrashed
	}
	tool := h.state.Turn.Tool(r.Call)
	if tool == nil || tool.Status != parley.ToolIsStarted {
		return parley.Errorf(parley.CodeConflict, "call %s was not started", r.Call)
	}
	h.stage(parley.NewEvent(h.turn, tool.Agent, parley.ToolEnded{ToolResult: r, Name: tool.Name, Effect: tool.Effect}))
	return h.commit()
}

// Call implements [seam.Host].
func (h *Host) Call(ctx context.Context, c parley.ToolCall) (parley.ToolResult, error) {
	d, err := h.Begin(ctx, c)
	if err != nil || !d.Run {
		return d.Result, err
	}
	res := h.world.run(d.Call, d.Effect)
	return res, h.End(ctx, res)
}

// Settle implements [seam.Host].
func (h *Host) Settle(_ context.Context, call parley.CallID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return ErrCrashed
	}
	tool := h.state.Turn.Tool(call)
	if tool == nil || tool.Status != parley.ToolIsStarted {
		return parley.Errorf(parley.CodeConflict, "call %s was not started, or has an outcome", call)
	}
	res := parley.ToolResult{
		Call: call, Outcome: parley.OutcomeUnknown,
		Error: &parley.ErrorInfo{Code: parley.CodeTool, Message: "the server stopped while it ran"},
	}
	if h.world.Tools[tool.Name].Reconcile {
		if h.world.Ran(call) > 0 {
			res = h.world.answer(parley.ToolCall{Call: call, Name: tool.Name, Input: tool.Input})
		} else {
			res.Outcome = parley.OutcomeError
		}
	}
	h.stage(parley.NewEvent(h.turn, tool.Agent, parley.ToolEnded{ToolResult: res, Name: tool.Name, Effect: tool.Effect}))
	return h.commit()
}

// Ask implements [seam.Host].
func (h *Host) Ask(ctx context.Context, in parley.Interaction) (parley.Answer, error) {
	if err := ctx.Err(); err != nil {
		return parley.Answer{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return parley.Answer{}, ErrCrashed
	}
	if in.Title == "" || len(in.Choices) == 0 {
		h.tb.Errorf("the question %+v says nothing to a person", in)
	}
	tool := h.state.Turn.Tool(in.Call)
	switch {
	case tool == nil || in.Kind != parley.KindUnknown:
		return parley.Answer{}, parley.Errorf(parley.CodeInvalid, "asked %s about call %q", in.Kind, in.Call)
	case tool.Resolution != "":
		return parley.Answer{Choice: tool.Resolution}, nil
	case tool.AskedWhat == "":
		h.open(in)
		if err := h.commit(); err != nil {
			return parley.Answer{}, err
		}
	}
	return parley.Answer{}, seam.ErrParked
}

func (h *Host) open(in parley.Interaction) {
	in.ID = parley.InteractionID(fmt.Sprintf("ask-%d", h.state.Seq+1))
	in.Session, in.Turn, in.OpenedAt = h.state.ID, h.turn, h.now()
	h.stage(parley.NewEvent(h.turn, in.Agent, parley.InteractionOpened{Interaction: in}))
}

// Answer does what the engine does when a human answers: it appends the answer,
// and for a write that is to be done again the new call.
func (h *Host) Answer(in parley.Interaction, a parley.Answer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stage(parley.NewEvent(h.turn, in.Agent, parley.InteractionAnswered{ID: in.ID, Answer: a}))
	if c := h.state.Turn.Tool(in.Call); in.Kind == parley.KindUnknown && a.Choice == parley.ChoiceAgain && c != nil {
		h.stage(parley.NewEvent(h.turn, c.Agent, parley.ToolRequested{Call: c.Call + "-again", Name: c.Name, Input: c.Input, Redo: c.Call}))
	}
	h.signal()
	return h.commit()
}
