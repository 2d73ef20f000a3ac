package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/rule"
)

// A fork reads its parent's events in place (migration 0004). So rows of the table events
// have readers: the session that appended them, while it exists, and every session with a
// share in them. A row is removed with its last reader, and a step's data once no reader
// may see it.

// lockShares serializes changes to the readers of rows: of two concurrent deletions, each
// could otherwise leave rows to the other. It is taken after the locks of sessions, and
// no session is locked after it.
const lockShares = `SELECT pg_advisory_xact_lock(5789771190341120)`

// queue lets a new session read the events of from. The small rows that they refer to are
// copied, and so are the rows of the turns and interactions that had ended there. The
// fork's own rows exist already.
func (f fork) queue(b *pgx.Batch) {
	id, from := raw(f.id), raw(f.from)
	b.Queue(`INSERT INTO shares (session, first, last, of) SELECT $1::bytea, first, least(last, $3), of FROM shares WHERE session = $2 AND first <= $3`, id, from, f.at)
	if f.shared < f.at {
		b.Queue(`INSERT INTO shares (session, first, last, of) VALUES ($1, $2, $3, $4)`, id, f.shared+1, f.at, from)
	}
	b.Queue(`INSERT INTO refs (session, digest, seq) SELECT $1::bytea, digest, seq FROM refs WHERE session = $2 AND seq <= $3
		ON CONFLICT (session, digest) DO UPDATE SET seq = excluded.seq`, id, from, f.at)
	b.Queue(`INSERT INTO artifacts (session, id, seq, body) SELECT $1::bytea, id, seq, body FROM artifacts WHERE session = $2 AND seq <= $3
		ON CONFLICT DO NOTHING`, id, from, f.at)
	b.Queue(`INSERT INTO turns (session, id, usr, org, status, live, last, body)
		SELECT $1::bytea, t.id, s.usr, s.org, t.status, false, t.last, t.body FROM turns t JOIN sessions s ON s.id = $1
		WHERE t.session = $2 AND NOT t.live AND t.last <= $3
		ON CONFLICT DO NOTHING`, id, from, f.at)
	b.Queue(`INSERT INTO interactions (session, id, usr, org, open, kind, opened, expires, last, body)
		SELECT $1::bytea, i.id, s.usr, s.org, false, i.kind, i.opened, i.expires, i.last, i.body FROM interactions i JOIN sessions s ON s.id = $1
		WHERE i.session = $2 AND NOT i.open AND i.last <= $3
		ON CONFLICT DO NOTHING`, id, from, f.at)
}

// steps are the events whose data condensing removes.
const steps = `(e.type LIKE 'model.%'::bytea OR e.type LIKE 'tool.%'::bytea OR e.type LIKE 'agent.%'::bytea OR e.type LIKE 'context.%'::bytea)`

// erase is the statement that removes the data of steps that none of their readers may
// see, in logs (id) up to a number (to).
func erase(logs string) string {
	return `UPDATE events e SET data = NULL FROM ` + logs + ` AS l (id, upto) WHERE e.session = l.id AND e.seq <= l.upto AND e.data IS NOT NULL AND ` + steps + `
		AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = l.id AND s.condensed < e.seq)
		AND NOT EXISTS (SELECT 1 FROM shares h JOIN sessions r ON r.id = h.session WHERE h.of = l.id AND h.last >= e.seq AND r.condensed < e.seq)`
}

// share is a stretch of a session's log that is stored as rows of another.
type share struct {
	of          []byte
	first, last int64
}

