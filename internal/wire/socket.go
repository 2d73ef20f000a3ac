package wire

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
)

// Socket are the options that a WebSocket has beyond those of every stream.
type Socket struct {
	// Input handles one message of the client, and returns the JSON object to send back; nil: none.
	// It is called for one message at a time, in order, and ctx ends with the connection. If it
	// panics, the connection ends with 1011, and [ServeSocket] panics in its caller's goroutine, where
	// the guard is. A nil Input: the client may say nothing.
	Input func(ctx context.Context, message []byte) []byte
	// MaxInput is the most bytes that a message may have; 0 means [MaxInput].
	MaxInput int64
	// InputRate is how many messages, pings and pongs a client may send per second on average,
	// and InputBurst how many at once. 0 means [InputRate] and [InputBurst].
	InputRate, InputBurst int
}

// Defaults of a [Socket].
const (
	MaxInput   = 1 << 20
	InputRate  = 10
	InputBurst = 50
)

// inputWithin is how long a message may take from its first byte to its last.
const inputWithin = 30 * time.Second

// The status with which a connection is closed (RFC 6455, 7.4.1).
const (
	closedDone    = websocket.StatusNormalClosure   // 1000: everything was sent
	closedAway    = websocket.StatusGoingAway       // 1001: connect again, with the cursor
	closedBinary  = websocket.StatusUnsupportedData // 1003: input is text
	closedNotUTF8 = websocket.StatusInvalidFramePayloadData
	closedRefused = websocket.StatusPolicyViolation // 1008: connecting again will not help
	closedBroken  = websocket.StatusInternalError   // 1011
	// 1009, a message that is too big, is sent by the library.
)

// ServeSocket upgrades r to a WebSocket, sends what e makes of frames as text messages, one JSON
// object each, and takes input. follow makes the frames; its context ends with the connection.
//
// What may be refused is refused before: the door has identified the caller and checked the cursor,
// and the guard has checked the Origin of an upgrade as it does for a POST. An error of ServeSocket
// is about the handshake. The connection is then as it was.
//
// The client is asked for a sign of life when the stream was silent for the heartbeat, and cut when
// it gives none, or does not read, for [Options.WriteWithin]. A connection that the server ends has
// a status: 1000 when everything was sent, 1001 when it is worth connecting again with the cursor,
// 1003, 1007, 1008 and 1009 for input that is not text, not UTF-8, too frequent or too slow, and too
// big, 1008 also when the caller may not go on, and 1011 for a fault of the server. An error message
// with the reason comes before it, unless the input was at fault.
func ServeSocket(w http.ResponseWriter, r *http.Request, follow func(ctx context.Context) Frames, e Encoder, in Socket, o Options) error {
	if err := handshake(w, r); err != nil {
		return err
	}
	a := answerOf(r.Context())
	if a == nil {
		a = newAnswer(r.Context(), w, parley.Local, cmp.Or(o.held, held))
	}
	c := &connection{in: in, limit: rate.NewLimiter(rate.Limit(cmp.Or(in.InputRate, InputRate)), cmp.Or(in.InputBurst, InputBurst))}
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	c.end = end
	m := &metered{ResponseWriter: w, over: func() { end(tooMuch) }}
	conn, err := websocket.Accept(m, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // the guard has looked at it, and knows of proxies
		OnPingReceived:     c.pinged,
		OnPongReceived:     c.ponged,
	})
	if err != nil {
		return parley.Errorf(parley.CodeInternal, "open the WebSocket: %w", err)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(cmp.Or(in.MaxInput, MaxInput))
	// The library closes a connection at once when the context of a call ends, without a status.
	c.conn, c.io, c.meter = conn, context.WithoutCancel(ctx), m.conn
	a.socket = &socket{conn: conn, ctx: c.io}
	failed := &failure{Encoder: e}
	c.stream = newStreamOf(a, a, socketCarrier, failed, &o)
	c.head, c.beat, c.wrote = true, 0, time.Now() // the head is that of the handshake
	defer c.stream.end()

	var beside sync.WaitGroup
	var panicked error
	beside.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				panicked = fmt.Errorf("%v, in the input of a WebSocket:\n%s", v, debug.Stack())
				end(fault)
			}
		}()
		end(c.input(ctx))
	})
	if every := orElse(o.Heartbeat, heartbeat); every > 0 {
		beside.Go(func() { c.alive(ctx, every) })
	}
	_ = c.carry(ctx, follow(ctx)) // its error is for a head that was not sent
	cause := context.Cause(ctx)
	c.stream.end() // no reply comes after the status
	if over := ends(cause, failed.err); over != nil {
		_ = conn.Close(over.status, parley.Cut(over.why, 120))
	} else {
		_ = conn.CloseNow()
	}
	end(nil)
	beside.Wait()
	if panicked != nil {
		panic(panicked)
	}
	return nil
}

