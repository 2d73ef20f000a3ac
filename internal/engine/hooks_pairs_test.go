package engine_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// slow is a toolset with one hook for an event. The hook answers once its gate is open.
type slow struct {
	event string
	gate  chan struct{}
	say   func(input string) string
	tool  string // calls of other tools pass at once; empty: the hook is slow for all

	mu    sync.Mutex
	gone  bool           // the file with the hook was removed
	asked map[string]int // by call
	cut   map[string]int // how many of these ended with the turn
}

func newSlow(event, say string) *slow {
	return &slow{event: event, gate: make(chan struct{}), say: func(string) string { return say }, asked: map[string]int{}, cut: map[string]int{}}
}

func (h *slow) Tools(context.Context) ([]parley.ToolDecl, error) { return nil, nil }
func (h *slow) Run(context.Context, seam.Run) (parley.ToolResult, error) {
	return parley.ToolResult{}, fmt.Errorf("it has no tools")
}

func (h *slow) Hooks() []hook.Hook {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return nil
	}
	return []hook.Hook{{Entry: hook.Entry{Event: h.event, Name: "slow", Timeout: hook.MaxTimeout}, Level: "app", Do: h.do}}
}

func (h *slow) do(ctx context.Context, message []byte) (hook.Said, error) {
	var m struct {
		Call  string          `json:"tool_use_id"`
		Turn  string          `json:"prompt_id"`
		Text  string          `json:"prompt"`
		Tool  string          `json:"tool_name"`
		Input json.RawMessage `json:"tool_input"`
	}
	if err := json.Unmarshal(message, &m); err != nil {
		return hook.Said{}, err
	}
	if m.Call == "" {
		m.Call = m.Turn
	}
	if m.Text == "more" {
		m.Call += " more"
	}
	if h.tool != "" && m.Tool != h.tool {
		return hook.Said{}, nil
	}
	h.mu.Lock()
	h.asked[m.Call]++
	h.mu.Unlock()
	select {
	case <-h.gate:
		return hook.Said{Out: []byte(h.say(string(m.Input)))}, nil
	case <-ctx.Done():
		h.mu.Lock()
		h.cut[m.Call]++
		h.mu.Unlock()
		return hook.Said{}, context.Cause(ctx)
	}
}

func (h *slow) open() { close(h.gate) }

func (h *slow) remove(gone bool) {
	h.mu.Lock()
	h.gone = gone
	h.mu.Unlock()
}

// counts returns how often the hook was asked, and how often it was cut.
func (h *slow) counts() (asked, cut int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for call := range h.asked {
		asked, cut = asked+h.asked[call], cut+h.cut[call]
	}
	return asked, cut
}

func (h *slow) in(o *engine.Options) {
	box, left := o.Tools["test"].With(context.Background(), []seam.Toolset{h})
	if left != nil {
		panic(left)
	}
	o.Tools["test"] = box
}

