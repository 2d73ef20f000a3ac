package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	pacedStreams = 16
	pacedEvery   = 20 * time.Millisecond
)

// relayed holds the results of one target, one value per round.
type relayed struct {
	p50, p99 []float64 // milliseconds from upstream to client
	first    []float64 // milliseconds to the first token; of every request
	cpu      []float64 // of the server, in seconds per million tokens
	fast     []float64 // tokens a second without pace
}

// relay compares three ways to the same tokens: directly, through a bare proxy, and as a turn of
// a session that stores them. The time of the direct way is subtracted.
//
// Paced streams run through all three at once, so that disturbances on the machine affect them
// alike. Requests that are measured alone take turns.
func relay(ctx context.Context, b *bench) (err error) {
	up, err := spawn(ctx, "upstream")
	if err != nil {
		return err
	}
	defer func() { err = first(err, up.stop()) }()
	proxy, err := spawn(ctx, "proxy", up.url)
	if err != nil {
		return err
	}
	defer func() { err = first(err, proxy.stop()) }()
	parley, err := b.server(ctx, up.url)
	if err != nil {
		return err
	}
	defer func() { err = first(err, parley.stop()) }()

	d, x, p := &relayed{}, &relayed{}, &relayed{}
	lanes := []lane{
		{target{name: "direct", url: up.url}, d},
		{target{name: "proxy", url: proxy.url, server: proxy}, x},
		{target{name: "parley", url: parley.url, session: true, server: parley}, p},
	}
	if err := warm(ctx, lanes); err != nil {
		return err
	}
	bare, err := b.lone()
	if err != nil {
		return err
	}
	defer func() { err = first(err, bare.close()) }()
	var commits []float64
	for round := range pick(b, 3, 9) {
		if err := paced(ctx, lanes, up.url, round, pick(b, 100, 200)); err != nil {
			return err
		}
		took, err := firsts(ctx, lanes, bare, round, pick(b, 30, 60))
		if err != nil {
			return err
		}
		commits = append(commits, took...)
		for i := range lanes { // a different one begins each time
			if err := fast(ctx, lanes[(i+round)%len(lanes)], pacedStreams, round, pick(b, 2000, 4000)); err != nil {
				return err
			}
		}
	}
	b.pairs("relay: added latency per token, p50, paced 16 x 50/s", minus(x.p50, d.p50), minus(p.p50, d.p50), millis, atMost(1.3))
	b.pairs("relay: the same, p99", minus(x.p99, d.p99), minus(p.p99, d.p99), millis, atMost(3))
	// A proxy stores nothing. A server that must store the message first cannot cost less than a
	// proxy plus one commit.
	straight := median(d.first)
	b.pairs("relay: added time to first token; floor: proxy and a commit",
		[]float64{median(x.first) - straight + median(commits)}, []float64{median(p.first) - straight}, millis, atMost(1.5))
	b.pairs("relay: whole time to first token; floor: proxy", []float64{median(x.first)}, []float64{median(p.first)}, millis, aim{})
	b.pairs("relay: CPU per million paced tokens", x.cpu, p.cpu, seconds, atMost(2))
	b.pairs("relay: tokens/s without pace, 16 streams", x.fast, p.fast, rate, aim{})
	if file := b.profile("relay"); file != "" {
		return profiled(ctx, lanes[2], up.url, file)
	}
	return nil
}

// lane is a target and its results.
type lane struct {
	target
	r *relayed
}

func minus(x, y []float64) (list []float64) {
	for i := range x {
		list = append(list, x[i]-y[i])
	}
	return list
}

// server starts a Parley on an empty folder.
func (b *bench) server(ctx context.Context, upstream string, more ...string) (*child, error) {
	dir, err := b.folder("server")
	if err != nil {
		return nil, err
	}
	return spawn(ctx, "parley", append([]string{"-dir", dir, "-upstream", upstream}, more...)...)
}

