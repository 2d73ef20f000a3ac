package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
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

// prompts are the requests that a model got.
type prompts struct {
	mu  sync.Mutex
	all []seam.Request
}

func (p *prompts) model(next enginetest.Model) enginetest.Model {
	return func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		p.mu.Lock()
		p.all = append(p.all, r)
		p.mu.Unlock()
		return next(ctx, r, say)
	}
}

// last is the text of the last request, without notes about the turn.
func (p *prompts) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, m := range p.all[len(p.all)-1].Messages {
		for _, part := range m.Parts {
			if part.Type == parley.PartText && !strings.HasPrefix(part.Text, enginetest.AboutTurn) {
				b.WriteString(string(m.Role) + ": " + part.Text + "\n")
			}
		}
	}
	return b.String()
}

// TestRewind goes back to before a message that had effects: they are shown before, stay done, and
// the next prompts say so. Undoing it brings everything back.
func TestRewind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		heard := &prompts{}
		r := enginetest.New(t, heard.model(secretary), enginetest.App())
		defer r.Close()
		s := r.Session()
		one := r.Await(r.Send(s.ID, "words 1").ID)
		two := r.Await(r.Send(s.ID, "mail 2").ID)
		three := r.Await(r.Send(s.ID, "look 3").ID)
		before := state(t, r, s.ID)

		seen := r.Rewind(s.ID, parley.RewindSession{Turn: two.ID, Preview: true})
		if now := state(t, r, s.ID); now.Seq != before.Seq {
			t.Errorf("the preview wrote %d events", now.Seq-before.Seq)
		}
		did := r.Rewind(s.ID, parley.RewindSession{Turn: two.ID, ExpectedVersion: seen.Version, Client: "test"})
		want := parley.RewindResult{
			Rewind:  parley.Rewind{What: parley.RewindBoth, To: two.FirstSeq - 1, Turn: two.ID, By: "ana", Client: "test"},
			Message: "mail 2",
			Turns: []parley.RewoundTurn{
				{ID: two.ID, Message: "mail 2", Status: parley.StatusCompleted, At: two.CreatedAt}, {ID: three.ID, Message: "look 3", Status: parley.StatusCompleted, At: three.CreatedAt},
			},
			Files: []parley.FileRewound{}, Effects: []parley.EffectLeft{{Turn: two.ID, Tool: "mail", Text: `{"text":"hi"}`, Outcome: parley.OutcomeOK}},
		}
		for _, got := range []parley.RewindResult{seen, did} {
			if got.Seq == 0 { // the preview
				got.Client = "test"
			}
			if got.Session != s.ID {
				t.Errorf("it is about session %s", got.Session)
			}
			got.ID, got.Seq, got.Version, got.Session = "", 0, 0, ""
			if len(got.Effects) == 1 {
				got.Effects[0].Call = ""
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		now := state(t, r, s.ID)
		if len(now.History) != 1 || now.Totals != before.Totals || now.Provider != nil || did.Seq != now.Seq || did.Version != now.Seq {
			t.Errorf("the session is %+v", now)
		}
		for id, by := range map[parley.TurnID]int64{one.ID: 0, two.ID: did.Seq, three.ID: did.Seq} {
			if row, err := r.Engine.Turn(ctx, enginetest.User, id); err != nil || row.Rewound != by {
				t.Errorf("turn %s was taken back by %d, %v; want %d", id, row.Rewound, err, by)
			}
		}
		list, err := r.Engine.Turns(ctx, enginetest.User, seam.TurnQuery{Session: s.ID})
		if err != nil || len(list) != 3 || list[2].Rewound != 0 || list[0].Rewound != did.Seq {
			t.Errorf("turns: %+v, %v", list, err)
		}

		four := r.Await(r.Send(s.ID, "words 4").ID)
		told := heard.last()
		for _, want := range []string{"user: words 1\n", "stays done", `mail {"text":"hi"}: done`, "user: words 4\n"} {
			if !strings.Contains(told, want) {
				t.Errorf("the prompt lacks %q:\n%s", want, told)
			}
		}
		if strings.Contains(told, "mail 2") || strings.Contains(told, "look 3") {
			t.Errorf("the prompt has what was taken back:\n%s", told)
		}
		r.Await(r.Send(s.ID, "words 5").ID)
		if next := heard.last(); !strings.HasPrefix(next, told) {
			t.Errorf("the next prompt is not the last one with more:\n%s\nand\n%s", told, next)
		}

		// Undone, it is as it was. What was said meanwhile is taken back.
		back := r.Rewind(s.ID, parley.RewindSession{Undo: did.Seq})
		after := state(t, r, s.ID)
		if diff := cmp.Diff(before.History, after.History); diff != "" || after.Taken != nil {
			t.Errorf("undone (-before +after):\n%s", diff)
		}
		if len(back.Back) != 2 || len(back.Turns) != 2 || back.Turns[0].ID != four.ID || back.Undoes != did.Seq || len(back.Effects) != 0 {
			t.Errorf("undoing did %+v", back)
		}
		// Undoing that is doing it again.
		r.Rewind(s.ID, parley.RewindSession{Undo: back.Seq})
		if again := state(t, r, s.ID); len(again.History) != 3 || again.History[1].Reply != "It is done." || again.History[1].Taken == nil {
			t.Errorf("done again: %+v", again.History)
		}
		log := r.Log(s.ID)
		if err := enginetest.CheckLog(log); err != nil {
			t.Errorf("%v\n%s", err, enginetest.Types(log))
		}
	})
}

