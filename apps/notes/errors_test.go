package notes_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-server/parley/apps/notes"
)

// TestNotesProcess_errors: every error at the paths of the wire has its message under detail, whoever
// refuses the request; errors elsewhere do not.
func TestNotesProcess_errors(t *testing.T) {
	t.Parallel()
	const key = "a-key-of-ana-0123456789abcdef"
	d := startDemo(t, "mem", "auth: {mode: keys}\nkeys: {ana: {key: "+key+", user: ana}}\n")
	form := "application/x-www-form-urlencoded"
	for name, c := range map[string]struct {
		method, path, key, body string
		status                  int
		detail                  bool
	}{
		"no key":             {"POST", notes.ChatPath, "", "message=hi", 401, true},
		"no key to a stream": {"POST", notes.StreamPath, "", "message=hi", 401, true},
		"another method":     {"GET", notes.ChatPath, key, "", 405, true},
		"a large body":       {"POST", notes.ChatPath, key, "message=" + strings.Repeat("a", 2<<20), 413, true},
		"a parameter twice":  {"GET", notes.HistoryPath + "?session_id=a&session_id=b", key, "", 400, true},
		"no person":          {"POST", notes.ClearPath, key, "session_id=a", 400, true},
		"an account":         {"PUT", notes.AccountPath, key, "", 405, true},
		"no key elsewhere":   {"GET", "/v1/sessions", "", "", 401, false},
		"nothing there":      {"GET", notes.ChatPath + "/x", key, "", 404, true},
		"nothing elsewhere":  {"GET", "/v2", key, "", 404, false},
	} {
		req, err := http.NewRequest(c.method, d.url+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", form)
		if c.key != "" {
			req.Header.Set("Authorization", "Bearer "+c.key)
		}
		resp, err := patient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		var in struct {
			Error  struct{ Message string }
			Detail *string
		}
		if err != nil || json.Unmarshal(body, &in) != nil || resp.StatusCode != c.status || in.Error.Message == "" {
			t.Errorf("%s: %v %d %s", name, err, resp.StatusCode, body)
			continue
		}
		if has := in.Detail != nil && *in.Detail == in.Error.Message; has != c.detail || in.Detail != nil && !has {
			t.Errorf("%s: detail is right: %v, should be %v: %s", name, has, c.detail, body)
		}
	}
}
