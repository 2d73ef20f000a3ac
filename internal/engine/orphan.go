package engine

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/parley-server/parley"
)

// orphans are sessions that are gone and of which something may still be archived. The
// archive itself is what remembers them: the first sweep of a process asks it for
// all its sessions, and so does the one after a fork or a deletion of which nobody could
// say whether it took place. What could not be removed since then is in memory.
type orphans struct {
	listed bool
	left   map[parley.SessionID]bool
	making map[parley.SessionID]bool // forks that are on their way into the store
}

// dropArchive removes what is archived of a session that is gone, now or with one of
// the next sweeps.
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

// dropArchives removes what is archived of sessions that are gone: where removing it
// failed, or where a crash came first.
func (e *Engine) dropArchives(ctx context.Context) (failed error) {
	if e.o.Archive == nil {
		return nil
	}
	e.mu.Lock()
	listed, left := e.orphans.listed, slices.Sorted(maps.Keys(e.orphans.left))
	e.orphans.listed = true // what comes to be in doubt from now on is for the next one
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

// share gives a fork what is archived of its parent, before the fork is there. done is
// called once it is, or is not to be.
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
			e.listArchives() // the fork may be there
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

// listArchives lets the next sweep look for what is archived of sessions that are not
// there.
func (e *Engine) listArchives() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.orphans.listed = false
}

// logDropped is dropArchive for who can do nothing about its failing.
func (e *Engine) logDropped(ctx context.Context, id parley.SessionID) {
	if err := e.dropArchive(ctx, id); err != nil {
		e.o.Logger.Warn("the archive of a session that is gone could not be removed; the next sweep tries again", "session", id, "err", err)
	}
}
