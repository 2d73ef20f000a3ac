package runtimetest

import (
	"context"
	"iter"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Script returns the model's reply to a request. With an error, the call fails after the text of
// the reply.
type Script func(seam.Request) (seam.Reply, error)

// Func is a model whose replies are a function of the request. It streams text in small fragments.
// It also implements [seam.Models], and is the model of every name.
type Func struct {
	ModelInfo seam.ModelInfo
	Script    Script
	// Before is called with each request as it leaves, Between after each
	// fragment. Both may be nil.
	Before  func(seam.Request)
	Between func(ctx context.Context, fragment int)
}

// Info implements [seam.Model].
func (m *Func) Info() seam.ModelInfo { return m.ModelInfo }

// Model implements [seam.Models].
func (m *Func) Model(string) (seam.Model, error) { return m, nil }

// Names implements [seam.Models].
func (m *Func) Names() []string { return []string{m.ModelInfo.Name} }

// Stream implements [seam.Model].
func (m *Func) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		if m.Before != nil {
			m.Before(r)
		}
		reply, err := m.Script(r)
		n := 0
		for _, p := range reply.Parts {
			for text := p.Text; p.Type == parley.PartText && text != ""; {
				cut := min(5, len(text))
				if !yield(seam.ModelDelta{Text: text[:cut]}, nil) {
					return
				}
				text, n = text[cut:], n+1
				if m.Between != nil {
					m.Between(ctx, n)
				}
				if ctx.Err() != nil {
					yield(seam.ModelDelta{}, ctx.Err())
					return
				}
			}
		}
		if err != nil {
			yield(seam.ModelDelta{}, err)
			return
		}
		if reply.Model == "" {
			reply.Model = m.ModelInfo.Name
		}
		yield(seam.ModelDelta{Reply: &reply}, nil)
	}
}

// Say is a reply of text.
func Say(text string) seam.Reply {
	return seam.Reply{
		Parts: []parley.Part{{Type: parley.PartText, Text: text}}, StopReason: "end_turn",
		Usage: parley.Usage{InputTokens: 10, OutputTokens: int64(len(text)+3) / 4},
	}
}

// Use is a reply that calls tools or hands off, after some text.
func Use(text string, parts ...parley.Part) seam.Reply {
	r := seam.Reply{StopReason: "tool_use", Usage: parley.Usage{InputTokens: 10, OutputTokens: 5}}
	if text != "" {
		r.Parts = append(r.Parts, parley.Part{Type: parley.PartText, Text: text})
	}
	r.Parts = append(r.Parts, parts...)
	return r
}

// Tool is a part that calls a tool.
func Tool(name, input string) parley.Part {
	return parley.Part{Type: parley.PartToolCall, Name: name, Input: []byte(input)}
}

// To is a part that hands off to an agent.
func To(agent, why string) parley.Part {
	return parley.Part{Type: parley.PartHandoff, Name: agent, Text: why}
}

// Results are the tool results that the request shows, in order.
func Results(r seam.Request) []parley.Part {
	var ps []parley.Part
	for _, m := range r.Messages {
		if m.Role == parley.RoleTool {
			ps = append(ps, m.Parts...)
		}
	}
	return ps
}
