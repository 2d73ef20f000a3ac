package claudetest

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/runtime/claudecli"
	"github.com/parley-server/parley/internal/seam"
)

// listener is a toolset without tools, with hooks for some events.
type listener struct {
	events []string
	say    func(m map[string]any) string // JSON that the hook answers; "": nothing; "hang": it never answers

	mu    sync.Mutex
	heard []map[string]any
}

func (*listener) Tools(context.Context) ([]parley.ToolDecl, error) { return nil, nil }

func (*listener) Run(context.Context, seam.Run) (parley.ToolResult, error) {
	return parley.ToolResult{}, parley.Errorf(parley.CodeNotFound, "it has no tools")
}

// Hooks implements [hook.Source].
func (l *listener) Hooks() (list []hook.Hook) {
	for _, event := range l.events {
		list = append(list, hook.Hook{
			Entry: hook.Entry{Event: event, Name: "listener", Timeout: time.Minute}, Level: "app",
			Do: func(ctx context.Context, message []byte) (hook.Said, error) {
				var m map[string]any
				if err := json.Unmarshal(message, &m); err != nil {
					return hook.Said{}, err
				}
				l.mu.Lock()
				l.heard = append(l.heard, m)
				l.mu.Unlock()
				said := l.say(m)
				if said == "hang" {
					<-ctx.Done()
					return hook.Said{}, ctx.Err()
				}
				return hook.Said{Out: []byte(said)}, nil
			},
		})
	}
	return list
}

func (l *listener) in(_ *parley.App, _ *claudecli.Options, e *engine.Options) {
	box, left := e.Tools["test"].With(ctx, []seam.Toolset{l})
	if left != nil {
		panic(left)
	}
	e.Tools["test"] = box
}

// asked returns what the hooks were told, and forgets it.
func (l *listener) asked() []map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.heard
	l.heard = nil
	return list
}

// hooksRan lists what hooks have decided.
func hooksRan(log []parley.Event) (list []string) {
	for _, e := range log {
		if p, err := e.Payload(); err == nil {
			if p, ok := p.(parley.HookRan); ok {
				list = append(list, strings.TrimSpace(fmt.Sprint(p.Event, " ", e.Agent, " ", p.Decision)))
			}
		}
	}
	return list
}

// coach tells agents something at their start, and has them go on once.
func coach(m map[string]any) string {
	switch {
	case m["hook_event_name"] == hook.SubagentStart:
		return `{"hookSpecificOutput":{"hookEventName":"SubagentStart","additionalContext":"be brief"}}`
	case m["stop_hook_active"] == true:
		return ""
	}
	return fmt.Sprintf(`{"decision":"block","reason":"better than %v"}`, m["last_assistant_message"])
}

// hooksOfAgents: hooks are asked before an agent of the CLI begins and before it ends, with what they are told
// with the loop. One tells it something, and one has it go on.
func hooksOfAgents(t *testing.T, c CLI) {
	for _, background := range []bool{false, true} {
		if background && !c.Real {
			continue // the stand-in has none
		}
		l := &listener{events: []string{hook.SubagentStart, hook.SubagentStop}, say: coach}
		r := c.start(t, l.in)
		s := r.Session()
		second := sees
		if background {
			second = "Better." // the user's agent reads it, and would take it for a script
		}
		steps := []Step{{Use: []Use{delegate(background, Step{Text: "First."}, Step{Text: second})}}}
		if background {
			steps = append(steps, Step{Text: "I wait."})
		}
		turn := r.Await(r.Send(s.ID, Script(append(steps, Step{Text: "Done."})...)).ID)
		log := r.check(t, s)
		if turn.Status != parley.StatusCompleted || turn.Response.Message != "Done." || slices.Contains(ofAgents(t, log), "ended cancelled") {
			t.Errorf("%s %+v %+v\n%s", turn.Status, turn.Error, turn.Response, Told(log))
		}
		want := map[string]any{
			"session_id": string(s.ID), "prompt_id": string(turn.ID), "app": "test", "user": enginetest.User.User, "workspace": "shared/shared",
			"permission_mode": "bypassPermissions", "agent_id": "main/helper", "agent_type": "helper", "hook_event_name": "SubagentStart",
		}
		ends := func(active bool, text string) map[string]any {
			m := map[string]any{"stop_hook_active": active, "last_assistant_message": text, "background_tasks": []any{}, "session_crons": []any{}}
			for k, v := range want {
				m[k] = v
			}
			m["hook_event_name"] = "SubagentStop"
			return m
		}
		heard := l.asked()
		last := ""
		if len(heard) == 3 {
			last, _ = heard[2]["last_assistant_message"].(string)
		}
		for _, want := range []string{"[a hook says: be brief]", "[a hook says: better than First.]"} {
			if !background && !strings.Contains(last, want) {
				t.Errorf("%q is not in %q", want, last)
			}
		}
		if diff := cmp.Diff([]map[string]any{want, ends(false, "First."), ends(true, last)}, heard); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"SubagentStart main/helper", "SubagentStop main/helper deny", "SubagentStop main/helper"}, hooksRan(log)); diff != "" {
			t.Error(diff)
		}
		r.Stop()
	}
}

