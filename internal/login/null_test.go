package login_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/login"
	"github.com/parley-server/parley/internal/vault"
)

// TestNull: a service or authorization server that answers with null is an error of the login.
func TestNull(t *testing.T) {
	t.Parallel()
	for name, null := range map[string]string{
		"the service's metadata": "protected-resource", "the server's metadata": "authorization-server", "a registration": "/register",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var url string
			at := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, null) {
					out.Header().Set("Content-Type", "application/json")
					if null == "/register" {
						out.WriteHeader(http.StatusCreated)
					}
					fmt.Fprint(out, "null")
					return
				}
				switch {
				case strings.Contains(r.URL.Path, "protected-resource"):
					out.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(out, `{"resource":"%s/mcp","authorization_servers":["%s"]}`, url, url)
				case strings.Contains(r.URL.Path, "authorization-server"):
					out.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(out, `{"issuer":"%s","authorization_endpoint":"%s/authorize","token_endpoint":"%s/token","registration_endpoint":"%s/register","response_types_supported":["code"],"code_challenge_methods_supported":["S256"]}`, url, url, url, url)
				default:
					out.WriteHeader(http.StatusUnauthorized)
				}
			}))
			t.Cleanup(at.Close)
			url = at.URL
			l, err := w.all.At(login.Place{Principal: ana, Scope: vault.Scope{App: "desk"}}, login.Server{Name: "crm", URL: url + "/mcp"})
			if err != nil {
				t.Fatal(err)
			}
			if link, err := l.Needed(t.Context(), "find"); err == nil {
				t.Errorf("the link is %q", link)
			}
		})
	}
}
