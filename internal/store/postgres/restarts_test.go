//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
)

// hold stops streams and mails in the middle until an outage is over.
type hold struct {
	mu   sync.Mutex
	over chan struct{} // closed when the next outage is over; nil: there is no other outage
	held atomic.Int64
}

func (h *hold) wait(ctx context.Context) error {
	h.mu.Lock()
	over := h.over
	h.mu.Unlock()
	if over == nil {
		return nil
	}
	h.held.Add(1)
	defer h.held.Add(-1)
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// letGo ends an outage. If another is true, another outage can follow.
func (h *hold) letGo(another bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.over)
	if h.over = nil; another {
		h.over = make(chan struct{})
	}
}

// TestEngineDuringRestartsOfPostgres: PostgreSQL is killed and started again three times while
// a hundred sessions stream and send mails, some of them in the middle each time. No turn fails
// or is interrupted, each mail is sent once, and a reader that reconnects with the number of
// its last event misses nothing and gets nothing twice.
func TestEngineDuringRestartsOfPostgres(t *testing.T) {
	t.Parallel()
	// What an outage needs on a busy machine counts for whoever waits in the middle of one: none of them
	// has a limit of its own.
	const whole = 15 * time.Minute
	ctx, cancel := context.WithTimeout(context.Background(), whole)
	defer cancel()
	const hands, each, rounds = 100, 6, 3
	streams, mails := hold{over: make(chan struct{})}, hold{over: make(chan struct{})}
	// In one session of ten, a stream spans the outages; in another one of ten, a mail does.
	is := func(text string, kind int) bool {
		var hand, i int
		_, err := fmt.Sscanf(text, "mail %d %d", &hand, &i)
		return err == nil && hand%10 == kind
	}
	model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		res := enginetest.Results(r)
		if len(res) == 0 {
			return seam.Reply{Parts: []parley.Part{enginetest.Call("mail", map[string]string{"text": enginetest.Last(r)})}}, nil
		}
		for i, word := range strings.SplitAfter("done: "+res[len(res)-1], " ") {
			if say(word); i == 1 && is(enginetest.Last(r), 0) {
				if err := streams.wait(ctx); err != nil {
					return seam.Reply{}, err
				}
			}
		}
		return seam.Reply{}, nil
	}
	cluster := pgtest.New(t)
	service := &mailCounter{Service: &enginetest.Service{}, sent: map[string]int{}}
	service.SetGate(func(ctx context.Context, r seam.Run) error {
		if err := service.count(ctx, r); err != nil || !is(strings.TrimPrefix(string(r.Input), `{"text":"`), 1) {
			return err
		}
		return mails.wait(ctx)
	})
	r := enginetest.Over(t, open(t, cluster.Database(t)), service.Service, model, enginetest.App(func(a *parley.App) {
		for i := range a.Tools {
			a.Tools[i].Timeout = parley.Duration(whole) // what counts is the app's, for calls that wait for the store, too
		}
	}))
	defer r.Close()
	var ended, refused atomic.Int64
	var all sync.WaitGroup
	ids := make([]parley.SessionID, hands)
	for hand := range hands {
		all.Go(func() {
			create := parley.CreateSession{App: "test", OutsideID: fmt.Sprint("hand", hand)}
			s, _, err := r.Engine.Create(ctx, enginetest.User, create)
			for err != nil && ctx.Err() == nil {
				<-time.After(5 * time.Millisecond)
				s, _, err = r.Engine.Create(ctx, enginetest.User, create)
			}
			ids[hand] = s.ID
			all.Go(func() { refused.Add(follows(ctx, t, r, s.ID, each)) })
			for i := range each {
				text := fmt.Sprint("mail ", hand, " ", i)
				turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: text, Key: text})
				for err != nil && ctx.Err() == nil {
					<-time.After(5 * time.Millisecond)
					turn, err = r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: text, Key: text})
				}
				var got parley.TurnInfo
				for err == nil && !got.Status.Ended() && got.Status != parley.StatusWaiting && got.Status != parley.StatusInterrupted {
					got, err = r.Engine.Await(ctx, enginetest.User, turn.ID, time.Minute)
				}
				ended.Add(1)
				if err != nil || got.Status != parley.StatusCompleted || got.Attempts != 0 || got.Response.Message != "done: mailed "+text {
					t.Errorf("%s: got %+v, %+v, %v", text, got, got.Error, err)
				}
			}
		})
	}
	for round := range rounds {
		await(&ended, int64((round+1)*hands))
		becomes(t, "streaming and sending mails", func() bool { return streams.held.Load() == hands/10 && mails.held.Load() == hands/10 })
		cluster.Kill(t)
		becomes(t, "not ready", func() bool { return r.Engine.Ready(ctx) != nil })
		if round == 1 { // streams and mails must wait now
			streams.letGo(true)
			mails.letGo(true)
		}
		cluster.Restart(t)
		becomes(t, "ready again", func() bool { return r.Engine.Ready(ctx) == nil })
		if round != 1 {
			streams.letGo(round < rounds-1)
			mails.letGo(round < rounds-1)
		}
	}
	all.Wait()
	service.mu.Lock()
	defer service.mu.Unlock()
	for _, id := range ids {
		service.agrees(t, sound(t, r, id))
	}
	for text, n := range service.sent {
		if n != 1 {
			t.Errorf("%s was sent %d times", text, n)
		}
	}
	if len(service.sent) != hands*each {
		t.Errorf("got %d mails of %d turns", len(service.sent), hands*each)
	}
	t.Logf("%d turns; those who followed were refused %d times", ended.Load(), refused.Load())
}

