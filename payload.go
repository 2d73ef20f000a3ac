package parley

import (
	"encoding/json"
	"time"
)

// The payloads, in the order of a session's life. Fields are only ever added.

// SessionCreated is event 1 of every log.
type SessionCreated struct {
	App          string         `json:"app"`
	User         string         `json:"user"`
	Org          string         `json:"org,omitempty"`
	Title        string         `json:"title,omitempty"`
	Model        string         `json:"model,omitempty"`
	Runtime      string         `json:"runtime,omitempty"` // carries out its turns in place of the app's
	Temperature  *float64       `json:"temperature,omitempty"`
	MaxOutput    int64          `json:"max_output,omitempty"` // tokens per reply; lowers the agents' limits
	Mode         PermissionMode `json:"mode,omitempty"`
	Policy       *Policy        `json:"policy,omitempty"` // narrows the app's
	Budgets      Budgets        `json:"budgets"`
	Memory       MemoryOptions  `json:"memory"`
	Busy         BusyMode       `json:"busy"`
	MaxOpenTurns int            `json:"max_open_turns"`
	Preferences  map[string]any `json:"preferences,omitempty"`
	OutsideID    string         `json:"outside_id,omitempty"`
	Temporary    bool           `json:"temporary,omitempty"` // ends with its first turn
	Direct       bool           `json:"direct,omitempty"`    // made for one direct call
	InForce      *InForce       `json:"in_force,omitempty"`  // the app's settings when the session was created
	Workspace    Workspace      `json:"workspace,omitempty"`
	ReadOnly     bool           `json:"read_only,omitempty"` // nothing in the workspace is changed
	Attached     []EntityRef    `json:"attached_entities,omitempty"`
	MaxUSD       float64        `json:"max_budget_usd,omitempty"` // what all turns together may cost
}

// SessionUpdated changes the fields that are set.
type SessionUpdated struct {
	Title       *string         `json:"title,omitempty"`
	Model       *string         `json:"model,omitempty"`
	Runtime     *string         `json:"runtime,omitempty"`
	Temperature *float64        `json:"temperature,omitempty"`
	MaxOutput   *int64          `json:"max_output,omitempty"`
	Mode        *PermissionMode `json:"mode,omitempty"`
	Busy        *BusyMode       `json:"busy,omitempty"`
	Preferences map[string]any  `json:"preferences,omitempty"`       // replaces all preferences
	Rules       *[]Rule         `json:"rules,omitempty"`             // replaces the rules granted for the session
	Attached    *[]EntityRef    `json:"attached_entities,omitempty"` // replaces what is attached
	By          string          `json:"by,omitempty"`
}

// SessionEnded closes a session for good.
type SessionEnded struct {
	Status SessionStatus `json:"status"` // ended or expired
	Reason string        `json:"reason,omitempty"`
	By     string        `json:"by,omitempty"`
}

// SessionForked comes right after the events copied from Parent, up to and including At.
// It drops what a fork does not take over: rules, open interactions, the queue and
// provider state.
type SessionForked struct {
	Parent SessionID `json:"parent"`
	At     int64     `json:"at"`
	Title  string    `json:"title,omitempty"`
	By     string    `json:"by,omitempty"`
	// Workspace is the new session's. Empty: that of Parent, read-only.
	Workspace Workspace `json:"workspace,omitempty"`
	ReadOnly  bool      `json:"read_only,omitempty"`
}

// Origin is who or what began a turn.
type Origin string

const (
	OriginUser     Origin = "user"
	OriginSchedule Origin = "schedule"
	OriginRuntime  Origin = "runtime" // the runtime itself, for its background work
	OriginCall     Origin = "call"    // a direct tool call: a turn without a model
)

