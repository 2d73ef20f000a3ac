package claudetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/runtime/claudecli"
	sim "github.com/parley-server/parley/internal/sim/claudecli"
	"github.com/parley-server/parley/internal/store/mem"
)

// driven answers what a turn asks until it ends: questions with A, permissions with yes, and what is asked
// about writes with what the world shows. not are the tools whose calls did not take effect.
func (r *Rig) driven(t testing.TB, id parley.TurnID) (got parley.TurnInfo, not map[string]bool) {
	t.Helper()
	not = map[string]bool{}
	for {
		got = r.Await(id)
		if got.Status != parley.StatusWaiting {
			return got, not
		}
		st, err := r.Engine.State(ctx, enginetest.User, got.SessionID)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range st.Interactions {
			a := parley.Answer{Choice: parley.ChoiceAllow}
			switch in.Kind {
			case parley.KindQuestion:
				a = parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{"Which?": "A"}}
			case parley.KindUnknown:
				a.Choice = parley.ChoiceHappened
				if in.Tool == "Write" && r.File("a.txt") != "hello" || in.Tool == "Bash" && r.File("log.txt") == "no file" {
					a.Choice, not[in.Tool] = parley.ChoiceDidNot, true
				}
			}
			_, err := r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: a})
			if code := parley.CodeOf(err); err != nil && code != parley.CodeConflict && code != parley.CodeNotFound {
				t.Fatal(err)
			}
		}
	}
}

// dies: the CLI alone is killed at every step of a turn with writes and a question: each line that it reads
// or writes, each effect, and before and after each call of the model. The turn goes on with another process,
// nothing is done twice, and nothing is left running.
func dies(t *testing.T, c CLI) {
	for n := 1; ; n++ {
		path := c.Play(t, sim.Play{At: n, Then: sim.Die}, sim.Play{})
		r := New(t, path, t.TempDir(), mem.New(), func(_ *parley.App, _ *claudecli.Options, e *engine.Options) { e.Patience = 0 })
		s := r.Session()
		turn := r.Send(s.ID, Script(
			Step{Text: "I write.", Use: []Use{write(r, "a.txt", "hello")}}, Step{Use: []Use{bash("echo once >> log.txt")}},
			Step{Use: []Use{which}}, Step{Use: []Use{{"mcp__parley__count", map[string]any{"what": "x"}}}}, Step{Text: "All done."},
		))
		got, not := r.driven(t, turn.ID)
		log := r.check(t, s)
		wrote, ran := "hello", "once\n"
		if not["Write"] {
			wrote = "no file"
		}
		if not["Bash"] {
			ran = "no file"
		}
		if got.Status != parley.StatusCompleted || got.Response.Message != "All done." || r.File("a.txt") != wrote || r.File("log.txt") != ran {
			t.Errorf("killed at %d: %s %+v, %q, %q\n%s", n, got.Status, got.Error, r.File("a.txt"), r.File("log.txt"), Told(log))
		}
		for _, name := range []string{"Write", "Bash", "AskUserQuestion", "count"} {
			if made := slices.DeleteFunc(ended(t, log), func(e string) bool { return !strings.HasPrefix(e, name+" ") }); !slices.Contains([]string{name + " ok", name + " unknown"}, made[len(made)-1]) {
				t.Errorf("killed at %d: %v\n%s", n, made, Told(log))
			}
		}
		r.Stop()
		if left := running(t, r.Data); len(left) > 0 {
			t.Errorf("killed at %d: %v are left", n, left)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "start-1")); err != nil || t.Failed() {
			t.Logf("killed at %d steps", n-1)
			return
		}
	}
}

// kill kills the CLI, and nothing that it has started.
func (r *Rig) kill(t testing.TB) {
	t.Helper()
	for _, pid := range running(t, r.Data) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err == nil && strings.Contains(string(stat), fmt.Sprintf("PPid:\t%d\n", os.Getpid())) {
			p, err := os.FindProcess(pid)
			if err == nil {
				err = p.Kill()
			}
			if err != nil {
				t.Error(err)
			}
			return
		}
	}
	t.Error("there is no CLI to kill")
}

