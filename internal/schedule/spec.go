package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// filled is spec with its defaults.
func filled(spec parley.ScheduleSpec) parley.ScheduleSpec {
	spec.Name = cmp.Or(spec.Name, parley.Cut(strings.Join(strings.Fields(spec.Message), " "), 60))
	spec.Zone = cmp.Or(spec.Zone, "UTC")
	spec.Missed = cmp.Or(spec.Missed, parley.MissedOnce)
	spec.Overlap = cmp.Or(spec.Overlap, parley.OverlapSkip)
	spec.Session = cmp.Or(spec.Session, parley.ScheduleNew)
	spec.Asks = cmp.Or(spec.Asks, parley.AsksNobody)
	return spec
}

// changed is spec with what u sets.
func changed(spec parley.ScheduleSpec, u parley.UpdateSchedule) parley.ScheduleSpec {
	set(&spec.Name, u.Name)
	set(&spec.Cron, u.Cron)
	set(&spec.Zone, u.Zone)
	set(&spec.OnChange, u.OnChange)
	set(&spec.Jitter, u.Jitter)
	set(&spec.Missed, u.Missed)
	set(&spec.Overlap, u.Overlap)
	set(&spec.Message, u.Message)
	set(&spec.Session, u.Session)
	set(&spec.SessionID, u.SessionID)
	set(&spec.Agent, u.Agent)
	set(&spec.Model, u.Model)
	set(&spec.Mode, u.Mode)
	set(&spec.Workspace, u.Workspace)
	set(&spec.Budgets, u.Budgets)
	set(&spec.Asks, u.Asks)
	return spec
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// check refuses what could not be done, as far as that is known now.
func (s *Schedules) check(ctx context.Context, p parley.Principal, spec parley.ScheduleSpec) (parley.ScheduleSpec, Expr, error) {
	var none Expr
	app, err := s.engine.App(spec.App)
	if err != nil {
		return spec, none, err
	}
	spec.Name, spec.Cron = strings.TrimSpace(spec.Name), strings.TrimSpace(spec.Cron)
	e, err := Checked(spec, s.o.Shortest)
	if err != nil {
		return spec, none, err
	}
	if spec.OnChange > 0 && s.o.Changes == nil {
		return spec, none, parley.Errorf(parley.CodeInvalid, "there are no lakes here").WithField("on_change_seconds").WithHint("leave it out")
	}
	for field, text := range map[string]string{"message": spec.Message, "name": spec.Name} {
		if s.o.Clean != nil && s.o.Clean(text) != text {
			return spec, none, parley.Errorf(parley.CodeInvalid, "%s has something that looks like a secret", field).WithField(field).WithHint("schedules are stored; leave secrets out")
		}
	}
	bad := func(field, hint, format string, args ...any) error {
		return parley.Errorf(parley.CodeInvalid, format, args...).WithField(field).WithHint("%s", hint)
	}
	if _, ok := app.Agents[spec.Agent]; spec.Agent != "" && !ok {
		return spec, none, bad("agent", "its agents: "+strings.Join(slices.Sorted(maps.Keys(app.Agents)), ", "), "the app %s has no agent %q", app.Name, parley.Cut(spec.Agent, 60))
	}
	if spec.Model != "" {
		if app.Policy.FixedModel {
			return spec, none, bad("model", "leave it out", "the app %s lets nobody choose a model", app.Name)
		}
		if _, err := s.engine.Model(spec.Model); err != nil {
			return spec, none, err
		}
	}
	if !app.Policy.Offers(spec.Mode) {
		return spec, none, bad("mode", "leave it out, or choose one that the app offers", "the app %s does not offer the mode %s", app.Name, spec.Mode)
	}
	if _, err := app.Budgets.Narrow(spec.Budgets); err != nil {
		return spec, none, err
	}
	same := spec.Session == parley.ScheduleSame
	switch {
	case spec.SessionID != "" && !same:
		return spec, none, bad("session_id", `set "session" to "same", or leave it out`, "a session is named, and a new one is to be used each time")
	case spec.SessionID != "" && (spec.Mode != "" || spec.Workspace != "" || spec.Model != ""):
		return spec, none, bad("session_id", "leave out mode, model and workspace", "the session has a mode, a model and a workspace of its own")
	case spec.SessionID != "":
		info, err := s.engine.Session(ctx, p, spec.SessionID)
		if err != nil {
			return spec, none, err
		}
		if info.App != spec.App || info.Status != parley.Active {
			return spec, none, bad("session_id", "name an active session of the app", "session %s is of the app %s, and %s", info.ID, info.App, info.Status)
		}
	}
	return spec, e, nil
}

// Checked refuses what is wrong whatever the app and the user. shortest is the shortest time
// between two runs that is allowed.
func Checked(spec parley.ScheduleSpec, shortest time.Duration) (Expr, error) {
	e, err := exprOf(spec)
	if err != nil {
		return e, err
	}
	if err := checkTimes(spec, e, shortest); err != nil {
		return e, err
	}
	return e, checkWords(spec)
}

func checkTimes(spec parley.ScheduleSpec, e Expr, shortest time.Duration) error {
	bad := func(field, format string, args ...any) *parley.Error {
		return parley.Errorf(parley.CodeInvalid, format, args...).WithField(field)
	}
	switch {
	case spec.OnChange < 0 || spec.OnChange > 86400 || spec.OnChange > 0 && spec.OnChange < 60:
		return bad("on_change_seconds", "it is 60 to 86400").WithHint("how long nobody may have changed the lake before a run begins")
	case spec.Cron == "" && spec.Jitter != 0:
		return bad("jitter_seconds", "it delays the times of cron, and there are none")
	case spec.Cron == "":
		return nil
	}
	between := e.Shortest()
	switch {
	case between < shortest:
		return bad("cron", "runs would begin %s apart; the least here is %s", between, shortest).WithHint("let it run less often; the operator's setting is schedules.shortest")
	case spec.Jitter < 0 || spec.Jitter > 86400:
		return bad("jitter_seconds", "it is 0 to 86400")
	case spec.Jitter > 0 && time.Duration(spec.Jitter)*time.Second >= between:
		return bad("jitter_seconds", "runs are %s apart at times, and would be delayed by up to %d s", between, spec.Jitter).WithHint("less than the time between two runs")
	}
	return nil
}

func checkWords(spec parley.ScheduleSpec) error {
	choices := map[string]struct {
		got  string
		list []string
	}{
		"missed":  {string(spec.Missed), []string{"skip", "once", "all"}},
		"overlap": {string(spec.Overlap), []string{"skip", "queue", "cancel"}},
		"session": {string(spec.Session), []string{"new", "same"}},
		"asks":    {string(spec.Asks), []string{"nobody", "owner"}},
		"mode":    {string(spec.Mode), []string{"default", "acceptEdits", "plan", "bypassPermissions"}},
	}
	for _, field := range slices.Sorted(maps.Keys(choices)) {
		if c := choices[field]; c.got != "" && !slices.Contains(c.list, c.got) {
			return parley.Errorf(parley.CodeInvalid, "%s is %q", field, parley.Cut(c.got, 60)).WithField(field).WithHint("one of %s", strings.Join(c.list, ", "))
		}
	}
	body, err := json.Marshal(spec)
	switch {
	case err != nil:
		return err
	case strings.TrimSpace(spec.Message) == "":
		return parley.Errorf(parley.CodeInvalid, "message is empty").WithField("message").WithHint("say what the agent has to do")
	case len(body) > maxSpec:
		return parley.Errorf(parley.CodeTooLarge, "the schedule has %d bytes; the limit is %d", len(body), maxSpec).WithField("message").WithHint("put what is long into a file or a skill, and refer to it")
	}
	return nil
}
