package config

import (
	"strings"

	"github.com/parley-server/parley"
)

// toolAuthFile is how calls of tools authenticate: by one of these methods.
type toolAuthFile struct {
	Bearer secretFile `yaml:"bearer"`
	Basic  basicFile  `yaml:"basic"`
	Header pairFile   `yaml:"header"`
	Query  pairFile   `yaml:"query"`
	// PlainHTTP allows credentials to be sent to other machines over plain http; default false.
	PlainHTTP bool `yaml:"plain_http"`
}

// secretFile is a secret of the operator, or {credential: NAME} for one that comes with the
// user's message.
type secretFile struct {
	Value      string `yaml:"value,ref"`
	Credential string `yaml:"credential"`
}

// short returns the key of a secret that is written as plain text.
func (secretFile) short() string { return "value" }

type basicFile struct {
	User     string     `yaml:"user,ref"`
	Password secretFile `yaml:"password"`
}

type pairFile struct {
	Name  string     `yaml:"name"`
	Value secretFile `yaml:"value"`
}

// ToolAuth is how calls of tools authenticate: by at most one of its methods.
type ToolAuth struct {
	Bearer Secret
	Basic  struct {
		User     string
		Password Secret
	}
	Header, Query struct {
		Name  string
		Value Secret
	}
	PlainHTTP bool // callers' credentials may be sent to other machines over plain http
}

// Secret is a secret of the operator (Value), or the name of a caller's credential (Credential).
type Secret struct{ Value, Credential string }

// toolAuth reads how calls authenticate.
func (a *App) toolAuth(at string, f toolAuthFile) (auth ToolAuth) {
	auth.Bearer, auth.PlainHTTP = a.secret(at+".bearer", f.Bearer), f.PlainHTTP
	auth.Basic.User, auth.Basic.Password = f.Basic.User, a.secret(at+".basic.password", f.Basic.Password)
	auth.Header.Name, auth.Header.Value = f.Header.Name, a.secret(at+".header.value", f.Header.Value)
	auth.Query.Name, auth.Query.Value = f.Query.Name, a.secret(at+".query.value", f.Query.Value)
	var ways []string
	for _, way := range []string{"bearer", "basic", "header", "query"} {
		if _, there := a.d.lines[at+"."+way]; there {
			ways = append(ways, way)
		}
	}
	said := func(at string) bool { // a mistake there, or below it, has already been reported
		_, named := a.d.lines[at+".credential"]
		return named || a.d.spoiled[at] || len(a.d.strange[at]) > 0
	}
	need := func(way, part string, has bool) {
		if _, there := a.d.lines[at+"."+way]; there && !has && !said(at+"."+way+"."+part) {
			a.d.lacks(at+"."+way, part, "has no %s", part)
		}
	}
	need("basic", "user", f.Basic.User != "")
	need("basic", "password", f.Basic.Password != secretFile{})
	need("header", "name", f.Header.Name != "")
	need("header", "value", f.Header.Value != secretFile{})
	need("query", "name", f.Query.Name != "")
	need("query", "value", f.Query.Value != secretFile{})
	if _, there := a.d.lines[at+".bearer"]; there && f.Bearer == (secretFile{}) && !said(at+".bearer") {
		a.d.at(at+".bearer", "is empty")
	}
	if f.Header.Name != "" && !headerName(f.Header.Name) {
		a.d.at(at+".header.name", "%q is not a valid header name", f.Header.Name)
	}
	if len(ways) > 1 {
		a.d.at(at, "has %s; leave all but one of them out", strings.Join(ways, " and "))
	}
	if _, there := a.d.lines[at]; there && len(ways) == 0 && len(a.d.strange[at]) == 0 && !a.d.spoiled[at] {
		a.d.at(at, "must have one of bearer, basic, header, query")
	}
	return auth
}

// secret reads a secret.
func (a *App) secret(at string, f secretFile) Secret {
	a.credentialName(at+".credential", f.Credential)
	if f.Value != "" && f.Credential != "" {
		a.d.at(at, "has a value and a credential; leave one of them out")
	}
	return Secret(f)
}

func (a *App) credentialName(at, name string) {
	if _, there := a.d.lines[at]; there && !parley.CredentialName(name) && !a.d.spoiled[at] {
		a.d.at(at, "%q cannot be the name of a credential; use letters, digits and _, at most 64, and begin with a letter", name)
	}
}

// headerName reports whether s is a valid name for a header.
func headerName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}
