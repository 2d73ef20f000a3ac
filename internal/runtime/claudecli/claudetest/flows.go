package claudetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/runtime/claudecli"
	sim "github.com/parley-server/parley/internal/sim/claudecli"
	"github.com/parley-server/parley/internal/store/mem"
)

// CLI makes executables.
type CLI struct {
	Real bool
	Path func(t testing.TB) string
	Play func(t testing.TB, plays ...sim.Play) string // a stand-in with certain plays; nil for the real one
}

// start starts a rig over an empty store.
func (c CLI) start(t testing.TB, change ...Change) *Rig {
	return New(t, c.Path(t), t.TempDir(), mem.New(), change...)
}

// Flows are what sessions do with a CLI.
func Flows(t *testing.T, c CLI) {
	for name, f := range map[string]func(*testing.T, CLI){
		"turns": turns, "permissions": permissions, "questions": questions, "plans": plans, "stopped": stopped, "cut off": cutOff, "steered": steered,
		"parked": parked, "resumed": resumed, "lost": lost, "moved": moved, "rewound": rewound, "forked": forked, "budgets": budgets, "outside": outside,
		"pool": poolFull, "failing": failing, "edited": edited, "altered": altered, "rules": rules, "unknown tools": unknownTools, "together": together, "condensed": condensed, "deleted": deleted, "secret": secret, "growing": growing, "compacted": compacted, "swapped": swapped,
		"crashes": crashes, "dying": dies, "swelling": swells, "after stops": afterStops, "ends of shells in the background": shellsEnd, "memory": memory, "killed in between": killedAlone, "killed in a call": killedInCall, "killed while reading": killedWhileReading, "agents": agents, "hooks of agents": hooksOfAgents, "hooks, killed": hooksKilled, "hooks, stopped": hooksStopped, "hooks of compaction": hooksOfCompaction, "agents in the background": backgroundAgents, "shells in the background": backgroundShells,
	} {
		if !c.Real && strings.HasSuffix(name, "in the background") {
			continue // the stand-in does nothing there
		}
		if c.Real && (name == "altered" || name == "growing") || !c.Real && (name == "swapped" || name == "memory") || c.Real && (name == "dying" || name == "swelling" || name == "cut off") {
			continue // the real one does not alter, die or swell as one wishes, and cuts what commands print; the stand-in has no fence
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, c)
		})
	}
}

// asks makes the app ask before each change.
func asks(a *parley.App, _ *claudecli.Options, _ *engine.Options) { a.Mode = parley.ModeDefault }

func write(r *Rig, name, text string) Use {
	return Use{"Write", map[string]any{"file_path": filepath.Join(r.Work, name), "content": text}}
}

func bash(command string) Use { return Use{"Bash", map[string]any{"command": command}} }

// say waits for the answer to a message.
func (r *Rig) say(t testing.TB, s parley.SessionInfo, steps ...Step) string {
	t.Helper()
	got := r.Await(r.Send(s.ID, Script(steps...)).ID)
	if got.Status != parley.StatusCompleted {
		t.Errorf("%s %+v\n%s", got.Status, got.Error, Told(r.Log(s.ID)))
		return ""
	}
	return got.Response.Message
}

// check compares a log with what it should tell, and checks that it is consistent.
func (r *Rig) check(t testing.TB, s parley.SessionInfo) []parley.Event {
	t.Helper()
	log := r.Log(s.ID)
	if err := enginetest.CheckLog(log); err != nil {
		t.Errorf("%v\n%s", err, Told(log))
	}
	return log
}

// ended lists the ended calls of a session: tool, outcome.
func ended(t testing.TB, log []parley.Event) (list []string) {
	t.Helper()
	for _, e := range log {
		p, err := e.Payload()
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := p.(parley.ToolEnded); ok {
			list = append(list, p.Name+" "+string(p.Outcome))
		}
	}
	return list
}