// TurnRequest is what a turn was asked. Queued and started turns carry it.
type TurnRequest struct {
	Origin  Origin         `json:"origin"`
	Message Message        `json:"message"`
	Call    *ToolCall      `json:"call,omitempty"` // for OriginCall
	Model   string         `json:"model,omitempty"`
	Hints   map[string]any `json:"hints,omitempty"`
	Budgets Budgets        `json:"budgets"` // already narrowed for this turn
	Key     string         `json:"key,omitempty"`
	Client  string         `json:"client,omitempty"` // the door it came through
	By      string         `json:"by,omitempty"`
	RetryOf TurnID         `json:"retry_of,omitempty"`
	NoTools bool           `json:"no_tools,omitempty"`
	Tools   []ToolDecl     `json:"tools,omitempty"` // the tools that the caller offered, as agents see them
	// Schedule is set if a schedule began the turn, or one that is retried.
	Schedule *Scheduled `json:"schedule,omitempty"`
}

// Scheduled is what a turn knows of the schedule that began it.
type Scheduled struct {
	ID    ScheduleID    `json:"id"`
	Run   ScheduleRunID `json:"run,omitempty"`
	Agent string        `json:"agent,omitempty"` // gets the message; empty: the app's entry agent
	Asks  bool          `json:"asks,omitempty"`  // the owner is asked, and the turn waits for the answer
}

// Entry is the agent that gets the message.
func (r TurnRequest) Entry(app *App) string {
	if r.Schedule != nil && r.Schedule.Agent != "" {
		return r.Schedule.Agent
	}
	return app.Entry
}

// Asks reports whether the turn was begun in a way that leaves somebody to ask.
func (r TurnRequest) Asks() bool {
	return r.Origin != OriginSchedule || r.Schedule != nil && r.Schedule.Asks
}

// TurnQueued puts a turn behind the open one. It releases a held queue, unless it is
// Late.
type TurnQueued struct {
	TurnRequest
	// Next puts the turn at the head of the queue: its message interrupts the open turn.
	Next bool `json:"next,omitempty"`
	// Late marks a message sent into a turn that ended before reading it. It is not a new
	// command, so a held queue stays held.
	Late bool `json:"late,omitempty"`
}

// TurnStarted opens a turn.
type TurnStarted struct {
	TurnRequest
	App Digest `json:"app"` // the resolved App, whose body is a blob
	// Zone is the time zone of the dates and times in the turn's prompts. Nil means UTC.
	Zone *Zone `json:"zone,omitempty"`
	// InForce holds the app's current settings, if they have changed.
	InForce *InForce `json:"in_force,omitempty"`
	// HookDue says that hooks must run before any model sees the message. It is in no prompt
	// until their hook.ran events follow.
	HookDue bool `json:"hook_due,omitempty"`
}

// Zone is a time zone at one moment. It keeps the offset, so times written with it do not
// depend on where and when it is read.
type Zone struct {
	Name   string `json:"name"`   // such as Europe/Berlin
	Offset int    `json:"offset"` // seconds east of UTC
}

// ZoneAt is the zone of l at time t.
func ZoneAt(l *time.Location, t time.Time) Zone {
	_, offset := t.In(l).Zone()
	return Zone{Name: l.String(), Offset: offset}
}

// In is t in the zone's local time. A nil Zone is UTC.
func (z *Zone) In(t time.Time) time.Time {
	if z == nil {
		return t.UTC()
	}
	return t.In(time.FixedZone(z.Name, z.Offset))
}

// TurnSteered is a message for the agent's next step.
type TurnSteered struct {
	Message Message `json:"message"`
	Key     string  `json:"key,omitempty"`
	By      string  `json:"by,omitempty"`
}

// TurnStopRequested records a request to stop a turn that cannot end at once: a started
// write has to finish first, or another turn runs next. After a crash it is the reason to
// cancel the turn instead of resuming it.
type TurnStopRequested struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// TurnInterrupted is appended by recovery only: when it finds a turn that its last owner
// left running, and once more when such a turn does not go on by itself after all.
type TurnInterrupted struct {
	Reason string `json:"reason"`
	// Resumes says that the turn goes on by itself. Whoever follows it keeps following:
	// turn.resumed comes next, or another event that says otherwise. Without it the turn
	// stays as it is until somebody resumes it. Old logs never have it.
	Resumes bool `json:"resumes,omitempty"`
	// Last is when the turn last gave a sign of life; its clock stopped then, so downtime
	// does not count. In old logs it is zero, and the time of this event counts.
	Last time.Time `json:"last,omitzero"`
}