// connection is one WebSocket.
type connection struct {
	*stream
	conn  *websocket.Conn
	io    context.Context // of the library's calls, as the connection is: it never ends
	in    Socket
	limit *rate.Limiter
	meter *meter
	end   func(cause error) // ends the connection

	handling bool      // the client's message is handled, and nothing more is read; guarded by mu
	handled  time.Time // when the last one was; guarded by mu
}

// socketCarrier is the form of messages on a socket, which splits them at the line breaks.
var socketCarrier = &Carrier{form: appendLine}

// closed ends a connection.
type closed struct {
	status websocket.StatusCode
	why    string
}

func (c *closed) Error() string { return c.why }

var (
	tooMuch = &closed{closedRefused, "there are too many messages"}
	fault   = &closed{closedBroken, "something went wrong in the server"}
)

// ends is how a connection ends: cause is why its context has, failed the error with which the stream
// ended. It is nil when there is nobody to tell.
func ends(cause, failed error) *closed {
	over := &closed{closedDone, ""}
	switch {
	case errors.As(cause, &over): // the input was at fault
		return over
	case errors.Is(cause, websocket.ErrMessageTooBig): // which the library has said, too
		return &closed{websocket.StatusMessageTooBig, ""}
	case parley.CodeOf(cause) == parley.CodeUnauthenticated: // the key was revoked
		return &closed{closedRefused, cause.Error()}
	case cause != nil:
		return nil
	case failed == nil:
		return over
	}
	switch parley.CodeOf(failed) {
	case parley.CodeUnavailable, parley.CodeTimeout, parley.CodeRateLimited:
		return &closed{closedAway, failed.Error()}
	case parley.CodeInternal:
		return fault
	}
	return &closed{closedRefused, failed.Error()}
}

// failure keeps the error with which a stream ended.
type failure struct {
	Encoder
	err error
}

func (f *failure) Failed(err error, send func(Message)) {
	if _, one := err.(*eventlog.SessionError); !one { // the others go on
		f.err = err
	}
	f.Encoder.Failed(err, send)
}

// input handles the client's messages until the connection ends, and returns why.
func (c *connection) input(ctx context.Context) error {
	for {
		kind, r, err := c.conn.Reader(c.io)
		if err != nil {
			return err
		}
		if kind != websocket.MessageText {
			return &closed{closedBinary, "messages are text"}
		}
		if !c.limit.Allow() {
			return tooMuch
		}
		late := time.AfterFunc(inputWithin, func() { c.end(&closed{closedRefused, "the message stopped, or came too slowly"}) })
		message, err := c.read(r)
		late.Stop()
		switch {
		case err != nil:
			return err
		case c.in.Input == nil:
			return &closed{closedRefused, "nothing may be said here"}
		case !utf8.Valid(message):
			return &closed{closedNotUTF8, "the message is not UTF-8"}
		}
		if reply := c.handle(ctx, message); reply != nil {
			if err := c.reply(reply); err != nil {
				return err
			}
		}
	}
}

func (c *connection) handle(ctx context.Context, message []byte) (reply []byte) {
	note := func(handling bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.handling, c.handled = handling, time.Now()
	}
	note(true)
	defer note(false)
	return c.in.Input(ctx, message)
}

// heard reports whether a message of the client was handled since a time. That may take long, and
// what the client answers to a ping is read only afterwards.
func (c *connection) heard(since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handling || c.handled.After(since)
}

