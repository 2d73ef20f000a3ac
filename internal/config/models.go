package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// Models are who answers: the providers of language models, and what is known of
// their models.
type Models struct {
	// Providers, by the name that stands before the slash in their models' names.
	// Default: those whose key is in the environment (see [ProviderEnv]).
	Providers map[string]Provider `yaml:"providers"`
	// Known is what is known of single models, by full name, such as
	// local/qwen3:8b, over what is built in.
	Known map[string]Model `yaml:"known"`
	// CallsPerMinute bounds how often all users together call a model, by full
	// name. Default: as often as its provider takes it.
	CallsPerMinute map[string]int `yaml:"calls_per_minute"`

	// Default is the model of apps that name none, "" for that of their script. It
	// is not a setting: whoever makes the providers finds it.
	Default string `yaml:"-"`
	// Hosted is that of apps that ask for hosted agents, where it is another one. ""
	// is that there are none.
	Hosted string `yaml:"-"`
}

// Provider is an account with a provider, or a server of one's own.
type Provider struct {
	// Kind is how it speaks: anthropic, openai, gemini or mistral. Default: its name.
	Kind string `yaml:"kind"`
	// Key of its API. Default: the variable of its kind, when it has the kind's name.
	Key string `yaml:"key,ref"`
	// BaseURL is where it is. Default: the provider's own server.
	BaseURL string `yaml:"base_url,ref"`
	// Model is its model that is used where none is named. Default: as built in.
	Model string `yaml:"model,ref"`
	// FirstToken is how long its models may take to begin a reply, such as "90s".
	// Default: a minute, and five minutes where base_url is this machine's or of a
	// private network: a server of one's own may have to load the model first.
	FirstToken parley.Duration `yaml:"first_token"`
	// Dialect of kind openai: openai, openrouter, ollama, vllm, llamacpp, gemini or
	// plain. Default: found by the address.
	Dialect string `yaml:"dialect"`
	// Headers go with each request of kind openai. Default: none.
	Headers map[string]string `yaml:"headers,ref"`
	// Hosted, of kind mistral, lets the provider keep agents and conversations and
	// hand turns from agent to agent itself. true is for all apps that name no model,
	// false for none. Default: for the apps that ask for it, such as chaos.
	Hosted *bool `yaml:"hosted"`
	// CacheHour, of kind anthropic, keeps prompts for an hour in its cache instead
	// of five minutes, for twice the price of writing them. Default: false.
	CacheHour bool `yaml:"cache_hour"`
}

// Model is what is known of a model. Default: what is built in.
type Model struct {
	ContextTokens   *int64   `yaml:"context_tokens"`
	MaxOutputTokens *int64   `yaml:"max_output_tokens"`
	InputUSD        *float64 `yaml:"input_usd"` // prices: dollars per million tokens
	OutputUSD       *float64 `yaml:"output_usd"`
	CacheReadUSD    *float64 `yaml:"cache_read_usd"`
	CacheWriteUSD   *float64 `yaml:"cache_write_usd"`
	TokenBytes      *float64 `yaml:"token_bytes"` // bytes of text a token has about, for estimates
	Images          *bool    `yaml:"images"`
	Files           *bool    `yaml:"files"`
	ServerTools     []string `yaml:"server_tools"`
	// FirstToken, in place of its provider's.
	FirstToken *parley.Duration `yaml:"first_token"`
}

// patience bounds how long a model may be waited for before it begins.
const patience = parley.Duration(time.Hour)

