package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/schedule"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// desk is a server with schedules. Its clock is that of the test's bubble, which begins on
// Saturday, 2000-01-01 00:00 UTC.
type desk struct {
	*enginetest.Rig
	s    *schedule.Schedules
	stop func()
}

func open(t *testing.T, store seam.Store, model enginetest.Model, app parley.App, change ...any) *desk {
	t.Helper()
	var o schedule.Options
	var eo []func(*engine.Options)
	for _, f := range change {
		switch f := f.(type) {
		case func(*schedule.Options):
			f(&o)
		case func(*engine.Options):
			eo = append(eo, f)
		}
	}
	d := &desk{Rig: enginetest.Over(t, store, &enginetest.Service{}, model, app, eo...)}
	d.s = schedule.New(store, d.Engine, o)
	d.run()
	return d
}

// run begins what is due until stop.
func (d *desk) run() {
	ctx, cancel := context.WithCancel(context.Background())
	var hands sync.WaitGroup
	hands.Go(func() { d.s.Run(ctx) })
	d.stop = func() { cancel(); hands.Wait() }
}

func (d *desk) close() {
	d.stop()
	d.Rig.Close()
}

func (d *desk) add(spec parley.ScheduleSpec) parley.Schedule {
	d.T.Helper()
	if spec.App == "" {
		spec.App = "test"
	}
	if spec.Message == "" {
		spec.Message = "tidy up"
	}
	made, err := d.s.Add(d.T.Context(), enginetest.User, spec, "")
	if err != nil {
		d.T.Fatal(err)
	}
	return made
}

// runs are a schedule's runs in words, the oldest first.
func (d *desk) runs(id parley.ScheduleID) string {
	d.T.Helper()
	synctest.Wait()
	list, err := d.s.Runs(d.T.Context(), enginetest.User, id)
	if err != nil {
		d.T.Fatal(err)
	}
	var words []string
	for _, r := range list {
		w := fmt.Sprintf("%s %s", r.For.Format("2 15:04"), r.Outcome)
		if r.Manual {
			w = "now " + string(r.Outcome)
		}
		if r.Status != "" {
			w += " " + strings.Replace(string(r.Status), "streaming", "running", 1)
		}
		if r.Missed > 0 {
			w += fmt.Sprintf(" +%d", r.Missed)
		}
		words = append([]string{w}, words...)
	}
	return strings.Join(words, ", ")
}

func (d *desk) last(id parley.ScheduleID) parley.ScheduleRun {
	d.T.Helper()
	synctest.Wait()
	list, err := d.s.Runs(d.T.Context(), enginetest.User, id)
	if err != nil || len(list) == 0 {
		d.T.Fatalf("the runs of %s: %v, %v", id, list, err)
	}
	return list[0]
}

func (d *desk) read(id parley.ScheduleID) parley.Schedule {
	d.T.Helper()
	synctest.Wait()
	got, err := d.s.Schedule(d.T.Context(), enginetest.User, id)
	if err != nil {
		d.T.Fatal(err)
	}
	return got
}

func (d *desk) same(what, got, want string) {
	d.T.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		d.T.Errorf("%s: %s", what, diff)
	}
}

// two is an app with a second agent.
func two(a *parley.App) {
	a.Agents["tidier"] = parley.AgentDef{Name: "tidier", Prompt: "Tidy up."}
	a.Policy.Modes = []parley.PermissionMode{parley.ModePlan}
}

