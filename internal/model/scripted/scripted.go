// Package scripted is a model without a provider: it answers by the rules of a script, offline,
// at no cost, and always the same.
//
// It is not a recording. A reply depends only on the request, that is, on what an agent's model
// sees: the conversation, tool results, and what another agent handed over. So it can answer
// other questions over other data, it continues after a restart like any model, and an app of a
// user's own may have a script too. It knows only what its script says, which is little;
// [seam.ModelInfo].Scripted lets clients say so.
//
// There are two kinds of script. [New] takes an app's script.yaml: a list of rules for each
// agent, of which the first that applies makes the reply. They are written as text/template with
// a small set of functions; the comments of [script] and [functions] describe them, and
// apps/chaos/script.yaml is an example. [Lines] takes a few lines of text, reply by reply, with
// optional faults, for testing code that uses a model.
//
// A request with a history that no provider would accept gets CodeInvalid: two messages of one
// role in a row, a call without its result, an empty message. So a test with a scripted model
// also tests the history.
//
// Text is streamed word by word, at a pace. Tokens are estimated as four bytes each. A Model is
// safe for concurrent use.
package scripted

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Options are common to all kinds of script.
type Options struct {
	Pace time.Duration // between two words; 0: none
}

// Model is a model that follows a script.
type Model struct {
	name  string
	pace  time.Duration
	reply func(context.Context, seam.Request) (plan, error)
}

// plan is a reply and its fault.
type plan struct {
	reply seam.Reply
	hang  bool  // waits until it is cancelled
	after int   // with err: fails after so many words
	err   error // nil: all goes well
}

// Func makes a model of a function. The reply's texts are streamed; its usage
// and stop reason are filled in where they are missing.
func Func(name string, f func(seam.Request) (seam.Reply, error), o Options) *Model {
	return &Model{name, o.Pace, func(_ context.Context, r seam.Request) (plan, error) {
		reply, err := f(r)
		return plan{reply: reply}, err
	}}
}

// Info implements seam.Model.
func (m *Model) Info() seam.ModelInfo {
	return seam.ModelInfo{
		Name: m.name, Provider: "scripted", Scripted: true,
		// It has no window; these values keep prompts and replies at a usual size.
		ContextTokens: 200_000, MaxOutputTokens: 8192,
	}
}

// Stream implements seam.Model.
func (m *Model) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		fail := func(err error) { yield(seam.ModelDelta{}, err) }
		if err := ctx.Err(); err != nil {
			fail(err)
			return
		}
		if err := validate(r.Messages); err != nil {
			fail(parley.Errorf(parley.CodeInvalid, "%s: the history is one that no provider takes: %w", m.name, err))
			return
		}
		p, err := m.reply(ctx, r)
		if err != nil {
			fail(err)
			return
		}
		if p.hang {
			<-ctx.Done()
			fail(ctx.Err())
			return
		}
		reply := m.finish(r, p.reply)
		n := 0
		for _, part := range reply.Parts {
			if part.Type != parley.PartText && part.Type != parley.PartThinking {
				continue
			}
			for word := range words(part.Text) {
				if p.err != nil && n >= p.after {
					break
				}
				if err := m.wait(ctx, n); err != nil {
					fail(err)
					return
				}
				d := seam.ModelDelta{Text: word}
				if part.Type == parley.PartThinking {
					d = seam.ModelDelta{Thinking: word}
				}
				if !yield(d, nil) {
					return
				}
				n++
			}
		}
		switch {
		case p.err != nil:
			fail(p.err)
		case ctx.Err() != nil:
			fail(ctx.Err())
		default:
			yield(seam.ModelDelta{Reply: &reply}, nil)
		}
	}
}

// wait keeps the pace before word n, except before the first.
func (m *Model) wait(ctx context.Context, n int) error {
	if m.pace <= 0 || n == 0 {
		return ctx.Err()
	}
	t := time.NewTimer(m.pace)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish fills in what a script leaves out, and cuts a text at the request's limit.
func (m *Model) finish(r seam.Request, reply seam.Reply) seam.Reply {
	reply.Model = m.name
	if reply.StopReason == "" {
		reply.StopReason = "end_turn"
		for _, p := range reply.Parts {
			if p.Type == parley.PartToolCall || p.Type == parley.PartHandoff {
				reply.StopReason = "tool_use"
			}
		}
	}
	if room := r.MaxTokens * 4; room > 0 {
		var kept []parley.Part
		for _, p := range reply.Parts {
			if p.Type == parley.PartText && int64(len(p.Text)) > room {
				p.Text = clip(p.Text, int(room))
				kept = append(kept, p)
				reply.StopReason = "max_tokens"
				break
			}
			room -= int64(len(p.Text) + len(p.Input))
			kept = append(kept, p)
		}
		reply.Parts = kept
	}
	if reply.Usage == (parley.Usage{}) {
		reply.Usage = parley.Usage{InputTokens: estimate(len(r.System), r.Tools, r.Handoffs, r.Messages), OutputTokens: estimate(0, reply.Parts)}
	}
	return reply
}

// estimate counts one token for every four bytes of a provider's request.
func estimate(n int, things ...any) int64 {
	for _, t := range things {
		raw, err := json.Marshal(t)
		if err == nil {
			n += len(raw)
		}
	}
	return int64(n+3) / 4
}

// words splits a text into words, each with the space after it. Joined, they are the text.
func words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			word := strings.IndexFunc(text, unicode.IsSpace)
			if word < 0 {
				yield(text)
				return
			}
			end := strings.IndexFunc(text[word:], func(r rune) bool { return !unicode.IsSpace(r) })
			if end < 0 {
				yield(text)
				return
			}
			if !yield(text[:word+end]) {
				return
			}
			text = text[word+end:]
		}
	}
}

func clip(s string, n int) string {
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:min(n, len(s))]
}
