package replay

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// rewind rewinds the run's session as that of the recording was by its event seq.
func (r *runner) rewind(ctx context.Context, seq int64, p parley.SessionRewound) error {
	c := parley.RewindSession{Turn: r.began[p.Turn], What: p.What}
	if p.Undoes != 0 {
		c = parley.RewindSession{Undo: r.rewinds[p.Undoes]}
	}
	if c.Turn == "" && c.Undo == 0 {
		return parley.Errorf(parley.CodeInvalid, "it rewinds to something that the run does not have")
	}
	set := func(p *parley.SessionRewound) {
		r.stage.mu.Lock()
		defer r.stage.mu.Unlock()
		r.stage.rewound = p
	}
	r.stage.changed, r.stage.inputs = r.changing()
	set(&p)
	defer set(nil)
	did, err := r.engine.Rewind(ctx, r.who, r.id, c)
	if err == nil {
		did, err = r.engine.AwaitRewind(ctx, r.who, r.id, did.ID)
	}
	if err == nil {
		r.rewinds[seq] = did.Seq
	}
	return err
}

// changing are the recorded calls that changed files, and the inputs of all calls.
func (r *runner) changing() (list []parley.CallID, inputs map[parley.CallID]json.RawMessage) {
	inputs = map[parley.CallID]json.RawMessage{}
	for _, ev := range r.rec.Events {
		pay, err := ev.Payload()
		if err != nil {
			continue // New has looked
		}
		switch p := pay.(type) {
		case parley.FilesAnnounced:
			list = append(list, p.Call)
		case parley.FilesSaved:
			list = append(list, p.Call)
		case parley.ToolStarted:
			inputs[p.Call] = p.Input
		}
	}
	return list, inputs
}

// A run has no files. What became of them in a rewind is as recorded.

// Plan implements seam.Restorer.
func (s *stage) Plan(context.Context, seam.Restoration) (seam.Restored, error) {
	out := s.restored()
	if s.recorded().What == parley.RewindFiles && len(out.Files) > 0 {
		out.Files[0].Outcome = parley.FileRestored // it was planned, whatever came of it
	}
	return out, nil
}

// Restore implements seam.Restorer.
func (s *stage) Restore(context.Context, seam.Restoration) (seam.Restored, error) {
	return s.restored(), nil
}

func (s *stage) recorded() parley.SessionRewound {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rewound == nil {
		return parley.SessionRewound{}
	}
	return *s.rewound
}

func (s *stage) restored() seam.Restored {
	p := s.recorded()
	out := seam.Restored{Files: slices.Clone(p.Files), Known: map[parley.CallID]bool{}}
	for range p.FilesMore {
		out.Files = append(out.Files, p.Files[len(p.Files)-1])
	}
	left := map[parley.CallID]bool{}
	for _, e := range p.Effects {
		left[e.Call] = true
	}
	for _, call := range s.changed {
		if !left[call] {
			out.Known[parley.CallID(s.ids.text(string(call)))] = true
		}
	}
	return out
}

// Unsee implements seam.Restorer.
func (*stage) Unsee(context.Context, parley.SessionID) error { return nil }

// Begin implements seam.Restorer.
func (*stage) Begin(context.Context, parley.SessionID) error { return nil }

// Done implements seam.Restorer.
func (*stage) Done(context.Context, parley.SessionID) error { return nil }

// Unfinished implements seam.Restorer.
func (*stage) Unfinished(context.Context) ([]parley.SessionID, error) { return nil, nil }

// wordsFor are the recorded words for a call with effects that a rewind left. The caller holds the lock.
func (s *stage) wordsFor(tool string, input json.RawMessage) string {
	for _, e := range s.rewound.Effects {
		if e.Tool == tool && s.ids.same(s.inputs[e.Call], input) {
			return e.Text
		}
	}
	return ""
}
