package anthropic_test

import (
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/anthropic"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/anthropic"
)

const key = "sk-ant-test-0123456789"

// known is what a models' table could have for a model.
func known(id string) seam.ModelInfo {
	return seam.ModelInfo{
		Name: "anthropic/" + id, ContextTokens: 200_000, MaxOutputTokens: 64_000, Images: true, Files: true, ServerTools: []string{"web_search", "web_fetch"},
	}
}

func client(t *testing.T, url string) *anthropic.Client {
	t.Helper()
	c, err := anthropic.New(anthropic.Options{Key: key, BaseURL: url})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestModel(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"claude-sonnet-5-5", "claude-sonnet-4-6", "claude-haiku-4-5"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			modeltest.Run(t, modeltest.Harness{
				New: func(t *testing.T, b modeltest.Behaviour) (seam.Model, <-chan struct{}) {
					srv, closed := modeltest.Serve(t, sim.New(sim.Options{Key: key, Brain: modeltest.Brain(b)}), b)
					return client(t, srv.URL).Model(known(id)), closed
				},
				Errors: modeltest.Refusals(), Late: modeltest.Refusals(), Thinking: true, Wire: true, Replays: true,
				Usage: func(u parley.Usage) parley.Usage { return u },
			})
		})
	}
}
