package sqlite

import (
	"context"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

// rows is a batch as it is stored. The caller encodes it, not the writer.
type rows struct {
	seam.Batch
	info                           []byte
	turns, interactions, artifacts [][]byte
}

func encode(b seam.Batch) (r rows, err error) {
	r.Batch = b
	if b.Index.Session != nil {
		if r.info, err = rule.Encode(b.Index.Session); err != nil {
			return r, err
		}
	}
	if r.turns, err = encodeAll(b.Index.Turns); err != nil {
		return r, err
	}
	if r.interactions, err = encodeAll(b.Index.Interactions); err != nil {
		return r, err
	}
	r.artifacts, err = encodeAll(b.Index.Artifacts)
	return r, err
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
	r, err := encode(b)
	if err != nil {
		return err
	}
	return s.write(ctx, func(c *conn) error {
		if b.Create {
			return create(c, p, r, nil)
		}
		return extend(c, p, r)
	})
}

// Fork implements seam.Store.
func (s *Store) Fork(ctx context.Context, p parley.Principal, from parley.SessionID, at int64, b seam.Batch) error {
	if err := rule.Fork(p, from, at, b); err != nil {
		return err
	}
	r, err := encode(b)
	if err != nil {
		return err
	}
	return s.write(ctx, func(c *conn) error {
		parent, err := find(c, p, from)
		if err != nil {
			return err
		}
		if at > parent.seq {
			return rule.BeyondEnd(from, at, parent.seq)
		}
		return create(c, p, r, &parent)
	})
}

// place is a session's position in its log.
type place struct {
	id                parley.SessionID
	user, org         string
	epoch, seq        int64
	shared, condensed int64 // see migration 0004
	bytes             int64
	tail              string // see migration 0015
}

func find(c *conn, p parley.Principal, id parley.SessionID) (at place, err error) {
	found := false
	err = c.rows(`SELECT user, org, epoch, seq, shared, condensed, bytes, tail FROM sessions WHERE id = ?1 AND (?2 OR user = ?3 AND org = ?4)`, func(s *zombie.Stmt) error {
		at = place{id, s.ColumnText(0), s.ColumnText(1), s.ColumnInt64(2), s.ColumnInt64(3), s.ColumnInt64(4), s.ColumnInt64(5), s.ColumnInt64(6), s.ColumnText(7)}
		found = true
		return nil
	}, string(id), p.IsSystem(), p.User, p.Org)
	if err == nil && !found {
		err = rule.NotFound("session", id)
	}
	return at, err
}

// exists runs a query for one row.
func exists(c *conn, query string, args ...any) (found bool, err error) {
	err = c.rows(query, func(*zombie.Stmt) error { found = true; return nil }, args...)
	return found, err
}

func extend(c *conn, p parley.Principal, r rows) error {
	at, err := find(c, p, r.Session)
	switch {
	case err != nil:
		return err
	case at.epoch != r.Epoch:
		return rule.Fenced(r.Session, at.epoch, r.Epoch)
	case at.seq != r.After:
		return rule.Conflict(r.Session, at.seq, r.After)
	}
	if err := rule.SameOwner(r.Index.Session, at.user, at.org); err != nil {
		return err
	}
	grown, err := put(c, r, at.user, at.org)
	if err != nil {
		return err
	}
	if len(r.Events) > 0 {
		if at.tail, err = grow(c, r.Session, at.tail, grown); err != nil {
			return err
		}
	}
	last := r.After + int64(len(r.Events))
	if in := r.Index.Session; in != nil {
		return c.exec(`UPDATE sessions SET seq = ?2, app = ?3, status = ?4, updated = ?5, info = ?6, held = ?7, steps = ?8, bytes = bytes + ?9, waits = ?10, tail = ?11 WHERE id = ?1`,
			string(r.Session), last, in.App, string(in.Status), rule.Millis(in.UpdatedAt), r.info, rule.Held(in), rule.MillisOrNone(in.StepsSince), rule.Bytes(r.Batch), rule.Waits(in), at.tail)
	}
	if n := rule.Bytes(r.Batch); last != r.After || n != 0 {
		return c.exec(`UPDATE sessions SET seq = ?2, bytes = bytes + ?3, tail = ?4 WHERE id = ?1`, string(r.Session), last, n, at.tail)
	}
	return nil
}

// create makes the session of r, beginning with the log of parent, if any, up to r.After.
func create(c *conn, p parley.Principal, r rows, parent *place) error {
	in, id := r.Index.Session, string(r.Session)
	taken, err := exists(c, `SELECT 1 FROM sessions WHERE id = ?1 UNION ALL SELECT 1 FROM gone WHERE id = ?1`, id)
	if err != nil {
		return err
	}
	if taken {
		if _, err := find(c, p, r.Session); err != nil {
			return err
		}
		return rule.Exists(r.Session)
	}
	if in.OutsideID != "" {
		err := c.exec(`INSERT OR IGNORE INTO aliases (app, outside, user, org, session) VALUES (?, ?, ?, ?, ?)`, in.App, in.OutsideID, in.User, in.Org, id)
		if err != nil {
			return err
		}
		if c.Changes() == 0 {
			return rule.AliasTaken(in.OutsideID)
		}
	}
	shared, condensed, held := int64(0), int64(0), rule.Bytes(r.Batch)
	if parent != nil {
		held += parent.bytes
		shared, condensed = r.After, min(parent.condensed, r.After)
	}
	err = c.exec(`INSERT INTO sessions (id, user, org, app, status, owner, epoch, seq, updated, info, held, steps, shared, condensed, bytes, direct, waits) VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		id, in.User, in.Org, in.App, string(in.Status), r.Owner, r.After+int64(len(r.Events)), rule.Millis(in.UpdatedAt), r.info, rule.Held(in), rule.MillisOrNone(in.StepsSince),
		shared, condensed, held, in.Direct, rule.Waits(in))
	if err != nil {
		return err
	}
	if parent != nil {
		if err := inherit(c, r.Session, in.User, in.Org, *parent, r.After); err != nil {
			return err
		}
	}
	events, err := put(c, r, in.User, in.Org)
	if err != nil || len(r.Events) == 0 {
		return err
	}
	return c.exec(`UPDATE sessions SET tail = ?2 WHERE id = ?1`, id, events.String())
}

// put writes everything except the session's row, and returns where the events are. Statements
// that may be refused come first.
func put(c *conn, r rows, user, org string) (events span, err error) {
	id := string(r.Session)
	for _, k := range r.Index.Keys {
		err := c.exec(`INSERT OR IGNORE INTO keys (session, key, user, org, of, body, made, turn) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			string(k.Session), k.Key, user, org, id, string(k.Body), string(k.Made), string(k.Turn))
		if err != nil {
			return events, err
		}
		if c.Changes() == 0 {
			return events, rule.KeyTaken(k.Key)
		}
	}
	for _, d := range r.Index.Release {
		if err := c.exec(`DELETE FROM refs WHERE session = ? AND digest = ?`, id, string(d)); err != nil {
			return events, err
		}
	}
	for _, a := range r.Index.DropArtifacts {
		if err := c.exec(`DELETE FROM artifacts WHERE session = ? AND id = ?`, id, string(a)); err != nil {
			return events, err
		}
	}
	refers := rule.RefersOf(r.Batch)
	for _, d := range r.Index.Blobs {
		if ok, err := exists(c, `SELECT 1 FROM blobs WHERE digest = ?`, string(d)); err != nil {
			return events, err
		} else if !ok {
			return events, rule.NoBlob(d)
		}
		if err := c.exec(`INSERT OR IGNORE INTO refs (session, digest, seq) VALUES (?, ?, ?)`, id, string(d), refers.Blob(d)); err != nil {
			return events, err
		}
	}
	if r.Condense > 0 {
		if err := condense(c, id, r.Condense); err != nil {
			return events, err
		}
	}
	if events, err = putEvents(c, r); err != nil {
		return events, err
	}
	if err := putIndex(c, r, refers, user, org); err != nil {
		return events, err
	}
	if err := putRows(c, r.Index, user, org); err != nil {
		return events, err
	}
	for _, call := range r.Index.DropChunks {
		if err := c.exec(`DELETE FROM chunks WHERE session = ? AND call = ?`, id, string(call)); err != nil {
			return events, err
		}
	}
	return events, nil
}

