package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// goesAfter is a store that fails right after the append of a certain type of event. It fails
// completely, or only for reads of blobs.
type goesAfter struct {
	enginetest.Outage
	event parley.EventType
	blobs atomic.Int64 // when they are readable again, in Unix nanoseconds
	whole bool
}

func (g *goesAfter) Append(ctx context.Context, p parley.Principal, b seam.Batch) error {
	err := g.Outage.Append(ctx, p, b)
	if err == nil && slices.ContainsFunc(b.Events, func(e parley.Event) bool { return e.Type == g.event }) {
		if g.whole {
			g.Leave()
		} else {
			g.blobs.Store(time.Now().Add(g.Lasts).UnixNano())
		}
	}
	return err
}

func (g *goesAfter) Blob(ctx context.Context, p parley.Principal, id parley.SessionID, d parley.Digest) ([]byte, error) {
	if time.Now().UnixNano() < g.blobs.Load() {
		return nil, parley.Errorf(parley.CodeUnavailable, "the disk cannot be read").WithRetry(time.Second)
	}
	return g.Outage.Blob(ctx, p, id, d)
}

// TestOutageBeforeTheAppIsRead answers a turn whose app has changed since. The store goes away
// before the version of the app that the turn began with is read. The turn waits for it.
func TestOutageBeforeTheAppIsRead(t *testing.T) {
	t.Parallel()
	for name, whole := range map[string]bool{"all": true, "blobs": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := enginetest.New(t, mailer("mail"), enginetest.App(asking))
				s := first.Session()
				turn := first.Send(s.ID, "go")
				open := first.Await(turn.ID).Interactions[0]
				disk := first.Mem.Clone()
				first.Close()
				store := &goesAfter{Outage: enginetest.Outage{Store: disk, Lasts: 10 * time.Minute}, event: "interaction.answered", whole: whole}
				r := enginetest.Over(t, store, first.Service, first.Model, enginetest.App(asking, func(a *parley.App) { a.Budgets.MaxSteps = 9 }))
				defer r.Close()
				if _, err := r.Engine.Answer(ctx, enginetest.User, open, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
					t.Fatal(err)
				}
				got, err := r.Engine.Await(ctx, enginetest.User, turn.ID, time.Hour)
				if err != nil || got.Status != parley.StatusCompleted || got.Attempts != 0 {
					t.Errorf("the turn is %s after %d attempts: %+v, %v", got.Status, got.Attempts, got.Error, err)
				}
				if _, _, mails := r.Service.Counts(); mails != 1 {
					t.Errorf("%d mails", mails)
				}
			})
		})
	}
}

