package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// maxBody limits a request: OpenAI accepts 50 MB of files, others less.
const maxBody = 64 << 20

var reserved = map[string]bool{"model": true, "messages": true, "stream": true, "tools": true, "n": true}

// body is the JSON body of a request.
type body struct {
	Model         string         `json:"model"`
	Messages      []message      `json:"messages"`
	Stream        bool           `json:"stream"`
	StreamOptions *streamOptions `json:"stream_options,omitempty"`
	Tools         []tool         `json:"tools,omitempty"`
	Parallel      *bool          `json:"parallel_tool_calls,omitempty"`
	MaxTokens     int64          `json:"max_tokens,omitempty"`
	MaxCompletion int64          `json:"max_completion_tokens,omitempty"`
	Temperature   *float64       `json:"temperature,omitempty"`
	Effort        string         `json:"reasoning_effort,omitempty"`
	Reasoning     *reasoning     `json:"reasoning,omitempty"`
	Routing       *routing       `json:"provider,omitempty"`
	Search        *struct{}      `json:"web_search_options,omitempty"`
	Plugins       []plugin       `json:"plugins,omitempty"`
}

type (
	streamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	}
	reasoning struct {
		Effort string `json:"effort"`
	}
	routing struct {
		RequireParameters bool `json:"require_parameters"`
	}
	plugin struct {
		ID string `json:"id"`
	}
	tool struct {
		Type     string `json:"type"`
		Function decl   `json:"function"`
	}
	decl struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
)

// made is the body of a call.
type made struct {
	raw     []byte
	without quirks // the fields that were left out
	sent    quirks // those that could be left out if the server rejects them
	size    int    // bytes of text, for an estimate
	err     error  // why there is no body
}

// request makes the body of a call, without the fields that q names.
func (m *model) request(ctx context.Context, r *seam.Request, n *names, q quirks) made {
	b := made{without: q}
	b.raw, b.sent, b.size, b.err = m.encoded(ctx, r, n, q)
	return b
}

func (m *model) encoded(ctx context.Context, r *seam.Request, n *names, q quirks) (raw []byte, sent quirks, size int, err error) {
	d := m.c.d
	b := body{Model: m.id, Stream: true}
	if q&noStreamOptions == 0 {
		b.StreamOptions = &streamOptions{IncludeUsage: true}
		sent |= noStreamOptions
	}
	if most := limit(r.MaxTokens, m.info.MaxOutputTokens); most > 0 {
		sent |= otherMaxTokens
		if (d.maxTokens == "max_tokens") == (q&otherMaxTokens == 0) {
			b.MaxTokens = most
		} else {
			b.MaxCompletion = most
		}
	}
	if r.Temperature != nil && q&noTemperature == 0 {
		b.Temperature = r.Temperature
		sent |= noTemperature
	}
	if r.Effort != "" && q&noEffort == 0 {
		sent |= noEffort
		if d.effort == "reasoning" {
			b.Reasoning = &reasoning{r.Effort}
		} else {
			b.Effort = r.Effort
		}
	}
	for _, t := range r.Tools {
		b.Tools = append(b.Tools, tool{"function", decl{n.tool(t.Name), t.Description, parameters(t.InputSchema)}})
	}
	for _, h := range r.Handoffs {
		b.Tools = append(b.Tools, tool{"function", decl{n.handoff(h.Agent), handoffWords(h), json.RawMessage(handoffSchema)}})
	}
	if len(b.Tools) > 0 && d.parallel && q&noParallel == 0 {
		yes := true
		b.Parallel = &yes
		sent |= noParallel
	}
	if len(b.Tools) > 0 && d.routes && q&noRouting == 0 {
		b.Routing = &routing{RequireParameters: true}
		sent |= noRouting
	}
	for _, name := range r.ServerTools {
		switch {
		case name == "web_search" && d.search == "plugins":
			b.Plugins = []plugin{{"web"}}
		case name == "web_search" && d.search != "":
			b.Search = &struct{}{}
		default:
			return nil, 0, 0, parley.Errorf(parley.CodeInvalid, "%s has no tool %q of its own", d.title, name).
				WithHint("remove it from server_tools, or choose another model")
		}
	}
	h := history{m: m, r: *r, n: n, q: q, ids: newIDs()}
	if b.Messages, err = h.messages(ctx); err != nil {
		return nil, 0, 0, err
	}
	sent |= h.sent
	raw, err = encode(b)
	if err == nil && len(m.c.opt.Extra) > 0 {
		raw, err = merge(raw, m.c.opt.Extra)
	}
	if err != nil {
		return nil, 0, 0, parley.Errorf(parley.CodeInvalid, "the request to %s cannot be encoded: %w", d.title, err)
	}
	if len(raw) > maxBody {
		return nil, 0, 0, parley.Errorf(parley.CodeTooLarge, "the request is larger than %d MiB", maxBody>>20).
			WithHint("send fewer or smaller files")
	}
	return raw, sent &^ q, len(raw) - h.media, nil
}

func limit(asked, most int64) int64 {
	if asked <= 0 || most > 0 && most < asked {
		return max(most, 0)
	}
	return asked
}

const handoffSchema = `{"type":"object","properties":{"reason":{"type":"string","description":"why, in a sentence"}}}`

func handoffWords(h seam.Handoff) string {
	words := "Hands the conversation over to " + h.Agent + "."
	if h.Description != "" {
		words += " " + h.Description
	}
	return words
}

// parameters returns a schema in the form that servers require: OpenAI rejects objects without
// properties, and every server rejects an invalid schema.
func parameters(schema json.RawMessage) json.RawMessage {
	const empty = `{"type":"object","properties":{}}`
	var fields map[string]json.RawMessage
	if json.Unmarshal(schema, &fields) != nil || len(fields) == 0 {
		return json.RawMessage(empty)
	}
	if fields["properties"] != nil && fields["type"] != nil {
		return schema
	}
	for _, k := range []string{"$ref", "anyOf", "oneOf", "allOf"} {
		if fields[k] != nil {
			return schema
		}
	}
	return merged(schema, fields, map[string]json.RawMessage{"type": json.RawMessage(`"object"`), "properties": json.RawMessage(`{}`)})
}

// merged appends those fields of more that the object raw does not have.
func merged(raw json.RawMessage, has, more map[string]json.RawMessage) json.RawMessage {
	keys := make([]string, 0, len(more))
	for k := range more {
		if has[k] == nil {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	out := bytes.TrimSuffix(bytes.TrimSpace(raw), []byte("}"))
	out = bytes.Clone(out)
	for i, k := range keys {
		if len(has) > 0 || i > 0 {
			out = append(out, ',')
		}
		name, _ := json.Marshal(k)
		out = append(append(append(out, name...), ':'), more[k]...)
	}
	return append(out, '}')
}

// merge puts the extra fields into a body, replacing those with the same names.
func merge(raw []byte, extra map[string]json.RawMessage) ([]byte, error) {
	var b map[string]json.RawMessage
	if err := json.Unmarshal(raw, &b); err != nil {
		return nil, err
	}
	for k, v := range extra {
		b[k] = v
	}
	return encode(b)
}

// encode writes JSON without escaping HTML characters.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
