package parley

import "time"

// ScheduleID identifies a schedule.
type ScheduleID string

// Schedule begins turns at times, without anybody asking.
type Schedule struct {
	ID ScheduleID `json:"id"`
	ScheduleSpec
	// FromApp says that the app's file defines it. It can be paused and run, and is changed
	// there.
	FromApp bool `json:"from_app,omitempty"`
	Paused  bool `json:"paused"`
	// Why says why the server paused it, or why its next run waits.
	Why       string       `json:"why,omitempty"`
	NextAt    time.Time    `json:"next_at,omitzero"` // zero while it is paused, or when there is no further time
	Last      *ScheduleRun `json:"last,omitempty"`
	CreatedAt time.Time    `json:"created_at"`
	UpdatedAt time.Time    `json:"updated_at"`
	Version   int64        `json:"version"` // for expected_version
}

// ScheduleSpec is what a schedule does, and when.
type ScheduleSpec struct {
	App  string `json:"app" maxLength:"64"`
	Name string `json:"name,omitempty" maxLength:"100"` // for people, and the title of new sessions; empty: the beginning of the message
	// Cron has five fields: minute, hour, day of the month, month, day of the week, such as
	// "0 7 * * mon-fri"; or it is @hourly, @daily, @weekly, @monthly or @yearly. Empty: there are no times, and OnChange is set.
	Cron string `json:"cron" maxLength:"200" required:"false"`
	// OnChange begins a run when the lake of the workspace was changed by somebody else and nobody has changed it for so many seconds since,
	// or for ten times as many at most. 0: changes begin none.
	OnChange int `json:"on_change_seconds,omitempty" minimum:"0" maximum:"86400"`
	// Zone is the time zone of Cron. A time that does not exist, because the clock is set forward
	// over it, counts as the moment when that happens. A time that exists twice counts once,
	// unless the expression is for every hour. Empty: UTC.
	Zone string `json:"time_zone,omitempty" maxLength:"60"`
	// Jitter delays each run by the same part of so many seconds, which depends on the schedule,
	// so that not all that is due at midnight begins at midnight.
	Jitter int `json:"jitter_seconds,omitempty" minimum:"0" maximum:"86400"`
	// Missed is what becomes of times that passed while no server ran. Empty: once.
	Missed MissedPolicy `json:"missed,omitempty" enum:"skip,once,all"`
	// Overlap is what becomes of a run that is due while the one before has not ended. Empty: skip.
	Overlap OverlapPolicy `json:"overlap,omitempty" enum:"skip,queue,cancel"`

	Message string `json:"message" maxLength:"12288"`
	// Session is where the message goes. Empty: new.
	Session   ScheduleSession `json:"session,omitempty" enum:"new,same"`
	SessionID SessionID       `json:"session_id,omitempty" maxLength:"64"` // with same: that session; empty: one that the first run makes
	Agent     string          `json:"agent,omitempty" maxLength:"64"`      // the agent that gets the message; empty: the app's entry agent
	Model     string          `json:"model,omitempty" maxLength:"200"`
	Mode      PermissionMode  `json:"mode,omitempty" enum:"default,acceptEdits,plan,bypassPermissions"` // of sessions that the schedule makes
	Workspace Workspace       `json:"workspace,omitempty" maxLength:"200"`                              // the same
	Budgets   Budgets         `json:"budgets,omitzero"`                                                 // of each turn
	// Asks is who answers what a turn asks. Empty: nobody.
	Asks ScheduleAsks `json:"asks,omitempty" enum:"nobody,owner"`
}

// MissedPolicy is what becomes of the times of a schedule that passed while no server ran.
type MissedPolicy string

const (
	MissedSkip MissedPolicy = "skip" // nothing
	MissedOnce MissedPolicy = "once" // one run for all of them
	MissedAll  MissedPolicy = "all"  // a run for each of the last 20, one after the other
)

// OverlapPolicy is what becomes of a run that is due while the one before has not ended.
type OverlapPolicy string

