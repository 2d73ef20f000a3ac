package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

// The rows of scale are made on request only, since at -scale 1 they need half an hour, some gigabytes
// of disk and 20,000 descriptors. Each is measured at a tenth of its size first, which is its floor:
// the cost of one must not grow with their number.
const (
	scaleFlight   = 10_000
	scaleIdle     = 20_000
	scaleSessions = 100_000
	scaleEvents   = 100_000
)

// scale measures a server that has much of one thing, each with the turns of a bystander.
func scale(ctx context.Context, b *bench) (err error) {
	up, err := spawn(ctx, "upstream")
	if err != nil {
		return err
	}
	defer func() { err = first(err, up.stop()) }()
	of := func(whole int) int { return max(10, int(float64(whole)*b.scale)) }
	b.note("scale: %g of the whole: %d in flight, %d idle streams, %d sessions on disk, %d events in one", b.scale, of(scaleFlight), of(scaleIdle), of(scaleSessions), of(scaleEvents))
	for _, k := range []struct {
		name   string
		n      int
		tokens int // of each stream's turn, one a second; 0: it only follows
	}{{"in flight", of(scaleFlight), 3600}, {"idle streams", of(scaleIdle), 0}} {
		few, fewP99, err := b.many(ctx, up.url, k.n/10, k.tokens)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		all, p99, err := b.many(ctx, up.url, k.n, k.tokens)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		b.pairs(fmt.Sprintf("scale: memory of one of %d %s, against a tenth of them", k.n, k.name), []float64{few}, []float64{all}, kilo, atMost(1.1))
		b.pairs("scale: a bystander's turn meanwhile, p99", []float64{fewP99}, []float64{p99}, millis, aim{})
	}
	return errors.Join(b.onDisk(ctx, of(scaleSessions)), b.oneLong(ctx, up.url, of(scaleEvents)))
}

// many opens streams, each of a session of its own, and returns the memory of one and the p99 of a
// bystander's turns while they are open.
func (b *bench) many(ctx context.Context, upstream string, n, tokens int) (each, p99 float64, err error) {
	server, err := b.server(ctx, upstream)
	if err != nil {
		return 0, 0, err
	}
	defer server.kill()
	to := target{name: "parley", url: server.url, session: true, server: server}
	bystander, err := to.prepare(ctx)
	if err != nil {
		return 0, 0, err
	}
	if _, err := bystanding(ctx, to, bystander); err != nil { // caches fill
		return 0, 0, err
	}
	before, err := server.inUse()
	if err != nil {
		return 0, 0, err
	}
	held, hangUp := context.WithCancel(ctx)
	var streams sync.WaitGroup
	defer func() { hangUp(); streams.Wait() }()
	if err := batches(n, func(i int) error {
		address, err := to.prepare(ctx)
		if err != nil {
			return err
		}
		begun, ended := make(chan struct{}), make(chan error, 1)
		once := sync.OnceFunc(func() { close(begun) })
		streams.Go(func() {
			if tokens == 0 {
				ended <- hold(held, address[:len(address)-len("turns")]+"events", once)
				return
			}
			_, err := to.hear(held, address, plan{id: fmt.Sprintf("many%d-%d", n, i), tokens: tokens, every: time.Second}, func(int) { once() })
			ended <- err
		})
		select {
		case <-begun:
			return nil
		case err := <-ended:
			return errors.Join(fmt.Errorf("stream %d has ended", i), err)
		}
	}); err != nil {
		return 0, 0, err
	}
	after, err := server.inUse()
	if err != nil {
		return 0, 0, err
	}
	took, err := bystanding(ctx, to, bystander)
	return (after - before) / float64(n), quantile(took, 0.99), err
}

// bystanding takes 200 turns in one session, one after the other.
func bystanding(ctx context.Context, to target, address string) (took []float64, err error) {
	for range 200 {
		began := time.Now()
		if err := to.turn(ctx, address, "", "hello"); err != nil {
			return nil, err
		}
		took = append(took, ms(time.Since(began)))
	}
	return took, nil
}

