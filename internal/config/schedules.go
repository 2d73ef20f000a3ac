package config

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/nearest"
	"github.com/parley-server/parley/internal/pattern"
	"github.com/parley-server/parley/internal/schedule"
)

// scheduleFile is a schedule in an app.yaml: turns that begin at times, without anybody asking.
type scheduleFile struct {
	Title         string                 `yaml:"title"`          // for people, and of the sessions; default: the beginning of the message
	Cron          string                 `yaml:"cron"`           // minute hour day month weekday, or @daily and the like
	OnChange      parley.Duration        `yaml:"on_change"`      // a run begins when the lake was changed and is quiet for so long, such as 10m; default: changes begin none
	TimeZone      string                 `yaml:"time_zone"`      // such as Europe/Zurich; default UTC
	JitterSeconds int                    `yaml:"jitter_seconds"` // delays the runs by the same part of so many seconds; default 0
	Missed        parley.MissedPolicy    `yaml:"missed"`         // times that passed while no server ran: skip, once or all; default once
	Overlap       parley.OverlapPolicy   `yaml:"overlap"`        // while the run before goes on: skip, queue or cancel; default skip
	Message       string                 `yaml:"message"`        // what the agent is told
	Session       parley.ScheduleSession `yaml:"session"`        // new or same; default new
	Agent         string                 `yaml:"agent"`          // that gets the message; default: entry
	Model         string                 `yaml:"model"`          // of its sessions; default: the app's
	Mode          parley.PermissionMode  `yaml:"mode"`           // of its sessions; default: the app's
	Workspace     parley.Workspace       `yaml:"workspace"`      // of its sessions; default: the app's default
	Budgets       parley.Budgets         `yaml:"budgets"`        // of each turn; default: the app's
	Asks          parley.ScheduleAsks    `yaml:"asks"`           // who answers what a turn asks: nobody or owner; default nobody
}

var scheduleName = pattern.New(`^[a-z][a-z0-9_-]{0,39}$`)

// schedules reads the app's schedules.
func (a *App) schedules(s Settings, f appFile) {
	for _, name := range slices.Sorted(maps.Keys(f.Schedules)) {
		g, at := f.Schedules[name], "schedules."+name
		if !scheduleName.MatchString(name) {
			a.d.at(at, "cannot be a schedule's name; use lower-case letters, digits, _ and -")
		}
		spec := parley.ScheduleSpec{
			App: a.Name, Name: strings.TrimSpace(g.Title), Cron: g.Cron, OnChange: int(time.Duration(g.OnChange).Seconds()), Zone: g.TimeZone, Jitter: g.JitterSeconds, Missed: g.Missed, Overlap: g.Overlap,
			Message: strings.TrimSpace(g.Message), Session: g.Session, Agent: g.Agent, Model: g.Model, Mode: g.Mode, Workspace: g.Workspace, Budgets: g.Budgets, Asks: g.Asks,
		}
		if _, err := schedule.Checked(spec, time.Duration(s.Schedules.Shortest)); err != nil {
			key := ""
			if e, ok := errors.AsType[*parley.Error](err); ok {
				key = e.Field
			}
			a.d.at(strings.TrimSuffix(at+"."+key, "."), "%s", err)
		}
		if g.OnChange != 0 && !slices.ContainsFunc(a.Toolsets, func(t Toolset) bool { return t.Kind == "lake" }) {
			a.d.at(at+".on_change", "needs a lake: tools: {lake: {}}")
		}
		if _, ok := a.Agents[g.Agent]; g.Agent != "" && !ok {
			a.d.at(at+".agent", "there is no agent %q%s", g.Agent, nearest.Hint(g.Agent, slices.Sorted(maps.Keys(a.Agents))))
		}
		if !a.Policy.Offers(g.Mode) {
			a.d.at(at+".mode", "is %s, which policy.modes does not offer", g.Mode)
		}
		if _, err := a.Budgets.Narrow(g.Budgets); err != nil {
			a.d.at(at+".budgets", "%s", err)
		}
		if a.Schedules == nil {
			a.Schedules = map[string]parley.ScheduleSpec{}
		}
		a.Schedules[name] = spec
	}
}
