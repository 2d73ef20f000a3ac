package engine_test

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

func TestCallTool(t *testing.T) {
	rigged(t, enginetest.Echo, enginetest.App(asking), func(t *testing.T, r *enginetest.Rig) {
		call := func(tool, input string, who parley.Principal) (parley.TurnInfo, error) {
			return r.Engine.CallTool(ctx, who, parley.CallTool{App: "test", Name: tool, Input: json.RawMessage(input)})
		}
		turn, err := call("look", `{"text":"a"}`, enginetest.User)
		if err != nil {
			t.Fatal(err)
		}
		r.Await(turn.ID)
		got, err := r.Engine.CallResult(ctx, enginetest.User, turn.ID)
		if err != nil || got.Outcome != parley.OutcomeOK || got.Output != "seen a" {
			t.Errorf("got %+v, %v", got, err)
		}
		want := "session.created\nturn.started\ntool.requested\ntool.started\ntool.ended\nturn.completed\nsession.ended\n"
		if diff := cmp.Diff(want, enginetest.Types(r.Log(turn.SessionID))); diff != "" {
			t.Error(diff)
		}
		bad, err := call("look", `{"txt":1}`, enginetest.User)
		if err != nil {
			t.Fatal(err)
		}
		r.Await(bad.ID)
		if got, err := r.Engine.CallResult(ctx, enginetest.User, bad.ID); err != nil || got.Outcome != parley.OutcomeError {
			t.Errorf("an input that does not fit: %+v, %v", got, err)
		}
		mail, err := call("mail", `{"text":"b"}`, enginetest.User)
		if err != nil || mail.SessionID == turn.SessionID {
			t.Fatalf("%+v, %v", mail, err)
		}
		waiting := r.Await(mail.ID)
		if waiting.Status != parley.StatusWaiting {
			t.Fatalf("a write is not asked for: %+v", waiting)
		}
		behind, err := call("look", `{"text":"c"}`, enginetest.User)
		if err != nil || r.Await(behind.ID).Status != parley.StatusCompleted {
			t.Errorf("a call beside one that waits: %+v, %v", behind, err)
		}
		if _, err := r.Engine.Answer(ctx, enginetest.User, waiting.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		r.Await(mail.ID)
		r.Await(behind.ID)
		if got, err := r.Engine.CallResult(ctx, enginetest.User, mail.ID); err != nil || got.Output != "mailed b" {
			t.Errorf("got %+v, %v", got, err)
		}
		if _, err := call("fly", `{}`, enginetest.User); code(err) != parley.CodeNotFound {
			t.Errorf("a tool that is not there: %v", err)
		}
		if _, err := call("look", `{"text":"a"}`, parley.Principal{User: "ben"}); err != nil {
			t.Errorf("another user has a session of his own: %v", err)
		}
		if _, err := r.Engine.CallTool(ctx, parley.Principal{User: "ben"}, parley.CallTool{Session: turn.SessionID, Name: "look", Input: json.RawMessage(`{"text":"a"}`)}); code(err) != parley.CodeNotFound {
			t.Errorf("a call in another's session: %v", err)
		}
		if _, err := r.Engine.CallResult(ctx, parley.Principal{User: "ben"}, turn.ID); code(err) != parley.CodeNotFound {
			t.Errorf("another's result: %v", err)
		}
		if err := enginetest.CheckLog(r.Log(turn.SessionID)); err != nil {
			t.Error(err)
		}
	})
}

// TestDirectCallsAreNotListed: a direct call's session is in no list. Its question is in the
// inbox. The session is deleted after a while, and until then its key returns it.
func TestDirectCallsAreNotListed(t *testing.T) {
	rigged(t, enginetest.Echo, enginetest.App(asking), func(t *testing.T, r *enginetest.Rig) {
		own := r.Session()
		call := func(tool, key string) (parley.TurnInfo, error) {
			return r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: "test", Name: tool, Input: json.RawMessage(`{"text":"a"}`), Key: key})
		}
		listed := func(q seam.SessionQuery) int {
			list, err := r.Engine.Sessions(ctx, enginetest.User, q)
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		mail, err := call("mail", "k")
		if err != nil {
			t.Fatal(err)
		}
		again, err := call("mail", "k")
		if err != nil || again.ID != mail.ID {
			t.Errorf("the same again: %+v, %v", again, err)
		}
		if _, err := call("look", "k"); code(err) != parley.CodeKeyReused {
			t.Errorf("another call under the key: %v", err)
		}
		waiting := r.Await(mail.ID)
		if all, some := listed(seam.SessionQuery{Direct: true}), listed(seam.SessionQuery{}); all != 2 || some != 1 {
			t.Errorf("%d sessions and %d are listed", all, some)
		}
		inbox, err := r.Engine.Interactions(ctx, enginetest.User, 10)
		if err != nil || len(inbox) != 1 {
			t.Fatalf("the inbox has %+v, %v", inbox, err)
		}
		time.Sleep(8 * time.Hour) // long, but within the time to answer
		if _, err := r.Engine.Answer(ctx, enginetest.User, waiting.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		r.Await(mail.ID)
		if _, _, mails := r.Service.Counts(); mails != 1 {
			t.Errorf("%d mails", mails)
		}
		if got, err := call("mail", "k"); err != nil || got.ID != mail.ID || got.Status != parley.StatusCompleted {
			t.Errorf("the same when it has ended: %+v, %v", got, err)
		}
		retry, err := r.Engine.Retry(ctx, enginetest.User, mail.ID, "", "")
		if err != nil || retry.SessionID == mail.SessionID || retry.RetryOf != mail.ID {
			t.Errorf("a retry: %+v, %v", retry, err)
		}
		if _, err := r.Engine.Cancel(ctx, enginetest.User, retry.ID, "no"); err != nil {
			t.Error(err)
		}
		if got, err := r.Engine.Interactions(ctx, enginetest.User, 10); err != nil || len(got) != 0 {
			t.Errorf("after a cancel the inbox has %+v, %v", got, err)
		}
		forked, err := r.Engine.Fork(ctx, enginetest.User, mail.SessionID, parley.ForkSession{})
		if err != nil || forked.Direct {
			t.Errorf("a fork: %+v, %v", forked, err)
		}
		time.Sleep(8 * 24 * time.Hour)
		synctest.Wait()
		if all := listed(seam.SessionQuery{Direct: true}); all != 2 {
			t.Errorf("after a week %d sessions are kept", all)
		}
		if _, err := r.Engine.Session(ctx, enginetest.User, own.ID); err != nil {
			t.Error(err)
		}
	})
}

// TestDirectCallsOfOneKey: concurrent attempts with one key are one call.
func TestDirectCallsOfOneKey(t *testing.T) {
	rigged(t, enginetest.Echo, enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		var wg sync.WaitGroup
		ids := make([]parley.TurnID, 20)
		for i := range ids {
			wg.Go(func() {
				turn, err := r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: "test", Name: "mail", Input: json.RawMessage(`{"text":"x"}`), Key: "k"})
				if err != nil {
					t.Error(err)
					return
				}
				ids[i] = turn.ID
				r.Await(turn.ID)
			})
		}
		wg.Wait()
		if len(slices.Compact(ids)) != 1 {
			t.Errorf("turns %v", ids)
		}
		if _, _, mails := r.Service.Counts(); mails != 1 {
			t.Errorf("%d mails", mails)
		}
	})
}

