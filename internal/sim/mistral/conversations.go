package mistral

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// conversation is a stored conversation.
type conversation struct {
	id       string
	agent    string // agent that has the turn; empty: none, just the model
	def      definition
	entries  []entry
	pending  []string          // calls waiting for their results
	handoffs map[string]string // those of them that stand for a handoff, and the agent it goes to
	handed   bool              // the last response ended in a handoff in client mode
	appended bool
	created  time.Time
}

// definition is the definition of a conversation without an agent.
type definition struct {
	Model          string          `json:"model"`
	Instructions   *string         `json:"instructions"`
	Tools          []toolBody      `json:"tools"`
	CompletionArgs json.RawMessage `json:"completion_args"`
}

// entry is an entry of any type.
type entry struct {
	Object      string          `json:"object,omitempty"`
	ID          string          `json:"id,omitempty"`
	Type        string          `json:"type"`
	CreatedAt   *time.Time      `json:"created_at,omitempty"`
	CompletedAt *time.Time      `json:"completed_at,omitempty"`
	Role        string          `json:"role,omitempty"`
	Content     json.RawMessage `json:"content,omitempty"`
	Prefix      *bool           `json:"prefix,omitempty"`
	AgentID     *string         `json:"agent_id,omitempty"`
	Model       *string         `json:"model,omitempty"`
	ToolCallID  string          `json:"tool_call_id,omitempty"`
	Name        string          `json:"name,omitempty"`
	Arguments   json.RawMessage `json:"arguments,omitempty"`
	Result      *string         `json:"result,omitempty"`
	Info        json.RawMessage `json:"info,omitempty"`

	PreviousAgentID   string `json:"previous_agent_id,omitempty"`
	PreviousAgentName string `json:"previous_agent_name,omitempty"`
	NextAgentID       string `json:"next_agent_id,omitempty"`
	NextAgentName     string `json:"next_agent_name,omitempty"`
}

// by returns the agent that wrote the entry, if it is known.
func (e entry) by() string {
	if e.AgentID == nil {
		return ""
	}
	return *e.AgentID
}

type startBody struct {
	definition
	AgentID          *string         `json:"agent_id"`
	AgentVersion     json.RawMessage `json:"agent_version"`
	Inputs           json.RawMessage `json:"inputs"`
	Stream           bool            `json:"stream"`
	Store            *bool           `json:"store"`
	HandoffExecution *string         `json:"handoff_execution"`
	Guardrails       json.RawMessage `json:"guardrails"`
	Name             *string         `json:"name"`
	Description      *string         `json:"description"`
	Metadata         json.RawMessage `json:"metadata"`
}

type appendBody struct {
	Inputs            json.RawMessage `json:"inputs"`
	Stream            bool            `json:"stream"`
	Store             *bool           `json:"store"`
	HandoffExecution  *string         `json:"handoff_execution"`
	CompletionArgs    json.RawMessage `json:"completion_args"`
	ToolConfirmations json.RawMessage `json:"tool_confirmations"`
}

type restartBody struct {
	appendBody
	FromEntryID  string          `json:"from_entry_id"`
	Guardrails   json.RawMessage `json:"guardrails"`
	Metadata     json.RawMessage `json:"metadata"`
	AgentVersion json.RawMessage `json:"agent_version"`
}

func clientMode(mode *string) (bool, *Refusal) {
	if mode == nil || *mode == "server" {
		return false, nil
	}
	if *mode != "client" {
		return false, schema("enum", "Input should be 'client' or 'server'", "handoff_execution")
	}
	return true, nil
}

func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	var b startBody
	no := strict(bodyOf(r), &b)
	if no == nil {
		no = s.startable(&b)
	}
	var inputs []entry
	if no == nil {
		inputs, no = inputsOf(b.Inputs)
	}
	var client bool
	if no == nil {
		client, no = clientMode(b.HandoffExecution)
	}
	if no == nil && len(inputs) == 0 {
		no = schema("missing", "Field required", "inputs")
	}
	c := &conversation{id: s.id("conv"), def: b.definition, created: s.o.Now().UTC(), handoffs: map[string]string{}}
	if b.AgentID != nil {
		c.agent = *b.AgentID
	}
	if no == nil {
		no = c.take(inputs, s)
	}
	if no != nil {
		refuse(w, no)
		return
	}
	if b.Store == nil || *b.Store {
		s.mu.Lock()
		s.conversations[c.id] = c
		s.mu.Unlock()
	}
	s.run(w, r, c, b.Stream, client, nil)
}

