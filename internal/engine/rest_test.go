package engine_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// counted is a store that counts its calls and the rows it returns.
type counted struct {
	seam.Store
	calls, rows atomic.Int64
	stuck       atomic.Value // the id of a session that cannot be claimed
}

func count[T any](c *counted, rows []T, err error) ([]T, error) {
	c.calls.Add(1)
	c.rows.Add(int64(len(rows)))
	return rows, err
}

func (c *counted) Interactions(ctx context.Context, p parley.Principal, q seam.InteractionQuery) ([]seam.InteractionRow, error) {
	rows, err := c.Store.Interactions(ctx, p, q)
	return count(c, rows, err)
}

func (c *counted) Resting(ctx context.Context, p parley.Principal, q seam.RestQuery) ([]parley.SessionInfo, error) {
	rows, err := c.Store.Resting(ctx, p, q)
	return count(c, rows, err)
}

func (c *counted) Sessions(ctx context.Context, p parley.Principal, q seam.SessionQuery) ([]parley.SessionInfo, error) {
	rows, err := c.Store.Sessions(ctx, p, q)
	return count(c, rows, err)
}

func (c *counted) Turns(ctx context.Context, p parley.Principal, q seam.TurnQuery) ([]parley.TurnInfo, error) {
	rows, err := c.Store.Turns(ctx, p, q)
	return count(c, rows, err)
}

func (c *counted) Read(ctx context.Context, p parley.Principal, id parley.SessionID, after int64, limit int) ([]parley.Event, error) {
	rows, err := c.Store.Read(ctx, p, id, after, limit)
	return count(c, rows, err)
}

func (c *counted) Claim(ctx context.Context, p parley.Principal, id parley.SessionID, node string) (int64, error) {
	c.calls.Add(1)
	if c.stuck.Load() == id {
		return 0, parley.Errorf(parley.CodeUnavailable, "another node drives session %s", id)
	}
	return c.Store.Claim(ctx, p, id, node)
}

func counting() *counted { return &counted{Store: mem.New()} }

// many makes n sessions whose turn waits for a yes, and n that are at rest.
func many(t *testing.T, r *enginetest.Rig, n int) (waiting []parley.TurnInfo) {
	t.Helper()
	for range n {
		waiting = append(waiting, r.Await(r.Send(r.Session().ID, "go").ID))
		s := r.Session()
		r.Await(r.Send(s.ID, "only words").ID)
	}
	return waiting
}

// words asks for a mail unless the message is "only words".
func words(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if enginetest.Last(r) == "only words" {
		say("words")
		return seam.Reply{}, nil
	}
	return mailer("mail")(ctx, r, say)
}

// TestWaitingCostsNothing lets many and few sessions wait and sleep for a day before anything is
// due. In both cases the server makes the same store calls, gets no rows and holds nothing in
// memory. A restart does not read the sessions either.
func TestWaitingCostsNothing(t *testing.T) {
	t.Parallel()
	type cost struct{ Calls, Rows, Start, InMemory int64 }
	of := func(n int) (c cost) {
		synctest.Test(t, func(t *testing.T) {
			store := counting()
			app := enginetest.App(asking, keeping, func(a *parley.App) { a.Policy.AnswerWithin = parley.Duration(60 * 24 * time.Hour) })
			r := enginetest.Over(t, store, &enginetest.Service{}, words, app)
			many(t, r, n)
			time.Sleep(time.Minute + time.Second) // until the sessions have left memory
			calls, rows := store.calls.Load(), store.rows.Load()
			time.Sleep(20 * time.Hour)
			c = cost{Calls: store.calls.Load() - calls, Rows: store.rows.Load() - rows, InMemory: int64(r.Engine.InMemory())}
			r.Close()
			rows = store.rows.Load()
			next := enginetest.Over(t, store, r.Service, words, app)
			defer next.Close()
			done, err := next.Engine.Recover(ctx)
			if err != nil {
				t.Fatal(err)
			}
			<-done
			c.Start = store.rows.Load() - rows
		})
		return c
	}
	few, more := of(2), of(60)
	if diff := cmp.Diff(few, more); diff != "" || more.Rows != 0 || more.InMemory != 0 || more.Start != 0 {
		t.Errorf("a day of 2 and of 60 (-2 +60), want the same and no rows:\n%s%+v", diff, more)
	}
}

