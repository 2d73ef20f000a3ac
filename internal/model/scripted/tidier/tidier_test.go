package tidier_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/model/scripted/dialog"
	"github.com/parley-server/parley/internal/model/scripted/tidier"
	"github.com/parley-server/parley/internal/seam"
	tool "github.com/parley-server/parley/internal/tool/tidy"
)

// lakes are those of testdata/lakes, and how many of their contradictions are found.
var lakes = []struct {
	name string
	want int
}{
	{"library", 10},
	{"bakery", 2},
	{"climbing", 4},
	{"ward", 4},
	{"software", 4},
	{"shipyard", 4},
	{"school", 3},
	{"hotel", 4},
	{"farm", 3},
	{"theatre", 5},
	{"clinic", 3},
	{"ferry", 5},
	{"allotment", 2},
	{"lawoffice", 3},
	{"firebrigade", 3},
	{"observatory", 1},
}

// TestLakes: the agent without a provider looks through lakes of many fields, by its tools alone. Each has pages that contradict each other,
// and others that only look so: it finds most of the first, and none of the others.
func TestLakes(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git program")
	}
	for _, tc := range lakes {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ar, err := txtar.ParseFile(filepath.Join("testdata", "lakes", tc.name+".txtar"))
			if err != nil {
				t.Fatal(err)
			}
			dir, whole := lay(t, ar)
			// Pairs of parts of statements: those that contradict each other, and those that only look so.
			var denied [][2]string
			for row := range strings.Lines(string(ar.Comment)) {
				kind, pair, _ := strings.Cut(strings.TrimSpace(row), ": ")
				a, b, two := strings.Cut(pair, " <> ")
				if !two || !strings.Contains(whole, a) || !strings.Contains(whole, b) {
					t.Fatalf("no such pair: %s", row)
				}
				if kind == "denies" {
					denied = append(denied, [2]string{a, b})
				}
			}
			judged, pairs := look(t, dir)
			found := map[int]bool{}
			for _, j := range judged {
				one, _ := j.(map[string]any)
				_, text, _ := strings.Cut(pairs, fmt.Sprint(one["id"]))
				text, _, _ = strings.Cut(text, "\n\n")
				which := slices.IndexFunc(denied, func(d [2]string) bool { return strings.Contains(text, d[0]) && strings.Contains(text, d[1]) })
				switch yes := one["contradicts"] == true; {
				case yes && which < 0:
					t.Errorf("a false alarm (%v):%s", one["why"], text)
				case yes:
					found[which] = true
				case which >= 0:
					t.Logf("not seen:%s", text)
				}
			}
			for i, d := range denied {
				if !found[i] {
					t.Logf("not found: %s <> %s", d[0], d[1])
				}
			}
			t.Logf("%d of %d contradictions in %d pairs", len(found), len(denied), len(judged))
			if len(found) < tc.want {
				t.Errorf("%d of %d contradictions are found, want %d", len(found), len(denied), tc.want)
			}
		})
	}
}

// lay makes a lake, and returns the text of all its pages on one line.
func lay(t *testing.T, ar *txtar.Archive) (dir, whole string) {
	t.Helper()
	dir = t.TempDir()
	var all strings.Builder
	for _, f := range ar.Files {
		at := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, f.Data, 0o600)); err != nil {
			t.Fatal(err)
		}
		all.Write(f.Data)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=Mia", "-c", "user.email=mia@example.com", "commit", "-q", "-m", "begin"}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	return dir, strings.Join(strings.Fields(all.String()), " ")
}

// look has the agent look through a lake until it has nothing more to call. It returns its judgements, and the pairs as it saw them.
func look(t *testing.T, dir string) (judged []any, pairs string) {
	t.Helper()
	lakes := lake.New(lake.Options{Private: t.TempDir()})
	t.Cleanup(func() { _ = lakes.Close() })
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	tools := tool.New(tool.Options{App: "test", Lakes: func() *lake.Lakes { return lakes }, Now: func() time.Time { return time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC) }})
	var results []dialog.Result
	for len(results) < 2 {
		reply := tidier.Answer(results)
		if len(reply.Calls) != 1 {
			t.Fatalf("got %+v after %d calls", reply, len(results))
		}
		c := reply.Calls[0]
		input, err := json.Marshal(c.Input)
		if err != nil {
			t.Fatal(err)
		}
		res, err := tools.Run(context.Background(), seam.Run{Name: c.Tool, Input: input, Call: parley.CallID(fmt.Sprint("c", len(results))), Workspace: func() (*os.Root, error) { return root, nil }})
		if err != nil || res.Outcome != parley.OutcomeOK {
			t.Fatalf("%s: %+v, %v", c.Tool, res, err)
		}
		if c.Tool == "tidy_scan" {
			_, pairs, _ = strings.Cut(res.Output, "Pairs to judge:")
		}
		results = append(results, dialog.Result{Tool: c.Tool, Input: c.Input, Output: res.Output})
	}
	if end := tidier.Answer(results); len(end.Calls) > 0 || end.Say == "" {
		t.Errorf("in the end: %+v", end)
	}
	judged, _ = results[1].Input["contradictions"].([]any)
	return judged, pairs
}

// TestBadInput: an input of a model that is no such object is refused, and proposes nothing.
func TestBadInput(t *testing.T) {
	t.Parallel()
	tools := tool.New(tool.Options{App: "test", Lakes: func() *lake.Lakes { return lake.New(lake.Options{Private: t.TempDir()}) }})
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	for _, input := range []string{``, `{`, `[]`, `{"contradictions":{}}`, `{"contradictions":[{"id":7}]}`, `{"contradictions":[{"id":"a","contradicts":"yes"}]}`, `{"findings":[]}`, `{} {}`} {
		res, err := tools.Run(t.Context(), seam.Run{Name: tool.NamePropose, Input: json.RawMessage(input), Call: "c", Workspace: func() (*os.Root, error) { return root, nil }})
		if err != nil || res.Outcome != parley.OutcomeError || res.Error.Code != parley.CodeInvalid {
			t.Errorf("%s: %+v, %v", input, res, err)
		}
	}
}
