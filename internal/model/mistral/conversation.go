package mistral

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// state is the part of a hosted model's reply that the next request needs.
type state struct {
	Conversation string        `json:"conversation"`
	Fleet        parley.Digest `json:"fleet"`
	Agent        string        `json:"agent"` // the agent that replied
	// Definition is set in a conversation without an agent. Only an agent with the same
	// definition may continue it.
	Definition parley.Digest `json:"definition,omitempty"`
	// First is the digest of the conversation's first words, and Turns counts the user's turns
	// in it. Together they say whether an agent may see the conversation.
	First parley.Digest `json:"first"`
	Turns int           `json:"turns"`
	// Seen counts the messages of the request that was answered. Messages is their digest.
	Seen     int           `json:"seen"`
	Messages parley.Digest `json:"messages"`
	// Pending are the calls whose results must come before anything else.
	Pending []string `json:"pending,omitempty"`
	// HandedTo is the agent that received the turn. HandedBy is the id of the handoff if it came
	// as a call. Lost means that there were calls whose results Mistral will not accept.
	HandedTo string `json:"handed_to,omitempty"`
	HandedBy string `json:"handed_by,omitempty"`
	Lost     bool   `json:"lost,omitempty"`
}

// The bodies of POST /v1/conversations and /v1/conversations/{id}.
type conversationBody struct {
	AgentID          string          `json:"agent_id,omitempty"`
	Model            string          `json:"model,omitempty"`
	Instructions     *string         `json:"instructions,omitempty"`
	Tools            []tool          `json:"tools,omitempty"`
	CompletionArgs   *completionArgs `json:"completion_args,omitempty"`
	Inputs           []entry         `json:"inputs,omitempty"`
	Stream           bool            `json:"stream"`
	Store            bool            `json:"store"`
	HandoffExecution string          `json:"handoff_execution"` // applies to this request, not to the conversation
}

// stored reports whether the agent stored at Mistral is what the request needs. With anyCap the
// output cap may differ, because an append may lower it.
func (c *call) stored(anyCap bool) bool {
	n := c.req.Agent
	if _, hosted := c.fleet.ids[n]; !hosted {
		return false
	}
	want, have := c.req, c.h.static(n)
	if anyCap || want.MaxTokens <= 0 || want.MaxTokens >= have.MaxTokens {
		want.MaxTokens = have.MaxTokens
	}
	return c.definition(want) == c.definition(have)
}

// definition returns the digest of everything that a request needs of its agent, apart from
// messages.
func (c *call) definition(r seam.Request) parley.Digest {
	return digestOf([]any{c.h.define(r), r.Handoffs})
}

// goOn says which conversation to continue and what to append. It returns false if a new one is
// needed.
func (c *call) goOn(ctx context.Context) (state, []entry, bool) {
	var s state
	r := &c.req
	if len(r.State) == 0 || json.Unmarshal(r.State, &s) != nil || s.Conversation == "" || len(r.Messages) == 0 {
		return s, nil, false
	}
	if s.Fleet != c.fleet.digest || s.First != first(r.Messages) {
		return s, nil, false
	}
	if s.Definition == "" && !c.stored(true) || s.Definition != "" && (s.Agent != r.Agent || s.Definition != c.definition(c.req)) {
		return s, nil, false
	}
	w := c.writer(ctx)
	var ok bool
	switch {
	case s.HandedTo != "" && s.HandedTo == r.Agent && s.Agent != r.Agent:
		ok = c.afterHandoff(&s, w)
	case s.Agent != r.Agent || s.HandedTo != "" && s.HandedBy == "":
	case s.Seen < len(r.Messages) && s.Messages == digestOf(r.Messages[:s.Seen]) && r.Messages[s.Seen].Role == parley.RoleAssistant:
		ok = w.results(&s, r.Messages[s.Seen:])
	case s.HandedTo == "" && len(s.Pending) == 0 && turns(r.Messages) == s.Turns+1:
		ok = w.message(r.Messages[len(r.Messages)-1]) == nil
	}
	return s, w.list, ok && w.err == nil
}

// handedMark starts our loop's message to the agent that receives the turn.
const handedMark = "[handed over by "

// afterHandoff writes what the conversation has not seen when the turn was handed to another
// agent in it: the user's messages since then, and lost results.
func (c *call) afterHandoff(s *state, w *entries) bool {
	last := c.req.Messages[len(c.req.Messages)-1]
	if c.h.noAppend.Load() || len(s.Pending) > 0 || last.Role != parley.RoleUser || turns(c.req.Messages) != s.Turns {
		return false
	}
	at := -1
	for i, p := range last.Parts {
		if p.Type == parley.PartText && strings.HasPrefix(p.Text, handedMark+s.Agent+"]") {
			at = i
		}
	}
	if at < 0 {
		return false
	}
	if s.HandedBy != "" {
		w.result(s.HandedBy, "control passed to "+s.HandedTo)
	}
	if !s.Lost {
		at++
	}
	return w.message(parley.Message{Role: parley.RoleUser, Parts: last.Parts[at:]}) == nil
}

