// Package catalog knows models before they are asked: what they take and what
// they cost. What is built in is data with a date (models.yaml); settings may
// override it, model by model.
//
// A model that it does not know gets careful sizes and no price: it can be used,
// budgets and quotas in dollars do not see it, and whoever lists models sees that
// it has no price.
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

// Entry is what is known of a model. A nil field says nothing.
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

// Catalog is what is built in and what settings say. It is safe for concurrent
// use.
type Catalog struct {
	kinds map[string]kind
	own   map[string]Entry
}

// New returns a catalog with own, by the models' full names ("openai/qwen3:8b"),
// over what is built in. It takes own as it is: settings are checked where they
// are read.
func New(own map[string]Entry) (*Catalog, error) {
	c := &Catalog{own: own}
	d := yaml.NewDecoder(bytes.NewReader(builtIn))
	d.KnownFields(true)
	if err := d.Decode(&c.kinds); err != nil {
		return nil, fmt.Errorf("read the built-in models: %w", err)
	}
	return c, nil
}

// Sizes of a model that nobody knows: what small local servers take.
const (
	carefulContext = 32_000
	carefulOutput  = 4_096
)

// Info is what is known of a model of a provider. Kind is how the provider speaks
// (anthropic, openai, gemini, mistral), listed whether it is the one of that name
// itself, whose prices are built in; id is its own name for the model.
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

// find knows a model also by a dated name, such as claude-sonnet-5-5-20260928.
func (k kind) find(id string) (Entry, bool) {
	if e, ok := k.Models[id]; ok {
		return e, true
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(k.Models))) { // longer names of one beginning come first
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

// Names are the models of a kind that are built in.
func (c *Catalog) Names(kindOf string) []string {
	return slices.Sorted(maps.Keys(c.kinds[kindOf].Models))
}

// Own are the full names of the models that settings speak of.
func (c *Catalog) Own() []string { return slices.Sorted(maps.Keys(c.own)) }

// Default is the model of a kind that is taken when nobody names one.
func (c *Catalog) Default(kindOf string) string { return c.kinds[kindOf].Default }
