package gemini

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// refusals are the finish reasons after which trying again does not help:
// https://ai.google.dev/api/generate-content#FinishReason
var refusals = []string{
	"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
	"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER", "NO_IMAGE", "MODEL_ARMOR", "JAILBREAK",
}

// stumbles are finish reasons for a mistake of the model that it may not repeat.
var stumbles = map[string]string{
	"MALFORMED_FUNCTION_CALL": "wrote a malformed call",
	"UNEXPECTED_TOOL_CALL":    "called a tool although it may call none",
	"MALFORMED_RESPONSE":      "wrote a malformed response",
	"OTHER":                   "stopped without saying why",
}

// reply builds the reply from the pieces.
func (d *decoder) reply() (*seam.Reply, error) {
	if err := d.end(); err != nil {
		return nil, err
	}
	used, err := tokens(d.usage)
	if err != nil {
		return nil, d.said.Malformed("a usage", err)
	}
	r := &seam.Reply{Model: d.name, Usage: used, Citations: d.cites}
	if r.Model == "" {
		r.Model = d.model
	}
	switch {
	case d.blocked != "" && d.finish == "", slices.Contains(refusals, d.finish):
		r.StopReason = "refusal"
	case d.finish == "STOP":
		r.StopReason = "end_turn"
	case d.finish == "MAX_TOKENS":
		r.StopReason = "max_tokens"
	case stumbles[d.finish] != "":
		e := parley.Errorf(parley.CodeUnavailable, "%s %s", d.model, stumbles[d.finish]).WithHint("try again, or choose another model")
		if words := d.said.Words(d.message); words != "" {
			e.Message += ": " + words
		}
		return nil, e
	case d.finish == "TOO_MANY_TOOL_CALLS":
		return nil, parley.Errorf(parley.CodeModel, "%s called more tools in a row than Gemini allows", d.model).WithHint("ask for less at once, or choose another model")
	case d.finish == "MISSING_THOUGHT_SIGNATURE":
		return nil, parley.Errorf(parley.CodeModel, "%s is missing a signature in the history", d.model).WithHint("choose another model, or start a new session")
	default:
		r.StopReason = strings.ToLower(d.finish)
	}
	for _, p := range d.pieces {
		switch p.kind {
		case parley.PartText, parley.PartThinking:
			d.spoken(r, p)
		case parley.PartToolCall:
			if r.StopReason == "refusal" {
				continue
			}
			if r.StopReason == "end_turn" {
				r.StopReason = "tool_use" // the provider says STOP here too
			}
			x, s := d.call(p.call), seal{Signature: p.signature}
			if x.Type == parley.PartHandoff && s.Signature != "" {
				s.Args = p.call.Args
			}
			r.Parts = append(r.Parts, d.sealed(x, s))
		default:
			name, text := words(p.raw)
			r.Parts = append(r.Parts, d.sealed(parley.Part{Type: parley.PartProvider, Name: name, Text: text}, seal{Part: p.raw}))
		}
	}
	if r.StopReason == "refusal" && strings.TrimSpace(parley.PartsText(r.Parts)) == "" {
		if text := d.said.Words(d.message); text != "" {
			if !d.show(seam.ModelDelta{Text: text}) {
				return nil, errStopped
			}
			r.Parts = append(r.Parts, parley.Part{Type: parley.PartText, Text: text})
		}
	}
	return r, nil
}

// spoken adds a text or a thought. Only a part that came with a seal carries one, except that a
// thought goes back even without.
func (d *decoder) spoken(r *seam.Reply, p *piece) {
	x := parley.Part{Type: p.kind, Text: p.text.String()}
	if x.Text == "" && p.signature == "" {
		return
	}
	if p.signature != "" || p.kind == parley.PartThinking {
		x = d.sealed(x, seal{Signature: p.signature, Apart: p.apart})
	}
	r.Parts = append(r.Parts, x)
}

func (d *decoder) call(f functionCall) parley.Part {
	to := d.names.target(f.Name)
	if !to.handoff {
		return parley.Part{Type: parley.PartToolCall, ProviderID: f.ID, Name: to.name, Input: f.Args}
	}
	var in struct{ Reason string }
	_ = json.Unmarshal(f.Args, &in) // a malformed reason is ignored
	return parley.Part{Type: parley.PartHandoff, ProviderID: f.ID, Name: to.name, Text: in.Reason}
}

// sealed marks a part as the provider's. A call is marked even without a seal, to keep its id or
// the fact that it has none.
func (d *decoder) sealed(p parley.Part, s seal) parley.Part {
	s.Model = d.model
	if p.Provider = provider; s.Signature == "" && s.Part == nil && p.Type != parley.PartThinking {
		return p
	}
	raw, err := json.Marshal(s)
	if err != nil { // cannot happen: the part came out of a decoder
		return p
	}
	p.Signature = raw
	return p
}

// tokens parses a usage. Cached tokens are part of the prompt's; thinking is counted separately
// and is output as well.
func tokens(raw []byte) (parley.Usage, error) {
	var u struct {
		Prompt     int64 `json:"promptTokenCount"`
		Cached     int64 `json:"cachedContentTokenCount"`
		ToolPrompt int64 `json:"toolUsePromptTokenCount"`
		Candidates int64 `json:"candidatesTokenCount"`
		Thoughts   int64 `json:"thoughtsTokenCount"`
	}
	if len(raw) == 0 {
		return parley.Usage{}, nil
	}
	if err := json.Unmarshal(raw, &u); err != nil {
		return parley.Usage{}, err
	}
	cached, thoughts := max(u.Cached, 0), max(u.Thoughts, 0)
	return parley.Usage{
		InputTokens: max(u.Prompt-cached, 0) + max(u.ToolPrompt, 0), CacheReadTokens: cached,
		OutputTokens: max(u.Candidates, 0) + thoughts, ReasoningTokens: thoughts,
	}, nil
}

// grounding has the results of the provider's own search.
type grounding struct {
	Chunks []struct {
		Web struct {
			URI   string `json:"uri"`
			Title string `json:"title"`
		} `json:"web"`
	} `json:"groundingChunks"`
}

// maxCitations limits the sources of a reply.
const maxCitations = 256

func (d *decoder) cite(g grounding) {
	for _, x := range g.Chunks {
		c := parley.Citation{Source: short(x.Web.Title), Ref: x.Web.URI}
		if c.Source == "" {
			c.Source = short(c.Ref)
		}
		if c.Ref != "" && len(c.Ref) < 4096 && len(d.cites) < maxCitations && !slices.Contains(d.cites, c) {
			d.cites = append(d.cites, c)
		}
	}
}

// words describes a part of the provider's own to people.
func words(raw json.RawMessage) (kind, text string) {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(raw, &fields) // it was read once before
	for name := range fields {
		if name != "thoughtSignature" && name != "thought" && name != "text" && (kind == "" || name < kind) {
			kind = name
		}
	}
	if kind == "" {
		return "thoughtSignature", ""
	}
	var of struct{ Code, Output, MimeType string }
	_ = json.Unmarshal(fields[kind], &of)
	return kind, short(of.Code + of.Output + of.MimeType)
}

// maxQuote limits a quotation shown to people.
const maxQuote = 500

func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= maxQuote {
		return s
	}
	n := maxQuote
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
