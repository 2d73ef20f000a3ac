package modeltest_test

import (
	"testing"

	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
)

// TestBrain: the brain behind the simulated wires is itself a model that passes the suite.
func TestBrain(t *testing.T) {
	t.Parallel()
	modeltest.Run(t, modeltest.Harness{
		New: func(_ *testing.T, b modeltest.Behaviour) (seam.Model, <-chan struct{}) {
			return modeltest.Brain(b), nil
		},
		Errors: modeltest.Refusals(), Late: modeltest.Refusals(), Thinking: true,
	})
}