// TestRun: a turn is begun at each time, in a session of its own, with what the schedule says.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, mem.New(), enginetest.Echo, enginetest.App(two))
		defer d.close()
		s := d.add(parley.ScheduleSpec{
			Name: "Mornings", Cron: "0 7 * * *", Zone: "Europe/Zurich", Agent: "tidier", Mode: parley.ModePlan, Model: "test/other", Budgets: parley.Budgets{MaxSteps: 3},
		})
		if want := time.Date(2000, 1, 1, 6, 0, 0, 0, time.UTC); !s.NextAt.Equal(want) {
			t.Errorf("next at %s, want %s", s.NextAt, want)
		}
		time.Sleep(6*time.Hour - time.Millisecond)
		d.same("a moment before", d.runs(s.ID), "")
		time.Sleep(time.Millisecond)
		d.same("at the time", d.runs(s.ID), "1 06:00 begun completed")
		time.Sleep(48 * time.Hour)
		d.same("two days later", d.runs(s.ID), "1 06:00 begun completed, 2 06:00 begun completed, 3 06:00 begun completed")

		run := d.last(s.ID)
		log := d.Log(run.Session)
		var created parley.SessionCreated
		var started parley.TurnStarted
		agent := ""
		for _, e := range log {
			switch p, _ := e.Payload(); p := p.(type) {
			case parley.SessionCreated:
				created = p
			case parley.TurnStarted:
				started = p
			case parley.AgentStarted:
				agent = p.Name
			}
		}
		if created.Title != "Mornings" || created.Mode != parley.ModePlan || created.Model != "test/other" || created.User != enginetest.User.User || created.Org != enginetest.User.Org {
			t.Errorf("its session is %+v", created)
		}
		want := &parley.Scheduled{ID: s.ID, Run: run.ID, Agent: "tidier"}
		if diff := cmp.Diff(want, started.Schedule); diff != "" || started.Origin != parley.OriginSchedule || started.Budgets.MaxSteps != 3 || started.Client != "schedule" || agent != "tidier" {
			t.Errorf("its turn began with %+v by %s, and %s", started.TurnRequest, agent, diff)
		}
		if err := enginetest.CheckLog(log); err != nil {
			t.Error(err)
		}
		if run.Says != "you said: tidy up" {
			t.Errorf("it says %q", run.Says)
		}
		// Whoever retries it is there to be asked, and asks the same agent.
		again, err := d.Engine.Retry(t.Context(), enginetest.User, run.Turn, "", "test")
		if err != nil {
			t.Fatal(err)
		}
		d.Await(again.ID)
		if a := d.Log(run.Session); a[len(log)].Type != "turn.started" || a[len(log)+1].Agent != "tidier" || again.Origin != parley.OriginUser {
			t.Errorf("the retry: %+v %+v", again, a[len(log)+1])
		}
	})
}

// TestMissed: what becomes of times that passed while no server ran.
func TestMissed(t *testing.T) {
	t.Parallel()
	for policy, want := range map[parley.MissedPolicy]string{
		"":                "1 01:00 begun completed, 1 05:00 begun completed +3, 1 06:00 begun completed",
		parley.MissedOnce: "1 01:00 begun completed, 1 05:00 begun completed +3, 1 06:00 begun completed",
		parley.MissedSkip: "1 01:00 begun completed, 1 05:00 missed +3, 1 06:00 begun completed",
		parley.MissedAll:  "1 01:00 begun completed, 1 02:00 begun completed, 1 03:00 begun completed, 1 04:00 begun completed, 1 05:00 begun completed, 1 06:00 begun completed",
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := open(t, mem.New(), enginetest.Echo, enginetest.App())
				defer d.close()
				s := d.add(parley.ScheduleSpec{Cron: "0 * * * *", Missed: policy})
				time.Sleep(61 * time.Minute)
				d.stop()
				time.Sleep(4*time.Hour + 20*time.Minute) // 05:21
				d.run()
				time.Sleep(time.Hour)
				d.same("runs", d.runs(s.ID), want)
			})
		})
	}
	t.Run("a little late is on time", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := open(t, mem.New(), enginetest.Echo, enginetest.App())
			defer d.close()
			s := d.add(parley.ScheduleSpec{Cron: "0 * * * *", Missed: parley.MissedSkip})
			d.stop()
			time.Sleep(2*time.Hour + 5*time.Minute)
			d.run()
			d.same("runs", d.runs(s.ID), "1 02:00 begun completed +1")
		})
	})
	t.Run("all has a bound", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := open(t, mem.New(), enginetest.Echo, enginetest.App())
			defer d.close()
			s := d.add(parley.ScheduleSpec{Cron: "0 * * * *", Missed: parley.MissedAll})
			d.stop()
			time.Sleep(100*time.Hour + 30*time.Minute)
			d.run()
			time.Sleep(20 * time.Minute)
			list, _ := d.s.Runs(t.Context(), enginetest.User, s.ID)
			if len(list) != 20 || list[19].Missed != 80 || list[0].For != time.Date(2000, 1, 5, 4, 0, 0, 0, time.UTC) {
				t.Errorf("%d runs, from %+v to %+v", len(list), list[len(list)-1], list[0])
			}
		})
	})
	t.Run("weeks of minutes", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := open(t, mem.New(), enginetest.Echo, enginetest.App(), func(o *schedule.Options) { o.Shortest = time.Minute })
			defer d.close()
			s := d.add(parley.ScheduleSpec{Cron: "* * * * *"})
			d.stop()
			time.Sleep(50 * 24 * time.Hour)
			d.run()
			time.Sleep(time.Minute)
			synctest.Wait()
			list, _ := d.s.Runs(t.Context(), enginetest.User, s.ID)
			if len(list) != 2 || list[1].Missed != 50_000 || time.Since(list[0].For) > time.Minute {
				t.Errorf("runs: %+v", list)
			}
		})
	})
}

