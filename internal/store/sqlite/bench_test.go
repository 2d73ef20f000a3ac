package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/storetest"
)

// floor is the baseline measured in the same run: the same event rows in a table of the same
// form, written by prepared statements, the same number per commit, with synchronous=FULL, and
// nothing else.
type floor struct {
	c                     *zombie.Conn
	begin, insert, commit *zombie.Stmt
	tail                  *zombie.Stmt
}

func newFloor(b *testing.B) *floor {
	b.Helper()
	c, err := zombie.OpenConn(filepath.Join(b.TempDir(), "floor.db"), zombie.OpenReadWrite|zombie.OpenCreate)
	must(b, err)
	b.Cleanup(func() { c.Close() })
	for _, q := range []string{
		"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA wal_autocheckpoint = 4000",
		"CREATE TABLE events (session TEXT, seq INTEGER, turn TEXT, agent TEXT, time INTEGER, type TEXT, v INTEGER, data BLOB, PRIMARY KEY (session, seq)) WITHOUT ROWID",
	} {
		must(b, sqlitex.ExecuteTransient(c, q, nil))
	}
	f := &floor{c: c}
	for q, s := range map[string]**zombie.Stmt{
		"BEGIN IMMEDIATE": &f.begin, "COMMIT": &f.commit,
		"INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)":                        &f.insert,
		"SELECT * FROM events WHERE session = ? AND seq > ? ORDER BY seq LIMIT 100": &f.tail,
	} {
		*s, err = c.Prepare(q)
		must(b, err)
	}
	return f
}

func step(b *testing.B, s *zombie.Stmt) {
	if _, err := s.Step(); err != nil {
		b.Fatal(err)
	}
	if err := s.Reset(); err != nil {
		b.Fatal(err)
	}
}

func (f *floor) append(b *testing.B, batches []seam.Batch) {
	step(b, f.begin)
	for _, batch := range batches {
		for _, e := range batch.Events {
			f.insert.BindText(1, string(e.Session))
			f.insert.BindInt64(2, e.Seq)
			f.insert.BindText(3, string(e.Turn))
			f.insert.BindText(4, string(e.Agent))
			f.insert.BindInt64(5, e.Time.UnixMilli())
			f.insert.BindText(6, string(e.Type))
			f.insert.BindInt64(7, int64(e.V))
			f.insert.BindBytes(8, e.Data)
			step(b, f.insert)
		}
	}
	step(b, f.commit)
}

func BenchmarkAppend(b *testing.B) {
	storetest.BenchmarkAppend(b, func(b *testing.B) (storetest.Queued, func(*testing.B, []seam.Batch)) {
		return open(b, b.TempDir()), newFloor(b).append
	})
}

// BenchmarkRead reads the last hundred events of a log of ten thousand.
func BenchmarkRead(b *testing.B) {
	ctx := context.Background()
	s := open(b, b.TempDir())
	f := newFloor(b)
	for after := int64(0); after < 10_000; after += 2 {
		batch := storetest.Turn("01K00000000000000000000000", after)
		if after%1000 == 0 || after < 10 {
			f.append(b, []seam.Batch{batch})
			must(b, s.Append(ctx, ann, batch))
			continue
		}
		big := batch
		for next := after + 2; next < 10_000 && next%1000 != 0; next += 2 {
			big.Events = append(big.Events, storetest.Turn(batch.Session, next).Events...)
			after = next
		}
		f.append(b, []seam.Batch{big})
		must(b, s.Append(ctx, ann, big))
	}
	var ours, bare time.Duration
	n := 0
	for b.Loop() {
		t0 := time.Now()
		got, err := s.Read(ctx, ann, "01K00000000000000000000000", 9_900, 100)
		if err != nil || len(got) != 100 {
			b.Fatalf("got %d events, %v", len(got), err)
		}
		t1 := time.Now()
		f.tail.BindText(1, "01K00000000000000000000000")
		f.tail.BindInt64(2, 9_900)
		rows := 0
		for {
			row, err := f.tail.Step()
			must(b, err)
			if !row {
				break
			}
			data := make([]byte, f.tail.ColumnLen(7))
			f.tail.ColumnBytes(7, data)
			rows++
		}
		must(b, f.tail.Reset())
		if rows != 100 {
			b.Fatalf("floor: got %d events", rows)
		}
		ours, bare = ours+t1.Sub(t0), bare+time.Since(t1)
		n++
	}
	b.ReportMetric(float64(ours)/float64(bare), "x-floor")
	b.ReportMetric(float64(ours.Nanoseconds())/float64(n)/1e3, "µs-ours")
	b.ReportMetric(0, "ns/op")
}
