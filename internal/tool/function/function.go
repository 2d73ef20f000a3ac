// Package function is a toolset of Go functions. Package tool is its public API.
package function

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Tool is a typed function, made by [New].
type Tool interface {
	// Decl returns the tool's declaration, or the mistake with which it was made.
	Decl() (parley.ToolDecl, error)
	// run makes a call. reconcile finds out a call's outcome, see [seam.Reconciler].
	run(ctx context.Context, input json.RawMessage) (Output, error)
	reconcile(ctx context.Context, input json.RawMessage) (out Output, happened bool, err error)
	reconciles() bool
	// inside reports whether all that a call does is over when its process has ended.
	inside() bool
}

// Toolset implements [seam.Toolset]. It is safe for concurrent use if its functions are.
type Toolset struct {
	tools map[string]Tool
	decls []parley.ToolDecl
}

// Reconciled is a Toolset some of whose tools can find out the outcome of a call.
type Reconciled struct{ *Toolset }

// Make makes a toolset. It returns the mistakes with which tools were made.
func Make(tools []Tool) (seam.Toolset, error) {
	t := &Toolset{tools: map[string]Tool{}}
	var errs []error
	asked := false
	for _, tool := range tools {
		if tool == nil {
			errs = append(errs, parley.Errorf(parley.CodeInvalid, "one of the tools is nil"))
			continue
		}
		d, err := tool.Decl()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t.tools[d.Name] = tool
		t.decls = append(t.decls, d)
		asked = asked || tool.reconciles()
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if asked {
		return Reconciled{t}, nil
	}
	return t, nil
}

// Tools implements [seam.Toolset].
func (t *Toolset) Tools(context.Context) ([]parley.ToolDecl, error) { return t.decls, nil }

// Run implements [seam.Toolset].
func (t *Toolset) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	defer running.begin(r.Call)()
	out, err := t.tools[r.Name].run(With(ctx, r), r.Input)
	if err != nil {
		return parley.ToolResult{}, err
	}
	return out.result(r), nil
}

// Over implements [seam.Local].
func (t *Toolset) Over(tool string, call parley.CallID) bool {
	f := t.tools[tool]
	return f != nil && f.inside() && !running.has(call)
}

// running holds the calls that run in this process, of all toolsets: a closed toolset may have
// left behind calls that ignore their context.
var running = underWay{calls: map[parley.CallID]int{}}

// underWay counts the running attempts of each call.
type underWay struct {
	mu    sync.Mutex
	calls map[parley.CallID]int
}

func (u *underWay) begin(call parley.CallID) (end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls[call]++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.calls[call]--; u.calls[call] == 0 {
			delete(u.calls, call)
		}
	}
}

func (u *underWay) has(call parley.CallID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.calls[call] > 0
}

// Reconciles implements [seam.Choosy].
func (t Reconciled) Reconciles(tool string) bool {
	f, ok := t.tools[tool]
	return ok && f.reconciles()
}

// Reconcile implements [seam.Reconciler].
func (t Reconciled) Reconcile(ctx context.Context, r seam.Run) (res parley.ToolResult, known bool, err error) {
	tool := t.tools[r.Name]
	if !tool.reconciles() {
		return res, false, nil
	}
	out, happened, err := tool.reconcile(With(ctx, r), r.Input)
	switch {
	case err != nil:
		return res, false, err
	case !happened:
		return parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeError, Output: didNot.Message + "\n" + didNot.Hint, Error: &didNot}, true, nil
	}
	return out.result(r), true, nil
}

var didNot = parley.ErrorInfo{Code: parley.CodeTool, Message: "it did not happen", Hint: "it can be called again"}

type key struct{}

// With returns a context that belongs to a call.
func With(ctx context.Context, r seam.Run) context.Context { return context.WithValue(ctx, key{}, &r) }

// Call returns the call that a function's context belongs to, or nil.
func Call(ctx context.Context) *seam.Run {
	r, _ := ctx.Value(key{}).(*seam.Run)
	return r
}
