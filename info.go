package parley

import "time"

// SessionStatus is the stage of a session's life.
type SessionStatus string

const (
	Active  SessionStatus = "active"
	Ended   SessionStatus = "ended"
	Expired SessionStatus = "expired"
)

// TurnStatus is the stage of a turn's life.
type TurnStatus string

const (
	StatusPending     TurnStatus = "pending" // queued
	StatusRunning     TurnStatus = "running"
	StatusStreaming   TurnStatus = "streaming" // running, and text is arriving; never in the log
	StatusWaiting     TurnStatus = "waiting"   // for a human
	StatusCompleted   TurnStatus = "completed"
	StatusFailed      TurnStatus = "failed"
	StatusCancelled   TurnStatus = "cancelled"
	StatusExpired     TurnStatus = "expired"
	StatusInterrupted TurnStatus = "interrupted" // a crash stopped it; it can be resumed
)

// Ended reports whether nothing more can happen in the turn.
func (s TurnStatus) Ended() bool {
	switch s {
	case StatusCompleted, StatusFailed, StatusCancelled, StatusExpired:
		return true
	}
	return false
}

// Open reports whether the turn holds the session: it runs or waits.
func (s TurnStatus) Open() bool {
	return s == StatusRunning || s == StatusStreaming || s == StatusWaiting
}

// Totals is what a session has used.
type Totals struct {
	Turns     int   `json:"turns"`
	Steps     int   `json:"steps"`
	ToolCalls int   `json:"tool_calls"`
	Usage     Usage `json:"usage"`
}

// SessionInfo is a session as lists show it: an index row, and the body of
// GET /v1/sessions/{id}.
type SessionInfo struct {
	ID         SessionID     `json:"id"`
	App        string        `json:"app"`
	User       string        `json:"user"`
	Org        string        `json:"org,omitempty"`
	OutsideID  string        `json:"outside_id,omitempty"`
	Title      string        `json:"title"`
	Preview    string        `json:"preview,omitempty"` // first user message, at most 80 characters
	Status     SessionStatus `json:"status"`
	Model      string        `json:"model,omitempty"`   // the session's own, or the app's as of its last turn
	Runtime    string        `json:"runtime,omitempty"` // the session's own; empty: the app's
	Policy     *Policy       `json:"policy,omitempty"`  // the policy in force without rules: the app's as of its last turn, narrowed by the session's own
	Busy       BusyMode      `json:"busy"`
	Parent     SessionID     `json:"parent,omitempty"`
	Workspace  Workspace     `json:"workspace,omitempty"`
	ReadOnly   bool          `json:"read_only,omitempty"` // nothing in the workspace is changed
	Attached   []EntityRef   `json:"attached_entities,omitempty"`
	MaxUSD     float64       `json:"max_budget_usd,omitempty"` // what all turns together may cost; 0: anything
	MaxSteps   int           `json:"max_turns,omitempty"`      // how often a model may be called to answer one message; 0: any number
	Direct     bool          `json:"direct,omitempty"`         // made for one direct call: listed only on request, deleted after a week
	CreatedAt  time.Time     `json:"created_at"`
	UpdatedAt  time.Time     `json:"updated_at"`
	StepsSince time.Time     `json:"steps_since,omitzero"` // when the oldest turn ended whose steps are not condensed yet
	Version    int64         `json:"version"`              // number of the last event
	Turn       *TurnRef      `json:"turn,omitempty"`       // the open or interrupted turn
	Last       *TurnRef      `json:"last,omitempty"`       // the turn that ended last
	Queue      []TurnID      `json:"queue,omitempty"`      // turns queued behind it
	Rewound    *Rewound      `json:"rewound,omitempty"`    // the last rewind that was not taken back
	Rewinding  bool          `json:"rewinding,omitempty"`  // a rewind is restoring files
	Held       bool          `json:"held,omitempty"`       // the queue waits for the next command, because a turn was stopped or the server crashed
	Waiting    int           `json:"waiting"`              // open interactions
	Offered    int           `json:"offered,omitempty"`    // of these, calls that wait for a client program, and not for a person
	Totals     Totals        `json:"totals"`
}

// TurnRef is a turn's id and status.
type TurnRef struct {
	ID     TurnID     `json:"id"`
	Status TurnStatus `json:"status"`
}

// Over reports whether nothing more comes of the turn by itself: it has ended, or it was
// interrupted and does not go on before somebody resumes it.
func (t TurnInfo) Over() bool {
	return t.Status.Ended() || t.Status == StatusInterrupted && !t.Resumes
}

// TurnInfo is a turn as lists show it, and the body of GET /v1/turns/{id}.
type TurnInfo struct {
	ID           TurnID          `json:"id"`
	SessionID    SessionID       `json:"session_id"`
	Status       TurnStatus      `json:"status"`
	Stopping     bool            `json:"stopping,omitempty"`
	Resumes      bool            `json:"resumes,omitempty"` // interrupted, and goes on by itself
	Origin       Origin          `json:"origin"`
	Message      string          `json:"message"`
	Client       string          `json:"client,omitempty"`
	CreatedAt    time.Time       `json:"created_at"`
	UpdatedAt    time.Time       `json:"updated_at"`
	EndedAt      time.Time       `json:"ended_at,omitzero"`
	Response     *Response       `json:"response,omitempty"`
	Error        *ErrorInfo      `json:"error,omitempty"`
	Reason       string          `json:"reason,omitempty"` // why it was cancelled or interrupted
	Spent        Spent           `json:"spent"`
	Attempts     int             `json:"attempts,omitempty"`
	RetryOf      TurnID          `json:"retry_of,omitempty"`
	Key          string          `json:"key,omitempty"`
	FirstSeq     int64           `json:"first_seq"`
	LastSeq      int64           `json:"last_seq"`
	Rewound      int64           `json:"rewound,omitempty"`      // the number of the session.rewound event that took it back
	Interactions []InteractionID `json:"interactions,omitempty"` // the open ones
	Offered      int             `json:"offered,omitempty"`      // of these, calls that wait for a client program, and not for a person
}
