package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
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

// TestWhatAUserMayKeep: every command that would add one session or byte too many is refused. A
// deletion makes room again. An accepted turn is finished, and other users are not affected.
func TestWhatAUserMayKeep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, enginetest.Echo, enginetest.App(), func(o *engine.Options) {
			o.Limits = engine.Limits{Sessions: 2, Bytes: 100_000}
		})
		defer r.Close()
		one, two := r.Session(), r.Session()
		refused := func(what string, err error) {
			t.Helper()
			if code(err) != parley.CodeQuota || parley.Info(err).Hint == "" {
				t.Errorf("%s: got %v, want %s with a hint", what, err, parley.CodeQuota)
			}
		}
		_, _, err := r.Engine.Create(ctx, enginetest.User, parley.CreateSession{App: "test"})
		refused("a third session", err)
		_, err = r.Engine.Fork(ctx, enginetest.User, one.ID, parley.ForkSession{})
		refused("a fork", err)
		_, err = r.Engine.Import(ctx, enginetest.User, engine.Imported{Events: r.Log(one.ID)})
		refused("an import", err)
		if _, _, err := r.Engine.Create(ctx, parley.Principal{User: "somebody else"}, parley.CreateSession{App: "test"}); err != nil {
			t.Errorf("another user: %v", err)
		}
		if err := r.Engine.Delete(ctx, enginetest.User, two.ID); err != nil {
			t.Fatal(err)
		}
		if _, err = r.Engine.Fork(ctx, enginetest.User, one.ID, parley.ForkSession{}); err != nil {
			t.Errorf("a fork in the place of a deleted session: %v", err)
		}
		long := r.Send(one.ID, strings.Repeat("x", 90_000)) // its reply exceeds the limit
		if got := r.Await(long.ID); got.Status != parley.StatusCompleted {
			t.Errorf("the turn that was accepted: %+v", got)
		}
		_, err = r.Engine.Send(ctx, enginetest.User, one.ID, parley.Send{Message: "one more"})
		refused("a message", err)
	})
}

// atOnce calls f a hundred times concurrently and counts the calls not rejected by a quota. No
// other error may occur.
func atOnce(t *testing.T, f func(n int) error) (done int) {
	t.Helper()
	var all sync.WaitGroup
	var taken atomic.Int64
	for n := range 100 {
		all.Go(func() {
			switch err := f(n); {
			case err == nil:
				taken.Add(1)
			case code(err) != parley.CodeQuota:
				t.Errorf("the %d. gets %v, want %s", n, err, parley.CodeQuota)
			}
		})
	}
	all.Wait()
	return int(taken.Load())
}

// makers are the commands that make a session, in a rig where User already has one.
func makers(r *enginetest.Rig, of parley.SessionInfo) map[string]func(n int) error {
	log := r.Log(of.ID)
	return map[string]func(n int) error{
		"create": func(int) error {
			_, _, err := r.Engine.Create(ctx, enginetest.User, parley.CreateSession{App: "test"})
			return err
		},
		"fork": func(int) error {
			_, err := r.Engine.Fork(ctx, enginetest.User, of.ID, parley.ForkSession{})
			return err
		},
		"import": func(int) error {
			_, err := r.Engine.Import(ctx, enginetest.User, engine.Imported{Events: log})
			return err
		},
	}
}

// TestLimitsHoldAtOnce: however many commands come at once, of one kind or mixed, exactly as many
// sessions are made as the user may have.
func TestLimitsHoldAtOnce(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store seam.Store) {
		const may = 3
		r := enginetest.Over(t, store, &enginetest.Service{}, enginetest.Echo, enginetest.App(), func(o *engine.Options) {
			o.Limits = engine.Limits{Sessions: 1 + may}
		})
		defer r.Close()
		of := r.Session()
		r.Await(r.Send(of.ID, "hello").ID)
		commands := makers(r, of)
		commands["all three"] = func(n int) error {
			return commands[[]string{"create", "fork", "import"}[n%3]](n)
		}
		for name, command := range commands {
			if done := atOnce(t, command); done != may {
				t.Errorf("%s: %d of 100 passed, want %d", name, done, may)
			}
			list, err := r.Engine.Sessions(ctx, enginetest.User, seam.SessionQuery{Limit: 200})
			if err != nil || len(list) != 1+may {
				t.Errorf("%s: there are %d sessions, %v, want %d", name, len(list), err, 1+may)
			}
			for _, s := range list {
				if s.ID == of.ID {
					continue
				}
				if err := r.Engine.Delete(ctx, enginetest.User, s.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// slowly makes each append to a store take a second. fail may make it return an error.
func slowly(m *mem.Store, fail func() error) {
	m.SetFaults(mem.Faults{Before: func(c mem.Call) error {
		if c.Method != "Append" && c.Method != "Fork" {
			return nil
		}
		time.Sleep(time.Second)
		return fail()
	}})
}

func fine() error { return nil }

// TestRoomOfRefusedCommands: when the store rejects a command, a waiting command gets its room.
// A waiting command gives up when its caller does.
func TestRoomOfRefusedCommands(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, enginetest.Echo, enginetest.App(), func(o *engine.Options) {
			o.Limits = engine.Limits{Sessions: 4}
		})
		defer r.Close()
		commands := makers(r, r.Session())
		var writes, away atomic.Int64
		slowly(r.Mem, func() error {
			if writes.Add(1) <= 7 {
				away.Add(1)
				return parley.Errorf(parley.CodeUnavailable, "away")
			}
			return nil
		})
		var taken atomic.Int64
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				switch err := commands["create"](0); {
				case err == nil:
					taken.Add(1)
				case code(err) != parley.CodeQuota && code(err) != parley.CodeUnavailable:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if taken.Load() != 3 || away.Load() != 7 {
			t.Errorf("%d passed after %d that the store refused, want 3 after 7", taken.Load(), away.Load())
		}
		gone, cancel := context.WithCancel(ctx)
		list, err := r.Engine.Sessions(ctx, enginetest.User, seam.SessionQuery{})
		if err != nil {
			t.Fatal(err)
		}
		slowly(r.Mem, fine)
		if err := r.Engine.Delete(ctx, enginetest.User, list[0].ID); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if err := commands["create"](0); err != nil {
				t.Errorf("in the place of a deleted one: %v", err)
			}
		})
		all.Go(func() {
			synctest.Wait()
			if _, _, err := r.Engine.Create(gone, enginetest.User, parley.CreateSession{App: "test"}); !errors.Is(err, context.Canceled) {
				t.Errorf("after its caller gave up it gets %v", err)
			}
		})
		time.Sleep(time.Millisecond)
		cancel()
		all.Wait()
	})
}

