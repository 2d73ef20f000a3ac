package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const turnSessions = 16

// turns compares whole turns with the bare work of making their rows durable: the batches that
// the engine appended are written again, byte for byte, by a group commit that does nothing
// else.
func turns(ctx context.Context, b *bench) error {
	for _, k := range []struct {
		name, message string
		each          int // turns of a session in one round
		aim           float64
	}{
		{"turns: turns/s, 16 sessions of short turns, fsync on", "hello", pick(b, 60, 150), 0.5},
		{"turns: turns/s with three tool rounds, each step committed", "tools", pick(b, 25, 50), 0.6},
	} {
		kinds := b.stores()
		floors, values := make([][]float64, len(kinds)), make([][]float64, len(kinds))
		for round := range pick(b, 3, 9) {
			for i, store := range kinds {
				profile := ""
				if round == 0 && i == 0 {
					profile = b.profile("turns-" + k.message)
				}
				log, value, err := b.drive(ctx, store, k.message, k.each, profile)
				if err != nil {
					return err
				}
				floor, err := replay(ctx, store, log, k.each)
				if err != nil {
					return err
				}
				if profile == "" || b.quick { // profiling costs time
					floors[i], values[i] = append(floors[i], floor), append(values[i], value)
				}
			}
		}
		for i, store := range kinds {
			b.pairs(store.on(k.name), floors[i], values[i], rate, atLeast(k.aim))
		}
	}
	return nil
}

// drive runs turns in 16 sessions at once. It returns the appended batches by session, and the
// turns per second.
func (b *bench) drive(ctx context.Context, k kind, message string, each int, profile string) (_ [][]seam.Batch, _ float64, err error) {
	at, done, err := k.fresh("turns")
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, done()) }()
	rec := &recorder{batches: map[parley.SessionID][]seam.Batch{}}
	at.wrap = func(s seam.Store) seam.Store { rec.Store = s; return rec }
	h, err := build(ctx, at)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, h.close(ctx)) }()
	var ids [turnSessions]parley.SessionID
	for i := range ids {
		s, _, err := h.engine.Create(ctx, person, parley.CreateSession{App: "bench"})
		if err != nil {
			return nil, 0, err
		}
		if err := h.turn(ctx, s.ID, message); err != nil { // to fill the caches
			return nil, 0, err
		}
		ids[i] = s.ID
	}
	rec.clear()
	if profile != "" {
		stop, err := profiling(profile)
		if err != nil {
			return nil, 0, err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	began := time.Now()
	err = together(turnSessions, func(i int) error {
		for range each {
			if err := h.turn(ctx, ids[i], message); err != nil {
				return err
			}
		}
		return nil
	})
	took := time.Since(began)
	for _, id := range ids {
		if message == "tools" && err == nil {
			err = h.allWereMade(ctx, id, rounds*(each+1))
		}
	}
	var log [][]seam.Batch
	for _, id := range ids {
		log = append(log, rec.batches[id])
	}
	return log, float64(turnSessions*each) / took.Seconds(), err
}

// profiling writes a profile of the processors until stop.
func profiling(file string) (stop func() error, err error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// turn sends a message and waits for the answer.
func (h *house) turn(ctx context.Context, id parley.SessionID, message string) error {
	t, err := h.engine.Send(ctx, person, id, parley.Send{Message: message})
	if err != nil {
		return err
	}
	t, err = h.engine.Await(ctx, person, t.ID, time.Minute)
	if err == nil && t.Status != parley.StatusCompleted {
		err = fmt.Errorf("turn %s is %s: %v", t.ID, t.Status, t.Error)
	}
	return err
}

// allWereMade returns an error unless the session has that number of calls and all succeeded. A
// call that is not made, or is refused, takes less time than one that is made.
func (h *house) allWereMade(ctx context.Context, id parley.SessionID, want int) error {
	made := 0
	for e, err := range h.reader.Whole(ctx, person, id, 0) {
		if err != nil {
			return err
		}
		p, err := e.Payload()
		if err != nil {
			return err
		}
		if end, ok := p.(parley.ToolEnded); ok {
			if end.Outcome != parley.OutcomeOK {
				return fmt.Errorf("a call of %s is %s: %s", end.Name, end.Outcome, end.Output)
			}
			made++
		}
	}
	if made != want {
		return fmt.Errorf("%d calls were made, not %d", made, want)
	}
	return nil
}

// recorder records what is appended.
type recorder struct {
	seam.Store
	mu      sync.Mutex
	batches map[parley.SessionID][]seam.Batch
}

func (r *recorder) Append(ctx context.Context, p parley.Principal, b seam.Batch) error {
	err := r.Store.Append(ctx, p, b)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.batches[b.Session] = append(r.batches[b.Session], b)
	}
	return err
}

func (r *recorder) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.batches)
}