// check checks that the hook was asked once for each decision in a log, and that each mail was
// sent once.
func (h *slow) check(t *testing.T, r *enginetest.Rig, log []parley.Event) {
	t.Helper()
	if err := enginetest.CheckLog(log); err != nil {
		t.Errorf("%v\n%s", err, enginetest.Types(log))
	}
	ran, said, prompts := map[string]int{}, 0, map[parley.TurnID]string{}
	for _, ev := range log {
		switch p := mustPayload(ev).(type) {
		case parley.HookRan:
			key := string(cmp.Or(p.Call, parley.CallID(ev.Turn)))
			if p.Steers || p.Event == hook.UserPromptSubmit && prompts[ev.Turn] == "more" {
				key += " more"
			}
			if p.Name == "slow" {
				ran[key]++
			}
		case parley.TurnStarted:
			prompts[ev.Turn] = p.Message.Text()
		case parley.ToolEnded:
			if p.Name == "mail" && p.Outcome == parley.OutcomeOK {
				said++
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for call, n := range h.asked {
		if strings.HasSuffix(call, " more") && ran[call] == 0 {
			continue // its turn ended meanwhile, so the message begins a turn of its own, and the hook is asked about it there
		}
		if decided := n - h.cut[call]; decided != ran[call] || n > 1 && h.cut[call] == 0 && h.event != hook.Stop { // a Stop hook is asked again when the turn would end again
			t.Errorf("call %s: asked %d times, cut %d times, and the log has %d decisions\n%s", call, n, h.cut[call], ran[call], enginetest.Types(log))
		}
	}
	if _, _, mails := r.Service.Counts(); mails != said {
		t.Errorf("%d mails were sent, and the log has %d", mails, said)
	}
}

// slowHooks has a hook for each event of a call, and the app in which that hook is asked.
var slowHooks = map[string]struct {
	say   string
	app   func(*parley.App)
	mails int // how many are sent when the hook is asked
	want  string
}{
	hook.PreToolUse:        {`{"hookSpecificOutput":{"permissionDecision":"allow"}}`, func(*parley.App) {}, 0, "done: mailed hi"},
	hook.PermissionRequest: {`{"hookSpecificOutput":{"decision":{"behavior":"allow"}}}`, asking, 0, "done: mailed hi"},
	hook.PostToolUse:       {`{"hookSpecificOutput":{"additionalContext":"it is Sunday"}}`, func(*parley.App) {}, 1, "done: mailed hi\n[a hook says: it is Sunday]"},
}

// slowInTurns is like slowHooks, for the events of a turn.
var slowInTurns = map[string]struct {
	say   string
	app   func(*parley.App)
	mails int
	want  string
}{
	hook.UserPromptSubmit: {`{"hookSpecificOutput":{"additionalContext":"it is Sunday"}}`, func(*parley.App) {}, 0, "done: mailed hi"},
	hook.SessionStart:     {`{"hookSpecificOutput":{"additionalContext":"it is Sunday"}}`, func(*parley.App) {}, 0, "done: mailed hi"},
	hook.Stop:             {`{"systemMessage":"fine"}`, func(*parley.App) {}, 1, "done: mailed hi"},
}

// TestWhileAHookIsAsked does each thing that can happen to a turn while one of its hooks takes its
// time. When the turn ends, its hook is cut. Anything else leaves the hook alone, and it is asked
// once.
func TestWhileAHookIsAsked(t *testing.T) {
	t.Parallel()
	type turnOf struct {
		r    *enginetest.Rig
		s    parley.SessionID
		turn parley.TurnID
	}
	send := func(busy parley.BusyMode) func(x turnOf) error {
		return func(x turnOf) error {
			_, err := x.r.Engine.Send(ctx, enginetest.User, x.s, parley.Send{Message: "more", Busy: busy})
			return err
		}
	}
	for name, c := range map[string]struct {
		do   func(x turnOf) error
		ends parley.TurnStatus // how the turn ends, which cuts the hook; empty: it completes
		more int               // turns that complete after it
		gone bool              // the session is deleted
	}{
		"cancel": {do: func(x turnOf) error {
			info, err := x.r.Engine.Cancel(ctx, enginetest.User, x.turn, "enough")
			if err == nil && info.Status != parley.StatusCancelled {
				return fmt.Errorf("it is %s", info.Status)
			}
			return err
		}, ends: parley.StatusCancelled},
		"interrupt": {do: send(parley.BusyInterrupt), ends: parley.StatusCancelled, more: 1},
		"steer": {do: func(x turnOf) error {
			go func() { // Send waits for the hooks of the message, if there are any
				if err := send(parley.BusySteer)(x); err != nil {
					x.r.T.Error(err)
				}
			}()
			return nil
		}},
		"enqueue": {do: send(parley.BusyEnqueue), more: 1},
		"end": {do: func(x turnOf) error {
			_, err := x.r.Engine.End(ctx, enginetest.User, x.s, "")
			return err
		}, ends: parley.StatusCancelled},
		"delete": {do: func(x turnOf) error { return x.r.Engine.Delete(ctx, enginetest.User, x.s) }, gone: true},
		"retry": {do: func(x turnOf) error {
			if _, err := x.r.Engine.Retry(ctx, enginetest.User, x.turn, "", ""); code(err) != parley.CodeConflict {
				return fmt.Errorf("a turn that runs: %w", err)
			}
			return nil
		}},
		"time": {do: func(x turnOf) error {
			time.Sleep(time.Minute) // fake: the turn's time
			return nil
		}, ends: parley.StatusFailed},
		"fork": {do: func(x turnOf) error {
			fork, err := x.r.Engine.Fork(ctx, enginetest.User, x.s, parley.ForkSession{})
			if err != nil {
				return err
			}
			synctest.Wait()
			if st := stateOf(x.r.T.(*testing.T), x.r, fork.ID); st.Turn != nil {
				return fmt.Errorf("the fork has turn %+v", st.Turn)
			}
			return enginetest.CheckLog(x.r.Log(fork.ID))
		}},
		"sweep": {do: func(x turnOf) error {
			_, err := x.r.Engine.Sweep(ctx, enginetest.User)
			return err
		}},
		"title": {do: func(x turnOf) error {
			title := "other"
			_, err := x.r.Engine.Update(ctx, enginetest.User, x.s, parley.UpdateSession{Title: &title})
			return err
		}},
	} {
		both := maps.Clone(slowHooks)
		maps.Copy(both, slowInTurns)
		for event, e := range both {
			t.Run(name+"/"+event, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					h := newSlow(event, e.say)
					r := enginetest.New(t, mailer("mail"), enginetest.App(e.app, queued, func(a *parley.App) { a.Budgets.MaxDurationMS = 50_000 }), h.in)
					defer r.Close()
					s := r.Session()
					x := turnOf{r, s.ID, r.Send(s.ID, "go").ID}
					synctest.Wait()
					if asked, _ := h.counts(); asked != 1 {
						t.Fatalf("the hook is asked %d times\n%s", asked, enginetest.Types(r.Log(s.ID)))
					}
					if err := c.do(x); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					ends := c.ends != "" || c.gone
					if _, cut := h.counts(); cut == 1 != ends {
						t.Errorf("the hook was cut %d times", cut)
					}
					h.open()
					synctest.Wait()
					if _, _, mails := r.Service.Counts(); ends && c.more == 0 && mails != e.mails {
						t.Errorf("%d mails were sent, want %d", mails, e.mails)
					}
					if c.gone {
						return
					}
					log := r.Log(s.ID)
					h.check(t, r, log)
					got := r.Await(x.turn)
					switch {
					case ends && (got.Status != c.ends || c.ends == parley.StatusFailed && got.Error.Code != "budget_duration"):
						t.Errorf("the turn is %s: %+v", got.Status, got.Error)
					case !ends && (got.Status != parley.StatusCompleted || !strings.HasPrefix(got.Response.Message, e.want)):
						t.Errorf("the turn is %s: %+v", got.Status, got.Response)
					}
					want := c.more
					if !ends {
						want++
					}
					if n := eventsOf(log, "turn.completed"); n != want && !(name == "steer" && event == hook.UserPromptSubmit && n == want+1) {
						t.Errorf("%d turns were completed, want %d\n%s", n, want, enginetest.Types(log))
					}
				})
			})
		}
	}
}

