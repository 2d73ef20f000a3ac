package wire

import (
	"bytes"
	"mime"
	"net/http"

	"github.com/klauspost/compress/gzip"
)

// worthwhile is the size in bytes from which an answer is compressed. What is
// smaller travels in one packet either way.
const worthwhile = 1 << 10

// Compressed stands before handlers that are behind [Bounded], and sends their
// larger answers as gzip where takes says that the client reads it.
//
// Only a whole answer of JSON or HTML that succeeded is compressed, from 1 KiB.
// These are sent as they are:
//   - a stream, whose frames must not wait for one another;
//   - a refusal, as the guard redacts its text on the way out;
//   - an answer with an ETag, Content-Encoding or Content-Range: it names its bytes.
//
// Each write of the handler, or 64 KiB of it, is compressed by itself and given to
// the client. Nothing is kept between writes, so a client that does not read holds
// what it would hold without compression, and the budget of [Bounded] counts that.
//
// Sizes of compressed answers can tell what is in them when somebody else chooses a
// part of the text and makes a browser ask again and again (BREACH). So a page of
// elsewhere gets no compressed answer: the guard in package api takes Accept-Encoding
// out of its requests. Other clients show a key in a header, where no foreign page
// can put it, and no answer has keys in its body.
func Compressed(next http.Handler, takes func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := w.(*answer)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		p := &packed{answer: a, takes: takes(r)}
		next.ServeHTTP(p, r)
		p.finish() // not after a panic: what broke off must not look whole
	})
}

// packed is an answer that may be compressed. The head of one that may is held
// until it is known how much there is to send.
type packed struct {
	*answer
	takes  bool // the client reads gzip
	status int  // that the handler set; 0: none yet
	begun  bool // the head was sent
	zip    *gzip.Writer
	out    bytes.Buffer // what zip made of one piece
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

// fits reports whether the answer is one to compress if it is large.
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
			// Never an error: the level is one that there is.
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
	_, _ = p.zip.Write(piece) // into memory
	return p.out.Bytes()
}

// FlushError is for http.ResponseController.
func (p *packed) FlushError() error {
	p.start()
	return p.answer.FlushError()
}

// Flush is for those who ask by assertion.
func (p *packed) Flush() { _ = p.FlushError() }

// start sends the head, if it is held, of an answer that stays as it is.
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
