package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// secretary does what the message's first word says. As the memory agent it keeps notes.
func secretary(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if r.Agent == parley.MemoryAgent {
		return reader(ctx, r, say)
	}
	tool, _, _ := strings.Cut(enginetest.Last(r), " ")
	switch {
	case tool == "fail":
		return seam.Reply{}, errors.New("no")
	case len(enginetest.Results(r)) == 0 && (tool == "look" || tool == "put" || tool == "mail"):
		return seam.Reply{State: json.RawMessage(`{"cache":1}`), Parts: []parley.Part{enginetest.Call(tool, map[string]string{"text": "hi"})}}, nil
	}
	say("It is done.")
	return seam.Reply{State: json.RawMessage(`{"cache":2}`)}, nil
}

// busy runs a number of turns in a session and returns its states after each event.
func busy(t *testing.T, r *enginetest.Rig, turns int) (parley.SessionInfo, []parley.Session) {
	t.Helper()
	s := r.Session()
	for n := range turns {
		turn := r.Await(r.Send(s.ID, []string{"look 1", "put 2", "fail 3", "mail 4", "words 5"}[n%5]).ID)
		if n%5 == 2 {
			again, err := r.Engine.Retry(ctx, enginetest.User, turn.ID, "", "")
			if err != nil {
				t.Fatal(err)
			}
			r.Await(again.ID)
		}
	}
	states := []parley.Session{{}}
	for _, e := range r.Log(s.ID) {
		st := states[len(states)-1].Clone()
		if err := st.Apply(e); err != nil {
			t.Fatal(err)
		}
		states = append(states, *st)
	}
	return s, states
}

// told is a state without the fields that condensing may change: the provider's cache, and the
// fields that say that the session was condensed.
func told(s parley.Session) parley.Session {
	s.Seq, s.Condensed, s.CondensedAt, s.StepsSince, s.Provider = 0, 0, time.Time{}, time.Time{}, nil
	return s
}

func byHand(o *engine.Options) { o.SweepEvery, o.TendEvery = 10_000*time.Hour, 10_000*time.Hour }

func sweep(t *testing.T, r *enginetest.Rig) engine.Swept {
	t.Helper()
	done, err := r.Engine.Sweep(ctx, parley.System())
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func state(t *testing.T, r *enginetest.Rig, id parley.SessionID) parley.Session {
	t.Helper()
	st, err := r.Engine.State(ctx, enginetest.User, id)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// TestCondensedFoldIsTheSame throws every stored state away, as another version of the fold
// does, after the steps are gone and no archive has them. The fold of the log is still the same.
func TestCondensedFoldIsTheSame(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*parley.App){
		"all of it":        func(*parley.App) {},
		"the last few":     func(a *parley.App) { a.Memory.LastK = 4 },
		"the last, summed": remembering,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				app := enginetest.App(keeping, change)
				r := enginetest.New(t, secretary, app, byHand)
				s, before := busy(t, r, 23)
				young := r.Await(r.Send(s.ID, "put young").ID)
				want := state(t, r, s.ID)
				time.Sleep(25 * time.Hour)
				r.Await(r.Send(s.ID, "look later").ID)
				later := state(t, r, s.ID)
				if done := sweep(t, r); done.Condensed != 1 {
					t.Fatalf("swept %+v", done)
				}
				if diff := cmp.Diff(told(later), told(state(t, r, s.ID))); diff != "" {
					t.Errorf("condensing changed the state (-before +after):\n%s", diff)
				}
				log := r.Log(s.ID)
				r.Close()

				disk := r.Mem.Clone()
				disk.ForgetStates()
				next := enginetest.Over(t, disk, r.Service, secretary, app, byHand)
				defer next.Close()
				if diff := cmp.Diff(told(later), told(state(t, next, s.ID))); diff != "" {
					t.Errorf("rebuilt from the condensed log (-before +after):\n%s", diff)
				}
				if turn := next.Await(next.Send(s.ID, "mail on").ID); turn.Status != parley.StatusCompleted {
					t.Errorf("the session cannot go on: %+v", turn)
				}

				// A fork at the end of any turn equals its parent at that point.
				before = append(before, want)
				ends, gone := 0, 0
				for _, e := range log {
					fork, err := next.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{At: e.Seq, Title: "f"})
					if code(err) == parley.CodeCondensed {
						gone++
						continue
					}
					if err != nil {
						t.Fatalf("a fork at %d: %v", e.Seq, err)
					}
					if e.Seq >= int64(len(before)) || before[e.Seq].Turn != nil {
						continue
					}
					ends++
					got := told(state(t, next, fork.ID))
					was := told(before[e.Seq])
					was.ID, was.Parent, was.Title, was.UpdatedAt = got.ID, s.ID, "f", got.UpdatedAt
					if diff := cmp.Diff(was, got); diff != "" {
						t.Errorf("a fork at %d (-parent +fork):\n%s", e.Seq, diff)
					}
					if e.Seq%7 == 0 {
						if turn := next.Await(next.Send(fork.ID, "look on").ID); turn.Status != parley.StatusCompleted {
							t.Errorf("the fork at %d cannot go on: %+v", e.Seq, turn)
						}
					}
				}
				if ends < 20 || gone == 0 {
					t.Errorf("%d forks at ends of turns, %d refused", ends, gone)
				}
				_ = young
			})
		})
	}
}

