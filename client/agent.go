package client

import (
	"context"
	"encoding/json"
	"iter"
	"strings"

	"github.com/parley-server/parley"
)

// Agent is a chat agent over one app: four calls and five kinds of events. It does nothing that
// the other methods of a Client cannot do. Everything else, such as forks, rewinds and
// permission modes, is done with them, by the ids that an Agent returns.
//
// An Agent is safe for concurrent use.
type Agent struct {
	c   *Client
	app string
}

// Agent returns the agent of an app.
func (c *Client) Agent(app string) *Agent { return &Agent{c, app} }

// AgentEvent is [TextDelta], [ToolUse], [ToolResult], [Done] or [Error].
type AgentEvent interface{ agentEvent() }

type (
	// TextDelta is text that the answer goes on with. All of them together are the answer.
	TextDelta struct {
		Text string `json:"text"`
	}
	// ToolUse is a call of a tool that the model asks for. A question to the user is a call of
	// AskUserQuestion, see [Agent.Answer].
	ToolUse struct {
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
		ID    string          `json:"id"`
	}
	// ToolResult is what came of a call.
	ToolResult struct {
		ToolUseID string `json:"tool_use_id"`
		Output    string `json:"output"`
	}
	// Done is the end of the turn. If IsError is set, Result says why it has no whole answer: it
	// failed, was interrupted, or reached a limit.
	Done struct {
		Usage   DoneUsage `json:"usage"`
		Cost    float64   `json:"cost"` // of the turn, in US dollars
		IsError bool      `json:"is_error"`
		Result  string    `json:"result"`
	}
	// Error says that there are no more events, though the turn may go on: the message was not
	// accepted, the server stays away, or the turn was cut off and waits to be resumed.
	Error struct {
		Message string `json:"message"`
		Err     error  `json:"-"` // a [*parley.Error], or the cause of the context
	}
)

// DoneUsage is what a turn used.
type DoneUsage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
}

func (TextDelta) agentEvent()  {}
func (ToolUse) agentEvent()    {}
func (ToolResult) agentEvent() {}
func (Done) agentEvent()       {}
func (Error) agentEvent()      {}

// CreateSession makes a session in a workspace; empty means the app's default. The session
// continues the conversation in history, and the attached entities are part of each of its prompts.
// Both may be nil.
func (a *Agent) CreateSession(ctx context.Context, workspace parley.Workspace, history []parley.HistoryMessage, attached []parley.EntityRef) (parley.SessionID, error) {
	s, _, err := a.c.CreateSession(ctx, parley.CreateSession{App: a.app, Workspace: workspace, History: history, AttachedEntities: attached})
	return s.ID, err
}

// SendMessage sends a message and yields what becomes of it: any number of [TextDelta], [ToolUse]
// and [ToolResult], then one [Done] or [Error]. It goes on through broken connections and restarts
// of the server, as [Client.FollowTurn] does: nothing comes twice, and nothing is missing. While the
// turn waits for a human, it waits, too. Whoever stops reading does not stop the turn.
func (a *Agent) SendMessage(ctx context.Context, id parley.SessionID, message string) iter.Seq[AgentEvent] {
	return func(yield func(AgentEvent) bool) {
		t, err := a.c.Deliver(ctx, id, parley.Send{Message: message})
		if err != nil {
			yield(failed(err))
			return
		}
		var v simple
		for f, err := range a.c.FollowTurn(ctx, t) {
			if err != nil {
				yield(failed(err))
				return
			}
			for _, e := range v.events(f) {
				if !yield(e) || v.over {
					return
				}
			}
		}
	}
}

// Interrupt stops what the session is doing. Without an open turn it does nothing.
func (a *Agent) Interrupt(ctx context.Context, id parley.SessionID) error {
	s, err := a.c.Session(ctx, id)
	if err != nil || s.Turn == nil {
		return err
	}
	_, err = a.c.Cancel(ctx, s.Turn.ID, "interrupted")
	if parley.CodeOf(err) == parley.CodeConflict { // it ended meanwhile
		return nil
	}
	return err
}

// CloseSession ends a session for good, and its open turn. It stays readable.
func (a *Agent) CloseSession(ctx context.Context, id parley.SessionID) error {
	_, err := a.c.EndSession(ctx, id, "closed")
	return err
}

