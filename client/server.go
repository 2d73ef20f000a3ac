package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/parley-server/parley"
)

// App is an app that the server offers.
type App struct {
	Name        string         `json:"name"`
	Title       string         `json:"title"`
	Description string         `json:"description,omitempty"`
	Entry       string         `json:"entry"` // the agent that gets the user's message
	Agents      []AppAgent     `json:"agents"`
	Tools       []AppTool      `json:"tools"`
	Model       Model          `json:"model"`
	Budgets     parley.Budgets `json:"budgets"`
	Examples    []string       `json:"examples"`   // questions to offer
	FollowUps   []string       `json:"follow_ups"` // questions to offer below an answer
	Wires       []string       `json:"wires"`
	Modes       []string       `json:"modes"`    // permission modes that a session may choose
	Runtime     string         `json:"runtime"`  // what carries out its turns: loop or claude
	Runtimes    []string       `json:"runtimes"` // that a session may choose besides
	Notices     []string       `json:"notices"`  // to be shown
}

// AppAgent is one agent of an app.
type AppAgent struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Model       string   `json:"model,omitempty"`
	Tools       []string `json:"tools"`
	Handoffs    []string `json:"handoffs"`
}

// AppTool is one tool of an app.
type AppTool struct {
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Effect      parley.Effect `json:"effect"`
}

// Model is what is known about a model.
type Model struct {
	Name            string  `json:"name"`
	Provider        string  `json:"provider"`
	Scripted        bool    `json:"scripted"` // it follows rules, so whoever shows its answers should say so
	ContextTokens   int64   `json:"context_tokens"`
	ContextHint     string  `json:"context_hint"` // how the operator of its server can enlarge the context; empty if that is not possible
	MaxOutputTokens int64   `json:"max_output_tokens"`
	InputUSD        float64 `json:"input_usd,omitempty"` // per million tokens
	OutputUSD       float64 `json:"output_usd,omitempty"`
	CacheReadUSD    float64 `json:"cache_read_usd,omitempty"`
	CacheWriteUSD   float64 `json:"cache_write_usd,omitempty"`
	PricedAt        string  `json:"priced_at,omitempty"` // the day these prices were valid; empty: no price is known
}

// Provider is the result of asking a model provider.
type Provider struct {
	Name   string            `json:"name"`
	Kind   string            `json:"kind"` // its protocol: anthropic, openai, gemini or mistral
	OK     bool              `json:"ok"`
	Error  *parley.ErrorInfo `json:"error,omitempty"`
	TookMS int64             `json:"took_ms"`
	Models []Model           `json:"models"` // the models available to the account
}

// Server is what a server says about itself.
type Server struct {
	Version string   `json:"version"`
	Notices []string `json:"notices"`
	Off     []AppOff `json:"off"` // apps that it knows but does not serve
}

// AppOff is an app that the server does not serve, and why.
type AppOff struct {
	App string `json:"app"`
	Why string `json:"why"`
}

// Apps lists the apps.
func (c *Client) Apps(ctx context.Context) ([]App, error) {
	list, err := get[struct {
		Apps []App `json:"apps"`
	}](ctx, c, call{method: http.MethodGet, path: "/v1/apps"})
	return list.Apps, err
}

// App reads one app.
func (c *Client) App(ctx context.Context, name string) (App, error) {
	return get[App](ctx, c, call{method: http.MethodGet, path: p("/v1/apps/%s", name)})
}

// AppCommands lists the slash commands that a new session of an app would have in a workspace;
// empty: the app's default.
func (c *Client) AppCommands(ctx context.Context, app string, workspace parley.Workspace) ([]parley.SlashCommand, error) {
	q := url.Values{}
	set(q, "workspace", string(workspace))
	list, err := get[struct {
		Commands []parley.SlashCommand `json:"commands"`
	}](ctx, c, call{method: http.MethodGet, path: p("/v1/apps/%s/commands", app), query: q})
	return list.Commands, err
}

// Models lists the configured models.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	list, err := get[struct {
		Models []Model `json:"models"`
	}](ctx, c, call{method: http.MethodGet, path: "/v1/models"})
	return list.Models, err
}

// Providers asks each model provider whether it would answer. It takes some seconds if
// one does not.
func (c *Client) Providers(ctx context.Context) ([]Provider, error) {
	list, err := get[struct {
		Providers []Provider `json:"providers"`
	}](ctx, c, call{method: http.MethodGet, path: "/v1/providers"})
	return list.Providers, err
}

// Server describes the server.
func (c *Client) Server(ctx context.Context) (Server, error) {
	return get[Server](ctx, c, call{method: http.MethodGet, path: "/v1/server"})
}

// Ready returns nil if the server would accept a command now.
func (c *Client) Ready(ctx context.Context) error {
	_, err := get[struct{}](ctx, c, call{method: http.MethodGet, path: "/readyz"})
	return err
}
