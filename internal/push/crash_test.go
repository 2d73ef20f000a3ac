package push_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/push"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// mortal is a store that is cut off at a write.
type mortal struct {
	seam.Store
	writes atomic.Int64
	at     int64 // the write, from 1; 0: none
	after  bool  // it took place
	dead   atomic.Bool
	died   chan struct{}
	once   sync.Once
}

var errDead = errors.New("the process is gone")

func (m *mortal) die() error {
	m.dead.Store(true)
	m.once.Do(func() { close(m.died) })
	return errDead
}

func (m *mortal) do(write func() error) error {
	n := m.writes.Add(1)
	if m.dead.Load() || n == m.at && !m.after {
		return m.die()
	}
	err := write()
	if n == m.at {
		return m.die()
	}
	return err
}

func (m *mortal) Append(ctx context.Context, p parley.Principal, b seam.Batch) error {
	return m.do(func() error { return m.Store.Append(ctx, p, b) })
}

func (m *mortal) PutRow(ctx context.Context, p parley.Principal, r seam.Row) (v int64, err error) {
	err = m.do(func() (err error) { v, err = m.Store.PutRow(ctx, p, r); return err })
	return v, err
}

func (m *mortal) DropRow(ctx context.Context, p parley.Principal, n seam.RowName, v int64) error {
	return m.do(func() error { return m.Store.DropRow(ctx, p, n, v) })
}

// TestCrashAtEveryPoint: the process dies before or after each write, of an append, of an attempt
// and of its end. After the next start the receiver has a message of each event that was
// committed, and of no other. One comes twice only with the same id.
func TestCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	var total int64
	synctest.Test(t, func(t *testing.T) { total = crashAt(t, 0, false) })
	if total < 10 {
		t.Fatalf("there are only %d writes", total)
	}
	for at := int64(1); at <= total; at++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d after %v", at, after), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { crashAt(t, at, after) })
			})
		}
	}
}

func crashAt(t *testing.T, at int64, after bool) (writes int64) {
	to := newReceiver(t)
	disk := mem.New()
	first, err := push.Open(t.Context(), disk, options(push.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Add(t.Context(), enginetest.User, parley.AddDevice{Kind: parley.DeviceWebhook, URL: to.url}); err != nil {
		t.Fatal(err)
	}
	service := &enginetest.Service{}
	var session parley.SessionID
	live := func(m *mortal, drive func(r *enginetest.Rig) error) {
		p, err := push.Open(t.Context(), m, options(push.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		app := asking()
		app.Resume = parley.ResumeAuto
		r := enginetest.Over(t, p.Store(m), service, asks, app, func(o *engine.Options) { o.NothingRuns = true })
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var hands sync.WaitGroup
		hands.Go(func() { p.Run(ctx) })
		done := make(chan error, 1)
		go func() { done <- drive(r) }()
		select {
		case err := <-done:
			if err != nil && !m.dead.Load() {
				t.Error(err)
			}
		case <-m.died:
		case <-time.After(time.Minute):
			t.Error("it hangs")
		}
		synctest.Wait() // what is due is sent
		stop()
		hands.Wait()
		m.dead.Store(true)
		r.Kill()
	}
	drive := func(r *enginetest.Rig) error {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		if _, err := r.Engine.Recover(ctx); err != nil {
			return err
		}
		if list, err := r.Store.Sessions(ctx, enginetest.User, seam.SessionQuery{}); err != nil || len(list) > 0 {
			if err != nil {
				return err
			}
			session = list[0].ID
		} else {
			made, _, err := r.Engine.Create(ctx, enginetest.User, parley.CreateSession{App: "test", Key: "make"})
			if err != nil {
				return err
			}
			session = made.ID
		}
		turn, err := r.Engine.Send(ctx, enginetest.User, session, parley.Send{Message: "mail it", Key: "send"})
		if err != nil {
			return err
		}
		for {
			now, err := r.Engine.Await(ctx, enginetest.User, turn.ID, time.Second)
			switch {
			case err != nil:
				return err
			case now.Status.Ended():
				return nil
			case now.Status == parley.StatusInterrupted && !now.Resumes:
				if _, err := r.Engine.Resume(ctx, enginetest.User, turn.ID); err != nil {
					return err
				}
			}
			for _, in := range now.Interactions {
				row, err := r.Engine.Interaction(ctx, enginetest.User, in)
				if err != nil {
					return err
				}
				if _, err := r.Engine.Answer(ctx, enginetest.User, in, parley.AnswerInteraction{Answer: parley.Answer{Choice: row.Choices[0]}}); err != nil && parley.CodeOf(err) != parley.CodeConflict {
					return err
				}
			}
		}
	}
	m := &mortal{Store: disk, at: at, after: after, died: make(chan struct{})}
	live(m, drive)
	writes = m.writes.Load()
	if at > 0 {
		time.Sleep(time.Minute) // what was under way when the process died counts as claimed for so long
		live(&mortal{Store: disk, died: make(chan struct{})}, drive)
	}
	got := map[string]string{} // by id
	close(to.got)
	for r := range to.got {
		if kind := got[r.id()]; kind != "" && kind != r.kind() {
			t.Errorf("%s is %s and %s", r.id(), kind, r.kind())
		}
		got[r.id()] = r.kind()
	}
	log, err := disk.Read(t.Context(), enginetest.User, session, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, ev := range log {
		switch ev.Type {
		case "turn.interrupted":
			var p struct{ Resumes bool }
			if json.Unmarshal(ev.Data, &p) == nil && p.Resumes {
				continue
			}
		case "interaction.opened", "interaction.answered", "interaction.expired", "turn.completed", "turn.failed", "turn.cancelled":
		default:
			continue
		}
		want[fmt.Sprintf("%s-%d", session, ev.Seq)] = string(ev.Type)
	}
	for id, kind := range want {
		if got[id] != kind {
			t.Errorf("of %s, %s, came %q", id, kind, got[id])
		}
	}
	for id, kind := range got {
		if want[id] == "" {
			t.Errorf("%s, %s, is not in the log", id, kind)
		}
	}
	if len(want) < 3 {
		t.Errorf("the log has only %v", want)
	}
	return writes
}