// TestOutage makes the store fail at each append of a turn that reads, writes and answers, for a
// short and for a long time. The store rejects the append, or the answer is lost, whether the
// append took place or not. A message that was not kept is refused. If the message was kept, its
// turn waits and continues: no step and no model call is made twice, and nothing is interrupted or fails.
func TestOutage(t *testing.T) {
	t.Parallel()
	for name, lasts := range map[string]time.Duration{"short": 6 * time.Second, "long": 10 * time.Minute} {
		for _, how := range []string{"refused", "lost", "answer lost"} {
			for at := int64(2); at <= 6; at++ { // append 1 makes the session
				synctest.Test(t, func(t *testing.T) {
					o := &enginetest.Outage{Store: mem.New(), At: at, Lasts: lasts, Lost: how != "answer lost", Says: how == "refused"}
					asked := 0
					model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
						asked++
						switch len(enginetest.Results(r)) {
						case 0:
							return seam.Reply{Parts: []parley.Part{enginetest.Call("look", map[string]any{"text": "a"})}, StopReason: "tool_use"}, nil
						case 1:
							return seam.Reply{Parts: []parley.Part{enginetest.Call("mail", map[string]any{"text": "a"})}, StopReason: "tool_use"}, nil
						}
						say("done")
						return seam.Reply{StopReason: "end_turn"}, nil
					}
					r := enginetest.Over(t, o, &enginetest.Service{}, model, enginetest.App())
					defer r.Close()
					s := r.Session()
					fail := func(format string, args ...any) {
						t.Helper()
						t.Errorf("%s, %s, append %d: %s\n%s", name, how, at, fmt.Sprintf(format, args...), enginetest.Types(r.Log(s.ID)))
					}
					var turn parley.TurnInfo
					var err error
					for { // a client that is refused tries again, with its key
						if turn, err = r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "go", Key: "k"}); err == nil {
							break
						}
						if at > 2 || name == "short" && how == "answer lost" {
							fail("a message that was kept is refused: %v", err)
						}
						time.Sleep(time.Second)
					}
					got, err := r.Engine.Await(ctx, enginetest.User, turn.ID, time.Hour)
					if err != nil || got.Status != parley.StatusCompleted || got.Attempts != 0 {
						fail("the turn is %s after %d attempts: %+v, %v", got.Status, got.Attempts, got.Error, err)
					}
					log := r.Log(s.ID)
					if err := enginetest.CheckLog(log); err != nil {
						fail("%v", err)
					}
					looks, _, mails := r.Service.Counts()
					outcomes := strings.Join(enginetest.Outcomes(log), ", ")
					if name == "long" && how == "answer lost" && outcomes == "look ok, mail error, completed: done" && mails == 0 {
						return // its start was kept, but this was unknown until its deadline had passed: the call was not made, and the model knows that
					}
					if asked != 3 || mails != 1 || looks < 1 || outcomes != "look ok, mail ok, completed: done" {
						fail("asked %d times, %d looks, %d mails: %s", asked, looks, mails, outcomes)
					}
				})
			}
		}
	}
}

// TestOutageHasABudget: a turn waits for the store no longer than it may run.
func TestOutageHasABudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &enginetest.Outage{Store: mem.New(), At: 3, Lasts: time.Hour, Lost: true, Says: true}
		r := enginetest.Over(t, o, &enginetest.Service{}, mailer("mail"), enginetest.App(func(a *parley.App) { a.Budgets.MaxDurationMS = 60_000 }))
		defer r.Close()
		turn := r.Send(r.Session().ID, "go")
		got, err := r.Engine.Await(ctx, enginetest.User, turn.ID, 2*time.Hour)
		if err != nil || got.Status != parley.StatusFailed || got.Error.Code != "budget_duration" {
			t.Errorf("got %s, %+v, %v", got.Status, got.Error, err)
		}
		if _, _, mails := r.Service.Counts(); mails != 0 {
			t.Errorf("%d mails", mails)
		}
	})
}

