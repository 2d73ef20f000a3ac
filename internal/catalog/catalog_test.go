package catalog_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/catalog"
	"github.com/parley-server/parley/internal/seam"
)

func open(t *testing.T, own map[string]catalog.Entry) *catalog.Catalog {
	t.Helper()
	c, err := catalog.New(own)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestBuiltIn: each model has sizes, a price above its cache's, and a day.
func TestBuiltIn(t *testing.T) {
	t.Parallel()
	c := open(t, nil)
	for _, kind := range []string{"anthropic", "openai", "gemini", "mistral"} {
		names := c.Names(kind)
		if !slices.Contains(names, c.Default(kind)) {
			t.Errorf("%s: the default %q is not among %v", kind, c.Default(kind), names)
		}
		for _, name := range names {
			m := c.Info(kind, kind, name, true)
			if _, err := time.Parse(time.DateOnly, m.PricedAt); err != nil {
				t.Errorf("%s: %v", m.Name, err)
			}
			if m.ContextTokens < 100_000 || m.MaxOutputTokens < 4096 || m.InputUSD <= 0 || m.OutputUSD <= m.InputUSD || m.CacheReadUSD >= m.InputUSD || m.TokenBytes < 2 {
				t.Errorf("got %+v", m)
			}
		}
	}
}

func TestDatedNames(t *testing.T) {
	t.Parallel()
	c := open(t, nil)
	if got := c.Info("anthropic", "anthropic", "claude-sonnet-5-5-20260928", true); got.InputUSD != 2 || got.Name != "anthropic/claude-sonnet-5-5-20260928" {
		t.Errorf("got %+v", got)
	}
	if got := c.Info("openai", "openai", "gpt-6-sol-mini", true); got.PricedAt != "" {
		t.Errorf("another model has the price of its namesake: %+v", got)
	}
}

// TestElsewhere: a model of that name at another server has no price of ours.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	got := open(t, nil).Info("local", "openai", "gpt-6-sol", false)
	want := seam.ModelInfo{Name: "local/gpt-6-sol", Provider: "local", ContextTokens: 32_000, Guessed: true, MaxOutputTokens: 4096}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSettingsOverride(t *testing.T) {
	t.Parallel()
	n, usd, yes := int64(8192), 0.5, true
	c := open(t, map[string]catalog.Entry{
		"local/qwen3:8b":              {ContextTokens: &n, Images: &yes},
		"anthropic/claude-sonnet-5-5": {OutputUSD: &usd},
	})
	if got := c.Info("local", "openai", "qwen3:8b", false); got.ContextTokens != 8192 || !got.Images || got.PricedAt != "" {
		t.Errorf("got %+v", got)
	}
	if got := c.Info("anthropic", "anthropic", "claude-sonnet-5-5", true); got.OutputUSD != 0.5 || got.InputUSD != 2 || got.PricedAt != "settings" {
		t.Errorf("got %+v", got)
	}
}