// waiting waits until something is asked, and returns it.
func (r *Rig) waiting(t testing.TB, s parley.SessionInfo) parley.Interaction {
	t.Helper()
	var in parley.Interaction
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(Told(r.Log(s.ID)))
		}
	})
	within(t, "a question", func() bool {
		st, err := r.Engine.State(ctx, enginetest.User, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		if len(st.Interactions) > 0 {
			in = st.Interactions[0]
		}
		return len(st.Interactions) > 0
	})
	return in
}

func (r *Rig) answer(t testing.TB, in parley.Interaction, a parley.Answer) {
	t.Helper()
	if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: a}); err != nil {
		t.Fatal(err)
	}
}

// turns: two turns in one process, with tools of the CLI and of the app.
func turns(t *testing.T, c CLI) {
	r := c.start(t)
	defer r.Stop()
	s := r.Session()
	if got := r.say(t, s,
		Step{Text: "I write a file.", Use: []Use{write(r, "a.txt", "hello")}},
		Step{Use: []Use{bash("echo more >> a.txt; cat a.txt"), {"mcp__parley__count", map[string]any{"what": "x"}}}},
		Step{Text: "All done."},
	); got != "All done." {
		t.Errorf("%q", got)
	}
	if text := r.File("a.txt"); text != "hellomore\n" {
		t.Errorf("%q", text)
	}
	if got := r.say(t, s, Step{Text: "Again."}); got != "Again." {
		t.Errorf("%q", got)
	}
	log := r.check(t, s)
	if diff := cmp.Diff([]string{"Write ok", "Bash ok", "count ok"}, ended(t, log)); diff != "" {
		t.Errorf("%s\n%s", diff, Told(log))
	}
}

// permissions: a person allows a call, edits another and refuses a third.
func permissions(t *testing.T, c CLI) {
	r := c.start(t, asks)
	defer r.Stop()
	s := r.Session()
	turn := r.Send(s.ID, Script(
		Step{Use: []Use{write(r, "a.txt", "one")}}, Step{Use: []Use{write(r, "b.txt", "two")}}, Step{Use: []Use{write(r, "c.txt", "three")}},
		Step{Text: "Done."},
	))
	r.answer(t, r.waiting(t, s), parley.Answer{Choice: parley.ChoiceAllow})
	in := r.waiting(t, s)
	r.answer(t, in, parley.Answer{Choice: parley.ChoiceAllow, Input: []byte(fmt.Sprintf(`{"file_path":%q,"content":"edited"}`, filepath.Join(r.Work, "b.txt")))})
	r.answer(t, r.waiting(t, s), parley.Answer{Choice: parley.ChoiceDeny, Text: "not this"})
	if got := r.Await(turn.ID); got.Status != parley.StatusCompleted || got.Response.Message != "Done." {
		t.Errorf("%s %+v", got.Status, got.Error)
	}
	if got := r.File("a.txt") + ", " + r.File("b.txt") + ", " + r.File("c.txt"); got != "one, edited, no file" {
		t.Error(got)
	}
	log := r.check(t, s)
	if diff := cmp.Diff([]string{"Write ok", "Write ok", "Write denied"}, ended(t, log)); diff != "" {
		t.Errorf("%s\n%s", diff, Told(log))
	}
}

var which = Use{askName, map[string]any{"questions": []any{map[string]any{
	"question": "Which?", "header": "W", "multiSelect": false, "options": []any{map[string]any{"label": "A", "description": "a"}, map[string]any{"label": "B", "description": "b"}},
}}}}

const askName = "AskUserQuestion"

