package claudetest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
)

// compacted: the CLI summarizes its conversation in the middle of a turn, since the model says that it becomes
// too large. The summary is not part of the answer, and a turn that is interrupted afterwards goes on: the model's
// replies are given to the next process, which does not summarize.
func compacted(t *testing.T, c CLI) {
	r := c.start(t)
	defer r.Stop()
	s := r.Session()
	turn := r.Send(s.ID, Script(Step{Tokens: 990_000, Use: []Use{bash("echo one >> log.txt")}}, Step{Use: []Use{bash("echo two >> log.txt")}}, Step{Use: []Use{which}}, Step{Text: "Done."}))
	r.waiting(t, s)
	if n := Count(r.Log(s.ID), "context.compacted"); n != 1 {
		t.Errorf("compacted %d times", n)
	}
	r.kill(t)
	within(t, "another process", func() bool {
		return slices.ContainsFunc(r.Log(s.ID), func(e parley.Event) bool { return e.Type == "runtime.noted" && string(e.Data) != "" })
	})
	if got, _ := r.driven(t, turn.ID); got.Status != parley.StatusCompleted || got.Response.Message != "Done." || r.File("log.txt") != "one\ntwo\n" {
		t.Errorf("%s %+v %+v %q\n%s", got.Status, got.Error, got.Response, r.File("log.txt"), Told(r.Log(s.ID)))
	}
	log := r.check(t, s)
	if diff := cmp.Diff([]string{"Bash ok", "Bash ok", "AskUserQuestion ok"}, ended(t, log)); diff != "" {
		t.Errorf("%s\n%s", diff, Told(log))
	}
}
