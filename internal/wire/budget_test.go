package wire_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley/internal/wire"
)

// TestBudget: as many clients that do not read stay as fit in the budget. The others are cut.
// Meanwhile a client that reads gets everything.
func TestBudget(t *testing.T) {
	t.Parallel()
	const (
		clients, size = 8, 400 << 10 // size of an event
		stay          = 3
		room          = 2*size + 100<<10 // for a client that is cut in the middle of an event
	)
	o := wire.Within(wire.Options{WriteWithin: time.Hour, Until: wire.EndOf(turn, 0)}, stay*room)
	h := newHouse(t, o)
	for range 40 { // more than the system's buffers between server and client
		h.append(steered(strings.Repeat("x", size)))
	}
	h.append(completed())
	deaf := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil {
			err = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		}
		return c, err
	}}
	defer deaf.CloseIdleConnections()
	var streams []*http.Response
	for range clients {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/one?session=s1", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := deaf.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		streams = append(streams, resp)
	}
	for range clients - stay {
		<-h.ended
	}
	if used := o.Used(); used > stay*room {
		t.Errorf("%d bytes are held, more than there are", used)
	}
	events := 0
	body := bufio.NewScanner(strings.NewReader(h.body("/one?session=s1")))
	body.Buffer(nil, 1<<20)
	for body.Scan() {
		if strings.HasPrefix(body.Text(), "id: ") {
			events++
		}
	}
	if events != 42 {
		t.Errorf("one that reads got %d events, want 42", events)
	}
	for _, s := range streams {
		_ = s.Body.Close()
	}
}