// questions: a person answers a question, and declines another.
func questions(t *testing.T, c CLI) {
	r := c.start(t, func(a *parley.App, _ *claudecli.Options, _ *engine.Options) { a.Runtimes = []string{"loop"} })
	defer r.Stop()
	s := r.Session()
	turn := r.Send(s.ID, Script(Step{Use: []Use{which}}, Step{Use: []Use{which}}, Step{Text: "Thanks."}))
	first := r.waiting(t, s)
	if _, err := r.Engine.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{Runtime: ptr("loop")}); parley.CodeOf(err) != parley.CodeBusy {
		t.Errorf("another runtime in the middle of a turn: %v", err)
	}
	r.answer(t, first, parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{"Which?": "B"}})
	r.answer(t, r.waiting(t, s), parley.Answer{Choice: parley.ChoiceDeny})
	if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
		t.Errorf("%s %+v", got.Status, got.Error)
	}
	log := r.check(t, s)
	if diff := cmp.Diff([]string{"AskUserQuestion ok", "AskUserQuestion error"}, ended(t, log)); diff != "" {
		t.Errorf("%s\n%s", diff, Told(log))
	}
}

// plans: in plan mode nothing is changed until the plan is approved.
func plans(t *testing.T, c CLI) {
	r := c.start(t, asks)
	defer r.Stop()
	s := r.Session(func(c *parley.CreateSession) { c.Mode = parley.ModePlan })
	turn := r.Send(s.ID, Script(
		Step{Use: []Use{write(r, "a.txt", "early")}},
		Step{Use: []Use{{"ExitPlanMode", map[string]any{"plan": "Write a file."}}}},
		Step{Use: []Use{write(r, "a.txt", "planned")}}, Step{Text: "Done."},
	))
	in := r.waiting(t, s)
	if in.Text != "Write a file." {
		t.Errorf("%+v", in)
	}
	r.answer(t, in, parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{in.Questions[0].Question: in.Questions[0].Options[1].Label}})
	if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
		t.Errorf("%s %+v", got.Status, got.Error)
	}
	log := r.check(t, s)
	if diff := cmp.Diff([]string{"Write denied", "ExitPlanMode ok", "Write ok"}, ended(t, log)); diff != "" {
		t.Errorf("%s\n%s", diff, Told(log))
	}
	if r.File("a.txt") != "planned" {
		t.Error(r.File("a.txt"))
	}
}

// stopped: a turn is stopped while a command runs, and while a person is asked; the session goes on with the
// same conversation.
func stopped(t *testing.T, c CLI) {
	r := c.start(t, asks)
	defer r.Stop()
	s := r.Session()
	if c.Real { // the stand-in cannot be interrupted in a command
		turn := r.Send(s.ID, Script(Step{Use: []Use{bash("touch began; sleep 60; touch ended")}}, Step{Text: "Done."}))
		r.answer(t, r.waiting(t, s), parley.Answer{Choice: parley.ChoiceAllow})
		within(t, "the command", func() bool { return r.File("began") == "" })
		if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, ""); err != nil {
			t.Fatal(err)
		}
		if got := r.Await(turn.ID); got.Status != parley.StatusCancelled {
			t.Errorf("%s %+v", got.Status, got.Error)
		}
		if got := ended(t, r.Log(s.ID)); len(got) != 1 || got[0] != "Bash unknown" {
			t.Errorf("%v\n%s", got, Told(r.Log(s.ID)))
		}
	}
	if c.Real {
		r.say(t, s, Step{Text: "On."})
	}
	for _, use := range []Use{which, write(r, "a.txt", "hello"), {"mcp__parley__count", map[string]any{"what": "x"}}} {
		turn := r.Send(s.ID, Script(Step{Use: []Use{use}}, Step{Text: "Done."}))
		r.waiting(t, s)
		if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, ""); err != nil {
			t.Fatal(err)
		}
		within(t, "the turn ends", func() bool { return r.Await(turn.ID).Status == parley.StatusCancelled })
		got := r.say(t, s, Step{Text: sees})
		if strings.Contains(got, "restored-history") || !strings.Contains(got, "[Request interrupted by user") {
			t.Errorf("%s: the conversation does not go on: %q", use.Name, got)
		}
	}
	for _, e := range ended(t, r.check(t, s)) {
		if !strings.HasSuffix(e, " cancelled") && e != "Bash unknown" {
			t.Error(e)
		}
	}
}

