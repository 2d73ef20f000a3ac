package push_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// all are the messages that have come so far, as type and session.
func (r *receiver) all() (list []string) {
	r.t.Helper()
	synctest.Wait()
	for {
		select {
		case m := <-r.got:
			id, _, _ := strings.Cut(m.id(), "-")
			list = append(list, m.kind()+" "+id)
		default:
			return list
		}
	}
}

// ill answers with an error until it is made well.
func ill(r *receiver) *atomic.Bool {
	well := &atomic.Bool{}
	r.answer = func(_ int, w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	}
	return well
}

// outbox are the rows of messages, of a session or of all.
func outbox(t *testing.T, s seam.Store, of parley.SessionID) (n int) {
	t.Helper()
	rows, err := s.Rows(t.Context(), parley.System(), seam.RowQuery{Kind: seam.RowOutbox, Limit: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if of == "" || r.Session == of || strings.Contains(r.ID, string(of)) {
			n++
		}
	}
	return n
}

func sweep(t *testing.T, d *desk) {
	t.Helper()
	if _, err := d.Engine.Sweep(t.Context(), parley.System()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// TestWithRetention: a message that waits while its turn is condensed arrives as it was. One whose session is
// deleted by retention does not arrive, and leaves no row.
func TestWithRetention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		to := newReceiver(t)
		well := ill(to)
		d := newDesk(t, store, asks, enginetest.App(func(a *parley.App) {
			a.TTL = parley.TTL{TurnSteps: parley.Duration(time.Hour), SessionIdle: parley.Duration(30 * time.Hour), Ended: parley.Duration(time.Hour), NoArchive: true}
		}))
		d.webhook(to.url, func(a *parley.AddDevice) { a.Events = []string{"turn.*"} })
		s := d.Session()
		d.Await(d.Send(s.ID, "mail it").ID)
		first := to.next()
		d.advance(3 * time.Hour)
		sweep(t, d)
		if log := d.Log(s.ID); !strings.Contains(enginetest.Types(log), "history.condensed") {
			t.Fatalf("the turn was not condensed: %s", enginetest.Types(log))
		}
		to.all()
		well.Store(true)
		d.advance(12 * time.Hour)
		if got := to.next(); got.id() != first.id() || !bytes.Equal(got.body, first.body) {
			t.Errorf("it arrived as\n%s\nand was\n%s", got.body, first.body)
		}
		if n := outbox(t, store, ""); n != 0 {
			t.Errorf("%d rows are left", n)
		}

		well.Store(false)
		s = d.Session()
		d.Await(d.Send(s.ID, "mail it").ID)
		to.next()
		for range 5 { // expired for being idle, then deleted
			d.advance(10 * time.Hour)
			sweep(t, d)
		}
		if _, err := d.Engine.Session(t.Context(), enginetest.User, s.ID); parley.CodeOf(err) != parley.CodeNotFound {
			t.Fatalf("the session is there: %v", err)
		}
		to.all()
		well.Store(true)
		d.advance(7 * 24 * time.Hour)
		if got := to.all(); len(got) > 0 || outbox(t, store, "") > 0 {
			t.Errorf("of a deleted session came %q; %d rows are left", got, outbox(t, store, ""))
		}
	})
}

// TestWithExpiry: a question that expires in quiet hours is not shown when they end. A program is told of it and of
// its end, in this order.
func TestWithExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		b, program := newBrowser(t), newReceiver(t)
		d := newDesk(t, store, asks, enginetest.App(func(a *parley.App) {
			a.Policy = parley.Policy{AnswerWithin: parley.Duration(time.Hour), Rules: []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}}}
		}))
		if _, err := d.p.Add(t.Context(), enginetest.User, b.subscription()); err != nil {
			t.Fatal(err)
		}
		d.webhook(program.url)
		now := time.Now().UTC()
		quiet := &parley.QuietHours{From: now.Add(-time.Hour).Format("15:04"), To: now.Add(4 * time.Hour).Format("15:04")}
		if _, err := d.p.Wish(t.Context(), enginetest.User, parley.Notify{Waits: true, Quiet: quiet}); err != nil {
			t.Fatal(err)
		}
		s := d.Session()
		d.Send(s.ID, "mail it")
		if got := program.next(); got.kind() != "interaction.opened" {
			t.Errorf("got %s", got.body)
		}
		d.advance(2 * time.Hour)
		got := program.all()
		if len(got) == 0 || !strings.HasPrefix(got[0], "interaction.expired ") {
			t.Errorf("the program was told %q", got)
		}
		d.advance(12 * time.Hour)
		if got := b.all(); len(got) > 0 || outbox(t, store, "") > 0 {
			t.Errorf("the browser got %q; %d rows are left", got, outbox(t, store, ""))
		}
	})
}

