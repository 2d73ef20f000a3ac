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
	"github.com/parley-server/parley/internal/nearest"
)

// Models are the providers of language models, and what is known of their models.
type Models struct {
	// Providers, by the part of a model's name before the slash. Default: those whose key
	// is in the environment (see [ProviderEnv]).
	Providers map[string]Provider `yaml:"providers"`
	// Known describes single models, by full name, such as local/qwen3:8b. It overrides
	// what is built in.
	Known map[string]Model `yaml:"known"`
	// CallsPerMinute limits how often all users together call a model, by full name.
	// Default: no limit.
	CallsPerMinute map[string]int `yaml:"calls_per_minute"`

	// Default is the model of apps that name none; "" is the model of their script. It is
	// not a setting: the code that creates the providers sets it.
	Default string `yaml:"-"`
	// Hosted is the model of apps that ask for hosted agents, if it differs from Default.
	// "": there are no hosted agents.
	Hosted string `yaml:"-"`
}

// Provider is an account with a provider, or a server of one's own.
type Provider struct {
	// Kind is its protocol: anthropic, openai, gemini or mistral. Default: its name.
	Kind string `yaml:"kind"`
	// Key is its API key. Default: its kind's variable, if the provider is named after its
	// kind.
	Key string `yaml:"key,ref"`
	// BaseURL is its address. Default: the provider's own server.
	BaseURL string `yaml:"base_url,ref"`
	// Model is the provider's default model. Default: as built in.
	Model string `yaml:"model,ref"`
	// FirstToken is how long its models may take to begin a reply, such as "90s". Default:
	// a minute, or five minutes if base_url is on this machine or in a private network,
	// because a server of one's own may have to load the model first.
	FirstToken parley.Duration `yaml:"first_token"`
	// Dialect, for kind openai: openai, openrouter, ollama, vllm, llamacpp, gemini or
	// plain. Default: derived from the address.
	Dialect string `yaml:"dialect"`
	// Headers are sent with each request, for kind openai. Default: none.
	Headers map[string]string `yaml:"headers,ref"`
	// Hosted, for kind mistral, lets the provider keep agents and conversations and make
	// handoffs itself. true applies to all apps that name no model, false to none.
	// Default: the apps that ask for it, such as chaos.
	Hosted *bool `yaml:"hosted"`
	// CacheHour, for kind anthropic, keeps prompts in its cache for an hour instead of
	// five minutes; writing them costs twice as much. Default: false.
	CacheHour bool `yaml:"cache_hour"`
}

// Model describes a model. Default: what is built in.
type Model struct {
	ContextTokens   *int64   `yaml:"context_tokens"`
	MaxOutputTokens *int64   `yaml:"max_output_tokens"`
	InputUSD        *float64 `yaml:"input_usd"` // prices: dollars per million tokens
	OutputUSD       *float64 `yaml:"output_usd"`
	CacheReadUSD    *float64 `yaml:"cache_read_usd"`
	CacheWriteUSD   *float64 `yaml:"cache_write_usd"`
	TokenBytes      *float64 `yaml:"token_bytes"` // average bytes of text per token, for estimates
	Images          *bool    `yaml:"images"`
	Files           *bool    `yaml:"files"`
	ServerTools     []string `yaml:"server_tools"`
	// FirstToken replaces the provider's FirstToken.
	FirstToken *parley.Duration `yaml:"first_token"`
}

// patience is the longest that FirstToken may be.
const patience = parley.Duration(time.Hour)

