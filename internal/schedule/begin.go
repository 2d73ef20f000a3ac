package schedule

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// client is the door that turns of schedules name.
const client = "schedule"

// errWaits says that a run has to wait for the one before.
var errWaits = errors.New("the run before has not ended")

// skip says why a run does not take place.
type skip struct{ why string }

func (s *skip) Error() string { return s.why }

// halt says why a schedule cannot go on until somebody changes it.
type halt struct{ why string }

func (h *halt) Error() string { return h.why }

// begin carries out the run that r has claimed, and notes what came of it. It may have been
// carried out before, by this or another process.
func (s *Schedules) begin(ctx context.Context, row seam.Row, r record) (parley.ScheduleRun, error) {
	of, now := ownerOf(row.RowName), parley.Now(s.o.Now())
	run := r.Pending.Run
	made, err := s.make(ctx, row, r)
	if ctx.Err() != nil && err != nil {
		return run, err // the claim runs out, and is taken up again
	}
	run.At, run.Session, run.Turn = now, made.SessionID, made.ID
	stopped, isSkip := errors.AsType[*skip](err)
	broken, isHalt := errors.AsType[*halt](err)
	switch {
	case err == nil:
		run.Outcome = parley.RunBegun
	case isSkip:
		run.Outcome, run.Reason = parley.RunSkipped, stopped.why
	case isHalt:
		run.Outcome, run.Reason = parley.RunFailed, broken.why
	case passes(err) && now.Sub(r.Pending.Since) < tryFor && !run.Manual:
		return run, s.later(ctx, row, run, err)
	default:
		run.Outcome, run.Reason = parley.RunFailed, parley.Cut(err.Error(), 300)
		if r.Pending.Spec.Session != parley.ScheduleSame && run.Session != "" && run.Turn == "" { // an empty session is of no use to anybody
			if derr := s.engine.Delete(ctx, of, run.Session); derr != nil && !errors.Is(derr, parley.ErrNotFound) {
				return run, derr
			}
			run.Session = ""
		}
	}
	s.o.Logger.DebugContext(ctx, "a schedule's run", "schedule", row.ID, "run", run.ID, "outcome", run.Outcome, "turn", run.Turn)
	_, _, cerr := s.change(context.WithoutCancel(ctx), row.RowName, func(_ int64, now *record) error {
		if now.Pending == nil || now.Pending.Run.ID != run.ID {
			return errSame // another process was faster
		}
		now.Pending = nil
		now.note(run)
		if isHalt {
			now.Paused, now.Why = true, broken.why
		}
		return nil
	})
	if cerr != nil && !errors.Is(cerr, parley.ErrNotFound) { // removed meanwhile
		return run, cerr
	}
	if run.Outcome == parley.RunFailed && run.Manual && !isHalt {
		return run, err
	}
	if isHalt && run.Manual {
		return run, parley.Errorf(parley.CodeConflict, "%s", broken.why)
	}
	return s.looked(ctx, of, run), nil
}

// passes reports whether a refusal may not hold in a while.
func passes(err error) bool {
	switch parley.CodeOf(err) {
	case parley.CodeUnavailable, parley.CodeBusy, parley.CodeRateLimited, parley.CodeTimeout, parley.CodeFenced, parley.CodeInternal:
		return true
	}
	return false
}

// later puts a run off that was refused for a reason that passes.
func (s *Schedules) later(ctx context.Context, row seam.Row, run parley.ScheduleRun, why error) error {
	return s.putOff(ctx, row, run, func(r *record) time.Duration {
		r.Pending.Tries++
		r.Why = parley.Cut("its run is tried again: "+why.Error(), 300)
		wait := min(10*time.Second<<min(r.Pending.Tries-1, 5), 5*time.Minute)
		if e, ok := errors.AsType[*parley.Error](why); ok {
			wait = max(wait, min(e.RetryAfter, 10*time.Minute))
		}
		return wait
	})
}

