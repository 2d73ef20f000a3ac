package anthropic_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/anthropic"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
)

// TestRequest compares a whole request with a file: the position of each part, the four cache
// breakpoints, and names that the provider accepts.
func TestRequest(t *testing.T) {
	t.Parallel()
	r := seam.Request{
		Agent: "helper", System: "You help.", MaxTokens: 4096, Effort: "medium", ServerTools: []string{"web_search", "web_fetch"},
		Tools: []parley.ToolDecl{
			{Name: "crm.update_meeting", Description: "moves a meeting", InputSchema: json.RawMessage(`{"properties":{"day":{"type":"string"}}}`)},
			{Name: "crm_update_meeting", InputSchema: json.RawMessage(`{"type":"object"}`)},
			{Name: "web_search", Description: "ours"},
		},
		Handoffs: []seam.Handoff{{Agent: "sales/eu", Description: "Knows prices."}},
		Messages: []parley.Message{
			parley.Text(parley.RoleUser, "Hello."), parley.Text(parley.RoleAssistant, "Hello!"),
			parley.Text(parley.RoleUser, "Move it."),
			{Role: parley.RoleAssistant, Parts: []parley.Part{
				{Type: parley.PartThinking, Text: "Hm.", Provider: "anthropic", Signature: json.RawMessage(`{"model":"claude-sonnet-5-5","block":{"type":"thinking","thinking":"Hm.","signature":"c2ln<"}}`)},
				{Type: parley.PartThinking, Text: "Of another model.", Provider: "anthropic", Signature: json.RawMessage(`{"model":"claude-opus-5-5","block":{"type":"thinking","thinking":"Hm.","signature":"b3RoZXI="}}`)},
				{Type: parley.PartThinking, Provider: "anthropic", Signature: json.RawMessage(`{"model":"claude-sonnet-5-5","block":{"type":"redacted_thinking","data":"EmwK"}}`)},
				{Type: parley.PartText, Text: "  \n"},
				{Type: parley.PartToolCall, Call: "01A", ProviderID: "toolu_x", Provider: "anthropic", Name: "crm.update_meeting", Input: json.RawMessage(`{"day":"Fri"}`)},
				{Type: parley.PartToolCall, Call: "01B", ProviderID: "toolu_x", Provider: "anthropic", Name: "crm.update_meeting", Input: json.RawMessage(`["cut"]`)},
				{Type: parley.PartHandoff, Call: "01C", ProviderID: "call_9", Name: "sales/eu", Text: "prices"},
			}},
			{Role: parley.RoleTool, Parts: []parley.Part{
				{Type: parley.PartToolResult, Call: "01A", Text: "moved"},
				{Type: parley.PartToolResult, Call: "01B", Text: "Failed: no object", IsError: true},
				{Type: parley.PartToolResult, Call: "01C"},
			}},
		},
	}
	_, _, bodies, err := play(t, r, events(ends, says("Done.")...))
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(bodies[0], &got); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "request.json")
	raw, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

// TestFilesStandWhereTheyBelong: several files, each in its position.
func TestFilesStandWhereTheyBelong(t *testing.T) {
	t.Parallel()
	files := map[parley.ArtifactID]seam.File{
		"01A": {Name: "a.png", MediaType: "image/png", Body: []byte("picture A")},
		"01B": {Name: "b.pdf", MediaType: "application/pdf; x=1", Body: []byte("paper B")},
		"01C": {Name: "c.md", MediaType: "text/markdown", Body: []byte("text C")},
	}
	r := seam.Request{MaxTokens: 10, Messages: []parley.Message{{Role: parley.RoleUser}}}
	r.Open = func(_ context.Context, id parley.ArtifactID) (seam.File, error) { return files[id], nil }
	for _, id := range []parley.ArtifactID{"01B", "01A", "01C", "01A"} {
		kind := parley.PartFile
		if id == "01A" {
			kind = parley.PartImage
		}
		r.Messages[0].Parts = append(r.Messages[0].Parts, parley.Part{Type: kind, Artifact: id})
	}
	_, _, bodies, err := play(t, r, events(ends, says("Well.")...))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Messages []struct {
			Content []struct {
				Type, Title string
				Source      struct {
					Type, Data string
					MediaType  string `json:"media_type"`
				}
			}
		}
	}
	if err := json.Unmarshal(bodies[0], &got); err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, b := range got.Messages[0].Content {
		blocks = append(blocks, strings.Join([]string{b.Type, b.Title, b.Source.Type, b.Source.MediaType, b.Source.Data}, " "))
	}
	want := []string{
		"document b.pdf base64 application/pdf cGFwZXIgQg==", "image  base64 image/png cGljdHVyZSBB",
		"document c.md text text/plain text C", "image  base64 image/png cGljdHVyZSBB",
	}
	if diff := cmp.Diff(want, blocks); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
}

