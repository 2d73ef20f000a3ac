package gemini_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/gemini"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sse"
)

// own is the model in most tests.
const own = "gemini-3.8-flash"

// replaying is a transport that answers with streams, one after another, and keeps the
// requests.
type replaying struct {
	mu      sync.Mutex
	streams []string
	kind    string // media type; empty: that of a stream
	bodies  [][]byte
}

func (p *replaying) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bodies = append(p.bodies, body)
	s := p.streams[0]
	if len(p.streams) > 1 {
		p.streams = p.streams[1:]
	}
	kind := p.kind
	if kind == "" {
		kind = sse.ContentType
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(s)), Request: r}, nil
}

// stream reads a stream to its end.
func stream(t *testing.T, m seam.Model, r seam.Request) (text string, reply *seam.Reply, err error) {
	t.Helper()
	var b strings.Builder
	for d, e := range m.Stream(t.Context(), r) {
		if e != nil {
			err = e
		}
		b.WriteString(d.Text)
		if d.Reply != nil {
			reply = d.Reply
		}
	}
	return b.String(), reply, err
}

// play sends the call r to a provider that answers with the streams.
func play(t *testing.T, r seam.Request, streams ...string) (text string, reply *seam.Reply, bodies [][]byte, err error) {
	t.Helper()
	p := &replaying{streams: streams}
	c, err := gemini.New(gemini.Options{Key: key, HTTP: &http.Client{Transport: p}})
	if err != nil {
		t.Fatal(err)
	}
	text, reply, err = stream(t, c.Model(known(own)), r)
	return text, reply, p.bodies, err
}

// frames returns a stream of the chunks.
func frames(chunks ...string) string {
	var b strings.Builder
	for _, c := range chunks {
		b.WriteString("data: " + c + "\r\n\r\n")
	}
	return b.String()
}

const counted = `"usageMetadata":{"promptTokenCount":25,"candidatesTokenCount":9,"totalTokenCount":34},"modelVersion":"gemini-3.8-flash"`

// chunk returns a chunk with the parts.
func chunk(parts string) string {
	return `{"candidates":[{"content":{"parts":[` + parts + `],"role":"model"},"index":0}],` + counted + `}`
}

// last returns the chunk that ends an answer.
func last(finish string) string {
	return `{"candidates":[{"finishReason":"` + finish + `","index":0}],` + counted + `}`
}

func say(text string) string { return chunk(`{"text":"` + text + `"}`) }

var used = parley.Usage{InputTokens: 25, OutputTokens: 9}

func sealed(s string) json.RawMessage { return json.RawMessage(s) }

