package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Define makes the schedules that the file of an app defines, by name, those of a user: a new
// one is added, one that has changed in the file is changed, and one that is not there any more
// is removed, as are those that belonged to another user. Whether one is paused, and its runs,
// stay. A nil map removes all of the app. Errors name the schedules that could not be made; the
// others are.
func (s *Schedules) Define(ctx context.Context, of parley.Principal, app string, specs map[string]parley.ScheduleSpec) error {
	prefix := appPrefix + app + ":"
	q := seam.RowQuery{Kind: seam.RowSchedule, Limit: 500}
	var there []seam.Row
	for {
		page, err := s.store.Rows(ctx, parley.System(), q)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, row := range page {
			if strings.HasPrefix(row.ID, prefix) {
				there = append(there, row)
			}
		}
		q.After = q.Mark(page[len(page)-1])
	}
	var wrong []error
	for _, row := range there {
		name := strings.TrimPrefix(row.ID, prefix)
		if _, ok := specs[name]; ok && ownerOf(row.RowName) == of {
			continue
		}
		if err := s.store.DropRow(ctx, parley.System(), row.RowName, seam.AnyRow); err != nil && !errors.Is(err, parley.ErrNotFound) {
			wrong = append(wrong, err)
		}
	}
	for name, spec := range specs {
		if err := s.define(ctx, of, parley.ScheduleID(prefix+name), spec); err != nil {
			wrong = append(wrong, parley.Errorf(parley.CodeOf(err), "schedule %s: %w", name, err))
		}
	}
	return errors.Join(wrong...)
}

// Untouched reports whether a row is a schedule of an app's file that nothing has happened to: a
// server that starts makes it anew.
func Untouched(row seam.Row) bool {
	var r record
	if row.Kind != seam.RowSchedule || !strings.HasPrefix(row.ID, appPrefix) || json.Unmarshal(row.Body, &r) != nil {
		return false
	}
	return r.Defined != "" && !r.Paused && r.Pending == nil && len(r.Runs) == 0 && r.Own == ""
}

func (s *Schedules) define(ctx context.Context, of parley.Principal, id parley.ScheduleID, spec parley.ScheduleSpec) error {
	spec, e, err := s.check(ctx, of, spec)
	if err != nil {
		return err
	}
	digest, err := digestOf(spec)
	if err != nil {
		return err
	}
	now := parley.Now(s.o.Now())
	_, _, err = s.change(ctx, nameOf(of, id), func(_ int64, r *record) error {
		if r.Defined == digest {
			return errSame
		}
		if r.Spec.Cron != spec.Cron || r.Spec.Zone != spec.Zone {
			r.For = e.Next(now)
		}
		if !sameLake(r.Spec, spec) {
			r.Watch = watch{}
		}
		r.Spec, r.Defined, r.Changed = spec, digest, now
		return nil
	})
	if !errors.Is(err, parley.ErrNotFound) {
		return err
	}
	r := record{Spec: spec, Defined: digest, Made: now, Changed: now, For: e.Next(now)}
	if _, err = s.put(ctx, seam.Row{RowName: nameOf(of, id), Version: seam.NoRow}, r, time.Time{}); lost(err) {
		return nil // another server made it at the same time
	}
	return err
}