// putOff has the row of a claimed run looked at again after a while. The run is still claimed.
func (s *Schedules) putOff(ctx context.Context, row seam.Row, run parley.ScheduleRun, do func(r *record) time.Duration) error {
	for range 20 {
		row, r, err := s.read(ctx, row.RowName)
		if err != nil || r.Pending == nil || r.Pending.Run.ID != run.ID {
			if errors.Is(err, parley.ErrNotFound) {
				return nil
			}
			return err
		}
		wait := do(&r)
		if _, err = s.put(ctx, row, r, s.o.Now().Add(wait)); err == nil || !lost(err) {
			return err
		}
	}
	return nil // the claim runs out
}

// make begins the turn of a claimed run. Repeated, it returns the same turn.
func (s *Schedules) make(ctx context.Context, row seam.Row, r record) (parley.TurnInfo, error) {
	of, id, run, spec := ownerOf(row.RowName), row.ID, r.Pending.Run, r.Pending.Spec
	key := "schedule/" + short(id) + "/" + string(run.ID)
	busy := parley.BusyReject
	switch {
	case spec.Overlap == parley.OverlapQueue || r.Pending.InTurn:
		busy = parley.BusyEnqueue
	case spec.Overlap == parley.OverlapCancel:
		busy = parley.BusyInterrupt
	}
	session, err := s.session(ctx, row, r, key)
	if err != nil {
		return parley.TurnInfo{SessionID: session}, err
	}
	info, err := s.engine.Send(ctx, of, session, parley.Send{
		Message: spec.Message, Budgets: spec.Budgets, Busy: busy, Key: key, Client: client, Fixed: true,
		Schedule: &parley.Scheduled{ID: parley.ScheduleID(id), Run: run.ID, Agent: spec.Agent, Asks: spec.Asks == parley.AsksOwner},
	})
	switch {
	case err == nil:
		return info, nil
	case busy == parley.BusyReject && parley.CodeOf(err) == parley.CodeBusy && spec.Session == parley.ScheduleSame && !errors.Is(err, seam.ErrRewinding):
		return parley.TurnInfo{SessionID: session}, &skip{"a turn had not ended in its session"}
	}
	return parley.TurnInfo{SessionID: session}, err
}

