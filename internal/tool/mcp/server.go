//go:build unix

package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
)

// dialer opens connections to one server.
type dialer interface {
	// dial opens a connection. ctx bounds only the opening.
	dial(ctx context.Context) (carrier, error)
}

// carrier carries the messages of one connection.
type carrier struct {
	sdk.Transport
	end  func()        // ends what dial started and waits for its end; may be called again
	said func() string // the last output of a program, for errors
	// locked reports whether the service requires a login that is missing; nil: it never does.
	locked func() bool
}

// server keeps at most one link in use. A link that failed is replaced when the server is
// used next.
type server struct {
	o        Options
	dial     dialer
	listed   func([]*sdk.Tool) // gets each list of tools of a link that all share
	prompted func()            // is called after the prompts were listed

	life context.Context // ends at close
	end  context.CancelFunc
	work sync.WaitGroup
	asks atomic.Bool // it has asked a question in a call of the older era, see link.enter

	others    atomic.Int64 // requests so far that may ask nobody, see link.enterForNobody
	restocked atomic.Int64 // how often its resources may have changed

	mu       sync.Mutex
	cur      *link
	links    map[*link]bool // not closed yet
	starting *start
	legacy   bool // the server does not understand the newer era's first question
	failures int  // since the last success
	next     time.Time
	why      error // of the last failure

	prompts   []prompt // as listed last
	relisting bool     // they are being listed
	again     bool     // they have to be listed again
}

// start is a start that is under way.
type start struct {
	done chan struct{}
	err  error
}

func newServer(o Options, d dialer) *server {
	s := &server{o: o, dial: d, links: map[*link]bool{}, listed: func([]*sdk.Tool) {}, prompted: func() {}}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// patience is how long a call waits for the next start; if it would take longer, the call fails.
const patience = 5 * time.Second

// use returns a link, and starts the server if there is none. The caller calls leave when it no
// longer needs the link. If use returns an error, nothing was sent for the caller.
func (s *server) use(ctx context.Context, stopped <-chan struct{}) (l *link, leave func(), err error) {
	for {
		s.mu.Lock()
		if s.life.Err() != nil {
			s.mu.Unlock()
			return nil, nil, s.over()
		}
		if l = s.cur; l != nil && !l.gone() {
			l.users++
			if l.idle != nil {
				l.idle.Stop()
			}
			s.mu.Unlock()
			return l, sync.OnceFunc(func() { s.leave(l) }), nil
		}
		s.mu.Unlock()
		if l != nil { // its end has not been noticed yet
			s.ended(l)
			continue
		}
		if err := s.begin(ctx, stopped); err != nil {
			return nil, nil, err
		}
	}
}

func (s *server) over() error {
	return parley.Errorf(parley.CodeUnavailable, "the MCP server %s was stopped, because Parley is stopping or the server's settings or approval have changed", s.o.Name)
}

// begin waits until a link exists that did not exist before.
func (s *server) begin(ctx context.Context, stopped <-chan struct{}) error {
	s.mu.Lock()
	st := s.starting
	if st == nil {
		if s.life.Err() != nil {
			defer s.mu.Unlock()
			return s.over()
		}
		if wait := time.Until(s.next); wait > patience {
			defer s.mu.Unlock()
			return parley.Errorf(parley.CodeUnavailable, "the MCP server %s failed: %w", s.o.Name, s.why).
				WithHint("it is started again in %s at the earliest", wait.Round(time.Second))
		}
		st = &start{done: make(chan struct{})}
		s.starting = st
		s.work.Go(func() { s.start(st) })
	}
	s.mu.Unlock()
	select {
	case <-st.done:
		return st.err
	case <-ctx.Done():
		return parley.Errorf(parley.CodeUnavailable, "the MCP server %s is not ready: %w", s.o.Name, context.Cause(ctx))
	case <-stopped:
		return errStopped
	}
}

func (s *server) start(st *start) {
	s.mu.Lock()
	wait := time.Until(s.next)
	s.mu.Unlock()
	var l *link
	var err error
	pause := time.NewTimer(wait)
	defer pause.Stop()
	select {
	case <-pause.C:
		l, err = s.connect()
	case <-s.life.Done():
		err = s.life.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting = nil
	switch {
	case s.life.Err() != nil:
		st.err = s.over() // close ends the link, if there is one
	case errors.Is(err, errLogin): // with a login it can be used at once
		st.err = err
	case err != nil:
		s.failed(err)
		st.err = parley.Errorf(parley.CodeUnavailable, "the MCP server %s cannot be used: %w", s.o.Name, err)
	default:
		s.cur = l
		s.rest(l) // whoever waited for it may be gone
		s.relist()
		s.work.Go(func() {
			<-l.ended
			s.ended(l)
			s.shut(l)
		})
	}
	close(st.done)
}

// connect opens a link. A server of the older era may end, or not answer, when it gets the newer
// era's first request. It is then asked in the older way.
func (s *server) connect() (*link, error) {
	s.mu.Lock()
	legacy := s.legacy
	s.mu.Unlock()
	if !legacy {
		l, err := s.open(s.life, s.dial, false)
		if _, silent := errors.AsType[*silentError](err); err == nil || !silent {
			return l, err
		}
	}
	l, err := s.open(s.life, s.dial, true)
	if err == nil && !legacy {
		s.mu.Lock()
		s.legacy = true
		s.mu.Unlock()
	}
	return l, err
}

// alone opens a link for one call, which closes it with leave.
func (s *server) alone(ctx context.Context, d dialer) (l *link, leave func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(s.over()) })()
	s.mu.Lock()
	legacy := s.legacy
	s.mu.Unlock()
	l, err = s.open(ctx, d, legacy)
	if _, silent := errors.AsType[*silentError](err); silent {
		l, err = s.open(ctx, d, true)
	}
	if errors.Is(err, errLogin) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, parley.Errorf(parley.CodeUnavailable, "the MCP server %s cannot be used: %w", s.o.Name, err)
	}
	l.alone = true
	return l, func() { s.shut(l) }, nil
}

