package engine_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// say sends a message that must be accepted.
func say(t *testing.T, r *enginetest.Rig, id parley.SessionID, message string, busy parley.BusyMode) parley.TurnInfo {
	t.Helper()
	info, err := r.Engine.Send(ctx, enginetest.User, id, parley.Send{Message: message, Busy: busy})
	if err != nil {
		t.Fatalf("%s %q: %v", busy, message, err)
	}
	return info
}

// held is a model whose answers to messages that begin with "long" do not end until its gate is
// closed. "mail" and "put" write, "look" reads, "inquire" asks.
type held struct {
	gate chan struct{}
	all  bool // hold the answers to all messages
}

func (h *held) model(ctx context.Context, r seam.Request, word func(string)) (seam.Reply, error) {
	last := enginetest.Last(r)
	if tool, _, _ := strings.Cut(last, " "); slices.Contains([]string{"mail", "put", "look", "inquire"}, tool) && len(enginetest.Results(r)) == 0 {
		return seam.Reply{Parts: []parley.Part{enginetest.Call(tool, map[string]string{"text": last})}}, nil
	}
	word("about " + last)
	if strings.HasPrefix(last, "long") || h.all {
		select {
		case <-h.gate:
		case <-ctx.Done():
			return seam.Reply{}, ctx.Err()
		}
	}
	return seam.Reply{}, nil
}

func queued(a *parley.App) { a.MaxOpenTurns = 4 }

// began returns the messages of a log's turns in the order in which they ran, each with how its
// turn ended.
func began(events []parley.Event) []string {
	var order []parley.TurnID
	said, ended := map[parley.TurnID]string{}, map[parley.TurnID]string{}
	for _, ev := range events {
		p, _ := ev.Payload()
		switch p := p.(type) {
		case parley.TurnStarted:
			order = append(order, ev.Turn)
			said[ev.Turn] = p.Message.Text()
		case parley.TurnCompleted, parley.TurnFailed, parley.TurnCancelled, parley.TurnExpired:
			ended[ev.Turn] = strings.TrimPrefix(string(ev.Type), "turn.")
		}
	}
	var out []string
	for _, id := range order {
		out = append(out, said[id]+": "+ended[id])
	}
	return out
}

// wants compares the turns that ran in a session with the expected ones, and checks its log.
func wants(t *testing.T, r *enginetest.Rig, id parley.SessionID, want ...string) {
	t.Helper()
	synctest.Wait()
	log := r.Log(id)
	if diff := cmp.Diff(want, began(log)); diff != "" {
		t.Errorf("%s\n%s", diff, enginetest.Types(log))
	}
	if err := enginetest.CheckLog(log); err != nil {
		t.Errorf("%v\n%s", err, enginetest.Types(log))
	}
}

func queueLen(t *testing.T, r *enginetest.Rig, id parley.SessionID, want int) {
	t.Helper()
	q, err := r.Engine.Queue(ctx, enginetest.User, id)
	if err != nil || len(q) != want {
		t.Errorf("%d turns are queued, want %d; %v", len(q), want, err)
	}
}

