package homeassistant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// conn is one WebSocket connection.
type conn struct {
	h    *House
	ws   *websocket.Conn
	ctx  context.Context
	cut  context.CancelFunc // ends the connection without a closing message
	who  *user              // nil until the client has logged in
	last int                // the highest id so far
	subs map[int]*sub
	many bool // the client accepts several messages in one frame

	mu    sync.Mutex
	queue [][]byte
	full  chan struct{} // holds a token while the queue is not empty
}

// sub is a subscription. It returns the message for an event, or nil.
type sub struct {
	id   int
	make func(ev event) any
}

const (
	authTime  = 10 * time.Second // limit for logging in, as in the real one
	heartbeat = 55 * time.Second // as in the real one
	writeTime = 10 * time.Second
)

func (h *House) serveSocket(w http.ResponseWriter, r *http.Request, proxied bool) {
	h.mu.Lock()
	down, closed := h.faults.Down, h.life.Err() != nil || len(h.conns) >= maxConns
	if !down && !closed {
		h.socket.Add(1) // under the lock, which Close takes before it waits
	}
	h.mu.Unlock()
	switch {
	case closed:
		http.Error(w, "503: Service Unavailable", http.StatusServiceUnavailable)
		return
	case down:
		fallen(w, proxied)
		return
	}
	defer h.socket.Done()
	// Pages of any origin may connect: the token decides.
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer ws.CloseNow() //nolint:errcheck // it may be closed already
	ws.SetReadLimit(maxMessage)
	ctx, cut := context.WithCancel(h.life)
	defer cut()
	c := &conn{h: h, ws: ws, ctx: ctx, cut: cut, subs: map[int]*sub{}, full: make(chan struct{}, 1)}
	h.mu.Lock()
	h.conns[c] = true
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.conns, c)
		h.mu.Unlock()
	}()
	if !c.login(proxied) {
		return
	}
	var writer sync.WaitGroup
	writer.Go(c.write)
	c.read()
	cut()
	writer.Wait()
}

func (c *conn) direct(v any) bool {
	raw, _ := json.Marshal(v)
	ctx, cancel := context.WithTimeout(c.ctx, writeTime)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, raw) == nil
}

// login is the first phase. The client's token may arrive before it is requested.
func (c *conn) login(proxied bool) bool {
	if !c.direct(attrs{"type": "auth_required", "ha_version": Version}) {
		return false
	}
	ctx, cancel := context.WithTimeout(c.ctx, authTime)
	defer cancel()
	kind, raw, err := c.ws.Read(ctx)
	if err != nil {
		return false
	}
	var m struct {
		Type        string `json:"type"`
		AccessToken string `json:"access_token"`
		APIPassword string `json:"api_password"`
	}
	refused := "Invalid access token or password"
	if kind != websocket.MessageText || json.Unmarshal(raw, &m) != nil {
		return false
	}
	if m.Type != "auth" || m.AccessToken == "" {
		c.direct(attrs{"type": "auth_invalid", "message": "Auth message incorrectly formatted: required key not provided @ data['access_token']"})
		return false
	}
	c.h.mu.Lock()
	who := c.h.known(m.AccessToken, proxied)
	c.who = who
	c.h.mu.Unlock()
	if who == nil {
		if proxied {
			refused = "Invalid access"
		}
		c.direct(attrs{"type": "auth_invalid", "message": refused})
		_ = c.ws.Close(websocket.StatusNormalClosure, "")
		return false
	}
	return c.direct(attrs{"type": "auth_ok", "ha_version": Version})
}

// known returns the user of a token. h.mu is held.
func (h *House) known(token string, proxied bool) *user {
	switch {
	case h.faults.Unauthorized || token == "":
	case proxied && token == h.o.SupervisorToken:
		return &userSupervisor
	case proxied:
	case token == h.o.Token:
		return &userAna
	case token == h.o.LimitedToken:
		return &userGuest
	case h.tokens[token] == userAna.id:
		return &userAna
	case h.tokens[token] == userGuest.id:
		return &userGuest
	}
	return nil
}

func (c *conn) read() {
	for {
		kind, raw, err := c.ws.Read(c.ctx)
		if err != nil || kind != websocket.MessageText {
			return
		}
		raw = bytes.TrimSpace(raw)
		var batch []json.RawMessage
		if len(raw) > 0 && raw[0] == '[' {
			if json.Unmarshal(raw, &batch) != nil {
				return
			}
		} else {
			batch = []json.RawMessage{raw}
		}
		for _, one := range batch {
			var m attrs
			if json.Unmarshal(one, &m) != nil {
				return // as in the real one, a message that is not JSON ends the connection
			}
			if !c.h.wait(c.ctx) {
				return
			}
			c.command(m)
		}
	}
}

// wait simulates a slow house for as long as the delay is set. It returns false if ctx ended
// first.
func (h *House) wait(ctx context.Context) bool {
	h.mu.Lock()
	d := h.faults.Delay
	if h.eased == nil {
		h.eased = make(chan struct{})
	}
	eased := h.eased
	h.mu.Unlock()
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-eased:
		return true
	case <-ctx.Done():
		return false
	}
}

// send queues a message. A client that does not read is disconnected.
func (c *conn) send(v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) >= maxQueue {
		c.cut()
		return
	}
	c.queue = append(c.queue, raw)
	select {
	case c.full <- struct{}{}:
	default:
	}
}

func (c *conn) hear(ev event) {
	for _, s := range c.subs {
		if v := s.make(ev); v != nil {
			c.send(attrs{"id": s.id, "type": "event", "event": v})
		}
	}
}

func (c *conn) write() {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	defer c.cut()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-beat.C:
			ctx, cancel := context.WithTimeout(c.ctx, writeTime)
			err := c.ws.Ping(ctx)
			cancel()
			if err != nil {
				return
			}
		case <-c.full:
			c.mu.Lock()
			batch := c.queue
			c.queue = nil
			c.mu.Unlock()
			if c.flush(batch) != nil {
				return
			}
		}
	}
}

var errCut = errors.New("cut")

func (c *conn) flush(batch [][]byte) error {
	c.h.mu.Lock()
	many := c.many
	broken := min(c.h.faults.Malformed, len(batch))
	c.h.faults.Malformed -= broken
	c.h.mu.Unlock()
	if many && len(batch) > 1 {
		batch = [][]byte{append(append([]byte{'['}, bytes.Join(batch, []byte{','})...), ']')}
	}
	for i, raw := range batch {
		if i < broken {
			raw = raw[:len(raw)*2/3]
		}
		if c.ctx.Err() != nil {
			return errCut
		}
		ctx, cancel := context.WithTimeout(c.ctx, writeTime)
		err := c.ws.Write(ctx, websocket.MessageText, raw)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}
