package mcpserver_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/mcpserver"
	"github.com/parley-server/parley/internal/seam"
)

func TestTools(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		app := enginetest.App()
		app.Name = "home"
		h := newHouse(t, enginetest.Echo, app, func(o *mcpserver.Options) { o.Prefix = "ha_agent" })
		list, err := h.host(era, "", nil).ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, tool := range list.Tools {
			line := tool.Name
			if a := tool.Annotations; a.ReadOnlyHint {
				line += " reads"
			} else if *a.DestructiveHint {
				line += " destroys"
			}
			got = append(got, line)
		}
		want := []string{
			"ha_agent.answer destroys", "ha_agent.ask destroys", "ha_agent.await_continuation reads", "ha_agent.cancel destroys", "ha_agent.end_session destroys",
			"ha_agent.get_session reads", "ha_agent.list_sessions reads", "ha_agent.resume destroys", "ha_agent.retry destroys",
			"ha_agent.send_message destroys", "ha_agent.start_session", "look reads", "mail destroys", "put destroys",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestToolNamesWithoutDots(t *testing.T) {
	t.Parallel()
	h := newHouse(t, enginetest.Echo, enginetest.App(), func(o *mcpserver.Options) { o.Underscores = true })
	h.host(eras[1], "", nil).call("test_start_session", nil)
}

func TestConversation(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, enginetest.Echo, enginetest.App())
		c := h.host(era, "", nil)
		s := c.call("test.start_session", args{
			"model": args{"provider": "test", "model": "model"}, "budgets": args{"maxSteps": 3}, "preferences": args{"units": "metric"},
		})["session_id"].(string)
		sent := c.call("test.send_message", args{"session_id": s, "message": "hello", "idempotency_key": "k", "planner_hints": args{"entities": []string{"light.x"}}})
		turn := sent["continuation_id"].(string)
		if sent["acknowledged"] != true {
			t.Errorf("got %v", sent)
		}
		if again := c.call("test.send_message", args{"session_id": s, "message": "hello", "idempotency_key": "k", "planner_hints": args{"entities": []string{"light.x"}}}); again["continuation_id"] != turn {
			t.Errorf("the same key made %v", again)
		}
		want := map[string]any{"status": "completed", "response": map[string]any{"finalMessage": "you said: hello"}}
		if diff := cmp.Diff(want, c.call("test.await_continuation", args{"continuation_id": turn})); diff != "" {
			t.Error(diff)
		}
		if got := c.call("test.cancel", args{"continuation_id": turn})["status"]; got != "already_final" {
			t.Errorf("cancel of an ended turn: %v", got)
		}
		if got := c.call("test.cancel", args{"continuation_id": "01J"})["status"]; got != "not_found" {
			t.Errorf("cancel of a missing turn: %v", got)
		}
		retried := c.call("test.retry", args{"continuation_id": turn})["continuation_id"]
		if got := c.call("test.await_continuation", args{"continuation_id": retried}); got["status"] != "completed" {
			t.Errorf("retry: %v", got)
		}
		got := c.call("test.get_session", args{"session_id": s})["session"].(map[string]any)
		for _, k := range []string{"createdAt", "updatedAt"} {
			if ms, _ := got[k].(float64); time.Since(time.UnixMilli(int64(ms))) > time.Minute {
				t.Errorf("%s is %v", k, got[k])
			}
			delete(got, k)
		}
		if diff := cmp.Diff(map[string]any{
			"id": s, "status": "active", "version": 11.0, "locks": map[string]any{}, "openContinuations": []any{},
			"model":       map[string]any{"provider": "test", "model": "model"},
			"budgets":     map[string]any{"maxSteps": 3.0, "maxToolCalls": 20.0},
			"policy":      map[string]any{"allowActuation": false, "allowlistedServices": []any{}, "enforceFixedModel": false},
			"memory":      map[string]any{"rollingSummary": "", "facts": []any{}, "pins": []any{}},
			"preferences": map[string]any{"units": "metric"},
			"ctx":         map[string]any{"app": "test", "user": "ana", "org": "acme"},
			"stats":       map[string]any{"turns": 2.0, "steps": 2.0, "toolCalls": 0.0, "tokens": 30.0, "costUsd": 0.0},
		}, got); diff != "" {
			t.Error(diff)
		}
		if got := c.call("test.list_sessions", args{"status": "active"})["sessions"].([]any); len(got) != 1 {
			t.Errorf("%d sessions", len(got))
		}
		if got := c.call("test.end_session", args{"session_id": s}); got["status"] != "ended" {
			t.Errorf("end: %v", got)
		}
		if got := c.refused("test.send_message", args{"session_id": s, "message": "x"}); got.Code != parley.CodeConflict {
			t.Errorf("a message to an ended session: %+v", got)
		}
		if got := c.call("test.list_sessions", args{"status": "active"})["sessions"].([]any); len(got) != 0 {
			t.Errorf("%d active sessions", len(got))
		}
	})
}

