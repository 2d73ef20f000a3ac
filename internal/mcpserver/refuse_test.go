package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/mcpserver"
)

// What the transport does not take is refused in the shapes that all else is
// refused in, with the status that the protocol wants.
func TestRefusalsHaveOneShape(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, enginetest.Echo, enginetest.App(), func(o *mcpserver.Options) { o.MaxBody = 4096; o.Fail = api.WriteError })
		for name, c := range map[string]struct {
			body   string
			header []string
			status int
			code   string // of the one shape; or of JSON-RPC
		}{
			"no JSON":      {`{"jsonrpc`, nil, 400, "-32700"},
			"no message":   {`{"hello":1}`, nil, 400, "-32700"},
			"nothing":      {"", nil, 400, "-32700"},
			"too large":    {`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 5000) + `"}`, nil, 413, `"too_large"`},
			"no method":    {`{"jsonrpc":"2.0","id":7,"method":"nosuch","params":{}}`, nil, map[string]int{eras[0]: 400, eras[1]: 404}[era], "-32601"},
			"another type": {hello, []string{"Content-Type", "text/plain"}, 415, `"invalid"`},
			"no stream":    {hello, []string{"Accept", "text/html"}, 400, `"invalid"`},
		} {
			resp := h.post(c.body, append([]string{"MCP-Protocol-Version", era}, c.header...)...)
			raw, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				JSONRPC string
				ID      any
				Error   struct {
					Code    json.RawMessage
					Message string
				}
			}
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Errorf("%s: %d %q: %v", name, resp.StatusCode, raw, err)
				continue
			}
			if strings.Contains(c.body, `"id":7`) != (got.ID == 7.0) {
				t.Errorf("%s: the answer is to message %v", name, got.ID)
			}
			if resp.StatusCode != c.status || string(got.Error.Code) != c.code || got.Error.Message == "" ||
				(got.JSONRPC == "2.0") != strings.HasPrefix(c.code, "-") || resp.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %d %s %s", name, resp.StatusCode, resp.Header, raw)
			}
		}
	})
}

// A body that never comes whole is refused as on every door, and one that says that
// it is too large at once.
func TestBodiesThatDoNotCome(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, enginetest.Echo, enginetest.App(), func(o *mcpserver.Options) { o.MaxBody = 4096; o.Fail = api.WriteError })
		for name, c := range map[string]struct {
			body   io.Reader
			length int64
			status int
			code   parley.Code
		}{
			"half":  {io.MultiReader(strings.NewReader(`{"jsonrpc"`), iotest.ErrReader(parley.Errorf(parley.CodeTimeout, "the body stopped"))), 100, 504, parley.CodeTimeout},
			"large": {iotest.ErrReader(errors.New("its bytes were waited for")), 99_999_999_999_999, 413, parley.CodeTooLarge},
		} {
			r := httptest.NewRequest(http.MethodPost, "/mcp", c.body)
			r.ContentLength = c.length
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			r.Header.Set("MCP-Protocol-Version", era)
			w := httptest.NewRecorder()
			h.app.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, enginetest.User)))
			var got api.Problem
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != c.status || got.Error.Code != c.code {
				t.Errorf("%s: got %d %s", name, w.Code, w.Body)
			}
		}
	})
}

// Parameters of another type are the caller's mistake, and have the code for it.
func TestParametersOfAnotherType(t *testing.T) {
	t.Parallel()
	h := newHouse(t, enginetest.Echo, enginetest.App())
	for _, body := range []string{
		strings.Replace(hello, `"2025-11-25"`, `5`, 1),
		strings.Replace(strings.Replace(hello, `"2025-11-25"`, `5`, 1), `"id":1`, `"id":"a"`, 1),
	} {
		raw, err := io.ReadAll(h.post(body).Body)
		if err != nil || !strings.Contains(string(raw), `"error":{"code":-32602,`) {
			t.Errorf("got %s, %v, want the code -32602", raw, err)
		}
	}
}