// cutOff: the CLI dies when a turn is stopped, before it has written to its conversation what became of the
// call. The next turn does not go on from there: it is told of the stopped one, and continues the one before.
func cutOff(t *testing.T, c CLI) {
	r := New(t, c.Play(t, sim.Play{Stopped: sim.Die}, sim.Play{}), t.TempDir(), mem.New())
	defer r.Stop()
	s := r.Session()
	r.say(t, s, Step{Text: "The password is swordfish."})
	turn := r.Send(s.ID, Script(Step{Text: "Trout.", Use: []Use{write(r, "a.txt", "hello")}}, Step{Use: []Use{which}}, Step{Text: "Done."}))
	r.waiting(t, s)
	if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, ""); err != nil {
		t.Fatal(err)
	}
	within(t, "the turn ends", func() bool { return r.Await(turn.ID).Status == parley.StatusCancelled })
	got := r.say(t, s, Step{Text: sees})
	for _, want := range []string{"swordfish", "<restored-history>", "Trout.", "[the turn ended as cancelled]", "Write: done"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if strings.Count(got, "swordfish") != 2 { // the script, and the answer: once each
		t.Errorf("%q", got)
	}
	r.check(t, s)
}

// steered: what the user says in between reaches the model in the same turn.
func steered(t *testing.T, c CLI) {
	r := c.start(t)
	defer r.Stop()
	s := r.Session()
	turn := r.Send(s.ID, Script(Step{Use: []Use{bash("touch began; while [ ! -e go ]; do sleep 0.05; done")}}, Step{Text: "Not this."}))
	within(t, "the command", func() bool { return r.File("began") == "" })
	if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: Script(Step{Text: "I heard you."}), Busy: parley.BusySteer}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // the CLI takes what it was sent between two steps
	if err := os.WriteFile(filepath.Join(r.Work, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.Await(turn.ID); got.Status != parley.StatusCompleted || got.Response.Message != "I heard you." {
		t.Errorf("%s %+v %+v\n%s", got.Status, got.Response, got.Error, Told(r.Log(s.ID)))
	}
	r.check(t, s)
}

// impatient makes turns park at once.
func impatient(_ *parley.App, _ *claudecli.Options, e *engine.Options) { e.Patience = time.Millisecond }

// parked: a turn waits without a process, across a restart, and goes on when it was answered. What was
// done before is not done again, and what was allowed is done once.
func parked(t *testing.T, c CLI) {
	dir, store := t.TempDir(), mem.New()
	path := c.Path(t)
	r := New(t, path, dir, store, asks, impatient)
	s := r.Session()
	turn := r.Send(s.ID, Script(
		Step{Text: "First.", Use: []Use{{"mcp__parley__count", map[string]any{"what": "x"}}}},
		Step{Use: []Use{bash("echo once >> log.txt")}}, Step{Use: []Use{which}}, Step{Text: "Done."},
	))
	r.answer(t, r.waiting(t, s), parley.Answer{Choice: parley.ChoiceAllow}) // count
	in := r.waiting(t, s)
	within(t, "the process ends", func() bool { return r.Runtime.Processes() == 0 })
	r.Stop()
	r = New(t, path, dir, store, asks, impatient)
	defer r.Stop()
	r.answer(t, in, parley.Answer{Choice: parley.ChoiceAllow})
	in = r.waiting(t, s)
	within(t, "the process ends", func() bool { return r.Runtime.Processes() == 0 })
	r.answer(t, in, parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{"Which?": "A"}})
	if got := r.Await(turn.ID); got.Status != parley.StatusCompleted || got.Response.Message != "Done." {
		t.Errorf("%s %+v", got.Status, got.Error)
	}
	log := r.check(t, s)
	if diff := cmp.Diff([]string{"count ok", "Bash ok", "AskUserQuestion ok"}, ended(t, log)); diff != "" {
		t.Errorf("%s\n%s", diff, Told(log))
	}
	if got := r.File("log.txt"); got != "once\n" {
		t.Errorf("%q", got)
	}
	if n := Count(log, "model.replied"); n != 4 {
		t.Errorf("the model was asked %d times\n%s", n, Told(log))
	}
}

