package openai_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/model/openai"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/openai"
)

// TestWindow: the client asks a self-hosted server for its context window. It sends no request
// that is longer.
func TestWindow(t *testing.T) {
	t.Parallel()
	const guess = 32_000
	for name, tt := range map[string]struct {
		o       sim.Options
		info    seam.ModelInfo
		measure int64 // known before a call
		called  int64 // and after one
	}{
		"Ollama that has it not loaded":      {o: sim.Options{Dialect: sim.Ollama, Context: 4096}, measure: guess, called: 4096},
		"Ollama with a larger default":       {o: sim.Options{Dialect: sim.Ollama, Context: 65_536}, measure: guess, called: 65_536},
		"Ollama with num_ctx in a Modelfile": {o: sim.Options{Dialect: sim.Ollama, Context: 8192, Modelfile: "num_ctx                        8192"}, measure: 8192, called: 8192},
		"Ollama with more than was trained":  {o: sim.Options{Dialect: sim.Ollama, Context: 40_960, Modelfile: "num_ctx 1000000"}, measure: 40_960, called: 40_960},
		"Ollama that does not say":           {o: sim.Options{Dialect: sim.Ollama, Context: 4096, Silent: true}, measure: guess, called: 4096},
		"vLLM":                               {o: sim.Options{Dialect: sim.VLLM, Context: 16_384}, measure: 16_384, called: 16_384},
		"llama.cpp":                          {o: sim.Options{Dialect: sim.LlamaCpp, Context: 8192}, measure: 8192, called: 8192},
		"less by the settings":               {o: sim.Options{Dialect: sim.VLLM, Context: 65_536}, info: seam.ModelInfo{ContextTokens: 10_000}, measure: 10_000, called: 10_000},
		"more by the settings":               {o: sim.Options{Dialect: sim.VLLM, Context: 8192}, info: seam.ModelInfo{ContextTokens: 200_000}, measure: 8192, called: 8192},
		"nobody's own":                       {o: sim.Options{Dialect: sim.OpenRouter}, measure: guess, called: guess},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.o.Brain = modeltest.Brain(modeltest.Behaviour{Reply: saying(parley.Usage{InputTokens: 10, OutputTokens: 1})})
			tt.o.Models = []string{"qwen3"}
			s := sim.New(tt.o)
			srv := httptest.NewServer(s)
			defer srv.Close()
			if tt.info.ContextTokens == 0 {
				tt.info.ContextTokens, tt.info.Guessed = guess, true
			}
			tt.info.Name, tt.info.MaxOutputTokens = "openai/qwen3", 4096
			m := client(t, openai.Options{Key: key, BaseURL: srv.URL + s.Prefix(), Dialect: openai.Dialect(tt.o.Dialect)}).Model(tt.info)
			if err := m.(seam.Measurer).Measure(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := m.Info().ContextTokens; got != tt.measure || s.Loaded() != "" {
				t.Errorf("measured: %d, want %d; loaded %q, want none", got, tt.measure, s.Loaded())
			}
			long := seam.Request{Model: tt.info.Name, MaxTokens: 1000, Messages: []parley.Message{user(strings.Repeat("word ", 12_000))}}
			before := m.Info().ContextTokens
			_, err := replyOf(t, m, long)
			if got := m.Info().ContextTokens; got != tt.called {
				t.Errorf("after a call: %d, want %d", got, tt.called)
			}
			if smaller := tt.called < before; smaller != (parley.CodeOf(err) == parley.CodeUnavailable) || smaller != (s.Requests() == 0) {
				t.Errorf("a request for %d tokens, where %d are taken: %v, and %d left", before, tt.called, err, s.Requests())
			}
			if _, err := replyOf(t, m, seam.Request{Model: tt.info.Name, MaxTokens: 1000, Messages: []parley.Message{user("hi")}}); err != nil {
				t.Errorf("a short one: %v", err)
			}
		})
	}
}