func TestBusyAndAwaitAtItsTimeout(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		gate := make(chan struct{})
		h := newHouse(t, slow(gate), enginetest.App())
		c := h.host(era, "", nil)
		s := c.call("test.start_session", nil)["session_id"]
		turn := c.call("test.send_message", args{"session_id": s, "message": "one"})["continuation_id"]
		if got := c.refused("test.send_message", args{"session_id": s, "message": "two"}); got.Code != parley.CodeBusy || got.RetryAfterMS <= 0 {
			t.Errorf("busy: %+v", got)
		}
		got := c.call("test.await_continuation", args{"continuation_id": turn, "timeout_ms": 1})
		if got["status"] != "running" && got["status"] != "streaming" {
			t.Errorf("at its timeout: %v", got)
		}
		if open := c.call("test.get_session", args{"session_id": s})["session"].(map[string]any)["openContinuations"]; !cmp.Equal(open, []any{turn}) {
			t.Errorf("open: %v", open)
		}
		close(gate)
		want := map[string]any{"status": "completed", "response": map[string]any{"finalMessage": "thinking is done"}}
		if diff := cmp.Diff(want, c.call("test.await_continuation", args{"continuation_id": turn})); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAsk(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, enginetest.Echo, enginetest.App())
		c := h.host(era, "", nil)
		want := map[string]any{"response": map[string]any{"finalMessage": "you said: hi"}}
		if diff := cmp.Diff(want, c.call("test.ask", args{"message": "hi"})); diff != "" {
			t.Error(diff)
		}
		list := c.call("test.list_sessions", nil)["sessions"].([]any)
		if len(list) != 1 || list[0].(map[string]any)["status"] != "ended" {
			t.Errorf("its session: %v", list)
		}
		if got := c.refused("test.ask", args{"message": " "}); got.Code != parley.CodeInvalid || got.Field != "message" {
			t.Errorf("nothing was asked: %+v", got)
		}
		if list := c.call("test.list_sessions", args{"status": "active"})["sessions"].([]any); len(list) != 0 {
			t.Errorf("a refused question left %v", list)
		}
	})
}

func TestCancelStopsTheTurn(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, slow(nil), enginetest.App())
		c := h.host(era, "", nil)
		s := c.call("test.start_session", nil)["session_id"]
		turn := c.call("test.send_message", args{"session_id": s, "message": "one"})["continuation_id"]
		if got := c.call("test.cancel", args{"continuation_id": turn, "reason": "taking too long"}); got["status"] != "cancelled" {
			t.Errorf("got %v", got)
		}
		got := c.call("test.await_continuation", args{"continuation_id": turn})
		if diff := cmp.Diff(map[string]any{"code": "cancelled", "message": "the turn is cancelled: taking too long"}, got["error"]); got["status"] != "cancelled" || diff != "" {
			t.Errorf("got %v", got)
		}
	})
}

