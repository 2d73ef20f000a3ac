package parley

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"
)

// Transcript is the fold that people look at: every turn with its steps and its answer.
// It is a view, paged from the log, and never needed to drive a session. The web page
// folds the same events in TypeScript; testdata/logs holds logs and the expected result
// for both.
type Transcript struct {
	Session   SessionID      `json:"session"`
	App       string         `json:"app"`
	Title     string         `json:"title"`
	Status    SessionStatus  `json:"status"`
	Seq       int64          `json:"seq"`
	Restored  []RestoredView `json:"restored,omitempty"` // an earlier conversation, which the session continues
	Turns     []TurnView     `json:"turns"`              // in the order in which they were asked, including queued ones and those that were taken back; null before the first
	Rewinds   []RewindView   `json:"rewinds,omitempty"`
	Rewinding bool           `json:"rewinding,omitempty"` // a rewind is restoring files
}

// RestoredView is an exchange of an earlier conversation.
type RestoredView struct {
	Seq     int64  `json:"seq"`
	Message string `json:"message,omitempty"`
	Answer  string `json:"answer,omitempty"`
}

// TurnView is one turn as people see it.
type TurnView struct {
	ID           TurnID        `json:"id"`
	Status       TurnStatus    `json:"status"`
	Stopping     bool          `json:"stopping,omitempty"`
	Resumes      bool          `json:"resumes,omitempty"` // interrupted, and goes on by itself
	Seq          int64         `json:"seq"`               // the number of the event that began it; while it is queued, of the one that queued it
	Rewound      int64         `json:"rewound,omitempty"` // the number of the rewind that took it back
	Origin       Origin        `json:"origin"`
	Message      string        `json:"message"`
	Resources    []ResourceRef `json:"resources,omitempty"`   // attached to the message
	Attachments  []Attachment  `json:"attachments,omitempty"` // files that the message has
	By           string        `json:"by,omitempty"`
	Client       string        `json:"client,omitempty"`
	RetryOf      TurnID        `json:"retry_of,omitempty"`
	AskedAt      time.Time     `json:"asked_at"`
	EndedAt      *time.Time    `json:"ended_at,omitempty"`
	Entry        string        `json:"entry,omitempty"` // the agent that answers the user
	Steps        []StepView    `json:"steps"`
	Texts        []TextView    `json:"texts"`            // what models said, one per call
	Answer       string        `json:"answer,omitempty"` // set when the turn has ended
	Citations    []Citation    `json:"citations,omitempty"`
	FollowUps    []string      `json:"follow_ups,omitempty"`
	Error        *ErrorInfo    `json:"error,omitempty"`
	Reason       string        `json:"reason,omitempty"`
	Usage        *Usage        `json:"usage,omitempty"`
	Models       []string      `json:"models"`            // the models that replied, each once
	Warning      string        `json:"warning,omitempty"` // why the last doubtful reply is doubtful, as a sentence for people
	Interactions []Interaction `json:"interactions,omitempty"`
}

// StepType says which fields of a StepView are set.
type StepType string

const (
	StepAgentStart StepType = "agent_start" // Agent
	StepToolCall   StepType = "tool_call"   // Agent, Tool, Call, Input
	StepToolResult StepType = "tool_result" // Agent, Tool, Call, Result, Outcome
	StepHandoff    StepType = "handoff"     // From, To
	StepNote       StepType = "note"        // Text: interruption, resumption, retry, steer or budget
)