// TestOutageBetweenQueuedTurns makes the store fail when the first turn has ended and the queued
// one begins. The store rejects the append, or the answer is lost, whether the append took place or
// not. Both turns were accepted and run to their ends; callers that await them keep waiting.
func TestOutageBetweenQueuedTurns(t *testing.T) {
	t.Parallel()
	for at := int64(3); at <= 6; at++ {
		for _, how := range []string{"refused", "lost", "answer lost"} {
			synctest.Test(t, func(t *testing.T) {
				o := &enginetest.Outage{Store: mem.New(), At: at, Lasts: time.Minute, Lost: how != "answer lost", Says: how == "refused"}
				g := newGated("one")
				r := enginetest.Over(t, o, &enginetest.Service{}, g.model, enginetest.App(func(a *parley.App) { a.Busy, a.MaxOpenTurns = parley.BusyEnqueue, 3 }))
				defer r.Close()
				s := r.Session()
				one := r.Send(s.ID, "one")
				var two parley.TurnInfo
				var err error
				for {
					if two, err = r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "two", Key: "two"}); err == nil {
						break
					}
					time.Sleep(time.Second)
				}
				close(g.open["one"])
				for _, id := range []parley.TurnID{one.ID, two.ID} {
					if got, err := r.Engine.Await(ctx, enginetest.User, id, time.Hour); err != nil || got.Status != parley.StatusCompleted {
						t.Errorf("append %d, %s: got %s, %v\n%s", at, how, got.Status, err, enginetest.Types(r.Log(s.ID)))
					}
				}
				if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestOutageOfAStart makes the store fail while a queued turn with a slow runtime begins. The
// turn's start is then committed without the runtime. The runtime does not decide the outcome of
// that commit, and a message that is kept meanwhile changes nothing.
func TestOutageOfAStart(t *testing.T) {
	t.Parallel()
	for at := int64(2); at <= 8; at++ {
		for _, how := range []string{"refused", "lost", "answer lost"} {
			for _, lasts := range []time.Duration{5 * time.Millisecond, 20 * time.Second} {
				synctest.Test(t, func(t *testing.T) {
					o := &enginetest.Outage{Store: mem.New(), At: at, Lasts: lasts, Lost: how != "answer lost", Says: how == "refused"}
					slow := func(o *engine.Options) { o.Runtimes = map[string]seam.Runtime{"loop": slowStart{o.Runtimes["loop"]}} }
					r := enginetest.Over(t, o, &enginetest.Service{}, enginetest.Echo, enginetest.App(func(a *parley.App) { a.Busy, a.MaxOpenTurns = parley.BusyEnqueue, 3 }), slow)
					defer r.Close()
					s := r.Session()
					var turns []parley.TurnID
					send := func(text string) {
						for {
							turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: text, Key: text})
							if err == nil {
								turns = append(turns, turn.ID)
								return
							}
							time.Sleep(max(time.Millisecond, lasts/1000))
						}
					}
					send("one")
					send("two")
					time.Sleep(lateBy + 15*time.Millisecond) // the start of two waits, and its runtime has not read the state yet
					send("three")
					for n, id := range turns {
						if got, err := r.Engine.Await(ctx, enginetest.User, id, time.Hour); err != nil || got.Status != parley.StatusCompleted {
							t.Errorf("append %d, %s for %s: turn %d is %s: %+v, %v\n%s", at, how, lasts, n, got.Status, got.Error, err, enginetest.Types(r.Log(s.ID)))
						}
					}
					if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// slowStart is a runtime that waits before it first reads the state, for longer than a turn's
// start may stay uncommitted.
type slowStart struct{ seam.Runtime }

const lateBy = 50 * time.Millisecond

func (s slowStart) Run(ctx context.Context, h seam.Host) (seam.Ending, error) {
	time.Sleep(lateBy)
	return s.Runtime.Run(ctx, h)
}

// TestOutageOfAQuestion makes the store fail at each append of a turn that asks its user, for
// longer than the tool may take. The store rejects the append, or the answer is lost, whether the
// append took place or not. A caller whose answer may or may not have been kept tries again, or
// only looks at the turn: if the answer was kept, the turn continues.
func TestOutageOfAQuestion(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"refused", "lost", "answer lost"} {
		for _, client := range []string{"tries again", "looks again", "sends a message"} {
			for at := int64(2); at <= 6; at++ { // append 1 makes the session
				t.Run(fmt.Sprintf("%s/%d/%s", how, at, client), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						o := &enginetest.Outage{Store: mem.New(), At: at, Lasts: 10 * time.Minute, Lost: how != "answer lost", Says: how == "refused"}
						model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
							if enginetest.Last(r) == "Ceiling" {
								say("told: Ceiling")
								return seam.Reply{}, nil
							}
							return asker(ctx, r, say)
						}
						r := enginetest.Over(t, o, &enginetest.Service{}, model, enginetest.App(curious))
						defer r.Close()
						s := r.Session()
						var turn parley.TurnInfo
						for {
							var err error
							if turn, err = r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "go", Key: "k"}); err == nil {
								break
							}
							time.Sleep(time.Second)
						}
						got, err := r.Engine.Await(ctx, enginetest.User, turn.ID, time.Hour)
						if err != nil || got.Status != parley.StatusWaiting || len(got.Interactions) != 1 {
							t.Fatalf("the turn is %s: %+v, %v\n%s", got.Status, got.Error, err, enginetest.Types(r.Log(s.ID)))
						}
						yes := parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{"Which lamp?": "Ceiling", "When?": "Now"}}}
						for id := got.Interactions[0]; ; time.Sleep(time.Second) {
							var err error
							if client == "sends a message" {
								_, err = r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "Ceiling", Key: "m", Busy: parley.BusySteer})
							} else {
								_, err = r.Engine.Answer(ctx, enginetest.User, id, yes)
							}
							if err == nil {
								break
							}
							if client == "tries again" {
								continue
							}
							time.Sleep(time.Hour)
							if events := r.Log(s.ID); slices.ContainsFunc(events, func(e parley.Event) bool { return e.Type == "interaction.answered" }) {
								break
							}
						}
						if got, err = r.Engine.Await(ctx, enginetest.User, turn.ID, time.Hour); err != nil || got.Status != parley.StatusCompleted || got.Attempts != 0 || !strings.HasPrefix(got.Response.Message, "told: ") {
							t.Errorf("the turn is %s after %d attempts: %+v, %v\n%s", got.Status, got.Attempts, got.Error, err, enginetest.Types(r.Log(s.ID)))
						}
						if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
							t.Error(err)
						}
					})
				})
			}
		}
	}
}

