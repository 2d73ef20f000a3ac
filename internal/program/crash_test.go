package program

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/runtime/loop"
	"github.com/parley-server/parley/internal/seam"
)

// TestChaosSurvivesACrashAtEveryPoint plays the demo of the chaos app with its own prompts,
// tools, data and model, and crashes it at every point.
func TestChaosSurvivesACrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	settings, err := config.Load(config.From{Env: func(name string) (string, bool) { return t.TempDir(), name == "PARLEY_DATA" }})
	if err != nil {
		t.Fatal(err)
	}
	settings.Scripted.Pace = 0
	p, err := builtin().plan(settings, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, app := range p.resolved {
		if app.Name != "chaos" {
			continue
		}
		enginetest.CrashEverywhere(t, enginetest.Scenario{
			App:      app,
			Model:    func() enginetest.Model { return nil }, // replaced by the app's own model
			Messages: slices.Concat(app.Examples, app.FollowUps),
			Options: func(o *engine.Options) {
				o.Models, o.Tools = p.models, p.boxes
				o.Runtimes = map[string]seam.Runtime{"loop": loop.New(p.models, loop.Options{})}
			},
		})
	}
}
