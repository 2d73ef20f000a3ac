package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
)

// _meta fields of a list of sessions. The tool's own arguments and result are specified
// elsewhere and have no room for them.
const (
	metaCursor = "parley/cursor" // of a call: next of the page before
	metaNext   = "parley/next"   // of a result: the cursor of the next page; absent on the last
)

// _meta fields of a direct call's result when the call waits for a human.
const (
	metaContinuation = "parley/continuation"
	metaWaiting      = "parley/waiting-for"
)

// _meta fields of a direct call.
const (
	metaSession = "parley/session"         // the session to call in; else a temporary one of its own
	metaKey     = "parley/idempotency-key" // the same key gives the same call
)

// appTools registers the tools that the app's agents have, except those that start sub-agents:
// only a turn with a runtime can do that.
func (a *App) appTools() {
	for _, d := range a.app.Tools {
		if d.Run == parley.RunRuntime {
			continue
		}
		t, err := declared(d)
		if err == nil {
			err = add(a.server, t, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return a.call(ctx, request{req, who(ctx)}, t.OutputSchema != nil)
			})
		}
		if err != nil {
			a.o.Logger.Warn("a tool is not offered over MCP", "app", a.app.Name, "tool", d.Name, "error", err)
		}
	}
}

// add is AddTool with an error instead of a panic: tool schemas come from outside, and a
// bad one must not crash the server.
func add(s *mcp.Server, t *mcp.Tool, h mcp.ToolHandler) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	s.AddTool(t, h)
	return nil
}

