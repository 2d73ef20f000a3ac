package replay_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/replay"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

// vast is the test's model with a window that holds the whole session.
type vast struct{ enginetest.Models }

func (v vast) Model(name string) (seam.Model, error) {
	m, err := v.Models.Model(name)
	return vastModel{m}, err
}

type vastModel struct{ seam.Model }

func (m vastModel) Info() seam.ModelInfo {
	info := m.Model.Info()
	info.ContextTokens = 2_000_000
	return info
}

// things is the test's service. It reports what its calls are about.
type things struct{ *enginetest.Service }

func (s things) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	res, err := s.Service.Run(ctx, r)
	res.About = []string{"thing." + r.Name}
	return res, err
}

func (things) Retrieve(_ context.Context, _ parley.Principal, _ string, about []string, _ int) (found []parley.Snippet, _ error) {
	for _, id := range about {
		found = append(found, parley.Snippet{Source: "things", Ref: id, Text: "is shut", Pinned: true})
	}
	return found, nil
}

// TestReplayOfWhatIsRemembered: with a large model, the replay of a session sees as much of the log as
// the recorded run did. It also sees the same snippets about the things of earlier turns.
func TestReplayOfWhatIsRemembered(t *testing.T) {
	t.Parallel()
	model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if strings.HasPrefix(enginetest.Last(r), "look") && len(enginetest.Results(r)) == 0 {
			return seam.Reply{Parts: []parley.Part{enginetest.Call("look", map[string]string{"text": "x"})}}, nil
		}
		say("yes")
		return seam.Reply{}, nil
	}
	app := enginetest.App(func(a *parley.App) {
		a.Memory = parley.MemoryOptions{LastK: 2, SummaryTokens: 100, Retrieve: true}
	})
	r := enginetest.New(t, model, app, func(o *engine.Options) {
		box, err := toolbox.New([]seam.Toolset{things{&enginetest.Service{}}}, toolbox.Options{})
		if err != nil {
			t.Fatal(err)
		}
		v := vast{enginetest.Models{F: model}}
		o.Tools, o.Models, o.Runtimes = map[string]*toolbox.Box{"test": box}, v, enginetest.Loop(v)
	})
	defer r.Close()
	s := r.Session()
	for n := range 6 {
		r.Await(r.Send(s.ID, fmt.Sprint([]string{"look ", "words "}[n%2], n)).ID)
	}
	rec := recording(t, r, s.ID)
	same(t, rec)
	var kept []string
	for _, ev := range again(t, rec, replay.Options{}).Events {
		p, err := ev.Payload()
		if err != nil {
			t.Fatal(err)
		}
		switch p := p.(type) {
		case parley.ContextRetrieved:
			kept = append(kept, fmt.Sprint(p.Snippets))
		case parley.MemoryUpdated:
			kept = append(kept, "condensed")
		}
	}
	pinned := "[{things thing.look is shut true}]"
	if diff := cmp.Diff([]string{"[]", pinned, pinned, pinned, pinned, pinned}, kept); diff != "" {
		t.Errorf("the run was given (-want +got):\n%s", diff)
	}
}