// TestCancelledRequests: a host that cancels await_continuation ends only the waiting. If it cancels
// ask, the turn ends.
func TestCancelledRequests(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		began := make(chan struct{}, 8)
		h := newHouse(t, func(ctx context.Context, _ seam.Request, _ func(string)) (seam.Reply, error) {
			began <- struct{}{}
			<-ctx.Done()
			return seam.Reply{}, ctx.Err()
		}, enginetest.App())
		c := h.host(era, "", nil)
		cancelled := func(name string, in args, after func()) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error)
			go func() {
				_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: in})
				ended <- err
			}()
			after()
			cancel()
			if err := <-ended; err == nil {
				t.Errorf("%s ended well", name)
			}
		}
		s := c.call("test.start_session", nil)["session_id"]
		turn := parley.TurnID(c.call("test.send_message", args{"session_id": s, "message": "one"})["continuation_id"].(string))
		cancelled("test.await_continuation", args{"continuation_id": turn}, func() { <-began })
		if got, err := h.Engine.Turn(t.Context(), enginetest.User, turn); err != nil || got.Status.Ended() {
			t.Errorf("the turn is %v, %v", got.Status, err)
		}
		active := func() []any {
			return slices.DeleteFunc(c.call("test.list_sessions", args{"status": "active"})["sessions"].([]any), func(v any) bool {
				return v.(map[string]any)["id"] == s || len(v.(map[string]any)["openContinuations"].([]any)) == 0
			})
		}
		cancelled("test.ask", args{"message": "two"}, func() { <-began })
		for len(active()) > 0 { // the end of a turn is not announced, so it has to be polled
		}
		if got, err := h.Engine.Turn(t.Context(), enginetest.User, turn); err != nil || got.Status.Ended() {
			t.Errorf("the other turn is %v, %v", got.Status, err)
		}
		c.call("test.cancel", args{"continuation_id": turn})
	})
}

func TestProgress(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		gate := make(chan struct{})
		h := newHouse(t, slow(gate), enginetest.App())
		var mu sync.Mutex
		whole := make(chan struct{})
		last := 0.0
		c := h.host(era, "", &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			if r.Params.Progress <= last {
				t.Errorf("progress went from %v to %v", last, r.Params.Progress)
			}
			last = r.Params.Progress
			switch r.Params.Message {
			case "thinking":
				close(gate)
			case "thinking is done":
				close(whole)
			}
		}})
		p := &mcp.CallToolParams{Name: "test.ask", Arguments: args{"message": "x"}}
		p.SetProgressToken("p1")
		res, err := c.CallTool(t.Context(), p)
		if err != nil || res.IsError {
			t.Fatalf("%v, %v", res, err)
		}
		<-whole // the last notification may be read after the result
	})
}

func TestRefusals(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		app := enginetest.App(func(a *parley.App) {
			on := true
			a.Policy.AllowActuation, a.Policy.AllowlistedServices = &on, []string{"switch.turn_off"}
		})
		h := newHouse(t, enginetest.Echo, app)
		c := h.host(era, "", nil)
		for _, x := range []struct {
			in    args
			field string
		}{
			{args{"budgets": args{"maxSteps": 1000}}, "budgets.maxSteps"},
			{args{"budgets": args{"maxToolCalls": -1}}, "budgets.maxToolCalls"},
			{args{"policy": args{"allowlistedServices": []string{"light.turn_on"}}}, "policy.allowlistedServices"},
			{args{"model": args{"provider": "nobody", "model": "none"}}, "model"},
			{args{"model": args{"model": "test/model", "temperature": 2.5}}, "model.temperature"},
			{args{"model": args{"maxTokens": 1}}, "model.maxTokens"},
			{args{"model": args{"maxTokens": -1}}, "model.maxTokens"},
			{args{"budgets": args{"maxSteps": "many"}}, "budgets.maxSteps"},
			{args{"budgets": 1}, "budgets"},
			{args{"budgets": args{"maxStep": 1}}, "budgets.maxStep"},
			{args{"bugets": args{}}, "bugets"},
		} {
			if got := c.refused("test.start_session", x.in); got.Field != x.field && !(x.field == "model" && strings.Contains(got.Message, "nobody/none")) {
				t.Errorf("%v: %+v", x.in, got)
			} else if x.field != "model" && !strings.Contains(got.Message, x.field) {
				t.Errorf("%v: the field is not named: %s", x.in, got.Message)
			}
		}
		if got := c.refused("test.send_message", args{"session_id": "01J"}); got.Code != parley.CodeInvalid || got.Field != "message" {
			t.Errorf("a message that is not there: %+v", got)
		}
		own := c.call("test.start_session", args{"model": args{"provider": "test", "model": "model", "temperature": 0.5, "maxTokens": 300}})["session_id"]
		model := c.call("test.get_session", args{"session_id": own})["session"].(map[string]any)["model"]
		if diff := cmp.Diff(map[string]any{"provider": "test", "model": "model", "temperature": 0.5, "maxTokens": 300.0}, model); diff != "" {
			t.Errorf("the model of a session with its own settings (-want +got):\n%s", diff)
		}
		for field, value := range map[string]any{"temperature": 0.5, "maxTokens": 300} {
			if got := c.refused("test.send_message", args{"session_id": own, "message": "x", "model": args{field: value}}); got.Field != "model."+field {
				t.Errorf("%s of one message: %+v", field, got)
			}
		}
		s := c.call("test.start_session", args{"policy": args{"allowActuation": true, "allowlistedServices": []string{"switch.turn_off"}}})["session_id"]
		policy := c.call("test.get_session", args{"session_id": s})["session"].(map[string]any)["policy"]
		if diff := cmp.Diff(map[string]any{"allowActuation": true, "allowlistedServices": []any{"switch.turn_off"}, "enforceFixedModel": false}, policy); diff != "" {
			t.Error(diff)
		}
		for _, name := range []string{"test.await_continuation", "test.resume", "test.retry"} {
			if got := c.refused(name, args{"continuation_id": "01J"}); got.Code != parley.CodeNotFound {
				t.Errorf("%s: %+v", name, got)
			}
		}
		for _, name := range []string{"test.get_session", "test.end_session"} {
			if got := c.refused(name, args{"session_id": "01J"}); got.Code != parley.CodeNotFound {
				t.Errorf("%s: %+v", name, got)
			}
		}
		for name, in := range map[string]args{
			"test.send_message":       {"session_id": s, "message": 5},
			"test.start_session":      {"no_such_field": 1},
			"test.await_continuation": {},
			"test.list_sessions":      {"status": "asleep"},
		} {
			if res, text := c.try(name, in); !res.IsError {
				t.Errorf("%s %v was taken: %s", name, in, text)
			}
		}
		done := c.call("test.send_message", args{"session_id": s, "message": "x"})["continuation_id"]
		c.call("test.await_continuation", args{"continuation_id": done})
		if got := c.refused("test.resume", args{"continuation_id": done}); got.Code != parley.CodeConflict {
			t.Errorf("resume of an ended turn: %+v", got)
		}
		if got := c.refused("test.send_message", args{"session_id": s, "message": "x", "time_budget_ms": -5}); got.Field != "time_budget_ms" {
			t.Errorf("a negative time: %+v", got)
		}
	})
}

