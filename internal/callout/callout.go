// Package callout defines the message that describes a tool call to an operator's own
// service or program, and the answers to it. The packages that use it decide how both
// are sent.
package callout

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// The kinds of message.
const (
	Call      = "tool.call"
	Reconcile = "tool.reconcile" // what became of a call?
)

// Tool is one tool of a service or program.
type Tool struct {
	parley.ToolDecl
	Reconcile bool // it can be asked what became of a call
}

// Message is sent as JSON.
type Message struct {
	Type      string    `json:"type"` // Call or Reconcile
	Timestamp time.Time `json:"timestamp"`
	Data      Data      `json:"data"`
}

// Data is a call. It is the same in both kinds of message.
type Data struct {
	Call    parley.CallID    `json:"call"` // the idempotency key, the same for every attempt
	Tool    string           `json:"tool"`
	Input   json.RawMessage  `json:"input"`
	App     string           `json:"app"`
	Session parley.SessionID `json:"session"`
	User    string           `json:"user"`
	Org     string           `json:"org,omitempty"`
	Attempt int              `json:"attempt"` // counted from 1
}

// Encode returns the message about a call.
func Encode(kind string, r seam.Run, now time.Time) ([]byte, error) {
	return json.Marshal(Message{kind, now.UTC().Truncate(time.Millisecond), Data{
		r.Call, r.Name, r.Input, r.App, r.Session, r.Principal.User, r.Principal.Org, max(r.Attempt, 1),
	}})
}

// Reconciled reads the answer to Reconcile: {"happened": true, "output"} or {"happened":
// false}. Null and a missing field leave it open: known is false. A no also promises that
// the call will not happen later.
func (t Tool) Reconciled(r seam.Run, body []byte) (res parley.ToolResult, known bool, err error) {
	var said struct {
		Happened *bool           `json:"happened"`
		Output   json.RawMessage `json:"output"`
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return res, false, fmt.Errorf("what was said of a call: %w", err)
	}
	switch {
	case said.Happened == nil:
		return res, false, nil
	case !*said.Happened:
		e := parley.ErrorInfo{Code: parley.CodeTool, Message: "it did not happen", Hint: "it can be called again"}
		return Refused(r, e, nil), true, nil
	}
	res = parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeOK, Output: "Done."}
	var text string
	switch {
	case len(said.Output) == 0 || string(said.Output) == "null":
	case json.Unmarshal(said.Output, &text) == nil:
		res.Output = text
	default:
		res.Output = string(said.Output)
	}
	if t.OutputSchema != nil {
		res.Data = said.Output
	}
	return res, true, nil
}

// maxShown is how many bytes of a reason and of its hint a model is shown.
const maxShown = 2000

// Refused is the result of a call that was not made. The model reads the reason. clean
// removes secrets from it before it is cut; nil: there are none.
func Refused(r seam.Run, e parley.ErrorInfo, clean func(text string) string) parley.ToolResult {
	if clean != nil {
		e.Message, e.Hint = clean(e.Message), clean(e.Hint)
	}
	e.Message, e.Hint = parley.Cut(e.Message, maxShown), parley.Cut(e.Hint, maxShown)
	out := e.Message
	if e.Hint != "" {
		out += "\n" + e.Hint
	}
	return parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeError, Output: out, Error: &e}
}
