package sqlite

import (
	"context"
	"errors"
	"slices"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

// owned is the access condition of every query on a session's data; the query's first
// argument is the session's id.
const owned = `EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND (?2 OR user = ?3 AND org = ?4))`

// of runs a query on the data of one session. Its arguments 1 to 4 are the session and
// the principal. If there are no rows, the error says whether the session exists.
func of(c *conn, p parley.Principal, id parley.SessionID, query string, each func(*zombie.Stmt) error, args ...any) error {
	n := 0
	err := c.rows(query, func(s *zombie.Stmt) error { n++; return each(s) },
		append([]any{string(id), p.IsSystem(), p.User, p.Org}, args...)...)
	if err == nil && n == 0 {
		_, err = find(c, p, id)
	}
	return err
}

// State implements seam.Store.
func (s *Store) State(ctx context.Context, p parley.Principal, id parley.SessionID) (out seam.State, err error) {
	err = s.view(ctx, func(c *conn) error {
		found := false
		err := of(c, p, id, `SELECT seq, version, body FROM states WHERE session = ?1 AND `+owned, func(s *zombie.Stmt) error {
			found, out = true, seam.State{Seq: s.ColumnInt64(0), Version: s.ColumnInt(1), Body: bytes(s, 2)}
			return nil
		})
		if err == nil && !found {
			err = rule.NotFound("stored state of session", id)
		}
		return err
	})
	return out, err
}

// Session implements seam.Store.
func (s *Store) Session(ctx context.Context, p parley.Principal, id parley.SessionID) (out parley.SessionInfo, err error) {
	return one(ctx, s, info, rule.NotFound("session", id),
		`SELECT seq, info FROM sessions WHERE id = ? AND (? OR user = ? AND org = ?)`, string(id), p.IsSystem(), p.User, p.Org)
}

func info(s *zombie.Stmt) (parley.SessionInfo, error) {
	in, err := rule.Decode[parley.SessionInfo](bytes(s, 1))
	in.Version = s.ColumnInt64(0)
	return in, err
}

// body decodes a row whose first column is its JSON.
func body[T any](s *zombie.Stmt) (T, error) { return rule.Decode[T](bytes(s, 0)) }

// artifact, turn and interaction read rows that forks copy from their parents: a column says whose
// they are.
func artifact(s *zombie.Stmt) (seam.Artifact, error) {
	a, err := body[seam.Artifact](s)
	a.Session = parley.SessionID(s.ColumnText(1))
	return a, err
}

func turn(s *zombie.Stmt) (parley.TurnInfo, error) {
	t, err := body[parley.TurnInfo](s)
	t.SessionID = parley.SessionID(s.ColumnText(1))
	return t, err
}

func interaction(s *zombie.Stmt) (seam.InteractionRow, error) {
	in, err := body[seam.InteractionRow](s)
	in.Session = parley.SessionID(s.ColumnText(1))
	return in, err
}

func sessionID(s *zombie.Stmt) (parley.SessionID, error) {
	return parley.SessionID(s.ColumnText(0)), nil
}

// list runs a query on a reader.
func list[T any](ctx context.Context, s *Store, row func(*zombie.Stmt) (T, error), query string, args ...any) (out []T, err error) {
	err = s.view(ctx, func(c *conn) error {
		return c.rows(query, func(s *zombie.Stmt) error {
			v, err := row(s)
			out = append(out, v)
			return err
		}, args...)
	})
	return out, err
}

// page is list for rows whose first column is their JSON, up to limit and rule.ListBytes.
func page[T any](ctx context.Context, s *Store, row func(*zombie.Stmt) (T, error), limit int, query string, args ...any) (out []T, err error) {
	err = s.view(ctx, func(c *conn) error {
		var rows rule.Rows
		err := c.rows(query, func(s *zombie.Stmt) error {
			if !rows.Takes(limit, s.ColumnLen(0)) {
				return rule.ErrFull
			}
			v, err := row(s)
			out = append(out, v)
			return err
		}, args...)
		if errors.Is(err, rule.ErrFull) {
			return nil
		}
		return err
	})
	return out, err
}

// one is list for the first row; none is the error when there is no row.
func one[T any](ctx context.Context, s *Store, row func(*zombie.Stmt) (T, error), none error, query string, args ...any) (out T, err error) {
	all, err := list(ctx, s, row, query, args...)
	if err == nil && len(all) == 0 {
		err = none
	}
	if err != nil {
		return out, err
	}
	return all[0], nil
}

// where collects conditions. There are few combinations, so each becomes a statement with
// its own plan.
type where struct {
	query string
	args  []any
}

// mine begins a query over what p may see.
func mine(p parley.Principal, query string) where {
	w := where{query: query + " WHERE true"}
	w.and(!p.IsSystem(), "user = ? AND org = ?", p.User, p.Org)
	return w
}

func (w *where) and(when bool, condition string, args ...any) {
	if when {
		w.query += " AND " + condition
		w.args = append(w.args, args...)
	}
}

func (w *where) order(by string, limit int) {
	w.query += " ORDER BY " + by + " LIMIT ?"
	w.args = append(w.args, limit)
}

// Sessions implements seam.Store.
func (s *Store) Sessions(ctx context.Context, p parley.Principal, q seam.SessionQuery) ([]parley.SessionInfo, error) {
	limit := rule.List(p, q.Limit)
	part := func(direct string) where {
		w := mine(p, "SELECT seq, info, updated, id FROM sessions")
		w.and(q.App != "", "app = ?", q.App)
		w.and(q.Status != "", "status = ?", string(q.Status))
		w.and(true, direct)
		w.and(!q.Before.IsZero(), "updated < ?", rule.MillisUp(q.Before))
		w.and(q.After.ID != "", "(updated, id) < (?, ?)", rule.Millis(q.After.Time), string(q.After.ID))
		return w
	}
	w := part("direct = 0")
	if q.Direct {
		more := part("direct = 1")
		w.query += " UNION ALL " + more.query
		w.args = append(w.args, more.args...)
	}
	w.order("updated DESC, id DESC", limit)
	return list(ctx, s, info, w.query, w.args...)
}

// Resting implements seam.Store.
func (s *Store) Resting(ctx context.Context, p parley.Principal, q seam.RestQuery) ([]parley.SessionInfo, error) {
	by, at := "sessions_rest", "updated"
	switch {
	case q.Direct:
		by = "sessions_direct"
	case q.Status == "":
		by, at = "sessions_steps", "since"
	}
	before, after, order := rule.MillisUp(q.Before), rule.Millis(q.After.Time), at+", id"
	w := mine(p, "SELECT seq, info FROM sessions INDEXED BY "+by)
	w.and(true, "held = 0 AND waits = 0 AND app = ?", q.App)
	w.and(q.Direct, "direct = 1")
	w.and(q.Status != "", "status = ?", string(q.Status))
	w.and(q.Status == "", "since > 0")
	w.and(true, at+" < ?", before)
	w.and(q.After.ID != "", "("+at+", id) > (?, ?)", after, string(q.After.ID))
	if by == "sessions_rest" { // whose entries are in order by the hour only
		order = "hour, " + order
		w.and(true, "hour <= ?", before/hour)
		w.and(q.After.ID != "", "hour >= ?", after/hour)
	}
	w.order(order, rule.List(p, max(0, q.Limit)))
	return list(ctx, s, info, w.query, w.args...)
}

// hour is an hour in milliseconds: see migration 0014.
const hour = 3_600_000

// Alias implements seam.Store.
func (s *Store) Alias(ctx context.Context, p parley.Principal, app, outside string) (parley.SessionID, error) {
	w := mine(p, "SELECT session FROM aliases")
	w.and(true, "app = ? AND outside = ?", app, outside)
	w.order("session", 1)
	return one(ctx, s, sessionID, rule.NotFound("session with the outside id", outside), w.query, w.args...)
}

// Turn implements seam.Store.
func (s *Store) Turn(ctx context.Context, p parley.Principal, id parley.TurnID) (parley.TurnInfo, error) {
	w := mine(p, "SELECT body, session FROM turns")
	w.and(true, "id = ?", string(id))
	w.order("session", 1)
	return one(ctx, s, turn, rule.NotFound("turn", id), w.query, w.args...)
}

// Turns implements seam.Store.
func (s *Store) Turns(ctx context.Context, p parley.Principal, q seam.TurnQuery) ([]parley.TurnInfo, error) {
	live := len(q.Statuses) > 0 && !slices.ContainsFunc(q.Statuses, parley.TurnStatus.Ended)
	from := "SELECT body, session FROM turns"
	if live && q.Session == "" {
		// The planner does not know that only few turns are live, and would rather walk
		// an index that is in order.
		from += " INDEXED BY turns_live"
	}
	w := mine(p, from)
	w.and(q.Session != "", "session = ?", string(q.Session))
	w.and(q.Before != "", "id < ?", string(q.Before))
	w.and(q.After.ID != "", "(id, session) < (?, ?)", string(q.After.ID), string(q.After.Session))
	w.and(live, "live = 1")
	if len(q.Statuses) > 0 {
		statuses, err := rule.Encode(q.Statuses)
		if err != nil {
			return nil, err
		}
		w.and(true, "status IN (SELECT value FROM json_each(?))", string(statuses))
	}
	limit := rule.List(p, q.Limit)
	w.order("id DESC, session DESC", limit)
	return page(ctx, s, turn, limit, w.query, w.args...)
}

// Key implements seam.Store.
func (s *Store) Key(ctx context.Context, p parley.Principal, session parley.SessionID, key string) (seam.Key, error) {
	w := mine(p, "SELECT session, key, body, made, turn FROM keys")
	w.and(true, "session = ? AND key = ?", string(session), key)
	w.order("user, org", 1)
	return one(ctx, s, func(s *zombie.Stmt) (seam.Key, error) {
		return seam.Key{
			Session: parley.SessionID(s.ColumnText(0)), Key: s.ColumnText(1), Body: parley.Digest(s.ColumnText(2)),
			Made: parley.SessionID(s.ColumnText(3)), Turn: parley.TurnID(s.ColumnText(4)),
		}, nil
	}, rule.NotFound("idempotency key", key), w.query, w.args...)
}

// Interaction implements seam.Store.
func (s *Store) Interaction(ctx context.Context, p parley.Principal, id parley.InteractionID) (seam.InteractionRow, error) {
	w := mine(p, "SELECT body, session FROM interactions")
	w.and(true, "id = ?", string(id))
	w.order("session", 1)
	return one(ctx, s, interaction, rule.NotFound("interaction", id), w.query, w.args...)
}

// Interactions implements seam.Store.
func (s *Store) Interactions(ctx context.Context, p parley.Principal, q seam.InteractionQuery) ([]seam.InteractionRow, error) {
	from, at := "SELECT body, session FROM interactions", "opened"
	if !q.Due.IsZero() {
		// Few open questions are due, which the planner does not know.
		from, at = from+" INDEXED BY interactions_due", "expires"
	}
	w := mine(p, from)
	w.and(true, "open = 1")
	w.and(!q.Due.IsZero(), "expires > 0 AND expires < ?", rule.MillisUp(q.Due))
	w.and(q.After.ID != "", "("+at+", id, session) > (?, ?, ?)", rule.Millis(q.After.Time), string(q.After.ID), string(q.After.Session))
	limit := rule.List(p, q.Limit)
	w.order(at+", id, session", limit)
	return page(ctx, s, interaction, limit, w.query, w.args...)
}

// CountInteractions implements seam.Store.
func (s *Store) CountInteractions(ctx context.Context, p parley.Principal) (map[parley.InteractionKind]int, error) {
	w := mine(p, "SELECT kind, count(*) FROM interactions INDEXED BY interactions_kind")
	w.and(true, "open = 1")
	count := map[parley.InteractionKind]int{}
	err := s.view(ctx, func(c *conn) error {
		return c.rows(w.query+" GROUP BY user, org, kind", func(s *zombie.Stmt) error {
			count[parley.InteractionKind(s.ColumnText(0))] += s.ColumnInt(1)
			return nil
		}, w.args...)
	})
	if err != nil {
		return nil, err
	}
	return count, nil
}

// Artifact implements seam.Store.
func (s *Store) Artifact(ctx context.Context, p parley.Principal, id parley.ArtifactID) (seam.Artifact, error) {
	return one(ctx, s, artifact, rule.NotFound("artifact", id),
		`SELECT a.body, a.session FROM artifacts a JOIN sessions s ON s.id = a.session
		WHERE a.id = ? AND (? OR s.user = ? AND s.org = ?) ORDER BY a.session LIMIT 1`, string(id), p.IsSystem(), p.User, p.Org)
}

// Artifacts implements seam.Store.
func (s *Store) Artifacts(ctx context.Context, p parley.Principal, session parley.SessionID) (out []seam.Artifact, err error) {
	err = s.view(ctx, func(c *conn) error {
		return of(c, p, session, `SELECT body, session FROM artifacts WHERE session = ?1 AND `+owned+` ORDER BY id`, func(s *zombie.Stmt) error {
			a, err := artifact(s)
			out = append(out, a)
			return err
		})
	})
	return out, err
}

// Chunks implements seam.Store.
func (s *Store) Chunks(ctx context.Context, p parley.Principal, id parley.SessionID) (out []seam.Chunk, err error) {
	err = s.view(ctx, func(c *conn) error {
		return of(c, p, id, `SELECT call, n, text FROM chunks WHERE session = ?1 AND `+owned+` ORDER BY call, n`, func(s *zombie.Stmt) error {
			out = append(out, seam.Chunk{Session: id, Call: parley.CallID(s.ColumnText(0)), N: s.ColumnInt64(1), Text: s.ColumnText(2)})
			return nil
		})
	})
	return out, err
}

// Spent implements seam.Store.
func (s *Store) Spent(ctx context.Context, p parley.Principal, from, to string) ([]seam.Spend, error) {
	w := mine(p, "SELECT day, model, user, org, calls, input, output, cache_read, cache_write, reasoning, nano_usd FROM spent")
	w.and(true, "day BETWEEN ? AND ?", from, to)
	w.order("day, model, user, org", rule.MaxSpent)
	return list(ctx, s, func(s *zombie.Stmt) (seam.Spend, error) {
		var n rule.Spend
		for i := range n {
			n[i] = s.ColumnInt64(4 + i)
		}
		return n.Of(s.ColumnText(0), s.ColumnText(1), s.ColumnText(2), s.ColumnText(3)), nil
	}, w.query, w.args...)
}

// SpentByOrg implements seam.Store.
func (s *Store) SpentByOrg(ctx context.Context, p parley.Principal, org, day string) (float64, error) {
	if !p.IsSystem() {
		return 0, parley.ErrNotFound
	}
	return one(ctx, s, func(s *zombie.Stmt) (float64, error) {
		n := rule.Spend{6: s.ColumnInt64(0)}
		return n.Of(day, "", "", org).Usage.USD, nil
	}, nil, "SELECT coalesce(sum(nano_usd), 0) FROM spent INDEXED BY spent_day WHERE day = ? AND org = ?", day, org)
}

// Held implements seam.Store.
func (s *Store) Held(ctx context.Context, p parley.Principal, id parley.SessionID) (seam.Held, error) {
	w := mine(p, "SELECT coalesce(sum(sessions), 0), coalesce(sum(bytes), 0) FROM holdings")
	if id != "" {
		w = mine(p, "SELECT count(*) FILTER (WHERE direct = 0), coalesce(sum(bytes), 0) FROM sessions")
		w.and(true, "id = ?", string(id))
	}
	return one(ctx, s, func(s *zombie.Stmt) (seam.Held, error) {
		return seam.Held{Sessions: s.ColumnInt(0), Bytes: s.ColumnInt64(1)}, nil
	}, nil, w.query, w.args...)
}
