package claudetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/runtime/claudecli"
	sim "github.com/parley-server/parley/internal/sim/claudecli"
	"github.com/parley-server/parley/internal/store/mem"
)

// outside: files outside the workspace are refused to tools that name them.
func outside(t *testing.T, c CLI) {
	r := c.start(t)
	defer r.Stop()
	s := r.Session()
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(r.Work, "link")); err != nil {
		t.Fatal(err)
	}
	r.say(t, s, Step{Use: []Use{{"Write", map[string]any{"file_path": filepath.Join(elsewhere, "a.txt"), "content": "x"}}}}, Step{Use: []Use{write(r, "link/b.txt", "x")}},
		Step{Use: []Use{{"Read", map[string]any{"file_path": "/etc/passwd"}}}}, Step{Text: "Done."})
	log := r.check(t, s)
	if diff := cmp.Diff([]string{"Write denied", "Write denied", "Read denied"}, ended(t, log)); diff != "" {
		t.Errorf("%s\n%s", diff, Told(log))
	}
	if list, err := os.ReadDir(elsewhere); err != nil || len(list) > 0 {
		t.Error(list, err)
	}
}

// edited: a person cannot send a call out of the workspace, either.
func edited(t *testing.T, c CLI) {
	r := c.start(t, asks)
	defer r.Stop()
	s := r.Session()
	elsewhere := filepath.Join(t.TempDir(), "a.txt")
	turn := r.Send(s.ID, Script(Step{Use: []Use{write(r, "a.txt", "one")}}, Step{Text: "Done."}))
	r.answer(t, r.waiting(t, s), parley.Answer{Choice: parley.ChoiceAllow, Input: fmt.Appendf(nil, `{"file_path":%q,"content":"edited"}`, elsewhere)})
	if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
		t.Errorf("%s %+v", got.Status, got.Error)
	}
	log := r.check(t, s)
	if diff := cmp.Diff([]string{"Write error"}, ended(t, log)); diff != "" {
		t.Errorf("%s\n%s", diff, Told(log))
	}
	if _, err := os.Stat(elsewhere); err == nil || r.File("a.txt") != "no file" {
		t.Error(err, r.File("a.txt"))
	}
}

// altered: what was journaled and approved runs, even if the CLI has something else in mind.
func altered(t *testing.T, c CLI) {
	r := New(t, c.Play(t, sim.Play{Alters: true}), t.TempDir(), mem.New())
	defer r.Stop()
	s := r.Session()
	r.say(t, s, Step{Use: []Use{write(r, "a.txt", "one")}}, Step{Text: "Done."})
	r.check(t, s)
	if r.File("a.txt") != "one" {
		t.Error(r.File("a.txt"))
	}
}

// ours makes the app's file tools and its Bash those of Parley.
func ours(_ *parley.App, o *claudecli.Options, _ *engine.Options) { o.Shell = false }

// unknownTools: a call of one of the CLI's tools that the app does not have is denied, whatever the CLI
// offers: a Bash that is not confined where the app has its own, and tools that nobody knows.
func unknownTools(t *testing.T, c CLI) {
	r := c.start(t, ours)
	defer r.Stop()
	s := r.Session()
	r.say(t, s, Step{Use: []Use{bash("touch " + filepath.Join(filepath.Dir(r.Data), "escaped"))}}, Step{Use: []Use{{"WebFetch", map[string]any{"url": "https://example.com", "prompt": "x"}}}},
		Step{Use: []Use{{"mcp__other__tool", map[string]any{}}}}, Step{Text: "Done."})
	log := r.check(t, s)
	want := []string{"Bash denied", "WebFetch denied", "mcp__other__tool denied"}
	if c.Real { // it leads Bash to ours, and refuses the others by itself
		want = []string{"Bash ok", "WebFetch error", "mcp__other__tool error"}
	}
	if diff := cmp.Diff(want, ended(t, log)); diff != "" {
		t.Errorf("%s\n%s", diff, Told(log))
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(r.Data), "escaped")); err == nil {
		t.Error("the CLI's own Bash ran")
	}
}

