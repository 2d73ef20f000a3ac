package simtest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/model/anthropic"
	"github.com/parley-server/parley/internal/model/gemini"
	"github.com/parley-server/parley/internal/model/mistral"
	"github.com/parley-server/parley/internal/model/openai"
	"github.com/parley-server/parley/internal/runtime/loop"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/simtest"
)

// account creates the models of one provider.
type account interface {
	Model(info seam.ModelInfo) seam.Model
}

// adapted returns a provider's model at an address, for an app. A nil client means the
// adapter's own.
func adapted(t testing.TB, p simtest.Provider, url string, app *parley.App, client *http.Client) seam.Model {
	t.Helper()
	info := seam.ModelInfo{
		Name: nameOf(p, app), Provider: p.Account, ContextTokens: 200_000, MaxOutputTokens: 32_000,
		InputUSD: 1, OutputUSD: 10, Images: true, Files: true, Hosted: p.Hosted,
	}
	var a account
	var err error
	base := url + p.Base
	switch p.Kind {
	case "anthropic":
		a, err = anthropic.New(anthropic.Options{Key: simtest.Key, BaseURL: base, HTTP: client})
	case "openai":
		a, err = openai.New(openai.Options{Name: p.Account, Key: simtest.Key, BaseURL: base, HTTP: client, Dialect: openai.Dialect(p.Dialect)})
	case "gemini":
		a, err = gemini.New(gemini.Options{Key: simtest.Key, BaseURL: base, HTTP: client})
	case "mistral":
		var c *mistral.Client
		if c, err = mistral.New(mistral.Options{Key: simtest.Key, BaseURL: base, HTTP: client}); err == nil && p.Hosted {
			h, err := c.Hosted(info, mistral.HostedOptions{App: app, Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		a = c
	default:
		t.Fatalf("there is no adapter for %s", p.Kind)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a.Model(info)
}

func nameOf(p simtest.Provider, app *parley.App) string {
	return strings.ReplaceAll(p.Model, "{app}", app.Name)
}

// several has an engine's models by name.
type several map[string]seam.Model

func (s several) Model(name string) (seam.Model, error) {
	if m, ok := s[name]; ok {
		return m, nil
	}
	return nil, parley.Errorf(parley.CodeInvalid, "there is no model %q", name)
}

func (s several) Names() (names []string) {
	for n := range s {
		names = append(names, n)
	}
	return names
}

// over starts an engine with the models.
func over(t testing.TB, models several, app parley.App, o loop.Options) *enginetest.Rig {
	t.Helper()
	rig := enginetest.New(t, enginetest.Echo, app, func(e *engine.Options) {
		e.Models, e.Runtimes = models, map[string]seam.Runtime{"loop": loop.New(models, o)}
	})
	t.Cleanup(rig.Close)
	return rig
}

// eachProvider runs a test for each provider.
func eachProvider(t *testing.T, test func(t *testing.T, p simtest.Provider)) {
	t.Helper()
	for _, p := range simtest.Providers() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}
