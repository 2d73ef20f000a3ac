package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	// maxHands is how many runs are begun at once.
	maxHands = 16
	// claimed is how long a run that is being begun is left alone: a server that died over it
	// does not come back.
	claimed = time.Minute
	// scanEvery is how often the store is asked without a reason: another server may have added
	// a schedule.
	scanEvery = 30 * time.Second
	// late is how late a run may be and still count as on time.
	late = 10 * time.Minute
	// maxAll is how many missed times are made up for one by one.
	maxAll = 20
	// maxMissed is how many missed times are counted.
	maxMissed = 50_000
	// offWait is how long a schedule is left alone whose app is off.
	offWait = 5 * time.Minute
	// queueWait is how often a run that waits for the one before is looked at.
	queueWait = 10 * time.Second
	// tryFor is how long a run is tried that is refused for a reason that passes.
	tryFor = time.Hour
)

// Run begins what is due until ctx ends, and waits for what is under way.
func (s *Schedules) Run(ctx context.Context) {
	var hands sync.WaitGroup
	defer hands.Wait()
	free := make(chan struct{}, maxHands)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
		next, err := s.scan(ctx, &hands, free)
		if err != nil && ctx.Err() == nil {
			s.o.Logger.WarnContext(ctx, "what is due cannot be read", "err", err)
		}
		timer.Reset(next)
	}
}

// scan hands out what is due, and returns when to look again.
func (s *Schedules) scan(ctx context.Context, hands *sync.WaitGroup, free chan struct{}) (time.Duration, error) {
	now, wait := s.o.Now(), scanEvery
	q := seam.RowQuery{Kind: seam.RowSchedule, Open: true, Due: now.Add(scanEvery), Limit: 100}
	for {
		rows, err := s.store.Rows(ctx, parley.System(), q)
		if err != nil || len(rows) == 0 {
			return wait, err
		}
		for _, row := range rows {
			if row.Due.After(now) {
				return min(wait, max(row.Due.Sub(now), time.Millisecond)), nil
			}
			if until := s.quiet(row); until.After(now) {
				wait = min(wait, max(until.Sub(now), time.Millisecond))
				continue
			}
			if !s.take(row.RowName) {
				continue
			}
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
				s.leave(row.RowName)
				return wait, nil
			}
			hands.Go(func() {
				defer func() { s.leave(row.RowName); <-free; s.ring() }()
				if err := s.handle(ctx, row); err != nil && ctx.Err() == nil && !lost(err) {
					s.o.Logger.WarnContext(ctx, "a schedule could not be carried out", "schedule", row.ID, "err", err)
					s.rest(ctx)
				}
			})
		}
		q.After = q.Mark(rows[len(rows)-1])
	}
}

