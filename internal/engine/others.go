package engine

import (
	"context"
	"slices"
	"sort"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Limits of what others reads. If more happened since, the answer is not known.
const (
	maxOtherSessions = 500
	maxOtherEvents   = 50_000
)

// others returns the calls of the same tool, in all sessions of all users, that were made
// or under way since c first started. They are read from the logs, so it does not matter
// which process made them. known is false if the logs do not tell.
func (e *Engine) others(ctx context.Context, c *parley.Tool) (calls []seam.Other, known bool, err error) {
	sessions, known, err := e.touched(ctx, c.StartedAt)
	if err != nil || !known {
		return nil, false, err
	}
	left := maxOtherEvents
	for _, id := range sessions {
		found, n, whole, err := e.callsSince(ctx, id, c, left)
		if isCode(err, parley.CodeNotFound) {
			continue // deleted just now
		}
		if left -= n; err != nil || !whole || left < 0 {
			return nil, false, err
		}
		calls = append(calls, found...)
	}
	return calls, true, nil
}

// touched lists the sessions in which something may have happened since: those that
// changed, and those with an open turn, whose steps change no row.
func (e *Engine) touched(ctx context.Context, since time.Time) (ids []parley.SessionID, whole bool, err error) {
	rows, err := e.o.Store.Sessions(ctx, parley.System(), seam.SessionQuery{Limit: maxOtherSessions, Direct: true})
	if err != nil {
		return nil, false, err
	}
	whole = len(rows) < maxOtherSessions
	for _, row := range rows {
		if row.UpdatedAt.Before(since) {
			whole = true
			break
		}
		ids = append(ids, row.ID)
	}
	turns, err := e.o.Store.Turns(ctx, parley.System(), seam.TurnQuery{
		Statuses: []parley.TurnStatus{parley.StatusRunning, parley.StatusStreaming, parley.StatusWaiting, parley.StatusInterrupted}, Limit: maxOtherSessions,
	})
	for _, t := range turns {
		if !slices.Contains(ids, t.SessionID) {
			ids = append(ids, t.SessionID)
		}
	}
	return ids, whole && len(turns) < maxOtherSessions, err
}

// callsSince reads the calls of c's tool in a session that had not ended when c started.
// No call lasts longer than an hour.
func (e *Engine) callsSince(ctx context.Context, id parley.SessionID, c *parley.Tool, most int) (calls []seam.Other, n int, whole bool, err error) {
	info, err := e.o.Store.Session(ctx, parley.System(), id)
	if err != nil {
		return nil, 0, false, err
	}
	from := c.StartedAt.Add(-time.Hour)
	first := sort.Search(int(info.Version), func(i int) bool {
		evs, failed := e.o.Store.Read(ctx, parley.System(), id, int64(i), 1)
		if failed != nil {
			err = failed
		}
		return failed == nil && (len(evs) == 0 || !evs[0].Time.Before(from))
	})
	for after := int64(first); err == nil && n <= most; {
		evs, failed := e.o.Store.Read(ctx, parley.System(), id, after, 0)
		if failed != nil || len(evs) == 0 {
			return calls, n, failed == nil, failed
		}
		for _, ev := range evs {
			after = ev.Seq
			n++
			pay, failed := ev.Payload()
			if isCode(failed, parley.CodeCondensed) {
				return nil, n, false, nil // what it was is not in the log any more
			}
			if failed != nil {
				return nil, n, false, failed
			}
			switch p := pay.(type) {
			case parley.ToolStarted:
				if p.Name == c.Name && p.Call != c.Call {
					calls = append(calls, seam.Other{Call: p.Call, Reaches: p.Reaches})
				}
			case parley.ToolEnded:
				if ev.Time.Before(c.StartedAt) && p.Outcome != parley.OutcomeUnknown {
					calls = slices.DeleteFunc(calls, func(o seam.Other) bool { return o.Call == p.Call })
				}
			}
		}
	}
	return nil, n, false, err
}