// hooksKilled: the CLI is killed after a hook has had its agent go on. The hook is not asked again, and the
// agent reads what it has said.
func hooksKilled(t *testing.T, c CLI) {
	l := &listener{events: []string{hook.SubagentStart, hook.SubagentStop}, say: coach}
	r := c.start(t, l.in)
	defer r.Stop()
	s := r.Session()
	until := filepath.Join(r.Work, "until")
	turn := r.Send(s.ID, Script(Step{Use: []Use{delegate(false, Step{Text: "First."}, Step{Text: sees, Until: until})}}, Step{Text: "Done."}))
	within(t, "the agent goes on", func() bool { return strings.Count(Told(r.Log(s.ID)), "model.started main/helper") == 2 })
	r.kill(t)
	within(t, "another process", func() bool { return Count(r.Log(s.ID), "runtime.noted") == 1 })
	r.put(t, "until")
	got := r.Await(turn.ID)
	log := r.check(t, s)
	if got.Status != parley.StatusCompleted || got.Response.Message != "Done." {
		t.Errorf("%s %+v %+v\n%s", got.Status, got.Error, got.Response, Told(log))
	}
	if diff := cmp.Diff([]string{"SubagentStart main/helper", "SubagentStop main/helper deny", "SubagentStop main/helper"}, hooksRan(log)); diff != "" {
		t.Errorf("%s\n%s", diff, Told(log))
	}
	heard := l.asked()
	if n := len(heard); n != 3 {
		t.Fatalf("the hooks were asked %d times: %v", n, heard)
	}
	said, _ := heard[2]["last_assistant_message"].(string)
	for _, want := range []string{"[a hook says: be brief]", "[a hook says: better than First.]"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in %q", want, said)
		}
	}
}

// hooksStopped: a turn is stopped while a hook is asked about an agent's end. The next turn goes on with the
// conversation.
func hooksStopped(t *testing.T, c CLI) {
	l := &listener{events: []string{hook.SubagentStop}, say: func(map[string]any) string { return "hang" }}
	r := c.start(t, l.in)
	defer r.Stop()
	s := r.Session()
	turn := r.Send(s.ID, Script(Step{Use: []Use{delegate(false, Step{Text: "First."})}}, Step{Text: "Done."}))
	within(t, "the hook is asked", func() bool { return len(l.asked()) == 1 })
	if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, ""); err != nil {
		t.Fatal(err)
	}
	within(t, "the turn ends", func() bool { return r.Await(turn.ID).Status == parley.StatusCancelled })
	if got := r.say(t, s, Step{Text: sees}); strings.Contains(got, "restored-history") {
		t.Errorf("the conversation does not go on: %q", got)
	}
	r.check(t, s)
}

// hooksOfCompaction: hooks are asked before the CLI summarizes its conversation, once a turn, and may keep it from
// doing so. A conversation that then has no room goes on with what the log has of earlier turns; a turn that
// has none fails and says why.
func hooksOfCompaction(t *testing.T, c CLI) {
	for name, x := range map[string]struct {
		tokens    []int64
		blocks    bool
		compacted int
		restarted int
		code      parley.Code // "": the turn completes
	}{
		"allowed":                   {tokens: []int64{990_000, 990_000}, compacted: 2},
		"blocked with room":         {tokens: []int64{975_000, 975_000}, blocks: true},
		"blocked without room":      {tokens: []int64{990_000}, blocks: true, restarted: 1},
		"blocked, the turn is long": {tokens: []int64{990_000, 990_000}, blocks: true, restarted: 1, code: parley.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &listener{events: []string{hook.PreCompact, hook.SubagentStop}, say: func(map[string]any) string {
				if x.blocks {
					return `{"decision":"block","reason":"keep it whole"}`
				}
				return ""
			}}
			r := c.start(t, l.in)
			defer r.Stop()
			s := r.Session()
			if x.blocks {
				r.say(t, s, Step{Text: "The password is swordfish."})
			}
			var steps []Step
			for _, n := range x.tokens {
				steps = append(steps, Step{Tokens: n, Use: []Use{bash("echo x >> log.txt")}})
			}
			turn := r.Await(r.Send(s.ID, Script(append(steps, Step{Text: sees})...)).ID)
			log := r.check(t, s)
			want := []map[string]any{{
				"session_id": string(s.ID), "prompt_id": string(turn.ID), "app": "test", "user": enginetest.User.User, "workspace": "shared/shared",
				"permission_mode": "bypassPermissions", "hook_event_name": "PreCompact", "trigger": "auto", "custom_instructions": "",
			}}
			if diff := cmp.Diff(want, l.asked()); diff != "" {
				t.Error(diff)
			}
			restarted := slices.ContainsFunc(log, func(e parley.Event) bool {
				return e.Type == "runtime.noted" && strings.Contains(string(e.Data), "a hook keeps it from being summarized")
			})
			if got := strings.Count(r.File("log.txt"), "x"); got != len(x.tokens) || Count(log, "context.compacted") != x.compacted || restarted != (x.restarted > 0) {
				t.Errorf("%d commands, compacted %d times, restarted %v\n%s", got, Count(log, "context.compacted"), restarted, Told(log))
			}
			if x.code != "" {
				if turn.Status != parley.StatusFailed || turn.Error.Code != x.code || !strings.Contains(turn.Error.Message, "the hook listener") || !strings.Contains(turn.Error.Message, "keep it whole") {
					t.Errorf("%s %+v", turn.Status, turn.Error)
				}
			} else if turn.Status != parley.StatusCompleted || x.blocks && !strings.Contains(turn.Response.Message, "swordfish") {
				t.Errorf("%s %+v %+v\n%s", turn.Status, turn.Error, turn.Response, Told(log))
			}
			if got := r.say(t, s, Step{Text: "Still here."}); got != "Still here." {
				t.Errorf("%q", got)
			}
			r.check(t, s)
		})
	}
}