// TestOutageOfASendWithoutAKey loses the answer to the append that keeps a message, whether the
// append took place or not. The error names the turn that has the message if it was kept.
// Without a key the sender is not told to send it again; with a key it may send it again.
func TestOutageOfASendWithoutAKey(t *testing.T) {
	t.Parallel()
	for _, busy := range []parley.BusyMode{"", parley.BusyEnqueue, parley.BusyInterrupt, parley.BusySteer} {
		for _, key := range []string{"", "k"} {
			for _, lost := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s key %q lost %v", cmp.Or(busy, "idle"), key, lost), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						o := &enginetest.Outage{Store: mem.New(), At: 2, Lasts: time.Minute, Lost: lost}
						g := newGated("one")
						r := enginetest.Over(t, o, &enginetest.Service{}, g.model, enginetest.App(func(a *parley.App) { a.MaxOpenTurns = 3 }))
						defer r.Close()
						s := r.Session()
						if busy != "" {
							o.At = 3
							r.Send(s.ID, "one")
							synctest.Wait()
						}
						had := len(r.Log(s.ID))
						turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "two", Key: key, Busy: busy})
						info := parley.Info(err)
						if turn.ID == "" || turn.SessionID != s.ID {
							t.Fatalf("it does not say which turn: %+v, %v", turn, err)
						}
						if key == "" && (info.Code != parley.CodeTimeout || info.RetryAfterMS != 0 || !strings.Contains(info.Hint, string(turn.ID))) {
							t.Errorf("without a key: %+v", info)
						}
						if key != "" && (info.Code != parley.CodeUnavailable || info.RetryAfterMS == 0 || !strings.Contains(info.Hint, "same key")) {
							t.Errorf("with a key: %+v", info)
						}
						if _, err := r.Engine.Kept(ctx, enginetest.User, turn); !r.Engine.Away(err) {
							t.Errorf("while the outcome is unknown: %v", err)
						}
						time.Sleep(time.Minute)
						kept, err := r.Engine.Kept(ctx, enginetest.User, turn)
						if busy != parley.BusySteer && (err != nil || kept == lost) {
							t.Errorf("it is kept %v, %v", kept, err)
						}
						close(g.open["one"])
						synctest.Wait()
						if there := strings.Contains(fmt.Sprint(said(r.Log(s.ID)[had:])), "two"); there == lost {
							t.Errorf("it is in the log %v\n%s", there, enginetest.Types(r.Log(s.ID)))
						}
						if _, err := r.Engine.Kept(ctx, parley.Principal{User: "ben"}, turn); code(err) != parley.CodeNotFound {
							t.Errorf("to another user: %v", err)
						}
					})
				})
			}
		}
	}
}

// said returns the payloads of events as text.
func said(events []parley.Event) (list []string) {
	for _, e := range events {
		list = append(list, string(e.Data))
	}
	return list
}

