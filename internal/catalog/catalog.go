// Package catalog has the known sizes and prices of models. The built-in data is dated
// (models.yaml); settings may override it, model by model.
//
// An unknown model gets conservative sizes and no price. It can be used, but budgets in
// dollars do not count it, and lists of models show that it has no price.
package catalog

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/parley-server/parley/internal/seam"
)

//go:embed models.yaml
var builtIn []byte

// Entry has the known facts about a model. A nil field is unknown.
type Entry struct {
	ContextTokens   *int64   `yaml:"context_tokens"`
	MaxOutputTokens *int64   `yaml:"max_output_tokens"`
	InputUSD        *float64 `yaml:"input_usd"`
	OutputUSD       *float64 `yaml:"output_usd"`
	CacheReadUSD    *float64 `yaml:"cache_read_usd"`
	CacheWriteUSD   *float64 `yaml:"cache_write_usd"`
	TokenBytes      *float64 `yaml:"token_bytes"`
	Images          *bool    `yaml:"images"`
	Files           *bool    `yaml:"files"`
	ServerTools     []string `yaml:"server_tools"`
}

type kind struct {
	Default string           `yaml:"default"`
	At      string           `yaml:"at"`
	Source  string           `yaml:"source"`
	All     Entry            `yaml:"all"`
	Models  map[string]Entry `yaml:"models"`
}

// Catalog combines what is built in with the settings. It is safe for concurrent use.
type Catalog struct {
	kinds map[string]kind
	own   map[string]Entry
}

// New returns a catalog of what is built in, overridden by own, which is keyed by the
// models' full names ("openai/qwen3:8b"). It does not check own: settings are checked
// where they are read.
func New(own map[string]Entry) (*Catalog, error) {
	c := &Catalog{own: own}
	d := yaml.NewDecoder(bytes.NewReader(builtIn))
	d.KnownFields(true)
	if err := d.Decode(&c.kinds); err != nil {
		return nil, fmt.Errorf("read the built-in models: %w", err)
	}
	return c, nil
}

// Sizes assumed for an unknown model: those of small local servers.
const (
	carefulContext = 32_000
	carefulOutput  = 4_096
)

// Info returns what is known of a provider's model. Kind is the provider's protocol
// (anthropic, openai, gemini, mistral). listed says whether it is the provider of that
// name itself, to which the built-in prices apply. id is the provider's own name for the
// model.
func (c *Catalog) Info(provider, kindOf, id string, listed bool) seam.ModelInfo {
	m := seam.ModelInfo{
		Name: provider + "/" + id, Provider: provider, ContextTokens: carefulContext, MaxOutputTokens: carefulOutput, Guessed: true,
	}
	if k, ok := c.kinds[kindOf]; ok && listed {
		k.All.apply(&m)
		if e, ok := k.find(id); ok {
			e.apply(&m)
			m.PricedAt = k.At
		}
	}
	if e, ok := c.own[m.Name]; ok {
		e.apply(&m)
		if e.InputUSD != nil || e.OutputUSD != nil {
			m.PricedAt = "settings"
		}
	}
	return m
}

// find also matches a dated name, such as claude-sonnet-5-5-20260928.
func (k kind) find(id string) (Entry, bool) {
	if e, ok := k.Models[id]; ok {
		return e, true
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(k.Models))) { // of names with a common prefix, the longest comes first
		rest, ok := strings.CutPrefix(id, name+"-")
		if ok && len(rest) >= 4 && strings.Trim(rest, "0123456789-") == "" {
			return k.Models[name], true
		}
	}
	return Entry{}, false
}

func (e Entry) apply(m *seam.ModelInfo) {
	set(&m.ContextTokens, e.ContextTokens)
	m.Guessed = m.Guessed && e.ContextTokens == nil
	set(&m.MaxOutputTokens, e.MaxOutputTokens)
	set(&m.InputUSD, e.InputUSD)
	set(&m.OutputUSD, e.OutputUSD)
	set(&m.CacheReadUSD, e.CacheReadUSD)
	set(&m.CacheWriteUSD, e.CacheWriteUSD)
	set(&m.TokenBytes, e.TokenBytes)
	set(&m.Images, e.Images)
	set(&m.Files, e.Files)
	if e.ServerTools != nil {
		m.ServerTools = slices.Clone(e.ServerTools)
	}
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// Names are the built-in models of a kind.
func (c *Catalog) Names(kindOf string) []string {
	return slices.Sorted(maps.Keys(c.kinds[kindOf].Models))
}

// Own are the full names of the models in the settings.
func (c *Catalog) Own() []string { return slices.Sorted(maps.Keys(c.own)) }

// Default is the model of a kind that is used when none is named.
func (c *Catalog) Default(kindOf string) string { return c.kinds[kindOf].Default }
