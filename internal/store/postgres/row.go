package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

func rowKey(n seam.RowName) []any { return []any{raw(n.Kind), raw(n.User), raw(n.Org), raw(n.ID)} }

// PutRow implements seam.Store. The row, or for a new one the owner's rows of the kind,
// are locked, so of several calls at once one comes first.
func (s *Store) PutRow(ctx context.Context, p parley.Principal, r seam.Row) (version int64, err error) {
	if r, err = rule.RowOf(p, r); err != nil {
		return 0, err
	}
	err = s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		gone := false
		if r.Session != "" {
			// Locked against deletion, but not against appends; before the row, as Delete does.
			var one int
			err := tx.QueryRow(ctx, `SELECT 1 FROM sessions WHERE id = $1 AND usr = $2 AND org = $3 FOR KEY SHARE`, raw(r.Session), raw(r.User), raw(r.Org)).Scan(&one)
			if gone = errors.Is(err, pgx.ErrNoRows); err != nil && !gone {
				return err
			}
		}
		have, old, err := rowAt(ctx, tx, r.RowName)
		switch {
		case err != nil:
			return err
		case r.Version == seam.NoRow && have > 0:
			return rule.RowThere(r.RowName)
		case r.Version > 0 && r.Version != have:
			return rule.RowChanged(r.RowName)
		case gone:
			return rule.NotFound("session", r.Session)
		}
		var held int64
		err = tx.QueryRow(ctx, `SELECT coalesce(sum(kib), 0)::bigint FROM index_rows WHERE kind = $1 AND usr = $2 AND org = $3`, rowKey(r.RowName)[:3]...).Scan(&held)
		if err != nil {
			return err
		}
		if !rule.RowFits(p, rule.RowKiB(r), old, held) {
			return rule.RowsFull(r.RowName)
		}
		query := `INSERT INTO index_rows (kind, usr, org, id, session, due, open, kib, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING version`
		if have > 0 {
			query = `UPDATE index_rows SET version = nextval('index_rows_version'), session = $5, due = $6, open = $7, kib = $8, body = $9
				WHERE kind = $1 AND usr = $2 AND org = $3 AND id = $4 RETURNING version`
		}
		err = tx.QueryRow(ctx, query, append(rowKey(r.RowName), raw(r.Session), rule.MillisOrNone(r.Due), r.Open, rule.RowKiB(r), notNil(r.Body))...).Scan(&version)
		if raced(err) && r.Version == seam.NoRow {
			return rule.RowThere(r.RowName)
		}
		return err
	})
	if err != nil {
		return 0, err // unknown is not a reason to put it again: that may conflict with itself
	}
	return version, nil
}

// rowAt locks a row and returns its version and what it counts; zeros if there is none.
func rowAt(ctx context.Context, tx pgx.Tx, n seam.RowName) (version, kib int64, err error) {
	err = tx.QueryRow(ctx, `SELECT version, kib FROM index_rows WHERE kind = $1 AND usr = $2 AND org = $3 AND id = $4 FOR NO KEY UPDATE`, rowKey(n)...).Scan(&version, &kib)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return version, kib, err
}

// DropRow implements seam.Store.
func (s *Store) DropRow(ctx context.Context, p parley.Principal, name seam.RowName, version int64) error {
	name, err := rule.RowName(p, name)
	if err != nil {
		return err
	}
	return again(s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		have, _, err := rowAt(ctx, tx, name)
		switch {
		case err != nil:
			return err
		case have == 0:
			return rule.NotFound(name.Kind, name.ID)
		case version != seam.AnyRow && version != have:
			return rule.RowChanged(name)
		}
		_, err = tx.Exec(ctx, `DELETE FROM index_rows WHERE kind = $1 AND usr = $2 AND org = $3 AND id = $4`, rowKey(name)...)
		return err
	}))
}

const rowColumns = `SELECT body, version, kind, usr, org, id, session, due, open FROM index_rows`

func indexRow(r pgx.Rows) (out seam.Row, err error) {
	var due int64
	var body []byte
	err = r.Scan(&body, &out.Version, str(&out.Kind), str(&out.User), str(&out.Org), str(&out.ID), str(&out.Session), &due, &out.Open)
	if out.Due = rule.Due(due); len(body) > 0 {
		out.Body = body
	}
	return out, err
}

// Row implements seam.Store.
func (s *Store) Row(ctx context.Context, p parley.Principal, name seam.RowName) (seam.Row, error) {
	name, err := rule.RowName(p, name)
	if err != nil {
		return seam.Row{}, err
	}
	return one(ctx, s, indexRow, rule.NotFound(name.Kind, name.ID), rowColumns+` WHERE kind = $1 AND usr = $2 AND org = $3 AND id = $4`, rowKey(name)...)
}

