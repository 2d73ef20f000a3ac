package sqlite

import (
	"context"

	zombie "zombiezen.com/go/sqlite"

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
	return s.write(ctx, func(c *conn) error {
		if len(v.Body) == 0 {
			return c.exec(`DELETE FROM `+table+` WHERE user = ? AND org = ? AND app = ? AND workspace = ? AND name = ?`, v.User, v.Org, v.App, v.Workspace, v.Name)
		}
		return c.exec(`INSERT OR REPLACE INTO `+table+` (user, org, app, workspace, name, body) VALUES (?, ?, ?, ?, ?, ?)`, v.User, v.Org, v.App, v.Workspace, v.Name, v.Body)
	})
}

func ownRows[T seam.Sealed | seam.Approval](ctx context.Context, s *Store, p parley.Principal, table string) ([]T, error) {
	w := mine(p, `SELECT user, org, app, workspace, name, body FROM `+table)
	w.query += " ORDER BY user, org, app, workspace, name"
	return list(ctx, s, func(s *zombie.Stmt) (T, error) {
		return T(seam.Sealed{
			User: s.ColumnText(0), Org: s.ColumnText(1), App: s.ColumnText(2), Workspace: s.ColumnText(3), Name: s.ColumnText(4),
			Body: append([]byte{}, bytes(s, 5)...),
		}), nil
	}, w.query, w.args...)
}