// TestRewindRefused: a rewind is refused with words that say what to do, and changes nothing.
func TestRewindRefused(t *testing.T) {
	t.Parallel()
	type play struct {
		r                *enginetest.Rig
		id               parley.SessionID
		first, mid, last parley.TurnInfo
	}
	other := parley.Principal{User: "eve"}
	for name, c := range map[string]struct {
		before func(t *testing.T, p *play)
		rewind func(p *play) parley.RewindSession
		who    *parley.Principal
		want   parley.Code
		says   string
	}{
		"no turn":               {rewind: func(*play) parley.RewindSession { return parley.RewindSession{} }, want: parley.CodeInvalid, says: "names no turn"},
		"a turn and a rewind":   {rewind: func(p *play) parley.RewindSession { return parley.RewindSession{Turn: p.mid.ID, Undo: 3} }, want: parley.CodeInvalid},
		"nothing that there is": {rewind: func(p *play) parley.RewindSession { return parley.RewindSession{Turn: p.mid.ID, What: "all"} }, want: parley.CodeInvalid},
		"a turn of nobody":      {rewind: func(*play) parley.RewindSession { return parley.RewindSession{Turn: "01JTURN0000000000000000001"} }, want: parley.CodeNotFound},
		"an event that is none": {rewind: func(*play) parley.RewindSession { return parley.RewindSession{Undo: 2} }, want: parley.CodeNotFound, says: "no rewind"},
		"somebody else":         {rewind: func(p *play) parley.RewindSession { return parley.RewindSession{Turn: p.mid.ID} }, who: &other, want: parley.CodeNotFound},
		"an old version":        {rewind: func(p *play) parley.RewindSession { return parley.RewindSession{Turn: p.mid.ID, ExpectedVersion: 3} }, want: parley.CodeConflict, says: "version"},
		"files of which no one": {rewind: func(p *play) parley.RewindSession {
			return parley.RewindSession{Turn: p.mid.ID, What: parley.RewindFiles}
		}, want: parley.CodeConflict, says: "no file"},
		"a turn of another session": {
			before: func(_ *testing.T, p *play) { p.mid = p.r.Await(p.r.Send(p.r.Session().ID, "words").ID) },
			rewind: func(p *play) parley.RewindSession { return parley.RewindSession{Turn: p.mid.ID} }, want: parley.CodeNotFound,
		},
		"while a turn runs": {
			before: func(_ *testing.T, p *play) { p.last = p.r.Send(p.id, "hang"); synctest.Wait() },
			rewind: func(p *play) parley.RewindSession { return parley.RewindSession{Turn: p.mid.ID} }, want: parley.CodeBusy, says: "running",
		},
		"to the turn that runs": {
			before: func(_ *testing.T, p *play) { p.last = p.r.Send(p.id, "hang"); synctest.Wait() },
			rewind: func(p *play) parley.RewindSession { return parley.RewindSession{Turn: p.last.ID} }, want: parley.CodeBusy,
		},
		"while a turn waits": {
			before: func(_ *testing.T, p *play) { p.last = p.r.Await(p.r.Send(p.id, "mail asked").ID) },
			rewind: func(p *play) parley.RewindSession { return parley.RewindSession{Turn: p.mid.ID} }, want: parley.CodeBusy, says: "waits for a person",
		},
		"of an ended session": {
			before: func(t *testing.T, p *play) {
				if _, err := p.r.Engine.End(ctx, enginetest.User, p.id, ""); err != nil {
					t.Fatal(err)
				}
			},
			rewind: func(p *play) parley.RewindSession { return parley.RewindSession{Turn: p.mid.ID} }, want: parley.CodeConflict, says: "ended",
		},
		"to a direct call": {
			before: func(t *testing.T, p *play) {
				turn, err := p.r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{Session: p.id, Name: "look", Input: []byte(`{"text":"x"}`)})
				if err != nil {
					t.Fatal(err)
				}
				p.mid = p.r.Await(turn.ID)
			},
			rewind: func(p *play) parley.RewindSession { return parley.RewindSession{Turn: p.mid.ID} }, want: parley.CodeInvalid, says: "message of the user",
		},
		"to what was taken back": {
			before: func(t *testing.T, p *play) { p.r.Rewind(p.id, parley.RewindSession{Turn: p.mid.ID}) },
			rewind: func(p *play) parley.RewindSession { return parley.RewindSession{Turn: p.last.ID} }, want: parley.CodeConflict, says: "taken back by the rewind of event",
		},
		"what was taken back with its undoing": {
			before: func(t *testing.T, p *play) {
				did := p.r.Rewind(p.id, parley.RewindSession{Turn: p.mid.ID})
				p.r.Rewind(p.id, parley.RewindSession{Turn: p.first.ID})
				p.mid.LastSeq = did.Seq
			},
			rewind: func(p *play) parley.RewindSession { return parley.RewindSession{Undo: p.mid.LastSeq} }, want: parley.CodeConflict, says: "taken back by the rewind of event",
		},
		"undoing something else than was done": {
			before: func(t *testing.T, p *play) {
				p.mid.LastSeq = p.r.Rewind(p.id, parley.RewindSession{Turn: p.mid.ID}).Seq
			},
			rewind: func(p *play) parley.RewindSession {
				return parley.RewindSession{Undo: p.mid.LastSeq, What: parley.RewindFiles}
			}, want: parley.CodeInvalid,
		},
		"while the server stops": {
			before: func(_ *testing.T, p *play) { p.r.Close() },
			rewind: func(p *play) parley.RewindSession { return parley.RewindSession{Turn: p.mid.ID} }, want: parley.CodeUnavailable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
					if enginetest.Last(r) == "hang" {
						select {
						case <-gate:
						case <-ctx.Done():
						}
					}
					return secretary(ctx, r, say)
				}
				app := enginetest.App(func(a *parley.App) {
					a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Tool: "mail"}, {Verdict: parley.Allow}}
				})
				p := &play{r: enginetest.New(t, model, app)}
				defer p.r.Close()
				defer close(gate)
				p.id = p.r.Session().ID
				p.first = p.r.Await(p.r.Send(p.id, "words 1").ID)
				p.mid = p.r.Await(p.r.Send(p.id, "words 2").ID)
				p.last = p.r.Await(p.r.Send(p.id, "words 3").ID)
				if c.before != nil {
					c.before(t, p)
				}
				was := len(p.r.Log(p.id))
				who := enginetest.User
				if c.who != nil {
					who = *c.who
				}
				for _, preview := range []bool{true, false} {
					asked := c.rewind(p)
					asked.Preview = preview
					_, err := p.r.Engine.Rewind(ctx, who, p.id, asked)
					if preview && asked.What == parley.RewindFiles && err == nil {
						continue // it shows that there are none
					}
					if code(err) != c.want || !strings.Contains(err.Error(), c.says) || parley.Info(err).Hint == "" && c.want != parley.CodeConflict {
						t.Errorf("preview %v: %v, %+v", preview, err, parley.Info(err))
					}
				}
				if now := len(p.r.Log(p.id)); now != was {
					t.Errorf("%d events were appended", now-was)
				}
			})
		})
	}
}

