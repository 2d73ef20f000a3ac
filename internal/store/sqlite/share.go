package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/rule"
)

// A fork reads its parent's events in place (migration 0004). So rows of the table events
// have readers: the session that appended them, while it exists, and every session with a
// share in them. A row is removed with its last reader, and a step's data once no reader
// may see it.

// share is a stretch of a session's log that is stored as rows of another.
type share struct {
	of    parley.SessionID
	first int64
	last  int64
}

func shares(c *conn, id parley.SessionID, after int64) (all []share, err error) {
	err = c.rows(`SELECT of, first, last FROM shares WHERE session = ? AND last > ? ORDER BY first`, func(s *zombie.Stmt) error {
		all = append(all, share{parley.SessionID(s.ColumnText(0)), s.ColumnInt64(1), s.ColumnInt64(2)})
		return nil
	}, string(id), after)
	return all, err
}

// inherit lets a new session, of user and org, read the events of parent up to at. The
// small rows that they refer to are copied, and so are the rows of the turns and
// interactions that had ended there.
func inherit(c *conn, id parley.SessionID, user, org string, parent place, at int64) error {
	err := c.exec(`INSERT INTO shares (session, first, last, of) SELECT ?1, first, min(last, ?3), of FROM shares WHERE session = ?2 AND first <= ?3`,
		string(id), string(parent.id), at)
	if err != nil {
		return err
	}
	if parent.shared < at {
		err := c.exec(`INSERT INTO shares (session, first, last, of) VALUES (?, ?, ?, ?)`, string(id), parent.shared+1, at, string(parent.id))
		if err != nil {
			return err
		}
	}
	for _, query := range []string{
		`INSERT INTO refs SELECT ?1, digest, seq FROM refs WHERE session = ?2 AND seq <= ?3`,
		`INSERT INTO artifacts SELECT ?1, id, seq, body FROM artifacts WHERE session = ?2 AND seq <= ?3`,
	} {
		if err := c.exec(query, string(id), string(parent.id), at); err != nil {
			return err
		}
	}
	for _, query := range []string{
		`INSERT INTO turns (session, id, user, org, status, live, last, body)
			SELECT ?1, id, ?4, ?5, status, 0, last, body FROM turns WHERE session = ?2 AND live = 0 AND last <= ?3`,
		`INSERT INTO interactions (session, id, user, org, open, kind, opened, expires, last, body)
			SELECT ?1, id, ?4, ?5, 0, kind, opened, expires, last, body FROM interactions WHERE session = ?2 AND open = 0 AND last <= ?3`,
	} {
		if err := c.exec(query, string(id), string(parent.id), at, user, org); err != nil {
			return err
		}
	}
	return nil
}