// slow answers at once, or after the time that the message names.
func slow(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if d, err := time.ParseDuration(enginetest.Last(r)); err == nil {
		for end := time.Now().Add(d); time.Now().Before(end); say(".") {
			select {
			case <-time.After(10 * time.Second):
			case <-ctx.Done():
				return seam.Reply{}, ctx.Err()
			}
		}
	}
	return enginetest.Echo(ctx, r, say)
}

// TestOverlap: what becomes of a run that is due while the one before has not ended.
func TestOverlap(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		overlap parley.OverlapPolicy
		session parley.ScheduleSession
		want    string // at 05:59, with turns that take 85 minutes
	}{
		"skip":         {"", "", "1 01:00 begun completed, 1 02:00 skipped, 1 03:00 begun completed, 1 04:00 skipped, 1 05:00 begun running"},
		"queue":        {parley.OverlapQueue, "", "1 01:00 begun completed, 1 02:00 begun completed, 1 03:00 begun completed, 1 04:00 skipped, 1 05:00 begun running"},
		"cancel":       {parley.OverlapCancel, "", "1 01:00 begun cancelled, 1 02:00 begun cancelled, 1 03:00 begun cancelled, 1 04:00 begun cancelled, 1 05:00 begun running"},
		"same, skip":   {"", parley.ScheduleSame, "1 01:00 begun completed, 1 02:00 skipped, 1 03:00 begun completed, 1 04:00 skipped, 1 05:00 begun running"},
		"same, cancel": {parley.OverlapCancel, parley.ScheduleSame, "1 01:00 begun cancelled, 1 02:00 begun cancelled, 1 03:00 begun cancelled, 1 04:00 begun cancelled, 1 05:00 begun running"},
		"same, queue":  {parley.OverlapQueue, parley.ScheduleSame, "1 01:00 begun completed, 1 02:00 begun completed, 1 03:00 begun completed, 1 04:00 begun running, 1 05:00 begun pending"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := open(t, mem.New(), slow, enginetest.App(func(a *parley.App) { a.MaxOpenTurns = 3 }))
				s := d.add(parley.ScheduleSpec{Cron: "0 * * * *", Message: "85m", Overlap: tc.overlap, Session: tc.session})
				time.Sleep(5*time.Hour + 59*time.Minute)
				d.same("runs", d.runs(s.ID), tc.want)
				d.stop()
				d.Kill()
			})
		})
	}
}

