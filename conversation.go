package parley

import "time"

// ConversationStatus says what a conversation does.
type ConversationStatus string

const (
	ConversationIdle      ConversationStatus = "idle"
	ConversationStreaming ConversationStatus = "streaming" // a turn runs, waits or is queued
	ConversationError     ConversationStatus = "error"     // the last turn failed, or was interrupted and does not go on by itself
)

// Conversation is a session as clients show it that keep conversations: what a list and a page of one
// need, without the log.
type Conversation struct {
	// ID is the client's own, if the conversation was created with one, else the session's.
	ID        string    `json:"id"`
	SessionID SessionID `json:"session_id"`
	App       string    `json:"app"`
	Title     string    `json:"title"`
	// WorkspacePath is the workspace's name: its path below the user's folder, or shared/NAME. Where the server
	// keeps it is not shown.
	WorkspacePath    Workspace          `json:"workspace_path"`
	AttachedEntities []EntityRef        `json:"attached_entities"`
	Status           ConversationStatus `json:"status"`
	// StreamingContent is the answer so far while a turn runs, at most 500 ms old. Lists leave it out.
	StreamingContent string            `json:"streaming_content"`
	Usage            ConversationUsage `json:"usage"`
	Cost             float64           `json:"cost"`            // in US dollars
	Error            string            `json:"error,omitempty"` // why the status is error
	Waiting          int               `json:"waiting"`         // questions that wait for a person
	CreatedAt        time.Time         `json:"created_at"`
	UpdatedAt        time.Time         `json:"updated_at"`
	Version          int64             `json:"version"` // the number of the session's last event
}

// ConversationUsage is what the turns of a conversation have used.
type ConversationUsage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
}

// CreateConversation makes a conversation.
type CreateConversation struct {
	ID               string           `json:"id,omitempty"`  // the client's own; if a conversation of the app has it already, that one is returned
	App              string           `json:"app,omitempty"` // empty: the app whose wire conversations is
	Title            string           `json:"title,omitempty"`
	WorkspacePath    string           `json:"workspace_path,omitempty"` // the workspace's name, or its folder on the server; empty: the app's default
	AttachedEntities []EntityRef      `json:"attached_entities,omitempty"`
	History          []HistoryMessage `json:"history,omitempty"` // what was said before, elsewhere
	Model            string           `json:"model,omitempty"`
	MaxBudgetUSD     float64          `json:"max_budget_usd,omitempty"`
	MaxTurns         int              `json:"max_turns,omitempty"`

	Key string `json:"-"` // as in CreateSession
}

// UpdateConversation changes the fields that are set.
type UpdateConversation struct {
	Title            *string      `json:"title,omitempty"`
	AttachedEntities *[]EntityRef `json:"attached_entities,omitempty"` // replaces what is attached
}

// ConversationChange is a frame of a conversation's live form. Each change of the status is one, in the order of
// the session's log.
type ConversationChange struct {
	Seq     int64              `json:"seq"` // of the event
	TurnID  TurnID             `json:"turn_id"`
	Status  ConversationStatus `json:"status"`
	Content string             `json:"content,omitempty"` // the answer, or what there is of it, when a turn has ended
	Usage   *ConversationUsage `json:"usage,omitempty"`   // of the turn that has ended
	Cost    float64            `json:"cost,omitempty"`    // of it
	Error   string             `json:"error,omitempty"`
}

// ConversationText is a frame of a conversation's live form: the answer so far.
type ConversationText struct {
	TurnID           TurnID `json:"turn_id"`
	StreamingContent string `json:"streaming_content"`
}

// ConversationOf returns what an event changes of a conversation's status, and whether it does.
func ConversationOf(e Event) (c ConversationChange, ok bool) {
	p, err := e.Payload()
	if err != nil {
		return c, false
	}
	c = ConversationChange{Seq: e.Seq, TurnID: e.Turn, Status: ConversationIdle}
	ended := func(r *Response, u Usage) {
		c.Usage, c.Cost = &ConversationUsage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens}, u.USD
		if r != nil {
			c.Content = r.Message
		}
	}
	switch p := p.(type) {
	case TurnStarted, TurnResumed:
		c.Status = ConversationStreaming
	case TurnCompleted:
		ended(&p.Response, p.Usage)
	case TurnCancelled:
		ended(p.Response, p.Usage)
	case TurnExpired:
		ended(nil, p.Usage)
	case TurnFailed:
		c.Status, c.Error = ConversationError, p.Error.Message
		ended(p.Response, p.Usage)
	case TurnInterrupted:
		if c.Status = ConversationStreaming; !p.Resumes {
			c.Status, c.Error = ConversationError, interruptedText
		}
	default:
		return c, false
	}
	return c, true
}

const interruptedText = "the turn was interrupted; resume it, or send another message"

// Conversation returns the session as a conversation, without what the rows of its turns say: Error of a failed
// one is empty.
func (in SessionInfo) Conversation() Conversation {
	c := Conversation{
		ID: firstText(in.OutsideID, string(in.ID)), SessionID: in.ID, App: in.App, Title: firstText(in.Title, in.Preview), WorkspacePath: in.Workspace, AttachedEntities: []EntityRef{},
		Status: ConversationIdle, Usage: ConversationUsage{InputTokens: in.Totals.Usage.InputTokens, OutputTokens: in.Totals.Usage.OutputTokens}, Cost: in.Totals.Usage.USD,
		Waiting: in.Waiting, CreatedAt: in.CreatedAt, UpdatedAt: in.UpdatedAt, Version: in.Version,
	}
	c.AttachedEntities = append(c.AttachedEntities, in.Attached...)
	switch {
	case in.Turn != nil && in.Turn.Status == StatusInterrupted:
		c.Status, c.Error = ConversationError, interruptedText
	case in.Turn != nil, len(in.Queue) > 0 && !in.Held:
		c.Status = ConversationStreaming
	case in.Last != nil && in.Last.Status == StatusFailed:
		c.Status = ConversationError
	}
	return c
}

func firstText(list ...string) string {
	for _, t := range list {
		if t != "" {
			return t
		}
	}
	return ""
}
