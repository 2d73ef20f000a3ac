package mistral_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/mistral"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
)

// decode reads a stream.
func decode(t testing.TB, body string) got {
	t.Helper()
	var g got
	var said, thought strings.Builder
	ends := 0
	client(t, "http://127.0.0.1:1").ReadChat(context.Background(), strings.NewReader(body), modeltest.Ask(), func(d seam.ModelDelta, err error) bool {
		if ends > 0 {
			t.Errorf("went on after its end with %+v, %v", d, err)
		}
		if err != nil || d.Reply != nil {
			ends++
		}
		if !utf8.ValidString(d.Text) || !utf8.ValidString(d.Thinking) {
			t.Errorf("got %q and %q", d.Text, d.Thinking)
		}
		said.WriteString(d.Text)
		thought.WriteString(d.Thinking)
		g.reply, g.err = d.Reply, err
		return err == nil
	})
	if ends != 1 {
		t.Errorf("ended %d times", ends)
	}
	g.text, g.thinking = said.String(), thought.String()
	return g
}

func golden(t testing.TB, file string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestStream_recorded_replies(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]seam.Reply{
		"chat_tool.sse": {
			Model: "mistral-medium-2505", StopReason: "tool_use",
			Parts: []parley.Part{
				text("I look \"it\" up. 😀"),
				{Type: parley.PartToolCall, ProviderID: "abc123XYZ", Name: "look_up", Input: json.RawMessage(`{"id":7}`)},
				{Type: parley.PartHandoff, ProviderID: "NqCFiwvSV", Name: "expert", Text: "why not"},
			},
			Usage: parley.Usage{InputTokens: 27, CacheReadTokens: 64, OutputTokens: 29},
		},
		"chat_thinking.sse": {
			Model: "magistral-medium-latest", StopReason: "end_turn",
			Parts: []parley.Part{
				{Type: parley.PartThinking, Text: "Let me see.", Provider: "mistral", Signature: json.RawMessage(`{"signature":"c2VhbA=="}`)},
				text("Done."),
			},
			Usage: parley.Usage{InputTokens: 5, OutputTokens: 9},
		},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			g := decode(t, golden(t, file))
			if g.err != nil {
				t.Fatal(g.err)
			}
			if diff := cmp.Diff(want, *g.reply); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
			if g.text != parley.PartsText(want.Parts) {
				t.Errorf("streamed %q", g.text)
			}
		})
	}
}

