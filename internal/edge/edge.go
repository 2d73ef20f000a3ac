// Package edge limits the resources that an unidentified client can hold.
//
// A [Server] is an http.Server for streams, which timeouts on whole requests or answers
// would cut. Instead every wait has a limit of its own: for a request's head, for each
// stretch of its body, for a client to take what is written, and between requests. An
// upload may take as long as it likes while it keeps to [Options.UploadRate].
//
// Connections are counted, in total and per address. When there are too many, the one
// with the least to lose is closed in favour of the new one: an idle one that was never
// identified, then one that is not identified, then an idle one that was, then one whose
// body is incomplete; the oldest first. So a client that opens connections and does
// nothing with them loses them, and a request that is made at once is answered. A
// connection is safe once [Known] was called for its request and the request's body is
// there; streams and long answers are so. When all are safe, a new connection is closed
// at once.
//
// Refusals by net/http itself, for example of a head that is too large, are worded by
// [Options.Refuse].
//
// All of it is safe for concurrent use.
package edge

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Options of [New]. Each has a default.
type Options struct {
	// Connections is how many may be open at once. 0: 4,096, or fewer if the process may
	// not have that many descriptors in addition to its own.
	Connections int
	// PerAddress is how many of them may belong to one address (one /64 network of IPv6),
	// not counting those that are safe. Loopback is not counted: a proxy there speaks for
	// many. 0: 256.
	PerAddress int
	// UploadRate is the minimum rate of a body, in bytes per second, after Grace. 0: 4
	// KiB.
	UploadRate int

	Grace       time.Duration // for a head, and for a body to begin; 0: 10 s
	Idle        time.Duration // between requests; 0: 2 min
	WriteWithin time.Duration // for a client to take 64 KiB; 0: 30 s
	MaxHead     int           // bytes of a request's line and headers; 0: 64 KiB

	// Refuse is the body, and its type, of a refusal that net/http makes before
	// there is a request. Nil: net/http's own.
	Refuse func(status int, said string) (contentType string, body []byte)
	Logger *slog.Logger
}

func (o Options) complete() Options {
	if o.Connections == 0 {
		o.Connections = descriptors(4096)
	}
	o.PerAddress = orElse(o.PerAddress, 256)
	o.UploadRate = orElse(o.UploadRate, 4<<10)
	o.Grace = orElse(o.Grace, 10*time.Second)
	o.Idle = orElse(o.Idle, 2*time.Minute)
	o.WriteWithin = orElse(o.WriteWithin, 30*time.Second)
	o.MaxHead = orElse(o.MaxHead, 64<<10)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func orElse[T int | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// Server serves the connections of one listener.
type Server struct {
	http  *http.Server
	conns conns
}

// New makes a server of h.
func New(h http.Handler, o Options) *Server {
	o = o.complete()
	s := &Server{conns: conns{o: o, open: map[*conn]struct{}{}, at: map[string]int{}}}
	s.http = &http.Server{
		Handler:           &bodies{h, o},
		ReadHeaderTimeout: o.Grace,
		IdleTimeout:       o.Idle,
		// net/http reads 4 KiB beyond what it is told.
		MaxHeaderBytes: o.MaxHead - 4<<10,
		ErrorLog:       slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState:                    s.conns.state,
		DisableGeneralOptionsHandler: true, // OPTIONS * is for h like any other
	}
	return s
}

// Serve answers on l until Shutdown or Close, and then returns
// http.ErrServerClosed.
func (s *Server) Serve(l net.Listener) error { return s.http.Serve(&listener{l, &s.conns}) }

// Shutdown accepts no more connections and waits for the running requests.
func (s *Server) Shutdown(ctx context.Context) error { return s.http.Shutdown(ctx) }

// Close closes all connections.
func (s *Server) Close() error { return s.http.Close() }

// Connections is how many are open.
func (s *Server) Connections() int { return s.conns.count() }

type connKey struct{}

// Known records that the caller of the context's request is identified, so that its
// connection is not closed in favour of another once its body is complete.
func Known(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.of.change(c, func() { c.known, c.was = true, true })
	}
}
