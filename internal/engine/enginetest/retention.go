package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/seam"
)

// CrashRetention crashes an engine before and after each write of its store and of its archive.
// Meanwhile steps of a session are condensed, a fork of it is made, the steps of both are condensed
// again, and the parent is deleted. In the next life the client repeats the requests that it got no
// answer to. Then the fork must be whole, its fold must be that of its whole log, and the archive
// must have nothing else.
//
// fresh makes an empty location and returns how to open the store in it, once in each life. Only
// every stride-th write is tried. The number of writes can differ by a few from run to run, because
// a read is committed together with whatever comes next.
func CrashRetention(t *testing.T, stride int, fresh func(t *testing.T) (open func() seam.Store)) {
	t.Helper()
	writes := retained(t, fresh(t), 0, false)
	if writes < 10 {
		t.Fatalf("only %d writes", writes)
	}
	for at := 1; at <= writes; at += stride {
		for _, after := range []bool{false, true} {
			retained(t, fresh(t), int64(at), after)
		}
	}
	t.Logf("%d writes", writes)
}

// mortal is a store that is cut off at a write.
type mortal struct {
	Cut
	writes atomic.Int64
	at     atomic.Int64 // the write, from 1; 0: none
	after  bool         // the write took place
	end    context.CancelFunc
}

func (m *mortal) do(write func() error) error {
	n := m.writes.Add(1)
	if n == m.at.Load() && !m.after {
		m.die()
	}
	if err := m.dead(); err != nil {
		return err
	}
	err := write()
	if n == m.at.Load() {
		m.die()
		return errDead
	}
	return err
}

// die ends the process, also for callers that wait for it.
func (m *mortal) die() {
	m.gone.Store(true)
	m.end()
}

func (m *mortal) Append(ctx context.Context, p parley.Principal, b seam.Batch) error {
	return m.do(func() error { return m.Store.Append(ctx, p, b) })
}

func (m *mortal) Fork(ctx context.Context, p parley.Principal, from parley.SessionID, at int64, b seam.Batch) error {
	return m.do(func() error { return m.Store.Fork(ctx, p, from, at, b) })
}

func (m *mortal) Delete(ctx context.Context, p parley.Principal, id parley.SessionID) error {
	return m.do(func() error { return m.Store.Delete(ctx, p, id) })
}

// mortalShelf is an archive that is cut off with its store.
type mortalShelf struct {
	*archive.Folder
	m *mortal
}

func (s mortalShelf) Keep(ctx context.Context, id parley.SessionID, events []parley.Event) (name string, err error) {
	err = s.m.do(func() (err error) { name, err = s.Folder.Keep(ctx, id, events); return err })
	return name, err
}

func (s mortalShelf) Share(ctx context.Context, id, fork parley.SessionID, at int64) error {
	return s.m.do(func() error { return s.Folder.Share(ctx, id, fork, at) })
}

func (s mortalShelf) Drop(ctx context.Context, id parley.SessionID) error {
	return s.m.do(func() error { return s.Folder.Drop(ctx, id) })
}