// TestDirectCallCrashes crashes a keyed call at each write of the store and makes it again. It
// runs once, or its outcome is unknown and a person can say what to do.
func TestDirectCallCrashes(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		over := false
		synctest.Test(t, func(t *testing.T) {
			first := enginetest.New(t, enginetest.Echo, enginetest.App())
			call := func(r *enginetest.Rig) (parley.TurnInfo, error) {
				return r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: "test", Name: "mail", Input: json.RawMessage(`{"text":"x"}`), Key: "k"})
			}
			var writes atomic.Int32
			var disk atomic.Pointer[mem.Store]
			first.Mem.SetFaults(mem.Faults{Before: func(mem.Call) error {
				if disk.Load() != nil {
					return errors.New("the process is gone")
				}
				if int(writes.Add(1)) == n {
					disk.Store(first.Mem.Clone())
					return errors.New("the process is gone")
				}
				return nil
			}})
			if turn, err := call(first); err == nil {
				_, _ = first.Engine.Await(ctx, enginetest.User, turn.ID, time.Minute)
			}
			synctest.Wait()
			if disk.Load() == nil {
				over = true
				first.Close()
				return
			}
			first.Kill()
			synctest.Wait()
			r := enginetest.Over(t, disk.Load(), first.Service, enginetest.Echo, enginetest.App())
			defer r.Close()
			turn, err := call(r)
			if err != nil {
				t.Fatalf("write %d: %v", n, err)
			}
			got := r.Await(turn.ID)
			if got.Status == parley.StatusInterrupted {
				if _, err := r.Engine.Resume(ctx, enginetest.User, turn.ID); err != nil {
					t.Fatalf("write %d: %v", n, err)
				}
				got = r.Await(turn.ID)
			}
			if got.Status == parley.StatusWaiting {
				if _, err := r.Engine.Answer(ctx, enginetest.User, got.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceHappened}}); err != nil {
					t.Fatalf("write %d: %v", n, err)
				}
				got = r.Await(turn.ID)
			}
			if got.Status != parley.StatusCompleted {
				t.Errorf("write %d: the call is %s: %v", n, got.Status, got.Error)
			}
			if _, _, mails := r.Service.Counts(); mails > 1 {
				t.Errorf("write %d: %d mails", n, mails)
			}
			if err := enginetest.CheckLog(r.Log(turn.SessionID)); err != nil {
				t.Errorf("write %d: %v", n, err)
			}
		})
		if over || t.Failed() {
			if n < 4 {
				t.Errorf("only %d writes", n-1)
			}
			return
		}
	}
}

func TestDirectCallsAtOnce(t *testing.T) {
	rigged(t, enginetest.Echo, enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				turn, err := r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: "test", Name: "mail", Input: json.RawMessage(`{"text":"x"}`)})
				if err != nil {
					t.Error(err)
					return
				}
				r.Await(turn.ID)
			})
		}
		wg.Wait()
		if _, _, mails := r.Service.Counts(); mails != 30 {
			t.Errorf("%d mails", mails)
		}
	})
}

// TestKeptFiles lets a tool keep a picture beside its result.
func TestKeptFiles(t *testing.T) {
	rigged(t, enginetest.Echo, enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		turn, err := r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: "test", Name: "look", Input: json.RawMessage(`{"text":"plot"}`)})
		if err != nil {
			t.Fatal(err)
		}
		r.Await(turn.ID)
		got, err := r.Engine.CallResult(ctx, enginetest.User, turn.ID)
		if err != nil || got.Artifact == nil || got.Artifact.MediaType != "image/png" {
			t.Fatalf("got %+v, %v", got, err)
		}
		a, body, err := r.Engine.Artifact(ctx, enginetest.User, got.Artifact.ID)
		if err != nil || a.Name != "plot.png" || string(body) != "\x89PNG\xff" {
			t.Errorf("got %+v, %q, %v", a, body, err)
		}
		if _, _, err := r.Engine.Artifact(ctx, parley.Principal{User: "ben"}, got.Artifact.ID); code(err) != parley.CodeNotFound {
			t.Errorf("another's picture: %v", err)
		}
	})
}