// TurnResumed counts an attempt to continue an interrupted turn.
type TurnResumed struct {
	Attempt int    `json:"attempt"`
	Auto    bool   `json:"auto,omitempty"`
	By      string `json:"by,omitempty"`
}

// TurnCompleted ends a turn successfully.
type TurnCompleted struct {
	Response Response `json:"response"`
	Usage    Usage    `json:"usage"`
}

// TurnFailed ends a turn with an error. Response is the answer so far.
type TurnFailed struct {
	Error    ErrorInfo `json:"error"`
	Response *Response `json:"response,omitempty"`
	Usage    Usage     `json:"usage"`
}

// TurnCancelled ends a turn on request, or before it began.
type TurnCancelled struct {
	Reason   string    `json:"reason,omitempty"`
	By       string    `json:"by,omitempty"` // a user, or "superseded", "session_ended", "forked"
	Response *Response `json:"response,omitempty"`
	Usage    Usage     `json:"usage"`
}

// TurnExpired ends a turn that was not answered or resumed in time.
type TurnExpired struct {
	Reason string `json:"reason,omitempty"`
	Usage  Usage  `json:"usage"`
}

// AgentStarted opens an instance of an agent: the entry agent of a turn, or a
// sub-agent of Parent. The event's Agent is its path.
type AgentStarted struct {
	Name   string    `json:"name"`
	Parent AgentPath `json:"parent,omitempty"`
	Call   CallID    `json:"call,omitempty"`  // the call in the parent's reply, for a sub-agent
	Input  string    `json:"input,omitempty"` // a sub-agent's task
	Title  string    `json:"title,omitempty"` // the task in a few words, for people
	// Background says that Parent goes on meanwhile: Call has its result already, and the
	// sub-agent's result is told to Parent later.
	Background bool `json:"background,omitempty"`
}

// AgentHandoff gives the turn to another agent and starts it. The event's Agent is the
// one that hands off.
type AgentHandoff struct {
	From AgentPath `json:"from"`
	To   AgentPath `json:"to"`
	Name string    `json:"name"` // the receiving agent's definition
	Why  string    `json:"why,omitempty"`
	Call CallID    `json:"call,omitempty"`
}

// AgentEnded closes a sub-agent, and those below it that have not ended.
type AgentEnded struct {
	Result  string  `json:"result,omitempty"`
	Outcome Outcome `json:"outcome"`
	// Told says that a call of the parent returns the result of a background sub-agent.
	Told bool `json:"told,omitempty"`
}

// ModelStarted is committed before the request is sent. Reserved is the most the call may
// cost; a call without a reply counts as that.
type ModelStarted struct {
	Call     CallID `json:"call"`
	Model    string `json:"model"`
	Context  Digest `json:"context"` // digest of the request's JSON
	Reserved Usage  `json:"reserved"`
	Window   int64  `json:"window,omitempty"` // the model's whole context window in tokens, as known then
	// For is set if the call is no step of an agent; see [Sampling].
	For *Sampling `json:"for,omitempty"`
}

// ModelReplied is the authoritative record of what a call said.
type ModelReplied struct {
	Call       CallID `json:"call"`
	Model      string `json:"model"` // the model's name in the provider's answer
	Parts      []Part `json:"parts"`
	Usage      Usage  `json:"usage"`
	StopReason string `json:"stop_reason,omitempty"`
	TTFTMS     int64  `json:"ttft_ms,omitempty"` // from the request to the first fragment
	TookMS     int64  `json:"took_ms,omitempty"`

	// State is opaque data that the provider wants back with the next call.
	State     json.RawMessage `json:"state,omitempty"`
	Citations []Citation      `json:"citations,omitempty"` // what the provider's own tools found
	Warning   string          `json:"warning,omitempty"`   // why the reply is doubtful, as a sentence for people
}

