package openai

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Dialect is a server's variant of chat completions.
type Dialect string

// The dialects. Plain, for all other servers, uses only what every server supports.
const (
	Plain      Dialect = "plain"
	OpenAI     Dialect = "openai"
	OpenRouter Dialect = "openrouter"
	Ollama     Dialect = "ollama"
	VLLM       Dialect = "vllm"
	LlamaCpp   Dialect = "llamacpp"
	Gemini     Dialect = "gemini"
)

// dialect is what must be known about a server beforehand. How it answers need not be known: the
// decoder accepts every variant from every server.
type dialect struct {
	title string // name shown to people
	base  string // default base URL
	hosts []string
	port  string // default port on this machine or a private network
	keyed bool   // it requires a key

	maxTokens string // the field that limits the reply
	effort    string // "reasoning_effort", or "reasoning" for an object
	echo      string // the field for reasoning in the history; "as it came": the field that it came in
	files     bool   // accepts documents
	parallel  bool   // makes parallel calls only if allowed explicitly
	routes    bool   // routes to providers, some of which ignore unknown fields
	seals     bool   // requires extra_content of calls back, or a placeholder
	thinks    *regexp.Regexp
	tokenize  bool   // can count tokens
	anyModel  bool   // serves one model under any name
	search    string // the field that enables web search; "": it cannot search
	pathKey   string
}

const asItCame = "as it came"

// thinkers are OpenAI's models that accept an effort and reject sampling parameters. Mistakes in
// this list are corrected by learning from rejections.
var thinkers = regexp.MustCompile(`^(?:o[1-9]|gpt-(?:[5-9]|[1-9][0-9])|codex)`)

var dialects = map[Dialect]dialect{
	Plain: {title: "the model server", maxTokens: "max_tokens", effort: "reasoning_effort", echo: asItCame},
	OpenAI: {
		title: "OpenAI", base: "https://api.openai.com/v1", hosts: []string{"api.openai.com"}, keyed: true,
		maxTokens: "max_completion_tokens", effort: "reasoning_effort", files: true, thinks: thinkers,
		search: "web_search_options",
	},
	OpenRouter: {
		title: "OpenRouter", base: "https://openrouter.ai/api/v1", hosts: []string{"openrouter.ai"}, keyed: true,
		maxTokens: "max_tokens", effort: "reasoning", echo: "reasoning", files: true, routes: true, pathKey: "/key",
		search: "plugins",
	},
	Ollama: {
		title: "Ollama", base: "http://localhost:11434/v1", port: "11434",
		maxTokens: "max_tokens", effort: "reasoning_effort", echo: "reasoning",
	},
	VLLM: {
		title: "vLLM", base: "http://localhost:8000/v1", port: "8000",
		maxTokens: "max_tokens", effort: "reasoning_effort", echo: asItCame, tokenize: true,
	},
	LlamaCpp: {
		title: "llama.cpp", base: "http://localhost:8080/v1", port: "8080",
		maxTokens: "max_tokens", effort: "reasoning_effort", echo: "reasoning_content", parallel: true, anyModel: true,
	},
	Gemini: {
		title: "Gemini", base: "https://generativelanguage.googleapis.com/v1beta/openai", hosts: []string{"generativelanguage.googleapis.com"}, keyed: true,
		maxTokens: "max_tokens", effort: "reasoning_effort", seals: true,
	},
}

func dialectNames() []string {
	names := make([]string, 0, len(dialects))
	for d := range dialects {
		names = append(names, string(d))
	}
	slices.Sort(names)
	return names
}

// detect recognizes the dialect by the address. A port only counts on this machine or a private
// network, where these servers are what usually listens on it.
func detect(u *url.URL) Dialect {
	host := u.Hostname()
	for d, t := range dialects {
		if slices.ContainsFunc(t.hosts, func(h string) bool { return host == h || strings.HasSuffix(host, "."+h) }) {
			return d
		}
		if t.port != "" && t.port == u.Port() && near(host) {
			return d
		}
	}
	return Plain
}

// BaseURL returns a dialect's default base URL.
func BaseURL(d Dialect) string {
	if d == "" {
		d = OpenAI
	}
	return dialects[d].base
}

// Near reports whether an address is on this machine or a private network.
func Near(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Hostname() != "" && near(u.Hostname())
}

func near(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast()
	}
	return !strings.Contains(host, ".") || strings.HasSuffix(host, ".local") || strings.HasSuffix(host, ".internal")
}

// quirks are the fields that a model was found to reject.
type quirks uint16

const (
	noTemperature quirks = 1 << iota
	noParallel
	noStreamOptions
	noEffort
	noEcho
	noRouting
	otherMaxTokens // use max_completion_tokens instead of the dialect's max_tokens, or the reverse
	systemRole     // use the system role, not developer
	developerRole  // use the developer role, not system
)

// at returns what is known of a model before the first request.
func (d dialect) at(id string) quirks {
	if d.thinks == nil {
		return 0
	}
	if d.thinks.MatchString(id) {
		return noTemperature | developerRole
	}
	return noEffort
}

// refusals lists the words with which servers reject a field, and what to do without it.
var refusals = []struct {
	words []string // one of them must occur
	quirk quirks
}{
	{[]string{"max_tokens", "max_completion_tokens"}, otherMaxTokens},
	{[]string{"temperature"}, noTemperature},
	{[]string{"parallel_tool_calls"}, noParallel},
	{[]string{"stream_options"}, noStreamOptions},
	{[]string{"reasoning_content", "reasoning_details"}, noEcho},
	{[]string{"reasoning_effort", "thinking", "reasoning.effort"}, noEffort},
	{[]string{"developer"}, systemRole},
	{[]string{"no endpoints found"}, noRouting},
}

// refusing are words with which a server rejects a field altogether, not just its value.
var refusing = []string{
	"unsupported", "not support", "unknown", "unrecognized", "unexpected", "extra inputs", "extra_forbidden",
	"not permitted", "not allowed", "no endpoints found", "instead",
}

// drop returns what to leave out after a rejection, or 0 if no field was the reason.
func drop(status int, f failure, sent quirks) quirks {
	if status != 400 && status != 404 && status != 422 {
		return 0
	}
	text := strings.ToLower(f.param + " " + f.kind + " " + f.code + " " + f.words)
	any := func(words []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	if !any(refusing) {
		return 0
	}
	for _, r := range refusals {
		if sent&r.quirk != 0 && any(r.words) {
			return r.quirk
		}
	}
	return 0
}
