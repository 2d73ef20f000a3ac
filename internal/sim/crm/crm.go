// Package crm is a small customer relationship management system on loopback, for tests and
// demonstrations: a REST API, its OpenAPI description, and a page that hosts the sidecar.
//
// It is a real one: it keeps leads, companies, projects and notes in an SQLite database of its
// own, for several organisations whose members see nothing of one another's. Logins expire,
// requests are limited, and what is wrong with one is said field by field. Creating a lead or a
// project takes an Idempotency-Key; creating a company or a note does not. One GET writes, as
// links in mails do (/api/leads/{id}/unsubscribe), and a method may be overridden by a header, as
// older frameworks allow: what calls it for others must know both.
//
// The description at /openapi.json, the tables and the checks of requests are made from one table
// of fields.
package crm

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
)

// Settings are what may be changed while a server runs, with [Server.Set].
type Settings struct {
	// Down makes the API answer 503.
	Down bool
	// PerMinute is how many requests a user may make in a minute. 0: 300.
	PerMinute int
}

// Options of [New].
type Options struct {
	// File is the database. Empty: it is in memory.
	File string
	// TokenTTL is how long a login lasts. 0: eight hours.
	TokenTTL time.Duration
	// Trust returns the email of the user to whom another issuer has given a token, such as a JWT.
	// Nil: only the server's own tokens are accepted.
	Trust func(ctx context.Context, token string) (email string, err error)
	// Empty says that the organisations have no records in the beginning.
	Empty    bool
	Settings Settings
	// Parley is the address of the Parley server that the page's sidecar speaks to. Empty: there is
	// none. It can be set later with [Server.Connect].
	Parley string
	Now    func() time.Time // nil: time.Now
}

// Fault disturbs matching requests to the API.
type Fault struct {
	Method, Path string // Path is a part of the path; empty: all
	Times        int    // how often; 0: once
	// Lost carries the request out and closes the connection instead of answering.
	Lost bool
	// Status is answered instead of carrying the request out; 0 with Lost and After unset: the
	// connection is closed before anything is done.
	Status int
	// After is called when the request was carried out and before it is answered.
	After func()
}

// Write is a change that a request has made.
type Write struct {
	Method, Path string // Method is the one that was carried out
	Query, Body  string
	User, Org    string
	Key          string // its Idempotency-Key
	At           time.Time
}

// Counts are what has happened.
type Counts struct{ Requests, Writes, Replays, Throttled, Logins int }

// Server implements [http.Handler]. It is safe for concurrent use.
type Server struct {
	o        Options
	api      http.Handler
	describe []byte

	mu     sync.Mutex // guards what follows; the connection, too
	conn   *sqlite.Conn
	set    Settings
	counts Counts
	writes []Write
	faults []*Fault
	used   map[string]*window
	parley string
	proxy  http.Handler
}

// kept is how many writes are remembered.
const kept = 10_000

// New makes a server. It panics when its database cannot be opened.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{o: o, set: o.Settings, used: map[string]*window{}, describe: describe()}
	if err := s.open(); err != nil {
		panic(err)
	}
	s.api = s.routes()
	s.Connect(o.Parley)
	return s
}

// Close closes the database.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn.Close()
}

// Set changes the settings.
func (s *Server) Set(f func(*Settings)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.set)
}

// Fail adds a fault.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Times = max(1, f.Times)
	s.faults = append(s.faults, &f)
}

// Counts returns what has happened so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Writes returns the changes that were made so far, the oldest first.
func (s *Server) Writes() []Write {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.writes)
}

// wrote remembers a change. The caller holds mu.
func (s *Server) wrote(c *call) {
	s.counts.Writes++
	if len(s.writes) == kept {
		s.writes = s.writes[1:]
	}
	s.writes = append(s.writes, Write{
		Method: c.r.Method, Path: c.r.URL.Path, Query: c.r.URL.RawQuery, Body: string(c.body),
		User: c.who.ID, Org: c.org, Key: c.key, At: s.o.Now(),
	})
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/openapi.json":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(s.describe)
		return
	case proxied(r.URL.Path):
		s.forward(w, r)
		return
	case !strings.HasPrefix(r.URL.Path, "/api/"):
		s.shown(w, r)
		return
	}
	if o := r.Header.Get("X-HTTP-Method-Override"); o != "" {
		r = r.Clone(r.Context())
		r.Method = strings.ToUpper(o)
	}
	s.mu.Lock()
	s.counts.Requests++
	f, down := s.fault(r), s.set.Down
	s.mu.Unlock()
	switch {
	case down:
		refuse(w, http.StatusServiceUnavailable, "The CRM is being maintained. Try again in a few minutes.")
		return
	case f != nil && f.Status != 0:
		refuse(w, f.Status, http.StatusText(f.Status))
		return
	case f != nil && !f.Lost && f.After == nil:
		panic(http.ErrAbortHandler)
	}
	out := &answer{header: http.Header{}}
	s.api.ServeHTTP(out, r)
	if f != nil && f.After != nil {
		f.After()
	}
	if f != nil && f.Lost {
		panic(http.ErrAbortHandler)
	}
	for name, values := range out.header {
		w.Header()[name] = values
	}
	w.WriteHeader(cmp.Or(out.status, http.StatusOK))
	_, _ = w.Write(out.body.Bytes())
}

func (s *Server) fault(r *http.Request) *Fault {
	for i, f := range s.faults {
		if (f.Method == "" || f.Method == r.Method) && strings.Contains(r.URL.Path, f.Path) {
			if f.Times--; f.Times == 0 {
				s.faults = slices.Delete(s.faults, i, i+1)
			}
			return f
		}
	}
	return nil
}

// answer is an answer that may still be lost.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = cmp.Or(a.status, status) }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }
