package parley

import "encoding/json"

// The commands, as the native API and the engine take them. Key and Client are not in the
// body: the door sets them, from the Idempotency-Key header and its own name.

// CreateSession makes a session.
type CreateSession struct {
	App          string         `json:"app"`
	OutsideID    string         `json:"outside_id,omitempty"` // the caller's own id; if a session has it already, that session is returned
	Title        string         `json:"title,omitempty"`
	Model        string         `json:"model,omitempty"`
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

	Key    string `json:"-"`
	Client string `json:"-"`
}

// Send asks for a turn.
type Send struct {
	Message         string         `json:"message"`
	Attachments     []ArtifactID   `json:"attachments,omitempty"` // artifacts of the session for the model to look at
	Model           string         `json:"model,omitempty"`
	Hints           map[string]any `json:"hints,omitempty"`
	Budgets         Budgets        `json:"budgets,omitzero"`
	NoTools         bool           `json:"no_tools,omitempty"`
	Busy            BusyMode       `json:"busy,omitempty"`             // for this message; empty: the session's
	Agent           AgentPath      `json:"agent,omitempty"`            // with steer: the sub-agent that the message is for; empty: the agent in charge
	ExpectedVersion int64          `json:"expected_version,omitempty"` // refuse if the log has grown past this event number

	Key    string `json:"-"`
	Client string `json:"-"`
	// Fixed says that the sender has no way to choose Busy, so a refusal does not suggest
	// it.
	Fixed bool `json:"-"`
}

// UpdateSession changes the fields that are set.
type UpdateSession struct {
	Title           *string         `json:"title,omitempty"`
	Model           *string         `json:"model,omitempty"`
	Temperature     *float64        `json:"temperature,omitempty"`
	MaxOutput       *int64          `json:"max_output,omitempty"`
	Mode            *PermissionMode `json:"mode,omitempty"`
	Busy            *BusyMode       `json:"busy,omitempty"`
	Preferences     map[string]any  `json:"preferences,omitempty"`
	Pins            *[]Pin          `json:"pins,omitempty"`  // replaces all pins
	Rules           *[]Rule         `json:"rules,omitempty"` // the granted rules that stay; the others are revoked
	ExpectedVersion int64           `json:"expected_version,omitempty"`
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

// AnswerInteraction answers an open interaction.
type AnswerInteraction struct {
	Answer
	Client string `json:"-"`
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

	Redacted bool   `json:"-"` // Input comes from a log, where its secrets were taken out
	Key      string `json:"-"`
	Client   string `json:"-"`
}
