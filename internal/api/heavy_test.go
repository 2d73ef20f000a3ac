package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// heavyEngine is an engine whose forks wait until the test lets them go on.
type heavyEngine struct {
	api.Engine
	begun chan string // gets the user of each fork that has begun
	may   chan struct{}
}

func (e *heavyEngine) Fork(ctx context.Context, p parley.Principal, id parley.SessionID, c parley.ForkSession) (parley.SessionInfo, error) {
	e.begun <- p.User
	<-e.may
	return e.Engine.Fork(ctx, p, id, c)
}

// stuck is a client that reads nothing until the test lets it.
type stuck struct {
	*httptest.ResponseRecorder
	writing chan struct{}
	go_     chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	s.writing <- struct{}{}
	<-s.go_
	return s.ResponseRecorder.Write(b)
}

// TestHeavy_requests_take_turns: a user who sends many forks and exports is refused when enough of
// them wait. Requests of other users get their turn. An export that is not read blocks no one.
func TestHeavy_requests_take_turns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &heavyEngine{begun: make(chan string, 100), may: make(chan struct{})}
		rig := enginetest.New(t, enginetest.Echo, enginetest.App())
		defer rig.Close()
		e.Engine = rig.Engine
		s := api.New(api.Options{Engine: e, Reader: rig.Reader, Principal: func(ctx context.Context) (parley.Principal, error) {
			user, _ := ctx.Value(userKey{}).(string)
			return parley.Principal{User: user}, nil
		}})
		sessions := map[string]parley.SessionID{}
		for _, user := range []string{"ana", "ben"} {
			info, _, err := rig.Engine.Create(t.Context(), parley.Principal{User: user}, parley.CreateSession{App: "test"})
			if err != nil {
				t.Fatal(err)
			}
			sessions[user] = info.ID
		}
		serve := func(w http.ResponseWriter, user, method, what string) {
			r := httptest.NewRequestWithContext(context.WithValue(t.Context(), userKey{}, user), method, fmt.Sprintf("/v1/sessions/%s/%s", sessions[user], what), http.NoBody)
			s.ServeHTTP(w, r)
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		var refused []string
		fork := func(user string) {
			all.Go(func() {
				w := httptest.NewRecorder()
				if serve(w, user, "POST", "fork"); w.Code != http.StatusCreated {
					mu.Lock()
					defer mu.Unlock()
					refused = append(refused, fmt.Sprintf("%s %d %s %s", user, w.Code, w.Header().Get("Retry-After"), w.Body))
				}
			})
			synctest.Wait()
		}

		// Fill all slots, each with the fork of another user.
		slots := max(runtime.GOMAXPROCS(0)/2, 1)
		for i := range slots - 1 {
			user := fmt.Sprint("user", i)
			sessions[user] = "none"
			fork(user)
			<-e.begun
		}
		for range 12 {
			fork("ana")
		}
		mu.Lock()
		if len(refused) != 3 || !strings.HasPrefix(refused[0], "ana 429 5 ") || !strings.Contains(refused[0], `"hint":"ask for one`) || !strings.Contains(refused[0], `"retry_after_ms":5000`) {
			t.Errorf("of 12 forks at once were refused: %q", refused)
		}
		refused = nil
		mu.Unlock()
		fork("ben")
		if got := <-e.begun; got != "ana" || len(e.begun) > 0 {
			t.Fatalf("the first fork is of %s, with %d more", got, len(e.begun))
		}
		e.may <- struct{}{}
		if slots > 1 {
			e.may <- struct{}{}
		}
		synctest.Wait()
		var order []string
		for len(e.begun) > 0 {
			order = append(order, <-e.begun)
		}
		if !slices.Contains(order, "ben") {
			t.Errorf("after ana's first fork begin those of %v, want ben's among them", order)
		}

		// A request that does not begin for a long time is refused.
		time.Sleep(16 * time.Second)
		synctest.Wait()
		mu.Lock()
		if len(refused) == 0 || !slices.ContainsFunc(refused, func(r string) bool {
			return strings.HasPrefix(r, "ana 503 5 ") && strings.Contains(r, "did not begin within 15s")
		}) {
			t.Errorf("a call that waited for 16 s is refused with %q", refused)
		}
		mu.Unlock()
		close(e.may)
		all.Wait()

		// Exports that wait for their clients occupy no slot.
		var held []*stuck
		for range slots + 1 {
			w := &stuck{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
			held = append(held, w)
			all.Go(func() { serve(w, "ana", "GET", "export") })
			<-w.writing
		}
		w := httptest.NewRecorder()
		if serve(w, "ben", "GET", "export"); w.Code != http.StatusOK || w.Body.Len() < 100 {
			t.Errorf("beside unread exports: %d, %d bytes", w.Code, w.Body.Len())
		}
		for _, w := range held {
			close(w.go_)
			all.Go(func() {
				for range w.writing { //nolint:revive // waits until it is closed
				}
			})
		}
		synctest.Wait()
		for _, w := range held {
			close(w.writing)
			if w.Code != http.StatusOK || w.Body.Len() < 100 {
				t.Errorf("an export that was read late: %d, %d bytes", w.Code, w.Body.Len())
			}
		}
		all.Wait()
	})
}

