package claudecli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// serve answers a request of the CLI.
func (p *process) serve(ctx context.Context, c control) (any, error) {
	switch c.Subtype {
	case "hook_callback":
		if slices.Contains(moments, c.Input.Event) {
			return p.heed(ctx, c)
		}
		if c.Input.Event != "PreToolUse" {
			return map[string]any{}, nil
		}
		t, err := p.await(ctx, nil)
		if err != nil {
			return decision(false, "Nobody can allow this call now.", nil), nil //nolint:nilerr // an error would say less
		}
		v, err := t.gate(ctx, c)
		if err != nil {
			t.withhold(ctx)
		}
		return v, err
	case "can_use_tool":
		t, err := p.await(ctx, func(t *turn) { t.making.Add(1) })
		if err != nil {
			return nil, err
		}
		v, err := t.permit(ctx, c)
		t.making.Done()
		if err != nil {
			t.withhold(ctx)
		}
		return v, err
	case "mcp_message":
		return p.mcp(ctx, c.Server, c.Message)
	}
	return nil, fmt.Errorf("unsupported request %s", c.Subtype)
}

// withhold waits, if the attempt ends together with the process, until the CLI has withdrawn the request
// or is gone: whatever it were told would become the result of the call in its conversation.
func (t *turn) withhold(ctx context.Context) {
	if t.ctx.Err() == nil {
		return
	}
	select {
	case <-t.done:
		if !t.stays {
			<-ctx.Done()
		}
	case <-ctx.Done():
	}
}

// within returns a context that ends with ctx or the attempt, whichever is first.
func (t *turn) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}

// gate decides about a call of the CLI's model. Before it allows one, its start is committed.
func (t *turn) gate(ctx context.Context, c control) (any, error) {
	ctx, cancel := t.within(ctx)
	defer cancel()
	t.flush(ctx)
	u, err := t.use(ctx, c.Input.ToolUseID)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return decision(false, parley.Info(err).Message, nil), nil
	}
	switch t.whose(c.Input.Tool, u) {
	case ours:
		return decision(true, "", nil), nil // it is journaled when it is made
	case unknown:
		why := "There is no tool " + parley.Cut(c.Input.Tool, 100) + " here. The call was not made."
		t.finish(ctx, u, parley.ToolResult{Call: u.call, Outcome: parley.OutcomeDenied, Output: why})
		return decision(false, why, nil), nil
	}
	if why := t.elsewhere(c.Input.Tool, c.Input.ToolInput); why != "" {
		t.finish(ctx, u, parley.ToolResult{Call: u.call, Outcome: parley.OutcomeDenied, Output: why})
		return decision(false, why, nil), nil
	}
	if why := t.tooMany(u.call); why != "" {
		return decision(false, why, nil), nil
	}
	d, err := t.begin(ctx, u.call)
	if err != nil {
		return nil, t.undecided(ctx, err) // the hook blocks on failure
	}
	if !d.Run {
		u.mu.Lock()
		u.ended = true
		u.mu.Unlock()
		return t.recorded(u, d), nil
	}
	// A person or a hook may have edited the input.
	if why := t.elsewhere(c.Input.Tool, d.Call.Input); why != "" {
		t.finish(ctx, u, parley.ToolResult{Call: u.call, Outcome: parley.OutcomeError, Output: why})
		return decision(false, why, nil), nil
	}
	if why := t.witness(ctx, u, d.Call); why != "" {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx) // the CLI has ended meanwhile, which is settled like any call that was cut off
		}
		t.finish(ctx, u, parley.ToolResult{Call: u.call, Outcome: parley.OutcomeError, Output: why})
		return decision(false, why, nil), nil
	}
	t.begun(u, d)
	if sameJSON(d.Call.Input, c.Input.ToolInput) {
		return decision(true, "", nil), nil
	}
	// What was approved is what runs, whoever has changed it in between: a person, a hook, or the CLI.
	return decision(true, "", d.Call.Input), nil
}

// owner says whose tool the CLI's model calls.
type owner int

const (
	unknown owner = iota // a tool that the app does not have, whatever the CLI may think
	theirs               // one of the CLI's
	ours                 // the call is made by us: of a server in this process, or one that asks a human
)

