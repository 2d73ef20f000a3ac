// Package mistral provides the models of Mistral's La Plateforme, in two ways.
//
// [Client.Model] uses chat completions: our loop keeps the history, runs the tools and does the
// handoffs. [Client.Hosted] uses agents and conversations stored at Mistral; see [Hosted]. An
// app chooses by the model's name.
//
// The requests are written by hand, because Mistral rejects a request with an unknown key and no
// Go client supports conversations. Nothing is retried here, and no environment variable is
// read: the errors' codes say what may be repeated.
//
// A Client, its models and Hosted are safe for concurrent use.
package mistral

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/transport"
	"github.com/parley-server/parley/internal/seam"
)

// DefaultBaseURL is the global address, outside the European and American regions.
const DefaultBaseURL = "https://api.mistral.ai"

// name is our name for Mistral, in ModelInfo and on parts that it sealed.
const name = "mistral"

const (
	// maxFrame limits one frame of a stream.
	maxFrame = 32 << 20
	// maxAnswer limits an answer that is not a stream.
	maxAnswer = 32 << 20
	// maxParts limits the parts of a reply.
	maxParts = 256
	// maxArguments limits the arguments of one call.
	maxArguments = 1 << 20
	// maxText limits the text of a reply, and separately its thinking.
	maxText = 16 << 20
)

// Options are the settings of a Client.
type Options struct {
	Key     string // API key; required
	BaseURL string // empty: DefaultBaseURL. With or without /v1
	// HTTP makes the requests. nil: transport.NewClient().
	HTTP   *http.Client
	Logger *slog.Logger     // nil: none
	Now    func() time.Time // nil: time.Now
}

// Client makes the models of one account.
type Client struct {
	base string
	http *http.Client
	head http.Header
	p    transport.Provider
	log  *slog.Logger
	now  func() time.Time

	files chan struct{} // lock of the file of agents' ids
}

// New makes a client without contacting Mistral. It returns CodeInvalid for a malformed key or
// address.
func New(o Options) (*Client, error) {
	if o.Key == "" {
		return nil, parley.Errorf(parley.CodeInvalid, "Mistral needs a key").WithHint("set MISTRAL_API_KEY")
	}
	p := transport.Provider{Name: "Mistral", Key: o.Key}
	u, err := p.Account(cmp.Or(o.BaseURL, DefaultBaseURL), DefaultBaseURL)
	if err != nil {
		return nil, err
	}
	c := &Client{
		base: strings.TrimSuffix(u.String(), "/v1"),
		http: o.HTTP, log: o.Logger, now: o.Now, files: make(chan struct{}, 1),
		p: p,
		head: http.Header{
			"Authorization": {"Bearer " + o.Key},
			"Content-Type":  {"application/json"},
			"Accept":        {"application/json"},
			"User-Agent":    {"parley"},
		},
	}
	if c.http == nil {
		c.http = transport.NewClient()
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.now == nil {
		c.now = time.Now
	}
	return c, nil
}

// Model returns a model over chat completions. Its id at Mistral is the part of info.Name after
// the first slash.
func (c *Client) Model(info seam.ModelInfo) seam.Model {
	info.Provider, info.MaxImages = name, maxImages
	return &model{c: c, id: providerID(info.Name), info: info}
}

func providerID(full string) string {
	if _, id, ok := strings.Cut(full, "/"); ok {
		return id
	}
	return full
}

type model struct {
	c    *Client
	id   string
	info seam.ModelInfo
}

func (m *model) Info() seam.ModelInfo { return m.info }

// Check implements seam.Checker: it requests the model's description.
func (m *model) Check(ctx context.Context) error { return m.c.check(ctx, m.id) }

func (c *Client) check(ctx context.Context, id string) error {
	var card modelCard
	return c.get(ctx, "/v1/models/"+url.PathEscape(id), &card)
}

type modelCard struct {
	ID               string   `json:"id"`
	Aliases          []string `json:"aliases"`
	MaxContextLength int64    `json:"max_context_length"`
	Capabilities     struct {
		CompletionChat bool `json:"completion_chat"`
		Vision         bool `json:"vision"`
	} `json:"capabilities"`
}

// List returns the account's models that can chat.
func (c *Client) List(ctx context.Context) ([]seam.ModelInfo, error) {
	var page struct {
		Data []modelCard `json:"data"`
	}
	if err := c.get(ctx, "/v1/models", &page); err != nil {
		return nil, err
	}
	var list []seam.ModelInfo
	seen := map[string]bool{}
	for _, m := range page.Data {
		if !m.Capabilities.CompletionChat || m.ID == "" || seen[m.ID] {
			continue // the list repeats a model for each of its aliases
		}
		seen[m.ID] = true
		list = append(list, seam.ModelInfo{
			Name: name + "/" + m.ID, Provider: name, ContextTokens: m.MaxContextLength, Images: m.Capabilities.Vision,
		})
	}
	return list, nil
}

// get requests a JSON answer and decodes it into v.
func (c *Client) get(ctx context.Context, path string, v any) error {
	return c.do(ctx, http.MethodGet, path, nil, v)
}

// do sends a request that is not streamed and decodes its answer into v, unless v is nil.
func (c *Client) do(ctx context.Context, method, path string, body []byte, v any) error {
	resp, err := c.p.Send(ctx, c.http, method, c.base+path, c.head, body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return c.p.Refusal(resp, refusal)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.p.Failure(ctx, err)
	case v == nil:
		return nil
	case len(raw) > maxAnswer:
		return c.p.Malformed("an answer that is too large", nil)
	case !transport.IsType(resp, "application/json"):
		return c.p.Malformed("a response that is not JSON", nil)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return c.p.Malformed("an answer", err)
	}
	return nil
}

// open starts a stream. The response is an event stream, and the caller closes its body.
func (c *Client) open(ctx context.Context, path string, body []byte) (*http.Response, error) {
	h := c.head.Clone()
	h.Set("Accept", "text/event-stream")
	resp, err := c.p.Post(ctx, c.http, c.base+path, h, body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, c.p.Refusal(resp, refusal)
	}
	if !transport.IsType(resp, "text/event-stream") {
		resp.Body.Close()
		return nil, c.p.Malformed("a response that is not an event stream", nil)
	}
	return resp, nil
}