// ModelFailed ends a call without a reply. Partial is the text before the failure.
type ModelFailed struct {
	Call    CallID    `json:"call"`
	Error   ErrorInfo `json:"error"`
	Retry   bool      `json:"retry,omitempty"` // the loop will call again
	Partial string    `json:"partial,omitempty"`
	Usage   Usage     `json:"usage"` // what the call counts as

	// Fallback is the model that replaces the failed one for the rest of the turn.
	Fallback string `json:"fallback,omitempty"`
}

// ToolRequested is a model's request to call a tool, in the same append as its
// model.replied. Call is the idempotency key for good.
type ToolRequested struct {
	Call  CallID          `json:"call"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	Redo  CallID          `json:"redo,omitempty"` // a human asked to do this unknown call again
	// Redacted says that the secrets of Input were taken out. Only the redactor sets it,
	// so a text that merely looks redacted is not mistaken for one that is.
	Redacted bool `json:"redacted,omitempty"`
}

// ToolStarted is committed before a call with effects is made.
type ToolStarted struct {
	Call     CallID          `json:"call"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"` // the input that is used: a person may have edited it
	Effect   Effect          `json:"effect"`
	Grant    InteractionID   `json:"grant,omitempty"`
	Deadline time.Time       `json:"deadline"`
	Attempt  int             `json:"attempt"`            // from 1; above 1 only for reads and idempotent calls
	Reaches  []string        `json:"reaches,omitempty"`  // what it acts on, if its tool can tell
	Redacted bool            `json:"redacted,omitempty"` // see ToolRequested; the tool itself got the secrets
	Run      RunBy           `json:"run,omitempty"`      // who runs it, see ToolDecl
	Claim    *Claim          `json:"claim,omitempty"`    // for RunClient: the client that claimed it
	Web      bool            `json:"web,omitempty"`      // the result holds what strangers wrote, see ToolDecl
	// Subject says what the call is about, see ToolDecl. It is empty if the tool declares none, if it
	// is long, and if secrets were taken out of the input.
	Subject string `json:"subject,omitempty"`
}

// Claim says which client has claimed a call. The client may report until the call's deadline.
type Claim struct {
	Interaction InteractionID `json:"interaction"` // the offer that was claimed
	By          string        `json:"by,omitempty"`
	Client      string        `json:"client,omitempty"` // the door it came through
	// Proof is the SHA-256 of the claimer's token, which only the claimer has.
	Proof Digest `json:"proof"`
}

// ToolEnded is a call's outcome.
type ToolEnded struct {
	ToolResult
	Name   string `json:"name"`
	Effect Effect `json:"effect,omitempty"`
	TookMS int64  `json:"took_ms,omitempty"`
	// Report identifies a client's report, so that a repeated report is recognized. It reveals
	// nothing about the report's content to anyone without the claimer's token.
	Report Digest `json:"report,omitempty"`
	// HookDue says that hooks must still run for the end of the call. Their hook.ran events follow.
	HookDue bool `json:"hook_due,omitempty"`
}

// InteractionOpened asks a human.
type InteractionOpened struct {
	Interaction
}

// InteractionAnswered is the first answer; there is no second.
type InteractionAnswered struct {
	ID     InteractionID `json:"id"`
	Answer Answer        `json:"answer"`
	By     string        `json:"by,omitempty"`
	Client string        `json:"client,omitempty"`
	// Redacted says that the secrets of the answer's Input were taken out.
	Redacted bool `json:"redacted,omitempty"`
}

// InteractionExpired closes an interaction that nobody answered in time, or
// whose turn ended.
type InteractionExpired struct {
	ID     InteractionID `json:"id"`
	Reason string        `json:"reason,omitempty"`
}

