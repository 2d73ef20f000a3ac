// Package seam holds the interfaces behind which several real bodies stand:
// [Store], [Model], [Runtime] with the [Host] it sees, and [Toolset].
//
// The engine is written against these and names no provider, tool or database.
// A body is a package of its own on a shelf (store/sqlite, model/scripted,
// runtime/loop, tool/slack ...), imports this package and parley and no other
// body, and passes its shelf's exported suite: storetest, modeltest,
// runtimetest. Small interfaces have optional extras, found by assertion, such
// as [Reconciler].
package seam

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/parley-server/parley"
)

// Model is one model of one provider. It is safe for concurrent use.
type Model interface {
	Info() ModelInfo
	// Stream makes one call. It yields fragments as they arrive and ends with
	// exactly one ModelDelta whose Reply is set, or with an error. Cancelling ctx
	// or stopping the iteration closes the connection to the provider. It does not
	// retry. An error says by its code what to do: CodeRateLimited and
	// CodeUnavailable may be tried again after RetryAfter, anything else not.
	Stream(ctx context.Context, r Request) iter.Seq2[ModelDelta, error]
}

// Models finds a model by the name that apps and callers use, such as
// "scripted/chaos" or "anthropic/claude-sonnet". An unknown name is CodeInvalid
// and says which are known.
type Models interface {
	Model(name string) (Model, error)
	Names() []string
}

// ModelInfo is what is known of a model beforehand.
type ModelInfo struct {
	Name          string `json:"name"`
	Provider      string `json:"provider"`
	Scripted      bool   `json:"scripted"` // a demo model that follows rules; whoever shows its answers says so
	ContextTokens int64  `json:"context_tokens"`
	// ContextHint says how whoever runs the model's server makes ContextTokens more;
	// empty where nobody can.
	ContextHint string `json:"context_hint,omitempty"`
	// Guessed says that ContextTokens is a careful guess, in the place of which the
	// server may say what it has.
	Guessed bool `json:"-"`
	// FirstTokenMS is how long the model may take to begin a reply, in ms. 0: as
	// long as the runtime gives to all.
	FirstTokenMS    int64 `json:"first_token_ms,omitempty"`
	MaxOutputTokens int64 `json:"max_output_tokens"`
	// Prices in US dollars per million tokens. What is read from or written to the
	// provider's cache costs as input where its price is 0.
	InputUSD      float64 `json:"input_usd,omitempty"`
	OutputUSD     float64 `json:"output_usd,omitempty"`
	CacheReadUSD  float64 `json:"cache_read_usd,omitempty"`
	CacheWriteUSD float64 `json:"cache_write_usd,omitempty"`
	PricedAt      string  `json:"priced_at,omitempty"` // the day the prices are of, such as 2026-11-20
	// TokenBytes is how many bytes of text a token has about, on the low side, for
	// estimates before a call. 0: 3.
	TokenBytes float64 `json:"token_bytes,omitempty"`
	// What the model takes besides text.
	Images      bool     `json:"images,omitempty"`
	Files       bool     `json:"files,omitempty"`        // PDF and the like
	ServerTools []string `json:"server_tools,omitempty"` // that its provider runs
	// Hosted says that the provider keeps the conversation and that one goes through
	// all agents that use the model: a request's State is then that of the last
	// reply of any of them.
	Hosted bool `json:"hosted,omitempty"`
}

// Checker is a Model that can say whether it would answer, without a call that
// costs anything: nil, or an error whose code says what is wrong (unauthenticated:
// the key; forbidden or not_found: the model; unavailable: the way there) and whose
// hint says what to do.
type Checker interface {
	Check(ctx context.Context) error
}

// Measurer is a Model whose server can say how many tokens it takes at present; Info
// says so from then on. It costs nothing and loads nothing.
type Measurer interface {
	Measure(ctx context.Context) error
}

// TokenCounter is a Model whose provider counts the input tokens of a request.
type TokenCounter interface {
	CountTokens(ctx context.Context, r Request) (int64, error)
}

// Request is one model call: all that the model sees.
type Request struct {
	Model       string            `json:"model"`
	Agent       string            `json:"agent"` // the definition's name
	Call        parley.CallID     `json:"-"`
	Session     parley.SessionID  `json:"-"`
	System      string            `json:"system"`
	Messages    []parley.Message  `json:"messages"` // valid: every tool call and handoff has exactly one result, right after it
	Tools       []parley.ToolDecl `json:"tools,omitempty"`
	Handoffs    []Handoff         `json:"handoffs,omitempty"` // agents that may be handed to
	MaxTokens   int64             `json:"max_tokens"`
	Temperature *float64          `json:"temperature,omitempty"`
	Effort      string            `json:"effort,omitempty"`       // see parley.AgentDef
	ServerTools []string          `json:"server_tools,omitempty"` // of those that the model's info lists
	State       json.RawMessage   `json:"state,omitempty"`        // the provider's own, when it is still good
	// Open reads what an image or file part points to. nil: there are none.
	Open func(ctx context.Context, id parley.ArtifactID) (File, error) `json:"-"`
}

