package company_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/sim/company"
)

// TestPlanted: the lakes have what their lists say, the whole of it once.
func TestPlanted(t *testing.T) {
	t.Parallel()
	full, err := company.Full(company.Reference)
	if err != nil {
		t.Fatal(err)
	}
	demo, err := company.Demo(company.Reference)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(full.Files()); n < 280 {
		t.Errorf("the lake for tests has %d pages", n)
	}
	if n := len(demo.Files()); n < 200 || n > 230 {
		t.Errorf("the demo's lake has %d pages", n)
	}
	kinds := map[company.Kind]int{}
	for _, f := range full.Faults {
		kinds[f.Kind]++
		if full.Files()[f.Path] == "" || f.Other != "" && full.Files()[f.Other] == "" || f.Why == "" {
			t.Errorf("a fault of a page that is not there: %+v", f)
		}
	}
	want := map[company.Kind]int{
		company.BrokenLink: 14, company.FrontMatter: 10, company.Duplicate: 9, company.Orphan: 9, company.Stale: 9, company.Contradiction: 9,
	}
	if diff := cmp.Diff(want, kinds); diff != "" || len(full.Faults) != 60 || len(full.Traps) != 20 {
		t.Errorf("%d faults, %d traps (-want +got):\n%s", len(full.Faults), len(full.Traps), diff)
	}
	if len(demo.Faults) < 9 || len(demo.Traps) < 4 {
		t.Errorf("the demo has %d faults and %d traps", len(demo.Faults), len(demo.Traps))
	}
	for _, tr := range full.Traps {
		if full.Files()[tr.Path] == "" || tr.Other != "" && full.Files()[tr.Other] == "" || tr.Why == "" {
			t.Errorf("a trap of a page that is not there: %+v", tr)
		}
	}
}

var link = regexp.MustCompile(`\[\[([^\]|#]+)`)

// TestOnlyPlanted: nothing is wrong in the lakes but what was planted: every link leads somewhere, every page is
// linked to, has front matter, and is not too old.
func TestOnlyPlanted(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(time.Time) (*company.Lake, error){"demo": company.Demo, "full": company.Full} {
		l, err := make(company.Reference)
		if err != nil {
			t.Fatal(err)
		}
		files := l.Files()
		planted := map[string]company.Kind{}
		for _, f := range l.Faults {
			planted[f.Path] = f.Kind
		}
		bySlug := map[string]string{}
		for p := range files {
			slug := strings.ToLower(strings.TrimSuffix(path.Base(p), ".md"))
			if other := bySlug[slug]; other != "" {
				t.Errorf("%s: %s and %s have one name", name, p, other)
			}
			bySlug[slug] = p
		}
		linked := map[string]bool{"README.md": true}
		for p, text := range files {
			text = regexp.MustCompile("(?s)```.*?```|<!--.*?-->|`[^`\n]*`").ReplaceAllString(text, "")
			for _, m := range link.FindAllStringSubmatch(text, -1) {
				to := bySlug[strings.ToLower(path.Base(m[1]))]
				if to != "" && to != p {
					linked[to] = true
				}
				if to == "" && planted[p] != company.BrokenLink {
					t.Errorf("%s: %s links to %s", name, p, m[1])
				}
			}
		}
		for p, text := range files {
			if !linked[p] && planted[p] != company.Orphan && p != "INDEX.md" && p != "lake/shelf count.md" {
				t.Errorf("%s: nothing links to %s", name, p)
			}
			if linked[p] && planted[p] == company.Orphan {
				t.Errorf("%s: %s is linked to", name, p)
			}
			if planted[p] != company.FrontMatter && (!strings.HasPrefix(text, "---\ntitle: ") || !strings.Contains(text, "\nowner: ") || !strings.Contains(text, "\ncreated: ")) {
				t.Errorf("%s: %s begins with\n%.200s", name, p, text)
			}
			if m := regexp.MustCompile(`\nkind: (role|doc|product|customer|project|person|term)\n(?s:.*?)updated: (\S+)\nstatus: (active|pilot|draft|paused)`).FindStringSubmatch(text); m != nil && m[2] < "2025-11-27" && planted[p] != company.Stale {
				t.Errorf("%s: %s was last looked at on %s", name, p, m[2])
			}
		}
	}
}

// TestDays: the lake's last week is the one before now, whenever that is.
func TestDays(t *testing.T) {
	t.Parallel()
	for _, days := range []int{-400, -1, 0, 3, 6, 7, 1000} {
		now := company.Reference.AddDate(0, 0, days)
		l, err := company.Demo(now)
		if err != nil {
			t.Fatal(err)
		}
		last := l.Commits[len(l.Commits)-1].At
		if age := now.Sub(last); age < 0 || age > 10*24*time.Hour {
			t.Errorf("%v days later the last commit is %v old", days, age)
		}
		for i, c := range l.Commits {
			if i > 0 && c.At.Before(l.Commits[i-1].At.Truncate(24*time.Hour)) {
				t.Errorf("commit %d is of %v, and the one before it of %v", i, c.At, l.Commits[i-1].At)
			}
		}
	}
}

// TestLay: the lake is a git repository with the history, which says the same each time.
func TestLay(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git program")
	}
	l, err := company.Full(company.Reference)
	if err != nil {
		t.Fatal(err)
	}
	var heads []string
	for range 2 {
		dir := filepath.Join(t.TempDir(), "lake")
		if err := l.Lay(t.Context(), dir, git); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), git, "-C", dir, "rev-parse", "HEAD").Output()
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, string(out))
		status, err := exec.CommandContext(t.Context(), git, "-C", dir, "status", "--porcelain").Output()
		if err != nil || len(status) > 0 {
			t.Errorf("git status: %v\n%s", err, status)
		}
		for name, want := range l.Files() {
			got, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || string(got) != want {
				t.Fatalf("%s: %v\n%s", name, err, cmp.Diff(want, string(got)))
			}
		}
		if err := l.Lay(t.Context(), dir, git); err != nil { // it is there already
			t.Error(err)
		}
	}
	if heads[0] != heads[1] {
		t.Errorf("the commits differ: %q", heads)
	}
	plain := filepath.Join(t.TempDir(), "lake")
	if err := l.Lay(t.Context(), plain, ""); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(plain, "README.md")); err != nil || string(got) != l.Files()["README.md"] {
		t.Errorf("without git: %v", err)
	}
}
