package major

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/sim/company"
	"github.com/parley-server/parley/internal/tidy"
	"github.com/parley-server/parley/internal/workspace"
)

// TestDemoProposal: in the demo's lake a proposal waits, with what was planted there, and is not made again.
func TestDemoProposal(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git program")
	}
	s := &config.Settings{WorkspacesDir: t.TempDir()}
	now := time.Now()
	if err := LayLake(t.Context(), s, git, now); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := layProposal(t.Context(), s, now); err != nil {
			t.Fatal(err)
		}
	}
	l, err := lake.Open(t.Context(), filepath.Join(s.WorkspacesRoot(), workspace.UserFolder(parley.Local), "lake"), lake.Options{Private: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // the test is over
	list, _, err := tidy.Page(t.Context(), l, "", 100)
	if err != nil || len(list) != 1 {
		t.Fatalf("got %+v, %v", list, err)
	}
	p, err := tidy.Read(t.Context(), l, list[0].ID, "")
	if err != nil {
		t.Fatal(err)
	}
	planted, err := company.Demo(now)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range planted.Faults {
		found := false
		for _, x := range p.Findings {
			found = found || x.Kind == string(f.Kind) && (x.Path == f.Path || x.Other == f.Path) && x.Status == parley.FindingOpen
		}
		if !found {
			t.Errorf("not in the proposal: %s %s", f.Kind, f.Path)
		}
	}
}