// TestBytesAtOnce: the bytes of a command count against its user until the command is committed,
// even after its caller has left.
func TestBytesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		short := func(context.Context, seam.Request, func(string)) (seam.Reply, error) {
			return seam.Reply{Parts: []parley.Part{{Type: parley.PartText, Text: "ok"}}, StopReason: "end_turn"}, nil
		}
		const most, each = 150_000, 25_000
		app := enginetest.App(asking, func(a *parley.App) { a.Busy, a.MaxOpenTurns = parley.BusyEnqueue, 10 })
		r := enginetest.New(t, short, app, func(o *engine.Options) {
			o.Limits = engine.Limits{Bytes: most}
		})
		defer r.Close()
		long := strings.Repeat("x", each)
		sessions := make([]parley.SessionInfo, 100)
		for i := range sessions {
			sessions[i] = r.Session()
		}
		other := parley.Principal{User: "another", Org: "acme"}
		source, _, err := r.Engine.Create(ctx, other, parley.CreateSession{App: "test"})
		if err != nil {
			t.Fatal(err)
		}
		first, err := r.Engine.Send(ctx, other, source.ID, parley.Send{Message: long})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Engine.Await(ctx, other, first.ID, time.Minute); err != nil {
			t.Fatal(err)
		}
		log := r.Log(source.ID)
		parent, err := r.Engine.Import(ctx, enginetest.User, engine.Imported{Events: log})
		if err != nil {
			t.Fatal(err)
		}
		slowly(r.Mem, fine)
		empty, err := r.Store.Held(ctx, enginetest.User, "")
		if err != nil {
			t.Fatal(err)
		}
		send := func(n int) error {
			_, err := r.Engine.Send(ctx, enginetest.User, sessions[n].ID, parley.Send{Message: long})
			return err
		}
		pins := []parley.Pin{{Text: long}}
		for name, do := range map[string]func(n int) error{
			"send": send,
			"enqueue": func(n int) error {
				_, err := r.Engine.Send(ctx, enginetest.User, sessions[n/2].ID, parley.Send{Message: long})
				return err
			},
			"whose caller goes": func(n int) error {
				brief, cancel := context.WithTimeout(ctx, time.Duration(1+n)*time.Millisecond)
				defer cancel()
				_, err := r.Engine.Send(brief, enginetest.User, sessions[n].ID, parley.Send{Message: long})
				if errors.Is(err, context.DeadlineExceeded) {
					return nil // the command goes on without its caller
				}
				return err
			},
			"direct call": func(int) error {
				_, err := r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: "test", Name: "look", Input: []byte(`{"x":"` + long + `"}`)})
				return err
			},
			"import": func(int) error {
				_, err := r.Engine.Import(ctx, enginetest.User, engine.Imported{Events: log})
				return err
			},
			"fork": func(int) error {
				_, err := r.Engine.Fork(ctx, enginetest.User, parent.ID, parley.ForkSession{})
				return err
			},
			"update": func(n int) error {
				_, err := r.Engine.Update(ctx, enginetest.User, sessions[n].ID, parley.UpdateSession{Pins: &pins})
				return err
			},
		} {
			held := empty
			for n := 0; n == 0 || held.Bytes < most; n++ {
				if n > 10_000 {
					t.Fatalf("%s: more and more passes", name)
				}
				done := atOnce(t, do)
				if fits := int((most - held.Bytes) / each); done > fits {
					t.Errorf("%s: %d of 100 passed, where %d fit", name, done, fits)
				}
				if done == 0 {
					break
				}
				time.Sleep(time.Minute)
				if held, err = r.Store.Held(ctx, enginetest.User, ""); err != nil {
					t.Fatal(err)
				}
			}
			if held.Bytes < most/2 {
				t.Errorf("%s: refused at %d bytes of %d", name, held.Bytes, most)
			}
			list, err := r.Engine.Sessions(ctx, enginetest.User, seam.SessionQuery{Limit: 200, Direct: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range list {
				if s.ID == parent.ID {
					continue
				}
				if err := r.Engine.Delete(ctx, enginetest.User, s.ID); err != nil {
					t.Fatal(err)
				}
			}
			for i := range sessions {
				sessions[i] = r.Session()
			}
		}
	})
}