func TestStreams(t *testing.T) {
	t.Parallel()
	text := func(s string) []parley.Part { return []parley.Part{{Type: parley.PartText, Text: s}} }
	for name, c := range map[string]struct {
		stream string
		want   seam.Reply
	}{
		"thoughts, calls side by side, one seal": {file(t, "calls.sse"), seam.Reply{
			Model: "gemini-3.8-flash", StopReason: "tool_use",
			Usage: parley.Usage{InputTokens: 1205, OutputTokens: 168, CacheReadTokens: 4096, ReasoningTokens: 112},
			Parts: []parley.Part{
				{Type: parley.PartThinking, Text: "**Looking at both rooms**\n\nI need two states — 2 calls.", Provider: "gemini", Signature: sealed(`{"model":"gemini-3.8-flash"}`)},
				{Type: parley.PartText, Text: "I look."},
				{
					Type: parley.PartToolCall, ProviderID: "uq3sv4aj", Provider: "gemini", Name: "look_up", Input: json.RawMessage(`{"room": "küche", "id": 12345678901234567890}`),
					Signature: sealed(`{"model":"gemini-3.8-flash","thoughtSignature":"EjQKMgG/+w=="}`),
				},
				{Type: parley.PartToolCall, ProviderID: "k0d8xw1b", Provider: "gemini", Name: "count", Input: json.RawMessage(`{}`)},
			},
		}},
		"a seal in a part of its own": {file(t, "text.sse"), seam.Reply{
			Model: "gemini-3.1-pro-preview", StopReason: "end_turn", Usage: parley.Usage{InputTokens: 12, OutputTokens: 64, ReasoningTokens: 58},
			Parts: []parley.Part{{Type: parley.PartText, Text: "1+1 equals 2.", Provider: "gemini", Signature: sealed(`{"model":"gemini-3.8-flash","thoughtSignature":"EsADCr0DAXLI","apart":true}`)}},
		}},
		"a text with a seal is not joined with others": {frames(say("a"), chunk(`{"text":"b","thoughtSignature":"AA=="}`), say("c"), last("STOP")), seam.Reply{
			Model: own, StopReason: "end_turn", Usage: used, Parts: []parley.Part{
				{Type: parley.PartText, Text: "a"},
				{Type: parley.PartText, Text: "b", Provider: "gemini", Signature: sealed(`{"model":"gemini-3.8-flash","thoughtSignature":"AA=="}`)},
				{Type: parley.PartText, Text: "c"},
			},
		}},
		"a thought with a seal apart, its text left out": {frames(chunk(`{"text":"Hm.","thought":true}`), chunk(`{"thought":true,"thoughtSignature":"AA=="}`), say("So."), last("STOP")), seam.Reply{
			Model: own, StopReason: "end_turn", Usage: used, Parts: []parley.Part{
				{Type: parley.PartThinking, Text: "Hm.", Provider: "gemini", Signature: sealed(`{"model":"gemini-3.8-flash","thoughtSignature":"AA==","apart":true}`)},
				{Type: parley.PartText, Text: "So."},
			},
		}},
		"a seal with nothing to stand on": {frames(chunk(`{"thoughtSignature":"AA=="}`), say("So."), last("STOP")), seam.Reply{
			Model: own, StopReason: "end_turn", Usage: used, Parts: []parley.Part{
				{Type: parley.PartProvider, Name: "thoughtSignature", Provider: "gemini", Signature: sealed(`{"model":"gemini-3.8-flash","part":{"thoughtSignature":"AA=="}}`)},
				{Type: parley.PartText, Text: "So."},
			},
		}},
		"calls without ids, and one without arguments": {frames(chunk(`{"functionCall":{"name":"count","args":{"n":1}}},{"functionCall":{"name":"count"}}`), last("STOP")), seam.Reply{
			Model: own, StopReason: "tool_use", Usage: used, Parts: []parley.Part{
				{Type: parley.PartToolCall, Provider: "gemini", Name: "count", Input: json.RawMessage(`{"n":1}`)},
				{Type: parley.PartToolCall, Provider: "gemini", Name: "count", Input: json.RawMessage(`{}`)},
			},
		}},
		"a handoff keeps its arguments for its seal": {frames(chunk(`{"functionCall":{"id":"x","name":"transfer_to_expert","args":{"reason":"why","more":1}},"thoughtSignature":"AA=="}`), last("STOP")), seam.Reply{
			Model: own, StopReason: "tool_use", Usage: used, Parts: []parley.Part{{
				Type: parley.PartHandoff, ProviderID: "x", Provider: "gemini", Name: "expert", Text: "why",
				Signature: sealed(`{"model":"gemini-3.8-flash","thoughtSignature":"AA==","args":{"reason":"why","more":1}}`),
			}},
		}},
		"a call under the module's name": {frames(chunk(`{"functionCall":{"name":"default_api.count","args":{}}}`), last("STOP")), seam.Reply{
			Model: own, StopReason: "tool_use", Usage: used, Parts: []parley.Part{{Type: parley.PartToolCall, Provider: "gemini", Name: "count", Input: json.RawMessage(`{}`)}},
		}},
		"code that the provider runs, and sources": {frames(
			chunk(`{"executableCode":{"language":"PYTHON","code":"print( 1 )"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1\n"}}`),
			`{"candidates":[{"content":{"parts":[{"text":"One."}]},"finishReason":"STOP","groundingMetadata":{"groundingChunks":[{"web":{"uri":"https://a.example/x","title":"a.example"}},{"web":{"uri":"https://a.example/x","title":"a.example"}},{"web":{"uri":"https://b.example"}}]}}],`+counted+`}`,
		), seam.Reply{
			Model: own, StopReason: "end_turn", Usage: used, Parts: []parley.Part{
				{Type: parley.PartProvider, Name: "executableCode", Text: "print( 1 )", Provider: "gemini", Signature: sealed(`{"model":"gemini-3.8-flash","part":{"executableCode":{"language":"PYTHON","code":"print( 1 )"}}}`)},
				{Type: parley.PartProvider, Name: "codeExecutionResult", Text: "1", Provider: "gemini", Signature: sealed(`{"model":"gemini-3.8-flash","part":{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1\n"}}}`)},
				{Type: parley.PartText, Text: "One."},
			},
			Citations: []parley.Citation{{Source: "a.example", Ref: "https://a.example/x"}, {Source: "https://b.example", Ref: "https://b.example"}},
		}},
		"a reply cut off, with a call that is whole": {frames(chunk(`{"functionCall":{"name":"count","args":{}}}`), last("MAX_TOKENS")), seam.Reply{
			Model: own, StopReason: "max_tokens", Usage: used, Parts: []parley.Part{{Type: parley.PartToolCall, Provider: "gemini", Name: "count", Input: json.RawMessage(`{}`)}},
		}},
		"a refusal in the middle": {frames(say("The recipe"), last("SAFETY")), seam.Reply{Model: own, StopReason: "refusal", Usage: used, Parts: text("The recipe")}},
		"a refusal says why": {
			frames(`{"candidates":[{"finishReason":"RECITATION","finishMessage":"It is\n a song."}],` + counted + `}`),
			seam.Reply{Model: own, StopReason: "refusal", Usage: used, Parts: text("It is a song.")},
		},
		"a refusal loses its calls": {frames(chunk(`{"functionCall":{"name":"count","args":{}}}`), last("PROHIBITED_CONTENT")), seam.Reply{Model: own, StopReason: "refusal", Usage: used}},
		"a prompt that is blocked": {
			frames(`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT","blockReasonMessage":"Not that."},"usageMetadata":{"promptTokenCount":25}}`),
			seam.Reply{Model: own, StopReason: "refusal", Usage: parley.Usage{InputTokens: 25}, Parts: text("Not that.")},
		},
		"no words at all":            {frames(chunk(``), last("STOP")), seam.Reply{Model: own, StopReason: "end_turn", Usage: used}},
		"a reason that nobody knows": {frames(say("a"), last("CONTINUATION")), seam.Reply{Model: own, StopReason: "continuation", Usage: used, Parts: text("a")}},
		"what nobody knows is passed over": {
			frames(
				`{"news":1}`, `{"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model","x":1},"avgLogprobs":-0.1,"tokenCount":3,"safetyRatings":[]}],"createTime":"2026-11-20T00:00:00Z"}`,
				`{"candidates":[{"index":1,"content":{"parts":[{"text":"the other"}]},"finishReason":"SAFETY"}]}`, say("b"), last("STOP")),
			seam.Reply{Model: own, StopReason: "end_turn", Usage: used, Parts: text("ab")},
		},
		"a character cut in two": {frames(say(`a \ud83d`), say(`\ude00 b \ud83d`), say(" c \xe8\xaa"), say("\x9e d \xed\xa0"), say("\xbd e \xe8"), last("STOP")), seam.Reply{
			Model: own, StopReason: "end_turn", Usage: used, Parts: text("a 😀 b \ufffd c 語 d \ufffd e \ufffd"),
		}},
		"escapes of every kind": {frames(say(`\"\\\/\b\f\n\r\t\u00e9\u8a9e\ud83d\ude00\u0000`), last("STOP")), seam.Reply{
			Model: own, StopReason: "end_turn", Usage: used, Parts: text("\"\\/\b\f\n\r\té語😀\x00"),
		}},
		"a connection that breaks after the end": {frames(say("a"), last("STOP")) + "data: {\"cand", seam.Reply{Model: own, StopReason: "end_turn", Usage: used, Parts: text("a")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, reply, _, err := play(t, modeltest.Ask(), c.stream)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&c.want, reply); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
			if want := parley.PartsText(c.want.Parts); text != want {
				t.Errorf("streamed %q, want %q", text, want)
			}
		})
	}
}

