package scope_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/workspace"
)

var ctx = context.Background()

// set is a toolset of one scope.
type set struct {
	at    scope.Place
	world *world

	mu      sync.Mutex
	names   []string
	changes int64
	wrong   error
}

func (s *set) Tools(context.Context) ([]parley.ToolDecl, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []parley.ToolDecl
	for _, name := range s.names {
		list = append(list, parley.ToolDecl{Name: name, Effect: parley.EffectRead})
	}
	return list, s.wrong
}

func (s *set) Changes() int64 { s.mu.Lock(); defer s.mu.Unlock(); return s.changes }

func (s *set) change(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = names
	s.changes++
}

func (s *set) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	return parley.ToolResult{Output: fmt.Sprintf("%s for %s in %s", r.Name, s.at.Principal.User, s.at.Workspace)}, nil
}

func (s *set) Close() error { s.world.count(-1); return nil }

// world counts the toolsets that are open.
type world struct {
	mu     sync.Mutex
	open   int
	opened int
	sets   []*set
	gate   chan struct{} // if not nil, what is opened waits for it
	fails  error
	names  []string
}

func (w *world) count(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open += n
}

func (w *world) source(ctx context.Context, at scope.Place) ([]seam.Toolset, error) {
	if w.gate != nil {
		select {
		case <-w.gate:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fails != nil {
		return nil, w.fails
	}
	s := &set{at: at, world: w, names: w.names}
	w.open++
	w.opened++
	w.sets = append(w.sets, s)
	return []seam.Toolset{s}, nil
}

func (w *world) is(t *testing.T, open, opened int) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open != open || w.opened != opened {
		t.Errorf("%d toolsets are open, and %d were opened; want %d and %d", w.open, w.opened, open, opened)
	}
}

// scopes are those of an app "own", whose tools come from w, and of "plain", which has none.
func scopes(t *testing.T, w *world, change ...func(*scope.Options)) *scope.Scopes {
	t.Helper()
	own, err := toolbox.New([]seam.Toolset{&set{names: []string{"base"}, world: w}}, toolbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := scope.Options{Apps: []scope.App{
		{App: parley.App{Name: "own"}, Tools: own, Sources: []scope.Source{w.source}, With: func(decls []parley.ToolDecl) (parley.App, error) {
			return parley.App{Name: "own", Tools: decls}, nil
		}},
		{App: parley.App{Name: "plain"}},
	}}
	for _, c := range change {
		c(&o)
	}
	s, err := scope.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func names(r *scope.Resolved) (list []string) {
	for _, d := range r.App().Tools {
		list = append(list, d.Name)
	}
	return list
}

func of(user string, ws parley.Workspace) seam.Scope {
	return seam.Scope{Principal: parley.Principal{User: user}, App: "own", Workspace: ws}
}

func resolve(t *testing.T, s *scope.Scopes, at seam.Scope) *scope.Resolved {
	t.Helper()
	r, err := s.Resolve(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestKeptWhileUsed: a scope's toolsets are opened once, stay open while somebody holds them and
// for Idle after that, and are then closed.
func TestKeptWhileUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{names: []string{"more"}}
		s := scopes(t, w)
		defer s.Close(ctx) //nolint:errcheck // the test is over
		if _, ok := s.Ready(of("ana", "vault")); ok {
			t.Error("something is ready before it was opened")
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { resolve(t, s, of("ana", "vault")).Release() })
		}
		all.Wait()
		w.is(t, 1, 1)
		r := resolve(t, s, of("ana", "vault"))
		if diff := cmp.Diff([]string{"base", "more"}, names(r)); diff != "" {
			t.Error(diff)
		}
		time.Sleep(time.Hour)
		w.is(t, 1, 1)
		other := r.Share()
		r.Release()
		r.Release()
		time.Sleep(time.Hour)
		w.is(t, 1, 1)
		if !other.Current() {
			t.Error("what is held is not current")
		}
		other.Release()
		time.Sleep(5*time.Minute - time.Second)
		w.is(t, 1, 1)
		r, ok := s.Ready(of("ana", "vault")) // the time begins again
		if !ok {
			t.Fatal("it is not ready")
		}
		r.Release()
		time.Sleep(5*time.Minute - time.Second)
		w.is(t, 1, 1)
		time.Sleep(2 * time.Second)
		w.is(t, 0, 1)
		if other.Current() {
			t.Error("what was closed is current")
		}
		resolve(t, s, of("ana", "vault")).Release()
		w.is(t, 1, 2)
	})
}

func TestScopesAreApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{names: []string{"more"}}
		s := scopes(t, w)
		defer s.Close(ctx) //nolint:errcheck // the test is over
		all := []seam.Scope{of("ana", "vault"), of("ana", "other"), of("ana", ""), of("bob", "vault"), {Principal: parley.Principal{User: "ana", Org: "x"}, App: "own", Workspace: "vault"}}
		for i, at := range all {
			r := resolve(t, s, at)
			got := r.Tools().Run(ctx, seam.Run{Name: "more"}, time.Time{})
			if want := fmt.Sprintf("more for %s in %s", at.Principal.User, at.Workspace); got.Output != want {
				t.Errorf("%+v: %q, want %q", at, got.Output, want)
			}
			w.is(t, i+1, i+1)
		}
		plain := resolve(t, s, seam.Scope{App: "plain"})
		if again, ok := s.Ready(seam.Scope{App: "plain", Principal: parley.Principal{User: "bob"}}); !ok || again.Digest() != plain.Digest() {
			t.Error("an app without tools of scopes is not the same for all")
		}
		if _, err := s.Resolve(ctx, seam.Scope{App: "other"}); parley.CodeOf(err) != parley.CodeNotFound {
			t.Errorf("an unknown app: %v", err)
		}
	})
}

