//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/postgres"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
	"github.com/parley-server/parley/internal/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Main(m, func(dsn string) (seam.Store, error) {
		return postgres.Open(context.Background(), dsn, postgres.Options{})
	})
}

// TestKill kills a process at random moments, again and again on the same database. Everything
// that it reported as stored is there, and nothing is torn.
func TestKill(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t).Database(t)
	s := open(t, dsn)
	storetest.Killed(t, dsn, 12, func(_ int, told map[parley.SessionID]int64) (seam.Store, func()) {
		for id := range told {
			// The killed process's last commit may still be under way; a claim waits for it.
			if _, err := s.Claim(context.Background(), ann, id, "next"); err != nil {
				t.Error(err)
			}
		}
		return s, nil
	})
}

// TestKillPostgres kills and restarts PostgreSQL while many goroutines append. Everything
// acknowledged is there, everything refused is not, and nothing is there twice.
func TestKillPostgres(t *testing.T) {
	t.Parallel()
	cluster := pgtest.New(t)
	s := open(t, cluster.Database(t))
	const hands, rounds = 24, 4
	var appended, unknown, refused, asking atomic.Int64
	stop := make(chan struct{})
	var all sync.WaitGroup
	last := make([]int64, hands)
	for hand := range hands {
		id := parley.SessionID(fmt.Sprintf("S%02d", hand))
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				b := storetest.Marked(id, last[hand], 1+int(last[hand])%3, 200)
				end := last[hand] + int64(len(b.Events))
				err := s.Append(context.Background(), ann, b)
				if err != nil {
					asking.Add(1)
				}
				switch _, known := errors.AsType[*parley.Error](err); {
				case err == nil:
					last[hand] = end
					appended.Add(1)
				case !known: // as in eventlog: read the log before going on
					unknown.Add(1)
					n := settled(t, s, id)
					if n != last[hand] && n != end {
						t.Errorf("%s: got event %d, want %d or %d", id, n, last[hand], end)
						return
					}
					last[hand] = n
					asking.Add(-1)
				case parley.CodeOf(err) == parley.CodeUnavailable:
					refused.Add(1)
					if n := settled(t, s, id); n != last[hand] {
						t.Errorf("%s: got event %d after a refusal, want %d", id, n, last[hand])
						return
					}
					asking.Add(-1)
				default:
					t.Errorf("%s: %v", id, err)
					return
				}
			}
		})
	}
	for round := range rounds {
		await(&appended, int64((round+1)*300))
		cluster.Kill(t)
		if round%2 == 1 {
			// In this round it is down until every caller has an error, also those in the
			// middle of a commit, and asks for the outcome. In the other rounds, the writer
			// itself can ask.
			await(&asking, int64(hands))
		}
		cluster.Restart(t)
	}
	await(&appended, appended.Load()+300)
	close(stop)
	all.Wait()
	for hand := range hands {
		id := parley.SessionID(fmt.Sprintf("S%02d", hand))
		if n := storetest.Whole(t, s, id); n != last[hand] {
			t.Errorf("%s: got event %d, want %d", id, n, last[hand])
		}
	}
	t.Logf("%d appended, %d refused, %d unknown", appended.Load(), refused.Load(), unknown.Load())
}

// settled returns the length of a log as soon as it can be read.
func settled(t *testing.T, s seam.Store, id parley.SessionID) (n int64) {
	eventually(t, func() error {
		in, err := s.Session(context.Background(), ann, id)
		n = in.Version
		if errors.Is(err, parley.ErrNotFound) {
			return nil
		}
		return err
	})
	return n
}

func await(n *atomic.Int64, atLeast int64) {
	deadline := time.Now().Add(2 * time.Minute)
	for n.Load() < atLeast && time.Now().Before(deadline) {
		<-time.After(time.Millisecond)
	}
}
