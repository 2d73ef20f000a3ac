package program_test

import (
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/openai"
)

// TestOllama_with_its_own_window: Ollama silently drops the start of a prompt that is too long.
// The program asks Ollama for its window and fits the prompt to it. If something does not fit,
// the turn and doctor say which setting to change.
func TestOllama_with_its_own_window(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		window int64
		status parley.TurnStatus
		doctor string // after it was used
	}{
		"as it comes": {4096, parley.StatusFailed, "takes 4096 tokens with its server's settings"},
		"enlarged":    {32_768, parley.StatusCompleted, "takes 32768 tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := sim.New(sim.Options{
				Dialect: sim.Ollama, Models: []string{"qwen3"}, Context: tt.window,
				Brain: modeltest.Brain(modeltest.Behaviour{Reply: seam.Reply{
					Parts: []parley.Part{{Type: parley.PartText, Text: "Email and password."}}, StopReason: "end_turn", Usage: parley.Usage{InputTokens: 3000, OutputTokens: 5},
				}}),
			})
			srv := httptest.NewServer(server)
			t.Cleanup(srv.Close)
			p := newPlace(t, "PARLEY_MODEL=ollama/qwen3")
			p.write(filepath.Join(p.dir, "parley.yaml"), "models: {providers: {ollama: {kind: openai, dialect: ollama, base_url: "+srv.URL+"/v1}}}\n")
			if _, out, _ := p.run("doctor"); !strings.Contains(out, "says how many tokens it takes once it is loaded") {
				t.Errorf("doctor, before it was used:\n%s", out)
			}
			s := p.serve()
			turn := s.send(s.session("chaos"), "What is the spec? "+strings.Repeat("It is a long story. ", 700))
			done := s.settle(turn.ID)
			if done.Status != tt.status {
				t.Fatalf("got %s %+v, want %s", done.Status, done.Error, tt.status)
			}
			if failed := tt.status == parley.StatusFailed; failed != (server.Requests() == 0) || failed && (done.Error.Code != parley.CodeTooLarge || !strings.Contains(done.Error.Hint, "OLLAMA_CONTEXT_LENGTH")) {
				t.Errorf("%d requests left; %+v", server.Requests(), done.Error)
			}
			if _, out, _ := p.run("doctor"); !strings.Contains(out, tt.doctor) {
				t.Errorf("doctor:\n%s", out)
			}
		})
	}
}
