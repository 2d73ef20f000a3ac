package tidier_test

import (
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

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/model/scripted/dialog"
	"github.com/parley-server/parley/internal/model/scripted/tidier"
	"github.com/parley-server/parley/internal/seam"
	tool "github.com/parley-server/parley/internal/tool/tidy"
)

// library are the pages of a town library's lake, in a folder's order. It has nothing to do with the lake of the demo.
var library = map[string]string{
	"README.md": "# Library\n\nSee [[loans]], [[reading-room]], [[fees]], [[rooms]], [[staff]], [[printing]], [[mobile-library]], [[donations]], [[archive]], [[children]], [[events]], [[heating]], [[bakery-fair]], [[loans-2019]], [[new-fees]].\n",
	// Each of these says once what another page denies.
	"docs/loans.md":           "Books are lent for 28 days. A reader may borrow 12 items at once. A reserved book waits 7 days at the desk.",
	"docs/desk-guide.md":      "Tell new readers that books are lent for 21 days. Reserved books wait at the desk for 10 days.",
	"docs/welcome-leaflet.md": "A reader may borrow 8 items at once. The yearly card costs € 24.",
	"docs/fees.md":            "The yearly card costs € 30. A lost card costs € 5 to replace. Each late day costs € 0.20 for a book.",
	"docs/faq.md":             "To replace a lost card costs € 8.",
	"docs/reading-room.md":    "The reading room opens at 09:00. The reading room has 48 seats.",
	"docs/rooms.md":           "Reading room: 52 seats, two lifts. The vault stays at 16 degrees.",
	"docs/printing.md":        "A page in colour costs € 0.40. The printer room closes at 18:00.",
	"lake/building-tour.md":   "We begin in the reading room, which opens at 10:00. The printer room closes at 17:30.",
	"lake/archive.md":         "The vault stays at 14 degrees. The vault holds 3100 maps.",
	"lake/mobile-library.md":  "The bus stops in Oldham every 14 days.",
	"lake/oldham.md":          "The bus stops in Oldham every 21 days.",
	// These only look so.
	"lake/loans-2019.md":  "In 2019 books were lent for 14 days.",
	"lake/new-fees.md":    "Proposed: the yearly card costs € 36.",
	"lake/children.md":    "Children may borrow 20 items at once. In winter the reading room opens at 11:00.",
	"lake/donations.md":   "They want books to be lent for 60 days. A donor gave 4100 maps.",
	"lake/heating.md":     "The boiler stays at 70 degrees. The vault was at 19 degrees on 2026-07-02.",
	"lake/events.md":      "The reading room has 30 seats left for the talk on 2026-11-05. On Sundays the printer room closes at 13:00.",
	"lake/bakery-fair.md": "A page in the fair's booklet costs € 55. - [ ] Ask for 60 seats in the reading room",
	"lake/staff.md":       "Two of 14 people work at the desk. If the vault is open, it stays at 18 degrees for 2 days.",
}

// denied are the contradictions of the library, by a part of each statement.
var denied = [][2]string{
	{"Books are lent for 28 days", "books are lent for 21 days"},
	{"borrow 12 items", "borrow 8 items"},
	{"waits 7 days", "wait at the desk for 10 days"},
	{"costs € 30", "costs € 24"},
	{"lost card costs € 5", "lost card costs € 8"},
	{"opens at 09:00", "opens at 10:00"},
	{"48 seats", "52 seats"},
	{"closes at 18:00", "closes at 17:30"},
	{"at 16 degrees", "at 14 degrees"},
	{"every 14 days", "every 21 days"},
}

// TestJudgesAnotherLake: the agent without a provider looks through a lake of another field, by its tools alone. The lake was written after the rules, and made us change one.
func TestJudgesAnotherLake(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range library {
		at := filepath.Join(dir, filepath.FromSlash(name))
		title := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(name), ".md"), "-", " ")
		body := text
		if name != "README.md" {
			body = fmt.Sprintf("---\ntitle: %s\nkind: doc\nowner: mia\ncreated: 2026-03-01\n---\n# %s\n\n%s\n", title, title, strings.ReplaceAll(text, ". ", ".\n\n"))
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(body), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=Mia", "-c", "user.email=mia@example.com", "commit", "-q", "-m", "begin"}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	lakes := lake.New(lake.Options{Private: t.TempDir()})
	t.Cleanup(func() { _ = lakes.Close() })
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	tools := tool.New(tool.Options{App: "test", Lakes: func() *lake.Lakes { return lakes }, Now: func() time.Time { return time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC) }})
	var results []dialog.Result
	var pairs string
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
		res, err := tools.Run(t.Context(), seam.Run{Name: c.Tool, Input: input, Call: parley.CallID(fmt.Sprint("c", len(results))), Workspace: func() (*os.Root, error) { return root, nil }})
		if err != nil || res.Outcome != parley.OutcomeOK {
			t.Fatalf("%s: %+v, %v", c.Tool, res, err)
		}
		if c.Tool == "tidy_scan" {
			_, pairs, _ = strings.Cut(res.Output, "Pairs to judge:")
		}
		results = append(results, dialog.Result{Tool: c.Tool, Input: c.Input, Output: res.Output})
	}
	if end := tidier.Answer(results); len(end.Calls) > 0 || !strings.Contains(end.Say, "proposal") {
		t.Errorf("in the end: %+v", end)
	}
	found := map[int]bool{}
	judged, _ := results[1].Input["contradictions"].([]any)
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
	t.Logf("%d of %d contradictions in %d pairs", len(found), len(denied), len(judged))
	if len(found) < 9 {
		t.Errorf("%d of %d contradictions are found:%s", len(found), len(denied), pairs)
	}
}