// TestRewindOfInterrupted: an interrupted turn is closed by a rewind, with what was sent into it. If
// it is not known what became of one of its writes, that comes first.
func TestRewindOfInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		service := &enginetest.Service{}
		app := enginetest.App(queued)
		r := enginetest.Over(t, mem.New(), service, secretary, app)
		s := r.Session()
		r.Await(r.Send(s.ID, "words 1").ID)
		service.SetGate(func(context.Context, seam.Run) error { <-hang; return errors.New("gone") })
		cut := r.Send(s.ID, "mail 2")
		synctest.Wait()
		if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "more", Busy: parley.BusySteer}); err != nil {
			t.Fatal(err)
		}
		waiting, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "words 3", Busy: parley.BusyEnqueue})
		if err != nil {
			t.Fatal(err)
		}
		disk := r.Dies(hang)
		service.SetGate(nil)
		r = enginetest.Over(t, disk, service, secretary, app)
		defer r.Close()
		if _, err := r.Engine.Rewind(ctx, enginetest.User, s.ID, parley.RewindSession{Turn: cut.ID}); code(err) != parley.CodeConflict || !strings.Contains(err.Error(), "mail") {
			t.Fatalf("with an open write: %v", err)
		}
		time.Sleep(time.Minute)
		if _, err := r.Engine.Resume(ctx, enginetest.User, cut.ID); err != nil {
			t.Fatal(err)
		}
		if got := r.Await(cut.ID); got.Status != parley.StatusWaiting {
			t.Fatalf("the turn is %s", got.Status)
		}
		open, err := r.Engine.Interactions(ctx, enginetest.User, 1)
		if err != nil || len(open) != 1 {
			t.Fatal(open, err)
		}
		// A crash while the question is open leaves it open.
		if _, err := r.Engine.Answer(ctx, enginetest.User, open[0].ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceHappened}}); err != nil {
			t.Fatal(err)
		}
		r.Await(cut.ID)
		synctest.Wait()
		r.Await(waiting.ID)
		got := r.Rewind(s.ID, parley.RewindSession{Turn: cut.ID})
		if len(got.Turns) != 2 || len(got.Effects) != 1 || got.Effects[0].Outcome != parley.OutcomeUnknown || got.Effects[0].Resolution != parley.ChoiceHappened {
			t.Errorf("got %+v", got)
		}
		if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		app := enginetest.App(queued)
		model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			if enginetest.Last(r) == "hang" {
				<-hang
				return seam.Reply{}, errors.New("gone")
			}
			return secretary(ctx, r, say)
		}
		r := enginetest.New(t, model, app)
		s := r.Session()
		r.Await(r.Send(s.ID, "words 1").ID)
		cut := r.Send(s.ID, "hang")
		synctest.Wait()
		for m, busy := range map[string]parley.BusyMode{"into it": parley.BusySteer, "words 3": parley.BusyEnqueue} {
			if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: m, Busy: busy}); err != nil {
				t.Fatal(err)
			}
		}
		r = enginetest.Over(t, r.Dies(hang), r.Service, secretary, app)
		defer r.Close()
		r.Rewind(s.ID, parley.RewindSession{Turn: cut.ID})
		st := state(t, r, s.ID)
		if row, err := r.Engine.Turn(ctx, enginetest.User, cut.ID); err != nil || row.Status != parley.StatusCancelled || row.Rewound != st.Seq {
			t.Errorf("the turn is %+v, %v", row, err)
		}
		if st.Turn != nil || len(st.Queue) != 1 || !st.QueueHeld() || st.Queue[0].Request.Message.Text() != "words 3" {
			t.Errorf("queued are %+v, held %v", st.Queue, st.QueueHeld())
		}
		// The next command releases the queue.
		r.Await(r.Send(s.ID, "words 4").ID)
		synctest.Wait()
		if st := state(t, r, s.ID); len(st.Queue) != 0 || len(st.History) != 3 {
			t.Errorf("then queued are %+v, with %d exchanges", st.Queue, len(st.History))
		}
		if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
			t.Error(err)
		}
	})
}

