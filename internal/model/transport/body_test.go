package transport_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/model/transport"
)

// answering is a transport whose responses have the body.
type answering struct{ body io.ReadCloser }

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: a.body, Request: r}, nil
}

// noted is a body that records whether it was read to its end.
type noted struct {
	io.Reader
	end    bool
	closed chan struct{}
}

func (n *noted) Read(p []byte) (int, error) {
	got, err := n.Reader.Read(p)
	n.end = n.end || err == io.EOF
	return got, err
}

func (n *noted) Close() error {
	select {
	case <-n.closed:
	default:
		close(n.closed)
	}
	return nil
}

// silent returns nothing until it is closed.
type silent chan struct{}

func (s silent) Read([]byte) (int, error) { <-s; return 0, io.ErrClosedPipe }

// TestClose_reads_a_short_rest: a stream's last event may come before the end of its body. On
// Close, a short rest is read, so that the connection can be used again. A body that goes on is
// not read.
func TestClose_reads_a_short_rest(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	for name, c := range map[string]struct {
		body *noted
		end  bool
	}{
		"a rest":         {&noted{Reader: strings.NewReader("data: [DONE]\n\n: rest\n\n"), closed: make(chan struct{})}, true},
		"a long one":     {&noted{Reader: strings.NewReader(strings.Repeat("data: x\n\n", 10_000)), closed: make(chan struct{})}, false},
		"one that hangs": {&noted{Reader: silent(closed), closed: closed}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := transport.Provider{Name: "Test"}
			resp, err := p.Get(t.Context(), &http.Client{Transport: answering{c.body}}, "http://provider.invalid", nil)
			if err != nil {
				t.Fatal(err)
			}
			if name != "one that hangs" {
				if _, err := io.ReadFull(resp.Body, make([]byte, 5)); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := resp.Body.Close(); err != nil {
					t.Error(err)
				}
			}
			<-c.body.closed
			if c.body.end != c.end {
				t.Errorf("it was read to its end: %v, want %v", c.body.end, c.end)
			}
		})
	}
}
