package rest

import (
	"sync"
	"time"

	"github.com/parley-server/parley"
)

const (
	// strangersAtOnce is how many tokens that nobody knows yet a client may show before it has to wait: enough for
	// an office behind one address whose users log in at once.
	strangersAtOnce = 30
	// strangersEvery is how often it may show another one from then on.
	strangersEvery = 2 * time.Second
	// maxClients limits the entries. Those that have nothing to wait for are dropped first.
	maxClients = 4096
)

// strangers limits how many tokens of a client the API is asked about in vain, so that a flood of random
// tokens does not become a flood of requests to the API. A token counts from the moment when the API is asked, and
// no longer once it was accepted.
type strangers struct {
	mu   sync.Mutex
	full map[string]time.Time // by client: when nothing counts any more
}

// enter counts a token of a client, or returns how long it has to wait.
func (s *strangers) enter(client string, now time.Time) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := s.full[client]
	if full.Before(now) {
		full = now
	}
	if wait = full.Sub(now) - (strangersAtOnce-1)*strangersEvery; wait > 0 {
		return wait // not counted: who tries again must not wait longer and longer
	}
	if s.full == nil {
		s.full = map[string]time.Time{}
	}
	if _, known := s.full[client]; !known && len(s.full) >= maxClients {
		for c, at := range s.full {
			if !now.Before(at) {
				delete(s.full, c)
			}
		}
		for c := range s.full {
			if len(s.full) < maxClients {
				break
			}
			delete(s.full, c)
		}
	}
	s.full[client] = full.Add(strangersEvery)
	return 0
}

// accepted takes a token of a client back.
func (s *strangers) accepted(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if full, ok := s.full[client]; ok {
		s.full[client] = full.Add(-strangersEvery)
	}
}

func tooManyStrangers(wait time.Duration) error {
	return parley.Errorf(parley.CodeRateLimited, "too many unknown tokens came from this address").
		WithHint("a token that was accepted before is let in at once").WithRetry(wait)
}
