package wire

import (
	"context"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

// Streams counts open streams.
type Streams struct {
	// Max limits all open streams, Each those of one user, except parley.Local, who
	// shares with nobody.
	Max, Each int
	// Told is called with the number of open streams. May be nil.
	Told func(n int)

	mu   sync.Mutex
	n    int
	open map[parley.Principal]map[*answer]struct{}
}

// Open counts the stream that the request of ctx asks for; done must be called when it is
// closed. At the limit it cuts the stream whose client has left data unread for longest,
// of the same user or else of the user with the most streams; that client reconnects with
// its cursor. If all clients read, the new stream is refused with CodeRateLimited.
func (s *Streams) Open(ctx context.Context, p parley.Principal) (done func(), err error) {
	a := answerOf(ctx)
	if a == nil {
		a = &answer{} // counted, and never cut
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	each := s.Each
	if p == parley.Local {
		each = s.Max
	}
	switch {
	case len(s.open[p]) >= each && !s.cut(p):
		if each < s.Max {
			return nil, full(each, "the limit of one user")
		}
		return nil, full(each, "this server's limit")
	case s.n >= s.Max && !s.cut(p) && !s.cut(s.most()):
		return nil, full(s.Max, "this server's limit")
	}
	if s.open == nil {
		s.open = map[parley.Principal]map[*answer]struct{}{}
	}
	if s.open[p] == nil {
		s.open[p] = map[*answer]struct{}{}
	}
	s.open[p][a] = struct{}{}
	s.changed(1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(p, a)
	}, nil
}

// The following are called under the lock.

// cut ends the slowest stream of a user, if one is slow.
func (s *Streams) cut(p parley.Principal) bool {
	var slowest *answer
	now, most := time.Now(), grace
	for a := range s.open[p] {
		if slow := a.slow(now); slow >= most {
			slowest, most = a, slow
		}
	}
	if slowest == nil {
		return false
	}
	slowest.cut()
	s.drop(p, slowest)
	return true
}

func (s *Streams) most() (most parley.Principal) {
	for p, open := range s.open {
		if len(open) > len(s.open[most]) {
			most = p
		}
	}
	return most
}

func (s *Streams) drop(p parley.Principal, a *answer) {
	if _, ok := s.open[p][a]; !ok {
		return
	}
	if delete(s.open[p], a); len(s.open[p]) == 0 {
		delete(s.open, p)
	}
	s.changed(-1)
}

func (s *Streams) changed(by int) {
	if s.n += by; s.Told != nil {
		s.Told(s.n)
	}
}

func full(limit int, whose string) error {
	return parley.Errorf(parley.CodeRateLimited, "there are %d open streams already, which is %s", limit, whose).
		WithHint("close one, or follow several sessions in one stream at /v1/stream").WithRetry(time.Second)
}
