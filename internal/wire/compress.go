package wire

import (
	"bytes"
	"mime"
	"net/http"

	"github.com/klauspost/compress/gzip"
)

// worthwhile is the size in bytes from which an answer is compressed. A smaller one fits
// into one packet either way.
const worthwhile = 1 << 10

// Compressed wraps handlers behind [Bounded] and sends their larger answers as gzip, if
// takes says that the client accepts it.
//
// Only a complete, successful answer of JSON or HTML is compressed, from 1 KiB. Sent
// uncompressed are:
//   - a stream, whose frames must not wait for one another;
//   - a refusal, as the guard redacts its text on the way out;
//   - an answer with an ETag, Content-Encoding or Content-Range: it names its bytes.
//
// Each write of the handler is compressed by itself, in pieces of at most 64 KiB. Nothing
// is kept between writes. So a client that does not read holds what it would hold without
// compression, and the budget of [Bounded] counts that.
//
// The size of a compressed answer can reveal its content to somebody who chooses a part
// of the text and makes a browser ask repeatedly (BREACH). So pages of other origins get
// no compressed answers: the guard in package api removes Accept-Encoding from their
// requests. Other clients send a key in a header, which a foreign page cannot set, and no
// answer has keys in its body.
func Compressed(next http.Handler, takes func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := w.(*answer)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		p := &packed{answer: a, takes: takes(r)}
		next.ServeHTTP(p, withTakes(r, p.takes))
		p.finish() // not after a panic: a broken answer must not look complete
	})
}

// packed is an answer that may be compressed. The head is held back until the size of the
// answer is known.
type packed struct {
	*answer
	takes  bool // the client accepts gzip
	status int  // set by the handler; 0: none yet
	begun  bool // the head was sent
	zip    *gzip.Writer
	out    bytes.Buffer // the compressed form of one piece
}

// WriteHeader implements http.ResponseWriter.
func (p *packed) WriteHeader(status int) {
	switch {
	case p.begun || status < http.StatusOK: // superfluous, which net/http logs, or informational
		p.ResponseWriter.WriteHeader(status)
	case p.status == 0:
		p.status = status
		if !p.fits() {
			p.begin()
			return
		}
		p.Header().Add("Vary", "Accept-Encoding")
	}
}

// fits reports whether the answer may be compressed if it is large.
func (p *packed) fits() bool {
	h := p.Header()
	if p.status >= http.StatusMultipleChoices || h.Get("ETag") != "" || h.Get("Content-Encoding") != "" || h.Get("Content-Range") != "" {
		return false
	}
	switch media, _, _ := mime.ParseMediaType(h.Get("Content-Type")); media {
	case "application/json", "application/openapi+json", "text/html":
		return true
	}
	return false
}

func (p *packed) begin() {
	p.begun = true
	p.ResponseWriter.WriteHeader(p.status)
}

// Write implements http.ResponseWriter.
func (p *packed) Write(b []byte) (int, error) {
	if p.status == 0 {
		p.WriteHeader(http.StatusOK)
	}
	if !p.begun {
		if p.takes && len(b) >= worthwhile {
			h := p.Header()
			h.Set("Content-Encoding", "gzip")
			h.Del("Content-Length")
			// No error: the level is valid.
			p.zip, _ = gzip.NewWriterLevel(&p.out, gzip.StatelessCompression)
		}
		p.begin()
	}
	if p.zip == nil {
		return p.answer.Write(b)
	}
	return p.put(b, p.pack)
}

func (p *packed) pack(piece []byte) []byte {
	p.out.Reset()
	_, _ = p.zip.Write(piece) // cannot fail: writes to memory
	return p.out.Bytes()
}

// FlushError is for http.ResponseController.
func (p *packed) FlushError() error {
	p.start()
	return p.answer.FlushError()
}

// Flush is for those who ask by assertion.
func (p *packed) Flush() { _ = p.FlushError() }

// start sends the held head of an answer that stays uncompressed.
func (p *packed) start() {
	if p.status == 0 {
		p.WriteHeader(http.StatusOK)
	}
	if !p.begun {
		p.begin()
	}
}

// finish ends an answer whose handler has returned.
func (p *packed) finish() {
	if p.status != 0 {
		p.start()
	}
	if p.zip != nil {
		p.out.Reset()
		_ = p.zip.Close()
		_, _ = p.answer.Write(p.out.Bytes()) // the client may be gone
	}
}