// read reads a message, in pieces small enough for the meter.
func (c *connection) read(r io.Reader) (message []byte, err error) {
	piece := make([]byte, 16<<10)
	for {
		n, err := r.Read(piece)
		c.meter.text(n)
		message = append(message, piece[:n]...)
		if err == io.EOF {
			return message, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// ponged is called when a pong comes, solicited or not.
func (c *connection) ponged(context.Context, []byte) {
	if !c.limit.Allow() {
		c.end(tooMuch)
	}
}

// pinged is called before a ping of the client is answered.
func (c *connection) pinged(context.Context, []byte) bool {
	if !c.limit.Allow() {
		c.end(tooMuch)
		return false
	}
	c.extend()
	return true
}

// reply sends a message of its own, between those of the stream.
func (s *stream) reply(object []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := append(bytes.Clone(object), '\n')
	oneLine(b[:len(object)])
	s.write(b)
	return s.err
}

// extend gives what is written next, beside the stream, its time.
func (s *stream) extend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.deadline = time.Now().Add(s.o.WriteWithin)
		_ = s.rc.SetWriteDeadline(s.deadline)
	}
}

// alive asks the client for a sign of life when the stream was silent.
func (c *connection) alive(ctx context.Context, every time.Duration) {
	tick := time.NewTimer(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.mu.Lock()
		silent := time.Since(c.wrote)
		c.mu.Unlock()
		if silent < every {
			tick.Reset(every - silent)
			continue
		}
		c.extend()
		began := time.Now()
		within, done := context.WithTimeout(ctx, c.o.WriteWithin)
		err := c.conn.Ping(within)
		done()
		if err != nil && !c.heard(began) {
			c.end(err)
			return
		}
		tick.Reset(every)
	}
}

// socket is where the messages of a stream go.
type socket struct {
	conn *websocket.Conn
	ctx  context.Context // of the connection, as the socket is
	part io.WriteCloser  // a message whose end has not been written
}

// Write sends each line as a message. A line may come in several pieces.
func (s *socket) Write(p []byte) (n int, err error) {
	for n < len(p) {
		rest := p[n:]
		end := bytes.IndexByte(rest, '\n')
		switch {
		case s.part == nil && end >= 0:
			err = s.conn.Write(s.ctx, websocket.MessageText, rest[:end])
			n += end + 1
		case s.part == nil:
			s.part, err = s.conn.Writer(s.ctx, websocket.MessageText)
		case end < 0:
			_, err = s.part.Write(rest)
			n = len(p)
		default:
			if _, err = s.part.Write(rest[:end]); err == nil {
				err = s.part.Close()
			}
			s.part = nil
			n += end + 1
		}
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// handshake returns an error for a request that is not a WebSocket's (RFC 6455, 4.2.1).
func handshake(w http.ResponseWriter, r *http.Request) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(r.Header.Get("Sec-WebSocket-Key")))
	switch {
	case r.Method != http.MethodGet || !r.ProtoAtLeast(1, 1) || !Upgrades(r) || !names(r.Header, "Connection", "upgrade"):
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		return notUpgraded{parley.Errorf(parley.CodeInvalid, "this path is for WebSockets").
			WithHint("connect with a WebSocket client, to ws:// or wss://")}
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		w.Header().Set("Sec-WebSocket-Version", "13")
		return parley.Errorf(parley.CodeInvalid, "this version of the WebSocket protocol is not known").WithHint("use version 13")
	case err != nil || len(key) != 16 || len(r.Header.Values("Sec-WebSocket-Key")) != 1:
		return parley.Errorf(parley.CodeInvalid, "Sec-WebSocket-Key is not one key of 16 bytes in base64").WithHint("use a WebSocket client")
	}
	return nil
}

// Upgrades reports whether a request asks for a WebSocket, which is no safe GET: what the client
// says over it may change things.
func Upgrades(r *http.Request) bool { return names(r.Header, "Upgrade", "websocket") }

// names reports whether a header's list has a token.
func names(h http.Header, header, token string) bool {
	return slices.ContainsFunc(h.Values(header), func(list string) bool {
		return slices.ContainsFunc(strings.Split(list, ","), func(item string) bool { return strings.EqualFold(strings.TrimSpace(item), token) })
	})
}

// notUpgraded refuses a plain request.
type notUpgraded struct{ error }

func (e notUpgraded) Unwrap() error { return e.error }

// HTTPStatus returns the status for a door that writes the error as an answer.
func (notUpgraded) HTTPStatus() int { return http.StatusUpgradeRequired }
