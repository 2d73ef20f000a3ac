package gemini_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/gemini"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/gemini"
)

// TestRequest compares whole requests with a file: the position of each part, which signatures
// go back to which model, and valid names and ids.
func TestRequest(t *testing.T) {
	t.Parallel()
	warm := 0.5
	seal := func(s string) json.RawMessage { return json.RawMessage(`{"model":"` + own + `",` + s + `}`) }
	r := seam.Request{
		Agent: "helper", System: "You help.", MaxTokens: 4096, Effort: "medium", Temperature: &warm, ServerTools: []string{"web_search", "web_fetch"},
		Tools: []parley.ToolDecl{
			{Name: "crm.update_meeting", Description: "moves a meeting", InputSchema: json.RawMessage(`{"$schema":"x","properties":{"day":{"type":["string","null"],"pattern":"^[A-Z]"}}}`)},
			{Name: "crm_update_meeting", InputSchema: json.RawMessage(`{"type":"object"}`)},
			{Name: "7th"},
		},
		Handoffs: []seam.Handoff{{Agent: "sales/eu", Description: "Knows prices."}},
		Messages: []parley.Message{
			parley.Text(parley.RoleAssistant, "Hello!"), parley.Text(parley.RoleUser, "Move it."), parley.Text(parley.RoleUser, "Today."),
			{Role: parley.RoleAssistant, Parts: []parley.Part{
				{Type: parley.PartThinking, Text: "Hm <1>.", Provider: "gemini", Signature: seal(`"thoughtSignature":"AAA=","apart":true`)},
				{Type: parley.PartThinking, Text: "Of another model.", Provider: "gemini", Signature: json.RawMessage(`{"model":"gemini-2.5-pro"}`)},
				{Type: parley.PartThinking, Text: "Of another provider.", Provider: "anthropic", Signature: json.RawMessage(`"x"`)},
				{Type: parley.PartText, Text: "  \n"},
				{Type: parley.PartProvider, Name: "executableCode", Provider: "gemini", Signature: seal(`"part":{"executableCode":{"code":"1 < 2"}}`)},
				{Type: parley.PartText, Text: "I do.", Provider: "gemini", Signature: seal(`"thoughtSignature":"BBB="`)},
				{Type: parley.PartToolCall, Call: "01A", ProviderID: "x", Provider: "gemini", Name: "crm.update_meeting", Input: json.RawMessage(`{"b":1.0,"a":12345678901234567890}`), Signature: seal(`"thoughtSignature":"CC-_"`)},
				{Type: parley.PartToolCall, Call: "01B", ProviderID: "x", Provider: "gemini", Name: "crm.update_meeting", Input: json.RawMessage(`["cut"]`)},
				{Type: parley.PartToolCall, Call: "01C", Provider: "gemini", Name: "crm_update_meeting"},
				{Type: parley.PartHandoff, Call: "01D", ProviderID: "call_9", Name: "sales/eu", Text: "prices"},
			}},
			{Role: parley.RoleTool, Parts: []parley.Part{
				{Type: parley.PartToolResult, Call: "01A", Input: json.RawMessage(`{"moved":true}`)},
				{Type: parley.PartToolResult, Call: "01B", Text: "Failed: no object", IsError: true},
				{Type: parley.PartToolResult, Call: "01C", IsError: true},
				{Type: parley.PartToolResult, Call: "01D"},
			}},
			parley.Text(parley.RoleUser, "Faster."),
			{Role: parley.RoleAssistant, Parts: []parley.Part{
				{Type: parley.PartToolCall, Call: "01E", ProviderID: "toolu_1", Provider: "anthropic", Name: "gone", Input: json.RawMessage(`{}`), Signature: json.RawMessage(`"x"`)},
				{Type: parley.PartHandoff, Call: "01F", ProviderID: "h", Provider: "gemini", Name: "sales/eu", Text: "prices", Signature: seal(`"thoughtSignature":"DDD=","args":{"reason":"prices","more":1}`)},
			}},
			{Role: parley.RoleTool, Parts: []parley.Part{{Type: parley.PartToolResult, Call: "01E", Text: "1"}, {Type: parley.PartToolResult, Call: "01F", Text: "2"}}},
			parley.Text(parley.RoleAssistant, "Done."),
		},
	}
	_, _, bodies, err := play(t, r, frames(say("Done."), last("STOP")))
	if err != nil {
		t.Fatal(err)
	}
	// Written unchanged: not a digit of a sealed part may change.
	for _, piece := range []string{`"a":12345678901234567890`, `"b":1.0`, `"CC-_"`} {
		if !strings.Contains(string(bodies[0]), piece) {
			t.Errorf("the request has no %s: %s", piece, bodies[0])
		}
	}
	var got, want any
	if err := json.Unmarshal(bodies[0], &got); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join("testdata", "request.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s\n%s", diff, bodies[0])
	}
}

