package config

import (
	"slices"
	"strings"

	"github.com/parley-server/parley"
)

// restFile is a REST API that skills describe.
type restFile struct {
	BaseURLs    []string        `yaml:"base_urls"`        // where calls may go; the first is the default, and a message may name another
	BaseURLEnv  string          `yaml:"base_url_env"`     // variable of the server with a base URL that goes before these; default: none
	IdentityURL string          `yaml:"identity_url,ref"` // where the API says whose token it is, see docs/leads.md; default: tokens are those of the server's own issuers
	Private     []string        `yaml:"private"`          // hosts, addresses and prefixes that may be in private networks; default: none
	PlainHTTP   bool            `yaml:"plain_http"`       // users' tokens may be sent over http to other machines; default false
	OrgHeader   string          `yaml:"org_header"`       // header for the user's organisation; default X-Org-Id
	Writes      []string        `yaml:"writes"`           // requests that change something although they are a GET, such as GET /api/leads/*/merge; default: none
	Idempotent  []string        `yaml:"idempotent"`       // requests that the API makes once for an Idempotency-Key, such as POST /api/leads; default: none
	KeyTTL      parley.Duration `yaml:"key_ttl"`          // how long it recognises a key; needed with idempotent
	Timeout     parley.Duration `yaml:"timeout"`          // of a call; default 60s
}

// REST is a REST API that skills describe.
type REST struct {
	BaseURLs    []string
	IdentityURL string
	Private     []string
	PlainHTTP   bool
	OrgHeader   string
	Writes      []string
	Idempotent  []string
	KeyTTL      parley.Duration
	Timeout     parley.Duration
}

// rest reads tools.rest.
func (a *App) rest(s Settings, f *restFile) {
	if f == nil {
		return
	}
	const at = "tools.rest"
	a.timeout(at+".timeout", f.Timeout)
	if f.KeyTTL < 0 {
		a.d.at(at+".key_ttl", "cannot be negative")
	}
	own := s.App[a.Name]
	identity := orString(own.IdentityURL, f.IdentityURL)
	if _, same := s.Auth.Issuers[a.Name]; same && identity != "" {
		a.d.at(at+".identity_url", "identifies users as %s:ID, and so does auth.issuers.%s in parley.yaml; give the issuer another name, or two people may be one user", a.Name, a.Name)
	}
	bases := slices.Clone(f.BaseURLs)
	if own.URL != "" {
		bases = slices.Insert(bases, 0, own.URL)
	}
	if f.BaseURLEnv != "" {
		if v, ok := s.env(f.BaseURLEnv); ok && strings.TrimSpace(v) != "" {
			bases = slices.Insert(bases, 0, strings.TrimSpace(v))
		}
	}
	a.Toolsets = append(a.Toolsets, Toolset{Kind: "rest", At: at, REST: &REST{
		BaseURLs: bases, IdentityURL: identity, Private: slices.Concat(f.Private, own.Private), PlainHTTP: f.PlainHTTP, OrgHeader: f.OrgHeader,
		Writes: f.Writes, Idempotent: f.Idempotent, KeyTTL: f.KeyTTL, Timeout: f.Timeout,
	}})
}

// modelOf is the model that a variable of the server names, if its provider is set up; else "".
func (s Settings) modelOf(variable string) string {
	v, _ := s.env(variable)
	if v = strings.TrimSpace(v); v == "" {
		return ""
	}
	provider, _, named := strings.Cut(v, "/")
	if !named {
		provider, v = "anthropic", "anthropic/"+v
	}
	if _, ok := s.Models.Providers[provider]; !ok {
		return ""
	}
	return v
}
