package turncommit_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// made restores files that were made: it removes them.
type made struct{ seam.Restorer }

func (made) plan(r seam.Restoration) (out seam.Restored) {
	for _, c := range r.Changes {
		for _, p := range c.Paths {
			out.Files = append(out.Files, parley.FileRewound{Path: p, Outcome: parley.FileRestored})
		}
	}
	return out
}

func (m made) Plan(_ context.Context, r seam.Restoration) (seam.Restored, error) {
	return m.plan(r), nil
}

func (m made) Restore(_ context.Context, r seam.Restoration) (seam.Restored, error) {
	for _, f := range m.plan(r).Files {
		if err := r.Root.Remove(f.Path); err != nil {
			return seam.Restored{}, err
		}
	}
	return m.plan(r), nil
}

func (made) Unsee(context.Context, parley.SessionID) error                   { return nil }
func (made) Begin(context.Context, parley.SessionID) error                   { return nil }
func (made) Done(context.Context, parley.SessionID) error                    { return nil }
func (made) Unfinished(context.Context) (list []parley.SessionID, err error) { return nil, nil }

// TestRewind: what a rewind does to files is a new commit, and it is pushed.
func TestRewind(t *testing.T) {
	t.Parallel()
	live(t, func(g *rig) {
		s := g.session("sebastian")
		g.settled()
		turn := g.turn(s, "write", writes("a.md", "a\n"))
		g.settled()
		did, err := g.Engine.Rewind(context.Background(), enginetest.User, s.ID, parley.RewindSession{Turn: turn.ID, What: parley.RewindBoth})
		if err == nil {
			_, err = g.Engine.AwaitRewind(context.Background(), enginetest.User, s.ID, did.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		g.settled()
		want := []string{"write: sebastian/a.md", "Go back to before: write: sebastian/a.md"}
		for _, at := range []string{g.vault, filepath.Join(g.dir, "remote.git")} {
			if diff := cmp.Diff(want, g.history(at)); diff != "" {
				t.Errorf("%s: %s", at, diff)
			}
		}
		if got := read(g.vault, "sebastian/a.md"); got != "(none)" {
			t.Errorf("the file has %q", got)
		}
		g.restarted()
		if diff := cmp.Diff(want, g.history(g.vault)); diff != "" {
			t.Errorf("after a restart: %s", diff)
		}
	})
}
