package claudecli_test

import (
	"os"
	"testing"

	"github.com/parley-server/parley/internal/runtime/claudecli/claudetest"
	sim "github.com/parley-server/parley/internal/sim/claudecli"
)

func TestMain(m *testing.M) {
	sim.Main() // this binary is also the stand-in for the CLI, and a server
	claudetest.Main()
	os.Exit(m.Run())
}

// standIn makes an executable that does what the model says.
func standIn(t testing.TB) string { return playing(t, sim.Play{}) }

// playing makes an executable that does what the model says, with what the plays say of each start.
func playing(t testing.TB, plays ...sim.Play) string {
	t.Helper()
	for i := range plays {
		plays[i].Transcript, plays[i].Live, plays[i].Effects = "03-permission-allow", true, true
	}
	path, err := sim.Install(t.TempDir(), plays...)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFlows: what sessions do with a CLI, with the stand-in. `make test-claude` has the real one.
func TestFlows(t *testing.T) {
	t.Parallel()
	claudetest.Flows(t, claudetest.CLI{Path: standIn, Play: playing})
}

// TestKilled: kill -9 of the server, and of the server and the stand-in.
func TestKilled(t *testing.T) {
	t.Parallel()
	claudetest.Killed(t, claudetest.CLI{Path: standIn, Play: playing})
}