// TestRewindAgain: the same key is answered with the same rewind, also after a restart and from
// many clients at once; of two different rewinds at once, the second one does not begin.
func TestRewindAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, secretary, enginetest.App())
		s := r.Session()
		var turns []parley.TurnInfo
		for _, m := range []string{"words 1", "words 2", "words 3"} {
			turns = append(turns, r.Await(r.Send(s.ID, m).ID))
		}
		asked := parley.RewindSession{Turn: turns[1].ID, Key: "k"}
		results := make([]parley.RewindResult, 8)
		var all sync.WaitGroup
		for i := range results {
			all.Go(func() { results[i] = r.Rewind(s.ID, asked) })
		}
		all.Wait()
		want := r.Rewind(s.ID, asked)
		for _, got := range results {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		other := asked
		other.Turn = turns[0].ID
		if _, err := r.Engine.Rewind(ctx, enginetest.User, s.ID, other); code(err) != parley.CodeKeyReused {
			t.Errorf("another rewind with the key: %v", err)
		}
		if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "words", Key: "k"}); code(err) != parley.CodeKeyReused {
			t.Errorf("a message with the key: %v", err)
		}
		disk := r.Mem.Clone()
		r.Close()
		r = enginetest.Over(t, disk, r.Service, secretary, enginetest.App())
		defer r.Close()
		if diff := cmp.Diff(want, r.Rewind(s.ID, asked)); diff != "" {
			t.Errorf("after a restart (-want +got):\n%s", diff)
		}

		// Two at once who have seen the same version.
		r.Await(r.Send(s.ID, "words 4").ID)
		version := state(t, r, s.ID).Seq
		errs := make([]error, 6)
		for i := range errs {
			all.Go(func() {
				c := parley.RewindSession{Turn: turns[0].ID, ExpectedVersion: version}
				if i%2 == 0 {
					c = parley.RewindSession{Undo: want.Seq, ExpectedVersion: version}
				}
				_, errs[i] = r.Engine.Rewind(ctx, enginetest.User, s.ID, c)
			})
		}
		all.Wait()
		done := 0
		for _, err := range errs {
			switch code(err) {
			case "":
				done++
			case parley.CodeConflict:
			default:
				t.Error(err)
			}
		}
		if done != 1 {
			t.Errorf("%d of them were done: %v", done, errs)
		}
		if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
			t.Error(err)
		}
	})
}

