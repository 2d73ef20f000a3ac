package openai_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/model/openai"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/openai"
)

const key = "sk-test-of-the-key-0123456789"

// speech has what a dialect can express.
type speech struct {
	as       openai.Dialect // empty: the simulation's
	model    string
	thinking bool
	files    bool
	late     []*parley.Error
	usage    func(parley.Usage) parley.Usage
}

func plainUsage(u parley.Usage) parley.Usage {
	return parley.Usage{InputTokens: u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens, OutputTokens: u.OutputTokens}
}

var speeches = map[sim.Dialect]speech{
	sim.OpenAI: {
		model: "gpt-4.1-mini", files: true, late: modeltest.Refusals(),
		usage: func(u parley.Usage) parley.Usage {
			u.InputTokens, u.CacheWriteTokens = u.InputTokens+u.CacheWriteTokens, 0
			return u
		},
	},
	sim.OpenRouter: {
		model: "anthropic/claude-sonnet-5-5:nitro", thinking: true, files: true, late: modeltest.Refusals(),
		usage: func(u parley.Usage) parley.Usage { return u },
	},
	sim.Ollama: {
		// This dialect loses the cause of errors in the middle of a stream.
		model: "qwen3:8b", thinking: true, usage: plainUsage, late: []*parley.Error{{Code: parley.CodeUnavailable, Message: "lost"}},
	},
	sim.VLLM:     {model: "Qwen/Qwen3-8B", thinking: true, usage: plainUsage, late: modeltest.Refusals()},
	sim.LlamaCpp: {model: "whatever", thinking: true, usage: plainUsage, late: modeltest.Refusals()},
	sim.Gemini: {
		model: "gemini-3.8-flash", late: modeltest.Refusals(),
		usage: func(u parley.Usage) parley.Usage {
			r := plainUsage(u)
			r.ReasoningTokens = u.ReasoningTokens
			return r
		},
	},
	sim.Odd: {as: openai.Plain, model: "some/model:with-all/of-it", thinking: true, usage: plainUsage, late: modeltest.Refusals()},
}

func client(t testing.TB, o openai.Options) *openai.Client {
	t.Helper()
	c, err := openai.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func info(model string) seam.ModelInfo {
	return seam.ModelInfo{Name: "openai/" + model, ContextTokens: 100_000, MaxOutputTokens: 8_192, Images: true}
}

// TestModel runs the suite for all models over each dialect's wire.
func TestModel(t *testing.T) {
	t.Parallel()
	for d, sp := range speeches {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			modeltest.Run(t, modeltest.Harness{
				New: func(t *testing.T, b modeltest.Behaviour) (seam.Model, <-chan struct{}) {
					listed, _, _ := strings.Cut(sp.model, ":nitro")
					s := sim.New(sim.Options{Brain: modeltest.Brain(b), Dialect: d, Key: key, Models: []string{sp.model, listed}})
					srv, closed := modeltest.Serve(t, s, b)
					c := client(t, openai.Options{Key: key, BaseURL: srv.URL + s.Prefix(), Dialect: cmp.Or(sp.as, openai.Dialect(d))})
					i := info(sp.model)
					i.Files = sp.files
					return c.Model(i), closed
				},
				Errors: modeltest.Refusals(), Late: sp.late, Thinking: sp.thinking,
				Wire: true, Replays: sp.thinking, Usage: sp.usage,
			})
		})
	}
}
