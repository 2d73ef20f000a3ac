package httpcall_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/httpcall"
	"github.com/parley-server/parley/internal/seam"
)

// TestAuthWithCredentials: each way takes the caller's secret, for the request's host, and a
// request without it is not let through.
func TestAuthWithCredentials(t *testing.T) {
	t.Parallel()
	is := httpcall.Secret{Credential: "CRM"}
	for name, c := range map[string]struct {
		auth httpcall.Auth
		want string
	}{
		"bearer": {httpcall.Auth{Bearer: is}, "Bearer s3cr t"},
		"basic":  {httpcall.Auth{Basic: httpcall.Basic{User: "u", Password: is}}, "Basic dTpzM2NyIHQ="},
		"header": {httpcall.Auth{Header: httpcall.Pair{Name: "Authorization", Value: is}}, "s3cr t"},
		"query":  {httpcall.Auth{Query: httpcall.Pair{Name: "key", Value: is}}, "?a=b&key=s3cr%20t"},
	} {
		req, err := http.NewRequest(http.MethodGet, "http://crm.example.com:8080/x?a=b", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		there := true
		run := seam.Run{Credential: func(name, host string) (string, error) {
			if name != "CRM" || host != "crm.example.com" {
				t.Errorf("%s: asked for %s to %s", name, name, host)
			}
			if !there {
				return "", parley.Errorf(parley.CodeUnauthenticated, "gone")
			}
			return "s3cr t", nil
		}}
		if err := c.auth.Apply(req, run); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got := req.Header.Get("Authorization")
		if got == "" {
			got = "?" + req.URL.RawQuery
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		there = false
		if err := c.auth.Apply(req, run); parley.CodeOf(err) != parley.CodeUnauthenticated {
			t.Errorf("%s without its credential: %v", name, err)
		}
		needs, err := c.auth.Needs(&url.URL{Scheme: "https", Host: "h:8443"})
		if diff := cmp.Diff([]parley.CredentialDecl{{Name: "CRM", Hosts: []string{"h"}}}, needs); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
		for to, want := range map[string]bool{ // whether it may go there
			"https://crm.example.com": true, "http://crm.example.com": false, "http://10.0.0.1": false, "http://localhost.example.com": false,
			"http://localhost:80": true, "http://127.0.0.1:80": true, "http://[::1]": true, "http://127.1.2.3": true, "http://0.0.0.0": false,
		} {
			u, err := url.Parse(to)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.auth.Needs(u); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "sends the credential CRM to "+u.Hostname()) {
				t.Errorf("%s to %s: %v", name, to, err)
			}
			plain := c.auth
			plain.PlainHTTP = true
			if list, err := plain.Needs(u); err != nil || len(list) != 1 {
				t.Errorf("%s to %s, which the app's file allows: %v", name, to, err)
			}
			if _, err := (httpcall.Auth{Bearer: httpcall.Secret{Value: "the operator's"}}).Needs(u); err != nil {
				t.Errorf("a secret of the operator's own to %s: %v", to, err)
			}
		}
		if s := c.auth.Secrets(); len(s) != 0 {
			t.Errorf("%s: %v", name, s)
		}
	}
}
