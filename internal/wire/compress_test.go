package wire_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/wire"
)

// yes reports whether a client accepts gzip.
func yes(r *http.Request) bool { return r.Header.Get("Accept-Encoding") == "gzip" }

// compressing wraps h as the binary wraps its doors.
func compressing(h http.HandlerFunc) http.Handler {
	return wire.BoundedBy(wire.NewBudget(32<<20, 8<<20), wire.Compressed(h, yes), func(context.Context) parley.Principal { return parley.Local })
}

// ask returns the response as it was sent over a connection.
func ask(t *testing.T, srv *httptest.Server, method, accept string) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", accept) // because it is set, the client does not decompress the response
	resp, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

func unzip(t *testing.T, body []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	z.Multistream(false)
	out, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// items is JSON of about size bytes in which no two items are equal.
func items(size int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(size))) //nolint:gosec // text for a test
	b := []byte("[")
	for len(b) < size {
		b = fmt.Appendf(b, `{"seq":%d,"type":"tool.ended","data":{"text":"%016x"}},`, len(b), r.Uint64())
	}
	return append(b, `{}]`...)
}

// TestCompressed checks which answers are sent as gzip, and that their text is unchanged.
func TestCompressed(t *testing.T) {
	t.Parallel()
	const json = "application/json"
	small, page, large := items(500), items(20<<10), items(3<<20)
	send := func(status int, body []byte, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			_, _ = w.Write(body)
		}
	}
	pieces := func(flush bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", json)
			for rest := large; len(rest) > 0; {
				n := min(len(rest), 33_333)
				_, _ = w.Write(rest[:n])
				if rest = rest[n:]; flush {
					_ = http.NewResponseController(w).Flush()
				}
			}
		}
	}
	for name, c := range map[string]struct {
		h        http.HandlerFunc
		body     []byte
		zip, may bool // zip: it is compressed; may: it would be for another client, or if it were larger
	}{
		"a page":                  {send(200, page, "Content-Type", json), page, true, true},
		"with its length":         {send(200, page, "Content-Type", json, "Content-Length", fmt.Sprint(len(page))), page, true, true},
		"what was made":           {send(201, page, "Content-Type", json+"; charset=utf-8"), page, true, true},
		"the documentation":       {send(200, page, "Content-Type", "text/html; charset=utf-8"), page, true, true},
		"a large one":             {send(200, large, "Content-Type", json), large, true, true},
		"in pieces":               {pieces(false), large, true, true},
		"while it is read":        {pieces(true), large, true, true},
		"a small one":             {send(200, small, "Content-Type", json), small, false, true},
		"nothing":                 {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", json) }, nil, false, false},
		"a stream":                {send(200, page, "Content-Type", "text/event-stream"), page, false, false},
		"lines":                   {send(200, page, "Content-Type", "application/x-ndjson"), page, false, false},
		"an export":               {send(200, page, "Content-Type", "application/zip"), page, false, false},
		"metrics":                 {send(200, page, "Content-Type", "text/plain; version=0.0.4"), page, false, false},
		"an artifact":             {send(200, page, "Content-Type", json, "ETag", `"x"`), page, false, false},
		"a refusal":               {send(400, page, "Content-Type", json), page, false, false},
		"compressed by its maker": {send(200, page, "Content-Type", json, "Content-Encoding", "br"), page, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(compressing(c.h))
			t.Cleanup(srv.Close)
			plain, body := ask(t, srv, http.MethodGet, "identity")
			if !bytes.Equal(body, c.body) {
				t.Errorf("without gzip: got %d bytes, want %d", len(body), len(c.body))
			}
			zipped, body := ask(t, srv, http.MethodGet, "gzip")
			if got := zipped.Header.Get("Content-Encoding") == "gzip"; got != c.zip {
				t.Fatalf("compressed: got %v, want %v", got, c.zip)
			}
			if c.zip {
				if len(body) > len(c.body)*2/3 {
					t.Errorf("%d bytes became %d", len(c.body), len(body))
				}
				body = unzip(t, body)
			}
			if !bytes.Equal(body, c.body) {
				t.Errorf("got %d other bytes, want the %d of the handler", len(body), len(c.body))
			}
			if zipped.StatusCode != plain.StatusCode {
				t.Errorf("got the status %d, and %d without gzip", zipped.StatusCode, plain.StatusCode)
			}
			for _, resp := range []*http.Response{plain, zipped} {
				if got := strings.Contains(resp.Header.Get("Vary"), "Accept-Encoding"); got != c.may {
					t.Errorf("says that the encoding varies: got %v, want %v", got, c.may)
				}
			}
			head, _ := ask(t, srv, http.MethodHead, "gzip")
			if got, want := head.Header.Get("Content-Encoding"), zipped.Header.Get("Content-Encoding"); got != want || head.StatusCode != zipped.StatusCode {
				t.Errorf("HEAD: got %d, encoding %q, want as GET: %d, %q", head.StatusCode, got, zipped.StatusCode, want)
			}
		})
	}
}

// TestCompressed_breaks_off: an answer that its handler aborts does not look complete.
func TestCompressed_breaks_off(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(compressing(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(items(20 << 10))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(srv.Close)
	resp, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("got %d bytes as if they were all", len(body))
	}
}

// TestCompressed_that_nobody_reads: answers are counted by the bytes that their handlers hold. Answers
// that wait for their clients are cut to make room for others, also if they are written in small pieces.
func TestCompressed_that_nobody_reads(t *testing.T) {
	t.Parallel()
	const size, each = 1 << 20, 8 << 20
	large := items(size)
	ana := parley.Principal{User: "ana"}
	for name, write := range map[string]func(w http.ResponseWriter, r *http.Request) error{
		"written": func(w http.ResponseWriter, _ *http.Request) error {
			_, err := w.Write(large)
			return err
		},
		"reserved, in small pieces": func(w http.ResponseWriter, r *http.Request) error {
			if err := wire.Reserve(r.Context(), 2*size); err != nil {
				return err
			}
			for rest := large; len(rest) > 0; {
				n := min(len(rest), 3<<10)
				if _, err := w.Write(rest[:n]); err != nil {
					return err
				}
				rest = rest[n:]
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLane(4*each, each, func(w http.ResponseWriter, r *http.Request) (err error) {
					wire.Compressed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						w.Header().Set("Content-Type", "application/json")
						err = write(w, r)
					}), func(*http.Request) bool { return true }).ServeHTTP(w, r)
					return err
				})
				var wg sync.WaitGroup
				for range 100 {
					wg.Go(func() { _ = l.ask(t.Context(), ana, &full{l.unread()}) })
				}
				synctest.Wait()
				if used := l.budget.Used(); used > 2*each || used < size {
					t.Errorf("%d bytes are counted for one user", used)
				}
				w := httptest.NewRecorder()
				if err := l.ask(t.Context(), ana, w); err != nil || !bytes.Equal(unzip(t, w.Body.Bytes()), large) {
					t.Errorf("one that is read: %v, %d bytes", err, w.Body.Len())
				}
				close(l.bye)
				wg.Wait()
				if used := l.budget.Used(); used != 0 {
					t.Errorf("%d bytes are counted when nobody is left", used)
				}
			})
		})
	}
}

// full is the response of a client that reads nothing. Its connection has no room even for small
// writes.
type full struct{ *unread }

func (f *full) Write([]byte) (int, error) { return f.unread.Write(make([]byte, 4<<10)) }
