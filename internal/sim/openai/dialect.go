package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// Dialect is the kind of server that is simulated.
type Dialect string

// The dialects.
const (
	OpenAI     Dialect = "openai"
	OpenRouter Dialect = "openrouter"
	Ollama     Dialect = "ollama"
	VLLM       Dialect = "vllm"
	LlamaCpp   Dialect = "llamacpp"
	Gemini     Dialect = "gemini"
	// Odd combines unusual habits: calls without index and id, with an object for arguments;
	// reasoning under both names; usage in every frame; no end marker except the end of the
	// stream; CR LF line ends, and no space after colons.
	Odd Dialect = "odd"
)

type obj = map[string]any

// refusal is an error in a server's words.
type refusal struct {
	status int
	words  string
	kind   string
	param  string
	code   string
}

// Error returns the message.
func (r *refusal) Error() string { return r.words }

type dialect struct {
	prefix   string
	owner    string
	openList bool // the list of models is public
	badKey   refusal
	noModel  func(id string) refusal
	shape    func(refusal) any // shape of an error body, also in a stream

	strict    bool   // unknown fields are rejected
	reasoning string // the field for reasoning; Odd uses both
	cached    bool   // reports cached tokens
	unasked   bool   // reports the usage without being asked
	stops     bool   // finish_reason is "stop" even with calls
}

var dialects = map[Dialect]dialect{
	OpenAI: {
		prefix: "/v1", owner: "openai", strict: true, shape: words, cached: true,
		badKey: refusal{401, "Incorrect API key provided: nope. You can find your API key at https://platform.openai.com/account/api-keys.", "invalid_request_error", "", "invalid_api_key"},
		noModel: func(id string) refusal {
			return refusal{404, fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", id), "invalid_request_error", "", "model_not_found"}
		},
	},
	OpenRouter: {
		prefix: "/api/v1", shape: routed, openList: true, reasoning: "reasoning", cached: true, unasked: true,
		badKey:  refusal{status: 401, words: "No auth credentials found"},
		noModel: func(id string) refusal { return refusal{status: 404, words: "No endpoints found for " + id + "."} },
	},
	Ollama: {
		prefix: "/v1", owner: "library", shape: words, reasoning: "reasoning",
		badKey: refusal{status: 401, words: "unauthorized", kind: "api_error"},
		noModel: func(id string) refusal {
			return refusal{status: 404, words: fmt.Sprintf("model '%s' not found", id), kind: "api_error"}
		},
	},
	VLLM: {
		prefix: "/v1", owner: "vllm", shape: numbered, reasoning: "reasoning",
		badKey: refusal{status: 401, words: "Unauthorized", kind: "AuthenticationError"},
		noModel: func(id string) refusal {
			return refusal{status: 404, words: fmt.Sprintf("The model `%s` does not exist.", id), kind: "NotFoundError"}
		},
	},
	LlamaCpp: {
		prefix: "/v1", owner: "llamacpp", shape: numbered, openList: true, reasoning: "reasoning_content",
		badKey:  refusal{status: 401, words: "Invalid API Key", kind: "authentication_error"},
		noModel: func(id string) refusal { return refusal{status: 404, words: "File Not Found", kind: "not_found_error"} },
	},
	Gemini: {
		prefix: "/v1beta/openai", owner: "google", strict: true, shape: listed, unasked: true, stops: true,
		badKey: refusal{status: 400, words: "API key not valid. Please pass a valid API key.", kind: "INVALID_ARGUMENT", code: "API_KEY_INVALID"},
		noModel: func(id string) refusal {
			return refusal{status: 404, words: fmt.Sprintf("models/%s is not found for API version v1main, or is not supported for generateContent.", id), kind: "NOT_FOUND"}
		},
	},
	Odd: {
		prefix: "/v1", owner: "nobody", shape: detailed, reasoning: "both", unasked: true, stops: true,
		badKey:  refusal{status: 401, words: "Not authenticated"},
		noModel: func(id string) refusal { return refusal{status: 404, words: "no model " + id} },
	},
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func words(r refusal) any {
	return obj{"error": obj{"message": r.words, "type": r.kind, "param": orNull(r.param), "code": orNull(r.code)}}
}

func routed(r refusal) any {
	e := obj{"code": r.status, "message": r.words}
	if r.code != "" {
		e["metadata"] = obj{"error_type": r.code}
	}
	return obj{"error": e}
}

func numbered(r refusal) any {
	return obj{"error": obj{"message": r.words, "type": r.kind, "param": orNull(r.param), "code": r.status}}
}

func listed(r refusal) any {
	status := r.kind
	switch r.status {
	case 400:
		status = "INVALID_ARGUMENT"
	case 403:
		status = "PERMISSION_DENIED"
	case 404:
		status = "NOT_FOUND"
	case 429:
		status = "RESOURCE_EXHAUSTED"
	case 500, 503:
		status = "UNAVAILABLE"
	}
	e := obj{"code": r.status, "message": r.words, "status": status}
	if r.code != "" {
		e["details"] = []obj{{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": r.code, "domain": "googleapis.com"}}
	}
	return []obj{{"error": e}}
}

// detailed is the error format of servers built on FastAPI.
func detailed(r refusal) any {
	if r.status == 400 && r.code == "context_length_exceeded" {
		return obj{"detail": "This model's maximum context length is exceeded: " + r.words}
	}
	return obj{"detail": r.words, "error": obj{"message": r.words, "code": strconv.Itoa(r.status)}}
}

// marshal writes JSON without escaping HTML characters.
func marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // our own maps
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
