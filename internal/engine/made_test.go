package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// unclear is a store that is lost in the middle of an append that makes a session.
type unclear struct {
	seam.Store
	kept bool // the append took place before the store was lost
	gone atomic.Bool
}

var errUnclear = errors.New("the connection was lost in the middle of a commit")

func (u *unclear) makes(do func() error) error {
	u.gone.Store(true)
	if u.kept {
		return errors.Join(errUnclear, do())
	}
	return errUnclear
}

// back makes the store readable again.
func (u *unclear) back() { u.gone.Store(false) }

func (u *unclear) Append(ctx context.Context, p parley.Principal, b seam.Batch) error {
	do := func() error { return u.Store.Append(ctx, p, b) }
	if !b.Create {
		return do()
	}
	return u.makes(do)
}

func (u *unclear) Fork(ctx context.Context, p parley.Principal, from parley.SessionID, at int64, b seam.Batch) error {
	return u.makes(func() error { return u.Store.Fork(ctx, p, from, at, b) })
}

func (u *unclear) Read(ctx context.Context, p parley.Principal, id parley.SessionID, after int64, limit int) ([]parley.Event, error) {
	if u.gone.Load() {
		return nil, errUnclear
	}
	return u.Store.Read(ctx, p, id, after, limit)
}

// ofEachKind has each command that makes a session, with a key or without. A fork and an import
// copy the session of.
func ofEachKind(t *testing.T, r *enginetest.Rig, of parley.SessionID) map[string]func(*enginetest.Rig, string) (parley.SessionInfo, error) {
	log := r.Log(of)
	return map[string]func(*enginetest.Rig, string) (parley.SessionInfo, error){
		"create": func(r *enginetest.Rig, key string) (parley.SessionInfo, error) {
			info, _, err := r.Engine.Create(ctx, enginetest.User, parley.CreateSession{App: "test", Key: key})
			return info, err
		},
		"fork": func(r *enginetest.Rig, key string) (parley.SessionInfo, error) {
			return r.Engine.Fork(ctx, enginetest.User, of, parley.ForkSession{Key: key})
		},
		"import": func(r *enginetest.Rig, key string) (parley.SessionInfo, error) {
			return r.Engine.Import(ctx, enginetest.User, engine.Imported{Events: log, Key: key, Asked: "a digest"})
		},
	}
}

// sessionsIn is how many sessions the user has.
func sessionsIn(t *testing.T, store seam.Store) int {
	t.Helper()
	list, err := store.Sessions(ctx, enginetest.User, seam.SessionQuery{Limit: -1, Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestMadeOnce: concurrent requests with the same key make one session. Another request with that
// key is refused.
func TestMadeOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, store seam.Store) {
		r := enginetest.Over(t, store, &enginetest.Service{}, enginetest.Echo, enginetest.App())
		s := r.Session()
		r.Await(r.Send(s.ID, "one").ID)
		for name, do := range ofEachKind(t, r, s.ID) {
			before := sessionsIn(t, store)
			var all sync.WaitGroup
			made := make([]parley.SessionInfo, 8)
			for i := range made {
				all.Go(func() {
					var err error
					if made[i], err = do(r, name); err != nil {
						t.Errorf("%s at once: %v", name, err)
					}
				})
			}
			all.Wait()
			for _, again := range made {
				if again.ID != made[0].ID {
					t.Errorf("%s at once makes %s and %s", name, made[0].ID, again.ID)
				}
			}
			if n := sessionsIn(t, store) - before; n != 1 {
				t.Errorf("%s at once makes %d sessions", name, n)
			}
		}
		if _, err := r.Engine.Import(ctx, enginetest.User, engine.Imported{Events: r.Log(s.ID), Key: "import", Asked: "another"}); code(err) != parley.CodeKeyReused {
			t.Errorf("another archive under the key: %v", err)
		}
		if _, err := r.Engine.Import(ctx, enginetest.User, engine.Imported{Events: r.Log(s.ID), Key: strings.Repeat("k", parley.MaxKey+1)}); parley.Info(err).Field != "Idempotency-Key" {
			t.Errorf("a long key: %v", err)
		}
		r.Close()
	})
}

// TestMadeAndDeleted: a request that comes again after its session was deleted makes nothing. It
// is told so, by its own key and body only.
func TestMadeAndDeleted(t *testing.T) {
	eachStore(t, func(t *testing.T, store seam.Store) {
		service := &enginetest.Service{}
		r := enginetest.Over(t, store, service, enginetest.Echo, enginetest.App())
		s := r.Session()
		r.Await(r.Send(s.ID, "one").ID)
		kinds := ofEachKind(t, r, s.ID)
		kinds["call"] = func(r *enginetest.Rig, key string) (parley.SessionInfo, error) {
			turn, err := r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: "test", Name: "mail", Input: []byte(`{"text":"a"}`), Key: key})
			return parley.SessionInfo{ID: turn.SessionID}, err
		}
		for name, do := range kinds {
			made, err := do(r, name)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Engine.Delete(ctx, enginetest.User, made.ID); err != nil {
				t.Fatal(err)
			}
			before := sessionsIn(t, store)
			for range 2 {
				if again, err := do(r, name); code(err) != parley.CodeDeleted || !strings.Contains(err.Error(), string(made.ID)) {
					t.Errorf("%s again: %s, %v", name, again.ID, err)
				}
			}
			if n := sessionsIn(t, store); n != before {
				t.Errorf("%s again makes %d sessions", name, n-before)
			}
			if _, err := do(r, name+" anew"); err != nil {
				t.Errorf("%s with another key: %v", name, err)
			}
		}
		if _, _, err := r.Engine.Create(ctx, enginetest.User, parley.CreateSession{App: "test", Title: "another", Key: "create"}); code(err) != parley.CodeKeyReused {
			t.Errorf("another body under the key: %v", err)
		}
		if _, _, err := r.Engine.Create(ctx, parley.Principal{User: "bob", Org: "acme"}, parley.CreateSession{App: "test", Key: "create"}); err != nil {
			t.Errorf("another user's request: %v", err)
		}
		r.Close()
	})
}

