package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// notes are the migrations of a table, up to a version.
func notes(version int) fstest.MapFS {
	steps := []struct{ sqlite, postgres string }{
		{
			`CREATE TABLE {notes} (id TEXT PRIMARY KEY, n INTEGER NOT NULL, done INTEGER NOT NULL, body BLOB, at TEXT NOT NULL); CREATE INDEX {notes_at} ON {notes} (at);`,
			`CREATE TABLE {notes} (id text PRIMARY KEY, n bigint NOT NULL, done boolean NOT NULL, body bytea, at timestamptz NOT NULL); CREATE INDEX {notes_at} ON {notes} (at);`,
		},
		{`ALTER TABLE {notes} ADD COLUMN more TEXT NOT NULL DEFAULT 'none'`, `ALTER TABLE {notes} ADD COLUMN more text NOT NULL DEFAULT 'none'`},
	}
	all := fstest.MapFS{}
	for i, s := range steps[:version] {
		all[fmt.Sprintf("sqlite/%04d_x.sql", i+1)] = &fstest.MapFile{Data: []byte(s.sqlite)}
		all[fmt.Sprintf("postgres/%04d_x.sql", i+1)] = &fstest.MapFile{Data: []byte(s.postgres)}
	}
	return all
}

const addNote = `INSERT INTO {notes} (id, n, done, body, at) VALUES (?, ?, ?, ?, ?)`

// appTables: two apps may call a table alike, a change is all or nothing, and migrations run once.
func appTables(t *testing.T, s seam.Store) {
	ctx := context.Background()
	a, err := s.Tables(ctx, "leads", notes(1))
	if errors.Is(err, seam.ErrNoTables) {
		return // the store in memory, whose packages of tables have a body of their own
	}
	must(t, err)
	b, err := s.Tables(ctx, "crm-2", notes(1))
	must(t, err)
	add := func(in seam.Tables, id string, n int64) error {
		return in.Change(ctx, func(st seam.Statements) error {
			_, err := st.Run(addNote, id, n, n%2 == 0, []byte{0, byte(n)}, at(int(n)).Add(7*time.Microsecond))
			return err
		})
	}
	type note struct {
		ID   string
		N    int64
		Done bool
		Body []byte
		At   time.Time
	}
	all := func(in seam.Tables) (out []note) {
		t.Helper()
		must(t, in.View(ctx, func(st seam.Statements) error {
			out = nil
			return st.Each(`SELECT id, n, done, body, at FROM {notes} WHERE n < ? ORDER BY at`, func(scan func(...any) error) error {
				var v note
				err := scan(&v.ID, &v.N, &v.Done, &v.Body, &v.At)
				out = append(out, v)
				return err
			}, int64(1000))
		}))
		return out
	}
	must(t, add(a, "x", 1))
	must(t, add(b, "x", 2))
	equal(t, "of leads", all(a), []note{{"x", 1, false, []byte{0, 1}, at(1)}})
	equal(t, "of crm-2", all(b), []note{{"x", 2, true, []byte{0, 2}, at(2)}})

	want(t, "a second x", add(a, "x", 3), parley.CodeConflict)
	refused := parley.Errorf(parley.CodeQuota, "too many")
	err = a.Change(ctx, func(st seam.Statements) error {
		if n, err := st.Run(`UPDATE {notes} SET n = n + ? WHERE id = ?`, int64(10), "x"); err != nil || n != 1 {
			t.Errorf("changed %d, %v", n, err)
		}
		return refused
	})
	if !errors.Is(err, refused) || parley.Info(err).Message != "too many" {
		t.Errorf("got %v, want what the change returned", err)
	}
	own := errors.New("an error without a code")
	if err := a.Change(ctx, func(st seam.Statements) error { _, _ = st.Run(`DELETE FROM {notes}`); return own }); !errors.Is(err, own) {
		t.Errorf("got %v, want %v", err, own)
	}
	if err := a.View(ctx, func(seam.Statements) error { return own }); !errors.Is(err, own) {
		t.Errorf("got %v, want %v", err, own)
	}
	want(t, "a mistaken statement", a.Change(ctx, func(st seam.Statements) error { _, err := st.Run(`SELEC`); return err }), parley.CodeInternal)
	equal(t, "after the refusals", all(a)[0].N, int64(1))
	must(t, s.Check(ctx)) // none of them was the disk's fault

	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			err := a.Change(ctx, func(st seam.Statements) error {
				if _, err := st.Run(`UPDATE {notes} SET n = n + 1 WHERE id = ?`, "x"); err != nil {
					return err
				}
				if i%4 == 0 {
					return refused
				}
				return nil
			})
			if (err != nil) != (i%4 == 0) {
				t.Errorf("change %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	equal(t, "after 15 changes", all(a)[0].N, int64(16))

	// An update of the app adds a column; an older app is refused then.
	a, err = s.Tables(ctx, "leads", notes(2))
	must(t, err)
	_, err = s.Tables(ctx, "leads", notes(2))
	must(t, err)
	var more string
	must(t, a.View(ctx, func(st seam.Statements) error {
		return st.Each(`SELECT more FROM {notes}`, func(scan func(...any) error) error { return scan(&more) })
	}))
	equal(t, "the new column", more, "none")
	_, err = s.Tables(ctx, "leads", notes(1))
	want(t, "an older app", err, parley.CodeUpgradeRequired)
	_, err = s.Tables(ctx, "Not an app", notes(1))
	want(t, "a strange name", err, parley.CodeInvalid)
}