// TestAfterAHookHasDecided: a hook has decided in a turn. A fork and a retry of the turn do not ask
// the hook about it again, but ask about calls of their own.
func TestAfterAHookHasDecided(t *testing.T) {
	t.Parallel()
	for event, e := range slowHooks {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newSlow(event, e.say)
				h.open()
				var works atomic.Bool
				model := func(ctx context.Context, q seam.Request, say func(string)) (seam.Reply, error) {
					if len(enginetest.Results(q)) > 0 && !works.Load() {
						return seam.Reply{}, parley.Errorf(parley.CodeModel, "cannot")
					}
					return mailer("mail")(ctx, q, say)
				}
				r := enginetest.New(t, model, enginetest.App(e.app), h.in)
				defer r.Close()
				s := r.Session()
				one := r.Await(r.Send(s.ID, "go").ID)
				if one.Status != parley.StatusFailed {
					t.Fatalf("the turn is %s", one.Status)
				}
				works.Store(true)
				fork, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if asked, _ := h.counts(); asked != 1 {
					t.Errorf("asked %d times after the fork", asked)
				}
				for at := range r.Log(s.ID) { // a fork at any event is at rest
					cut, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{At: int64(at) + 1})
					if err != nil {
						t.Fatal(err)
					}
					if err := enginetest.CheckLog(r.Log(cut.ID)); err != nil {
						t.Errorf("a fork at %d: %v", at+1, err)
					}
					if got := r.Await(r.Send(cut.ID, "say").ID); got.Status != parley.StatusCompleted {
						t.Errorf("a fork at %d: %+v", at+1, got.Error)
					}
				}
				asked, _ := h.counts()
				again, err := r.Engine.Retry(ctx, enginetest.User, one.ID, "", "")
				if err != nil {
					t.Fatal(err)
				}
				if got := r.Await(again.ID); got.Status != parley.StatusCompleted {
					t.Errorf("the retry is %s: %+v", got.Status, got.Error)
				}
				log := r.Log(s.ID)
				calls := eventsOf(log, "tool.requested")
				if now, _ := h.counts(); now-asked != calls-1 {
					t.Errorf("asked %d times in the retry, which has %d calls", now-asked, calls-1)
				}
				for _, id := range []parley.SessionID{s.ID, fork.ID} {
					if err := enginetest.CheckLog(r.Log(id)); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// TestDirectCallIsHooked: hooks are asked about a direct call as about the call of an agent, and
// are cut when it is cancelled. The caller gets the result as the hooks leave it.
func TestDirectCallIsHooked(t *testing.T) {
	t.Parallel()
	for event, e := range slowHooks {
		for _, cancels := range []bool{false, true} {
			t.Run(fmt.Sprint(event, " cancelled ", cancels), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					h := newSlow(event, e.say)
					r := enginetest.New(t, enginetest.Echo, enginetest.App(e.app), h.in)
					defer r.Close()
					turn, err := r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: "test", Name: "mail", Input: []byte(`{"text":"hi"}`), Key: "k"})
					if err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					if cancels {
						if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, ""); err != nil {
							t.Fatal(err)
						}
						synctest.Wait()
					}
					h.open()
					synctest.Wait()
					again, err := r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: "test", Name: "mail", Input: []byte(`{"text":"hi"}`), Key: "k"})
					if err != nil || again.ID != turn.ID {
						t.Errorf("the same again is %s: %v", again.ID, err)
					}
					h.check(t, r, r.Log(turn.SessionID))
					asked, cut := h.counts()
					if asked != 1 || cut == 1 != cancels {
						t.Errorf("asked %d times, cut %d times", asked, cut)
					}
					if cancels {
						return
					}
					res, err := r.Engine.CallResult(ctx, enginetest.User, turn.ID)
					if want := strings.TrimPrefix(e.want, "done: "); err != nil || res.Output != want {
						t.Errorf("the caller got %q, %v, want %q", res.Output, err, want)
					}
				})
			})
		}
	}
}

