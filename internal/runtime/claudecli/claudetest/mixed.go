package claudetest

import (
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/runtime/claudecli"
)

// stoppedWhileAsking sends a message whose turn asks a question, and stops the turn while it waits.
func (r *Rig) stoppedWhileAsking(t testing.TB, s parley.SessionInfo, text string, before ...Step) parley.TurnID {
	t.Helper()
	turn := r.Send(s.ID, Script(append(before, Step{Text: text, Use: []Use{which}}, Step{Text: "Not said."})...))
	r.waiting(t, s)
	if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, ""); err != nil {
		t.Fatal(err)
	}
	within(t, "the turn ends", func() bool { return r.Await(turn.ID).Status == parley.StatusCancelled })
	return turn.ID
}

// knows checks that the model of a session's next turn sees some texts and not others.
func (r *Rig) knows(t testing.TB, what string, s parley.SessionInfo, want, not []string) {
	t.Helper()
	got := r.say(t, s, Step{Text: sees})
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s: %q is not in %q", what, w, got)
		}
	}
	for _, n := range not {
		if strings.Contains(got, n) {
			t.Errorf("%s: %q is in %q", what, n, got)
		}
	}
	r.check(t, s)
}

// afterStops: a turn is stopped while a question waits. Then the session is forked, rewound, moved to the loop and back,
// and each time the next turn knows what it should.
func afterStops(t *testing.T, c CLI) {
	r := c.start(t, func(a *parley.App, _ *claudecli.Options, _ *engine.Options) { a.Runtimes = []string{"loop", "claude"} })
	defer r.Stop()
	s := r.Session()
	r.say(t, s, Step{Text: "The password is swordfish."})
	stopped := r.stoppedWhileAsking(t, s, "", Step{Use: []Use{write(r, "a.txt", "perch")}})
	f, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{Workspace: "shared/shared"})
	if err != nil {
		t.Fatal(err)
	}
	r.knows(t, "the fork", f, []string{"swordfish", "perch"}, nil)
	r.knows(t, "its parent", s, []string{"swordfish", "perch"}, nil)
	if _, err := r.Engine.Rewind(ctx, enginetest.User, s.ID, parley.RewindSession{Turn: stopped}); err != nil {
		t.Fatal(err)
	}
	within(t, "the files are restored", func() bool {
		st, err := r.Engine.State(ctx, enginetest.User, s.ID)
		return err == nil && st.Rewinding == nil
	})
	if got := r.File("a.txt"); got != "no file" {
		t.Errorf("after the rewind: %q", got)
	}
	r.knows(t, "after the rewind", s, []string{"swordfish"}, []string{"perch"})
	r.stoppedWhileAsking(t, s, "The user name is trout.")
	to := func(name string) {
		t.Helper()
		if _, err := r.Engine.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{Runtime: &name}); err != nil {
			t.Fatal(err)
		}
	}
	to("loop")
	r.knows(t, "in the loop", s, []string{"swordfish", "trout"}, nil)
	r.stoppedWhileAsking(t, s, "The colour is mauve.")
	to("claude")
	r.knows(t, "back in the CLI", s, []string{"swordfish", "trout", "mauve"}, nil)
	r.stoppedWhileAsking(t, s, "")
	r.knows(t, "at the end", s, []string{"swordfish", "trout", "mauve"}, nil)
	r.knows(t, "the fork at the end", f, []string{"swordfish"}, []string{"trout", "mauve"})
}

// grows reports whether a file grows.
func (r *Rig) grows(name string) bool {
	before := len(r.File(name))
	r.pause()
	r.pause()
	return len(r.File(name)) > before
}

// shellsEnd: a command in the background goes on when the session is forked. It ends with its process: when a turn is
// stopped, when the session is rewound, and when the CLI is killed.
func shellsEnd(t *testing.T, c CLI) {
	r := c.start(t)
	defer r.Stop()
	s := r.Session()
	begin := func(name string) parley.TurnID {
		t.Helper()
		turn := r.Send(s.ID, Script(
			Step{Use: []Use{{"Bash", map[string]any{"command": "while true; do echo x >> " + name + "; sleep 0.05; done", "description": "never ends", "run_in_background": true}}}}, Step{Text: "It runs."},
		))
		r.Await(turn.ID)
		within(t, "the command", func() bool { return r.grows(name) })
		return turn.ID
	}
	begin("a")
	r.stoppedWhileAsking(t, s, "")
	if r.grows("a") {
		t.Error("the command goes on after a stop")
	}
	second := begin("b")
	f, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{Workspace: "shared/shared"})
	if err != nil {
		t.Fatal(err)
	}
	r.knows(t, "the fork", f, []string{"It runs."}, nil)
	within(t, "the command has not ended with a fork", func() bool { return r.grows("b") })
	if err := r.Engine.Delete(ctx, enginetest.User, f.ID); err != nil {
		t.Fatal(err)
	}
	within(t, "the command has not ended with another session", func() bool { return r.grows("b") })
	if _, err := r.Engine.Rewind(ctx, enginetest.User, s.ID, parley.RewindSession{Turn: second}); err != nil {
		t.Fatal(err)
	}
	r.say(t, s, Step{Text: "On."})
	if r.grows("b") {
		t.Error("the command goes on after a rewind")
	}
	begin("c")
	r.kill(t)
	within(t, "the process is gone", func() bool { return r.Runtime.Processes() == 0 })
	if r.grows("c") {
		t.Error("the command goes on without its process")
	}
	r.knows(t, "after the kill", s, []string{"It runs."}, nil)
}
