package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/sqlite"
	"github.com/parley-server/parley/internal/store/storetest"
)

// refusesAll checks that no call returns data or acknowledges a write.
func refusesAll(t *testing.T, what string, s *sqlite.Store, id parley.SessionID) {
	t.Helper()
	ctx := context.Background()
	_, read := s.Read(ctx, ann, id, 0, 0)
	_, claim := s.Claim(ctx, ann, id, "node")
	for name, err := range map[string]error{
		"append": s.Append(ctx, ann, storetest.Words("other", 0, 1, 10)), "read": read, "claim": claim, "check": s.Check(ctx),
	} {
		e, ok := errors.AsType[*parley.Error](err)
		if !ok || e.Code != parley.CodeUnavailable || e.Hint == "" {
			t.Errorf("%s: %s: got %v, want unavailable with a hint", what, name, err)
		}
	}
}

// TestFolderThatWentAway: a folder disappears under an open store, in each possible way, and
// comes back.
func TestFolderThatWentAway(t *testing.T) {
	t.Parallel()
	for what, parts := range map[string][]string{
		"the folder": {""}, "the database": {sqlite.FileName}, "the log": {sqlite.FileName + "-wal"}, "the index of the log": {sqlite.FileName + "-shm"},
	} {
		for _, instead := range []bool{false, true} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				ctx := context.Background()
				dir := filepath.Join(t.TempDir(), "data")
				s := open(t, dir)
				must(t, s.Append(ctx, ann, storetest.Words("S", 0, 2, 10)))
				name := filepath.Join(dir, parts[0])
				aside := filepath.Join(t.TempDir(), "aside")
				must(t, os.Rename(name, aside))
				if instead && parts[0] != "" {
					must(t, os.WriteFile(name, nil, 0o600))
				} else if instead {
					must(t, os.Mkdir(name, 0o700))
				}
				if err := s.Check(ctx); parley.CodeOf(err) != parley.CodeUnavailable {
					t.Errorf("%s: before anything else is asked, it says %v", what, err)
				}
				refusesAll(t, what, s, "S")
				must(t, os.RemoveAll(name))
				must(t, os.Rename(aside, name))
				must(t, s.Check(ctx))
				must(t, s.Append(ctx, ann, storetest.Words("S", 2, 2, 10)))
				if n := storetest.Head(t, s, "S"); n != 4 {
					t.Errorf("got %d events, want 4", n)
				}
				if _, err := s.Session(ctx, ann, "other"); !errors.Is(err, parley.ErrNotFound) {
					t.Errorf("the refused batch is there: %v", err)
				}
			})
		}
	}
}

// TestFolderThatWentAwayInACommit: the folder disappears in the middle of a commit. Callers are
// told neither that it took place nor that it did not.
func TestFolderThatWentAwayInACommit(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, dir)
	must(t, s.Append(ctx, ann, storetest.Words("S", 0, 2, 10)))
	err := s.During(ctx, func() { _ = os.Rename(dir, dir+"-aside") })
	if _, known := errors.AsType[*parley.Error](err); err == nil || known {
		t.Errorf("got %v, want an error without a code", err)
	}
	refusesAll(t, "after the commit", s, "S")
	must(t, os.Rename(dir+"-aside", dir))
	must(t, s.Check(ctx))
}

// TestAnotherInThePlaceOfTheFolder: another server starts in the place of the folder. The first
// one changes nothing there.
func TestAnotherInThePlaceOfTheFolder(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "data")
	first, err := sqlite.Open(ctx, dir, sqlite.Options{})
	must(t, err)
	must(t, first.Append(ctx, ann, storetest.Words("S", 0, 2, 10)))
	must(t, os.Rename(dir, dir+"-aside"))
	second := open(t, dir)
	must(t, second.Append(ctx, ann, storetest.Words("T", 0, 2, 10)))
	refusesAll(t, "the first", first, "S")
	must(t, first.Close())
	must(t, second.Append(ctx, ann, storetest.Words("T", 2, 2, 10)))
	must(t, second.Close())
	for at, id := range map[string]parley.SessionID{dir: "T", dir + "-aside": "S"} {
		s := open(t, at)
		if n := storetest.Head(t, s, id); n != map[parley.SessionID]int64{"T": 4, "S": 2}[id] {
			t.Errorf("session %s: got %d events", id, n)
		}
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	for before := range 2 { // it is lost when Open begins, and while it opens
		dir, calls := t.TempDir(), 0
		s, err := sqlite.Open(context.Background(), dir, sqlite.Options{Guard: func() error {
			if calls++; calls > before {
				return errors.New("the lock is another's")
			}
			return nil
		}})
		if err == nil {
			must(t, s.Close())
		}
		if parley.CodeOf(err) != parley.CodeUnavailable || parley.Info(err).Hint == "" {
			t.Errorf("lost after %d checks, it opens with %v", before, err)
		}
		if _, err := os.Stat(filepath.Join(dir, sqlite.FileName)); before == 0 && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a database was made in another's folder: %v", err)
		}
	}
	var lost error
	s, err := sqlite.Open(context.Background(), t.TempDir(), sqlite.Options{Guard: func() error { return lost }})
	must(t, err)
	must(t, s.Append(context.Background(), ann, storetest.Words("S", 0, 2, 10)))
	lost = errors.New("the lock is another's")
	refusesAll(t, "guarded", s, "S")
	lost = nil
	must(t, s.Check(context.Background()))
	must(t, s.Close())
}

// TestNoNewDatabaseBesideAnOldOne: a missing or empty database beside files that it left is not
// treated as a new one. After a first start that was killed, it is.
func TestNoNewDatabaseBesideAnOldOne(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	journal := func(pages byte) []byte {
		b := make([]byte, 512)
		copy(b, []byte{0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7})
		b[19] = pages
		return b
	}
	for what, c := range map[string]struct {
		name   string
		body   []byte
		refuse bool
	}{
		"nothing": {"unrelated", []byte("x"), false}, "the log": {sqlite.FileName + "-wal", []byte("frames"), true},
		"a journal": {sqlite.FileName + "-journal", journal(7), true}, "the journal of a first start": {sqlite.FileName + "-journal", journal(0), false},
		"an archive": {"archive/S/1-2.ndjson.gz", []byte("x"), true},
	} {
		for _, empty := range []bool{false, true} {
			dir := t.TempDir()
			name := filepath.Join(dir, c.name)
			must(t, os.MkdirAll(filepath.Dir(name), 0o700))
			must(t, os.WriteFile(name, c.body, 0o600))
			if empty {
				must(t, os.WriteFile(filepath.Join(dir, sqlite.FileName), nil, 0o600))
			}
			s, err := sqlite.Open(ctx, dir, sqlite.Options{Beside: []string{"archive"}})
			if err == nil {
				must(t, s.Close())
			}
			if e, ok := errors.AsType[*parley.Error](err); c.refuse != ok || ok && (e.Code != parley.CodeInvalid || e.Hint == "") {
				t.Errorf("%s, an empty file %v: got %v, want a refusal: %v", what, empty, err, c.refuse)
			}
			if got, err := os.ReadFile(name); c.refuse && (err != nil || string(got) != string(c.body)) {
				t.Errorf("%s, an empty file %v: it was touched: %v", what, empty, err)
			}
		}
	}
}
