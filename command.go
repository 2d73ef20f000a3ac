package parley

import (
	"encoding/json"
	"time"
)

// The commands, as the native API and the engine take them. Key and Client are not in the
// body: the door sets them, from the Idempotency-Key header and its own name.

// CreateSession makes a session.
type CreateSession struct {
	App          string         `json:"app"`
	OutsideID    string         `json:"outside_id,omitempty"` // the caller's own id; if a session has it already, that session is returned
	Title        string         `json:"title,omitempty"`
	Model        string         `json:"model,omitempty"`
	Runtime      string         `json:"runtime,omitempty"`     // carries out its turns: one that the app offers; empty: the app's
	Temperature  *float64       `json:"temperature,omitempty"` // for every agent whose model accepts it
	MaxOutput    int64          `json:"max_output,omitempty"`  // tokens per reply; an agent's own lower limit still applies
	Mode         PermissionMode `json:"mode,omitempty"`
	Policy       *Policy        `json:"policy,omitempty"`
	Budgets      Budgets        `json:"budgets,omitzero"`
	Busy         BusyMode       `json:"busy,omitempty"`
	MaxOpenTurns int            `json:"max_open_turns,omitempty"`
	Preferences  map[string]any `json:"preferences,omitempty"`
	Temporary    bool           `json:"temporary,omitempty"`
	// Workspace is where the session's tools find files. Empty: the app's default.
	Workspace Workspace `json:"workspace,omitempty"`
	// History is a conversation that was held elsewhere and that the session continues. Prompts
	// show it as restored.
	History []HistoryMessage `json:"history,omitempty"`
	// AttachedEntities are files of the workspace that are part of every prompt, as they are when
	// a turn begins.
	AttachedEntities []EntityRef `json:"attached_entities,omitempty"`
	// MaxBudgetUSD is what all turns of the session together may cost.
	MaxBudgetUSD float64 `json:"max_budget_usd,omitempty"`
	// MaxTurns is how often a model may be called to answer one message: another name for
	// max_steps in budgets.
	MaxTurns int `json:"max_turns,omitempty"`

	Key    string `json:"-"`
	Client string `json:"-"`
}

// Send asks for a turn.
type Send struct {
	Message     string       `json:"message"`
	Attachments []ArtifactID `json:"attachments,omitempty"` // artifacts of the session for the model to look at
	// Resources of the session's MCP servers are read before the message is accepted, and
	// become part of it; so do those that the message mentions as @server:uri. What cannot be
	// read is refused.
	Resources []ResourceRef  `json:"resources,omitempty"`
	Model     string         `json:"model,omitempty"`
	Hints     map[string]any `json:"hints,omitempty"`
	Budgets   Budgets        `json:"budgets,omitzero"`
	NoTools   bool           `json:"no_tools,omitempty"`
	// Tools are offered to the turn's agents in addition to the app's tools, if the app accepts
	// them ([App.CallerTools]). The caller runs them: see [ClaimCall]. They are gone when the
	// turn ends.
	Tools           []OfferedTool `json:"tools,omitempty"`
	Busy            BusyMode      `json:"busy,omitempty"`             // for this message; empty: the session's
	Agent           AgentPath     `json:"agent,omitempty"`            // with steer: the sub-agent that the message is for; empty: the agent in charge
	ExpectedVersion int64         `json:"expected_version,omitempty"` // refuse if the log has grown past this event number
	// Credentials are for the tools of the turn. They are not compared when an idempotency key
	// is repeated: the message may be sent again with different credentials.
	Credentials Credentials `json:"credentials,omitempty"`

	Key    string `json:"-"`
	Client string `json:"-"`
	// Schedule is set for a turn that a schedule begins.
	Schedule *Scheduled `json:"-"`
	// Again says that a person has a turn of Schedule done again, so it is no run of it.
	Again bool `json:"-"`
	// Fixed says that the sender has no way to choose Busy, so a refusal does not suggest
	// it.
	Fixed bool `json:"-"`
}

// OfferedTool is a tool that a caller offers with a message. Agents see its name with
// [CallerPrefix] in front.
type OfferedTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema,omitempty"` // must describe an object; empty: an object without fields
}

// UpdateSession changes the fields that are set.
type UpdateSession struct {
	Title       *string         `json:"title,omitempty"`
	Model       *string         `json:"model,omitempty"`
	Runtime     *string         `json:"runtime,omitempty"` // from the next turn on; refused while a turn is open. Empty: the app's
	Temperature *float64        `json:"temperature,omitempty"`
	MaxOutput   *int64          `json:"max_output,omitempty"`
	Mode        *PermissionMode `json:"mode,omitempty"`
	Busy        *BusyMode       `json:"busy,omitempty"`
	Preferences map[string]any  `json:"preferences,omitempty"`
	Pins        *[]Pin          `json:"pins,omitempty"`  // replaces all pins
	Rules       *[]Rule         `json:"rules,omitempty"` // the granted rules that stay; the others are revoked
	// AttachedEntities replaces what is attached.
	AttachedEntities *[]EntityRef `json:"attached_entities,omitempty"`
	ExpectedVersion  int64        `json:"expected_version,omitempty"`
}

