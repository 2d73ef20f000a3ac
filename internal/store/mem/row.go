package mem

import (
	"cmp"
	"context"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

// PutRow implements seam.Store.
func (s *Store) PutRow(ctx context.Context, p parley.Principal, r seam.Row) (version int64, err error) {
	if r, err = rule.RowOf(p, r); err != nil {
		return 0, err
	}
	err = s.write(ctx, Call{Method: "PutRow", Session: r.Session}, func(t *tables) error {
		old, there := t.rows[r.RowName]
		switch {
		case r.Version == seam.NoRow && there:
			return rule.RowThere(r.RowName)
		case r.Version > 0 && r.Version != old.Version:
			return rule.RowChanged(r.RowName)
		}
		if r.Session != "" {
			if of := t.sessions[r.Session]; of == nil || of.user != r.User || of.org != r.Org {
				return rule.NotFound("session", r.Session)
			}
		}
		if !rule.RowFits(p, rule.RowKiB(r), rule.RowKiB(old), t.rowsHeld(r.RowName)) {
			return rule.RowsFull(r.RowName)
		}
		version = t.putRow(r)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return version, nil
}

// rowsHeld is what the rows of the same kind and owner count.
func (t *tables) rowsHeld(n seam.RowName) (kib int64) {
	for at, r := range t.rows {
		if at.Kind == n.Kind && at.User == n.User && at.Org == n.Org {
			kib += rule.RowKiB(r)
		}
	}
	return kib
}

func (t *tables) putRow(r seam.Row) int64 {
	t.rowVersion++
	r.Version, r.Due, r.Body = t.rowVersion, rule.Due(rule.MillisOrNone(r.Due)), slices.Clone(r.Body)
	if len(r.Body) == 0 {
		r.Body = nil
	}
	t.rows[r.RowName] = r
	return r.Version
}

// putRows writes the rows of a batch.
func (t *tables) putRows(ix seam.Index, user, org string) {
	for _, n := range ix.DropRows {
		n.User, n.Org = user, org
		delete(t.rows, n)
	}
	for _, r := range ix.Rows {
		r.User, r.Org = user, org
		if _, there := t.rows[r.RowName]; there || rule.RowFits(parley.System(), rule.RowKiB(r), 0, t.rowsHeld(r.RowName)) {
			t.putRow(r)
		} else if ix.Left != nil {
			ix.Left(r.RowName)
		}
	}
}

// DropRow implements seam.Store.
func (s *Store) DropRow(ctx context.Context, p parley.Principal, name seam.RowName, version int64) error {
	name, err := rule.RowName(p, name)
	if err != nil {
		return err
	}
	return s.write(ctx, Call{Method: "DropRow"}, func(t *tables) error {
		r, there := t.rows[name]
		switch {
		case !there:
			return rule.NotFound(name.Kind, name.ID)
		case version != seam.AnyRow && version != r.Version:
			return rule.RowChanged(name)
		}
		delete(t.rows, name)
		return nil
	})
}

// Row implements seam.Store.
func (s *Store) Row(ctx context.Context, p parley.Principal, name seam.RowName) (out seam.Row, err error) {
	if name, err = rule.RowName(p, name); err != nil {
		return out, err
	}
	err = s.read(ctx, func(t *tables) error {
		r, there := t.rows[name]
		if !there {
			return rule.NotFound(name.Kind, name.ID)
		}
		r.Body = slices.Clone(r.Body)
		out = r
		return nil
	})
	return out, err
}

// Rows implements seam.Store.
func (s *Store) Rows(ctx context.Context, p parley.Principal, q seam.RowQuery) (out []seam.Row, err error) {
	q, none, err := rule.RowQuery(p, q)
	if none || err != nil {
		return nil, err
	}
	order := func(a, b seam.RowMark) int {
		by := cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Org, b.Org), cmp.Compare(a.ID, b.ID))
		if q.Due.IsZero() {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), by)
		}
		return cmp.Or(a.Due.Compare(b.Due), by)
	}
	err = s.read(ctx, func(t *tables) error {
		var all []seam.Row
		for _, r := range t.rows {
			if (q.Kind == "" || r.Kind == q.Kind) && ((p.IsSystem() && q.User == "") || r.User == q.User && r.Org == q.Org) &&
				(q.Session == "" || r.Session == q.Session) && (!q.Open || r.Open) && (!q.Shut || !r.Open) &&
				(q.Due.IsZero() || r.Open && !r.Due.IsZero() && rule.Millis(r.Due) < rule.MillisUp(q.Due)) &&
				(q.After.ID == "" || order(q.Mark(r), q.After) > 0) {
				all = append(all, r)
			}
		}
		slices.SortFunc(all, func(a, b seam.Row) int { return order(q.Mark(a), q.Mark(b)) })
		var rows rule.Rows
		limit := rule.List(p, q.Limit)
		for _, r := range cut(all, limit) {
			if !rows.Takes(limit, len(r.Body)) {
				break
			}
			r.Body = slices.Clone(r.Body)
			out = append(out, r)
		}
		return nil
	})
	return out, err
}