// TestKeptWhileItIsDecided asks whether a turn is kept while its first append is under way. The
// answer waits for the append. A turn that the store refuses is not kept and is not returned.
func TestKeptWhileItIsDecided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, mailer("mail"), enginetest.App())
		defer r.Close()
		s := r.Session()
		r.Mem.SetFaults(mem.Faults{Before: func(mem.Call) error { time.Sleep(5 * time.Second); return nil }})
		given, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		turn, err := r.Engine.Send(given, enginetest.User, s.ID, parley.Send{Message: "go"})
		if !errors.Is(err, context.DeadlineExceeded) || turn.ID == "" {
			t.Fatalf("a sender that gives up: %+v, %v", turn, err)
		}
		if kept, err := r.Engine.Kept(ctx, enginetest.User, turn); !kept || err != nil {
			t.Errorf("got %v, %v", kept, err)
		}
		r.Await(turn.ID)
		r.Mem.SetFaults(mem.Faults{Before: func(mem.Call) error { return parley.Errorf(parley.CodeUnavailable, "no room") }})
		if refused, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "go"}); code(err) != parley.CodeUnavailable || refused.ID != "" {
			t.Errorf("refused: %+v, %v", refused, err)
		}
		r.Mem.SetFaults(mem.Faults{})
	})
}

// TestOutageOfADirectCall makes the store fail at each append of a slow direct call that only
// reads. Its start is committed while it runs. A caller that is refused calls again with the key.
// The call ends with its result, or was not kept and is made again.
func TestOutageOfADirectCall(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"refused", "lost", "answer lost"} {
		for at := int64(1); at <= 3; at++ {
			t.Run(fmt.Sprintf("%s/%d", how, at), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := &enginetest.Outage{Store: mem.New(), At: at, Lasts: 10 * time.Minute, Lost: how != "answer lost", Says: how == "refused"}
					service := &enginetest.Service{Gate: func(context.Context, seam.Run) error {
						time.Sleep(time.Second)
						return nil
					}}
					r := enginetest.Over(t, o, service, enginetest.Echo, enginetest.App())
					defer r.Close()
					call := parley.CallTool{App: "test", Name: "look", Input: []byte(`{"text":"a"}`), Key: "k"}
					var turn parley.TurnInfo
					for {
						var err error
						if turn, err = r.Engine.CallTool(ctx, enginetest.User, call); err == nil {
							break
						}
						if e := parley.Info(err); e.Code != parley.CodeUnavailable || e.Hint == "" {
							t.Errorf("refused with %v", err)
						}
						time.Sleep(time.Second)
					}
					got, err := r.Engine.Await(ctx, enginetest.User, turn.ID, time.Hour)
					if err != nil || got.Status != parley.StatusCompleted || got.Attempts != 0 {
						t.Errorf("the turn is %s: %+v, %v\n%s", got.Status, got.Error, err, enginetest.Types(r.Log(turn.SessionID)))
					}
					if err := enginetest.CheckLog(r.Log(turn.SessionID)); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// TestOutageWhileAReadRuns: the store goes away just before the start of a long read is committed,
// and comes back while the read runs. Its start is committed then, not only when the read ends, so
// that those who watch see it.
func TestOutageWhileAReadRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &enginetest.Outage{Store: mem.New(), Lasts: 6 * time.Second}
		service := &enginetest.Service{Gate: func(ctx context.Context, _ seam.Run) error {
			o.Leave()
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
			return nil
		}}
		app := enginetest.App(func(a *parley.App) {
			for i := range a.Tools {
				a.Tools[i].Timeout = parley.Duration(2 * time.Minute)
			}
		})
		r := enginetest.Over(t, o, service, mailer("look"), app)
		defer r.Close()
		s := r.Session()
		turn := r.Send(s.ID, "go")
		synctest.Wait()
		started := func() bool {
			return slices.ContainsFunc(r.Log(s.ID), func(ev parley.Event) bool { return ev.Type == "tool.started" })
		}
		if time.Sleep(5 * time.Second); o.Check(ctx) == nil {
			t.Fatal("the store is there")
		}
		if time.Sleep(5 * time.Second); !started() {
			t.Errorf("the start is not in the log: %s", enginetest.Types(r.Log(s.ID)))
		}
		if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
			t.Errorf("the turn is %s: %v", got.Status, got.Error)
		}
	})
}