// short keeps keys within their limit, and the names of apps' schedules out of them.
func short(id string) string {
	if len(id) <= 26 {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

// overlap decides what becomes of a run in a session of its own while the one before goes on.
func (s *Schedules) overlap(ctx context.Context, of parley.Principal, r record) error {
	for i := len(r.Runs) - 1; i >= 0; i-- {
		before := r.Runs[i]
		if before.Turn == "" || before.ID == r.Pending.Run.ID {
			continue
		}
		t, err := s.engine.Turn(ctx, of, before.Turn)
		if errors.Is(err, parley.ErrNotFound) || err == nil && t.Over() {
			return nil
		}
		switch {
		case err != nil:
			return err
		case r.Pending.InTurn || r.Pending.Spec.Overlap == parley.OverlapQueue:
			return errWaits
		case r.Pending.Spec.Overlap == parley.OverlapCancel:
			_, err := s.engine.Cancel(ctx, of, before.Turn, "the next run of its schedule began")
			return err
		}
		return &skip{"the turn of the run before had not ended"}
	}
	return nil
}

// session is the one that a run's message goes to.
func (s *Schedules) session(ctx context.Context, row seam.Row, r record, key string) (parley.SessionID, error) {
	of, spec := ownerOf(row.RowName), r.Pending.Spec
	if spec.Session != parley.ScheduleSame {
		return s.create(ctx, of, row.ID, spec, key)
	}
	named := cmp.Or(spec.SessionID, r.Own)
	if named != "" {
		info, err := s.engine.Session(ctx, of, named)
		switch {
		case err == nil && info.Status == parley.Active:
			return named, nil
		case err != nil && !errors.Is(err, parley.ErrNotFound):
			return named, err
		case spec.SessionID != "" && err != nil:
			return named, &halt{"its session was deleted"}
		case spec.SessionID != "":
			return named, &halt{fmt.Sprintf("its session has %s", info.Status)}
		}
	}
	// The session that it made is gone, or it has made none. Which one the next is, is kept before
	// it is made, so that a crash in between makes no other.
	_, r, err := s.change(ctx, row.RowName, func(_ int64, now *record) error {
		if now.Own != named {
			return errSame
		}
		if named != "" {
			now.Own, now.Owns = "", now.Owns+1
			return nil
		}
		return errSame
	})
	if err != nil {
		return "", err
	}
	if r.Own != "" {
		return r.Own, nil
	}
	made, err := s.create(ctx, of, row.ID, spec, fmt.Sprintf("schedule/%s/session/%d", short(row.ID), r.Owns))
	if err != nil {
		if parley.CodeOf(err) == parley.CodeDeleted { // since the row was read
			_, _, cerr := s.change(ctx, row.RowName, func(_ int64, now *record) error {
				if now.Owns != r.Owns {
					return errSame
				}
				now.Own, now.Owns = "", now.Owns+1
				return nil
			})
			if cerr != nil {
				return "", cerr
			}
			return "", parley.Errorf(parley.CodeUnavailable, "the session of the schedule was deleted just now")
		}
		return "", err
	}
	_, _, err = s.change(ctx, row.RowName, func(_ int64, now *record) error {
		if now.Owns != r.Owns || now.Own == made {
			return errSame
		}
		now.Own = made
		return nil
	})
	return made, err
}

func (s *Schedules) create(ctx context.Context, of parley.Principal, id string, spec parley.ScheduleSpec, key string) (parley.SessionID, error) {
	info, _, err := s.engine.Create(ctx, of, parley.CreateSession{
		App: spec.App, Title: filled(spec).Name, Model: spec.Model, Mode: spec.Mode, Workspace: spec.Workspace, Key: key, Client: client,
	})
	if parley.CodeOf(err) == parley.CodeKeyReused {
		err = parley.Errorf(parley.CodeConflict, "the session of schedule %s was made with other settings", id)
	}
	return info.ID, err
}

// RunNow begins a run of a schedule, also of one that is paused. A key that was used before
// returns the run that it made.
func (s *Schedules) RunNow(ctx context.Context, p parley.Principal, id parley.ScheduleID, key string) (parley.ScheduleRun, error) {
	run := parley.ScheduleRun{ID: parley.ScheduleRunID("now-" + ulid.MustNew(ulid.Timestamp(s.o.Now()), rand.Reader).String()), Manual: true}
	if key != "" {
		sum := sha256.Sum256([]byte(key))
		run.ID = parley.ScheduleRunID("now-" + hex.EncodeToString(sum[:12]))
	}
	name := nameOf(p, id)
	for range 20 {
		row, r, err := s.read(ctx, name)
		if err != nil {
			return run, err
		}
		for _, done := range r.Runs {
			if done.ID == run.ID {
				return s.looked(ctx, p, done), nil
			}
		}
		switch {
		case r.Pending != nil && r.Pending.Run.ID == run.ID:
			return s.begin(ctx, row, r)
		case r.Pending != nil:
			return run, parley.Errorf(parley.CodeBusy, "a run of the schedule is about to begin").WithHint("try again in a moment").WithRetry(2 * time.Second)
		}
		now := parley.Now(s.o.Now())
		run.For = now
		r.Pending = &pending{Run: run, Spec: r.Spec, Since: now, Go: true}
		if err := s.free(ctx, p, r); err != nil {
			return run, err
		}
		if row.Version, err = s.put(ctx, row, r, now.Add(claimed)); err == nil {
			return s.begin(ctx, row, r)
		} else if !lost(err) {
			return run, err
		}
	}
	return run, parley.Errorf(parley.CodeConflict, "the schedule is being changed by others").WithRetry(time.Second)
}

// free refuses a run that somebody asks for while the one before goes on, unless the schedule
// says that it is cancelled.
func (s *Schedules) free(ctx context.Context, p parley.Principal, r record) error {
	if r.Spec.Session == parley.ScheduleSame || r.Spec.Overlap == parley.OverlapCancel {
		return nil
	}
	err := s.overlap(ctx, p, record{Runs: r.Runs, Pending: &pending{Spec: parley.ScheduleSpec{Overlap: parley.OverlapSkip}}})
	if _, ok := errors.AsType[*skip](err); ok {
		return parley.Errorf(parley.CodeBusy, "the turn of the run before has not ended").WithHint("wait for it, or cancel it")
	}
	return err
}
