package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/parley-server/parley"
)

// start measures how long a server takes to start: an empty one, and one with many sessions on
// disk.
func start(ctx context.Context, b *bench) error {
	if err := coldStart(ctx, b); err != nil {
		return err
	}
	return crowded(ctx, b)
}

// coldStart starts the built program, or else this program's server, and requests a turn. The
// floor is the proxy, which has next to nothing to do.
func coldStart(ctx context.Context, b *bench) (err error) {
	up, err := spawn(ctx, "upstream")
	if err != nil {
		return err
	}
	defer func() { err = first(err, up.stop()) }()
	var floors, values, floorMemory, valueMemory []float64
	for round := range pick(b, 3, 7) {
		id := fmt.Sprintf("c%d", round)
		took, resident, err := firstProxied(ctx, up.url, id)
		if err != nil {
			return err
		}
		floors, floorMemory = append(floors, took), append(floorMemory, resident)
		if took, resident, err = b.firstTurn(ctx, up.url, id); err != nil {
			return err
		}
		values, valueMemory = append(values, took), append(valueMemory, resident)
	}
	what := "bin/parley"
	if b.parley == "" {
		what = "the server within this program: there is no bin/parley"
	}
	b.within("start: memory after start and a turn", median(floorMemory), median(valueMemory), mega, 40<<20)
	b.within("start: cold start to the first turn's first token", median(floors), median(values), millis, 100)
	b.note("started was %s", what)
	return nil
}

// firstProxied is the time in milliseconds from the start of a proxy to its
// first token, and its memory then.
func firstProxied(ctx context.Context, upstream, id string) (_, resident float64, err error) {
	proxy, err := spawn(ctx, "proxy", upstream)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = first(err, proxy.stop()) }()
	t := target{name: "proxy", url: proxy.url}
	h, err := t.hear(ctx, proxy.url+"/tokens", plan{id: id, tokens: 3}, nil)
	if err != nil {
		return 0, 0, err
	}
	u, err := memoryOf(proxy.cmd.Process.Pid)
	return float64(h.at[0]-proxy.began.UnixNano()) / 1e6, u.resident, err
}

// firstTurn is the time in milliseconds from the start of a server on an empty
// folder to its first token, and its memory then.
func (b *bench) firstTurn(ctx context.Context, upstream, id string) (_, resident float64, err error) {
	if b.parley == "" {
		c, err := b.server(ctx, upstream)
		if err != nil {
			return 0, 0, err
		}
		defer func() { err = first(err, c.stop()) }()
		return firstToken(ctx, c.url, "bench", plan{id: id, tokens: 3}.String(), c.began, c.cmd.Process.Pid)
	}
	dir, err := b.folder("cold")
	if err != nil {
		return 0, 0, err
	}
	cmd := exec.CommandContext(ctx, b.parley, "serve", "--addr", "127.0.0.1:0", "--data", dir)
	cmd.Env = append(os.Environ(), "PARLEY_SCRIPTED_PACE=0s", "PARLEY_LOG_LEVEL=error")
	c, err := launched(ctx, cmd, dir)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = first(err, c.stop()) }()
	return firstToken(ctx, c.url, "chaos", "Hello", c.began, cmd.Process.Pid)
}

func firstToken(ctx context.Context, url, app, message string, began time.Time, pid int) (took, resident float64, err error) {
	var made struct{ ID string }
	if err := post(ctx, url+"/v1/sessions", `{"app":"`+app+`"}`, &made); err != nil {
		return 0, 0, err
	}
	resp, err := open(ctx, http.MethodPost, url+"/v1/sessions/"+made.ID+"/turns", `{"message":"`+message+`"}`, "text/event-stream")
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	h := heard{plan: plan{tokens: 1 << 20}}
	if err := h.read(resp.Body, nil); err != nil {
		return 0, 0, err
	}
	if len(h.at) == 0 {
		return 0, 0, fmt.Errorf("the first turn said nothing")
	}
	u, err := memoryOf(pid)
	return float64(h.at[0]-began.UnixNano()) / 1e6, u.resident, err
}

// crowded starts a server on a folder with many sessions. A tenth of them were interrupted in
// the middle of a turn.
func crowded(ctx context.Context, b *bench) error {
	for _, store := range b.stores() {
		if err := b.crowdedOn(ctx, store); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) crowdedOn(ctx context.Context, store kind) (err error) {
	sessions := pick(b, 2000, 10_000)
	full, done, err := store.fresh("crowded")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := fill(ctx, full, sessions, sessions/10); err != nil {
		return err
	}
	empty, err := b.folder("empty")
	if err != nil {
		return err
	}
	var floors, values []float64
	for round := range 3 {
		floor, err := ready(ctx, setting{dir: empty}, 0)
		if err != nil {
			return err
		}
		// The first start marks the turns as interrupted, so that later starts differ. The first
		// one is the one measured.
		value, err := ready(ctx, full, sessions)
		if err != nil {
			return err
		}
		floors = append(floors, floor)
		if round == 0 {
			values = append(values, value)
		}
	}
	b.within(store.on(fmt.Sprintf("start: %d sessions on disk, %d interrupted, to serve", sessions, sessions/10)), median(floors), median(values), millis, 1000)
	return nil
}

// fill makes sessions of one turn, and leaves turns open in the last of them.
func fill(ctx context.Context, s setting, sessions, open int) error {
	h, err := build(ctx, s)
	if err != nil {
		return err
	}
	next := make(chan int, sessions)
	for i := range sessions {
		next <- i
	}
	close(next)
	err = together(64, func(int) error {
		for i := range next {
			s, _, err := h.engine.Create(ctx, person, parley.CreateSession{App: "bench"})
			if err != nil {
				return err
			}
			if err := h.turn(ctx, s.ID, "hello"); err != nil {
				return err
			}
			if i < sessions-open {
				continue
			}
			if _, err := h.engine.Send(ctx, person, s.ID, parley.Send{Message: "hang"}); err != nil {
				return err
			}
		}
		return nil
	})
	over, cancel := context.WithCancel(ctx)
	cancel() // like a crash, it leaves running turns open
	return first(err, h.close(over))
}

// ready returns the time in milliseconds from the start of a server until it reports ready and,
// if there are sessions, lists them.
func ready(ctx context.Context, s setting, sessions int) (float64, error) {
	c, err := spawn(ctx, "parley", "-dir", s.dir, "-postgres", s.postgres)
	if err != nil {
		return 0, err
	}
	defer c.kill()
	if err := get(ctx, c.url+"/readyz"); err != nil {
		return 0, err
	}
	if sessions > 0 {
		if err := get(ctx, c.url+"/v1/sessions"); err != nil {
			return 0, err
		}
	}
	return ms(time.Since(c.began)), nil
}

func get(ctx context.Context, url string) error {
	resp, err := open(ctx, http.MethodGet, url, "", "application/json")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
