package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/seam"
)

// heardModel is a model that answers "ok", and remembers what it read.
type heardModel struct {
	mu   sync.Mutex
	read []string
}

func (l *heardModel) model(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	var b strings.Builder
	b.WriteString(r.System)
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			b.WriteString("\n" + p.Text)
		}
	}
	l.mu.Lock()
	l.read = append(l.read, b.String())
	l.mu.Unlock()
	say("ok")
	return seam.Reply{}, nil
}

// has counts the requests with a text.
func (l *heardModel) has(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.read {
		if strings.Contains(r, text) {
			n++
		}
	}
	return n
}

func adds(event, text string) func(map[string]any) string {
	return says(fmt.Sprintf(`{"hookSpecificOutput":{"hookEventName":%q,"additionalContext":%q}}`, event, text))
}

// TestUserPromptSubmit: a hook may add to a message, or block it so that no model reads it. If the
// hook fails, the message passes.
func TestUserPromptSubmit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		say     func(map[string]any) string
		blocked string // with this reason
		read    string // by the model, besides the message
	}{
		"nothing":      {say: says("")},
		"text":         {say: says("it is Sunday"), read: "[a hook says: it is Sunday]"},
		"context":      {say: adds(hook.UserPromptSubmit, "it is Sunday"), read: "[a hook says: it is Sunday]"},
		"exit code 2":  {say: says("2 no names"), blocked: "no names"},
		"block":        {say: says(`{"decision":"block","reason":"no names"}`), blocked: "no names"},
		"no reason":    {say: says(`{"decision":"block"}`), blocked: "gave no reason"},
		"stop":         {say: says(`{"continue":false,"stopReason":"no names"}`), blocked: "no names"},
		"crash":        {say: says("1")},
		"hangs":        {say: says("hang")},
		"bad JSON":     {say: says(`{"decision":`)},
		"no such word": {say: says(`{"decision":"maybe"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := (&hooked{}).on("app", hook.UserPromptSubmit, func(m map[string]any) string {
					if m["prompt"] == "harmless" {
						return ""
					}
					return c.say(m)
				})
				l := &heardModel{}
				r := enginetest.New(t, l.model, enginetest.App(), h.in)
				defer r.Close()
				s := r.Session()
				turn := r.Await(r.Send(s.ID, "about Mallory").ID)
				if c.blocked == "" {
					if turn.Status != parley.StatusCompleted || l.has("about Mallory") != 1 || l.has(c.read) != 1 {
						t.Errorf("the turn is %s, the model read %q", turn.Status, l.read)
					}
					return
				}
				if turn.Status != parley.StatusFailed || turn.Error.Code != parley.CodeForbidden || !strings.Contains(turn.Error.Message, c.blocked) {
					t.Errorf("the turn is %s: %+v", turn.Status, turn.Error)
				}
				// No model reads the message later either: not in this session, in a fork or in a
				// retry.
				if got := r.Await(r.Send(s.ID, "harmless").ID); got.Status != parley.StatusCompleted {
					t.Errorf("the next turn is %s", got.Status)
				}
				fork, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
				if err != nil {
					t.Fatal(err)
				}
				r.Await(r.Send(fork.ID, "harmless").ID)
				again, err := r.Engine.Retry(ctx, enginetest.User, turn.ID, "", "")
				if err != nil {
					t.Fatal(err)
				}
				if got := r.Await(again.ID); got.Status != parley.StatusFailed {
					t.Errorf("another try is %s", got.Status)
				}
				if n := l.has("Mallory"); n > 0 || len(l.read) != 2 {
					t.Errorf("the model read %q", l.read)
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

// TestBlockedBeforeItIsDecided: a turn may end before its hooks have decided about its message.
// Later prompts do not contain that message either.
func TestBlockedBeforeItIsDecided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := (&hooked{}).on("app", hook.UserPromptSubmit, func(m map[string]any) string {
			if m["prompt"] == "about Mallory" {
				return "hang"
			}
			return ""
		})
		l := &heardModel{}
		r := enginetest.New(t, l.model, enginetest.App(), h.in)
		defer r.Close()
		s := r.Session()
		turn := r.Send(s.ID, "about Mallory")
		synctest.Wait()
		if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, ""); err != nil {
			t.Fatal(err)
		}
		if got := r.Await(r.Send(s.ID, "harmless").ID); got.Status != parley.StatusCompleted || l.has("Mallory") > 0 {
			t.Errorf("the turn is %s, the model read %q", got.Status, l.read)
		}
	})
}

// TestSteeredMessageIsHeard: a message that is steered into a running turn passes the hooks, too.
// Nothing of a blocked message is in the log.
func TestSteeredMessageIsHeard(t *testing.T) {
	t.Parallel()
	for _, blocks := range []bool{true, false} {
		t.Run(fmt.Sprint("blocks ", blocks), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := (&hooked{}).on("app", hook.UserPromptSubmit, func(m map[string]any) string {
					switch {
					case m["prompt"] != "about Mallory":
						return ""
					case blocks:
						return "2 no names"
					}
					return adds(hook.UserPromptSubmit, "it is Sunday")(m)
				})
				l := &heardModel{}
				gate := make(chan struct{})
				model := func(ctx context.Context, q seam.Request, say func(string)) (seam.Reply, error) {
					<-gate
					return l.model(ctx, q, say)
				}
				r := enginetest.New(t, model, enginetest.App(), h.in)
				defer r.Close()
				s := r.Session()
				turn := r.Send(s.ID, "go")
				synctest.Wait()
				_, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "about Mallory", Busy: parley.BusySteer, Key: "k"})
				if blocks != (code(err) == parley.CodeForbidden && strings.Contains(err.Error(), "no names")) {
					t.Errorf("the sender got %v", err)
				}
				close(gate)
				if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
					t.Errorf("the turn is %s: %+v", got.Status, got.Error)
				}
				log := r.Log(s.ID)
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
				inLog := slices.ContainsFunc(log, func(ev parley.Event) bool { return strings.Contains(string(ev.Data), "Mallory") })
				if inLog == blocks || l.has("Mallory") > 0 == blocks || l.has("it is Sunday") > 0 == blocks {
					t.Errorf("in the log: %v, the model read %q", inLog, l.read)
				}
				if n := strings.Count(hookRan(log), "UserPromptSubmit"); n != 2 {
					t.Errorf("ran %q", hookRan(log))
				}
			})
		})
	}
}

// TestSteeredMessageAfterItsTurn: a turn ends while hooks are asked about a message that was
// steered into it. The message then gets a turn of its own, which hooks may block, and its key
// finds that turn.
func TestSteeredMessageAfterItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate, over := make(chan struct{}), make(chan struct{})
		var once sync.Once
		h := (&hooked{}).on("app", hook.UserPromptSubmit, func(m map[string]any) string {
			if m["prompt"] == "go" {
				return ""
			}
			once.Do(func() { close(gate); <-over })
			return "2 no names"
		})
		l := &heardModel{}
		model := func(ctx context.Context, q seam.Request, say func(string)) (seam.Reply, error) {
			<-gate
			return l.model(ctx, q, say)
		}
		r := enginetest.New(t, model, enginetest.App(), h.in)
		defer r.Close()
		s := r.Session()
		first := r.Send(s.ID, "go")
		synctest.Wait()
		go func() { r.Await(first.ID); close(over) }()
		send := func() parley.TurnInfo {
			t.Helper()
			turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "about Mallory", Busy: parley.BusySteer, Key: "k"})
			if err != nil {
				t.Fatal(err)
			}
			return turn
		}
		turn := send()
		if got := r.Await(turn.ID); turn.ID == first.ID || got.Status != parley.StatusFailed || got.Error.Code != parley.CodeForbidden {
			t.Errorf("the message's turn is %s: %+v", got.Status, got.Error)
		}
		if again := send(); again.ID != turn.ID {
			t.Errorf("the same message is in %s, and was in %s", again.ID, turn.ID)
		}
		if l.has("Mallory") > 0 {
			t.Errorf("the model read %q", l.read)
		}
		if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
			t.Error(err)
		}
	})
}

// TestStop: a hook may make a turn go on, with a reason that the model reads, but only so many
// times.
func TestStop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		say   func(n int, m map[string]any) string
		steps int
		reads string // by the last step
	}{
		"fine":  {func(int, map[string]any) string { return "" }, 1, ""},
		"crash": {func(int, map[string]any) string { return "1" }, 1, ""},
		"hangs": {func(int, map[string]any) string { return "hang" }, 1, ""},
		"stops": {func(int, map[string]any) string { return `{"continue":false,"decision":"block","reason":"x"}` }, 1, ""},
		"goes on": {func(_ int, m map[string]any) string {
			if m["stop_hook_active"] == true || m["last_assistant_message"] != "ok" {
				return ""
			}
			return `{"decision":"block","reason":"run the tests"}`
		}, 2, "[a hook says: run the tests]"},
		"exit code 2": {func(n int, _ map[string]any) string {
			if n > 1 {
				return ""
			}
			return "2 run the tests"
		}, 2, "[a hook says: run the tests]"},
		"for ever": {func(int, map[string]any) string { return "2 more" }, 9, "more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := 0
				h := (&hooked{}).on("app", hook.Stop, func(m map[string]any) string { n++; return c.say(n, m) })
				l := &heardModel{}
				r := enginetest.New(t, l.model, enginetest.App(), h.in)
				defer r.Close()
				s := r.Session()
				turn := r.Await(r.Send(s.ID, "go").ID)
				if turn.Status != parley.StatusCompleted || turn.Response.Message != "ok" || len(l.read) != c.steps || !strings.Contains(l.read[c.steps-1], c.reads) {
					t.Errorf("the turn is %s after %d steps: %+v", turn.Status, len(l.read), turn.Error)
				}
				if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestSubagentHooks: hooks tell a sub-agent something before it begins, and make it go on instead
// of returning.
func TestSubagentHooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := (&hooked{}).on("app", hook.SubagentStart, func(m map[string]any) string {
			return adds(hook.SubagentStart, fmt.Sprint("you are ", m["agent_type"], " ", m["agent_id"]))(m)
		}).on("app", hook.SubagentStop, func(m map[string]any) string {
			if m["stop_hook_active"] == true {
				return ""
			}
			return fmt.Sprintf(`{"decision":"block","reason":"better than %v"}`, m["last_assistant_message"])
		})
		var mu sync.Mutex
		var read []string
		model := func(_ context.Context, q seam.Request, say func(string)) (seam.Reply, error) {
			if q.Agent == "worker" {
				mu.Lock()
				defer mu.Unlock()
				text := ""
				for _, m := range q.Messages {
					text += m.Text() + "\n"
				}
				read = append(read, text)
				say(fmt.Sprint("try ", len(read)))
				return seam.Reply{}, nil
			}
			if got := enginetest.Results(q); len(got) > 0 {
				say(strings.Join(got, ", "))
				return seam.Reply{}, nil
			}
			return seam.Reply{Parts: []parley.Part{give("do it", false)}}, nil
		}
		r := enginetest.New(t, model, enginetest.App(team), h.in)
		defer r.Close()
		s := r.Session()
		turn := r.Await(r.Send(s.ID, "go").ID)
		if turn.Response == nil || turn.Response.Message != "try 2" {
			t.Errorf("the turn is %s: %+v %+v", turn.Status, turn.Response, turn.Error)
		}
		if len(read) != 2 || !strings.Contains(read[0], "[a hook says: you are worker lead/worker]") || !strings.Contains(read[1], "[a hook says: better than try 1]") {
			t.Errorf("the sub-agent read %q", read)
		}
		if got, want := hookRan(r.Log(s.ID)), "SubagentStart app0; SubagentStop app1 deny; SubagentStop app1"; got != want {
			t.Errorf("ran %q", got)
		}
	})
}

// TestSiblingsOfAnAskedTask: while a hook is asked about a call that starts a sub-agent, another
// sub-agent works.
func TestSiblingsOfAnAskedTask(t *testing.T) {
	t.Parallel()
	for _, event := range []string{hook.PreToolUse, hook.PostToolUse, hook.SubagentStart, hook.SubagentStop} {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				var asked atomic.Int32
				h := (&hooked{}).on("app", event, func(m map[string]any) string {
					if tool, ok := m["tool_name"]; ok && tool != "Task" {
						return ""
					}
					if asked.Add(1) == 1 {
						<-gate
					}
					return ""
				})
				r := enginetest.New(t, teamwork, enginetest.App(team), h.in)
				defer r.Close()
				s := r.Session()
				turn := r.Send(s.ID, "look a; look b")
				synctest.Wait()
				want := 1
				if event == hook.PostToolUse || event == hook.SubagentStop {
					want = 2 // both workers have looked by then
				}
				if looks, _, _ := r.Service.Counts(); looks != want || asked.Load() != 2 {
					t.Errorf("while one is asked about: %d looks, %d hooks asked\n%s", looks, asked.Load(), enginetest.Types(r.Log(s.ID)))
				}
				close(gate)
				if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
					t.Errorf("the turn is %s: %+v", got.Status, got.Error)
				}
			})
		})
	}
}

// TestHookIsCutWithItsTurn: the hook of a sub-agent's write is cut when a budget ends the turn, and
// the write is not made afterwards.
func TestHookIsCutWithItsTurn(t *testing.T) {
	t.Parallel()
	for _, event := range []string{hook.PreToolUse, hook.PostToolUse} {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newSlow(event, "")
				h.tool = "mail"
				r := enginetest.New(t, func(ctx context.Context, q seam.Request, say func(string)) (seam.Reply, error) {
					if q.Agent == "worker" {
						return teamwork(ctx, q, say)
					}
					n := len(enginetest.Results(q))
					if n == 0 {
						return seam.Reply{Parts: []parley.Part{give("mail a", true)}}, nil
					}
					time.Sleep(time.Second) // fake: until the worker's hook is asked
					return seam.Reply{Parts: []parley.Part{enginetest.Call("look", map[string]string{"text": fmt.Sprint(n)})}}, nil
				}, enginetest.App(team, func(a *parley.App) { a.Budgets.MaxSteps = 5 }), h.in)
				defer r.Close()
				s := r.Session()
				began := time.Now()
				turn := r.Await(r.Send(s.ID, "go").ID)
				if took := time.Since(began); turn.Status != parley.StatusFailed || took > 20*time.Second {
					t.Errorf("the turn is %s after %s: %+v\n%s", turn.Status, took, turn.Error, enginetest.Types(r.Log(s.ID)))
				}
				h.open()
				synctest.Wait()
				want := 0
				if event == hook.PostToolUse {
					want = 1
				}
				if _, _, mails := r.Service.Counts(); mails != want {
					t.Errorf("%d mails were sent, want %d", mails, want)
				}
				h.check(t, r, r.Log(s.ID))
			})
		})
	}
}

// TestSessionStart: hooks are asked once, at the start of a session, and what they say is in all of
// its prompts. What they say when a session is resumed is told to the turn that goes on.
func TestSessionStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		heard := ""
		h := (&hooked{}).on("app", hook.SessionStart, func(m map[string]any) string {
			heard += fmt.Sprint(m["source"], " ")
			return "the branch is main"
		})
		l := &heardModel{}
		r := enginetest.New(t, l.model, enginetest.App(), h.in)
		defer r.Close()
		s := r.Session()
		for range 2 {
			r.Await(r.Send(s.ID, "go").ID)
		}
		fork, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
		if err != nil {
			t.Fatal(err)
		}
		r.Await(r.Send(fork.ID, "go").ID)
		if heard != "startup " || l.has("[a hook says: the branch is main]") != 3 {
			t.Errorf("heard of %s, the model read %q", heard, l.read)
		}
	})
}

// TestPreCompact: a hook that blocks a compaction keeps earlier turns out of the summary.
func TestPreCompact(t *testing.T) {
	t.Parallel()
	for _, blocks := range []bool{false, true} {
		t.Run(fmt.Sprint("blocks ", blocks), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				h := (&hooked{}).on("app", hook.PreCompact, func(m map[string]any) string {
					asked++
					if blocks {
						return `{"decision":"block","reason":"not now"}`
					}
					return ""
				})
				app := enginetest.App(func(a *parley.App) { a.Memory = parley.MemoryOptions{LastK: 2, SummaryTokens: 100} })
				r := enginetest.New(t, func(ctx context.Context, q seam.Request, say func(string)) (seam.Reply, error) {
					if q.Agent == parley.MemoryAgent {
						say(`{"summary":"they talked"}`)
						return seam.Reply{}, nil
					}
					return enginetest.Echo(ctx, q, say)
				}, app, h.in)
				defer r.Close()
				s := r.Session()
				due := 0
				for range 30 {
					r.Await(r.Send(s.ID, "go").ID)
					if asked > 0 && due == 0 {
						due = eventsOf(r.Log(s.ID), "turn.started")
					}
				}
				log := r.Log(s.ID)
				if summed := eventsOf(log, "memory.updated"); asked == 0 || summed > 0 == blocks {
					t.Errorf("asked %d times, %d summaries", asked, summed)
				}
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestNotificationAndSessionEnd: hooks are told of questions to a human and of the end of a
// session. Nothing waits for them.
func TestNotificationAndSessionEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *enginetest.Rig, s parley.SessionID) error{
		"ended": func(r *enginetest.Rig, s parley.SessionID) error {
			_, err := r.Engine.End(ctx, enginetest.User, s, "")
			return err
		},
		"deleted": func(r *enginetest.Rig, s parley.SessionID) error { return r.Engine.Delete(ctx, enginetest.User, s) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				heard := ""
				h := (&hooked{}).on("app", hook.Notification, func(m map[string]any) string {
					heard += fmt.Sprint(m["notification_type"], " ", m["title"] != "", "; ")
					return `{"systemMessage":"I have rung"}`
				}).on("app", hook.SessionEnd, func(m map[string]any) string {
					heard += fmt.Sprint(m["reason"], " ", m["status"])
					return "hang"
				})
				h.list[1].Timeout = hook.EndTimeout
				r := enginetest.New(t, mailer("mail"), enginetest.App(asking), h.in)
				defer r.Close()
				s := r.Session()
				turn := r.Await(r.Send(s.ID, "go").ID)
				synctest.Wait()
				if turn.Status != parley.StatusWaiting || hookRan(r.Log(s.ID)) != "Notification app0" {
					t.Errorf("the turn is %s, ran %q", turn.Status, hookRan(r.Log(s.ID)))
				}
				if err := end(r, s.ID); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if want := "permission_prompt true; other " + name; heard != want {
					t.Errorf("heard %q, want %q", heard, want)
				}
			})
		})
	}
}

// TestHooksAreBounded: what the hooks of a turn add to the log is limited in bytes. What they
// decide holds beyond that limit.
func TestHooksAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", hook.MaxText)
		h := &hooked{}
		for range 20 {
			h.on("app", hook.PreToolUse, says(`{"systemMessage":"`+long+`"}`))
		}
		h.on("app", hook.PreToolUse, func(m map[string]any) string {
			if strings.Contains(fmt.Sprint(m["tool_input"]), "39") {
				return "2 not this one"
			}
			return ""
		}).on("app", hook.PostToolUse, says(`{"hookSpecificOutput":{"updatedToolOutput":"hidden"}}`))
		n := 0
		model := func(_ context.Context, q seam.Request, say func(string)) (seam.Reply, error) {
			if n++; n > 40 {
				say("done")
				return seam.Reply{}, nil
			}
			return seam.Reply{Parts: []parley.Part{enginetest.Call("look", map[string]string{"text": fmt.Sprint(n)})}}, nil
		}
		app := enginetest.App(func(a *parley.App) { a.Budgets.MaxSteps, a.Budgets.MaxToolCalls = 100, 100 })
		r := enginetest.New(t, model, app, h.in)
		defer r.Close()
		s := r.Session()
		if got := r.Await(r.Send(s.ID, "go").ID); got.Status != parley.StatusCompleted {
			t.Fatalf("the turn is %s: %+v", got.Status, got.Error)
		}
		bytes, denied, shown := 0, 0, 0
		for _, ev := range r.Log(s.ID) {
			switch p := mustPayload(ev).(type) {
			case parley.HookRan:
				bytes += len(ev.Data)
				if p.Output != nil {
					shown++
				}
			case parley.ToolEnded:
				if p.Outcome == parley.OutcomeDenied {
					denied++
				}
			}
		}
		if bytes > 1<<20+80*1000 || denied != 1 || shown != 39 {
			t.Errorf("%d bytes of hooks, %d calls denied, %d results replaced", bytes, denied, shown)
		}
	})
}

// TestHooksOfTurnsCrashAtEveryPoint: a crash repeats nothing of what hooks decided about a turn.
func TestHooksOfTurnsCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	once := func(m map[string]any) string {
		if m["stop_hook_active"] == true {
			return ""
		}
		return "2 go on"
	}
	manySteps := func(a *parley.App) { a.Budgets.MaxSteps = 100 }
	atStart := func(m map[string]any) string {
		if m["source"] == "startup" {
			return "it is Sunday"
		}
		return "" // this model would start over
	}
	for name, sc := range map[string]enginetest.Scenario{
		"message":   {App: enginetest.App(), Model: always(mailer("mail")), Options: (&hooked{}).on("app", hook.UserPromptSubmit, adds(hook.UserPromptSubmit, "it is Sunday")).in},
		"blocked":   {App: enginetest.App(), Model: always(mailer("mail")), Options: (&hooked{}).on("app", hook.UserPromptSubmit, says("2 no")).in},
		"start":     {App: enginetest.App(), Model: always(mailer("mail")), Options: (&hooked{}).on("app", hook.SessionStart, atStart).in},
		"stop":      {App: enginetest.App(), Model: always(mailer("mail")), Options: (&hooked{}).on("app", hook.Stop, once).in},
		"sub-agent": {App: enginetest.App(team, manySteps), Model: always(teamwork), Messages: []string{"mail a; look b"}, Sparse: 3, Options: (&hooked{}).on("app", hook.SubagentStart, says("")).on("app", hook.SubagentStop, once).in},
		"told":      {App: enginetest.App(asking), Model: always(mailer("mail")), Options: (&hooked{}).on("app", hook.Notification, says(`{"systemMessage":"ding"}`)).on("app", hook.SessionEnd, says("")).in},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if sc.Messages == nil {
				sc.Messages = []string{"go"}
			}
			enginetest.CrashEverywhere(t, sc)
		})
	}
}
