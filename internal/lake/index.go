package lake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/wiki"
)

// schemaVersion is kept in the database. Another one is deleted and made again.
const schemaVersion = 2

// A file is every file of the lake, since links lead to pictures, too. key and fold are as links compare names.
const schema = `
CREATE TABLE file (
	id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, key TEXT NOT NULL, fold TEXT NOT NULL, stamp TEXT NOT NULL, entity INTEGER NOT NULL,
	kind TEXT, title TEXT, owner TEXT, status TEXT, created TEXT, updated TEXT, version TEXT, size INTEGER,
	tags TEXT, front TEXT, faults TEXT, headings TEXT
) STRICT;
CREATE INDEX file_key ON file (key);
CREATE INDEX file_fold ON file (fold);
CREATE TABLE tag (file INTEGER NOT NULL, tag TEXT NOT NULL, PRIMARY KEY (tag, file)) STRICT, WITHOUT ROWID;
CREATE INDEX tag_file ON tag (file);
CREATE TABLE link (
	file INTEGER NOT NULL, n INTEGER NOT NULL, key TEXT NOT NULL, wiki INTEGER NOT NULL, target TEXT NOT NULL, heading TEXT NOT NULL, text TEXT NOT NULL,
	line INTEGER NOT NULL, PRIMARY KEY (file, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX link_key ON link (key);
CREATE VIRTUAL TABLE text USING fts5(title, tags, body, tokenize = "porter unicode61 remove_diacritics 2");
`

// index is the search index of a lake.
type index struct {
	name  string
	in    *folder
	o     Options
	read  chan *sqlite.Conn // connections for readers
	mu    sync.Mutex        // for what follows, and for writing
	conn  *sqlite.Conn      // nil: it rests, or is closed
	ended bool
	known map[string]known // what the database has
	last  time.Time        // when the files were looked at; zero: they have to be
}

// known is a file as it was when it was read.
type known struct {
	id    int64
	stamp string
	racy  bool // it was changed so shortly before that its times do not show whether it was again
}

// readers is how many queries are made at once. Each costs a connection with its cache.
const readers = 3

func openIndex(dir string, in *folder, o Options) (*index, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "%w", err)
	}
	x := &index{name: filepath.Join(dir, "lake.db"), in: in, o: o, read: make(chan *sqlite.Conn, readers)}
	for range readers {
		x.read <- nil
	}
	err := x.open()
	if err != nil { // it is a cache
		if err = x.renew(); err != nil {
			return nil, parley.Errorf(parley.CodeUnavailable, "the search index of the lake: %w", err)
		}
	}
	return x, nil
}

// renew makes the database again.
func (x *index) renew() error {
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(x.name + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return x.open()
}

func (x *index) connect() (*sqlite.Conn, error) {
	c, err := sqlite.OpenConn(x.name, sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenWAL)
	if err != nil {
		return nil, err
	}
	c.SetBusyTimeout(10 * time.Second)
	// After a crash of the machine it may be damaged, which is noticed, and then it is made again.
	for _, p := range []string{"PRAGMA synchronous = OFF", "PRAGMA cache_size = -2048", "PRAGMA temp_store = MEMORY"} {
		if err := sqlitex.ExecuteTransient(c, p, nil); err != nil {
			_ = c.Close()
			return nil, err
		}
	}
	return c, nil
}

func (x *index) open() (err error) {
	if f, err := os.OpenFile(x.name, os.O_CREATE|os.O_RDWR, 0o600); err != nil { // SQLite takes the mode of its other files from this
		return err
	} else if err := f.Close(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = x.shut()
		}
	}()
	if x.conn, err = x.connect(); err != nil {
		return err
	}
	at, err := sqlitex.ResultInt(x.conn.Prep("PRAGMA user_version"))
	if err != nil {
		return err
	}
	if at != 0 && at != schemaVersion {
		return errors.New("it is of another version")
	}
	if at == 0 {
		if err := sqlitex.ExecuteScript(x.conn, fmt.Sprintf("%s; PRAGMA user_version = %d;", schema, schemaVersion), nil); err != nil {
			return err
		}
	}
	x.known = map[string]known{}
	if err := sqlitex.Execute(x.conn, `SELECT id, path, stamp FROM file`, &sqlitex.ExecOptions{ResultFunc: func(st *sqlite.Stmt) error {
		// Of what was read by an earlier process the time is not known: its times may be racy.
		x.known[st.ColumnText(1)] = known{st.ColumnInt64(0), st.ColumnText(2), false}
		return nil
	}}); err != nil {
		return err
	}
	x.last = time.Time{}
	for range readers {
		c, err := x.connect()
		if err != nil {
			return err
		}
		if old := <-x.read; old != nil {
			_ = old.Close()
		}
		x.read <- c
	}
	return nil
}

// shut closes the connections, when the queries that use them are over.
func (x *index) shut() (err error) {
	for range readers {
		if c := <-x.read; c != nil {
			err = errors.Join(err, c.Close())
		}
		x.read <- nil
	}
	if x.conn != nil {
		err = errors.Join(err, x.conn.Close())
		x.conn = nil
	}
	return err
}