// killedAlone: the CLI is killed at the points of a turn that differ for a real program: during text, while
// a permission is asked for, between the effect of a command and its end, and while a question is asked.
func killedAlone(t *testing.T, c CLI) {
	r := c.start(t, asks)
	defer r.Stop()
	s := r.Session()
	until := filepath.Join(r.Work, "until")
	turn := r.Send(s.ID, Script(Step{Text: "Once upon a time", Until: until, Use: []Use{write(r, "a.txt", "hello")}}, Step{Text: "All done."}))
	within(t, "text", func() bool { return Count(r.Log(s.ID), "model.started") == 1 })
	r.kill(t)
	within(t, "another process", func() bool { return Count(r.Log(s.ID), "model.started") == 2 })
	r.put(t, "until")
	in := r.waiting(t, s)
	r.kill(t)
	within(t, "another process", func() bool { return Count(r.Log(s.ID), "runtime.noted") == 2 })
	r.answer(t, in, parley.Answer{Choice: parley.ChoiceAllow})
	if got, _ := r.driven(t, turn.ID); got.Status != parley.StatusCompleted || got.Response.Message != "All done." || r.File("a.txt") != "hello" {
		t.Errorf("%s %+v %q\n%s", got.Status, got.Error, r.File("a.txt"), Told(r.Log(s.ID)))
	}
	turn = r.Send(s.ID, Script(Step{Use: []Use{bash("echo once >> log.txt; while true; do date +%s%N > alive; sleep 0.05; done")}}, Step{Use: []Use{which}}, Step{Text: "All done."}))
	r.answer(t, r.waiting(t, s), parley.Answer{Choice: parley.ChoiceAllow})
	within(t, "the command", func() bool { return r.File("alive") != "no file" })
	r.kill(t)
	in = r.waiting(t, s)
	if in.Kind != parley.KindUnknown {
		t.Errorf("%+v", in)
	}
	before := r.File("alive")
	r.pause()
	if r.File("alive") != before {
		t.Error("the command goes on without its CLI")
	}
	r.answer(t, in, parley.Answer{Choice: parley.ChoiceHappened})
	in = r.waiting(t, s)
	if in.Kind != parley.KindQuestion {
		t.Errorf("%+v", in)
	}
	r.kill(t)
	if got, _ := r.driven(t, turn.ID); got.Status != parley.StatusCompleted || got.Response.Message != "All done." || r.File("log.txt") != "once\n" {
		t.Errorf("%s %+v %q\n%s", got.Status, got.Error, r.File("log.txt"), Told(r.Log(s.ID)))
	}
	log := r.check(t, s)
	if diff := cmp.Diff([]string{"Write ok", "Bash unknown", "AskUserQuestion ok"}, slices.DeleteFunc(ended(t, log), func(e string) bool { return strings.HasSuffix(e, "cancelled") })); diff != "" {
		t.Errorf("%s\n%s", diff, Told(log))
	}
}

// killedInCall: the CLI is killed while the app's Bash runs. The command ends, says so itself, and the turn
// goes on with another process.
func killedInCall(t *testing.T, c CLI) {
	r := c.start(t, ours)
	defer r.Stop()
	name := "mcp__parley__Bash" // the stand-in has no aliases
	if c.Real {
		name = "Bash"
	}
	s := r.Session()
	turn := r.Send(s.ID, Script(Step{Use: []Use{{name, map[string]any{"command": "echo once >> log.txt; sleep 60"}}}}, Step{Text: "All done."}))
	within(t, "the command", func() bool { return r.File("log.txt") == "once\n" })
	r.kill(t)
	if got, _ := r.driven(t, turn.ID); got.Status != parley.StatusCompleted || got.Response.Message != "All done." || r.File("log.txt") != "once\n" {
		t.Errorf("%s %+v %q\n%s", got.Status, got.Error, r.File("log.txt"), Told(r.Log(s.ID)))
	}
	if log := r.check(t, s); !slices.Equal(ended(t, log), []string{"Bash ok"}) {
		t.Errorf("%v\n%s", ended(t, log), Told(log))
	}
}