const (
	OverlapSkip   OverlapPolicy = "skip"   // it does not take place
	OverlapQueue  OverlapPolicy = "queue"  // it waits; of several, the last one
	OverlapCancel OverlapPolicy = "cancel" // it begins, and the one before is cancelled
)

// ScheduleSession is where the message of a schedule goes.
type ScheduleSession string

const (
	ScheduleNew  ScheduleSession = "new"  // to a new session each time
	ScheduleSame ScheduleSession = "same" // to the same session each time
)

// ScheduleAsks is who answers what a turn of a schedule asks.
type ScheduleAsks string

const (
	AsksNobody ScheduleAsks = "nobody" // what would be asked for is denied, and the agent is told so
	AsksOwner  ScheduleAsks = "owner"  // the turn waits; the owner's devices are told, as for any turn
)

// ScheduleRunID identifies a run of a schedule.
type ScheduleRunID string

// ScheduleRun is one time of a schedule and what came of it.
type ScheduleRun struct {
	ID      ScheduleRunID   `json:"id"`
	For     time.Time       `json:"for"` // the time by the expression
	At      time.Time       `json:"at"`  // when it was begun or given up
	Manual  bool            `json:"manual,omitempty"`
	Change  string          `json:"change,omitempty"` // the last commit of the changes that it is about
	Outcome ScheduleOutcome `json:"outcome"`
	Reason  string          `json:"reason,omitempty"` // why it was not begun
	Missed  int             `json:"missed,omitempty"` // times that passed before it without a run of their own
	Session SessionID       `json:"session_id,omitempty"`
	Turn    TurnID          `json:"turn_id,omitempty"`
	Status  TurnStatus      `json:"status,omitempty"` // of the turn now; empty: there is none, or it was deleted
	Says    string          `json:"says,omitempty"`   // the beginning of the turn's answer, or of its error
}

// ScheduleOutcome is what became of a run.
type ScheduleOutcome string

const (
	RunBegun   ScheduleOutcome = "begun"   // its turn began
	RunSkipped ScheduleOutcome = "skipped" // the one before had not ended
	RunMissed  ScheduleOutcome = "missed"  // no server ran, or the app was off
	RunFailed  ScheduleOutcome = "failed"  // the turn was refused
)

// UpdateSchedule changes a schedule. What is left out stays.
type UpdateSchedule struct {
	Name      *string          `json:"name,omitempty" maxLength:"100"`
	Cron      *string          `json:"cron,omitempty" maxLength:"200"`
	Zone      *string          `json:"time_zone,omitempty" maxLength:"60"`
	OnChange  *int             `json:"on_change_seconds,omitempty" minimum:"0" maximum:"86400"`
	Jitter    *int             `json:"jitter_seconds,omitempty" minimum:"0" maximum:"86400"`
	Missed    *MissedPolicy    `json:"missed,omitempty" enum:"skip,once,all"`
	Overlap   *OverlapPolicy   `json:"overlap,omitempty" enum:"skip,queue,cancel"`
	Message   *string          `json:"message,omitempty" maxLength:"12288"`
	Session   *ScheduleSession `json:"session,omitempty" enum:"new,same"`
	SessionID *SessionID       `json:"session_id,omitempty" maxLength:"64"`
	Agent     *string          `json:"agent,omitempty" maxLength:"64"`
	Model     *string          `json:"model,omitempty" maxLength:"200"`
	Mode      *PermissionMode  `json:"mode,omitempty" enum:"default,acceptEdits,plan,bypassPermissions"`
	Workspace *Workspace       `json:"workspace,omitempty" maxLength:"200"`
	Budgets   *Budgets         `json:"budgets,omitempty"`
	Asks      *ScheduleAsks    `json:"asks,omitempty" enum:"nobody,owner"`
	// Paused schedules begin nothing, except when somebody runs them. Times that pass meanwhile
	// do not count as missed.
	Paused          *bool `json:"paused,omitempty"`
	ExpectedVersion int64 `json:"expected_version,omitempty"`
}