// TestFilesStandWhereTheyBelong: several files, each in its position.
func TestFilesStandWhereTheyBelong(t *testing.T) {
	t.Parallel()
	files := map[parley.ArtifactID]seam.File{
		"01A": {Name: "a.png", MediaType: "image/png", Body: []byte("picture A")},
		"01B": {Name: "b.pdf", MediaType: "application/pdf; x=1", Body: []byte("paper B")},
		"01C": {Name: "c.md", MediaType: "text/markdown", Body: []byte("text C")},
		"01D": {Name: "d.mp3", MediaType: "audio/mpeg", Body: []byte("song D")},
	}
	r := seam.Request{MaxTokens: 10, Messages: []parley.Message{{Role: parley.RoleUser}}}
	r.Open = func(_ context.Context, id parley.ArtifactID) (seam.File, error) { return files[id], nil }
	for _, id := range []parley.ArtifactID{"01B", "01A", "01C", "01A", "01D"} {
		kind := parley.PartFile
		if id == "01A" {
			kind = parley.PartImage
		}
		r.Messages[0].Parts = append(r.Messages[0].Parts, parley.Part{Type: kind, Artifact: id})
	}
	_, _, bodies, err := play(t, r, frames(say("Well."), last("STOP")))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Contents []struct {
			Parts []struct {
				InlineData struct{ MimeType, Data string }
			}
		}
	}
	if err := json.Unmarshal(bodies[0], &got); err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, p := range got.Contents[0].Parts {
		parts = append(parts, p.InlineData.MimeType+" "+p.InlineData.Data)
	}
	want := []string{"application/pdf cGFwZXIgQg==", "image/png cGljdHVyZSBB", "text/plain dGV4dCBD", "image/png cGljdHVyZSBB", "audio/mpeg c29uZyBE"}
	if diff := cmp.Diff(want, parts); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

// TestPrefixIsStable: the provider caches prefixes by itself, so the prefix must not change
// while a turn grows.
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
	var before []json.RawMessage
	for n := 1; n <= len(turn); n++ {
		if turn[n-1].Role == parley.RoleAssistant {
			continue
		}
		r := modeltest.Ask()
		r.Messages = turn[:n]
		_, _, bodies, err := play(t, r, frames(say("Well."), last("STOP")))
		if err != nil {
			t.Fatal(err)
		}
		var now struct{ Contents []json.RawMessage }
		if err := json.Unmarshal(bodies[0], &now); err != nil {
			t.Fatal(err)
		}
		if len(now.Contents) <= len(before) || !cmp.Equal(before, now.Contents[:len(before)]) {
			if len(before) > 0 {
				t.Errorf("after %d messages the beginning is no longer %s but %s", n, before, now.Contents)
			}
		}
		before = now.Contents
	}
}

