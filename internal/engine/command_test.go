package engine_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// gated is a model that says half of its answer, waits for its gate, and says the rest. Each
// message has a gate of its own.
type gated struct{ open map[string]chan struct{} }

func newGated(messages ...string) *gated {
	g := &gated{open: map[string]chan struct{}{}}
	for _, m := range messages {
		g.open[m] = make(chan struct{})
	}
	return g
}

func (g *gated) model(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	last := enginetest.Last(r)
	say("half of ")
	if gate := g.open[last]; gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return seam.Reply{}, context.Cause(ctx)
		}
	}
	say(last)
	return seam.Reply{StopReason: "end_turn"}, nil
}

func code(err error) parley.Code { return parley.CodeOf(err) }

func TestKeys(t *testing.T) {
	rigged(t, enginetest.Echo, enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		send := func(message, key string) (parley.TurnInfo, error) {
			return r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: message, Key: key})
		}
		one, err := send("hello", "k")
		if err != nil {
			t.Fatal(err)
		}
		r.Await(one.ID)
		again, err := send("hello", "k")
		if err != nil || again.ID != one.ID || again.Status != parley.StatusCompleted {
			t.Errorf("the same again: %+v, %v", again, err)
		}
		if _, err = send("another", "k"); code(err) != parley.CodeKeyReused {
			t.Errorf("another body: %v", err)
		}
		other := r.Session()
		if got, err := r.Engine.Send(ctx, enginetest.User, other.ID, parley.Send{Message: "x", Key: "k"}); err != nil || got.ID == one.ID {
			t.Errorf("a key of another session: %+v, %v", got, err)
		}
		a, created, err := r.Engine.Create(ctx, enginetest.User, parley.CreateSession{App: "test", Key: "s1"})
		b, createdB, errB := r.Engine.Create(ctx, enginetest.User, parley.CreateSession{App: "test", Key: "s1"})
		if err != nil || errB != nil || !created || createdB || a.ID != b.ID {
			t.Errorf("a session's key: %v %v %v %v", created, createdB, err, errB)
		}
		if _, _, err = r.Engine.Create(ctx, enginetest.User, parley.CreateSession{App: "test", Title: "t", Key: "s1"}); code(err) != parley.CodeKeyReused {
			t.Errorf("another session under the key: %v", err)
		}
		retry, err := r.Engine.Retry(ctx, enginetest.User, one.ID, "r", "test")
		if err != nil || retry.ID == one.ID || retry.RetryOf != one.ID {
			t.Errorf("retry: %+v, %v", retry, err)
		}
		if same, err := r.Engine.Retry(ctx, enginetest.User, one.ID, "r", "test"); err != nil || same.ID != retry.ID {
			t.Errorf("the same retry: %+v, %v", same, err)
		}
		r.Await(retry.ID)
		if n := len(r.Log(s.ID)); n != 11 {
			t.Errorf("%d events", n)
		}
	})
}

func TestTheSameKeyAtOnceIsOneTurn(t *testing.T) {
	rigged(t, enginetest.Echo, enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		ids := make(chan parley.TurnID, 20)
		for range cap(ids) {
			go func() {
				got, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "hello", Key: "k"})
				if err != nil {
					t.Error(err)
				}
				ids <- got.ID
			}()
		}
		first := <-ids
		for range cap(ids) - 1 {
			if id := <-ids; id != first {
				t.Errorf("two turns: %s and %s", first, id)
			}
		}
	})
}

