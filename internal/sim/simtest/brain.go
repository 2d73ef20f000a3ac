package simtest

import (
	"context"
	"io"
	"iter"
	"log"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// named tells a brain its agent. It also separates the question from the loop's notes,
// which a plain-text wire has joined.
type named struct {
	seam.Model
	agent func(system string) string
}

func (n named) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	if n.agent != nil {
		r.Agent = n.agent(r.System)
	}
	for i, m := range r.Messages {
		if m.Role == parley.RoleUser {
			r.Messages[i].Parts = apart(m.Parts)
		}
	}
	return n.Model.Stream(ctx, r)
}

// marks begin the loop's notes after a question.
var marks = []string{"\n\n[handed over by ", "\n\n[about this turn]", "\n\n[tool calls of this turn and what they returned, shortened]"}

func apart(parts []parley.Part) (out []parley.Part) {
	next := func(text string) int {
		first := -1
		for _, m := range marks {
			if at := strings.Index(text, m); at >= 0 && (first < 0 || at < first) {
				first = at
			}
		}
		return first
	}
	for _, p := range parts {
		rest := p.Text
		for at := next(rest); p.Type == parley.PartText && at >= 0; at = next(rest) {
			before := p
			before.Text, rest = rest[:at], rest[at+2:]
			out = append(out, before)
		}
		p.Text = rest
		out = append(out, p)
	}
	return out
}

// ByPrompt finds an agent by the beginning of its system prompt.
func ByPrompt(prompts map[string]string) func(system string) string {
	return func(system string) string {
		for agent, prompt := range prompts {
			if strings.HasPrefix(system, strings.TrimSpace(prompt)) {
				return agent
			}
		}
		return ""
	}
}

// Brain is a model made of a function. It yields the words that the function says, and
// then the reply.
type Brain func(ctx context.Context, r seam.Request, say func(word string)) (seam.Reply, error)

// Info implements seam.Model.
func (Brain) Info() seam.ModelInfo {
	return seam.ModelInfo{Name: "simtest/brain", Provider: "simtest", ContextTokens: 200_000, MaxOutputTokens: 32_000}
}

// Stream implements seam.Model.
func (b Brain) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		var said strings.Builder
		gone := false
		reply, err := b(ctx, r, func(word string) {
			said.WriteString(word)
			gone = gone || !yield(seam.ModelDelta{Text: word}, nil)
		})
		switch {
		case gone:
			return
		case err != nil:
			yield(seam.ModelDelta{}, err)
			return
		}
		if said.Len() > 0 {
			reply.Parts = append([]parley.Part{{Type: parley.PartText, Text: said.String()}}, reply.Parts...)
		}
		reply.Model = r.Model
		if reply.Usage == (parley.Usage{}) {
			reply.Usage = parley.Usage{InputTokens: 10, OutputTokens: 5}
		}
		yield(seam.ModelDelta{Reply: &reply}, nil)
	}
}

// Says returns a brain that says a text word by word.
func Says(text string) Brain {
	return func(_ context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
		for word := range strings.SplitAfterSeq(text, " ") {
			say(word)
		}
		return seam.Reply{StopReason: "end_turn"}, nil
	}
}

// Stalls returns a brain that says a text word by word, and then nothing until the
// client disconnects.
func Stalls(text string) Brain {
	return func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		_, _ = Says(text)(ctx, r, say)
		<-ctx.Done()
		return seam.Reply{}, context.Cause(ctx)
	}
}
