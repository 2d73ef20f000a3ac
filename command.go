package parley

import "encoding/json"

// The commands, as the native API and the engine take them. Key and Client are
// not part of a body: a door sets them (Idempotency-Key, its own name).

// CreateSession makes a session.
type CreateSession struct {
	App          string         `json:"app"`
	OutsideID    string         `json:"outside_id,omitempty"` // the caller's own id; returns the session it already names
	Title        string         `json:"title,omitempty"`
	Model        string         `json:"model,omitempty"`
	Temperature  *float64       `json:"temperature,omitempty"` // of every agent; where the model takes one
	MaxOutput    int64          `json:"max_output,omitempty"`  // tokens of one reply; an agent's own lower cap stays
	Mode         PermissionMode `json:"mode,omitempty"`
	Policy       *Policy        `json:"policy,omitempty"`
	Budgets      Budgets        `json:"budgets,omitzero"`
	Busy         BusyMode       `json:"busy,omitempty"`
	MaxOpenTurns int            `json:"max_open_turns,omitempty"`
	Preferences  map[string]any `json:"preferences,omitempty"`
	Temporary    bool           `json:"temporary,omitempty"`

	Key    string `json:"-"`
	Client string `json:"-"`
}

// Send asks for a turn.
type Send struct {
	Message         string         `json:"message"`
	Attachments     []ArtifactID   `json:"attachments,omitempty"` // artifacts of the session that the model is to look at
	Model           string         `json:"model,omitempty"`
	Hints           map[string]any `json:"hints,omitempty"`
	Budgets         Budgets        `json:"budgets,omitzero"`
	NoTools         bool           `json:"no_tools,omitempty"`
	Busy            BusyMode       `json:"busy,omitempty"`             // for this message; empty: the session's
	ExpectedVersion int64          `json:"expected_version,omitempty"` // refuse when the log has gone on

	Key    string `json:"-"`
	Client string `json:"-"`
	// Fixed says that the sender has no way to choose Busy, so that no refusal tells
	// them to.
	Fixed bool `json:"-"`
}

// UpdateSession changes what it names.
type UpdateSession struct {
	Title           *string         `json:"title,omitempty"`
	Model           *string         `json:"model,omitempty"`
	Temperature     *float64        `json:"temperature,omitempty"`
	MaxOutput       *int64          `json:"max_output,omitempty"`
	Mode            *PermissionMode `json:"mode,omitempty"`
	Busy            *BusyMode       `json:"busy,omitempty"`
	Preferences     map[string]any  `json:"preferences,omitempty"`
	Pins            *[]Pin          `json:"pins,omitempty"`  // replaces all
	Rules           *[]Rule         `json:"rules,omitempty"` // those granted for the session that stay; the others are revoked
	ExpectedVersion int64           `json:"expected_version,omitempty"`
}

// ForkSession copies a session up to and including event At; 0 means all.
type ForkSession struct {
	At    int64  `json:"at,omitempty"`
	Title string `json:"title,omitempty"`

	Key string `json:"-"`
}

// AnswerInteraction answers an open interaction.
type AnswerInteraction struct {
	Answer
	Client string `json:"-"`
}

// CallTool asks for one tool call without a model: a turn of its own, in the
// named session or else in a temporary one of its own.
type CallTool struct {
	App     string          `json:"app,omitempty"`
	Session SessionID       `json:"session,omitempty"`
	Name    string          `json:"name"`
	Input   json.RawMessage `json:"input"`

	Redacted bool   `json:"-"` // Input comes from a log, without the secrets that it had
	Key      string `json:"-"`
	Client   string `json:"-"`
}
