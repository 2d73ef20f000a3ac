//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/postgres"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
)

// mailer is a model that calls a tool once with the user's text, and then reports the result.
func mailer(tool string) enginetest.Model {
	return func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if res := enginetest.Results(r); len(res) > 0 {
			say("done: " + res[len(res)-1])
			return seam.Reply{}, nil
		}
		return seam.Reply{Parts: []parley.Part{enginetest.Call(tool, map[string]string{"text": enginetest.Last(r)})}}, nil
	}
}

func asking(a *parley.App) {
	a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}}
}

func rig(t *testing.T, model enginetest.Model, app parley.App) *enginetest.Rig {
	t.Helper()
	r := enginetest.Over(t, open(t, pgtest.Start(t)), &enginetest.Service{}, model, app)
	t.Cleanup(r.Close)
	return r
}

func sound(t *testing.T, r *enginetest.Rig, id parley.SessionID) []parley.Event {
	t.Helper()
	log := r.Log(id)
	if err := enginetest.CheckLog(log); err != nil {
		t.Errorf("session %s: %v\n%s", id, err, enginetest.Types(log))
	}
	return log
}

func TestEnginePlainTurn(t *testing.T) {
	t.Parallel()
	r := rig(t, enginetest.Echo, enginetest.App())
	s := r.Session()
	got := r.Await(r.Send(s.ID, "hello \x00 there").ID)
	if got.Status != parley.StatusCompleted || got.Response.Message != "you said: hello \x00 there" {
		t.Fatalf("got %+v", got)
	}
	want := "session.created\nturn.started\nagent.started\nmodel.started\nmodel.replied\nturn.completed\n"
	if diff := cmp.Diff(want, enginetest.Types(sound(t, r, s.ID))); diff != "" {
		t.Error(diff)
	}
	list, err := r.Engine.Sessions(context.Background(), enginetest.User, seam.SessionQuery{})
	if err != nil || len(list) != 1 || list[0].Version != 6 || list[0].Totals.Turns != 1 {
		t.Errorf("got %+v, %v", list, err)
	}
}

func TestEngineToolRound(t *testing.T) {
	t.Parallel()
	r := rig(t, mailer("look"), enginetest.App())
	s := r.Session()
	got := r.Await(r.Send(s.ID, "hi").ID)
	if got.Status != parley.StatusCompleted || got.Response.Message != "done: seen hi" {
		t.Fatalf("got %+v %v", got, got.Error)
	}
	if diff := cmp.Diff([]string{"look ok", "completed: done: seen hi"}, enginetest.Outcomes(sound(t, r, s.ID))); diff != "" {
		t.Error(diff)
	}
}

func TestEnginePermissionForkAndImport(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := rig(t, mailer("mail"), enginetest.App(asking))
	s := r.Session()
	turn := r.Send(s.ID, "go")
	waiting := r.Await(turn.ID)
	if waiting.Status != parley.StatusWaiting {
		t.Fatalf("got %+v", waiting)
	}
	fork, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{Key: "f"})
	must(t, err)
	if same, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{Key: "f"}); err != nil || same.ID != fork.ID {
		t.Errorf("the same fork: %v, %v", same.ID, err)
	}
	sound(t, r, fork.ID)
	answer := func(choice string) error {
		_, err := r.Engine.Answer(ctx, enginetest.User, waiting.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: choice}})
		return err
	}
	must(t, answer(parley.ChoiceAllow))
	if err := answer(parley.ChoiceDeny); parley.CodeOf(err) != parley.CodeConflict {
		t.Errorf("another answer: %v", err)
	}
	if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
		t.Errorf("got %+v", got)
	}
	log := sound(t, r, s.ID)
	if diff := cmp.Diff([]string{"mail ok", "completed: done: mailed go"}, enginetest.Outcomes(log)); diff != "" {
		t.Error(diff)
	}
	ben := parley.Principal{User: "ben"}
	copied, err := r.Engine.Import(ctx, ben, engine.Imported{Events: log})
	must(t, err)
	sound(t, r, copied.ID)
	if _, err := r.Engine.Session(ctx, enginetest.User, copied.ID); !errors.Is(err, parley.ErrNotFound) {
		t.Errorf("ben's session as ana: got %v, want not found", err)
	}
	if _, _, mails := r.Service.Counts(); mails != 1 {
		t.Errorf("got %d mails, want 1", mails)
	}
}

// TestEngineRestart: the process dies during a write. After the restart the turn is
// interrupted, and the write is unknown and not repeated. A turn that waited still waits.
func TestEngineRestart(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn := pgtest.Start(t)
	store := open(t, dsn)
	service := &enginetest.Service{}
	reached, over := make(chan struct{}), make(chan struct{})
	service.SetGate(func(ctx context.Context, _ seam.Run) error {
		close(reached)
		<-over
		return errors.New("the process is gone")
	})
	app := enginetest.App()
	r := enginetest.Over(t, store, service, mailer("mail"), app)
	s := r.Session()
	turn := r.Send(s.ID, "hi")
	<-reached
	must(t, store.Close()) // nothing is stored from now on
	close(over)
	r.Kill()
	service.SetGate(nil)

	next := enginetest.Over(t, open(t, dsn), service, mailer("mail"), app, func(o *engine.Options) { o.NothingRuns = true })
	defer next.Close()
	done, err := next.Engine.Recover(ctx)
	must(t, err)
	<-done
	if got := next.Await(turn.ID); got.Status != parley.StatusInterrupted {
		t.Fatalf("got %+v, want interrupted", got)
	}
	_, err = next.Engine.Resume(ctx, enginetest.User, turn.ID)
	must(t, err)
	finish(t, next, turn.ID)
	log := sound(t, next, s.ID)
	if got := enginetest.Outcomes(log); len(got) != 2 || got[0] != "mail unknown" || !strings.HasPrefix(got[1], "completed") {
		t.Errorf("got %q", got)
	}
	if _, _, mails := service.Counts(); mails != 1 {
		t.Errorf("got %d mails, want the one", mails)
	}
}

