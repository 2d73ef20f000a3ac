package gitrepo_test

import (
	"testing"

	core "github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/gitrepo"
)

// TestPushedInto: a repository that takes pushes into the branch that is checked out is not changed, whichever way. Git's readings of the
// setting count.
func TestPushedInto(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.elsewhere("theirs", "sebastian/b.md", "theirs\n")
	write(t, g.vault, "sebastian/a.md", "changed\n")
	look := func() error {
		_, err := gitrepo.Look(t.Context(), gitrepo.Options{Dir: g.vault, Private: t.TempDir()})
		return err
	}
	set := func(value string) { git(t, g.vault, "config", "receive.denyCurrentBranch", value) }
	for value, may := range map[string]bool{"refuse": true, "Refuse": true, "true": true, "on": true, "1": true, "": false, "0": false, "no": false, "warn": false, "ignore": false, "updateInstead": false} {
		set(value)
		if err := look(); (err == nil) != may || !may && core.CodeOf(err) != core.CodeConflict {
			t.Errorf("%q: %v", value, err)
		}
	}
	set("updateInstead")
	was := git(t, g.vault, "rev-parse", "main")
	_, committed := g.repo.Commit(t.Context(), plain("mine", "."))
	_, appended := g.repo.Append(t.Context(), "log.md", "a line", false, plain("line"))
	_, pulled := g.repo.Pull(t.Context())
	for what, err := range map[string]error{"commit": committed, "append": appended, "pull": pulled} {
		if core.CodeOf(err) != core.CodeConflict || core.Info(err).Hint == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if now := git(t, g.vault, "rev-parse", "main"); now != was {
		t.Errorf("the branch was moved")
	}
	g.clean(" M sebastian/a.md")
	set("refuse")
	g.pull()
	g.commit("mine", ".")
	g.clean()
}