// whose says whose tool a call is for. u is the call in the model's reply, with the name that policy sees.
func (t *turn) whose(tool string, u *use) owner {
	server, _, mcp := splitMCP(tool)
	switch {
	case logged(tool) != u.name:
		return unknown
	case mcp && slices.Contains(t.p.spec.servers, server), !mcp && slices.Contains(asking, tool) && slices.Contains(t.p.spec.tools, tool):
		return ours
	case !mcp && nativeIn(t.app, u.name) != nil:
		return theirs
	}
	return unknown
}

// begin begins a call, and waits for a human if one has to be asked.
func (t *turn) begin(ctx context.Context, call parley.CallID) (seam.Decision, error) {
	for {
		d, err := t.h.Begin(ctx, parley.ToolCall{Call: call})
		if !errors.Is(err, seam.ErrParked) {
			return d, err
		}
		if err := t.h.Wait(ctx, call); err != nil {
			return d, err
		}
	}
}

// recorded answers for a call that is not to be run. What was made earlier in the turn, before it was
// interrupted, is told to the model: the CLI goes through the turn again.
func (t *turn) recorded(u *use, d seam.Decision) any {
	n := nativeIn(t.app, u.name)
	r := d.Result
	c := (*parley.Tool)(nil)
	if now := t.h.State().Turn; now != nil {
		c = now.Tool(u.call)
	}
	switch {
	case c == nil || c.StartedAt.IsZero():
		return decision(false, r.Output, nil) // it was refused
	case n.effect == parley.EffectRead && n.name != "Task" && r.Outcome == parley.OutcomeOK:
		return decision(true, "", nil) // the CLI has to see for itself, for example which version of a file the model knows
	}
	text := r.Output
	switch {
	case r.Outcome == parley.OutcomeUnknown:
		text = unknownText(c)
	case r.Outcome != parley.OutcomeOK:
		text = "It failed: " + text
	}
	if t.gone[u.call] {
		text += "\n" + agentLost
	}
	return decision(false, "[This call was made before the turn was interrupted, and is not made again.]\n"+text, nil)
}

// unknownText tells the model about a call whose outcome is not known, and what a person has said of it.
func unknownText(c *parley.Tool) string {
	switch c.Resolution {
	case parley.ChoiceHappened:
		return "A person has confirmed that it took effect."
	case parley.ChoiceDidNot:
		return "A person has confirmed that it did not take effect."
	}
	return "It is not known whether this call took effect."
}

// witness announces that a call changes a file of the workspace, and has its content kept. It says why
// the call cannot be made.
func (t *turn) witness(ctx context.Context, u *use, c parley.ToolCall) string {
	n := nativeIn(t.app, u.name)
	if !n.edits || t.rt.opt.Witness == nil {
		return ""
	}
	path, ok := t.relative(n, c.Input)
	if !ok {
		return ""
	}
	err := t.h.Emit(ctx, t.event(u.agent, parley.FilesAnnounced{Call: u.call, Paths: []string{path}}))
	if err == nil {
		var body []byte
		var in struct {
			Content *string `json:"content"`
		}
		if u.name == "Write" && json.Unmarshal(c.Input, &in) == nil && in.Content != nil {
			body = []byte(*in.Content)
		}
		err = t.rt.opt.Witness.Before(ctx, t.p.spec.session, t.h.Turn(), u.call, t.p.spec.dir, path, body)
	}
	if err != nil {
		return "The call was not made: " + parley.Info(err).Message
	}
	return ""
}

