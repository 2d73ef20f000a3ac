//go:build unix

package mcp

import (
	"context"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Sampling is deprecated from protocol version 2026-07-28 on, as roots are, and works for at least
// a year from then. A server says what the model is to reply to, and gets the text. It does not
// choose the model, nor what else the model sees: includeContext, temperature, stopSequences and
// metadata are ignored, as the protocol permits, and its model hints choose only among the app's
// models. Pictures, sound and tools are refused.
//
//lint:file-ignore SA1019 see above

// maxReplies is how many replies of the model a call may ask for.
const maxReplies = 10

// askedForReply is the request of a server in both eras.
type askedForReply = sdk.CreateMessageWithToolsParams

// offerSampling tells a server that it may ask for replies of the model, if that is allowed.
func (o Options) offerSampling(can *sdk.ClientCapabilities) {
	if o.Sampling {
		can.Sampling = &sdk.SamplingCapabilities{}
	}
}

// sampled answers a request of the older era.
func (l *link) sampled(ctx context.Context, q sdk.Request) (sdk.Result, error) {
	p, ok := q.GetParams().(*askedForReply)
	if !ok {
		return nil, errors.New("the parameters are not those of a request for a reply")
	}
	who, err := l.whose()
	if err != nil {
		return nil, err
	}
	ctx, done := who.within(ctx)
	defer done()
	res, err := who.sample(ctx, p)
	if e, ok := errors.AsType[*noReplyError](err); ok {
		return nil, e.wire()
	}
	return res, err
}

// sample asks the model for a reply for a server. Its errors are either a *noReplyError or about
// the call.
func (a *asker) sample(ctx context.Context, p *askedForReply) (*sdk.CreateMessageResult, error) {
	key, err := a.key("model-", &a.model, maxReplies, p.SystemPrompt, p.Messages, p.MaxTokens)
	if err != nil {
		return nil, refusedReply("%w for replies of the model", err)
	}
	q, err := a.o.sampling(key, p)
	switch {
	case err != nil:
		return nil, err
	case a.r.Sample == nil:
		return nil, &noReplyError{parley.Errorf(parley.CodeForbidden, "there is no model here")}
	}
	got, err := a.r.Sample(ctx, q)
	a.parks(err)
	switch {
	case err == nil:
	case errors.Is(err, seam.ErrParked), ctx.Err() != nil:
		return nil, err
	default:
		return nil, &noReplyError{err}
	}
	return &sdk.CreateMessageResult{Role: "assistant", Model: got.Model, Content: &sdk.TextContent{Text: got.Text}, StopReason: stopReason(got.StopReason)}, nil
}

// sampling translates the request of a server.
func (o Options) sampling(key string, p *askedForReply) (parley.Sampling, error) {
	q := parley.Sampling{Key: key, Server: o.Name, System: p.SystemPrompt, MaxTokens: p.MaxTokens}
	if len(p.Tools) > 0 || p.ToolChoice != nil {
		return q, refusedReply("tools are not supported in sampling; leave out tools and toolChoice")
	}
	for _, m := range p.Messages {
		if m == nil {
			return q, refusedReply("a message is empty")
		}
		msg := parley.Message{Role: parley.Role(m.Role)}
		for _, c := range m.Content {
			text, ok := c.(*sdk.TextContent)
			if !ok {
				return q, refusedReply("only text is supported in sampling, and a message has other content")
			}
			msg.Parts = append(msg.Parts, parley.Part{Type: parley.PartText, Text: text.Text})
		}
		q.Messages = append(q.Messages, msg)
	}
	if p.ModelPreferences != nil {
		for _, h := range p.ModelPreferences.Hints {
			if h != nil && h.Name != "" {
				q.Hints = append(q.Hints, h.Name)
			}
		}
	}
	return q, nil
}

// stopReason is the protocol's word for why a reply ended.
func stopReason(reason string) string {
	switch reason {
	case "end_turn", "tool_use":
		return "endTurn"
	case "max_tokens":
		return "maxTokens"
	}
	return reason
}

// noReplyError says why a server gets no reply of the model.
type noReplyError struct{ err error }

func (e *noReplyError) Error() string { return e.err.Error() }
func (e *noReplyError) Unwrap() error { return e.err }

func refusedReply(format string, args ...any) error {
	return &noReplyError{parley.Errorf(parley.CodeInvalid, format, args...)}
}

// The protocol's code for a request that the user rejected, and JSON-RPC's for an internal error.
const (
	codeUnwanted = -1
	codeInternal = -32603
)

// wire returns the error that a server of the older era gets. It does not contain what the person
// said when declining, what is left of a budget, or the provider's message.
func (e *noReplyError) wire() error {
	switch parley.CodeOf(e.err) {
	case parley.CodeForbidden:
		return &jsonrpc.Error{Code: codeUnwanted, Message: "the user rejected the sampling request, or it is not allowed"}
	case parley.CodeInvalid, parley.CodeTooLarge:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: parley.Info(e.err).Message}
	}
	return &jsonrpc.Error{Code: codeInternal, Message: "the model did not reply"}
}

// noReply is the result of a call of the newer era in which the server got no reply. The protocol
// has no way to tell the server, which is not waiting, so the call ends here.
func (t *Toolset) noReply(r seam.Run, e *noReplyError) parley.ToolResult {
	info := parley.Info(e.err)
	info.Message = parley.Cut(fmt.Sprintf("the MCP server %s asked for a reply of the model to go on, and got none: %s. The call ended there, and the server did not say what it had done until then.",
		t.o.Name, t.o.clean(info.Message, maxShown)), maxShown)
	return parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeError, Output: info.Message, Error: &info}
}
