package workspace_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/tool/workspace"
)

// twice is the tools over one folder, with rg and without it.
func twice(t *testing.T) (with, without *desk) {
	t.Helper()
	if _, err := exec.LookPath("rg"); err != nil {
		t.Skip("ripgrep is not installed")
	}
	with = newDesk(t, nil)
	own := *with
	own.tools = workspace.New(workspace.Options{Checkpoints: func() *checkpoint.Store { return own.checks }, NoRipgrep: true})
	return with, &own
}

// TestRipgrepSame: over random trees and expressions, Grep says the same with rg and without it:
// with ignored and hidden files, links, bytes that are no text, and cases that fold oddly.
func TestRipgrepSame(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 11))
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	words := []string{
		"alpha", "Alpha", "ALPHA", "beta", "straße", "STRASSE", "Größe", "größe", "\u212aelvin", "kelvin", "KELVIN", "\u017fun", "sun", "αβγ", "ΑΒΓ", "a.b", "x\ry", "nul\x00byte", "bad\xffbyte", "\ufeffbom",
		"\ufffd", "foo(bar)", "tab\there", "日本語", "one two", "--flag", "-e", "", "aaaa", "abab",
	}
	ends := []string{"\n", "\n", "\r\n", "\n\n", "", " "}
	names := []string{"a.md", "b.md", "C.TXT", ".hidden", "x.log", "ö.md", "with space.md", "-dash.md", "new\nline.md", "back\\slash.md", "bad\xff.md", "deep.go"}
	dirs := []string{".", "sub", "sub/deep", "node_modules", "node_modules/p", ".dot", ".git", "sub/.git", "build", "-d"}
	exprs := []string{
		"alpha", "(?i)alpha", "straße", "(?i)strasse", "(?i)größe", "(?i)kelvin", "kelvin", "(?i)sun", "αβγ", "(?i)αβγ", `a\.b`, "x.?y", "x\\ry", "nul.byte", "bad.byte", "\ufffd", "\ufeffbom", `foo\(bar\)`,
		"alpha|beta", "alpha|b.", "(alpha|beta)+ ?", "(?:ab){2}", "a{3}", "^alpha$", "alpha$", "^$", ".", `\bsun\b`, `\w+日`, "日本", "--flag", "^-e$", "al(ph)a", "al(?:ph|xy)a", "[a-c]lpha", "alpha\nbeta", `alpha\s+beta`, "(?s)alpha.beta",
		"x*alpha?", "one (two|three)", "(?i)ALPHA|straße", "a(?:lp|zz)?ha", "tab\there", `tab\there`, "abc|abd|abe", "(?i:al)pha", `\Aalpha`, `beta\z`, "", "(",
	}
	for tree := range 12 {
		with, without := twice(t)
		for range 40 {
			var body strings.Builder
			for range random.IntN(12) {
				body.WriteString(pick(words) + pick(ends))
			}
			with.put(filepath.Join(pick(dirs), pick(names)), body.String())
		}
		with.put(".gitignore", "node_modules/\n*.log\n/build\n")
		with.put("sub/.ignore", "b.md\n")
		with.put("utf16.md", "\xff\xfea\x00l\x00p\x00h\x00a\x00")
		for at, to := range map[string]string{"link.md": "a.md", "sub/up": "..", "out": os.TempDir()} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(with.dir, at)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(to, filepath.Join(with.dir, at)); err != nil {
				t.Fatal(err)
			}
		}
		for _, e := range exprs {
			q := in{"pattern": e, "output_mode": pick([]string{"content", "count", "files_with_matches"}), "head_limit": 0, "-i": random.IntN(4) == 0, "multiline": random.IntN(3) == 0}
			if random.IntN(3) == 0 {
				q["glob"] = pick([]string{"*.md", "!*.md", "**/.hidden", ".dot/*", "sub/**"})
			}
			if random.IntN(3) == 0 {
				q["path"] = pick(append([]string{"a.md", "nowhere", "out", "sub/up"}, dirs...))
			}
			if a, b := with.run("Grep", q), without.run("Grep", q); a.Output != b.Output || a.Outcome != b.Outcome {
				t.Errorf("tree %d, %v: with rg\n%q\nwithout\n%q", tree, q, a.Output, b.Output)
			}
		}
	}
}

// TestRipgrepRaces: while the folder that is searched is swapped for a link to another all the time,
// nothing of the other is in a result.
func TestRipgrepRaces(t *testing.T) {
	t.Parallel()
	with, _ := twice(t)
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "secret.md"), []byte("needle SECRET"), 0o644); err != nil {
		t.Fatal(err)
	}
	with.put("sub/mine.md", "needle mine")
	if err := os.Symlink(other, filepath.Join(with.dir, "fake")); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		sub, fake := filepath.Join(with.dir, "sub"), filepath.Join(with.dir, "fake")
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(sub, sub+"2")
			_ = os.Rename(fake, sub)
			_ = os.Rename(sub, fake)
			_ = os.Rename(sub+"2", sub)
		}
	})
	found := 0
	for n := range 60 {
		res := with.run("Grep", in{"pattern": "needle", "output_mode": "content", "path": []string{".", "sub"}[n%2]})
		if strings.Contains(res.Output, "SECRET") || strings.Contains(res.Output, "secret") {
			t.Fatalf("it found what is outside: %s", res.Output)
		}
		if strings.Contains(res.Output, "mine") {
			found++
		}
	}
	close(stop)
	wg.Wait()
	t.Logf("%d of 60 found the file", found)
}

func TestRequired(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		"alpha": `["alpha"] false`, "(?i)alpha": `["ALPHA"] true`, "a.b": "", "alpha|beta": `["alpha" "beta"] false`, "alpha|b.": "", "(x|alpha)+y": "", "ab.*cdef": `["cdef"] false`,
		"(?i)größe": "", "größe": `["größe"] false`, "\ufffdab": "", "a\nbc": "", "(?:needle)?": "", "(?:needle){0,3}": "", "(?:needle){2,3}": `["needle"] false`, "[ab]": "", "(": "",
	} {
		got := ""
		if texts, fold, ok := workspace.Required(expr); ok {
			slices.Sort(texts)
			got = fmt.Sprintf("%q %v", texts, fold)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", expr, got, want)
		}
	}
}