func TestEnqueue(t *testing.T) {
	g := newGated()
	app := enginetest.App(func(a *parley.App) { a.Busy, a.MaxOpenTurns = parley.BusyEnqueue, 3 })
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		*g = *newGated("one", "two")
		r := enginetest.New(t, g.model, app)
		defer r.Close()
		s := r.Session()
		one, two, three := r.Send(s.ID, "one"), r.Send(s.ID, "two"), r.Send(s.ID, "three")
		if one.Status != parley.StatusRunning || two.Status != parley.StatusPending || three.Status != parley.StatusPending {
			t.Fatalf("%s %s %s", one.Status, two.Status, three.Status)
		}
		if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "four"}); !errors.Is(err, parley.ErrBusy) {
			t.Errorf("a fourth: %v", err)
		}
		if q, err := r.Engine.Queue(ctx, enginetest.User, s.ID); err != nil || len(q) != 2 || q[0].ID != two.ID {
			t.Errorf("queue %v, %v", q, err)
		}
		if err := r.Engine.Unqueue(ctx, enginetest.User, s.ID, three.ID); err != nil {
			t.Error(err)
		}
		if got, _ := r.Engine.Turn(ctx, enginetest.User, three.ID); got.Status != parley.StatusCancelled {
			t.Errorf("three is %s", got.Status)
		}
		four := r.Send(s.ID, "four")
		close(g.open["one"])
		r.Await(one.ID)
		synctest.Wait()
		// Cancelling the running turn holds the queue until the next command.
		if _, err := r.Engine.Cancel(ctx, enginetest.User, two.ID, ""); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got, _ := r.Engine.Turn(ctx, enginetest.User, four.ID); got.Status != parley.StatusPending {
			t.Errorf("four is %s after a cancel", got.Status)
		}
		five := r.Send(s.ID, "five")
		if got := r.Await(four.ID); got.Response.Message != "half of four" {
			t.Errorf("four: %+v", got)
		}
		if got := r.Await(five.ID); got.Status != parley.StatusCompleted {
			t.Errorf("five: %+v", got)
		}
		if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
			t.Error(err)
		}
	})
}

func TestInterruptAndSteer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated("one", "slow")
		r := enginetest.New(t, g.model, enginetest.App())
		defer r.Close()
		s := r.Session()
		one := r.Send(s.ID, "one")
		synctest.Wait()
		two, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "two", Busy: parley.BusyInterrupt})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Await(two.ID); got.Response == nil || got.Response.Message != "half of two" {
			t.Errorf("two: %+v", got)
		}
		if got := r.Await(one.ID); got.Status != parley.StatusCancelled || got.Response.Message != "half of " {
			t.Errorf("one: %+v", got)
		}
		slow := r.Send(s.ID, "slow")
		synctest.Wait()
		steer, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "faster", Busy: parley.BusySteer, Key: "st"})
		if err != nil || steer.ID != slow.ID {
			t.Fatalf("steer: %+v, %v", steer, err)
		}
		close(g.open["slow"])
		if got := r.Await(slow.ID); got.Response.Message != "half of faster" || got.Spent.Steps != 2 {
			t.Errorf("steered: %+v", got)
		}
		if again, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "faster", Busy: parley.BusySteer, Key: "st"}); err != nil || again.ID != slow.ID {
			t.Errorf("the same steer again: %+v, %v", again, err)
		}
		if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
			t.Error(err)
		}
	})
}

// TestRulesAreRevoked grants two kinds of calls for a session and revokes one of them. After
// that only this kind is asked about again. Rules cannot be granted in this way.
func TestRulesAreRevoked(t *testing.T) {
	subject := func(a *parley.App) {
		a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}, {Verdict: parley.Ask, Tool: "look"}}
	}
	rigged(t, func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if len(enginetest.Results(r)) > 0 {
			say("done")
			return seam.Reply{}, nil
		}
		return seam.Reply{Parts: []parley.Part{enginetest.Call(enginetest.Last(r), map[string]string{"text": "hi"})}}, nil
	}, enginetest.App(subject), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		asks := func(tool string) bool {
			t.Helper()
			turn := r.Await(r.Send(s.ID, tool).ID)
			if turn.Status != parley.StatusWaiting {
				return false
			}
			if _, err := r.Engine.Answer(ctx, enginetest.User, turn.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllowSession}}); err != nil {
				t.Fatal(err)
			}
			r.Await(turn.ID)
			return true
		}
		rules := func() []parley.Rule {
			t.Helper()
			list, err := r.Engine.Rules(ctx, enginetest.User, s.ID)
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		update := func(rules ...parley.Rule) error {
			list := append([]parley.Rule{}, rules...)
			_, err := r.Engine.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{Rules: &list})
			return err
		}
		first := []bool{asks("mail"), asks("look"), asks("mail"), asks("look")}
		granted := rules()
		if diff := cmp.Diff([]bool{true, true, false, false}, first); diff != "" || len(granted) != 2 {
			t.Fatalf("asked (-want +got):\n%s, granted %+v", diff, granted)
		}
		if err := update(parley.Rule{Verdict: parley.Allow, Tool: "put"}); code(err) != parley.CodeInvalid || parley.Info(err).Field != "rules" {
			t.Errorf("a rule that was not granted: %v", err)
		}
		if err := update(granted[1]); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(granted[1:], rules()); diff != "" {
			t.Errorf("what stays (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]bool{false, true}, []bool{asks("look"), asks("mail")}); diff != "" {
			t.Errorf("asked after that (-want +got):\n%s", diff)
		}
		if err := update(); err != nil || len(rules()) != 0 {
			t.Errorf("none stays: %v, %+v", err, rules())
		}
		if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
			t.Error(err)
		}
	})
}

