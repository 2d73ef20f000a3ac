package replay_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/replay"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

// desk is a toolset of entities that say something else each time.
type desk struct {
	*enginetest.Service
	reads int
}

func (d *desk) Attached(_ context.Context, list []parley.EntityRef) (found []parley.AttachedEntity) {
	d.reads++
	for _, r := range list {
		found = append(found, parley.AttachedEntity{EntityRef: r, Version: "v", Text: fmt.Sprint("as of read ", d.reads)})
	}
	return found
}

// TestReplayOfAttached: a replay shows what the recorded turns showed of attached entities, and the
// conversation that the session continued, whatever the files say now.
func TestReplayOfAttached(t *testing.T) {
	t.Parallel()
	r := enginetest.New(t, enginetest.Echo, enginetest.App(), func(o *engine.Options) {
		box, err := toolbox.New([]seam.Toolset{&desk{Service: &enginetest.Service{}}}, toolbox.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o.Tools = map[string]*toolbox.Box{"test": box}
	})
	defer r.Close()
	s := r.Session(func(c *parley.CreateSession) {
		c.History = []parley.HistoryMessage{{Role: parley.RoleUser, Content: "one"}, {Role: parley.RoleAssistant, Content: "1"}}
		c.AttachedEntities = []parley.EntityRef{{Path: "a.md"}}
		c.MaxBudgetUSD = 3
	})
	r.Await(r.Send(s.ID, "two").ID)
	list := []parley.EntityRef{{Path: "b.md"}}
	if _, err := r.Engine.Update(t.Context(), enginetest.User, s.ID, parley.UpdateSession{AttachedEntities: &list}); err != nil {
		t.Fatal(err)
	}
	r.Await(r.Send(s.ID, "three").ID)
	rec := recording(t, r, s.ID)
	same(t, rec)
	var got []string
	for _, ev := range again(t, rec, replay.Options{}).Events {
		p, err := ev.Payload()
		if err != nil {
			t.Fatal(err)
		}
		switch p := p.(type) {
		case parley.HistoryRestored:
			got = append(got, p.User+" "+p.Reply)
		case parley.ContextRetrieved:
			for _, e := range p.Entities {
				got = append(got, e.Path+" "+e.Text)
			}
		}
	}
	if diff := cmp.Diff([]string{"one 1", "a.md as of read 1", "b.md as of read 2"}, got); diff != "" {
		t.Errorf("the replay has (-want +got):\n%s", diff)
	}
}