// Read implements seam.Store.
func (s *Store) Read(ctx context.Context, p parley.Principal, id parley.SessionID, after int64, limit int) (out []parley.Event, err error) {
	after = min(max(after, 0), math.MaxInt64-1) // prevents overflow below
	err = s.view(ctx, func(ctx context.Context, c *pgx.Conn) error {
		page := rule.NewPage(limit)
		at, err := find(ctx, c, p, id)
		switch {
		case err != nil:
		case after >= at.shared:
			err = read(ctx, c, page, id, at, share{raw(id), after + 1, math.MaxInt64})
		default:
			err = readShared(ctx, c, page, p, id, after)
		}
		out = page.Events
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// readShared reads a session's log, parts of which are rows of others. Its statements see
// one snapshot, since a deletion moves rows.
func readShared(ctx context.Context, c *pgx.Conn, page *rule.Page, p parley.Principal, id parley.SessionID, after int64) error {
	return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		at, err := find(ctx, tx, p, id)
		if err != nil {
			return err
		}
		var all []share
		_, err = scan(ctx, c, func(r pgx.Rows) error {
			var sh share
			err := r.Scan(&sh.of, &sh.first, &sh.last)
			all = append(all, sh)
			return err
		}, `SELECT of, first, last FROM shares WHERE session = $1 AND last > $2 ORDER BY first`, raw(id), after)
		if err != nil {
			return err
		}
		for _, sh := range append(all, share{raw(id), at.shared + 1, math.MaxInt64}) {
			sh.first = max(sh.first, after+1)
			if err := read(ctx, c, page, id, at, sh); err != nil {
				return err
			}
			if n := len(page.Events); n == 0 || page.Events[n-1].Seq < sh.last || page.Left() <= 0 {
				break // the page is full
			}
		}
		return nil
	})
}

// read adds the events of a stretch to the page, as session at sees them. The database
// adds up their sizes without reading the bytes, so only what belongs to the page is
// sent.
func read(ctx context.Context, c *pgx.Conn, page *rule.Page, id parley.SessionID, at place, sh share) error {
	_, err := scan(ctx, c, func(r pgx.Rows) error {
		e := parley.Event{Session: id}
		var ms int64
		var data []byte
		if err := r.Scan(&e.Seq, str(&e.Turn), str(&e.Agent), &ms, str(&e.Type), &e.V, &data); err != nil {
			return err
		}
		if page.Takes(len(data)) {
			e.Time, e.Data = time.UnixMilli(ms).UTC(), json.RawMessage(data)
			page.Events = append(page.Events, e)
		}
		return nil
	}, `SELECT seq, turn, agent, time, type, v, data FROM (
			SELECT *, sum(coalesce(octet_length(data), 0)) OVER (ORDER BY seq) AS size, row_number() OVER (ORDER BY seq) AS n FROM (
				SELECT seq, turn, agent, time, type, v, CASE WHEN seq <= $5 AND `+steps+` THEN NULL ELSE data END AS data
				FROM events e WHERE session = $1 AND seq BETWEEN $2 AND $3 ORDER BY seq LIMIT $4
			) e
		) e WHERE size <= $6 OR n = 1 ORDER BY seq`,
		sh.of, sh.first, sh.last, page.Left(), at.condensed, rule.PageBytes)
	return err
}

// Delete implements seam.Store.
func (s *Store) Delete(ctx context.Context, p parley.Principal, id parley.SessionID) error {
	return s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, long); err != nil {
			return err
		}
		var user, org []byte
		err := tx.QueryRow(ctx, `DELETE FROM sessions WHERE id = $1 AND ($2::boolean OR usr = $3 AND org = $4) RETURNING usr, org`,
			raw(id), p.IsSystem(), raw(p.User), raw(p.Org)).Scan(&user, &org)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return rule.NotFound("session", id)
		case err != nil:
			return err
		}
		if _, err := tx.Exec(ctx, lockShares); err != nil {
			return err
		}
		logs, last := [][]byte{raw(id)}, []int64{math.MaxInt64}
		_, err = scan(ctx, tx.Conn(), func(r pgx.Rows) error {
			var of []byte
			var to int64
			err := r.Scan(&of, &to)
			logs, last = append(logs, of), append(last, to)
			return err
		}, `DELETE FROM shares WHERE session = $1 RETURNING of, last`, raw(id))
		if err != nil {
			return err
		}
		b := &pgx.Batch{}
		for _, query := range []string{
			`INSERT INTO gone (id) VALUES ($1)`,
			`DELETE FROM states WHERE session = $1`, `DELETE FROM turns WHERE session = $1`,
			`DELETE FROM interactions WHERE session = $1`, `DELETE FROM artifacts WHERE session = $1`, `DELETE FROM keys WHERE session = $1`,
			`DELETE FROM aliases WHERE session = $1`, `DELETE FROM refs WHERE session = $1`, `DELETE FROM chunks WHERE session = $1`,
			`DELETE FROM index_rows WHERE session = $1 AND session <> ''::bytea`,
		} {
			b.Queue(query, raw(id))
		}
		// The user's keys that made the session stay for a while: see rule.KeyKept.
		now := s.now()
		b.Queue(`UPDATE keys SET gone = $2 WHERE of = $1 AND session = ''`, raw(id), rule.Millis(now))
		b.Queue(`DELETE FROM keys WHERE gone > 0 AND gone < $1`, rule.Millis(now.Add(-rule.KeyKept)))
		b.Queue(`DELETE FROM keys WHERE usr = $1 AND org = $2 AND gone > 0 AND (gone, key) <= (
			SELECT gone, key FROM keys WHERE usr = $1 AND org = $2 AND gone > 0 ORDER BY gone DESC, key DESC LIMIT 1 OFFSET $3)`,
			user, org, rule.KeysKept)
		b.Queue(`DELETE FROM events e USING unnest($1::bytea[]) AS l (id) WHERE e.session = l.id
			AND e.seq > (SELECT coalesce(max(h.last), 0) FROM shares h WHERE h.of = l.id) AND EXISTS (SELECT 1 FROM gone g WHERE g.id = l.id)`, logs)
		b.Queue(erase(`unnest($1::bytea[], $2::bigint[])`), logs, last)
		return tx.SendBatch(ctx, b).Close()
	})
}
