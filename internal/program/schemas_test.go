//go:build unix

package program_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The keywords of a schema that providers document for a function's parameters. Gemini has
// additionalProperties since it takes JSON Schema. Hosts that use its older form remove that
// keyword, as Google's own client does.
var (
	geminiWords = strings.Fields("type format title description nullable enum minItems maxItems properties required minProperties maxProperties " +
		"minLength maxLength pattern anyOf propertyOrdering default items minimum maximum additionalProperties")
	strictWords = strings.Fields("type description title enum const anyOf properties required additionalProperties items pattern format minimum maximum " +
		"exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems $ref $defs")
)

// freeForm lists parameters that are objects with any properties. OpenAI's strict mode does not
// take them, because it needs a name for each property.
var freeForm = []string{"ha_agent.start_session/preferences", "chaos.start_session/preferences", "ha_call_service/data"}

// TestSchemas_are_portable: a host passes the schema of each tool to its model, whichever
// provider that is from. One schema that the provider rejects makes all tools unusable.
func TestSchemas_are_portable(t *testing.T) {
	t.Parallel()
	house, _ := atHome(t, "", "")
	seen := 0
	for app, p := range map[string]*place{"home": house, "chaos": newPlace(t, "PARLEY_ENABLED=chaos")} {
		s := p.serve()
		c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
			&mcp.StreamableClientTransport{Endpoint: s.url + "/apps/" + app + "/mcp", MaxRetries: -1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		for _, tool := range list.Tools {
			seen++
			raw, err := json.Marshal(tool.InputSchema)
			if err != nil {
				t.Fatal(err)
			}
			var schema map[string]any
			if err := json.Unmarshal(raw, &schema); err != nil {
				t.Fatal(err)
			}
			if schema["type"] != "object" {
				t.Errorf("%s is a %v", tool.Name, schema["type"])
			}
			for _, wrong := range portable(tool.Name, schema, 1) {
				t.Error(wrong)
			}
		}
		s.stop()
	}
	if seen < 25 {
		t.Errorf("only %d tools", seen)
	}
}

// portable lists the parts of a schema that some provider rejects.
func portable(at string, schema map[string]any, depth int) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, at+": "+fmt.Sprintf(format, args...)) }
	for word := range schema {
		if !slices.Contains(geminiWords, word) {
			bad("%q is no word of Gemini's", word)
		}
		// A client that asks for strict mode makes optional parameters required and nullable.
		if !slices.Contains(strictWords, word) && word != "default" && !strings.HasPrefix(word, "minLength") && !strings.HasPrefix(word, "maxLength") {
			bad("%q is no word of OpenAI's strict mode", word)
		}
	}
	if depth > 10 {
		bad("it is nested more deeply than strict mode takes")
	}
	alternatives, _ := schema["anyOf"].([]any)
	kind, typed := schema["type"].(string)
	switch {
	case !typed && len(alternatives) == 0:
		bad("it has no type, or several: %v", schema["type"])
	case kind == "array":
		items, ok := schema["items"].(map[string]any)
		if !ok {
			bad("nothing is said of its items")
		}
		wrong = append(wrong, portable(at+"[]", items, depth+1)...)
	case kind == "object":
		props, _ := schema["properties"].(map[string]any)
		if len(props) == 0 && depth > 1 {
			bad("an object without properties is refused by Gemini")
		}
		if schema["additionalProperties"] != false && !slices.Contains(freeForm, at) {
			bad("strict mode wants additionalProperties to be false: %v", schema["additionalProperties"])
		}
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if props[name.(string)] == nil {
				bad("%v is required and is no property", name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(props)) {
			prop, ok := props[name].(map[string]any)
			if !ok {
				bad("%s is %v", name, props[name])
				continue
			}
			wrong = append(wrong, portable(at+"/"+name, prop, depth+1)...)
		}
	}
	for n, one := range alternatives {
		wrong = append(wrong, portable(fmt.Sprintf("%s|%d", at, n), one.(map[string]any), depth+1)...)
	}
	return wrong
}