// TestSame: the messages of a schedule that uses one session each time go to the session that it
// made, or to the one that its owner named, and what happens when that is gone.
func TestSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, mem.New(), enginetest.Echo, enginetest.App())
		defer d.close()
		named := d.Session()
		own := d.add(parley.ScheduleSpec{Cron: "0 * * * *", Session: parley.ScheduleSame})
		theirs := d.add(parley.ScheduleSpec{Cron: "0 * * * *", Session: parley.ScheduleSame, SessionID: named.ID})
		time.Sleep(150 * time.Minute)
		first, _ := d.s.Runs(t.Context(), enginetest.User, own.ID)
		synctest.Wait()
		if len(first) != 2 || first[0].Session != first[1].Session || first[0].Session == named.ID || d.read(own.ID).SessionID != first[0].Session {
			t.Fatalf("its own session: %+v", first)
		}
		if got := d.last(theirs.ID); got.Session != named.ID || got.Status != parley.StatusCompleted {
			t.Fatalf("the named session: %+v", got)
		}
		if err := d.Engine.Delete(t.Context(), enginetest.User, first[0].Session); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Engine.End(t.Context(), enginetest.User, named.ID, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got := d.last(own.ID); got.Session == first[0].Session || got.Status != parley.StatusCompleted {
			t.Errorf("after the session that it made was deleted: %+v", got)
		}
		if got := d.read(theirs.ID); !got.Paused || got.Why != "its session has ended" || got.Last.Outcome != parley.RunFailed {
			t.Errorf("after the named session ended: %+v", got)
		}
		if err := d.Engine.Delete(t.Context(), enginetest.User, named.ID); err != nil {
			t.Fatal(err)
		}
		// Another session can be named, and the schedule goes on.
		other, yes := d.Session().ID, false
		if _, err := d.s.Update(t.Context(), enginetest.User, theirs.ID, parley.UpdateSchedule{SessionID: &other, Paused: &yes}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got := d.last(theirs.ID); got.Session != other || got.Outcome != parley.RunBegun {
			t.Errorf("in another session: %+v", got)
		}
	})
}

// TestAsks: nobody answers what a turn asks, unless the schedule says that its owner does.
func TestAsks(t *testing.T) {
	t.Parallel()
	asking := func(a *parley.App) {
		a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Tool: "mail"}}
		a.Policy.AnswerWithin = parley.Duration(30 * time.Minute)
	}
	mail := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if done := enginetest.Results(r); len(done) > 0 {
			say(done[0])
			return seam.Reply{StopReason: "end_turn"}, nil
		}
		return seam.Reply{StopReason: "tool_use", Parts: []parley.Part{enginetest.Call("mail", map[string]string{"text": "hi"})}}, nil
	}
	synctest.Test(t, func(t *testing.T) {
		d := open(t, mem.New(), mail, enginetest.App(asking))
		defer d.close()
		nobody := d.add(parley.ScheduleSpec{Cron: "0 * * * *"})
		owner := d.add(parley.ScheduleSpec{Cron: "0 * * * *", Asks: parley.AsksOwner})
		time.Sleep(time.Hour)
		if got := d.last(nobody.ID); got.Status != parley.StatusCompleted || !strings.Contains(got.Says, "nobody to ask") {
			t.Errorf("with nobody there: %+v", got)
		}
		if _, _, mails := d.Service.Counts(); mails != 0 {
			t.Errorf("%d mails", mails)
		}
		d.same("with its owner", d.runs(owner.ID), "1 01:00 begun waiting")
		open, err := d.Engine.Interactions(t.Context(), enginetest.User, 10)
		if err != nil || len(open) != 1 || open[0].Kind != parley.KindPermission {
			t.Fatalf("open: %+v, %v", open, err)
		}
		if _, err := d.Engine.Answer(t.Context(), enginetest.User, open[0].ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		d.same("answered", d.runs(owner.ID), "1 01:00 begun completed")
		if _, _, mails := d.Service.Counts(); mails != 1 {
			t.Errorf("%d mails", mails)
		}
		time.Sleep(time.Hour) // nobody answers this time
		d.same("open", d.runs(owner.ID), "1 01:00 begun completed, 1 02:00 begun waiting")
		time.Sleep(31 * time.Minute)
		d.same("expired", d.runs(owner.ID), "1 01:00 begun completed, 1 02:00 begun completed")
	})
}

