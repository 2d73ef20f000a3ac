package program

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/auth"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/schedule"
	"github.com/parley-server/parley/internal/userfiles"
)

// newSchedules makes the schedules of a house. What they begin goes through the engine like any
// other command.
func (p *plan) newSchedules(h *house, log *slog.Logger) *schedule.Schedules {
	files := p.userFiles(h.engine, h.scopes)
	return schedule.New(h.store, h.engine, schedule.Options{
		PerUser: p.settings.Schedules.PerUser, Shortest: time.Duration(p.settings.Schedules.Shortest), Allowed: p.mayRun, Logger: log,
		Clean: func(text string) string { text, _ = p.red.String(text); return text },
		Changes: func(ctx context.Context, of parley.Principal, app string, ws parley.Workspace, since string, own []parley.TurnID) (string, bool, error) {
			l, err := files.Lake(ctx, userfiles.At{Principal: of, App: app, Workspace: ws})
			if err != nil {
				return "", false, err
			}
			return l.ChangedSince(ctx, since, own)
		},
	})
}

// mayRun says why nothing is begun for a user any more. Users whom an issuer, a Supervisor or an
// app identifies are known to these alone.
func (p *plan) mayRun(of parley.Principal) error {
	if p.mode != auth.ModeKeys || p.keys == nil || of == p.service() || strings.Contains(of.User, ":") {
		return nil
	}
	list, err := p.keys.Of(of)
	if err != nil {
		return nil //nolint:nilerr // the file cannot be read now: that is nobody's revocation
	}
	if slices.ContainsFunc(list, func(k auth.Key) bool { return k.Expires.IsZero() || time.Now().Before(k.Expires) }) {
		return nil
	}
	return parley.Errorf(parley.CodeForbidden, "no key acts as %s any more", of.User)
}

// service is who the turns of apps' schedules belong to; nobody if the operator has not said it.
func (p *plan) service() parley.Principal {
	switch s := p.settings.Schedules; {
	case s.User != "":
		return parley.Principal{User: s.User, Org: s.Org}
	case p.mode == auth.ModeNone || p.mode == "":
		return parley.Local
	}
	return parley.Principal{}
}

// define makes the schedules that an app's file defines.
func (h *house) define(ctx context.Context, a *config.App) {
	of := h.plan.service()
	specs := a.Schedules
	if of.User == "" {
		specs = nil
	}
	if err := h.schedules.Define(ctx, of, a.Name, specs); err != nil {
		h.log.Warn("not all schedules of an app could be made", "app", a.Name, "err", err)
	}
}

// defineAll makes the schedules of all apps that are served.
func (h *house) defineAll(ctx context.Context) {
	for _, a := range h.plan.apps {
		h.define(ctx, a)
	}
}

// notices are what the users of an app are to be shown.
func (h *house) notices(app string) []string {
	return append(h.anew.notices(app), h.scheduleNotices(app)...)
}

// scheduleNotices says what the users of an app have to know of its schedules.
func (h *house) scheduleNotices(app string) []string {
	latest, ok := h.plan.latest.Load(app)
	if !ok {
		return nil
	}
	if a := latest.(*config.App); len(a.Schedules) > 0 && h.plan.service().User == "" { //nolint:forcetypeassert // put stores nothing else
		return []string{"The schedules of this app do not run: the setting schedules.user does not say who their turns belong to."}
	}
	return nil
}

