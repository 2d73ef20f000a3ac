package anthropic

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Tools that the provider runs.
const (
	webSearch = "web_search"
	webFetch  = "web_fetch"
)

const (
	// maxUses limits how often the provider may search or fetch in one reply, because each use
	// costs.
	maxUses = 8
	// maxPage limits how much of a fetched page the model reads, in tokens.
	maxPage = 50_000
)

// defaultOutput is the output limit when none is given.
const defaultOutput = 8192

// A request is our request in the provider's form.
type request struct {
	params sdk.MessageNewParams
	names  *names
	files  attachments
}

// build converts our request to the provider's.
func (m *model) build(ctx context.Context, r seam.Request, t traits) (*request, error) {
	n := newNames(r.ServerTools)
	p := sdk.MessageNewParams{Model: m.id, MaxTokens: r.MaxTokens}
	if p.MaxTokens <= 0 {
		p.MaxTokens = defaultOutput
	}
	if most := m.info.MaxOutputTokens; most > 0 {
		p.MaxTokens = min(p.MaxTokens, most)
	}
	if err := m.tools(&p, n, r); err != nil {
		return nil, err
	}
	h := history{c: m.c, model: m.id, info: m.info, names: n, open: r.Open}
	if err := h.add(ctx, r.Messages); err != nil {
		return nil, err
	}
	p.Messages = h.messages
	if len(p.Tools) == 0 && h.calls {
		// The provider requires declarations of all tools called in the history.
		gone(&p, n)
	}
	think(&p, r.Effort, t, &h)
	if r.Temperature != nil && t.Sampling && p.Thinking.OfEnabled == nil && p.Thinking.OfAdaptive == nil {
		p.Temperature = param.NewOpt(min(max(*r.Temperature, 0), 1))
	}
	m.cache(&p, r.System, &h)
	return &request{params: p, names: n, files: h.files}, nil
}

// cache places up to four breakpoints: after the tools, after the system prompt, after the
// question (which stays when the turn is over), and at the end, which grows.
func (m *model) cache(p *sdk.MessageNewParams, system string, h *history) {
	at := sdk.NewCacheControlEphemeralParam()
	if m.c.opt.CacheHour {
		at.TTL = sdk.CacheControlEphemeralTTLTTL1h
	}
	if n := len(p.Tools); n > 0 && p.Tools[n-1].GetCacheControl() != nil {
		*p.Tools[n-1].GetCacheControl() = at
	}
	if strings.TrimSpace(system) != "" {
		p.System = []sdk.TextBlockParam{{Text: system, CacheControl: at}}
	}
	last := len(h.messages) - 1
	if last > 0 && h.messages[last].Role == sdk.MessageParamRoleAssistant {
		last-- // a reply that is being continued goes back unchanged
	}
	h.mark(last)
	if h.question < last {
		h.mark(h.question)
		return
	}
	// The question is the end here; the breakpoint of the previous question was written in the
	// previous turn.
	for i := last - 1; i >= 0; i-- {
		if h.messages[i].Role == sdk.MessageParamRoleUser && h.mark(i) {
			return
		}
	}
}

func (m *model) tools(p *sdk.MessageNewParams, n *names, r seam.Request) error {
	for _, name := range r.ServerTools {
		switch name {
		case webSearch:
			p.Tools = append(p.Tools, sdk.ToolUnionParam{OfWebSearchTool20250305: &sdk.WebSearchTool20250305Param{MaxUses: param.NewOpt[int64](maxUses)}})
		case webFetch:
			p.Tools = append(p.Tools, sdk.ToolUnionParam{OfWebFetchTool20250910: &sdk.WebFetchTool20250910Param{
				MaxUses: param.NewOpt[int64](maxUses), MaxContentTokens: param.NewOpt[int64](maxPage), Citations: sdk.CitationsConfigParam{Enabled: param.NewOpt(true)},
			}})
		default:
			return parley.Errorf(parley.CodeInvalid, "Anthropic runs no tool %q", name).WithHint("it runs %s and %s", webSearch, webFetch)
		}
	}
	for _, d := range r.Tools { // names that fit are kept
		if validID(d.Name) && len(d.Name) <= maxName {
			n.wire(target{name: d.Name})
		}
	}
	for _, d := range r.Tools {
		schema, err := objectSchema(d.InputSchema)
		if err != nil {
			return parley.Errorf(parley.CodeInvalid, "the schema of the tool %s is not a JSON object", d.Name).WithHint("correct the tool's declaration")
		}
		t := sdk.ToolParam{Name: n.wire(target{name: d.Name}), InputSchema: param.Override[sdk.ToolInputSchemaParam](schema)}
		if d.Description != "" {
			t.Description = param.NewOpt(d.Description)
		}
		p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: &t})
	}
	for _, to := range r.Handoffs {
		words := "Hands the conversation over to " + to.Agent + "."
		if to.Description != "" {
			words += " " + to.Description
		}
		p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: &sdk.ToolParam{
			Name: n.wire(target{name: to.Agent, handoff: true}), Description: param.NewOpt(words),
			InputSchema: sdk.ToolInputSchemaParam{Properties: json.RawMessage(`{"reason":{"type":"string","description":"why, in a sentence"}}`)},
		}})
	}
	return nil
}