// declared is a tool as MCP describes it. Schemas pass through as they are.
func declared(d parley.ToolDecl) (*mcp.Tool, error) {
	t := &mcp.Tool{Name: d.Name, Description: d.Description, InputSchema: d.InputSchema}
	if len(d.InputSchema) == 0 {
		t.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	h := hints{open: true}
	switch d.Effect {
	case parley.EffectRead:
		h.reads, h.repeats = true, true
	case parley.EffectIdempotent:
		// Repeated with our key it has no further effect; but two calls of a host are two
		// calls.
		h.destroys = true
	default:
		h.destroys = true
	}
	t.Annotations = h.annotations("")
	if len(d.OutputSchema) > 0 {
		var schema struct {
			Type any `json:"type"`
		}
		if err := json.Unmarshal(d.OutputSchema, &schema); err != nil {
			return nil, err
		}
		if schema.Type == "object" { // the older era knows no other
			t.OutputSchema = d.OutputSchema
		}
	}
	return t, nil
}

// call makes a direct call and waits for its result.
func (a *App) call(ctx context.Context, r request, withData bool) (*mcp.CallToolResult, error) {
	id, going, err := a.goingOn(r)
	if err != nil {
		return nil, err // of the protocol
	}
	fail := func(err error) (*mcp.CallToolResult, error) {
		err = a.logged(ctx, r.Params.Name, err)
		if _, wire := err.(*jsonrpc.Error); wire {
			return nil, err
		}
		return failed(err), nil
	}
	over := time.Now().Add(a.o.AskWithin)
	if !going {
		session, _ := r.Params.GetMeta()[metaSession].(string)
		if session != "" {
			if _, err := a.session(ctx, r, session); err != nil {
				return fail(err)
			}
		}
		key, _ := r.Params.GetMeta()[metaKey].(string)
		if string(r.Params.Arguments) == "null" {
			r.Params.Arguments = nil // some hosts say it so
		}
		given, err := r.credentials()
		if err != nil {
			return fail(err)
		}
		var space parley.Workspace
		if session == "" {
			if space, err = a.space(r); err != nil {
				return fail(err)
			}
		}
		t, err := a.o.Engine.CallTool(ctx, r.who, parley.CallTool{
			Credentials: given, Workspace: space,
			App: a.app.Name, Session: parley.SessionID(session), Name: r.Params.Name, Input: r.Params.Arguments, Key: key, Client: ClientName,
		})
		if err != nil && t.ID != "" {
			if err = a.begun(ctx, r.who, t, over); err != nil {
				a.giveUp(ctx, r.who, t)
			}
		}
		if err != nil {
			return fail(err)
		}
		id = t.ID
	}
	t, ask, err := a.wait(ctx, r, id, &over)
	switch {
	case err != nil:
		a.giveUp(ctx, r.who, parley.TurnInfo{ID: id})
		return fail(a.outOfSight(id, err))
	case ask != nil:
		return ask, nil
	case t.Status == parley.StatusWaiting:
		return a.callWaits(ctx, r, t, over)
	case t.Over() && t.Status != parley.StatusCompleted && t.Status != parley.StatusFailed:
		return fail(a.unanswered(t))
	case !t.Over():
		return fail(parley.Errorf(parley.CodeTimeout, "the call takes longer than %s", a.o.AskWithin).
			WithHint("it goes on; %s with continuation %s waits for its end", a.name("await_continuation"), t.ID))
	}
	var res parley.ToolResult
	err = a.lasting(ctx, over, func() (err error) {
		res, err = a.o.Engine.CallResult(ctx, r.who, id)
		return err
	})
	if err != nil {
		return fail(a.outOfSight(id, err))
	}
	return result(res, withData), nil
}

// callWaits is the result of a call that waits for a human whom the host cannot ask. It
// is an error, because it does not fit the schema of the tool's output; what is asked is
// in _meta, for programs.
func (a *App) callWaits(ctx context.Context, r request, t parley.TurnInfo, over time.Time) (*mcp.CallToolResult, error) {
	var list []Waiting
	err := a.lasting(ctx, over, func() (err error) {
		list, err = a.waitingFor(ctx, r.who, t)
		return err
	})
	switch {
	case err != nil:
		return failed(a.logged(ctx, r.Params.Name, a.outOfSight(t.ID, err))), nil
	case len(list) == 0:
		return failed(a.unanswered(t)), nil
	}
	res := failed(&toolError{info: parley.ErrorInfo{Code: parley.Code(t.Status), Message: a.waitsFor(ctx, r.who, t), Hint: a.howToGoOn(list)}})
	res.Meta = mcp.Meta{metaContinuation: string(t.ID), metaWaiting: list}
	return res, nil
}

// result is the outcome of a call. A failure is an error in the one shape; what the tool has said besides follows
// as another text. Its data need not fit the schema of a success.
func result(res parley.ToolResult, withData bool) *mcp.CallToolResult {
	out := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: res.Output}}}
	if res.Outcome != parley.OutcomeOK {
		info := failure(res)
		out = failed(&toolError{info: info})
		if saysMore(res.Output, info) {
			out.Content = append(out.Content, &mcp.TextContent{Text: res.Output})
		}
	}
	if withData && !out.IsError && len(res.Data) > 0 {
		out.StructuredContent = res.Data
	}
	if res.Artifact != nil {
		out.Content = append(out.Content, link(*res.Artifact))
	}
	return out
}

// failure is the error of a result that is not OK.
func failure(res parley.ToolResult) parley.ErrorInfo {
	info := parley.ErrorInfo{}
	if res.Error != nil {
		info = *res.Error
	}
	if info.Code == "" {
		info.Code = parley.CodeTool
		switch res.Outcome {
		case parley.OutcomeDenied:
			info.Code = parley.CodeForbidden
		case parley.OutcomeCancelled:
			info.Code = parley.CodeCancelled
		}
	}
	if info.Message == "" {
		first, _, _ := strings.Cut(strings.TrimSpace(res.Output), "\n")
		info.Message = cmp.Or(parley.Cut(first, 500), "the call failed")
	}
	return info
}

// saysMore reports whether an output has more than the message and the hint of its error.
func saysMore(output string, info parley.ErrorInfo) bool {
	rest := strings.TrimSpace(output)
	for _, known := range []string{info.Message, info.Hint} {
		rest = strings.TrimLeft(strings.TrimPrefix(rest, known), "; .\n")
	}
	return rest != ""
}

// link points a host to an artifact, which it reads as a resource.
func link(a parley.ArtifactRef) *mcp.ResourceLink {
	size := a.Size
	return &mcp.ResourceLink{URI: artifactURI + string(a.ID), Name: a.Name, MIMEType: a.MediaType, Size: &size}
}