// retained plays all of this with a crash at one write, and returns how many writes there were.
func retained(t *testing.T, open func() seam.Store, at int64, after bool) int {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("a crash at write %d, after it %v: %s", at, after, fmt.Sprintf(format, args...))
	}
	folder, service := archive.NewFolder(datafolder.New(t.TempDir(), nil)), &Service{}
	var clock atomic.Int64 // how far the clock is ahead
	app := App(func(a *parley.App) {
		a.Resume, a.TTL = parley.ResumeAuto, parley.TTL{TurnSteps: parley.Duration(time.Hour)}
	})
	model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if len(Results(r)) == 0 {
			return seam.Reply{Parts: []parley.Part{Call("look", map[string]string{"text": Last(r)})}}, nil
		}
		say("It is done.")
		return seam.Reply{}, nil
	}
	var m *mortal
	var ctx context.Context // of this life
	live := func() *Rig {
		m = &mortal{Cut: Cut{Store: open()}, after: after}
		ctx, m.end = context.WithCancel(t.Context())
		return Over(t, m, service, model, app, func(o *engine.Options) {
			o.Archive, o.NothingRuns = mortalShelf{folder, m}, true
			o.SweepEvery, o.TendEvery = 10_000*time.Hour, 10_000*time.Hour
			o.Now = func() time.Time { return time.Now().Add(time.Duration(clock.Load())) }
		})
	}
	r := live()
	var parent, fork parley.SessionID
	say := func(id *parley.SessionID, key string) func() error {
		return func() error {
			turn, err := r.Engine.Send(ctx, User, *id, parley.Send{Message: key, Key: key})
			if err != nil {
				return err
			}
			got, err := r.Engine.Await(ctx, User, turn.ID, time.Minute)
			if err == nil && got.Status != parley.StatusCompleted {
				err = fmt.Errorf("%s is %s: %+v", key, got.Status, got.Error)
			}
			return err
		}
	}
	sweep := func(hours int) func() error {
		return func() error {
			clock.Store(int64(time.Duration(hours) * time.Hour))
			_, err := r.Engine.Sweep(ctx, parley.System())
			return err
		}
	}
	parent = r.Session().ID
	for _, key := range []string{"one", "two"} {
		if err := say(&parent, key)(); err != nil {
			t.Fatal(err)
		}
	}
	before := r.Log(parent)
	steps := []func() error{
		sweep(2),
		func() error {
			info, err := r.Engine.Fork(ctx, User, parent, parley.ForkSession{Key: "f"})
			fork = info.ID
			return err
		},
		say(&parent, "three"), say(&fork, "four"), sweep(4), say(&fork, "five"), sweep(6),
		func() error {
			err := r.Engine.Delete(ctx, User, parent)
			if errors.Is(err, parley.ErrNotFound) {
				err = nil // it was done in an earlier life
			}
			return err
		},
		sweep(8),
	}
	m.writes.Store(0)
	m.at.Store(at)
	writes := 0
	for i := 0; i < len(steps); i++ {
		err := steps[i]()
		if i == len(steps)-1 {
			writes = int(m.writes.Load())
		}
		if !m.gone.Load() {
			if err != nil {
				fail("step %d: %v", i, err)
				break
			}
			continue
		}
		r.Kill()
		if err := m.Store.Close(); err != nil {
			t.Fatal(err)
		}
		r = live()
		if done, err := r.Engine.Recover(ctx); err != nil {
			t.Fatal(err)
		} else {
			<-done
		}
		i-- // the request is repeated
	}
	if _, err := r.Engine.Session(ctx, User, parent); !errors.Is(err, parley.ErrNotFound) {
		fail("the parent: %v", err)
	}
	if ids, err := folder.Sessions(ctx); err != nil || !slices.Equal(ids, []parley.SessionID{fork}) {
		fail("archived are %v, %v, and the fork is %s", ids, err, fork)
	}
	var whole parley.Session
	var log []parley.Event
	for e, err := range r.Reader.Whole(ctx, User, fork, 0) {
		if err == nil {
			err = whole.Apply(e)
		}
		if err != nil {
			fail("the whole log after %d: %v", whole.Seq, err)
			break
		}
		if n := len(log); n < len(before) && (e.Type != before[n].Type || string(e.Data) != string(before[n].Data)) {
			fail("event %d of the fork is %s %s", e.Seq, e.Type, e.Data)
		}
		log = append(log, e)
	}
	if err := CheckLog(log); err != nil {
		fail("%v", err)
	}
	state, err := r.Engine.State(ctx, User, fork)
	if a, b := asTold(t, whole), asTold(t, state); err != nil || a != b {
		fail("the fold is, %v,\n%s\nand that of the whole log\n%s", err, b, a)
	}
	r.Close()
	m.end()
	if err := m.Store.Close(); err != nil {
		t.Fatal(err)
	}
	return writes
}

// asTold returns a state without what condensing may change.
func asTold(t *testing.T, s parley.Session) string {
	t.Helper()
	s.Condensed, s.CondensedAt, s.StepsSince, s.Provider = 0, time.Time{}, time.Time{}, nil
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
