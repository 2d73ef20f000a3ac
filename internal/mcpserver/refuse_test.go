package mcpserver_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

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
				Error   struct {
					Code    json.RawMessage
					Message string
				}
			}
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Errorf("%s: %d %q: %v", name, resp.StatusCode, raw, err)
				continue
			}
			if resp.StatusCode != c.status || string(got.Error.Code) != c.code || got.Error.Message == "" ||
				(got.JSONRPC == "2.0") != strings.HasPrefix(c.code, "-") || resp.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %d %s %s", name, resp.StatusCode, resp.Header, raw)
			}
		}
	})
}
