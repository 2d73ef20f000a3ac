package config_test

import (
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/config"
)

// TestMCPEntries: an entry of a file says what is wrong with it.
func TestMCPEntries(t *testing.T) {
	t.Parallel()
	for entry, says := range map[string]string{
		`{"command":"npx","args":["x"],"timeout":500}`:    "",
		`{"type":"http","url":"https://a"}`:               "",
		`{"type":"streamable-http","url":"https://a"}`:    "",
		`{"type":"sse","url":"https://a"}`:                `type "sse"`,
		`{"url":"https://a"}`:                             "no type",
		`{"command":"a","url":"https://a"}`:               "a url and a command",
		`{"type":"http","command":"a","url":"https://a"}`: "a url and a command",
		`{}`:                           "no command",
		`{"type":"http"}`:              "no url",
		`{"command":"a","timeout":-1}`: "timeout",
		`{"type":"http","url":"https://a","headers":{"":1}}`:      "JSON",
		`{"type":"http","url":"https://a","headers":{"a b":"c"}}`: "valid header name",
	} {
		list, err := config.MCPEntries([]byte(`{"mcpServers":{"x":` + entry + `}}`))
		if err == nil {
			err = list["x"].Wrong("x")
		}
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v", entry, err)
		}
	}
	if err := (config.MCPEntry{Command: "a"}).Wrong("a b"); err == nil {
		t.Error("a name with a space is fine")
	}
}
