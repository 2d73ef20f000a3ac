package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"sync/atomic"
	"time"
)

// memory measures the memory that one more unit costs a server: an idle stream, a session that
// sleeps or waits, a turn in flight. It is the growth of the process's own memory after a
// collection; the client is another process.
func memory(ctx context.Context, b *bench) (err error) {
	up, err := spawn(ctx, "upstream")
	if err != nil {
		return err
	}
	defer func() { err = first(err, up.stop()) }()
	if _, err := memoryOf(up.cmd.Process.Pid); errors.Is(err, fs.ErrNotExist) {
		b.note("memory: not measured, this system has no /proc")
		return nil
	}
	for _, measure := range []func(context.Context, *bench, string) error{idleStreams, sleeping, inFlight} {
		if err := measure(ctx, b, up.url); err != nil {
			return err
		}
	}
	return nil
}

// growth runs more n times concurrently and returns the bytes added per run. Beforehand, more
// runs a few times to fill one-time caches.
func (b *bench) growth(ctx context.Context, name string, c *child, few, n int, more func(ctx context.Context, i int) error, settled func() error) (float64, error) {
	if err := batches(few, func(i int) error { return more(ctx, i) }); err != nil {
		return 0, err
	}
	if err := settled(); err != nil {
		return 0, err
	}
	before, err := c.inUse()
	if err != nil {
		return 0, err
	}
	if err := batches(n, func(i int) error { return more(ctx, few+i) }); err != nil {
		return 0, err
	}
	if err := settled(); err != nil {
		return 0, err
	}
	if file := b.profile("memory-" + name); file != "" {
		if _, err := c.ask("heap " + file); err != nil {
			return 0, err
		}
	}
	after, err := c.inUse()
	return (after - before) / float64(n), err
}

// batches runs n tasks, 16 at a time.
func batches(n int, do func(i int) error) error { return batchesOf(16, n, do) }

func batchesOf(hands, n int, do func(i int) error) error {
	var next atomic.Int64
	return together(hands, func(int) error {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return nil
			}
			if err := do(i); err != nil {
				return err
			}
		}
	})
}

func nothing() error { return nil }

// idleStreams opens streams of sleeping sessions.
func idleStreams(ctx context.Context, b *bench, upstream string) (err error) {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	n := pick(b, 400, 800)
	begin := func(url string) error {
		begun, ended := make(chan struct{}), make(chan error, 1)
		go func() { ended <- hold(ctx, url, func() { close(begun) }) }() // until hangUp
		select {
		case <-begun:
			return nil
		case err := <-ended:
			return err
		}
	}
	proxy, err := spawn(ctx, "proxy", upstream)
	if err != nil {
		return err
	}
	defer proxy.kill()
	floor, err := b.growth(ctx, "", proxy, n/4, n, func(context.Context, int) error { return begin(proxy.url + "/hold") }, nothing)
	if err != nil {
		return err
	}
	parley, err := b.server(ctx, upstream, "-idle", "50ms")
	if err != nil {
		return err
	}
	defer parley.kill()
	ids := make([]string, n+n/4)
	if err := batches(len(ids), func(i int) (err error) {
		if ids[i], err = newSession(ctx, parley.url); err != nil {
			return err
		}
		// Opening a stream reads the session's log, which is then in SQLite's caches.
		return get(ctx, parley.url+"/v1/sessions/"+ids[i]+"/events")
	}); err != nil {
		return err
	}
	value, err := b.growth(ctx, "idle", parley, n/4, n,
		func(_ context.Context, i int) error { return begin(parley.url + "/v1/sessions/" + ids[i] + "/events") },
		func() error { return parley.unloaded(ctx) })
	if err != nil {
		return err
	}
	b.within("memory: per idle session with an open stream", floor, value, kilo, 24<<10)
	return nil
}

// hold opens a stream, reads a line, and keeps it open until ctx ends.
func hold(ctx context.Context, url string, begun func()) error {
	resp, err := open(ctx, http.MethodGet, url, "", "text/event-stream")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewReaderSize(resp.Body, 64)
	if _, err := lines.ReadString('\n'); err != nil {
		return err
	}
	begun()
	_, err = io.Copy(io.Discard, lines)
	return err
}

// sleeping makes sessions that have had a turn, and sessions whose turn waits for a human. In
// memory, at most a page in SQLite's bounded cache remains of them.
func sleeping(ctx context.Context, b *bench, upstream string) error {
	parley, err := b.server(ctx, upstream, "-idle", "50ms")
	if err != nil {
		return err
	}
	defer parley.kill()
	// Fill SQLite's caches first: one of 8 MB, and 2 MB for each reader.
	few, n := pick(b, 2500, 4000), pick(b, 500, 2000)
	for _, k := range []struct{ name, message, status string }{
		{"sleeps", "hello", "completed"},
		{"waits for a human", "ask", "waiting"},
	} {
		value, err := b.growth(ctx, k.message, parley, few, n, func(ctx context.Context, _ int) error {
			id, err := newSession(ctx, parley.url)
			if err != nil {
				return err
			}
			var t struct{ ID, Status string }
			if err := post(ctx, parley.url+"/v1/sessions/"+id+"/turns", `{"message":"`+k.message+`"}`, &t); err != nil {
				return err
			}
			if err := post(ctx, parley.url+"/v1/turns/"+t.ID+"/await", `{}`, &t); err != nil {
				return err
			}
			if t.Status != k.status {
				return fmt.Errorf("a turn that was told %q is %s, not %s", k.message, t.Status, k.status)
			}
			return nil
		}, func() error { return parley.unloaded(ctx) })
		if err != nil {
			return err
		}
		// Page sizes and the allocator's rounding alone add up to a quarter of a kilobyte.
		value = max(0, value)
		b.line("memory: per session that "+k.name, "-", kilo(value), "-", "0 KB", value < 256)
	}
	return nil
}

// inFlight opens turns that produce one word per second.
func inFlight(ctx context.Context, b *bench, upstream string) error {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	n := pick(b, 200, 400)
	measure := func(t target) (float64, error) {
		return b.growth(ctx, t.name, t.server, n/4, n, func(ctx context.Context, i int) error {
			address, err := t.prepare(ctx)
			if err != nil {
				return err
			}
			var seen atomic.Int64
			begun := make(chan error, 1)
			go func() { // ends with hangUp
				_, err := t.hear(ctx, address, plan{id: fmt.Sprintf("m%s%d", t.name, i), tokens: 3600, every: time.Second}, counting(&seen))
				begun <- err
			}()
			return until(ctx, "a stream begins", func() (bool, error) {
				select {
				case err := <-begun:
					return false, fmt.Errorf("a stream has ended: %w", err)
				default:
					return seen.Load() > 0, nil
				}
			})
		}, nothing)
	}
	proxy, err := spawn(ctx, "proxy", upstream)
	if err != nil {
		return err
	}
	defer proxy.kill()
	floor, err := measure(target{name: "proxy", url: proxy.url, server: proxy})
	if err != nil {
		return err
	}
	parley, err := b.server(ctx, upstream)
	if err != nil {
		return err
	}
	defer parley.kill()
	value, err := measure(target{name: "parley", url: parley.url, server: parley, session: true})
	if err != nil {
		return err
	}
	b.within("memory: per turn in flight", floor, value, kilo, 60<<10)
	return nil
}
