package mem

import (
	"cmp"
	"context"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

type sealedID struct{ user, org, app, workspace, name string }

// PutSealed implements seam.Store.
func (s *Store) PutSealed(ctx context.Context, p parley.Principal, v seam.Sealed) error {
	return putOwn(ctx, s, p, v, Call{Method: "PutSealed"}, func(t *tables) map[sealedID]seam.Sealed { return t.sealed })
}

// Sealed implements seam.Store.
func (s *Store) Sealed(ctx context.Context, p parley.Principal) ([]seam.Sealed, error) {
	return ownRows[seam.Sealed](ctx, s, p, func(t *tables) map[sealedID]seam.Sealed { return t.sealed })
}

// PutApproval implements seam.Store.
func (s *Store) PutApproval(ctx context.Context, p parley.Principal, v seam.Approval) error {
	return putOwn(ctx, s, p, seam.Sealed(v), Call{Method: "PutApproval"}, func(t *tables) map[sealedID]seam.Sealed { return t.approvals })
}

// Approvals implements seam.Store.
func (s *Store) Approvals(ctx context.Context, p parley.Principal) ([]seam.Approval, error) {
	return ownRows[seam.Approval](ctx, s, p, func(t *tables) map[sealedID]seam.Sealed { return t.approvals })
}

// putOwn stores or removes an entry of a table of users' own bytes.
func putOwn(ctx context.Context, s *Store, p parley.Principal, v seam.Sealed, c Call, of func(*tables) map[sealedID]seam.Sealed) error {
	v, err := rule.SealedBy(p, v)
	if err != nil {
		return err
	}
	return s.write(ctx, c, func(t *tables) error {
		id := sealedID{v.User, v.Org, v.App, v.Workspace, v.Name}
		if len(v.Body) == 0 {
			delete(of(t), id)
			return nil
		}
		v.Body = slices.Clone(v.Body)
		of(t)[id] = v
		return nil
	})
}

func ownRows[T seam.Sealed | seam.Approval](ctx context.Context, s *Store, p parley.Principal, of func(*tables) map[sealedID]seam.Sealed) (out []T, err error) {
	err = s.read(ctx, func(t *tables) error {
		var rows []seam.Sealed
		for _, v := range of(t) {
			if p.Owns(v.User, v.Org) {
				rows = append(rows, v)
			}
		}
		slices.SortFunc(rows, func(a, b seam.Sealed) int {
			return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Org, b.Org), cmp.Compare(a.App, b.App), cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Name, b.Name))
		})
		for _, v := range rows {
			v.Body = slices.Clone(v.Body)
			out = append(out, T(v))
		}
		return nil
	})
	return out, err
}