// onDisk compares a server over many sessions with one over a tenth of them. A tenth of them was
// interrupted in a turn.
func (b *bench) onDisk(ctx context.Context, n int) error {
	var figures [2]struct{ start, memory, list, inbox, p99 float64 }
	for i, n := range []int{n / 10, n} {
		f := &figures[i]
		dir, err := b.folder("scale")
		if err != nil {
			return err
		}
		full := setting{dir: dir}
		if err := fill(ctx, full, n, n/10); err != nil {
			return err
		}
		server, err := spawn(ctx, "parley", "-dir", dir, "-idle", "50ms")
		if err != nil {
			return err
		}
		defer server.kill()
		if err := get(ctx, server.url+"/readyz"); err != nil {
			return err
		}
		f.start = ms(time.Since(server.began))
		to := target{name: "parley", url: server.url, session: true, server: server}
		address, err := to.prepare(ctx)
		if err != nil {
			return err
		}
		took, err := bystanding(ctx, to, address)
		if err != nil {
			return err
		}
		f.p99 = quantile(took, 0.99)
		if f.list, err = asking(ctx, server.url+"/v1/sessions?limit=50"); err != nil {
			return err
		}
		if f.inbox, err = asking(ctx, server.url+"/v1/interactions"); err != nil {
			return err
		}
		if err := server.unloaded(ctx); err != nil {
			return err
		}
		if f.memory, err = server.inUse(); err != nil {
			return err
		}
	}
	few, all := figures[0], figures[1]
	name := fmt.Sprintf("scale: %d sessions on disk, against a tenth of them, ", n)
	for _, r := range []struct {
		what     string
		few, all float64
		unit     func(float64) string
		aim      aim
	}{
		{"to serve", few.start, all.start, millis, aim{}},
		{"memory", few.memory, all.memory, mega, atMost(1.1)},
		{"a list", few.list, all.list, millis, atMost(1.5)},
		{"what waits for answers", few.inbox, all.inbox, millis, atMost(1.5)},
		{"a bystander's turn, p99", few.p99, all.p99, millis, atMost(1.5)},
	} {
		b.pairs(name+r.what, []float64{r.few}, []float64{r.all}, r.unit, r.aim)
	}
	return nil
}

// oneLong compares one session of many events with one of a tenth of them.
func (b *bench) oneLong(ctx context.Context, upstream string, events int) error {
	const each = 5 // events of a turn: its start, its agent, the model's start and reply, its end
	dir, err := b.folder("long")
	if err != nil {
		return err
	}
	h, err := build(ctx, setting{dir: dir})
	if err != nil {
		return err
	}
	var ids [2]parley.SessionID
	for i, n := range []int{events / 10, events} {
		if ids[i], err = h.grown(ctx, max(1, n/each)); err != nil {
			return errors.Join(err, h.close(ctx))
		}
	}
	if err := h.close(ctx); err != nil {
		return err
	}
	server, err := spawn(ctx, "parley", "-dir", dir, "-upstream", upstream)
	if err != nil {
		return err
	}
	defer server.kill()
	for _, k := range []struct {
		what, method, path, body string
		aim                      aim
	}{
		{"the page's first window", http.MethodGet, "/window", "", atMost(1.5)},
		{"a fork", http.MethodPost, "/fork", "{}", atMost(1.5)},
		{"an export, a tenth of the whole", http.MethodGet, "/export", "", atMost(11)},
	} {
		var took [2][]float64
		for range 5 {
			for i, id := range ids {
				began := time.Now()
				resp, err := open(ctx, k.method, server.url+"/v1/sessions/"+string(id)+k.path, k.body, "*/*")
				if err != nil {
					return fmt.Errorf("%s: %w", k.what, err)
				}
				_, err = io.Copy(io.Discard, resp.Body)
				if err := errors.Join(err, resp.Body.Close()); err != nil {
					return err
				}
				took[i] = append(took[i], ms(time.Since(began)))
			}
		}
		b.pairs(fmt.Sprintf("scale: a session of %d events, against a tenth, %s", events, k.what), took[0], took[1], millis, k.aim)
	}
	return nil
}

// asking is the median time of a request in milliseconds.
func asking(ctx context.Context, url string) (float64, error) {
	var took []float64
	for range 20 {
		began := time.Now()
		resp, err := open(ctx, http.MethodGet, url, "", "application/json")
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return 0, err
		}
		took = append(took, ms(time.Since(began)))
	}
	return median(took), nil
}
