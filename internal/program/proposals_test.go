package program_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

// withKeeper gives the program an app whose schedule tidies a lake up, and the user's lake.
func (p *place) withKeeper() (dir string) {
	p.t.Helper()
	app, users := filepath.Join(p.dir, "apps", "keeper"), filepath.Join(p.dir, "users")
	p.write(filepath.Join(app, "keeper.md"), "Tidy up.")
	p.write(filepath.Join(app, "app.yaml"), `title: Keeper
script: script.yaml
agents:
  keeper: {prompt: keeper.md, tools: [tidy_scan, tidy_propose, lake_read]}
tools: {lake: {}, tidy: {}}
workspaces: {root: `+users+`, default: lake}
policy: {rules: [{verdict: allow, effect: read}, {verdict: allow, tool: tidy_propose}]}
budgets: {max_steps: 6}
schedules:
  tidy: {title: Tidy up, cron: "0 4 29 2 *", message: Look through the lake., budgets: {max_steps: 4}}
`)
	p.write(filepath.Join(app, "script.yaml"), `agents:
  keeper:
    - when: not .Results
      call: [{tool: tidy_scan, input: {}}]
    - when: eq (len .Results) 1
      call: [{tool: tidy_propose, input: {}}]
    - say: '{{ (index .Results 1).Output }}'
`)
	dir = filepath.Join(users, "local", "lake")
	p.write(filepath.Join(dir, "README.md"), "# Lake\n\n- [[one]]\n")
	p.write(filepath.Join(dir, "docs", "one.md"), "---\ntitle: One\nkind: doc\n---\n# One\n\nSee [[readmee]].\n\nAnd [[nowhere-at-all]].\n")
	for _, args := range [][]string{{"init", "-qb", "main"}, {"add", "-A"}, {"-c", "user.name=Bea", "-c", "user.email=bea@example.com", "commit", "-qm", "The lake"}} {
		if out, err := exec.CommandContext(p.t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			p.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(app), "PARLEY_ENABLED=keeper")
	return dir
}

// TestTachikoma: the schedule of an app is run, its turn looks at the lake and proposes, with nobody
// there and within its budget; the turn is in the log like any other. Nothing changes before a person
// applies a finding. All of it is there after the server was killed.
func TestTachikoma(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git program")
	}
	p := newPlace(t)
	dir := p.withKeeper()
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	head := git("rev-parse", "main")
	s := p.serve()
	c := client.New(client.Options{BaseURL: s.url})
	var list []parley.Schedule
	s.until("the app's schedule is there", func() bool {
		var err error
		list, err = c.Schedules(t.Context(), "keeper")
		return err == nil && len(list) == 1
	})
	if x := list[0]; x.ID != "app:keeper:tidy" || !x.FromApp || x.NextAt.IsZero() {
		t.Errorf("got %+v", x)
	}
	code, out, errs := p.run("schedule", "run", "app:keeper:tidy")
	if code != 0 || !strings.Contains(out, "begun, completed") || !strings.Contains(out, "2 findings") {
		t.Fatalf("%d %s%s", code, out, errs)
	}
	code, out, _ = p.run("schedule", "list")
	if code != 0 || !strings.Contains(out, "app:keeper:tidy") {
		t.Errorf("%d %s", code, out)
	}
	runs, err := c.ScheduleRuns(t.Context(), "app:keeper:tidy")
	if err != nil || len(runs) != 1 || !runs[0].Manual || runs[0].Status != parley.StatusCompleted {
		t.Fatalf("got %+v, %v", runs, err)
	}
	turn, err := c.Turn(t.Context(), runs[0].Turn)
	if err != nil || turn.Origin != parley.OriginSchedule {
		t.Errorf("got %+v, %v", turn, err)
	}
	s.kill()
	s = p.serve()
	c = client.New(client.Options{BaseURL: s.url})
	found, next, err := c.Proposals(t.Context(), client.LakeAt{}, "")
	if err != nil || len(found) != 1 || next != "" || found[0].Turn != runs[0].Turn || found[0].App != "keeper" {
		t.Fatalf("got %+v, %v", found, err)
	}
	if now := git("rev-parse", "main"); now != head || git("status", "--porcelain") != "" {
		t.Errorf("the lake has changed: %s, %s", now, git("status", "--porcelain"))
	}
	lake := client.LakeAt{App: "keeper", Workspace: "lake"}
	whole, err := c.Proposal(t.Context(), lake, found[0].ID)
	if err != nil || len(whole.Findings) != 2 || !strings.Contains(whole.Findings[0].Diff, "-See [[readmee]]") {
		t.Fatalf("got %+v, %v", whole, err)
	}
	got, err := c.ApplyFindings(t.Context(), lake, whole.ID, parley.DecideFindings{Findings: []string{whole.Findings[0].ID}})
	if err != nil || got.Counts[parley.FindingApplied] != 1 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if by := git("log", "-1", "--format=%an: %s", "main"); !strings.HasPrefix(by, "local: Broken link in docs/one.md") {
		t.Errorf("the last commit is %q", by)
	}
	if got, err = c.RejectFindings(t.Context(), lake, whole.ID, parley.DecideFindings{All: true}); err != nil || got.Counts[parley.FindingOpen] != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := c.Proposal(t.Context(), lake, "never"); parley.CodeOf(err) != parley.CodeNotFound {
		t.Errorf("got %v", err)
	}
	if _, err := c.UpdateSchedule(t.Context(), "app:keeper:tidy", parley.UpdateSchedule{Message: new(string)}); parley.CodeOf(err) != parley.CodeForbidden {
		t.Errorf("got %v", err)
	}
	made, err := c.AddSchedule(t.Context(), parley.ScheduleSpec{App: "keeper", Cron: "@yearly", Message: "hello"})
	if err != nil || made.NextAt.Before(time.Now()) {
		t.Errorf("got %+v, %v", made, err)
	}
	if err := c.DeleteSchedule(t.Context(), made.ID); err != nil {
		t.Error(err)
	}
}
