package engine_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// turnTold has the fields of a turn that a list and a transcript share.
type turnTold struct {
	ID              parley.TurnID
	Status          parley.TurnStatus
	Message, Reason string
}

// shown returns the turns in the transcript of a log.
func shown(log []parley.Event) []parley.TurnView {
	var v parley.Transcript
	for _, ev := range log {
		v.Apply(ev)
	}
	return v.Turns
}

// sameTurns returns the difference between the turns that a session lists and those that its
// whole log shows. It is empty if there is none.
func sameTurns(t *testing.T, r *enginetest.Rig, p parley.Principal, id parley.SessionID, log []parley.Event) string {
	t.Helper()
	rows, err := r.Engine.Turns(ctx, p, seam.TurnQuery{Session: id, Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	var want, got []turnTold
	for _, v := range shown(log) {
		want = append(want, turnTold{v.ID, v.Status, v.Message, v.Reason})
	}
	for _, row := range rows {
		got = append(got, turnTold{row.ID, row.Status, row.Message, row.Reason})
		if row.SessionID != id {
			t.Errorf("turn %s of %s says that it is of %s", row.ID, id, row.SessionID)
		}
		if row.Status.Ended() {
			last := log[row.LastSeq-1]
			if log[row.FirstSeq-1].Turn != row.ID || last.Turn != row.ID || !strings.HasPrefix(string(last.Type), "turn.") {
				t.Errorf("turn %s goes from %d to %d, which is a %s of %s", row.ID, row.FirstSeq, row.LastSeq, last.Type, last.Turn)
			}
		}
	}
	slices.SortFunc(want, func(a, b turnTold) int { return strings.Compare(string(a.ID), string(b.ID)) })
	slices.Reverse(got)
	return cmp.Diff(want, got)
}

// unnamed is a transcript without the ids that an import replaces.
func unnamed(turns []parley.TurnView) []parley.TurnView {
	out := slices.Clone(turns)
	for i := range out {
		out[i].ID, out[i].RetryOf = "", ""
		out[i].Interactions = slices.Clone(out[i].Interactions)
		for n := range out[i].Interactions {
			in := &out[i].Interactions[n]
			in.ID, in.Session, in.Turn = "", "", ""
		}
	}
	return out
}

// TestForkHasItsTurns: a fork lists the turns that its log shows. This holds wherever the fork
// begins, whatever its parent does afterwards, and without its parent. The same holds for imports.
func TestForkHasItsTurns(t *testing.T) {
	eachStore(t, func(t *testing.T, store seam.Store) {
		r := enginetest.Over(t, store, &enginetest.Service{}, words, enginetest.App(asking, queued))
		defer r.Close()
		ben := parley.Principal{User: "ben"}
		fork := func(of parley.SessionID, at int64) parley.SessionID {
			t.Helper()
			info, err := r.Engine.Fork(ctx, enginetest.User, of, parley.ForkSession{At: at})
			if err != nil {
				t.Fatal(err)
			}
			return info.ID
		}
		s := r.Session()
		first, second := r.Await(r.Send(s.ID, "only words").ID), r.Await(r.Send(s.ID, "only words").ID)
		early := r.Await(r.Send(s.ID, "go").ID)
		if _, err := r.Engine.Answer(ctx, enginetest.User, early.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceDeny}}); err != nil {
			t.Fatal(err)
		}
		r.Await(early.ID)
		open := r.Await(r.Send(s.ID, "go").ID)
		late, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "only words", Busy: parley.BusyEnqueue})
		if err != nil || open.Status != parley.StatusWaiting || late.Status != parley.StatusPending {
			t.Fatalf("%v: %s, %s", err, open.Status, late.Status)
		}
		whole := fork(s.ID, 0)
		forks := map[parley.SessionID]int{
			whole: 5, fork(s.ID, first.LastSeq): 1, fork(s.ID, second.LastSeq-1): 2, fork(whole, second.LastSeq): 2, fork(whole, 0): 5,
		}
		check := func(when string) {
			t.Helper()
			for id, n := range forks {
				log := r.Log(id)
				if err := enginetest.CheckLog(log); err != nil {
					t.Errorf("%s: %v", when, err)
				}
				turns := shown(log)
				if diff := sameTurns(t, r, enginetest.User, id, log); diff != "" || len(turns) != n {
					t.Errorf("%s: %d turns, want %d (-shown +listed):\n%s", when, len(turns), n, diff)
				}
				for _, v := range turns {
					if !v.Status.Ended() {
						t.Errorf("%s: %q of a fork is %s", when, v.Message, v.Status)
					}
				}
			}
		}
		check("forked")
		for _, of := range []parley.SessionID{s.ID, whole} {
			in := r.Exported(of)
			copied, err := r.Engine.Import(ctx, ben, in)
			if err != nil {
				t.Fatal(err)
			}
			var log []parley.Event
			for ev, err := range r.Reader.Whole(ctx, ben, copied.ID, 0) {
				if err != nil {
					t.Fatal(err)
				}
				log = append(log, ev)
			}
			if diff := sameTurns(t, r, ben, copied.ID, log); diff != "" || len(shown(log)) != 5 {
				t.Errorf("imported: %d turns (-shown +listed):\n%s", len(shown(log)), diff)
			}
			if of == whole { // every turn has ended, so the import adds nothing
				if diff := cmp.Diff(unnamed(shown(r.Log(whole))), unnamed(shown(log))); diff != "" {
					t.Errorf("the transcript of the import (-fork +import):\n%s", diff)
				}
			}
		}

		if _, err := r.Engine.Answer(ctx, enginetest.User, open.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		if got := r.Await(late.ID); got.Status != parley.StatusCompleted || got.SessionID != s.ID {
			t.Errorf("the queued turn is %s, of %s", got.Status, got.SessionID)
		}
		if got := r.Await(open.ID); got.Status != parley.StatusCompleted || got.SessionID != s.ID {
			t.Errorf("the open turn is %s, of %s", got.Status, got.SessionID)
		}
		check("ended in the parent")

		if err := r.Engine.Delete(ctx, enginetest.User, s.ID); err != nil {
			t.Fatal(err)
		}
		check("without the parent")
		asked, err := r.Engine.Interaction(ctx, enginetest.User, open.Interactions[0])
		if err != nil || asked.Open || asked.Answer != nil || asked.Session != whole {
			t.Errorf("without the parent the question that the fork closed: %v, %+v", err, asked)
		}
		if got, err := r.Engine.Interaction(ctx, enginetest.User, early.Interactions[0]); err != nil || got.Open || got.Answer == nil || got.Session == s.ID {
			t.Errorf("without the parent a question that was answered: %v, %+v", err, got)
		}
		if got := r.Await(open.ID); got.Status != parley.StatusCancelled || got.SessionID != whole {
			t.Errorf("without the parent the turn is %s, of %s", got.Status, got.SessionID)
		}
		again, err := r.Engine.Retry(ctx, enginetest.User, second.ID, "", "")
		if err != nil || again.SessionID == s.ID {
			t.Fatalf("retried without the parent: %+v, %v", again, err)
		}
		if got := r.Await(again.ID); got.Status != parley.StatusCompleted || got.Message != "only words" {
			t.Errorf("retried without the parent: %+v", got)
		}
		forks[again.SessionID]++
		check("went on")
	})
}