// ContextCompacted removes the exchanges up to and including Through from the prompt;
// they stay in the log.
type ContextCompacted struct {
	Through      int64 `json:"through"`
	Dropped      int   `json:"dropped"`
	TokensBefore int64 `json:"tokens_before"`
	TokensAfter  int64 `json:"tokens_after"`
}

// ContextTransferred says that a model takes over the session from another. Text is what
// its prompts of this turn say about that.
type ContextTransferred struct {
	From string `json:"from"`
	To   string `json:"to"`
	Text string `json:"text"`
}

// ContextObserved is an outside event that concerns the turn, such as a state that
// changed. It is shown to people and never put into a prompt.
type ContextObserved struct {
	Source string    `json:"source"` // who saw it, such as homeassistant
	Ref    string    `json:"ref"`    // what it happened to, such as an entity
	Text   string    `json:"text"`
	At     time.Time `json:"at"`
}

// HistoryCondensed says that retention removed the data of the step events From to To.
// The stretch ends with the end of a turn. Turns keeps what folds need, so a fold of any
// version still begins at event 1. Archive names where the whole events are. If To is 0,
// nothing was removed.
type HistoryCondensed struct {
	From    int64           `json:"from"`
	To      int64           `json:"to"`
	Archive string          `json:"archive,omitempty"`
	Turns   []CondensedTurn `json:"turns,omitempty"` // the turns that ended in the stretch, in log order
	Next    time.Time       `json:"next,omitzero"`   // when the oldest turn ended whose steps are not condensed yet

	// Base is the Session at To as written by fold version Version. It occurs in logs
	// from before Turns existed.
	Base    json.RawMessage `json:"base,omitempty"`
	Version int             `json:"version,omitempty"`
}

// ArtifactStored says that a large result was stored as an artifact.
type ArtifactStored struct {
	ArtifactRef
	Call CallID `json:"call,omitempty"`
}

// HookRan records that a hook ran, and what it decided.
type HookRan struct {
	Event    string     `json:"event"` // the hook event, such as PreToolUse
	Name     string     `json:"name"`
	Call     CallID     `json:"call,omitempty"`     // the tool call that it ran for
	Decision Verdict    `json:"decision,omitempty"` // empty: none
	Reason   string     `json:"reason,omitempty"`
	Error    *ErrorInfo `json:"error,omitempty"` // why the hook failed
	TookMS   int64      `json:"took_ms,omitempty"`

	Subject string `json:"subject,omitempty"` // what the matcher was compared with, if not a tool
	// Steers says that a UserPromptSubmit hook was asked about a message that steers the
	// running turn. If the hook blocked the message, the message is not in the log.
	Steers bool `json:"steers,omitempty"`

	// From is the level whose file has the hook: platform, app, user or workspace. It is empty
	// for a hook that the runtime itself ran and obeyed. Otherwise the engine obeys the
	// decision in this event and does not ask the hook again.
	From    string          `json:"from,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`   // the call's new input
	Output  *string         `json:"output,omitempty"`  // the call's output as the model sees it
	Context string          `json:"context,omitempty"` // shown to the model
	Message string          `json:"message,omitempty"` // shown to people
}

// FilesAnnounced is committed before a call changes files in the session's workspace. Paths are
// relative to the workspace and use slashes.
type FilesAnnounced struct {
	Call  CallID   `json:"call"`
	Paths []string `json:"paths"`
}

// FilesSaved lists the files in the session's workspace that a call has changed.
type FilesSaved struct {
	Call  CallID      `json:"call,omitempty"`
	Files []FileSaved `json:"files"`
}

// FileSaved is a file before and after a change.
type FileSaved struct {
	Path   string `json:"path"`             // relative to the workspace, using slashes
	Before Digest `json:"before,omitempty"` // empty: the file did not exist
	After  Digest `json:"after,omitempty"`  // empty: the file was deleted
	// Diff is a unified diff of the change, at most 16 KiB of it. Empty: it is not known, too
	// large, or about a file that is not text.
	Diff    string `json:"diff,omitempty"`
	Added   int    `json:"added,omitempty"`   // lines
	Removed int    `json:"removed,omitempty"` // lines
}