// StepView is one line of a turn's thought process.
type StepView struct {
	Seq     int64           `json:"seq"`
	At      time.Time       `json:"at"`
	Type    StepType        `json:"type"`
	Agent   string          `json:"agent,omitempty"`
	Tool    string          `json:"tool,omitempty"`
	Call    CallID          `json:"call,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	Result  string          `json:"result,omitempty"`
	Outcome Outcome         `json:"outcome,omitempty"`
	From    string          `json:"from,omitempty"`
	To      string          `json:"to,omitempty"`
	Text    string          `json:"text,omitempty"`
}

// TextView is what one model call said. While Open, deltas and partials of the call may
// show more of its text; they are not part of this fold.
type TextView struct {
	Call  CallID `json:"call"`
	Agent string `json:"agent"`
	Text  string `json:"text"`
	Open  bool   `json:"open,omitempty"`
	Cut   bool   `json:"cut,omitempty"`
}

// Apply advances the view by one event. An event older than Seq is ignored, so a repeated
// event changes nothing. Unknown types and condensed data only advance Seq.
func (v *Transcript) Apply(e Event) {
	if e.Seq <= v.Seq {
		return
	}
	v.Seq = e.Seq
	p, err := e.Payload()
	if err != nil {
		return
	}
	switch p := p.(type) {
	case SessionCreated:
		v.Session, v.App, v.Title, v.Status = e.Session, p.App, p.Title, Active
	case HistoryRestored:
		v.Restored = append(v.Restored, RestoredView{Seq: e.Seq, Message: p.User, Answer: p.Reply})
	case SessionUpdated:
		if p.Title != nil {
			v.Title = *p.Title
		}
	case SessionEnded:
		v.Status = p.Status
	case SessionForked:
		v.Session, v.Title, v.Status, v.Rewinding = e.Session, p.Title, Active, false
	case SessionRewinding:
		v.Rewinding = true
	case SessionRewound:
		v.rewound(e, p)
	case TurnQueued:
		v.ask(e, p.TurnRequest, StatusPending)
	case TurnStarted:
		if t := v.turn(e.Turn); t != nil {
			t.Status, t.Seq = StatusRunning, e.Seq
		} else {
			v.ask(e, p.TurnRequest, StatusRunning)
		}
	default:
		if t := v.turn(e.Turn); t != nil {
			t.apply(e, p)
		}
	}
}

func (v *Transcript) ask(e Event, r TurnRequest, status TurnStatus) {
	v.Turns = append(v.Turns, TurnView{
		ID: e.Turn, Status: status, Seq: e.Seq, Origin: r.Origin, Message: r.Message.Text(), Resources: r.Message.Resources(), Attachments: r.Message.Attachments(), By: r.By, Client: r.Client,
		RetryOf: r.RetryOf, AskedAt: e.Time, Steps: []StepView{}, Texts: []TextView{}, Models: []string{},
	})
}

func (v *Transcript) turn(id TurnID) *TurnView {
	for i := len(v.Turns) - 1; i >= 0; i-- {
		if v.Turns[i].ID == id {
			return &v.Turns[i]
		}
	}
	return nil
}

func (t *TurnView) apply(e Event, p Payload) {
	agent := string(e.Agent)
	step := func(s StepView) {
		s.Seq, s.At = e.Seq, e.Time
		t.Steps = append(t.Steps, s)
	}
	note := func(text string) { step(StepView{Type: StepNote, Agent: agent, Text: text}) }
	switch p := p.(type) {
	case AgentStarted:
		if p.Name == MemoryAgent {
			return
		}
		if t.Entry == "" {
			t.Entry = agent
		}
		step(StepView{Type: StepAgentStart, Agent: agent})
	case AgentHandoff:
		step(StepView{Type: StepHandoff, From: string(p.From), To: string(p.To)})
		step(StepView{Type: StepAgentStart, Agent: string(p.To)})
	case ModelStarted:
		if e.Agent.OfMemory() {
			return
		}
		if p.For != nil {
			step(StepView{Type: StepNote, Agent: string(e.Agent.Caller()), Text: p.For.Note(p.Model)})
			return
		}
		t.Texts = append(t.Texts, TextView{Call: p.Call, Agent: agent, Open: true})
	case ModelReplied:
		t.closeText(p.Call, PartsText(p.Parts), false)
		t.addModel(p.Model)
		if p.Warning != "" && !e.Agent.OfSampling() {
			t.Warning = p.Warning
		}
	case ModelFailed:
		t.closeText(p.Call, p.Partial, p.Partial != "")
		if e.Agent.OfSampling() {
			step(StepView{Type: StepNote, Agent: string(e.Agent.Caller()), Text: "the server got no reply: " + p.Error.Message})
			return
		}
		if p.Retry {
			note("the model call failed and is tried again: " + p.Error.Message)
		}
	case ToolStarted:
		if p.Attempt <= 1 {
			step(StepView{Type: StepToolCall, Agent: agent, Tool: p.Name, Call: p.Call, Input: p.Input})
		}
	case ToolEnded:
		step(StepView{Type: StepToolResult, Agent: agent, Tool: p.Name, Call: p.Call, Result: p.Output, Outcome: p.Outcome})
	case TurnSteered:
		text := "message from the user: " + p.Message.Text()
		for _, r := range p.Message.Resources() {
			text += "\n[attached: " + r.String() + "]"
		}
		note(text)
	case TurnStopRequested:
		t.Stopping = true
	case TurnInterrupted:
		t.Status, t.Reason, t.Resumes = StatusInterrupted, p.Reason, p.Resumes
		note("interrupted: " + p.Reason)
	case TurnResumed:
		t.Status, t.Reason, t.Resumes = StatusRunning, "", false
		note("resumed")
	case MemoryUpdated:
		if p.Dropped > 0 {
			note("earlier turns were summed up")
		}
	case BudgetReached:
		note("budget reached: " + p.Name)
	case HookRan, FilesSaved, RuntimeNoted:
		if text := NoteOf(p); text != "" {
			note(text)
		}
	case InteractionOpened:
		t.Status = StatusWaiting
		t.Interactions = append(t.Interactions, p.Interaction)
	case ContextObserved:
		t.Interactions = hearing(t.Interactions, p)
	case InteractionAnswered:
		t.closeInteraction(p.ID)
	case InteractionExpired:
		t.closeInteraction(p.ID)
	case TurnCompleted:
		t.Answer, t.Citations, t.FollowUps = p.Response.Message, p.Response.Citations, p.Response.FollowUps
		t.end(e, StatusCompleted, p.Usage)
	case TurnFailed:
		t.Error, t.Answer = &p.Error, replyOf(p.Response)
		t.end(e, StatusFailed, p.Usage)
	case TurnCancelled:
		t.Reason, t.Answer = p.Reason, replyOf(p.Response)
		t.end(e, StatusCancelled, p.Usage)
	case TurnExpired:
		t.Reason = p.Reason
		t.end(e, StatusExpired, p.Usage)
	}
}

// denials describe, for events that are not about calls, what a hook's denial meant.
var denials = map[string]string{
	"UserPromptSubmit": "blocked the message", "Stop": "made the agent continue", "SubagentStop": "made the agent continue",
	"PreCompact": "kept earlier turns from being summed up",
}

// NoteOf describes a hook's run, a change of files or a runtime's note to people, on one line.
// It returns "" if people need not know of it, and for other payloads.
func NoteOf(p Payload) string {
	switch p := p.(type) {
	case HookRan:
		why := ""
		if p.Reason != "" {
			why = ": " + p.Reason
		}
		switch {
		case p.Error != nil:
			return "the hook " + p.Name + " failed: " + p.Error.Message
		case p.Message != "":
			return "the hook " + p.Name + " says: " + p.Message
		case p.Decision == Deny:
			return "the hook " + p.Name + " " + cmp.Or(denials[p.Event], "denied it") + why
		case p.Decision == Ask:
			return "the hook " + p.Name + " wants a person to be asked" + why
		case len(p.Input) > 0:
			return "the hook " + p.Name + " changed the input" + why
		case p.Output != nil || p.Context != "":
			return "the hook " + p.Name + " told the model something about it"
		}
	case FilesSaved:
		if len(p.Files) == 0 {
			return ""
		}
		text := "changed " + p.Files[0].Path
		if more := len(p.Files) - 1; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		return text
	case RuntimeNoted:
		return p.Text
	}
	return ""
}

func (t *TurnView) end(e Event, s TurnStatus, u Usage) {
	at := e.Time
	t.Status, t.Stopping, t.Resumes, t.EndedAt, t.Usage, t.Interactions = s, false, false, &at, &u, nil
}

func (t *TurnView) closeText(call CallID, text string, cut bool) {
	for i := range t.Texts {
		if t.Texts[i].Call == call {
			t.Texts[i].Text, t.Texts[i].Open, t.Texts[i].Cut = text, false, cut
		}
	}
}

func (t *TurnView) addModel(name string) {
	for _, m := range t.Models {
		if m == name {
			return
		}
	}
	t.Models = append(t.Models, name)
}

func (t *TurnView) closeInteraction(id InteractionID) {
	var open []Interaction
	for _, in := range t.Interactions {
		if in.ID != id {
			open = append(open, in)
		}
	}
	if t.Interactions = open; len(open) == 0 && t.Status == StatusWaiting {
		t.Status = StatusRunning
	}
}