func TestWhatIsNotSent(t *testing.T) {
	t.Parallel()
	open := func(f seam.File) func(context.Context, parley.ArtifactID) (seam.File, error) {
		return func(context.Context, parley.ArtifactID) (seam.File, error) { return f, nil }
	}
	part := func(kind parley.PartType) []parley.Message {
		return []parley.Message{{Role: parley.RoleUser, Parts: []parley.Part{{Type: kind, Artifact: "01A", Name: "x"}}}}
	}
	blind := known(own)
	blind.Images, blind.Files = false, false
	all := known(own)
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
		"a picture that nobody can open":     {all, seam.Request{Messages: part(parley.PartImage)}, parley.CodeInvalid, "cannot be read"},
		"a picture of a strange type":        {all, seam.Request{Messages: part(parley.PartImage), Open: open(seam.File{MediaType: "image/gif", Body: []byte("x")})}, parley.CodeInvalid, "image/gif"},
		"a file of a strange type":           {all, seam.Request{Messages: part(parley.PartFile), Open: open(seam.File{MediaType: "application/zip", Body: []byte("x")})}, parley.CodeInvalid, "application/zip"},
		"a text that is none":                {all, seam.Request{Messages: part(parley.PartFile), Open: open(seam.File{MediaType: "text/plain", Body: []byte("\xff")})}, parley.CodeInvalid, "not UTF-8 text"},
		"an empty file":                      {all, seam.Request{Messages: part(parley.PartFile), Open: open(seam.File{MediaType: "text/plain"})}, parley.CodeInvalid, "is empty"},
		"a file too large":                   {all, seam.Request{Messages: part(parley.PartFile), Open: open(seam.File{MediaType: "application/pdf", Body: make([]byte, 16<<20)})}, parley.CodeTooLarge, "20 MB"},
		"texts too large":                    {all, seam.Request{Messages: []parley.Message{parley.Text(parley.RoleUser, strings.Repeat("a", 21<<20))}}, parley.CodeTooLarge, "20 MB"},
		"a tool of nobody's":                 {all, seam.Request{ServerTools: []string{"dream"}, Messages: []parley.Message{parley.Text(parley.RoleUser, "x")}}, parley.CodeInvalid, `no tool "dream"`},
		"a schema that is none":              {all, seam.Request{Tools: []parley.ToolDecl{{Name: "x", InputSchema: json.RawMessage(`[1]`)}}, Messages: []parley.Message{parley.Text(parley.RoleUser, "x")}}, parley.CodeInvalid, "not a JSON object"},
		"a result without its call":          {all, seam.Request{Messages: []parley.Message{parley.Text(parley.RoleUser, "x"), {Role: parley.RoleTool, Parts: []parley.Part{{Type: parley.PartToolResult, Call: "01A", Name: "x"}}}}}, parley.CodeInvalid, "without its call"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, srv := serve(t, sim.Options{})
			_, _, err := stream(t, client(t, srv.URL).Model(c.info), c.r)
			if parley.CodeOf(err) != c.code || !strings.Contains(parley.Info(err).Message, c.says) || parley.Info(err).Hint == "" {
				t.Errorf("got %v, want %s with %q and a hint", err, c.code, c.says)
			}
			if n := s.Counts().Requests; n != 0 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

func TestNewRefusesNonsense(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    gemini.Options
		says string
	}{
		"no key":                  {gemini.Options{Key: " "}, "no key"},
		"a key with a line in it": {gemini.Options{Key: "AIza\nx"}, "a character that cannot be part of a key"},
		"no URL":                  {gemini.Options{Key: key, BaseURL: "generativelanguage.googleapis.com"}, "base URL"},
		"a URL with a key":        {gemini.Options{Key: key, BaseURL: "https://h/?key=" + key}, "base URL"},
		"the other endpoint":      {gemini.Options{Key: key, BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai/"}, "OpenAI-compatible"},
	} {
		_, err := gemini.New(c.o)
		if parley.CodeOf(err) != parley.CodeInvalid || !strings.Contains(parley.Info(err).Message, c.says) || parley.Info(err).Hint == "" || strings.Contains(err.Error(), key) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
