package enginetest

import (
	"context"
	"sync/atomic"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Cut is a store that [Rig.Kill] cuts off, as the end of a process does: from then
// on it takes no write, and what was not committed is lost.
type Cut struct {
	seam.Store
	gone atomic.Bool
}

// Off makes the store fail from now on, as if the process had ended at this point.
func (c *Cut) Off() { c.gone.Store(true) }

func (c *Cut) dead() error {
	if c.gone.Load() {
		return errDead
	}
	return nil
}

// Append implements seam.Store.
func (c *Cut) Append(ctx context.Context, p parley.Principal, b seam.Batch) error {
	if err := c.dead(); err != nil {
		return err
	}
	return c.Store.Append(ctx, p, b)
}

// Fork implements seam.Store.
func (c *Cut) Fork(ctx context.Context, p parley.Principal, from parley.SessionID, at int64, b seam.Batch) error {
	if err := c.dead(); err != nil {
		return err
	}
	return c.Store.Fork(ctx, p, from, at, b)
}

// Claim implements seam.Store.
func (c *Cut) Claim(ctx context.Context, p parley.Principal, id parley.SessionID, node string) (int64, error) {
	if err := c.dead(); err != nil {
		return 0, err
	}
	return c.Store.Claim(ctx, p, id, node)
}

// PutBlob implements seam.Store.
func (c *Cut) PutBlob(ctx context.Context, p parley.Principal, body []byte) (parley.Digest, error) {
	if err := c.dead(); err != nil {
		return "", err
	}
	return c.Store.PutBlob(ctx, p, body)
}

// SaveChunks implements seam.Store.
func (c *Cut) SaveChunks(ctx context.Context, p parley.Principal, chunks []seam.Chunk) error {
	if err := c.dead(); err != nil {
		return err
	}
	return c.Store.SaveChunks(ctx, p, chunks)
}

// Delete implements seam.Store.
func (c *Cut) Delete(ctx context.Context, p parley.Principal, id parley.SessionID) error {
	if err := c.dead(); err != nil {
		return err
	}
	return c.Store.Delete(ctx, p, id)
}