// TestRefused: a run that is refused says why, and the next one is tried. What passes is waited for.
func TestRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, mem.New(), enginetest.Echo, enginetest.App(), func(o *engine.Options) { o.Limits.TurnsPerMinute = 1 })
		defer d.close()
		one, other := d.add(parley.ScheduleSpec{Cron: "0 * * * *"}), d.add(parley.ScheduleSpec{Cron: "0 * * * *"})
		time.Sleep(time.Hour)
		begun := 0
		for _, s := range []parley.Schedule{one, other} {
			if got := d.read(s.ID); got.Last != nil {
				begun++
			} else if !strings.Contains(got.Why, "turns within a minute") {
				t.Errorf("why it waits: %+v", got)
			}
		}
		if begun != 1 {
			t.Errorf("%d of two began", begun)
		}
		time.Sleep(2 * time.Minute)
		for _, s := range []parley.Schedule{one, other} {
			d.same("a minute later", d.runs(s.ID), "1 01:00 begun completed")
			if got := d.read(s.ID); got.Why != "" {
				t.Errorf("it waits no more: %+v", got)
			}
		}
	})
	t.Run("quota", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			spent := func(_ context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
				say("dear")
				return seam.Reply{StopReason: "end_turn", Usage: parley.Usage{InputTokens: 1, OutputTokens: 1, USD: 2}}, nil
			}
			d := open(t, mem.New(), spent, enginetest.App(), func(o *engine.Options) { o.Limits.USDPerDay = 1 })
			defer d.close()
			s := d.add(parley.ScheduleSpec{Cron: "0 */12 * * *"})
			time.Sleep(12 * time.Hour)
			d.runs(s.ID)
			time.Sleep(36 * time.Hour)
			d.same("runs", d.runs(s.ID), "1 12:00 begun completed, 2 00:00 begun completed, 2 12:00 failed, 3 00:00 begun completed")
			list, _ := d.s.Runs(t.Context(), enginetest.User, s.ID)
			if !strings.Contains(list[1].Reason, "you may spend") || list[1].Session != "" {
				t.Errorf("why: %+v", list[1])
			}
			if all, err := d.Engine.Sessions(t.Context(), enginetest.User, seam.SessionQuery{}); err != nil || len(all) != 3 {
				t.Errorf("%d sessions, %v: that of the refused turn is not kept", len(all), err)
			}
		})
	})
	t.Run("revoked", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			gone := false
			d := open(t, mem.New(), enginetest.Echo, enginetest.App(), func(o *schedule.Options) {
				o.Allowed = func(p parley.Principal) error {
					if gone && p == enginetest.User {
						return errors.New("ana has no key any more")
					}
					return nil
				}
			})
			defer d.close()
			s := d.add(parley.ScheduleSpec{Cron: "0 * * * *"})
			time.Sleep(61 * time.Minute)
			gone = true
			time.Sleep(time.Hour)
			d.same("runs", d.runs(s.ID), "1 01:00 begun completed")
			if got := d.read(s.ID); !got.Paused || got.Why != "ana has no key any more" || !got.NextAt.IsZero() {
				t.Errorf("got %+v", got)
			}
		})
	})
}

// TestAppOff: while its app is off, a schedule waits, and says so.
func TestAppOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		d := open(t, store, enginetest.Echo, enginetest.App())
		s := d.add(parley.ScheduleSpec{Cron: "0 * * * *"})
		d.close()
		other := open(t, store, enginetest.Echo, enginetest.App(func(a *parley.App) { a.Name = "other" }))
		time.Sleep(90 * time.Minute)
		if got := other.read(s.ID); !strings.Contains(got.Why, `no app "test"`) || got.Last != nil {
			t.Errorf("while it is off: %+v", got)
		}
		other.close()
		d = open(t, store, enginetest.Echo, enginetest.App())
		defer d.close()
		time.Sleep(6 * time.Minute)
		d.same("back again", d.runs(s.ID), "1 01:00 begun completed")
	})
}