// objectSchema adds "type": "object" to a schema, which the provider requires.
func objectSchema(raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return json.RawMessage(`{"type":"object"}`), nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	if _, ok := fields["type"]; ok {
		return raw, nil
	}
	if fields == nil {
		fields = map[string]json.RawMessage{}
	}
	fields["type"] = json.RawMessage(`"object"`)
	return json.Marshal(fields)
}

// gone declares the tools called in the history, for a model that may call none now.
func gone(p *sdk.MessageNewParams, n *names) {
	var used []string
	for _, name := range n.theirs {
		used = append(used, name)
	}
	slices.Sort(used)
	for _, name := range used {
		p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: &sdk.ToolParam{
			Name: name, Description: param.NewOpt("No longer available."), InputSchema: param.Override[sdk.ToolInputSchemaParam](json.RawMessage(`{"type":"object"}`)),
		}})
	}
	p.ToolChoice = sdk.ToolChoiceUnionParam{OfNone: &sdk.ToolChoiceNoneParam{}}
}

// budgets are the thinking budgets in tokens for each effort.
var budgets = map[string]int64{"low": 2048, "medium": 8192, "high": 24_576, "xhigh": 32_768, "max": 60_000}

// leastBudget is the smallest budget that the provider accepts.
const leastBudget = 1024

func think(p *sdk.MessageNewParams, effort string, t traits, h *history) {
	budget, ok := budgets[effort]
	switch {
	case !ok:
		return // the provider's default
	case t.Adaptive:
		p.Thinking.OfAdaptive = &sdk.ThinkingConfigAdaptiveParam{Display: sdk.ThinkingConfigAdaptiveDisplaySummarized}
		if t.Effort {
			p.OutputConfig.Effort = sdk.OutputConfigEffort(effort)
		}
	case h.beginsWithThought():
		// Half of the reply is left for the answer.
		if budget = min(budget, p.MaxTokens/2); budget >= leastBudget {
			p.Thinking = sdk.ThinkingConfigParamOfEnabled(budget)
		}
	}
}

// stream returns the request's JSON with "stream": true, a field that the SDK's types leave to
// its own client.
func (r *request) stream() ([]byte, error) {
	raw, err := r.params.MarshalJSON()
	if err != nil {
		return nil, unwritable(err)
	}
	return fits(r.files.put([]byte(`{"stream":true,`), raw[1:]))
}

// count returns the request's JSON for counting tokens, without the fields about the reply,
// which are rejected there.
func (r *request) count() ([]byte, error) {
	raw, err := r.params.MarshalJSON()
	if err != nil {
		return nil, unwritable(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, unwritable(err)
	}
	delete(fields, "max_tokens")
	delete(fields, "temperature")
	if raw, err = json.Marshal(fields); err != nil {
		return nil, unwritable(err)
	}
	return fits(r.files.put(nil, raw))
}

func unwritable(err error) error {
	return parley.Errorf(parley.CodeInvalid, "the request cannot be written as JSON: %w", err).WithHint("check the schemas of the tools")
}

// fits checks a body against the provider's limit.
func fits(body []byte) ([]byte, error) {
	if len(body) > maxRequest {
		return nil, parley.Errorf(parley.CodeTooLarge, "the request is too large for Anthropic, which accepts up to 32 MB").WithHint("send fewer or smaller files")
	}
	return body, nil
}