// first returns the digest of the words that messages begin with.
func first(ms []parley.Message) parley.Digest {
	if len(ms) == 0 || len(ms[0].Parts) == 0 {
		return ""
	}
	return digestOf(ms[0].Parts[0])
}

// turns counts the user's messages that start a turn.
func turns(ms []parley.Message) int {
	n := 0
	for i, m := range ms {
		if m.Role == parley.RoleUser && (i == 0 || ms[i-1].Role == parley.RoleAssistant) {
			n++
		}
	}
	return n
}

func (c *call) writer(ctx context.Context) *entries {
	return &entries{h: history{ctx: ctx, req: c.req, info: c.h.info, names: c.names, ids: newIDs(), calls: map[parley.CallID]target{}}}
}

// append continues a conversation.
func (c *call) append(ctx context.Context, s state, inputs []entry) error {
	body := conversationBody{Inputs: inputs, Stream: true, Store: true, HandoffExecution: "client"}
	if s.Definition == "" && c.req.MaxTokens > 0 && c.req.MaxTokens < c.h.most(c.req.Agent) {
		body.CompletionArgs = c.h.args(c.req)
	}
	next := s
	next.Pending, next.HandedTo, next.HandedBy, next.Lost = nil, "", "", false
	next.Turns = turns(c.req.Messages)
	err := c.stream(ctx, "/v1/conversations/"+url.PathEscape(s.Conversation), body, next)
	if e, ok := err.(*refusedStart); ok { //nolint:errorlint // it is not wrapped
		return &refusedAppend{e.err}
	}
	return err
}

// start starts a conversation with everything that the agent may see.
func (c *call) start(ctx context.Context) error {
	w := c.writer(ctx)
	for _, m := range c.req.Messages {
		if err := w.message(m); err != nil {
			return err
		}
	}
	next := state{First: first(c.req.Messages), Turns: turns(c.req.Messages), Fleet: c.fleet.digest}
	body := conversationBody{Inputs: w.list, Stream: true, Store: true, HandoffExecution: "client"}
	if c.stored(false) {
		body.AgentID = c.fleet.ids[c.req.Agent]
	} else {
		def := c.h.define(c.req)
		body.Model, body.Instructions, body.CompletionArgs = def.Model, def.Instructions, def.CompletionArgs
		body.Tools = tools(c.req, c.names) // handoffs too: there is no stored agent to hand over to
		for _, s := range c.req.ServerTools {
			body.Tools = append(body.Tools, tool{Type: s})
		}
		next.Definition = c.definition(c.req)
	}
	err := c.stream(ctx, "/v1/conversations", body, next)
	if e, ok := err.(*refusedStart); ok { //nolint:errorlint // it is not wrapped
		e.gone = body.AgentID != "" && parley.CodeOf(e.err) == parley.CodeNotFound
	}
	return err
}

// stream sends a request and reads its answer. It returns a *refusedStart if the request was
// rejected. Other errors are either already yielded or returned for the caller to yield.
func (c *call) stream(ctx context.Context, path string, body conversationBody, next state) error {
	raw, err := encode(body)
	if err != nil {
		return err
	}
	resp, err := c.h.c.open(ctx, path, raw)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return &refusedStart{err: err}
	}
	defer resp.Body.Close()
	a := &conversation{assembly: newAssembly(c.h.c, c.names, c.h.o.Model), call: c, next: next}
	a.agentID = c.fleet.ids[c.req.Agent]
	if next.Definition != "" {
		a.agentID = ""
	}
	a.estimate = int64(len(raw)+3) / 4
	return a.read(ctx, resp.Body)
}

// handoffOf reports whether a called name means a handoff: it is not one of the agent's
// functions, and names an agent that it may hand over to.
func (c *call) handoffOf(called string) (string, bool) {
	if t, ok := c.names.targets[called]; ok {
		return t.name, t.handoff
	}
	low := strings.ToLower(called)
	for _, to := range c.req.Handoffs {
		id := c.fleet.ids[to.Agent]
		words := strings.FieldsFunc(low, func(r rune) bool { return r == '_' || r == '-' || r == '.' || r == ' ' || r == ':' })
		switch {
		case called == to.Agent || id != "" && strings.Contains(called, id):
			return to.Agent, true
		case (slices.Contains(words, "handoff") || slices.Contains(words, "transfer") || slices.Contains(words, "delegate")) &&
			strings.HasSuffix(low, strings.ToLower(to.Agent)):
			return to.Agent, true
		}
	}
	return "", false
}
