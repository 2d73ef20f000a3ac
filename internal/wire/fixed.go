package wire

import (
	"bytes"
	"context"
	"net/http"

	"github.com/klauspost/compress/gzip"
)

// Fixed is an answer of 200 that is the same for everybody. It is compressed once, so
// sending it costs no more than copying it. It is safe for concurrent use.
type Fixed struct{ plain, zip []byte }

// NewFixed returns the answer with the given body.
func NewFixed(body []byte) Fixed {
	var out bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // no error: the level is valid
	_, _ = zip.Write(body)                                    // cannot fail: writes to memory
	_ = zip.Close()
	return Fixed{body, out.Bytes()}
}

// Send sends the answer, compressed where [Compressed] would do so.
func (f Fixed) Send(w http.ResponseWriter, r *http.Request) {
	body := f.plain
	if takes, _ := r.Context().Value(takesKey{}).(bool); takes {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Add("Vary", "Accept-Encoding")
		body = f.zip
	}
	_, _ = w.Write(body) // the client may be gone
}

// takesKey is the key of a request's context that says whether the client behind a
// [Compressed] handler accepts gzip.
type takesKey struct{}

func withTakes(r *http.Request, takes bool) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), takesKey{}, takes))
}
