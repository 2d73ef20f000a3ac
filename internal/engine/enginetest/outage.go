package enginetest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Outage is a store that can go away: when [Outage.Leave] is called, or in the middle of an
// append, whose outcome its caller then does not learn. For a while, nothing that a turn needs
// can be read or written.
type Outage struct {
	seam.Store
	At    int64 // the append in which the store goes away, from 1; 0: none
	Lasts time.Duration
	Lost  bool // that append did not take place
	Says  bool // its error says that it did not take place

	appends atomic.Int64
	back    atomic.Int64 // when the store is there again, in Unix nanoseconds
}

// Leave makes the store go away now.
func (o *Outage) Leave() { o.back.Store(time.Now().Add(o.Lasts).UnixNano()) }

func (o *Outage) away() error {
	if time.Now().UnixNano() < o.back.Load() {
		return parley.Errorf(parley.CodeUnavailable, "the database cannot be reached").WithHint("wait").WithRetry(time.Second)
	}
	return nil
}

// Append implements seam.Store.
func (o *Outage) Append(ctx context.Context, p parley.Principal, b seam.Batch) error {
	if err := o.away(); err != nil {
		return err
	}
	if o.appends.Add(1) != o.At {
		return o.Store.Append(ctx, p, b)
	}
	o.Leave()
	if o.Says {
		return o.away()
	}
	if !o.Lost {
		if err := o.Store.Append(ctx, p, b); err != nil {
			return err
		}
	}
	return errors.New("the connection was lost in the middle of a commit")
}

// Read implements seam.Store.
func (o *Outage) Read(ctx context.Context, p parley.Principal, id parley.SessionID, after int64, limit int) ([]parley.Event, error) {
	if err := o.away(); err != nil {
		return nil, err
	}
	return o.Store.Read(ctx, p, id, after, limit)
}

// Claim implements seam.Store.
func (o *Outage) Claim(ctx context.Context, p parley.Principal, id parley.SessionID, node string) (int64, error) {
	if err := o.away(); err != nil {
		return 0, err
	}
	return o.Store.Claim(ctx, p, id, node)
}

// Check implements seam.Store.
func (o *Outage) Check(ctx context.Context) error { return errors.Join(o.away(), o.Store.Check(ctx)) }

// Turn implements seam.Store.
func (o *Outage) Turn(ctx context.Context, p parley.Principal, id parley.TurnID) (parley.TurnInfo, error) {
	if err := o.away(); err != nil {
		return parley.TurnInfo{}, err
	}
	return o.Store.Turn(ctx, p, id)
}

// PutBlob implements seam.Store.
func (o *Outage) PutBlob(ctx context.Context, p parley.Principal, body []byte) (parley.Digest, error) {
	if err := o.away(); err != nil {
		return "", err
	}
	return o.Store.PutBlob(ctx, p, body)
}

// State implements seam.Store.
func (o *Outage) State(ctx context.Context, p parley.Principal, id parley.SessionID) (seam.State, error) {
	if err := o.away(); err != nil {
		return seam.State{}, err
	}
	return o.Store.State(ctx, p, id)
}

// Blob implements seam.Store.
func (o *Outage) Blob(ctx context.Context, p parley.Principal, id parley.SessionID, d parley.Digest) ([]byte, error) {
	if err := o.away(); err != nil {
		return nil, err
	}
	return o.Store.Blob(ctx, p, id, d)
}
