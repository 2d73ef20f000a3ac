package program_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-server/parley"
)

// TestPathsAreTakenAsTheyAreWritten: no request is redirected to another path, except one for
// a page whose path lacks the final slash. That redirect works below any prefix of a proxy.
func TestPathsAreTakenAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	s := newPlace(t, "PARLEY_SCRIPTED_PACE=0s").serve()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for path, want := range map[string]string{
		"/apps/%2F/mcp": "", "/apps/%2e%2e": "", "/apps/%2E": "", "/apps/a%2Fb": "", "/apps/a%2fb/": "", "/apps/..%2f..%2fetc": "", "/apps//": "",
		"/apps/chaos": "./chaos/", "/apps/chaos?a=%2F": "./chaos/?a=%2F", "/apps/a:b": "./a:b/",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if want != "" {
			if got := resp.Header.Get("Location"); resp.StatusCode != http.StatusTemporaryRedirect || got != want {
				t.Errorf("%s: got %d to %q, want %q", path, resp.StatusCode, got, want)
			}
			continue
		}
		var body struct{ Error parley.ErrorInfo }
		if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if resp.StatusCode != http.StatusNotFound || body.Error.Code != parley.CodeNotFound || !strings.Contains(body.Error.Hint, "/docs") {
			t.Errorf("%s: got %d %+v", path, resp.StatusCode, body.Error)
		}
	}
}