// finish follows a turn to its end as a patient client does: it resumes an interrupted turn and
// leaves unknown outcomes as they are.
func finish(t *testing.T, r *enginetest.Rig, id parley.TurnID) (got parley.TurnInfo) {
	t.Helper()
	ctx := context.Background()
	deadline := time.Now().Add(60 * time.Second)
	for time.Now().Before(deadline) {
		var err error
		if got, err = r.Engine.Await(ctx, enginetest.User, id, time.Second); err != nil {
			continue
		}
		switch {
		case got.Status.Ended():
			return got
		case got.Status == parley.StatusInterrupted:
			_, _ = r.Engine.Resume(ctx, enginetest.User, id) // repeated if it did not work
		case got.Status == parley.StatusWaiting:
			for _, in := range got.Interactions {
				_, _ = r.Engine.Answer(ctx, enginetest.User, in, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceLeave}})
			}
		}
	}
	t.Errorf("turn %s does not end: %+v", id, got)
	return got
}

// becomes waits until ok returns true.
func becomes(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("the engine is not %s", what)
			return
		}
	}
}

// cutting is a store whose database dies in the middle of one commit. It comes back after the
// store has given up asking for the outcome of that commit.
type cutting struct {
	*postgres.Store
	t       *testing.T
	cluster *pgtest.Server
	appends atomic.Int64
	at      int64
	back    sync.WaitGroup
}

func (c *cutting) Append(ctx context.Context, p parley.Principal, b seam.Batch) error {
	if c.appends.Add(1) != c.at {
		return c.Store.Append(ctx, p, b)
	}
	return c.AppendAfter(p, b, func() {
		c.cluster.Kill(c.t)
		c.back.Go(func() {
			becomes(c.t, "in doubt", c.Doubting)
			c.cluster.Restart(c.t)
		})
	})
}

// TestEngineOutageInTheMiddleOfACommit: PostgreSQL dies in the middle of a turn's commit, and
// is away for longer than the store asks for the outcome. The turn goes on, or ends with one
// clear error. The mail is sent at most once, and the log has its true outcome.
func TestEngineOutageInTheMiddleOfACommit(t *testing.T) {
	t.Parallel()
	cluster := pgtest.New(t)
	for _, at := range []int64{3, 4} { // before the mail, and after it
		c := &cutting{Store: open(t, cluster.Database(t)), t: t, cluster: cluster, at: at}
		service := &mailCounter{Service: &enginetest.Service{}, sent: map[string]int{}}
		service.SetGate(service.count)
		r := enginetest.Over(t, c, service.Service, mailer("mail"), enginetest.App())
		s := r.Session()
		var turn parley.TurnInfo
		becomes(t, "taking messages", func() (ok bool) {
			var err error
			turn, err = r.Engine.Send(context.Background(), enginetest.User, s.ID, parley.Send{Message: "hi", Key: "k"})
			return err == nil
		})
		got := finish(t, r, turn.ID)
		if got.Status != parley.StatusCompleted && (got.Status != parley.StatusFailed || got.Error.Code != parley.CodeUnavailable || got.Error.Hint == "") {
			t.Errorf("commit %d: got %+v, %+v, want one clear error", at, got, got.Error)
		}
		c.back.Wait()
		service.mu.Lock()
		service.agrees(t, sound(t, r, s.ID))
		service.mu.Unlock()
		r.Close()
	}
}

// agrees compares the mails in a log with those that were sent. The caller holds mu.
func (m *mailCounter) agrees(t *testing.T, log []parley.Event) {
	t.Helper()
	inputs := map[parley.CallID]string{}
	for _, e := range log {
		p, err := e.Payload()
		must(t, err)
		switch p := p.(type) {
		case parley.ToolRequested:
			inputs[p.Call] = string(p.Input)
		case parley.ToolEnded:
			n := m.sent[inputs[p.Call]]
			switch p.Outcome {
			case parley.OutcomeOK:
				if n != 1 {
					t.Errorf("%s is said to be sent and was sent %d times", inputs[p.Call], n)
				}
			case parley.OutcomeUnknown:
				if n > 1 {
					t.Errorf("%s is said to be unknown and was sent %d times", inputs[p.Call], n)
				}
			default:
				if n != 0 {
					t.Errorf("%s is said to be %s and was sent %d times", inputs[p.Call], p.Outcome, n)
				}
			}
		}
	}
}

// mailCounter counts mails by their text.
type mailCounter struct {
	*enginetest.Service
	mu   sync.Mutex
	sent map[string]int
}

func (m *mailCounter) count(_ context.Context, r seam.Run) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent[string(r.Input)]++
	return nil
}
