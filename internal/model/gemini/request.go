package gemini

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strings"

	sdk "google.golang.org/genai"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Tools that the provider runs.
const (
	webSearch = "web_search"
	webFetch  = "web_fetch"
)

// request is the body of a generateContent request. The SDK has its fields only as separate
// arguments.
type request struct {
	Contents []content             `json:"contents"`
	System   *sdk.Content          `json:"systemInstruction,omitempty"`
	Tools    []*sdk.Tool           `json:"tools,omitempty"`
	Choice   *sdk.ToolConfig       `json:"toolConfig,omitempty"`
	Config   *sdk.GenerationConfig `json:"generationConfig,omitempty"`
}

// content is a message. A part is an *sdk.Part, or a value that the SDK's type would change.
type content struct {
	Role  string `json:"role"`
	Parts []any  `json:"parts"`
}

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
		q.System = &sdk.Content{Parts: []*sdk.Part{{Text: r.System}}}
	}
	c := sdk.GenerationConfig{ThinkingConfig: f.traits.think(r.Effort)}
	f.thinks = c.ThinkingConfig != nil
	if r.MaxTokens > 0 {
		most := r.MaxTokens
		if m.info.MaxOutputTokens > 0 {
			most = min(most, m.info.MaxOutputTokens)
		}
		c.MaxOutputTokens = int32(min(most, math.MaxInt32))
	}
	if r.Temperature != nil {
		t := float32(min(max(*r.Temperature, 0), 2))
		c.Temperature = &t
	}
	q.Config = &c
	return q, n, nil
}

func tools(q *request, n *names, r seam.Request) error {
	var own sdk.Tool
	for _, name := range r.ServerTools {
		switch name {
		case webSearch:
			own.GoogleSearch = &sdk.GoogleSearch{}
		case webFetch:
			own.URLContext = &sdk.URLContext{}
		default:
			return parley.Errorf(parley.CodeInvalid, "Gemini runs no tool %q", name).WithHint("it runs %s and %s", webSearch, webFetch)
		}
	}
	for _, d := range r.Tools { // names that fit are kept
		if fits(d.Name) {
			n.wire(target{name: d.Name})
		}
	}
	var decls []*sdk.FunctionDeclaration
	for _, d := range r.Tools {
		schema, err := objectSchema(d.InputSchema)
		if err != nil {
			return parley.Errorf(parley.CodeInvalid, "the schema of the tool %s is not a JSON object", d.Name).WithHint("correct the tool's declaration")
		}
		decls = append(decls, &sdk.FunctionDeclaration{Name: n.wire(target{name: d.Name}), Description: d.Description, ParametersJsonSchema: schema})
	}
	for _, to := range r.Handoffs {
		words := "Hands the conversation over to " + to.Agent + "."
		if to.Description != "" {
			words += " " + to.Description
		}
		decls = append(decls, &sdk.FunctionDeclaration{
			Name: n.wire(target{name: to.Agent, handoff: true}), Description: words,
			ParametersJsonSchema: json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string","description":"why, in a sentence"}}}`),
		})
	}
	if own.GoogleSearch != nil || own.URLContext != nil {
		q.Tools = append(q.Tools, &own)
		if decls != nil {
			// Results of the provider's own tools come as parts, which have to go back to it.
			yes := true
			q.Choice = &sdk.ToolConfig{IncludeServerSideToolInvocations: &yes}
		}
	}
	if decls != nil {
		q.Tools = append(q.Tools, &sdk.Tool{FunctionDeclarations: decls})
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
