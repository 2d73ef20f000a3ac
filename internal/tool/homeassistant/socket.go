package homeassistant

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	loginTime  = 10 * time.Second // Home Assistant's own limit is the same
	writeTime  = 10 * time.Second // a socket that accepts no message for this long is dead
	pongTime   = 10 * time.Second
	maxPending = 256 // unanswered commands; more means that the server has stopped answering
)

// socket is one authenticated connection.
type socket struct {
	ws      *websocket.Conn
	version string
	heard   atomic.Int64 // when the last frame came, in Unix nanoseconds

	ctx    context.Context
	cancel context.CancelFunc
	dead   chan struct{} // closed when err is set

	turn chan struct{} // its token is held while taking the next id and writing, so that ids increase on the wire

	mu      sync.Mutex
	err     *parley.Error // why it is dead
	last    int
	pending map[int]chan frame
	subs    map[int]func(json.RawMessage)
}

// dial connects and logs in. The error's hint says what to do.
func (c *client) dial(ctx context.Context) (*socket, *parley.Error) {
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	ws, resp, err := websocket.Dial(ctx, c.wsURL, &websocket.DialOptions{HTTPClient: c.dialer, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil, c.notDialled(ctx, resp, err)
	}
	ws.SetReadLimit(c.o.MaxMessage)
	s := &socket{
		ws: ws, dead: make(chan struct{}), turn: make(chan struct{}, 1),
		pending: map[int]chan frame{}, subs: map[int]func(json.RawMessage){},
	}
	if e := s.login(ctx, c); e != nil {
		_ = ws.CloseNow()
		return nil, e
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.heard.Store(time.Now().UnixNano())
	return s, nil
}

func (c *client) notDialled(ctx context.Context, resp *http.Response, err error) *parley.Error {
	if resp != nil {
		switch code := resp.StatusCode; {
		case code == http.StatusUnauthorized:
			return errToken("401 Unauthorized")
		case code == http.StatusForbidden:
			return errToken("403 Forbidden").WithHint("Home Assistant may have banned this address after wrong tokens: see ip_bans.yaml there")
		case code >= 500:
			return errAway("Home Assistant at %s cannot be reached: its proxy answered with status %d", c.base, code)
		default:
			return errAway("%s does not answer as Home Assistant: status %d", c.base, code).WithHint("check the address (HOME_ASSISTANT_URL): http://host:8123, or http://supervisor/core in an add-on")
		}
	}
	if ctx.Err() != nil {
		return errAway("Home Assistant at %s does not answer: no connection within %s", c.base, loginTime)
	}
	return errAway("Home Assistant at %s cannot be reached: %s", c.base, c.clean(rootCause(err)))
}

// rootCause drops the layers that repeat address and method.
func rootCause(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return clip(err.Error(), 200)
		}
		err = next
	}
}

func (s *socket) login(ctx context.Context, c *client) *parley.Error {
	var m struct {
		Type    string `json:"type"`
		Version string `json:"ha_version"`
		Message string `json:"message"`
	}
	read := func() *parley.Error {
		kind, raw, err := s.ws.Read(ctx)
		switch {
		case err != nil:
			return errAway("Home Assistant at %s ended the connection while we logged in: %s", c.base, c.clean(rootCause(err)))
		case kind != websocket.MessageText || json.Unmarshal(raw, &m) != nil:
			return errMalformed(errors.New("no JSON in the login"))
		}
		return nil
	}
	if e := read(); e != nil {
		return e
	}
	if m.Type == "auth_required" {
		raw, _ := json.Marshal(map[string]string{"type": "auth", "access_token": c.o.Token})
		if err := s.ws.Write(ctx, websocket.MessageText, raw); err != nil {
			return errAway("Home Assistant at %s ended the connection while we logged in", c.base)
		}
		if e := read(); e != nil {
			return e
		}
	}
	switch m.Type {
	case "auth_ok":
		s.version = clip(m.Version, 40)
		return nil
	case "auth_invalid":
		return errToken(c.clean(clip(m.Message, 200)))
	}
	return errMalformed(errors.New("the login went on with a message of type " + clip(m.Type, 40)))
}

// fail ends the connection. Only the first reason counts.
func (s *socket) fail(e *parley.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.err = e
	close(s.dead)
	s.cancel()
}