// follows reads a session live until a number of turns have ended. It disconnects after a few
// frames, or when the server has no more, and reconnects with the number of its last event. It
// checks what it reads, and returns how often it was refused.
func follows(ctx context.Context, t *testing.T, r *enginetest.Rig, id parley.SessionID, turns int) (refused int64) {
	var last int64
	shown := map[parley.CallID]string{} // text of open calls
	for few := 1; turns > 0 && ctx.Err() == nil; few = few%9 + 1 {
		frames := 0
		for f, err := range r.Reader.Follow(ctx, enginetest.User, id, last) {
			switch {
			case err != nil && !errors.Is(err, &parley.Error{Code: parley.CodeUnavailable}):
				t.Errorf("session %s: %v", id, err)
				return refused
			case err != nil:
				refused++
				<-time.After(5 * time.Millisecond)
			case f.Reset != nil:
				if f.Reset.After != last {
					t.Errorf("session %s: goes on after %d instead of %d", id, f.Reset.After, last)
				}
			case f.Event != nil:
				if f.Event.Seq != last+1 {
					t.Errorf("session %s: event %d follows %d", id, f.Event.Seq, last)
				}
				last = f.Event.Seq
				p, err := f.Event.Payload()
				must(t, err)
				switch p := p.(type) {
				case parley.ModelStarted:
					shown[p.Call] = ""
				case parley.ModelReplied:
					if text := parley.PartsText(p.Parts); !strings.HasPrefix(text, shown[p.Call]) {
						t.Errorf("session %s: %q was shown of %q", id, shown[p.Call], text)
					}
					delete(shown, p.Call)
				case parley.TurnCompleted, parley.TurnFailed, parley.TurnCancelled:
					turns--
				}
			case f.Delta != nil:
				was, open := shown[f.Delta.Call]
				if !open && f.Delta.Kind == parley.DeltaText {
					t.Errorf("session %s: text of a call that is not open", id)
				}
				if f.Partial {
					was = ""
				}
				if f.Delta.Kind == parley.DeltaText {
					shown[f.Delta.Call] = was + f.Delta.Text
				}
			}
			if frames++; turns == 0 || frames == few {
				break
			}
		}
	}
	return refused
}

// TestEngineCrashWhileStepsAreCondensed is the test of all stores with only some of its
// crashes, because each crash needs its own database.
func TestEngineCrashWhileStepsAreCondensed(t *testing.T) {
	t.Parallel()
	enginetest.CrashRetention(t, 4, func(t *testing.T) func() seam.Store {
		dsn := pgtest.Start(t)
		return func() seam.Store { return open(t, dsn) }
	})
}
