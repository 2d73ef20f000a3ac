package anthropic

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// reply builds the reply from the blocks. A reply that was cut off for length loses a call at
// its end, because nobody can tell whether it is complete.
func (d *decoder) reply() (*seam.Reply, error) {
	r := &seam.Reply{Model: d.name, Usage: d.usage.tokens(), StopReason: d.stop}
	if r.Model == "" {
		r.Model = d.model
	}
	switch d.stop {
	case "model_context_window_exceeded":
		r.StopReason = "max_tokens" // an incomplete answer, whatever the reason
	case "stop_sequence":
		r.StopReason = "end_turn"
	}
	for i, b := range d.blocks {
		last := i == len(d.blocks)-1
		switch b.kind {
		case "text":
			r.Parts = d.text(r, b)
		case "thinking":
			r.Parts = append(r.Parts, d.sealed(parley.Part{Type: parley.PartThinking, Text: b.text.String()}, thought(b)))
		case "redacted_thinking":
			r.Parts = append(r.Parts, d.sealed(parley.Part{Type: parley.PartThinking}, b.start))
		case "tool_use":
			if r.StopReason == "max_tokens" && last || r.StopReason == "refusal" {
				continue
			}
			r.Parts = append(r.Parts, d.call(b))
		default:
			r.Parts = append(r.Parts, d.sealed(parley.Part{Type: parley.PartProvider, Name: b.kind, Text: words(b)}, whole(b)))
		}
	}
	if d.stop == "refusal" && d.details != nil && strings.TrimSpace(parley.PartsText(r.Parts)) == "" {
		if text := d.said.Words(d.details.Explanation); text != "" {
			if !d.show(seam.ModelDelta{Text: text}) {
				return nil, errStopped
			}
			r.Parts = append(r.Parts, parley.Part{Type: parley.PartText, Text: text})
		}
	}
	return r, nil
}

func (d *decoder) sealed(p parley.Part, block json.RawMessage) parley.Part {
	s := seal{Block: block}
	if p.Type == parley.PartThinking {
		s.Model = d.model
	}
	raw, err := json.Marshal(s)
	if err != nil { // a block that is not JSON cannot go back
		return p
	}
	p.Signature, p.Provider = raw, provider
	return p
}

// with returns the block as it started, with the fields that have grown since.
func with(b *block, became map[string]any) json.RawMessage {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(b.start, &fields) != nil {
		return nil
	}
	for k, v := range became {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil
		}
		fields[k] = raw
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return raw
}

func thought(b *block) json.RawMessage {
	return with(b, map[string]any{"thinking": b.text.String(), "signature": b.seal.String()})
}

// whole returns a block that this package does not interpret, complete.
func whole(b *block) json.RawMessage {
	if len(b.input) > 0 && json.Valid(b.input) {
		return with(b, map[string]any{"input": json.RawMessage(b.input)})
	}
	return b.start
}

// text adds a text block. Adjacent texts without citations are merged; a text with citations
// stays apart, because they go back with it.
func (d *decoder) text(r *seam.Reply, b *block) []parley.Part {
	p := parley.Part{Type: parley.PartText, Text: b.text.String()}
	if p.Text == "" {
		return r.Parts
	}
	if len(b.cites) > 0 {
		p = d.sealed(p, with(b, map[string]any{"text": p.Text, "citations": b.cites}))
		for _, raw := range b.cites {
			if c, ok := citation(raw); ok && !slices.Contains(r.Citations, c) {
				r.Citations = append(r.Citations, c)
			}
		}
		return append(r.Parts, p)
	}
	if n := len(r.Parts); n > 0 && r.Parts[n-1].Type == parley.PartText && r.Parts[n-1].Signature == nil {
		r.Parts[n-1].Text += p.Text
		return r.Parts
	}
	return append(r.Parts, p)
}

func (d *decoder) call(b *block) parley.Part {
	var head struct{ ID, Name string }
	_ = json.Unmarshal(b.start, &head) // it was read once before
	input := json.RawMessage(b.input)
	if len(input) == 0 {
		var whole struct{ Input json.RawMessage }
		_ = json.Unmarshal(b.start, &whole)
		if input = whole.Input; len(input) == 0 {
			input = json.RawMessage("{}")
		}
	}
	to := d.names.target(head.Name)
	p := parley.Part{Type: parley.PartToolCall, ProviderID: head.ID, Provider: provider, Name: to.name, Input: input}
	if to.handoff {
		var in struct{ Reason string }
		_ = json.Unmarshal(input, &in) // a malformed reason is ignored
		p = parley.Part{Type: parley.PartHandoff, ProviderID: head.ID, Provider: provider, Name: to.name, Text: in.Reason}
	}
	return p
}

// maxQuote limits a quotation of a source.
const maxQuote = 500

// citation parses a citation of any kind: of a web page, of search results, of a document.
func citation(raw json.RawMessage) (parley.Citation, bool) {
	var c struct {
		Type, URL, Source, Title string
		CitedText                string `json:"cited_text"`
		DocumentTitle            string `json:"document_title"`
		DocumentIndex            int    `json:"document_index"`
		StartPage                int    `json:"start_page_number"`
	}
	if json.Unmarshal(raw, &c) != nil {
		return parley.Citation{}, false
	}
	out := parley.Citation{Source: c.Title, Ref: c.URL, Quote: short(c.CitedText, maxQuote)}
	if out.Ref == "" {
		out.Ref = c.Source
	}
	if out.Source == "" {
		out.Source = c.DocumentTitle
	}
	if out.Ref == "" {
		out.Ref = "document " + strconv.Itoa(c.DocumentIndex+1)
		if c.StartPage > 0 {
			out.Ref += ", page " + strconv.Itoa(c.StartPage)
		}
	}
	if out.Source == "" {
		out.Source = out.Ref
		if u, err := url.Parse(out.Ref); err == nil && u.Host != "" {
			out.Source = u.Host
		}
	}
	out.Source = short(out.Source, maxQuote)
	return out, true
}

func short(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= n {
		return s
	}
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// words describes a block of the provider's own tools to people: what it searched for or found.
func words(b *block) string {
	var head struct {
		Name    string
		Input   map[string]any
		Content json.RawMessage
	}
	_ = json.Unmarshal(b.start, &head)
	if b.kind == "server_tool_use" {
		if len(b.input) > 0 {
			_ = json.Unmarshal(b.input, &head.Input)
		}
		for _, key := range []string{"query", "url"} {
			if s, ok := head.Input[key].(string); ok {
				return short(head.Name+": "+s, maxQuote)
			}
		}
		return short(head.Name, maxQuote)
	}
	type found struct {
		Title, URL string
		ErrorCode  string `json:"error_code"`
	}
	var many []found
	if json.Unmarshal(head.Content, &many) != nil {
		var one found
		_ = json.Unmarshal(head.Content, &one)
		many = []found{one}
	}
	var lines []string
	for _, f := range many {
		for _, s := range []string{f.Title, f.URL, f.ErrorCode} {
			if s != "" {
				lines = append(lines, s)
				break
			}
		}
	}
	return short(strings.Join(lines, "; "), maxQuote)
}
