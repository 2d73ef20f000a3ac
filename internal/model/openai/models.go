package openai

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// maxList limits a list of models; OpenRouter's is about 1 MiB.
const maxList = 16 << 20

// listed is a model in a list. All fields except the id are specific to some server.
type listed struct {
	ID      string `json:"id"`
	Context int64  `json:"context_length"` // OpenRouter
	MaxLen  int64  `json:"max_model_len"`  // vLLM
	Top     struct {
		MaxOutput int64 `json:"max_completion_tokens"`
	} `json:"top_provider"`
	Pricing struct {
		Prompt     string `json:"prompt"`
		Completion string `json:"completion"`
		CacheRead  string `json:"input_cache_read"`
		CacheWrite string `json:"input_cache_write"`
	} `json:"pricing"`
	Architecture struct {
		Input []string `json:"input_modalities"`
	} `json:"architecture"`
	Meta struct { // llama.cpp
		Context int64 `json:"n_ctx"`
		Trained int64 `json:"n_ctx_train"`
	} `json:"meta"`
}

// List returns the models that the account can use, with sizes and prices if the server reports
// them.
func (c *Client) List(ctx context.Context) ([]seam.ModelInfo, error) {
	all, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	day := c.opt.Now().UTC().Format("2006-01-02")
	out := make([]seam.ModelInfo, 0, len(all))
	for _, l := range all {
		i := seam.ModelInfo{
			Name: c.opt.Name + "/" + l.ID, Provider: c.opt.Name,
			ContextTokens:   firstOf(l.Context, l.MaxLen, l.Meta.Context, l.Meta.Trained),
			MaxOutputTokens: max(l.Top.MaxOutput, 0),
			InputUSD:        perMillion(l.Pricing.Prompt), OutputUSD: perMillion(l.Pricing.Completion),
			CacheReadUSD: perMillion(l.Pricing.CacheRead), CacheWriteUSD: perMillion(l.Pricing.CacheWrite),
			Images: slices.Contains(l.Architecture.Input, "image"),
			Files:  c.d.files && slices.Contains(l.Architecture.Input, "file"),
		}
		if i.InputUSD > 0 || i.OutputUSD > 0 {
			i.PricedAt = day
		}
		out = append(out, i)
	}
	return out, nil
}

func firstOf(ns ...int64) int64 {
	for _, n := range ns {
		if n > 0 {
			return n
		}
	}
	return 0
}

func perMillion(usd string) float64 {
	p, err := strconv.ParseFloat(usd, 64)
	if err != nil || !(p > 0) || p > 1 { // more than a dollar per token is something else
		return 0
	}
	return p * 1e6
}

func (c *Client) list(ctx context.Context) ([]listed, error) {
	var l struct {
		Data []listed `json:"data"`
	}
	if err := c.get(ctx, c.base+"/models", "a list of models", &l); err != nil {
		return nil, err
	}
	for i := range l.Data {
		l.Data[i].ID = strings.TrimPrefix(l.Data[i].ID, "models/") // Gemini
	}
	return slices.DeleteFunc(l.Data, func(x listed) bool { return x.ID == "" }), nil
}

func (c *Client) get(ctx context.Context, url, what string, into any) error {
	resp, err := c.tr.Get(ctx, c.opt.HTTP, url, c.header("application/json"))
	if err != nil {
		return err
	}
	return c.answer(ctx, resp, what, into)
}

func (c *Client) answer(ctx context.Context, resp *http.Response, what string, into any) error {
	if resp.StatusCode/100 != 2 {
		_, err := c.refusal(resp)
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxList+1))
	if err != nil {
		return c.tr.Failure(ctx, err)
	}
	if len(raw) > maxList {
		return parley.Errorf(parley.CodeTooLarge, "%s sent %s that is too long", c.tr.Name, what)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return c.tr.Malformed(what, err)
	}
	return nil
}

// Check asks whether the model exists and the key is valid, with requests that cost nothing. It
// cannot detect everything: llama.cpp lists its model to anybody, so a wrong key shows at the
// first call.
func (m *model) Check(ctx context.Context) error {
	c := m.c
	if c.d.pathKey != "" { // its list is public
		var any json.RawMessage
		if err := c.get(ctx, c.base+c.d.pathKey, "an answer about the key", &any); err != nil {
			return err
		}
	}
	all, err := c.list(ctx)
	if err != nil {
		if e, ok := asError(err); ok && e.Code == parley.CodeNotFound {
			e = parley.Errorf(parley.CodeNotFound, "%s has no list of models at the base URL", c.tr.Name).
				WithHint("give the base URL up to, but without, /chat/completions: it often ends in /v1")
			return e
		}
		return err
	}
	if c.d.anyModel {
		return nil
	}
	id, _, _ := strings.Cut(m.id, ":")
	for _, l := range all {
		// A tag that is not listed may still be valid: OpenRouter's :nitro, or Ollama's implicit
		// :latest.
		if l.ID == m.id || l.ID == id && c.opt.Dialect == OpenRouter || l.ID == m.id+":latest" && c.opt.Dialect == Ollama {
			return nil
		}
	}
	return c.tr.Refused(parley.CodeNotFound, m.id+" is not in its list")
}

// counting is a model whose server can count tokens.
type counting struct{ *model }

// CountTokens asks vLLM, which uses the model's own template and tokenizer.
func (m counting) CountTokens(ctx context.Context, r seam.Request) (int64, error) {
	q := m.request(ctx, &r, newNames(&r), m.known())
	raw, err := q.raw, q.err
	if err != nil {
		return 0, err
	}
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(raw, &whole); err != nil {
		return 0, parley.Errorf(parley.CodeInternal, "a request cannot be parsed again: %w", err)
	}
	ask := map[string]json.RawMessage{"model": whole["model"], "messages": whole["messages"]}
	for _, k := range []string{"tools", "chat_template_kwargs"} {
		if whole[k] != nil {
			ask[k] = whole[k]
		}
	}
	if raw, err = encode(ask); err != nil {
		return 0, parley.Errorf(parley.CodeInternal, "a request cannot be written: %w", err)
	}
	resp, err := m.c.tr.Post(ctx, m.c.opt.HTTP, strings.TrimSuffix(m.c.base, "/v1")+"/tokenize", m.c.header("application/json"), raw)
	if err != nil {
		return 0, err
	}
	var n struct {
		Count int64 `json:"count"`
	}
	if err := m.c.answer(ctx, resp, "a count of tokens", &n); err != nil {
		return 0, err
	}
	if n.Count <= 0 {
		return 0, m.c.tr.Malformed("a token count that is missing", nil)
	}
	return n.Count, nil
}
