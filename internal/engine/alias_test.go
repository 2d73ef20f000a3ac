package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// goneAlias is a store in which the session of an alias is deleted right after the alias was read.
type goneAlias struct {
	seam.Store
	delete func(parley.SessionID)
}

func (d *goneAlias) Alias(ctx context.Context, p parley.Principal, app, outside string) (parley.SessionID, error) {
	id, err := d.Store.Alias(ctx, p, app, outside)
	if err == nil {
		d.delete(id)
	}
	return id, err
}

// TestCreateWhileTheAliasIsDeleted: who creates a session with an outside id gets one, also if the
// session that had the id is deleted at that moment.
func TestCreateWhileTheAliasIsDeleted(t *testing.T) {
	t.Parallel()
	store := &goneAlias{Store: mem.New()}
	r := enginetest.Over(t, store, &enginetest.Service{}, enginetest.Echo, enginetest.App())
	defer r.Close()
	store.delete = func(id parley.SessionID) {
		if err := r.Engine.Delete(t.Context(), enginetest.User, id); err != nil {
			t.Error(err)
		}
	}
	create := func() (parley.SessionInfo, bool) {
		s, created, err := r.Engine.Create(t.Context(), enginetest.User, parley.CreateSession{App: "test", OutsideID: "mine"})
		if err != nil {
			t.Fatal(err)
		}
		return s, created
	}
	first, _ := create()
	if second, created := create(); !created || second.ID == first.ID {
		t.Errorf("got %+v, created %v", second, created)
	}
}

// TestTitlesOfForks: however long the chain of forks, the title says once that it is a fork, and
// is no longer than a title may be.
func TestTitlesOfForks(t *testing.T) {
	t.Parallel()
	r := enginetest.New(t, enginetest.Echo, enginetest.App())
	defer r.Close()
	long := strings.Repeat("é", parley.MaxTitle)
	for title, want := range map[string]string{"Login": "Fork of Login", "Fork of Login": "Fork of Login", long: "Fork of " + long[:2*(parley.MaxTitle-9)] + "…"} {
		s := r.Session(func(c *parley.CreateSession) { c.Title = title })
		for range 3 {
			f, err := r.Engine.Fork(t.Context(), enginetest.User, s.ID, parley.ForkSession{})
			if err != nil || f.Title != want {
				t.Fatalf("got %q, %v, want %q", f.Title, err, want)
			}
			s = f
		}
	}
}
