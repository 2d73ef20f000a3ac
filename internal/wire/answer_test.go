package wire_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/wire"
)

// lane is a server in fake time. Its clients read their responses, or do not.
type lane struct {
	budget  *wire.Budget
	bye     chan struct{}
	cut     chan struct{} // gets one for each answer that was cut
	handler func(answer http.ResponseWriter, r *http.Request) error
}

type whoKey struct{}

func newLane(max, each int, h func(http.ResponseWriter, *http.Request) error) *lane {
	return &lane{budget: wire.NewBudget(max, each), bye: make(chan struct{}), cut: make(chan struct{}, 10_000), handler: h}
}

// ask makes a request of p and returns when its handler has.
func (l *lane) ask(ctx context.Context, p parley.Principal, w http.ResponseWriter) (err error) {
	h := wire.BoundedBy(l.budget, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err = l.handler(w, r); err != nil {
			l.cut <- struct{}{}
		}
	}), func(ctx context.Context) parley.Principal { return ctx.Value(whoKey{}).(parley.Principal) })
	h.ServeHTTP(w, httptest.NewRequestWithContext(context.WithValue(ctx, whoKey{}, p), http.MethodGet, "/", nil))
	return err
}

func (l *lane) unread() *unread {
	out := make(chan struct{})
	close(out)
	return &unread{head: http.Header{}, cut: make(chan struct{}), release: out, bye: l.bye}
}

// TestAnswers_that_nobody_reads: unread answers hold no more than their user's share. They do not
// block other users, and make room for answers of the same user that are read.
func TestAnswers_that_nobody_reads(t *testing.T) {
	t.Parallel()
	const size, most, each = 1 << 20, 32 << 20, 8 << 20
	ana, bob := parley.Principal{User: "ana"}, parley.Principal{User: "bob"}
	for name, h := range map[string]func(http.ResponseWriter, *http.Request) error{
		"said before": func(w http.ResponseWriter, r *http.Request) error {
			if err := wire.Reserve(r.Context(), 2*size); err != nil {
				return err
			}
			_, err := w.Write(make([]byte, size))
			return err
		},
		"only written": func(w http.ResponseWriter, _ *http.Request) error {
			_, err := w.Write(make([]byte, size))
			return err
		},
		"more than was said": func(w http.ResponseWriter, r *http.Request) error {
			if err := wire.Reserve(r.Context(), size/2); err != nil {
				return err
			}
			_, err := w.Write(make([]byte, size))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLane(most, each, h)
				var wg sync.WaitGroup
				for range 400 {
					wg.Go(func() { _ = l.ask(t.Context(), ana, l.unread()) })
				}
				synctest.Wait()
				if used := l.budget.Used(); used > 2*each || used == 0 {
					t.Errorf("%d bytes are held for one user", used)
				}
				began := time.Now()
				if err := l.ask(t.Context(), bob, httptest.NewRecorder()); err != nil || time.Since(began) > 0 {
					t.Errorf("another user: %v after %s", err, time.Since(began))
				}
				if err := l.ask(t.Context(), ana, httptest.NewRecorder()); err != nil || time.Since(began) > time.Minute {
					t.Errorf("the same user: %v after %s", err, time.Since(began))
				}
				if used := l.budget.Used(); used > 2*each {
					t.Errorf("%d bytes are held for one user in the end", used)
				}
				if len(l.cut) < 380 {
					t.Errorf("%d answers were cut", len(l.cut))
				}
				close(l.bye)
				wg.Wait()
				if used := l.budget.Used(); used != 0 {
					t.Errorf("%d bytes are held when nobody is left", used)
				}
			})
		})
	}
}

// TestAnswers_that_are_read: answers that are read are never cut, however many there are, and all of
// them arrive.
func TestAnswers_that_are_read(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLane(32<<20, 8<<20, func(w http.ResponseWriter, r *http.Request) error {
			if err := wire.Reserve(r.Context(), 2<<20); err != nil {
				return err
			}
			time.Sleep(time.Second) // a slow store
			_, err := w.Write(make([]byte, 1<<20))
			return err
		})
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				who := parley.Principal{User: fmt.Sprint("user", i%7)}
				if err := l.ask(t.Context(), who, httptest.NewRecorder()); err != nil {
					t.Errorf("%s: %v", who.User, err)
				}
			})
		}
		wg.Wait()
	})
}

// TestWaiting_for_room: a request stops waiting when its client goes, and holds nothing after that.
func TestWaiting_for_room(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		l := newLane(32<<20, 8<<20, func(_ http.ResponseWriter, r *http.Request) error {
			err := wire.Reserve(r.Context(), 8<<20)
			if err == nil {
				<-hold
			}
			return err
		})
		ana := parley.Principal{User: "ana"}
		var wg sync.WaitGroup
		wg.Go(func() { _ = l.ask(t.Context(), ana, httptest.NewRecorder()) })
		synctest.Wait()
		ctx, gone := context.WithCancel(t.Context())
		wg.Go(func() {
			if err := l.ask(ctx, ana, httptest.NewRecorder()); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		gone()
		synctest.Wait()
		close(hold)
		wg.Wait()
		if used := l.budget.Used(); used != 0 {
			t.Errorf("%d bytes are held when nobody is left", used)
		}
	})
}

// TestStreams_that_nobody_reads: unread streams make room for new ones, and the slowest is closed
// first. Streams that are read stay open.
func TestStreams_that_nobody_reads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		open := &wire.Streams{Max: 10, Each: 4}
		l := newLane(32<<20, 32<<20, func(w http.ResponseWriter, r *http.Request) error {
			p := r.Context().Value(whoKey{}).(parley.Principal)
			done, err := open.Open(r.Context(), p)
			if err != nil {
				return err
			}
			defer done()
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return err
			}
			<-r.Context().Done() // keeps the stream open
			return nil
		})
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		ana, bob := parley.Principal{User: "ana"}, parley.Principal{User: "bob"}
		begin := func(p parley.Principal, w http.ResponseWriter) {
			wg.Go(func() { _ = l.ask(ctx, p, w) })
			synctest.Wait()
		}
		for range 4 {
			begin(ana, l.unread())
		}
		begin(ana, l.unread()) // no stream is old enough to be closed
		if len(l.cut) != 1 {
			t.Fatalf("%d are refused", len(l.cut))
		}
		time.Sleep(time.Second)
		for range 4 {
			begin(ana, httptest.NewRecorder())
		}
		if len(l.cut) != 5 {
			t.Errorf("%d are refused or cut, want the 4 that were not read for those that are", len(l.cut))
		}
		time.Sleep(time.Second)
		begin(ana, httptest.NewRecorder())
		if len(l.cut) != 6 {
			t.Errorf("%d: the fifth that is read has to be refused", len(l.cut))
		}
		begin(bob, httptest.NewRecorder())
		if len(l.cut) != 6 {
			t.Error("another user is refused")
		}
		stop()
		wg.Wait()
	})
}
