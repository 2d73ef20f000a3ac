package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/pattern"
)

// seedNames maps field names of the engine to the seed's.
var seedNames = map[string]string{
	"budgets.max_steps":           "budgets.maxSteps",
	"budgets.max_tool_calls":      "budgets.maxToolCalls",
	"budgets.max_duration_ms":     "budgets.maxDurationMs",
	"budgets.max_tokens_per_turn": "budgets.maxTokensPerTurn",
	"budgets.max_usd":             "budgets.maxUsd",
	"policy.allow_actuation":      "policy.allowActuation",
	"policy.allowlisted_services": "policy.allowlistedServices",
	"policy.fixed_model":          "policy.enforceFixedModel",
	"Idempotency-Key":             "idempotency_key",
}

// toolError is a refusal as a tool's caller sees it: the one error shape, as text, so
// that a program can parse it and a model can correct its call.
type toolError struct {
	info parley.ErrorInfo
	err  error // the cause, for logs; or nil
}

// Unwrap returns the cause.
func (e *toolError) Unwrap() error { return e.err }

func (e *toolError) Error() string {
	b, _ := json.Marshal(struct { // plain data
		Error parley.ErrorInfo `json:"error"`
	}{e.info})
	return string(b)
}

// refusal turns an error of the engine into one of a tool, in the seed's names.
// rename adds names of the tool's own.
func refusal(err error, rename ...string) *toolError {
	if e, ok := err.(*toolError); ok {
		return e
	}
	info := parley.Info(err)
	named := func(from, to string) {
		if info.Field == from {
			info.Field = to
		}
		info.Message = strings.ReplaceAll(info.Message, from, to)
		info.Hint = strings.ReplaceAll(info.Hint, from, to)
	}
	for i := 0; i+1 < len(rename); i += 2 {
		named(rename[i], rename[i+1])
	}
	for from, to := range seedNames {
		named(from, to)
	}
	return &toolError{info, err}
}

// sampling turns the engine's error about model settings into the seed's names.
func sampling(err error) error {
	if err == nil {
		return nil
	}
	return refusal(err, "temperature", "model.temperature", "max_output", "model.maxTokens")
}

// clean removes secrets from refusals, which may quote their input. Other results come
// from the log, which has none.
func (a *App) clean(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if s := req.GetSession(); s != nil {
			var done func()
			ctx, done = a.http.during(ctx, s.ID(), method, req.GetExtra())
			defer done()
		}
		res, err := next(ctx, method, req)
		if ctx.Err() != nil {
			return nil, &jsonrpc.Error{Code: codeCancelled, Message: "the request was cancelled"} // which the transport drops
		}
		if err != nil {
			if text, found := a.o.Reader.RedactText(err.Error()); found {
				code := int64(jsonrpc.CodeInternalError)
				if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
					code = wire.Code
				}
				err = &jsonrpc.Error{Code: code, Message: text}
			}
		}
		if call, ok := res.(*mcp.CallToolResult); ok && call != nil && call.IsError {
			for _, c := range call.Content {
				if text, ok := c.(*mcp.TextContent); ok {
					text.Text = oneShape(text.Text)
					text.Text, _ = a.o.Reader.RedactText(text.Text)
				}
			}
		}
		return res, err
	}
}

var (
	unfit   = pattern.New(`(?s)^validating "arguments": (?:validating root: )?(.*)$`)
	place   = pattern.New(`^(?:validating ((?:/properties/[^/:\s]+)+): )+`)
	missing = pattern.New(`^(?:required: missing|unexpected additional) properties:? \["([^"]+)"`)
)

// oneShape rewords the SDK's error about arguments that do not fit a tool's schema, in
// the shape of the others.
func oneShape(said string) string {
	m := unfit.FindStringSubmatch(said)
	if m == nil {
		return said
	}
	why, field := m[1], ""
	if at := place.FindStringSubmatch(why); at != nil {
		why = why[len(at[0]):]
		field = strings.ReplaceAll(strings.TrimPrefix(at[1], "/properties/"), "/properties/", ".")
	}
	if m := missing.FindStringSubmatch(why); m != nil {
		field = strings.TrimPrefix(field+"."+m[1], ".")
	}
	if strings.HasPrefix(why, "unmarshaling arguments: ") {
		why = "they are not an object"
	}
	message := "the arguments do not fit: " + why
	if field != "" {
		message = field + " does not fit: " + why
	}
	return (&toolError{info: parley.ErrorInfo{Code: parley.CodeInvalid, Message: message, Hint: "tools/list has the schema", Field: field}}).Error()
}

// failed is a tool's result that is an error.
func failed(err error) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}
}
