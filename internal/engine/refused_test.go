package engine_test

import (
	"context"
	"strings"
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

// refuses makes a store refuse each call of method whose events contain text. The error is permanent.
func refuses(tried *int, method, text string) mem.Faults {
	return mem.Faults{Before: func(c mem.Call) error {
		all := ""
		for _, ev := range c.Batch.Events {
			all += string(ev.Type) + " " + string(ev.Data) + "\n"
		}
		if c.Method != method || !strings.Contains(all, text) {
			return nil
		}
		*tried++
		return parley.Errorf(parley.CodeTooLarge, "it is too large")
	}}
}

// TestQueuedTurnThatIsRefused: a queued turn whose start is refused permanently fails with the
// store's error, and the queue continues.
func TestQueuedTurnThatIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		method, text string
		wait         time.Duration // how long the first turn waits for a human
		want         []string
		failed       []int
	}{
		"its event":     {"Append", `"two"`, 0, []string{"mail one: completed", "three: completed"}, []int{0}},
		"all":           {"Append", "turn.started", 0, []string{"mail one: completed"}, []int{0, 1}},
		"its app":       {"PutBlob", "", time.Hour, []string{"mail one: completed"}, []int{0, 1}},
		"in the middle": {"Append", `"three"`, 0, []string{"mail one: completed", "two: completed"}, []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			rigged(t, (&held{}).model, enginetest.App(queued, asking), func(t *testing.T, r *enginetest.Rig) {
				id := r.Session().ID
				one := r.Await(r.Send(id, "mail one").ID)
				turns := []parley.TurnID{say(t, r, id, "two", parley.BusyEnqueue).ID, say(t, r, id, "three", parley.BusyEnqueue).ID}
				time.Sleep(tc.wait)
				synctest.Wait()
				tried := 0
				r.Mem.SetFaults(refuses(&tried, tc.method, tc.text))
				if _, err := r.Engine.Answer(ctx, enginetest.User, one.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceDeny}}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if tried != len(tc.failed) {
					t.Errorf("tried %d times, want %d", tried, len(tc.failed))
				}
				for _, at := range tc.failed {
					if got := r.Await(turns[at]); got.Status != parley.StatusFailed || got.Error == nil || got.Error.Code != parley.CodeTooLarge {
						t.Errorf("turn %d is %s: %+v", at, got.Status, got.Error)
					}
				}
				queueLen(t, r, id, 0)
				r.Mem.SetFaults(mem.Faults{})
				r.Await(r.Send(id, "four").ID)
				wants(t, r, id, append(tc.want, "four: completed")...)
			})
		})
	}
}

// TestStoppedBeforeItBegan: a turn that was stopped while the store could not take
// its start does not begin when the store is back.
func TestStoppedBeforeItBegan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &held{gate: make(chan struct{})}
		slow := func(o *engine.Options) { o.Runtimes = map[string]seam.Runtime{"loop": late{o.Runtimes["loop"]}} }
		r := enginetest.New(t, h.model, enginetest.App(queued), slow)
		defer r.Close()
		id := r.Session().ID
		r.Send(id, "long one")
		two := say(t, r, id, "late two", parley.BusyEnqueue)
		say(t, r, id, "three", parley.BusyEnqueue)
		close(h.gate)
		synctest.Wait() // two has begun, but only its runtime knows it
		full := time.Now().Add(30 * time.Second)
		r.Mem.SetFaults(mem.Faults{Before: func(mem.Call) error {
			if time.Now().Before(full) {
				return parley.Errorf(parley.CodeUnavailable, "no room")
			}
			return nil
		}})
		if _, err := r.Engine.Cancel(ctx, enginetest.User, two.ID, "enough"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := r.Await(two.ID); got.Status != parley.StatusCancelled || got.Reason != "enough" {
			t.Errorf("the turn is %s: %s", got.Status, got.Reason)
		}
		wants(t, r, id, "long one: completed", "three: completed")
	})
}

// late is a runtime that begins a turn whose message starts with "late" only once it is stopped.
type late struct{ seam.Runtime }

func (l late) Run(ctx context.Context, h seam.Host) (seam.Ending, error) {
	if strings.HasPrefix(h.State().Turn.Request.Message.Text(), "late") {
		<-ctx.Done()
	}
	return l.Runtime.Run(ctx, h)
}

// TestResumptionThatIsRefused: a resumption that the store refuses is tried once and then left to
// a human.
func TestResumptionThatIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &held{gate: make(chan struct{})}
		app := enginetest.App(func(a *parley.App) { a.Resume = parley.ResumeAuto })
		r := enginetest.New(t, h.model, app)
		id := r.Session().ID
		one := r.Send(id, "long one")
		synctest.Wait()
		disk := r.Mem.Clone()
		r.Kill()
		tried := 0
		disk.SetFaults(refuses(&tried, "Append", "turn.resumed"))
		r = enginetest.Over(t, disk, r.Service, h.model, app)
		defer r.Close()
		close(h.gate)
		recovered(t, r)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := r.Await(one.ID); got.Status != parley.StatusInterrupted || tried != 1 {
			t.Errorf("the turn is %s after %d attempts", got.Status, tried)
		}
		disk.SetFaults(mem.Faults{})
		r.Send(id, "two")
		wants(t, r, id, "long one: cancelled", "two: completed")
	})
}

// TestEndThatIsRefused: a turn whose end the store refuses permanently ends as failed.
func TestEndThatIsRefused(t *testing.T) {
	h := &held{}
	rigged(t, h.model, enginetest.App(queued), func(t *testing.T, r *enginetest.Rig) {
		h.gate = make(chan struct{})
		id := r.Session().ID
		one := r.Send(id, "long one")
		say(t, r, id, "two", parley.BusyEnqueue)
		synctest.Wait()
		tried := 0
		r.Mem.SetFaults(refuses(&tried, "Append", "turn.completed"))
		close(h.gate)
		time.Sleep(time.Minute)
		if got := r.Await(one.ID); got.Status != parley.StatusFailed || got.Error == nil || got.Error.Code != parley.CodeTooLarge {
			t.Errorf("the turn is %s: %+v", got.Status, got.Error)
		}
		var ends []string
		for _, ev := range r.Log(id) {
			if strings.HasPrefix(string(ev.Type), "turn.") {
				ends = append(ends, strings.TrimPrefix(string(ev.Type), "turn."))
			}
		}
		if diff := cmp.Diff([]string{"started", "queued", "failed", "started", "failed"}, ends); diff != "" {
			t.Error(diff)
		}
		wants(t, r, id, "long one: failed", "two: failed")
	})
}
