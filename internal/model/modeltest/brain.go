package modeltest

import (
	"context"
	"io"
	"iter"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Brain is a model that behaves as b says, for simulated servers that serve a provider's API
// from a model. It handles Reply, Err, Late, Stall, Gate and Seen, and Hang and Cut as far as a
// model can: Cut ends the stream with an error that wraps [io.ErrUnexpectedEOF], after which a
// server may close the connection itself. [Serve] handles faults in the bytes.
func Brain(b Behaviour) seam.Model { return brain{b} }

type brain struct{ b Behaviour }

func (brain) Info() seam.ModelInfo {
	return seam.ModelInfo{
		Name: "modeltest/brain", Provider: "modeltest", ContextTokens: 200_000, MaxOutputTokens: 1 << 20,
		Images: true, Files: true,
	}
}

func (m brain) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		gone := false
		err := m.stream(ctx, r, func(d seam.ModelDelta) bool {
			gone = !yield(d, nil)
			return !gone
		})
		if err != nil && !gone {
			yield(seam.ModelDelta{}, err)
		}
	}
}

func (m brain) stream(ctx context.Context, r seam.Request, yield func(seam.ModelDelta) bool) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if m.b.Seen != nil {
		m.b.Seen(r)
	}
	if m.b.Hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if m.b.Err != nil && !m.b.Late {
		return m.b.Err
	}
	n := 0
	for _, p := range m.b.Reply.Parts {
		if p.Type != parley.PartText && p.Type != parley.PartThinking {
			continue
		}
		for _, piece := range pieces(p.Text) {
			if n++; n > 1 && m.b.Gate != nil {
				select {
				case <-m.b.Gate:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			switch {
			case n <= some:
			case m.b.Late:
				return m.b.Err
			case m.b.Stall:
				<-ctx.Done()
				return ctx.Err()
			case m.b.Cut:
				return parley.Errorf(parley.CodeUnavailable, "the stream is cut: %w", io.ErrUnexpectedEOF)
			}
			d := seam.ModelDelta{Text: piece}
			if p.Type == parley.PartThinking {
				d = seam.ModelDelta{Thinking: piece}
			}
			if !yield(d) || ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	reply := m.b.Reply
	if reply.Model == "" {
		reply.Model = r.Model
	}
	if reply.Model == "" {
		reply.Model = "brain"
	}
	yield(seam.ModelDelta{Reply: &reply})
	return nil
}

// some is how many fragments come before a failure in the middle.
const some = 4

// pieces cuts a text into many small fragments, at most 20,000.
func pieces(text string) []string {
	var out []string
	size := max(5, len(text)/20_000)
	for len(text) > size {
		n := size
		for !utf8.RuneStart(text[n]) {
			n++
			if n == len(text) {
				break
			}
		}
		out = append(out, text[:n])
		text = text[n:]
	}
	if text != "" {
		out = append(out, text)
	}
	return out
}
