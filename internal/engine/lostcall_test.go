package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// mailDirect makes the one direct call of the tests below, or finds that call by its key.
func mailDirect(r *enginetest.Rig) (parley.TurnInfo, error) {
	return r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: "test", Name: "mail", Input: json.RawMessage(`{"text":"x"}`), Key: "k"})
}

// endsUnknown checks that the call has ended with an unknown outcome, both by its turn and by its
// key, and that it was made once.
func endsUnknown(t *testing.T, r *enginetest.Rig, turn parley.TurnInfo) {
	t.Helper()
	got := r.Await(turn.ID)
	if got.Status != parley.StatusCompleted || got.Resumes {
		t.Fatalf("the call is %s: %s\n%s", got.Status, got.Reason, enginetest.Types(r.Log(turn.SessionID)))
	}
	res, err := r.Engine.CallResult(ctx, enginetest.User, turn.ID)
	if err != nil || res.Outcome != parley.OutcomeUnknown || !strings.HasPrefix(got.Response.Message, res.Output) {
		t.Errorf("its result is %+v, %v, and its turn says %q", res, err, got.Response.Message)
	}
	if again, err := mailDirect(r); err != nil || again.ID != turn.ID || again.Status != parley.StatusCompleted {
		t.Errorf("the same key gives %+v, %v", again, err)
	}
	if _, _, mails := r.Service.Counts(); mails != 1 {
		t.Errorf("it was mailed %d times", mails)
	}
	if err := enginetest.CheckLog(r.Log(turn.SessionID)); err != nil {
		t.Error(err)
	}
}

// TestLostDirectCall: the server dies during a direct write, and nobody can be asked about the
// write. It dies twice more, at any point of the recovery or while it waits. No list shows the
// call's session, so the call does not stay interrupted: it ends as unknown, and is not made again.
func TestLostDirectCall(t *testing.T) {
	t.Parallel()
	for _, mode := range []parley.ResumeMode{parley.ResumeAuto, parley.ResumeManual} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			app := enginetest.App(func(a *parley.App) { a.Resume, a.Policy.Unattended = mode, true })
			for first, more := 1, true; more && !t.Failed(); first++ {
				for second, again := 1, true; again && !t.Failed(); second++ {
					synctest.Test(t, func(t *testing.T) {
						disk, service, turn := diesInMail(t, app)
						disk, more = diesAt(t, disk, service, app, turn, first)
						disk, again = diesAt(t, disk, service, app, turn, second)
						r := enginetest.Over(t, disk, service, enginetest.Echo, app)
						defer r.Close()
						if _, err := r.Engine.Recover(ctx); err != nil {
							t.Fatal(err)
						}
						endsUnknown(t, r, turn)
					})
				}
			}
		})
	}
}

// diesInMail starts the call in a process that dies after the mail was sent.
func diesInMail(t *testing.T, app parley.App) (*mem.Store, *enginetest.Service, parley.TurnInfo) {
	r := enginetest.New(t, enginetest.Echo, app)
	dead := make(chan struct{})
	r.Service.SetGate(func(context.Context, seam.Run) error { <-dead; return errLost })
	turn, err := mailDirect(r)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	disk := r.Dies(dead)
	r.Service.SetGate(nil)
	return disk, r.Service, turn
}

// diesAt recovers the sessions in a process that dies before its n-th write. If there are fewer
// writes, it dies while it waits or is at rest, and more is false.
func diesAt(t *testing.T, disk *mem.Store, service *enginetest.Service, app parley.App, turn parley.TurnInfo, n int) (left *mem.Store, more bool) {
	gone, writes := make(chan *mem.Store, 1), 0
	disk.SetFaults(mem.Faults{Before: func(mem.Call) error {
		if writes++; writes == n {
			gone <- disk.Clone()
		}
		if writes >= n {
			return errors.New("the process is gone")
		}
		return nil
	}})
	r := enginetest.Over(t, disk, service, enginetest.Echo, app)
	if _, err := r.Engine.Recover(ctx); err != nil {
		t.Fatal(err)
	}
	if found, err := mailDirect(r); err == nil && found.ID != turn.ID {
		t.Errorf("its key gives turn %s, not %s", found.ID, turn.ID)
	}
	synctest.Wait()
	select {
	case left = <-gone:
		more = true
	default:
		left = disk.Clone()
	}
	r.Kill()
	synctest.Wait()
	return left, more
}

// TestLostDirectCallOnStores is TestLostDirectCall on each store. The server dies while the
// recovery waits for the deadline.
func TestLostDirectCallOnStores(t *testing.T) {
	eachStore(t, func(t *testing.T, store seam.Store) {
		app := enginetest.App(func(a *parley.App) { a.Resume, a.Policy.Unattended = parley.ResumeAuto, true })
		cut, out := &enginetest.Cut{Store: store}, make(chan struct{})
		r := enginetest.Over(t, cut, &enginetest.Service{}, enginetest.Echo, app)
		r.Service.SetGate(func(context.Context, seam.Run) error {
			cut.Off()
			close(out)
			return errLost
		})
		turn, err := mailDirect(r)
		if err != nil {
			t.Fatal(err)
		}
		<-out
		r.Kill()
		for range 2 {
			r = enginetest.Over(t, &enginetest.Cut{Store: store}, r.Service, enginetest.Echo, app)
			from := int64(len(r.Log(turn.SessionID)))
			if _, err := r.Engine.Recover(ctx); err != nil {
				t.Fatal(err)
			}
			for f, err := range r.Reader.Follow(ctx, enginetest.User, turn.SessionID, from) {
				if err != nil {
					t.Fatal(err)
				}
				if f.Event != nil && f.Event.Type == "turn.resumed" { // from here on it waits
					break
				}
			}
			r.Kill()
		}
		r = enginetest.Over(t, store, r.Service, enginetest.Echo, app)
		defer r.Close()
		if _, err := r.Engine.Recover(ctx); err != nil {
			t.Fatal(err)
		}
		endsUnknown(t, r, turn)
	})
}

