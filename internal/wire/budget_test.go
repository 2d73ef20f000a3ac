package wire_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/wire"
)

// TestSmallAnswers: a user's small answers do not wait for that user's large ones, and do not cause
// large ones to be cut.
func TestSmallAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const large = 1 << 20
		b := wire.NewBudgets(8*large, 4*large, 128<<10)
		hold := make(chan struct{})
		var held sync.WaitGroup
		ask := func(ctx context.Context, bytes int) error {
			var err error
			wire.BoundedBy(b, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if err = wire.Reserve(r.Context(), bytes); err == nil && bytes == large {
					<-hold
				}
			}), func(context.Context) parley.Principal { return parley.Principal{User: "ana"} }).
				ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			return err
		}
		for range 6 { // four hold all the memory there is, two wait
			held.Go(func() {
				if err := ask(t.Context(), large); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		soon, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := ask(soon, 64<<10); err != nil {
			t.Errorf("a small answer: %v", err)
		}
		if err := ask(soon, 65<<10); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a larger one behind those that are read: %v", err)
		}
		close(hold)
		held.Wait()
		if used := b.Used(); used != 0 {
			t.Errorf("%d bytes are held in the end", used)
		}
	})
}

// TestExportsWait: two exports of a user are under way and a few wait. One more is refused at once,
// and the exports of another user are not.
func TestExportsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := wire.NewProcessBudgets()
		hold := make(chan struct{})
		export := func(user string) (err error) {
			wire.BoundedBy(b, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if err = wire.ReserveExport(r.Context(), 1<<20); err == nil && user == "ana" {
					<-hold
				}
			}), func(context.Context) parley.Principal { return parley.Principal{User: user} }).
				ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			return err
		}
		var exports sync.WaitGroup
		for range 2 + wire.ExportsWaiting {
			exports.Go(func() {
				if err := export("ana"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		exports.Go(func() {
			if err := export("ana"); !errors.Is(err, wire.ErrFull) {
				t.Errorf("one more: got %v, want ErrFull", err)
			}
		})
		if err := export("bob"); err != nil {
			t.Errorf("another user's: %v", err)
		}
		synctest.Wait()
		close(hold)
		exports.Wait()
		if err := export("ana"); err != nil {
			t.Errorf("later: %v", err)
		}
	})
}

// TestBudget: clients that do not read stay as long as there is room for them in the budget. The
// others are cut. Meanwhile a client that reads gets everything.
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
