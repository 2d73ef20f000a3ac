package httpcall

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Auth authenticates calls. At most one of its methods is set.
type Auth struct {
	Bearer Secret
	Basic  Basic
	Header Pair
	Query  Pair
	// PlainHTTP allows callers' credentials to leave the machine over plain http, where
	// everybody on the network path can read them.
	PlainHTTP bool
}

// Secret is a secret of the operator (Value), or the name of a caller's credential (Credential).
type Secret struct{ Value, Credential string }

// Basic is a user name and password.
type Basic struct {
	User     string
	Password Secret
}

// Pair is a header or a query parameter.
type Pair struct {
	Name  string
	Value Secret
}

func (a Auth) all() []Secret {
	return []Secret{a.Bearer, a.Basic.Password, a.Header.Value, a.Query.Value}
}

// Check returns what is wrong with the secrets, without revealing them.
func (a Auth) Check() error {
	for _, s := range []Secret{a.Bearer, a.Header.Value} {
		if strings.ContainsFunc(s.Value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return errors.New("contains a character that is not allowed in a header, such as a line break")
		}
	}
	return nil
}

// Secrets returns the operator's secrets, which must never appear anywhere.
func (a Auth) Secrets() (list []string) {
	for _, s := range a.all() {
		if s.Value != "" {
			list = append(list, s.Value)
		}
	}
	if p := a.Basic.Password.Value; p != "" {
		list = append(list, base64.StdEncoding.EncodeToString([]byte(a.Basic.User+":"+p)))
	}
	return list
}

// Needs returns declarations of the callers' credentials that calls to a URL need. It returns
// an error if callers' credentials must not be sent there.
func (a Auth) Needs(to *url.URL) (list []parley.CredentialDecl, err error) {
	for _, s := range a.all() {
		if s.Credential == "" {
			continue
		}
		if to.Scheme != "https" && !a.PlainHTTP && !onThisMachine(to.Hostname()) {
			return nil, fmt.Errorf("sends the credential %s to %s over http, where everybody on the network path can read it; write https, or plain_http: true under auth if the network can be trusted", s.Credential, to.Hostname())
		}
		list = append(list, parley.CredentialDecl{Name: s.Credential, Hosts: []string{to.Hostname()}})
	}
	return list, nil
}

// onThisMachine reports whether a host name always means this machine.
func onThisMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

// Apply adds the authentication to a request. If it returns an error, the request must not be
// sent.
func (a Auth) Apply(req *http.Request, r seam.Run) error {
	get := func(s Secret) (string, error) {
		if s.Credential == "" {
			return s.Value, nil
		}
		return r.Credential(s.Credential, req.URL.Hostname())
	}
	has := func(s Secret) bool { return s != Secret{} }
	switch {
	case has(a.Bearer):
		v, err := get(a.Bearer)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+v)
	case a.Basic.User != "":
		v, err := get(a.Basic.Password)
		if err != nil {
			return err
		}
		req.SetBasicAuth(a.Basic.User, v)
	case a.Header.Name != "":
		v, err := get(a.Header.Value)
		if err != nil {
			return err
		}
		req.Header.Set(a.Header.Name, v)
	case a.Query.Name != "":
		v, err := get(a.Query.Value)
		if err != nil {
			return err
		}
		pair := escape(a.Query.Name) + "=" + escape(v)
		req.URL.RawQuery = strings.Join(slices.DeleteFunc([]string{req.URL.RawQuery, pair}, func(s string) bool { return s == "" }), "&")
	}
	return nil
}

// escape escapes a text for a query. It writes a space as %20, because some servers do not read
// a plus as a space.
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