// TestPause: a schedule that is paused begins nothing, unless somebody runs it; times that pass
// meanwhile are not missed.
func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, mem.New(), slow, enginetest.App())
		defer d.close()
		s := d.add(parley.ScheduleSpec{Cron: "0 * * * *", Message: "10m"})
		yes, no := true, false
		paused, err := d.s.Update(t.Context(), enginetest.User, s.ID, parley.UpdateSchedule{Paused: &yes, ExpectedVersion: s.Version})
		if err != nil || !paused.Paused || !paused.NextAt.IsZero() {
			t.Fatalf("got %+v, %v", paused, err)
		}
		if _, err := d.s.Update(t.Context(), enginetest.User, s.ID, parley.UpdateSchedule{Paused: &no, ExpectedVersion: s.Version}); parley.CodeOf(err) != parley.CodeConflict {
			t.Errorf("an old version: %v", err)
		}
		time.Sleep(90 * time.Minute)
		d.same("paused", d.runs(s.ID), "")
		run, err := d.s.RunNow(t.Context(), enginetest.User, s.ID, "k")
		if err != nil || run.Outcome != parley.RunBegun || run.Turn == "" {
			t.Fatalf("got %+v, %v", run, err)
		}
		again, err := d.s.RunNow(t.Context(), enginetest.User, s.ID, "k")
		if err != nil || again.Turn != run.Turn {
			t.Errorf("the same key: %+v, %v", again, err)
		}
		if _, err := d.s.RunNow(t.Context(), enginetest.User, s.ID, ""); parley.CodeOf(err) != parley.CodeBusy {
			t.Errorf("while that goes on: %v", err)
		}
		time.Sleep(11 * time.Minute)
		if _, err := d.s.RunNow(t.Context(), enginetest.User, s.ID, ""); err != nil {
			t.Error(err)
		}
		time.Sleep(11 * time.Minute)
		if _, err := d.s.Update(t.Context(), enginetest.User, s.ID, parley.UpdateSchedule{Paused: &no}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		d.same("at the end", d.runs(s.ID), "now begun completed, now begun completed, 1 02:00 begun completed")
		if err := d.s.Remove(t.Context(), enginetest.User, s.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := d.s.Schedule(t.Context(), enginetest.User, s.ID); !errors.Is(err, parley.ErrNotFound) {
			t.Errorf("removed: %v", err)
		}
	})
}

// TestJitter: a schedule's delay is its own and does not change; what is due together begins apart.
func TestJitter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, mem.New(), enginetest.Echo, enginetest.App())
		defer d.close()
		delays := map[time.Duration]bool{}
		var list []parley.Schedule
		for range 10 {
			s := d.add(parley.ScheduleSpec{Cron: "0 * * * *", Jitter: 600})
			delay := s.NextAt.Sub(time.Now().Truncate(time.Hour).Add(time.Hour))
			if delay < 0 || delay > 10*time.Minute {
				t.Errorf("a delay of %s", delay)
			}
			delays[delay.Truncate(time.Minute)] = true
			list = append(list, s)
		}
		if len(delays) < 4 {
			t.Errorf("ten schedules have the delays %v", delays)
		}
		time.Sleep(2*time.Hour + 11*time.Minute)
		for _, s := range list {
			d.same("runs", d.runs(s.ID), "1 01:00 begun completed, 1 02:00 begun completed")
			if got := d.last(s.ID).At; !got.Equal(s.NextAt.Add(time.Hour)) {
				t.Errorf("the second run began at %s, want an hour after %s", got, s.NextAt)
			}
		}
	})
}

