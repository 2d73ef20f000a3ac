package engine

import (
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// applyIndexed advances the fold by one event and records in ix the rows that change with
// it. Rows follow the life of sessions, turns and interactions, not every step: what a
// running turn has spent so far is only in its owner's memory and in the log.
func applyIndexed(s *parley.Session, ix *seam.Index, ev parley.Event) error {
	before := turnInfo(s)
	if before != nil {
		before.Spent.RanMS = s.Turn.Ran(ev.Time).Milliseconds()
	}
	open := s.Interactions
	p, err := ev.Payload()
	if err != nil {
		return err
	}
	spend(s, ix, ev, p)
	old := s.Kept
	if err := s.Apply(ev); err != nil {
		return err
	}
	if p, ok := p.(parley.ContextObserved); ok {
		for _, in := range s.Interactions {
			if in.Hears(p) {
				openRow(ix, &in, ev.Seq)
			}
		}
	}
	// A step changes the row only if the turn begins or stops waiting, because recovery looks
	// for running turns.
	same := before == nil || s.Turn == nil || before.Status == s.Turn.Status
	switch p := p.(type) {
	case parley.ModelReplied:
		ix.DropChunks = append(ix.DropChunks, p.Call)
		if same {
			return nil
		}
	case parley.ModelFailed:
		ix.DropChunks = append(ix.DropChunks, p.Call)
		if same {
			return nil
		}
	case parley.ModelStarted, parley.AgentStarted, parley.AgentHandoff, parley.AgentEnded,
		parley.ToolRequested, parley.ToolStarted, parley.ToolEnded, parley.ContextCompacted, parley.ContextRetrieved, parley.ContextTransferred, parley.ContextObserved, parley.BudgetReached,
		parley.HookRan, parley.FilesAnnounced, parley.FilesSaved, parley.RuntimeNoted:
		if same {
			return nil
		}
	case parley.RuntimeKept:
		keptState(ix, old, s.Kept)
		return nil
	case parley.ArtifactStored:
		ix.Artifacts = append(ix.Artifacts, seam.Artifact{ArtifactRef: p.ArtifactRef, Session: ev.Session, Turn: ev.Turn, CreatedAt: ev.Time})
		ix.Blobs = append(ix.Blobs, p.SHA256)
		return nil
	case parley.InteractionOpened:
		in := p.Interaction
		in.Session, in.Turn, in.OpenedAt = ev.Session, ev.Turn, ev.Time
		openRow(ix, &in, ev.Seq)
	case parley.InteractionAnswered:
		closeRow(ix, ev, open, p.ID, &p.Answer, p.By)
	case parley.InteractionExpired:
		closeRow(ix, ev, open, p.ID, nil, "")
	case parley.SessionForked:
		for _, in := range open {
			closeRow(ix, ev, open, in.ID, nil, "")
		}
	case parley.HistoryCondensed, parley.SessionRewound:
		if s.Kept == nil {
			keptState(ix, old, nil)
		}
	case parley.TurnStarted:
		ix.Blobs = append(ix.Blobs, p.App)
	case parley.TurnQueued:
		setRow(&ix.Turns, queuedInfo(ev, p.TurnRequest), func(t parley.TurnInfo) bool { return t.ID == ev.Turn })
	}
	ix.Session = sessionInfo(s)
	if ev.Turn == "" {
		return nil
	}
	return indexTurn(s, ix, ev, p, before)
}

// indexTurn sets the row of the turn of an event. before is the row of the session's turn before the event; nil: it had none.
func indexTurn(s *parley.Session, ix *seam.Index, ev parley.Event, p parley.Payload, before *parley.TurnInfo) error {
	var row parley.TurnInfo
	switch {
	case s.Turn != nil && s.Turn.ID == ev.Turn:
		row = *turnInfo(s)
	case before != nil && before.ID == ev.Turn:
		row = ended(*before, ev, p)
	case ends(p): // a queued turn
		at := slices.IndexFunc(ix.Turns, func(t parley.TurnInfo) bool { return t.ID == ev.Turn })
		if at < 0 {
			return nil // the caller has the row and adds it
		}
		row = ended(ix.Turns[at], ev, p)
	default:
		return nil
	}
	if p, ok := p.(parley.TurnInterrupted); ok {
		row.Reason = p.Reason // the fold does not need it, so only this row has it
	}
	row.LastSeq, row.UpdatedAt = ev.Seq, ev.Time
	setRow(&ix.Turns, row, func(t parley.TurnInfo) bool { return t.ID == row.ID })
	return nil
}

// keptState records that the runtime's state now replaces old. Either may be nil: no state.
func keptState(ix *seam.Index, old, now *parley.RuntimeState) {
	if old != nil && now != nil && old.SHA256 == now.SHA256 {
		return
	}
	if old != nil {
		ix.Release = append(ix.Release, old.SHA256)
		ix.Blobs = slices.DeleteFunc(slices.Clone(ix.Blobs), func(d parley.Digest) bool { return d == old.SHA256 })
		ix.Grown -= old.Size
	}
	if now != nil {
		ix.Blobs = append(ix.Blobs, now.SHA256)
		ix.Grown += now.Size
	}
}

// ends reports whether p is the end of a turn.
func ends(p parley.Payload) bool {
	switch p.(type) {
	case parley.TurnCompleted, parley.TurnFailed, parley.TurnCancelled, parley.TurnExpired:
		return true
	}
	return false
}

// spend records what a model call costs, on the day on which it began: at its start the
// reserved amount, at its end the difference.
func spend(s *parley.Session, ix *seam.Index, ev parley.Event, p parley.Payload) {
	add := func(at time.Time, model string, calls int64, u parley.Usage) {
		u.Estimated = false
		if calls != 0 || u != (parley.Usage{}) {
			ix.Spend = append(ix.Spend, seam.Spend{Day: day(at), Model: model, Calls: calls, Usage: u})
		}
	}
	ended := func(call parley.CallID, u parley.Usage) {
		if s.Turn == nil || s.Turn.ID != ev.Turn {
			return
		}
		for _, c := range s.Turn.Calls {
			if c.Call == call {
				add(c.At, c.Model, 0, u.Sub(c.Reserved))
			}
		}
	}
	switch p := p.(type) {
	case parley.ModelStarted:
		if p.Model != "" {
			add(ev.Time, p.Model, 1, p.Reserved)
		}
	case parley.ModelReplied:
		ended(p.Call, p.Usage)
	case parley.ModelFailed:
		ended(p.Call, p.Usage)
	}
}

// day is the UTC day of t, as costs are counted.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// closeRow records that ev closes an open interaction. Its payload may name the session
// that this one's log was copied from.
func closeRow(ix *seam.Index, ev parley.Event, open []parley.Interaction, id parley.InteractionID, a *parley.Answer, by string) {
	for _, in := range open {
		if in.ID == id {
			in.Session = ev.Session
			setRow(&ix.Interactions, seam.InteractionRow{Interaction: in, Answer: a, AnsweredBy: by, LastSeq: ev.Seq},
				func(r seam.InteractionRow) bool { return r.ID == id })
		}
	}
}

func setRow[T any](rows *[]T, row T, same func(T) bool) {
	if at := slices.IndexFunc(*rows, same); at >= 0 {
		(*rows)[at] = row
		return
	}
	*rows = append(*rows, row)
}

// openRow sets the row of an open interaction.
func openRow(ix *seam.Index, in *parley.Interaction, seq int64) {
	setRow(&ix.Interactions, seam.InteractionRow{Interaction: *in, Open: true, LastSeq: seq}, func(r seam.InteractionRow) bool { return r.ID == in.ID })
}

// sessionInfo is the session's row.
//
//go:noinline
func sessionInfo(s *parley.Session) *parley.SessionInfo {
	in := s.Info()
	return &in
}

// turnInfo is the row of the session's current turn, or nil.
func turnInfo(s *parley.Session) *parley.TurnInfo {
	t := s.Turn
	if t == nil {
		return nil
	}
	in := parley.TurnInfo{
		ID: t.ID, SessionID: s.ID, Status: t.Status, Stopping: t.Stop != nil, Resumes: t.Resumes, Origin: t.Request.Origin,
		Message: t.Request.Message.Text(), Client: t.Request.Client, CreatedAt: idTime(t), UpdatedAt: s.UpdatedAt,
		Spent: t.Spent, Attempts: t.Attempts, RetryOf: t.Request.RetryOf, Key: t.Request.Key,
		FirstSeq: t.FirstSeq, LastSeq: s.Seq, Interactions: slices.Clone(t.Waiting), Offered: s.Offered(),
	}
	if t.Stop != nil {
		in.Reason = t.Stop.Reason
	}
	return &in
}

// idTime is when the turn was asked, which its id tells even if it was queued.
func idTime(t *parley.Turn) time.Time {
	if id, err := ulid.ParseStrict(string(t.ID)); err == nil {
		return parley.Now(ulid.Time(id.Time()))
	}
	return t.StartedAt
}

func queuedInfo(ev parley.Event, r parley.TurnRequest) parley.TurnInfo {
	return parley.TurnInfo{
		ID: ev.Turn, SessionID: ev.Session, Status: parley.StatusPending, Origin: r.Origin, Message: r.Message.Text(),
		Client: r.Client, CreatedAt: ev.Time, UpdatedAt: ev.Time, RetryOf: r.RetryOf, Key: r.Key, FirstSeq: ev.Seq, LastSeq: ev.Seq,
	}
}

// ended is a turn's row after its closing event.
func ended(row parley.TurnInfo, ev parley.Event, p parley.Payload) parley.TurnInfo {
	row.Stopping, row.Resumes, row.Interactions, row.Offered, row.EndedAt = false, false, nil, 0, ev.Time
	row.LastSeq, row.UpdatedAt = ev.Seq, ev.Time
	switch p := p.(type) {
	case parley.TurnCompleted:
		row.Status, row.Response, row.Spent.Usage = parley.StatusCompleted, &p.Response, p.Usage
	case parley.TurnFailed:
		row.Status, row.Response, row.Error, row.Spent.Usage = parley.StatusFailed, p.Response, &p.Error, p.Usage
	case parley.TurnCancelled:
		row.Status, row.Response, row.Reason, row.Spent.Usage = parley.StatusCancelled, p.Response, p.Reason, p.Usage
	case parley.TurnExpired:
		row.Status, row.Reason, row.Spent.Usage = parley.StatusExpired, p.Reason, p.Usage
	}
	return row
}