// killedWhileReading: the CLI is killed while a tool of the app reads, and between the answer to a question and
// the end of its call. The turn goes on with another process, which makes the calls again: the model gets what
// was read, and the answer, and nobody is asked twice.
func killedWhileReading(t *testing.T, c CLI) {
	r := c.start(t)
	defer r.Stop()
	var mu sync.Mutex
	cut := map[string]bool{}
	r.reading = func(ctx context.Context, tool string) {
		mu.Lock()
		again := cut[tool]
		cut[tool] = true
		mu.Unlock()
		if !again {
			r.kill(t)
			<-ctx.Done()
		}
	}
	s := r.Session()
	turn := r.Send(s.ID, Script(Step{Use: []Use{{"mcp__parley__look", map[string]any{}}}}, Step{Use: []Use{which}}, Step{Text: "All done."}))
	got, _ := r.driven(t, turn.ID)
	log := r.check(t, s)
	if got.Status != parley.StatusCompleted || got.Response.Message != "All done." {
		t.Errorf("%s %+v\n%s", got.Status, got.Error, Told(log))
	}
	if diff := cmp.Diff([]string{"look ok", "AskUserQuestion ok"}, ended(t, log)); diff != "" || Count(log, "interaction.opened") != 1 || Count(log, "tool.started") != 5 {
		t.Errorf("%s\n%s", diff, Told(log))
	}
}

// swells: a CLI that takes more memory than it may is ended, which the turn says. Another one goes on, unless
// each needs more.
func swells(t *testing.T, c CLI) {
	for name, plays := range map[string][]sim.Play{"once": {{At: 22, Then: sim.Swell}, {}}, "always": {{At: 14, Then: sim.Swell}}} {
		r := New(t, c.Play(t, plays...), t.TempDir(), mem.New(), func(_ *parley.App, o *claudecli.Options, _ *engine.Options) { o.Memory = 1 << 30 })
		s := r.Session()
		turn := r.Send(s.ID, Script(Step{Use: []Use{bash("echo once >> log.txt")}}, Step{Use: []Use{write(r, "a.txt", "hello")}}, Step{Text: "All done."}))
		got, _ := r.driven(t, turn.ID)
		log := Told(r.check(t, s))
		if !strings.Contains(log, "each process may take 1024 MiB") {
			t.Errorf("%s: nothing about memory\n%s", name, log)
		}
		switch {
		case name == "once" && (got.Status != parley.StatusCompleted || r.File("log.txt") != "once\n" || r.File("a.txt") != "hello"):
			t.Errorf("%s: %s %+v %q %q\n%s", name, got.Status, got.Error, r.File("log.txt"), r.File("a.txt"), log)
		case name == "always" && (got.Status != parley.StatusFailed || got.Error.Code != parley.CodeUnavailable || !strings.Contains(got.Error.Message, "claude.memory")):
			t.Errorf("%s: %s %+v\n%s", name, got.Status, got.Error, log)
		}
		r.Stop()
	}
}

// memory: the real CLI works within a quarter of the limit that servers have when nothing else is set, and so does what it
// starts: a command that wants more fails alone. Where the limit is too small for the CLI itself, the turn fails and says so.
func memory(t *testing.T, c CLI) {
	limited := func(n int64) Change {
		return func(_ *parley.App, o *claudecli.Options, _ *engine.Options) { o.Memory = n }
	}
	r := c.start(t, limited(1<<30))
	defer r.Stop()
	s := r.Session()
	swell := "head -c 1200000000 /dev/zero | tail -c 1200000000 | wc -c"
	if got := r.say(t, s, Step{Use: []Use{write(r, "a.txt", "hello")}}, Step{Use: []Use{bash(swell)}}, Step{Use: []Use{bash("cat a.txt > b.txt")}}, Step{Text: "Done."}); got != "Done." || r.File("b.txt") != "hello" {
		t.Errorf("%q, %q", got, r.File("b.txt"))
	}
	log := r.check(t, s)
	for _, e := range log {
		if p, err := e.Payload(); err == nil {
			if p, ok := p.(parley.ToolEnded); ok && p.Name == "Bash" && strings.Contains(p.Output, "1200000000") {
				t.Errorf("a command got all the memory that it wanted: %s", p.Output)
			}
		}
	}
	if n := Count(log, "runtime.noted"); n != 0 || r.Runtime.Processes() != 1 {
		t.Errorf("%d notes, %d processes\n%s", n, r.Runtime.Processes(), Told(log))
	}
	small := c.start(t, limited(48<<20))
	defer small.Stop()
	s = small.Session()
	got := small.Await(small.Send(s.ID, Script(Step{Text: "Done."})).ID)
	if got.Status != parley.StatusFailed || !strings.Contains(got.Error.Message, "claude.memory") {
		t.Errorf("%s %+v\n%s", got.Status, got.Error, Told(small.Log(s.ID)))
	}
	small.check(t, s)
}
