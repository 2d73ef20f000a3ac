package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

// rows is a batch as it is stored. The caller encodes it, not the writer.
type rows struct {
	seam.Batch
	create                         bool
	info                           []byte
	turns, interactions, artifacts [][]byte
	size                           int // roughly, in bytes
}

func encode(b seam.Batch, create bool) (*rows, error) {
	r := &rows{Batch: b, create: create}
	var err error
	if b.Index.Session != nil {
		if r.info, err = rule.Encode(b.Index.Session); err != nil {
			return nil, err
		}
	}
	if r.turns, err = encodeAll(b.Index.Turns); err != nil {
		return nil, err
	}
	if r.interactions, err = encodeAll(b.Index.Interactions); err != nil {
		return nil, err
	}
	if r.artifacts, err = encodeAll(b.Index.Artifacts); err != nil {
		return nil, err
	}
	r.size = len(r.info)
	for _, all := range [][][]byte{r.turns, r.interactions, r.artifacts} {
		for _, body := range all {
			r.size += len(body)
		}
	}
	for _, e := range b.Events {
		r.size += len(e.Data)
	}
	if b.Index.State != nil {
		r.size += len(b.Index.State.Body)
	}
	for _, row := range b.Index.Rows {
		r.size += len(row.Body)
	}
	return r, nil
}

func encodeAll[T any](all []T) (out [][]byte, err error) {
	for _, v := range all {
		raw, err := rule.Encode(v)
		if err != nil {
			return nil, err
		}
		out = append(out, raw)
	}
	return out, nil
}

// Append implements seam.Store.
func (s *Store) Append(ctx context.Context, p parley.Principal, b seam.Batch) error {
	if err := rule.Batch(p, b); err != nil {
		return err
	}
	r, err := encode(b, b.Create)
	if err != nil {
		return err
	}
	return outside(s.w.submit(ctx, &piece{p: p, rows: r}))
}

// Fork implements seam.Store.
func (s *Store) Fork(ctx context.Context, p parley.Principal, from parley.SessionID, at int64, b seam.Batch) error {
	if err := rule.Fork(p, from, at, b); err != nil {
		return err
	}
	r, err := encode(b, true)
	if err != nil {
		return err
	}
	return outside(s.w.submit(ctx, &piece{p: p, rows: r, from: from}))
}

// Claim implements seam.Store. Besides the nodes of this process, two rows of the table
// nodes can prevent it: that of the owner while its lease lasts (ErrDriven), and that of
// node itself when its lease is over (CodeFenced). A node without a lease can claim any
// session whose owner has no valid lease.
func (s *Store) Claim(ctx context.Context, p parley.Principal, id parley.SessionID, node string) (epoch int64, err error) {
	others := [][]byte{}
	for _, o := range s.Others(node) {
		others = append(others, raw(o))
	}
	err = s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// It waits for chunks that are being saved under the old epoch.
		if _, err := tx.Exec(ctx, `SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE`, raw(id)); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `UPDATE sessions SET epoch = epoch + 1, owner = $5
			WHERE id = $1 AND ($2::boolean OR usr = $3 AND org = $4)
			AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = owner AND n.id <> $5 AND n.lease_until > clock_timestamp())
			AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = $5 AND n.lease_until <= clock_timestamp())
			AND NOT owner = ANY($6)
			RETURNING epoch`, raw(id), p.IsSystem(), raw(p.User), raw(p.Org), raw(node), others).Scan(&epoch)
		if errors.Is(err, pgx.ErrNoRows) {
			return whyNot(ctx, tx, p, id, node)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return epoch, nil
}

// whyNot says why a claim changed nothing.
func whyNot(ctx context.Context, tx pgx.Tx, p parley.Principal, id parley.SessionID, node string) error {
	if _, err := find(ctx, tx, p, id); err != nil {
		return err
	}
	var over bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM nodes WHERE id = $1 AND lease_until <= clock_timestamp())`, raw(node)).Scan(&over)
	switch {
	case err != nil:
		return err
	case over:
		return parley.Errorf(parley.CodeFenced, "the lease of node %q is over", node)
	}
	return rule.Driven(id)
}

// find returns where a session is.
func find(ctx context.Context, q querier, p parley.Principal, id parley.SessionID) (at place, err error) {
	err = q.QueryRow(ctx, `SELECT usr, org, epoch, seq, shared, condensed FROM sessions WHERE id = $1 AND ($2::boolean OR usr = $3 AND org = $4)`,
		raw(id), p.IsSystem(), raw(p.User), raw(p.Org)).Scan(str(&at.user), str(&at.org), &at.epoch, &at.seq, &at.shared, &at.condensed)
	if errors.Is(err, pgx.ErrNoRows) {
		err = rule.NotFound("session", id)
	}
	return at, err
}

// SaveChunks implements seam.Store. It does not wait for the disk. The sessions' rows are
// locked against deletion and claims, but not against appends.
func (s *Store) SaveChunks(ctx context.Context, p parley.Principal, chunks []seam.Chunk) error {
	if len(chunks) == 0 {
		return s.begin(ctx)
	}
	type at struct {
		session parley.SessionID
		epoch   int64
		call    parley.CallID
		n       int64
	}
	var m matrix
	var sessions [][]byte
	last := map[at]int{}
	for i, c := range chunks {
		last[at{c.Session, c.Epoch, c.Call, c.N}] = i
	}
	for i, c := range chunks {
		if last[at{c.Session, c.Epoch, c.Call, c.N}] == i { // one statement cannot write a row twice
			sessions = append(sessions, raw(c.Session))
			m.add(raw(c.Session), c.Epoch, raw(c.Call), c.N, raw(c.Text))
		}
	}
	err := s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`SET LOCAL synchronous_commit = off`)
		b.Queue(`SELECT 1 FROM unnest($1::bytea[]) AS w (id) JOIN sessions s USING (id) ORDER BY s.id FOR KEY SHARE OF s`, sessions)
		b.Queue(`INSERT INTO chunks (session, call, n, text)
			SELECT s.id, w.call, w.n, w.text FROM unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bytea[]) AS w (session, epoch, call, n, text)
			JOIN sessions s ON s.id = w.session AND s.epoch = w.epoch AND ($6::boolean OR s.usr = $7 AND s.org = $8)
			ORDER BY 1, 2, 3
			ON CONFLICT (session, call, n) DO UPDATE SET text = excluded.text`, append(m, p.IsSystem(), raw(p.User), raw(p.Org))...)
		return tx.SendBatch(ctx, b).Close()
	})
	return again(err)
}

// again turns an unknown outcome into a retryable error, for operations that may be
// repeated.
func again(err error) error {
	if unknown(err) {
		return unavailable("the database cannot be reached", "send it again", err)
	}
	return err
}