// frame returns a chunk with the delta and the fields after it.
func frame(delta, finish string) string {
	return fmt.Sprintf("data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, finish)
}

func TestStream_oddities(t *testing.T) {
	t.Parallel()
	const done = "data: [DONE]\n\n"
	for name, c := range map[string]struct {
		stream string
		parts  []parley.Part
		stop   string
		code   parley.Code
	}{
		"no usage and no [DONE]":      {frame(`{"content":"hi"}`, `"stop"`), []parley.Part{text("hi")}, "end_turn", ""},
		"ends before its reason":      {frame(`{"content":"hi"}`, `null`) + done, nil, "", parley.CodeUnavailable},
		"ends before anything":        {"", nil, "", parley.CodeUnavailable},
		"cut in the middle of a call": {frame(`{"tool_calls":[{"id":"abc123XYZ","function":{"name":"look_up","arguments":"{\"id\":"}}]}`, `"length"`), nil, "max_tokens", ""},
		"a call in fragments": {
			frame(`{"tool_calls":[{"id":"abc123XYZ","index":0,"function":{"name":"look_up","arguments":"{\"a\":"}}]}`, `null`) +
				frame(`{"tool_calls":[{"id":"null","index":0,"function":{"name":"","arguments":"1}"}}]}`, `null`) +
				frame(`{"tool_calls":[{"id":"abc123XYY","index":0,"function":{"name":"count","arguments":""}}]}`, `"tool_calls"`),
			[]parley.Part{
				{Type: parley.PartToolCall, ProviderID: "abc123XYZ", Name: "look_up", Input: json.RawMessage(`{"a":1}`)},
				{Type: parley.PartToolCall, ProviderID: "abc123XYY", Name: "count", Input: json.RawMessage(`{}`)},
			},
			"tool_use", "",
		},
		"a failure in the stream":   {frame(`{"content":"h"}`, `null`) + "data: {\"object\":\"error\",\"message\":\"Service tier capacity exceeded\",\"type\":\"x\",\"code\":null}\n\n", nil, "", parley.CodeUnavailable},
		"the limit in the stream":   {"data: {\"object\":\"error\",\"message\":\"Rate limit exceeded\",\"type\":\"rate_limited\",\"code\":\"1300\"}\n\n", nil, "", parley.CodeRateLimited},
		"its own reason to fail":    {frame(`{"content":"h"}`, `"error"`), nil, "", parley.CodeUnavailable},
		"not JSON":                  {"data: {\"choices\":[{\n\n", nil, "", parley.CodeUnavailable},
		"not JSON that looks plain": {"data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish\n\n", nil, "", parley.CodeUnavailable},
		"comments and other events": {": hello\n\nevent: ping\ndata: {}\n\n" + frame(`{"content":[{"type":"text","text":"a"},{"type":"reference","reference_ids":[1]},{"type":"tool_reference","tool":"web_search","title":"T","url":"http://x"}]}`, `"stop"`) + done, []parley.Part{text("a")}, "end_turn", ""},
		"half a character":          {frame(`{"content":"a\ud83d"}`, `null`) + frame(`{"content":"b"}`, `"stop"`), []parley.Part{text("a\ufffdb")}, "end_turn", ""},
		"a character in bytes":      {frame("{\"content\":\"a\xe8\xaa\"}", `null`) + frame("{\"content\":\"\x9e\"}", `null`) + frame("{\"content\":\"\xf0\x9f\"}", `"stop"`), []parley.Part{text("a語\ufffd\ufffd")}, "end_turn", ""},
		"another choice":            {"data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"no\"},\"finish_reason\":\"stop\"}]}\n\n" + frame(`{"content":"yes"}`, `"stop"`), []parley.Part{text("yes")}, "end_turn", ""},
		"a filter":                  {frame(`{"content":"It is"}`, `"content_filter"`), []parley.Part{text("It is")}, "refusal", ""},
		"the model's own length":    {frame(`{"content":"hi"}`, `"model_length"`) + done, []parley.Part{text("hi")}, "max_tokens", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := decode(t, c.stream)
			if c.code != "" {
				if parley.CodeOf(g.err) != c.code || g.reply != nil {
					t.Errorf("got %v, want %s", g.err, c.code)
				}
				return
			}
			if g.err != nil {
				t.Fatal(g.err)
			}
			if diff := cmp.Diff(c.parts, g.reply.Parts); diff != "" || g.reply.StopReason != c.stop || !g.reply.Usage.Estimated {
				t.Errorf("%s %+v (-want +got):\n%s", g.reply.StopReason, g.reply.Usage, diff)
			}
		})
	}
}

func TestStream_is_bounded(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(frame(`{"tool_calls":[{"id":"","function":{"name":"count","arguments":"{}"}}]}`, `null`), 257)
	large := frame(`{"tool_calls":[{"id":"abc123XYZ","function":{"name":"count","arguments":"`+strings.Repeat("x", 1<<20)+`y"}}]}`, `null`)
	for name, body := range map[string]string{"calls": many, "arguments": large} {
		if g := decode(t, body); parley.CodeOf(g.err) != parley.CodeTooLarge {
			t.Errorf("%s: got %v", name, g.err)
		}
	}
}

