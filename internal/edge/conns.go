package edge

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// conns are the connections that are open.
type conns struct {
	o Options

	mu   sync.Mutex
	open map[*conn]struct{}
	at   map[string]int // how many of an address are not safe
}

// phase is where a connection is.
type phase int

const (
	idle   phase = iota // between two requests
	fresh               // no request has come in whole
	asking              // a request is under way
)

// conn is one connection. conns.mu guards the fields that say how safe it is from being closed.
type conn struct {
	net.Conn
	of   *conns
	from string // its address; empty when it does not count

	phase phase
	since time.Time // it is in the phase
	known bool      // who makes the request
	was   bool      // known, in this or an earlier request
	body  bool      // some of the request's body is missing

	handled atomic.Bool // a handler has the request, so what is written is its answer
	cut     atomic.Bool // its write deadline has passed
	closed  sync.Once
}

// safe: never closed for another.
func (c *conn) safe() bool { return c.phase == asking && c.known && !c.body }

// rank orders those that are not safe by what they have to lose. One that was just
// accepted and one whose request is refused have the same: who came later stays, or
// a flood of requests would close each honest connection before its head is there.
func (c *conn) rank() int {
	switch {
	case c.known:
		return 3
	case c.was:
		return 2 // its client believes that it may ask again
	case c.phase != idle:
		return 1
	}
	return 0
}

func (s *conns) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// add takes a new connection, at the cost of another where there are too many;
// nil when none can be closed for it.
func (s *conns) add(raw net.Conn) *conn {
	c := &conn{Conn: raw, of: s, from: address(raw), phase: fresh, since: time.Now()}
	s.mu.Lock()
	var victim *conn
	switch {
	case c.from != "" && s.at[c.from] >= s.o.PerAddress:
		victim = s.weakest(c.from)
	case len(s.open) >= s.o.Connections:
		if victim = s.weakest(""); victim == nil {
			s.mu.Unlock()
			return nil
		}
	}
	if victim != nil {
		s.drop(victim)
	}
	s.open[c] = struct{}{}
	s.counts(c, 1)
	s.mu.Unlock()
	if victim != nil {
		s.o.Logger.Debug("closed a connection for a new one", "remote", victim.RemoteAddr())
		_ = victim.Close()
	}
	return c
}

// weakest is the connection to be closed for another, of an address or of all.
// Looking at each is cheap beside opening one. Those that are idle and were known
// are not more than half, so that keys do not keep out who comes.
func (s *conns) weakest(from string) *conn {
	var found, resting *conn
	rests := 0
	for c := range s.open {
		if c.safe() || from != "" && c.from != from {
			continue
		}
		if found == nil || c.rank() < found.rank() || c.rank() == found.rank() && c.since.Before(found.since) {
			found = c
		}
		if c.phase == idle && c.was {
			if rests++; resting == nil || c.since.Before(resting.since) {
				resting = c
			}
		}
	}
	if rests > s.o.Connections/2 {
		return resting
	}
	return found
}

// drop forgets c; s.mu is held.
func (s *conns) drop(c *conn) {
	if _, ok := s.open[c]; ok {
		delete(s.open, c)
		if !c.safe() {
			s.counts(c, -1)
		}
	}
}

// counts changes how many of c's address are not safe; s.mu is held.
func (s *conns) counts(c *conn, by int) {
	if c.from == "" {
		return
	}
	if s.at[c.from] += by; s.at[c.from] == 0 {
		delete(s.at, c.from)
	}
}

// change changes what c is.
func (s *conns) change(c *conn, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := c.safe()
	f()
	if _, ok := s.open[c]; !ok || before == c.safe() {
		return
	}
	if before {
		s.counts(c, 1)
	} else {
		s.counts(c, -1)
	}
}

// state is told by net/http, in whose words active is a request whose head is
// there, or was refused.
func (s *conns) state(raw net.Conn, to http.ConnState) {
	c, ok := raw.(*conn)
	if !ok {
		return
	}
	next := idle
	switch to {
	case http.StateActive:
		next = asking
	case http.StateIdle:
	default:
		return
	}
	c.handled.Store(false)
	s.change(c, func() {
		c.phase, c.known, c.body = next, false, false
		if next == idle {
			c.since = time.Now()
		}
	})
}

// address is what a connection is counted under: an IPv4 address, or the network
// of an IPv6 one, of which a client has many. It is empty for loopback, a socket
// in the file system, and a pipe.
func address(c net.Conn) string {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	a := tcp.AddrPort().Addr().Unmap().WithZone("")
	if !a.IsValid() || a.IsLoopback() {
		return ""
	}
	if a.Is6() {
		return netip.PrefixFrom(a, 64).Masked().String()
	}
	return a.String()
}

// unsent is about what the system keeps for a client that does not read: memory that
// no heap shows. On a line of 50 ms it is 40 Mbit/s.
const unsent = 256 << 10

// listener hands out connections that are counted.
type listener struct {
	net.Listener
	conns *conns
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if tcp, ok := raw.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(unsent) // else it grows to what the system takes
		}
		if c := l.conns.add(raw); c != nil {
			return c, nil
		}
		l.conns.o.Logger.Warn("no room for a connection", "connections", l.conns.o.Connections, "remote", raw.RemoteAddr())
		_ = raw.Close()
	}
}