// Rows implements seam.Store.
func (s *Store) Rows(ctx context.Context, p parley.Principal, q seam.RowQuery) ([]seam.Row, error) {
	q, none, err := rule.RowQuery(p, q)
	if none || err != nil {
		return nil, err
	}
	w := where{query: rowColumns + " WHERE true"}
	w.and(q.Kind != "", "kind = ?", raw(q.Kind))
	w.and(!p.IsSystem() || q.User != "", "usr = ? AND org = ?", raw(q.User), raw(q.Org))
	w.and(q.Session != "", "session = ? AND session <> ''::bytea", raw(q.Session))
	w.and(!q.Due.IsZero(), "open AND due > 0 AND due < ?", rule.MillisUp(q.Due))
	w.and(q.Open, "open")
	w.and(q.Shut, "NOT open")
	order := "kind, usr, org, id"
	switch a := q.After; {
	case q.Due.IsZero():
		w.and(a.ID != "", "(kind, usr, org, id) > (?, ?, ?, ?)", raw(a.Kind), raw(a.User), raw(a.Org), raw(a.ID))
	default:
		order = "due, usr, org, id"
		w.and(a.ID != "", "(due, usr, org, id) > (?, ?, ?, ?)", rule.MillisOrNone(a.Due), raw(a.User), raw(a.Org), raw(a.ID))
	}
	limit := rule.List(p, q.Limit)
	w.order(order, limit)
	return page(ctx, s, indexRow, limit, w.query, w.args...)
}

// askRows queues the questions of a flush about the rows of its batches: which are there,
// and how much their owners have of each kind.
func (pl *plan) askRows(of matrix, ask func(string, func(pgx.Rows) error, ...any)) {
	if len(of) == 0 {
		return
	}
	const owned = `(SELECT w.kind, w.id, coalesce(s.usr, w.usr) AS usr, coalesce(s.org, w.org) AS org
		FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[]) AS w (of, kind, id, usr, org) LEFT JOIN sessions s ON s.id = w.of) AS o`
	ask(`SELECT r.kind, r.usr, r.org, r.id FROM `+owned+` JOIN index_rows r USING (kind, usr, org, id)`, seeName(pl.rows), of.args()...)
	ask(`SELECT o.kind, o.usr, o.org, (SELECT coalesce(sum(r.kib), 0)::bigint FROM index_rows r WHERE r.kind = o.kind AND r.usr = o.usr AND r.org = o.org)
		FROM (SELECT DISTINCT kind, usr, org FROM `+owned+`) o`, func(r pgx.Rows) error {
		var n name
		var kib int64
		err := r.Scan(str(&n[0]), str(&n[1]), str(&n[2]), &kib)
		pl.held[n] = kib
		return err
	}, of.args()...)
}

// addRows adds the rows of an accepted batch.
func (pl *plan) addRows(ix seam.Index, at *place) {
	for _, r := range ix.DropRows {
		n := name{r.Kind, at.user, at.org, r.ID}
		delete(pl.out.rows, n)
		delete(pl.rows, n)
		pl.out.unrowed[n] = true
	}
	for _, r := range ix.Rows {
		r.User, r.Org = at.user, at.org
		n, of := name{r.Kind, at.user, at.org, r.ID}, name{r.Kind, at.user, at.org}
		if kib := rule.RowKiB(r); !pl.rows[n] {
			if !rule.RowFits(parley.System(), kib, 0, pl.held[of]) {
				if ix.Left != nil {
					ix.Left(r.RowName)
				}
				continue
			}
			pl.held[of] += kib
		}
		pl.rows[n] = true
		delete(pl.out.unrowed, n)
		pl.out.rows[n] = r
	}
}

func (o *output) queueRows(insert func(matrix, string)) {
	var m matrix
	ordered(o.unrowed, func(n name, _ bool) { m.add(raw(n[0]), raw(n[1]), raw(n[2]), raw(n[3])) })
	insert(m, `DELETE FROM index_rows r USING unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[]) AS w (kind, usr, org, id)
		WHERE r.kind = w.kind AND r.usr = w.usr AND r.org = w.org AND r.id = w.id`)
	m = nil
	ordered(o.rows, func(n name, r seam.Row) {
		m.add(raw(n[0]), raw(n[1]), raw(n[2]), raw(n[3]), raw(r.Session), rule.MillisOrNone(r.Due), r.Open, rule.RowKiB(r), notNil(r.Body))
	})
	insert(m, `INSERT INTO index_rows (kind, usr, org, id, session, due, open, kib, body)
		SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bigint[], $7::boolean[], $8::bigint[], $9::bytea[])
		ON CONFLICT (kind, usr, org, id) DO UPDATE SET version = excluded.version, session = excluded.session, due = excluded.due, open = excluded.open, kib = excluded.kib, body = excluded.body`)
}
