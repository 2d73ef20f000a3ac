package wire_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/wire"
)

// BenchmarkRelay measures one token from Publish to a client's socket. First it waits for each token,
// as if tokens came far apart; then it sends them as fast as possible.
func BenchmarkRelay(b *testing.B) {
	for _, paced := range []bool{true, false} {
		b.Run(fmt.Sprintf("paced=%v", paced), func(b *testing.B) {
			h := newHouse(b, wire.Options{})
			h.append(started("c1"))
			ctx, stop := context.WithCancel(context.Background())
			resp := h.get(ctx, "/one?session=s1", "")
			buf := make([]byte, 64<<10)
			if _, err := io.ReadAtLeast(resp.Body, buf, 400); err != nil { // both events
				b.Fatal(err)
			}
			var wg sync.WaitGroup
			if !paced {
				wg.Go(func() { _, _ = io.Copy(io.Discard, resp.Body) })
			}
			b.ReportAllocs()
			for b.Loop() {
				h.say("c1", "token ")
				if paced {
					if _, err := resp.Body.Read(buf); err != nil {
						b.Fatal(err)
					}
				}
			}
			stop()
			resp.Body.Close()
			wg.Wait()
		})
	}
}

// BenchmarkEncode measures the work per token without a socket.
func BenchmarkEncode(b *testing.B) {
	f := eventlog.Frame{Delta: &parley.Delta{Session: "01JDZ0000000000000000000S1", Turn: turn, Agent: "lead", Call: "01JDZ0000000000000000000C1", Text: "token "}}
	r := httptest.NewRequest("GET", "/", nil)
	b.ReportAllocs()
	b.ResetTimer()
	err := wire.ServeSSE(&null{head: http.Header{}}, r, func(yield func(eventlog.Frame, error) bool) {
		for range b.N {
			yield(f, nil)
		}
	}, wire.Options{})
	if err != nil {
		b.Error(err)
	}
}

type null struct{ head http.Header }

func (n *null) Header() http.Header         { return n.head }
func (n *null) WriteHeader(int)             {}
func (n *null) Flush()                      {}
func (n *null) Write(b []byte) (int, error) { return len(b), nil }