// TestMadeInDoubt: the store is lost in the middle of the commit. A caller with a key is told to
// ask again, which gives one session after a restart. A caller without a key is told where to look.
func TestMadeInDoubt(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"create", "fork", "import"} {
		for _, kept := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, kept %v", name, kept), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := enginetest.New(t, enginetest.Echo, enginetest.App())
					s, store := r.Session(), r.Store
					r.Await(r.Send(s.ID, "one").ID)
					do := ofEachKind(t, r, s.ID)[name]
					r.Close()
					away := &unclear{Store: store, kept: kept}
					r = enginetest.Over(t, away, &enginetest.Service{}, enginetest.Echo, enginetest.App())
					_, err := do(r, "k")
					if e := parley.Info(err); e.Code != parley.CodeUnavailable || !strings.Contains(e.Hint, "with the same key") {
						t.Errorf("in doubt: %v, %s", err, e.Hint)
					}
					away.back()
					_, err = do(r, "")
					e, named := parley.Info(err), false
					list, _ := store.Sessions(ctx, enginetest.User, seam.SessionQuery{Limit: -1})
					for _, in := range list {
						named = named || strings.Contains(e.Hint, string(in.ID))
					}
					if e.Code != parley.CodeTimeout || e.RetryAfterMS != 0 || named != kept || !strings.Contains(e.Hint, "before you have looked") {
						t.Errorf("in doubt without a key: %v, %s", err, e.Hint)
					}
					r.Close()
					r = enginetest.Over(t, store, &enginetest.Service{}, enginetest.Echo, enginetest.App())
					defer r.Close()
					one, err := do(r, "k")
					two, err2 := do(r, "k")
					want := 2
					if kept {
						want = 3 // one more, made without a key
					}
					if n := sessionsIn(t, store); err != nil || err2 != nil || one.ID != two.ID || n != want {
						t.Errorf("after a restart: %s and %s, %d sessions: %v, %v", one.ID, two.ID, n, err, err2)
					}
				})
			})
		}
	}
}

// TestCallWhoseSessionIsInDoubt: if only the session of a direct call may have been made, the
// caller is told to call again.
func TestCallWhoseSessionIsInDoubt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.Over(t, &unclear{Store: mem.New(), kept: true}, &enginetest.Service{}, enginetest.Echo, enginetest.App())
		defer r.Close()
		_, err := r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: "test", Name: "mail", Input: []byte(`{"text":"x"}`)})
		if e := parley.Info(err); e.Code != parley.CodeUnavailable || e.RetryAfterMS == 0 || !strings.Contains(e.Hint, "nothing was called") {
			t.Errorf("got %v, %s", err, e.Hint)
		}
	})
}

// blind is a store that cannot read sessions any more once it has made one.
type blind struct {
	seam.Store
	on atomic.Bool
}

func (b *blind) made(err error) error {
	b.on.Store(true)
	return err
}

func (b *blind) Append(ctx context.Context, p parley.Principal, batch seam.Batch) error {
	return b.made(b.Store.Append(ctx, p, batch))
}

func (b *blind) Fork(ctx context.Context, p parley.Principal, from parley.SessionID, at int64, batch seam.Batch) error {
	return b.made(b.Store.Fork(ctx, p, from, at, batch))
}

func (b *blind) Session(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.SessionInfo, error) {
	if b.on.Load() {
		return parley.SessionInfo{}, parley.Errorf(parley.CodeUnavailable, "the database cannot be reached").WithRetry(1)
	}
	return b.Store.Session(ctx, p, id)
}

// TestMadeJustBeforeAnOutage: a caller that has made a session gets it, although the store cannot
// be read any more. After an error that asks for another attempt, the caller would make a second
// session.
func TestMadeJustBeforeAnOutage(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"create", "fork", "import"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := enginetest.New(t, enginetest.Echo, enginetest.App())
			s, store := r.Session(), r.Store
			do := ofEachKind(t, r, s.ID)[name]
			r.Close()
			r = enginetest.Over(t, &blind{Store: store}, &enginetest.Service{}, enginetest.Echo, enginetest.App())
			defer r.Close()
			if made, err := do(r, ""); err != nil || made.ID == "" || made.App != "test" || made.Version == 0 {
				t.Errorf("got %+v, %v", made, err)
			}
		})
	}
}