// TestDirectCallThatMayBeSettled: a direct call is not given up if its service can still be asked
// about it, or if it can be made again. Its caller is told that it was interrupted, and may resume
// it.
func TestDirectCallThatMayBeSettled(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tool  string
		asked bool
	}{"asked about": {"mail", true}, "made again": {"put", false}, "a read": {"look", false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				app := enginetest.App(func(a *parley.App) { a.Policy.Unattended = true })
				service := &enginetest.Service{}
				set := enginetest.With(service)
				if tc.asked {
					set = enginetest.With(enginetest.Reconcilable{Service: service})
				}
				first := enginetest.Over(t, mem.New(), service, enginetest.Echo, app, set)
				dead := make(chan struct{})
				service.SetGate(func(context.Context, seam.Run) error { <-dead; return errLost })
				turn, err := first.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: "test", Name: tc.tool, Input: json.RawMessage(`{"text":"x"}`)})
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				disk := first.Dies(dead)
				service.SetGate(nil)
				r := enginetest.Over(t, disk, service, enginetest.Echo, app, set)
				defer r.Close()
				if _, err := r.Engine.Recover(ctx); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got := r.Await(turn.ID); got.Status != parley.StatusInterrupted {
					t.Fatalf("the call is %s", got.Status)
				}
				if _, err := r.Engine.Resume(ctx, enginetest.User, turn.ID); err != nil {
					t.Fatal(err)
				}
				r.Await(turn.ID)
				if got, err := r.Engine.CallResult(ctx, enginetest.User, turn.ID); err != nil || got.Outcome != parley.OutcomeOK {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		})
	}
}

// choosy can be asked about other tools, but not about mails.
type choosy struct{ enginetest.Reconcilable }

func (choosy) Reconciles(tool string) bool { return tool != "mail" }

// TestLostDirectCallOfOneTool: that a service can be asked about other tools does not keep a lost
// call waiting.
func TestLostDirectCallOfOneTool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app := enginetest.App(func(a *parley.App) { a.Policy.Unattended = true })
		service := &enginetest.Service{}
		set := enginetest.With(choosy{enginetest.Reconcilable{Service: service}})
		first := enginetest.Over(t, mem.New(), service, enginetest.Echo, app, set)
		dead := make(chan struct{})
		service.SetGate(func(context.Context, seam.Run) error { <-dead; return errLost })
		turn, err := mailDirect(first)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		disk := first.Dies(dead)
		service.SetGate(nil)
		r := enginetest.Over(t, disk, service, enginetest.Echo, app, set)
		defer r.Close()
		if _, err := r.Engine.Recover(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		endsUnknown(t, r, turn)
	})
}

// TestLostDirectCallOfAScope: whether a service can be asked is known only once the scope's tools
// are open. They are not open when the session is loaded.
func TestLostDirectCallOfAScope(t *testing.T) {
	t.Parallel()
	for name, can := range map[string]bool{"cannot be asked": false, "can be asked": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
				if can {
					d.sources = []scope.Source{d.asked}
				}
				dead := make(chan struct{})
				d.gate = func() error { <-dead; return errLost }
				app := enginetest.App(func(a *parley.App) { a.Policy.Unattended = true })
				first := enginetest.New(t, enginetest.Echo, app, d.in)
				turn, err := first.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: "test", Name: "crm", Workspace: "vault", Input: json.RawMessage(`{}`)})
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				disk := first.Dies(dead)
				r := enginetest.Over(t, disk, &enginetest.Service{}, enginetest.Echo, app, d.in)
				defer r.Close()
				recovered(t, r)
				want, outcome := parley.StatusCompleted, parley.OutcomeUnknown
				if can {
					want, outcome = parley.StatusInterrupted, parley.OutcomeOK
				}
				got := r.Await(turn.ID)
				if got.Status != want || got.Resumes {
					t.Fatalf("the call is %s\n%s", got.Status, enginetest.Types(r.Log(turn.SessionID)))
				}
				if can {
					if _, err := r.Engine.Resume(ctx, enginetest.User, turn.ID); err != nil {
						t.Fatal(err)
					}
					r.Await(turn.ID)
				}
				if got, err := r.Engine.CallResult(ctx, enginetest.User, turn.ID); err != nil || got.Outcome != outcome {
					t.Errorf("got %+v, %v", got, err)
				}
				if err := enginetest.CheckLog(r.Log(turn.SessionID)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
