package program

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/model/modeltest"
	sim "github.com/parley-server/parley/internal/sim/openai"
)

// TestServe_names_each_model_once: two apps with the same model have one.
func TestServe_names_each_model_once(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(sim.New(sim.Options{Models: []string{"small"}, Brain: modeltest.Brain(modeltest.Behaviour{})}))
	t.Cleanup(srv.Close)
	p := newProgram(t, "OPENAI_BASE_URL="+srv.URL+"/v1", "PARLEY_MODEL=openai/small")
	s := p.serve("demo")
	s.stop(t)
	if said := s.out.String(); !strings.Contains(said, "apps: chaos, home, notes\n") || !strings.Contains(said, "models: openai/small\n") {
		t.Errorf("got\n%s", said)
	}
}
