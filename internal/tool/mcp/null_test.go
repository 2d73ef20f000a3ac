//go:build unix

package mcp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/mcp"
)

// TestNull: a server that answers with null in place of a tool, a prompt or anything else does not
// end this process. Its other tools can be used.
func TestNull(t *testing.T) {
	t.Parallel()
	const tools = `{"tools":[null,{"name":"write","inputSchema":{"type":"object"}},{"name":"none","inputSchema":null}]}`
	for name, answers := range map[string]map[string]string{
		"in lists": {
			"prompts/list":             `{"prompts":[null,{"name":"say","arguments":[null,{"name":"what"}]}]}`,
			"prompts/get":              `{"messages":[null,{"role":"user","content":{"type":"text","text":"said"}}]}`,
			"resources/list":           `{"resources":[null]}`,
			"resources/templates/list": `{"resourceTemplates":[null]}`,
			"resources/read":           `{"contents":[null]}`,
			"tools/call":               `{"content":[{"type":"text","text":"done"}]}`,
		},
		"as lists": {
			"prompts/list": `{"prompts":null}`, "prompts/get": `{"messages":null}`, "resources/list": `{"resources":null}`,
			"resources/templates/list": `{"resourceTemplates":null}`, "resources/read": `{"contents":null}`, "tools/call": `{"content":null}`,
		},
		"as answers": {
			"prompts/list": `null`, "prompts/get": `null`, "resources/list": `null`, "resources/templates/list": `null`, "resources/read": `null`, "tools/call": `null`,
		},
		"in content": {
			"prompts/list": `{"prompts":[{"name":"say"}]}`, "prompts/get": `{"messages":[{"role":"user","content":null}]}`,
			"resources/list": `{}`, "tools/call": `{"content":[null]}`,
		},
		"in a resource": {
			"prompts/list": `{"prompts":[{"name":"say"}]}`, "prompts/get": `{"messages":[{"role":"user","content":{"type":"resource","resource":null}}]}`,
			"resources/list": `{}`, "tools/call": `{"content":[{"type":"resource","resource":null}]}`,
		},
		"in a question": {
			"prompts/list": `{"prompts":[{"name":"say"}]}`, "prompts/get": `{"resultType":"input_required","inputRequests":{"q":null}}`,
			"resources/list": `{}`, "tools/call": `{"resultType":"input_required","inputRequests":{"q":null}}`,
		},
		"in a form": {
			"prompts/list": `{}`, "resources/list": `{}`,
			"tools/call": `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":null}}}`,
		},
		"in a request for a reply": {
			"prompts/list": `{}`, "resources/list": `{}`,
			"tools/call": `{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":{"messages":[null],"maxTokens":5}}}}`,
		},
	} {
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				at := httptest.NewServer(raw(version, tools, answers))
				t.Cleanup(at.Close)
				set, err := mcp.New(mcp.Options{Name: "test", URL: at.URL, Logger: quiet, Sampling: true})
				if err != nil {
					t.Fatal(err)
				}
				r := over(t, set)
				list, err := set.Tools(t.Context())
				if err != nil || len(list) != 1 && len(list) != 2 {
					t.Fatalf("the tools are %+v, %v", list, err)
				}
				res := r.call("write", in{}, func(r *seam.Run) {
					r.Ask = (&desk{says: func(parley.Interaction) (parley.Answer, error) {
						return parley.Answer{Choice: parley.ChoiceAnswered}, nil
					}}).ask
				})
				if res.Outcome == "" || strings.Contains(res.Output, "crashed") {
					t.Errorf("the call: %+v", res.ToolResult)
				}
				if strings.Contains(answers["prompts/list"], "say") {
					r.commands(1)
					_, _ = set.Expand(t.Context(), "mcp__test__say", "x")
				}
				if list, _, err := set.ResourceServers()[0].Resources(t.Context()); len(list) > 0 {
					t.Errorf("the resources are %+v, %v", list, err)
				}
				if got, _ := r.reads(t.Context(), "test://a"); len(got) > 0 {
					t.Errorf("the resource is %+v", got)
				}
			})
		}
	}
}

// TestNullRequests: a server of the older era that sends a request with null in it, in the middle of
// a call, does not end this process. The call goes on.
func TestNullRequests(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]string{
		"a question":            `"method":"elicitation/create","params":null`,
		"a question of nothing": `"method":"elicitation/create"`,
		"a form":                `"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":null}`,
		"a field":               `"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{"a":null}}}`,
		"a reply":               `"method":"sampling/createMessage","params":null`,
		"a message":             `"method":"sampling/createMessage","params":{"messages":[null],"maxTokens":5}`,
		"content":               `"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":null}],"maxTokens":5}`,
		"some content":          `"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":[null]}],"maxTokens":5}`,
		"preferences":           `"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"a"}}],"modelPreferences":{"hints":[null]},"maxTokens":5}`,
		"tools":                 `"method":"sampling/createMessage","params":{"messages":[],"tools":[null],"maxTokens":5}`,
		"roots":                 `"method":"roots/list","params":null`,
		"ping":                  `"method":"ping","params":null`,
		"progress":              `"method":"notifications/progress","params":null`,
		"a token":               `"method":"notifications/progress","params":{"progressToken":null,"progress":null}`,
		"a log":                 `"method":"notifications/message","params":null`,
		"a change":              `"method":"notifications/tools/list_changed","params":null`,
		"no method":             `"method":null`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := `"id":99,`
			if strings.Contains(request, "notifications/") {
				id = ""
			}
			h := raw("2025-11-25", `{"tools":[{"name":"write","inputSchema":{"type":"object"}}]}`, map[string]string{"prompts/list": `{}`})
			at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				var q struct {
					ID     json.RawMessage `json:"id"`
					Method string          `json:"method"`
				}
				if _ = json.Unmarshal(body, &q); q.Method == "" && q.ID != nil {
					w.WriteHeader(http.StatusAccepted) // the answer to the request
					return
				}
				if q.Method != "tools/call" {
					r.Body = io.NopCloser(bytes.NewReader(body))
					h.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",%s%s}\n\n", id, request)
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"done\"}]}}\n\n", q.ID)
			}))
			t.Cleanup(at.Close)
			set, err := mcp.New(mcp.Options{Name: "test", URL: at.URL, Logger: quiet, Sampling: true})
			if err != nil {
				t.Fatal(err)
			}
			r := over(t, set)
			if res := r.call("write", in{}); res.Output != "done" && res.Outcome != parley.OutcomeUnknown {
				t.Errorf("got %+v", res.ToolResult)
			}
		})
	}
}

// raw is a server with fixed answers.
func raw(version, tools string, answers map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var q struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if r.Method != http.MethodPost || json.Unmarshal(body, &q) != nil {
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		}
		if q.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		const can = `"capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"x","version":"1"}`
		answer := answers[q.Method]
		switch {
		case q.Method == "initialize" && version < "2026":
			answer = `{"protocolVersion":"` + version + `",` + can + `}`
		case q.Method == "server/discover" && version > "2026":
			answer = `{"resultType":"complete","supportedVersions":["` + version + `"],` + can + `}`
		case q.Method == "tools/list":
			answer = tools
		}
		w.Header().Set("Content-Type", "application/json")
		if answer == "" {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, q.ID)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, answer)
	})
}
