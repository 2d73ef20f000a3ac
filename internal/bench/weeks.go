package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// weeks measures what sessions cost that wait for a human or sleep for weeks: the
// start of a server over them, its memory, and what is done when time brings
// something. On SQLite, and on PostgreSQL when there is one.
func weeks(ctx context.Context, b *bench) error {
	for _, k := range b.stores() {
		name := "sqlite"
		if k.name != "" {
			name = "postgres"
		}
		s, done, err := k.fresh("weeks")
		if err != nil {
			return err
		}
		if err := errors.Join(weeksOn(ctx, b, name, s), done()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func weeksOn(ctx context.Context, b *bench, name string, s setting) error {
	what := func(text string, args ...any) string { return "weeks, " + name + ": " + fmt.Sprintf(text, args...) }
	args := []string{"-dir", s.dir, "-postgres", s.postgres, "-idle", "50ms"}
	n := pick(b, 1000, 10_000)
	// The floor has the turns that a start reads, and so the same cache contents.
	if err := fillWeeks(ctx, s, 0, n/10); err != nil {
		return err
	}
	floor, _, err := restingServer(ctx, args)
	if err != nil {
		return err
	}
	few, err := tickOf(ctx, s)
	if err != nil {
		return err
	}
	if err := fillWeeks(ctx, s, n, 0); err != nil {
		return err
	}
	memory, took, err := restingServer(ctx, args)
	if err != nil {
		return err
	}
	b.within(what("%d waiting and %d sleeping, %d interrupted, to serve", n, n, n/10), -1, took, millis, 1000)
	each := max(0, memory-floor) / float64(2*n)
	b.line(what("memory after start for each of them"), "-", kilo(each), "-", "0 KB", each < 256)
	many, err := tickOf(ctx, s)
	if err != nil {
		return err
	}
	b.within(what("what a tick asks of the store"), few, many, millis, 5)
	return overdue(ctx, b, what, s, n)
}

// fillWeeks makes n waiting and n sleeping sessions, with open turns in some of the sleeping
// ones.
func fillWeeks(ctx context.Context, s setting, n, open int) error {
	h, err := build(ctx, s)
	if err != nil {
		return err
	}
	err = batchesOf(64, 2*n, func(i int) error {
		made, _, err := h.engine.Create(ctx, person, parley.CreateSession{App: "bench"})
		if err != nil {
			return err
		}
		if i%2 == 1 {
			return h.turn(ctx, made.ID, "hello")
		}
		t, err := h.engine.Send(ctx, person, made.ID, parley.Send{Message: "ask"})
		if err != nil {
			return err
		}
		if t, err = h.engine.Await(ctx, person, t.ID, time.Minute); err == nil && t.Status != parley.StatusWaiting {
			err = fmt.Errorf("turn %s is %s: %v", t.ID, t.Status, t.Error)
		}
		return err
	})
	if err == nil {
		err = batchesOf(64, open, func(int) error {
			made, _, err := h.engine.Create(ctx, person, parley.CreateSession{App: "bench"})
			if err == nil {
				_, err = h.engine.Send(ctx, person, made.ID, parley.Send{Message: "hang"})
			}
			return err
		})
	}
	over, cancel := context.WithCancel(ctx)
	cancel() // like a crash, it leaves running turns open
	return first(err, h.close(over))
}

// restingServer starts a server. It returns its memory once the start-up work is done, and how
// long it took to serve.
func restingServer(ctx context.Context, args []string) (memory, took float64, err error) {
	c, err := spawn(ctx, "parley", args...)
	if err != nil {
		return 0, 0, err
	}
	defer c.kill()
	for _, path := range []string{"/readyz", "/v1/sessions", "/v1/interactions"} {
		if err := get(ctx, c.url+path); err != nil {
			return 0, 0, err
		}
	}
	took = ms(time.Since(c.began))
	if err := c.unloaded(ctx); err != nil {
		return 0, 0, err
	}
	if memory, err = c.inUse(); err != nil {
		return 0, 0, err
	}
	return memory, took, nil
}

// tickOf measures the recurring queries of a server to its store when nothing is due.
func tickOf(ctx context.Context, s setting) (float64, error) {
	h, err := build(ctx, s)
	if err != nil {
		return 0, err
	}
	var took []float64
	for range 25 {
		began := time.Now()
		due, err := h.store.Interactions(ctx, parley.System(), seam.InteractionQuery{Due: began, Limit: 100})
		if err != nil || len(due) > 0 {
			return 0, first(fmt.Errorf("%d questions are due: %w", len(due), err), h.close(ctx))
		}
		for _, status := range []parley.SessionStatus{parley.Active, parley.Ended, parley.Expired, ""} {
			q := seam.RestQuery{App: "bench", Status: status, Before: began.Add(-24 * time.Hour), Limit: 100}
			if _, err := h.store.Resting(ctx, parley.System(), q); err != nil {
				return 0, first(err, h.close(ctx))
			}
		}
		took = append(took, ms(time.Since(began)))
	}
	return median(took), h.close(ctx)
}

// overdue makes all questions expire at the same moment. It measures how long closing them
// takes, and how much a user notices of it meanwhile.
func overdue(ctx context.Context, b *bench, what func(string, ...any) string, s setting, n int) error {
	calm, err := build(ctx, s)
	if err != nil {
		return err
	}
	before, err := turnTimes(ctx, calm, func() bool { return true })
	if err := first(err, calm.close(ctx)); err != nil {
		return err
	}
	s.now = func() time.Time { return time.Now().Add(25 * time.Hour) }
	s.tend = 100 * time.Millisecond
	s.idleAfter = 50 * time.Millisecond
	h, err := build(ctx, s)
	if err != nil {
		return err
	}
	began := time.Now()
	open := n
	during, err := turnTimes(ctx, h, func() bool {
		count, err := h.store.CountInteractions(ctx, parley.System())
		open = count[parley.KindPermission]
		return err != nil || open == 0
	})
	took := time.Since(began).Seconds()
	if err := first(err, h.close(ctx)); err != nil {
		return err
	}
	if open > 0 {
		return fmt.Errorf("%d questions are still open", open)
	}
	b.within(what("%d questions that run out at once, closed", n), -1, took, seconds, 60)
	b.line(what("a turn meanwhile, p50"), millis(median(before)), millis(median(during)), fmt.Sprintf("%.2fx", median(during)/median(before)), "", true)
	return nil
}

// turnTimes returns the times of turns in a session, one after the other: at least 20, until
// done.
func turnTimes(ctx context.Context, h *house, done func() bool) (took []float64, err error) {
	made, _, err := h.engine.Create(ctx, person, parley.CreateSession{App: "bench"})
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
		began := time.Now()
		if err := h.turn(ctx, made.ID, "hello"); err != nil {
			return nil, err
		}
		took = append(took, ms(time.Since(began)))
		if len(took) >= 20 && done() {
			break
		}
	}
	return took, nil
}
