package mcpserver

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/wire"
)

// carriedHeader names the HTTP request that carries a call, within this process.
const carriedHeader = "Parley-Carried"

// connection is one of the older era.
type connection struct {
	who    parley.Principal
	ended  bool      // its host hung up, or another one took its place
	used   bool      // it was asked for more than to begin
	since  time.Time // when it last began or ended something
	visits int       // HTTP requests under way, such as the stream of what the server says

	n       int
	cancels map[int]context.CancelFunc // of the protocol's requests under way
}

func (c *connection) idle() bool { return !c.ended && c.visits == 0 && len(c.cancels) == 0 }

// before reports whether c loses its place before o: a connection that was never used
// goes before one that was, and of two the one that has been idle for longer.
func (c *connection) before(o *connection) bool {
	if o == nil || c.used != o.used {
		return o == nil || !c.used
	}
	return c.since.Before(o.since)
}

// at is the connection of an id, which is made when it is first met. h.mu is held.
func (h *Handler) at(id string) *connection {
	c := h.open[id]
	if c == nil {
		c = &connection{since: time.Now(), cancels: map[int]context.CancelFunc{}}
		h.open[id] = c
	}
	return c
}

// connect makes room for another connection of p, if need be by ending an idle one, or
// refuses it. The room is held until opened is called. A host whose connection was ended
// is told so when it comes again, and reconnects.
func (h *Handler) connect(p parley.Principal) error {
	h.mu.Lock()
	sessions := map[string]*mcp.ServerSession{}
	for s := range h.server.Sessions() {
		sessions[s.ID()] = s
	}
	all, mine := 0, h.opening[p]
	for _, n := range h.opening {
		all += n
	}
	var idlest, own string // of all connections, of those of p
	for id, c := range h.open {
		switch {
		case sessions[id] == nil && c.visits == 0 && len(c.cancels) == 0:
			delete(h.open, id) // it has ended
			continue
		case c.ended:
			continue
		}
		all++
		if c.idle() && c.before(h.open[idlest]) {
			idlest = id
		}
		if c.who != p {
			continue
		}
		mine++
		if c.idle() && c.before(h.open[own]) {
			own = id
		}
	}
	full, mineFull := all >= h.t.MaxSessions, p != parley.Local && mine >= h.t.MaxUserSessions
	if mineFull {
		idlest = own
	}
	room := !full && !mineFull
	var ends *mcp.ServerSession
	if c := h.open[idlest]; !room && c != nil {
		c.ended, ends, room = true, sessions[idlest], true
	}
	if room {
		h.opening[p]++
	}
	h.mu.Unlock()
	switch {
	case ends != nil:
		_ = ends.Close() // it waits for nothing, as nothing is under way
	case room:
	case mineFull: // any of them makes room as soon as nothing is under way on it
		return parley.Errorf(parley.CodeRateLimited, "you have %d MCP connections with something under way, which is the limit of one user", mine).
			WithHint("close one, or wait until one of them is idle").WithRetry(10 * time.Second)
	default:
		return parley.Errorf(parley.CodeUnavailable, "%d MCP connections have something under way, and no more are taken", all).
			WithHint("close one, or wait until one of them is idle").WithRetry(10 * time.Second)
	}
	return nil
}

// opened ends what connect began: the answer names the connection, or names none.
func (h *Handler) opened(w *response, id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if id != "" {
		h.at(id).who = w.who
	}
	if !w.opening {
		return
	}
	w.opening = false
	if h.opening[w.who]--; h.opening[w.who] <= 0 {
		delete(h.opening, w.who)
	}
}

// visit is called while an HTTP request of a connection is under way. It returns false
// for a connection that has ended; done may be called in any case.
func (h *Handler) visit(id string) (done func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.at(id)
	if c.ended {
		return func() {}, false
	}
	c.visits++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		c.visits--
		c.since = time.Now()
	}, true
}

// during makes the context of a request of a connection, which ends with that. The SDK
// makes it from the HTTP request that opened the connection, which has long ended; what
// the request reads counts for the HTTP request that carries it.
func (h *Handler) during(ctx context.Context, id, method string, extra *mcp.RequestExtra) (context.Context, func()) {
	if id == "" { // of the newer era
		return ctx, func() {}
	}
	ctx, called := wire.Carried(ctx, h.carrier(extra))
	ctx, cancel := context.WithCancel(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.at(id)
	if method != "initialize" && method != "notifications/initialized" {
		c.used = true
	}
	if c.n++; c.ended {
		cancel()
	}
	n := c.n
	c.cancels[n] = cancel
	return ctx, func() {
		cancel()
		called()
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(c.cancels, n)
		c.since = time.Now()
	}
}

// carry marks an HTTP request of the older era until done is called, so that the calls in
// it find its context. The SDK hands on its header and nothing else.
func (h *Handler) carry(r *http.Request) (done func()) {
	id := rand.Text()
	r.Header.Set(carriedHeader, id) // in place of what the host may have sent
	h.mu.Lock()
	defer h.mu.Unlock()
	h.carriers[id] = r.Context()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.carriers, id)
	}
}

// carrier is the context of the HTTP request that carries a call, or nil if that has ended.
func (h *Handler) carrier(extra *mcp.RequestExtra) context.Context {
	if extra == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.carriers[extra.Header.Get(carriedHeader)]
}

// hangUp cancels the running requests of a connection, and those that still begin until
// it is closed.
func (h *Handler) hangUp(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.open[id]; c != nil {
		c.ended = true
		for _, cancel := range c.cancels {
			cancel()
		}
	}
}