// ProviderEnv are the variables of a provider of each kind. The first is its key,
// the second its address.
var ProviderEnv = map[string][2]string{
	"anthropic": {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"},
	"openai":    {"OPENAI_API_KEY", "OPENAI_BASE_URL"},
	"gemini":    {"GEMINI_API_KEY", "GEMINI_BASE_URL"},
	"mistral":   {"MISTRAL_API_KEY", "MISTRAL_BASE_URL"},
}

// order is in which the providers of the environment are looked at for a model
// where none is named.
var order = []string{"anthropic", "mistral", "openai", "gemini"}

// complete takes in what the environment says of providers. It returns which
// variable each setting came from.
func (m *Models) complete(env func(string) (string, bool)) map[string]string {
	from := map[string]string{}
	get := func(name string) string {
		if v, ok := env(name); ok {
			return strings.TrimSpace(v)
		}
		return ""
	}
	found := map[string]Provider{}
	maps.Copy(found, m.Providers)
	for kind, names := range ProviderEnv {
		key, base := get(names[0]), get(names[1])
		p, named := found[kind]
		if !named && key == "" && (kind != "openai" || base == "") {
			continue
		}
		if p.Kind == "" || p.Kind == kind {
			if p.Key == "" && key != "" {
				p.Key, from["models.providers."+kind+".key"] = key, names[0]
			}
			if p.BaseURL == "" && base != "" {
				p.BaseURL, from["models.providers."+kind+".base_url"] = base, names[1]
			}
		}
		found[kind] = p
	}
	for name, p := range found {
		p.Kind = cmp.Or(p.Kind, name)
		found[name] = p
	}
	if len(found) > 0 {
		m.Providers = found
	}
	return from
}

// First is the provider whose model is taken where none is named, or "".
func (m Models) First() string {
	for _, name := range order {
		if _, ok := m.Providers[name]; ok {
			return name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Providers)) {
		return name
	}
	return ""
}

// Secrets are the keys of the providers, and headers that may be one.
func (m Models) Secrets() []string {
	var list []string
	for _, p := range m.Providers {
		list = append(list, p.Key)
		for _, v := range p.Headers {
			if len(v) >= 12 {
				list = append(list, v)
			}
		}
	}
	return list
}

// dialects are those of kind openai.
var dialects = []string{"gemini", "llamacpp", "ollama", "openai", "openrouter", "plain", "vllm"}

// serverTools are what a provider may run itself.
var serverTools = []string{"web_fetch", "web_search"}

const (
	leastTokens = 256     // a model of fewer could neither be asked nor answer
	mostTokens  = 1 << 40 // more is a mistake, and sums of it would not fit a number
)

// known checks what is said of a model.
func (o *overrides) known(at string, k Model) {
	for name, n := range map[string]*int64{"context_tokens": k.ContextTokens, "max_output_tokens": k.MaxOutputTokens} {
		if n != nil && (*n < leastTokens || *n > mostTokens) {
			o.bad(at+"."+name, "is %d, and has to be from %d to %d", *n, leastTokens, int64(mostTokens))
		}
	}
	for name, n := range map[string]*float64{
		"input_usd": k.InputUSD, "output_usd": k.OutputUSD, "cache_read_usd": k.CacheReadUSD, "cache_write_usd": k.CacheWriteUSD, "token_bytes": k.TokenBytes,
	} {
		if n != nil && *n < 0 {
			o.bad(at+"."+name, "is %g, and can not be less than 0", *n)
		}
	}
	if k.FirstToken != nil && (*k.FirstToken <= 0 || *k.FirstToken > patience) {
		o.bad(at+".first_token", "is %s, and has to be more than 0 and at most %s", time.Duration(*k.FirstToken), time.Duration(patience))
	}
	for _, name := range k.ServerTools {
		if !slices.Contains(serverTools, name) {
			o.bad(at+".server_tools", "%q is no tool of a provider%s", name, hint(name, serverTools))
		}
	}
}

func (o *overrides) models() {
	m := &o.s.Models
	for _, name := range slices.Sorted(maps.Keys(m.Providers)) {
		p, at := m.Providers[name], "models.providers."+name
		switch {
		case name == "scripted" || name == "" || strings.ContainsAny(name, "/ "):
			o.bad(at, "can not be the name of a provider")
		case ProviderEnv[p.Kind][0] == "":
			o.bad(at+".kind", "%q is none of anthropic, openai, gemini, mistral", p.Kind)
		case p.Key == "" && p.Kind != "openai":
			o.bad(at, "has no key: set key, or the variable %s", ProviderEnv[p.Kind][0])
		}
		switch u, err := url.Parse(p.BaseURL); {
		case p.BaseURL == "":
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			o.bad(at+".base_url", "is no address that begins with http:// or https://")
		case u.User != nil || u.RawQuery != "" || u.Fragment != "":
			o.bad(at+".base_url", "has a user, a query or a fragment; a key belongs into key, anything else into headers")
		}
		if strings.ContainsFunc(p.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			o.bad(at+".key", "has a space, a line break or a letter that no key has; copy it again")
		}
		if p.FirstToken < 0 || p.FirstToken > patience {
			o.bad(at+".first_token", "is %s, and has to be from 0 to %s", time.Duration(p.FirstToken), time.Duration(patience))
		}
		if p.Dialect != "" && !slices.Contains(dialects, p.Dialect) {
			o.bad(at+".dialect", "%q is no dialect%s", p.Dialect, hint(p.Dialect, dialects))
		}
		for _, k := range slices.Sorted(maps.Keys(p.Headers)) {
			if k == "" || strings.ContainsFunc(k, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) }) {
				o.bad(at+".headers", "%q can not be the name of a header", k)
			}
			if strings.ContainsFunc(p.Headers[k], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				o.bad(at+".headers."+k, "has a line break or another sign that no header has")
			}
		}
		if p.Hosted != nil && *p.Hosted && p.Kind != "mistral" {
			o.bad(at+".hosted", "is for providers of kind mistral")
		}
	}
	named := func(at, name string) {
		if p, id, ok := strings.Cut(name, "/"); !ok || id == "" || p == "" {
			o.bad(at, "%q is not the full name of a model; write it like anthropic/claude-sonnet-5-5", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Known)) {
		named("models.known."+name, name)
		o.known("models.known."+name, m.Known[name])
	}
	for _, name := range slices.Sorted(maps.Keys(m.CallsPerMinute)) {
		at := "models.calls_per_minute." + name
		named(at, name)
		if n := m.CallsPerMinute[name]; n < 1 {
			o.bad(at, "is %d, and has to be at least 1", n)
		}
	}
	for path, n := range map[string]float64{"limits.usd_per_day": o.s.Limits.USDPerDay, "limits.turns_per_minute": float64(o.s.Limits.TurnsPerMinute)} {
		if n < 0 {
			o.bad(path, "can not be less than 0")
		}
	}
	for user, n := range o.s.Limits.UserUSDPerDay {
		if n < 0 {
			o.bad(fmt.Sprintf("limits.user_usd_per_day.%s", user), "can not be less than 0")
		}
	}
}
