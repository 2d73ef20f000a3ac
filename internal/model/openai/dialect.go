package openai

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Dialect is how a server speaks chat completions.
type Dialect string

// The dialects. Of a server that is none of these, Plain asks for nothing that
// is not in every one.
const (
	Plain      Dialect = "plain"
	OpenAI     Dialect = "openai"
	OpenRouter Dialect = "openrouter"
	Ollama     Dialect = "ollama"
	VLLM       Dialect = "vllm"
	LlamaCpp   Dialect = "llamacpp"
	Gemini     Dialect = "gemini"
)

// dialect is what of a server's ways has to be known beforehand. How it answers
// need not: the decoder takes all ways from everybody.
type dialect struct {
	title string // for people
	base  string // where it is when nobody says
	hosts []string
	port  string // of a server on a near machine
	keyed bool   // it answers nobody without a key

	maxTokens string // the key that bounds the reply
	effort    string // "reasoning_effort", or "reasoning" for the object of that name
	echo      string // the field for reasoning in history; "as it came": the one it came in
	files     bool   // takes documents
	parallel  bool   // makes several calls at once only when told that it may
	routes    bool   // chooses among providers, some of which ignore what they do not know
	seals     bool   // wants extra_content of calls back, and a placeholder where there is none
	thinks    *regexp.Regexp
	tokenize  bool   // counts tokens
	anyModel  bool   // serves one model, by whatever name
	search    string // the key that has the server search the web, "": it cannot
	pathKey   string
}

const asItCame = "as it came"

// thinkers are OpenAI's models that take an effort and refuse sampling
// parameters; what is wrong about this list is learned from refusals.
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

// detect finds the dialect by the address. A port is taken for a sign only on a
// machine that is near, where these servers are what is usually behind it.
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

// BaseURL is where a server of the dialect is when nobody says.
func BaseURL(d Dialect) string {
	if d == "" {
		d = OpenAI
	}
	return dialects[d].base
}

// Near reports whether an address is of this machine or of a private network.
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

// quirks are what a model was found to refuse.
type quirks uint16

const (
	noTemperature quirks = 1 << iota
	noParallel
	noStreamOptions
	noEffort
	noEcho
	noRouting
	otherMaxTokens // of max_tokens and max_completion_tokens, the one that the dialect does not have
	systemRole     // not developer
	developerRole  // not system
)

// at is what is known of a model before it was asked anything.
func (d dialect) at(id string) quirks {
	if d.thinks == nil {
		return 0
	}
	if d.thinks.MatchString(id) {
		return noTemperature | developerRole
	}
	return noEffort
}

// refusals say by which words a server refuses a key, and what to do without it.
var refusals = []struct {
	words []string // one of them has to be there
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

// refusing are the words of a server that does not want a key at all, other than
// one that does not like its value.
var refusing = []string{
	"unsupported", "not support", "unknown", "unrecognized", "unexpected", "extra inputs", "extra_forbidden",
	"not permitted", "not allowed", "no endpoints found", "instead",
}

// drop finds what to leave out after a refusal; 0 when that is not why.
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
