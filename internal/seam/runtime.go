package seam

import (
	"context"
	"errors"
	"time"

	"github.com/parley-server/parley"
)

// Runtime carries a turn forward. Between turns it keeps nothing that is not in the log:
// Run may be called for a turn that another process began.
type Runtime interface {
	// Run continues the host's turn from its state until the turn ends, parks or fails.
	// ctx is cancelled when the turn is to stop; its cause is then a parley.Error.
	// ErrParked means that the turn waits for a human, and Run will be called again. Any
	// other error fails the turn.
	Run(ctx context.Context, h Host) (Ending, error)
}

// Equipped is a Runtime that brings tools of its own.
type Equipped interface {
	// Equip returns the app as this runtime carries it out. The tools that the runtime runs by
	// itself are declared with parley.RunRuntime, in place of the app's tools of the same names. It
	// must not change app, and must always return the same for the same app.
	Equip(app *parley.App) *parley.App
}

// Needing is a Runtime that needs something which may not be there, such as a program.
type Needing interface {
	// Missing says what is not there; nil: turns can be carried out. It answers at once.
	Missing() error
}

// Starter is a Runtime that begins turns on its own, for example because background work of an
// earlier turn has ended. An engine calls Starts once, before any Run. The runtime may call
// start at any time after that, but not in Run's own goroutine. When start has returned a turn,
// Run is called for it as for any other.
type Starter interface {
	Starts(start func(ctx context.Context, session parley.SessionID, t OwnTurn) (parley.TurnID, error))
}

// OwnTurn is a turn that a runtime begins.
type OwnTurn struct {
	Message string // what the turn is about, as later prompts show it
	Key     string // start begins only one turn for the same key; empty: no key
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
	// State is the fold including staged events, as it is now. Nobody changes it, neither the engine
	// nor the caller.
	State() *parley.Session
	// App is the resolved app that the turn began with.
	App() *parley.App
	Turn() parley.TurnID
	Now() time.Time
	NewCall() parley.CallID
	// Folder is the path of the session's workspace on this machine, for programs that work in it.
	// It is empty if the session has no workspace. readOnly: nothing in it may be changed.
	Folder() (dir string, readOnly bool, err error)
	// Commands signals that a command has changed the state: a message in between, an
	// answer. Signals that nobody has received are merged.
	Commands() <-chan struct{}
	// Wait is for a call for which Begin or Ask has returned ErrParked. It waits until what is
	// asked about the call is answered or closed, so that Begin or Ask can be called again.
	// Meanwhile the run stays in memory, and the turn's clock stops if the whole turn waits.
	// Wait returns ErrParked when the run must park, because nobody has answered for as long as
	// the engine keeps a waiting turn in memory, or because the server stops. The runtime must
	// then release everything and return ErrParked from Run.
	Wait(ctx context.Context, call parley.CallID) error

	// Emit appends model.*, agent.*, context.*, budget.*, hook.*, files.* and runtime.noted
	// events and returns after they are committed, together with everything that was staged. It
	// refuses other types. The tool calls of a model.replied become tool.requested events in
	// the same append. An event of the last three kinds may have at most 32 KiB. When a turn
	// has 1 MiB of them, further ones are left out, except for files.announced.
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
	// End journals the outcome of a call that Begin allowed to run. An output that is too large
	// for the log is cut, and the whole becomes an artifact. End does not run the hooks for the
	// end of the call; Hear does.
	End(ctx context.Context, r parley.ToolResult) error
	// Call is Begin, run and End for Parley's own tools. Calls may run concurrently. sample
	// makes the model calls that servers ask for meanwhile. Nil: servers get no replies.
	// A read that is cut off with the cause ErrAgain has no outcome: Call returns the cause.
	Call(ctx context.Context, c parley.ToolCall, sample Sampler) (parley.ToolResult, error)
	// Hear runs the hooks for the end of a call, unless they have run (see
	// parley.Tool.HookDue). Call does this itself. After End, and after a crash in between, the
	// runtime must call Hear. It may take as long as a hook may.
	Hear(ctx context.Context, call parley.CallID) error
	// Heed asks the hooks about what an agent is about to do, unless they have already decided.
	// If it returns true, the state has changed, and the runtime must look at it before it
	// continues. It may take as long as a hook may, and returns at once if Heeded is false.
	Heed(ctx context.Context, m Moment) (moved bool, err error)
	// Heeded reports whether there are hooks for a moment.
	Heeded(m Moment) bool
	// Settle determines the outcome of a write that was started and has none, for example
	// after a crash: by asking its service if possible, else as unknown. It may wait for
	// as long as the write may still be under way, even after ctx has ended.
	Settle(ctx context.Context, call parley.CallID) error
	// Open reads an artifact of the session that a message points to.
	Open(ctx context.Context, id parley.ArtifactID) (File, error)
	// Retrieve looks up what the prompts of the turn show: what the app's tools know about a
	// question and about what the session is about, if the app's memory says so, and the
	// entities that are attached to the session. Failing is not an error: a turn without
	// snippets is still a turn. The runtime stages the result before its first model call.
	Retrieve(ctx context.Context, query string) (parley.ContextRetrieved, error)
	// Ask opens an interaction, once per call and key, and returns ErrParked, or the
	// answer if it is there.
	Ask(ctx context.Context, in parley.Interaction) (parley.Answer, error)
	// Keep stores the runtime's own state of the session, such as a transcript from which it
	// can continue. It replaces the previous state. The state is a cache: it belongs to the
	// session and its forks, and may be lost at any time, for example when retention removes
	// steps that it contains. Text that looks like a secret is redacted. Keep takes effect with
	// the next commit, or at the end of the turn. It returns CodeTooLarge if the state has more
	// than MaxKept bytes; then no state is stored any more.
	Keep(ctx context.Context, k Keeping) error
	// Redacted reports whether the log would redact something in lines of text, so that it must not
	// stay in files of the runtime, either.
	Redacted(lines []byte) bool
	// Kept returns the bytes of parley.Session.Kept, or CodeNotFound if there are none.
	Kept(ctx context.Context) ([]byte, error)
}