func file(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("a", 600_000)
	for name, c := range map[string]struct {
		stream string
		code   parley.Code
		says   string
	}{
		"nothing at all":                    {"", parley.CodeUnavailable, "ended in the middle"},
		"no reason to finish":               {frames(say("Well")), parley.CodeUnavailable, "ended in the middle"},
		"no candidates":                     {frames(`{`+counted+`}`, `{"candidates":[],`+counted+`}`), parley.CodeUnavailable, "ended in the middle"},
		"a reason that is none":             {frames(say("Well"), last("FINISH_REASON_UNSPECIFIED")), parley.CodeUnavailable, "ended in the middle"},
		"a failure in a chunk":              {frames(say("Well"), `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`), parley.CodeUnavailable, "overloaded"},
		"a failure on its own lines":        {frames(say("Well")) + "{\n  \"error\": {\n    \"code\": 429,\n    \"message\": \"slow down\",\n    \"status\": \"RESOURCE_EXHAUSTED\"\n  }\n}\n", parley.CodeRateLimited, "slow down"},
		"a failure in a list":               {"[{\"error\":{\"code\":400,\"message\":\"no\",\"status\":\"INVALID_ARGUMENT\"}}]", parley.CodeInvalid, "no"},
		"a failure that nobody knows":       {frames(`{"error":{"code":599,"message":"hm","status":"NEWS"}}`), parley.CodeUnavailable, "hm"},
		"a call that cannot be read":        {frames(`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: print(x"}]}`), parley.CodeUnavailable, "print(x"},
		"a call where there are no tools":   {frames(last("UNEXPECTED_TOOL_CALL")), parley.CodeUnavailable, "may call none"},
		"an end for no reason":              {frames(say("Well"), last("OTHER")), parley.CodeUnavailable, "without saying why"},
		"too many calls":                    {frames(last("TOO_MANY_TOOL_CALLS")), parley.CodeModel, "more tools in a row"},
		"a history without seals":           {frames(last("MISSING_THOUGHT_SIGNATURE")), parley.CodeModel, "signature"},
		"no JSON":                           {frames(`{"candidates":[{"content"`), parley.CodeUnavailable, "cannot be read"},
		"a chunk of another kind":           {frames(`[1]`), parley.CodeUnavailable, "cannot be read"},
		"a text that is none":               {frames(chunk(`{"text":7}`)), parley.CodeUnavailable, "cannot be read"},
		"a part that is none":               {frames(chunk(`7`)), parley.CodeUnavailable, "cannot be read"},
		"an escape that is none":            {frames(say(`\u12g4`)), parley.CodeUnavailable, "cannot be read"},
		"an escape without its end":         {frames(`{"candidates":[{"content":{"parts":[{"text":"\`), parley.CodeUnavailable, "cannot be read"},
		"a usage that is none":              {frames(`{"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"}}],"usageMetadata":{"x":01}}`, `{"candidates":[{"finishReason":"STOP"}]}`), parley.CodeUnavailable, "cannot be read"},
		"arguments that are no object":      {frames(chunk(`{"functionCall":{"name":"count","args":[1]}}`)), parley.CodeUnavailable, "cannot be read"},
		"a call without a name":             {frames(chunk(`{"functionCall":{"args":{}}}`)), parley.CodeUnavailable, "cannot be read"},
		"a call in pieces":                  {frames(chunk(`{"functionCall":{"name":"count","willContinue":true}}`)), parley.CodeUnavailable, "incomplete call"},
		"more parts than a reply may have":  {frames(chunk(strings.Repeat(`{"functionCall":{"name":"count"}},`, 299)+`{"functionCall":{"name":"count"}}`), last("STOP")), parley.CodeTooLarge, "too many parts"},
		"arguments without an end":          {frames(chunk(`{"functionCall":{"name":"count","args":{"a":"` + big + big + `"}}}`)), parley.CodeTooLarge, "arguments"},
		"a reply without an end":            {strings.Repeat(frames(say(big)), 57), parley.CodeTooLarge, "too many bytes"},
		"a chunk that is too large":         {"data: " + strings.Repeat(big, 57), parley.CodeUnavailable, "too large"},
		"a page that pretends to be stream": {"<html>{\n{</html>", parley.CodeUnavailable, "ended in the middle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, reply, _, err := play(t, modeltest.Ask(), c.stream)
			e, ok := errors.AsType[*parley.Error](err)
			if !ok || reply != nil || e.Code != c.code || !strings.Contains(e.Message, c.says) || e.Hint == "" {
				t.Errorf("got reply %v and %#v, want %s with %q and a hint", reply, err, c.code, c.says)
			}
		})
	}
}

// TestAnswerThatIsNoStream: an answer that is no stream may still be a refusal.
func TestAnswerThatIsNoStream(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]parley.Code{
		`[{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}]`: parley.CodeRateLimited,
		`{"candidates":[]}`: parley.CodeUnavailable, "<html>": parley.CodeUnavailable,
	} {
		c, err := gemini.New(gemini.Options{Key: key, HTTP: &http.Client{Transport: &replaying{streams: []string{body}, kind: "application/json"}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := stream(t, c.Model(known(own)), modeltest.Ask()); parley.CodeOf(err) != want {
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
	}
}
