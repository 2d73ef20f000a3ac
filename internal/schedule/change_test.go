package schedule_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/schedule"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// pond stands in for a lake: its commits, each of a turn or "" for a person's.
type pond struct {
	mu      sync.Mutex
	commits []parley.TurnID
	away    error
}

func (p *pond) commit(by ...parley.TurnID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commits = append(p.commits, append(by, "")[0])
}

func (p *pond) changes(_ context.Context, _ parley.Principal, _ string, _ parley.Workspace, since string, own []parley.TurnID) (string, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := len(p.commits)
	if since != "" {
		_, _ = fmt.Sscanf(since, "c%d", &from)
	}
	others := slices.ContainsFunc(p.commits[from:], func(by parley.TurnID) bool { return !slices.Contains(own, by) && by != "applied" })
	return fmt.Sprintf("c%d", len(p.commits)), others, p.away
}

func (p *pond) watched(o *schedule.Options) { o.Changes = p.changes }

// TestOnChange: changes of a lake that follow one another have one run, when they are over. What was there before is none, nor is what the
// schedule's own turns change and what was applied. While a run goes on, the next one waits, and none is lost.
func TestOnChange(t *testing.T) {
	t.Parallel()
	const day = "1 "
	for name, tc := range map[string]struct {
		spec parley.ScheduleSpec
		do   func(t *testing.T, p *pond, d *desk, s parley.Schedule)
		want string
	}{
		"nothing": {parley.ScheduleSpec{}, func(t *testing.T, _ *pond, d *desk, s parley.Schedule) {
			before := d.read(s.ID).Version
			time.Sleep(5 * time.Hour)
			if now := d.read(s.ID).Version; now != before {
				t.Errorf("looking at a lake that nobody changes has made version %d of %d", now, before)
			}
		}, ""},
		"a batch": {parley.ScheduleSpec{}, func(_ *testing.T, p *pond, _ *desk, _ parley.Schedule) {
			for range 6 {
				p.commit()
				time.Sleep(time.Minute)
			}
			time.Sleep(2 * time.Hour)
			p.commit()
			time.Sleep(time.Hour)
		}, day + "00:08 begun completed, 1 02:09 begun completed"},
		"never quiet": {parley.ScheduleSpec{}, func(_ *testing.T, p *pond, _ *desk, _ parley.Schedule) {
			for range 40 {
				p.commit()
				time.Sleep(time.Minute)
			}
		}, day + "00:21 begun completed"},
		"its own": {parley.ScheduleSpec{}, func(_ *testing.T, p *pond, d *desk, s parley.Schedule) {
			p.commit()
			time.Sleep(10 * time.Minute)
			p.commit(d.last(s.ID).Turn)
			p.commit("applied")
			time.Sleep(3 * time.Hour)
		}, day + "00:03 begun completed"},
		"while it runs": {parley.ScheduleSpec{Message: "85m"}, func(_ *testing.T, p *pond, _ *desk, _ parley.Schedule) {
			p.commit()
			time.Sleep(10 * time.Minute)
			p.commit()
			time.Sleep(3 * time.Hour)
		}, day + "00:03 begun completed, 1 01:28 begun completed"},
		"cancel": {parley.ScheduleSpec{Message: "85m", Overlap: parley.OverlapCancel}, func(_ *testing.T, p *pond, _ *desk, _ parley.Schedule) {
			p.commit()
			time.Sleep(10 * time.Minute)
			p.commit()
			time.Sleep(3 * time.Hour)
		}, day + "00:03 begun cancelled, 1 00:13 begun completed"},
		"one session": {parley.ScheduleSpec{Message: "85m", Session: parley.ScheduleSame}, func(_ *testing.T, p *pond, _ *desk, _ parley.Schedule) {
			p.commit()
			time.Sleep(10 * time.Minute)
			p.commit()
			time.Sleep(3 * time.Hour)
		}, day + "00:03 begun completed, 1 01:28 begun completed"},
		"and at times": {parley.ScheduleSpec{Cron: "0 * * * *"}, func(_ *testing.T, p *pond, _ *desk, _ parley.Schedule) {
			time.Sleep(20 * time.Minute)
			p.commit()
			time.Sleep(50 * time.Minute)
		}, day + "00:23 begun completed, 1 01:00 begun completed"},
		"paused": {parley.ScheduleSpec{}, func(t *testing.T, p *pond, d *desk, s parley.Schedule) {
			set := func(yes bool) {
				if _, err := d.s.Update(t.Context(), enginetest.User, s.ID, parley.UpdateSchedule{Paused: &yes}); err != nil {
					t.Error(err)
				}
			}
			set(true)
			p.commit()
			time.Sleep(time.Hour)
			set(false)
			time.Sleep(30 * time.Minute)
		}, day + "01:02 begun completed"},
		"away": {parley.ScheduleSpec{}, func(_ *testing.T, p *pond, d *desk, s parley.Schedule) {
			p.mu.Lock()
			p.away = parley.Errorf(parley.CodeUnavailable, "the folder is away")
			p.mu.Unlock()
			p.commit()
			time.Sleep(30 * time.Minute)
			d.same("why", d.read(s.ID).Why, "its lake cannot be looked at: the folder is away")
			p.mu.Lock()
			p.away = nil
			p.mu.Unlock()
			time.Sleep(30 * time.Minute)
		}, day + "00:33 begun completed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &pond{}
				p.commit()
				d := open(t, mem.New(), slow, enginetest.App(), p.watched)
				tc.spec.OnChange = 120
				if tc.spec.Message == "" {
					tc.spec.Message = "1s"
				}
				s := d.add(tc.spec)
				time.Sleep(45 * time.Second)
				tc.do(t, p, d, s)
				d.same("runs", d.runs(s.ID), tc.want)
				d.stop()
				d.Kill()
			})
		})
	}
}

