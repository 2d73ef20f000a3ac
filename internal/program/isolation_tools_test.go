package program

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// bearer adds a user's key to each request.
type bearer struct{ key string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.key)
	return http.DefaultTransport.RoundTrip(r)
}

func (k *keyed) mcp(user, path string) *mcp.ClientSession {
	k.t.Helper()
	return host(k.t, &mcp.StreamableClientTransport{Endpoint: k.url + path, MaxRetries: -1, HTTPClient: &http.Client{Transport: bearer{k.keys[user]}}})
}

// toolIDs are the arguments of tools that are ids. A tool with another argument that looks like one
// fails the test.
var toolIDs = map[string]func(o owned) string{
	"session_id":      func(o owned) string { return string(o.session) },
	"continuation_id": func(o owned) string { return string(o.waits) },
	"interaction_id":  func(o owned) string { return string(o.interaction) },
	"entity_id":       nil, // of the house
}

// TestIsolation_by_the_list_of_tools: everybody who is not Ana in her organisation tries every tool
// and resource of MCP with Ana's ids.
func TestIsolation_by_the_list_of_tools(t *testing.T) {
	t.Parallel()
	s, ana, others, refused := notAna(t)
	before := s.state("a", ana)
	for name, who := range others {
		if who.header != nil {
			continue // hosts show a key or a token
		}
		t.Run(name, func(t *testing.T) {
			k := *s.keyed
			k.t = t
			k.tryTools(ana, who.as)
			k.unchanged("a", ana, before)
		})
	}
	for name, who := range refused {
		if who.header != nil {
			continue
		}
		if _, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{
			Endpoint: s.url + "/mcp", MaxRetries: -1, HTTPClient: &http.Client{Transport: bearer{s.keys[who.as]}},
		}, nil); err == nil {
			t.Errorf("%s is let in", name)
		}
	}
}

// tryTools tries every tool and resource with Ana's ids.
func (k *keyed) tryTools(ana owned, as string) {
	t := k.t
	t.Helper()
	s := k.mcp(as, "/mcp")
	tools, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	with := 0
	for _, tool := range tools.Tools {
		schema, err := json.Marshal(tool.InputSchema)
		if err != nil {
			t.Fatal(err)
		}
		var in struct{ Properties map[string]any }
		if err := json.Unmarshal(schema, &in); err != nil {
			t.Fatal(err)
		}
		args := map[string]any{}
		for name := range in.Properties {
			id, known := toolIDs[name]
			switch {
			case id != nil:
				args[name] = id(ana)
			case name == "message":
				args[name] = "mine now"
			case !known && (name == "id" || strings.HasSuffix(name, "_id") || strings.HasSuffix(name, "Id")):
				t.Errorf("%s has the argument %s, and no row in toolIDs says whose it is", tool.Name, name)
			}
		}
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool.Name, Arguments: args})
		if err != nil {
			continue // its schema takes no id, so it was refused
		}
		raw, err := json.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, []byte(marker)) {
			t.Errorf("%s shows what Ana said: %s", tool.Name, raw)
		}
		_, session := args["session_id"]
		_, turn := args["continuation_id"]
		if !session && !turn {
			continue
		}
		with++
		if !bytes.Contains(raw, []byte("not_found")) && !bytes.Contains(raw, []byte("not found")) {
			t.Errorf("%s with Ana's ids: %s", tool.Name, raw)
		}
	}
	if with < 6 {
		t.Errorf("only %d tools take an id: %v", with, tools.Tools)
	}
	list, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "ha_agent.list_sessions"})
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(list)
	res, err := s.ListResources(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	named, _ := json.Marshal(res)
	for _, id := range ana.ids() {
		if bytes.Contains(raw, []byte(id)) || bytes.Contains(named, []byte(id)) {
			t.Errorf("a list names %s of Ana: %s %s", id, raw, named)
		}
	}
	hers, err := k.mcp("a", "/mcp").ListResources(t.Context(), nil)
	if err != nil || len(hers.Resources) == 0 {
		t.Fatalf("Ana's own resources: %+v, %v", hers, err)
	}
	uris := []string{}
	for _, r := range hers.Resources {
		uris = append(uris, r.URI, strings.Replace(r.URI, "/events", "/transcript", 1))
	}
	for _, uri := range append(uris, "parley://artifacts/"+ana.artifact) {
		if got, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s reads %s: %+v", as, uri, got)
		}
	}
}