func newSchedule(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "schedule", Short: "What begins turns at times", Args: cobra.NoArgs,
		Long: `What begins turns at times, without anybody asking. Apps define schedules in their
app.yaml; others are made here, on the page, or by POST /v1/schedules.`,
	}
	list := &cobra.Command{
		Use: "list", Short: "List your schedules", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, 0, func(ctx context.Context, l *link) error {
				found, err := l.Schedules(ctx, "")
				if err == nil && len(found) == 0 {
					_, err = fmt.Fprintln(cmd.OutOrStdout(), "You have no schedules.")
				}
				for _, s := range found {
					if err == nil {
						_, err = fmt.Fprintln(cmd.OutOrStdout(), scheduleLine(s))
					}
				}
				return err
			})
		},
	}
	var spec parley.ScheduleSpec
	var workspace string
	add := &cobra.Command{
		Use: "add APP MESSAGE", Short: "Make a schedule", Args: listed(cobra.ExactArgs(2), "such as: major \"Tidy up the lake.\" --cron \"0 7 * * mon-fri\""),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec.App, spec.Message, spec.Workspace = args[0], args[1], parley.Workspace(workspace)
			return f.with(cmd, 0, func(ctx context.Context, l *link) error {
				made, err := l.AddSchedule(ctx, spec)
				if err == nil {
					_, err = fmt.Fprintln(cmd.OutOrStdout(), scheduleLine(made))
				}
				return err
			})
		},
	}
	fl := add.Flags()
	fl.StringVar(&spec.Cron, "cron", "", "when: `minute hour day month weekday`, or @daily and the like")
	fl.StringVar(&spec.Zone, "zone", "", "the `time zone`, such as Europe/Zurich (default UTC)")
	fl.StringVar(&spec.Name, "name", "", "a name for people")
	fl.StringVar((*string)(&spec.Missed), "missed", "", "times that passed while no server ran: skip, once or all (default once)")
	fl.StringVar((*string)(&spec.Overlap), "overlap", "", "while the run before goes on: skip, queue or cancel (default skip)")
	fl.StringVar((*string)(&spec.Session), "session", "", "new or same (default new)")
	fl.StringVar((*string)(&spec.Asks), "asks", "", "who answers what a turn asks: nobody or owner (default nobody)")
	fl.StringVar(&workspace, "workspace", "", "of the sessions that it makes")
	fl.IntVar(&spec.OnChange, "on-change", 0, "run when the lake was changed and is quiet for so many `seconds`, too, or without --cron only then")
	add.MarkFlagsOneRequired("cron", "on-change")
	one := func(name, short string, do func(ctx context.Context, cmd *cobra.Command, l *link, id parley.ScheduleID) error) *cobra.Command {
		return &cobra.Command{
			Use: name + " ID", Short: short, Args: listed(cobra.ExactArgs(1), "parley schedule list shows the ids"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return f.with(cmd, 0, func(ctx context.Context, l *link) error { return do(ctx, cmd, l, parley.ScheduleID(args[0])) })
			},
		}
	}
	paused := func(yes bool) func(ctx context.Context, cmd *cobra.Command, l *link, id parley.ScheduleID) error {
		return func(ctx context.Context, cmd *cobra.Command, l *link, id parley.ScheduleID) error {
			s, err := l.UpdateSchedule(ctx, id, parley.UpdateSchedule{Paused: &yes})
			if err == nil {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), scheduleLine(s))
			}
			return err
		}
	}
	cmd.AddCommand(list, add,
		one("runs", "List the last runs of a schedule", func(ctx context.Context, cmd *cobra.Command, l *link, id parley.ScheduleID) error {
			found, err := l.ScheduleRuns(ctx, id)
			if err == nil && len(found) == 0 {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), "It has not run.")
			}
			for _, r := range found {
				if err == nil {
					_, err = fmt.Fprintln(cmd.OutOrStdout(), runLine(r))
				}
			}
			return err
		}),
		one("run", "Run a schedule now, and wait for its turn", func(ctx context.Context, cmd *cobra.Command, l *link, id parley.ScheduleID) error {
			run, err := l.RunSchedule(ctx, id, "")
			if err != nil {
				return err
			}
			for run.Turn != "" {
				t, err := l.Await(ctx, run.Turn, time.Minute)
				if err != nil {
					return err
				}
				if t.Over() || t.Status == parley.StatusWaiting {
					run.Status = t.Status
					if t.Response != nil {
						run.Says = t.Response.Message
					}
					break
				}
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), runLine(run))
			return err
		}),
		one("pause", "Begin nothing for now", paused(true)),
		one("unpause", "Begin turns again", paused(false)),
		one("remove", "Delete a schedule; what it began stays", func(ctx context.Context, cmd *cobra.Command, l *link, id parley.ScheduleID) error {
			if err := l.DeleteSchedule(ctx, id); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "The schedule has been deleted.")
			return err
		}),
	)
	return cmd
}

func scheduleLine(s parley.Schedule) string {
	when := fmt.Sprintf("%q %s", s.Cron, s.Zone)
	if s.OnChange > 0 {
		when = strings.TrimPrefix(fmt.Sprintf("%s, on a change after %s", when, time.Duration(s.OnChange)*time.Second), `"" `+s.Zone+", ")
	}
	line := fmt.Sprintf("%s  %s  %s  %s", s.ID, s.App, parley.Cut(s.Name, 60), when)
	switch {
	case s.Paused && s.Why != "":
		line += "  paused: " + s.Why
	case s.Paused:
		line += "  paused"
	case s.NextAt.IsZero() && s.OnChange > 0:
	case s.NextAt.IsZero():
		line += "  no further time"
	default:
		line += "  next " + s.NextAt.Local().Format("2006-01-02 15:04")
	}
	if s.Last != nil {
		line += "  last " + runLine(*s.Last)
	}
	return line
}

func runLine(r parley.ScheduleRun) string {
	line := r.At.Local().Format("2006-01-02 15:04") + " " + string(r.Outcome)
	if r.Status != "" {
		line += ", " + string(r.Status)
	}
	if r.Turn != "" {
		line += " " + string(r.Turn)
	}
	for _, text := range []string{r.Reason, r.Says} {
		if text != "" {
			line += ": " + parley.Cut(strings.Join(strings.Fields(text), " "), 160)
		}
	}
	return line
}
