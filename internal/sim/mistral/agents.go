package mistral

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// agent is an agent as it is stored and returned.
type agent struct {
	ID             string          `json:"id"`
	Object         string          `json:"object"`
	Name           string          `json:"name"`
	Model          string          `json:"model"`
	Version        int             `json:"version"`
	Versions       []int           `json:"versions"`
	CreatedAt      time.Time       `json:"created_at"`
	UpdatedAt      time.Time       `json:"updated_at"`
	DeploymentChat bool            `json:"deployment_chat"`
	Source         string          `json:"source"`
	Description    *string         `json:"description"`
	Instructions   *string         `json:"instructions"`
	Tools          []toolBody      `json:"tools"`
	Handoffs       []string        `json:"handoffs"`
	CompletionArgs json.RawMessage `json:"completion_args"`
	Guardrails     json.RawMessage `json:"guardrails"`
	Metadata       json.RawMessage `json:"metadata"`
	VersionMessage *string         `json:"version_message"`
}

// completionArgs are the arguments that an agent or a conversation may set.
type completionArgs struct {
	Stop             json.RawMessage `json:"stop"`
	PresencePenalty  *float64        `json:"presence_penalty"`
	FrequencyPenalty *float64        `json:"frequency_penalty"`
	Temperature      *float64        `json:"temperature"`
	TopP             *float64        `json:"top_p"`
	MaxTokens        *int64          `json:"max_tokens"`
	RandomSeed       *int64          `json:"random_seed"`
	Prediction       json.RawMessage `json:"prediction"`
	ResponseFormat   json.RawMessage `json:"response_format"`
	ToolChoice       string          `json:"tool_choice"`
	ReasoningEffort  *string         `json:"reasoning_effort"`
}

func (s *Server) routes() {
	s.mux.HandleFunc("POST /v1/agents", s.createAgent)
	s.mux.HandleFunc("GET /v1/agents", s.listAgents)
	s.mux.HandleFunc("GET /v1/agents/{id}", s.getAgent)
	s.mux.HandleFunc("PATCH /v1/agents/{id}", s.updateAgent)
	s.mux.HandleFunc("DELETE /v1/agents/{id}", s.deleteAgent)
	s.mux.HandleFunc("POST /v1/conversations", s.start)
	s.mux.HandleFunc("GET /v1/conversations", s.listConversations)
	s.mux.HandleFunc("POST /v1/conversations/{id}", s.append)
	s.mux.HandleFunc("POST /v1/conversations/{id}/restart", s.restart)
	s.mux.HandleFunc("GET /v1/conversations/{id}", s.getConversation)
	s.mux.HandleFunc("DELETE /v1/conversations/{id}", s.deleteConversation)
	s.mux.HandleFunc("GET /v1/conversations/{id}/history", s.history)
	s.mux.HandleFunc("GET /v1/conversations/{id}/messages", s.messages)
}

var agentKeys = []string{
	"model", "name", "description", "instructions", "tools", "handoffs", "completion_args", "guardrails", "metadata", "version_message", "deployment_chat",
}

func (s *Server) createAgent(w http.ResponseWriter, r *http.Request) {
	now := s.o.Now().UTC()
	a := &agent{
		ID: s.id("ag"), Object: "agent", Versions: []int{0}, CreatedAt: now, UpdatedAt: now, Source: "api",
		Tools: []toolBody{}, CompletionArgs: json.RawMessage(`{"temperature":0.3,"tool_choice":"auto"}`),
	}
	a, no := s.changed(a, bodyOf(r))
	switch {
	case no != nil:
	case a.Name == "":
		no = schema("missing", "Field required", "name")
	case a.Model == "":
		no = schema("missing", "Field required", "model")
	}
	if no != nil {
		refuse(w, no)
		return
	}
	s.mu.Lock()
	s.agents[a.ID] = a
	s.mu.Unlock()
	write(w, http.StatusOK, a)
}

