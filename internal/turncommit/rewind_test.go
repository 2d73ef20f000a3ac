package turncommit_test

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/turncommit"
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

// TestIgnored: a file that git ignores is in no commit, and the log says so. A file that git has is committed although
// it is to be ignored by now.
func TestIgnored(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	live(t, func(g *rig) {
		s := g.session("sebastian")
		g.turn(s, "known", writes("known.md", "1\n"))
		g.settled()
		if log.Len() > 0 {
			t.Errorf("said without a reason: %s", &log)
		}
		g.turn(s, "hide", writes(".gitignore", "*\n"), writes("hidden.md", "x\n"), writes("sub/[a] b.md", "x\n"))
		g.settled()
		g.turn(s, "again", call{"Read", map[string]any{"file_path": "known.md"}}, writes("known.md", "2\n"))
		g.settled()
		want := []string{"known: sebastian/known.md", "again: sebastian/known.md"}
		if diff := cmp.Diff(want, g.history(g.vault)); diff != "" {
			t.Error(diff)
		}
		said := log.String()
		for _, name := range []string{"sebastian/.gitignore", "sebastian/hidden.md", "sebastian/sub/[a] b.md"} {
			if !strings.Contains(said, name) || strings.Contains(said, "known.md") {
				t.Errorf("it does not say that %s is ignored: %s", name, said)
			}
		}
	}, func(o *turncommit.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
}

// TestRewind: what a rewind does to files is a new commit, and it is pushed.
func TestRewind(t *testing.T) {
	t.Parallel()
	live(t, func(g *rig) {
		s := g.session("sebastian")
		g.settled()
		turn := g.turn(s, "write", writes("a.md", "a\n"))
		g.settled()
		g.Rewind(s.ID, parley.RewindSession{Turn: turn.ID, What: parley.RewindBoth})
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
