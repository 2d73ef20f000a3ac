package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

// PutSealed implements seam.Store.
func (s *Store) PutSealed(ctx context.Context, p parley.Principal, v seam.Sealed) error {
	return s.putOwn(ctx, p, "sealed", v)
}

// Sealed implements seam.Store.
func (s *Store) Sealed(ctx context.Context, p parley.Principal) ([]seam.Sealed, error) {
	return ownRows[seam.Sealed](ctx, s, p, "sealed")
}

// PutApproval implements seam.Store.
func (s *Store) PutApproval(ctx context.Context, p parley.Principal, v seam.Approval) error {
	return s.putOwn(ctx, p, "approvals", seam.Sealed(v))
}

// Approvals implements seam.Store.
func (s *Store) Approvals(ctx context.Context, p parley.Principal) ([]seam.Approval, error) {
	return ownRows[seam.Approval](ctx, s, p, "approvals")
}

// putOwn stores or removes a row of a table of users' own bytes.
func (s *Store) putOwn(ctx context.Context, p parley.Principal, table string, v seam.Sealed) error {
	v, err := rule.SealedBy(p, v)
	if err != nil {
		return err
	}
	return again(s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		key := []any{raw(v.User), raw(v.Org), raw(v.App), raw(v.Workspace), raw(v.Name)}
		if len(v.Body) == 0 {
			_, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE usr = $1 AND org = $2 AND app = $3 AND workspace = $4 AND name = $5`, key...)
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO `+table+` (usr, org, app, workspace, name, body) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (usr, org, app, workspace, name) DO UPDATE SET body = excluded.body`, append(key, v.Body)...)
		return err
	}))
}

func ownRows[T seam.Sealed | seam.Approval](ctx context.Context, s *Store, p parley.Principal, table string) ([]T, error) {
	w := mine(p, `SELECT usr, org, app, workspace, name, body FROM `+table)
	w.query += " ORDER BY usr, org, app, workspace, name"
	return list(ctx, s, func(r pgx.Rows) (T, error) {
		var v seam.Sealed
		err := r.Scan(str(&v.User), str(&v.Org), str(&v.App), str(&v.Workspace), str(&v.Name), &v.Body)
		return T(v), err
	}, w.query, w.args...)
}
