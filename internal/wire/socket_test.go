package wire_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/wire"
)

// room serves a house's log over WebSockets. It sends back whatever a client sends.
type room struct {
	*house
	url   string
	ended chan error // what each ServeSocket returned
}

func newRoom(t *testing.T, in wire.Socket, o wire.Options) *room {
	t.Helper()
	r := &room{house: newHouse(t, wire.Options{}), ended: make(chan error, 100)}
	if in.Input == nil {
		in.Input = func(_ context.Context, message []byte) []byte {
			return fmt.Appendf(nil, `{"type":"reply","said":%q}`, message)
		}
	}
	srv := httptest.NewServer(r.handler(in, o))
	r.url = srv.URL
	t.Cleanup(func() { r.r.Hangup(); srv.Close() })
	return r
}

func (r *room) handler(in wire.Socket, o wire.Options) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		after, err := wire.Cursor(q)
		if err == nil {
			err = wire.ServeSocket(w, q, func(ctx context.Context) wire.Frames {
				return r.r.Follow(ctx, parley.Local, "s1", after)
			}, wire.Native(), in, o)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusTeapot)
		}
		r.ended <- err
	})
}

func (r *room) dial(after string) *websocket.Conn {
	r.t.Helper()
	c, _, err := websocket.Dial(r.t.Context(), r.url+"?after="+after, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	c.SetReadLimit(-1)
	r.t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

// until reads messages up to the first that holds text.
func until(t *testing.T, c *websocket.Conn, text string) (all []string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for {
		_, b, err := c.Read(ctx)
		if err != nil {
			t.Fatalf("%v after %q", err, all)
		}
		if all = append(all, string(b)); strings.Contains(string(b), text) {
			return all
		}
	}
}

// status reads to the end of a connection, and returns its status and the last message.
func status(t *testing.T, c *websocket.Conn) (code websocket.StatusCode, last string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for {
		_, b, err := c.Read(ctx)
		if err != nil {
			return websocket.CloseStatus(err), last
		}
		last = string(b)
	}
}

// TestSocket_to_the_letter: each message is one object, as a line of NDJSON is.
func TestSocket_to_the_letter(t *testing.T) {
	t.Parallel()
	r := newRoom(t, wire.Socket{}, wire.Options{})
	c := r.dial("0")
	r.append(started("c1"))
	until(t, c, "model.started")
	r.say("c1", "Hel")
	got := until(t, c, "Hel")
	got[0] = strings.Replace(got[0], "model.partial", "model.delta", 1) // when it came before the stream was live
	want := []string{`{"type":"model.delta","session":"s1","turn":"t1","agent":"lead","call":"c1","n":1,"text":"Hel"}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.append(replied("c1", "Hello"))
	var e parley.Event
	if got := until(t, c, "Hello"); json.Unmarshal([]byte(got[0]), &e) != nil || e.Seq != 3 || e.Type != "model.replied" {
		t.Errorf("got %q", got)
	}
}

// TestSocket_cut_after_every_message_and_resumed_equals_uncut: a client that is cut after every
// message sees the same as one that is not, as with the other native streams.
func TestSocket_cut_after_every_message_and_resumed_equals_uncut(t *testing.T) {
	t.Parallel()
	r := newRoom(t, wire.Socket{}, wire.Options{})
	take := func(s *session, n int) (end bool) {
		last := s.last
		if last == "" {
			last = "0"
		}
		c := r.dial(last)
		defer c.CloseNow()
		for {
			m := until(t, c, "")[0]
			var e struct {
				Type, Text string
				Seq        int64
				Call       parley.CallID
			}
			if err := json.Unmarshal([]byte(m), &e); err != nil {
				t.Error(err)
				return true
			}
			switch e.Type {
			case "reset":
			case "model.partial":
				s.text[e.Call] = e.Text
			case "model.delta":
				s.text[e.Call] += e.Text
			default:
				s.last, s.events = fmt.Sprint(e.Seq), append(s.events, m)
				if strings.Contains(m, `"end"`) {
					return true
				}
				if n--; n == 0 {
					return false
				}
			}
		}
	}
	whole, cut := &session{text: map[parley.CallID]string{}}, &session{text: map[parley.CallID]string{}}
	var wg sync.WaitGroup
	wg.Go(func() { take(whole, 0) })
	wg.Go(func() {
		for !take(cut, 1) {
		}
	})
	for i := range 30 {
		call := parley.CallID(fmt.Sprint("c", i))
		r.append(started(call))
		r.say(string(call), "one ")
		r.say(string(call), "two")
		r.append(replied(call, "one two"), steered("next"))
	}
	r.append(steered("end"))
	wg.Wait()
	if diff := cmp.Diff(whole.events, cut.events); diff != "" || len(whole.events) != 92 {
		t.Errorf("%d events (-uncut +cut):\n%s", len(whole.events), diff)
	}
	for call, text := range cut.text {
		if !strings.HasPrefix("one two", text) {
			t.Errorf("call %s was put together as %q", call, text)
		}
	}
}

// TestSocket_large_events_are_one_message: an event is one message, even if it is written in
// several pieces.
func TestSocket_large_events_are_one_message(t *testing.T) {
	t.Parallel()
	r := newRoom(t, wire.Socket{}, wire.Options{})
	for _, size := range []int{10, 4 << 10, 64<<10 - 1, 64 << 10, 200 << 10, 700 << 10} {
		r.append(steered(strings.Repeat("x", size)+"."), steered(fmt.Sprint("after ", size)))
	}
	all := until(t, r.dial("0"), "after 716800")
	for i, m := range all {
		if !json.Valid([]byte(m)) || len(all) != 13 {
			t.Errorf("message %d of %d has %d bytes and is not whole", i, len(all), len(m))
		}
	}
}

// TestSocket_input: what the client says is handled in order, and answered between the frames.
func TestSocket_input(t *testing.T) {
	t.Parallel()
	r := newRoom(t, wire.Socket{}, wire.Options{})
	c := r.dial("0")
	for i := range 20 {
		if err := c.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, "hello %d", i)); err != nil {
			t.Fatal(err)
		}
		r.append(steered("between"))
	}
	var got []string
	for _, m := range until(t, c, "hello 19") {
		if strings.Contains(m, "reply") {
			got = append(got, m)
		}
	}
	if len(got) != 20 || got[7] != `{"type":"reply","said":"hello 7"}` {
		t.Errorf("%d replies: %q", len(got), got)
	}
}

// TestSocket_input_has_limits: each kind of wrong input ends the connection with its status.
func TestSocket_input_has_limits(t *testing.T) {
	t.Parallel()
	text := func(s string) func(ctx context.Context, c *websocket.Conn) {
		return func(ctx context.Context, c *websocket.Conn) { _ = c.Write(ctx, websocket.MessageText, []byte(s)) }
	}
	for name, c := range map[string]struct {
		say  func(ctx context.Context, c *websocket.Conn)
		want websocket.StatusCode
	}{
		"as large as may be": {func(ctx context.Context, c *websocket.Conn) {
			text(strings.Repeat("x", 100))(ctx, c)
			_ = c.Write(ctx, websocket.MessageBinary, []byte("x"))
		}, websocket.StatusUnsupportedData},
		"too large": {text(strings.Repeat("x", 101)), websocket.StatusMessageTooBig},
		"too large, in pieces": {func(ctx context.Context, c *websocket.Conn) {
			w, err := c.Writer(ctx, websocket.MessageText)
			for range 30 {
				if err == nil {
					_, err = w.Write([]byte("xxxxx"))
				}
			}
			_ = w.Close()
		}, websocket.StatusMessageTooBig},
		"binary":    {func(ctx context.Context, c *websocket.Conn) { _ = c.Write(ctx, websocket.MessageBinary, []byte("x")) }, websocket.StatusUnsupportedData},
		"not UTF-8": {text("\xff"), websocket.StatusInvalidFramePayloadData},
		"too many": {func(ctx context.Context, c *websocket.Conn) {
			for range 10 {
				text("x")(ctx, c)
			}
		}, websocket.StatusPolicyViolation},
		"too many pings": {func(ctx context.Context, c *websocket.Conn) {
			go func() { // whose answers are read below
				for c.Ping(ctx) == nil {
				}
			}()
		}, websocket.StatusPolicyViolation},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t, wire.Socket{MaxInput: 100, InputRate: 1, InputBurst: 5}, wire.Options{})
			conn := r.dial("0")
			c.say(t.Context(), conn)
			if got, _ := status(t, conn); got != c.want {
				t.Errorf("closed with %d, want %d", got, c.want)
			}
			if err := <-r.ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSocket_frames_that_carry_nothing: empty frames cost processor time as others do, so too many
// of them end the connection. A large message in large pieces does not end it.
func TestSocket_frames_that_carry_nothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begin, again string // frames; the second is sent again and again
		times        int
		want         uint16
	}{
		"pongs":              {"", "\x8a\x80\x00\x00\x00\x00", 1000, 1008},
		"empty pieces":       {"\x01\x80\x00\x00\x00\x00", "\x00\x80\x00\x00\x00\x00", 1 << 20, 1008},
		"pieces of a byte":   {"\x01\x80\x00\x00\x00\x00", "\x00\x81\x00\x00\x00\x00x", 1 << 20, 1008},
		"large, then binary": {"", "\x01\xfe\x80\x00\x00\x00\x00\x00" + strings.Repeat("x", 32<<10) + strings.Repeat("\x00\xfe\x80\x00\x00\x00\x00\x00"+strings.Repeat("x", 32<<10), 30) + "\x80\x80\x00\x00\x00\x00" + "\x82\x80\x00\x00\x00\x00", 1, 1003},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, ended := newPipe(t, wire.Socket{Input: func(context.Context, []byte) []byte { return nil }}, wire.Options{Heartbeat: -1})
				go func() {
					_, err := io.WriteString(p, c.begin)
					for b := strings.Repeat(c.again, min(c.times, 100)); err == nil && c.times > 0; c.times -= 100 {
						_, err = io.WriteString(p, b)
					}
				}()
				op, data, err := p.frame()
				if err != nil || op != 0x88 || binary.BigEndian.Uint16([]byte(data)) != c.want {
					t.Errorf("got %x %q, %v; want status %d", op, data, err, c.want)
				}
				_ = p.Close()
				<-ended
			})
		})
	}
}

// TestSocket_says_why_it_ends: a client learns from the status whether connecting again makes
// sense, and from the message before it why.
func TestSocket_says_why_it_ends(t *testing.T) {
	t.Parallel()
	revoked := parley.Errorf(parley.CodeUnauthenticated, "the key was revoked")
	for name, c := range map[string]struct {
		end    func(r *room, cancel context.CancelCauseFunc)
		status websocket.StatusCode
		says   string
	}{
		"the turn is over":   {func(r *room, _ context.CancelCauseFunc) { r.append(completed()) }, websocket.StatusNormalClosure, "turn.completed"},
		"the server stops":   {func(r *room, _ context.CancelCauseFunc) { r.r.Hangup() }, websocket.StatusGoingAway, `{"type":"error","error":{"code":"unavailable"`},
		"the key is revoked": {func(_ *room, cancel context.CancelCauseFunc) { cancel(revoked) }, websocket.StatusPolicyViolation, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t, wire.Socket{}, wire.Options{})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			h := r.handler(wire.Socket{}, wire.Options{Until: wire.EndOf(turn, 0)})
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				both, stop := context.WithCancelCause(q.Context())
				defer stop(nil)
				defer context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })()
				h.ServeHTTP(w, q.WithContext(both))
			}))
			defer srv.Close()
			r.url = srv.URL
			conn := r.dial("0")
			until(t, conn, "session.created")
			c.end(r, cancel)
			if got, last := status(t, conn); got != c.status || !strings.Contains(last, c.says) {
				t.Errorf("closed with %d after %q, want %d after %q", got, last, c.status, c.says)
			}
		})
	}
}

// TestSocket_a_client_that_goes_ends_it: when the client leaves, the connection ends at once, not
// with the next frame.
func TestSocket_a_client_that_goes_ends_it(t *testing.T) {
	t.Parallel()
	r := newRoom(t, wire.Socket{}, wire.Options{Heartbeat: -1})
	for name, leave := range map[string]func(c *websocket.Conn) error{
		"with a status": func(c *websocket.Conn) error { return c.Close(websocket.StatusNormalClosure, "") },
		"without":       (*websocket.Conn).CloseNow,
	} {
		c := r.dial("0")
		until(t, c, "session.created")
		_ = leave(c)
		if err := <-r.ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSocket_client_that_does_not_read_is_cut: a client that does not read is cut within
// WriteWithin. It resumes where it was, even if it is slow again.
func TestSocket_client_that_does_not_read_is_cut(t *testing.T) {
	t.Parallel()
	r := newRoom(t, wire.Socket{}, wire.Options{WriteWithin: 50 * time.Millisecond, Heartbeat: -1})
	c := r.dial("0")
	got := until(t, c, "session.created")
	events := func(list ...string) {
		for _, m := range list {
			if !strings.Contains(m, `"type":"reset"`) {
				got = append(got, m)
			}
		}
	}
	for i := range 100 { // more than the buffers of a connection hold
		r.append(steered(fmt.Sprint(i, strings.Repeat("x", 200<<10))))
	}
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	rest := func(c *websocket.Conn) {
		for len(got) < 101 {
			_, b, err := c.Read(t.Context())
			if err != nil {
				return
			}
			events(string(b))
		}
	}
	if rest(c); len(got) == 101 {
		t.Fatal("it was not cut")
	}
	for len(got) < 101 && t.Context().Err() == nil {
		rest(r.dial(fmt.Sprint(len(got))))
	}
	for i, m := range got {
		if !strings.Contains(m, fmt.Sprintf(`"seq":%d,`, i+1)) {
			t.Fatalf("message %d is %.80s", i, m)
		}
	}
}

// TestSocket_handshake: a request that is not a handshake is refused like any request, before the
// connection is upgraded.
func TestSocket_handshake(t *testing.T) {
	t.Parallel()
	r := newRoom(t, wire.Socket{}, wire.Options{})
	const key = "dGhlIHNhbXBsZSBub25jZQ=="
	for _, c := range []struct {
		name   string
		header []string
		status int // of the error
		says   string
	}{
		{"a plain request", nil, http.StatusUpgradeRequired, "for WebSockets"},
		{"another protocol", []string{"Connection", "Upgrade", "Upgrade", "h2c"}, http.StatusUpgradeRequired, "for WebSockets"},
		{"without Connection", []string{"Upgrade", "websocket"}, http.StatusUpgradeRequired, "for WebSockets"},
		{"without a version", []string{"Connection", "keep-alive, upgrade", "Upgrade", "WebSocket", "Sec-WebSocket-Key", key}, 0, "version"},
		{"without a key", []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13"}, 0, "16 bytes"},
		{"a short key", []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "YQ=="}, 0, "16 bytes"},
	} {
		q := httptest.NewRequest(http.MethodGet, "/", nil)
		for i := 0; i < len(c.header); i += 2 {
			q.Header.Add(c.header[i], c.header[i+1])
		}
		err := wire.ServeSocket(httptest.NewRecorder(), q, nil, wire.Native(), wire.Socket{}, wire.Options{})
		said, status := error(nil), 0
		if e, ok := errors.AsType[*parley.Error](err); ok && e.Hint != "" {
			said = e
		}
		if e, ok := err.(interface{ HTTPStatus() int }); ok {
			status = e.HTTPStatus()
		}
		if said == nil || !strings.Contains(said.Error(), c.says) || status != c.status {
			t.Errorf("%s: got %v, %d", c.name, err, status)
		}
	}
	resp, err := http.Get(r.url) // and over the network
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusTeapot || resp.Header.Get("Upgrade") != "websocket" {
		t.Errorf("got %s %v", resp.Status, resp.Header)
	}
}

// The tests below need a client that writes single frames, in fake time.

// pipe is a connection to a handler, after the handshake.
type pipe struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func newPipe(t *testing.T, in wire.Socket, o wire.Options) (p *pipe, ended <-chan struct{}) {
	t.Helper()
	ours, theirs := net.Pipe()
	q := httptest.NewRequest(http.MethodGet, "/", nil)
	for k, v := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
		q.Header.Set(k, v)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := wire.ServeSocket(&hijacked{httptest.NewRecorder(), theirs}, q, idle, wire.Native(), in, o); err != nil {
			t.Error(err)
		}
	}()
	return &pipe{ours, t, bufio.NewReader(ours)}, done
}

type hijacked struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

func (h *hijacked) SetWriteDeadline(at time.Time) error { return h.conn.SetWriteDeadline(at) }

// frame reads a frame from the server, which is short here and not masked.
func (p *pipe) frame() (op byte, data string, err error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(p.r, head); err != nil {
		return 0, "", err
	}
	body := make([]byte, head[1])
	_, err = io.ReadFull(p.r, body)
	return head[0], string(body), err
}

// say writes a frame as a client does, with a mask of zeros.
func (p *pipe) say(op byte, data string) {
	p.t.Helper()
	if _, err := p.Write(append([]byte{op, 0x80 | byte(len(data)), 0, 0, 0, 0}, data...)); err != nil {
		p.t.Error(err)
	}
}

func idle(ctx context.Context) wire.Frames {
	return func(func(eventlog.Frame, error) bool) { <-ctx.Done() }
}

// TestSocket_heartbeat: a silent client is asked for a sign of life. One that answers stays, also
// after hours, and one that does not is cut.
func TestSocket_heartbeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, ended := newPipe(t, wire.Socket{}, wire.Options{})
		began := time.Now()
		for i := range 1000 {
			op, data, err := p.frame()
			if err != nil || op != 0x89 {
				t.Fatalf("frame %d is %x %q, %v", i, op, data, err)
			}
			if at, want := time.Since(began), time.Duration(i+1)*15*time.Second; at != want {
				t.Fatalf("ping %d came after %s, want %s", i, at, want)
			}
			p.say(0x8a, data)
		}
		if op, _, err := p.frame(); err != nil || op != 0x89 {
			t.Fatalf("%x, %v", op, err)
		}
		last := time.Now() // from now on the client sends nothing
		go func() {
			for { // but it still reads
				if _, _, err := p.frame(); err != nil {
					return
				}
			}
		}()
		<-ended
		if took := time.Since(last); took != 30*time.Second {
			t.Errorf("it was cut after %s", took)
		}
		_ = p.Close()
	})
}

// TestSocket_command_that_takes_long: a client that gives all signs of life it is asked for stays,
// also when its command waits for somebody else for longer than a sign may take. Nothing of it is
// read meanwhile. When it has its reply, it is asked again.
func TestSocket_command_that_takes_long(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const takes = 2 * time.Minute
		p, ended := newPipe(t, wire.Socket{Input: func(context.Context, []byte) []byte {
			time.Sleep(takes)
			return []byte(`{"type":"reply"}`)
		}}, wire.Options{})
		type frame struct {
			op   byte
			data string
		}
		says := make(chan frame, 100) // which are read when the command is done
		go func() {
			for f := range says {
				p.say(f.op, f.data)
			}
		}()
		for begin, told := time.Now(), false; ; {
			op, data, err := p.frame()
			switch at := time.Since(begin); {
			case err != nil:
				t.Fatalf("after %s: %v", at, err)
			case op == 0x89 && !told: // the command comes in place of the first sign of life
				told = true
				p.say(0x81, "a command")
				begin = time.Now()
				says <- frame{0x8a, data}
			case op == 0x89 && at > takes:
				says <- frame{0x88, "\x03\xe8"}
				close(says)
				_, _ = io.Copy(io.Discard, p.r)
				<-ended
				_ = p.Close()
				return
			case op == 0x89:
				says <- frame{0x8a, data}
			case op != 0x81 || !strings.Contains(data, "reply") || at != takes:
				t.Fatalf("after %s: %x %q", at, op, data)
			}
		}
	})
}

// TestSocket_message_that_does_not_end: a client can not hold a message open.
func TestSocket_message_that_does_not_end(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, ended := newPipe(t, wire.Socket{Input: func(context.Context, []byte) []byte { return nil }}, wire.Options{Heartbeat: -1})
		p.say(0x01, "its begin") // more is to come
		began := time.Now()
		op, data, err := p.frame()
		if err != nil || op != 0x88 || binary.BigEndian.Uint16([]byte(data)) != 1008 || !bytes.Contains([]byte(data), []byte("too slowly")) {
			t.Errorf("got %x %q, %v", op, data, err)
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("after %s", took)
		}
		p.say(0x88, data[:2])
		_, _ = io.Copy(io.Discard, p.r)
		<-ended
		_ = p.Close()
	})
}

// TestSocket_a_panic_in_input_is_the_handlers: a panic in Input reaches the handler's own guard
// against panics. The client's connection ends as for every other fault of the server.
func TestSocket_a_panic_in_input_is_the_handlers(t *testing.T) {
	t.Parallel()
	r := &room{house: newHouse(t, wire.Options{}), ended: make(chan error, 1)}
	in := wire.Socket{Input: func(context.Context, []byte) []byte { panic("boom") }}
	met := make(chan any, 1)
	next := r.handler(in, wire.Options{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		defer func() { met <- recover() }()
		next.ServeHTTP(w, q)
	}))
	r.url = srv.URL
	t.Cleanup(func() { r.r.Hangup(); srv.Close() })
	c := r.dial("0")
	if err := c.Write(t.Context(), websocket.MessageText, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if code, _ := status(t, c); code != websocket.StatusInternalError {
		t.Errorf("closed with %d", code)
	}
	if v := <-met; v == nil {
		t.Error("the handler's guard met no panic")
	}
}
