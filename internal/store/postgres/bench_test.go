//go:build unix

package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
	"github.com/parley-server/parley/internal/store/storetest"
)

// floor is the baseline measured in the same run: the same event rows in a table of the same
// form, the same number per commit, in one round trip, and nothing else.
type floor struct{ c *pgx.Conn }

func newFloor(b *testing.B, dsn string) floor {
	b.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, dsn)
	must(b, err)
	b.Cleanup(func() { c.Close(ctx) })
	_, err = c.Exec(ctx, `CREATE SCHEMA floor; CREATE TABLE floor.events (session bytea, seq bigint, turn bytea, agent bytea, time bigint, type bytea, v integer, data bytea, PRIMARY KEY (session, seq))`)
	must(b, err)
	return floor{c}
}

func (f floor) append(b *testing.B, batches []seam.Batch) {
	var session, turn, agent, typ, data [][]byte
	var seq, at []int64
	var v []int32
	for _, batch := range batches {
		for _, e := range batch.Events {
			session, turn, agent = append(session, []byte(e.Session)), append(turn, []byte(e.Turn)), append(agent, []byte(e.Agent))
			typ, data = append(typ, []byte(e.Type)), append(data, e.Data)
			seq, at, v = append(seq, e.Seq), append(at, e.Time.UnixMilli()), append(v, int32(e.V))
		}
	}
	batch := &pgx.Batch{}
	batch.Queue("BEGIN")
	batch.Queue(`INSERT INTO floor.events SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bytea[], $7::integer[], $8::bytea[])`,
		session, seq, turn, agent, at, typ, v, data)
	batch.Queue("COMMIT")
	must(b, f.c.SendBatch(context.Background(), batch).Close())
}

func BenchmarkAppend(b *testing.B) {
	cluster := pgtest.New(b)
	storetest.BenchmarkAppend(b, func(b *testing.B) (storetest.Queued, func(*testing.B, []seam.Batch)) {
		dsn := cluster.Database(b)
		f := newFloor(b, dsn)
		return open(b, dsn), f.append
	})
}
