package schedule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// A schedule that runs on a change looks at its lake every lookEvery. Nothing tells it of a change: others change a lake with programs of
// their own, also while no server runs. What it has seen is in its row, and a run is claimed by the same change of the row that says up to
// which commit the changes are dealt with. So each batch of changes has one run, whatever dies in between.

const (
	// lookEvery is how often a lake is looked at.
	lookEvery = 30 * time.Second
	// awayEvery is how often a lake is looked at that cannot be.
	awayEvery = 5 * time.Minute
	// patience is how many times OnChange a run is put off at most, because the lake is changed all the time.
	patience = 10
)

// watch is what a schedule has seen of its lake.
type watch struct {
	At    time.Time `json:"at,omitzero"`    // when to look next
	Done  string    `json:"done,omitempty"` // the commit up to which changes are dealt with; "": it was not looked at yet
	Head  string    `json:"head,omitempty"` // the last commit of changes that have no run yet; "": there are none
	Since time.Time `json:"since,omitzero"` // when the first of these was seen
	Last  time.Time `json:"last,omitzero"`  // when the last of these was seen
}

// exprOf is the expression of a schedule. One that runs on a change may have none.
func exprOf(spec parley.ScheduleSpec) (Expr, error) {
	if spec.Cron == "" && spec.OnChange != 0 {
		_, err := Parse("@daily", spec.Zone)
		return Expr{}, err
	}
	return Parse(spec.Cron, spec.Zone)
}

// sameLake reports whether two schedules watch the same.
func sameLake(a, b parley.ScheduleSpec) bool {
	return a.App == b.App && a.Workspace == b.Workspace && (a.OnChange > 0) == (b.OnChange > 0)
}

// look is when a row is looked at that is due by its times at some time, or never.
func (r *record) look(due time.Time) time.Time {
	at := r.Watch.At
	if r.Paused || r.Spec.OnChange == 0 {
		return due
	}
	if at.IsZero() {
		at = r.Changed
	}
	if due.IsZero() || at.Before(due) {
		return at
	}
	return due
}

// watch looks at the lake if it is time, and claims a run for changes that are over.
func (s *Schedules) watch(ctx context.Context, of parley.Principal, r *record, now time.Time) error {
	w := &r.Watch
	if r.Spec.OnChange == 0 || s.o.Changes == nil || w.At.After(now) {
		return nil
	}
	w.At = now.Add(lookEvery)
	before := w.Head
	if before == "" {
		before = w.Done
	}
	head, others, err := s.o.Changes(ctx, of, r.Spec.App, r.Spec.Workspace, before, r.turns())
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		w.At, r.Why = now.Add(awayEvery), parley.Cut("its lake cannot be looked at: "+err.Error(), 300)
		return nil
	}
	quiet := time.Duration(r.Spec.OnChange) * time.Second
	switch {
	case head == "":
		return nil // nothing was ever committed
	case w.Done == "":
		w.Done = head // what was there before is no change
	case head == before:
	case others:
		if w.Head == "" {
			w.Since = now
		}
		w.Head, w.Last = head, now
	case w.Head != "":
		w.Head = head
	default:
		w.Done = head
	}
	if w.Head == "" || now.Sub(w.Last) < quiet && now.Sub(w.Since) < patience*quiet || now.Sub(r.began()) < s.o.Shortest {
		return nil
	}
	claim := &pending{
		Run:  parley.ScheduleRun{ID: parley.ScheduleRunID(fmt.Sprintf("change-%s-%.10s", now.UTC().Format("20060102T150405Z"), w.Head)), For: now, Change: w.Head},
		Spec: r.Spec, Since: now, Go: r.Spec.Session == parley.ScheduleSame, InTurn: r.Spec.Overlap != parley.OverlapCancel,
	}
	// A change is not skipped: while the turn of the run before goes on, it waits for it.
	err = s.overlap(ctx, of, record{Runs: r.Runs, Pending: &pending{Run: claim.Run, Spec: parley.ScheduleSpec{Overlap: parley.OverlapQueue}}})
	switch {
	case errors.Is(err, errWaits) && r.Spec.Overlap != parley.OverlapCancel:
		r.Why = "the lake was changed, and its run waits for the one before to end"
		return nil
	case err != nil && !errors.Is(err, errWaits):
		return err
	}
	r.Pending = claim
	r.Watch = watch{At: w.At, Done: w.Head}
	return nil
}

// turns are those that the schedule has begun: what they change is its own.
func (r *record) turns() (list []parley.TurnID) {
	for _, run := range r.Runs {
		if run.Turn != "" {
			list = append(list, run.Turn)
		}
	}
	return list
}

// began is when the last run was begun that was not asked for by a person.
func (r *record) began() (at time.Time) {
	for _, run := range r.Runs {
		if run.Turn != "" && !run.Manual {
			at = run.At
		}
	}
	return at
}

// seen says that a row was looked at, and has nothing new until a time. It is in memory alone: a row that changed each time would have another
// version for everybody who is about to change the schedule.
type seen struct {
	version int64
	until   time.Time
}

// onlyLooked reports whether nothing of a record has changed but when its lake is looked at next.
func (r *record) onlyLooked(was record) bool {
	if r.Spec.OnChange == 0 {
		return false
	}
	now := *r
	now.Watch.At = was.Watch.At
	a, aerr := json.Marshal(now)
	b, berr := json.Marshal(was)
	return aerr == nil && berr == nil && bytes.Equal(a, b)
}

// leaveAlone leaves a row alone until a time, unless it is changed.
func (s *Schedules) leaveAlone(row seam.Row, until, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, one := range s.seen { // of rows that are not there any more, or belong to others
		if now.Sub(one.until) > 2*awayEvery {
			delete(s.seen, name)
		}
	}
	s.seen[row.RowName] = seen{row.Version, until}
}

// quiet is until when a row is left alone; zero: it is not.
func (s *Schedules) quiet(row seam.Row) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one, ok := s.seen[row.RowName]; ok && one.version == row.Version {
		return one.until
	}
	return time.Time{}
}
