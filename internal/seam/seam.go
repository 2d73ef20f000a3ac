// Package seam holds the interfaces that have several implementations: [Store], [Model],
// [Runtime] with the [Host] it sees, and [Toolset].
//
// The engine is written against these and names no provider, tool or database. Each
// implementation is a package of its own (store/sqlite, model/scripted, runtime/loop,
// tool/slack ...). It imports this package and parley but no other implementation, and
// passes the exported test suite of its kind: storetest, modeltest, runtimetest. Small
// interfaces have optional extras, found by assertion, such as [Reconciler].
package seam

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"

	"github.com/parley-server/parley"
)

// Model is one model of one provider. It is safe for concurrent use.
type Model interface {
	Info() ModelInfo
	// Stream makes one call. It yields fragments as they arrive and ends with exactly one
	// ModelDelta whose Reply is set, or with an error. Cancelling ctx or stopping the
	// iteration closes the connection to the provider. Stream itself may make the request, and reads its
	// files then, but nothing leaves before the iteration begins: until then the call's start may not be
	// durable. It does not retry. The error's code says what to do: CodeRateLimited and CodeUnavailable may be retried after
	// RetryAfter, all others not.
	Stream(ctx context.Context, r Request) iter.Seq2[ModelDelta, error]
}

// Models finds a model by the name that apps and callers use, such as "scripted/chaos" or
// "anthropic/claude-sonnet". An unknown name is CodeInvalid, and the error lists the
// known ones.
type Models interface {
	Model(name string) (Model, error)
	Names() []string
}

// ModelInfo is what is known about a model in advance.
type ModelInfo struct {
	Name          string `json:"name"`
	Provider      string `json:"provider"`
	Scripted      bool   `json:"scripted"` // a demo model that follows rules; whoever shows its answers should say so
	ContextTokens int64  `json:"context_tokens"`
	// ContextHint says how the operator of the model's server can raise ContextTokens;
	// empty if that is not possible.
	ContextHint string `json:"context_hint,omitempty"`
	// Guessed says that ContextTokens is a cautious guess, which the server's own answer
	// may replace.
	Guessed bool `json:"-"`
	// FirstTokenMS is how long the model may take to begin a reply, in ms. 0: the
	// runtime's default.
	FirstTokenMS    int64 `json:"first_token_ms,omitempty"`
	MaxOutputTokens int64 `json:"max_output_tokens"`
	// Prices in US dollars per million tokens. Cache reads and writes whose price is 0
	// cost as much as input.
	InputUSD      float64 `json:"input_usd,omitempty"`
	OutputUSD     float64 `json:"output_usd,omitempty"`
	CacheReadUSD  float64 `json:"cache_read_usd,omitempty"`
	CacheWriteUSD float64 `json:"cache_write_usd,omitempty"`
	PricedAt      string  `json:"priced_at,omitempty"` // the day these prices were valid, such as 2026-11-20
	// TokenBytes is roughly how many bytes of text a token has, rather too low, for
	// estimates before a call. 0: 3.
	TokenBytes float64 `json:"token_bytes,omitempty"`
	// What the model accepts besides text.
	Images      bool     `json:"images,omitempty"`
	MaxImages   int      `json:"-"`                      // of one request; 0: more than a prompt has
	Files       bool     `json:"files,omitempty"`        // PDF and the like
	ServerTools []string `json:"server_tools,omitempty"` // tools run by its provider
	// Hosted says that the provider keeps one conversation across all agents that use the
	// model: a request's State is then that of the last reply of any of them.
	Hosted bool `json:"hosted,omitempty"`
}

// Checker is a Model that can tell, at no cost, whether it would answer: nil, or an error
// whose code says what is wrong (unauthenticated: the key; forbidden or not_found: the
// model; unavailable: the connection) and whose hint says what to do.
type Checker interface {
	Check(ctx context.Context) error
}

// Measurer is a Model whose server can tell how many tokens it currently accepts;
// afterwards Info includes that. Asking costs nothing and loads nothing.
type Measurer interface {
	Measure(ctx context.Context) error
}

// TokenCounter is a Model whose provider counts the input tokens of a request.
type TokenCounter interface {
	CountTokens(ctx context.Context, r Request) (int64, error)
}

// Passer is a Model whose provider accepts requests that somebody else has written in the form of
// the provider's own API, such as a program that brings its own agent.
type Passer interface {
	// Pass sends the body to the provider's endpoint for model calls, for this model and with the
	// account's key. beta lists features of the API that the body uses. The response has any
	// status, and the caller closes its body. An error means that there was no response.
	Pass(ctx context.Context, body []byte, beta []string) (*http.Response, error)
}

// Request is one model call: all that the model sees.
type Request struct {
	Model   string           `json:"model"`
	Agent   string           `json:"agent"` // the definition's name
	Call    parley.CallID    `json:"-"`
	Session parley.SessionID `json:"-"`
	System  string           `json:"system"`
	// Messages are valid: every tool call and handoff has exactly one result, right after it. The
	// images of a result follow it, as parts with its Call.
	Messages    []parley.Message  `json:"messages"`
	Tools       []parley.ToolDecl `json:"tools,omitempty"`
	Handoffs    []Handoff         `json:"handoffs,omitempty"` // agents that the model may hand off to
	MaxTokens   int64             `json:"max_tokens"`
	Temperature *float64          `json:"temperature,omitempty"`
	Effort      string            `json:"effort,omitempty"`       // see parley.AgentDef
	ServerTools []string          `json:"server_tools,omitempty"` // a subset of those in the model's info
	State       json.RawMessage   `json:"state,omitempty"`        // the provider's own, if still valid
	// Open reads what an image or file part points to. nil: there are no such parts.
	Open func(ctx context.Context, id parley.ArtifactID) (File, error) `json:"-"`
}

// Handoff is an agent that the model may hand off to. Providers without hosted handoffs
// show it as a tool named "transfer_to_<agent>" with one optional string argument
// "reason", and turn a call of it into a handoff part.
type Handoff struct {
	Agent       string `json:"agent"`
	Description string `json:"description,omitempty"`
}

// ModelDelta is a fragment of a reply or, at the end, the whole reply.
type ModelDelta struct {
	Text     string
	Thinking string
	Reply    *Reply
}

// Reply is all that the model said. Tool calls and handoffs are parts in the order in
// which the model gave them; their Call ids are empty and are set by the runtime. A reply
// that was cut off for length has StopReason "max_tokens"; a stream that merely ends is
// an error, never a short reply.
type Reply struct {
	Model      string
	Parts      []parley.Part
	Usage      parley.Usage
	StopReason string // end_turn, tool_use, max_tokens, refusal, or the provider's own
	State      json.RawMessage
	Citations  []parley.Citation // what the provider's own tools found, if it says so
	Warning    string            `json:",omitempty"` // why the reply is doubtful, as a sentence for people
}
