package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// follower is a client that follows a session over one connection.
type follower func(ctx context.Context, url, session string, begun func(), heard *heard) error

// sockets measures 2,000 WebSockets: what each costs in memory when nothing happens and while text
// streams, and how long a token takes to all of them. The floor is as many streams of Server-Sent
// Events on the same server, in turns.
func sockets(ctx context.Context, b *bench) (err error) {
	up, err := spawn(ctx, "upstream")
	if err != nil {
		return err
	}
	defer func() { err = first(err, up.stop()) }()
	if _, err := memoryOf(up.cmd.Process.Pid); errors.Is(err, fs.ErrNotExist) {
		b.note("sockets: not measured, this system has no /proc")
		return nil
	}
	const each = 50 // clients of a session
	sessions := pick(b, 10, 40)
	n := sessions * each
	type figures struct{ idle, streaming, p50, p99 []float64 }
	forms := []struct {
		name   string
		follow follower
		f      figures
	}{{name: "SSE", follow: overSSE}, {name: "WebSocket", follow: overSocket}}
	for round := range pick(b, 2, 3) {
		for i := range forms {
			form := &forms[(i+round)%len(forms)]
			server, err := b.server(ctx, up.url, "-idle", "50ms")
			if err != nil {
				return err
			}
			idle, streaming, delays, err := crowd(ctx, server, up.url, fmt.Sprint(form.name, round), sessions, each, form.follow)
			server.kill()
			if err != nil {
				return fmt.Errorf("%d clients over %s: %w", n, form.name, err)
			}
			form.f.idle, form.f.streaming = append(form.f.idle, idle), append(form.f.streaming, streaming)
			form.f.p50, form.f.p99 = append(form.f.p50, quantile(delays, 0.5)), append(form.f.p99, quantile(delays, 0.99))
		}
	}
	sse, ws := forms[0].f, forms[1].f
	name := "sockets: " + strconv.Itoa(n) + " against SSE, "
	b.pairs(name+"memory of an idle one", sse.idle, ws.idle, kilo, atMost(1.5))
	b.pairs(name+"memory while streaming", sse.streaming, ws.streaming, kilo, atMost(1.5))
	b.pairs(name+"latency, p50", sse.p50, ws.p50, millis, atMost(1.3))
	b.pairs(name+"latency, p99", sse.p99, ws.p99, millis, atMost(1.3))
	return nil
}

// crowd has clients follow sessions, and measures a server before and while a turn of each streams.
func crowd(ctx context.Context, server *child, upstream, name string, sessions, each int, follow follower) (idle, streaming float64, delays []float64, err error) {
	const tokens = 40
	ctx, hangUp := context.WithCancel(ctx)
	var clients sync.WaitGroup
	defer func() { hangUp(); clients.Wait() }()
	n := sessions * each
	ids := make([]string, sessions)
	plans := make([]plan, sessions)
	if err := batches(sessions, func(i int) (err error) {
		if ids[i], err = newSession(ctx, server.url); err != nil {
			return err
		}
		plans[i] = plan{id: name + strconv.Itoa(i), tokens: tokens, every: 250 * time.Millisecond}
		return get(ctx, server.url+"/v1/sessions/"+ids[i]+"/events")
	}); err != nil {
		return 0, 0, nil, err
	}
	before, err := server.inUse()
	if err != nil {
		return 0, 0, nil, err
	}
	all := make([]*heard, n)
	ended := make(chan error, n)
	if err := batches(n, func(i int) error {
		all[i] = &heard{plan: plans[i%sessions], at: make([]int64, 0, tokens)}
		begun := make(chan struct{})
		clients.Go(func() {
			ended <- follow(ctx, server.url, ids[i%sessions], sync.OnceFunc(func() { close(begun) }), all[i])
		})
		select {
		case <-begun:
			return nil
		case err := <-ended:
			return errors.Join(errors.New("a stream has ended before it began"), err)
		}
	}); err != nil {
		return 0, 0, nil, err
	}
	with, err := server.inUse()
	if err != nil {
		return 0, 0, nil, err
	}
	// The sessions begin spread over one pace, like those of independent users.
	if err := together(sessions, func(i int) error {
		if err := pause(ctx, plans[i].every*time.Duration(i)/time.Duration(sessions)); err != nil {
			return err
		}
		return post(ctx, server.url+"/v1/sessions/"+ids[i]+"/turns", `{"message":`+strconv.Quote(plans[i].String())+`}`, nil)
	}); err != nil {
		return 0, 0, nil, err
	}
	if err := pause(ctx, tokens/2*plans[0].every); err != nil {
		return 0, 0, nil, err
	}
	during, err := server.inUse()
	if err != nil {
		return 0, 0, nil, err
	}
	for range n {
		if err := <-ended; err != nil {
			return 0, 0, nil, err
		}
	}
	for i, p := range plans {
		at, err := sent(ctx, upstream, p.id)
		if err != nil {
			return 0, 0, nil, err
		}
		for c := i; c < n; c += sessions {
			delays = append(delays, all[c].delays(at)...)
		}
	}
	return (with - before) / float64(n), (during - before) / float64(n), delays, nil
}

func overSSE(ctx context.Context, url, session string, begun func(), h *heard) error {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	resp, err := open(ctx, http.MethodGet, url+"/v1/sessions/"+session+"/events", "", "text/event-stream")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var seen atomic.Int64
	err = h.read(&told{r: bufio.NewReaderSize(resp.Body, 4<<10), begun: begun, after: func() {
		if int(seen.Load()) == h.plan.tokens {
			hangUp()
		}
	}}, counting(&seen))
	if len(h.at) == h.plan.tokens {
		return nil
	}
	return errors.Join(fmt.Errorf("%d of %d tokens came", len(h.at), h.plan.tokens), err)
}

// told is a stream whose first read and every further one are reported.
type told struct {
	r            *bufio.Reader
	begun, after func()
}

func (t *told) Read(b []byte) (int, error) {
	t.after() // what was read before has been counted
	n, err := t.r.Read(b)
	t.begun()
	return n, err
}

func overSocket(ctx context.Context, url, session string, begun func(), h *heard) error {
	c, _, err := websocket.Dial(ctx, url+"/v1/sessions/"+session+"/ws", nil)
	if err != nil {
		return err
	}
	defer c.CloseNow()
	shown, due := 0, len(word(0))
	var message bytes.Buffer
	for len(h.at) < h.plan.tokens {
		_, r, err := c.Reader(ctx)
		if err != nil {
			return err
		}
		message.Reset()
		if _, err := message.ReadFrom(r); err != nil {
			return err
		}
		begun()
		// A fragment begins with its type.
		kind, _, _ := strings.Cut(strings.TrimPrefix(message.String(), `{"type":"`), `"`)
		if strings.HasPrefix(kind, "{") {
			var e struct{ Type string }
			if err := json.Unmarshal(message.Bytes(), &e); err != nil {
				return err
			}
			kind = e.Type
		}
		if whole, none := kindOf(kind); !none {
			shown, due = h.more(message.Bytes(), whole, shown, due, nil)
		}
	}
	return nil
}
