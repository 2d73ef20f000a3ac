//go:build claude

package real_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parley-server/parley/internal/runtime/claudecli"
	"github.com/parley-server/parley/internal/runtime/claudecli/claudetest"
)

// cli is the executable.
func cli(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("node_modules")
	if err != nil {
		t.Fatal(err)
	}
	path, err := claudecli.Locate(claudecli.Where{Path: os.Getenv("PARLEY_TEST_CLAUDE"), NodeModules: dir})
	if err != nil {
		t.Fatalf("%v; run `make test-claude`, which installs it", err)
	}
	return path
}

// TestFlows: what sessions do with the real CLI.
func TestFlows(t *testing.T) {
	t.Parallel()
	claudetest.Flows(t, claudetest.CLI{Real: true, Path: cli})
}

func TestMain(m *testing.M) {
	claudetest.Main()
	os.Exit(m.Run())
}

// TestKilled: kill -9 of the server, and of the server and the CLI.
func TestKilled(t *testing.T) {
	t.Parallel()
	claudetest.Killed(t, claudetest.CLI{Real: true, Path: cli})
}
