// Package simtest gives the stand-ins of all model providers one form, for tests that
// are the same for each. [Providers] is the table. A row starts the provider's own
// package of internal/sim behind a [Server], which counts model calls, keeps their
// bodies, makes them fail and reports when a client disconnects.
package simtest

import (
	"net/http"
	"strings"

	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/anthropic"
	"github.com/parley-server/parley/internal/sim/gemini"
	"github.com/parley-server/parley/internal/sim/mistral"
	"github.com/parley-server/parley/internal/sim/openai"
)

// Key is the API key that every server expects.
const Key = "sim-key-0123456789abcdef"

// Provider is a provider of models, or one way to use it.
type Provider struct {
	Name  string // the row's name
	Model string // a model's full name; for hosted agents it contains {app}
	// Account is the name before the slash, and Kind is the protocol. Dialect is the
	// variant of kind openai.
	Account, Kind, Dialect string
	Hosted                 bool   // the provider keeps agents and conversations
	Base                   string // the path of the base URL
	// Validate returns the provider's error about the body of a call.
	Validate func(body []byte) error
	// Calls reports whether a request calls a model.
	Calls func(r *http.Request) bool

	refuse func(status int, words string) any
	serve  func(brain seam.Model, agent func(system string) string) http.Handler
}

// Providers returns all providers.
func Providers() []Provider {
	return []Provider{
		{
			Name: "anthropic", Model: "anthropic/claude-sonnet-5-5", Account: "anthropic", Kind: "anthropic",
			Validate: anthropic.Validate, Calls: posts("/v1/messages"),
			refuse: func(status int, words string) any {
				return map[string]any{"type": "error", "error": map[string]string{"type": anthropicType(status), "message": words}}
			},
			serve: func(brain seam.Model, agent func(string) string) http.Handler {
				return anthropic.New(anthropic.Options{Key: Key, Brain: named{brain, agent}})
			},
		},
		chat("openai", "gpt-6-sol", openai.OpenAI),
		chat("ollama", "qwen3:8b", openai.Ollama),
		{
			Name: "gemini", Model: "gemini/gemini-3.8-flash", Account: "gemini", Kind: "gemini",
			Validate: gemini.Validate, Calls: begins("/v1beta/models/"),
			refuse: func(status int, words string) any {
				return map[string]any{"error": map[string]any{"code": status, "message": words, "status": geminiStatus(status)}}
			},
			serve: func(brain seam.Model, agent func(string) string) http.Handler {
				return gemini.New(gemini.Options{Key: Key, Brain: named{brain, agent}})
			},
		},
		{
			Name: "mistral", Model: "mistral/mistral-medium-latest", Account: "mistral", Kind: "mistral",
			Validate: mistral.Validate, Calls: posts("/v1/chat/completions"), refuse: mistralWords, serve: serveMistral,
		},
		{
			Name: "mistral hosted", Model: "mistral-agents/{app}/mistral-medium-latest", Account: "mistral", Kind: "mistral", Hosted: true,
			Validate: func([]byte) error { return nil }, // the provider keeps the history
			Calls:    begins("/v1/conversations"), refuse: mistralWords, serve: serveMistral,
		},
	}
}

// chat returns a server that speaks like OpenAI.
func chat(name, model string, d openai.Dialect) Provider {
	return Provider{
		Name: name, Model: name + "/" + model, Account: name, Kind: "openai", Dialect: string(d), Base: "/v1",
		Validate: func(body []byte) error { return openai.ValidateAs(d, body) }, Calls: posts("/v1/chat/completions"),
		refuse: func(_ int, words string) any {
			return map[string]any{"error": map[string]any{"message": words, "type": "server_error", "param": nil, "code": nil}}
		},
		serve: func(brain seam.Model, agent func(string) string) http.Handler {
			return openai.New(openai.Options{Key: Key, Brain: named{brain, agent}, Dialect: d, Models: []string{model}})
		},
	}
}

func serveMistral(brain seam.Model, agent func(string) string) http.Handler {
	return mistral.New(mistral.Options{Key: Key, Brain: brain, Agent: agent})
}

func mistralWords(status int, words string) any {
	return map[string]any{"object": "error", "message": words, "type": "error", "code": nil, "raw_status_code": status}
}

func anthropicType(status int) string {
	switch status {
	case 401:
		return "authentication_error"
	case 429:
		return "rate_limit_error"
	case 529:
		return "overloaded_error"
	}
	return "api_error"
}

func geminiStatus(status int) string {
	switch status {
	case 401:
		return "UNAUTHENTICATED"
	case 429:
		return "RESOURCE_EXHAUSTED"
	case 500:
		return "INTERNAL"
	}
	return "UNAVAILABLE"
}

func posts(path string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Path == path }
}

func begins(path string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, path) }
}

// Settings returns the entry of models.providers in parley.yaml for the provider at an
// address, as JSON, which is also YAML. If its account is named after its kind, key and
// address come from the environment.
func (p Provider) Settings(url string) map[string]any {
	one := map[string]any{"kind": p.Kind}
	if p.Account != p.Kind {
		one["key"], one["base_url"] = Key, url+p.Base
	}
	if p.Dialect != "" {
		one["dialect"] = p.Dialect
	}
	if p.Kind == "mistral" {
		one["hosted"] = p.Hosted
	}
	return one
}
