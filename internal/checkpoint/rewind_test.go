package checkpoint_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/checkpoint"
)

// TestRewinds: what a rewind changes is recorded like other changes, but the session has not seen it,
// and no content goes before the rewind has ended.
func TestRewinds(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	s := open(t, dir, 5)
	at := time.UnixMilli(1_790_000_000_123).UTC()
	edited := checkpoint.Record{Call: "c1", Turn: "t1", Path: "a.md", Before: "d1", After: "d2", At: at}
	must(t, s.Begin(ctx, "s1", edited, []byte("one")))
	must(t, s.End(ctx, "s1", edited))
	must(t, s.Saw(ctx, "s1", "b.md", "d9"))

	back := checkpoint.Record{Call: "r1", Path: "a.md", Before: "d2", After: "d1", At: at, Mode: 0o755}
	lost := checkpoint.Record{Call: "r1", Path: "b.md", Before: "d3", At: at}
	must(t, s.StartRewind(ctx, "s1"))
	must(t, s.StartRewind(ctx, "s1"))
	must(t, s.BeginRewind(ctx, "s1", back, []byte("two")))
	must(t, s.BeginRewind(ctx, "s1", lost, []byte("3")))
	must(t, s.NotRewound(ctx, "s1", lost))
	must(t, s.Rewound(ctx, "s1", back))
	edited.Done, back.Done = true, true
	if got, err := s.Changes(ctx, "s1", ""); err != nil || !cmp.Equal([]checkpoint.Record{edited, back}, got) {
		t.Errorf("%v %s", err, cmp.Diff([]checkpoint.Record{edited, back}, got))
	}
	for path, want := range map[string]bool{"a.md": false, "b.md": true} {
		if _, ok, err := s.Seen(ctx, "s1", path); err != nil || ok != want {
			t.Errorf("%s is seen: %v, %v", path, ok, err)
		}
	}
	has := func(d parley.Digest, want bool) {
		t.Helper()
		if _, ok, err := s.Content(ctx, "s1", d); err != nil || ok != want {
			t.Errorf("content %s is there: %v, %v", d, ok, err)
		}
	}
	has("d1", true)
	if got, err := open(t, dir, 5).Rewinding(ctx); err != nil || !cmp.Equal([]parley.SessionID{"s1"}, got) {
		t.Errorf("under way: %v, %v", got, err)
	}
	must(t, s.EndRewind(ctx, "s1"))
	has("d1", false) // beyond the limit of 5 bytes
	has("d2", true)
	if got, err := s.Rewinding(ctx); err != nil || len(got) != 0 {
		t.Errorf("under way: %v, %v", got, err)
	}
	must(t, s.Unsee(ctx, "s1"))
	if _, ok, err := s.Seen(ctx, "s1", "b.md"); err != nil || ok {
		t.Errorf("b.md is seen: %v, %v", ok, err)
	}
	must(t, s.StartRewind(ctx, "s1"))
	must(t, s.Drop(ctx, "s1"))
	if got, err := s.Rewinding(ctx); err != nil || len(got) != 0 {
		t.Errorf("after Drop: %v, %v", got, err)
	}
}

// TestUpgrade reads a database of the first version.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	c, err := sqlite.OpenConn(filepath.Join(dir, "checkpoints.db"), sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenWAL)
	must(t, err)
	must(t, sqlitex.ExecuteScript(c, `
CREATE TABLE seen (
	session TEXT NOT NULL, path TEXT NOT NULL, version TEXT NOT NULL, n INTEGER NOT NULL,
	PRIMARY KEY (session, path)
) STRICT, WITHOUT ROWID;
CREATE TABLE change (
	n INTEGER PRIMARY KEY, session TEXT NOT NULL, call TEXT NOT NULL, turn TEXT NOT NULL, path TEXT NOT NULL,
	before TEXT NOT NULL, after TEXT NOT NULL, dirs TEXT NOT NULL, at INTEGER NOT NULL, done INTEGER NOT NULL
) STRICT;
CREATE INDEX change_session ON change (session, n);
CREATE TABLE content (
	session TEXT NOT NULL, digest TEXT NOT NULL, n INTEGER NOT NULL, size INTEGER NOT NULL, body BLOB NOT NULL,
	PRIMARY KEY (session, digest)
) STRICT;
CREATE INDEX content_age ON content (session, n);
INSERT INTO change (session, call, turn, path, before, after, dirs, at, done) VALUES ('s1', 'c1', 't1', 'a.md', 'd1', 'd2', 'null', 1790000000123, 1);
INSERT INTO content (session, digest, n, size, body) VALUES ('s1', 'd1', 1, 3, x'6f6e65');
PRAGMA user_version = 1;
`, nil))
	must(t, c.Close())
	s := open(t, dir, 0)
	want := []checkpoint.Record{{Call: "c1", Turn: "t1", Path: "a.md", Before: "d1", After: "d2", At: time.UnixMilli(1_790_000_000_123).UTC(), Done: true}}
	if got, err := s.Changes(ctx, "s1", ""); err != nil || !cmp.Equal(want, got) {
		t.Errorf("%v %s", err, cmp.Diff(want, got))
	}
	if body, ok, err := s.Content(ctx, "s1", "d1"); err != nil || !ok || string(body) != "one" {
		t.Errorf("%q, %v, %v", body, ok, err)
	}
	must(t, s.StartRewind(ctx, "s1"))
	must(t, open(t, dir, 0).EndRewind(ctx, "s1"))
}
