package schedule_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/replay"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// TestPairs: turns of schedules in one session, together with what people do to it: a retry, a fork, a rewind and its undoing,
// retention, an export that another user imports, and deletion. A schedule's turn is replayed as it went, also what it was
// denied because nobody was there. Only the owner's session gets further runs, and what a person begins asks that person.
func TestPairs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, ben := t.Context(), parley.Principal{User: "ben"}
		saw := 0 // messages of the schedule in the last prompt
		model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			n := 0
			for _, m := range r.Messages {
				n += strings.Count(parley.PartsText(m.Parts), "tidy up")
			}
			if enginetest.Last(r) != "clean" {
				saw = n
			}
			if done := enginetest.Results(r); len(done) > 0 {
				say(done[0])
				return seam.Reply{StopReason: "end_turn"}, nil
			}
			return seam.Reply{StopReason: "tool_use", Parts: []parley.Part{enginetest.Call("mail", map[string]string{"text": "hi"})}}, nil
		}
		app := enginetest.App(func(a *parley.App) {
			a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Tool: "mail"}}
			a.Policy.AnswerWithin = parley.Duration(100 * time.Hour)
			a.TTL = parley.TTL{TurnSteps: parley.Duration(24 * time.Hour)}
		})
		kept := archive.NewFolder(datafolder.New(t.TempDir(), nil))
		d := open(t, mem.New(), model, app, func(o *engine.Options) {
			o.Archive, o.SweepEvery, o.TendEvery = kept, 10_000*time.Hour, 10_000*time.Hour
		})
		defer d.close()
		own := d.add(parley.ScheduleSpec{Cron: "0 * * * *", Session: parley.ScheduleSame})
		his, err := d.s.Add(ctx, ben, parley.ScheduleSpec{App: "test", Message: "clean", Cron: "0 * * * *", Session: parley.ScheduleSame}, "")
		if err != nil {
			t.Fatal(err)
		}
		answer := func(p parley.Principal, id parley.TurnID, choice string) parley.TurnInfo {
			t.Helper()
			turn, err := d.Engine.Await(ctx, p, id, time.Minute)
			if err != nil || turn.Status != parley.StatusWaiting || len(turn.Interactions) != 1 {
				t.Fatalf("a person is not asked: %+v, %v", turn, err)
			}
			if _, err := d.Engine.Answer(ctx, p, turn.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: choice}}); err != nil {
				t.Fatal(err)
			}
			if turn, err = d.Engine.Await(ctx, p, id, time.Minute); err != nil || turn.Status != parley.StatusCompleted {
				t.Fatalf("answered: %+v, %v", turn, err)
			}
			return turn
		}
		whole := func(p parley.Principal, id parley.SessionID) (all []parley.Event) {
			t.Helper()
			for e, err := range d.Reader.Whole(ctx, p, id, 0) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, e)
			}
			return all
		}
		again := func(what string, p parley.Principal, id parley.SessionID) {
			t.Helper()
			log := whole(p, id)
			rec := &replay.Recording{Events: log, Apps: map[parley.Digest]parley.App{}}
			for _, e := range log {
				if pay, err := e.Payload(); err == nil {
					if s, ok := pay.(parley.TurnStarted); ok {
						rec.Apps[s.App] = app
					}
				}
			}
			got, err := replay.Run(ctx, rec, replay.Options{})
			if err != nil {
				t.Errorf("a replay %s: %v", what, err)
				return
			}
			if diff := replay.Compare(log, got.Events); diff != nil {
				t.Errorf("a replay %s differs: %s\n%s\nagain:\n%s", what, diff, enginetest.Types(log), enginetest.Types(got.Events))
			}
		}

		time.Sleep(2*time.Hour + time.Minute)
		d.same("two runs", d.runs(own.ID), "1 01:00 begun completed, 1 02:00 begun completed")
		id, runs := d.read(own.ID).SessionID, d.listed(own.ID)
		if other, err := d.s.Schedule(ctx, ben, his.ID); err != nil || other.SessionID == id || other.SessionID == "" {
			t.Errorf("another user's: %+v, %v", other, err)
		}
		again("of two runs", enginetest.User, id)

		fork, err := d.Engine.Fork(ctx, enginetest.User, id, parley.ForkSession{})
		if err != nil {
			t.Fatal(err)
		}
		answer(enginetest.User, d.Send(fork.ID, "and now?").ID, parley.ChoiceDeny)
		if saw != 2 {
			t.Errorf("the fork's prompt has %d runs", saw)
		}

		retry, err := d.Engine.Retry(ctx, enginetest.User, runs[1].Turn, "", "")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // it waits, so the run does not take place
		d.same("while a person is asked", d.runs(own.ID), "1 01:00 begun completed, 1 02:00 begun completed, 1 03:00 skipped")
		if turn := answer(enginetest.User, retry.ID, parley.ChoiceAllow); turn.RetryOf != runs[1].Turn {
			t.Errorf("the retry: %+v", turn)
		}
		again("with a retry", enginetest.User, id)

		back := d.Rewind(id, parley.RewindSession{What: parley.RewindConversation, Turn: runs[1].Turn})
		time.Sleep(time.Hour)
		d.same("rewound", d.runs(own.ID), "1 01:00 begun completed, 1 02:00 begun completed, 1 03:00 skipped, 1 04:00 begun completed")
		if got := d.last(own.ID); got.Session != id || saw != 2 {
			t.Errorf("after a rewind: %+v, and the prompt has %d runs", got, saw)
		}
		d.Rewind(id, parley.RewindSession{What: parley.RewindConversation, Undo: back.Seq})
		time.Sleep(time.Hour)
		if got := d.last(own.ID); got.Session != id || got.Status != parley.StatusCompleted || saw != 3 { // the retry stands for its turn
			t.Errorf("after the rewind was undone: %+v, and the prompt has %d runs", got, saw)
		}
		again("with rewinds", enginetest.User, id)

		stop, goOn := true, false
		for p, sid := range map[parley.Principal]parley.ScheduleID{enginetest.User: own.ID, ben: his.ID} {
			if _, err := d.s.Update(ctx, p, sid, parley.UpdateSchedule{Paused: &stop}); err != nil {
				t.Fatal(err)
			}
		}
		before := d.listed(own.ID)
		time.Sleep(25 * time.Hour)
		if done, err := d.Engine.Sweep(ctx, parley.System()); err != nil || done.Condensed < 2 {
			t.Fatalf("swept %+v, %v", done, err)
		}
		if after := d.listed(own.ID); !slices.Equal(before, after) {
			t.Errorf("the runs after their steps are gone: %+v, before %+v", after, before)
		}
		again("from the archive", enginetest.User, id)

		copied, err := d.Engine.Import(ctx, ben, d.Exported(id))
		if err != nil {
			t.Fatal(err)
		}
		again("of an import", ben, copied.ID)
		turns, err := d.Engine.Turns(ctx, ben, seam.TurnQuery{Session: copied.ID, Limit: 50})
		if err != nil || len(turns) == 0 {
			t.Fatal(turns, err)
		}
		imported, err := d.Engine.Retry(ctx, ben, turns[len(turns)-1].ID, "", "")
		if err != nil {
			t.Fatal(err)
		}
		answer(ben, imported.ID, parley.ChoiceDeny)

		for p, sid := range map[parley.Principal]parley.ScheduleID{enginetest.User: own.ID, ben: his.ID} {
			if _, err := d.s.Update(ctx, p, sid, parley.UpdateSchedule{Paused: &goOn}); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Engine.Delete(ctx, enginetest.User, id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		switch got := d.last(own.ID); {
		case got.Status != parley.StatusCompleted, slices.Contains([]parley.SessionID{id, fork.ID, copied.ID}, got.Session):
			t.Errorf("after its session was deleted: %+v", got)
		case saw != 1:
			t.Errorf("the prompt of the new session has %d runs", saw)
		}
		for s, p := range map[parley.SessionID]parley.Principal{fork.ID: enginetest.User, copied.ID: ben, d.last(own.ID).Session: enginetest.User} {
			if err := enginetest.CheckLog(whole(p, s)); err != nil {
				t.Error(err)
			}
			again("at the end", p, s)
		}
	})
}

// listed are the runs of a schedule, the oldest first.
func (d *desk) listed(id parley.ScheduleID) []parley.ScheduleRun {
	d.T.Helper()
	synctest.Wait()
	list, err := d.s.Runs(d.T.Context(), enginetest.User, id)
	if err != nil {
		d.T.Fatal(err)
	}
	slices.Reverse(list)
	return list
}
