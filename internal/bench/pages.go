package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/sqlite"
)

// pages counts the pages that a turn writes to SQLite's log, and of which tables and indexes
// they are. These figures do not depend on the load of the machine, except that appends that
// wait longer share more commits.
func pages(ctx context.Context, b *bench) error {
	for _, k := range []struct {
		name, message  string
		sessions, each int
	}{
		{"one session", "hello", 1, 60},
		{"16 sessions", "hello", turnSessions, 12},
		{"16 sessions, three tool rounds", "tools", turnSessions, 4},
	} {
		trees, size, err := b.logged(ctx, k.message, k.sessions, k.each)
		if err != nil {
			return err
		}
		total := 0.0
		var parts []string
		for _, name := range slices.SortedFunc(maps.Keys(trees), func(x, y string) int {
			return cmp.Or(cmp.Compare(trees[y], trees[x]), cmp.Compare(x, y))
		}) {
			total += trees[name]
			parts = append(parts, fmt.Sprintf("%s %.2f", name, trees[name]))
		}
		b.within("pages: log of SQLite per turn, "+k.name, -1, total*size, kilo, 12<<10)
		b.note("%.1f pages: %s", total, strings.Join(parts, ", "))
	}
	return nil
}

// errLogReset means that a checkpoint came in between.
var errLogReset = errors.New("the log was reset while its pages were counted")

// logged runs turns and returns the pages that each wrote by tree, and a page's size in bytes.
func (b *bench) logged(ctx context.Context, message string, sessions, each int) (map[string]float64, float64, error) {
	for try := 0; ; try++ {
		trees, size, err := b.loggedOnce(ctx, message, sessions, each)
		if !errors.Is(err, errLogReset) || try == 4 {
			return trees, size, err
		}
	}
}

func (b *bench) loggedOnce(ctx context.Context, message string, sessions, each int) (trees map[string]float64, size float64, err error) {
	dir, err := b.folder("pages")
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	h, err := build(ctx, setting{dir: dir})
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, h.close(ctx)) }()
	ids := make([]parley.SessionID, sessions)
	for i := range ids {
		s, _, err := h.engine.Create(ctx, person, parley.CreateSession{App: "bench"})
		if err != nil {
			return nil, 0, err
		}
		ids[i] = s.ID
	}
	rounds := func(each int) error {
		return together(sessions, func(i int) error {
			for range each {
				if err := h.turn(ctx, ids[i], message); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := rounds(2); err != nil { // to fill the caches
		return nil, 0, err
	}
	path := filepath.Join(dir, sqlite.FileName)
	before, err := readLog(path)
	if err != nil {
		return nil, 0, err
	}
	if err := rounds(each); err != nil {
		return nil, 0, err
	}
	after, err := readLog(path)
	switch {
	case err != nil:
		return nil, 0, err
	case after.salt != before.salt || len(after.pages) < len(before.pages):
		return nil, 0, errLogReset
	}
	names, err := treesOf(path)
	if err != nil {
		return nil, 0, err
	}
	trees = map[string]float64{}
	for _, page := range after.pages[len(before.pages):] {
		name, ok := names[page]
		if !ok {
			name = "free" // or the database's header
		}
		trees[name] += 1 / float64(sessions*each)
	}
	return trees, float64(after.size), nil
}

// walLog is what a write-ahead log holds: https://www.sqlite.org/fileformat2.html#the_write_ahead_log.
type walLog struct {
	salt  [8]byte // another one after each reset
	size  uint32
	pages []uint32
}

func readLog(path string) (l walLog, err error) {
	raw, err := os.ReadFile(path + "-wal")
	if err != nil || len(raw) < 32 {
		return l, err
	}
	l.size = binary.BigEndian.Uint32(raw[8:])
	copy(l.salt[:], raw[16:])
	for at := raw[32:]; len(at) >= 24 && [8]byte(at[8:16]) == l.salt; at = at[min(len(at), 24+int(l.size)):] {
		l.pages = append(l.pages, binary.BigEndian.Uint32(at))
	}
	return l, nil
}

// treesOf maps pages to the table or index they belong to.
func treesOf(path string) (_ map[uint32]string, err error) {
	c, err := zombie.OpenConn(path, zombie.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	names := map[uint32]string{}
	err = sqlitex.ExecuteTransient(c, `SELECT pageno, name FROM dbstat`, &sqlitex.ExecOptions{ResultFunc: func(s *zombie.Stmt) error {
		names[uint32(s.ColumnInt64(0))] = s.ColumnText(1)
		return nil
	}})
	return names, err
}
