package home_test

import (
	"context"
	"io/fs"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// TestCompaction_when_more_than_lastK_turns_are_unsummarised: with home's memory settings,
// older turns are compacted as soon as more than six are not in a summary. Enough turns for six
// messages stay whole.
func TestCompaction_when_more_than_lastK_turns_are_unsummarised(t *testing.T) {
	t.Parallel()
	settings, err := config.Load(config.From{Env: func(name string) (string, bool) {
		on := map[string]string{"PARLEY_ENABLED": "home", "PARLEY_DATA": t.TempDir()}
		v, ok := on[name]
		return v, ok
	}})
	if err != nil {
		t.Fatal(err)
	}
	list, err := settings.LoadApps([]fs.FS{apps.FS()}, config.Known{})
	if err != nil {
		t.Fatal(err)
	}
	memory := list[0].Memory
	memory.Retrieve = false // there is no house here
	model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if r.Agent == parley.MemoryAgent {
			say(`{"summary":"They talked.","facts":[]}`)
			return seam.Reply{}, nil
		}
		return enginetest.Echo(ctx, r, say)
	}
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, model, enginetest.App(func(a *parley.App) { a.Memory = memory }))
		defer r.Close()
		id := r.Session().ID
		turns := map[parley.TurnID]int{}
		for n := range 16 {
			turn := r.Await(r.Send(id, "hello").ID)
			turns[turn.ID] = n + 1
		}
		type condensed struct{ In, Turns int }
		var got []condensed
		for _, e := range r.Log(id) {
			p, err := e.Payload()
			if err != nil {
				t.Fatal(err)
			}
			if m, ok := p.(parley.MemoryUpdated); ok {
				got = append(got, condensed{turns[e.Turn], m.Dropped})
			}
		}
		// Turn 8 has seven such turns, of which three stay; turn 12 has seven again.
		if diff := cmp.Diff([]condensed{{8, 4}, {12, 4}, {16, 4}}, got); diff != "" {
			t.Errorf("turns that compacted memory, with the number of turns compacted (-want +got):\n%s", diff)
		}
	})
}
