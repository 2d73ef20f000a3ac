package mistral

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sse"
)

// An event of a conversation's stream.
type event struct {
	failure
	Kind           string          `json:"-"`
	ConversationID string          `json:"conversation_id"`
	ID             string          `json:"id"`
	OutputIndex    int             `json:"output_index"`
	AgentID        string          `json:"agent_id"`
	Model          string          `json:"model"`
	Content        json.RawMessage `json:"content"`
	Name           string          `json:"name"`
	ToolCallID     string          `json:"tool_call_id"`
	Arguments      json.RawMessage `json:"arguments"`
	Confirmation   string          `json:"confirmation_status"`
	PreviousID     string          `json:"previous_agent_id"`
	NextAgentID    string          `json:"next_agent_id"`
	NextAgentName  string          `json:"next_agent_name"`
	Usage          *struct {
		usage
		ConnectorTokens int64 `json:"connector_tokens"`
	} `json:"usage"`
}

// A conversation reads one response of a conversation.
type conversation struct {
	*assembly
	call    *call
	next    state  // state for the next request
	agentID string // the agent expected to speak; empty: one without an id
	spoke   bool   // part of the reply was shown
	handed  string // the agent that received the turn
	began   bool   // a handoff began and has not yet named its agent
	dirty   bool   // the conversation continued after a handoff
}