// TestWindow_changes: after a restart, a server may have another window. The client learns it
// within a minute. A server that cannot be asked is called all the same, and is not asked each
// time.
func TestWindow_changes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_790_000_000, 0)
	brain := modeltest.Brain(modeltest.Behaviour{Reply: saying(parley.Usage{InputTokens: 10, OutputTokens: 1})})
	var h http.Handler = sim.New(sim.Options{Brain: brain, Dialect: sim.LlamaCpp, Context: 8192})
	asked := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/props" {
			asked++
		}
		h.ServeHTTP(w, r)
	}))
	defer srv.Close()
	m := client(t, openai.Options{BaseURL: srv.URL + "/v1", Dialect: openai.LlamaCpp, Now: func() time.Time { return now }}).
		Model(seam.ModelInfo{Name: "openai/x", ContextTokens: 32_000, MaxOutputTokens: 100, Guessed: true})
	ask := func(want int64, times int) {
		t.Helper()
		if _, err := replyOf(t, m, seam.Request{Model: "openai/x", MaxTokens: 10, Messages: []parley.Message{user("hi")}}); err != nil {
			t.Fatal(err)
		}
		if got := m.Info().ContextTokens; got != want || asked != times {
			t.Errorf("got %d tokens and %d questions, want %d and %d", got, asked, want, times)
		}
	}
	ask(8192, 1)
	h = sim.New(sim.Options{Brain: brain, Dialect: sim.LlamaCpp, Context: 16_384})
	ask(8192, 1)
	now = now.Add(time.Minute)
	ask(16_384, 2)
	was := h
	h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/props" {
			http.NotFound(w, r)
			return
		}
		was.ServeHTTP(w, r)
	})
	now = now.Add(time.Minute)
	ask(16_384, 3)
	ask(16_384, 3)
}

// TestDoubt: a count far below what was sent is reported in the reply and in the log.
func TestDoubt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		bytes   int
		counted int64
		want    bool
	}{
		"cut off":          {80_000, 4000, true},
		"as it should be":  {80_000, 20_000, false},
		"spaces":           {80_000, 8000, false},
		"short":            {8000, 100, false},
		"all was in cache": {80_000, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sim.New(sim.Options{Dialect: sim.Ollama, Brain: modeltest.Brain(modeltest.Behaviour{Reply: saying(parley.Usage{InputTokens: tt.counted, OutputTokens: 1})})})
			srv := httptest.NewServer(s)
			defer srv.Close()
			var log bytes.Buffer
			m := client(t, openai.Options{BaseURL: srv.URL + s.Prefix(), Dialect: openai.Ollama, Logger: slog.New(slog.NewTextHandler(&log, nil))}).Model(info("qwen3"))
			r, err := replyOf(t, m, seam.Request{Model: "openai/qwen3", MaxTokens: 10, Messages: []parley.Message{user(strings.Repeat("a", tt.bytes))}})
			if err != nil {
				t.Fatal(err)
			}
			if said := strings.Contains(log.String(), "OLLAMA_CONTEXT_LENGTH"); (r.Warning != "") != tt.want || said != tt.want {
				t.Errorf("warning %q, log %q; want %t", r.Warning, log.String(), tt.want)
			}
		})
	}
}

func saying(u parley.Usage) seam.Reply {
	return seam.Reply{Parts: []parley.Part{{Type: parley.PartText, Text: "hello"}}, StopReason: "end_turn", Usage: u}
}

func user(text string) parley.Message { return parley.Text(parley.RoleUser, text) }

func replyOf(t *testing.T, m seam.Model, r seam.Request) (*seam.Reply, error) {
	t.Helper()
	for d, err := range m.Stream(t.Context(), r) {
		if err != nil || d.Reply != nil {
			return d.Reply, err
		}
	}
	t.Fatal("the stream ended without a reply")
	return nil, nil
}
