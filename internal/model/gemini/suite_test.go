package gemini_test

import (
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/gemini"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/gemini"
)

const key = "AIzaTest-0123456789"

// known is what a models' table could have for a model.
func known(id string) seam.ModelInfo {
	return seam.ModelInfo{
		Name: "gemini/" + id, ContextTokens: 1_000_000, MaxOutputTokens: 8192, Images: true, Files: true, ServerTools: []string{"web_search", "web_fetch"},
	}
}

func client(t testing.TB, url string) *gemini.Client {
	t.Helper()
	c, err := gemini.New(gemini.Options{Key: key, BaseURL: url})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestModel(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"gemini-3.8-flash", "gemini-3-pro-preview", "gemini-2.5-flash", "gemini-2.0-flash"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			thinks := id != "gemini-2.0-flash"
			modeltest.Run(t, modeltest.Harness{
				New: func(t *testing.T, b modeltest.Behaviour) (seam.Model, <-chan struct{}) {
					srv, closed := modeltest.Serve(t, sim.New(sim.Options{Key: key, Brain: modeltest.Brain(b)}), b)
					return client(t, srv.URL).Model(known(id)), closed
				},
				Errors: modeltest.Refusals(), Late: modeltest.Refusals(), Thinking: thinks, Wire: true, Replays: thinks,
				Usage: func(u parley.Usage) parley.Usage {
					u.CacheWriteTokens = 0 // not reported apart from input
					return u
				},
			})
		})
	}
}