// together: the app's Bash and file tools, which the CLI's model may call by the names of the CLI's. A
// command that swaps links while files are written gets nothing written that it could not write itself.
func together(t *testing.T, c CLI) {
	r := c.start(t, ours)
	defer r.Stop()
	s := r.Session()
	elsewhere := t.TempDir()
	if err := os.WriteFile(filepath.Join(r.Work, "CLAUDE.md"), []byte("rules"), 0o600); err != nil {
		t.Fatal(err)
	}
	named := func(name string) string {
		if c.Real {
			return name
		}
		return "mcp__parley__" + name // the stand-in has no aliases
	}
	swap := "mkdir -p d e; echo x > e/f; while true; do ln -sfn ../CLAUDE.md d/f; rm -f d/f; ln -sfn " + elsewhere + " l; rm l; mkdir -p l; rm -r l; done"
	steps := []Step{
		{Use: []Use{{named("Write"), map[string]any{"file_path": filepath.Join(r.Work, "a.txt"), "content": "hello"}}}},
		{Use: []Use{{named("Read"), map[string]any{"file_path": filepath.Join(r.Work, "a.txt")}}}},
		{Use: []Use{{named("Bash"), map[string]any{"command": "cat a.txt; touch swapping"}}}},
		{Use: []Use{{named("Bash"), map[string]any{"command": swap, "run_in_background": true}}}},
	}
	for range 10 {
		for _, name := range []string{"d/f", "l/f"} {
			steps = append(steps, Step{Use: []Use{{named("Write"), map[string]any{"file_path": filepath.Join(r.Work, name), "content": "evil"}}}})
		}
	}
	r.say(t, s, append(steps, Step{Text: "Done."})...)
	log := r.check(t, s)
	if got := ended(t, log); len(got) != 24 || !slices.Equal(got[:4], []string{"Write ok", "Read ok", "Bash ok", "Bash ok"}) {
		t.Errorf("%v\n%s", got, Told(log))
	}
	if list, err := os.ReadDir(elsewhere); err != nil || len(list) > 0 || r.File("CLAUDE.md") != "rules" || r.File("a.txt") != "hello" {
		t.Error(list, err, r.File("CLAUDE.md"), r.File("a.txt"))
	}
}

// swapper is a Witness that puts a link in the place of a folder after the path was judged.
type swapper struct {
	claudecli.Witness
	swap func()
}

func (w swapper) Before(context.Context, parley.SessionID, parley.TurnID, parley.CallID, string, string, []byte) error {
	w.swap()
	return nil
}

func (w swapper) After(context.Context, parley.SessionID, parley.CallID, string) (s parley.FileSaved, changed bool, err error) {
	return s, false, nil
}

// swapped: the CLI's own tools do not get out of the workspace by a link that was not there when
// their call was allowed.
func swapped(t *testing.T, c CLI) {
	elsewhere := t.TempDir()
	var work string
	r := c.start(t, func(_ *parley.App, o *claudecli.Options, _ *engine.Options) {
		o.Witness = swapper{swap: func() {
			if err := errors.Join(os.Remove(filepath.Join(work, "d")), os.Symlink(elsewhere, filepath.Join(work, "d"))); err != nil {
				t.Error(err)
			}
		}}
	})
	defer r.Stop()
	work = r.Work
	if err := os.Mkdir(filepath.Join(work, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := r.Session()
	r.say(t, s, Step{Use: []Use{write(r, "d/a.txt", "x")}}, Step{Text: "Done."})
	log := r.check(t, s)
	if diff := cmp.Diff([]string{"Write error"}, ended(t, log)); diff != "" {
		t.Errorf("%s\n%s", diff, Told(log))
	}
	if list, err := os.ReadDir(elsewhere); err != nil || len(list) > 0 {
		t.Error(list, err)
	}
}

// rules: a rule for a command means the same for Parley's Bash and for that of the CLI.
func rules(t *testing.T, c CLI) {
	r := c.start(t, asks, func(a *parley.App, _ *claudecli.Options, _ *engine.Options) {
		a.Runtimes = []string{"loop", "claude"}
		a.Policy.Unattended = true
		a.Policy.Rules = []parley.Rule{{Verdict: parley.Allow, Tool: "Bash(touch a:*)"}, {Verdict: parley.Allow, Tool: "Bash(timeout:*)"}, {Verdict: parley.Deny, Tool: "Bash(rm:*)"}}
	})
	defer r.Stop()
	lines := []string{
		"touch a", "touch a && touch a b", "touch a; touch x", "touch a > x", "X=1 touch a", "env touch a", "touch a $(touch x)", "touch a\ntouch x", "touch a | tee x", "timeout 5 touch c", "timeout 5 rm a", "rm a", "sh -c 'rm a'",
	}
	want := []string{
		"Bash ok", "Bash ok", "Bash denied", "Bash denied", "Bash denied", "Bash denied", "Bash denied", "Bash denied", "Bash denied", "Bash ok", "Bash denied", "Bash denied", "Bash denied",
	}
	for _, name := range []string{"loop", "claude"} {
		s := r.Session(func(c *parley.CreateSession) { c.Runtime = name })
		var steps []Step
		for _, line := range lines {
			steps = append(steps, Step{Use: []Use{bash(line)}})
		}
		r.say(t, s, append(steps, Step{Text: "Done."})...)
		log := r.check(t, s)
		if diff := cmp.Diff(want, ended(t, log)); diff != "" {
			t.Errorf("%s: %s\n%s", name, diff, Told(log))
		}
		if r.File("a") != "" || r.File("b") != "" || r.File("c") != "" || r.File("x") != "no file" {
			t.Errorf("%s: a %q, b %q, c %q, x %q", name, r.File("a"), r.File("b"), r.File("c"), r.File("x"))
		}
		for _, f := range []string{"a", "b", "c"} {
			if err := os.Remove(filepath.Join(r.Work, f)); err != nil {
				t.Error(err)
			}
		}
	}
}
