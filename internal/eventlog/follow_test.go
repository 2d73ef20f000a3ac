package eventlog_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

func TestFollow_replays_then_stays_with_the_live_end(t *testing.T) {
	t.Parallel()
	d := newDesk(t, eventlog.Options{})
	d.append(started("c1"))
	d.say("c1", "Hel")
	d.say("c1", "lo")
	tp := d.follow(0)
	got := tp.until("partial")
	d.say("c1", ", you")
	got = append(got, tp.until("delta")...)
	d.append(replied("c1", "Hello, you"), steered("more"))
	got = append(got, tp.until("4 ")...)
	want := []string{
		"1 session.created", "2 model.started", `partial c1 n=2 "Hello"`, `delta c1 n=3 ", you"`,
		"3 model.replied", "4 turn.steered",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

func TestFollow_refuses_what_is_not_a_cursor_of_this_session(t *testing.T) {
	t.Parallel()
	d := newDesk(t, eventlog.Options{})
	stranger := parley.Principal{User: "eve"}
	for _, tt := range []struct {
		name  string
		p     parley.Principal
		id    parley.SessionID
		after int64
		want  parley.Code
		says  string
	}{
		{"beyond the end", parley.Local, "s1", 2, parley.CodeInvalid, "ends at event 1"},
		{"negative", parley.Local, "s1", -1, parley.CodeInvalid, "negative"},
		{"unknown session", parley.Local, "nope", 0, parley.CodeNotFound, ""},
		{"unknown session with a cursor", parley.Local, "nope", 7, parley.CodeNotFound, ""},
		{"another's session", stranger, "s1", 0, parley.CodeNotFound, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got error
			for _, err := range d.r.Follow(t.Context(), tt.p, tt.id, tt.after) {
				got = err
			}
			if parley.CodeOf(got) != tt.want || !strings.Contains(got.Error(), tt.says) {
				t.Errorf("Follow: got %v, want %s that says %q", got, tt.want, tt.says)
			}
			if _, err := d.r.Read(t.Context(), tt.p, tt.id, tt.after, 0); parley.CodeOf(err) != tt.want {
				t.Errorf("Read: got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestFollow_ends_when_the_session_is_deleted(t *testing.T) {
	t.Parallel()
	d := newDesk(t, eventlog.Options{})
	tp := d.follow(0)
	tp.until("1 ")
	if err := d.store.Delete(t.Context(), parley.Local, d.id); err != nil {
		t.Fatal(err)
	}
	d.w.Forget(d.id)
	if err := <-tp.err; !errors.Is(err, parley.ErrNotFound) || parley.Info(err).Hint == "" {
		t.Errorf("got %v, want not found", err)
	}
}

func TestFollow_ends_when_the_server_stops(t *testing.T) {
	t.Parallel()
	d := newDesk(t, eventlog.Options{})
	tp := d.follow(0)
	tp.until("1 ")
	d.r.Hangup()
	if err := <-tp.err; parley.CodeOf(err) != parley.CodeUnavailable {
		t.Errorf("got %v, want unavailable", err)
	}
	late := d.follow(0)
	late.until("1 ")
	if err := <-late.err; parley.CodeOf(err) != parley.CodeUnavailable {
		t.Errorf("a late follower: got %v, want unavailable", err)
	}
}

func TestPublish_drops_what_belongs_to_no_open_call(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, eventlog.Options{MaxText: 8})
		tp := d.follow(0)
		tp.until("1 ")
		synctest.Wait() // it is live: a follower that is not live yet gets earlier text as a partial
		d.say("c1", "too early")
		d.append(started("c1"))
		d.say("c1", "12345")
		got := tp.until("delta")
		d.say("c1", "6789") // over MaxText
		d.say("c1", "x")
		d.append(replied("c1", "123456789x"))
		d.say("c1", "too late")
		d.append(started("c2"))
		d.say("c2", "last")
		got = append(got, tp.until("delta c2")...)
		want := []string{"2 model.started", `delta c1 n=1 "12345"`, "3 model.replied", "4 model.started", `delta c2 n=1 "last"`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("frames (-want +got):\n%s", diff)
		}
	})
}

func TestPublish_redacts_a_secret_spread_over_tokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, eventlog.Options{}, "hunter2-and-more")
		tp := d.follow(0)
		d.append(started("c1"), started("c2"))
		tp.until("3 ")
		synctest.Wait() // it is live: a follower that is not live yet gets earlier text as a partial
		for _, s := range []string{"it is hun", "ter2-a", "nd-more, yes", " hunt"} {
			d.say("c1", s)
			d.say("c2", s)
		}
		partial, _, ok := d.w.Partial(d.id, "c2")
		if want := "it is [redacted], yes "; !ok || partial != want {
			t.Errorf("Partial: got %q, %v, want %q", partial, ok, want)
		}
		got := d.append(replied("c1", "it is hunter2-and-more, yes hunt"), failed("c2", partial))
		text := map[string]string{}
		for _, f := range tp.collect(5) {
			if f.Delta != nil {
				text[string(f.Delta.Call)] += f.Delta.Text
			}
		}
		// Text that was held back comes before the reply. For a failed call the event has the text
		// that was shown.
		want := map[string]string{"c1": "it is [redacted], yes hunt", "c2": partial}
		if diff := cmp.Diff(want, text); diff != "" {
			t.Errorf("text of calls (-want +got):\n%s", diff)
		}
		p, err := got[0].Payload()
		if err != nil {
			t.Fatal(err)
		}
		if text := parley.PartsText(p.(parley.ModelReplied).Parts); text != "it is [redacted], yes hunt" {
			t.Errorf("the event says %q", text)
		}
	})
}

