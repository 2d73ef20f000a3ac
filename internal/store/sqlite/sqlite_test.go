package sqlite_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/sqlite"
	"github.com/parley-server/parley/internal/store/storetest"
)

func open(t testing.TB, dir string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Body{
		Open: func(t testing.TB) seam.Store { return open(t, t.TempDir()) },
		Reopen: func(t testing.TB, s seam.Store) seam.Store {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			return open(t, s.(*sqlite.Store).Dir())
		},
	})
}

func TestRandom(t *testing.T) {
	t.Parallel()
	storetest.Random(t, storetest.Body{Open: func(t testing.TB) seam.Store { return open(t, t.TempDir()) }})
}

// TestEveryQueryHasItsIndex: no query scans a whole table, or sorts rows that an index has in
// order.
func TestEveryQueryHasItsIndex(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, err := sqlite.Open(ctx, t.TempDir(), sqlite.Options{Readers: 1})
	must(t, err)
	defer s.Close()
	must(t, s.Append(ctx, ann, storetest.Turn("S", 0)))
	must(t, s.Append(ctx, ann, storetest.Turn("S", 2)))
	in := parley.SessionInfo{ID: "F", User: "ann", OutsideID: "x", App: "notes"}
	must(t, s.Fork(ctx, ann, "S", 2, seam.Batch{Session: "F", After: 2, Index: seam.Index{Session: &in, DropChunks: []parley.CallID{"c"}}}))
	must(t, s.SaveChunks(ctx, ann, []seam.Chunk{{Session: "S", Epoch: 1, Call: "c", N: 1}}))
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
		_, _ = s.Turns(ctx, p, seam.TurnQuery{})
		_, _ = s.Turns(ctx, p, seam.TurnQuery{Session: "S", Before: "t"})
		_, _ = s.Turns(ctx, p, seam.TurnQuery{Statuses: open, Limit: -1})
		_, _ = s.Key(ctx, p, "S", "k")
		_, _ = s.Interaction(ctx, p, "i")
		_, _ = s.Artifact(ctx, p, "a")
		_, _ = s.Artifacts(ctx, p, "S")
		_, _ = s.Blob(ctx, p, "S", "d")
		_, _ = s.Chunks(ctx, p, "S")
	}
	_, _ = s.Sessions(ctx, ann, seam.SessionQuery{})
	_, _ = s.Sessions(ctx, ann, seam.SessionQuery{Direct: true})
	_, _ = s.Sessions(ctx, ann, seam.SessionQuery{App: "notes", Status: parley.Active, Before: time.Now(), After: seam.SessionMark{ID: "S"}})
	_, _ = s.Interactions(ctx, ann, seam.InteractionQuery{After: seam.InteractionMark{ID: "i"}})
	_, _ = s.Interactions(ctx, parley.System(), seam.InteractionQuery{Due: time.Now(), After: seam.InteractionMark{ID: "i"}})
	for _, p := range []parley.Principal{ann, parley.System()} {
		_, _ = s.CountInteractions(ctx, p)
		_, _ = s.Resting(ctx, p, seam.RestQuery{App: "notes", Before: time.Now(), After: seam.SessionMark{ID: "S"}})
		_, _ = s.Resting(ctx, p, seam.RestQuery{App: "notes", Status: parley.Active, Before: time.Now(), After: seam.SessionMark{ID: "S"}})
	}
	n := seam.RowName{Kind: seam.RowTimer, ID: "r"}
	for _, p := range []parley.Principal{ann, parley.System()} {
		_, err := s.PutRow(ctx, p, seam.Row{RowName: n})
		must(t, err)
		_, _ = s.Row(ctx, p, n)
		for _, after := range []seam.RowMark{{}, {RowName: n}} {
			_, _ = s.Rows(ctx, p, seam.RowQuery{Kind: n.Kind, Open: true, After: after})
			_, _ = s.Rows(ctx, p, seam.RowQuery{Kind: n.Kind, Due: time.Now(), After: after})
			_, _ = s.Rows(ctx, p, seam.RowQuery{Kind: n.Kind, Session: "S", After: after})
		}
		must(t, s.DropRow(ctx, p, n, seam.AnyRow))
	}
	must(t, s.Append(ctx, ann, seam.Batch{Session: "F", Epoch: 1, After: 2, Index: seam.Index{Rows: []seam.Row{{RowName: n}}, DropRows: []seam.RowName{n}}}))
	must(t, s.Delete(ctx, ann, "F"))
	plans, err := s.Plans()
	must(t, err)
	for query, plan := range plans {
		if strings.Contains(query, "pragma_") || strings.Contains(query, "FROM aliases") {
			continue // pragma_ runs once at start; the aliases of one outside id are few
		}
		if strings.Contains(query, "live = 1") && strings.Contains(plan, "turns_live") {
			continue // live turns are few, so sorting them is cheap
		}
		for line := range strings.Lines(plan) {
			if strings.HasPrefix(line, "SCAN json_each") || strings.HasPrefix(line, "SCAN CONSTANT ROW") {
				continue
			}
			if strings.HasPrefix(line, "SCAN") && !strings.Contains(line, "USING") || strings.HasPrefix(line, "USE TEMP B-TREE FOR ORDER BY") {
				t.Errorf("%s\n%s", query, plan)
			}
		}
	}
	if len(plans) < 40 {
		t.Errorf("got %d statements, want all of them", len(plans))
	}
}

// TestTurnWithoutRows: a turn without index rows runs no statement about them.
func TestTurnWithoutRows(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	must(t, s.Append(context.Background(), ann, storetest.Turn("S", 0)))
	must(t, s.Append(context.Background(), ann, storetest.Turn("S", 2)))
	plans, err := s.Plans()
	must(t, err)
	for query := range plans {
		if strings.Contains(query, "index_rows") {
			t.Error(query)
		}
	}
	if len(plans) < 4 {
		t.Errorf("got %d statements", len(plans))
	}
}