// TestCondensedByAnEarlierVersion reads a log in which an earlier version kept a whole state.
func TestCondensedByAnEarlierVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app := enginetest.App(keeping)
		r := enginetest.New(t, secretary, app, byHand)
		s, states := busy(t, r, 6)
		log := r.Log(s.ID)
		info, err := r.Store.Session(ctx, parley.System(), s.ID)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		to, end := int64(0), len(log)
		for _, e := range log[:end-3] {
			if e.Type == "turn.completed" {
				to = e.Seq
			}
		}
		base, err := json.Marshal(states[to])
		if err != nil {
			t.Fatal(err)
		}
		for i := range log[:to] {
			if parley.IsStep(log[i].Type) {
				log[i] = log[i].WithData(nil)
			}
		}
		e := parley.NewEvent("", "", parley.HistoryCondensed{From: 1, To: to, Base: base, Version: 4})
		e.Session, e.Seq, e.Time = s.ID, int64(end)+1, log[end-1].Time
		log = append(log, e)
		old := mem.New()
		if err := old.Append(ctx, parley.System(), seam.Batch{Session: s.ID, Create: true, Events: log, Index: seam.Index{Session: &info}}); err != nil {
			t.Fatal(err)
		}
		next := enginetest.Over(t, old, r.Service, secretary, app, byHand)
		defer next.Close()
		if diff := cmp.Diff(told(states[end]), told(state(t, next, s.ID))); diff != "" {
			t.Errorf("the state (-before +after):\n%s", diff)
		}
		if _, err := next.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{At: to - 1}); code(err) != parley.CodeCondensed {
			t.Errorf("a fork before: %v", err)
		}
		for _, at := range []int64{to, int64(end)} {
			fork, err := next.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{At: at})
			if err != nil {
				t.Fatal(err)
			}
			if got := state(t, next, fork.ID); got.Totals != states[at].Totals {
				t.Errorf("a fork at %d has %+v, want %+v", at, got.Totals, states[at].Totals)
			}
			if turn := next.Await(next.Send(fork.ID, "look on").ID); turn.Status != parley.StatusCompleted {
				t.Errorf("the fork at %d cannot go on: %+v", at, turn)
			}
		}
	})
}

// TestStateOfAnEarlierVersionIsRebuilt reads a log whose kept state belongs to an earlier version,
// which folded it in another way. The archive has the steps, so the state is folded anew.
func TestStateOfAnEarlierVersionIsRebuilt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kept := archive.NewFolder(datafolder.New(t.TempDir(), nil))
		archived := func(o *engine.Options) { o.Archive = kept }
		app := enginetest.App(keeping)
		r := enginetest.New(t, secretary, app, byHand, archived)
		s, states := busy(t, r, 3)
		log := r.Log(s.ID)
		info, err := r.Store.Session(ctx, parley.System(), s.ID)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		end := len(log)
		name, err := kept.Keep(ctx, s.ID, log)
		if err != nil {
			t.Fatal(err)
		}
		was := states[int64(end)]
		was.Totals.Turns, was.History = 99, nil
		base, err := json.Marshal(was)
		if err != nil {
			t.Fatal(err)
		}
		for i := range log {
			if parley.IsStep(log[i].Type) {
				log[i] = log[i].WithData(nil)
			}
		}
		e := parley.NewEvent("", "", parley.HistoryCondensed{From: 1, To: int64(end), Base: base, Version: 4, Archive: name})
		e.Session, e.Seq, e.Time = s.ID, int64(end)+1, log[end-1].Time
		log = append(log, e)
		old := mem.New()
		if err := old.Append(ctx, parley.System(), seam.Batch{Session: s.ID, Create: true, Events: log, Index: seam.Index{Session: &info}}); err != nil {
			t.Fatal(err)
		}
		next := enginetest.Over(t, old, r.Service, secretary, app, byHand, archived)
		defer next.Close()
		if diff := cmp.Diff(told(states[int64(end)]), told(state(t, next, s.ID))); diff != "" {
			t.Errorf("the state (-before +after):\n%s", diff)
		}
	})
}