// ForkSession copies a session up to and including event At; 0 copies all of it.
type ForkSession struct {
	At    int64  `json:"at,omitempty"`
	Title string `json:"title,omitempty"`
	// Workspace is the fork's. Empty: the session's, read-only, since two branches of one
	// conversation would overwrite each other's files.
	Workspace Workspace `json:"workspace,omitempty"`

	Key string `json:"-"`
}

// RewindSession takes a session back to before one of its user's messages, or undoes a rewind. What
// it takes back stays in the log.
type RewindSession struct {
	// Turn is the turn of the message. The session becomes what it was before it.
	Turn TurnID `json:"turn,omitempty"`
	// Undo is the number of the session.rewound event to undo, in place of Turn. The session becomes
	// what it was before that rewind; turns since then are taken back.
	Undo int64 `json:"undo,omitempty"`
	// What is taken back. Empty: both conversation and files, or for Undo what that rewind took back.
	What RewindWhat `json:"what,omitempty"`
	// Preview says that nothing is to change: the result is what the rewind would do.
	Preview         bool  `json:"preview,omitempty"`
	ExpectedVersion int64 `json:"expected_version,omitempty"` // refuse if the log has grown past this event number

	Key    string `json:"-"`
	Client string `json:"-"`
}

// RewindResult is what a rewind did, or in a preview what it would do.
type RewindResult struct {
	Rewind
	Session     SessionID     `json:"session_id"`
	Seq         int64         `json:"seq,omitempty"`     // the number of its session.rewound event, which undoes it; 0 in a preview
	Version     int64         `json:"version"`           // of the session; for expected_version after a preview
	Message     string        `json:"message,omitempty"` // the message that it goes back to
	Turns       []RewoundTurn `json:"turns"`             // taken back, the oldest first
	TurnsMore   int           `json:"turns_more,omitempty"`
	Back        []RewoundTurn `json:"back,omitempty"` // brought back, the oldest first
	BackMore    int           `json:"back_more,omitempty"`
	Files       []FileRewound `json:"files"` // changed after that point, first those that are left
	FilesMore   int           `json:"files_more,omitempty"`
	Effects     []EffectLeft  `json:"effects"` // done after that point, and not undone
	EffectsMore int           `json:"effects_more,omitempty"`
}

// RewoundTurn is a turn that a rewind takes back or brings back.
type RewoundTurn struct {
	ID      TurnID     `json:"id"`
	Message string     `json:"message"` // at most 200 characters
	Status  TurnStatus `json:"status"`
	At      time.Time  `json:"at"`
}

// ImportSession creates a session from an export.
type ImportSession struct {
	App string // empty: the one named in the archive
	// Workspace is the new session's workspace. Empty: the one named in the archive, if the
	// caller made the export and that workspace exists here.
	Workspace Workspace

	Key string
}

// AnswerInteraction answers an open interaction.
type AnswerInteraction struct {
	Answer
	Credentials Credentials `json:"credentials,omitempty"` // for the tools of the turn
	Client      string      `json:"-"`
}

// ClaimCall claims a tool call that is offered to clients.
type ClaimCall struct {
	// Token is the claimer's own secret, at least MinToken random characters. A claim repeated
	// with the same token, because the answer was lost, gets the same answer. Empty: the server
	// creates one.
	Token string `json:"token,omitempty"`

	Client string `json:"-"`
}

// Claimed is a tool call that a client has claimed.
type Claimed struct {
	Interaction InteractionID   `json:"interaction"`
	Session     SessionID       `json:"session"`
	Turn        TurnID          `json:"turn"`
	Call        CallID          `json:"call"` // the same for every claim of the call; usable as an idempotency key
	Tool        string          `json:"tool"`
	Input       json.RawMessage `json:"input"`
	Effect      Effect          `json:"effect"`
	Attempt     int             `json:"attempt"` // from 1; above 1 only for calls that may be repeated
	// Deadline is the time, by the server's clock, until which the claimer may report. LeftMS
	// is the time that was left when the server answered, in milliseconds.
	Deadline time.Time `json:"deadline"`
	LeftMS   int64     `json:"left_ms"`
	// Token is required in the report. Nobody else is shown it.
	Token string `json:"token"`
}

// ReportCall reports the outcome of a call that the client has claimed.
type ReportCall struct {
	Token string `json:"token"`
	// Outcome is ok or error; for a call with effects it may also be unknown. Empty: ok.
	Outcome Outcome         `json:"outcome,omitempty"`
	Output  string          `json:"output,omitempty"` // what the model sees
	Data    json.RawMessage `json:"data,omitempty"`   // structured output, for a tool with an output schema
	Files   []ReportFile    `json:"files,omitempty"`  // other results of the call, such as a picture
}

// ReportFile is a file in a report. It is kept as an artifact.
type ReportFile struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type,omitempty"`
	Data      []byte `json:"data"` // in JSON: base64
}

// CallTool asks for one tool call without a model. The call is a turn of its own, in the
// named session or else in a temporary one.
type CallTool struct {
	App     string    `json:"app,omitempty"`
	Session SessionID `json:"session,omitempty"`
	// Workspace is that of a call without a session. Empty: the app's default.
	Workspace Workspace       `json:"workspace,omitempty"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	// Credentials are for this call only.
	Credentials Credentials `json:"credentials,omitempty"`

	Redacted bool   `json:"-"` // Input comes from a log, where its secrets were taken out
	Key      string `json:"-"`
	Client   string `json:"-"`
}
