package claudetest

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/runtime/claudecli"
	"github.com/parley-server/parley/internal/store/mem"
)

// holds reports whether a file of the CLI's contains a text.
func (r *Rig) holds(t testing.TB, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(r.Data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // it has just been removed
		}
		body, _ := os.ReadFile(path)
		found = found || bytes.Contains(body, []byte(text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// condensed: what retention takes out of the log is in no file of the CLI's, either, and the session
// goes on with what the log has.
func condensed(t *testing.T, c CLI) {
	var now atomic.Int64
	r := c.start(t, func(a *parley.App, _ *claudecli.Options, e *engine.Options) {
		a.TTL.TurnSteps = parley.Duration(time.Hour)
		e.Now = func() time.Time { return time.Now().Add(time.Duration(now.Load())) }
	})
	defer r.Stop()
	s := r.Session()
	r.say(t, s, Step{Use: []Use{bash("echo a detail | tr a-z A-Z")}}, Step{Text: "The password is swordfish."})
	if !r.holds(t, "A DETAIL") {
		t.Error("the transcript does not have what it should lose")
	}
	now.Store(int64(2 * time.Hour))
	if c.Real { // the stand-in does nothing in the background
		command := Use{"Bash", map[string]any{"command": "while [ ! -e go ]; do sleep 0.05; done", "description": "waits", "run_in_background": true}}
		r.say(t, s, Step{Use: []Use{command}}, Step{Text: "It runs."}, Step{Text: "It has ended."})
		if done, err := r.Engine.Sweep(ctx, parley.System()); err != nil || done.Condensed != 0 || !r.holds(t, "A DETAIL") {
			t.Fatalf("while the CLI works: %+v %v, %v", done, err, r.holds(t, "A DETAIL"))
		}
		r.put(t, "go")
		within(t, "a turn of the runtime", func() bool { return Count(r.Log(s.ID), "turn.completed") == 3 })
		now.Store(int64(4 * time.Hour))
	}
	if done, err := r.Engine.Sweep(ctx, parley.System()); err != nil || done.Condensed == 0 {
		t.Fatalf("%+v %v", done, err)
	}
	if r.holds(t, "A DETAIL") || r.holds(t, "swordfish") {
		t.Error("the log has been condensed, and the files are still there")
	}
	if got := r.say(t, s, Step{Text: sees}); !strings.Contains(got, "swordfish") || !strings.Contains(got, "restored-history") {
		t.Errorf("%q", got)
	}
}

// shelf is an archive, with which the files of the CLI go.
type shelf struct {
	*archive.Folder
	rt *claudecli.Runtime
}

func (s shelf) Sessions(context.Context) ([]parley.SessionID, error) { return s.rt.Sessions() }

func (s shelf) Drop(ctx context.Context, id parley.SessionID) error {
	return errors.Join(s.rt.Drop(id), s.Folder.Drop(ctx, id))
}

// cutShort is a store that the process does not outlive for long once a session is deleted. What the process
// reads fails then, so that it does not find out what it has deleted.
type cutShort struct {
	*enginetest.Cut
	mu   sync.RWMutex
	over bool
	dead chan struct{}
}

// Delete implements seam.Store.
func (c *cutShort) Delete(ctx context.Context, p parley.Principal, id parley.SessionID) error {
	c.mu.Lock()
	c.over = true
	err := c.Cut.Delete(ctx, p, id)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	c.Off()
	close(c.dead)
	<-ctx.Done() // what would follow does not happen any more
	return context.Cause(ctx)
}

// Session implements seam.Store.
func (c *cutShort) Session(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.SessionInfo, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.over {
		return parley.SessionInfo{}, errors.New("the process has ended")
	}
	return c.Cut.Session(ctx, p, id)
}

// deleted: when a session is deleted, nothing of it is in files of the CLI's any more, whose process may wait for the
// next turn. If the server is killed in between, the next one removes them when it starts.
func deleted(t *testing.T, c CLI) {
	dir, store, path := t.TempDir(), mem.New(), c.Path(t)
	r := New(t, path, dir, store)
	s, other := r.Session(), r.Session()
	r.say(t, s, Step{Text: "The password is swordfish."})
	r.say(t, other, Step{Text: "The user name is trout."})
	if err := r.Engine.Delete(ctx, enginetest.User, s.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(r.Data, string(s.ID))); !os.IsNotExist(err) || r.holds(t, "swordfish") || !r.holds(t, "trout") || r.Runtime.Processes() != 1 {
		t.Errorf("%v, %v, %v, %d processes", err, r.holds(t, "swordfish"), r.holds(t, "trout"), r.Runtime.Processes())
	}
	r.Stop()
	short := &cutShort{Cut: &enginetest.Cut{Store: store}, dead: make(chan struct{})}
	r = New(t, path, dir, short)
	dying, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- r.Engine.Delete(dying, enginetest.User, other.ID) }()
	<-short.dead
	if !r.holds(t, "trout") {
		t.Error("the files went too early: the server was not killed in between")
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("it is said to be deleted")
	}
	r.Stop()
	r = New(t, path, dir, store)
	defer r.Stop()
	within(t, "the files go", func() bool {
		_, err := os.Stat(filepath.Join(r.Data, string(other.ID)))
		return os.IsNotExist(err)
	})
	if _, err := r.Engine.State(ctx, enginetest.User, other.ID); parley.CodeOf(err) != parley.CodeNotFound {
		t.Error(err)
	}
}

// secret: what the log redacts does not stay in files of the CLI's.
func secret(t *testing.T, c CLI) {
	r := c.start(t)
	defer r.Stop()
	s := r.Session()
	const key = "abcdefghijklmnopqrstuvwx0123456789"
	r.say(t, s, Step{Use: []Use{bash("printf %s%s sk-ant- api03-" + key)}}, Step{Text: "The password is swordfish."})
	within(t, "the files go", func() bool { return !r.holds(t, "sk-ant-api03") && r.Runtime.Processes() == 0 })
	if got := r.say(t, s, Step{Text: sees}); !strings.Contains(got, "swordfish") || strings.Contains(got, "sk-ant-api03") {
		t.Errorf("%q", got)
	}
	r.say(t, s, Step{Text: "Nothing."})
	if r.holds(t, "sk-ant-api03") || r.Runtime.Processes() != 1 {
		t.Errorf("%v, %d processes", r.holds(t, "sk-ant-api03"), r.Runtime.Processes())
	}
	turn := r.Send(s.ID, Script(Step{Use: []Use{bash("printf %s%s sk-ant- api03-" + key)}}, Step{Use: []Use{which}}, Step{Text: "Done."}))
	r.waiting(t, s)
	within(t, "the transcript has what it should lose", func() bool { return r.holds(t, "sk-ant-api03") }) // the CLI writes it late
	if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, ""); err != nil {
		t.Fatal(err)
	}
	within(t, "the turn ends", func() bool { return r.Await(turn.ID).Status == parley.StatusCancelled })
	if r.holds(t, "sk-ant-api03") {
		t.Error("it stays when the turn is stopped")
	}
	if got := r.say(t, s, Step{Text: sees}); !strings.Contains(got, "swordfish") || strings.Contains(got, "sk-ant-api03") {
		t.Errorf("%q", got)
	}
	r.check(t, s)
}

// growing: a large transcript is not stored again for each turn. Without the CLI's files the session goes on
// from the stored one, and is told of the turns since.
func growing(t *testing.T, c CLI) {
	dir, store := t.TempDir(), mem.New()
	path := c.Path(t)
	r := New(t, path, dir, store)
	s := r.Session()
	r.say(t, s, Step{Use: []Use{bash("seq 1 100000")}}, Step{Text: "The password is swordfish."})
	r.say(t, s, Step{Text: "The user name is trout."})
	if n := Count(r.check(t, s), "runtime.kept"); n != 1 {
		t.Errorf("stored %d times", n)
	}
	r.Stop()
	if err := os.RemoveAll(r.Data); err != nil {
		t.Fatal(err)
	}
	r = New(t, path, dir, store)
	defer r.Stop()
	got := r.say(t, s, Step{Text: sees})
	if before, told, _ := strings.Cut(got, "restored-history"); !strings.Contains(before, "swordfish") || strings.Contains(told, "swordfish") || !strings.Contains(told, "trout") {
		t.Errorf("%.2000q", got)
	}
	r.check(t, s)
}
