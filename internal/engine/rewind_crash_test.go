package engine_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	workspacetools "github.com/parley-server/parley/internal/tool/workspace"
)

var errKilled = errors.New("the process is gone")

// life is a process that ends at its n-th step. A step is a write of the store, before and after it,
// or one of the Restorer.
type life struct {
	mu    sync.Mutex
	steps int
	at    int  // it ends there, from 1; 0: never
	fails bool // the step fails once in place of that, as a full disk would have it
	store *mem.Store
	disk  *mem.Store         // what it left; nil: it lives
	dies  func()             // called at its end
	stop  context.CancelFunc // ends the restoration under way
}

func (l *life) step() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.disk != nil {
		return errKilled
	}
	if l.steps++; l.steps != l.at {
		return nil
	}
	if l.fails {
		return parley.Errorf(parley.CodeUnavailable, "no room")
	}
	l.disk = l.store.Clone()
	if l.dies != nil {
		l.dies()
	}
	return errKilled
}

func (l *life) dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.disk != nil
}

// mortalFiles is a Restorer that ends with its process.
type mortalFiles struct {
	seam.Restorer
	l *life
}

func (m mortalFiles) around(do func() error) error {
	if err := m.l.step(); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return m.l.step()
}

func (m mortalFiles) Begin(ctx context.Context, id parley.SessionID) error {
	return m.around(func() error { return m.Restorer.Begin(ctx, id) })
}

func (m mortalFiles) Done(ctx context.Context, id parley.SessionID) error {
	return m.around(func() error { return m.Restorer.Done(ctx, id) })
}

func (m mortalFiles) Unsee(ctx context.Context, id parley.SessionID) error {
	return m.around(func() error { return m.Restorer.Unsee(ctx, id) })
}

func (m mortalFiles) Restore(ctx context.Context, r seam.Restoration) (out seam.Restored, err error) {
	ctx, m.l.stop = context.WithCancel(ctx)
	defer m.l.stop()
	err = m.around(func() (err error) { out, err = m.Restorer.Restore(ctx, r); return err })
	return out, err
}

// TestRewindCrashAtEveryPoint ends the process at every write and step of a rewind over files, and
// again at every one of the recovery, without the race detector; it also lets each of them fail once. Then the rewind is whole and
// there is one of it, or it has not begun and the client's request makes it. What a person changes when
// the process ends stays.
func TestRewindCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]string{"nobody edits": "", "a person edits a restored file": "a.md", "a person edits one to come": "z.md"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calm := rewound(t, edit, 0, 0, false)
			if calm < 8 {
				t.Fatalf("only %d steps", calm)
			}
			for at := 1; at <= calm; at++ {
				again := rewound(t, edit, at, 0, false)
				rewound(t, edit, at, 0, true)
				for second := 1 + at%5; second <= again && !enginetest.Raced; second += 5 { // each is reached after some first one
					rewound(t, edit, at, second, false)
				}
			}
			t.Logf("%d steps", calm)
		})
	}
}

// rewound plays a rewind whose process ends at a step, and the next one at another. It returns the
// steps of the last life but one, or of the only one.
func rewound(t *testing.T, edit string, first, second int, fails bool) (steps int) {
	t.Helper()
	what := fmt.Sprintf("ends at %d (only fails: %v), then at %d", first, fails, second)
	synctest.Test(t, func(t *testing.T) {
		n, service := newNotebook(t), &enginetest.Service{}
		defer n.checks.Close() //nolint:errcheck // the test is over
		n.write("a.md", "one")
		n.write("z.md", "one")
		want := n.all()
		r := enginetest.New(t, noter, n.app, n.in(service))
		s := r.Session()
		r.Await(r.Send(s.ID, "look around").ID)
		to := r.Await(r.Send(s.ID, "write a.md two").ID)
		for _, m := range []string{"write new/b.md two", "mail Ana", "write z.md two"} {
			r.Await(r.Send(s.ID, m).ID)
		}
		disk := r.Mem.Clone()
		r.Close()

		asked := parley.RewindSession{Turn: to.ID, Key: "k"}
		ends := []int{first, second, 0}
		var did parley.RewindResult
		for i := 0; ; i++ {
			l := &life{store: disk, at: ends[min(i, 2)], fails: fails}
			if i == 0 && edit != "" && first > 0 && !fails {
				l.dies = func() { n.write(edit, "mine") }
				want[edit] = "mine"
			}
			disk.SetFaults(mem.Faults{Before: func(mem.Call) error { return l.step() }, After: func(mem.Call) error {
				err := l.step()
				if parley.CodeOf(err) == parley.CodeUnavailable && err != nil {
					return errors.New("the answer is lost") // it took place
				}
				return err
			}})
			n.files = func(r *workspacetools.Restorer) seam.Restorer { return mortalFiles{r, l} }
			n.now = func() time.Time { // before each file
				if l.step() != nil && l.dead() {
					l.stop()
				}
				return time.Now()
			}
			r = enginetest.Over(t, disk, service, noter, n.app, n.in(service), recovering)
			var err error
			for try := 0; try < 20; try++ {
				if did, err = again(r, s.ID, asked, i > 0 && try == 0); err == nil || l.dead() {
					break
				}
				time.Sleep(3 * time.Second)
			}
			if l.dead() {
				r.Kill()
				synctest.Wait()
				if steps == 0 || i > 0 {
					steps = l.steps
				}
				disk = l.disk
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			steps = l.steps
			break
		}
		if diff := cmp.Diff(want, n.all()); diff != "" {
			t.Errorf("%s: on disk (-want +got):\n%s", what, diff)
		}
		// That a rewind has ended may not have been noted; the next start does so.
		if _, err := r.Engine.Recover(ctx); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		left, err := n.checks.Rewinding(ctx)
		log := r.Log(s.ID)
		if count := strings.Count(enginetest.Types(log), "session.rewound"); count != 1 || err != nil || len(left) != 0 {
			t.Errorf("%s: rewound %d times, under way %v, %v\n%s", what, count, left, err, enginetest.Types(log))
		}
		if err := enginetest.CheckLog(log); err != nil {
			t.Errorf("%s: %v\n%s", what, err, enginetest.Types(log))
		}
		if len(did.Files) != 3 || len(did.Effects) != 1 || len(did.Turns) != 4 {
			t.Errorf("%s: it did %+v", what, did)
		}
		if turn := r.Await(r.Send(s.ID, "look on").ID); turn.Status != parley.StatusCompleted {
			t.Errorf("%s: then %+v", what, turn)
		}
		if stray, err := filepath.Glob(filepath.Join(n.dir, "*", ".parley-new-*")); err != nil || len(stray) > 0 {
			t.Errorf("%s: left over %v, %v", what, stray, err)
		}
		r.Close()
	})
	return steps
}

func recovering(o *engine.Options) { o.SweepEvery, o.TendEvery = 10_000*time.Hour, 10_000*time.Hour }

// again is a client that knows only its own key.
func again(r *enginetest.Rig, id parley.SessionID, c parley.RewindSession, recover bool) (parley.RewindResult, error) {
	if recover {
		done, err := r.Engine.Recover(ctx)
		if err != nil {
			return parley.RewindResult{}, err
		}
		<-done
	}
	got, err := r.Engine.Rewind(ctx, enginetest.User, id, c)
	if err != nil {
		return got, err
	}
	brief, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	return r.Engine.AwaitRewind(brief, enginetest.User, id, got.ID)
}