// statesEngine is an engine whose states, or instead its turns, wait until the test lets them go on.
type statesEngine struct {
	api.Engine
	turns bool        // the turns wait
	begun chan string // gets the user of each state that is being made
	may   chan struct{}
}

func (e *statesEngine) wait(p parley.Principal) {
	e.begun <- p.User
	<-e.may
}

func (e *statesEngine) State(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.Session, error) {
	if !e.turns {
		e.wait(p)
	}
	return e.Engine.State(ctx, p, id)
}

func (e *statesEngine) Turns(ctx context.Context, p parley.Principal, q seam.TurnQuery) ([]parley.TurnInfo, error) {
	if e.turns {
		e.wait(p)
	}
	return e.Engine.Turns(ctx, p, q)
}

func (e *statesEngine) Rules(ctx context.Context, p parley.Principal, id parley.SessionID) ([]parley.Rule, error) {
	e.wait(p)
	return e.Engine.Rules(ctx, p, id)
}

func (e *statesEngine) Queue(ctx context.Context, p parley.Principal, id parley.SessionID) ([]parley.QueuedTurn, error) {
	e.wait(p)
	return e.Engine.Queue(ctx, p, id)
}

// TestHeavy_states: requests that make a session's state from its log, or read many turns, take
// turns, so 40 requests of one user never run at once.
func TestHeavy_states(t *testing.T) {
	t.Parallel()
	for name, turns := range map[string]bool{"window": false, "window of turns": true, "rules": false, "queue": false} {
		what, _, _ := strings.Cut(name, " ")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := &statesEngine{turns: turns, begun: make(chan string, 100), may: make(chan struct{})}
				rig := enginetest.New(t, enginetest.Echo, enginetest.App())
				defer rig.Close()
				e.Engine = rig.Engine
				s := api.New(api.Options{Engine: e, Reader: rig.Reader, Principal: func(ctx context.Context) (parley.Principal, error) {
					return parley.Principal{User: "ana"}, nil
				}})
				info, _, err := rig.Engine.Create(t.Context(), parley.Principal{User: "ana"}, parley.CreateSession{App: "test"})
				if err != nil {
					t.Fatal(err)
				}
				var all sync.WaitGroup
				var mu sync.Mutex
				got := map[int]int{}
				for range 40 {
					all.Go(func() {
						w := httptest.NewRecorder()
						s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("/v1/sessions/%s/%s", info.ID, what), http.NoBody))
						mu.Lock()
						defer mu.Unlock()
						got[w.Code]++
					})
				}
				synctest.Wait()
				if len(e.begun) != 1 {
					t.Errorf("%d run at once, want 1", len(e.begun))
				}
				close(e.may)
				all.Wait()
				if got[http.StatusOK] != 9 || got[http.StatusTooManyRequests] != 31 {
					t.Errorf("answers by status: %v, want 9 with 200 and 31 with 429", got)
				}
			})
		})
	}
}