// TestIdleIsLimited: beyond MostIdle the scope that was left first is closed.
func TestIdleIsLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		s := scopes(t, w, func(o *scope.Options) { o.MostIdle = 2 })
		defer s.Close(ctx) //nolint:errcheck // the test is over
		held := resolve(t, s, of("held", ""))
		for _, user := range []string{"a", "b", "c"} {
			resolve(t, s, of(user, "")).Release()
			time.Sleep(time.Second)
		}
		w.is(t, 3, 4)
		for user, want := range map[string]bool{"held": true, "a": false, "b": true, "c": true} {
			if _, ok := s.Ready(of(user, "")); ok != want {
				t.Errorf("%s is ready: %v", user, ok)
			}
		}
		held.Release()
	})
}

// TestChangedTools: who holds a scope keeps its tools; the next one gets those of now, from the
// same toolset.
func TestChangedTools(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{names: []string{"more"}}
		s := scopes(t, w)
		defer s.Close(ctx) //nolint:errcheck // the test is over
		old := resolve(t, s, of("ana", ""))
		w.sets[0].change("less")
		if _, ok := s.Ready(of("ana", "")); ok || old.Current() {
			t.Error("a changed list counts as the one of now")
		}
		now := resolve(t, s, of("ana", ""))
		if !slices.Equal(names(now), []string{"base", "less"}) || !slices.Equal(names(old), []string{"base", "more"}) || now.Digest() == old.Digest() {
			t.Errorf("now %v, and before %v", names(now), names(old))
		}
		if got := old.Tools().Run(ctx, seam.Run{Name: "more"}, time.Time{}); got.Outcome != parley.OutcomeOK {
			t.Errorf("a call of a turn that runs: %+v", got)
		}
		w.is(t, 1, 1)
		old.Release()
		now.Release()
	})
}

