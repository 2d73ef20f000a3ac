package sqlite

import (
	"context"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/rule"
)

// PutBlob implements seam.Store.
func (s *Store) PutBlob(ctx context.Context, p parley.Principal, body []byte) (parley.Digest, error) {
	if err := rule.BlobSize(p, len(body)); err != nil {
		return "", err
	}
	if body == nil {
		body = []byte{} // nil would be NULL
	}
	d := rule.Digest(body)
	now := s.now()
	known, err := list(ctx, s, sessionID, `SELECT digest FROM blobs WHERE digest = ? AND put > ?`, string(d), rule.Millis(now.Add(-rule.BlobSpared)))
	if err != nil {
		return "", err
	}
	if len(known) > 0 {
		return d, nil
	}
	err = s.write(ctx, func(c *conn) error {
		if err := c.exec(`UPDATE blobs SET put = max(put, ?2) WHERE digest = ?1`, string(d), rule.Millis(now)); err != nil || c.Changes() > 0 {
			return err
		}
		if err := c.exec(`INSERT INTO blobs (digest, put) VALUES (?, ?)`, string(d), rule.Millis(now)); err != nil {
			return err
		}
		return c.exec(`INSERT INTO bodies (digest, body) VALUES (?, ?)`, string(d), body)
	})
	if err != nil {
		return "", err
	}
	return d, nil
}

// Blob implements seam.Store.
func (s *Store) Blob(ctx context.Context, p parley.Principal, session parley.SessionID, d parley.Digest) (out []byte, err error) {
	err = s.view(ctx, func(c *conn) error {
		found := false
		err := of(c, p, session, `SELECT body FROM refs JOIN bodies USING (digest) WHERE session = ?1 AND digest = ?5 AND `+owned, func(s *zombie.Stmt) error {
			found, out = true, append([]byte{}, bytes(s, 0)...)
			return nil
		}, string(d))
		if err == nil && !found {
			err = rule.NotFound("blob", d)
		}
		return err
	})
	return out, err
}

// collect removes old blobs that no session refers to. A reader finds them; the writer
// checks each of the few again.
func (s *Store) collect(ctx context.Context) error {
	before := rule.Millis(s.now().Add(-rule.BlobKept))
	for {
		old, err := list(ctx, s, func(s *zombie.Stmt) (string, error) { return s.ColumnText(0), nil },
			`SELECT digest FROM blobs b WHERE put < ? AND NOT EXISTS (SELECT 1 FROM refs r WHERE r.digest = b.digest) LIMIT ?`, before, rule.CollectGroup)
		if err != nil || len(old) == 0 {
			return err
		}
		err = s.write(ctx, func(c *conn) error {
			for _, d := range old {
				err := c.exec(`DELETE FROM blobs WHERE digest = ?1 AND put < ?2 AND NOT EXISTS (SELECT 1 FROM refs WHERE digest = ?1)`, d, before)
				if err != nil {
					return err
				}
				if c.Changes() == 0 {
					continue
				}
				if err := c.exec(`DELETE FROM bodies WHERE digest = ?`, d); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
}
