// Package schedule begins turns at times, without anybody asking.
//
// A [Schedules] keeps each schedule as a row of the store, of kind seam.RowSchedule, which is
// due when its next run is. [Schedules.Run] takes what is due: it claims the row, by a change
// at the version that it read, then begins a turn through the engine like any other client,
// and then notes the turn in the row.
//
// A run is begun once, whatever happens: its session and its message have idempotency keys
// that are made of the schedule and the time. If the process dies after the claim, the next
// one finds the claim in the row, with everything that the run was to do, and makes the same
// requests again. So do two servers over one database that both believe the claim to be
// theirs. If the schedule is changed meanwhile, the run that was claimed is still as it was.
//
// Nobody is there when such a turn runs. What it would ask is denied, unless the schedule says
// that it waits for its owner. What becomes of times that passed while no server ran, and of a
// run that is due while the one before goes on, is the schedule's to say.
//
// It knows nothing of apps' files and of time zones' data; it reads the clock that it is
// given. Methods are safe for concurrent use.
package schedule

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Store is the part of a store that is used.
type Store interface {
	PutRow(ctx context.Context, p parley.Principal, r seam.Row) (int64, error)
	DropRow(ctx context.Context, p parley.Principal, name seam.RowName, version int64) error
	Row(ctx context.Context, p parley.Principal, name seam.RowName) (seam.Row, error)
	Rows(ctx context.Context, p parley.Principal, q seam.RowQuery) ([]seam.Row, error)
}

// Engine is the part of an engine that is used.
type Engine interface {
	App(name string) (parley.App, error)
	Model(name string) (seam.ModelInfo, error)
	Create(ctx context.Context, p parley.Principal, c parley.CreateSession) (parley.SessionInfo, bool, error)
	Session(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.SessionInfo, error)
	Send(ctx context.Context, p parley.Principal, id parley.SessionID, c parley.Send) (parley.TurnInfo, error)
	Turn(ctx context.Context, p parley.Principal, id parley.TurnID) (parley.TurnInfo, error)
	Cancel(ctx context.Context, p parley.Principal, id parley.TurnID, reason string) (parley.TurnInfo, error)
	Delete(ctx context.Context, p parley.Principal, id parley.SessionID) error
}

// Options of [New].
type Options struct {
	// PerUser is how many schedules a user may have, without those of apps. 0 means 50.
	PerUser int
	// Shortest is the shortest time between two runs of a schedule. 0 means 5 minutes.
	Shortest time.Duration
	// Allowed says why nothing may be begun for a user any more, or nil. Nil: everybody is allowed.
	Allowed func(p parley.Principal) error
	// Clean removes secrets from a text. A text that it changes is refused. Nil: there are none.
	Clean func(text string) string
	// Changes looks at the lake of a workspace: its last commit, and whether one since another is of somebody else than the given turns
	// and than proposals that were applied. since "": only the last commit is asked for. Nil: there are no lakes.
	Changes func(ctx context.Context, p parley.Principal, app string, ws parley.Workspace, since string, own []parley.TurnID) (head string, others bool, err error)
	Now     func() time.Time // nil: time.Now
	Logger  *slog.Logger     // nil: discarded
}

// Schedules are those of all users.
type Schedules struct {
	o      Options
	store  Store
	engine Engine
	wake   chan struct{}

	mu    sync.Mutex
	hands map[seam.RowName]bool // what is being worked on
	seen  map[seam.RowName]seen // rows whose lakes were looked at
	adds  sync.Mutex            // one new schedule at a time, so that the limit holds
}

