package engine

import (
	"context"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// maxTokens is more than anybody uses in a session. Sums of it do not overflow.
const maxTokens = 1e15

// indexed makes the index rows of a whole log. It finds rows by their ids, so that it takes time in
// proportion to the log.
type indexed struct {
	seam.Index
	turns        map[parley.TurnID]int
	interactions map[parley.InteractionID]int
}

// indexAll folds a log into s and returns its rows. It stops when ctx ends.
func indexAll(ctx context.Context, s *parley.Session, events []parley.Event) (seam.Index, error) {
	x := indexed{turns: map[parley.TurnID]int{}, interactions: map[parley.InteractionID]int{}}
	for _, ev := range events {
		if err := ctx.Err(); err != nil {
			return x.Index, context.Cause(ctx)
		}
		if starts := ev.Type == "turn.started" || ev.Type == "turn.queued"; starts && s.Status != parley.Active {
			return x.Index, parley.Errorf(parley.CodeInvalid, "event %d of the export begins a turn after the session's end", ev.Seq)
		}
		if err := x.apply(s, ev); err != nil {
			return x.Index, parley.Errorf(parley.CodeOf(err), "event %d of the export: %w", ev.Seq, err)
		}
		if u := s.Totals.Usage; min(u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens, u.ReasoningTokens) < 0 ||
			max(u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens, u.ReasoningTokens) > maxTokens || u.USD < -1 || u.USD > maxTokens {
			return x.Index, parley.Errorf(parley.CodeInvalid, "up to event %d of the export more was used than can be", ev.Seq)
		}
		if err := s.Crowded(); err != nil {
			return x.Index, parley.Errorf(parley.CodeTooLarge, "event %d of the export: %w", ev.Seq, err)
		}
	}
	return x.Index, nil
}

func (x *indexed) apply(s *parley.Session, ev parley.Event) error {
	var one seam.Index
	if at, ok := x.turns[ev.Turn]; ok {
		one.Turns = []parley.TurnInfo{x.Turns[at]} // a queued turn ends in its row
	}
	if err := applyIndexed(s, &one, ev); err != nil {
		return err
	}
	if one.Session != nil {
		x.Session = one.Session
	}
	for _, t := range one.Turns {
		if at, ok := x.turns[t.ID]; ok {
			x.Turns[at] = t
			continue
		}
		x.turns[t.ID] = len(x.Turns)
		x.Turns = append(x.Turns, t)
	}
	for _, in := range one.Interactions {
		if at, ok := x.interactions[in.ID]; ok {
			x.Interactions[at] = in
			continue
		}
		x.interactions[in.ID] = len(x.Interactions)
		x.Interactions = append(x.Interactions, in)
	}
	for _, d := range one.Release { // it belongs to the state that a runtime kept last
		if at := slices.Index(x.Blobs, d); at >= 0 {
			x.Blobs = slices.Delete(x.Blobs, at, at+1)
		}
	}
	x.Release = append(x.Release, one.Release...)
	x.Blobs = append(x.Blobs, one.Blobs...)
	x.Artifacts = append(x.Artifacts, one.Artifacts...)
	x.DropArtifacts = append(x.DropArtifacts, one.DropArtifacts...)
	x.DropChunks = append(x.DropChunks, one.DropChunks...)
	x.Spend = append(x.Spend, one.Spend...)
	x.Keys = append(x.Keys, one.Keys...)
	x.Grown += one.Grown
	return nil
}