func (s *Server) startable(b *startBody) *Refusal {
	if no := validArgs(b.CompletionArgs); no != nil {
		return no
	}
	if b.AgentID == nil {
		if b.Model == "" {
			return schema("missing", "Field required", "model")
		}
		if !s.knows(b.Model) {
			return bad("invalid_model", "1500", "Invalid model: %s", b.Model)
		}
		return validTools(b.Tools, true)
	}
	if b.Model != "" || b.Instructions != nil || b.Tools != nil || b.CompletionArgs != nil {
		return bad("invalid_request_error", "3000", "Cannot set model, instructions, tools or completion_args with an agent_id")
	}
	if s.agent(*b.AgentID) == nil {
		return noAgent(*b.AgentID)
	}
	return nil
}

func noConversation(id string) *Refusal {
	return &Refusal{Status: http.StatusNotFound, Type: "not_found", Message: "Conversation " + id + " not found", Code: "3000"}
}

func (s *Server) append(w http.ResponseWriter, r *http.Request) {
	var b appendBody
	no := strict(bodyOf(r), &b)
	if no != nil {
		refuse(w, no)
		return
	}
	s.goOn(w, r, s.conversation(r.PathValue("id")), r.PathValue("id"), b)
}

// goOn appends the inputs and answers them.
func (s *Server) goOn(w http.ResponseWriter, r *http.Request, c *conversation, id string, b appendBody) {
	if c == nil {
		refuse(w, noConversation(id))
		return
	}
	no := validArgs(b.CompletionArgs)
	var inputs []entry
	if no == nil {
		inputs, no = inputsOf(b.Inputs)
	}
	var client bool
	if no == nil {
		client, no = clientMode(b.HandoffExecution)
	}
	s.mu.Lock()
	if no == nil && c.handed && s.o.StrictHandoffs {
		no = bad("invalid_request_error", "3000", "Conversation is waiting for a handoff")
	}
	if no == nil {
		no = c.take(inputs, nil)
	}
	c.appended = true
	s.mu.Unlock()
	if no != nil {
		refuse(w, no)
		return
	}
	s.run(w, r, c, b.Stream, client, b.CompletionArgs)
}

func (s *Server) restart(w http.ResponseWriter, r *http.Request) {
	var b restartBody
	if no := strict(bodyOf(r), &b); no != nil {
		refuse(w, no)
		return
	}
	old := s.conversation(r.PathValue("id"))
	if old == nil {
		refuse(w, noConversation(r.PathValue("id")))
		return
	}
	id := s.id("conv")
	s.mu.Lock()
	at := slices.IndexFunc(old.entries, func(e entry) bool { return e.ID == b.FromEntryID })
	if at < 0 || !old.appended {
		s.mu.Unlock()
		refuse(w, bad("invalid_request_error", "3000", "Conversation cannot be restarted from entry %s", b.FromEntryID))
		return
	}
	c := &conversation{id: id, agent: old.agent, def: old.def, entries: slices.Clone(old.entries[:at+1]), created: s.o.Now().UTC(), handoffs: map[string]string{}}
	s.conversations[c.id] = c
	s.mu.Unlock()
	s.goOn(w, r, c, c.id, b.appendBody)
}

// inputsOf parses the inputs of a request: a text, or a list of entries.
func inputsOf(raw json.RawMessage) ([]entry, *Refusal) {
	var text string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case json.Unmarshal(raw, &text) == nil:
		return []entry{{Type: "message.input", Role: "user", Content: raw}}, nil
	}
	var list []entry
	if no := strict(raw, &list); no != nil {
		no.Loc = append([]any{"inputs"}, no.Loc...)
		return nil, no
	}
	for i := range list {
		e := &list[i]
		if e.Type == "" && e.Role != "" {
			e.Type = "message.input"
		}
		missing := func(key string) *Refusal { return schema("missing", "Field required", "inputs", i, e.Type, key) }
		switch e.Type {
		case "message.input":
			if e.Role != "user" && e.Role != "assistant" {
				return nil, missing("role")
			}
			fallthrough
		case "message.output":
			if len(e.Content) == 0 {
				return nil, missing("content")
			}
			if _, no := contentOf(e.Content, i); no != nil {
				return nil, no
			}
		case "function.call":
			if e.ToolCallID == "" || e.Name == "" || len(e.Arguments) == 0 {
				return nil, missing("tool_call_id")
			}
		case "function.result":
			if e.ToolCallID == "" || e.Result == nil {
				return nil, missing("result")
			}
		case "agent.handoff":
			if e.PreviousAgentID == "" || e.NextAgentID == "" {
				return nil, missing("next_agent_id")
			}
		case "tool.execution":
		default:
			return nil, schema("union_tag_invalid", "Input tag found using 'type' does not match any of the expected tags", "inputs", i)
		}
	}
	return list, nil
}

