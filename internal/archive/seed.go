package archive

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// The forms of session.json, turns/*.json and logs/*.log.

type agentSession struct {
	ID                string         `json:"id"`
	CreatedAt         int64          `json:"createdAt"`
	UpdatedAt         int64          `json:"updatedAt"`
	Status            string         `json:"status"`
	Model             modelConfig    `json:"model"`
	Budgets           budgets        `json:"budgets"`
	Policy            sessionPolicy  `json:"policy"`
	Memory            sessionMemory  `json:"memory"`
	Messages          []messageMeta  `json:"messages"`          // without those that were taken back
	Rewound           []string       `json:"rewound,omitempty"` // the turns that were taken back
	Preferences       map[string]any `json:"preferences,omitempty"`
	Ctx               sessionContext `json:"ctx"`
	Locks             struct{}       `json:"locks"` // a file never holds a lock
	OpenContinuations []string       `json:"openContinuations"`
	QueueHeld         bool           `json:"queueHeld,omitempty"` // queued turns wait for the next command
	Stats             sessionStats   `json:"stats"`
	Version           int64          `json:"version"`
}

type modelConfig struct {
	Provider    string   `json:"provider,omitempty"`
	Model       string   `json:"model,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	MaxTokens   int64    `json:"maxTokens,omitempty"`
}

func modelOf(s *parley.Session, name string) modelConfig {
	m := modelConfig{Model: name, Temperature: s.Temperature, MaxTokens: s.MaxOutput}
	if provider, model, ok := strings.Cut(name, "/"); ok {
		m.Provider, m.Model = provider, model
	}
	return m
}

func (m modelConfig) name() string {
	if m.Provider == "" || m.Model == "" {
		return m.Model
	}
	return m.Provider + "/" + m.Model
}

type budgets struct {
	MaxSteps         int     `json:"maxSteps,omitempty"`
	MaxToolCalls     int     `json:"maxToolCalls,omitempty"`
	MaxDurationMS    int64   `json:"maxDurationMs,omitempty"`
	MaxTokensPerTurn int64   `json:"maxTokensPerTurn,omitempty"`
	MaxTotalTokens   int64   `json:"maxTotalTokens,omitempty"`
	MaxUSD           float64 `json:"maxUsd,omitempty"`
	MaxDepth         int     `json:"maxDepth,omitempty"`
}

func budgetsOf(b parley.Budgets) budgets { return budgets(b) }

type sessionPolicy struct {
	AllowActuation      bool     `json:"allowActuation"`
	AllowlistedServices []string `json:"allowlistedServices"`
	EnforceFixedModel   bool     `json:"enforceFixedModel"`
	Mode                string   `json:"mode,omitempty"`
	Unattended          bool     `json:"unattended,omitempty"`
}

type sessionMemory struct {
	RollingSummary string          `json:"rollingSummary"`
	Facts          []keyFact       `json:"facts"`
	Pins           []pinnedContext `json:"pins"`
	LastK          []turnMessage   `json:"lastK"`
}

type keyFact struct {
	Text   string `json:"text"`
	Source string `json:"source"`
	TS     int64  `json:"ts"`
}

type pinnedContext struct {
	Label string `json:"label"`
	Text  string `json:"text"`
}

type turnMessage struct {
	Role           string `json:"role"`
	Content        string `json:"content"`
	ContinuationID string `json:"continuationId"`
	TS             int64  `json:"ts"`
}

type messageMeta struct {
	Role           string `json:"role"`
	ContinuationID string `json:"continuationId"`
	TS             int64  `json:"ts"`
	Length         int    `json:"length"`
}

// message is a message with the number of its event.
type message struct {
	messageMeta
	Seq int64 `json:"seq"`
}

type sessionContext struct {
	App       string `json:"app"`
	AppModel  bool   `json:"appModel,omitempty"` // the model comes from the app and was not chosen
	User      string `json:"user,omitempty"`
	Org       string `json:"org,omitempty"`
	OutsideID string `json:"outsideId,omitempty"`
	Title     string `json:"title,omitempty"`
	Parent    string `json:"parent,omitempty"`
}

type sessionStats struct {
	Turns     int     `json:"turns"`
	Steps     int     `json:"steps"`
	ToolCalls int     `json:"toolCalls"`
	Tokens    int64   `json:"tokens"`
	CostUSD   float64 `json:"costUsd"`
}

type continuation struct {
	ID        string                `json:"id"`
	SessionID string                `json:"sessionId"`
	Status    string                `json:"status"`
	CreatedAt int64                 `json:"createdAt"`
	UpdatedAt int64                 `json:"updatedAt"`
	Request   continuationRequest   `json:"request"`
	Response  *continuationResponse `json:"response,omitempty"`
	StepLog   []stepLogEntry        `json:"stepLog"`
	Artifacts []artifactRef         `json:"artifacts,omitempty"`
	Error     *continuationError    `json:"error,omitempty"`
}

type continuationRequest struct {
	Message        string         `json:"message"`
	AllowTools     bool           `json:"allowTools"`
	MaxSteps       int            `json:"maxSteps"`
	TimeBudgetMs   int64          `json:"timeBudgetMs"`
	PlannerHints   map[string]any `json:"plannerHints,omitempty"`
	IdempotencyKey string         `json:"idempotencyKey,omitempty"`
}

type continuationResponse struct {
	FinalMessage     string            `json:"finalMessage"`
	ReasoningSummary string            `json:"reasoningSummary,omitempty"`
	Citations        []parley.Citation `json:"citations,omitempty"`
	FollowUps        []string          `json:"followUps,omitempty"`
	Scripted         bool              `json:"scripted,omitempty"`
}

type continuationError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

type artifactRef struct {
	ID     string `json:"id"`
	Path   string `json:"path"` // its path on a server
	Type   string `json:"type"` // its media type
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

type stepLogEntry struct {
	TS     int64           `json:"ts"`
	Type   string          `json:"type"`
	Detail json.RawMessage `json:"detail"`
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// seedStatus returns a turn's status in the words of these files, which have none for
// waiting for a human.
func seedStatus(s parley.TurnStatus) string {
	if s == parley.StatusWaiting {
		return string(parley.StatusRunning)
	}
	return string(s)
}