// RuntimeNoted is a note for people about a turn that only its runtime can make, such as that a
// process was restarted. It is never put into a prompt.
type RuntimeNoted struct {
	Kind string          `json:"kind"` // a short name in the runtime's own words
	Text string          `json:"text"` // for people
	Call CallID          `json:"call,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
}

// RuntimeKept says that a runtime has stored its own state of the session, replacing the
// previous one. The state is a blob. It is a cache: everything that matters is in the log.
type RuntimeKept struct {
	Runtime string `json:"runtime"`
	SHA256  Digest `json:"sha256,omitempty"` // empty: there is no usable state any more
	Size    int64  `json:"size,omitempty"`   // in bytes
	Entry   string `json:"entry,omitempty"`  // which entry of the state corresponds to the log's end, in the runtime's own terms
	// Afresh says that the state begins with this turn. Otherwise it continues the previous
	// state and includes what that held.
	Afresh bool `json:"afresh,omitempty"`
}

// BudgetReached precedes the turn.failed that it causes.
type BudgetReached struct {
	Name  string  `json:"name"` // steps, tool_calls, duration, tokens, usd, depth
	Limit float64 `json:"limit"`
	Used  float64 `json:"used"`
	Needs float64 `json:"needs,omitempty"` // the least the next step would need, if known
}

func (SessionCreated) EventType() EventType      { return "session.created" }
func (SessionUpdated) EventType() EventType      { return "session.updated" }
func (SessionEnded) EventType() EventType        { return "session.ended" }
func (SessionForked) EventType() EventType       { return "session.forked" }
func (TurnStarted) EventType() EventType         { return "turn.started" }
func (TurnQueued) EventType() EventType          { return "turn.queued" }
func (TurnSteered) EventType() EventType         { return "turn.steered" }
func (TurnStopRequested) EventType() EventType   { return "turn.stop_requested" }
func (TurnInterrupted) EventType() EventType     { return "turn.interrupted" }
func (TurnResumed) EventType() EventType         { return "turn.resumed" }
func (TurnCompleted) EventType() EventType       { return "turn.completed" }
func (TurnFailed) EventType() EventType          { return "turn.failed" }
func (TurnCancelled) EventType() EventType       { return "turn.cancelled" }
func (TurnExpired) EventType() EventType         { return "turn.expired" }
func (AgentStarted) EventType() EventType        { return "agent.started" }
func (AgentHandoff) EventType() EventType        { return "agent.handoff" }
func (AgentEnded) EventType() EventType          { return "agent.ended" }
func (ModelStarted) EventType() EventType        { return "model.started" }
func (ModelReplied) EventType() EventType        { return "model.replied" }
func (ModelFailed) EventType() EventType         { return "model.failed" }
func (ToolRequested) EventType() EventType       { return "tool.requested" }
func (ToolStarted) EventType() EventType         { return "tool.started" }
func (ToolEnded) EventType() EventType           { return "tool.ended" }
func (InteractionOpened) EventType() EventType   { return "interaction.opened" }
func (InteractionAnswered) EventType() EventType { return "interaction.answered" }
func (InteractionExpired) EventType() EventType  { return "interaction.expired" }
func (HistoryCondensed) EventType() EventType    { return "history.condensed" }
func (ContextCompacted) EventType() EventType    { return "context.compacted" }
func (ContextObserved) EventType() EventType     { return "context.observed" }
func (ContextTransferred) EventType() EventType  { return "context.transferred" }
func (ArtifactStored) EventType() EventType      { return "artifact.stored" }
func (BudgetReached) EventType() EventType       { return "budget.reached" }
func (HookRan) EventType() EventType             { return "hook.ran" }
func (FilesAnnounced) EventType() EventType      { return "files.announced" }
func (FilesSaved) EventType() EventType          { return "files.saved" }
func (RuntimeNoted) EventType() EventType        { return "runtime.noted" }
func (RuntimeKept) EventType() EventType         { return "runtime.kept" }
