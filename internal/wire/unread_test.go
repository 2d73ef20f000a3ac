package wire_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/wire"
)

// TestUnread: streams that may hold nothing more wait before they read the log, so they wait without
// holding a page. The bytes held are counted in the store that the streams read from.
func TestUnread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const (
			clients = 100
			size    = 400 << 10 // size of an event
			stay    = 3
			room    = 2*size + 100<<10 // for a stream that waits in the middle of an event
			reading = 8                // pages that the log may be reading
		)
		o := wire.Within(wire.Options{WriteWithin: time.Hour, Heartbeat: -1, Accepted: true}, stay*room)
		store := &counting{Store: mem.New()}
		h := &house{t: t, seq: map[parley.SessionID]int64{}}
		h.w, h.r = eventlog.New(store, nil, eventlog.Options{})
		h.open("s1")
		for range 3 {
			h.append(steered(strings.Repeat("x", size)))
		}
		ctx, stop := context.WithCancel(t.Context())
		release := make(chan struct{}) // streams that were cut do not end before this is closed
		bye := make(chan struct{})     // closed when the clients leave
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				ctx, end := store.stream(ctx)
				defer end()
				w := &unread{head: http.Header{}, cut: make(chan struct{}), release: release, bye: bye}
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
				if err := wire.ServeSSE(w, r, h.r.Follow(ctx, parley.Local, "s1", 1), o); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got, most := store.bytes(), (stay+reading)*(size+1<<10); got > most {
			t.Errorf("%d streams hold %d bytes of the log, want at most %d", clients, got, most)
		}
		close(release)
		time.Sleep(time.Minute) // streams that were cut make room until the others have read
		synctest.Wait()
		if got, most := store.bytes(), stay*(size+1<<10); got > most || got == 0 {
			t.Errorf("%d bytes of the log are held in the end, want those of %d streams", got, stay)
		}
		if used := o.Used(); used == 0 || used > stay*room {
			t.Errorf("%d bytes are counted, want at most %d", used, stay*room)
		}
		stop()
		h.r.Hangup()
		close(bye)
		wg.Wait()
		if used := o.Used(); used != 0 {
			t.Errorf("%d bytes are counted when no stream is left", used)
		}
		if err := h.w.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// unread is the response of a client that reads nothing.
type unread struct {
	head         http.Header
	once         sync.Once
	cut          chan struct{}
	release, bye <-chan struct{}
}

func (u *unread) Header() http.Header { return u.head }
func (u *unread) WriteHeader(int)     {}
func (u *unread) FlushError() error   { return nil }

func (u *unread) SetWriteDeadline(at time.Time) error {
	if at.Before(time.Now()) {
		u.once.Do(func() { close(u.cut) })
	}
	return nil
}

func (u *unread) Write(b []byte) (int, error) {
	if len(b) < 4<<10 {
		return len(b), nil // it fits in the system's buffer
	}
	select {
	case <-u.cut:
		<-u.release
	case <-u.bye:
	}
	return 0, os.ErrDeadlineExceeded
}

// counting is a store that counts the bytes that streams have read and still hold. A stream releases
// its page when it reads the next one or ends.
type counting struct {
	seam.Store
	mu   sync.Mutex
	held int
}

type heldKey struct{}

func (c *counting) stream(ctx context.Context) (context.Context, func()) {
	held := new(int)
	return context.WithValue(ctx, heldKey{}, held), func() { c.hold(held, 0) }
}

func (c *counting) Read(ctx context.Context, p parley.Principal, id parley.SessionID, after int64, limit int) ([]parley.Event, error) {
	held, _ := ctx.Value(heldKey{}).(*int)
	c.hold(held, 0)
	events, err := c.Store.Read(ctx, p, id, after, limit)
	size := 0
	for _, e := range events {
		size += len(e.Data)
	}
	c.hold(held, size)
	return events, err
}

func (c *counting) hold(held *int, size int) {
	if held == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held += size - *held
	*held = size
}

func (c *counting) bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}