func TestFailedTurn(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		app := enginetest.App(func(a *parley.App) { a.Budgets.MaxSteps = 1 })
		h := newHouse(t, mailer, app)
		c := h.host(era, "", nil)
		if got := c.refused("test.ask", args{"message": "x"}); got.Code != "budget_steps" {
			t.Errorf("ask: %+v", got)
		}
		s := c.call("test.start_session", nil)["session_id"]
		turn := c.call("test.send_message", args{"session_id": s, "message": "x"})["continuation_id"]
		got := c.call("test.await_continuation", args{"continuation_id": turn})
		e, _ := got["error"].(map[string]any)
		if got["status"] != "failed" || e["code"] != "budget_steps" || e["message"] == "" {
			t.Errorf("await: %v", got)
		}
	})
}

func TestFixedModel(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		c := newHouse(t, enginetest.Echo, enginetest.App()).host(era, "", nil)
		other := args{"provider": "test", "model": "other"}
		s := c.call("test.start_session", args{"policy": args{"enforceFixedModel": true}, "model": args{"provider": "test", "model": "chosen"}})["session_id"]
		if got := c.refused("test.send_message", args{"session_id": s, "message": "x", "model": other}); got.Code != parley.CodeForbidden || got.Field != "model" {
			t.Errorf("another model: %+v", got)
		}
		session := c.call("test.get_session", args{"session_id": s})["session"].(map[string]any)
		if session["policy"].(map[string]any)["enforceFixedModel"] != true || !cmp.Equal(session["model"], map[string]any{"provider": "test", "model": "chosen"}) {
			t.Errorf("got %v", session)
		}
		free := c.call("test.start_session", nil)["session_id"]
		c.call("test.send_message", args{"session_id": free, "message": "x", "model": other})

		fixed := enginetest.App(func(a *parley.App) { a.Policy.FixedModel = true })
		c = newHouse(t, enginetest.Echo, fixed).host(era, "", nil)
		if got := c.refused("test.start_session", args{"policy": args{"enforceFixedModel": false}}); got.Field != "policy.enforceFixedModel" {
			t.Errorf("wider than the app: %+v", got)
		}
		if got := c.refused("test.ask", args{"message": "x", "model": other}); got.Code != parley.CodeForbidden {
			t.Errorf("another model: %+v", got)
		}
	})
}
