package livefiles_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/livefiles"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/seam"
)

// TestFiles_memory_is_bounded: sessions at rest leave the memory, and many active ones fit into little.
func TestFiles_memory_is_bounded(t *testing.T) {
	t.Parallel()
	live(t, clerk, enginetest.App(), func(t *testing.T, r *rig) {
		r.files.Die()
		o := r.options()
		o.Memory = 40 << 10 // enough for four sessions
		r.files = livefiles.Start(o)
		var ids []parley.SessionID
		for range 20 {
			ids = append(ids, r.Session().ID)
		}
		for range 2 {
			var turns []parley.TurnID
			for _, id := range ids {
				turns = append(turns, r.Send(id, "look 3").ID)
			}
			for _, id := range turns {
				r.Await(id)
			}
		}
		settled()
		r.same("all", ids...)
		r.files.Die()
		if n := r.files.InMemory(); n == 0 || n > 4 {
			t.Errorf("%d are in memory", n)
		}
		r.start()
		r.Await(r.Send(ids[0], "look 1").ID)
		time.Sleep(2 * time.Minute)
		r.files.Die()
		if n := r.files.InMemory(); n != 0 {
			t.Errorf("%d are in memory after a rest", n)
		}
		r.same("after a rest", ids...)
		r.start()
	})
}

// counted is a log with a separate reader for whole sessions, over a store that counts the events read.
type counted struct {
	livefiles.Log
	whole interface {
		Whole(ctx context.Context, p parley.Principal, id parley.SessionID, after int64) iter.Seq2[parley.Event, error]
	}
}

func (c counted) Whole(ctx context.Context, p parley.Principal, id parley.SessionID, after int64) iter.Seq2[parley.Event, error] {
	return c.whole.Whole(ctx, p, id, after)
}

type countedStore struct {
	seam.Store
	read *atomic.Int64
}

func (c countedStore) Read(ctx context.Context, p parley.Principal, id parley.SessionID, after int64, limit int) ([]parley.Event, error) {
	events, err := c.Store.Read(ctx, p, id, after, limit)
	c.read.Add(int64(len(events)))
	return events, err
}

// TestFiles_waking_costs_the_same: a session that wakes up costs the same however long it is, with and
// without retention.
func TestFiles_waking_costs_the_same(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string]time.Duration{"kept": 0, "archived": 4 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := enginetest.App(func(a *parley.App) {
				a.TTL.TurnSteps = parley.Duration(steps)
				a.Memory = parley.MemoryOptions{LastK: 6}
			})
			live(t, clerk, app, func(t *testing.T, r *rig) {
				var read atomic.Int64
				w, reader := eventlog.New(countedStore{r.Store, &read}, redact.New(), eventlog.Options{Archive: r.kept})
				defer func() { _ = w.Close(t.Context()) }()
				r.files.Close(t.Context())
				o := r.options()
				o.Log = counted{r.Reader, reader}
				r.files = livefiles.Start(o)
				id := r.Session().ID
				for n := 1; n <= 200; n++ {
					time.Sleep(10 * time.Minute) // until the session has left memory
					before := read.Load()
					r.Await(r.Send(id, "look 1").ID)
					settled()
					if got := read.Load() - before; got > 300 { // a sweep may wake it too
						t.Fatalf("waking at turn %d read %d events", n, got)
					}
				}
				r.same("in the end", id)
				data, store := r.afterCrash()
				if diff := cmp.Diff(export(t, store, r.kept, id), onDisk(t, data)); diff != "" {
					t.Errorf("after a crash (-export +disk):\n%s", diff)
				}
			}, func(o *engine.Options) { o.SweepEvery, o.TendEvery = 10*time.Minute, 10*time.Minute })
		})
	}
}

// TestFiles_a_checkpoint_is_a_cache: a checkpoint is ignored if it is damaged, of another version or of
// another log.
func TestFiles_a_checkpoint_is_a_cache(t *testing.T) {
	t.Parallel()
	live(t, clerk, enginetest.App(asking), func(t *testing.T, r *rig) {
		one, two := r.Session().ID, r.Session().ID
		for n := range 30 {
			r.Await(r.Send(one, fmt.Sprint("look ", n%3)).ID)
			r.Await(r.Send(two, "plot").ID)
			settled()
		}
		r.Await(r.Send(one, "mail 1").ID) // its turn waits for a permission
		r.Send(one, "look 1")
		settled()
		fold := func(data string, id parley.SessionID) string {
			return filepath.Join(data, "sessions", string(id), ".fold")
		}
		for name, change := range map[string]func(was []byte) []byte{
			"as it is":           func(was []byte) []byte { return was },
			"half of it":         func(was []byte) []byte { return was[:len(was)/2] },
			"of another version": func(was []byte) []byte { return bytes.Replace(was, []byte(`"version":`), []byte(`"version":1`), 1) },
			"of another session": func(was []byte) []byte { return bytes.ReplaceAll(was, []byte(one), []byte(two)) },
			"of the future":      func(was []byte) []byte { return bytes.Replace(was, []byte(`"seq":`), []byte(`"seq":9`), 1) },
		} {
			data, store := r.afterCrash(func(data string) {
				was, err := os.ReadFile(fold(data, one))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(fold(data, one), change(was), 0o600); err != nil {
					t.Fatal(err)
				}
				// An older session.json, so that there is something to catch up on.
				name := filepath.Join(data, "sessions", string(one), "session.json")
				body, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				at := bytes.LastIndex(body, []byte(`"version": `))
				var version int
				_, _ = fmt.Sscanf(string(body[at:]), `"version": %d`, &version)
				body = fmt.Appendf(body[:at], "\"version\": %d\n}\n", version-3)
				if err := os.WriteFile(name, body, 0o600); err != nil {
					t.Fatal(err)
				}
			})
			if diff := cmp.Diff(export(t, store, r.kept, one, two), onDisk(t, data)); diff != "" {
				t.Errorf("%s (-export +disk):\n%s", name, diff)
			}
		}
	})
}
