package gemini_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/gemini"
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
// it streamed, it returns only whole characters, and calls have arguments.
func FuzzStream(f *testing.F) {
	for _, s := range []string{
		"", "data: {}\n\n", frames(say("Well 語"), last("STOP")), frames(say(`\ud83d`), say("\\ude00\xe8\xaa"), last("MAX_TOKENS")),
		frames(chunk(`{"functionCall":{"name":"transfer_to_expert","args":{"reason":7}},"thoughtSignature":"AA=="}`), last("STOP")),
		frames(chunk(`{"text":"a","thought":true},{"text":"","thought":true,"thoughtSignature":"AA=="},{"inlineData":{"mimeType":"image/png"}}`), last("SAFETY")),
		frames(`{"promptFeedback":{"blockReason":"SAFETY"}}`), "{\"error\":{\"status\":\"UNAVAILABLE\"}}",
		frames(`{"candidates":[{"finishReason":"STOP","groundingMetadata":{"groundingChunks":[{"web":{"uri":"x"}}]}}],"usageMetadata":{"promptTokenCount":-1}}`),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := gemini.New(gemini.Options{Key: key, HTTP: &http.Client{Transport: answering(raw)}})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		over := false
		for d, err := range c.Model(known(own)).Stream(t.Context(), modeltest.Ask()) {
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
				for _, p := range d.Reply.Parts {
					if p.Type == parley.PartToolCall && (p.Name == "" || !json.Valid(p.Input)) {
						t.Fatalf("half a call: %+v", p)
					}
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
