package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/parley-server/parley"
)

// orphans are deleted sessions that may still have archived data. The archive itself
// remembers them: a process asks it for all its sessions when it starts, and so does
// the sweep after a fork or deletion whose outcome is in doubt. Sessions whose removal
// failed since then are remembered in memory.
type orphans struct {
	sweeping sync.Mutex // held while they are removed, so that a sweep misses nothing that another has just found
	listed   bool
	left     map[parley.SessionID]bool
	making   map[parley.SessionID]bool // forks on their way into the store
}

// dropArchive removes the archived data of a deleted session, now or with one of the next
// sweeps.
func (e *Engine) dropArchive(ctx context.Context, id parley.SessionID) error {
	err := e.o.Archive.Drop(ctx, id)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		delete(e.orphans.left, id)
		return nil
	}
	if e.orphans.left == nil {
		e.orphans.left = map[parley.SessionID]bool{}
	}
	e.orphans.left[id] = true
	return err
}

// dropArchives removes the archived data of deleted sessions whose removal failed or was
// prevented by a crash.
func (e *Engine) dropArchives(ctx context.Context) (failed error) {
	if e.o.Archive == nil {
		return nil
	}
	e.orphans.sweeping.Lock()
	defer e.orphans.sweeping.Unlock()
	e.mu.Lock()
	listed, left := e.orphans.listed, slices.Sorted(maps.Keys(e.orphans.left))
	e.orphans.listed = true // doubts that arise from now on are for the next sweep
	e.mu.Unlock()
	if !listed {
		defer func() {
			if failed != nil {
				e.listArchives()
			}
		}()
		all, err := e.o.Archive.Sessions(ctx)
		if err != nil {
			return err
		}
		for _, id := range all {
			e.mu.Lock()
			making := e.orphans.making[id]
			e.mu.Unlock()
			if making {
				continue
			}
			_, err := e.o.Store.Session(ctx, parley.System(), id)
			switch {
			case isCode(err, parley.CodeNotFound):
				left = append(left, id)
			case err != nil:
				return err
			}
		}
	}
	for _, id := range left {
		failed = errors.Join(failed, e.dropArchive(ctx, id))
	}
	return failed
}

// share gives a fork its parent's archived data before the fork exists. done is called
// when the fork exists or never will.
func (e *Engine) share(ctx context.Context, parent, fork parley.SessionID, at int64) (done func(error), err error) {
	if e.o.Archive == nil {
		return func(error) {}, nil
	}
	e.mu.Lock()
	if e.orphans.making == nil {
		e.orphans.making = map[parley.SessionID]bool{}
	}
	e.orphans.making[fork] = true
	e.mu.Unlock()
	done = func(err error) {
		_, known := errors.AsType[*parley.Error](err)
		switch {
		case err == nil:
		case known:
			e.logDropped(ctx, fork)
		default:
			e.listArchives() // the fork may exist
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.orphans.making, fork)
	}
	if err := e.o.Archive.Share(ctx, parent, fork, at); err != nil {
		done(err)
		return nil, err
	}
	return done, nil
}

// listArchives makes the next sweep look for archived data of sessions that do not exist.
func (e *Engine) listArchives() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.orphans.listed = false
}

// logDropped is dropArchive for callers that cannot do anything about a failure.
func (e *Engine) logDropped(ctx context.Context, id parley.SessionID) {
	if err := e.dropArchive(ctx, id); err != nil {
		e.o.Logger.Warn("the archive of a session that is gone could not be removed; the next sweep tries again", "session", id, "err", err)
	}
}
