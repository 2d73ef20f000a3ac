package scripted_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/scripted"
	"github.com/parley-server/parley/internal/seam"
)

// TestScriptReadsResults: a rule reads a tool's result and calls the next tool with lists and
// objects from it. Fields that it did not find are left out.
func TestScriptReadsResults(t *testing.T) {
	t.Parallel()
	m, err := scripted.New("scripted/test", []byte(`
agents:
  a:
    - when: result "look" .Results
      say: '{{ json (finds "id=([a-z]+)" (section "found" (result "look" .Results))) }} {{ refused "ask" .Results }} {{ join "+" (tail 2 (add (list "x" "y") "z")) }} {{ upto 2 "abc" }}'
      call:
        - tool: act
          input:
            target: {ids: ['{{ nth 0 (finds "id=([a-z]+)" (result "look" .Results)) }}', '{{ nth 7 (finds "id=([a-z]+)" (result "look" .Results)) }}'], n: 3}
    - when: not (called "look" .Results)
      say: nothing was looked up
`), scripted.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(messages ...parley.Message) *seam.Reply {
		t.Helper()
		for d, err := range m.Stream(t.Context(), seam.Request{Model: "scripted/test", Agent: "a", Messages: messages, Tools: []parley.ToolDecl{{Name: "act"}}, MaxTokens: 100}) {
			if err != nil {
				t.Fatal(err)
			}
			if d.Reply != nil {
				return d.Reply
			}
		}
		t.Fatal("no reply")
		return nil
	}
	user := parley.Text(parley.RoleUser, "go")
	if got := parley.PartsText(ask(user).Parts); got != "nothing was looked up" {
		t.Errorf("got %q", got)
	}
	reply := ask(user,
		parley.Message{Role: parley.RoleAssistant, Parts: []parley.Part{
			{Type: parley.PartToolCall, Call: "1", Name: "look", Input: json.RawMessage(`{}`)}, {Type: parley.PartToolCall, Call: "2", Name: "ask", Input: json.RawMessage(`{}`)},
		}},
		parley.Message{Role: parley.RoleTool, Parts: []parley.Part{
			{Type: parley.PartToolResult, Call: "1", Name: "look", Text: "id=no\nfound\nid=one\nid=two\n\nid=three"}, {Type: parley.PartToolResult, Call: "2", Name: "ask", Text: "Denied: no", IsError: true},
		}},
	)
	if got, want := parley.PartsText(reply.Parts), `["one","two"] Denied: no y+z ab`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var input any
	for _, p := range reply.Parts {
		if p.Type == parley.PartToolCall {
			if err := json.Unmarshal(p.Input, &input); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(map[string]any{"target": map[string]any{"ids": []any{"no"}, "n": 3.0}}, input); diff != "" {
		t.Errorf("the call (-want +got):\n%s", diff)
	}
	if _, err := scripted.New("x", []byte("agents: {a: [{call: [{tool: t, input: {deep: {list: ['{{ nosuch }}']}}}]}]}"), scripted.Options{}); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("a mistake deep in an input: %v", err)
	}
}

// TestRestoredHistory: what a CLI's conversation is told of earlier turns is history, and what the user says
// after it is the question, then and in later turns. A user's own words are the question, whatever they look like.
func TestRestoredHistory(t *testing.T) {
	t.Parallel()
	m, err := scripted.New("scripted/test", []byte(`
agents:
  a:
    - say: '{{ .Question }}|{{ range .History }}{{ .Question }}={{ .Answer }};{{ end }}|{{ len .Steers }}'
`), scripted.Options{})
	if err != nil {
		t.Fatal(err)
	}
	user := func(texts ...string) (m parley.Message) {
		m.Role = parley.RoleUser
		for _, text := range texts {
			m.Parts = append(m.Parts, parley.Part{Type: parley.PartText, Text: text})
		}
		return m
	}
	const about = "[about this turn]\nnow: Friday, 2026-11-27 10:00 (UTC)"
	const told = "<restored-history>\nThis conversation began earlier. Do not repeat what was done. What was said and done so far:\n" +
		"\n[user]\none\n[tool calls of this turn and what they returned, shortened]\n- look {}: x\n[you]\nthe first\n\n[user]\ntwo\n[you]\nthe second\n</restored-history>"
	const back = "[The user went back to an earlier point of this conversation.]"
	for want, messages := range map[string][]parley.Message{
		"three|one=the first;two=the second;|0":                   {user(told, "three", about)},
		"three|one=the first;two=the second;|0 ":                  {user(told, back, "three", about)},
		"four|one=the first;two=the second;three=the third;|0":    {user(told, "three", about), parley.Text(parley.RoleAssistant, "the third"), user("four", about)},
		"four|three=the third;|0":                                 {user("three", about), parley.Text(parley.RoleAssistant, "the third"), user(back, "four", about)},
		"five||0":                                                 {user("[Request interrupted by user]", "five", about)},
		back + "||0":                                              {user(back, about)},
		"<restored-history>\nThis conversation began earlier.||0": {user("<restored-history>\nThis conversation began earlier.", about)},
	} {
		for d, err := range m.Stream(t.Context(), seam.Request{Model: "scripted/test", Agent: "a", Messages: messages, MaxTokens: 100}) {
			if err != nil {
				t.Fatal(err)
			}
			if d.Reply != nil && parley.PartsText(d.Reply.Parts) != strings.TrimSuffix(want, " ") {
				t.Errorf("got %q, want %q", parley.PartsText(d.Reply.Parts), want)
			}
		}
	}
}
