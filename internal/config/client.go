package config

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/parley-server/parley"
)

// clientToolFile is a tool that clients of a session run.
type clientToolFile struct {
	Description string          `yaml:"description"`  // for the model
	Effect      parley.Effect   `yaml:"effect"`       // read, idempotent or write; default write
	Input       json.RawMessage `yaml:"input"`        // JSON Schema of an object, or the name of a file with one; default: no fields
	Output      json.RawMessage `yaml:"output"`       // JSON Schema of the result, in the same way; default: anything
	Subject     string          `yaml:"subject"`      // what a call is about, such as "{place}"; default: its input
	Timeout     parley.Duration `yaml:"timeout"`      // from the claim of a call until the client must report; default 60s
	ClaimWithin parley.Duration `yaml:"claim_within"` // how long a call waits for a client; default policy.answer_within
	KeyTTL      parley.Duration `yaml:"key_ttl"`      // for an idempotent tool: how long the client recognizes a repeated call
	Web         bool            `yaml:"web"`          // its results hold what strangers wrote; default false
	Outward     bool            `yaml:"outward"`      // calls tell somebody outside something, see policy.outward_after_web; default false
}

// maxClaimWithin is longer than anyone would wait for an answer.
const maxClaimWithin = 30 * 24 * time.Hour

// clients reads tools.client.
func (a *App) clients(files map[string]clientToolFile) {
	var tools []parley.ToolDecl
	for _, name := range slices.Sorted(maps.Keys(files)) {
		at, f := "tools.client."+name, files[name]
		if f.ClaimWithin < 0 || time.Duration(f.ClaimWithin) > maxClaimWithin {
			a.d.at(at+".claim_within", "has to be more than 0, and at most %s", maxClaimWithin)
		}
		d := a.serviceTool(at, name, serviceToolFile{
			Description: f.Description, Effect: f.Effect, Input: f.Input, Output: f.Output, Subject: f.Subject, Timeout: f.Timeout, KeyTTL: f.KeyTTL,
			Web: f.Web, Outward: f.Outward,
		}, 0).ToolDecl
		d.Run, d.ClaimWithin = parley.RunClient, f.ClaimWithin
		tools = append(tools, d)
	}
	if tools != nil {
		a.Toolsets = append(a.Toolsets, Toolset{Kind: "client", At: "tools.client", Client: tools})
	}
}

// callerToolsFile sets the properties of the tools that callers offer.
type callerToolsFile struct {
	Effect  parley.Effect   `yaml:"effect"`  // of each tool: read or write; default write
	Timeout parley.Duration `yaml:"timeout"` // from the claim of a call until the caller must report; default 60s
}

// callers reads caller_tools.
func (a *App) callers(f *callerToolsFile) {
	if f == nil {
		return
	}
	if f.Effect != "" {
		a.choice("caller_tools.effect", string(f.Effect), string(parley.EffectRead), string(parley.EffectWrite))
	}
	a.timeout("caller_tools.timeout", f.Timeout)
	a.CallerTools = &parley.CallerTools{Effect: f.Effect, Timeout: f.Timeout}
}
