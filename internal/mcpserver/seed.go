package mcpserver

import (
	"context"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// The forms of seed 001: parameters and results in snake_case at the top,
// what is nested in camelCase, times in milliseconds.

// ModelConfig names a model, and how it is asked.
type ModelConfig struct {
	Provider    string   `json:"provider,omitempty" jsonschema:"such as anthropic; may be left out when model has it"`
	Model       string   `json:"model,omitempty" jsonschema:"the provider's name of the model; the app's when not given"`
	Temperature *float64 `json:"temperature,omitempty" jsonschema:"where the model takes one; of a session, not of one message"`
	MaxTokens   *int64   `json:"maxTokens,omitempty" jsonschema:"of one reply; of a session, not of one message"`
}

// name is the model as the engine knows it.
func (m *ModelConfig) name() string {
	switch {
	case m == nil:
		return ""
	case m.Provider == "" || m.Model == "" || strings.HasPrefix(m.Model, m.Provider+"/"):
		return m.Model
	}
	return m.Provider + "/" + m.Model
}

// fill asks for the model in a session that is to be made.
func (m *ModelConfig) fill(c *parley.CreateSession) error {
	if m == nil {
		return nil
	}
	c.Model, c.Temperature = m.name(), m.Temperature
	if m.MaxTokens != nil {
		if *m.MaxTokens <= 0 {
			return parley.Errorf(parley.CodeInvalid, "model.maxTokens is %d", *m.MaxTokens).WithField("model.maxTokens").WithHint("leave it out for the model's own")
		}
		c.MaxOutput = *m.MaxTokens
	}
	return nil
}

// ofMessage returns the model of one message. Fields that only a session can set are refused,
// not silently ignored.
func (m *ModelConfig) ofMessage() (string, error) {
	for field, set := range map[string]bool{"temperature": m != nil && m.Temperature != nil, "maxTokens": m != nil && m.MaxTokens != nil} {
		if set {
			return "", parley.Errorf(parley.CodeInvalid, "model.%s is of a session, and not of one message", field).WithField("model." + field).
				WithHint("give it when the session is started")
		}
	}
	return m.name(), nil
}

// modelOf is the model of a session, its own or the app's.
func modelOf(name string, s parley.Session) ModelConfig {
	m := ModelConfig{Model: name, Temperature: s.Temperature}
	if provider, model, ok := strings.Cut(name, "/"); ok {
		m.Provider, m.Model = provider, model
	}
	if s.MaxOutput > 0 {
		m.MaxTokens = &s.MaxOutput
	}
	return m
}

// Budgets bound a turn.
type Budgets struct {
	MaxSteps         int     `json:"maxSteps,omitempty"`
	MaxToolCalls     int     `json:"maxToolCalls,omitempty"`
	MaxDurationMS    int64   `json:"maxDurationMs,omitempty"`
	MaxTokensPerTurn int64   `json:"maxTokensPerTurn,omitempty"`
	MaxUSD           float64 `json:"maxUsd,omitempty"`
}

func (b *Budgets) native() parley.Budgets {
	if b == nil {
		return parley.Budgets{}
	}
	return parley.Budgets{MaxSteps: b.MaxSteps, MaxToolCalls: b.MaxToolCalls, MaxDurationMS: b.MaxDurationMS, MaxTokensPerTurn: b.MaxTokensPerTurn, MaxUSD: b.MaxUSD}
}

// SessionPolicy is what an agent may do.
type SessionPolicy struct {
	AllowActuation      *bool    `json:"allowActuation,omitempty" jsonschema:"may tools act on the physical world; never more than the app allows"`
	AllowlistedServices []string `json:"allowlistedServices,omitzero" jsonschema:"the services that may then be called, such as switch.turn_off"`
	EnforceFixedModel   *bool    `json:"enforceFixedModel,omitempty" jsonschema:"refuse another model for a message"`
}

// native is the policy to ask the engine for, which holds the app's as a
// ceiling. nil asks for nothing.
func (s *SessionPolicy) native(app parley.Policy) (*parley.Policy, error) {
	if s == nil {
		return nil, nil
	}
	p := &parley.Policy{AllowActuation: s.AllowActuation, AllowlistedServices: s.AllowlistedServices}
	switch fixed := s.EnforceFixedModel; {
	case fixed == nil || *fixed == app.FixedModel:
	case *fixed:
		p.FixedModel = true
	default:
		return nil, parley.Errorf(parley.CodeInvalid, "policy.enforceFixedModel is wider than the app allows").
			WithField("policy.enforceFixedModel").WithHint("the app has a fixed model; its settings are the ceiling")
	}
	if p.AllowActuation == nil && p.AllowlistedServices == nil && !p.FixedModel {
		return nil, nil
	}
	return p, nil
}

// policyOf is what holds in a session, in the seed's words.
func policyOf(p parley.Policy) SessionPolicy {
	allow, fixed := p.AllowActuation != nil && *p.AllowActuation, p.FixedModel
	return SessionPolicy{AllowActuation: &allow, AllowlistedServices: append([]string{}, p.AllowlistedServices...), EnforceFixedModel: &fixed}
}

// PlannerHints help an agent to begin.
type PlannerHints struct {
	Entities  []string  `json:"entities,omitempty" jsonschema:"ids of things the question is about"`
	Areas     []string  `json:"areas,omitempty" jsonschema:"places the question is about"`
	TimeRange TimeRange `json:"timeRange,omitempty"`
	Tools     []string  `json:"tools,omitempty" jsonschema:"tools that may help"`
	Notes     string    `json:"notes,omitempty" jsonschema:"anything else"`
}

func (h *PlannerHints) native() map[string]any {
	if h == nil {
		return nil
	}
	m := map[string]any{}
	if len(h.Entities) > 0 {
		m["entities"] = h.Entities
	}
	if len(h.Areas) > 0 {
		m["areas"] = h.Areas
	}
	if h.TimeRange != nil {
		m["timeRange"] = h.TimeRange
	}
	if len(h.Tools) > 0 {
		m["tools"] = h.Tools
	}
	if h.Notes != "" {
		m["notes"] = h.Notes
	}
	if len(m) == 0 {
		return nil
	}
	return m
}

// ContinuationResponse is what a turn answered.
type ContinuationResponse struct {
	FinalMessage     string     `json:"finalMessage"`
	ReasoningSummary string     `json:"reasoningSummary,omitempty"`
	Citations        []Citation `json:"citations,omitempty"`
	FollowUps        []string   `json:"followUps,omitempty"`
	Scripted         bool       `json:"scripted,omitempty" jsonschema:"true: a script wrote the answer, not a language model; tell the user"`
}

// Citation says where a statement comes from.
type Citation struct {
	Source string `json:"source"`
	Ref    string `json:"ref"`
	Quote  string `json:"quote,omitempty"`
}

func responseOf(r *parley.Response) *ContinuationResponse {
	if r == nil {
		return nil
	}
	out := &ContinuationResponse{FinalMessage: r.Message, ReasoningSummary: r.ReasoningSummary, FollowUps: r.FollowUps, Scripted: r.Scripted}
	for _, c := range r.Citations {
		out.Citations = append(out.Citations, Citation(c))
	}
	return out
}

// ArtifactRef points to a large result.
type ArtifactRef struct {
	ID   string `json:"id"`
	Path string `json:"path" jsonschema:"where the server has it over HTTP"`
	Type string `json:"type" jsonschema:"its media type"`
}

func artifactOf(a parley.ArtifactRef) ArtifactRef {
	return ArtifactRef{ID: string(a.ID), Path: "/v1/artifacts/" + string(a.ID), Type: a.MediaType}
}

// ContinuationError says why a turn has no answer.
type ContinuationError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func errorOf(t parley.TurnInfo) *ContinuationError {
	switch {
	case t.Error != nil:
		return &ContinuationError{string(t.Error.Code), t.Error.Message}
	case t.Status == parley.StatusCancelled, t.Status == parley.StatusExpired, t.Status == parley.StatusInterrupted && !t.Resumes:
		reason := "the turn is " + string(t.Status)
		if t.Reason != "" {
			reason += ": " + t.Reason
		}
		return &ContinuationError{string(t.Status), reason}
	}
	return nil
}

// KeyFact is a lasting insight.
type KeyFact struct {
	Text   string `json:"text"`
	Source string `json:"source"`
	TS     int64  `json:"ts"`
}

// PinnedContext is a text that every prompt holds.
type PinnedContext struct {
	Label string `json:"label"`
	Text  string `json:"text"`
}

// SessionMemory is what a session remembers, without its last messages.
type SessionMemory struct {
	RollingSummary string          `json:"rollingSummary"`
	Facts          []KeyFact       `json:"facts"`
	Pins           []PinnedContext `json:"pins"`
}

// SessionStats is what a session has used.
type SessionStats struct {
	Turns     int     `json:"turns"`
	Steps     int     `json:"steps"`
	ToolCalls int     `json:"toolCalls"`
	Tokens    int64   `json:"tokens"`
	CostUSD   float64 `json:"costUsd"`
}

// SessionContext is where a session belongs.
type SessionContext struct {
	App       string `json:"app"`
	User      string `json:"user,omitempty"`
	Org       string `json:"org,omitempty"`
	OutsideID string `json:"outsideId,omitempty"`
	Title     string `json:"title,omitempty"`
	Parent    string `json:"parent,omitempty"`
}

// AgentSessionSummary is a session without its messages.
type AgentSessionSummary struct {
	ID                string         `json:"id"`
	CreatedAt         int64          `json:"createdAt"`
	UpdatedAt         int64          `json:"updatedAt"`
	Status            string         `json:"status" jsonschema:"active, ended or expired"`
	Model             ModelConfig    `json:"model"`
	Budgets           Budgets        `json:"budgets"`
	Policy            SessionPolicy  `json:"policy"`
	Memory            SessionMemory  `json:"memory"`
	Preferences       map[string]any `json:"preferences,omitempty"`
	Ctx               SessionContext `json:"ctx"`
	Locks             struct{}       `json:"locks"`
	OpenContinuations []string       `json:"openContinuations"`
	Stats             SessionStats   `json:"stats"`
	Version           int64          `json:"version"`
}

// summary is a session in the seed's form.
func (a *App) summary(ctx context.Context, p parley.Principal, info parley.SessionInfo) (AgentSessionSummary, error) {
	s, err := a.o.Engine.State(ctx, p, info.ID)
	if err != nil {
		return AgentSessionSummary{}, err
	}
	b := s.Budgets
	if s.InForce.Model == "" { // of before it was kept
		s.InForce = a.app.InForce()
	}
	force := s.InForce.Of(s) // as session.json and the native API say it
	out := AgentSessionSummary{
		ID: string(s.ID), CreatedAt: millis(s.CreatedAt), UpdatedAt: millis(s.UpdatedAt), Status: string(s.Status),
		Model:   modelOf(force.Model, s),
		Budgets: Budgets{b.MaxSteps, b.MaxToolCalls, b.MaxDurationMS, b.MaxTokensPerTurn, b.MaxUSD},
		Policy:  policyOf(force.Policy),
		Memory:  SessionMemory{RollingSummary: s.Summary, Facts: []KeyFact{}, Pins: []PinnedContext{}},

		Preferences:       s.Preferences,
		Ctx:               SessionContext{App: s.App, User: s.User, Org: s.Org, OutsideID: s.OutsideID, Title: s.Title, Parent: string(s.Parent)},
		OpenContinuations: []string{},
		// Of the row, which counts what the running turn has used.
		Stats:   SessionStats{info.Totals.Turns, info.Totals.Steps, info.Totals.ToolCalls, info.Totals.Usage.Tokens(), info.Totals.Usage.USD},
		Version: s.Seq,
	}
	for _, f := range s.Facts {
		out.Memory.Facts = append(out.Memory.Facts, KeyFact{f.Text, f.Source, millis(f.Time)})
	}
	for _, pin := range s.Pins {
		out.Memory.Pins = append(out.Memory.Pins, PinnedContext{pin.Label, pin.Text})
	}
	if s.Turn != nil {
		out.OpenContinuations = append(out.OpenContinuations, string(s.Turn.ID))
	}
	for _, q := range s.Queue {
		out.OpenContinuations = append(out.OpenContinuations, string(q.ID))
	}
	return out, nil
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// seedStatus is a turn's status in the seed's words, which know no waiting, neither for a
// human nor to go on after a crash.
func seedStatus(t parley.TurnInfo) string {
	if t.Status == parley.StatusWaiting || t.Resumes {
		return string(parley.StatusRunning)
	}
	return string(t.Status)
}
