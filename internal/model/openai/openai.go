// Package openai is a model behind a chat completions API, as OpenAI defined it
// and as OpenRouter, Ollama, vLLM, llama.cpp, Gemini's compatible endpoint and
// many others speak it.
//
//	c, err := openai.New(openai.Options{BaseURL: "http://localhost:11434/v1"})
//	m := c.Model(seam.ModelInfo{Name: "openai/qwen3:8b", ContextTokens: 32_768, MaxOutputTokens: 8_192})
//
// What differs between these servers is a table of dialects, found by the base
// URL or named in [Options]. The decoder is one for all of them and takes what
// any of them sends: each of its rules has a recorded stream in testdata. A
// stream that ends without saying why it ended is an error, never a short reply.
//
// A request that a server refuses because of a key that may be left out, such as
// temperature with a model that thinks, is sent again without it, and the client
// remembers. Nothing else is tried twice.
//
// Of Ollama, vLLM and llama.cpp it is asked how many tokens they take, which their
// operator decides: see window.go.
//
// Reasoning is given back only to the model that said it, in the field in which
// it came. A Client and its Models are safe for concurrent use.
package openai

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/transport"
	"github.com/parley-server/parley/internal/seam"
)

// Options are the settings of one server. The zero value is OpenAI without a key,
// which New refuses.
type Options struct {
	Key     string       // empty: none is sent, as a local server wants it
	BaseURL string       // up to before /chat/completions; empty: the dialect's own, else OpenAI's
	HTTP    *http.Client // nil: transport.NewClient()
	Logger  *slog.Logger // nil: nothing is logged
	Now     func() time.Time

	// Dialect is how the server speaks. Empty: found by the base URL, else Plain.
	Dialect Dialect
	// Name is what stands before the first slash of its models' names; empty:
	// openai. It is also the Provider of their parts.
	Name string
	// Header is sent with each request, such as OpenAI-Organization or what names
	// an application to OpenRouter.
	Header http.Header
	// Extra has keys for the body of each call that only this server knows, such as
	// chat_template_kwargs of vLLM or provider of OpenRouter. What the client
	// itself needs for a call cannot be set: model, messages, stream and tools.
	Extra map[string]json.RawMessage
}

// Client speaks with one server.
type Client struct {
	opt  Options
	base string
	d    dialect
	tr   transport.Provider

	mu      sync.Mutex
	learned map[string]quirks // by the server's name of the model
	windows map[string]window // likewise
}

// maxLearned bounds how many models a client remembers something of.
const maxLearned = 1000

// New returns a client. It contacts nobody. Settings that cannot work are
// refused: CodeInvalid, or CodeUnauthenticated where a key is needed.
func New(o Options) (*Client, error) {
	if o.BaseURL == "" {
		if o.Dialect == "" {
			o.Dialect = OpenAI
		}
		o.BaseURL = dialects[o.Dialect].base
	}
	u, err := url.Parse(strings.TrimRight(o.BaseURL, "/"))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "the base URL of the %s server is not an http address", named(o)).
			WithHint("give it up to before /chat/completions, such as http://localhost:11434/v1").WithField("base_url")
	}
	u.Path = strings.TrimSuffix(u.Path, "/chat/completions") // as it is often copied
	if o.Dialect == "" {
		o.Dialect = detect(u)
	}
	d, ok := dialects[o.Dialect]
	if !ok {
		return nil, parley.Errorf(parley.CodeInvalid, "%q is no dialect of chat completions", o.Dialect).
			WithHint("one of %s", strings.Join(dialectNames(), ", ")).WithField("dialect")
	}
	if o.Key == "" && d.keyed {
		return nil, parley.Errorf(parley.CodeUnauthenticated, "%s needs a key and has none", d.title).
			WithHint("put the key into the settings").WithField("key")
	}
	if strings.ContainsAny(o.Key, "\r\n\x00 ") {
		return nil, parley.Errorf(parley.CodeInvalid, "the key of %s has a space or a line break in it", d.title).
			WithHint("copy it again, without what stands around it").WithField("key")
	}
	for k, v := range o.Extra {
		if reserved[k] || !json.Valid(v) {
			return nil, parley.Errorf(parley.CodeInvalid, "the extra key %q cannot be set so", k).
				WithHint("extra holds JSON by key, and not what each call has of its own").WithField("extra")
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
	return &Client{
		opt: o, base: u.String(), d: d, learned: map[string]quirks{}, windows: map[string]window{},
		tr: transport.Provider{Name: d.title, Key: o.Key},
	}, nil
}

func named(o Options) string {
	if o.Name != "" {
		return o.Name
	}
	return "openai"
}

// Dialect is how the server is taken to speak.
func (c *Client) Dialect() Dialect { return c.opt.Dialect }

// Model returns a model of this server. What follows the first slash of its name
// is the server's own name of it, with whatever slashes and colons that has.
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

// header is what each request has.
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

// knows is what was learned of a model.
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