// TestCondensingIsNoUse condenses idle sessions. Condensing does not count as use: their time,
// their order in lists and their expiry do not change.
func TestCondensingIsNoUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, enginetest.Echo, enginetest.App(keeping), byHand)
		defer r.Close()
		start := time.Now()
		first := r.Session()
		r.Await(r.Send(first.ID, "one").ID)
		time.Sleep(time.Hour)
		second := r.Session()
		time.Sleep(25 * time.Hour)
		list := func() (out []string) {
			all, err := r.Engine.Sessions(ctx, enginetest.User, seam.SessionQuery{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range all {
				out = append(out, fmt.Sprint(s.ID, s.UpdatedAt))
			}
			return out
		}
		before := list()
		if done := sweep(t, r); done.Condensed != 1 {
			t.Fatalf("swept %+v", done)
		}
		if diff := cmp.Diff(before, list()); diff != "" {
			t.Errorf("the list (-before +after):\n%s", diff)
		}
		if info, err := r.Engine.Session(ctx, enginetest.User, first.ID); err != nil || !info.UpdatedAt.Before(start.Add(time.Hour)) {
			t.Errorf("changed at %v, %v", info.UpdatedAt, err)
		}
		time.Sleep(time.Until(start.Add(7*24*time.Hour + 30*time.Minute)))
		if done := sweep(t, r); done.Expired != 1 {
			t.Errorf("after seven days: %+v", done)
		}
		if info, err := r.Engine.Session(ctx, enginetest.User, second.ID); err != nil || info.Status != parley.Active {
			t.Errorf("the younger one is %+v, %v", info, err)
		}
		if err := enginetest.CheckNumbers(r.Log(first.ID)); err != nil {
			t.Error(err)
		}
	})
}

// metered counts the bytes read from logs and written to them.
type metered struct {
	seam.Store
	read, written, taken, states atomic.Int64
}

func (m *metered) Read(ctx context.Context, p parley.Principal, id parley.SessionID, after int64, limit int) ([]parley.Event, error) {
	events, err := m.Store.Read(ctx, p, id, after, limit)
	for _, e := range events {
		m.read.Add(int64(len(e.Data) + 100))
	}
	return events, err
}

func (m *metered) State(ctx context.Context, p parley.Principal, id parley.SessionID) (seam.State, error) {
	st, err := m.Store.State(ctx, p, id)
	m.read.Add(int64(len(st.Body)))
	return st, err
}

func (m *metered) Append(ctx context.Context, p parley.Principal, b seam.Batch) error {
	for _, e := range b.Events {
		n := int64(len(e.Data) + 100)
		m.written.Add(n)
		if e.Type == "history.condensed" {
			m.taken.Add(n)
		}
	}
	if b.Index.State != nil {
		m.states.Add(int64(len(b.Index.State.Body)))
	}
	return m.Store.Append(ctx, p, b)
}

// TestCondensingIsLinear runs a session of an app like home, which has a memory, for weeks with
// a server's sweeps. Condensing adds little to its log. Neither this nor the bytes that are read
// grow with the length of the session.
func TestCondensingIsLinear(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &metered{Store: mem.New()}
		app := enginetest.App(keeping, func(a *parley.App) {
			a.Memory = parley.MemoryOptions{LastK: 6, SummaryTokens: 2000}
		})
		r := enginetest.Over(t, m, &enginetest.Service{}, secretary, app, func(o *engine.Options) {
			o.SweepEvery, o.TendEvery = 10*time.Minute, time.Hour
		})
		defer r.Close()
		s := r.Session()
		type cost struct{ read, written, taken int64 }
		var parts []cost
		for range 4 {
			before := cost{m.read.Load(), m.written.Load(), m.taken.Load()}
			for n := range 300 {
				r.Await(r.Send(s.ID, []string{"look", "put", "words"}[n%3]+strings.Repeat(" and on", 40)).ID)
				time.Sleep(30 * time.Minute)
			}
			parts = append(parts, cost{m.read.Load() - before.read, m.written.Load() - before.written, m.taken.Load() - before.taken})
		}
		first, last := parts[0], parts[3]
		t.Logf("read, written, of that by condensing, in each 300 turns: %v", parts)
		if last.taken == 0 || last.taken*4 > last.written {
			t.Errorf("condensing wrote %d of %d bytes", last.taken, last.written)
		}
		if last.read > first.read*3/2 || last.written > first.written*5/4 {
			t.Errorf("the fourth 300 turns read %d and wrote %d bytes, the first %d and %d", last.read, last.written, first.read, first.written)
		}
		if last.read > 12*last.written {
			t.Errorf("%d bytes were read for %d written", last.read, last.written)
		}
	})
}