// sees is a step whose answer says how many messages of users the model sees.
const sees = "SEEN"

// resumed: an idle process ends, and the next turn goes on with its conversation.
func resumed(t *testing.T, c CLI) {
	r := c.start(t, func(_ *parley.App, o *claudecli.Options, _ *engine.Options) { o.Idle = time.Millisecond })
	defer r.Stop()
	s := r.Session()
	r.say(t, s, Step{Text: "The password is swordfish."})
	within(t, "the process ends", func() bool { return r.Runtime.Processes() == 0 })
	if got := r.say(t, s, Step{Text: sees}); !strings.Contains(got, "swordfish") || strings.Contains(got, "restored-history") {
		t.Errorf("%q", got)
	}
	r.check(t, s)
}

// lost: without the CLI's own files a session goes on with what is stored of them.
func lost(t *testing.T, c CLI) {
	dir, store := t.TempDir(), mem.New()
	path := c.Path(t)
	r := New(t, path, dir, store)
	s := r.Session()
	r.say(t, s, Step{Text: "The password is swordfish."})
	r.Stop()
	if err := os.RemoveAll(r.Data); err != nil {
		t.Fatal(err)
	}
	r = New(t, path, dir, store)
	if got := r.say(t, s, Step{Text: sees}); !strings.Contains(got, "swordfish") || strings.Contains(got, "restored-history") {
		t.Errorf("%q", got)
	}
	defer r.Stop()
	r.check(t, s)
}

// moved: a session changes its runtime between turns, and each knows what the other did.
func moved(t *testing.T, c CLI) {
	r := c.start(t, func(a *parley.App, _ *claudecli.Options, _ *engine.Options) { a.Runtimes = []string{"loop", "claude"} })
	defer r.Stop()
	s := r.Session()
	r.say(t, s, Step{Text: "The password is swordfish."})
	to := func(name string) {
		t.Helper()
		if _, err := r.Engine.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{Runtime: &name}); err != nil {
			t.Fatal(err)
		}
	}
	to("loop")
	if got := r.say(t, s, Step{Text: sees}); !strings.Contains(got, "swordfish") {
		t.Errorf("%q", got)
	}
	r.say(t, s, Step{Text: "The user name is trout."})
	to("claude")
	if got := r.say(t, s, Step{Text: sees}); !strings.Contains(got, "swordfish") || !strings.Contains(got, "trout") {
		t.Errorf("%q", got)
	}
	if _, err := r.Engine.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{Runtime: ptr("nothing")}); parley.CodeOf(err) != parley.CodeForbidden {
		t.Error(err)
	}
	r.check(t, s)
}

func ptr[T any](v T) *T { return &v }

// rewound: what a rewind has taken back is not in the conversation any more.
func rewound(t *testing.T, c CLI) {
	r := c.start(t)
	defer r.Stop()
	s := r.Session()
	r.say(t, s, Step{Text: "The password is swordfish."})
	r.say(t, s, Step{Use: []Use{write(r, "a.txt", "one")}}, Step{Text: "Done."})
	second := r.Send(s.ID, Script(Step{Text: "The user name is trout."}, Step{Text: "Unsaid."}))
	r.Await(second.ID)
	third := r.Send(s.ID, Script(Step{Use: []Use{
		{"Edit", map[string]any{"file_path": filepath.Join(r.Work, "a.txt"), "old_string": "one", "new_string": "two"}}, write(r, "b.txt", "new"),
	}}, Step{Text: "Done."}))
	r.Await(third.ID)
	if got := r.File("a.txt") + " " + r.File("b.txt"); got != "two new" {
		t.Errorf("%q\n%s", got, Told(r.Log(s.ID)))
	}
	if _, err := r.Engine.Rewind(ctx, enginetest.User, s.ID, parley.RewindSession{Turn: second.ID}); err != nil {
		t.Fatal(err)
	}
	within(t, "the files are restored", func() bool {
		st, err := r.Engine.State(ctx, enginetest.User, s.ID)
		return err == nil && st.Rewinding == nil
	})
	if got := r.say(t, s, Step{Text: sees}); !strings.Contains(got, "swordfish") || strings.Contains(got, "trout") {
		t.Errorf("%q", got)
	}
	if got := r.File("a.txt") + ", " + r.File("b.txt"); got != "one, no file" {
		t.Errorf("%q\n%s", got, Told(r.Log(s.ID)))
	}
	r.check(t, s)
}

