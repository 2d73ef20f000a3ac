package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sse"
)

// model follows the user's message: "stream …" asks the upstream, "tools" runs three rounds of a
// keyed write, "call …" runs ten of the named tool, "ask" makes a call that needs a human, "hang"
// never answers, and anything else is answered at once.
type model struct{ upstream string }

const modelName = "bench/model"

// several holds the models of a house, by name.
type several map[string]seam.Model

// Model implements seam.Models.
func (s several) Model(name string) (seam.Model, error) {
	if m, ok := s[name]; ok {
		return m, nil
	}
	return nil, parley.Errorf(parley.CodeInvalid, "there is no model %q", name)
}

// Names implements seam.Models.
func (s several) Names() []string { return slices.Sorted(maps.Keys(s)) }

// Info implements seam.Model.
func (m model) Info() seam.ModelInfo {
	return seam.ModelInfo{Name: modelName, Provider: "bench", ContextTokens: 100_000, MaxOutputTokens: 100_000}
}

// rounds is the number of tool rounds in a turn that uses tools.
const rounds = 3

// Stream implements seam.Model.
func (m model) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		said, results := last(r)
		switch {
		case strings.HasPrefix(said, "stream "):
			m.relay(ctx, said, yield)
		case said == "tools" && results < rounds:
			yield(replied(call("put", results)), nil)
		case strings.HasPrefix(said, "call ") && results < callsEach:
			yield(replied(call(strings.TrimPrefix(said, "call "), results)), nil)
		case said == "ask" && results == 0:
			yield(replied(call("mail", 0)), nil)
		case said == "hang":
			<-ctx.Done()
			yield(seam.ModelDelta{}, context.Cause(ctx))
		default:
			if yield(seam.ModelDelta{Text: "Done."}, nil) {
				yield(replied(parley.Part{Type: parley.PartText, Text: "Done."}), nil)
			}
		}
	}
}

// relay passes on the upstream's stream, frame by frame.
func (m model) relay(ctx context.Context, body string, yield func(seam.ModelDelta, error) bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.upstream+"/tokens", strings.NewReader(body))
	if err != nil {
		yield(seam.ModelDelta{}, err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		yield(seam.ModelDelta{}, err)
		return
	}
	defer resp.Body.Close()
	var text strings.Builder
	for f, err := range sse.Decode(resp.Body, 1<<20) {
		if err != nil {
			yield(seam.ModelDelta{}, err)
			return
		}
		if string(f.Data) == "[DONE]" {
			yield(replied(parley.Part{Type: parley.PartText, Text: text.String()}), nil)
			return
		}
		var token string
		if err := json.Unmarshal(f.Data, &token); err != nil {
			yield(seam.ModelDelta{}, err)
			return
		}
		text.WriteString(token)
		if !yield(seam.ModelDelta{Text: token}, nil) {
			return
		}
	}
}

func replied(p parley.Part) seam.ModelDelta {
	reply := &seam.Reply{Model: modelName, Parts: []parley.Part{p}, StopReason: "end_turn", Usage: parley.Usage{InputTokens: 100, OutputTokens: 10}}
	if p.Type == parley.PartToolCall {
		reply.StopReason = "tool_use"
	}
	return seam.ModelDelta{Reply: reply}
}

// call asks for a tool; n makes the call differ from the one before.
func call(tool string, n int) parley.Part {
	return parley.Part{Type: parley.PartToolCall, Name: tool, Input: json.RawMessage(fmt.Sprintf(`{"text":"round %d"}`, n))}
}

// aboutTurn begins what the loop tells behind the user's message.
const aboutTurn = "[about this turn]"

// last returns the user's last message, and how many tools have answered since.
func last(r seam.Request) (said string, results int) {
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			switch {
			case p.Type == parley.PartToolResult:
				results++
			case p.Type == parley.PartText && m.Role == parley.RoleUser && !strings.HasPrefix(p.Text, aboutTurn):
				said, results = p.Text, 0
			}
		}
	}
	return said, results
}

// tools is a service that answers at once.
type tools struct{}

// Tools implements seam.Toolset.
func (tools) Tools(context.Context) ([]parley.ToolDecl, error) {
	schema := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`)
	return []parley.ToolDecl{
		{Name: "put", Description: "Puts a text.", InputSchema: schema, Effect: parley.EffectIdempotent, KeyTTL: parley.Duration(3600e9)},
		{Name: "mail", Description: "Mails a text.", InputSchema: schema, Effect: parley.EffectWrite},
	}, nil
}

// Run implements seam.Toolset.
func (tools) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: "kept: " + string(r.Input)}, nil
}
