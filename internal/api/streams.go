package api

import (
	"mime"
	"strings"
	"sync"

	"github.com/parley-server/parley"
)

// accepts reports whether an Accept header names a type outright. Wildcards do
// not count: they ask for nothing in particular.
func accepts(header, want string) bool {
	for item := range strings.SplitSeq(header, ",") {
		kind, params, err := mime.ParseMediaType(strings.TrimSpace(item))
		if err == nil && kind == want && params["q"] != "0" {
			return true
		}
	}
	return false
}

// Open counts a stream of p, or refuses it; done must be called when it is closed.
func (s *Server) Open(p parley.Principal) (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.streams >= s.o.MaxStreams:
		return nil, busyStreams(s.o.MaxStreams, "this server's limit")
	case s.byUser[p] >= s.share(p):
		return nil, busyStreams(s.share(p), "the limit of one user")
	}
	s.streams++
	s.byUser[p]++
	s.told(s.streams)
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.streams--
		if s.byUser[p]--; s.byUser[p] == 0 {
			delete(s.byUser, p)
		}
		s.told(s.streams)
	}), nil
}

// share is how many streams p may have. The user of a server without a login has
// nobody to share with.
func (s *Server) share(p parley.Principal) int {
	if p == parley.Local {
		return s.o.MaxStreams
	}
	return s.o.MaxUserStreams
}

func (s *Server) told(n int) {
	if s.o.Streams != nil {
		s.o.Streams(n)
	}
}