func (x *index) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
	return x.shut()
}

// rest closes the database until it is needed again.
func (x *index) rest() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.shut(); err != nil {
		x.o.Logger.Warn("the search index of a lake cannot be closed", "err", err)
	}
	x.known = nil
}

// with runs a query on what the files are now.
func (x *index) with(ctx context.Context, f func(c *sqlite.Conn) error) error {
	for tries := 0; ; tries++ {
		if err := x.follow(ctx, x.o.Fresh); err != nil {
			return err
		}
		if err := x.query(ctx, f); !errors.Is(err, errResting) || tries == 10 {
			return err
		}
	}
}

var errResting = errors.New("the index is not open")

// query runs a query on what is known.
func (x *index) query(ctx context.Context, f func(c *sqlite.Conn) error) (err error) {
	var c *sqlite.Conn
	select {
	case c = <-x.read:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { x.read <- c }()
	if c == nil {
		return errResting
	}
	c.SetInterrupt(ctx.Done())
	defer c.SetInterrupt(nil)
	done := sqlitex.Transaction(c) // all of a query sees one state
	defer func() {
		done(&err)
		if _, ours := errors.AsType[*parley.Error](err); err != nil && !ours && ctx.Err() == nil {
			err = parley.Errorf(parley.CodeUnavailable, "the search index of the lake: %w", err)
		}
	}()
	return f(c)
}

// put writes what was read of files, in one transaction. The lock is held.
func (x *index) put(list []read) (err error) {
	if len(list) == 0 {
		return nil
	}
	done, err := sqlitex.ImmediateTransaction(x.conn)
	if err != nil {
		return err
	}
	defer done(&err)
	for _, r := range list {
		if err := x.putOne(r); err != nil {
			return err
		}
	}
	return nil
}

func exec(c *sqlite.Conn, query string, args ...any) error {
	return sqlitex.Execute(c, query, &sqlitex.ExecOptions{Args: args})
}

func (x *index) putOne(r read) error {
	c := x.conn
	have, ok := x.known[r.path]
	if ok {
		for _, q := range []string{`DELETE FROM text WHERE rowid = ?`, `DELETE FROM tag WHERE file = ?`, `DELETE FROM link WHERE file = ?`} {
			if err := exec(c, q, have.id); err != nil {
				return err
			}
		}
	}
	if r.gone {
		if ok {
			delete(x.known, r.path)
			return exec(c, `DELETE FROM file WHERE id = ?`, have.id)
		}
		return nil
	}
	id := have.id
	if !ok {
		if err := exec(c, `INSERT INTO file (path, key, fold, stamp, entity) VALUES (?, ?, ?, '', 0)`, r.path, wiki.Key(r.path), wiki.Fold(r.path)); err != nil {
			return err
		}
		id = c.LastInsertRowID()
	}
	x.known[r.path] = known{id, r.stamp, r.racy}
	stamp := r.stamp
	if r.racy {
		stamp = "" // whoever opens the database later reads it again
	}
	if r.p == nil {
		return exec(c, `UPDATE file SET stamp = ?2, entity = 0 WHERE id = ?1`, id, stamp)
	}
	p := r.p
	tags, err := jsonText(p.Tags)
	if err != nil {
		return err
	}
	front, err := jsonText(p.Front)
	if err != nil {
		return err
	}
	faults, err := jsonText(p.Faults)
	if err != nil {
		return err
	}
	headings, err := jsonText(p.headings)
	if err != nil {
		return err
	}
	if err := exec(c, `UPDATE file SET stamp = ?2, entity = 1, kind = ?3, title = ?4, owner = ?5, status = ?6, created = ?7, updated = ?8, version = ?9, size = ?10,
		tags = ?11, front = ?12, faults = ?13, headings = ?14 WHERE id = ?1`,
		id, stamp, p.Kind, p.Title, p.Owner, p.Status, p.Created, p.Updated, p.Version, p.Size, tags, front, faults, headings); err != nil {
		return err
	}
	for _, t := range p.Tags {
		if err := exec(c, `INSERT INTO tag (file, tag) VALUES (?, ?)`, id, t); err != nil {
			return err
		}
	}
	for i, l := range p.links {
		key := ""
		if l.To != "" {
			key = wiki.Key(l.To)
		}
		if err := exec(c, `INSERT INTO link (file, n, key, wiki, target, heading, text, line) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			id, i, key, l.Wiki, l.To, l.Heading, l.Text, l.Line); err != nil {
			return err
		}
	}
	words := ""
	for _, t := range p.Tags {
		words += t + " "
	}
	return exec(c, `INSERT INTO text (rowid, title, tags, body) VALUES (?, ?, ?, ?)`, id, p.Title, words, p.text)
}

func jsonText(v any) (string, error) {
	raw, err := json.Marshal(v)
	return string(raw), err
}