// TestScheduleRefused: what cannot be done is refused with its field.
func TestScheduleRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, mem.New(), enginetest.Echo, enginetest.App(two), func(o *schedule.Options) {
			o.PerUser = 2
			o.Clean = func(text string) string { return strings.ReplaceAll(text, "sk-123", "[redacted]") }
		})
		defer d.close()
		theirs, _, err := d.Engine.Create(t.Context(), parley.Principal{User: "bea"}, parley.CreateSession{App: "test"})
		if err != nil {
			t.Fatal(err)
		}
		ended := d.Session()
		if _, err := d.Engine.End(t.Context(), enginetest.User, ended.ID, ""); err != nil {
			t.Fatal(err)
		}
		for name, tc := range map[string]struct {
			field string
			f     func(s *parley.ScheduleSpec)
		}{
			"no such app":        {"app", func(s *parley.ScheduleSpec) { s.App = "tset" }},
			"too often":          {"cron", func(s *parley.ScheduleSpec) { s.Cron = "*/4 * * * *" }},
			"no message":         {"message", func(s *parley.ScheduleSpec) { s.Message = " \n" }},
			"a secret":           {"message", func(s *parley.ScheduleSpec) { s.Message = "use sk-123" }},
			"a long message":     {"message", func(s *parley.ScheduleSpec) { s.Message = strings.Repeat("\x01", 12<<10) }},
			"no such agent":      {"agent", func(s *parley.ScheduleSpec) { s.Agent = "tidyer" }},
			"a mode not offered": {"mode", func(s *parley.ScheduleSpec) { s.Mode = parley.ModeBypassPermissions }},
			"no such mode":       {"mode", func(s *parley.ScheduleSpec) { s.Mode = "fast" }},
			"no such policy":     {"missed", func(s *parley.ScheduleSpec) { s.Missed = "some" }},
			"a wider budget":     {"budgets.max_steps", func(s *parley.ScheduleSpec) { s.Budgets.MaxSteps = 99 }},
			"no such model":      {"model", func(s *parley.ScheduleSpec) { s.Model = "gpt-0" }},
			"a session for new":  {"session_id", func(s *parley.ScheduleSpec) { s.SessionID = ended.ID }},
			"an ended session":   {"session_id", func(s *parley.ScheduleSpec) { s.Session, s.SessionID = parley.ScheduleSame, ended.ID }},
			"jitter":             {"jitter_seconds", func(s *parley.ScheduleSpec) { s.Jitter = 3600 }},
		} {
			spec := parley.ScheduleSpec{App: "test", Cron: "0 * * * *", Message: "hi"}
			tc.f(&spec)
			_, err := d.s.Add(t.Context(), enginetest.User, spec, "")
			if e, ok := errors.AsType[*parley.Error](err); !ok || e.Field != tc.field {
				t.Errorf("%s: got %#v, want the field %s", name, err, tc.field)
			}
		}
		spec := parley.ScheduleSpec{App: "test", Cron: "0 * * * *", Message: "hi", Session: parley.ScheduleSame, SessionID: theirs.ID}
		if _, err := d.s.Add(t.Context(), enginetest.User, spec, ""); !errors.Is(err, parley.ErrNotFound) {
			t.Errorf("another user's session: %v", err)
		}
		mine := d.add(parley.ScheduleSpec{Cron: "0 * * * *"})
		d.add(parley.ScheduleSpec{Cron: "0 * * * *"})
		if _, err := d.s.Add(t.Context(), enginetest.User, parley.ScheduleSpec{App: "test", Cron: "0 * * * *", Message: "hi"}, ""); parley.CodeOf(err) != parley.CodeTooLarge {
			t.Errorf("a third one: %v", err)
		}
		bea := parley.Principal{User: "bea"}
		yes := true
		_, read := d.s.Schedule(t.Context(), bea, mine.ID)
		_, runs := d.s.Runs(t.Context(), bea, mine.ID)
		_, update := d.s.Update(t.Context(), bea, mine.ID, parley.UpdateSchedule{Paused: &yes})
		_, now := d.s.RunNow(t.Context(), bea, mine.ID, "")
		for _, err := range []error{read, runs, update, now, d.s.Remove(t.Context(), bea, mine.ID)} {
			if !errors.Is(err, parley.ErrNotFound) {
				t.Errorf("another user: %v", err)
			}
		}
		if list, err := d.s.List(t.Context(), bea, ""); err != nil || len(list) != 0 {
			t.Errorf("another user's list: %v, %v", list, err)
		}
		if list, err := d.s.List(t.Context(), enginetest.User, "test"); err != nil || len(list) != 2 {
			t.Errorf("the list: %v, %v", list, err)
		}
	})
}

