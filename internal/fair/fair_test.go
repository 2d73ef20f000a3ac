package fair_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/fair"
)

// served lets calls in and notes in which order.
type served struct {
	enter func(context.Context, parley.Principal) (func(), error)

	mu      sync.Mutex
	all     sync.WaitGroup
	order   []string
	running map[string]int
	most    int
	wrong   []string
	refused []error
}

// ask makes calls of a user, each of which takes a second.
func (s *served) ask(ctx context.Context, user string, n int) {
	for range n {
		s.all.Go(func() {
			leave, err := s.enter(ctx, parley.Principal{User: user})
			s.mu.Lock()
			if err != nil {
				s.refused = append(s.refused, err)
				s.mu.Unlock()
				return
			}
			s.order = append(s.order, user)
			s.running[user]++
			total := 0
			for _, k := range s.running {
				total += k
			}
			if s.most = max(s.most, total); s.running[user] > 1 {
				s.wrong = append(s.wrong, fmt.Sprint(user, " has ", s.running[user], " at once"))
			}
			s.mu.Unlock()
			time.Sleep(time.Second)
			s.mu.Lock()
			s.running[user]--
			s.mu.Unlock()
			leave()
			leave() // once more changes nothing
		})
		synctest.Wait()
	}
}

// TestUsersTakeTurns: who asks fifty times at once keeps nobody else waiting.
func TestUsersTakeTurns(t *testing.T) {
	t.Parallel()
	for slots := 1; slots <= 2; slots++ {
		synctest.Test(t, func(t *testing.T) {
			s := &served{enter: (&fair.Turns{Slots: slots, Queued: 60}).Enter, running: map[string]int{}}
			s.ask(t.Context(), "ann", 50)
			s.ask(t.Context(), "ben", 2)
			s.ask(t.Context(), "cleo", 2)
			s.all.Wait()
			if len(s.wrong) > 0 || s.most != slots || len(s.refused) > 0 || len(s.order) != 54 {
				t.Errorf("%d slots: %v, %d at once, %v, %d served", slots, s.wrong, s.most, s.refused, len(s.order))
			}
			if slots == 2 { // calls that begin in one moment are noted in any order
				for _, user := range []string{"ben", "cleo"} {
					if !slices.Contains(s.order[:4], user) {
						t.Errorf("%s is not among the first served: %v", user, s.order[:4])
					}
				}
				return
			}
			if got, want := strings.Join(s.order[:8], " "), "ann ben cleo ann ben cleo ann ann"; got != want {
				t.Errorf("served %s, want %s", got, want)
			}
		})
	}
}

// Where a user may run several, they have what nobody else wants, and the next that
// comes free goes to whoever has the fewest.
func TestSeveralOfOneUser(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &served{enter: (&fair.Turns{Slots: 4, Each: 3, Queued: 60}).Enter, running: map[string]int{}}
		s.ask(t.Context(), "ann", 20)
		s.mu.Lock()
		if s.running["ann"] != 3 {
			t.Errorf("ann alone runs %d, want 3", s.running["ann"])
		}
		s.mu.Unlock()
		s.all.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		turns := &fair.Turns{Slots: 4, Each: 4, Queued: 60}
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		var all sync.WaitGroup
		var in []string
		var leaves []func()
		for _, user := range []string{"ann", "ann", "ann", "ben", "ben", "ann", "cleo"} {
			all.Go(func() {
				leave, err := turns.Enter(ctx, parley.Principal{User: user})
				if err != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				in, leaves = append(in, user), append(leaves, leave)
			})
			synctest.Wait()
		}
		for n, want := range []string{"ann ann ann ben", "ann ann ann ben cleo", "ann ann ann ben cleo ben"} {
			if got := strings.Join(in, " "); got != want {
				t.Errorf("after %d of ann's have ended, %s were let in, want %s", n, got, want)
			}
			leaves[n]()
			synctest.Wait()
		}
		stop()
		all.Wait()
	})
}

// A queue that is full refuses its user alone, and one that gives up leaves its
// place, also in the moment in which it is let in.
func TestQueuesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &served{enter: (&fair.Turns{Slots: 2, Queued: 3}).Enter, running: map[string]int{}}
		s.ask(t.Context(), "ann", 6)
		s.ask(t.Context(), "ben", 1)
		s.mu.Lock()
		if len(s.refused) != 2 || len(s.order) != 2 {
			t.Fatalf("refused %v, served %v", s.refused, s.order)
		}
		s.mu.Unlock()
		if !errors.Is(s.refused[0], fair.ErrFull) {
			t.Errorf("refused with %v", s.refused[0])
		}
		s.all.Wait()

		s.refused = nil
		s.ask(t.Context(), "ann", 1)
		ctx, stop := context.WithTimeout(t.Context(), time.Second) // as the one before it ends
		defer stop()
		s.ask(ctx, "ann", 3)
		s.all.Wait()
		for _, err := range s.refused {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("refused with %v", err)
			}
		}
		s.refused = nil
		s.ask(t.Context(), "ann", 4)
		s.all.Wait()
		if len(s.refused) > 0 || len(s.wrong) > 0 {
			t.Errorf("after some gave up: %v, %v", s.refused, s.wrong)
		}
	})
}

// Without a queue a call runs at once or is refused.
func TestNoQueue(t *testing.T) {
	t.Parallel()
	turns := &fair.Turns{Slots: 2, Each: 2}
	ana, ben := parley.Principal{User: "ana"}, parley.Principal{User: "ben"}
	one, err := turns.Enter(t.Context(), ana)
	if err != nil {
		t.Fatal(err)
	}
	two, err := turns.Enter(t.Context(), ana)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := turns.Enter(t.Context(), ben); !errors.Is(err, fair.ErrFull) {
		t.Errorf("where all slots are taken: %v", err)
	}
	one()
	if leave, err := turns.Enter(t.Context(), ben); err != nil {
		t.Errorf("where one is free: %v", err)
	} else {
		leave()
	}
	two()
}
