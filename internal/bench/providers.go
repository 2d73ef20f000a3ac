package main

import (
	"context"
	"strconv"

	"github.com/parley-server/parley/internal/sim/simtest"
)

// providers measures the cost of relaying when the tokens come over a provider's API and are
// read by its adapter. The floor is the bare proxy over the bare wire, whose frames are a tenth
// of the size.
func providers(ctx context.Context, b *bench) (err error) {
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
	for i, p := range simtest.Providers() {
		if err := b.provider(ctx, up, proxy, i, p.Name); err != nil {
			return err
		}
	}
	return nil
}

// provider measures one provider beside the floor: at most three streams at once, so that they
// do not wait for each other.
func (b *bench) provider(ctx context.Context, up, proxy *child, n int, name string) (err error) {
	parley, err := b.server(ctx, up.url, "-provider", strconv.Itoa(n))
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
	for round := range pick(b, 2, 5) {
		if err := paced(ctx, lanes, up.url, n*100+round, pick(b, 100, 200)); err != nil {
			return err
		}
	}
	b.pairs(name+": CPU per million paced tokens", x.cpu, p.cpu, seconds, atMost(2))
	b.pairs(name+": added latency per token, p50", minus(x.p50, d.p50), minus(p.p50, d.p50), millis, aim{})
	if file := b.profile("provider-" + strconv.Itoa(n)); file != "" {
		return profiled(ctx, lanes[2], up.url, file)
	}
	return nil
}
