package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-server/parley"
)

// long compares a turn in a session of many turns with one in a session of ten. They should not
// differ, because the state that a turn needs is bounded.
func long(ctx context.Context, b *bench) error {
	for _, store := range b.stores() {
		if err := b.longOn(ctx, store); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) longOn(ctx context.Context, store kind) (err error) {
	many := pick(b, 1000, 10_000)
	at, done, err := store.fresh("long")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	var old, young parley.SessionID
	for _, k := range []struct {
		name      string
		idleAfter time.Duration
	}{
		{fmt.Sprintf("long: a turn in a session of %d turns, against one of 10", many), time.Hour},
		{"long: the same, when neither session is in memory", time.Millisecond},
	} {
		if err := func() (err error) {
			at.idleAfter = k.idleAfter
			h, err := build(ctx, at)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, h.close(ctx)) }()
			if old == "" {
				if old, err = h.grown(ctx, many); err != nil {
					return err
				}
				if young, err = h.grown(ctx, 10); err != nil {
					return err
				}
			}
			if k.idleAfter < time.Second {
				// A session may have been evicted after each of many turns.
				if _, _, err := h.alternate(ctx, old, old, pick(b, 25, 100), true); err != nil {
					return err
				}
			}
			floor, value, err := h.alternate(ctx, young, old, pick(b, 150, 400), k.idleAfter < time.Second)
			if err == nil {
				b.pairs(store.on(k.name), []float64{floor}, []float64{value}, millis, atMost(1.1))
			}
			return err
		}(); err != nil {
			return err
		}
	}
	return nil
}

// grown makes a session with a number of turns.
func (h *house) grown(ctx context.Context, turns int) (parley.SessionID, error) {
	s, _, err := h.engine.Create(ctx, person, parley.CreateSession{App: "bench"})
	for i := 0; i < turns && err == nil; i++ {
		err = h.turn(ctx, s.ID, "hello")
	}
	return s.ID, err
}

// alternate takes turns in two sessions and returns the median time of each in milliseconds.
// When cold, it waits before each turn until no session is in memory.
func (h *house) alternate(ctx context.Context, x, y parley.SessionID, rounds int, cold bool) (_, _ float64, err error) {
	took := map[parley.SessionID][]float64{}
	for range rounds {
		for _, id := range []parley.SessionID{x, y} {
			if cold {
				if err := until(ctx, "sessions leave memory", func() (bool, error) { return h.engine.InMemory() == 0, nil }); err != nil {
					return 0, 0, err
				}
			}
			began := time.Now()
			if err := h.turn(ctx, id, "hello"); err != nil {
				return 0, 0, err
			}
			took[id] = append(took[id], ms(time.Since(began)))
		}
	}
	return median(took[x]), median(took[y]), nil
}