// TestBadCommands sends commands that no session accepts. Each is refused with the field at
// fault, and nothing is appended.
func TestBadCommands(t *testing.T) {
	rigged(t, enginetest.Echo, enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		long := strings.Repeat("x", 300<<10)
		yes := true
		for name, tc := range map[string]struct {
			err   error
			code  parley.Code
			field string
		}{
			"empty message":                  {sendErr(r, s.ID, parley.Send{Message: " \n"}), parley.CodeInvalid, "message"},
			"long message":                   {sendErr(r, s.ID, parley.Send{Message: long}), parley.CodeTooLarge, "message"},
			"wider budget":                   {sendErr(r, s.ID, parley.Send{Message: "x", Budgets: parley.Budgets{MaxSteps: 13}}), parley.CodeInvalid, "budgets.max_steps"},
			"unknown model":                  {sendErr(r, s.ID, parley.Send{Message: "x", Model: "m"}), parley.CodeInvalid, "model"},
			"unknown busy":                   {sendErr(r, s.ID, parley.Send{Message: "x", Busy: "wait"}), parley.CodeInvalid, "busy"},
			"long key":                       {sendErr(r, s.ID, parley.Send{Message: "x", Key: long}), parley.CodeTooLarge, "Idempotency-Key"},
			"unknown app":                    {createErr(r, parley.CreateSession{App: "nope"}), parley.CodeNotFound, "app"},
			"wider policy":                   {createErr(r, parley.CreateSession{App: "test", Policy: &parley.Policy{Rules: []parley.Rule{{Verdict: parley.Allow}}}}), parley.CodeInvalid, "policy.rules"},
			"an answer in a blink":           {createErr(r, parley.CreateSession{App: "test", Policy: &parley.Policy{AnswerWithin: parley.Duration(time.Millisecond)}}), parley.CodeInvalid, "policy.answer_within"},
			"an answer before it is asked":   {createErr(r, parley.CreateSession{App: "test", Policy: &parley.Policy{AnswerWithin: parley.Duration(-time.Second)}}), parley.CodeInvalid, "policy.answer_within"},
			"an answer later than the app's": {createErr(r, parley.CreateSession{App: "test", Policy: &parley.Policy{AnswerWithin: parley.Duration(25 * time.Hour)}}), parley.CodeInvalid, "policy.answer_within"},
			"wider actuation":                {createErr(r, parley.CreateSession{App: "test", Policy: &parley.Policy{AllowActuation: &yes}}), parley.CodeInvalid, "policy.allow_actuation"},
			"wider services":                 {createErr(r, parley.CreateSession{App: "test", Policy: &parley.Policy{AllowlistedServices: []string{"light.*"}}}), parley.CodeInvalid, "policy.allowlisted_services"},
			"long title":                     {createErr(r, parley.CreateSession{App: "test", Title: long}), parley.CodeTooLarge, "title"},
			"unknown mode":                   {createErr(r, parley.CreateSession{App: "test", Mode: "yolo"}), parley.CodeInvalid, "mode"},
			"open turns":                     {createErr(r, parley.CreateSession{App: "test", MaxOpenTurns: -1}), parley.CodeInvalid, "max_open_turns"},
			"long outside":                   {createErr(r, parley.CreateSession{App: "test", OutsideID: long}), parley.CodeTooLarge, "outside_id"},
			"nobody's":                       {sendErr(r, "01JNOBODY", parley.Send{Message: "x"}), parley.CodeNotFound, ""},
			"a wider budget":                 {createErr(r, parley.CreateSession{App: "test", Budgets: parley.Budgets{MaxToolCalls: 21}}), parley.CodeInvalid, "budgets.max_tool_calls"},
		} {
			e, ok := errors.AsType[*parley.Error](tc.err)
			if !ok || e.Code != tc.code || e.Field != tc.field {
				t.Errorf("%s: got %v (%+v)", name, tc.err, e)
			}
		}
		if n := len(r.Log(s.ID)); n != 1 {
			t.Errorf("%d events", n)
		}
	})
}

