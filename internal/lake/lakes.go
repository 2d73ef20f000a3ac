package lake

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/parley-server/parley"
)

// maxOpen is how many lakes keep their index open. Each has some connections to a database, with their caches.
const maxOpen = 16

// Lakes are the lakes of a server.
type Lakes struct {
	o      Options
	mu     sync.Mutex // held for a moment only: opening and closing a lake takes as long as others use it
	all    map[string]*opening
	order  []string // the one that was used last at the end
	closed bool
}

// opening is a lake that is open, or about to be.
type opening struct {
	done chan struct{} // closed when it is open, or cannot be
	l    *Lake
	err  error
}

// New makes the lakes of a server, with these options for each.
func New(o Options) *Lakes { return &Lakes{o: o, all: map[string]*opening{}} }

// In returns the lake in a folder. It is the same for all callers, and stays usable until [Lakes.Close], or until another folder is in its
// place. Of lakes that were not used for a while little stays in memory, and nothing is open.
func (s *Lakes) In(ctx context.Context, dir string) (*Lake, error) {
	dir, err := real(dir)
	if err != nil {
		return nil, err
	}
	var before *opening // with another folder than the one that is there now
	for {
		o, mine, err := s.find(dir, before)
		if err != nil {
			return nil, err
		}
		if mine {
			if before != nil {
				_ = before.l.Close() // who uses the one before comes to an end first; both have one index
			}
			s.open(ctx, dir, o)
		}
		select {
		case <-o.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if o.err != nil {
			return nil, o.err
		}
		if !mine && o.l.moved() {
			before = o
			continue
		}
		s.used(dir, o.l)
		return o.l, nil
	}
}

// find returns the lake in a folder. mine: nobody has opened it, and the caller does.
func (s *Lakes) find(dir string, before *opening) (o *opening, mine bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false, parley.Errorf(parley.CodeUnavailable, "the server is shutting down")
	}
	if o = s.all[dir]; o == nil || o == before {
		o, mine = &opening{done: make(chan struct{})}, true
		s.all[dir] = o
	}
	return o, mine, nil
}

func (s *Lakes) open(ctx context.Context, dir string, o *opening) {
	defer close(o.done)
	if o.l, o.err = Open(ctx, dir, s.o); o.err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.all[dir] == o {
			delete(s.all, dir) // whoever asks next tries again
		}
	}
}

// used notes that a lake is used, and has the one rest that was not for the longest time.
func (s *Lakes) used(dir string, l *Lake) {
	l.folder.wake()
	s.mu.Lock()
	var old *opening
	if i := slices.Index(s.order, dir); i >= 0 {
		s.order = slices.Delete(s.order, i, i+1)
	}
	if s.order = append(s.order, dir); len(s.order) > maxOpen {
		old = s.all[s.order[0]]
		s.order = s.order[1:]
	}
	s.mu.Unlock()
	if old == nil {
		return
	}
	select {
	case <-old.done:
		if old.err == nil {
			old.l.rest()
		}
	default: // it is being opened again, since somebody wants it
	}
}

// At is In for a folder that is open already, as the workspace of a call is. What is at its path may have been replaced since.
func (s *Lakes) At(ctx context.Context, root *os.Root) (*Lake, error) {
	l, err := s.In(ctx, root.Name())
	if err != nil {
		return nil, err
	}
	if is, err := root.Stat("."); err != nil || !os.SameFile(is, l.is) {
		return nil, parley.Errorf(parley.CodeUnavailable, "the lake is not there any more: its folder was replaced")
	}
	return l, nil
}

// Close closes all lakes.
func (s *Lakes) Close() (err error) {
	s.mu.Lock()
	s.closed = true
	all := slices.Collect(maps.Values(s.all))
	clear(s.all)
	s.mu.Unlock()
	for _, o := range all {
		if <-o.done; o.err == nil {
			err = errors.Join(err, o.l.Close())
		}
	}
	return err
}
