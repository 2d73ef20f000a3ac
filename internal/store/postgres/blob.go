package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/rule"
)

// PutBlob implements seam.Store.
func (s *Store) PutBlob(ctx context.Context, p parley.Principal, body []byte) (parley.Digest, error) {
	if err := rule.BlobSize(p, len(body)); err != nil {
		return "", err
	}
	d := rule.Digest(body)
	now := s.now()
	put := int64(-1)
	err := s.view(ctx, func(ctx context.Context, c *pgx.Conn) error {
		err := c.QueryRow(ctx, `SELECT put FROM blobs WHERE digest = $1`, raw(d)).Scan(&put)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if put > rule.Millis(now.Add(-rule.BlobSpared)) {
		return d, nil
	}
	err = s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if put >= 0 {
			tag, err := tx.Exec(ctx, `UPDATE blobs SET put = greatest(put, $2) WHERE digest = $1`, raw(d), rule.Millis(now))
			if err != nil || tag.RowsAffected() > 0 {
				return err
			}
		}
		if _, err := tx.Exec(ctx, long); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO blobs (digest, put, body) VALUES ($1, $2, $3)
			ON CONFLICT (digest) DO UPDATE SET put = greatest(blobs.put, excluded.put)`, raw(d), rule.Millis(now), notNil(body))
		return err
	})
	if err := again(err); err != nil {
		return "", err
	}
	return d, nil
}

// Blob implements seam.Store.
func (s *Store) Blob(ctx context.Context, p parley.Principal, session parley.SessionID, d parley.Digest) (out []byte, err error) {
	err = s.view(ctx, func(ctx context.Context, c *pgx.Conn) error {
		out = nil
		err := of(ctx, c, p, session, `SELECT body FROM refs JOIN blobs USING (digest) WHERE session = $1 AND digest = $5 AND `+owned,
			func(r pgx.Rows) error { return r.Scan(&out) }, raw(d))
		if err == nil && out == nil {
			err = rule.NotFound("blob", d)
		}
		return err
	})
	return out, err
}

// collect removes old blobs that no session refers to. Several nodes may do it at once.
// Appends lock the blobs that they refer to, so references are checked again once a blob
// is locked here.
func (s *Store) collect(ctx context.Context) error {
	before := rule.Millis(s.now().Add(-rule.BlobKept))
	for {
		n := 0
		err := s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
			n = 0
			old, err := tx.Query(ctx, `SELECT digest FROM blobs b WHERE put < $1 AND NOT EXISTS (SELECT 1 FROM refs r WHERE r.digest = b.digest)
				LIMIT $2 FOR UPDATE SKIP LOCKED`, before, rule.CollectGroup)
			if err != nil {
				return err
			}
			digests, err := pgx.CollectRows(old, pgx.RowTo[[]byte])
			if err != nil || len(digests) == 0 {
				return err
			}
			n = len(digests)
			_, err = tx.Exec(ctx, `DELETE FROM blobs b WHERE digest = ANY($1) AND NOT EXISTS (SELECT 1 FROM refs r WHERE r.digest = b.digest)`, digests)
			return err
		})
		if err != nil || n < rule.CollectGroup {
			return err
		}
	}
}
