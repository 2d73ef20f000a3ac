package gemini

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/transport"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sse"
)

// model is one model. It implements seam.Model, Checker and TokenCounter.
type model struct {
	c    *Client
	info seam.ModelInfo
	id   string // the provider's
}

func (m *model) Info() seam.ModelInfo { return m.info }

func (m *model) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		reply, err := m.reply(ctx, r, func(d seam.ModelDelta) bool { return yield(d, nil) })
		switch {
		case errors.Is(err, errStopped):
		case err != nil:
			yield(seam.ModelDelta{}, err)
		default:
			yield(seam.ModelDelta{Reply: reply}, nil)
		}
	}
}

func (m *model) reply(ctx context.Context, r seam.Request, show func(seam.ModelDelta) bool) (*seam.Reply, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	resp, names, err := m.post(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if !transport.IsType(resp, sse.ContentType) {
		return nil, m.strange(resp)
	}
	d := decoder{c: m.c, said: m.c.said, names: names, model: m.id, show: show}
	return d.read(ctx, resp.Body)
}

// strange explains an answer that is not a stream.
func (m *model) strange(resp *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxBare))
	if f, ok := failureOf(raw); ok {
		return m.c.interrupted(f)
	}
	return m.c.said.Malformed("a response that is not a stream", nil)
}

// maxForms limits how many forms of a request are tried: one way to say how much to think,
// another, none, and placeholders for seals.
const maxForms = 4

// post sends the request. If the provider rejects its form, post tries another one.
func (m *model) post(ctx context.Context, r seam.Request) (*http.Response, *names, error) {
	f := form{traits: m.c.traits(m.id)}
	for n := 1; ; n++ {
		body, names, err := m.encode(ctx, r, &f)
		if err != nil {
			return nil, nil, err
		}
		resp, err := m.c.send(ctx, http.MethodPost, path(m.id)+":streamGenerateContent?alt=sse", body)
		if err == nil {
			return resp, names, nil
		}
		if n == maxForms || !m.again(ctx, err, &f) {
			return nil, nil, err
		}
	}
}

// encode returns the request as JSON, within the provider's size limit.
func (m *model) encode(ctx context.Context, r seam.Request, f *form) ([]byte, *names, error) {
	q, names, err := m.build(ctx, r, f)
	if err != nil {
		return nil, nil, err
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, nil, parley.Errorf(parley.CodeInvalid, "the request cannot be written as JSON: %w", err)
	}
	if len(body) > maxRequest {
		return nil, nil, parley.Errorf(parley.CodeTooLarge, "the request is too large for Gemini, which accepts up to 20 MB").WithHint("send fewer or smaller files")
	}
	return body, names, nil
}

// Check implements seam.Checker: it requests the model's description, which is free.
func (m *model) Check(ctx context.Context) error {
	var o modelObject
	return m.c.call(ctx, http.MethodGet, path(m.id), nil, &o)
}

// CountTokens implements seam.TokenCounter.
func (m *model) CountTokens(ctx context.Context, r seam.Request) (int64, error) {
	f := form{traits: m.c.traits(m.id)}
	q, _, err := m.build(ctx, r, &f)
	if err != nil {
		return 0, err
	}
	q.Config = nil // it only concerns the reply
	// The inner request names the model as well.
	body, err := json.Marshal(map[string]any{"generateContentRequest": struct {
		Model string `json:"model"`
		request
	}{path(m.id)[len(version)+1:], q}})
	if err != nil {
		return 0, parley.Errorf(parley.CodeInvalid, "the request cannot be written as JSON: %w", err)
	}
	var got struct {
		Total int64 `json:"totalTokens"`
	}
	if err := m.c.call(ctx, http.MethodPost, path(m.id)+":countTokens", body, &got); err != nil {
		return 0, err
	}
	return got.Total, nil
}
