package storetest

import (
	"context"
	"slices"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// condensed checks that condensing removes only the data of this session's steps, up to
// a number.
func condensed(t *testing.T, s seam.Store) {
	ctx := context.Background()
	w, other := newWorld(t, s, ann, "A"), newWorld(t, s, ann, "B")
	steps := []parley.EventType{"model.started", "model.replied", "tool.requested", "agent.started", "context.compacted", "turn.completed", "artifact.stored", "model.started"}
	var more []parley.Event
	for i, kind := range steps {
		more = append(more, event(w.id, 4+int64(i), kind, `{"x":1}`))
	}
	must(t, s.Append(ctx, ann, seam.Batch{Session: w.id, Epoch: 1, After: 3, Events: more}))
	theirs := slices.Clone(more)
	for i := range theirs {
		theirs[i].Session = other.id
	}
	must(t, s.Append(ctx, ann, seam.Batch{Session: other.id, Epoch: 1, After: 3, Events: theirs}))

	list := func() []parley.SessionInfo {
		all, err := s.Sessions(ctx, ann, seam.SessionQuery{})
		must(t, err)
		for i := range all {
			all[i].Version = 0 // the log's length
		}
		return all
	}
	listed := list()
	last := event(w.id, 12, "history.condensed", `{"from":1,"to":10}`)
	must(t, s.Append(ctx, ann, seam.Batch{Session: w.id, Epoch: 1, After: 11, Events: []parley.Event{last}, Condense: 10}))
	want := append(slices.Clone(w.events), more...)
	for i, e := range want {
		if e.Seq <= 10 && parley.IsStep(e.Type) {
			want[i] = e.WithData(nil)
		}
	}
	equal(t, "the log", readAll(t, s, ann, w.id), append(want, last))
	equal(t, "the list, in its order", list(), listed)
	equal(t, "another's log", readAll(t, s, ann, other.id), append(slices.Clone(other.events), theirs...))

	fenced := seam.Batch{Session: w.id, Epoch: 9, After: 12, Events: steered(w.id, 13, 1), Condense: 12}
	if err := s.Append(ctx, ann, fenced); parley.CodeOf(err) != parley.CodeFenced {
		t.Errorf("a stale epoch: %v", err)
	}
	equal(t, "the log after a refusal", readAll(t, s, ann, w.id), append(want, last))
}
