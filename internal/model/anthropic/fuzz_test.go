package anthropic_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/anthropic"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/sse"
)

// answering is a transport that answers every request with one stream.
type answering []byte

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {sse.ContentType}}, Body: io.NopCloser(bytes.NewReader(a)), Request: r,
	}, nil
}

// FuzzStream: whatever the stream has, the model does not panic, its reply has only text that
// it streamed, and it returns only whole characters.
func FuzzStream(f *testing.F) {
	for _, s := range []string{
		"", "data: {}\n\n", "data: {\"type\":\"message_stop\"}\n\n",
		events(ends, says("Well 語")...),
		events(ends, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`,
			"{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\\ud83d\"}}",
			"{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\\ude00\xe8\xaa\"}}"),
		events(`{"stop_reason":"tool_use"}`, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"transfer_to_expert","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"reason\":7"}}`),
		events(`{"stop_reason":"pause_turn"}`, `{"type":"content_block_start","index":0,"content_block":{"type":"web_search_tool_result","content":7}}`),
		events(`{"stop_reason":"refusal","stop_details":{"explanation":"no"}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"text","citations":[]}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"url":7}}}`),
		"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := anthropic.New(anthropic.Options{Key: key, HTTP: &http.Client{Transport: answering(raw)}})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		over := false
		for d, err := range c.Model(known("claude-sonnet-5-5")).Stream(t.Context(), modeltest.Ask()) {
			if over {
				t.Fatal("it went on after its end")
			}
			switch {
			case err != nil:
				over = true
				if parley.CodeOf(err) == parley.CodeInternal {
					t.Fatalf("an error that nobody explains: %v", err)
				}
			case d.Reply != nil:
				over = true
				if got := parley.PartsText(d.Reply.Parts); got != text.String() {
					t.Fatalf("said %q and showed %q", got, text.String())
				}
			case !utf8.ValidString(d.Text) || !utf8.ValidString(d.Thinking):
				t.Fatalf("half a character left: %q %q", d.Text, d.Thinking)
			default:
				text.WriteString(d.Text)
			}
		}
		if !over {
			t.Fatal("it ended with neither a reply nor an error")
		}
	})
}

// stretch is a stream of n deltas of the provider's usual size.
func stretch(n int) []byte {
	piece := says(" of the house,")
	all := []string{piece[0]}
	for range n {
		all = append(all, piece[1])
	}
	return []byte(events(ends, append(all, piece[2])...))
}

const deltas = 5000

// BenchmarkRelay measures one delta through the model.
func BenchmarkRelay(b *testing.B) {
	c, err := anthropic.New(anthropic.Options{Key: key, HTTP: &http.Client{Transport: answering(stretch(deltas))}})
	if err != nil {
		b.Fatal(err)
	}
	m := c.Model(known("claude-sonnet-5-5"))
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range m.Stream(b.Context(), modeltest.Ask()) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/deltas, "ns/delta")
}

// BenchmarkFloor reads the same frames without decoding them.
func BenchmarkFloor(b *testing.B) {
	raw := stretch(deltas)
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range sse.Decode(bytes.NewReader(raw), 32<<20) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/deltas, "ns/delta")
}