// TestRewindCondensed: what cannot be shown any more is not taken back. Condensing what was taken
// back changes nothing, and it comes back all the same.
func TestRewindCondensed(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*parley.App){
		"all of it": func(*parley.App) {}, "the last few": func(a *parley.App) { a.Memory.LastK = 1 }, "the last, summed": remembering,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sh := newShelf(t)
			synctest.Test(t, func(t *testing.T) {
				app := enginetest.App(keeping, change)
				with := func(o *engine.Options) { o.Archive = sh }
				r := enginetest.New(t, secretary, app, byHand, with)
				s, _ := busy(t, r, 11)
				old := r.Await(r.Send(s.ID, "mail old").ID)
				time.Sleep(25 * time.Hour)
				var young []parley.TurnInfo
				for _, m := range []string{"look 1", "mail 2", "put 3", "words 4"} {
					young = append(young, r.Await(r.Send(s.ID, m).ID))
				}
				sweep(t, r)
				if _, err := r.Engine.Rewind(ctx, enginetest.User, s.ID, parley.RewindSession{Turn: old.ID}); code(err) != parley.CodeCondensed || !strings.Contains(parley.Info(err).Hint, "archive has them as") {
					t.Errorf("to a condensed turn: %v, %+v", err, parley.Info(err))
				}
				did := r.Rewind(s.ID, parley.RewindSession{Turn: young[1].ID})
				if len(did.Effects) != 2 {
					t.Errorf("effects: %+v", did.Effects)
				}
				r.Await(r.Send(s.ID, "words 5").ID)
				later := state(t, r, s.ID)
				time.Sleep(25 * time.Hour)
				if done := sweep(t, r); done.Condensed != 1 {
					t.Fatalf("swept %+v", done)
				}
				if diff := cmp.Diff(told(later), told(state(t, r, s.ID))); diff != "" {
					t.Errorf("condensing changed the state (-before +after):\n%s", diff)
				}
				disk := r.Mem.Clone()
				r.Close()
				disk.ForgetStates()
				r = enginetest.Over(t, disk, r.Service, secretary, app, byHand, with)
				defer r.Close()
				if diff := cmp.Diff(told(later), told(state(t, r, s.ID))); diff != "" {
					t.Errorf("rebuilt from the condensed log (-before +after):\n%s", diff)
				}
				// The turn since then is condensed, too.
				if _, err := r.Engine.Rewind(ctx, enginetest.User, s.ID, parley.RewindSession{Undo: did.Seq}); code(err) != parley.CodeCondensed {
					t.Errorf("undone over a condensed turn: %v", err)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				app := enginetest.App(keeping, change)
				r := enginetest.New(t, secretary, app, byHand)
				defer r.Close()
				s, _ := busy(t, r, 11)
				last := r.Await(r.Send(s.ID, "mail old").ID)
				before := state(t, r, s.ID)
				did := r.Rewind(s.ID, parley.RewindSession{Turn: last.ID})
				time.Sleep(25 * time.Hour)
				sweep(t, r)
				r.Rewind(s.ID, parley.RewindSession{Undo: did.Seq})
				after := state(t, r, s.ID)
				if diff := cmp.Diff(before.History, after.History); diff != "" || before.Summary != after.Summary {
					t.Errorf("undone (-before +after):\n%s", diff)
				}
				if turn := r.Await(r.Send(s.ID, "words on").ID); turn.Status != parley.StatusCompleted {
					t.Errorf("the session cannot go on: %+v", turn)
				}
			})
		})
	}
}

