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
	"errors"
	"iter"
	"os"
	"time"

	"github.com/parley-server/parley"
)

// Model is one model of one provider. It is safe for concurrent use.
type Model interface {
	Info() ModelInfo
	// Stream makes one call. It yields fragments as they arrive and ends with exactly one
	// ModelDelta whose Reply is set, or with an error. Cancelling ctx or stopping the
	// iteration closes the connection to the provider. It does not retry. The error's
	// code says what to do: CodeRateLimited and CodeUnavailable may be retried after
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

// Request is one model call: all that the model sees.
type Request struct {
	Model       string            `json:"model"`
	Agent       string            `json:"agent"` // the definition's name
	Call        parley.CallID     `json:"-"`
	Session     parley.SessionID  `json:"-"`
	System      string            `json:"system"`
	Messages    []parley.Message  `json:"messages"` // valid: every tool call and handoff has exactly one result, right after it
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

// Toolset is a group of tools behind one thing: a service, a folder, an MCP server.
type Toolset interface {
	// Tools lists them. Names are unique in an app.
	Tools(ctx context.Context) ([]parley.ToolDecl, error)
	// Run runs one call whose input fits the schema. A result with Outcome ok or error
	// means that the service answered. An error wrapped in NotSent means that the call
	// provably never left. After any other error the outcome is open: the engine reports
	// a read as failed and a write as unknown.
	Run(ctx context.Context, r Run) (parley.ToolResult, error)
}

// Scope is what an app and its tools are resolved for: the user whose session it is, the
// app, and the workspace of the session.
type Scope struct {
	Principal parley.Principal
	App       string
	Workspace parley.Workspace // empty: none
}

// Changer is a Toolset whose list of tools changes while it is open, as that of an MCP
// server may. A turn keeps the tools that it began with; the next one sees the new list.
type Changer interface {
	// Changes counts the changes. It must answer from memory at once.
	Changes() int64
}

// Versioned is a Toolset whose tools may become others while it is open, under the same names.
type Versioned interface {
	Toolset
	// Now is the toolset with the tools that Tools returned last, which stay. It needs no
	// Close, and answers at once.
	Now() Toolset
}

// Refresher is a Changer that has to look for changes, such as one that reads files.
type Refresher interface {
	Changer
	// Stale reports whether its last look was some time ago. It must answer from memory at
	// once.
	Stale() bool
	// Refresh looks for changes. It is fast, since turns wait for it.
	Refresh(ctx context.Context)
}

// Instructor is a Toolset that has something to say to all agents of its scope.
type Instructor interface {
	// Instructions is added to the agents' prompts. A change counts as one for [Changer]. It
	// must answer from memory at once.
	Instructions() string
}

// Applicant is a Toolset of which something may run only once a person has approved it.
type Applicant interface {
	// Approvals lists what that is, in what state. It looks at the files as they are now.
	Approvals(ctx context.Context) []parley.Approval
	// Approve keeps what a person decided about one of them. CodeNotFound: there is none
	// with that digest now.
	Approve(ctx context.Context, d parley.Digest, c parley.DecideApproval) (parley.Approval, error)
}

// Commander is a Toolset with slash commands: prompts that a user's message names.
type Commander interface {
	// Commands lists them by name. It must answer from memory at once.
	Commands() []parley.SlashCommand
	// Expand is what the command says to the model. args are the rest of the message. An
	// unknown command is CodeNotFound; other errors are for the user.
	Expand(ctx context.Context, name, args string) (string, error)
}

// Run is one call as a Toolset gets it.
type Run struct {
	Call      parley.CallID // the idempotency key, the same for every attempt
	Name      string
	Input     json.RawMessage
	Effect    parley.Effect
	Attempt   int
	Started   time.Time // of the first attempt: the call left no earlier than this
	Principal parley.Principal
	Session   parley.SessionID
	App       string
	// Workspace opens the session's workspace. Every time it returns the same root, which is
	// closed when the call is over. Its error says, for the model, that the session has none
	// or that it is gone; nothing was done then. Never nil.
	Workspace func() (*os.Root, error)
	// ReadOnly says that nothing in the workspace may be changed. Calls of tools that only
	// edit it do not come here then.
	ReadOnly bool
	// Stopped is closed when somebody stops the turn. ctx goes on, since a call that has left
	// is not taken back; one that has not left yet need not leave. Nil: never.
	Stopped  <-chan struct{}
	Progress func(text string) // never nil; shown to people but not to the model, and not stored
	// Ask asks a human. A tool that asks more than once in a call gives each question a key
	// of its own. In a call that reads, its error is ErrParked if the answer is not there
	// yet: Run returns that error, and is called again for the same call once the answer is
	// there. It then asks the same again and gets the answer by the question's Key. A call
	// with effects cannot be made again, so there Ask waits, and the call's time stands
	// meanwhile. If nobody answers for so long that the turn leaves memory, or the server or
	// the turn stops, the question is closed and the answer is a denial. Never nil.
	Ask func(ctx context.Context, in parley.Interaction) (parley.Answer, error)
	// Changes says which files of the workspace the call is about to change, with paths that
	// are relative to it and have slashes. It returns when that is in the log; after an error
	// the call must not change them. Never nil.
	Changes func(ctx context.Context, paths ...string) error
	// Keep stores a file that the tool made besides its result, such as a plot, as an
	// artifact of the call. Never nil. The error says why it was refused: too large, too
	// many, or the call is over.
	Keep func(f File) error
	// Credential returns a credential that came with the command, to be sent to a host and
	// to nowhere else. It is refused unless the tool declares both (parley.ToolDecl), and if
	// it is gone, as when the turn ended meanwhile. Never nil.
	Credential func(name, host string) (string, error)
	// Hide keeps values out of all that the call's session keeps and shows from now on, until its
	// turn has ended: secrets that the tool has from elsewhere. After an error they would not be,
	// so the call must not use them. Nil: nothing is kept or shown.
	Hide func(values ...string) error
	// Redact takes secrets out of a text of the call, those of its turn, too. Nil: nothing is
	// known of the turn's.
	Redact func(text string) (clean string, found bool)
	// Others returns the calls of the same tool, by anybody, that this server has made
	// since Started or that may have been under way then; known is false if that cannot
	// be determined. Reconcile calls it after it has checked the service, so that no call
	// is missing whose effect was seen. Nil: not known.
	Others func(ctx context.Context) (calls []Other, known bool)
}

// Other is another call of a tool.
type Other struct {
	Call    parley.CallID
	Reaches []string // what it acts on; empty: not known
}

// File is a file made by a tool.
type File struct {
	Name      string
	MediaType string
	Body      []byte
}

// Reconciler is a Toolset that can find out whether a write took effect.
type Reconciler interface {
	// Reconcile reports whether the call took effect, without making it. It is no proof
	// that things are as the call would have left them: it must be ruled out, by what the
	// service tells and by Run.Others, that somebody else did it. known is false if the
	// service cannot tell either. While the call may still be under way only a yes,
	// Outcome ok, counts, and Reconcile is called again later.
	Reconcile(ctx context.Context, r Run) (res parley.ToolResult, known bool, err error)
}

// Local is a Toolset that makes calls inside this process, such as those of Go functions.
type Local interface {
	// Over reports whether nothing more happens by a call that some process began: it was
	// made inside that process, does not run in this one, and no service can be asked about
	// it. The caller knows that there is no other process. A call that nobody waits for any
	// more may still run. It must answer from memory at once.
	Over(tool string, call parley.CallID) bool
}

// Reacher is a Toolset that can tell what a call would act on, such as the entities of a
// house, beyond the call's subject. An approval for the session then covers those, and no
// others.
type Reacher interface {
	// Reaches lists what the call would act on, sorted. scoped is false for a tool whose
	// subject says enough. A scoped call with an empty list may reach anything. It must
	// answer from memory at once: the session is locked.
	Reaches(tool string, input json.RawMessage) (what []string, scoped bool)
}

// Preparer is a Toolset some of whose calls need something first that only a human can do, such
// as to log in at a service.
type Preparer interface {
	// Prepare returns what a human is asked to do before the call can be made, or nil. It is
	// asked again after each answer. The call has not begun, and nothing of it may happen here;
	// only that is set in r which is known by then. Errors are for the model, and the call is not
	// made.
	Prepare(ctx context.Context, r Run) (*parley.Interaction, error)
}

// Vetter is a Toolset that can tell in advance that a call cannot succeed, for example
// because its target does not exist. A human is not asked about such a call.
type Vetter interface {
	// Vet returns what is wrong with the call, in words for the model, or nil. It must
	// answer from memory at once: the session is locked.
	Vet(tool string, input json.RawMessage) error
}

// Worder is a Toolset that can describe a call in words for a person, with the names that
// people use for its things.
type Worder interface {
	// Words says what the call would do, as a command on one line without a full stop,
	// such as "Turn off Desk lamp"; "" if it has no words for it. It must answer from
	// memory at once: the session is locked.
	Words(tool string, input json.RawMessage) string
}

// Retriever is a Toolset that can look up snippets for a question.
type Retriever interface {
	// Retrieve returns at most limit snippets, best first. Before them come, marked as
	// pinned, those of about that it knows: the current state of what the previous turn
	// was about, see parley.Session.About. It has no effects and is fast, since every
	// turn waits for it.
	Retrieve(ctx context.Context, p parley.Principal, query string, about []string, limit int) ([]parley.Snippet, error)
}

// Zoned is a Toolset that knows the time zone of its things and their people, such as a
// house.
type Zoned interface {
	// Zone is that zone at a given time. ok is false while it is not known. It must
	// answer from memory at once: the session is locked.
	Zone(at time.Time) (z parley.Zone, ok bool)
}

// NotSent marks err as the failure of a call that provably never left.
func NotSent(err error) error { return &notSent{err} }

// IsNotSent reports whether err came from NotSent.
func IsNotSent(err error) bool { _, ok := errors.AsType[*notSent](err); return ok }

type notSent struct{ err error }

func (e *notSent) Error() string { return e.err.Error() }
func (e *notSent) Unwrap() error { return e.err }

// Runtime carries a turn forward. Between turns it keeps nothing that is not in the log:
// Run may be called for a turn that another process began.
type Runtime interface {
	// Run continues the host's turn from its state until the turn ends, parks or fails.
	// ctx is cancelled when the turn is to stop; its cause is then a parley.Error.
	// ErrParked means that the turn waits for a human, and Run will be called again. Any
	// other error fails the turn.
	Run(ctx context.Context, h Host) (Ending, error)
}

// Starter is a Runtime that begins turns by itself, for example because work has ended that
// an earlier turn left in the background. An engine calls Starts once, before any Run; the
// runtime may call start at any time after that, and must do so outside of Run or in
// another goroutine. Once start has returned a turn, Run is called for it like for any
// other.
type Starter interface {
	Starts(start func(ctx context.Context, session parley.SessionID, t OwnTurn) (parley.TurnID, error))
}

// OwnTurn is a turn that a runtime begins.
type OwnTurn struct {
	Message string // what it is about, as later prompts show it
	Key     string // the same key begins one turn only; empty: none
}

// Ending is how a turn ended. Its Events are committed together with the turn's closing
// event. If both are set, Failed counts and not Response.
type Ending struct {
	Events   []parley.Event
	Response parley.Response
	Failed   *parley.Error
}

// ErrParked is returned by Host.Ask and Host.Begin when a human has to answer first:
// release everything and return it from Run, or call Host.Wait.
var ErrParked = errors.New("parked until a human answers")

// Host is all that a runtime sees of Parley: one turn of one session. Methods
// are safe for concurrent use.
type Host interface {
	// State is the fold including staged events. It is the caller's own copy.
	State() parley.Session
	// App is the resolved app that the turn began with.
	App() *parley.App
	Turn() parley.TurnID
	Now() time.Time
	NewCall() parley.CallID
	// Commands signals that a command has changed the state: a message in between, an
	// answer. Signals that nobody has received are merged.
	Commands() <-chan struct{}
	// Wait waits until Begin or Ask is worth calling again for a call, for which it has
	// returned ErrParked: until what is asked about the call is answered, or closed
	// without an answer. Meanwhile the run stays, and the turn's clock stands if the whole
	// turn waits. The error is ErrParked when the run has to park: nobody has answered for
	// as long as the engine keeps a waiting turn in memory, or the server stops. Then the
	// runtime releases everything and returns ErrParked from Run.
	Wait(ctx context.Context, call parley.CallID) error

	// Emit appends model.*, agent.*, context.*, budget.*, hook.*, files.* and runtime.noted
	// events and returns after they are committed, together with everything that was
	// staged. It refuses other types. The tool calls of a model.replied become
	// tool.requested events in the same append. An event of the last three kinds may have
	// 32 KiB. Beyond 1 MiB in a turn they are left out, except for files.announced.
	Emit(ctx context.Context, events ...parley.Event) error
	// Stage is Emit without waiting: the events are in State at once and are committed
	// with the next Emit, Begin or End, or with the end of the turn.
	Stage(events ...parley.Event) error
	// Publish shows a fragment to followers. It never blocks.
	Publish(d parley.Delta)

	// Begin checks a requested call against schema, policy, grants and humans, and
	// commits tool.started before it returns a Decision to run. A Decision not to run has
	// been journaled already. ErrParked: a human is being asked.
	Begin(ctx context.Context, c parley.ToolCall) (Decision, error)
	// End journals the outcome of a call that Begin allowed to run. An output that is too
	// large for the log is cut, and the whole becomes an artifact. Hooks that are to hear of
	// it are left to Hear.
	End(ctx context.Context, r parley.ToolResult) error
	// Call is Begin, run and End for Parley's own tools. Calls may run concurrently.
	Call(ctx context.Context, c parley.ToolCall) (parley.ToolResult, error)
	// Hear runs the hooks that are to hear of the end of a call, if they have not (see
	// parley.Tool.HookDue). Call does it by itself; after End, and after a crash in between,
	// the runtime does. It may take as long as a hook does.
	Hear(ctx context.Context, call parley.CallID) error
	// Heed asks the hooks about what an agent is about to do, unless they have decided about
	// it. If it returns true, the state has moved: the runtime looks at it before it goes on.
	// It may take as long as a hook does, and returns at once if Heeded is false.
	Heed(ctx context.Context, m Moment) (moved bool, err error)
	// Heeded reports whether there are hooks for a moment.
	Heeded(m Moment) bool
	// Settle determines the outcome of a write that was started and has none, for example
	// after a crash: by asking its service if possible, else as unknown. It may wait for
	// as long as the write may still be under way, even after ctx has ended.
	Settle(ctx context.Context, call parley.CallID) error
	// Open reads an artifact of the session that a message points to.
	Open(ctx context.Context, id parley.ArtifactID) (File, error)
	// Retrieve looks up, for the prompt, what the app's tools know about a question and
	// about what the session is about. Failing is not an error: a turn without snippets
	// is still a turn.
	Retrieve(ctx context.Context, query string) ([]parley.Snippet, error)
	// Ask opens an interaction, once per call and key, and returns ErrParked, or the
	// answer if it is there.
	Ask(ctx context.Context, in parley.Interaction) (parley.Answer, error)
	// Keep stores the runtime's own state of the session, such as a transcript that it can
	// go on from, in place of what was kept before. It is a cache: it goes with the session
	// and its forks, and may be gone at any time, also because retention removed steps that
	// it contains. What looks like a secret is taken out of it. It takes effect with the
	// next commit, or with the end of the turn. CodeTooLarge: it has more than MaxKept
	// bytes, and nothing is kept any more.
	Keep(ctx context.Context, k Keeping) error
	// Kept returns the bytes of parley.Session.Kept. CodeNotFound: there are none.
	Kept(ctx context.Context) ([]byte, error)
}

// A Moment is something that hooks may hear of before it happens.
type Moment struct {
	Kind  MomentKind
	Agent parley.AgentPath
	Name  string // of the agent
	Text  string // what a sub-agent returns, when it ends
}

// MomentKind is the kind of a Moment.
type MomentKind string

const (
	AgentStarts  MomentKind = "agent starts" // a sub-agent's first step
	AgentEnds    MomentKind = "agent ends"   // of a sub-agent with a result; see parley.Agent.AtEnd
	ContextParts MomentKind = "context"      // earlier turns leave the prompt; see parley.Turn.Compact
)

// ErrNotNeeded is why a runtime cuts a call whose agent has ended, or whose turn fails.
var ErrNotNeeded = parley.Errorf(parley.CodeCancelled, "what it was for has ended")

// MaxKept is the most that a runtime may keep of a session, in bytes.
const MaxKept = 16 << 20

// Keeping is what a runtime keeps of a session.
type Keeping struct {
	State  []byte
	Entry  string // where in it the log stands, in the runtime's own words
	Afresh bool   // it has nothing of what was kept before
}

// Decision is what Begin decided.
type Decision struct {
	Run    bool
	Call   parley.ToolCall // with the input to run with
	Effect parley.Effect
	// Deadline is when a started call with effects must have ended. Of a tool that the
	// runtime runs, the runtime sees to it.
	Deadline time.Time
	Attempt  int
	Started  time.Time         // of the first attempt
	Result   parley.ToolResult // if Run is false
}