func warm(ctx context.Context, lanes []lane) error {
	for _, t := range lanes {
		if err := together(pacedStreams, func(i int) error {
			address, err := t.prepare(ctx)
			if err != nil {
				return err
			}
			_, err = t.hear(ctx, address, plan{id: fmt.Sprintf("w%s%d", t.name, i), tokens: 200}, nil)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// paced runs 16 streams through each lane at the pace of a quick model.
func paced(ctx context.Context, lanes []lane, upstream string, round, tokens int) error {
	return together(len(lanes), func(at int) error {
		t := lanes[at]
		addresses, err := t.addresses(ctx)
		if err != nil {
			return err
		}
		var seen atomic.Int64
		var mu sync.Mutex
		var delays []float64
		usage := make(chan error, 1)
		go func() { usage <- t.perToken(ctx, tokens, &seen) }()
		err = together(pacedStreams, func(i int) error {
			// The streams start spread over one pace, like those of independent clients.
			if err := pause(ctx, pacedEvery*time.Duration(i*len(lanes)+at)/time.Duration(pacedStreams*len(lanes))); err != nil {
				return err
			}
			p := plan{id: fmt.Sprintf("p%d%s%d", round, t.name, i), tokens: tokens, every: pacedEvery}
			h, err := t.hear(ctx, addresses[i], p, counting(&seen))
			if err != nil {
				return err
			}
			said, err := sent(ctx, upstream, p.id)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			delays = append(delays, h.delays(said)...)
			return nil
		})
		t.r.p50, t.r.p99 = append(t.r.p50, quantile(delays, 0.5)), append(t.r.p99, quantile(delays, 0.99))
		return first(err, <-usage)
	})
}

func (t lane) addresses(ctx context.Context) (list []string, err error) {
	for range pacedStreams {
		address, err := t.prepare(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, address)
	}
	return list, nil
}

// perToken measures the server's CPU time in the middle of the streams, where only tokens flow.
func (t lane) perToken(ctx context.Context, tokens int, seen *atomic.Int64) error {
	if t.server == nil {
		return nil
	}
	length := time.Duration(tokens) * pacedEvery
	if err := pause(ctx, length/6); err != nil {
		return err
	}
	before, err := t.server.cpuTime()
	if err != nil {
		return err
	}
	from := seen.Load()
	if err := pause(ctx, length*2/3); err != nil {
		return err
	}
	after, err := t.server.cpuTime()
	if err != nil {
		return err
	}
	if n := seen.Load() - from; n > 0 {
		t.r.cpu = append(t.r.cpu, (after-before).Seconds()/float64(n)*1e6)
	}
	return nil
}

// profiled runs the paced streams again, under the profiler.
func profiled(ctx context.Context, t lane, upstream, file string) error {
	if _, err := t.server.ask("profile " + file); err != nil {
		return err
	}
	t.r = &relayed{}
	if err := paced(ctx, []lane{t}, upstream, -1, 500); err != nil {
		return err
	}
	_, err := t.server.ask("profiled")
	return err
}

// firsts requests short answers, one after the other, and returns how long bare commits took in
// between.
func firsts(ctx context.Context, lanes []lane, bare *lone, round, n int) (commits []float64, err error) {
	for i := range n * len(lanes) {
		t := lanes[i%len(lanes)]
		address, err := t.prepare(ctx)
		if err != nil {
			return nil, err
		}
		h, err := t.hear(ctx, address, plan{id: fmt.Sprintf("f%d-%d", round, i), tokens: 3}, nil)
		if err != nil {
			return nil, err
		}
		t.r.first = append(t.r.first, float64(h.at[0]-h.asked.UnixNano())/1e6)
		took, err := bare.commit()
		if err != nil {
			return nil, err
		}
		commits = append(commits, took)
	}
	return commits, nil
}

// fast runs streams without pacing.
func fast(ctx context.Context, t lane, streams, round, tokens int) error {
	addresses, err := t.addresses(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	err = together(streams, func(i int) error {
		_, err := t.hear(ctx, addresses[i], plan{id: fmt.Sprintf("u%d%s%d", round, t.name, i), tokens: tokens}, nil)
		return err
	})
	t.r.fast = append(t.r.fast, float64(streams*tokens)/time.Since(began).Seconds())
	return err
}

// together runs n at once, waits for all, and returns one of their errors.
func together(n int, do func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	return first(errs...)
}

func first(errs ...error) error {
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
