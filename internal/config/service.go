package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/pattern"
)

// serviceFile is an HTTP service of the app's own.
type serviceFile struct {
	URL     string                     `yaml:"url,ref"`    // where calls are posted to
	Secret  string                     `yaml:"secret,ref"` // whsec_...; signs the calls
	Auth    toolAuthFile               `yaml:"auth"`       // how calls authenticate in addition to the signature; default: by nothing else
	Private []string                   `yaml:"private"`    // hosts, addresses and prefixes that may be in private networks; default: none
	Timeout parley.Duration            `yaml:"timeout"`    // of a call whose tool has no timeout; default 60s
	Tools   map[string]serviceToolFile `yaml:"tools"`      // by name
}

type serviceToolFile struct {
	Description string          `yaml:"description"` // for the model
	Effect      parley.Effect   `yaml:"effect"`      // read, idempotent or write; default write
	Input       json.RawMessage `yaml:"input"`       // JSON Schema of an object, or the name of a file with one; default: no fields
	Output      json.RawMessage `yaml:"output"`      // JSON Schema of the result, in the same way; default: anything
	Subject     string          `yaml:"subject"`     // what a call is about, such as "{customer}"; default: its input
	Timeout     parley.Duration `yaml:"timeout"`     // default: the service's
	KeyTTL      parley.Duration `yaml:"key_ttl"`     // of an idempotent tool: how long the service recognises a repeated call
	Web         bool            `yaml:"web"`         // its results hold what strangers wrote; default false
	Outward     bool            `yaml:"outward"`     // calls tell somebody outside something, see policy.outward_after_web; default false
	Reconcile   bool            `yaml:"reconcile"`   // the service can be asked what became of a call; default false
}

// Service is a service of the app's own.
type Service struct {
	URL, Secret string
	Auth        ToolAuth
	Private     []string
	Tools       []ServiceTool
}

// ServiceTool is one of its tools.
type ServiceTool struct {
	parley.ToolDecl
	Reconcile bool
}

const (
	maxSchema      = 256 << 10
	maxCallTimeout = time.Hour
)

// toolName is the form of name that all providers accept.
var toolName = pattern.New(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// services reads tools.http.
func (a *App) services(files some[serviceFile]) {
	for i, f := range files {
		at := files.at(a.d, "tools.http", i)
		s := &Service{URL: f.URL, Secret: f.Secret, Private: f.Private}
		if f.URL == "" {
			a.d.lacks(at, "url", "has no url; write the address that calls are posted to")
		}
		if f.Secret == "" {
			a.d.lacks(at, "secret", `has no secret that signs calls; make one with: echo "whsec_$(openssl rand -base64 32)"`)
		}
		s.Auth = a.toolAuth(at+".auth", f.Auth)
		if name := strings.ToLower(f.Auth.Header.Name); strings.HasPrefix(name, "webhook-") || name == "idempotency-key" || name == "content-type" {
			a.d.at(at+".auth.header.name", "is a header that Parley itself sets in each call")
		}
		a.timeout(at+".timeout", f.Timeout)
		s.Tools = a.serviceTools(at, f.Tools, f.Timeout)
		a.Toolsets = append(a.Toolsets, Toolset{Kind: "http", At: at, HTTP: s})
	}
}

// serviceTools reads the tools of a service or program.
func (a *App) serviceTools(at string, files map[string]serviceToolFile, timeout parley.Duration) []ServiceTool {
	if len(files) == 0 {
		a.d.lacks(at, "tools", "has no tools; write each with its name, a description and its input")
	}
	var tools []ServiceTool
	for _, name := range slices.Sorted(maps.Keys(files)) {
		tools = append(tools, a.serviceTool(at+".tools."+name, name, files[name], timeout))
	}
	return tools
}

func (a *App) serviceTool(at, name string, f serviceToolFile, timeout parley.Duration) ServiceTool {
	if !toolName.MatchString(name) {
		a.d.at(at, "cannot be a tool's name; use letters, digits, _ and -, at most 64")
	}
	f.Description = strings.TrimSpace(f.Description)
	if f.Description == "" {
		a.d.lacks(at, "description", "has no description; the model chooses tools by it")
	}
	if f.Effect == "" {
		f.Effect = parley.EffectWrite
	}
	a.choice(at+".effect", string(f.Effect), string(parley.EffectRead), string(parley.EffectIdempotent), string(parley.EffectWrite))
	a.timeout(at+".timeout", f.Timeout)
	if f.Timeout == 0 {
		f.Timeout = timeout
	}
	a.keyTTL(at, f.Effect, f.KeyTTL)
	return ServiceTool{parley.ToolDecl{
		Name: name, Description: f.Description, Effect: f.Effect, Subject: f.Subject, Timeout: f.Timeout, KeyTTL: f.KeyTTL, Web: f.Web, Outward: f.Outward,
		InputSchema: a.schema(at+".input", f.Input), OutputSchema: a.schema(at+".output", f.Output),
	}, f.Reconcile}
}

// keyTTL is how long a service knows a call again.
func (a *App) keyTTL(at string, effect parley.Effect, ttl parley.Duration) {
	switch {
	case ttl < 0:
		a.d.at(at+".key_ttl", "cannot be negative")
	case effect == parley.EffectIdempotent && ttl == 0:
		a.d.lacks(at, "key_ttl", "is idempotent and has no key_ttl; say how long the service recognises a repeated call by its Idempotency-Key, such as 24h")
	case effect != parley.EffectIdempotent && ttl > 0:
		a.d.at(at+".key_ttl", "is only for idempotent tools; this one is %s", effect)
	}
}

func (a *App) timeout(at string, d parley.Duration) {
	if d < 0 || time.Duration(d) > maxCallTimeout {
		a.d.at(at, "has to be more than 0, and at most %s", maxCallTimeout)
	}
}

// schema returns a schema that is in the app's file, or in a file that it names.
func (a *App) schema(at string, raw json.RawMessage) json.RawMessage {
	var file string
	if len(raw) == 0 || a.d.spoiled[at] {
		return nil
	}
	if json.Unmarshal(raw, &file) == nil {
		read, err := readFile(a.Files, file, maxSchema)
		if err != nil {
			a.d.at(at, "%s", err)
			return nil
		}
		raw = read
	}
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &kind); err != nil {
		what := "it"
		if file != "" {
			what = file
		}
		a.d.at(at, "%s is not a JSON Schema: %s", what, fmt.Sprint(err))
		return nil
	}
	if kind.Type != "object" {
		a.d.at(at, `must be the schema of an object: {type: object, properties: ...}`)
		return nil
	}
	return raw
}