// TestWithForks: a fork, an import and a rewind are news for nobody. Each session's own turns are told under its own
// id, and a message of before is sent once.
func TestWithForks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		to := newReceiver(t)
		well := ill(to)
		d := newDesk(t, store, enginetest.Echo, enginetest.App())
		d.webhook(to.url)
		s := d.Session()
		turn := d.Await(d.Send(s.ID, "one").ID)
		if got := to.all(); len(got) != 1 {
			t.Fatalf("got %q", got)
		}
		fork, err := d.Engine.Fork(t.Context(), enginetest.User, s.ID, parley.ForkSession{})
		if err != nil {
			t.Fatal(err)
		}
		imported, err := d.Engine.Import(t.Context(), enginetest.User, d.Exported(s.ID))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Engine.Rewind(t.Context(), enginetest.User, s.ID, parley.RewindSession{Turn: turn.ID}); err != nil {
			t.Fatal(err)
		}
		if n := outbox(t, store, ""); n != 1 {
			t.Errorf("%d messages wait, want that of the turn", n)
		}
		well.Store(true)
		d.advance(time.Hour)
		if got := to.all(); len(got) != 1 || got[0] != "turn.completed "+string(s.ID) {
			t.Errorf("got %q", got)
		}
		for _, id := range []parley.SessionID{s.ID, fork.ID, imported.ID} {
			d.Await(d.Send(id, "two").ID)
			if got := to.all(); len(got) != 1 || got[0] != "turn.completed "+string(id) {
				t.Errorf("of %s came %q", id, got)
			}
		}
		// The one's end is not the other's.
		well.Store(false)
		d.Await(d.Send(s.ID, "three").ID)
		d.advance(time.Second)
		d.Await(d.Send(fork.ID, "three").ID)
		if err := d.Engine.Delete(t.Context(), enginetest.User, s.ID); err != nil {
			t.Fatal(err)
		}
		if a, b := outbox(t, store, s.ID), outbox(t, store, fork.ID); a != 0 || b != 1 {
			t.Errorf("of the deleted session %d rows are left, of its fork %d", a, b)
		}
		to.all()
		well.Store(true)
		d.advance(12 * time.Hour)
		if got := to.all(); len(got) != 1 || got[0] != "turn.completed "+string(fork.ID) {
			t.Errorf("got %q", got)
		}
	})
}

// TestWithDelete: when a session is deleted, nothing about it goes out any more, and no row of it is left, whatever its
// messages were doing.
func TestWithDelete(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(d *desk, b *browser, to *receiver) (deleted func(delete func())){
		"while it is tried again": func(_ *desk, _ *browser, to *receiver) func(func()) {
			ill(to)
			return func(delete func()) { delete() }
		},
		"while it is being sent": func(_ *desk, _ *browser, to *receiver) func(func()) {
			begun, goOn := make(chan bool, 9), make(chan bool)
			to.answer = func(_ int, w http.ResponseWriter, _ *http.Request) {
				begun <- true
				<-goOn
				w.WriteHeader(http.StatusBadGateway)
			}
			return func(delete func()) { <-begun; delete(); close(goOn) }
		},
		"in quiet hours": func(d *desk, _ *browser, _ *receiver) func(func()) {
			now := time.Now().UTC()
			quiet := &parley.QuietHours{From: now.Add(-time.Hour).Format("15:04"), To: now.Add(2 * time.Hour).Format("15:04")}
			if _, err := d.p.Wish(context.Background(), enginetest.User, parley.Notify{Waits: true, Ends: true, Quiet: quiet}); err != nil {
				d.T.Error(err)
			}
			return func(delete func()) { delete() }
		},
		"when it was given up": func(_ *desk, b *browser, to *receiver) func(func()) {
			for _, r := range []*receiver{b.receiver, to} {
				r.answer = func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }
			}
			return func(delete func()) { time.Sleep(6 * 24 * time.Hour); delete() }
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := mem.New()
			b, to := newBrowser(t), newReceiver(t)
			d := newDesk(t, store, asks, enginetest.App(func(a *parley.App) {
				a.Policy = parley.Policy{AnswerWithin: parley.Duration(30 * 24 * time.Hour), Rules: []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}}}
			}))
			if _, err := d.p.Add(t.Context(), enginetest.User, b.subscription()); err != nil {
				t.Fatal(err)
			}
			d.webhook(to.url)
			if _, err := d.p.Wish(t.Context(), enginetest.User, parley.Notify{Waits: true, Ends: true}); err != nil {
				t.Fatal(err)
			}
			deleted := prepare(d, b, to)
			s := d.Session()
			d.Send(s.ID, "mail it") // and its question stays open
			synctest.Wait()
			deleted(func() {
				if outbox(t, store, s.ID) == 0 {
					t.Errorf("%s: nothing waits", name)
				}
				if err := d.Engine.Delete(t.Context(), enginetest.User, s.ID); err != nil {
					t.Fatal(err)
				}
				if n := outbox(t, store, s.ID); n != 0 {
					t.Errorf("%s: %d rows are left", name, n)
				}
			})
			b.all()
			to.all()
			b.answer, to.answer = nil, nil
			d.advance(40 * 24 * time.Hour)
			if n := outbox(t, store, s.ID); n != 0 {
				t.Errorf("%s: %d rows came back", name, n)
			}
			if got := append(b.all(), to.all()...); len(got) > 0 {
				t.Errorf("%s: %q came", name, got)
			}
			d.quiet()
			if strings.Contains(d.log.String(), "level=WARN") {
				t.Errorf("%s: the log has %s", name, d.log.String())
			}
		})
	}
}