func putEvent(c *conn, e parley.Event) error {
	var data []byte // NULL when there is none
	if len(e.Data) > 0 {
		data = e.Data
	}
	return c.exec(`INSERT INTO events (session, seq, turn, agent, time, type, v, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		string(e.Session), e.Seq, string(e.Turn), string(e.Agent), rule.Millis(e.Time), string(e.Type), e.V, data)
}

func putIndex(c *conn, r rows, refers rule.Refers, user, org string) error {
	id := string(r.Session)
	if st := r.Index.State; st != nil {
		err := c.exec(`INSERT INTO states (session, seq, version, body) VALUES (?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET seq = excluded.seq, version = excluded.version, body = excluded.body`, id, st.Seq, st.Version, append([]byte{}, st.Body...))
		if err != nil {
			return err
		}
	}
	for i, t := range r.Index.Turns {
		err := c.exec(`INSERT INTO turns (session, id, user, org, status, live, last, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET status = excluded.status, live = excluded.live, last = excluded.last, body = excluded.body`,
			id, string(t.ID), user, org, string(t.Status), !t.Status.Ended(), t.LastSeq, r.turns[i])
		if err != nil {
			return err
		}
	}
	for i, in := range r.Index.Interactions {
		err := c.exec(`INSERT INTO interactions (session, id, user, org, open, kind, opened, expires, last, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET open = excluded.open, kind = excluded.kind, opened = excluded.opened, expires = excluded.expires, last = excluded.last, body = excluded.body`,
			id, string(in.ID), user, org, in.Open, string(in.Kind), rule.Millis(in.OpenedAt), rule.MillisOrNone(in.ExpiresAt), in.LastSeq, r.interactions[i])
		if err != nil {
			return err
		}
	}
	for _, sp := range r.Index.Spend {
		n := rule.SpendOf(sp)
		err := c.exec(`INSERT INTO spent (user, org, day, model, calls, input, output, cache_read, cache_write, reasoning, nano_usd) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET calls = calls + excluded.calls, input = input + excluded.input, output = output + excluded.output,
			cache_read = cache_read + excluded.cache_read, cache_write = cache_write + excluded.cache_write,
			reasoning = reasoning + excluded.reasoning, nano_usd = nano_usd + excluded.nano_usd`,
			user, org, sp.Day, sp.Model, n[0], n[1], n[2], n[3], n[4], n[5], n[6])
		if err != nil {
			return err
		}
	}
	for i, a := range r.Index.Artifacts {
		err := c.exec(`INSERT OR REPLACE INTO artifacts (session, id, seq, body) VALUES (?, ?, ?, ?)`, id, string(a.ID), refers.Artifact(a.ID), r.artifacts[i])
		if err != nil {
			return err
		}
	}
	return nil
}

// Claim implements seam.Store.
func (s *Store) Claim(ctx context.Context, p parley.Principal, id parley.SessionID, node string) (epoch int64, err error) {
	others, err := rule.Encode(s.Others(node))
	if err != nil {
		return 0, err
	}
	err = s.write(ctx, func(c *conn) error {
		epoch = 0
		err := c.rows(`UPDATE sessions SET epoch = epoch + 1, owner = ?5 WHERE id = ?1 AND (?2 OR user = ?3 AND org = ?4)
			AND owner NOT IN (SELECT value FROM json_each(?6)) RETURNING epoch`,
			func(s *zombie.Stmt) error { epoch = s.ColumnInt64(0); return nil },
			string(id), p.IsSystem(), p.User, p.Org, node, string(others))
		if err != nil || epoch != 0 {
			return err
		}
		if _, err := find(c, p, id); err != nil {
			return err
		}
		return rule.Driven(id)
	})
	if err != nil {
		return 0, err
	}
	return epoch, nil
}

// SaveChunks implements seam.Store.
func (s *Store) SaveChunks(ctx context.Context, p parley.Principal, chunks []seam.Chunk) error {
	return s.write(ctx, func(c *conn) error {
		for _, ch := range chunks {
			err := c.exec(`INSERT OR REPLACE INTO chunks (session, call, n, text) SELECT id, ?5, ?6, ?7 FROM sessions
				WHERE id = ?1 AND (?2 OR user = ?3 AND org = ?4) AND epoch = ?8`,
				string(ch.Session), p.IsSystem(), p.User, p.Org, string(ch.Call), ch.N, ch.Text, ch.Epoch)
			if err != nil {
				return err
			}
		}
		return nil
	})
}
