//go:build unix

package postgres

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
)

// asked collects the statements that were run, with the arguments of one run.
type asked struct {
	mu  sync.Mutex
	all map[string][]any
}

func (a *asked) add(query string, args []any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all[query] = args
}

func (a *asked) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	a.add(d.SQL, d.Args)
	return ctx
}
func (a *asked) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (a *asked) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (a *asked) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	a.add(d.SQL, d.Args)
}
func (a *asked) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TestEveryQueryHasItsIndex: no query needs a scan of a whole table. With scans made very
// expensive, the planner finds an index for every statement.
func TestEveryQueryHasItsIndex(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn := pgtest.Start(t)
	seen := &asked{all: map[string][]any{}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(ctx, dsn, Options{tracer: seen})
	must(err)
	defer s.Close()
	ann := parley.Principal{User: "ann"}
	d, err := s.PutBlob(ctx, ann, []byte("blob"))
	must(err)
	event := func(id parley.SessionID, n int64) []parley.Event {
		return []parley.Event{{Session: id, Seq: n, Type: "test.word"}}
	}
	in := parley.SessionInfo{ID: "S", User: "ann", App: "notes", OutsideID: "x"}
	must(s.Append(ctx, ann, seam.Batch{Session: "S", Create: true, Events: event("S", 1), Index: seam.Index{
		Session: &in, State: &seam.State{Seq: 1}, Turns: []parley.TurnInfo{{ID: "t", SessionID: "S"}},
		Interactions: []seam.InteractionRow{{Interaction: parley.Interaction{ID: "i", Session: "S"}}},
		Keys:         []seam.Key{{Key: "k"}}, Artifacts: []seam.Artifact{{Session: "S", ArtifactRef: parley.ArtifactRef{ID: "a"}}}, Blobs: []parley.Digest{d},
	}}))
	must(s.Append(ctx, ann, seam.Batch{Session: "S", Epoch: 1, After: 1, Events: event("S", 2), Index: seam.Index{Session: &in, DropChunks: []parley.CallID{"c"}}}))
	must(s.Append(ctx, ann, seam.Batch{Session: "S", Epoch: 1, After: 2, Events: event("S", 3)}))
	for query := range seen.all {
		if strings.Contains(query, "index_rows") && !strings.Contains(query, "CREATE") {
			t.Errorf("a turn without index rows ran %s", query)
		}
	}
	fork := parley.SessionInfo{ID: "F", User: "ann"}
	must(s.Fork(ctx, ann, "S", 2, seam.Batch{Session: "F", After: 2, Index: seam.Index{Session: &fork}}))
	must(s.SaveChunks(ctx, ann, []seam.Chunk{{Session: "S", Epoch: 1, Call: "c", N: 1}}))
	open := []parley.TurnStatus{parley.StatusRunning, parley.StatusWaiting}
	for _, p := range []parley.Principal{ann, parley.System()} {
		_, _ = s.Claim(ctx, p, "S", "node")
		_, _ = s.Read(ctx, p, "S", 0, 0)
		_, _ = s.Read(ctx, p, "F", 0, 0)
		if p == ann {
			_, _ = s.Held(ctx, p, "")
		}
		_, _ = s.Held(ctx, p, "S")
		_, _ = s.State(ctx, p, "S")
		_, _ = s.Session(ctx, p, "S")
		_, _ = s.Alias(ctx, p, "notes", "x")
		_, _ = s.Turn(ctx, p, "t")
		_, _ = s.Turns(ctx, p, seam.TurnQuery{Session: "S", Before: "t"})
		_, _ = s.Turns(ctx, p, seam.TurnQuery{Statuses: open, Limit: -1})
		_, _ = s.Key(ctx, p, "S", "k")
		_, _ = s.Interaction(ctx, p, "i")
		_, _ = s.Artifact(ctx, p, "a")
		_, _ = s.Artifacts(ctx, p, "S")
		_, _ = s.Blob(ctx, p, "S", d)
		_, _ = s.Chunks(ctx, p, "S")
	}
	_, _ = s.Sessions(ctx, ann, seam.SessionQuery{Direct: true})
	_, _ = s.Sessions(ctx, ann, seam.SessionQuery{App: "notes", Status: parley.Active, Before: time.Now(), After: seam.SessionMark{ID: "S"}})
	_, _ = s.Turns(ctx, ann, seam.TurnQuery{})
	_, _ = s.Interactions(ctx, ann, seam.InteractionQuery{After: seam.InteractionMark{ID: "i"}})
	_, _ = s.Interactions(ctx, parley.System(), seam.InteractionQuery{Due: time.Now(), After: seam.InteractionMark{ID: "i"}})
	for _, p := range []parley.Principal{ann, parley.System()} {
		_, _ = s.CountInteractions(ctx, p)
		_, _ = s.Resting(ctx, p, seam.RestQuery{App: "notes", Before: time.Now(), After: seam.SessionMark{ID: "S"}})
		_, _ = s.Resting(ctx, p, seam.RestQuery{App: "notes", Status: parley.Active, Before: time.Now(), After: seam.SessionMark{ID: "S"}})
	}
	n := seam.RowName{Kind: seam.RowTimer, ID: "r"}
	for _, p := range []parley.Principal{ann, parley.System()} {
		for range 2 {
			_, err := s.PutRow(ctx, p, seam.Row{RowName: n})
			must(err)
		}
		_, _ = s.Row(ctx, p, n)
		for _, after := range []seam.RowMark{{}, {RowName: n}} {
			_, _ = s.Rows(ctx, p, seam.RowQuery{Kind: n.Kind, Open: true, After: after})
			_, _ = s.Rows(ctx, p, seam.RowQuery{Kind: n.Kind, Due: time.Now(), After: after})
			_, _ = s.Rows(ctx, p, seam.RowQuery{Kind: n.Kind, Session: "S", After: after})
		}
		must(s.DropRow(ctx, p, n, seam.AnyRow))
	}
	must(s.Append(ctx, ann, seam.Batch{Session: "S", Epoch: 3, After: 3, Condense: 3, Index: seam.Index{Rows: []seam.Row{{RowName: n, Session: "S"}}, DropRows: []seam.RowName{{Kind: "timer", ID: "other"}}}}))
	must(s.collect(ctx))
	must(s.Delete(ctx, ann, "F"))
	must(s.Close())

	c, err := connect(ctx, s.config.ConnConfig)
	must(err)
	defer drop(c)
	_, err = c.Exec(ctx, `SET enable_seqscan = off`)
	must(err)
	explained := 0
	for query, args := range seen.all {
		verb, _, _ := strings.Cut(query, " ")
		if !strings.Contains("SELECT INSERT UPDATE DELETE", verb) || strings.Contains(query, "pg_") || strings.Contains(query, "interval '7 days'") || strings.Contains(query, "parley.schema") {
			continue // writers has few rows and schema has one, so they may be scanned
		}
		lines, err := c.Query(ctx, "EXPLAIN "+query, args...)
		must(err)
		plan, err := pgx.CollectRows(lines, pgx.RowTo[string])
		must(err)
		if text := strings.Join(plan, "\n"); strings.Contains(text, "Seq Scan") {
			t.Errorf("%s\n%s", query, text)
		}
		explained++
	}
	if explained < 50 {
		t.Errorf("got %d statements, want all of them", explained)
	}
}

// TestDueIsFoundByItsIndex: due interactions and idle sessions are found by the indexes that
// hold only such rows, also when very many others are open and the planner may choose.
func TestDueIsFoundByItsIndex(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	seen := &asked{all: map[string][]any{}}
	s, err := Open(ctx, pgtest.Start(t), Options{tracer: seen})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, query := range []string{
		`INSERT INTO interactions (session, id, usr, org, open, kind, opened, expires, body)
			SELECT n::text::bytea, n::text::bytea, 'ann', '', true, 'permission', n, 4102444800000 + n, '{}' FROM generate_series(1, 20000) n`,
		`INSERT INTO sessions (id, usr, org, app, status, owner, epoch, seq, updated, info, held, steps)
			SELECT n::text::bytea, 'ann', '', 'notes', 'active', '', 1, 1, CASE WHEN n % 2 = 0 THEN 1 ELSE 4102444800000 END, '{}', n % 2 = 0, n FROM generate_series(1, 20000) n`,
		`ANALYZE interactions`, `ANALYZE sessions`,
	} {
		if err := s.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for range 8 { // more often than it takes until the planner keeps one plan
		due, err := s.Interactions(ctx, parley.System(), seam.InteractionQuery{Due: now, Limit: 100})
		if err != nil || len(due) != 0 {
			t.Fatalf("got %d due, %v", len(due), err)
		}
		idle, err := s.Resting(ctx, parley.System(), seam.RestQuery{App: "notes", Status: parley.Active, Before: now, Limit: 100})
		if err != nil || len(idle) != 0 {
			t.Fatalf("got %d idle, %v", len(idle), err)
		}
	}
	config := s.config.ConnConfig.Copy()
	config.Tracer = nil
	c, err := connect(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer drop(c)
	explained := 0
	for query, args := range seen.all {
		index := map[bool]string{true: "interactions_due", false: "sessions_rest"}[strings.Contains(query, "expires")]
		if !strings.HasPrefix(query, "SELECT") || !strings.Contains(query, "expires") && !strings.Contains(query, "NOT held") {
			continue
		}
		explained++
		lines, err := c.Query(ctx, "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) "+query, args...)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := pgx.CollectRows(lines, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(plan, "\n"); !strings.Contains(text, index) || strings.Contains(text, "Rows Removed") {
			t.Errorf("%s\n%s", query, text)
		}
	}
	if explained != 2 {
		t.Errorf("got %d statements, want 2", explained)
	}
}