// Read implements seam.Store.
func (s *Store) Read(ctx context.Context, p parley.Principal, id parley.SessionID, after int64, limit int) (out []parley.Event, err error) {
	after = min(max(after, 0), math.MaxInt64-1) // prevents overflow below
	page := rule.NewPage(limit)
	err = s.view(ctx, func(c *conn) error {
		// The statements must see one snapshot, since an append moves spans, and a deletion rows.
		if err := c.exec("BEGIN"); err != nil {
			return err
		}
		defer func() { _ = c.rollback() }() // nothing was written
		at, err := find(c, p, id)
		if err != nil {
			return err
		}
		own := share{id, at.shared + 1, at.seq}
		var all []share
		if after < at.shared {
			if all, err = shares(c, id, after); err != nil {
				return err
			}
		}
		for _, sh := range append(all, own) {
			sh.first = max(sh.first, after+1)
			if err := read(c, page, at, sh); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return page.Events, nil
}

// read adds the events of a stretch to the page, as session at sees them.
func read(c *conn, page *rule.Page, at place, sh share) error {
	if page.Left() <= 0 {
		return nil
	}
	spans, err := spansOf(c, sh.of, sh.first, min(sh.last, sh.first+int64(page.Left())-1))
	if err != nil {
		return err
	}
	row := func(s *zombie.Stmt) error {
		e := parley.Event{
			Session: at.id, Seq: s.ColumnInt64(0), Turn: parley.TurnID(s.ColumnText(1)), Agent: parley.AgentPath(s.ColumnText(2)),
			Time: time.UnixMilli(s.ColumnInt64(3)).UTC(), Type: parley.EventType(s.ColumnText(4)), V: s.ColumnInt(5),
		}
		taken := e.Seq <= at.condensed && parley.IsStep(e.Type)
		size := s.ColumnLen(6)
		if taken {
			size = 0
		}
		if !page.Takes(size) {
			return errEnough
		}
		if !taken {
			e.Data = json.RawMessage(bytes(s, 6))
		}
		page.Events = append(page.Events, e)
		return nil
	}
	for _, sp := range spans {
		err := c.rows(`SELECT seq, turn, agent, time, type, v, data FROM events WHERE at BETWEEN ? AND ? AND session = ? AND seq BETWEEN ? AND ? ORDER BY at`,
			row, sp.at, sp.end(), string(sh.of), sh.first, sh.last)
		if err == errEnough {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// condense removes the data of a session's steps, for this session. The bytes are deleted
// when no other session reads them.
func condense(c *conn, id string, to int64) error {
	if err := c.exec(`UPDATE sessions SET condensed = max(condensed, ?2) WHERE id = ?1`, id, to); err != nil {
		return err
	}
	all, err := shares(c, parley.SessionID(id), 0)
	if err != nil {
		return err
	}
	for _, sh := range all {
		if err := erase(c, sh.of, min(sh.last, to)); err != nil {
			return err
		}
	}
	return erase(c, parley.SessionID(id), to)
}

// erase removes the data of a log's steps that none of its readers may see.
func erase(c *conn, log parley.SessionID, to int64) error {
	spans, err := spansOf(c, log, 0, to)
	if err != nil {
		return err
	}
	for _, sp := range spans {
		err := c.exec(`UPDATE events SET data = NULL WHERE at BETWEEN ?3 AND ?4 AND session = ?1 AND seq <= ?2 AND data IS NOT NULL
			AND (type LIKE 'model.%' OR type LIKE 'tool.%' OR type LIKE 'agent.%' OR type LIKE 'context.%')
			AND NOT EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND condensed < events.seq)
			AND NOT EXISTS (SELECT 1 FROM shares h JOIN sessions r ON r.id = h.session WHERE h.of = ?1 AND h.last >= events.seq AND r.condensed < events.seq)`,
			string(log), to, sp.at, sp.end())
		if err != nil {
			return err
		}
	}
	return nil
}

// free removes the events of a deleted session that nobody reads.
func free(c *conn, log parley.SessionID) error {
	gone, err := exists(c, `SELECT 1 FROM gone WHERE id = ?`, string(log))
	if err != nil || !gone {
		return err
	}
	kept := int64(0)
	err = c.rows(`SELECT coalesce(max(last), 0) FROM shares WHERE of = ?`, func(s *zombie.Stmt) error { kept = s.ColumnInt64(0); return nil }, string(log))
	if err != nil {
		return err
	}
	spans, err := spansOf(c, log, kept+1, math.MaxInt64)
	if err != nil || len(spans) == 0 {
		return err
	}
	for _, sp := range spans {
		if err := c.exec(`DELETE FROM events WHERE at BETWEEN ? AND ? AND session = ? AND seq > ?`, sp.at, sp.end(), string(log), kept); err != nil {
			return err
		}
	}
	return keepSpans(c, log, kept)
}

// Delete implements seam.Store.
func (s *Store) Delete(ctx context.Context, p parley.Principal, id parley.SessionID) error {
	return s.write(ctx, func(c *conn) error {
		at, err := find(c, p, id)
		if err != nil {
			return err
		}
		read, err := shares(c, id, 0)
		if err != nil {
			return err
		}
		if tail, err := parseSpans(at.tail); err != nil {
			return err
		} else if len(tail) > 0 { // its row goes
			if err := storeSpans(c, id, tail); err != nil {
				return err
			}
		}
		for _, query := range []string{
			`DELETE FROM sessions WHERE id = ?`, `INSERT INTO gone (id) VALUES (?)`, `DELETE FROM shares WHERE session = ?`,
			`DELETE FROM states WHERE session = ?`, `DELETE FROM turns WHERE session = ?`,
			`DELETE FROM interactions WHERE session = ?`, `DELETE FROM artifacts WHERE session = ?`, `DELETE FROM keys WHERE session = ?`,
			`DELETE FROM aliases WHERE session = ?`, `DELETE FROM refs WHERE session = ?`, `DELETE FROM chunks WHERE session = ?`,
			`DELETE FROM index_rows WHERE session = ? AND session <> ''`,
		} {
			if err := c.exec(query, string(id)); err != nil {
				return err
			}
		}
		if err := retire(c, at, s.now()); err != nil {
			return err
		}
		for _, sh := range append(read, share{of: id, last: math.MaxInt64}) {
			if err := free(c, sh.of); err != nil {
				return err
			}
			if err := erase(c, sh.of, sh.last); err != nil {
				return err
			}
		}
		return nil
	})
}

// retire keeps the user's keys that made a deleted session, and removes those that have
// been kept for long enough or are too many.
func retire(c *conn, of place, now time.Time) error {
	return errors.Join(
		c.exec(`UPDATE keys SET gone = ?2 WHERE of = ?1 AND session = ''`, string(of.id), rule.Millis(now)),
		c.exec(`DELETE FROM keys WHERE gone > 0 AND gone < ?`, rule.Millis(now.Add(-rule.KeyKept))),
		c.exec(`DELETE FROM keys WHERE user = ?1 AND org = ?2 AND gone > 0 AND (gone, key) <= (
			SELECT gone, key FROM keys WHERE user = ?1 AND org = ?2 AND gone > 0 ORDER BY gone DESC, key DESC LIMIT 1 OFFSET ?3)`,
			of.user, of.org, rule.KeysKept),
	)
}