// TestForkAfterTheClockWentBack makes a fork after the clock was set back. An open turn is still
// found by id in the parent, which drives it.
func TestForkAfterTheClockWentBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		r := enginetest.New(t, words, enginetest.App(asking), func(o *engine.Options) {
			o.Now = func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }
		})
		defer r.Close()
		open := r.Await(r.Send(r.Session().ID, "go").ID)
		back.Store(int64(time.Hour))
		if _, err := r.Engine.Fork(ctx, enginetest.User, open.SessionID, parley.ForkSession{}); err != nil {
			t.Fatal(err)
		}
		if got := r.Await(open.ID); got.SessionID != open.SessionID || got.Status != parley.StatusWaiting {
			t.Errorf("the turn is %s, of %s, want that of %s", got.Status, got.SessionID, open.SessionID)
		}
	})
}

// TestForkOfTheEnd: a fork of the end reads no log, since the fold of the parent is stored.
func TestForkOfTheEnd(t *testing.T) {
	t.Parallel()
	m := &metered{Store: mem.New()}
	r := enginetest.Over(t, m, &enginetest.Service{}, enginetest.Echo, enginetest.App())
	defer r.Close()
	s := r.Session()
	for range 40 {
		r.Await(r.Send(s.ID, strings.Repeat("word ", 2000)).ID)
	}
	before := m.read.Load()
	whole, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
	if err != nil {
		t.Fatal(err)
	}
	if n := m.read.Load() - before; n > 20_000 {
		t.Errorf("%d bytes were read for a fork of the end", n)
	}
	// It equals the fork made by reading the log.
	want, err := r.Engine.State(ctx, enginetest.User, whole.ID)
	if err != nil {
		t.Fatal(err)
	}
	var got parley.Session
	for _, ev := range r.Log(whole.ID) {
		if err := got.Apply(ev); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the fold of the fork (-state +log):\n%s", diff)
	}
}

// TestForkHasItsInteractions: what was asked and closed before a fork is found without its parent.
func TestForkHasItsInteractions(t *testing.T) {
	eachStore(t, func(t *testing.T, store seam.Store) {
		r := enginetest.Over(t, store, &enginetest.Service{}, words, enginetest.App(asking))
		defer r.Close()
		open := r.Session()
		asked := r.Await(r.Send(open.ID, "go").ID).Interactions[0]
		closed, err := r.Engine.Fork(ctx, enginetest.User, open.ID, parley.ForkSession{})
		if err == nil {
			err = r.Engine.Delete(ctx, enginetest.User, open.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		if row, err := r.Engine.Interaction(ctx, enginetest.User, asked); err != nil || row.Session != closed.ID || row.Open {
			t.Errorf("what was open at the fork: %+v, %v", row, err)
		}
		s := r.Session()
		waits := r.Await(r.Send(s.ID, "go").ID)
		id := waits.Interactions[0]
		if _, err := r.Engine.Answer(ctx, enginetest.User, id, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		r.Await(waits.ID)
		fork, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
		if err != nil {
			t.Fatal(err)
		}
		again, err := r.Engine.Fork(ctx, enginetest.User, fork.ID, parley.ForkSession{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ gone, in parley.SessionID }{{"", s.ID}, {s.ID, fork.ID}, {fork.ID, again.ID}} {
			if c.gone != "" {
				if err := r.Engine.Delete(ctx, enginetest.User, c.gone); err != nil {
					t.Fatal(err)
				}
			}
			row, err := r.Engine.Interaction(ctx, enginetest.User, id)
			if err != nil || row.Session != c.in || row.Open || row.Answer == nil || row.Answer.Choice != parley.ChoiceAllow {
				t.Errorf("without %q: %+v, %v", c.gone, row, err)
			}
		}
	})
}