// New makes Schedules. Nothing begins before Run.
func New(store Store, engine Engine, o Options) *Schedules {
	o.PerUser = cmp.Or(o.PerUser, 50)
	o.Shortest = cmp.Or(o.Shortest, 5*time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Schedules{o: o, store: store, engine: engine, wake: make(chan struct{}, 1), hands: map[seam.RowName]bool{}, seen: map[seam.RowName]seen{}}
}

const (
	// maxRuns is how many runs of a schedule are kept.
	maxRuns = 40
	// maxSpec is the longest form of what a schedule does, in bytes of JSON. A row has it twice, and
	// the runs.
	maxSpec = 20 << 10
	// appPrefix begins the ids of schedules that apps define.
	appPrefix = "app:"
)

// record is the body of a row.
type record struct {
	Spec    parley.ScheduleSpec  `json:"spec"`
	Asked   parley.Digest        `json:"asked,omitempty"`   // of what a user asked for at first
	Defined parley.Digest        `json:"defined,omitempty"` // of what an app's file says; empty: a user made it
	Made    time.Time            `json:"made"`
	Changed time.Time            `json:"changed"`
	Paused  bool                 `json:"paused,omitempty"`
	Why     string               `json:"why,omitempty"`
	For     time.Time            `json:"for,omitzero"` // the next time, by the expression
	Own     parley.SessionID     `json:"own,omitempty"`
	Owns    int                  `json:"owns,omitempty"` // sessions that it has made to use each time
	Pending *pending             `json:"pending,omitempty"`
	Runs    []parley.ScheduleRun `json:"runs,omitempty"` // the newest last
	Watch   watch                `json:"watch,omitzero"`
}

// pending is a run that was claimed and whose turn may or may not have begun.
type pending struct {
	Run    parley.ScheduleRun  `json:"run"`
	Spec   parley.ScheduleSpec `json:"spec"` // when it was claimed
	Since  time.Time           `json:"since"`
	Tries  int                 `json:"tries,omitempty"`
	InTurn bool                `json:"in_turn,omitempty"` // it waits for the run before, whatever Overlap says
	Go     bool                `json:"go,omitempty"`      // nothing is in its way: its turn may have begun
}

func (r *record) expr() (Expr, error) { return exprOf(r.Spec) }

// due is when somebody has to look at the row.
func (r *record) due(of parley.Principal, id parley.ScheduleID) time.Time {
	if r.Paused || r.For.IsZero() {
		return time.Time{}
	}
	return r.For.Add(delay(of, id, r.Spec.Jitter))
}

// note appends a run.
func (r *record) note(run parley.ScheduleRun) {
	r.Runs = append(r.Runs, run)
	r.Runs = slices.Clone(r.Runs[max(0, len(r.Runs)-maxRuns):])
}

func ownerOf(n seam.RowName) parley.Principal { return parley.Principal{User: n.User, Org: n.Org} }

func nameOf(p parley.Principal, id parley.ScheduleID) seam.RowName {
	return seam.RowName{Kind: seam.RowSchedule, User: p.User, Org: p.Org, ID: string(id)}
}

var errNone = parley.Errorf(parley.CodeNotFound, "there is no such schedule").WithHint("check the id; what belongs to another user is reported as not found, too")

// read returns a schedule's row.
func (s *Schedules) read(ctx context.Context, name seam.RowName) (seam.Row, record, error) {
	row, err := s.store.Row(ctx, parley.System(), name)
	if errors.Is(err, parley.ErrNotFound) {
		return row, record{}, errNone
	}
	if err != nil {
		return row, record{}, err
	}
	var r record
	if err := json.Unmarshal(row.Body, &r); err != nil {
		return row, r, parley.Errorf(parley.CodeInternal, "schedule %s cannot be read: %w", name.ID, err)
	}
	return row, r, nil
}

// put stores a record in its row. While a run is pending, the row is due at claim.
func (s *Schedules) put(ctx context.Context, row seam.Row, r record, claim time.Time) (int64, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	row.Body, row.Due, row.Open = body, r.look(r.due(ownerOf(row.RowName), parley.ScheduleID(row.ID))), false
	if r.Pending != nil {
		row.Due = claim
	}
	if !row.Due.IsZero() {
		row.Due, row.Open = parley.Now(row.Due), true
	}
	version, err := s.store.PutRow(ctx, parley.System(), row)
	if err == nil {
		s.ring()
	}
	return version, err
}

// errSame says that there is nothing to change.
var errSame = errors.New("nothing is changed")

// change changes a schedule, whoever else changes it meanwhile. do gets it as it is then. A run
// that is pending stays due as it was.
func (s *Schedules) change(ctx context.Context, name seam.RowName, do func(version int64, r *record) error) (seam.Row, record, error) {
	for range 20 {
		row, r, err := s.read(ctx, name)
		if err != nil {
			return row, r, err
		}
		if err := do(row.Version, &r); errors.Is(err, errSame) {
			return row, r, nil
		} else if err != nil {
			return row, r, err
		}
		version, err := s.put(ctx, row, r, row.Due)
		if err == nil {
			row.Version = version
			return row, r, nil
		}
		if !lost(err) {
			return row, r, err
		}
	}
	return seam.Row{}, record{}, parley.Errorf(parley.CodeConflict, "the schedule is being changed by others").WithRetry(time.Second)
}

// lost reports whether err says that a row has changed or gone.
func lost(err error) bool {
	return parley.CodeOf(err) == parley.CodeConflict || errors.Is(err, parley.ErrNotFound)
}

func (s *Schedules) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// List lists the schedules of p.
func (s *Schedules) List(ctx context.Context, p parley.Principal, app string) ([]parley.Schedule, error) {
	rows, err := s.rows(ctx, p)
	if err != nil {
		return nil, err
	}
	list := []parley.Schedule{}
	for _, row := range rows {
		var r record
		if json.Unmarshal(row.Body, &r) != nil || app != "" && r.Spec.App != app {
			continue
		}
		list = append(list, s.shown(ctx, row, r))
	}
	return list, nil
}

// rows are all of p.
func (s *Schedules) rows(ctx context.Context, p parley.Principal) (all []seam.Row, err error) {
	q := seam.RowQuery{Kind: seam.RowSchedule, User: p.User, Org: p.Org, Limit: 500}
	for {
		page, err := s.store.Rows(ctx, p, q)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
		q.After = q.Mark(page[len(page)-1])
	}
}

// Schedule reads a schedule.
func (s *Schedules) Schedule(ctx context.Context, p parley.Principal, id parley.ScheduleID) (parley.Schedule, error) {
	row, r, err := s.read(ctx, nameOf(p, id))
	if err != nil {
		return parley.Schedule{}, err
	}
	return s.shown(ctx, row, r), nil
}

// shown is a schedule as its owner sees it.
func (s *Schedules) shown(ctx context.Context, row seam.Row, r record) parley.Schedule {
	of, id := ownerOf(row.RowName), parley.ScheduleID(row.ID)
	spec := filled(r.Spec)
	if spec.Session == parley.ScheduleSame && spec.SessionID == "" {
		spec.SessionID = r.Own
	}
	out := parley.Schedule{
		ID: id, ScheduleSpec: spec, FromApp: r.Defined != "", Paused: r.Paused, Why: r.Why, NextAt: r.due(of, id),
		CreatedAt: r.Made, UpdatedAt: r.Changed, Version: row.Version,
	}
	if n := len(r.Runs); n > 0 {
		last := s.looked(ctx, of, r.Runs[n-1])
		out.Last = &last
	}
	return out
}

// looked is a run with what its turn is now.
func (s *Schedules) looked(ctx context.Context, of parley.Principal, run parley.ScheduleRun) parley.ScheduleRun {
	if run.Turn == "" {
		return run
	}
	t, err := s.engine.Turn(ctx, of, run.Turn)
	if err != nil {
		return run
	}
	run.Status = t.Status
	switch {
	case t.Error != nil:
		run.Says = parley.Cut(t.Error.Message, 300)
	case t.Response != nil:
		run.Says = parley.Cut(t.Response.Message, 300)
	case t.Reason != "":
		run.Says = parley.Cut(t.Reason, 300)
	}
	return run
}

// Runs lists the last runs of a schedule, the newest first.
func (s *Schedules) Runs(ctx context.Context, p parley.Principal, id parley.ScheduleID) ([]parley.ScheduleRun, error) {
	_, r, err := s.read(ctx, nameOf(p, id))
	if err != nil {
		return nil, err
	}
	list := []parley.ScheduleRun{}
	for _, run := range slices.Backward(r.Runs) {
		list = append(list, s.looked(ctx, p, run))
	}
	return list, nil
}

// Add makes a schedule. A key that was used before returns the schedule that it made.
func (s *Schedules) Add(ctx context.Context, p parley.Principal, spec parley.ScheduleSpec, key string) (parley.Schedule, error) {
	asked, err := digestOf(spec)
	if err != nil {
		return parley.Schedule{}, err
	}
	s.adds.Lock()
	defer s.adds.Unlock()
	now := parley.Now(s.o.Now())
	id := parley.ScheduleID(ulid.MustNew(ulid.Timestamp(now), rand.Reader).String())
	if key != "" {
		sum := sha256.Sum256([]byte(key))
		id = parley.ScheduleID("k-" + hex.EncodeToString(sum[:12]))
		row, r, err := s.read(ctx, nameOf(p, id))
		switch {
		case err == nil && r.Asked != asked:
			return parley.Schedule{}, parley.Errorf(parley.CodeKeyReused, "the idempotency key was used for another schedule").WithHint("use a new key")
		case err == nil:
			return s.shown(ctx, row, r), nil
		case !errors.Is(err, parley.ErrNotFound):
			return parley.Schedule{}, err
		}
	}
	spec, e, err := s.check(ctx, p, spec)
	if err != nil {
		return parley.Schedule{}, err
	}
	rows, err := s.rows(ctx, p)
	if err != nil {
		return parley.Schedule{}, err
	}
	own := slices.DeleteFunc(rows, func(r seam.Row) bool { return strings.HasPrefix(r.ID, appPrefix) })
	if len(own) >= s.o.PerUser {
		return parley.Schedule{}, parley.Errorf(parley.CodeTooLarge, "you have %d schedules, which is the limit", len(own)).WithHint("delete one that you do not need")
	}
	r := record{Spec: spec, Asked: asked, Made: now, Changed: now, For: e.Next(now)}
	row := seam.Row{RowName: nameOf(p, id), Version: seam.NoRow}
	if row.Version, err = s.put(ctx, row, r, time.Time{}); err != nil {
		return parley.Schedule{}, err
	}
	return s.shown(ctx, row, r), nil
}

// Update changes a schedule.
func (s *Schedules) Update(ctx context.Context, p parley.Principal, id parley.ScheduleID, u parley.UpdateSchedule) (parley.Schedule, error) {
	row, r, err := s.change(ctx, nameOf(p, id), func(version int64, r *record) error {
		if u.ExpectedVersion != 0 && u.ExpectedVersion != version {
			return parley.Errorf(parley.CodeConflict, "the schedule has changed since").WithField("expected_version").WithHint("read it and decide again")
		}
		now := parley.Now(s.o.Now())
		spec := changed(r.Spec, u)
		if spec != r.Spec {
			if r.Defined != "" {
				return parley.Errorf(parley.CodeForbidden, "the app %s defines this schedule", r.Spec.App).WithHint("it can be paused and run here, and changed in the app's file")
			}
			checked, e, err := s.check(ctx, p, spec)
			if err != nil {
				return err
			}
			if checked.Cron != r.Spec.Cron || checked.Zone != r.Spec.Zone {
				r.For = e.Next(now)
			}
			if !sameLake(checked, r.Spec) {
				r.Watch = watch{}
			}
			r.Spec, r.Changed, r.Why = checked, now, ""
		}
		if u.Paused == nil || *u.Paused == r.Paused {
			return nil
		}
		r.Paused, r.Why, r.Changed = *u.Paused, "", now
		if !r.Paused {
			e, err := r.expr()
			if err != nil {
				return err
			}
			r.For = e.Next(now)
		}
		return nil
	})
	if err != nil {
		return parley.Schedule{}, err
	}
	return s.shown(ctx, row, r), nil
}

// Remove removes a schedule. The sessions and turns that it began stay.
func (s *Schedules) Remove(ctx context.Context, p parley.Principal, id parley.ScheduleID) error {
	_, r, err := s.read(ctx, nameOf(p, id))
	switch {
	case err == nil && r.Defined != "":
		return parley.Errorf(parley.CodeForbidden, "the app %s defines this schedule", r.Spec.App).WithHint("pause it, or remove it from the app's file")
	case err != nil:
		return err
	}
	err = s.store.DropRow(ctx, parley.System(), nameOf(p, id), seam.AnyRow)
	if errors.Is(err, parley.ErrNotFound) {
		return errNone
	}
	return err
}

func digestOf(spec parley.ScheduleSpec) (parley.Digest, error) {
	body, err := json.Marshal(spec)
	sum := sha256.Sum256(body)
	return parley.Digest(hex.EncodeToString(sum[:])), err
}