// TestCharactersStayWhole: a character that is split anywhere comes out whole.
func TestCharactersStayWhole(t *testing.T) {
	t.Parallel()
	const all = "aé語😀z"
	for i := range len(all) + 1 {
		for j := i; j <= len(all); j++ {
			out := mistral.PartsOf([]byte(all[:i]), []byte(all[i:j]), []byte(all[j:]))
			if got := strings.Join(out, ""); got != all {
				t.Errorf("cut at %d and %d: %q", i, j, out)
			}
			for _, s := range out {
				if !utf8.ValidString(s) {
					t.Errorf("cut at %d and %d: %q", i, j, out)
				}
			}
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add(golden(f, "chat_tool.sse"))
	f.Add(golden(f, "chat_thinking.sse"))
	f.Add(frame("{\"content\":\"a\xe8\"}", "null") + frame(`{"content":"\ud83d\u"}`, `"stop"`))
	f.Add(frame(`{"tool_calls":[{"function":{"arguments":{}}}]}`, `"length"`))
	f.Fuzz(func(t *testing.T, body string) {
		g := decode(t, body)
		if (g.reply == nil) == (g.err == nil) {
			t.Fatalf("got %v and %v", g.reply, g.err)
		}
		if g.reply == nil {
			return
		}
		if text := parley.PartsText(g.reply.Parts); text != g.text {
			t.Errorf("streamed %q, replied %q", g.text, text)
		}
		for _, p := range g.reply.Parts {
			if p.Type != parley.PartText && p.Type != parley.PartThinking && p.Type != parley.PartToolCall && p.Type != parley.PartHandoff {
				t.Errorf("a part of type %q", p.Type)
			}
		}
	})
}

func FuzzUnquote(f *testing.F) {
	for _, s := range []string{"a", "é\\n", `\ud83d\ude00`, `\ud83d`, `\\\"\/\b\f\r\t`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want string
		if json.Unmarshal([]byte(`"`+s+`"`), &want) != nil || !utf8.ValidString(s) {
			return
		}
		if got := strings.Join(mistral.PartsOf(mistral.Unquote(s)), ""); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	})
}

// tokens is a stream of n small deltas.
func tokens(n int) []byte {
	var b bytes.Buffer
	for range n {
		b.WriteString(`data: {"id":"cmpl-1","object":"chat.completion.chunk","created":1763712000,"model":"mistral-medium-2505","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}` + "\n\n")
	}
	b.WriteString(frame(`{"content":""}`, `"stop"`))
	return b.Bytes()
}

// BenchmarkStream compares with a floor: a proxy that only copies the bytes.
func BenchmarkStream(b *testing.B) {
	const n = 1000
	body := tokens(n)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(body)
	}))
	b.Cleanup(srv.Close)
	m := client(b, srv.URL).Model(info)
	var talk bytes.Buffer
	talk.WriteString(happened("conversation.response.started", `"conversation_id":"conv_1"`))
	for range n {
		talk.WriteString(happened("message.output.delta", `"created_at":"2026-01-02T03:04:05.678901Z","output_index":0,"id":"msg_1","content_index":0,"model":"m","agent_id":"ag_helper","role":"assistant","content":" token"`))
	}
	talk.WriteString(happened("conversation.response.done", `"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}`))
	b.Run("a conversation, decoded alone", func(b *testing.B) {
		for b.Loop() {
			if g := converse(b, talk.String()); g.err != nil {
				b.Fatal(g.err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/token")
	})
	b.Run("a chat, decoded alone", func(b *testing.B) {
		for b.Loop() {
			if g := decode(b, string(body)); g.err != nil {
				b.Fatal(g.err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/token")
	})
	b.Run("relay", func(b *testing.B) {
		for b.Loop() {
			if g := read(b.Context(), m, modeltest.Ask()); g.err != nil {
				b.Fatal(g.err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/token")
	})
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			resp, err := http.Post(srv.URL, "application/json", strings.NewReader("{}")) //nolint:noctx // the floor
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/token")
	})
}