// TestLeftOut: what cannot be opened or listed, or has a name that is taken, is left out, and tried
// again once nobody holds the scope.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		breaks func(w *world)
		want   []string
	}{
		"a source fails":           {func(w *world) { w.fails = errors.New("no such program") }, nil},
		"a name of the app's":      {func(w *world) { w.names = []string{"base", "more"} }, []string{"base", "more"}},
		"a name twice":             {func(w *world) { w.names = []string{"more", "more"} }, []string{"base", "more"}},
		"a name that cannot be":    {func(w *world) { w.names = []string{"more", "a b"} }, []string{"base", "more"}},
		"a source that never ends": {func(w *world) { w.gate = make(chan struct{}) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &world{names: []string{"more"}}
				tc.breaks(w)
				s := scopes(t, w)
				defer s.Close(ctx) //nolint:errcheck // the test is over
				r := resolve(t, s, of("ana", ""))
				if diff := cmp.Diff(tc.want, names(r)); diff != "" {
					t.Error(diff)
				}
				if got := r.Tools().Run(ctx, seam.Run{Name: "base"}, time.Time{}); got.Output != "base for  in " {
					t.Errorf("the app's own tool: %+v", got)
				}
				r.Release()
				synctest.Wait()
				w.mu.Lock()
				w.fails, w.gate, w.names = nil, nil, []string{"more"}
				w.mu.Unlock()
				r = resolve(t, s, of("ana", ""))
				if diff := cmp.Diff([]string{"base", "more"}, names(r)); diff != "" {
					t.Error("again: " + diff)
				}
				r.Release()
			})
		})
	}
}

// TestWhoWaitsMayLeave: what somebody began to open is there for the next one.
func TestWhoWaitsMayLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{gate: make(chan struct{})}
		s := scopes(t, w)
		defer s.Close(ctx) //nolint:errcheck // the test is over
		brief, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := s.Resolve(brief, of("ana", "")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if _, err := s.Resolve(brief, of("ana", "")); !errors.Is(err, context.DeadlineExceeded) { // behind the first
			t.Errorf("got %v", err)
		}
		close(w.gate)
		resolve(t, s, of("ana", "")).Release()
		w.is(t, 1, 1)
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		s := scopes(t, w)
		held := resolve(t, s, of("ana", ""))
		resolve(t, s, of("bob", "")).Release()
		opening := make(chan error)
		w.gate = make(chan struct{})
		go func() {
			_, err := s.Resolve(ctx, of("eve", ""))
			opening <- err
		}()
		synctest.Wait()
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		<-opening // it does not hang
		w.is(t, 0, 2)
		held.Release()
		if _, err := s.Resolve(ctx, of("ana", "")); parley.CodeOf(err) != parley.CodeUnavailable {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestWorkspaceOfACall: a call gets one root, which is closed with it and opened again for the next.
func TestWorkspaceOfACall(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	vault := filepath.Join(root, "ana", "vault")
	if err := os.MkdirAll(vault, 0o700); err != nil {
		t.Fatal(err)
	}
	folders, err := workspace.New(workspace.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	s := scopes(t, &world{}, func(o *scope.Options) { o.Apps[0].Folders = folders })
	defer s.Close(ctx) //nolint:errcheck // the test is over
	r := resolve(t, s, of("ana", "vault"))
	defer r.Release()
	call := r.Workspace()
	first, err := call.Open()
	if err != nil {
		t.Fatal(err)
	}
	if same, err := call.Open(); err != nil || same != first {
		t.Errorf("a second time: %v, %v", same, err)
	}
	call.Close()
	if err := first.WriteFile("late", nil, 0o600); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after the call: %v", err)
	}
	if _, err := call.Open(); parley.CodeOf(err) != parley.CodeConflict {
		t.Errorf("opened after the call: %v", err)
	}
	if err := errors.Join(os.Remove(vault), os.Mkdir(vault, 0o700)); err != nil {
		t.Fatal(err)
	}
	next := r.Workspace()
	defer next.Close()
	now, err := next.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := now.WriteFile("x", nil, 0o600); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(vault, "x")); err != nil {
		t.Errorf("what the next call wrote is not in the folder of now: %v", err)
	}
	none := resolve(t, s, of("ana", "")).Workspace()
	if _, err := none.Open(); parley.CodeOf(err) != parley.CodeInvalid {
		t.Errorf("a session without one: %v", err)
	}
}
