package openai_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/model/openai"
)

// answers is a server that answers each request with the same bytes.
type answers struct {
	media string
	body  []byte
}

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {a.media}}, Body: io.NopCloser(bytes.NewReader(a.body)),
	}, nil
}

// streams returns the streams in testdata.
func streams(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/streams/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[f] = sections(string(raw))["stream"]
	}
	return out
}

// FuzzStream reads any bytes as a stream. It ends once: with a reply that has the streamed text
// and whose calls are JSON, or with an error that explains itself.
func FuzzStream(f *testing.F) {
	for _, s := range streams(f) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		media := "text/event-stream"
		if len(stream) > 0 && stream[0] == '{' {
			media = "application/json"
		}
		c := client(t, openai.Options{BaseURL: "http://h/v1", HTTP: &http.Client{Transport: answers{media, stream}}})
		o := read(t, c.Model(info("m")), modeltest.Ask())
		if o.Reply == nil {
			return
		}
		for _, p := range o.Reply.Parts {
			if p.Type == parley.PartToolCall && (p.Name == "" || !json.Valid(p.Input)) {
				t.Errorf("got the call %q with %q", p.Name, p.Input)
			}
			if len(p.Signature) > 0 && !json.Valid(p.Signature) {
				t.Errorf("got the signature %q", p.Signature)
			}
		}
		if len(o.Reply.Parts) > 256 || o.Reply.StopReason == "" || o.Reply.Usage.Tokens() < 0 {
			t.Errorf("got %+v", o.Reply)
		}
	})
}

// FuzzQuick compares the fast path with the other: what it accepts is JSON, has the same
// meaning, and contains nothing else that matters.
func FuzzQuick(f *testing.F) {
	for _, s := range streams(f) {
		for line := range strings.Lines(s) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				f.Add([]byte(strings.TrimSpace(data)))
			}
		}
	}
	f.Add([]byte(`{"model":"m","choices":[{"index":0,"delta":{"content":"a\ud83d"}}]}`))
	f.Fuzz(func(t *testing.T, frame []byte) {
		content, reasoning, ok := openai.Quick(frame)
		if !ok {
			return
		}
		c, r, plain, err := openai.Slow(frame)
		if err != nil || !plain || c != content || r != reasoning {
			t.Errorf("the quick path reads %q, %q; the other %q, %q, plain %v, %v", content, reasoning, c, r, plain, err)
		}
	})
}

// TestQuickIsTaken: the usual frames of a stream go the fast path.
func TestQuickIsTaken(t *testing.T) {
	t.Parallel()
	for _, frame := range []string{
		`{"id":"chatcmpl-9","object":"chat.completion.chunk","created":1790000000,"model":"m","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":"a \"b\" 語"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"x"}`,
		`{"id":"gen-1","provider":"X","model":"m","object":"chat.completion.chunk","created":1790000000,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null,"native_finish_reason":null,"logprobs":null}]}`,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"hmm"},"finish_reason":null}]}`,
		`{"choices":[{"finish_reason":null,"index":0,"delta":{"reasoning_content":"Hm"}}],"created":1,"id":"c","model":"m","system_fingerprint":"b7000","object":"chat.completion.chunk"}`,
	} {
		if _, _, ok := openai.Quick([]byte(frame)); !ok {
			t.Errorf("%s goes the slow way", frame)
		}
	}
}
