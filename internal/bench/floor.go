package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/parley-server/parley/internal/seam"
)

// row is bytes under a key.
type row struct {
	event bool // otherwise it overwrites the row with its key
	key   string
	seq   int64
	body  []byte
}

// rowsOf encodes a batch beforehand, so that the floor only writes.
func rowsOf(b seam.Batch) (rows []row, err error) {
	add := func(key string, v any) {
		body, e := json.Marshal(v)
		err = errors.Join(err, e)
		rows = append(rows, row{key: key, body: body})
	}
	for _, e := range b.Events {
		rows = append(rows, row{event: true, key: string(b.Session), seq: e.Seq, body: e.AppendJSON(nil)})
	}
	if b.Index.Session != nil {
		add("session "+string(b.Session), b.Index.Session)
	}
	if b.Index.State != nil {
		rows = append(rows, row{key: "state " + string(b.Session), body: b.Index.State.Body})
	}
	for _, t := range b.Index.Turns {
		add("turn "+string(t.ID), t)
	}
	for _, in := range b.Index.Interactions {
		add("interaction "+string(in.ID), in)
	}
	return rows, err
}

// pending is a batch whose writer is waiting.
type pending struct {
	rows []row
	done chan struct{}
}

// writer commits everything that waits, with one sync.
type writer interface {
	write(batch []*pending) error
	close() error
}

// file is a writer of a SQLite file.
type file struct {
	*group
	c *sqlite.Conn
}

func newFile(dir string) (writer, error) {
	c, err := sqlite.OpenConn(filepath.Join(dir, "floor.db"), sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return nil, err
	}
	g, err := newGroup(c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &file{g, c}, nil
}

func (f *file) close() error { return f.c.Close() }

// replay writes the batches of some sessions, in order within each session and concurrently
// across sessions. It returns the turns per second.
func replay(ctx context.Context, k kind, log [][]seam.Batch, each int) (_ float64, err error) {
	s, done, err := k.fresh("floor")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, done()) }()
	all := make([][][]row, len(log))
	for i, batches := range log {
		for _, batch := range batches {
			rows, err := rowsOf(batch)
			if err != nil {
				return 0, err
			}
			all[i] = append(all[i], rows)
		}
	}
	w, err := k.floor(ctx, s)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(w.close(), err) }()
	queue := make(chan *pending, len(log))
	failed := make(chan error, 1)
	go func() { failed <- grouped(w, queue) }()
	began := time.Now()
	err = together(len(all), func(i int) error {
		for _, rows := range all[i] {
			p := &pending{rows: rows, done: make(chan struct{})}
			queue <- p
			<-p.done
		}
		return nil
	})
	took := time.Since(began)
	close(queue)
	return float64(len(log)*each) / took.Seconds(), errors.Join(err, <-failed)
}

// lone commits small batches one at a time: the minimum cost of keeping a message.
type lone struct {
	dir string
	c   *sqlite.Conn
	g   *group
	n   int64
}

func (b *bench) lone() (*lone, error) {
	dir, err := b.folder("commit")
	if err != nil {
		return nil, err
	}
	c, err := sqlite.OpenConn(filepath.Join(dir, "floor.db"), sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return nil, err
	}
	g, err := newGroup(c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &lone{dir: dir, c: c, g: g}, nil
}

func (l *lone) close() error { return errors.Join(l.c.Close(), os.RemoveAll(l.dir)) }

// commit returns how many milliseconds a commit took.
func (l *lone) commit() (float64, error) {
	body := make([]byte, 400) // about the size of turn.started and model.started
	l.n += 2
	rows := []row{
		{event: true, key: "s", seq: l.n, body: body},
		{event: true, key: "s", seq: l.n + 1, body: body},
		{key: "session", body: body},
		{key: "turn", body: body},
	}
	began := time.Now()
	err := l.g.write([]*pending{{rows: rows}})
	return ms(time.Since(began)), err
}

// group writes rows with prepared statements.
type group struct {
	begin, commit, event, put *sqlite.Stmt
}

func newGroup(c *sqlite.Conn) (g *group, err error) {
	for _, q := range []string{
		"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA wal_autocheckpoint = 4000",
		"CREATE TABLE events (session TEXT, seq INTEGER, body BLOB, PRIMARY KEY (session, seq)) WITHOUT ROWID",
		"CREATE TABLE rows (key TEXT PRIMARY KEY, body BLOB) WITHOUT ROWID",
	} {
		s, _, err := c.PrepareTransient(q)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q, err)
		}
		_, err = s.Step()
		if err := errors.Join(err, s.Finalize()); err != nil {
			return nil, fmt.Errorf("%s: %w", q, err)
		}
	}
	g = &group{}
	for q, s := range map[string]**sqlite.Stmt{
		"BEGIN IMMEDIATE": &g.begin, "COMMIT": &g.commit,
		"INSERT INTO events VALUES (?, ?, ?)":         &g.event,
		"INSERT OR REPLACE INTO rows VALUES (?1, ?3)": &g.put,
	} {
		if *s, err = c.Prepare(q); err != nil {
			return nil, fmt.Errorf("%s: %w", q, err)
		}
	}
	return g, nil
}

// grouped writes what comes, everything that waits at once. It continues after an error without
// writing, so that nobody waits forever.
func grouped(w writer, queue <-chan *pending) (err error) {
	for p := range queue {
		batch := []*pending{p}
		for more := true; more; {
			select {
			case p, ok := <-queue:
				if more = ok; ok {
					batch = append(batch, p)
				}
			default:
				more = false
			}
		}
		if err == nil {
			err = w.write(batch)
		}
		for _, p := range batch {
			close(p.done)
		}
	}
	return err
}

func (g *group) write(batch []*pending) error {
	if err := step(g.begin); err != nil {
		return err
	}
	for _, p := range batch {
		for _, r := range p.rows {
			s := g.put
			if r.event {
				s = g.event
				s.BindInt64(2, r.seq)
			}
			s.BindText(1, r.key)
			s.BindBytes(3, r.body)
			if err := step(s); err != nil {
				return err
			}
		}
	}
	return step(g.commit)
}

func step(s *sqlite.Stmt) error {
	_, err := s.Step()
	return errors.Join(err, s.Reset())
}