// TestFollow_that_is_ahead_of_its_hub_keeps_the_order: between a commit and its publication a follower
// can read events from the store that its hub does not know yet.
func TestFollow_that_is_ahead_of_its_hub_keeps_the_order(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, eventlog.Options{})
		hold := make(chan struct{})
		hang := func(events ...parley.Event) *sync.WaitGroup {
			d.store.SetFaults(mem.Faults{After: func(mem.Call) error { <-hold; return nil }})
			var wg sync.WaitGroup
			wg.Go(func() { d.append(events...) })
			synctest.Wait()
			d.store.SetFaults(mem.Faults{})
			return &wg
		}
		var got [2][]string
		var followers sync.WaitGroup
		follow := func(i int, after int64) {
			followers.Go(func() {
				for f, err := range d.r.Follow(t.Context(), parley.Local, d.id, after) {
					if err != nil {
						t.Error(err)
						return
					}
					got[i] = append(got[i], told(f))
					if d.isEnd(f) {
						return
					}
				}
			})
			synctest.Wait()
		}

		wg := hang(started("c1"))
		follow(0, 1) // reads the beginning of the call before the hub knows of it
		hold <- struct{}{}
		wg.Wait()
		d.say("c1", "a")
		synctest.Wait()

		wg = hang(replied("c1", "ab"), started("c2"))
		follow(1, 0) // begins before the turn, and so reads from the store the end of a call that the hub still considers open
		d.say("c1", "b")
		synctest.Wait()
		hold <- struct{}{}
		wg.Wait()
		d.say("c2", "x")
		synctest.Wait()
		d.append(replied("c2", "x"), steered("end"))
		followers.Wait()
		want := [2][]string{
			{"2 model.started", `delta c1 n=1 "a"`, `delta c1 n=2 "b"`, "3 model.replied", "4 model.started", `delta c2 n=1 "x"`, "5 model.replied", "6 turn.steered"},
			{"1 session.created", "2 model.started", "3 model.replied", "4 model.started", `delta c2 n=1 "x"`, "5 model.replied", "6 turn.steered"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("frames (-want +got):\n%s", diff)
		}
	})
}

// awayStore cannot be reached until it is back.
type awayStore struct {
	seam.Store
	back  time.Time
	asked int
}

func (s *awayStore) Session(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.SessionInfo, error) {
	if s.asked++; time.Now().Before(s.back) {
		return parley.SessionInfo{}, parley.Errorf(parley.CodeUnavailable, "away")
	}
	return s.Store.Session(ctx, p, id)
}

// TestAwait: it waits for a store that is away, and no longer; not with a pause that grows without end; and
// it ends with the server and with its reader.
func TestAwait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &awayStore{Store: mem.New(), back: began.Add(time.Minute)}
		_, r := eventlog.New(s, nil, eventlog.Options{})
		err := r.Await(t.Context(), parley.Local, eventlog.Place{Session: "nope"})
		if took := time.Since(began); parley.CodeOf(err) != parley.CodeNotFound || took < time.Minute || took > time.Minute+2*time.Second || s.asked > 40 {
			t.Errorf("got %v after %s and %d attempts", err, took, s.asked)
		}
		s.back = time.Now().Add(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Await(ctx, parley.Local, eventlog.Place{Session: "nope"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		ended := make(chan error)
		go func() { ended <- r.Await(t.Context(), parley.Local, eventlog.Place{Session: "nope"}) }()
		synctest.Wait()
		r.Hangup()
		r.Hangup()
		if err := <-ended; parley.CodeOf(err) != parley.CodeUnavailable || !strings.Contains(err.Error(), "shutting down") {
			t.Error(err)
		}
	})
}