// TestRewindOfCopies: a fork goes back to messages that it shares with its parent, and leaves the
// parent as it is. A fork in the middle of what was taken back has it, and an import has the rewinds.
func TestRewindOfCopies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, secretary, enginetest.App())
		defer r.Close()
		s := r.Session()
		one := r.Await(r.Send(s.ID, "words 1").ID)
		two := r.Await(r.Send(s.ID, "mail 2").ID)
		fork, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
		if err != nil {
			t.Fatal(err)
		}
		before := state(t, r, s.ID)
		did := r.Rewind(fork.ID, parley.RewindSession{Turn: two.ID})
		if len(did.Effects) != 1 || len(state(t, r, fork.ID).History) != 1 {
			t.Errorf("the fork went back to %+v", did)
		}
		if diff := cmp.Diff(before, state(t, r, s.ID)); diff != "" {
			t.Errorf("the parent changed:\n%s", diff)
		}
		own := r.Rewind(s.ID, parley.RewindSession{Turn: one.ID})
		r.Await(r.Send(s.ID, "words 3").ID)
		inside, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{At: two.LastSeq})
		if err != nil {
			t.Fatal(err)
		}
		if st := state(t, r, inside.ID); len(st.History) != 2 {
			t.Errorf("a fork from what was taken back knows %+v", st.History)
		}
		late, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Rewind(late.ID, parley.RewindSession{Undo: own.Seq}); len(got.Back) != 2 || len(got.Turns) != 1 {
			t.Errorf("the rewind undone in a fork: %+v", got)
		}

		copied, err := r.Engine.Import(ctx, enginetest.User, engine.Imported{Events: r.Log(s.ID)})
		if err != nil {
			t.Fatal(err)
		}
		a, b := state(t, r, s.ID), state(t, r, copied.ID)
		if len(b.History) != 1 || !slices.Equal(a.Rewinds, b.Rewinds) {
			t.Errorf("the import is %+v with %+v", b.History, b.Rewinds)
		}
		rows, err := r.Engine.Turns(ctx, enginetest.User, seam.TurnQuery{Session: copied.ID})
		if err != nil || len(rows) != 3 {
			t.Fatal(rows, err)
		}
		if got := r.Rewind(copied.ID, parley.RewindSession{Undo: own.Seq}); len(got.Back) != 2 {
			t.Errorf("the rewind undone in an import: %+v", got)
		}
		for _, id := range []parley.SessionID{s.ID, fork.ID, inside.ID, late.ID, copied.ID} {
			if err := enginetest.CheckLog(r.Log(id)); err != nil {
				t.Error(err)
			}
		}
	})
}
