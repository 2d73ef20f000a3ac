package program

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/apps"
	"github.com/parley-server/parley/client"
)

// TestSweep_archives_what_it_condenses: the data folder keeps what a ttl removes from a log,
// until the session is deleted.
func TestSweep_archives_what_it_condenses(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	own := filepath.Join(p.dir, "apps", "chaos")
	chaos, err := fs.Sub(apps.FS(), "chaos")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(own, chaos); err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(own, "app.yaml")
	text, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(settings, append(text, "\nttl:\n  turn_steps: 1ms\n  ended: 1h\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	with := []string{"--apps", filepath.Dir(own)}
	p.must(append([]string{"run", question1, "--app", "chaos"}, with...)...)
	var got client.Swept
	if err := json.Unmarshal([]byte(p.must(append([]string{"session", "sweep", "--json"}, with...)...)), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(client.Swept{Condensed: 1}, got); diff != "" {
		t.Errorf("the sweep (-want +got):\n%s", diff)
	}
	kept, _ := filepath.Glob(filepath.Join(p.data, "archive", "*", "1-*.ndjson.gz"))
	if len(kept) != 1 {
		t.Fatalf("got %v in the archive, want one file", kept)
	}
	if out := p.must("session", "show", "last"); !strings.Contains(out, "Google OAuth") {
		t.Errorf("the visible text is gone:\n%s", out)
	}
	if out := p.must(append([]string{"session", "sweep"}, with...)...); out != "0 expired, 0 condensed, 0 deleted\n" {
		t.Errorf("a second sweep: %q", out)
	}
	log := p.must("session", "events", "last")
	if !strings.Contains(log, `"condensed":true`) {
		t.Errorf("the log is whole:\n%s", log)
	}
	// An export has the whole log: it can be replayed, and imported into another server.
	file := filepath.Join(t.TempDir(), "s.zip")
	p.must("session", "export", "last", "-o", file)
	if out := p.must(append([]string{"session", "replay", file}, with...)...); !strings.Contains(out, "There is no difference.") {
		t.Errorf("run again: %s", out)
	}
	id := strings.TrimSpace(p.must(append([]string{"session", "import", file}, with...)...))
	if log := p.must("session", "events", id); strings.Contains(log, `"condensed":true`) || !strings.Contains(log, `"model.replied"`) {
		t.Errorf("the log of an import:\n%s", log)
	}
	if err := json.Unmarshal([]byte(p.must(append([]string{"session", "sweep", "--json"}, with...)...)), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(client.Swept{Condensed: 1}, got); diff != "" {
		t.Errorf("the sweep of an import (-want +got):\n%s", diff)
	}
	p.must("session", "delete", id)
	p.must("session", "delete", "last")
	if _, err := os.Stat(filepath.Dir(kept[0])); !os.IsNotExist(err) {
		t.Errorf("the archive of a deleted session: got %v, want that it is gone", err)
	}
}