// TestPrefixIsStable: the cached prefix does not change while a turn and a session grow.
func TestPrefixIsStable(t *testing.T) {
	t.Parallel()
	turn := []parley.Message{
		parley.Text(parley.RoleUser, "One."), parley.Text(parley.RoleAssistant, "1"), parley.Text(parley.RoleUser, "Two."),
		{Role: parley.RoleAssistant, Parts: []parley.Part{{Type: parley.PartToolCall, Call: "01A", Name: "count", Input: json.RawMessage(`{"n":1}`)}}},
		{Role: parley.RoleTool, Parts: []parley.Part{{Type: parley.PartToolResult, Call: "01A", Text: "2"}}},
		{Role: parley.RoleAssistant, Parts: []parley.Part{{Type: parley.PartToolCall, Call: "01B", Name: "count", Input: json.RawMessage(`{"n":2}`)}}},
		{Role: parley.RoleTool, Parts: []parley.Part{{Type: parley.PartToolResult, Call: "01B", Text: "3"}}},
		parley.Text(parley.RoleUser, "Faster."),
	}
	var before string
	for n := 1; n <= len(turn); n++ {
		if turn[n-1].Role == parley.RoleAssistant {
			continue
		}
		r := modeltest.Ask()
		r.Messages = turn[:n]
		_, _, bodies, err := play(t, r, events(ends, says("Well.")...))
		if err != nil {
			t.Fatal(err)
		}
		now := prefix(t, bodies[0])
		if before != "" && !strings.HasPrefix(now, before) {
			t.Errorf("after %d messages the prefix is no longer\n%s\nbut\n%s", n, before, now)
		}
		before = now
		if c := strings.Count(string(bodies[0]), `"cache_control"`); c < 3 || c > 4 {
			t.Errorf("after %d messages there are %d breakpoints", n, c)
		}
	}
}

// prefix returns the text that the provider hashes, without the breakpoints themselves.
func prefix(t *testing.T, body []byte) string {
	t.Helper()
	var b struct {
		Tools, System []map[string]any
		Messages      []struct {
			Role    string
			Content []map[string]any
		}
	}
	if err := json.Unmarshal(body, &b); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	write := func(role string, blocks []map[string]any) {
		for _, x := range blocks {
			delete(x, "cache_control")
			raw, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			out.WriteString(role + string(raw) + "\n")
		}
	}
	write("tool ", b.Tools)
	write("system ", b.System)
	for _, m := range b.Messages {
		write(m.Role+" ", m.Content)
	}
	return out.String()
}