func sendErr(r *enginetest.Rig, id parley.SessionID, c parley.Send) error {
	_, err := r.Engine.Send(ctx, enginetest.User, id, c)
	return err
}

func createErr(r *enginetest.Rig, c parley.CreateSession) error {
	_, _, err := r.Engine.Create(ctx, enginetest.User, c)
	return err
}

// TestIsolation calls every method that takes a principal and an id with an id of another
// user. It finds the methods by reflection.
func TestIsolation(t *testing.T) {
	rigged(t, mailer("mail"), enginetest.App(asking), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session(func(c *parley.CreateSession) { c.OutsideID = "mine" })
		turn := r.Await(r.Send(s.ID, "go").ID)
		ids := map[reflect.Type]any{
			reflect.TypeFor[parley.SessionID]():     s.ID,
			reflect.TypeFor[parley.TurnID]():        turn.ID,
			reflect.TypeFor[parley.InteractionID](): turn.Interactions[0],
			reflect.TypeFor[parley.ArtifactID]():    parley.ArtifactID("none"),
			reflect.TypeFor[time.Duration]():        time.Second,
			reflect.TypeFor[parley.Send]():          parley.Send{Message: "x"},
			reflect.TypeFor[parley.AnswerInteraction](): parley.AnswerInteraction{
				Answer: parley.Answer{Choice: parley.ChoiceAllow},
			},
			reflect.TypeFor[seam.TurnQuery]():       seam.TurnQuery{Session: s.ID},
			reflect.TypeFor[parley.RewindSession](): parley.RewindSession{Turn: turn.ID},
		}
		before := r.Log(s.ID)
		v := reflect.ValueOf(r.Engine)
		tried := 0
		for _, who := range []parley.Principal{{User: "ben", Org: "acme"}, {User: "ana", Org: "other"}, {User: "ana"}, {}} {
			for i := range v.NumMethod() {
				m := v.Type().Method(i)
				if m.Type.NumIn() < 4 || m.Type.In(2) != reflect.TypeFor[parley.Principal]() {
					continue
				}
				args := []reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(who)}
				byID := false
				for j := 3; j < m.Type.NumIn(); j++ {
					in := m.Type.In(j)
					if id, ok := ids[in]; ok {
						byID = byID || strings.HasSuffix(in.Name(), "ID") || in.Name() == "TurnQuery"
						args = append(args, reflect.ValueOf(id))
					} else {
						args = append(args, reflect.Zero(in))
					}
				}
				if !byID {
					continue
				}
				tried++
				out := v.Method(i).Call(args)
				err, _ := out[len(out)-1].Interface().(error)
				if code(err) != parley.CodeNotFound {
					t.Errorf("%s by %+v: %v", m.Name, who, err)
				}
			}
			if list, err := r.Engine.Sessions(ctx, who, seam.SessionQuery{}); err != nil || len(list) != 0 {
				t.Errorf("sessions of %+v: %v, %v", who, list, err)
			}
			if list, err := r.Engine.Interactions(ctx, who, 10); err != nil || len(list) != 0 {
				t.Errorf("interactions of %+v: %v, %v", who, list, err)
			}
			if _, err := r.Engine.Alias(ctx, who, "test", "mine"); code(err) != parley.CodeNotFound {
				t.Errorf("alias of %+v: %v", who, err)
			}
		}
		if tried < 4*15 {
			t.Errorf("only %d calls were tried", tried)
		}
		if diff := cmp.Diff(fmt.Sprint(len(before)), fmt.Sprint(len(r.Log(s.ID)))); diff != "" {
			t.Error("another's commands changed the log", diff)
		}
	})
}
