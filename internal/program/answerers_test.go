package program

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/seam"
)

// TestModels_cache_hour: with a cache of one hour, cache writes cost twice the input price,
// unless the settings give a price.
func TestModels_cache_hour(t *testing.T) {
	t.Parallel()
	own := 7.0
	s := config.Settings{Models: config.Models{
		Providers: map[string]config.Provider{
			"anthropic": {Kind: "anthropic", Key: "k", CacheHour: true},
		},
		Known: map[string]config.Model{"anthropic/claude-opus-5-5": {CacheWriteUSD: &own}},
	}}
	m, err := newAnswerers(s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"claude-sonnet-5-5": 4, "claude-opus-5-5": 7, "nobody-knows": 0} {
		if got := m.info("anthropic", name); got.CacheWriteUSD != want {
			t.Errorf("%s: got $%g to write, want $%g (input is $%g)", name, got.CacheWriteUSD, want, got.InputUSD)
		}
	}
}

// TestModels_first_token: the wait for the first token is longer at a self-hosted server, which
// may have to load its model.
func TestModels_first_token(t *testing.T) {
	t.Parallel()
	own := parley.Duration(7 * time.Minute)
	s := config.Settings{Models: config.Models{
		Providers: map[string]config.Provider{
			"openai":  {Kind: "openai", Key: "k"},
			"ollama":  {Kind: "openai", Dialect: "ollama"},
			"near":    {Kind: "openai", BaseURL: "http://192.168.1.20:8000/v1"},
			"gateway": {Kind: "anthropic", Key: "k", BaseURL: "http://localhost:4000"},
			"far":     {Kind: "openai", BaseURL: "https://models.example.com/v1"},
			"set":     {Kind: "openai", BaseURL: "http://127.0.0.1:1/v1", FirstToken: parley.Duration(20 * time.Second)},
		},
		Known: map[string]config.Model{"far/large": {FirstToken: &own}},
	}}
	m, err := newAnswerers(s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]time.Duration{
		"openai/gpt": 0, "ollama/qwen3": 5 * time.Minute, "near/x": 5 * time.Minute, "gateway/claude": 5 * time.Minute,
		"far/small": 0, "far/large": 7 * time.Minute, "set/x": 20 * time.Second,
	} {
		f, err := m.Model(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Duration(f.Info().FirstTokenMS) * time.Millisecond; got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// TestModels_names: a model's name goes into logs, lists and terminals, so a name with control
// characters is rejected. Any other name that a provider may have is accepted.
func TestModels_names(t *testing.T) {
	t.Parallel()
	s := config.Settings{Models: config.Models{Providers: map[string]config.Provider{"local": {Kind: "openai", BaseURL: "http://127.0.0.1:1/v1"}}}}
	m, err := newAnswerers(s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"local/qwen3:8b": true, "local/org/model@v1": true, "local/modèle": true, "local/a b": true,
		"": false, "local": false, "local/": false, "/x": false, "other/x": false, "local/" + strings.Repeat("x", 200): false,
		"local/a\nb": false, "local/\x1b[31mred": false, "local/\x00": false, "local/a\u0085b": false,
	} {
		if _, err := m.Model(name); (err == nil) != want {
			t.Errorf("%q: got %v, want taken: %v", name, err, want)
		}
	}
}

// TestModels_calls_per_minute: a limit on how often a model is called takes no capability from it.
func TestModels_calls_per_minute(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"input_tokens": 4321}`))
	}))
	defer srv.Close()
	name := "anthropic/claude-sonnet-5-5"
	m, err := newAnswerers(config.Settings{Models: config.Models{
		Providers:      map[string]config.Provider{"anthropic": {Kind: "anthropic", Key: "k", BaseURL: srv.URL}},
		CallsPerMinute: map[string]int{name: 1},
	}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.Model(name)
	if err != nil {
		t.Fatal(err)
	}
	c, ok := f.(seam.TokenCounter)
	if !ok {
		t.Fatalf("%T counts no tokens", f)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 3 { // counting tokens is not a call
		n, err := c.CountTokens(ctx, seam.Request{Model: name, Messages: []parley.Message{parley.Text(parley.RoleUser, "hi")}})
		if n != 4321 || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
	}
}

// TestModels_latest: Ollama lists a model without a tag as name:latest. Both names mean the
// same model.
func TestModels_latest(t *testing.T) {
	t.Parallel()
	tokens := int64(40_960)
	s := config.Settings{Models: config.Models{
		Providers: map[string]config.Provider{"local": {Kind: "openai", BaseURL: "http://127.0.0.1:11434/v1"}},
		Known:     map[string]config.Model{"local/qwen3": {ContextTokens: &tokens}},
	}}
	m, err := newAnswerers(s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{"qwen3": true, "qwen3:latest": true, "qwen3:8b": false} {
		if got := m.info("local", id); got.Name != "local/"+id || (got.ContextTokens == tokens) != want {
			t.Errorf("%s: got %s with %d tokens, want those of the settings: %v", id, got.Name, got.ContextTokens, want)
		}
	}
	var b strings.Builder
	err = printModels(&b, []client.Model{{Name: "local/qwen3", Provider: "local"}, {Name: "local/other", Provider: "local"}},
		[]client.Provider{{Name: "local", OK: true, Models: []client.Model{{Name: "local/qwen3:latest"}}}})
	lines := strings.Split(b.String(), "\n")
	if err != nil || !strings.Contains(lines[1], "ready") || !strings.Contains(lines[2], "not listed") {
		t.Errorf("%v:\n%s", err, &b)
	}
}

// TestModels_of_a_folder_that_went_away: no agents are made at a provider once the data folder is
// replaced, because their ids could not be kept.
func TestModels_of_a_folder_that_went_away(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(provider.Close)
	names := config.ProviderEnv["mistral"]
	env := map[string]string{names[0]: "k", names[1]: provider.URL, "PARLEY_ENABLED": "chaos"}
	s, err := config.Load(config.From{
		Flags: map[string]string{"data": filepath.Join(t.TempDir(), "data"), "store": "mem"},
		Env:   func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := builtin().plan(s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	own, err := takeLock(s.Data, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.release)
	p.took(own)
	if len(p.models.hosted) == 0 {
		t.Fatal("no agents are the provider's")
	}
	prepared := func() (said string) {
		var log bytes.Buffer
		p.models.prepare(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
		return log.String()
	}
	prepared()
	before := asked.Load()
	if before == 0 {
		t.Error("in its own folder the provider is not asked")
	}
	if err := os.Rename(s.Data, s.Data+"-aside"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	if said := prepared(); asked.Load() != before || !strings.Contains(said, "the data folder was removed or replaced") {
		t.Errorf("the provider was asked %d times more, and this was said: %s", asked.Load()-before, said)
	}
}
