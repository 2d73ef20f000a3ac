package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

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

// maxPauses limits how often a paused reply is continued.
const maxPauses = 8

// errStopped means that the reader stopped reading.
var errStopped = errors.New("anthropic: the reader went away")

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

// reply makes the call, and continues it each time the provider pauses.
func (m *model) reply(ctx context.Context, r seam.Request, show func(seam.ModelDelta) bool) (*seam.Reply, error) {
	var whole seam.Reply
	for n := 0; ; n++ {
		piece, err := m.piece(ctx, r, show, maxBlocks-len(whole.Parts))
		if err != nil {
			return nil, err
		}
		whole.Model, whole.StopReason = piece.Model, piece.StopReason
		whole.Usage = whole.Usage.Add(piece.Usage)
		whole.Parts = append(whole.Parts, piece.Parts...)
		for _, c := range piece.Citations {
			if !slices.Contains(whole.Citations, c) {
				whole.Citations = append(whole.Citations, c)
			}
		}
		if piece.StopReason != "pause_turn" || n == maxPauses || len(piece.Parts) == 0 || slices.ContainsFunc(piece.Parts, isCall) {
			return &whole, nil
		}
		r.Messages = append(slices.Clip(r.Messages), parley.Message{Role: parley.RoleAssistant, Parts: piece.Parts})
	}
}

func isCall(p parley.Part) bool {
	return p.Type == parley.PartToolCall || p.Type == parley.PartHandoff
}

// piece makes one request and reads its stream.
func (m *model) piece(ctx context.Context, r seam.Request, show func(seam.ModelDelta) bool, blocks int) (*seam.Reply, error) {
	resp, names, err := m.post(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if !transport.IsType(resp, sse.ContentType) {
		return nil, m.c.said.Malformed("a response that is not a stream", nil)
	}
	d := decoder{said: m.c.said, client: m.c, names: names, model: m.id, show: show, most: blocks}
	return d.read(ctx, resp.Body)
}

// post sends the request. If the provider rejects one of its settings, that is remembered, and
// the request is sent once more without it.
func (m *model) post(ctx context.Context, r seam.Request) (*http.Response, *names, error) {
	t, err := m.traits(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	for again := false; ; again = true {
		p, err := m.build(ctx, r, t)
		if err != nil {
			return nil, nil, err
		}
		body, err := p.stream()
		if err != nil {
			return nil, nil, err
		}
		resp, err := m.c.send(ctx, http.MethodPost, "/v1/messages", body)
		if err == nil {
			return resp, p.names, nil
		}
		if again || !m.learns(ctx, err, p.params) {
			return nil, nil, err
		}
		was := t
		if t, _ = m.c.traits(m.id); t == was {
			return nil, nil, err
		}
	}
}

// traits returns what the model accepts. The provider is asked only if it matters and nothing is
// known.
func (m *model) traits(ctx context.Context, r seam.Request) (traits, error) {
	t, sure := m.c.traits(m.id)
	if sure || r.Effort == "" {
		return t, nil
	}
	if _, err := m.c.ask(ctx, m.id); err != nil {
		if ctx.Err() != nil {
			return t, ctx.Err()
		}
		m.c.opt.Logger.WarnContext(ctx, "anthropic: what the model can do is not known", "model", m.id, "err", err)
	}
	t, _ = m.c.traits(m.id)
	return t, nil
}

// learns derives from a rejection what the model does not accept. It reports whether that may
// have been the reason.
func (m *model) learns(ctx context.Context, err error, p sdk.MessageNewParams) bool {
	e, ok := errors.AsType[*parley.Error](err)
	if !ok || e.Code != parley.CodeInvalid {
		return false
	}
	words := strings.ToLower(e.Message)
	switch {
	case p.Temperature.Valid() && (strings.Contains(words, "temperature") || strings.Contains(words, "sampling")):
		m.c.refusesSampling(m.id)
	case strings.Contains(words, "thinking"), strings.Contains(words, "effort"):
		if _, err := m.c.ask(ctx, m.id); err != nil {
			return false
		}
	default:
		return false
	}
	m.c.opt.Logger.InfoContext(ctx, "anthropic: the model does not accept a setting", "model", m.id, "said", e.Message)
	return true
}

// Pass implements seam.Passer.
func (m *model) Pass(ctx context.Context, body []byte, beta []string) (*http.Response, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "the request is not valid JSON")
	}
	var err error
	if fields["model"], err = json.Marshal(m.id); err != nil {
		return nil, err
	}
	if body, err = json.Marshal(fields); err != nil {
		return nil, err
	}
	h := m.c.header()
	if len(beta) > 0 {
		h["Anthropic-Beta"] = beta
	}
	return m.c.said.Send(ctx, m.c.opt.HTTP, http.MethodPost, m.c.opt.BaseURL+"/v1/messages", h, body)
}

// Check implements seam.Checker: it requests the model's description, which is free.
func (m *model) Check(ctx context.Context) error {
	_, err := m.c.ask(ctx, m.id)
	return err
}

// CountTokens implements seam.TokenCounter.
func (m *model) CountTokens(ctx context.Context, r seam.Request) (int64, error) {
	t, err := m.traits(ctx, r)
	if err != nil {
		return 0, err
	}
	p, err := m.build(ctx, r, t)
	if err != nil {
		return 0, err
	}
	body, err := p.count()
	if err != nil {
		return 0, err
	}
	var got struct {
		InputTokens int64 `json:"input_tokens"`
	}
	if err := m.c.call(ctx, http.MethodPost, "/v1/messages/count_tokens", body, &got); err != nil {
		return 0, err
	}
	return got.InputTokens, nil
}