// read reads to the end. An error that it returns has not been yielded.
func (a *conversation) read(ctx context.Context, body io.Reader) error {
	done := false
	for f, err := range sse.Decode(body, maxFrame) {
		if err != nil {
			return a.broken(ctx, err)
		}
		if bytes.Equal(bytes.TrimSpace(f.Data), []byte("[DONE]")) {
			break
		}
		if text, ok := a.plain(f); ok {
			a.spoke = true
			if !a.pass(parley.PartText, text, a.call.yield) {
				return nil
			}
			continue
		}
		var e event
		if err := json.Unmarshal(f.Data, &e); err != nil {
			return a.c.p.Malformed("an event", err)
		}
		if e.Kind = e.Type; e.Kind == "" {
			e.Kind = f.Event
		}
		if stop, err := a.event(e); stop || err != nil {
			if err == errStopped { //nolint:errorlint // it is not wrapped
				return nil
			}
			if err != nil {
				return err
			}
			done = true
			break
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !done {
		return a.c.p.Ended()
	}
	if a.began {
		if err := a.handsTo("", ""); err != nil {
			return err
		}
	}
	a.finish()
	return nil
}

// plain is the fast path for a text fragment of the speaking agent.
func (a *conversation) plain(f sse.Frame) ([]byte, bool) {
	if f.Event != "message.output.delta" || a.handed != "" || a.began {
		return nil, false
	}
	last := a.last()
	if last == nil || last.kind != parley.PartText || bytes.IndexByte(f.Data[1:], '{') >= 0 || bytes.IndexByte(f.Data, '[') >= 0 {
		return nil, false
	}
	s, ok := fieldOf(f.Data, `"content":"`)
	if !ok {
		return nil, false
	}
	index, ok := numberOf(f.Data, `"output_index":`)
	if !ok || index != last.index {
		return nil, false
	}
	if id, ok := fieldOf(f.Data, `"agent_id":"`); ok && a.agentID != "" && string(id) != a.agentID {
		return nil, false
	}
	a.buf = unquote(a.buf[:0], s)
	return a.buf, true
}

// fieldOf returns a string value of a flat object, without its quotes. Quotes within strings are
// escaped, so the quoted key cannot occur elsewhere.
func fieldOf(data []byte, key string) ([]byte, bool) {
	at := bytes.Index(data, []byte(key))
	if at < 0 {
		return nil, false
	}
	s := data[at+len(key):]
	for end := 0; end < len(s); end++ {
		switch s[end] {
		case '\\':
			end++
		case '"':
			return s[:end], true
		}
	}
	return nil, false
}

func numberOf(data []byte, key string) (int, bool) {
	at := bytes.Index(data, []byte(key))
	if at < 0 {
		return 0, false
	}
	s := data[at+len(key):]
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	v, err := strconv.Atoi(string(s[:n]))
	return v, err == nil
}

// errStopped means that the reader stopped reading.
var errStopped = errors.New("stopped")

// event handles one event. It returns true when the response is over.
func (a *conversation) event(e event) (bool, error) {
	switch e.Kind {
	case "conversation.response.started":
		a.next.Conversation = e.ConversationID
	case "message.output.delta", "function.call.delta", "tool.execution.started":
		if a.handed != "" || a.began {
			// The server went on with the next agent although it was told to stop. That agent's
			// words are not part of this reply: the next call asks it again.
			a.dirty = true
			if a.began {
				return true, a.handsTo("", "")
			}
			return true, nil
		}
		if e.AgentID != "" && a.agentID != "" && e.AgentID != a.agentID && !a.spoke {
			return true, errElsewhere
		}
		if e.Model != "" {
			a.model = e.Model
		}
		return false, a.output(e)
	case "agent.handoff.started":
		if e.PreviousID != "" && a.agentID != "" && e.PreviousID != a.agentID && !a.spoke && a.handed == "" {
			return true, errElsewhere
		}
		a.began = true
	case "agent.handoff.done":
		return false, a.handsTo(e.NextAgentID, e.NextAgentName)
	case "conversation.response.done":
		if e.Usage != nil {
			u := e.Usage.usage
			u.PromptTokens += max(e.Usage.ConnectorTokens, 0)
			a.usage = &u
		}
		return true, nil
	case "conversation.response.error", "error":
		return true, a.failed(e.failure)
	}
	return false, nil // an event that we do not know
}

func (a *conversation) output(e event) error {
	a.at, a.spoke = e.OutputIndex, true
	switch e.Kind {
	case "message.output.delta":
		if !a.content(e.Content, a.call.yield) {
			return errStopped
		}
	case "function.call.delta":
		if e.Confirmation == "pending" {
			return parley.Errorf(parley.CodeModel, "Mistral asks for confirmation of a call to its own tool %s", e.Name).WithHint("take the confirmation out of the connector's settings")
		}
		id := e.ToolCallID
		if id == "" {
			id = e.ID
		}
		return a.assembly.call(id, e.Name, e.Arguments)
	}
	return nil
}

// handsTo notes who got the turn. Without a name it is the only one who may.
func (a *conversation) handsTo(id, name string) error {
	a.began = false
	if a.handed != "" {
		a.dirty = true
		return nil
	}
	to, ok := a.call.fleet.names[id]
	if !ok {
		to = name
	}
	offered := func(n string) bool {
		return slices.ContainsFunc(a.call.req.Handoffs, func(h seam.Handoff) bool { return h.Agent == n })
	}
	if hs := a.call.req.Handoffs; id == "" && name == "" && len(hs) == 1 {
		to = hs[0].Agent
	}
	if !offered(to) {
		return parley.Errorf(parley.CodeModel, "Mistral handed over to %q, which is not an agent that %s may hand over to", a.c.p.Words(to), a.call.req.Agent).
			WithHint("check whether the agents were changed by hand at Mistral")
	}
	a.handed = to
	a.pieces = append(a.pieces, &piece{kind: parley.PartHandoff, name: to, index: 1 << 30})
	return nil
}

// finish yields the reply and the state for the next request.
func (a *conversation) finish() {
	stop := ""
	if u := a.usage; u != nil && u.CompletionTokens >= a.cap() && a.cap() > 0 {
		stop = "max_tokens" // the API does not report it
	}
	slices.SortStableFunc(a.pieces, func(x, y *piece) int { return x.index - y.index })
	a.end(stop, func(r *seam.Reply) {
		a.asFunctions(r)
		if !a.dirty {
			r.State = a.left(r)
		}
	}, a.call.yield)
}

// cap returns how many tokens the reply may have.
func (a *conversation) cap() int64 {
	asked, most := a.call.req.MaxTokens, a.call.h.most(a.call.req.Agent)
	if a.next.Definition != "" || asked > 0 && asked < most {
		return asked
	}
	return most
}

// asFunctions finds handoffs that came as function calls.
func (a *conversation) asFunctions(r *seam.Reply) {
	for i, p := range r.Parts {
		if p.Type != parley.PartToolCall {
			continue
		}
		if to, ok := a.call.handoffOf(p.Name); ok && a.handed == "" {
			var why struct{ Reason string }
			_ = json.Unmarshal(p.Input, &why) // the reason is optional
			r.Parts[i] = parley.Part{Type: parley.PartHandoff, Name: to, Text: strings.TrimSpace(why.Reason), ProviderID: p.ProviderID}
		}
	}
}

// left returns the state after the reply.
func (a *conversation) left(r *seam.Reply) json.RawMessage {
	s := a.next
	if s.Conversation == "" {
		return nil
	}
	s.Agent, s.Seen, s.Messages = a.call.req.Agent, len(a.call.req.Messages), digestOf(a.call.req.Messages)
	for _, p := range r.Parts {
		switch {
		case p.Type == parley.PartToolCall && a.handed != "":
			s.Lost = true // Mistral has dropped the call
		case p.Type == parley.PartToolCall:
			s.Pending = append(s.Pending, p.ProviderID)
		case p.Type == parley.PartHandoff && p.ProviderID != "":
			if s.HandedTo != "" {
				return nil // of two handoffs, the loop takes the first, and nobody answers the other
			}
			s.HandedTo, s.HandedBy = p.Name, p.ProviderID
		case p.Type == parley.PartHandoff:
			s.HandedTo = p.Name
		}
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil // a new conversation will be started
	}
	return raw
}