// forked: a fork goes on with the conversation, and neither sees the other.
func forked(t *testing.T, c CLI) {
	r := c.start(t)
	defer r.Stop()
	s := r.Session()
	r.say(t, s, Step{Text: "The password is swordfish."})
	f, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{Workspace: "shared/shared"})
	if err != nil {
		t.Fatal(err)
	}
	r.say(t, s, Step{Text: "The user name is trout."})
	if got := r.say(t, f, Step{Text: sees}); !strings.Contains(got, "swordfish") || strings.Contains(got, "trout") || strings.Contains(got, "restored-history") {
		t.Errorf("%q", got)
	}
	r.check(t, s)
	r.check(t, f)
}

// budgets: a turn ends at its budget.
func budgets(t *testing.T, c CLI) {
	for name, b := range map[string]parley.Budgets{"steps": {MaxSteps: 2}, "tool_calls": {MaxToolCalls: 1}, "tokens": {MaxTotalTokens: 1000}} {
		r := c.start(t)
		s := r.Session(func(c *parley.CreateSession) { c.Budgets = b })
		got := r.Await(r.Send(s.ID, Script(Step{Use: []Use{write(r, "a.txt", "1")}}, Step{Use: []Use{write(r, "b.txt", "2")}}, Step{Text: "Done."})).ID)
		if got.Status != parley.StatusFailed || got.Error.Code != parley.Code("budget_"+name) {
			t.Errorf("%s: %s %+v\n%s", name, got.Status, got.Error, Told(r.Log(s.ID)))
		}
		r.check(t, s)
		r.Stop()
	}
}

// poolFull: at the limit a turn waits for an idle process to end, and for a busy one only so long.
func poolFull(t *testing.T, c CLI) {
	r := c.start(t, func(_ *parley.App, o *claudecli.Options, _ *engine.Options) { o.Most, o.Wait = 1, 2*time.Second })
	defer r.Stop()
	a, b := r.Session(), r.Session()
	r.say(t, a, Step{Text: "One."})
	r.say(t, b, Step{Text: "Two."}) // a's process is idle
	turn := r.Send(a.ID, Script(Step{Use: []Use{bash("touch began; while [ ! -e go ]; do sleep 0.05; done")}}, Step{Text: "Done."}))
	within(t, "the command", func() bool { return r.File("began") == "" })
	if got := r.Await(r.Send(b.ID, Script(Step{Text: "No."})).ID); got.Status != parley.StatusFailed || got.Error.Code != parley.CodeBusy {
		t.Errorf("%s %+v", got.Status, got.Error)
	}
	if err := os.WriteFile(filepath.Join(r.Work, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
		t.Errorf("%s %+v", got.Status, got.Error)
	}
	r.check(t, a)
	r.check(t, b)
}

// failing: a model that is overloaded once is asked again; one that refuses fails the turn.
func failing(t *testing.T, c CLI) {
	r := c.start(t)
	defer r.Stop()
	s := r.Session()
	if got := r.say(t, s, Step{Fail: "overloaded", Text: "After all."}); got != "After all." {
		t.Errorf("%q", got)
	}
	got := r.Await(r.Send(s.ID, Script(Step{Fail: "forbidden"})).ID)
	if got.Status != parley.StatusFailed || got.Error.Code != parley.CodeForbidden {
		t.Errorf("%s %+v", got.Status, got.Error)
	}
	if got := r.say(t, s, Step{Text: "Still here."}); got != "Still here." {
		t.Errorf("%q", got)
	}
	r.check(t, s)
}
