// Package gemini calls Google's Gemini API.
//
// The types of requests are our own (wire.go). Arguments of calls and sealed parts are written as
// they came. Requests are sent by the HTTP client that all adapters share. The answer is read by a
// decoder of our own, which keeps everything that has to go back and costs a fraction per delta of
// what the official SDK's does.
//
// Models since Gemini 3 seal the first call of each step with a thought signature and reject a
// call that comes back without one. Calls made by other providers' models carry the placeholder
// that Google documents for that.
//
// If the provider no longer accepts one of its own seals, the request is sent once more with
// placeholders, so that the session is not lost. If it rejects the form in which a model is told
// to think, the request is sent in another form, which is remembered. Up to then nothing has
// been generated or paid for.
package gemini

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

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/transport"
	"github.com/parley-server/parley/internal/seam"
)

// provider is our name for Gemini, in names of models and on parts that it has sealed.
const provider = "gemini"

// version is the API version. v1 lacks thinking and signatures.
const version = "/v1beta"

const defaultBaseURL = "https://generativelanguage.googleapis.com"

// Options are the settings of a Client.
type Options struct {
	Key     string       // API key; required
	BaseURL string       // empty: https://generativelanguage.googleapis.com
	HTTP    *http.Client // nil: transport.NewClient()
	Logger  *slog.Logger // nil: none
}

// Client makes the models of one account. It is safe for concurrent use.
type Client struct {
	opt  Options
	said transport.Provider

	mu      sync.Mutex
	learned map[string]thinking // by the provider's id of the model
}

// New returns a Client without contacting the provider. It returns CodeInvalid for options that
// cannot work.
func New(o Options) (*Client, error) {
	if o.Key = strings.TrimSpace(o.Key); o.Key == "" {
		return nil, parley.Errorf(parley.CodeInvalid, "there is no key for Gemini").WithHint("make one at https://aistudio.google.com/apikey and put it into the settings")
	}
	said := transport.Provider{Name: "Gemini", Key: o.Key}
	u, err := said.Account(cmp.Or(o.BaseURL, defaultBaseURL), defaultBaseURL)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(u.Path, "/openai") {
		return nil, parley.Errorf(parley.CodeInvalid, "the base URL of Gemini is its OpenAI-compatible endpoint").
			WithHint("remove /v1beta/openai, or set up a provider of kind openai with the dialect gemini")
	}
	o.BaseURL = strings.TrimSuffix(u.String(), version)
	if o.HTTP == nil {
		o.HTTP = transport.NewClient()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Client{opt: o, said: said, learned: map[string]thinking{}}, nil
}

// Model returns the model called info.Name: "gemini/" and the provider's own id.
func (c *Client) Model(info seam.ModelInfo) seam.Model {
	id := info.Name
	if _, rest, ok := strings.Cut(info.Name, "/"); ok {
		id = rest
	}
	info.Provider = provider
	return &model{c: c, info: info, id: strings.TrimPrefix(id, "models/")}
}

// path returns the path of a model. Tuned models have a folder of their own.
func path(id string) string {
	folder := "models"
	if rest, ok := strings.CutPrefix(id, "tunedModels/"); ok {
		folder, id = "tunedModels", rest
	}
	return version + "/" + folder + "/" + url.PathEscape(id)
}

// maxAnswer limits an answer that is not a stream.
const maxAnswer = 8 << 20

// call makes a request whose answer is one JSON value.
func (c *Client) call(ctx context.Context, method, path string, body []byte, to any) error {
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
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

// send sends a request. The response it returns has a 2xx status.
func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	h := http.Header{"X-Goog-Api-Key": {c.opt.Key}, "User-Agent": {"parley"}}
	resp, err := c.said.Send(ctx, c.opt.HTTP, method, c.opt.BaseURL+path, h, body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, c.refusal(resp)
	}
	return resp, nil
}

// modelObject is a model as the provider lists it. The list does not say which images and
// documents it accepts.
type modelObject struct {
	Name    string   `json:"name"`
	Input   int64    `json:"inputTokenLimit"`
	Output  int64    `json:"outputTokenLimit"`
	Methods []string `json:"supportedGenerationMethods"`
}

func (o modelObject) info() seam.ModelInfo {
	id := strings.TrimPrefix(o.Name, "models/")
	all := strings.HasPrefix(id, "gemini-")
	return seam.ModelInfo{Name: provider + "/" + id, Provider: provider, ContextTokens: o.Input, MaxOutputTokens: o.Output, Images: all, Files: all}
}

// maxPages limits the pages of a list, each of up to a thousand models.
const maxPages = 10

// List returns the account's models that can generate answers.
func (c *Client) List(ctx context.Context) ([]seam.ModelInfo, error) {
	var out []seam.ModelInfo
	at := version + "/models?pageSize=1000"
	for range maxPages {
		var page struct {
			Models []modelObject `json:"models"`
			Next   string        `json:"nextPageToken"`
		}
		if err := c.call(ctx, http.MethodGet, at, nil, &page); err != nil {
			return nil, err
		}
		for _, o := range page.Models {
			if slices.Contains(o.Methods, "generateContent") {
				out = append(out, o.info())
			}
		}
		if page.Next == "" {
			break
		}
		at = version + "/models?pageSize=1000&pageToken=" + url.QueryEscape(page.Next)
	}
	slices.SortFunc(out, func(a, b seam.ModelInfo) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