func (s *socket) why() *parley.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// read delivers frames to their waiting callers until the connection ends. This goroutine
// handles events itself, in order. So a slow handler holds up the socket and finally Home
// Assistant, which then disconnects us.
func (s *socket) read(limit int64, base string) {
	for {
		kind, raw, err := s.ws.Read(s.ctx)
		if err != nil {
			e := errAway("the connection to Home Assistant at %s was lost: %s", base, rootCause(err))
			if websocket.CloseStatus(err) == websocket.StatusMessageTooBig || errors.Is(err, websocket.ErrMessageTooBig) {
				e = parley.Errorf(parley.CodeTooLarge, "Home Assistant sent a message of more than %d bytes", limit).
					WithHint("ask for a shorter time or fewer entities, or raise the limit on message size")
			}
			s.fail(e)
			return
		}
		s.heard.Store(time.Now().UnixNano())
		if kind != websocket.MessageText {
			s.fail(errMalformed(errors.New("a binary message")))
			return
		}
		frames, err := decode(raw)
		if err != nil {
			s.fail(errMalformed(err))
			return
		}
		for _, f := range frames {
			s.deliver(f)
		}
	}
}

func (s *socket) deliver(f frame) {
	s.mu.Lock()
	sub, wait := s.subs[f.ID], s.pending[f.ID]
	if f.Type != "event" {
		delete(s.pending, f.ID)
	}
	s.mu.Unlock()
	switch {
	case f.Type == "event" && sub != nil:
		sub(f.Event)
	case f.Type != "event" && wait != nil:
		wait <- f // never blocks: it has room for the one answer
	}
}

// beat sends a ping when nothing was received for a while.
func (s *socket) beat(every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-s.dead:
			return
		case <-t.C:
		}
		if time.Since(time.Unix(0, s.heard.Load())) < every/2 {
			continue
		}
		ctx, cancel := context.WithTimeout(s.ctx, pongTime)
		_, err := s.call(ctx, "ping", nil, nil)
		cancel()
		if err != nil && !isRefused(err) {
			s.fail(errAway("Home Assistant did not answer a ping within %s", pongTime))
			return
		}
	}
}

// call sends a command and waits for its result. on, if not nil, gets the events of a
// subscription, from before the result until the connection ends.
//
// An error that is seam.NotSent never left; a refused one was answered; a lost one may have
// arrived. If ctx ends after the command was sent, it may have arrived too.
func (s *socket) call(ctx context.Context, kind string, args map[string]any, on func(json.RawMessage)) (json.RawMessage, error) {
	began := time.Now()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, seam.NotSent(waited(ctx, kind, time.Since(began)))
	case <-s.dead:
		return nil, seam.NotSent(s.why())
	}
	id, answer, err := s.send(kind, args, on)
	<-s.turn
	if err != nil {
		return nil, err
	}
	var f frame
	select {
	case f = <-answer:
	case <-ctx.Done():
		s.forget(id)
		return nil, waited(ctx, kind, time.Since(began))
	case <-s.dead:
		select { // it may have arrived just before
		case f = <-answer:
		default:
			return nil, &lost{s.why()}
		}
	}
	if f.Type == "result" && !f.Success {
		s.forget(id)
		return nil, refusal(f.Error.Code, f.Error.Message)
	}
	return f.Result, nil
}

// send takes the next id and writes the command. It holds the turn.
func (s *socket) send(kind string, args map[string]any, on func(json.RawMessage)) (int, chan frame, error) {
	s.mu.Lock()
	if s.err != nil {
		defer s.mu.Unlock()
		return 0, nil, seam.NotSent(s.err)
	}
	if len(s.pending) >= maxPending {
		s.mu.Unlock()
		return 0, nil, seam.NotSent(errAway("Home Assistant has left %d commands unanswered", maxPending))
	}
	s.last++
	id, answer := s.last, make(chan frame, 1)
	s.pending[id] = answer
	if on != nil {
		s.subs[id] = on
	}
	s.mu.Unlock()

	m := make(map[string]any, len(args)+2)
	for k, v := range args {
		m[k] = v
	}
	m["id"], m["type"] = id, kind
	raw, err := json.Marshal(m)
	if err != nil {
		s.forget(id)
		return 0, nil, seam.NotSent(parley.Errorf(parley.CodeInvalid, "%s: %w", kind, err))
	}
	// Not the caller's context: if it ended in the middle of a write, the connection would be
	// closed for everyone.
	ctx, cancel := context.WithTimeout(s.ctx, writeTime)
	defer cancel()
	if err := s.ws.Write(ctx, websocket.MessageText, raw); err != nil {
		s.fail(errAway("the connection to Home Assistant was lost while writing: %s", rootCause(err)))
		return 0, nil, &lost{s.why()}
	}
	return id, answer, nil
}

func (s *socket) forget(id int) {
	s.mu.Lock()
	delete(s.pending, id)
	delete(s.subs, id)
	s.mu.Unlock()
}