// relative is the path in the workspace of the file that an input names.
func (t *turn) relative(n *native, input json.RawMessage) (string, bool) {
	var fields map[string]json.RawMessage
	var name string
	if json.Unmarshal(input, &fields) != nil || json.Unmarshal(fields[n.path], &name) != nil {
		return "", false
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(t.p.spec.dir, name)
	}
	rel, err := filepath.Rel(reached(t.p.spec.dir), reached(name))
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// begun notes that a call runs.
func (t *turn) begun(u *use, d seam.Decision) {
	u.mu.Lock()
	u.allowed = d.Call.Input
	u.mu.Unlock()
	if u.name == "Task" {
		t.startAgent(u, d.Call)
	}
	if d.Effect == parley.EffectRead || d.Deadline.IsZero() {
		return
	}
	late := time.AfterFunc(d.Deadline.Sub(t.h.Now()), func() {
		u.mu.Lock()
		ended := u.ended
		u.mu.Unlock()
		if !ended {
			t.fail(errGone)
		}
	})
	t.mu.Lock()
	t.late[d.Call.Call] = late
	t.mu.Unlock()
}

// tooMany refuses a call that exceeds the turn's budget of calls, and ends the turn.
func (t *turn) tooMany(call parley.CallID) string {
	now := t.h.State().Turn
	if now == nil || now.Request.Budgets.MaxToolCalls <= 0 {
		return ""
	}
	limit := now.Request.Budgets.MaxToolCalls
	for i, c := range now.Tools.All() {
		if c.Call == call && i >= limit {
			b := &parley.BudgetReached{Name: "tool_calls", Limit: float64(limit), Used: float64(limit)}
			t.exceeded(b, budgetError(b))
			t.halt()
			return "The turn has reached its budget of tool calls."
		}
	}
	return ""
}

// elsewhere says why a tool may not use the file that its input names: it is outside the session's
// workspace. The CLI's own files of the session, such as its plans and what its background commands
// have printed, may be read, and plans written.
func (t *turn) elsewhere(tool string, input json.RawMessage) string {
	n := nativeIn(t.app, logged(tool))
	if n == nil || n.path == "" {
		return ""
	}
	var fields map[string]json.RawMessage
	var name string
	if json.Unmarshal(input, &fields) != nil || json.Unmarshal(fields[n.path], &name) != nil {
		return "" // the CLI refuses it
	}
	if slices.Contains(strings.Split(filepath.ToSlash(name), "/"), "..") {
		return "Name the file without \"..\": rules are about its path. The call was not made."
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(t.p.spec.dir, name)
	}
	real := reached(name)
	if rest, err := filepath.Rel(t.p.spec.dir, filepath.Clean(name)); err == nil && filepath.IsLocal(rest) && real != filepath.Join(reached(t.p.spec.dir), rest) {
		return "This path leads through a link. Name the file that it leads to. The call was not made."
	}
	may := []string{reached(t.p.spec.dir)}
	if n.effect == parley.EffectRead {
		may = append(may, reached(filepath.Join(t.p.spec.home, "tmp")), reached(filepath.Join(t.p.spec.config(), "projects")))
	}
	may = append(may, reached(filepath.Join(t.p.spec.config(), "plans")))
	if slices.ContainsFunc(may, func(dir string) bool { return real == dir || strings.HasPrefix(real, dir+string(filepath.Separator)) }) {
		return ""
	}
	return "This file is outside the workspace. The call was not made."
}

// reached is the file that a name leads to, with links followed as far as it exists.
func reached(name string) string {
	name = filepath.Clean(name)
	rest := ""
	for dir := name; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return name
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// permit answers can_use_tool: a question or a plan is put to a human; everything else has been
// decided at the gate.
func (t *turn) permit(ctx context.Context, c control) (any, error) {
	ctx, cancel := t.within(ctx)
	defer cancel()
	deny := func(why string) any { return map[string]any{"behavior": "deny", "message": why} }
	u, err := t.use(ctx, c.ToolUseID)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return deny(parley.Info(err).Message), nil
	}
	whose := t.whose(c.Tool, u)
	if whose != ours || !slices.Contains(asking, c.Tool) {
		u.mu.Lock()
		defer u.mu.Unlock()
		switch {
		case whose == ours:
			return map[string]any{"behavior": "allow", "updatedInput": c.RawInput}, nil
		case whose == theirs && u.allowed != nil:
			return map[string]any{"behavior": "allow", "updatedInput": u.allowed}, nil
		}
		return deny("The call was not allowed."), nil
	}
	r, err := t.call(ctx, u.call)
	if err != nil {
		return nil, err
	}
	if r.Outcome != parley.OutcomeOK {
		return deny(r.Output), nil
	}
	if c.Tool == askTool {
		input := c.RawInput
		if len(r.Data) > 0 {
			input = r.Data
		}
		return map[string]any{"behavior": "allow", "updatedInput": input}, nil
	}
	s := t.h.State()
	mode := modeOf(t.app, s)
	t.p.mu.Lock()
	t.p.mode = mode
	t.p.mu.Unlock()
	return map[string]any{
		"behavior": "allow", "updatedInput": c.RawInput,
		"updatedPermissions": []any{map[string]string{"type": "setMode", "mode": mode, "destination": "session"}},
	}, nil
}

// call makes a call of a tool of ours, and waits for a human if one has to be asked.
func (t *turn) call(ctx context.Context, call parley.CallID) (parley.ToolResult, error) {
	ctx, cancel := t.within(ctx)
	defer cancel()
	for {
		r, err := t.h.Call(ctx, parley.ToolCall{Call: call}, nil)
		if errors.Is(err, seam.ErrParked) {
			if err = t.h.Wait(ctx, call); err == nil {
				continue
			}
		}
		if err != nil {
			err = t.undecided(ctx, err)
		}
		return r, err
	}
}

// undecided ends the attempt because nobody has decided about a call. It returns when that is done: an
// earlier answer to the CLI would become the result of a call that goes on later.
func (t *turn) undecided(ctx context.Context, err error) error {
	if ctx.Err() == nil && !t.stopped() {
		t.fail(err)
	}
	<-ctx.Done()
	return err
}

// result journals what a call returned, once. It may be told twice.
func (t *turn) result(b block) {
	u := t.calls.get(b.ToolUseID)
	if u == nil {
		return
	}
	r := parley.ToolResult{Call: u.call, Outcome: parley.OutcomeOK, Output: t.inside(text(b.Content))}
	if b.IsError {
		r.Outcome = parley.OutcomeError
	}
	t.finish(t.ctx, u, r)
}

// inside is a text of the CLI without the path of the workspace: people know its files by their paths
// in it.
func (t *turn) inside(text string) string {
	if dir := t.p.spec.dir; len(dir) > 1 {
		text = strings.ReplaceAll(text, dir+string(filepath.Separator), "")
	}
	return text
}

// finish ends a call of one of the CLI's tools.
func (t *turn) finish(ctx context.Context, u *use, r parley.ToolResult) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return
	}
	now := t.h.State().Turn
	if now == nil {
		return
	}
	c := now.Tool(u.call)
	if c == nil || c.Status == parley.ToolIsEnded {
		u.ended = true
		return
	}
	if nativeIn(t.app, u.name) == nil && c.Status != parley.ToolIsRequested {
		return // a call of ours ends by itself
	}
	u.ended = true
	t.mu.Lock()
	if late := t.late[u.call]; late != nil {
		late.Stop()
	}
	t.mu.Unlock()
	if t.ctx.Err() != nil && u.name == "Bash" && nativeIn(t.app, u.name) != nil && r.Outcome != parley.OutcomeOK && u.allowed != nil {
		r.Outcome = parley.OutcomeUnknown // it was cut off
	}
	if c.Status == parley.ToolIsRequested && r.Outcome == parley.OutcomeError && t.stopped() {
		r.Outcome, r.Output = parley.OutcomeCancelled, notMade+stoppedByUser+"."
	}
	if u.name == "Task" {
		t.endAgent(now, u, r)
	}
	ctx = context.WithoutCancel(ctx)
	if n := nativeIn(t.app, u.name); n != nil && n.edits && t.rt.opt.Witness != nil {
		s, changed, err := t.rt.opt.Witness.After(ctx, t.p.spec.session, u.call, t.p.spec.dir)
		if err != nil {
			t.p.log().Warn("what a call has changed could not be recorded", "call", u.call, "err", err)
		}
		if changed {
			r.Saved = []parley.FileSaved{s}
		}
	}
	err := t.h.End(ctx, r)
	if err == nil {
		err = t.h.Hear(ctx, u.call)
	}
	t.calls.told()
	if err != nil && parley.CodeOf(err) != parley.CodeConflict && t.ctx.Err() == nil {
		t.fail(err)
	}
}

func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	p, perr := json.Marshal(x)
	q, qerr := json.Marshal(y)
	return perr == nil && qerr == nil && bytes.Equal(p, q)
}
