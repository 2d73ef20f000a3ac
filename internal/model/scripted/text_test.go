package scripted_test

import (
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/scripted"
	"github.com/parley-server/parley/internal/seam"
)

const calling = `
templates:
  round: '{{ text "round" . }}'
agents:
  a:
    - when: eq .Question "around"
      say: '{{ text "round" . }}'
    - when: eq .Question "nowhere"
      say: '{{ text "nowhere" . }}'
    - call: [{tool: ask, json: '{"questions": ['}]
`

// TestScriptMistakes: a mistake in a script causes a clear error, and no endless loop.
func TestScriptMistakes(t *testing.T) {
	t.Parallel()
	m, err := scripted.New("scripted/calling", []byte(calling), scripted.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for question, want := range map[string]string{"around": "inside of itself", "nowhere": `no template "nowhere"`, "broken": "no JSON object"} {
		_, err := reply(t, m, seam.Request{Agent: "a", Tools: []parley.ToolDecl{{Name: "ask"}}, Messages: []parley.Message{user(question)}})
		if parley.CodeOf(err) != parley.CodeModel || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", question, err, want)
		}
	}
	for text, want := range map[string]string{
		"agents: {a: [{call: [{tool: t, input: {a: b}, json: '{}'}]}]}": "both input and json",
		"agents: {a: [{by: nobody}]}":                                   `nobody is called "nobody"`,
	} {
		if _, err := scripted.New("x", []byte(text), scripted.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