// slowMail makes the mails of a rig's service take a second.
func slowMail(r *enginetest.Rig) {
	r.Service.SetGate(func(ctx context.Context, c seam.Run) error {
		if c.Name == "mail" {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
}

// TestQueue checks the rule of the queue for each pair of commands. After a completed or failed
// turn the queue continues; after a cancel it stops until the next command.
func TestQueue(t *testing.T) {
	type bench struct {
		t    *testing.T
		r    *enginetest.Rig
		h    *held
		id   parley.SessionID
		long parley.TurnInfo
	}
	cancel := func(b *bench, id parley.TurnID) {
		b.t.Helper()
		if _, err := b.r.Engine.Cancel(ctx, enginetest.User, id, "stop"); err != nil {
			b.t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		begin string // the first message
		do    func(b *bench)
		want  []string
		left  int // turns left in the queue
	}{
		"steer, cancel": {"long one", func(b *bench) {
			say(b.t, b.r, b.id, "two", parley.BusySteer)
			cancel(b, b.long.ID)
		}, []string{"long one: cancelled"}, 1},
		"steer, cancel, send": {"long one", func(b *bench) {
			say(b.t, b.r, b.id, "two", parley.BusySteer)
			cancel(b, b.long.ID)
			say(b.t, b.r, b.id, "three", "")
		}, []string{"long one: cancelled", "two: completed", "three: completed"}, 0},
		"more steers than the limit of turns, cancel, send": {"long one", func(b *bench) {
			for _, m := range []string{"a", "b", "c", "d", "e"} {
				say(b.t, b.r, b.id, m, parley.BusySteer)
			}
			cancel(b, b.long.ID)
			say(b.t, b.r, b.id, "f", "")
		}, []string{"long one: cancelled", "a: completed", "b: completed", "c: completed", "d: completed", "e: completed", "f: completed"}, 0},
		"enqueue, cancel": {"long one", func(b *bench) {
			say(b.t, b.r, b.id, "two", parley.BusyEnqueue)
			cancel(b, b.long.ID)
		}, []string{"long one: cancelled"}, 1},
		"enqueue, cancel, interrupt": {"long one", func(b *bench) {
			say(b.t, b.r, b.id, "two", parley.BusyEnqueue)
			cancel(b, b.long.ID)
			say(b.t, b.r, b.id, "three", parley.BusyInterrupt)
		}, []string{"long one: cancelled", "three: completed", "two: completed"}, 0},
		"enqueue, cancel, unqueue the head, send": {"long one", func(b *bench) {
			two := say(b.t, b.r, b.id, "two", parley.BusyEnqueue)
			say(b.t, b.r, b.id, "three", parley.BusyEnqueue)
			cancel(b, b.long.ID)
			if err := b.r.Engine.Unqueue(ctx, enginetest.User, b.id, two.ID); err != nil {
				b.t.Fatal(err)
			}
			say(b.t, b.r, b.id, "four", "")
		}, []string{"long one: cancelled", "three: completed", "four: completed"}, 0},
		"enqueue, cancel, retry": {"long one", func(b *bench) {
			say(b.t, b.r, b.id, "two", parley.BusyEnqueue)
			cancel(b, b.long.ID)
			close(b.h.gate)
			if _, err := b.r.Engine.Retry(ctx, enginetest.User, b.long.ID, "", ""); err != nil {
				b.t.Fatal(err)
			}
		}, []string{"long one: cancelled", "two: completed", "long one: completed"}, 0},
		"enqueue, interrupt": {"long one", func(b *bench) {
			say(b.t, b.r, b.id, "two", parley.BusyEnqueue)
			say(b.t, b.r, b.id, "three", parley.BusyInterrupt)
		}, []string{"long one: cancelled", "three: completed", "two: completed"}, 0},
		"interrupt twice": {"long one", func(b *bench) {
			say(b.t, b.r, b.id, "long two", parley.BusyInterrupt)
			synctest.Wait()
			say(b.t, b.r, b.id, "three", parley.BusyInterrupt)
		}, []string{"long one: cancelled", "long two: cancelled", "three: completed"}, 0},
		"steer, interrupt": {"long one", func(b *bench) {
			say(b.t, b.r, b.id, "two", parley.BusySteer)
			say(b.t, b.r, b.id, "three", parley.BusyInterrupt)
		}, []string{"long one: cancelled", "three: completed", "two: completed"}, 0},
		"steer, fail": {"long one", func(b *bench) {
			say(b.t, b.r, b.id, "two", parley.BusySteer)
			time.Sleep(time.Hour) // longer than the time budget
		}, []string{"long one: failed", "two: completed"}, 0},
		"a write under way: interrupt, then cancel": {"mail one", func(b *bench) {
			say(b.t, b.r, b.id, "two", parley.BusyInterrupt)
			cancel(b, b.long.ID)
			time.Sleep(2 * time.Second)
		}, []string{"mail one: cancelled"}, 1},
		"a write under way: cancel, then enqueue": {"mail one", func(b *bench) {
			say(b.t, b.r, b.id, "two", parley.BusyEnqueue)
			cancel(b, b.long.ID)
			say(b.t, b.r, b.id, "three", parley.BusyEnqueue)
			time.Sleep(2 * time.Second)
		}, []string{"mail one: cancelled", "two: completed", "three: completed"}, 0},
		"a write under way: cancel, then steer": {"mail one", func(b *bench) {
			cancel(b, b.long.ID)
			say(b.t, b.r, b.id, "two", parley.BusySteer)
			time.Sleep(2 * time.Second)
		}, []string{"mail one: cancelled", "two: completed"}, 0},
		"a write under way: steer, then cancel": {"mail one", func(b *bench) {
			say(b.t, b.r, b.id, "two", parley.BusySteer)
			cancel(b, b.long.ID)
			time.Sleep(2 * time.Second)
		}, []string{"mail one: cancelled"}, 1},
		"a write under way: interrupt with a queue": {"mail one", func(b *bench) {
			say(b.t, b.r, b.id, "two", parley.BusyEnqueue)
			say(b.t, b.r, b.id, "three", parley.BusyInterrupt)
			time.Sleep(2 * time.Second)
		}, []string{"mail one: cancelled", "three: completed", "two: completed"}, 0},
		"steer, end": {"long one", func(b *bench) {
			say(b.t, b.r, b.id, "two", parley.BusySteer)
			say(b.t, b.r, b.id, "three", parley.BusyEnqueue)
			end(b.t, b.r, b.id)
		}, []string{"long one: cancelled"}, 0},
		"interrupt, cancel": {"long one", func(b *bench) {
			say(b.t, b.r, b.id, "two", parley.BusyInterrupt)
			cancel(b, b.long.ID)
		}, []string{"long one: cancelled"}, 1},
		"a write under way: interrupt, cancel, send": {"mail one", func(b *bench) {
			say(b.t, b.r, b.id, "two", parley.BusyInterrupt)
			cancel(b, b.long.ID)
			b.r.Await(say(b.t, b.r, b.id, "three", parley.BusyEnqueue).ID) // sent after the cancel, so it releases the queue
		}, []string{"mail one: cancelled", "two: completed", "three: completed"}, 0},
		"a write under way: interrupt, end": {"mail one", func(b *bench) {
			say(b.t, b.r, b.id, "two", parley.BusyInterrupt)
			end(b.t, b.r, b.id)
		}, []string{"mail one: cancelled"}, 0},
		"retry while another runs and steers": {"one", func(b *bench) {
			b.r.Await(b.long.ID)
			long := b.r.Send(b.id, "long two")
			busy := parley.BusySteer
			if _, err := b.r.Engine.Update(ctx, enginetest.User, b.id, parley.UpdateSession{Busy: &busy}); err != nil {
				b.t.Fatal(err)
			}
			again, err := b.r.Engine.Retry(ctx, enginetest.User, b.long.ID, "", "")
			if err != nil || again.ID == long.ID {
				b.t.Errorf("the retry is %s, %v", again.ID, err)
			}
			synctest.Wait()
			close(b.h.gate)
		}, []string{"one: completed", "long two: completed", "one: completed"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := &held{}
			app := enginetest.App(queued, func(a *parley.App) { a.Budgets.MaxDurationMS = time.Minute.Milliseconds() })
			rigged(t, h.model, app, func(t *testing.T, r *enginetest.Rig) {
				h.gate = make(chan struct{})
				slowMail(r)
				b := &bench{t: t, r: r, h: h, id: r.Session().ID}
				b.long = r.Send(b.id, tc.begin)
				synctest.Wait()
				tc.do(b)
				wants(t, r, b.id, tc.want...)
				queueLen(t, r, b.id, tc.left)
				pending(t, r, tc.left)
				// Nothing runs. The rest of the queue is held, and the session shows it.
				if in, err := r.Engine.Session(ctx, enginetest.User, b.id); err != nil || in.Held != (tc.left > 0) {
					t.Errorf("with %d turns left in the queue it says held: %v, %v", tc.left, in.Held, err)
				}
				r.Close()
				if in, err := r.Store.Session(ctx, enginetest.User, b.id); err != nil || in.Held != (tc.left > 0) {
					t.Errorf("with %d turns left in the queue the store says held: %v, %v", tc.left, in.Held, err)
				}
			})
		})
	}
}

// pending checks how many turns are pending, according to their rows.
func pending(t *testing.T, r *enginetest.Rig, want int) {
	t.Helper()
	rows, err := r.Store.Turns(ctx, parley.System(), seam.TurnQuery{Statuses: []parley.TurnStatus{parley.StatusPending}, Limit: -1})
	if err != nil || len(rows) != want {
		t.Errorf("%d turns are pending, want %d; %v", len(rows), want, err)
	}
}

func end(t *testing.T, r *enginetest.Rig, id parley.SessionID) {
	t.Helper()
	if _, err := r.Engine.End(ctx, enginetest.User, id, "done"); err != nil {
		t.Fatal(err)
	}
}

// TestWaitingFollowsTheBusyMode: a message to a turn that waits for a human is treated as the
// busy mode says. Only with steer does it count as an answer.
func TestWaitingFollowsTheBusyMode(t *testing.T) {
	for busy, tc := range map[parley.BusyMode]struct {
		want []string
		open int
	}{
		parley.BusyReject:    {want: []string{"mail one: "}, open: 1},
		parley.BusyEnqueue:   {want: []string{"mail one: "}, open: 1},
		parley.BusySteer:     {want: []string{"mail one: completed"}},
		parley.BusyInterrupt: {want: []string{"mail one: cancelled", "two: completed"}},
	} {
		t.Run(string(busy), func(t *testing.T) {
			h := &held{}
			rigged(t, h.model, enginetest.App(asking, queued), func(t *testing.T, r *enginetest.Rig) {
				s := r.Session(func(c *parley.CreateSession) { c.Busy = busy })
				one := r.Await(r.Send(s.ID, "mail one").ID)
				if one.Status != parley.StatusWaiting {
					t.Fatalf("got %s", one.Status)
				}
				_, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "two", Key: "k"})
				if busy == parley.BusyReject {
					if parley.CodeOf(err) != parley.CodeBusy || !strings.Contains(err.Error(), string(one.Interactions[0])) {
						t.Errorf("got %v, want busy with %s", err, one.Interactions[0])
					}
				} else if err != nil {
					t.Fatal(err)
				}
				wants(t, r, s.ID, tc.want...)
				open, err := r.Engine.Interactions(ctx, enginetest.User, 10)
				if err != nil || len(open) != tc.open {
					t.Errorf("%d open, want %d; %v", len(open), tc.open, err)
				}
				for _, in := range open { // the question can still be answered
					if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
						t.Fatal(err)
					}
				}
				if busy == parley.BusyEnqueue {
					wants(t, r, s.ID, "mail one: completed", "two: completed")
				}
				synctest.Wait()
				_, _, mails := r.Service.Counts()
				if want := tc.open; mails != want {
					t.Errorf("%d mails, want %d", mails, want)
				}
			})
		})
	}
}

// TestTemporary: a temporary session ends with its last turn, and no event follows its end.
func TestTemporary(t *testing.T) {
	temporary := func(c *parley.CreateSession) { c.Temporary = true }
	for name, tc := range map[string]struct {
		do     func(t *testing.T, r *enginetest.Rig, id parley.SessionID, one parley.TurnInfo)
		want   []string
		status parley.SessionStatus
	}{
		"queued": {func(t *testing.T, r *enginetest.Rig, id parley.SessionID, _ parley.TurnInfo) {
			say(t, r, id, "two", parley.BusyEnqueue)
		}, []string{"long one: completed", "two: completed"}, parley.Ended},
		"steered too late": {func(t *testing.T, r *enginetest.Rig, id parley.SessionID, one parley.TurnInfo) {
			say(t, r, id, "two", parley.BusySteer)
			if _, err := r.Engine.Cancel(ctx, enginetest.User, one.ID, ""); err != nil {
				t.Fatal(err)
			}
		}, []string{"long one: cancelled"}, parley.Active},
		"the last is taken off the queue": {func(t *testing.T, r *enginetest.Rig, id parley.SessionID, one parley.TurnInfo) {
			two := say(t, r, id, "two", parley.BusyEnqueue)
			for _, turn := range []parley.TurnID{one.ID, two.ID} {
				if _, err := r.Engine.Cancel(ctx, enginetest.User, turn, ""); err != nil {
					t.Fatal(err)
				}
			}
		}, []string{"long one: cancelled"}, parley.Ended},
		"interrupted": {func(t *testing.T, r *enginetest.Rig, id parley.SessionID, _ parley.TurnInfo) {
			say(t, r, id, "two", parley.BusyInterrupt)
		}, []string{"long one: cancelled", "two: completed"}, parley.Ended},
	} {
		t.Run(name, func(t *testing.T) {
			h := &held{}
			rigged(t, h.model, enginetest.App(queued), func(t *testing.T, r *enginetest.Rig) {
				h.gate = make(chan struct{})
				s := r.Session(temporary)
				one := r.Send(s.ID, "long one")
				synctest.Wait()
				tc.do(t, r, s.ID, one)
				close(h.gate)
				wants(t, r, s.ID, tc.want...)
				if info, err := r.Engine.Session(ctx, enginetest.User, s.ID); err != nil || info.Status != tc.status {
					t.Errorf("the session is %s, %v", info.Status, err)
				}
			})
		})
	}
	t.Run("a message that ends a turn that waits", func(t *testing.T) {
		rigged(t, (&held{}).model, enginetest.App(asking, queued), func(t *testing.T, r *enginetest.Rig) {
			s := r.Session(temporary)
			r.Await(r.Send(s.ID, "mail one").ID)
			say(t, r, s.ID, "two", parley.BusyInterrupt)
			wants(t, r, s.ID, "mail one: cancelled", "two: completed")
		})
	})
	t.Run("a message after a crash", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := &held{gate: make(chan struct{})}
			r := enginetest.New(t, h.model, enginetest.App())
			s := r.Session(temporary)
			r.Send(s.ID, "long one")
			synctest.Wait()
			r = crash(t, r, h.model, enginetest.App())
			defer r.Close()
			r.Send(s.ID, "two")
			wants(t, r, s.ID, "long one: cancelled", "two: completed")
			if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "three"}); parley.CodeOf(err) != parley.CodeConflict {
				t.Errorf("a message to a session that has ended: %v", err)
			}
		})
	})
}