// TestOnChangeCrash: the server dies before or after each write of a run on a change. After the next start each batch of changes has had
// exactly one turn, also the one that nobody was there for.
func TestOnChangeCrash(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, at int64, after bool) (writes int64) {
		synctest.Test(t, func(t *testing.T) {
			disk, p := mem.New(), &pond{}
			p.commit()
			app := enginetest.App(func(a *parley.App) { a.Resume = parley.ResumeAuto })
			live := func(m *mortal, do func(d *desk)) {
				r := open(t, m, enginetest.Echo, app, p.watched, func(o *engine.Options) { o.NothingRuns = true })
				if _, err := r.Engine.Recover(t.Context()); err != nil && !m.dead.Load() {
					t.Error(err)
				}
				do(r)
				synctest.Wait()
				r.stop()
				if m.dead.Load() {
					r.Kill()
					return
				}
				r.Rig.Close()
			}
			var s parley.Schedule
			live(&mortal{Store: disk}, func(d *desk) {
				s = d.add(parley.ScheduleSpec{OnChange: 60})
				time.Sleep(time.Minute)
			})
			m := &mortal{Store: disk, at: at, after: after}
			p.commit()
			live(m, func(*desk) {
				for range 5 {
					if time.Sleep(time.Minute); m.dead.Load() {
						return
					}
				}
			})
			writes = m.writes.Load()
			live(&mortal{Store: disk}, func(*desk) { time.Sleep(20 * time.Minute) })
			p.commit()
			d := open(t, disk, enginetest.Echo, app, p.watched)
			time.Sleep(20 * time.Minute)
			synctest.Wait()
			turns, err := d.Engine.Turns(t.Context(), enginetest.User, seam.TurnQuery{Limit: 50})
			if err != nil || len(turns) != 2 {
				t.Errorf("%d turns for two batches, %v: %s", len(turns), err, d.runs(s.ID))
			}
			d.close()
		})
		return writes
	}
	total := run(t, 0, false)
	if total < 6 { // that it was changed, the claim, and what the turn needs
		t.Fatalf("there are only %d writes", total)
	}
	for at := int64(1); at <= total; at++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d after %v", at, after), func(t *testing.T) {
				t.Parallel()
				run(t, at, after)
			})
		}
	}
}

// TestOnChangeRefused: what is wrong with the setting is said.
func TestOnChangeRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pond{}
		d := open(t, mem.New(), enginetest.Echo, enginetest.App(), p.watched)
		defer d.close()
		none := open(t, mem.New(), enginetest.Echo, enginetest.App())
		defer none.close()
		for want, tc := range map[string]struct {
			s    *desk
			spec parley.ScheduleSpec
		}{
			"on_change_seconds":  {d, parley.ScheduleSpec{OnChange: 5}},
			"cron":               {d, parley.ScheduleSpec{}},
			"jitter_seconds":     {d, parley.ScheduleSpec{OnChange: 60, Jitter: 5}},
			"time_zone":          {d, parley.ScheduleSpec{OnChange: 60, Zone: "Moon"}},
			"on_change_seconds ": {none, parley.ScheduleSpec{OnChange: 60}},
		} {
			tc.spec.App, tc.spec.Message = "test", "hi"
			_, err := tc.s.s.Add(t.Context(), enginetest.User, tc.spec, "")
			if got := parley.Info(err); got.Code != parley.CodeInvalid || got.Field != want && got.Field+" " != want {
				t.Errorf("%s: got %v, field %q", want, err, got.Field)
			}
		}
	})
}