// changed returns a with the fields of a body, if these are valid.
func (s *Server) changed(a *agent, body []byte) (*agent, *Refusal) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(body, &keys); err != nil {
		return nil, schema("json_invalid", err.Error(), 0)
	}
	for k := range keys {
		if !slices.Contains(agentKeys, k) {
			return nil, schema("extra_forbidden", "Extra inputs are not permitted", k)
		}
	}
	out := *a
	if _, ok := keys["tools"]; ok {
		out.Tools = []toolBody{} // the list is replaced, not added to
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return nil, schema("json_invalid", err.Error(), 0)
	}
	if no := validTools(out.Tools, true); no != nil {
		return nil, no
	}
	if out.Model != "" && !s.knows(out.Model) {
		return nil, bad("invalid_model", "1500", "Invalid model: %s", out.Model)
	}
	if no := validArgs(out.CompletionArgs); no != nil {
		return nil, no
	}
	for _, id := range out.Handoffs {
		if s.agent(id) == nil {
			return nil, bad("invalid_request_error", "3001", "Handoff agent %s not found", id)
		}
	}
	return &out, nil
}

func validArgs(raw json.RawMessage) *Refusal {
	var args completionArgs
	if len(raw) == 0 {
		return nil
	}
	no := strict(raw, &args)
	switch {
	case no != nil:
		no.Loc = append([]any{"completion_args"}, no.Loc...)
		return no
	case args.ToolChoice != "" && !slices.Contains([]string{"auto", "none", "any", "required"}, args.ToolChoice):
		return schema("enum", "Input should be 'auto', 'none', 'any' or 'required'", "completion_args", "tool_choice")
	case args.MaxTokens != nil && *args.MaxTokens < 1:
		return schema("greater_than_equal", "Input should be greater than or equal to 1", "completion_args", "max_tokens")
	}
	return nil
}

// agent returns a copy of the agent with that id, or nil.
func (s *Server) agent(id string) *agent {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.agents[id]
	if !ok {
		return nil
	}
	out := *a
	return &out
}

func noAgent(id string) *Refusal {
	return &Refusal{Status: http.StatusNotFound, Type: "not_found", Message: "Agent " + id + " not found", Code: "3000"}
}

// Agents returns the existing agents, by id.
func (s *Server) Agents() map[string]json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]json.RawMessage{}
	for id, a := range s.agents {
		raw, err := json.Marshal(a)
		if err != nil {
			panic(err) // of our own making
		}
		all[id] = raw
	}
	return all
}

// DropAgent deletes an agent, as if somebody had deleted it at Mistral.
func (s *Server) DropAgent(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.agents, id)
}

func (s *Server) getAgent(w http.ResponseWriter, r *http.Request) {
	a := s.agent(r.PathValue("id"))
	if a == nil {
		refuse(w, noAgent(r.PathValue("id")))
		return
	}
	write(w, http.StatusOK, a)
}

func (s *Server) listAgents(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	ids := slices.SortedFunc(maps.Keys(s.agents), func(a, b string) int { return strings.Compare(a[3:], b[3:]) })
	var list []agent
	for _, id := range ids {
		list = append(list, *s.agents[id])
	}
	s.mu.Unlock()
	write(w, http.StatusOK, page(list, r))
}

// page returns a page of a list; pages count from 0.
func page[T any](list []T, r *http.Request) []T {
	n, _ := strconv.Atoi(r.URL.Query().Get("page"))
	size, err := strconv.Atoi(r.URL.Query().Get("page_size"))
	if err != nil || size < 1 {
		size = 20
	}
	from := min(max(n, 0)*size, len(list))
	return append([]T{}, list[from:min(from+size, len(list))]...)
}

func (s *Server) updateAgent(w http.ResponseWriter, r *http.Request) {
	a := s.agent(r.PathValue("id"))
	if a == nil {
		refuse(w, noAgent(r.PathValue("id")))
		return
	}
	a, no := s.changed(a, bodyOf(r))
	if no != nil {
		refuse(w, no)
		return
	}
	a.Version++
	a.Versions = append(slices.Clip(a.Versions), a.Version)
	a.UpdatedAt = s.o.Now().UTC()
	s.mu.Lock()
	s.agents[a.ID] = a
	s.mu.Unlock()
	write(w, http.StatusOK, a)
}

func (s *Server) deleteAgent(w http.ResponseWriter, r *http.Request) {
	if s.agent(r.PathValue("id")) == nil {
		refuse(w, noAgent(r.PathValue("id")))
		return
	}
	s.DropAgent(r.PathValue("id"))
	w.WriteHeader(http.StatusNoContent)
}