// Handoff is an agent that the model may hand to. Providers without hosted
// handoffs show it as a tool named "transfer_to_<agent>" with one optional
// string argument "reason", and turn a call of it into a handoff part.
type Handoff struct {
	Agent       string `json:"agent"`
	Description string `json:"description,omitempty"`
}

// ModelDelta is a fragment of a reply, or at the end the reply.
type ModelDelta struct {
	Text     string
	Thinking string
	Reply    *Reply
}

// Reply is all that the model said. Tool calls and handoffs are parts in the
// order in which the model gave them; their Call ids are empty and are given by
// the runtime. A reply that was cut off for length has StopReason
// "max_tokens"; a stream that just ended is an error, never a short reply.
type Reply struct {
	Model      string
	Parts      []parley.Part
	Usage      parley.Usage
	StopReason string // end_turn, tool_use, max_tokens, refusal, or the provider's own
	State      json.RawMessage
	Citations  []parley.Citation // what the provider's own tools found, where it says so
	Warning    string            `json:",omitempty"` // why the reply is doubtful, in words for people
}

// Toolset is some tools behind one thing: a service, a folder, an MCP server.
type Toolset interface {
	// Tools lists them. Names are unique in an app.
	Tools(ctx context.Context) ([]parley.ToolDecl, error)
	// Run runs one call whose input fits the schema. A result with Outcome ok or
	// error means that the service answered. An error wrapped in NotSent means
	// that the call provably never left. Any other error leaves open what
	// happened: the engine reports a read as failed and a write as unknown.
	Run(ctx context.Context, r Run) (parley.ToolResult, error)
}

// Run is one call as a Toolset gets it.
type Run struct {
	Call      parley.CallID // the idempotency key, the same at every attempt
	Name      string
	Input     json.RawMessage
	Effect    parley.Effect
	Attempt   int
	Started   time.Time // of the first attempt: the call left at this time or later
	Principal parley.Principal
	Session   parley.SessionID
	App       string
	Progress  func(text string) // never nil; shown to people, not to the model, and not kept
	// Ask asks a human. Its error is ErrParked when the answer is not there yet: Run
	// returns that error, and is called anew for the same call once it is. It then
	// asks the same again, and gets the answer by the question's Key; a tool that
	// asks more than once in a call gives each question a key of its own. Only a
	// tool whose effect is read may ask. Never nil.
	Ask func(ctx context.Context, in parley.Interaction) (parley.Answer, error)
	// Keep puts a file aside that the tool made beside its result, such as a plot;
	// it becomes an artifact of the call. Never nil. An error says why it was not
	// taken: too large, too many, or the call is over.
	Keep func(f File) error
	// Others are the calls of the same tool, anybody's, that this server has made
	// since Started or that may have been under way then; false where that is not
	// known. It is for Reconcile, which asks after it has looked at the service: so
	// none is missing whose effect was seen. Nil: it is not known.
	Others func(ctx context.Context) (calls []Other, known bool)
}

// Other is another call of a tool.
type Other struct {
	Call    parley.CallID
	Reaches []string // what it acts on; none: nobody knows
}

// File is something that a tool made.
type File struct {
	Name      string
	MediaType string
	Body      []byte
}

// Reconciler is a Toolset that can find out what became of a write.
type Reconciler interface {
	// Reconcile reports whether the call took effect, without making it. That things
	// are as the call would have left them is no proof: who else may have done it has
	// to be ruled out, by what the service tells and by Run.Others. known is
	// false when even the service can not tell. While the call may still be under way
	// only a yes, Outcome ok, is believed, and it is asked again later.
	Reconcile(ctx context.Context, r Run) (res parley.ToolResult, known bool, err error)
}

// Reacher is a Toolset that can tell what a call would act on, such as the
// entities of a house, beyond what the call's subject says. A yes for the session
// is then a yes for those, and for no others.
type Reacher interface {
	// Reaches names what the call would act on, sorted. scoped is false for a tool
	// of which the subject says enough; a scoped call of which nothing is named may
	// reach anything. It answers from memory, at once: the session is locked.
	Reaches(tool string, input json.RawMessage) (what []string, scoped bool)
}

// Vetter is a Toolset that can tell of a call beforehand that it can not come to
// anything, such as one of a thing that does not exist. A human is not asked about it.
type Vetter interface {
	// Vet returns what is wrong with the call, in words for the model, or nil. It
	// answers from memory, at once: the session is locked.
	Vet(tool string, input json.RawMessage) error
}

