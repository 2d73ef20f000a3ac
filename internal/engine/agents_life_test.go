package engine_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
)

// TestEndOfTwoThatAsk: whatever ends a turn also ends the agents that ask, and closes their
// questions. The next turn begins without them.
func TestEndOfTwoThatAsk(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		end  func(r *enginetest.Rig, s parley.SessionID, turn parley.TurnID) error
		want string
		next bool
	}{
		"a message interrupts": {func(r *enginetest.Rig, s parley.SessionID, _ parley.TurnID) error {
			_, err := r.Engine.Send(ctx, enginetest.User, s, parley.Send{Message: "look c", Busy: parley.BusyInterrupt})
			return err
		}, "turn.cancelled", true},
		"it is cancelled with a queue": {func(r *enginetest.Rig, s parley.SessionID, turn parley.TurnID) error {
			if _, err := r.Engine.Send(ctx, enginetest.User, s, parley.Send{Message: "look c", Busy: parley.BusyEnqueue}); err != nil {
				return err
			}
			_, err := r.Engine.Cancel(ctx, enginetest.User, turn, "")
			return err
		}, "turn.cancelled", false},
		"the session ends": {func(r *enginetest.Rig, s parley.SessionID, _ parley.TurnID) error {
			_, err := r.Engine.End(ctx, enginetest.User, s, "")
			return err
		}, "turn.cancelled", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, s, turn := twoAsk(t)
				defer r.Close()
				if err := tc.end(r, s.ID, turn.ID); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				log := r.Log(s.ID)
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
				if n := eventsOf(log, "interaction.expired"); n != 2 || eventsOf(log, parley.EventType(tc.want)) != 1 {
					t.Errorf("%d questions were closed, want 2 and %s\n%s", n, tc.want, enginetest.Types(log))
				}
				if st := stateOf(t, r, s.ID); len(st.Interactions) > 0 {
					t.Errorf("still asked: %+v", st.Interactions)
				}
				if _, _, mails := r.Service.Counts(); mails != 0 {
					t.Errorf("%d mails were sent", mails)
				}
				if got := eventsOf(log, "turn.completed"); (got == 1) != tc.next {
					t.Errorf("%d turns were completed\n%s", got, enginetest.Types(log))
				}
			})
		})
	}
}

func eventsOf(log []parley.Event, what parley.EventType) (n int) {
	for _, ev := range log {
		if ev.Type == what {
			n++
		}
	}
	return n
}

// TestForkOfTwoThatAsk: a fork ends the waiting turn in the copy. The turn of the original goes on.
func TestForkOfTwoThatAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, s, turn := twoAsk(t)
		defer r.Close()
		fork, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
		if err != nil {
			t.Fatal(err)
		}
		if st := stateOf(t, r, fork.ID); st.Turn != nil || len(st.Interactions) != 0 {
			t.Errorf("the fork has %+v", st.Turn)
		}
		if got := r.Await(r.Send(fork.ID, "look c").ID); got.Status != parley.StatusCompleted {
			t.Errorf("the next turn of the fork: %+v", got)
		}
		answerAs(t, r, question(t, r, s.ID, "lead/worker"), parley.ChoiceAllow, "")
		answerAs(t, r, question(t, r, s.ID, "lead/worker#2"), parley.ChoiceAllow, "")
		if got := r.Await(turn.ID); got.Response == nil || got.Response.Message != "mailed a, mailed b" {
			t.Errorf("got %+v", got)
		}
		for _, id := range []parley.SessionID{s.ID, fork.ID} {
			if err := enginetest.CheckLog(r.Log(id)); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestRetryOfATeam: the retry of a turn is told what the sub-agents of the first attempt did.
func TestRetryOfATeam(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failing := true
		var told string
		model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			if results := enginetest.Results(r); r.Agent == "lead" && len(results) > 0 && failing {
				failing = false
				return seam.Reply{}, parley.Errorf(parley.CodeModel, "cannot")
			}
			if r.Agent == "lead" && !failing {
				for _, m := range r.Messages {
					told += parley.PartsText(m.Parts)
				}
				say("done")
				return seam.Reply{}, nil
			}
			return teamwork(ctx, r, say)
		}
		r := enginetest.New(t, model, enginetest.App(team))
		defer r.Close()
		s := r.Session()
		first := r.Await(r.Send(s.ID, "mail a; look b").ID)
		if first.Status != parley.StatusFailed {
			t.Fatalf("got %+v", first)
		}
		again, err := r.Engine.Retry(ctx, enginetest.User, first.ID, "", "")
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Await(again.ID); got.Status != parley.StatusCompleted {
			t.Errorf("got %+v", got)
		}
		if !strings.Contains(told, "mail: done") {
			t.Errorf("the second turn was not told of the mail:\n%s", told)
		}
	})
}