func TestWhatIsNotSent(t *testing.T) {
	t.Parallel()
	open := func(f seam.File) func(context.Context, parley.ArtifactID) (seam.File, error) {
		return func(context.Context, parley.ArtifactID) (seam.File, error) { return f, nil }
	}
	part := func(kind parley.PartType) []parley.Message {
		return []parley.Message{{Role: parley.RoleUser, Parts: []parley.Part{{Type: kind, Artifact: "01A", Name: "x"}}}}
	}
	blind := known("claude-sonnet-5-5")
	blind.Images, blind.Files = false, false
	all := known("claude-sonnet-5-5")
	for name, c := range map[string]struct {
		info seam.ModelInfo
		r    seam.Request
		code parley.Code
		says string
	}{
		"nothing":                            {all, seam.Request{}, parley.CodeInvalid, "nothing to send"},
		"blanks":                             {all, seam.Request{Messages: []parley.Message{parley.Text(parley.RoleUser, " \n")}}, parley.CodeInvalid, "nothing to send"},
		"a picture for a model without eyes": {blind, seam.Request{Messages: part(parley.PartImage), Open: open(seam.File{MediaType: "image/png", Body: []byte("x")})}, parley.CodeInvalid, "does not accept images"},
		"a file for one":                     {blind, seam.Request{Messages: part(parley.PartFile), Open: open(seam.File{MediaType: "application/pdf", Body: []byte("x")})}, parley.CodeInvalid, "does not accept files"},
		"a picture of a strange type":        {all, seam.Request{Messages: part(parley.PartImage), Open: open(seam.File{MediaType: "image/tiff", Body: []byte("x")})}, parley.CodeInvalid, "image/tiff"},
		"a file of a strange type":           {all, seam.Request{Messages: part(parley.PartFile), Open: open(seam.File{MediaType: "application/zip", Body: []byte("x")})}, parley.CodeInvalid, "application/zip"},
		"a text that is none":                {all, seam.Request{Messages: part(parley.PartFile), Open: open(seam.File{MediaType: "text/plain", Body: []byte("\xff")})}, parley.CodeInvalid, "not UTF-8 text"},
		"a picture too large":                {all, seam.Request{Messages: part(parley.PartImage), Open: open(seam.File{MediaType: "image/png", Body: make([]byte, 4<<20)})}, parley.CodeTooLarge, "the image"},
		"a file too large":                   {all, seam.Request{Messages: part(parley.PartFile), Open: open(seam.File{MediaType: "application/pdf", Body: make([]byte, 25<<20)})}, parley.CodeTooLarge, "too large"},
		"files too large together":           {all, seam.Request{Messages: append(part(parley.PartFile), part(parley.PartFile)...), Open: open(seam.File{MediaType: "application/pdf", Body: make([]byte, 13<<20)})}, parley.CodeTooLarge, "too large"},
		"files that nobody opens":            {all, seam.Request{Messages: part(parley.PartImage)}, parley.CodeInvalid, "cannot be read"},
		"a request too large": {
			all,
			seam.Request{Messages: []parley.Message{parley.Text(parley.RoleUser, strings.Repeat("a", 33<<20))}},
			parley.CodeTooLarge, "the request is too large",
		},
		"a tool that it does not run": {all, seam.Request{ServerTools: []string{"code"}, Messages: modeltest.Ask().Messages}, parley.CodeInvalid, `runs no tool "code"`},
		"a schema that is none":       {all, seam.Request{Tools: []parley.ToolDecl{{Name: "a", InputSchema: json.RawMessage(`[]`)}}, Messages: modeltest.Ask().Messages}, parley.CodeInvalid, "the schema of the tool a"},
		"a result of no call": {
			all,
			seam.Request{Messages: []parley.Message{{Role: parley.RoleTool, Parts: []parley.Part{{Type: parley.PartToolResult, Call: "01A", Name: "a", Text: "1"}}}}},
			parley.CodeInvalid, "without its call",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := stream(t, client(t, "http://127.0.0.1:1").Model(c.info), c.r)
			if parley.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) || parley.Info(err).Hint == "" {
				t.Errorf("got %#v, want %s with %q", err, c.code, c.says)
			}
		})
	}
}

func TestNewRefusesNonsense(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]anthropic.Options{
		"no key":              {},
		"a key of two lines":  {Key: "sk-\nant"},
		"no address":          {Key: key, BaseURL: "api.anthropic.com"},
		"a secret address":    {Key: key, BaseURL: "https://a:b@api.anthropic.com"},
		"another way":         {Key: key, BaseURL: "ftp://api.anthropic.com"},
		"an address with key": {Key: key, BaseURL: "https://api.anthropic.com/?key=1"},
	} {
		if _, err := anthropic.New(o); parley.CodeOf(err) != parley.CodeInvalid || parley.Info(err).Hint == "" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestEnvironmentIsNotAsked: environment variables for other programs are ignored. Not
// parallel: the test changes the environment.
func TestEnvironmentIsNotAsked(t *testing.T) {
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("ANTHROPIC_API_KEY", "sk-other")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "other")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Other: yes")
	text, _, _, err := play(t, modeltest.Ask(), events(ends, says("Well.")...))
	if err != nil || text != "Well." {
		t.Errorf("got %q, %v", text, err)
	}
}