// TestCallerReadsWhatAHookLeaves: a direct call returns what a hook put in place of the result.
func TestCallerReadsWhatAHookLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newSlow(hook.PostToolUse, `{"hookSpecificOutput":{"updatedToolOutput":"nothing to see"}}`)
		h.open()
		r := enginetest.New(t, enginetest.Echo, enginetest.App(), h.in)
		defer r.Close()
		turn, err := r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: "test", Name: "look", Input: []byte(`{"text":"hi"}`)})
		if err != nil {
			t.Fatal(err)
		}
		r.Await(turn.ID)
		if res, err := r.Engine.CallResult(ctx, enginetest.User, turn.ID); err != nil || res.Output != "nothing to see" {
			t.Errorf("the caller got %q, %v", res.Output, err)
		}
	})
}

// TestHookSaysTheSame: a hook that returns the same input, written in another way, changes nothing.
// A person who has allowed the call is not asked again.
func TestHookSaysTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newSlow(hook.PreToolUse, "")
		h.say = func(input string) string {
			return `{"hookSpecificOutput":{"updatedInput":` + strings.ReplaceAll(input, ":", " : ") + `}}`
		}
		h.open()
		r := enginetest.New(t, mailer("mail"), enginetest.App(asking), h.in)
		defer r.Close()
		s := r.Session()
		turn := r.Await(r.Send(s.ID, "go").ID)
		if _, err := r.Engine.Answer(t.Context(), enginetest.User, turn.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow, Input: []byte(`{"text":"edited"}`)}}); err != nil {
			t.Fatal(err)
		}
		if got := r.Await(turn.ID); got.Status != parley.StatusCompleted || !strings.HasSuffix(got.Response.Message, "mailed edited") {
			t.Errorf("the turn is %s: %+v\n%s", got.Status, got.Response, enginetest.Types(r.Log(s.ID)))
		}
	})
}

