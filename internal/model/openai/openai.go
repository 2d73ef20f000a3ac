// Package openai is a model behind a chat completions API, as defined by OpenAI and spoken by
// OpenRouter, Ollama, vLLM, llama.cpp, Gemini's compatible endpoint and many other servers.
//
//	c, err := openai.New(openai.Options{BaseURL: "http://localhost:11434/v1"})
//	m := c.Model(seam.ModelInfo{Name: "openai/qwen3:8b", ContextTokens: 32_768, MaxOutputTokens: 8_192})
//
// The differences between these servers are in a table of dialects, chosen by the base URL or by
// [Options]. One decoder handles all of them and accepts what any of them sends: each of its
// rules has a recorded stream in testdata. A stream that ends without a finish reason is an
// error, never a short reply.
//
// If a server rejects a request because of an optional field, such as temperature for a model
// that thinks, the request is sent again without it, and the client remembers. Nothing else is
// retried.
//
// Ollama, vLLM and llama.cpp are asked how many tokens they accept, which their operator
// decides: see window.go.
//
// Reasoning is sent back only to the model that produced it, in the field in which it came. A
// Client and its Models are safe for concurrent use.
package openai

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/transport"
	"github.com/parley-server/parley/internal/seam"
)

// Options are the settings of one server. The zero value means OpenAI without a key, which New
// rejects.
type Options struct {
	Key     string       // empty: none is sent, as for a local server
	BaseURL string       // without /chat/completions; empty: the dialect's own, otherwise OpenAI's
	HTTP    *http.Client // nil: transport.NewClient()
	Logger  *slog.Logger // nil: nothing is logged
	Now     func() time.Time

	// Dialect is the server's dialect. Empty: recognized by the base URL, otherwise Plain.
	Dialect Dialect
	// Name is the prefix of its models' names, before the first slash; empty: openai. It is also
	// the Provider of their parts.
	Name string
	// Header is sent with each request, such as OpenAI-Organization or the headers that identify
	// an application to OpenRouter.
	Header http.Header
	// Extra has additional fields for the body of each call, such as vLLM's chat_template_kwargs
	// or OpenRouter's provider. Fields that the client itself sets are not allowed: model,
	// messages, stream and tools.
	Extra map[string]json.RawMessage
}

// Client talks to one server.
type Client struct {
	opt  Options
	base string
	d    dialect
	tr   transport.Provider

	mu      sync.Mutex
	learned map[string]quirks // by the server's name for the model
	windows map[string]window // likewise
}

// maxLearned limits how many models a client remembers.
const maxLearned = 1000

// New returns a client without contacting the server. It returns CodeInvalid for settings that
// cannot work, and CodeUnauthenticated if a required key is missing.
func New(o Options) (*Client, error) {
	if o.BaseURL == "" {
		if o.Dialect == "" {
			o.Dialect = OpenAI
		}
		o.BaseURL = dialects[o.Dialect].base
	}
	tr := transport.Provider{Name: named(o), Key: o.Key}
	u, err := tr.Account(o.BaseURL, "http://localhost:11434/v1")
	if err != nil {
		return nil, err
	}
	u.Path = strings.TrimSuffix(u.Path, "/chat/completions") // often copied along with it
	if o.Dialect == "" {
		o.Dialect = detect(u)
	}
	d, ok := dialects[o.Dialect]
	if !ok {
		return nil, parley.Errorf(parley.CodeInvalid, "%q is not a dialect of chat completions", o.Dialect).
			WithHint("one of %s", strings.Join(dialectNames(), ", ")).WithField("dialect")
	}
	if o.Key == "" && d.keyed {
		return nil, parley.Errorf(parley.CodeUnauthenticated, "%s needs a key and has none", d.title).
			WithHint("put the key into the settings").WithField("key")
	}
	for k, v := range o.Extra {
		if reserved[k] || !json.Valid(v) {
			return nil, parley.Errorf(parley.CodeInvalid, "the extra key %q cannot be set", k).
				WithHint("extra maps fields to JSON, except the fields that each call sets itself").WithField("extra")
		}
	}
	if o.HTTP == nil {
		o.HTTP = transport.NewClient()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Name == "" {
		o.Name = "openai"
	}
	tr.Name = d.title
	return &Client{opt: o, base: u.String(), d: d, learned: map[string]quirks{}, windows: map[string]window{}, tr: tr}, nil
}

func named(o Options) string {
	if o.Name != "" {
		return o.Name
	}
	return "openai"
}

// Dialect returns the server's dialect.
func (c *Client) Dialect() Dialect { return c.opt.Dialect }

// Model returns a model of this server. The part of its name after the first slash is the
// server's own name for it, including any slashes and colons.
func (c *Client) Model(info seam.ModelInfo) seam.Model {
	if info.Provider == "" {
		info.Provider = c.opt.Name
	}
	_, id, ok := strings.Cut(info.Name, "/")
	if !ok {
		id = info.Name
	}
	m := &model{c: c, info: info, id: id}
	if c.d.tokenize {
		return counting{m}
	}
	return m
}

// model is one model of the server.
type model struct {
	c    *Client
	info seam.ModelInfo
	id   string // the server's name of it
}

// header returns the headers of each request.
func (c *Client) header(accept string) http.Header {
	h := http.Header{"Accept": {accept}}
	for k, v := range c.opt.Header {
		h[http.CanonicalHeaderKey(k)] = v
	}
	if c.opt.Key != "" {
		h.Set("Authorization", "Bearer "+c.opt.Key)
	}
	return h
}

// knows returns what was learned about a model.
func (c *Client) knows(id string) quirks {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.learned[id]
}

func (c *Client) learn(id string, q quirks) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.learned) < maxLearned {
		c.learned[id] |= q
	}
}