// take adds inputs. Every waiting call must get exactly one result, and there may be no others.
// A client may include old calls with their results.
func (c *conversation) take(inputs []entry, s *Server) *Refusal {
	open := slices.Clone(c.pending)
	told := map[string]bool{}
	for _, e := range inputs {
		switch e.Type {
		case "function.call":
			if s == nil {
				return bad("invalid_request_error", "3000", "A function.call cannot be appended")
			}
			open = append(open, e.ToolCallID)
			told[e.ToolCallID] = true
		case "function.result":
			at := slices.Index(open, e.ToolCallID)
			if at < 0 {
				return bad("invalid_request_error", "3000", "Unexpected tool call id %s in tool results", e.ToolCallID)
			}
			open = slices.Delete(open, at, at+1)
		case "agent.handoff":
			if e.PreviousAgentID != c.agent && e.NextAgentID != c.agent {
				return bad("invalid_request_error", "3000", "The handoff is not of this conversation")
			}
		}
	}
	if len(open) > 0 {
		return bad("invalid_request_message_order", "3230", "Not the same number of function calls and responses: %d results are missing", len(open))
	}
	for _, e := range inputs {
		if e.Type == "function.result" && c.handoffs[e.ToolCallID] != "" {
			c.agent = c.handoffs[e.ToolCallID]
		}
	}
	last := ""
	for _, e := range append(slices.Clone(c.entries), inputs...) {
		if last == "function.result" && e.Type == "message.input" {
			return bad("invalid_request_message_order", "3230", "Unexpected role 'user' after role 'tool'")
		}
		last = e.Type
	}
	if len(inputs) == 0 && !c.handed {
		return bad("invalid_request_error", "3000", "There is nothing to answer")
	}
	for _, e := range inputs {
		if e.Type != "agent.handoff" || !c.handed { // that entry exists already
			c.entries = append(c.entries, e)
		}
	}
	c.pending, c.handoffs, c.handed = nil, map[string]string{}, false
	return nil
}

func (s *Server) conversation(id string) *conversation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conversations[id]
}

// Forget drops all conversations, as a provider may.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.conversations)
}

// Conversations returns the number of conversations.
func (s *Server) Conversations() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conversations)
}

func (c *conversation) shown() map[string]any {
	m := map[string]any{"id": c.id, "object": "conversation", "created_at": c.created, "updated_at": c.created}
	if c.agent != "" {
		m["agent_id"] = c.agent
		return m
	}
	m["model"], m["instructions"] = c.def.Model, c.def.Instructions
	return m
}

func (s *Server) getConversation(w http.ResponseWriter, r *http.Request) {
	c := s.conversation(r.PathValue("id"))
	if c == nil {
		refuse(w, noConversation(r.PathValue("id")))
		return
	}
	write(w, http.StatusOK, c.shown())
}

func (s *Server) listConversations(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	list := []map[string]any{}
	for _, c := range s.conversations {
		list = append(list, c.shown())
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b map[string]any) int { return compare(a["id"], b["id"]) })
	write(w, http.StatusOK, page(list, r))
}

func compare(a, b any) int {
	x, y := fmt.Sprint(a), fmt.Sprint(b)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func (s *Server) deleteConversation(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	_, ok := s.conversations[r.PathValue("id")]
	delete(s.conversations, r.PathValue("id"))
	s.mu.Unlock()
	if !ok {
		refuse(w, noConversation(r.PathValue("id")))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) history(w http.ResponseWriter, r *http.Request) {
	s.kept(w, r, "conversation.history", "entries", func(entry) bool { return true })
}

func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	s.kept(w, r, "conversation.messages", "messages", func(e entry) bool { return e.Type == "message.input" || e.Type == "message.output" })
}

func (s *Server) kept(w http.ResponseWriter, r *http.Request, object, key string, want func(entry) bool) {
	c := s.conversation(r.PathValue("id"))
	if c == nil {
		refuse(w, noConversation(r.PathValue("id")))
		return
	}
	list := []entry{}
	s.mu.Lock()
	for _, e := range c.entries {
		if want(e) {
			e.Object = "entry"
			list = append(list, e)
		}
	}
	s.mu.Unlock()
	write(w, http.StatusOK, map[string]any{"object": object, "conversation_id": c.id, key: list})
}
