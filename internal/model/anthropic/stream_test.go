package anthropic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sse"
)

// recorded answers each request with the next recorded stream, and keeps the bodies of the
// requests.
type recorded struct {
	t *testing.T

	mu      sync.Mutex
	answers []string
	bodies  []json.RawMessage
}

func (r *recorded) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		r.t.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies = append(r.bodies, body)
	if len(r.answers) == 0 {
		r.t.Errorf("one request too many: %s", body)
		return
	}
	w.Header().Set("Content-Type", sse.ContentType)
	_, _ = io.WriteString(w, r.answers[0])
	r.answers = r.answers[1:]
}

// play streams from a model whose provider sends the answers.
func play(t *testing.T, r seam.Request, answers ...string) (text string, reply *seam.Reply, bodies []json.RawMessage, err error) {
	t.Helper()
	rec := &recorded{t: t, answers: answers}
	srv := httptest.NewServer(rec)
	t.Cleanup(srv.Close)
	text, reply, err = stream(t, client(t, srv.URL).Model(known("claude-sonnet-5-5")), r)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return text, reply, rec.bodies, err
}

func stream(t *testing.T, m seam.Model, r seam.Request) (text string, reply *seam.Reply, err error) {
	t.Helper()
	var b strings.Builder
	for d, e := range m.Stream(t.Context(), r) {
		if e != nil {
			return b.String(), nil, e
		}
		b.WriteString(d.Text)
		if d.Reply != nil {
			reply = d.Reply
		}
	}
	return b.String(), reply, nil
}

