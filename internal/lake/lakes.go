package lake

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/parley-server/parley"
)

// maxOpen is how many lakes keep their index open. Each has some connections to a database, with their caches.
const maxOpen = 16

// Lakes are the lakes of a server.
type Lakes struct {
	o      Options
	mu     sync.Mutex
	all    map[string]*Lake
	order  []string // the one that was used last at the end
	closed bool
}

// New makes the lakes of a server, with these options for each.
func New(o Options) *Lakes { return &Lakes{o: o, all: map[string]*Lake{}} }

// In returns the lake in a folder. It is the same for all callers, and stays usable until [Lakes.Close], or until another folder is in its
// place. Of lakes that were not used for a while little stays in memory, and nothing is open.
func (s *Lakes) In(ctx context.Context, dir string) (*Lake, error) {
	dir, err := real(dir)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, parley.Errorf(parley.CodeUnavailable, "the server is shutting down")
	}
	l := s.all[dir]
	if l != nil && l.moved() {
		_ = l.Close() // another folder is there now; who uses the one before comes to an end first
		delete(s.all, dir)
		l = nil
	}
	if l == nil {
		if l, err = Open(ctx, dir, s.o); err != nil {
			return nil, err
		}
		s.all[dir] = l
	}
	l.folder.wake()
	for i, d := range s.order {
		if d == dir {
			s.order = append(s.order[:i], s.order[i+1:]...)
			break
		}
	}
	if s.order = append(s.order, dir); len(s.order) > maxOpen {
		if old := s.all[s.order[0]]; old != nil {
			old.rest()
		}
		s.order = s.order[1:]
	}
	return l, nil
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
	defer s.mu.Unlock()
	s.closed = true
	for _, l := range s.all {
		err = errors.Join(err, l.Close())
	}
	clear(s.all)
	return err
}