// Answer answers the questions of a [ToolUse] of AskUserQuestion: the text of each question stands
// for the label of an option, or several joined by ", ", or a text of the user's own. The ToolUse
// comes when the model asks for the call, so Answer may have to wait a moment until the call asks.
func (a *Agent) Answer(ctx context.Context, id parley.SessionID, toolUseID string, answers map[string]string) error {
	for {
		s, err := a.c.Session(ctx, id)
		if err != nil {
			return err
		}
		asks, err := a.asks(ctx, id, toolUseID)
		if err != nil {
			return err
		}
		if asks != "" {
			_, err := a.c.Answer(ctx, asks, parley.Answer{Choice: parley.ChoiceAnswered, Answers: answers})
			return err
		}
		if s.Turn == nil || s.Turn.Status != parley.StatusRunning {
			return parley.Errorf(parley.CodeNotFound, "the call %q does not ask anything", parley.Cut(toolUseID, 40)).WithHint("it may have been answered already")
		}
		if !pause(ctx, firstWait) {
			return context.Cause(ctx)
		}
	}
}

// asks returns the open question of a call; none is empty.
func (a *Agent) asks(ctx context.Context, id parley.SessionID, call string) (parley.InteractionID, error) {
	for cursor := ""; ; {
		list, next, err := a.c.InteractionPage(ctx, cursor, 0)
		if err != nil {
			return "", err
		}
		for _, i := range list {
			if i.Session == id && string(i.Call) == call && i.Kind == parley.KindQuestion {
				return i.ID, nil
			}
		}
		if cursor = next; cursor == "" {
			return "", nil
		}
	}
}

func failed(err error) Error { return Error{Message: parley.Info(err).Message, Err: err} }

// simple makes the events of an Agent of the frames of a turn.
type simple struct {
	call parley.CallID // whose text came last
	seen string        // of that call
	said string        // of that call; more than seen after a reconnection, for a moment
	gap  bool          // something was said that is not part of the answer: what comes begins a paragraph
	over bool
}

func (v *simple) events(f Frame) []AgentEvent {
	if d := f.Delta; d != nil {
		if d.Kind != parley.DeltaText || !top(d.Agent) {
			return nil
		}
		whole := d.Text
		if !f.Partial && v.call == d.Call {
			whole = v.seen + d.Text
		}
		return v.say(d.Call, whole)
	}
	if f.Event == nil || f.Event.Agent.OfMemory() {
		return nil
	}
	p, err := f.Event.Payload()
	if err != nil {
		return nil // a newer event, or one whose data was condensed
	}
	switch p := p.(type) {
	case parley.ModelReplied:
		if top(f.Event.Agent) {
			return v.say(p.Call, parley.PartsText(p.Parts))
		}
	case parley.ModelFailed:
		v.gap = v.gap || v.call == p.Call && v.said != ""
	case parley.ToolRequested:
		return []AgentEvent{ToolUse{Name: p.Name, Input: p.Input, ID: string(p.Call)}}
	case parley.ToolEnded:
		return []AgentEvent{ToolResult{ToolUseID: string(p.Call), Output: p.Output}}
	case parley.TurnCompleted:
		return v.end(p.Usage, false, p.Response.Message)
	case parley.TurnFailed:
		return v.end(p.Usage, true, p.Error.Message)
	case parley.TurnCancelled:
		return v.end(p.Usage, true, because("the turn was cancelled", p.Reason))
	case parley.TurnExpired:
		return v.end(p.Usage, true, because("the turn expired", p.Reason))
	case parley.TurnInterrupted:
		if !p.Resumes {
			v.over = true
			return []AgentEvent{failed(parley.Errorf(parley.CodeConflict, "%s", because("the turn was interrupted", p.Reason)).WithHint("resume it"))}
		}
	}
	return nil
}

// say says what the text of a call has beyond what was said. A text of which another beginning was
// said is said again, as a paragraph of its own: nothing that was said can be taken back.
func (v *simple) say(call parley.CallID, whole string) []AgentEvent {
	if v.call != call {
		v.call, v.said = call, ""
	}
	v.seen = whole
	if strings.HasPrefix(v.said, whole) {
		return nil
	}
	rest, goesOn := strings.CutPrefix(whole, v.said)
	v.said = whole
	if v.gap = v.gap || !goesOn; v.gap {
		rest, v.gap = "\n\n"+rest, false
	}
	return []AgentEvent{TextDelta{rest}}
}

func (v *simple) end(u parley.Usage, failed bool, result string) []AgentEvent {
	v.over = true
	return []AgentEvent{Done{Usage: DoneUsage{u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens, u.OutputTokens}, Cost: u.USD, IsError: failed, Result: result}}
}

// top reports whether an agent's text is part of the answer: it is neither a sub-agent nor the one
// that keeps the memory.
func top(agent parley.AgentPath) bool {
	return agent != "" && agent != parley.MemoryAgent && !strings.Contains(string(agent), "/")
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}
