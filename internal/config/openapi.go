package config

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/parley-server/parley"
)

// apiFile is an API whose operations are tools.
type apiFile struct {
	File       string          `yaml:"file"`         // its OpenAPI description, from the app's folder
	URL        string          `yaml:"url,ref"`      // or where that is fetched at the start
	BaseURL    string          `yaml:"base_url,ref"` // where calls go; default: the description's server, if its host is that of url or one of hosts
	Hosts      []string        `yaml:"hosts"`        // hosts that the description may name; default: that of url
	Private    []string        `yaml:"private"`      // hosts, addresses and prefixes that need not be public; default: none
	Auth       toolAuthFile    `yaml:"auth"`         // how calls authenticate; default: they do not
	Timeout    parley.Duration `yaml:"timeout"`      // of a call whose operation has no timeout; default 60s
	Operations []operationFile `yaml:"operations"`   // those that become tools
}

type operationFile struct {
	Operation   string          `yaml:"operation"`   // its operationId, or METHOD /path
	Name        string          `yaml:"name"`        // of the tool; default: made of the operationId
	Description string          `yaml:"description"` // for the model; default: the description's
	Effect      parley.Effect   `yaml:"effect"`      // default: read for GET and HEAD, else write
	Fields      some[string]    `yaml:"fields"`      // of an answer, such as "items[].name, total"; default: all
	KeyHeader   string          `yaml:"key_header"`  // gets the call's id, by which the API knows a call again; default: none
	KeyTTL      parley.Duration `yaml:"key_ttl"`     // of an idempotent operation: how long it does
	Subject     string          `yaml:"subject"`     // what a call is about, such as "{owner}/{repo}"; default: its input
	Timeout     parley.Duration `yaml:"timeout"`     // default: the API's
	Web         bool            `yaml:"web"`         // its results hold what strangers wrote; default false
	Outward     bool            `yaml:"outward"`     // calls tell somebody outside something, see policy.outward_after_web; default false
}

// short is the key that an operation has if it is written as text.
func (operationFile) short() string { return "operation" }

// API is an API of which an OpenAPI description is to be had.
type API struct {
	File        string // empty: it is fetched from URL
	Description []byte // of a file; nil: it could not be read, which is a mistake of the app
	URL         string
	BaseURL     string
	Hosts       []string
	Private     []string
	Auth        ToolAuth
	Operations  []APIOperation
}

// APIOperation is one of its operations. Empty values are the description's.
type APIOperation struct {
	Operation   string
	Name        string
	Description string
	Effect      parley.Effect
	Fields      []string
	KeyHeader   string
	KeyTTL      parley.Duration
	Subject     string
	Timeout     parley.Duration
	Web         bool
	Outward     bool
}

// apis reads tools.openapi.
func (a *App) apis(files some[apiFile]) {
	for i, f := range files {
		at := files.at(a.d, "tools.openapi", i)
		s := &API{File: f.File, URL: f.URL, BaseURL: f.BaseURL, Hosts: f.Hosts, Private: f.Private}
		switch {
		case f.File == "" && f.URL == "":
			a.d.lacks(at, "file", "has no description; name a file with it, or its url")
		case f.File != "" && f.URL != "":
			a.d.at(at+".url", "is a second description; leave file or url out")
		case f.File != "":
			raw, err := readFile(a.Files, f.File, parley.MaxDescription)
			if err != nil {
				a.d.at(at+".file", "%s", err)
			}
			s.Description = raw // not nil, even if there is nothing in it
		}
		s.Auth = a.toolAuth(at+".auth", f.Auth)
		a.timeout(at+".timeout", f.Timeout)
		for n, op := range f.Operations {
			s.Operations = append(s.Operations, a.operation(fmt.Sprintf("%s.operations[%d]", at, n), op, f.Timeout))
		}
		a.Toolsets = append(a.Toolsets, Toolset{Kind: "openapi", At: at, API: s})
	}
}

func (a *App) operation(at string, f operationFile, timeout parley.Duration) APIOperation {
	if f.Operation == "" {
		a.d.lacks(at, "operation", "names no operation; write its operationId, or METHOD /path")
	}
	if f.Name != "" && !toolName.MatchString(f.Name) {
		a.d.at(at+".name", "%q cannot be a tool's name; use letters, digits, _ and -, at most 64", f.Name)
	}
	if f.Effect != "" {
		a.choice(at+".effect", string(f.Effect), string(parley.EffectRead), string(parley.EffectIdempotent), string(parley.EffectWrite))
	}
	a.timeout(at+".timeout", f.Timeout)
	a.keyTTL(at, cmp.Or(f.Effect, "not"), f.KeyTTL)
	if f.KeyHeader != "" && !headerName(f.KeyHeader) {
		a.d.at(at+".key_header", "%q is not a valid header name", f.KeyHeader)
	}
	return APIOperation{
		Operation: f.Operation, Name: f.Name, Description: strings.TrimSpace(f.Description), Effect: f.Effect, Fields: f.Fields,
		KeyHeader: f.KeyHeader, KeyTTL: f.KeyTTL, Subject: f.Subject, Timeout: cmp.Or(f.Timeout, timeout),
		Web: f.Web, Outward: f.Outward,
	}
}