// ProviderEnv are the variables for each kind of provider: its key, then its address.
var ProviderEnv = map[string][2]string{
	"anthropic": {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"},
	"openai":    {"OPENAI_API_KEY", "OPENAI_BASE_URL"},
	"gemini":    {"GEMINI_API_KEY", "GEMINI_BASE_URL"},
	"mistral":   {"MISTRAL_API_KEY", "MISTRAL_BASE_URL"},
}

// order is the order in which the environment's providers are tried for a default model.
var order = []string{"anthropic", "mistral", "openai", "gemini"}

// complete adds the providers in the environment. It returns which variable each setting
// came from.
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

// First is the provider of the default model, or "".
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

// Secrets are the keys of the providers, and headers that may hold a key.
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

// serverTools are the tools that a provider may run itself.
var serverTools = []string{"web_fetch", "web_search"}

const (
	leastTokens = 256     // a smaller model could not be asked anything
	mostTokens  = 1 << 40 // more is a mistake, and sums of it could overflow
)

// known checks the description of a model.
func (o *overrides) known(at string, k Model) {
	for name, n := range map[string]*int64{"context_tokens": k.ContextTokens, "max_output_tokens": k.MaxOutputTokens} {
		if n != nil && (*n < leastTokens || *n > mostTokens) {
			o.bad(at+"."+name, "is %d, and must be from %d to %d", *n, leastTokens, int64(mostTokens))
		}
	}
	for name, n := range map[string]*float64{
		"input_usd": k.InputUSD, "output_usd": k.OutputUSD, "cache_read_usd": k.CacheReadUSD, "cache_write_usd": k.CacheWriteUSD, "token_bytes": k.TokenBytes,
	} {
		if n != nil && *n < 0 {
			o.bad(at+"."+name, "is %g, and cannot be less than 0", *n)
		}
	}
	if k.FirstToken != nil && (*k.FirstToken <= 0 || *k.FirstToken > patience) {
		o.bad(at+".first_token", "is %s, and must be more than 0 and at most %s", time.Duration(*k.FirstToken), time.Duration(patience))
	}
	for _, name := range k.ServerTools {
		if !slices.Contains(serverTools, name) {
			o.bad(at+".server_tools", "%q is not a provider's tool%s", name, nearest.Hint(name, serverTools))
		}
	}
}

func (o *overrides) models() {
	m := &o.s.Models
	for _, name := range slices.Sorted(maps.Keys(m.Providers)) {
		p, at := m.Providers[name], "models.providers."+name
		switch {
		case name == "scripted" || name == "" || strings.ContainsAny(name, "/ "):
			o.bad(at, "cannot be the name of a provider")
		case ProviderEnv[p.Kind][0] == "":
			o.bad(at+".kind", "%q is not one of anthropic, openai, gemini, mistral", p.Kind)
		case p.Key == "" && p.Kind != "openai":
			o.bad(at, "has no key: set key, or the variable %s", ProviderEnv[p.Kind][0])
		}
		switch u, err := url.Parse(p.BaseURL); {
		case p.BaseURL == "":
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			o.bad(at+".base_url", "is not an address that begins with http:// or https://")
		case u.User != nil || u.RawQuery != "" || u.Fragment != "":
			o.bad(at+".base_url", "has a user, a query or a fragment; write a key under key, anything else under headers")
		}
		if strings.ContainsFunc(p.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			o.bad(at+".key", "has a space, a line break or a character that no key has; copy it again")
		}
		if p.FirstToken < 0 || p.FirstToken > patience {
			o.bad(at+".first_token", "is %s, and must be from 0 to %s", time.Duration(p.FirstToken), time.Duration(patience))
		}
		if p.Dialect != "" && !slices.Contains(dialects, p.Dialect) {
			o.bad(at+".dialect", "%q is not a dialect%s", p.Dialect, nearest.Hint(p.Dialect, dialects))
		}
		for _, k := range slices.Sorted(maps.Keys(p.Headers)) {
			if k == "" || strings.ContainsFunc(k, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) }) {
				o.bad(at+".headers", "%q cannot be the name of a header", k)
			}
			if strings.ContainsFunc(p.Headers[k], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				o.bad(at+".headers."+k, "has a line break or another character that no header may have")
			}
		}
		if p.Hosted != nil && *p.Hosted && p.Kind != "mistral" {
			o.bad(at+".hosted", "is only for providers of kind mistral")
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
			o.bad(at, "is %d, and must be at least 1", n)
		}
	}
	for path, n := range map[string]float64{
		"limits.usd_per_day": o.s.Limits.USDPerDay, "limits.turns_per_minute": float64(o.s.Limits.TurnsPerMinute),
		"limits.org_usd_per_day": o.s.Limits.OrgUSDPerDay, "limits.org_turns_per_minute": float64(o.s.Limits.OrgTurnsPerMinute),
	} {
		if n < 0 {
			o.bad(path, "cannot be less than 0")
		}
	}
	for org, n := range o.s.Limits.OrgsUSDPerDay {
		if n < 0 {
			o.bad(fmt.Sprintf("limits.orgs_usd_per_day.%s", org), "cannot be less than 0")
		}
	}
	for user, n := range o.s.Limits.UserUSDPerDay {
		if n < 0 {
			o.bad(fmt.Sprintf("limits.user_usd_per_day.%s", user), "cannot be less than 0")
		}
	}
}
