//go:build unix

package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/postgres"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
	"github.com/parley-server/parley/internal/store/storetest"
)

var ann = storetest.User

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWriter(t *testing.T) {
	t.Parallel()
	storetest.Writer(t,
		func(t testing.TB) storetest.Queued { return open(t, pgtest.Start(t)) },
		func(t testing.TB, s storetest.Queued) seam.Store { return open(t, s.(*postgres.Store).DSN()) })
}

func TestCloseTakesItsRowAlong(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t)
	s := open(t, dsn)
	must(t, s.Append(context.Background(), ann, storetest.Words("S", 0, 1, 10)))
	must(t, s.Close())
	again := open(t, dsn)
	must(t, again.During(context.Background(), func() {}))
	if n, err := again.Count(`SELECT count(*) FROM writers`); err != nil || n != 1 {
		t.Errorf("got %d rows of writers, %v, want the one that is there", n, err)
	}
}

// TestWithinOneFlush: batches in one flush see each other. The same session is extended twice,
// a key is used once, and a fork includes the events that its parent got in that flush.
func TestWithinOneFlush(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := open(t, pgtest.Start(t))
	must(t, s.Append(ctx, ann, storetest.Words("S", 0, 1, 10)))
	d, err := s.PutBlob(ctx, ann, []byte("blob"))
	must(t, err)
	release := s.Hold()
	var wg sync.WaitGroup
	codes := make([]parley.Code, 5)
	do := func(i int, f func() error) {
		wg.Go(func() { codes[i] = parley.CodeOf(f()) })
		s.AwaitQueue(i + 1)
	}
	one := storetest.Words("S", 1, 2, 10)
	one.Index.Keys = []seam.Key{{Key: "k", Made: "S"}}
	one.Index.Blobs = []parley.Digest{d}
	one.Index.Turns = []parley.TurnInfo{{ID: "t", SessionID: "S", Status: parley.StatusRunning}}
	do(0, func() error { return s.Append(ctx, ann, one) })
	two := storetest.Words("S", 3, 1, 10)
	two.Index.Turns = []parley.TurnInfo{{ID: "t", SessionID: "S", Status: parley.StatusCompleted}}
	do(1, func() error { return s.Append(ctx, ann, two) })
	three := storetest.Words("S", 4, 1, 10)
	three.Index.Keys = []seam.Key{{Key: "k", Made: "S"}}
	do(2, func() error { return s.Append(ctx, ann, three) })
	do(3, func() error {
		in := parley.SessionInfo{ID: "F", User: "ann", OutsideID: "x"}
		return s.Fork(ctx, ann, "S", 3, seam.Batch{Session: "F", After: 3, Events: storetest.Words("F", 3, 1, 10).Events, Index: seam.Index{Session: &in}})
	})
	do(4, func() error {
		in := parley.SessionInfo{ID: "G", User: "ann", OutsideID: "x"}
		return s.Fork(ctx, ann, "F", 4, seam.Batch{Session: "G", After: 4, Events: storetest.Words("G", 4, 1, 10).Events, Index: seam.Index{Session: &in}})
	})
	release()
	wg.Wait()
	if diff := cmp.Diff([]parley.Code{"", "", parley.CodeKeyReused, "", parley.CodeKeyReused}, codes); diff != "" {
		t.Error(diff)
	}
	turn, err := s.Turn(ctx, ann, "t")
	must(t, err)
	if turn.Status != parley.StatusCompleted || storetest.Head(t, s, "S") != 4 || storetest.Head(t, s, "F") != 4 {
		t.Errorf("got a turn %s, and events %d and %d; want completed, 4 and 4", turn.Status, storetest.Head(t, s, "S"), storetest.Head(t, s, "F"))
	}
	if got, err := s.Blob(ctx, ann, "F", d); err != nil || string(got) != "blob" {
		t.Errorf("blob of the fork: got %q, %v", got, err)
	}
}

// TestRacingNodes: two nodes use the same key at the same time. One succeeds, the other gets an
// error, and the rest of the same flush is not affected.
func TestRacingNodes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn := pgtest.Start(t)
	nodes := []*postgres.Store{open(t, dsn), open(t, dsn)}
	for round := range 10 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		got := map[parley.Code]int{}
		for i, s := range nodes {
			wg.Go(func() {
				b := storetest.Words(parley.SessionID(fmt.Sprint("R", round, "-", i)), 0, 1, 10)
				b.Index.Keys = []seam.Key{{Key: fmt.Sprint("k", round), Made: b.Session}}
				err := s.Append(ctx, ann, b)
				mu.Lock()
				defer mu.Unlock()
				got[parley.CodeOf(err)]++
			})
			for k := range 4 {
				wg.Go(func() {
					must(t, s.Append(ctx, ann, storetest.Words(parley.SessionID(fmt.Sprint("N", round, "-", i, k)), 0, 1, 10)))
				})
			}
			// Both write to the same sessions, in opposite order.
			for k := range 4 {
				wg.Go(func() {
					id := parley.SessionID(fmt.Sprint("shared", (k+i*2)%4))
					err := s.Append(ctx, ann, storetest.Words(id, 0, 1, 10))
					if code := parley.CodeOf(err); code != "" && code != parley.CodeConflict {
						t.Errorf("%s: %v", id, err)
					}
				})
			}
		}
		wg.Wait()
		if diff := cmp.Diff(map[parley.Code]int{"": 1, parley.CodeKeyReused: 1}, got); diff != "" {
			t.Errorf("round %d: %s", round, diff)
		}
	}
}