// TestDefine: the schedules that an app's file defines belong to one user, follow the file, and
// can be paused and run, but not changed.
func TestDefine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, mem.New(), enginetest.Echo, enginetest.App())
		defer d.close()
		define := func(of parley.Principal, specs map[string]parley.ScheduleSpec) {
			t.Helper()
			if err := d.s.Define(t.Context(), of, "test", specs); err != nil {
				t.Error(err)
			}
		}
		hourly := parley.ScheduleSpec{App: "test", Cron: "0 * * * *", Message: "tidy"}
		define(enginetest.User, map[string]parley.ScheduleSpec{"a": hourly, "b": hourly})
		own := d.add(parley.ScheduleSpec{Cron: "0 * * * *"})
		time.Sleep(time.Hour)
		d.same("a", d.runs("app:test:a"), "1 01:00 begun completed")
		yes := true
		if _, err := d.s.Update(t.Context(), enginetest.User, "app:test:a", parley.UpdateSchedule{Paused: &yes}); err != nil {
			t.Error(err)
		}
		message := "other"
		_, update := d.s.Update(t.Context(), enginetest.User, "app:test:a", parley.UpdateSchedule{Message: &message})
		for _, err := range []error{update, d.s.Remove(t.Context(), enginetest.User, "app:test:a")} {
			if parley.CodeOf(err) != parley.CodeForbidden {
				t.Errorf("a change: %v", err)
			}
		}
		// The file changes: b is gone, a has other times and stays paused, and keeps its runs.
		daily := hourly
		daily.Cron = "@daily"
		define(enginetest.User, map[string]parley.ScheduleSpec{"a": daily})
		if got := d.read("app:test:a"); !got.Paused || got.Cron != "@daily" || !got.FromApp || got.Last == nil {
			t.Errorf("a: %+v", got)
		}
		if _, err := d.s.Schedule(t.Context(), enginetest.User, "app:test:b"); !errors.Is(err, parley.ErrNotFound) {
			t.Errorf("b: %v", err)
		}
		// One that cannot be carried out leaves the others alone.
		bad := hourly
		bad.Agent = "nobody"
		if err := d.s.Define(t.Context(), enginetest.User, "test", map[string]parley.ScheduleSpec{"a": daily, "bad": bad}); err == nil || !strings.Contains(err.Error(), "schedule bad") {
			t.Errorf("got %v", err)
		}
		d.read("app:test:a")
		// The operator names another user.
		bea := parley.Principal{User: "bea"}
		define(bea, map[string]parley.ScheduleSpec{"a": hourly})
		if list, err := d.s.List(t.Context(), enginetest.User, ""); err != nil || len(list) != 1 || list[0].ID != own.ID {
			t.Errorf("the first user's: %+v, %v", list, err)
		}
		if list, err := d.s.List(t.Context(), bea, ""); err != nil || len(list) != 1 {
			t.Errorf("the other's: %+v, %v", list, err)
		}
		define(parley.Principal{}, nil)
		if list, err := d.s.List(t.Context(), bea, ""); err != nil || len(list) != 0 {
			t.Errorf("with nobody named: %+v, %v", list, err)
		}
	})
}