// TestAllowedWasAnotherInput: one hook allows an input in place of a person, and then another hook
// changes that input. A person is asked about the changed input.
func TestAllowedWasAnotherInput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := (&hooked{}).on("platform", hook.PermissionRequest, says(`{"hookSpecificOutput":{"decision":{"behavior":"allow","updatedInput":{"text":"good"}}}}`)).
			on("workspace", hook.PreToolUse, func(m map[string]any) string {
				if strings.Contains(fmt.Sprint(m["tool_input"]), "good") {
					return changes(`{"text":"evil"}`)(m)
				}
				return ""
			})
		r := enginetest.New(t, mailer("mail"), enginetest.App(asking), h.in)
		defer r.Close()
		s := r.Session()
		got := r.Await(r.Send(s.ID, "go").ID)
		if _, _, mails := r.Service.Counts(); mails != 0 || got.Status != parley.StatusWaiting {
			t.Errorf("%d mails were sent, the turn is %s\n%s", mails, got.Status, enginetest.Types(r.Log(s.ID)))
		}
	})
}

// TestHooksAfterACrash: a hook that was asked when the server stopped is asked once more. If its file
// is gone, the turn goes on without it.
func TestHooksAfterACrash(t *testing.T) {
	t.Parallel()
	both := maps.Clone(slowHooks)
	maps.Copy(both, slowInTurns)
	for event, e := range both {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprint(event, " gone ", gone), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					h := newSlow(event, e.say)
					store, service := mem.New(), &enginetest.Service{}
					app := enginetest.App(e.app, func(a *parley.App) { a.Resume = parley.ResumeAuto })
					start := func() *enginetest.Rig {
						return enginetest.Over(t, &enginetest.Cut{Store: store}, service, mailer("mail"), app, h.in)
					}
					r := start()
					s := r.Session()
					turn := r.Send(s.ID, "go")
					synctest.Wait()
					r.Kill()
					h.remove(gone)
					h.open()
					r = start()
					defer r.Close()
					done, err := r.Engine.Recover(ctx)
					if err != nil {
						t.Fatal(err)
					}
					<-done
					got, want := r.Await(turn.ID), parley.StatusCompleted
					if gone && event == hook.PermissionRequest {
						want = parley.StatusWaiting // for a person
					}
					if got.Status != want {
						t.Errorf("the turn is %s, want %s: %+v\n%s", got.Status, want, got.Error, enginetest.Types(r.Log(s.ID)))
					}
					h.check(t, r, r.Log(s.ID))
					again := 2
					if gone {
						again = 1
					}
					if asked, cut := h.counts(); asked != again || cut != 1 {
						t.Errorf("asked %d times, cut %d times", asked, cut)
					}
				})
			})
		}
	}
}