// TestWhatTheServerRefusesFailsAlone: a batch that PostgreSQL rejects does not fail the others
// in its group.
func TestWhatTheServerRefusesFailsAlone(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := open(t, pgtest.Start(t))
	release := s.Hold()
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			id, want := parley.SessionID(fmt.Sprint("S", i)), parley.Code("")
			if i == 3 {
				var long strings.Builder // text that cannot be compressed
				for n := range 4000 {
					fmt.Fprint(&long, n*n*7919)
				}
				id, want = parley.SessionID(long.String()), parley.CodeTooLarge
			}
			if err := s.Append(ctx, ann, storetest.Words(id, 0, 1, 100)); parley.CodeOf(err) != want {
				t.Errorf("append of a session with an id of %d bytes: got %v, want %q", len(id), err, want)
			}
		})
	}
	s.AwaitQueue(6)
	release()
	wg.Wait()
	all, err := s.Sessions(ctx, ann, seam.SessionQuery{})
	if err != nil || len(all) != 5 {
		t.Errorf("got %d sessions, %v, want 5", len(all), err)
	}
}

// TestLockedSessionFailsAlone: another transaction holds the rows of one session. Its batch
// fails in time, and the others of its flush succeed.
func TestLockedSessionFailsAlone(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := open(t, pgtest.Start(t))
	must(t, s.Append(ctx, ann, storetest.Words("S", 0, 1, 10)))
	must(t, s.Append(ctx, ann, storetest.Words("T", 0, 1, 10)))
	c, err := pgx.Connect(ctx, s.DSN())
	must(t, err)
	defer c.Close(ctx)
	_, err = c.Exec(ctx, `BEGIN; SELECT 1 FROM parley.sessions WHERE id = 'S' FOR UPDATE`)
	must(t, err)
	release := s.Hold()
	var wg sync.WaitGroup
	for id, want := range map[parley.SessionID]parley.Code{"S": parley.CodeUnavailable, "T": ""} {
		wg.Go(func() {
			if err := s.Append(ctx, ann, storetest.Words(id, 1, 1, 10)); parley.CodeOf(err) != want {
				t.Errorf("%s: got %v, want %q", id, err, want)
			}
		})
	}
	s.AwaitQueue(2)
	release()
	wg.Wait()
	_, err = c.Exec(ctx, `COMMIT`)
	must(t, err)
	must(t, s.Append(ctx, ann, storetest.Words("S", 1, 1, 10)))
}

func TestDoorbell(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := open(t, pgtest.Start(t))
	c, err := pgx.Connect(ctx, s.DSN())
	must(t, err)
	defer c.Close(context.Background())
	_, err = c.Exec(ctx, "LISTEN "+postgres.Channel)
	must(t, err)
	next := func() (d postgres.Doorbell) {
		t.Helper()
		n, err := c.WaitForNotification(ctx)
		must(t, err)
		must(t, json.Unmarshal([]byte(n.Payload), &d))
		if len(d.From) == 0 {
			t.Errorf("got %q, want who wrote", n.Payload)
		}
		d.From = ""
		return d
	}
	strange := parley.SessionID("a\x00\"b\u2028")
	must(t, s.Append(ctx, ann, storetest.Words(strange, 0, 3, 10)))
	if diff := cmp.Diff(postgres.Doorbell{At: map[string]int64{string(strange): 3}}, next()); diff != "" {
		t.Error(diff)
	}
	must(t, s.Append(ctx, ann, storetest.Words("no\xffutf8", 0, 1, 10)))
	if diff := cmp.Diff(postgres.Doorbell{}, next()); diff != "" {
		t.Error(diff)
	}
	// One flush sends one notification, which is never too large.
	release := s.Hold()
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			id := parley.SessionID(fmt.Sprintf("%060d", i))
			if err := s.Append(ctx, ann, storetest.Words(id, 0, 1, 10)); err != nil {
				t.Error(err)
			}
		})
	}
	s.AwaitQueue(200)
	release()
	wg.Wait()
	if diff := cmp.Diff(postgres.Doorbell{}, next()); diff != "" {
		t.Error(diff)
	}
	// A refused batch sends no notification.
	if err := s.Append(ctx, ann, storetest.Words("S", 7, 1, 10)); !errors.Is(err, parley.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
	must(t, s.Append(ctx, ann, storetest.Words("S", 0, 1, 10)))
	if diff := cmp.Diff(postgres.Doorbell{At: map[string]int64{"S": 1}}, next()); diff != "" {
		t.Error(diff)
	}
}

// TestNULs: jsonb and text reject a NUL, as an escape in JSON and raw in a string.
func TestNULs(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := open(t, pgtest.Start(t))
	b := storetest.Words("S", 0, 2, 10)
	b.Events[0].Data = json.RawMessage(`{"text":"a\u0000b"}`)
	b.Events[1].Data = json.RawMessage("{\"text\":\"\xff\"}")
	b.Index.Session.Title = "a\x00b"
	b.Index.Turns = []parley.TurnInfo{{ID: "t", SessionID: "S", Message: "\x00"}}
	must(t, s.Append(ctx, ann, b))
	got, err := s.Read(ctx, ann, "S", 0, 0)
	must(t, err)
	for i, e := range got {
		if string(e.Data) != string(b.Events[i].Data) {
			t.Errorf("got %q, want %q", e.Data, b.Events[i].Data)
		}
	}
	in, err := s.Session(ctx, ann, "S")
	must(t, err)
	turn, err := s.Turn(ctx, ann, "t")
	must(t, err)
	if in.Title != "a\x00b" || turn.Message != "\x00" {
		t.Errorf("got %q and %q", in.Title, turn.Message)
	}
}
