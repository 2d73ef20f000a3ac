package claudetest

import (
	"fmt"
	"os"
	"path/filepath"
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

// unknownTools: a call of one of the CLI's tools that the app does not have is denied, whatever the CLI
// offers: a Bash that is not confined where the app has its own, and a tool that nobody knows.
func unknownTools(t *testing.T, c CLI) {
	r := c.start(t, func(_ *parley.App, o *claudecli.Options, _ *engine.Options) { o.Shell = false })
	defer r.Stop()
	s := r.Session()
	r.say(t, s, Step{Use: []Use{bash("touch escaped")}}, Step{Use: []Use{{"WebFetch", map[string]any{"url": "https://example.com", "prompt": "x"}}}},
		Step{Use: []Use{{"mcp__other__tool", map[string]any{}}}}, Step{Text: "Done."})
	log := r.check(t, s)
	want := []string{"Bash denied", "WebFetch denied", "mcp__other__tool denied"}
	if c.Real { // it refuses them itself
		want = []string{"Bash error", "WebFetch error", "mcp__other__tool error"}
	}
	if diff := cmp.Diff(want, ended(t, log)); diff != "" {
		t.Errorf("%s\n%s", diff, Told(log))
	}
	if r.File("escaped") != "no file" {
		t.Error("the CLI's own Bash ran")
	}
}