// Worder is a Toolset that can put a call into words for a person, in the names that
// its things have for people.
type Worder interface {
	// Words says what the call would do, as an order without its full stop, such as
	// "Turn off Desk lamp"; "" where it has no words for it. They are one line. It
	// answers from memory, at once: the session is locked.
	Words(tool string, input json.RawMessage) string
}

// Retriever is a Toolset that can be asked for snippets about a question.
type Retriever interface {
	// Retrieve returns the best few, at most limit, best first. Before these come,
	// marked as pinned, those of about that it knows: what the turn before was about,
	// as it is now, see parley.Session.About. It is free to repeat and fast: it stands
	// before every turn.
	Retrieve(ctx context.Context, p parley.Principal, query string, about []string, limit int) ([]parley.Snippet, error)
}

// Zoned is a Toolset that knows in which time zone its things and their people are,
// such as those of a house.
type Zoned interface {
	// Zone is that zone at a moment. ok is false while it is not known. It answers
	// from memory, at once: the session is locked.
	Zone(at time.Time) (z parley.Zone, ok bool)
}

// NotSent marks err as the failure of a call that provably never left.
func NotSent(err error) error { return &notSent{err} }

// IsNotSent reports whether err came from NotSent.
func IsNotSent(err error) bool { _, ok := errors.AsType[*notSent](err); return ok }

type notSent struct{ err error }

func (e *notSent) Error() string { return e.err.Error() }
func (e *notSent) Unwrap() error { return e.err }

// Runtime carries a turn forward. It keeps nothing between turns that is not in
// the log: Run may be called for a turn that another process began.
type Runtime interface {
	// Run goes on with the host's turn from its state until it ends, parks or
	// fails. ctx is cancelled when the turn is to stop; its cause is then a
	// parley.Error. ErrParked means that the turn waits for a human and Run will
	// be called again. Any other error fails the turn.
	Run(ctx context.Context, h Host) (Ending, error)
}

// Ending is how a turn ended. Its Events are committed in the append of the
// turn's closing event. Failed wins over Response.
type Ending struct {
	Events   []parley.Event
	Response parley.Response
	Failed   *parley.Error
}

// ErrParked is returned by Host.Ask and Host.Begin when a human has to answer
// first: release everything and return it from Run.
var ErrParked = errors.New("parked until a human answers")

// Host is all that a runtime sees of Parley: one turn of one session. Methods
// are safe for concurrent use.
type Host interface {
	// State is the fold, with what was staged applied. It is the caller's own copy.
	State() parley.Session
	// App is the resolved app that the turn began with.
	App() *parley.App
	Turn() parley.TurnID
	Now() time.Time
	NewCall() parley.CallID
	// Commands delivers steers as they come; the state has them too.
	Commands() <-chan parley.Message

	// Emit appends model.*, agent.*, context.* and budget.* events and returns
	// after they are committed, together with all that was staged. It refuses
	// other types. The tool calls of a model.replied become tool.requested in the
	// same append.
	Emit(ctx context.Context, events ...parley.Event) error
	// Stage is Emit without waiting: the events are in State at once and are
	// committed with the next Emit, Begin, End or ending of the turn.
	Stage(events ...parley.Event) error
	// Publish shows a fragment to whoever watches. It never blocks.
	Publish(d parley.Delta)

	// Begin takes a requested call through schema, policy, grant and human, and
	// commits tool.started before it returns a Decision to run. A Decision not to
	// run has been journaled already. ErrParked: a human is being asked.
	Begin(ctx context.Context, c parley.ToolCall) (Decision, error)
	// End journals the outcome of a call that Begin let run.
	End(ctx context.Context, r parley.ToolResult) error
	// Call is Begin, run and End for Parley's own tools. Calls may run at once.
	Call(ctx context.Context, c parley.ToolCall) (parley.ToolResult, error)
	// Settle finds the outcome of a write that was started and has none, as after
	// a crash: by asking its service where it can be asked, else as unknown. It may
	// wait for as long as the write may still be under way, also when ctx has ended.
	Settle(ctx context.Context, call parley.CallID) error
	// Open reads an artifact of the session that a message points to.
	Open(ctx context.Context, id parley.ArtifactID) (File, error)
	// Retrieve looks up what the app's tools know about a question, and of what the
	// session is about, for the prompt. Failing is no error: a turn without snippets is still a turn.
	Retrieve(ctx context.Context, query string) ([]parley.Snippet, error)
	// Ask opens an interaction (once: the same one for the same call and key) and
	// returns ErrParked, or the answer when it is there.
	Ask(ctx context.Context, in parley.Interaction) (parley.Answer, error)
}

// Decision is what Begin decided.
type Decision struct {
	Run    bool
	Call   parley.ToolCall // with the input that is to run
	Effect parley.Effect
	// Deadline is when a started call with effects must have ended.
	Deadline time.Time
	Attempt  int
	Started  time.Time         // of the first attempt
	Result   parley.ToolResult // when Run is false
}