// TestBudgetOfATeam: when sub-agents have used up a budget, the agents that need more of it end.
// The agent that gave the tasks is told so, and gets the results of the others.
func TestBudgetOfATeam(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		budgets parley.Budgets
		status  parley.TurnStatus
		want    []string
	}{
		"tool calls": {parley.Budgets{MaxToolCalls: 3, MaxSteps: 20}, parley.StatusCompleted, []string{"seen ", "budget of tool calls"}},
		"steps":      {parley.Budgets{MaxSteps: 4}, parley.StatusFailed, nil},
		"depth":      {parley.Budgets{MaxSteps: 20, MaxDepth: 1}, parley.StatusCompleted, []string{"seen a", "not start others more than 1 deep"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := enginetest.New(t, teamwork, enginetest.App(team, func(a *parley.App) { a.Budgets = tc.budgets }))
				defer r.Close()
				s := r.Session()
				second := map[bool]string{true: "pass look b", false: "look b"}[name == "depth"]
				got := r.Await(r.Send(s.ID, "look a; "+second).ID)
				if got.Status != tc.status || tc.status == parley.StatusFailed && got.Error.Code != "budget_steps" {
					t.Errorf("got %s, %v, %+v\n%s", got.Status, got.Error, got.Response, enginetest.Types(r.Log(s.ID)))
				}
				for _, want := range tc.want {
					if got.Response == nil || !strings.Contains(got.Response.Message, want) {
						t.Errorf("got %+v, want %q in it", got.Response, want)
					}
				}
				if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestTeamIsCondensed: after the steps of a team's turn were condensed, the session is the same and
// goes on.
func TestTeamIsCondensed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, teamwork, enginetest.App(team, keeping))
		defer r.Close()
		s := r.Session()
		if got := r.Await(r.Send(s.ID, "mail a; pass look b").ID); got.Status != parley.StatusCompleted {
			t.Fatalf("got %+v", got)
		}
		before := stateOf(t, r, s.ID)
		time.Sleep(2 * longAgo)
		if _, err := r.Engine.Sweep(ctx, enginetest.User); err != nil {
			t.Fatal(err)
		}
		after := stateOf(t, r, s.ID)
		if after.Condensed == 0 {
			t.Fatal("nothing was condensed")
		}
		if diff := cmp.Diff(before.History, after.History) + cmp.Diff(before.Totals, after.Totals); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
		if got := r.Await(r.Send(s.ID, "look c").ID); got.Response == nil || got.Response.Message != "seen c" {
			t.Errorf("the next turn: %+v", got)
		}
	})
}

// TestTeamIsFollowedThroughCuts: clients that follow a team's turn and lose the connection after any
// frame, once or again and again, end with the same log and the same text as one that never does.
func TestTeamIsFollowedThroughCuts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		talks := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			for _, word := range []string{"let ", "me ", "see. "} {
				say(word)
				<-time.After(100 * time.Millisecond) // so that the words of all agents mix
			}
			return boss(ctx, r, say)
		}
		r := enginetest.New(t, talks, enginetest.App(team, asking))
		defer r.Close()
		s := r.Session()
		ctx, stop := context.WithCancel(ctx)
		var all sync.WaitGroup
		const most = 120
		clients := make([]*cutClient, most+3)
		for i := range clients {
			c := &cutClient{text: map[parley.CallID]string{}}
			clients[i] = c
			all.Go(func() {
				frames, events := 0, 0
				if i < most {
					frames = i + 1
				} else if i > most {
					events = i - most
				}
				for ctx.Err() == nil {
					c.follow(ctx, r.Reader, s.ID, frames, events)
					frames = 0
				}
			})
		}
		synctest.Wait()
		turn := r.Send(s.ID, "tell: mail a; pass mail b")
		got := r.Await(turn.ID)
		for got.Status == parley.StatusWaiting {
			for _, id := range got.Interactions {
				answerAs(t, r, id, parley.ChoiceAllow, "")
			}
			got = r.Await(turn.ID)
		}
		if got.Response == nil || !strings.HasSuffix(got.Response.Message, "mailed a, mailed b") {
			t.Errorf("got %+v", got)
		}
		synctest.Wait()
		stop()
		all.Wait()
		log := r.Log(s.ID)
		if n := clients[most].frames; n > most {
			t.Errorf("a client that is never cut got %d frames, and only %d are tried", n, most)
		}
		for i, c := range clients {
			if !slices.EqualFunc(log, c.log, func(a, b parley.Event) bool { return a.Seq == b.Seq && a.Type == b.Type }) {
				t.Errorf("client %d has %d events of %d", i, len(c.log), len(log))
			}
			if len(c.text) != 0 {
				t.Errorf("client %d shows text of calls that have ended: %v", i, c.text)
			}
			if c.wrong != "" {
				t.Errorf("client %d: %s", i, c.wrong)
			}
		}
	})
}

// cutClient is a client that resumes after its last event whenever it was cut.
type cutClient struct {
	log    []parley.Event
	text   map[parley.CallID]string // in flight
	frames int
	wrong  string
}

// follow reads at most this many frames, or this many events; 0 means no limit.
func (c *cutClient) follow(ctx context.Context, from *eventlog.Reader, id parley.SessionID, frames, events int) {
	clear(c.text) // text in flight is sent again, as a partial
	for f, err := range from.Follow(ctx, enginetest.User, id, int64(len(c.log))) {
		if err != nil {
			return
		}
		c.frames++
		switch {
		case f.Event != nil:
			c.event(*f.Event)
		case f.Delta != nil && f.Delta.Kind == parley.DeltaText:
			if f.Partial {
				c.text[f.Delta.Call] = ""
			}
			c.text[f.Delta.Call] += f.Delta.Text
		}
		if f.Event != nil {
			if events--; events == 0 {
				return
			}
		}
		if frames--; frames == 0 {
			return
		}
	}
}

func (c *cutClient) event(e parley.Event) {
	if e.Seq != int64(len(c.log))+1 {
		c.wrong = "its events have a gap"
	}
	c.log = append(c.log, e)
	p, err := e.Payload()
	if err != nil {
		c.wrong = err.Error()
	}
	switch p := p.(type) {
	case parley.ModelReplied:
		if shown := c.text[p.Call]; !strings.HasPrefix(parley.PartsText(p.Parts), shown) {
			c.wrong = "it showed " + shown + " for " + parley.PartsText(p.Parts)
		}
		delete(c.text, p.Call)
	case parley.ModelFailed:
		delete(c.text, p.Call)
	}
}
