package main

import (
	"context"
	"errors"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley/internal/store/postgres/pgtest"
)

// kind is a kind of stores that is measured.
type kind struct {
	name string // empty for SQLite, whose rows have the plain names
	// fresh makes an empty store, and a folder for other data. done removes both.
	fresh func(what string) (s setting, done func() error, err error)
	// floor makes what the same rows are written with at least.
	floor func(ctx context.Context, s setting) (writer, error)
}

// on is the name of a figure of this kind.
func (k kind) on(figure string) string {
	if k.name == "" {
		return figure
	}
	return figure + ", " + k.name
}

// startPostgres starts PostgreSQL for the run, unless an address was given. Without its programs
// only SQLite is measured, and the table says so.
func (b *bench) startPostgres() (stop func() error) {
	stop = func() error { return nil }
	if b.postgres != "" {
		return stop
	}
	s, end, err := pgtest.Run()
	if err != nil {
		b.note("PostgreSQL is not measured: %v", err)
		return stop
	}
	b.cluster = s
	return end
}

// stores are the kinds of stores, side by side.
func (b *bench) stores() []kind {
	folder := func(what string) (setting, func() error, error) {
		dir, err := b.folder(what)
		return setting{dir: dir}, func() error { return os.RemoveAll(dir) }, err
	}
	list := []kind{{"", folder, func(_ context.Context, s setting) (writer, error) { return newFile(s.dir) }}}
	if b.postgres == "" && b.cluster == nil {
		return list
	}
	return append(list, kind{"PostgreSQL", func(what string) (s setting, done func() error, err error) {
		s, remove, err := folder(what)
		if err != nil {
			return s, nil, err
		}
		drop := b.empty
		if s.postgres = b.postgres; b.cluster != nil {
			if s.postgres, drop, err = b.cluster.Make(); err != nil {
				return s, nil, errors.Join(err, remove())
			}
		}
		return s, func() error { return errors.Join(drop(), remove()) }, nil
	}, newDatabase})
}

// empty removes what a measurement has left in the database that was given.
func (b *bench) empty() error {
	ctx := context.Background()
	c, err := pgx.Connect(ctx, b.postgres)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, `DROP SCHEMA IF EXISTS parley CASCADE; DROP SCHEMA IF EXISTS floor CASCADE`)
	return errors.Join(err, c.Close(ctx))
}

// database is a writer with a connection of its own: all that waits is one round trip and one sync.
type database struct{ c *pgx.Conn }

func newDatabase(ctx context.Context, s setting) (writer, error) {
	c, err := pgx.Connect(ctx, s.postgres)
	if err != nil {
		return nil, err
	}
	_, err = c.Exec(ctx, `CREATE SCHEMA floor; SET search_path = floor; SET synchronous_commit = on;
		CREATE TABLE events (session text, seq bigint, body bytea, PRIMARY KEY (session, seq));
		CREATE TABLE rows (key text PRIMARY KEY, body bytea) WITH (fillfactor = 80)`)
	if err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	return &database{c}, nil
}

func (d *database) write(batch []*pending) error {
	var sessions, keys []string
	var seqs []int64
	var events, bodies [][]byte
	at := map[string]int{} // one statement writes a row once
	for _, p := range batch {
		for _, r := range p.rows {
			switch i, twice := at[r.key]; {
			case r.event:
				sessions, seqs, events = append(sessions, r.key), append(seqs, r.seq), append(events, r.body)
			case twice:
				bodies[i] = r.body
			default:
				at[r.key] = len(keys)
				keys, bodies = append(keys, r.key), append(bodies, r.body)
			}
		}
	}
	b := &pgx.Batch{}
	b.Queue(`BEGIN`)
	b.Queue(`INSERT INTO events SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[])`, sessions, seqs, events)
	b.Queue(`INSERT INTO rows SELECT * FROM unnest($1::text[], $2::bytea[]) ON CONFLICT (key) DO UPDATE SET body = excluded.body`, keys, bodies)
	b.Queue(`COMMIT`)
	return d.c.SendBatch(context.Background(), b).Close()
}

func (d *database) close() error { return d.c.Close(context.Background()) }