// TestOverdueQuestionsAreClosedInTime makes more questions expire at once than fit on a page,
// one of which cannot be closed at first. Their turns continue a few at a time.
func TestOverdueQuestionsAreClosedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := counting()
		var mu sync.Mutex
		running, most := 0, 0
		model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			if len(enginetest.Results(r)) > 0 {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				running--
				mu.Unlock()
			}
			return words(ctx, r, say)
		}
		app := enginetest.App(asking, func(a *parley.App) { a.Policy.AnswerWithin = parley.Duration(time.Hour) })
		r := enginetest.Over(t, store, &enginetest.Service{}, model, app)
		defer r.Close()
		const n = 130
		waiting := many(t, r, n)
		open := func() int {
			count, err := store.CountInteractions(ctx, parley.System())
			if err != nil {
				t.Fatal(err)
			}
			return count[parley.KindPermission]
		}
		time.Sleep(2 * time.Minute)
		store.stuck.Store(waiting[17].SessionID)
		if got := open(); got != n {
			t.Errorf("%d questions are open before their time, want %d", got, n)
		}
		time.Sleep(59*time.Minute + n/8*time.Second + 10*time.Second)
		if got := open(); got != 1 {
			t.Errorf("%d questions are open after their time, want the one that is stuck", got)
		}
		store.stuck.Store(parley.SessionID(""))
		time.Sleep(time.Minute)
		if got := open(); got != 0 {
			t.Errorf("%d questions are open, want none", got)
		}
		for _, turn := range waiting {
			if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
				t.Errorf("an unanswered turn is %s: %+v", got.Status, got.Error)
			}
		}
		if _, _, mails := r.Service.Counts(); mails != 0 || most > 8 {
			t.Errorf("%d mails, %d turns at once, want 0 and at most 8", mails, most)
		}
	})
}

// TestSweepOfMany expires, condenses and deletes more sessions in one sweep than fit on a page,
// and keeps none of them in memory.
func TestSweepOfMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := counting()
		r := enginetest.Over(t, store, &enginetest.Service{}, words, enginetest.App(asking, keeping, func(a *parley.App) {
			a.Policy.AnswerWithin = parley.Duration(60 * 24 * time.Hour)
		}), func(o *engine.Options) {
			o.SweepEvery, o.TendEvery, o.IdleAfter = 10_000*time.Hour, 10_000*time.Hour, 10*time.Hour
		})
		defer r.Close()
		const n = 130
		waiting := many(t, r, n)
		sweep := func() engine.Swept {
			t.Helper()
			done, err := r.Engine.Sweep(ctx, parley.System())
			if err != nil {
				t.Fatal(err)
			}
			if in := r.Engine.InMemory(); in != 0 {
				t.Errorf("%d sessions in memory after a sweep", in)
			}
			return done
		}
		time.Sleep(25 * time.Hour)
		swept := []engine.Swept{sweep()}
		time.Sleep(8 * 24 * time.Hour)
		swept = append(swept, sweep())
		time.Sleep(31 * 24 * time.Hour)
		swept = append(swept, sweep(), sweep())
		if diff := cmp.Diff([]engine.Swept{{Condensed: n}, {Expired: n}, {Deleted: n}, {}}, swept); diff != "" {
			t.Errorf("sweeps (-want +got):\n%s", diff)
		}
		if got := r.Await(waiting[0].ID); got.Status != parley.StatusWaiting {
			t.Errorf("a session that waits was swept: %s", got.Status)
		}
	})
}

// TestSessionPages reads the list page by page. All sessions changed in the same moment. Each is
// listed once, and the last page says that it is the last.
func TestSessionPages(t *testing.T) {
	rigged(t, words, enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		for range 6 {
			r.Session()
		}
		for limit := 1; limit <= 7; limit++ {
			seen, pages := map[parley.SessionID]bool{}, 0
			q := seam.SessionQuery{Limit: limit}
			for more := true; more; pages++ {
				page, next, err := r.Engine.SessionPage(ctx, enginetest.User, q)
				if err != nil {
					t.Fatal(err)
				}
				for _, in := range page {
					if seen[in.ID] {
						t.Errorf("limit %d: %s is listed twice", limit, in.ID)
					}
					seen[in.ID] = true
				}
				q.After, more = next, next.ID != ""
			}
			if len(seen) != 6 || pages != (6+limit-1)/limit {
				t.Errorf("limit %d: %d sessions on %d pages", limit, len(seen), pages)
			}
		}
	})
}

// TestInboxPages reads an inbox page by page while its questions are answered.
func TestInboxPages(t *testing.T) {
	rigged(t, words, enginetest.App(asking), func(t *testing.T, r *enginetest.Rig) {
		var want, got []parley.InteractionID
		for _, turn := range many(t, r, 23) {
			want = append(want, turn.Interactions[0])
		}
		var after seam.InteractionMark
		for pages := 1; ; pages++ {
			page, next, err := r.Engine.Inbox(ctx, enginetest.User, after, 5)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range page {
				got = append(got, row.ID)
			}
			if next.ID == "" {
				if pages != 5 {
					t.Errorf("%d pages, want 5", pages)
				}
				break
			}
			last := page[len(page)-1]
			if pages%2 == 0 { // the session is deleted before the next page is requested
				if err := r.Engine.Delete(ctx, enginetest.User, last.Session); err != nil {
					t.Fatal(err)
				}
			} else if _, err := r.Engine.Answer(ctx, enginetest.User, last.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceDeny}}); err != nil {
				t.Fatal(err)
			}
			after = next
		}
		slices.Sort(want) // they were opened in the same moment
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the pages together (-want +got):\n%s", diff)
		}
		for _, stranger := range []parley.Principal{{User: "ben"}, {User: enginetest.User.User, Org: "another"}} {
			if page, next, err := r.Engine.Inbox(ctx, stranger, seam.InteractionMark{Time: after.Time, ID: "0"}, 5); err != nil || len(page) > 0 || next.ID != "" {
				t.Errorf("%v goes on with another's: %v, %v", stranger, page, err)
			}
		}
	})
}
