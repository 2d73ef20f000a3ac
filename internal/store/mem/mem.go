// Package mem keeps sessions in memory, for tests, and as the reference that other stores
// are compared with.
//
// It is plain maps under one lock that is never held while anything waits, so calls take
// no time and work inside a testing/synctest bubble. It promises what seam.Store
// promises, except durability. Rows are kept as JSON, as in a database, so later changes
// to a caller's value change nothing here.
//
// [Faults] makes writes fail before they take place, or afterwards: committed, but
// reported as failed. [Store.Clone] is the disk as a crash at this moment would leave it.
package mem

import (
	"context"
	"slices"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

// Store is a seam.Store. Make one with New.
type Store struct {
	mu     sync.Mutex
	closed bool
	faults Faults
	t      tables
	rule.Nodes
}

var _ seam.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store { return &Store{t: newTables()} }

// Call is a write, as Faults see it.
type Call struct {
	Method  string // Append, Fork, Claim, PutBlob, SaveChunks, PutRow, DropRow, Delete or Check
	Session parley.SessionID
	Batch   seam.Batch // of Append and Fork
}

// Faults are failures that a test injects. Both functions may be nil, may block, and may
// use the store.
type Faults struct {
	// Before is called before a write takes place. If it returns an error, the write
	// fails with it and nothing has changed.
	Before func(Call) error
	// After is called once a write has taken place. If it returns an error, that is
	// returned instead of success: the caller does not know what happened.
	After func(Call) error
}

// SetFaults replaces the faults for later calls.
func (s *Store) SetFaults(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// Clone returns an independent store with what is committed now, open and without faults.
// It works on a closed store, too.
func (s *Store) Clone() *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Store{t: s.t.clone()}
}

// ForgetStates drops every stored fold, as an upgrade does.
func (s *Store) ForgetStates() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.t.sessions {
		x.state = nil
	}
}

// write runs do under the lock, with the faults before and after it.
func (s *Store) write(ctx context.Context, c Call, do func(*tables) error) error {
	if ctx.Err() != nil {
		return rule.Cancelled(ctx)
	}
	s.mu.Lock()
	f := s.faults
	s.mu.Unlock()
	if f.Before != nil {
		if err := f.Before(c); err != nil {
			return err
		}
	}
	if err := s.locked(do); err != nil {
		return err
	}
	if f.After != nil {
		return f.After(c)
	}
	return nil
}

func (s *Store) locked(do func(*tables) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return rule.Closed()
	}
	return do(&s.t)
}

func (s *Store) read(ctx context.Context, do func(*tables) error) error {
	if ctx.Err() != nil {
		return rule.Cancelled(ctx)
	}
	return s.locked(do)
}

// Append implements seam.Store.
func (s *Store) Append(ctx context.Context, p parley.Principal, b seam.Batch) error {
	if err := rule.Batch(p, b); err != nil {
		return err
	}
	r, err := encode(b)
	if err != nil {
		return err
	}
	return s.write(ctx, Call{Method: "Append", Session: b.Session, Batch: b}, func(t *tables) error {
		if b.Create {
			return t.create(p, b, r, nil)
		}
		return t.append(p, b, r)
	})
}

// Fork implements seam.Store.
func (s *Store) Fork(ctx context.Context, p parley.Principal, from parley.SessionID, at int64, b seam.Batch) error {
	if err := rule.Fork(p, from, at, b); err != nil {
		return err
	}
	r, err := encode(b)
	if err != nil {
		return err
	}
	return s.write(ctx, Call{Method: "Fork", Session: b.Session, Batch: b}, func(t *tables) error {
		parent, err := t.session(p, from)
		if err != nil {
			return err
		}
		if at > parent.seq {
			return rule.BeyondEnd(from, at, parent.seq)
		}
		return t.create(p, b, r, parent)
	})
}

// Claim implements seam.Store.
func (s *Store) Claim(ctx context.Context, p parley.Principal, id parley.SessionID, node string) (epoch int64, err error) {
	err = s.write(ctx, Call{Method: "Claim", Session: id}, func(t *tables) error {
		row, err := t.session(p, id)
		if err != nil {
			return err
		}
		if slices.Contains(s.Others(node), row.owner) {
			return rule.Driven(id)
		}
		row.epoch++
		row.owner, epoch = node, row.epoch
		return nil
	})
	if err != nil {
		return 0, err
	}
	return epoch, nil
}

// PutBlob implements seam.Store. Blobs are never removed here.
func (s *Store) PutBlob(ctx context.Context, p parley.Principal, body []byte) (parley.Digest, error) {
	if err := rule.BlobSize(p, len(body)); err != nil {
		return "", err
	}
	d := rule.Digest(body)
	err := s.write(ctx, Call{Method: "PutBlob"}, func(t *tables) error {
		t.blobs[d] = slices.Clone(body)
		return nil
	})
	if err != nil {
		return "", err
	}
	return d, nil
}

// SaveChunks implements seam.Store.
func (s *Store) SaveChunks(ctx context.Context, p parley.Principal, chunks []seam.Chunk) error {
	return s.write(ctx, Call{Method: "SaveChunks"}, func(t *tables) error {
		for _, c := range chunks {
			if row, err := t.session(p, c.Session); err == nil && row.epoch == c.Epoch {
				row.chunks[chunk{c.Call, c.N}] = c.Text
			}
		}
		return nil
	})
}

// Delete implements seam.Store.
func (s *Store) Delete(ctx context.Context, p parley.Principal, id parley.SessionID) error {
	return s.write(ctx, Call{Method: "Delete", Session: id}, func(t *tables) error { return t.delete(p, id) })
}

// Check implements seam.Store.
func (s *Store) Check(ctx context.Context) error {
	return s.write(ctx, Call{Method: "Check"}, func(*tables) error { return nil })
}

// Close implements seam.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