// Forgetter is a Runtime that keeps files of a session's conversation beside the log.
type Forgetter interface {
	// Forget removes them, before retention removes steps of the session from the log, and returns when
	// they are gone. No turn of the session runs. CodeBusy: they are still needed, for example for work in the
	// background, and retention has to wait. The session is locked.
	Forget(ctx context.Context, id parley.SessionID) error
}

// Sampler makes a model call for a server, in a call of a tool. It journals the model call and
// keeps it within the turn's budgets. The request has been checked and allowed.
type Sampler func(ctx context.Context, c parley.ToolCall, q parley.Sampling) (parley.Sampled, error)

// A Moment is something about to happen in a runtime that hooks can be asked about.
type Moment struct {
	Kind  MomentKind
	Agent parley.AgentPath
	Name  string // the agent's name
	Text  string // what a sub-agent returns, when it ends
}

// MomentKind is the kind of a Moment.
type MomentKind string

const (
	AgentStarts  MomentKind = "agent starts" // a sub-agent's first step
	AgentEnds    MomentKind = "agent ends"   // a sub-agent has a result; see parley.Agent.AtEnd
	ContextParts MomentKind = "context"      // earlier turns are compacted or leave the prompt; see parley.Turn.Compact
)

// ErrNotNeeded is the cause with which a runtime cancels a call whose agent has ended or whose
// turn fails.
var ErrNotNeeded = parley.Errorf(parley.CodeCancelled, "its agent or turn has ended")

// ErrAgain is in the cause with which a runtime cancels a call that it makes again, because only
// the program that asked for the call has ended.
var ErrAgain = errors.New("the call is to be made again")

// MaxKept limits the state that a runtime may keep of a session, in bytes.
const MaxKept = 16 << 20

// Keeping is what a runtime keeps of a session.
type Keeping struct {
	State  []byte
	Entry  string // which entry of the state corresponds to the log's end, in the runtime's own terms
	Afresh bool   // it does not continue the previous state
}

// Decision is what Begin decided.
type Decision struct {
	Run    bool
	Call   parley.ToolCall // with the input to run with
	Effect parley.Effect
	// Deadline is when a started call with effects must have ended. For a tool that the runtime
	// runs, the runtime must enforce it.
	Deadline time.Time
	Attempt  int
	Started  time.Time         // of the first attempt
	Result   parley.ToolResult // if Run is false
}
