package gemini

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Tools that the provider runs.
const (
	webSearch = "web_search"
	webFetch  = "web_fetch"
)

// form says how a request is written, and what it contains.
type form struct {
	traits traits
	bare   bool // placeholders instead of seals

	thinks bool // the request says how much to think
	sealed bool // the request has a seal of the provider
}

// build converts our request to the provider's.
func (m *model) build(ctx context.Context, r seam.Request, f *form) (request, *names, error) {
	q, n := request{}, newNames()
	if err := tools(&q, n, r); err != nil {
		return q, nil, err
	}
	h := history{model: m.id, info: m.info, names: n, open: r.Open, form: f}
	if err := h.add(ctx, r.Messages); err != nil {
		return q, nil, err
	}
	q.Contents = h.contents
	if strings.TrimSpace(r.System) != "" {
		q.System = &content{Parts: []any{textPart(r.System)}}
	}
	c := generationConfig{Thinking: f.traits.think(r.Effort)}
	f.thinks = c.Thinking != nil
	if r.MaxTokens > 0 {
		most := r.MaxTokens
		if m.info.MaxOutputTokens > 0 {
			most = min(most, m.info.MaxOutputTokens)
		}
		c.MaxTokens = int32(min(most, math.MaxInt32))
	}
	if r.Temperature != nil {
		t := float32(min(max(*r.Temperature, 0), 2))
		c.Temperature = &t
	}
	q.Config = &c
	return q, n, nil
}

func tools(q *request, n *names, r seam.Request) error {
	var own tool
	for _, name := range r.ServerTools {
		switch name {
		case webSearch:
			own.GoogleSearch = &struct{}{}
		case webFetch:
			own.URLContext = &struct{}{}
		default:
			return parley.Errorf(parley.CodeInvalid, "Gemini runs no tool %q", name).WithHint("it runs %s and %s", webSearch, webFetch)
		}
	}
	for _, d := range r.Tools { // names that fit are kept
		if fits(d.Name) {
			n.wire(target{name: d.Name})
		}
	}
	var decls []functionDeclaration
	for _, d := range r.Tools {
		schema, err := objectSchema(d.InputSchema)
		if err != nil {
			return parley.Errorf(parley.CodeInvalid, "the schema of the tool %s is not a JSON object", d.Name).WithHint("correct the tool's declaration")
		}
		decls = append(decls, functionDeclaration{n.wire(target{name: d.Name}), d.Description, schema})
	}
	for _, to := range r.Handoffs {
		words := "Hands the conversation over to " + to.Agent + "."
		if to.Description != "" {
			words += " " + to.Description
		}
		decls = append(decls, functionDeclaration{
			Name: n.wire(target{name: to.Agent, handoff: true}), Description: words,
			Schema: json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string","description":"why, in a sentence"}}}`),
		})
	}
	if own.GoogleSearch != nil || own.URLContext != nil {
		q.Tools = append(q.Tools, own)
		if decls != nil {
			// Results of the provider's own tools come as parts, which have to go back to it.
			q.Choice = &toolConfig{Invocations: true}
		}
	}
	if decls != nil {
		q.Tools = append(q.Tools, tool{Functions: decls})
	}
	return nil
}

// objectSchema adds "type": "object" to a schema, which the provider requires. The schema goes
// as plain JSON Schema, where unknown keywords are ignored; the older field, a dialect of
// OpenAPI, rejects them.
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
