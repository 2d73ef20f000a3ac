package httpcall_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/httpcall"
	"github.com/parley-server/parley/internal/seam"
)

// TestRefusal_without_secrets: a refusal is cut after its secrets were removed.
func TestRefusal_without_secrets(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-0815-4711-0042-password"
	for before := 1960; before < 2010; before++ {
		text := strings.Repeat("a", before) + secret
		for kind, body := range map[string]string{
			"text/plain": text, "application/json": `{"error":{"message":"` + text + `","hint":"` + text + `"}}`,
		} {
			resp := &http.Response{StatusCode: 400, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body))}
			res, _, err := httpcall.Answer(t.Context(), seam.Run{}, resp, func(text string) string { return strings.ReplaceAll(text, secret, "[redacted]") })
			if err != nil || res.Error == nil || len(res.Error.Message) > 2000+3 {
				t.Fatalf("%+v, %v", res, err)
			}
			if said := res.Output + res.Error.Message + res.Error.Hint; strings.Contains(said, secret[:4]) {
				t.Errorf("%s, %d bytes before it: a part of the secret is in the result", kind, before)
			}
		}
	}
}