// rest keeps a hand busy for a while, so that a store that is away is not asked all the time.
func (s *Schedules) rest(ctx context.Context) {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func (s *Schedules) take(n seam.RowName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hands[n] {
		return false
	}
	s.hands[n] = true
	return true
}

func (s *Schedules) leave(n seam.RowName) {
	s.mu.Lock()
	delete(s.hands, n)
	s.mu.Unlock()
}

// handle does what a due row asks for.
func (s *Schedules) handle(ctx context.Context, row seam.Row) error {
	var r, was record
	of, id, now := ownerOf(row.RowName), parley.ScheduleID(row.ID), parley.Now(s.o.Now())
	if err := errors.Join(json.Unmarshal(row.Body, &r), json.Unmarshal(row.Body, &was)); err != nil {
		row.Open = false
		_, perr := s.store.PutRow(ctx, parley.System(), row)
		return errors.Join(err, perr)
	}
	if _, err := s.engine.App(r.Spec.App); err != nil { // when it is back, what passed counts as missed
		r.Why = parley.Cut("it waits: "+err.Error(), 300)
		if row.Body, err = json.Marshal(r); err == nil {
			row.Due = parley.Now(now.Add(offWait))
			_, err = s.store.PutRow(ctx, parley.System(), row)
		}
		return err
	}
	if why := s.refused(of); why != "" {
		r.Paused, r.Why, r.Pending = true, why, nil
		_, err := s.put(ctx, row, r, time.Time{})
		return err
	}
	e, err := r.expr()
	if err != nil { // the zone is not known here
		r.Paused, r.Why, r.Pending = true, parley.Cut(err.Error(), 300), nil
		_, err := s.put(ctx, row, r, time.Time{})
		return err
	}
	wait := delay(of, id, r.Spec.Jitter)
	r.Why = ""
	if r.Pending == nil {
		plan(&r, e, wait, now)
	}
	if r.Pending == nil {
		if err := s.watch(ctx, of, &r, now); err != nil {
			return err
		}
	}
	claim := now.Add(claimed)
	if r.Pending != nil && !r.Pending.Go {
		err := s.overlap(ctx, of, r)
		stopped, isSkip := errors.AsType[*skip](err)
		switch {
		case err == nil:
			r.Pending.Go = true
		case errors.Is(err, errWaits):
			r.queue(e, wait, now)
			claim = now.Add(queueWait)
		case isSkip:
			run := r.Pending.Run
			run.At, run.Outcome, run.Reason = now, parley.RunSkipped, stopped.why
			r.Pending = nil
			r.note(run)
		default:
			return err
		}
	}
	if next := r.look(r.due(of, id)); next.After(now) && r.onlyLooked(was) {
		s.leaveAlone(row, next, now)
		return nil
	}
	version, err := s.put(ctx, row, r, claim)
	if err != nil || r.Pending == nil || !r.Pending.Go {
		return err
	}
	row.Version = version
	_, err = s.begin(ctx, row, r)
	return err
}

// queue has the pending run wait for the one before. If the next one is due as well, that takes
// its place.
func (r *record) queue(e Expr, wait time.Duration, now time.Time) {
	r.Why = "its run waits for the one before to end"
	if r.Pending.InTurn || r.For.IsZero() || r.For.Add(wait).After(now) {
		return
	}
	run := r.Pending.Run
	run.At, run.Outcome, run.Reason = now, parley.RunSkipped, "the next one was due before the one before had ended"
	r.note(run)
	r.Pending = nil
	plan(r, e, wait, now)
}

// refused says why nothing is begun for a user any more, or "".
func (s *Schedules) refused(of parley.Principal) string {
	if s.o.Allowed == nil {
		return ""
	}
	if err := s.o.Allowed(of); err != nil {
		return parley.Cut(err.Error(), 300)
	}
	return ""
}

// plan decides what a record whose time has come has to do now: which run is claimed, what is
// noted as missed, and which time is next. wait is the schedule's part of the jitter.
func plan(r *record, e Expr, wait time.Duration, now time.Time) {
	var times []time.Time // the last of them, the oldest first
	count, next := 0, r.For
	for !next.IsZero() && !next.Add(wait).After(now) {
		if count++; count > maxMissed {
			next = e.Next(now.Add(-wait))
			break
		}
		if times = append(times, next); len(times) > maxAll {
			times = times[1:]
		}
		next = e.Next(next)
	}
	if count == 0 {
		return
	}
	last := times[len(times)-1]
	claim := func(at time.Time, missed int) {
		r.Pending = &pending{Run: parley.ScheduleRun{ID: runID(at), For: at, Missed: missed}, Spec: r.Spec, Since: now, Go: r.Spec.Session == parley.ScheduleSame}
	}
	r.For = next
	switch onTime := now.Sub(last.Add(wait)) <= late; {
	case r.Spec.Missed == parley.MissedSkip && !onTime:
		r.note(parley.ScheduleRun{ID: runID(last), For: last, At: now, Outcome: parley.RunMissed, Missed: count - 1, Reason: "no server ran, or the app was off"})
	case r.Spec.Missed == parley.MissedAll && len(times) > 1:
		claim(times[0], count-len(times))
		r.Pending.InTurn = true
		r.For = times[1]
	case r.Spec.Missed == parley.MissedAll:
		claim(last, 0)
		r.Pending.InTurn = !onTime
	default:
		claim(last, count-1)
	}
}

// runID is the id of the run of a time.
func runID(at time.Time) parley.ScheduleRunID {
	return parley.ScheduleRunID(at.UTC().Format("20060102T1504Z"))
}