// TestRefusedReads: when the store refuses the staged events of reads, the turn fails with the
// store's error and does not continue.
func TestRefusedReads(t *testing.T) {
	two := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if len(enginetest.Results(r)) > 0 {
			say("done")
			return seam.Reply{}, nil
		}
		return seam.Reply{Parts: []parley.Part{
			enginetest.Call("look", map[string]string{"text": "fast"}), enginetest.Call("look", map[string]string{"text": "slow"}),
		}}, nil
	}
	for name, c := range map[string]struct {
		fast    time.Duration // how long the first read takes
		refused int           // number of refused appends with the ends of reads
	}{
		"with their starts":             {0, math.MaxInt},
		"when their starts were kept":   {100 * time.Millisecond, math.MaxInt},
		"once, and their starts before": {100 * time.Millisecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			rigged(t, two, enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
				r.Service.SetGate(func(ctx context.Context, call seam.Run) error {
					takes := c.fast
					if strings.Contains(string(call.Input), "slow") {
						takes = time.Second
					}
					select {
					case <-time.After(takes):
					case <-ctx.Done():
					}
					return nil
				})
				refused := 0
				r.Mem.SetFaults(mem.Faults{Before: func(call mem.Call) error {
					ends := slices.ContainsFunc(call.Batch.Events, func(ev parley.Event) bool { return ev.Type == "tool.ended" })
					if ends && !strings.Contains(types(call), "turn.") && refused < c.refused {
						refused++
						return parley.Errorf(parley.CodeTooLarge, "the log is full").WithHint("begin another")
					}
					return nil
				}})
				end := r.Await(r.Send(r.Session().ID, "go").ID)
				if end.Status != parley.StatusFailed || end.Error == nil || end.Error.Code != parley.CodeTooLarge || end.Error.Message != "the log is full" {
					t.Errorf("got %s, %+v", end.Status, end.Error)
				}
				if looks, _, _ := r.Service.Counts(); looks != 2 {
					t.Errorf("looked %d times", looks)
				}
			})
		})
	}
}