// failed counts a failure. The caller holds the lock.
func (s *server) failed(err error) {
	s.why = err
	if s.failures++; s.failures == 1 {
		return // the first start after a failure comes at once
	}
	delay := maxBackoff
	if n := s.failures - 2; n < 10 {
		delay = min(backoff<<n, maxBackoff)
	}
	s.next = time.Now().Add(delay)
	s.o.Logger.Warn("an MCP server failed", "server", s.o.Name, "times", s.failures, "next_start_in", delay, "err", err)
}

// worked records that the server answered over l.
func (s *server) worked(*link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures, s.next = 0, time.Time{}
}

// ended handles the end of a link that we did not end.
func (s *server) ended(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur != l {
		return
	}
	s.cur = nil
	if s.life.Err() == nil {
		s.failed(l.explain(errors.New("the connection ended")))
	}
}

// drop takes a lost link out of use. It is closed when its last call has ended.
func (s *server) drop(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur == l {
		s.cur = nil
		s.failed(errors.New("the connection was lost"))
	}
	s.rest(l)
}

// retire takes a working link out of use.
func (s *server) retire(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur == l {
		s.cur = nil
	}
	s.rest(l)
}

func (s *server) leave(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.users--
	s.rest(l)
}

// rest closes a link that is out of use at once, and one that nobody uses after a while. The caller
// holds the lock.
func (s *server) rest(l *link) {
	switch {
	case l.users > 0 || s.life.Err() != nil:
	case s.cur != l:
		s.work.Go(func() { s.shut(l) })
	case l.idle != nil:
		l.idle.Reset(s.o.Idle)
	default:
		l.idle = time.AfterFunc(s.o.Idle, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if l.users == 0 && s.cur == l {
				s.cur = nil
				s.rest(l)
			}
		})
	}
}

// shut closes a link.
func (s *server) shut(l *link) {
	l.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.links, l)
}

// close ends the server for good.
func (s *server) close() {
	s.mu.Lock()
	s.end()
	s.cur = nil
	st := s.starting // the last one
	s.mu.Unlock()
	if st != nil {
		<-st.done // until then the start owns its link
	}
	s.mu.Lock()
	left := slices.Collect(maps.Keys(s.links))
	s.mu.Unlock()
	for _, l := range left {
		l.close()
	}
	s.work.Wait()
}

// silentError is the failure of a server that could be reached but did not answer the newer era's
// first request.
type silentError struct{ err error }

func (e *silentError) Error() string { return e.err.Error() }
func (e *silentError) Unwrap() error { return e.err }

// The protocol versions of the two eras, and how long a server may take to say that it does not
// know the newer one.
const (
	legacyVersion = "2025-11-25"
	modernVersion = "2026-07-28"
	probeTimeout  = 30 * time.Second
)

func (s *server) open(ctx context.Context, d dialer, legacy bool) (*link, error) {
	version, timeout := modernVersion, probeTimeout
	if legacy {
		version, timeout = legacyVersion, startTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it was not ready within %s", timeout))
	defer cancel()
	if s.o.Allowed != nil {
		if err := s.o.Allowed(ctx); err != nil {
			return nil, err
		}
	}
	c, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	l := newLink(s, c)
	s.mu.Lock()
	over := s.life.Err() != nil // close ends only the links in s.links
	if !over {
		s.links[l] = true
	}
	s.mu.Unlock()
	if over {
		l.close()
		return nil, s.over()
	}
	if err := l.connect(ctx, version); err != nil {
		s.shut(l)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		err = l.explain(err)
		if !legacy && s.life.Err() == nil && !errors.Is(err, errLogin) {
			err = &silentError{err}
		}
		return nil, err
	}
	if s.o.Allowed != nil { // a program may have been changed between the first check and its start
		if err := s.o.Allowed(ctx); err != nil {
			s.shut(l)
			return nil, err
		}
	}
	return l, nil
}
