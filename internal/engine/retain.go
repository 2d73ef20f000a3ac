package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
)

// Archive keeps what retention removes from logs. Archived data belongs to its session
// and is never changed. Calls for one session are made one after the other.
type Archive interface {
	// Keep stores whole events durably and returns a name for people. It is called again
	// with the same events if a condensation could not be committed.
	Keep(ctx context.Context, session parley.SessionID, events []parley.Event) (name string, err error)
	// KeepBlob stores a large result of such events before the events are kept.
	KeepBlob(ctx context.Context, session parley.SessionID, d parley.Digest, body []byte) error
	// Archive reads events.
	eventlog.Archive
	// Blob reads a large result; CodeNotFound if the archive does not have it.
	Blob(ctx context.Context, session parley.SessionID, d parley.Digest) ([]byte, error)
	// Share gives a fork the archived data of a session's events up to a number.
	Share(ctx context.Context, session, fork parley.SessionID, at int64) error
	// Sessions lists the sessions that have archived data.
	Sessions(ctx context.Context) ([]parley.SessionID, error)
	// Drop removes the archived data of a deleted session; there may be none.
	Drop(ctx context.Context, session parley.SessionID) error
}

// Swept counts what a sweep did.
type Swept struct {
	Expired   int `json:"expired"`
	Condensed int `json:"condensed"`
	Deleted   int `json:"deleted"`
}

// directFor is how long the session of a direct call is kept after its last event, unless
// the app's TTL is shorter. For that long the same key returns the same direct call. A
// session that never got its turn is removed, too; one that waits for a human stays.
const directFor = 7 * 24 * time.Hour

// sweepPage is how many sessions a sweep holds in memory at once.
const sweepPage = 100

// Sweep applies each app's TTL to the sessions that p may see: idle ones expire, the
// steps of old turns are condensed, ended sessions are deleted. Its cost depends on what
// there is to do, not on how many sessions are idle or waiting. The server sweeps every
// Options.SweepEvery.
func (e *Engine) Sweep(ctx context.Context, p parley.Principal) (Swept, error) {
	var mu sync.Mutex
	var done Swept
	var failed error
	if p.IsSystem() {
		failed = e.dropArchives(ctx)
	}
	now := e.now()
	for _, a := range e.Apps() { // the data of an app that is off stays as it is
		ttl := a.TTL
		each := func(q seam.RestQuery, after time.Duration, count *int, do func(parley.SessionID) (bool, error)) {
			q.App, q.Before, q.Limit = a.Name, now.Add(-after), sweepPage
			err := e.eachResting(ctx, p, q, func(id parley.SessionID) {
				did, err := do(id)
				err = e.passed(ctx, id, err)
				mu.Lock()
				defer mu.Unlock()
				if did {
					*count++
				}
				if err != nil && failed == nil {
					failed = err // the sessions after it are likely to fail the same way
				}
			})
			failed = errors.Join(failed, err)
		}
		rest := func(status parley.SessionStatus, after parley.Duration, count *int, do func(parley.SessionID) (bool, error)) {
			if after > 0 {
				each(seam.RestQuery{Status: status}, time.Duration(after), count, do)
			}
		}
		remove := func(id parley.SessionID) (bool, error) {
			err := e.Delete(ctx, parley.System(), id)
			return err == nil, err
		}
		rest(parley.Ended, ttl.Ended, &done.Deleted, remove)
		rest(parley.Expired, ttl.Ended, &done.Deleted, remove)
		for _, status := range []parley.SessionStatus{parley.Active, parley.Ended, parley.Expired} {
			each(seam.RestQuery{Status: status, Direct: true}, directFor, &done.Deleted, remove)
		}
		rest(parley.Active, ttl.SessionIdle, &done.Expired, func(id parley.SessionID) (bool, error) {
			return e.expireSession(ctx, id, time.Duration(ttl.SessionIdle))
		})
		rest("", ttl.TurnSteps, &done.Condensed, func(id parley.SessionID) (bool, error) {
			n, err := e.condense(ctx, id, ttl)
			return n > 0, err
		})
	}
	return done, failed
}

// eachResting visits the sessions of q page by page. It skips sessions that fail; the
// next sweep visits them again.
func (e *Engine) eachResting(ctx context.Context, p parley.Principal, q seam.RestQuery, do func(parley.SessionID)) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		page, err := e.o.Store.Resting(ctx, p, q)
		if err != nil {
			return err
		}
		byHands(page, func(info parley.SessionInfo) {
			if ctx.Err() == nil {
				do(info.ID)
			}
		})
		if len(page) < q.Limit {
			return nil
		}
		q.After = q.Mark(page[len(page)-1])
	}
}

// expireSession ends a session that was not used for long. It checks again under the
// lock, since the session may have been used after the list was made.
func (e *Engine) expireSession(ctx context.Context, id parley.SessionID, idle time.Duration) (did bool, err error) {
	s, err := e.acquire(ctx, parley.System(), id)
	if err != nil {
		return false, err
	}
	defer e.unload(s)
	defer s.release()
	v := s.view
	if v.Status != parley.Active || s.run != nil || v.Rewinding != nil || len(v.Interactions) > 0 || e.now().Sub(v.UpdatedAt) <= idle {
		return false, nil
	}
	if err = s.closeAll(parley.TurnExpired{Reason: "the session expired"}); err != nil {
		s.discard()
		return false, err
	}
	err = s.commit(ctx, parley.NewEvent("", "", parley.SessionEnded{Status: parley.Expired, Reason: "nobody used it for " + idle.String()}))
	return err == nil, err
}
