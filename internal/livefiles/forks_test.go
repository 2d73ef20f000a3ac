package livefiles_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/livefiles"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/store/postgres"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
	"github.com/parley-server/parley/internal/store/sqlite"
)

// lives is a rig over any store, in real time, that can be restarted. Its engine's clock can be set ahead.
type lives struct {
	*rig
	store seam.Store
	open  func() (seam.Store, error)
	app   parley.App
	ahead atomic.Int64 // how far the engine's clock is ahead
}

func (l *lives) up() {
	l.T.Helper()
	var err error
	if l.store, err = l.open(); err != nil {
		l.T.Fatal(err)
	}
	l.Rig = enginetest.Over(l.T, l.store, &enginetest.Service{}, clerk, l.app, func(o *engine.Options) {
		o.Archive = shelf{l.kept, l.rig}
		o.Now = func() time.Time { return time.Now().Add(time.Duration(l.ahead.Load())) }
	})
	l.start()
}

func (l *lives) start() {
	o := l.options()
	o.Every = 20 * time.Millisecond
	l.files = livefiles.Start(o)
}

func (l *lives) down() {
	l.T.Helper()
	l.Close()
	l.files.Close(context.Background())
	if _, ok := l.store.(*mem.Store); ok {
		return
	}
	if err := l.store.Close(); err != nil {
		l.T.Error(err)
	}
}

// become waits until the files equal those of an export.
func (l *lives) become(when string, want map[string]string) {
	l.T.Helper()
	for until := time.Now().Add(20 * time.Second); ; {
		got, err := seen(l.T, l.data)
		if err == nil && cmp.Equal(want, got) {
			return
		}
		if time.Now().After(until) {
			l.T.Fatalf("%s: the files %v (-export +disk):\n%s", when, err, cmp.Diff(want, got))
		}
		<-time.After(10 * time.Millisecond)
	}
}

// everywhere checks the files as they are, after a restart, and after all of them were lost. None of this
// adds an event, so one export is the expected result of all three.
func (l *lives) everywhere(when string, ids ...parley.SessionID) {
	l.T.Helper()
	want := export(l.T, l.store, l.kept, ids...)
	l.become(when, want)
	l.down()
	l.up()
	l.become(when+", started again", want)
	l.files.Die()
	l.data = l.T.TempDir()
	l.start()
	l.become(when+", written anew", want)
}

func (l *lives) fork(from parley.SessionID, at int64) parley.SessionID {
	l.T.Helper()
	info, err := l.Engine.Fork(context.Background(), enginetest.User, from, parley.ForkSession{At: at})
	if err != nil {
		l.T.Fatal(err)
	}
	return info.ID
}

// sweep condenses old steps, and checks which of the sessions have lost their oldest steps.
func (l *lives) sweep(when string, condensed, not []parley.SessionID) {
	l.T.Helper()
	if _, err := l.Engine.Sweep(context.Background(), parley.System()); err != nil {
		l.T.Fatal(err)
	}
	for _, id := range slices.Concat(condensed, not) {
		has := slices.ContainsFunc(l.Log(id), func(e parley.Event) bool { return e.Seq < 20 && parley.IsStep(e.Type) && e.Data == nil })
		if has == slices.Contains(not, id) {
			l.T.Errorf("%s: session %s is condensed: %t", when, id, has)
		}
	}
}

// TestFiles_of_forks: on every store the files of forks are those of their exports. This holds after a
// restart, when parent or fork was condensed before the other, and after the parent was deleted.
func TestFiles_of_forks(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	stores := map[string]func(t *testing.T) func() (seam.Store, error){
		"mem": func(*testing.T) func() (seam.Store, error) {
			m := mem.New()
			return func() (seam.Store, error) { return m, nil }
		},
		"sqlite": func(t *testing.T) func() (seam.Store, error) {
			dir := t.TempDir()
			return func() (seam.Store, error) {
				return sqlite.Open(context.Background(), dir, sqlite.Options{Logger: quiet})
			}
		},
		"postgres": func(t *testing.T) func() (seam.Store, error) {
			dsn := pgtest.Start(t)
			return func() (seam.Store, error) {
				return postgres.Open(context.Background(), dsn, postgres.Options{Logger: quiet})
			}
		},
	}
	for name, open := range stores {
		for _, deletes := range []bool{false, true} {
			for _, first := range []string{"the parent", "the fork"} {
				t.Run(strings.Join([]string{name, map[bool]string{false: "archives", true: "deletes"}[deletes], first, "first"}, " "), func(t *testing.T) {
					t.Parallel()
					forksHaveFiles(t, open(t), deletes, first == "the parent")
				})
			}
		}
	}
}

func forksHaveFiles(t *testing.T, open func() (seam.Store, error), deletes, parentFirst bool) {
	l := &lives{rig: &rig{data: t.TempDir(), kept: archive.NewFolder(datafolder.New(t.TempDir(), nil))}, open: open}
	l.rig.Rig = &enginetest.Rig{T: t}
	l.app = enginetest.App(asking, func(a *parley.App) {
		a.TTL = parley.TTL{TurnSteps: parley.Duration(24 * time.Hour), NoArchive: deletes}
	})
	l.up()
	defer func() { l.down() }()

	parent := l.Session().ID
	l.Await(l.Send(parent, "plot").ID)
	l.Await(l.Send(parent, "look 3").ID)
	log := l.Log(parent)
	fork := l.fork(parent, 0)
	inside := l.fork(parent, int64(len(log)-4)) // in the middle of the turn's tool calls
	l.Await(l.Send(fork, "look 2").ID)
	grandchild := l.fork(fork, 0)
	all := []parley.SessionID{parent, fork, inside, grandchild}
	l.everywhere("forked", all...)

	// A session that waits for a human is not condensed.
	l.ahead.Store(int64(25 * time.Hour))
	held, free := fork, parent
	if !parentFirst {
		held, free = parent, fork
	}
	waits := l.Await(l.Send(held, "mail 1").ID)
	l.sweep("one is held", []parley.SessionID{free, inside, grandchild}, []parley.SessionID{held})
	l.everywhere("one is condensed", all...)
	later := l.fork(free, 0)
	all = append(all, later)
	l.Await(l.Send(later, "look 1").ID)
	l.everywhere("forked of what is condensed", all...)

	_, err := l.Engine.Answer(context.Background(), enginetest.User, waits.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}})
	if err != nil {
		t.Fatal(err)
	}
	l.Await(waits.ID)
	l.Await(l.Send(fork, "plot").ID)
	if parentFirst { // otherwise the parent is deleted without being condensed
		l.sweep("none is held", all, nil)
	}
	l.everywhere("answered", all...)

	if err := l.Engine.Delete(context.Background(), enginetest.User, parent); err != nil {
		t.Fatal(err)
	}
	all = all[1:]
	l.everywhere("without the parent", all...)
	l.Await(l.Send(fork, "look 1").ID)
	l.Await(l.Send(grandchild, "plot").ID)
	l.ahead.Store(int64(50 * time.Hour))
	l.sweep("without the parent", all, nil)
	l.everywhere("condensed without the parent", all...)
	if err := l.Engine.Delete(context.Background(), enginetest.User, fork); err != nil {
		t.Fatal(err)
	}
	l.everywhere("without the fork", all[1:]...)
}
