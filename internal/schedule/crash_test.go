package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/schedule"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/store/postgres"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
	"github.com/parley-server/parley/internal/store/sqlite"
)

// mortal is a store that is cut off at a write.
type mortal struct {
	seam.Store
	writes atomic.Int64
	at     int64 // the write, from 1; 0: none
	after  bool  // it took place
	dead   atomic.Bool
}

var errDead = errors.New("the process is gone")

func (m *mortal) do(write func() error) error {
	n := m.writes.Add(1)
	if m.dead.Load() || n == m.at && !m.after {
		m.dead.Store(true)
		return errDead
	}
	err := write()
	if n == m.at {
		m.dead.Store(true)
		return errDead
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

func (m *mortal) Delete(ctx context.Context, p parley.Principal, id parley.SessionID) error {
	return m.do(func() error { return m.Store.Delete(ctx, p, id) })
}

// TestCrashAtEveryPoint: the server dies before or after each write that a run takes: the claim, the
// session, the message, the turn, the note. After the next start each time has had exactly one turn.
func TestCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, session := range []parley.ScheduleSession{parley.ScheduleNew, parley.ScheduleSame} {
		total := crashAt(t, session, 0, false)
		if total < 10 {
			t.Fatalf("there are only %d writes", total)
		}
		for at := int64(1); at <= total; at++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %d after %v", session, at, after), func(t *testing.T) {
					t.Parallel()
					crashAt(t, session, at, after)
				})
			}
		}
	}
}

func crashAt(t *testing.T, session parley.ScheduleSession, at int64, after bool) (writes int64) {
	synctest.Test(t, func(t *testing.T) {
		disk := mem.New()
		app := enginetest.App(func(a *parley.App) { a.Resume = parley.ResumeAuto })
		live := func(m *mortal, d time.Duration, do func(d *desk)) {
			r := open(t, m, enginetest.Echo, app, func(o *engine.Options) { o.NothingRuns = true })
			if _, err := r.Engine.Recover(t.Context()); err != nil && !m.dead.Load() {
				t.Error(err)
			}
			if do != nil {
				do(r)
			}
			for range int(d / time.Minute) {
				if m.dead.Load() {
					break
				}
				time.Sleep(time.Minute)
			}
			synctest.Wait()
			r.stop()
			if m.dead.Load() {
				r.Kill()
				return
			}
			r.Rig.Close()
		}
		var s parley.Schedule
		live(&mortal{Store: disk}, 0, func(d *desk) { s = d.add(parley.ScheduleSpec{Cron: "0 * * * *", Session: session}) })
		m := &mortal{Store: disk, at: at, after: after}
		live(m, 130*time.Minute, nil)
		writes = m.writes.Load()
		live(&mortal{Store: disk}, time.Until(time.Date(2000, 1, 1, 4, 30, 0, 0, time.UTC)), func(*desk) {})

		d := open(t, disk, enginetest.Echo, app)
		defer d.close()
		d.same("runs", d.runs(s.ID), "1 01:00 begun completed, 1 02:00 begun completed, 1 03:00 begun completed, 1 04:00 begun completed")
		sessions, err := d.Engine.Sessions(t.Context(), enginetest.User, seam.SessionQuery{})
		if err != nil {
			t.Fatal(err)
		}
		want, turns := 4, 0
		if session == parley.ScheduleSame {
			want = 1
		}
		for _, one := range sessions {
			turns += one.Totals.Turns
			if err := enginetest.CheckLog(d.Log(one.ID)); err != nil {
				t.Error(err)
			}
		}
		if len(sessions) != want || turns != 4 {
			t.Errorf("%d sessions with %d turns, want %d with 4", len(sessions), turns, want)
		}
	})
	return writes
}

// TestTwoServers: of several servers over one database one begins each run, also when all of them
// see it at once. The stores are real, and so is the clock of this test, which the schedules see
// moved on.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	for name, openStore := range map[string]func(t *testing.T) (seam.Store, error){
		"mem": func(*testing.T) (seam.Store, error) { return mem.New(), nil },
		"sqlite": func(t *testing.T) (seam.Store, error) {
			return sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
		},
		"postgres": func(t *testing.T) (seam.Store, error) {
			return postgres.Open(t.Context(), pgtest.Start(t), postgres.Options{Logger: slog.New(slog.DiscardHandler)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := openStore(t)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close() //nolint:errcheck // the test is over
			var ahead atomic.Int64
			clock := func(o *schedule.Options) {
				o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			}
			rig := enginetest.Over(t, store, &enginetest.Service{}, enginetest.Echo, enginetest.App())
			defer rig.Close()
			var all []*schedule.Schedules
			for range 4 {
				var o schedule.Options
				clock(&o)
				all = append(all, schedule.New(store, rig.Engine, o))
			}
			const each = 20
			for range each {
				if _, err := all[0].Add(t.Context(), enginetest.User, parley.ScheduleSpec{App: "test", Cron: "0 * * * *", Message: "hi"}, ""); err != nil {
					t.Fatal(err)
				}
			}
			ahead.Add(int64(time.Hour))
			run, cancel := context.WithCancel(t.Context())
			var hands sync.WaitGroup
			for _, s := range all {
				hands.Go(func() { s.Run(run) })
			}
			for end := time.Now().Add(time.Minute); ; {
				list, err := all[0].List(t.Context(), enginetest.User, "")
				if err != nil {
					t.Fatal(err)
				}
				done := 0
				for _, s := range list {
					if s.Last != nil && s.Last.Status == parley.StatusCompleted {
						done++
					}
				}
				if done == each {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%d of %d began", done, each)
				}
				select { // until a turn has ended
				case <-time.After(5 * time.Millisecond):
				case <-t.Context().Done():
				}
			}
			cancel()
			hands.Wait()
			turns, err := rig.Engine.Turns(t.Context(), enginetest.User, seam.TurnQuery{Limit: 500})
			if err != nil || len(turns) != each {
				t.Errorf("%d turns, %v, want %d", len(turns), err, each)
			}
			list, err := all[0].List(t.Context(), enginetest.User, "")
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range list {
				if runs, err := all[0].Runs(t.Context(), enginetest.User, s.ID); err != nil || len(runs) != 1 {
					t.Errorf("%d runs of %s, %v", len(runs), s.ID, err)
				}
			}
		})
	}
}