// TestHookOfASubAgent: the hook of a sub-agent's call is cut with the turn, and leaves the other
// agents alone.
func TestHookOfASubAgent(t *testing.T) {
	t.Parallel()
	for event, e := range slowHooks {
		for _, cancels := range []bool{false, true} {
			t.Run(fmt.Sprint(event, " cancelled ", cancels), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					h := newSlow(event, e.say)
					h.tool = "mail"
					r := enginetest.New(t, teamwork, enginetest.App(team, e.app), h.in)
					defer r.Close()
					s := r.Session()
					turn := r.Send(s.ID, "mail a; look b")
					synctest.Wait()
					if asked, _ := h.counts(); asked != 1 {
						t.Fatalf("asked %d times\n%s", asked, enginetest.Types(r.Log(s.ID)))
					}
					if looks, _, _ := r.Service.Counts(); looks != 1 {
						t.Errorf("the other agent has looked %d times", looks)
					}
					if cancels {
						if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, ""); err != nil {
							t.Fatal(err)
						}
						synctest.Wait()
					}
					h.open()
					synctest.Wait()
					got := r.Await(turn.ID)
					if want := got.Status == parley.StatusCancelled; want != cancels {
						t.Errorf("the turn is %s: %+v", got.Status, got.Error)
					}
					if !cancels && !strings.Contains(got.Response.Message, "mailed a") {
						t.Errorf("got %q", got.Response.Message)
					}
					h.check(t, r, r.Log(s.ID))
				})
			})
		}
	}
}

// TestHooksAreFollowedThroughCuts: a turn with hooks is steered while clients lose the connection
// at any of its frames. All clients end with the same log.
func TestHooksAreFollowedThroughCuts(t *testing.T) {
	t.Parallel()
	both := maps.Clone(slowHooks)
	maps.Copy(both, slowInTurns)
	for event, e := range both {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newSlow(event, e.say)
				r := enginetest.New(t, mailer("mail"), enginetest.App(e.app), h.in)
				defer r.Close()
				s := r.Session()
				follow, stop := context.WithCancel(ctx)
				var all sync.WaitGroup
				clients := make([]*cutClient, 40)
				for i := range clients {
					c := &cutClient{text: map[parley.CallID]string{}}
					clients[i] = c
					all.Go(func() {
						for frames := i; follow.Err() == nil; frames = i % 3 { // 0: it is not cut
							c.follow(follow, r.Reader, s.ID, frames, 0)
						}
					})
				}
				turn := r.Send(s.ID, "go")
				synctest.Wait()
				asked := len(clients[0].log)
				all.Go(func() { // Send waits for the hooks of the message, if there are any
					if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "more", Busy: parley.BusySteer}); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
				h.open()
				r.Await(turn.ID)
				synctest.Wait()
				stop()
				all.Wait()
				log := r.Log(s.ID)
				if _, ofCall := slowHooks[event]; ofCall && !slices.ContainsFunc(log[:asked], func(ev parley.Event) bool { return ev.Type == "tool.requested" }) {
					t.Errorf("while the hook was asked, a client had %d events, and not the call", asked)
				}
				for i, c := range clients {
					if !slices.EqualFunc(log, c.log, func(a, b parley.Event) bool { return a.Seq == b.Seq && a.Type == b.Type }) || c.wrong != "" || len(c.text) > 0 {
						t.Errorf("client %d has %d events of %d: %s", i, len(c.log), len(log), c.wrong)
					}
				}
				h.check(t, r, log)
			})
		})
	}
}