func file(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// events writes a stream of the given events, with the first and the last ones.
func events(stop string, data ...string) string {
	var b strings.Builder
	all := append([]string{`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-5-5","content":[],"stop_reason":null,"usage":{"input_tokens":25,"output_tokens":1}}}`}, data...)
	if stop != "" {
		all = append(all, `{"type":"message_delta","delta":`+stop+`,"usage":{"output_tokens":9}}`, `{"type":"message_stop"}`)
	}
	for _, d := range all {
		var head struct{ Type string }
		_ = json.Unmarshal([]byte(d), &head)
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", head.Type, d)
	}
	return b.String()
}

const ends = `{"stop_reason":"end_turn","stop_sequence":null}`

func says(text string) []string {
	raw, _ := json.Marshal(text)
	return []string{
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":` + string(raw) + `}}`,
		`{"type":"content_block_stop","index":0}`,
	}
}

func TestRecordedStreams(t *testing.T) {
	t.Parallel()
	seal := func(model, block string) json.RawMessage {
		if model != "" {
			model = `"model":"` + model + `",`
		}
		return json.RawMessage(`{` + model + `"block":` + block + `}`)
	}
	const own = "claude-sonnet-5-5"
	for name, c := range map[string]struct {
		stream string
		want   seam.Reply
	}{
		"thinking and a call": {file(t, "tool.sse"), seam.Reply{
			Model: own, StopReason: "tool_use", Usage: parley.Usage{InputTokens: 25, OutputTokens: 89, CacheReadTokens: 1800},
			Parts: []parley.Part{
				{Type: parley.PartThinking, Text: "Let me look", Provider: "anthropic", Signature: seal(own, `{"signature":"EqQB","thinking":"Let me look","type":"thinking"}`)},
				{Type: parley.PartToolCall, ProviderID: "toolu_01", Provider: "anthropic", Name: "lookup", Input: json.RawMessage(`{"id": 7}`)},
			},
		}},
		"a search with citations": {file(t, "search.sse"), seam.Reply{
			Model: own, StopReason: "end_turn", Usage: parley.Usage{InputTokens: 2679, OutputTokens: 510, CacheWriteTokens: 12, ReasoningTokens: 40},
			Parts: []parley.Part{
				{Type: parley.PartText, Text: "I look that up."},
				{Type: parley.PartProvider, Name: "server_tool_use", Text: "web_search: claude shannon birth date", Provider: "anthropic", Signature: seal("", `{"id":"srvtoolu_01","input":{"query":"claude shannon birth date"},"name":"web_search","type":"server_tool_use"}`)},
				{Type: parley.PartProvider, Name: "web_search_tool_result", Text: "Claude Shannon - Wikipedia", Provider: "anthropic", Signature: seal("", `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_01","content":[{"type":"web_search_result","title":"Claude Shannon - Wikipedia","url":"https://en.wikipedia.org/wiki/Claude_Shannon","encrypted_content":"EqgfCioIARgB","page_age":"April 30, 2025"}]}`)},
				{Type: parley.PartText, Text: "He was born on April 30, 1916", Provider: "anthropic", Signature: seal("", `{"citations":[{"type":"web_search_result_location","url":"https://en.wikipedia.org/wiki/Claude_Shannon","title":"Claude Shannon - Wikipedia","encrypted_index":"Eo8BCioI","cited_text":"Claude Elwood Shannon (April 30, 1916 - February 24, 2001)"}],"text":"He was born on April 30, 1916","type":"text"}`)},
				{Type: parley.PartText, Text: ", in Michigan."},
			},
			Citations: []parley.Citation{{Source: "Claude Shannon - Wikipedia", Ref: "https://en.wikipedia.org/wiki/Claude_Shannon", Quote: "Claude Elwood Shannon (April 30, 1916 - February 24, 2001)"}},
		}},
		"blocks that interleave, an event and a delta that nobody knows": {events(
			`{"stop_reason":"tool_use"}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"a","input":{}}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_2","name":"b","input":{}}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"q\":"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"n\":1}"}}`,
			`{"type":"news","index":4}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"news_delta","news":"none"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"index":1,"type":"content_block_delta","delta":{"partial_json":"\"é\"}","type":"input_json_delta"}}`,
			`{"type":"content_block_stop","index":1}`,
		), seam.Reply{Model: own, StopReason: "tool_use", Usage: parley.Usage{InputTokens: 25, OutputTokens: 9}, Parts: []parley.Part{
			{Type: parley.PartToolCall, ProviderID: "toolu_1", Provider: "anthropic", Name: "a", Input: json.RawMessage(`{"n":1}`)},
			{Type: parley.PartToolCall, ProviderID: "toolu_2", Provider: "anthropic", Name: "b", Input: json.RawMessage(`{"q":"é"}`)},
		}}},
		"thinking that is not shown, and a call without arguments": {events(
			`{"stop_reason":"tool_use"}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"EmwKAhgB"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"signature_delta","signature":"EqQB<&>"}}`,
			`{"type":"content_block_stop","index":1}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"now","input":{}}}`,
			`{"type":"content_block_stop","index":2}`,
		), seam.Reply{Model: own, StopReason: "tool_use", Usage: parley.Usage{InputTokens: 25, OutputTokens: 9}, Parts: []parley.Part{
			{Type: parley.PartThinking, Provider: "anthropic", Signature: seal(own, `{"type":"redacted_thinking","data":"EmwKAhgB"}`)},
			{Type: parley.PartThinking, Provider: "anthropic", Signature: seal(own, `{"signature":"EqQB\u003c\u0026\u003e","thinking":"","type":"thinking"}`)},
			{Type: parley.PartToolCall, ProviderID: "toolu_1", Provider: "anthropic", Name: "now", Input: json.RawMessage(`{}`)},
		}}},
		"a context that is full is a reply cut off": {
			events(`{"stop_reason":"model_context_window_exceeded"}`, says("The spec is")...),
			seam.Reply{Model: own, StopReason: "max_tokens", Usage: parley.Usage{InputTokens: 25, OutputTokens: 9}, Parts: []parley.Part{{Type: parley.PartText, Text: "The spec is"}}},
		},
		"a last call of a reply cut off is none, even where it could be whole": {events(
			`{"stop_reason":"max_tokens"}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"drop_all","input":{}}}`,
			`{"type":"content_block_stop","index":0}`,
		), seam.Reply{Model: own, StopReason: "max_tokens", Usage: parley.Usage{InputTokens: 25, OutputTokens: 9}}},
		"a refusal says why": {
			events(`{"stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber","explanation":"This asks for malware."}}`),
			seam.Reply{Model: own, StopReason: "refusal", Usage: parley.Usage{InputTokens: 25, OutputTokens: 9}, Parts: []parley.Part{{Type: parley.PartText, Text: "This asks for malware."}}},
		},
		"a character cut in two": {events(ends,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a \ud83d"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ude00 b \ud83d"}}`,
			"{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" c \xe8\xaa\"}}",
			"{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\x9e d \xe8\"}}",
			`{"type":"content_block_stop","index":0}`,
		), seam.Reply{Model: own, StopReason: "end_turn", Usage: parley.Usage{InputTokens: 25, OutputTokens: 9}, Parts: []parley.Part{{Type: parley.PartText, Text: "a 😀 b \ufffd c 語 d \ufffd"}}}},
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

func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	open := `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	for name, c := range map[string]struct {
		stream string
		code   parley.Code
		says   string
	}{
		"nothing at all":                    {"", parley.CodeUnavailable, "ended in the middle"},
		"no end":                            {events("", says("Well")...), parley.CodeUnavailable, "ended in the middle"},
		"an end without a reason":           {events(`{"stop_reason":null}`, says("Well")...), parley.CodeUnavailable, "ended in the middle"},
		"overload":                          {events("", open, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), parley.CodeUnavailable, "Overloaded"},
		"too many requests":                 {events("", `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`), parley.CodeRateLimited, "slow down"},
		"an error that nobody knows":        {events("", `{"type":"error","error":{"type":"new_error","message":"hm"}}`), parley.CodeUnavailable, "hm"},
		"a refusal in the stream":           {events("", `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`), parley.CodeInvalid, "no"},
		"a block before the message":        {"data: " + open + "\n\n", parley.CodeUnavailable, "cannot be read"},
		"a delta of no block":               {events("", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`), parley.CodeUnavailable, "cannot be read"},
		"a delta after the block":           {events("", append(says("a"), `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`)...), parley.CodeUnavailable, "cannot be read"},
		"a block that skips":                {events("", open, `{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}`), parley.CodeUnavailable, "cannot be read"},
		"a negative index":                  {events("", open, `{"type":"content_block_stop","index":-1}`), parley.CodeUnavailable, "cannot be read"},
		"an index that is huge":             {events("", open, `{"type":"content_block_delta","index":99999999999999999999,"delta":{"type":"text_delta","text":"a"}}`), parley.CodeUnavailable, "cannot be read"},
		"a delta of another kind":           {events("", open, `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"a"}}`), parley.CodeUnavailable, "cannot be read"},
		"a text that is none":               {events("", open, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":7}}`), parley.CodeUnavailable, "cannot be read"},
		"an escape that is none":            {events("", open, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\u12g4"}}`), parley.CodeUnavailable, "cannot be read"},
		"no JSON":                           {events("", open, `{"type":"content_block_delta","ind`), parley.CodeUnavailable, "cannot be read"},
		"more blocks than a reply may have": {events("", many(300)...), parley.CodeTooLarge, "too many parts"},
		"arguments without an end":          {events("", long("input_json_delta", "partial_json", `{"type":"tool_use","id":"toolu_1","name":"a","input":{}}`)...), parley.CodeTooLarge, "arguments"},
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

func many(n int) (out []string) {
	for i := range n {
		out = append(out,
			fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}`, i),
			fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
	}
	return out
}

func long(kind, field, block string) []string {
	out := []string{`{"type":"content_block_start","index":0,"content_block":` + block + `}`}
	piece := `{"type":"content_block_delta","index":0,"delta":{"type":"` + kind + `","` + field + `":"` + strings.Repeat("a", 100_000) + `"}}`
	for range 12 {
		out = append(out, piece)
	}
	return out
}

// TestPausedReplyGoesOn: a reply that the provider pauses is still one reply. Its first part is
// sent back unchanged.
func TestPausedReplyGoesOn(t *testing.T) {
	t.Parallel()
	first := events(`{"stop_reason":"pause_turn"}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I look. "}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}}`,
		`{"type":"content_block_stop","index":2}`,
	)
	r := modeltest.Ask()
	r.ServerTools = []string{"web_search"}
	text, reply, bodies, err := play(t, r, first, events(ends, says("It is so.")...))
	if err != nil {
		t.Fatal(err)
	}
	if text != "I look. It is so." || reply.StopReason != "end_turn" || len(reply.Parts) != 4 {
		t.Errorf("got %q and %+v", text, reply)
	}
	if want := (parley.Usage{InputTokens: 50, OutputTokens: 18}); reply.Usage != want {
		t.Errorf("got %+v, want both calls paid for: %+v", reply.Usage, want)
	}
	var second struct{ Messages []json.RawMessage }
	if err := json.Unmarshal(bodies[1], &second); err != nil {
		t.Fatal(err)
	}
	want := `{"content":[{"signature":"c2ln","thinking":"Hm.","type":"thinking"},{"text":"I look. ","type":"text"},` +
		`{"id":"srvtoolu_1","input":{"query":"x"},"name":"web_search","type":"server_tool_use"}],"role":"assistant"}`
	if got := string(second.Messages[len(second.Messages)-1]); !sameJSON(t, want, got) {
		t.Errorf("went on with\n%s\nwant\n%s", got, want)
	}
}

// TestPausesAreBounded: after many pauses, the client gives up.
func TestPausesAreBounded(t *testing.T) {
	t.Parallel()
	var answers []string
	for range 9 {
		answers = append(answers, events(`{"stop_reason":"pause_turn"}`, says("More. ")...))
	}
	text, reply, bodies, err := play(t, modeltest.Ask(), answers...)
	if err != nil || reply.StopReason != "pause_turn" || text != strings.Repeat("More. ", 9) || len(bodies) != 9 {
		t.Errorf("got %q, %+v, %v after %d requests", text, reply, err, len(bodies))
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatal(err)
	}
	return cmp.Equal(x, y)
}
