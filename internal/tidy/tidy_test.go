package tidy_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/claim"
	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/sim/company"
	"github.com/parley-server/parley/internal/tidy"
)

// at is when the tests look at their lakes.
var at = company.Reference

var ana = lake.Author{Name: "Ana", Email: "ana@localhost"}

// world is a lake in a repository, with a person who uses git.
type world struct {
	t       *testing.T
	dir     string
	private string
	lake    *lake.Lake
	point   func(name string) error // at which a crash may be
}

func newWorld(t *testing.T, lay func(dir string)) *world {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git program")
	}
	w := &world{t: t, dir: filepath.Join(t.TempDir(), "lake"), private: t.TempDir()}
	lay(w.dir)
	w.open()
	t.Cleanup(func() { _ = w.lake.Close() })
	return w
}

func (w *world) open() {
	w.t.Helper()
	var err error
	w.lake, err = lake.Open(w.t.Context(), w.dir, lake.Options{Private: w.private, Fresh: -1, Now: func() time.Time { return at }, At: func(name string) error {
		if w.point == nil {
			return nil
		}
		return w.point(name)
	}})
	if err != nil {
		w.t.Fatal(err)
	}
}

// git is what the person's own git prints.
func (w *world) git(args ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "git", append([]string{"-C", w.dir, "-c", "user.name=Bea", "-c", "user.email=bea@example.com"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (w *world) write(name, text string) {
	w.t.Helper()
	full := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(name string) string {
	raw, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		return ""
	}
	return string(raw)
}

// files are the pages of the working tree.
func (w *world) files() map[string]string {
	w.t.Helper()
	all := map[string]string{}
	for name := range strings.SplitSeq(w.git("-c", "core.quotepath=off", "ls-files", "-co", "--exclude-standard"), "\n") {
		all[name] = w.read(name)
	}
	return all
}

func full(t *testing.T) (*company.Lake, *world) {
	t.Helper()
	made, err := company.Full(at)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(dir string) {
		git, _ := exec.LookPath("git")
		if err := made.Lay(t.Context(), dir, git); err != nil {
			t.Fatal(err)
		}
	})
	return made, w
}

// planted are the faults of a lake that a finding may be about.
func planted(l *company.Lake, x tidy.Finding) []company.Fault {
	var list []company.Fault
	for _, f := range l.Faults {
		switch {
		case string(f.Kind) != x.Kind:
		case f.Path == x.Path, x.Other != "" && f.Path == x.Other, f.Other != "" && f.Other == x.Path && f.Path == x.Other:
			list = append(list, f)
		}
	}
	return list
}

// judge has the pairs judged by the rules of package claim, as the agent without a provider does.
func judge(s tidy.Scanned) (list []tidy.Judged) {
	world := claim.World{Name: s.Name, Day: at}
	for _, c := range s.Candidates {
		why, yes := world.Contradict(c.Under())
		list = append(list, tidy.Judged{ID: c.ID, Contradicts: yes, Here: c.Says, There: c.OtherSays, Why: why})
	}
	return list
}

// TestPlanted: of a lake with 60 planted faults and 20 traps, what is found, and what is said to be wrong
// and is not. Links, front matter, duplicates, orphans and stale pages are decided by code alone; for
// contradictions code names pairs, which have every planted one. Of these the rules of package claim, which see two statements at a time,
// find all but one, and none that is none.
func TestPlanted(t *testing.T) {
	t.Parallel()
	made, w := full(t)
	began := time.Now()
	s, err := tidy.Scan(t.Context(), w.lake, at)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	found, alarms := map[company.Fault]bool{}, map[string]int{}
	real := 0
	for _, x := range append(slices.Clone(s.Findings), s.Candidates...) {
		faults := planted(made, x)
		for _, f := range faults {
			found[f] = true
		}
		if len(faults) > 0 {
			continue
		}
		if x.Kind == tidy.FrontMatter && strings.Contains(x.Why, "not valid YAML") {
			real++ // a mistake of the lake's author, which git's history has and nobody planted
			continue
		}
		alarms[x.Kind]++
		if x.Kind != tidy.Contradiction {
			t.Errorf("a false alarm: %s %s %s: %s", x.Kind, x.Path, x.Other, x.Why)
		}
		for _, tr := range made.Traps {
			if x.Kind != tidy.Contradiction && (tr.Path == x.Path || tr.Path == x.Other) {
				t.Errorf("a trap: %s %s: %s", x.Kind, tr.Path, tr.Why)
			}
		}
	}
	byKind := map[string][2]int{}
	for _, f := range made.Faults {
		n := byKind[string(f.Kind)]
		n[1]++
		if found[f] {
			n[0]++
		} else {
			t.Errorf("not found: %s %s: %s", f.Kind, f.Path, f.Why)
		}
		byKind[string(f.Kind)] = n
	}
	t.Logf("%d pages in %s", s.Pages, took.Round(time.Millisecond))
	for _, kind := range tidy.Kinds {
		t.Logf("%-14s %2d of %2d found, %d false alarms", kind, byKind[kind][0], byKind[kind][1], alarms[kind])
	}
	t.Logf("%d of %d faults, %d traps; %d pairs to judge, of which %d are no contradiction; %d pages with YAML that nobody planted", len(found), len(made.Faults), len(made.Traps), len(s.Candidates), alarms[tidy.Contradiction], real)
	judged := map[company.Fault]bool{}
	for i, j := range judge(s) {
		if !j.Contradicts {
			continue
		}
		faults := planted(made, s.Candidates[i])
		if len(faults) == 0 {
			t.Errorf("judged to contradict each other: %s and %s", s.Candidates[i].Says, s.Candidates[i].OtherSays)
		}
		for _, f := range faults {
			judged[f] = true
		}
	}
	t.Logf("%d contradictions by rules", len(judged))
	if len(judged) < byKind[tidy.Contradiction][1]-1 {
		t.Errorf("only %d of %d contradictions are found by rules", len(judged), byKind[tidy.Contradiction][1])
	}
	if alarms[tidy.Contradiction] > 30 || len(s.Candidates) > 40 {
		t.Errorf("%d pairs are to be judged in vain", alarms[tidy.Contradiction])
	}
}

// TestProposal: a proposal is a branch with one commit for each finding, and changes nothing else. What
// a person changes meanwhile is not touched when it is applied; the rest is, one commit each, once.
func TestProposal(t *testing.T) {
	t.Parallel()
	_, w := full(t)
	before, head := w.files(), w.git("rev-parse", "HEAD")
	s, err := tidy.Scan(t.Context(), w.lake, at)
	if err != nil {
		t.Fatal(err)
	}
	asked := tidy.Asked{ID: "one", At: at, By: "ana", Judged: judge(s)}
	p, err := tidy.Propose(t.Context(), w.lake, asked)
	if err != nil || p.Findings < 59 {
		t.Fatalf("got %+v, %v", p, err)
	}
	unchanged := func(what string) {
		t.Helper()
		if now := w.git("rev-parse", "HEAD"); now != head {
			t.Errorf("%s: HEAD is %s, want %s", what, now, head)
		}
		if status := w.git("status", "--porcelain"); status != "" {
			t.Errorf("%s: %s", what, status)
		}
		if diff := cmp.Diff(before, w.files()); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	unchanged("after the proposal")
	if n := w.git("rev-list", "--count", head+"..tachikoma/one"); n != fmt.Sprint(p.Changes+1) {
		t.Errorf("the branch has %s commits for %d changes and a report", n, p.Changes)
	}
	if again, err := tidy.Propose(t.Context(), w.lake, asked); err != nil || !again.Repeated || again.Findings != p.Findings {
		t.Errorf("the same once more: %+v, %v", again, err)
	}
	next := asked
	next.ID = "two"
	if again, err := tidy.Propose(t.Context(), w.lake, next); err != nil || again.Findings != 0 || again.Known != p.Findings {
		t.Errorf("the next day: %+v, %v; want nothing new", again, err)
	}
	whole, err := tidy.Read(t.Context(), w.lake, "one", "")
	if err != nil || whole.Counts[parley.FindingOpen] != p.Findings || !strings.Contains(whole.Report, "## Broken link") {
		t.Fatalf("got %+v, %v", whole.Counts, err)
	}
	unchanged("after reading")

	// A person commits a change of one page, changes another without committing, and deletes a third.
	pick := func(kind string) parley.ProposalFinding {
		for _, x := range whole.Findings {
			if x.Kind == kind && x.Mends != "" {
				return x
			}
		}
		t.Fatalf("no finding of the kind %s", kind)
		return parley.ProposalFinding{}
	}
	committed, dirty, gone := pick(tidy.BrokenLink), pick(tidy.Stale), pick(tidy.FrontMatter)
	w.write(committed.Path, w.read(committed.Path)+"\nBea was here.\n")
	w.git("add", "-A")
	w.git("commit", "-qm", "Bea changes a page")
	w.write(dirty.Path, w.read(dirty.Path)+"\nBea is writing.\n")
	w.git("rm", "-q", "--cached", gone.Path)
	w.git("commit", "-qm", "Bea deletes a page")
	if err := os.Remove(filepath.Join(w.dir, gone.Path)); err != nil {
		t.Fatal(err)
	}
	theirs := map[string]string{committed.Path: w.read(committed.Path), dirty.Path: w.read(dirty.Path), gone.Path: ""}
	head = w.git("rev-parse", "HEAD")

	some, err := tidy.Apply(t.Context(), w.lake, "one", ana, at, parley.DecideFindings{Findings: []string{pick(tidy.Orphan).ID, committed.ID}})
	if err != nil || some.Counts[parley.FindingApplied] != 1 {
		t.Fatalf("some: %+v, %v", some.Counts, err)
	}
	rejected := pick(tidy.Duplicate)
	if _, err := tidy.Reject(t.Context(), w.lake, "one", "ana", at, parley.DecideFindings{Findings: []string{rejected.ID}}); err != nil {
		t.Fatal(err)
	}
	all, err := tidy.Apply(t.Context(), w.lake, "one", ana, at, parley.DecideFindings{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all.Findings {
		if x.Status == parley.FindingOpen {
			t.Logf("left to a person: %s %s: %s", x.Kind, x.Path, x.Why)
		}
	}
	t.Logf("applied %d, stale %d, rejected %d, without a change %d, of %d", all.Counts[parley.FindingApplied], all.Counts[parley.FindingStale], all.Counts[parley.FindingRejected], all.Counts[parley.FindingOpen], len(all.Findings))
	for name, text := range theirs {
		if got := w.read(name); got != text {
			t.Errorf("%s, which Bea changed, is now\n%s", name, cmp.Diff(text, got))
		}
	}
	if w.read(rejected.Path) != before[rejected.Path] {
		t.Errorf("%s was rejected and is changed", rejected.Path)
	}
	if n := w.git("rev-list", "--count", head+"..HEAD"); n != fmt.Sprint(all.Counts[parley.FindingApplied]) {
		t.Errorf("%s commits for %d findings", n, all.Counts[parley.FindingApplied])
	}
	for _, x := range all.Findings {
		about := x.Path == committed.Path || x.Path == dirty.Path || x.Path == gone.Path
		switch {
		case x.Status == parley.FindingApplied && about:
			t.Errorf("%s %s was applied", x.Kind, x.Path)
		case x.Status == parley.FindingStale && x.Reason == "", x.Status == parley.FindingApplied && x.Commit == "":
			t.Errorf("%+v", x)
		}
	}
	if all.Counts[parley.FindingApplied] < 50 {
		t.Errorf("only %d were applied", all.Counts[parley.FindingApplied])
	}
	head = w.git("rev-parse", "HEAD")
	if again, err := tidy.Apply(t.Context(), w.lake, "one", ana, at, parley.DecideFindings{All: true}); err != nil || !maps.Equal(again.Counts, all.Counts) || w.git("rev-parse", "HEAD") != head {
		t.Errorf("once more: %+v, %v", again.Counts, err)
	}
	// The lake is tidier: nothing that was applied is found again.
	after, err := tidy.Scan(t.Context(), w.lake, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d findings before, %d after", len(s.Findings), len(after.Findings))
	for _, x := range all.Findings {
		if x.Status != parley.FindingApplied || x.Kind == tidy.FrontMatter && !strings.HasPrefix(x.Mends, "makes") || x.Kind == tidy.Contradiction {
			continue // owners and days are a person's to add
		}
		for _, y := range after.Findings {
			if y.Kind == x.Kind && y.Path == x.Path && y.Why == x.Why {
				t.Errorf("found again: %s %s: %s", y.Kind, y.Path, y.Why)
			}
		}
	}
}

// small is a lake with a fault of some kinds.
func small(w func(name, text string)) {
	page := func(title, kind, rest string) string {
		return "---\ntitle: " + title + "\nkind: " + kind + "\nowner: Ana\ncreated: 2026-01-01\nupdated: 2026-10-01\n---\n# " + title + "\n\n" + rest + "\n"
	}
	w("README.md", "# Lake\n\n- [[one]]\n- [[two]]\n- [[old]]\n- [[twins]]\n")
	w("docs/one.md", page("One", "doc", "See [[tow]] and [[nowhere-at-all]]."))
	w("docs/two.md", page("Two", "doc", "Nothing to see."))
	w("docs/old.md", strings.Replace(page("Old", "doc", "From long ago."), "2026-10-01", "2024-10-01", 1))
	w("docs/alone.md", page("Alone", "doc", "Nobody links here."))
	w("docs/twins.md", page("Twins", "doc", "Alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima."))
	w("docs/twin.md", strings.Replace(page("Twin", "doc", "Alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima."), "2026-01-01", "2026-02-01", 1))
}

func smallWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t, func(dir string) {
		w := &world{t: t, dir: dir}
		small(w.write)
		w.git("init", "-qb", "main")
		w.git("add", "-A")
		w.git("commit", "-qm", "The lake")
	})
}

var errDead = errors.New("the process is gone")

// TestCrashAtEveryPoint: the process dies at each point of a proposal, of a rejection and of applying
// it. Whoever repeats the step gets what an undisturbed run gets: no finding is half applied, none
// twice; also if a person has committed something in between, which stays.
func TestCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	type end struct {
		Files   map[string]string
		Commits string
		Status  []string
	}
	run := func(t *testing.T, dies string, person bool) (got end, points []string) {
		w := smallWorld(t)
		step := 0
		w.point = func(name string) error {
			at := fmt.Sprintf("%d %s", step, name)
			if seen := slices.Contains(points, at); seen {
				return nil // as at the first one of the step
			}
			if points = append(points, at); at == dies {
				return errDead
			}
			return nil
		}
		steps := []func() error{
			func() error {
				_, err := tidy.Propose(t.Context(), w.lake, tidy.Asked{ID: "p", At: at})
				return err
			},
			func() error {
				p, err := tidy.Read(t.Context(), w.lake, "p", "")
				if err != nil {
					return err
				}
				_, err = tidy.Reject(t.Context(), w.lake, "p", "ana", at, parley.DecideFindings{Findings: []string{p.Findings[0].ID}})
				return err
			},
			func() error {
				p, err := tidy.Read(t.Context(), w.lake, "p", "")
				if err != nil {
					return err
				}
				// Two of them: a deletion with links that are led elsewhere, and an item of a list.
				some := parley.DecideFindings{}
				for _, x := range p.Findings {
					if x.Kind == tidy.Duplicate || x.Kind == tidy.Orphan {
						some.Findings = append(some.Findings, x.ID)
					}
				}
				_, err = tidy.Apply(t.Context(), w.lake, "p", ana, at, some)
				return err
			},
		}
		for i, do := range steps {
			step = i
			for tries := 0; ; tries++ {
				err := do()
				if err == nil {
					break
				}
				if tries > 2 || dies == "" {
					t.Fatalf("step %d: %v", i, err)
				}
				_ = w.lake.Close()
				if person { // somebody commits before it is repeated, having removed the lock that was left behind
					_ = os.Remove(filepath.Join(w.dir, ".git/index.lock"))
					w.write("docs/person.md", "Bea was here.\n")
					w.git("add", "docs/person.md")
					w.git("commit", "-qm", "Bea", "--", "docs/person.md")
				}
				w.open()
			}
		}
		p, err := tidy.Read(t.Context(), w.lake, "p", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range p.Findings {
			got.Status = append(got.Status, fmt.Sprintf("%s %s %s", x.Kind, x.Path, x.Status))
		}
		got.Files, got.Commits = w.files(), w.git("log", "--format=%an: %s", "--reverse")
		if status := w.git("status", "--porcelain"); status != "" {
			t.Errorf("git status: %s", status)
		}
		if refs := w.git("for-each-ref", "--format=%(refname)", "refs/heads"); refs != "refs/heads/main\nrefs/heads/tachikoma/p" {
			t.Errorf("branches: %s", refs)
		}
		return got, points
	}
	want, points := run(t, "", false)
	if !strings.Contains(strings.Join(want.Status, "\n"), "applied") || !strings.Contains(strings.Join(want.Status, "\n"), "rejected") || len(points) < 10 {
		t.Fatalf("the points %v, and %v", points, want.Status)
	}
	t.Logf("%d findings; points %v", len(want.Status), points)
	for _, at := range points {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			got, _ := run(t, at, false)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
		if !strings.HasPrefix(at, "2 ") {
			continue
		}
		t.Run(at+" and a person commits", func(t *testing.T) {
			t.Parallel()
			got, _ := run(t, at, true)
			if got.Files["docs/person.md"] != "Bea was here.\n" || strings.Count(got.Commits, "Bea: Bea\n") != 1 {
				t.Errorf("her commit: %s", got.Commits)
			}
			delete(got.Files, "docs/person.md")
			got.Commits = strings.Replace(got.Commits+"\n", "Bea: Bea\n", "", 1)
			got.Commits = strings.TrimSuffix(got.Commits, "\n")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDecideRefused: what is no decision is refused.
func TestDecideRefused(t *testing.T) {
	t.Parallel()
	w := smallWorld(t)
	if _, err := tidy.Propose(t.Context(), w.lake, tidy.Asked{ID: "p", At: at}); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		id   parley.ProposalID
		d    parley.DecideFindings
		want parley.Code
	}{
		"no such proposal": {"q", parley.DecideFindings{All: true}, parley.CodeNotFound},
		"no id":            {"../main", parley.DecideFindings{All: true}, parley.CodeNotFound},
		"nothing chosen":   {"p", parley.DecideFindings{}, parley.CodeInvalid},
		"both":             {"p", parley.DecideFindings{All: true, Findings: []string{"x"}}, parley.CodeInvalid},
		"no such finding":  {"p", parley.DecideFindings{Findings: []string{"x"}}, parley.CodeNotFound},
	} {
		_, apply := tidy.Apply(t.Context(), w.lake, tc.id, ana, at, tc.d)
		_, reject := tidy.Reject(t.Context(), w.lake, tc.id, "ana", at, tc.d)
		for _, err := range []error{apply, reject} {
			if parley.CodeOf(err) != tc.want {
				t.Errorf("%s: got %v, want %s", name, err, tc.want)
			}
		}
	}
	// A branch that somebody else has made is no proposal, and one that was deleted is gone.
	w.git("branch", "tachikoma/mine")
	if list, _, err := tidy.Page(t.Context(), w.lake, "", 100); err != nil || len(list) != 1 {
		t.Errorf("got %v, %v", list, err)
	}
	w.git("branch", "-D", "tachikoma/p")
	if list, _, err := tidy.Page(t.Context(), w.lake, "", 100); err != nil || len(list) != 0 {
		t.Errorf("got %v, %v", list, err)
	}
}

// TestScanAfterCommit: a scan sees what was committed right before it, though the index has looked at the files shortly before.
func TestScanAfterCommit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := &world{t: t, dir: dir}
	w.git("init", "-q")
	l, err := lake.Open(t.Context(), dir, lake.Options{Private: t.TempDir(), Fresh: time.Hour, Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if s, err := tidy.Scan(t.Context(), l, at); err != nil || s.Pages != 0 {
		t.Fatalf("an empty lake: %+v, %v", s, err)
	}
	w.write("README.md", "# Lake\n")
	w.git("add", ".")
	w.git("commit", "-q", "-m", "begin")
	if s, err := tidy.Scan(t.Context(), l, at); err != nil || s.Pages != 1 {
		t.Errorf("after a commit: %+v, %v", s, err)
	}
}

// TestJudgements: what a model says of a pair counts only if it is of a pair that was listed, and quotes the two statements; a reason with pages or
// words that are made up is left out. What does not count is said.
func TestJudgements(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := &world{t: t, dir: dir}
	w.git("init", "-qb", "main")
	w.write("README.md", "# Museum\n\n[[loans]] [[leaflet]]\n")
	head := "---\ntitle: %s\nkind: doc\nowner: Rosa\ncreated: 2026-03-01\n---\n%s\n"
	w.write("docs/loans.md", fmt.Sprintf(head, "Loans", "Objects are lent for  at most 90 days."))
	w.write("docs/leaflet.md", fmt.Sprintf(head, "Leaflet", "Objects are lent for at most 60 days."))
	w.git("add", ".")
	w.git("commit", "-q", "-m", "begin")
	l, err := lake.Open(t.Context(), dir, lake.Options{Private: t.TempDir(), Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s, err := tidy.Scan(t.Context(), l, at)
	if err != nil || len(s.Candidates) != 1 {
		t.Fatalf("got %+v, %v", s, err)
	}
	c := s.Candidates[0]
	here, there := "at most  60 DAYS", "at most 90 days"
	if strings.Contains(c.Says, "90") {
		here, there = there, here
	}
	plain := "it contradicts " + c.Other
	says := func(id string, yes bool, here, there, why string) tidy.Judged {
		return tidy.Judged{ID: id, Contradicts: yes, Here: here, There: there, Why: why}
	}
	for i, tc := range []struct {
		judged []tidy.Judged
		why    string // of the finding; "": there is none
		out    string // what is said of what does not count
	}{
		{[]tidy.Judged{says(c.ID, true, here, there, "60 and 90 days")}, plain + ": 60 and 90 days", ""},
		{[]tidy.Judged{says(c.ID, true, c.Says, c.OtherSays, "\"90 days\" in "+c.Other)}, plain + ": \"90 days\" in " + c.Other, ""},
		{[]tidy.Judged{says(c.ID, false, "", "", "")}, "", ""},
		{[]tidy.Judged{says(c.ID, true, "", "", "they do")}, "", "does not quote"},
		{[]tidy.Judged{says(c.ID, true, "at most 30 days", there, "they do")}, "", "does not quote"},
		{[]tidy.Judged{says(c.ID, true, there, here, "the wrong way round")}, "", "does not quote"},
		{[]tidy.Judged{says("0123456789ab", true, here, there, "they do")}, "", "0123456789ab is no pair"},
		{[]tidy.Judged{says("docs/made-up.md", true, here, there, "they do")}, "", "is no pair"},
		{[]tidy.Judged{says(c.ID, true, here, there, "yes"), says(c.ID, false, "", "", "")}, "", "in two ways"},
		{[]tidy.Judged{says(c.ID, true, here, there, "yes"), says(c.ID, true, here, there, "yes again")}, plain + ": yes", ""},
		{[]tidy.Judged{says(c.ID, true, here, there, "docs/other.md says so")}, plain, ""},
		{[]tidy.Judged{says(c.ID, true, here, there, "it says \"for ever and a day\"")}, plain, ""},
	} {
		id := parley.ProposalID(fmt.Sprint("p", i))
		p, err := tidy.Propose(t.Context(), l, tidy.Asked{ID: id, At: at, Judged: tc.judged})
		if err != nil || (tc.out == "") != (len(p.LeftOut) == 0) || !strings.Contains(strings.Join(p.LeftOut, "; "), tc.out) {
			t.Errorf("%d: %+v, %v, want %q", i, p, err, tc.out)
		}
		why := ""
		if p.Findings > 0 {
			whole, err := tidy.Read(t.Context(), l, id, "")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range whole.Findings {
				if f.Kind == tidy.Contradiction {
					why += f.Why
				}
			}
			w.git("branch", "-D", "tachikoma/"+string(id))
		}
		if why != tc.why {
			t.Errorf("%d: the reason is %q, want %q", i, why, tc.why)
		}
	}
}

// TestLinksOfOneLine: all broken links of a line are one finding with one change, also with those of other lines that say the same. Links to
// pages whose names only begin alike, and what is no link, stay as they are.
func TestLinksOfOneLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := &world{t: t, dir: dir}
	w.git("init", "-qb", "main")
	line := "See [[towers-x|X]], `[[towrs]]`, [[towrs]], [[towrs#top|these]], [[nowhere-at-all]] and [old](gone/away.md#a), [more](gone/away.md)."
	head := "---\ntitle: %s\nkind: doc\nowner: Ana\ncreated: 2026-01-01\n---\n"
	w.write("README.md", "# Lake\n\n[[towers]] [[towers-x]] [[one]]\n")
	w.write("docs/towers.md", fmt.Sprintf(head, "Towers")+"Stone.\n")
	w.write("docs/towers-x.md", fmt.Sprintf(head, "Towers X")+"Brick.\n")
	w.write("docs/one.md", fmt.Sprintf(head, "One")+line+"\n\nBetween.\n\n"+line+"\n")
	w.git("add", ".")
	w.git("commit", "-q", "-m", "begin")
	l, err := lake.Open(t.Context(), dir, lake.Options{Private: t.TempDir(), Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p, err := tidy.Propose(t.Context(), l, tidy.Asked{ID: "p", At: at})
	if err != nil || p.Findings != 2 || p.Changes != 2 {
		t.Fatalf("got %+v, %v", p, err)
	}
	if got, err := tidy.Apply(t.Context(), l, "p", ana, at, parley.DecideFindings{All: true}); err != nil || got.Counts[parley.FindingApplied] != 2 {
		t.Fatalf("got %+v, %v", got, err)
	}
	want := "See [[towers-x|X]], `[[towrs]]`, [[towers]], [[towers#top|these]], nowhere-at-all and old, more."
	if got := w.read("docs/one.md"); strings.Count(got, want) != 2 {
		t.Errorf("got %s", got)
	}
	if s, err := tidy.Scan(t.Context(), l, at); err != nil || len(s.Findings) > 0 {
		t.Errorf("after it: %+v, %v", s.Findings, err)
	}
}

// TestSeries: things of a series, described alike with numbers of their own, are no duplicates.
func TestSeries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := &world{t: t, dir: dir}
	w.git("init", "-q")
	w.write("README.md", "# Museum\n\n[[sword-a]] [[sword-b]]\n")
	text := "---\ntitle: Sword %s\nkind: object\nowner: Rosa\ncreated: 2026-03-01\n---\nSword %s, %d cm, inventory number %d. Hilt of horn, blade of steel, taken from the river in 1840, shown in gallery 6.\n"
	w.write("lake/sword-a.md", fmt.Sprintf(text, "A", "of the left guard", 91, 5001))
	w.write("lake/sword-b.md", fmt.Sprintf(text, "B", "of the right guard", 94, 5002))
	w.git("add", ".")
	w.git("commit", "-q", "-m", "begin")
	l, err := lake.Open(t.Context(), dir, lake.Options{Private: t.TempDir(), Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if s, err := tidy.Scan(t.Context(), l, at); err != nil || len(s.Findings) > 0 {
		t.Errorf("got %+v, %v", s.Findings, err)
	}
}

// TestNoted: what a note says is no statement of the page, and a contradiction of which the page has the note is not found again.
func TestNoted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := &world{t: t, dir: dir}
	w.git("init", "-q")
	page := func(title, text string) string {
		return "---\ntitle: " + title + "\nkind: doc\nowner: Rosa\ncreated: 2026-03-01\n---\n" + text + "\n"
	}
	w.write("README.md", "# Museum\n\n[[loans]] [[leaflet]]\n")
	for i, text := range []string{"The roof is of copper.", "Guards wear grey.", "Keys hang by the door.", "Lamps are dimmed at noon.", "The garden has a pond.", "Winter needs blankets.", "Maps hang upright.", "Every room has a bench."} {
		w.write(fmt.Sprintf("docs/other-%d.md", i), page("Other "+text[:5], text))
	}
	w.write("docs/loans.md", page("Loans", "Objects are lent for at most 90 days."))
	w.write("docs/leaflet.md", page("Leaflet", "Objects are lent for at most 60 days."))
	w.git("add", ".")
	w.git("commit", "-q", "-m", "begin")
	l, err := lake.Open(t.Context(), dir, lake.Options{Private: t.TempDir(), Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s, err := tidy.Scan(t.Context(), l, at)
	if err != nil || len(s.Candidates) != 1 {
		t.Fatalf("got %+v, %v", s, err)
	}
	x := s.Candidates[0]
	w.write(x.Path, w.read(x.Path)+fmt.Sprintf("\n> To settle: here %q, and in [[%s]] %q.\n", x.Says, strings.TrimSuffix(filepath.Base(x.Other), ".md"), x.OtherSays))
	w.git("commit", "-qam", "noted")
	if s, err = tidy.Scan(t.Context(), l, at); err != nil || len(s.Candidates) > 0 {
		t.Errorf("got %+v, %v", s.Candidates, err)
	}
}
