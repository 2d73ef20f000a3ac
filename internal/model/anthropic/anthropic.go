// Package anthropic calls Anthropic's Messages API.
//
// Requests are written with the types of the official SDK, but sent by the HTTP client that all
// adapters share: the SDK's client reads the environment, retries, traces, reads error bodies of
// any length, and adds megabytes to the binary. The answer is read by a decoder of our own,
// which keeps everything that has to go back unchanged and costs a fraction per delta.
//
// A table of data says which settings a model does not accept (sampling, older forms of
// thinking). Where the table is wrong or silent, the provider is asked once a day what the model
// can do. If the provider rejects a request because of such a setting, that is remembered and
// the request is sent once more without it. Up to then nothing has been generated or paid for.
//
// If the provider pauses a reply because a tool that it runs itself takes long, this package
// continues it; the caller sees one reply.
package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/transport"
	"github.com/parley-server/parley/internal/seam"
)

// version is the API version that this package speaks.
const version = "2023-06-01"

// provider is our name for Anthropic, in names of models and on parts that it has sealed.
const provider = "anthropic"

const defaultBaseURL = "https://api.anthropic.com"

// Options are the settings of a Client.
type Options struct {
	Key     string // API key; required
	BaseURL string // empty: https://api.anthropic.com
	// CacheHour keeps tools and system prompts in the provider's cache for an hour instead of
	// five minutes. Writing them then costs twice the price of input.
	CacheHour bool
	HTTP      *http.Client     // nil: transport.NewClient()
	Logger    *slog.Logger     // nil: none
	Now       func() time.Time // nil: time.Now
}

// Client makes the models of one account. It is safe for concurrent use.
type Client struct {
	opt  Options
	said transport.Provider

	mu      sync.Mutex
	learned map[string]learned // by the provider's id of the model
}

// New returns a Client without contacting the provider. It returns CodeInvalid for options that
// cannot work.
func New(o Options) (*Client, error) {
	if o.Key = strings.TrimSpace(o.Key); o.Key == "" {
		return nil, parley.Errorf(parley.CodeInvalid, "there is no key for Anthropic").WithHint("make one at https://platform.claude.com and put it into the settings")
	}
	said := transport.Provider{Name: "Anthropic", Key: o.Key}
	u, err := said.Account(cmp.Or(o.BaseURL, defaultBaseURL), defaultBaseURL)
	if err != nil {
		return nil, err
	}
	o.BaseURL = u.String()
	if o.HTTP == nil {
		o.HTTP = transport.NewClient()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Client{opt: o, said: said, learned: map[string]learned{}}, nil
}

// Model returns the model called info.Name: "anthropic/" and the provider's own id.
func (c *Client) Model(info seam.ModelInfo) seam.Model {
	id := info.Name
	if _, rest, ok := strings.Cut(info.Name, "/"); ok {
		id = rest
	}
	info.Provider = provider
	return &model{c: c, info: info, id: id}
}

// maxAnswer limits an answer that is not a stream.
const maxAnswer = 8 << 20

// call makes a request whose answer is one JSON value.
func (c *Client) call(ctx context.Context, method, path string, body []byte, to any) error {
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	return c.answer(ctx, resp, to)
}

// answer reads the JSON of a response and closes it.
func (c *Client) answer(ctx context.Context, resp *http.Response, to any) error {
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return c.said.Failure(ctx, err)
	}
	if len(raw) > maxAnswer || !transport.IsType(resp, "application/json") {
		return c.said.Malformed("an answer", nil)
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return c.said.Malformed("an answer", err)
	}
	return nil
}

func (c *Client) header() http.Header {
	return http.Header{"X-Api-Key": {c.opt.Key}, "Anthropic-Version": {version}, "User-Agent": {"parley"}}
}

// send sends a request. The response it returns has a 2xx status.
func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	resp, err := c.said.Send(ctx, c.opt.HTTP, method, c.opt.BaseURL+path, c.header(), body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, c.refusal(resp)
	}
	return resp, nil
}

// modelObject is a model as listed by GET /v1/models.
type modelObject struct {
	ID             string `json:"id"`
	MaxInputTokens int64  `json:"max_input_tokens"`
	MaxTokens      int64  `json:"max_tokens"`
	Capabilities   *struct {
		ImageInput  support `json:"image_input"`
		PDFInput    support `json:"pdf_input"`
		Effort      support `json:"effort"`
		ServerTools struct {
			WebSearch support `json:"web_search"`
		} `json:"server_tools"`
		Thinking struct {
			Types map[string]support `json:"types"`
		} `json:"thinking"`
	} `json:"capabilities"`
}

type support struct {
	Supported bool `json:"supported"`
}

func (o modelObject) info() seam.ModelInfo {
	i := seam.ModelInfo{Name: provider + "/" + o.ID, Provider: provider, ContextTokens: o.MaxInputTokens, MaxOutputTokens: o.MaxTokens}
	if k := o.Capabilities; k != nil {
		i.Images, i.Files = k.ImageInput.Supported, k.PDFInput.Supported
		if k.ServerTools.WebSearch.Supported {
			i.ServerTools = []string{webSearch, webFetch}
		}
	}
	return i
}

// maxPages limits the pages of a list, each of up to a thousand models.
const maxPages = 10

// List returns the models that the account can use.
func (c *Client) List(ctx context.Context) ([]seam.ModelInfo, error) {
	var out []seam.ModelInfo
	path := "/v1/models?limit=1000"
	for range maxPages {
		var page struct {
			Data    []modelObject `json:"data"`
			HasMore bool          `json:"has_more"`
			LastID  string        `json:"last_id"`
		}
		if err := c.call(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		for _, o := range page.Data {
			c.learn(o)
			out = append(out, o.info())
		}
		if !page.HasMore || page.LastID == "" {
			break
		}
		path = "/v1/models?limit=1000&after_id=" + url.QueryEscape(page.LastID)
	}
	slices.SortFunc(out, func(a, b seam.ModelInfo) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
