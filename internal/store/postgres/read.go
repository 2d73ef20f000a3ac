package postgres

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

// owned is the access condition of every query on a session's data; the query's first
// argument is the session's id.
const owned = `EXISTS (SELECT 1 FROM sessions WHERE id = $1 AND ($2::boolean OR usr = $3 AND org = $4))`

// of runs a query on the data of one session. Its arguments 1 to 4 are the session and
// the principal. If there are no rows, the error says whether the session exists.
func of(ctx context.Context, c *pgx.Conn, p parley.Principal, id parley.SessionID, query string, each func(pgx.Rows) error, args ...any) error {
	n, err := scan(ctx, c, each, query, append([]any{raw(id), p.IsSystem(), raw(p.User), raw(p.Org)}, args...)...)
	if err == nil && n == 0 {
		_, err = find(ctx, c, p, id)
	}
	return err
}

// scan runs a query and counts its rows.
func scan(ctx context.Context, c *pgx.Conn, each func(pgx.Rows) error, query string, args ...any) (n int, err error) {
	rows, err := c.Query(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for ; rows.Next(); n++ {
		if err := each(rows); err != nil {
			return n, err
		}
	}
	return n, rows.Err()
}

// State implements seam.Store.
func (s *Store) State(ctx context.Context, p parley.Principal, id parley.SessionID) (out seam.State, err error) {
	err = s.view(ctx, func(ctx context.Context, c *pgx.Conn) error {
		found := false
		err := of(ctx, c, p, id, `SELECT seq, version, body FROM states WHERE session = $1 AND `+owned, func(r pgx.Rows) error {
			found = true
			return r.Scan(&out.Seq, &out.Version, &out.Body)
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
		`SELECT seq, info FROM sessions WHERE id = $1 AND ($2::boolean OR usr = $3 AND org = $4)`, raw(id), p.IsSystem(), raw(p.User), raw(p.Org))
}

func info(r pgx.Rows) (in parley.SessionInfo, err error) {
	var seq int64
	var raw []byte
	if err := r.Scan(&seq, &raw); err != nil {
		return in, err
	}
	in, err = rule.Decode[parley.SessionInfo](raw)
	in.Version = seq
	return in, err
}

// bodyOf decodes a session's row: its JSON and the session's id. A fork's rows are copies
// of its parent's, so only the column says whose they are.
func bodyOf[T any](r pgx.Rows) (v T, of parley.SessionID, err error) {
	var raw []byte
	if err := r.Scan(&raw, str(&of)); err != nil {
		return v, of, err
	}
	v, err = rule.Decode[T](raw)
	return v, of, err
}

func artifact(r pgx.Rows) (seam.Artifact, error) {
	a, of, err := bodyOf[seam.Artifact](r)
	a.Session = of
	return a, err
}

func turnRow(r pgx.Rows) (parley.TurnInfo, error) {
	t, of, err := bodyOf[parley.TurnInfo](r)
	t.SessionID = of
	return t, err
}

func interactionRow(r pgx.Rows) (seam.InteractionRow, error) {
	in, of, err := bodyOf[seam.InteractionRow](r)
	in.Session = of
	return in, err
}

func sessionID(r pgx.Rows) (id parley.SessionID, err error) {
	err = r.Scan(str(&id))
	return id, err
}

// list runs a query for all of its rows.
func list[T any](ctx context.Context, s *Store, row func(pgx.Rows) (T, error), query string, args ...any) (out []T, err error) {
	err = s.view(ctx, func(ctx context.Context, c *pgx.Conn) error {
		out = nil
		_, err := scan(ctx, c, func(r pgx.Rows) error {
			v, err := row(r)
			out = append(out, v)
			return err
		}, query, args...)
		return err
	})
	return out, err
}

// page is list for rows whose first column is their JSON, up to limit and rule.ListBytes.
func page[T any](ctx context.Context, s *Store, row func(pgx.Rows) (T, error), limit int, query string, args ...any) (out []T, err error) {
	err = s.view(ctx, func(ctx context.Context, c *pgx.Conn) error {
		var rows rule.Rows
		out = nil
		_, err := scan(ctx, c, func(r pgx.Rows) error {
			if !rows.Takes(limit, len(r.RawValues()[0])) {
				return rule.ErrFull
			}
			v, err := row(r)
			out = append(out, v)
			return err
		}, query, args...)
		if errors.Is(err, rule.ErrFull) {
			return nil
		}
		return err
	})
	return out, err
}

// one is list for the first row; none is the error when there is no row.
func one[T any](ctx context.Context, s *Store, row func(pgx.Rows) (T, error), none error, query string, args ...any) (out T, err error) {
	all, err := list(ctx, s, row, query, args...)
	if err == nil && len(all) == 0 {
		err = none
	}
	if err != nil {
		return out, err
	}
	return all[0], nil
}

// where collects conditions. There are few combinations, so each becomes a prepared
// statement with its own plan.
type where struct {
	query string
	args  []any
}

// mine begins a query over what p may see.
func mine(p parley.Principal, query string) where {
	w := where{query: query + " WHERE true"}
	w.and(!p.IsSystem(), "usr = ? AND org = ?", raw(p.User), raw(p.Org))
	return w
}

// and adds a condition with one question mark for each argument.
func (w *where) and(when bool, condition string, args ...any) {
	if !when {
		return
	}
	w.query += " AND "
	for i, part := range strings.Split(condition, "?") {
		if i > 0 {
			w.args = append(w.args, args[i-1])
			w.query += "$" + strconv.Itoa(len(w.args))
		}
		w.query += part
	}
}

// order ends the query; a limit of -1 means no limit.
func (w *where) order(by string, limit int) {
	w.query += " ORDER BY " + by
	if limit >= 0 {
		w.args = append(w.args, limit)
		w.query += " LIMIT $" + strconv.Itoa(len(w.args))
	}
}

// Sessions implements seam.Store.
func (s *Store) Sessions(ctx context.Context, p parley.Principal, q seam.SessionQuery) ([]parley.SessionInfo, error) {
	limit, by := rule.List(p, q.Limit), "updated DESC, id DESC"
	var w where
	part := func(direct string) {
		w.query += "(SELECT seq, info, updated, id FROM sessions WHERE true"
		w.and(!p.IsSystem(), "usr = ? AND org = ?", raw(p.User), raw(p.Org))
		w.and(q.App != "", "app = ?", raw(q.App))
		w.and(q.Status != "", "status = ?", raw(q.Status))
		w.and(true, direct)
		w.and(!q.Before.IsZero(), "updated < ?", rule.MillisUp(q.Before))
		w.and(q.After.ID != "", "(updated, id) < (?, ?)", rule.Millis(q.After.Time), raw(q.After.ID))
		w.order(by, limit)
		w.query += ")"
	}
	w.query = "SELECT seq, info FROM ("
	part("NOT direct")
	if q.Direct { // an index for each, see migration 0014
		w.query += " UNION ALL "
		part("direct")
	}
	w.query += ") AS l"
	w.order(by, limit)
	return list(ctx, s, info, w.query, w.args...)
}

// Resting implements seam.Store.
func (s *Store) Resting(ctx context.Context, p parley.Principal, q seam.RestQuery) ([]parley.SessionInfo, error) {
	at := "updated"
	if q.Status == "" {
		at = "steps"
	}
	w := mine(p, "SELECT seq, info FROM sessions")
	w.and(true, "NOT held AND app = ?", raw(q.App))
	w.and(q.Direct, "direct")
	w.and(q.Status != "", "status = ?", raw(q.Status))
	w.and(q.Status == "", "steps > 0")
	w.and(true, at+" < ?", rule.MillisUp(q.Before))
	w.and(q.After.ID != "", "("+at+", id) > (?, ?)", rule.Millis(q.After.Time), raw(q.After.ID))
	w.order(at+", id", rule.List(p, max(0, q.Limit)))
	return list(ctx, s, info, w.query, w.args...)
}

// Alias implements seam.Store.
func (s *Store) Alias(ctx context.Context, p parley.Principal, app, outside string) (parley.SessionID, error) {
	w := mine(p, "SELECT session FROM aliases")
	w.and(true, "app = ? AND outside = ?", raw(app), raw(outside))
	w.order("session", 1)
	return one(ctx, s, sessionID, rule.NotFound("session with the outside id", outside), w.query, w.args...)
}

// Turn implements seam.Store.
func (s *Store) Turn(ctx context.Context, p parley.Principal, id parley.TurnID) (parley.TurnInfo, error) {
	w := mine(p, "SELECT body, session FROM turns")
	w.and(true, "id = ?", raw(id))
	w.order("session", 1)
	return one(ctx, s, turnRow, rule.NotFound("turn", id), w.query, w.args...)
}

// Turns implements seam.Store.
func (s *Store) Turns(ctx context.Context, p parley.Principal, q seam.TurnQuery) ([]parley.TurnInfo, error) {
	live := len(q.Statuses) > 0 && !slices.ContainsFunc(q.Statuses, parley.TurnStatus.Ended)
	w := mine(p, "SELECT body, session FROM turns")
	w.and(q.Session != "", "session = ?", raw(q.Session))
	w.and(q.Before != "", "id < ?", raw(q.Before))
	w.and(q.After.ID != "", "(id, session) < (?, ?)", raw(q.After.ID), raw(q.After.Session))
	w.and(live, "live")
	if len(q.Statuses) > 0 {
		var statuses [][]byte
		for _, status := range q.Statuses {
			statuses = append(statuses, raw(status))
		}
		w.and(true, "status = ANY(?)", statuses)
	}
	limit := rule.List(p, q.Limit)
	w.order("id DESC, session DESC", limit)
	return page(ctx, s, turnRow, limit, w.query, w.args...)
}

// Key implements seam.Store.
func (s *Store) Key(ctx context.Context, p parley.Principal, session parley.SessionID, key string) (seam.Key, error) {
	w := mine(p, "SELECT session, key, body, made, turn FROM keys")
	w.and(true, "session = ? AND key = ?", raw(session), raw(key))
	w.order("usr, org", 1)
	return one(ctx, s, func(r pgx.Rows) (k seam.Key, err error) {
		err = r.Scan(str(&k.Session), str(&k.Key), str(&k.Body), str(&k.Made), str(&k.Turn))
		return k, err
	}, rule.NotFound("idempotency key", key), w.query, w.args...)
}

// Interaction implements seam.Store.
func (s *Store) Interaction(ctx context.Context, p parley.Principal, id parley.InteractionID) (seam.InteractionRow, error) {
	w := mine(p, "SELECT body, session FROM interactions")
	w.and(true, "id = ?", raw(id))
	w.order("session", 1)
	return one(ctx, s, interactionRow, rule.NotFound("interaction", id), w.query, w.args...)
}

// Interactions implements seam.Store.
func (s *Store) Interactions(ctx context.Context, p parley.Principal, q seam.InteractionQuery) ([]seam.InteractionRow, error) {
	at := "opened"
	if !q.Due.IsZero() {
		at = "expires"
	}
	w := mine(p, "SELECT body, session FROM interactions")
	w.and(true, "open")
	w.and(!q.Due.IsZero(), "expires > 0 AND expires < ?", rule.MillisUp(q.Due))
	w.and(q.After.ID != "", "("+at+", id, session) > (?, ?, ?)", rule.Millis(q.After.Time), raw(q.After.ID), raw(q.After.Session))
	limit := rule.List(p, q.Limit)
	w.order(at+", id, session", limit)
	return page(ctx, s, interactionRow, limit, w.query, w.args...)
}

// CountInteractions implements seam.Store.
func (s *Store) CountInteractions(ctx context.Context, p parley.Principal) (count map[parley.InteractionKind]int, err error) {
	w := mine(p, "SELECT kind, count(*) FROM interactions")
	w.and(true, "open")
	err = s.view(ctx, func(ctx context.Context, c *pgx.Conn) error {
		count = map[parley.InteractionKind]int{}
		_, err := scan(ctx, c, func(r pgx.Rows) error {
			var kind parley.InteractionKind
			var n int
			err := r.Scan(str(&kind), &n)
			count[kind] = n
			return err
		}, w.query+" GROUP BY kind", w.args...)
		return err
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
		WHERE a.id = $1 AND ($2::boolean OR s.usr = $3 AND s.org = $4) ORDER BY a.session LIMIT 1`, raw(id), p.IsSystem(), raw(p.User), raw(p.Org))
}

// Artifacts implements seam.Store.
func (s *Store) Artifacts(ctx context.Context, p parley.Principal, session parley.SessionID) (out []seam.Artifact, err error) {
	err = s.view(ctx, func(ctx context.Context, c *pgx.Conn) error {
		out = nil
		return of(ctx, c, p, session, `SELECT body, session FROM artifacts WHERE session = $1 AND `+owned+` ORDER BY id`, func(r pgx.Rows) error {
			a, err := artifact(r)
			out = append(out, a)
			return err
		})
	})
	return out, err
}

// Chunks implements seam.Store.
func (s *Store) Chunks(ctx context.Context, p parley.Principal, id parley.SessionID) (out []seam.Chunk, err error) {
	err = s.view(ctx, func(ctx context.Context, c *pgx.Conn) error {
		out = nil
		return of(ctx, c, p, id, `SELECT call, n, text FROM chunks WHERE session = $1 AND `+owned+` ORDER BY call, n`, func(r pgx.Rows) error {
			ch := seam.Chunk{Session: id}
			err := r.Scan(str(&ch.Call), &ch.N, str(&ch.Text))
			out = append(out, ch)
			return err
		})
	})
	return out, err
}

// Spent implements seam.Store.
func (s *Store) Spent(ctx context.Context, p parley.Principal, from, to string) ([]seam.Spend, error) {
	w := mine(p, "SELECT day, model, usr, org, calls, input, output, cache_read, cache_write, reasoning, nano_usd FROM spent")
	w.and(true, "day BETWEEN ? AND ?", raw(from), raw(to))
	w.order("day, model, usr, org", rule.MaxSpent)
	return list(ctx, s, func(r pgx.Rows) (seam.Spend, error) {
		var day, model, user, org string
		var n rule.Spend
		err := r.Scan(str(&day), str(&model), str(&user), str(&org), &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6])
		return n.Of(day, model, user, org), err
	}, w.query, w.args...)
}

// SpentByOrg implements seam.Store.
func (s *Store) SpentByOrg(ctx context.Context, p parley.Principal, org, day string) (float64, error) {
	if !p.IsSystem() {
		return 0, parley.ErrNotFound
	}
	return one(ctx, s, func(r pgx.Rows) (float64, error) {
		var n rule.Spend
		err := r.Scan(&n[6])
		return n.Of(day, "", "", org).Usage.USD, err
	}, nil, "SELECT coalesce(sum(nano_usd), 0)::bigint FROM spent WHERE day = $1 AND org = $2", raw(day), raw(org))
}

// Held implements seam.Store.
func (s *Store) Held(ctx context.Context, p parley.Principal, id parley.SessionID) (seam.Held, error) {
	var w where
	w.query = "SELECT count(*) FILTER (WHERE NOT direct), coalesce(sum(bytes), 0)::bigint FROM ("
	for i, direct := range []string{"NOT direct", "direct"} { // an index for each, see migration 0014
		if i > 0 {
			w.query += " UNION ALL "
		}
		w.query += "SELECT direct, bytes FROM sessions WHERE true"
		w.and(!p.IsSystem(), "usr = ? AND org = ?", raw(p.User), raw(p.Org))
		w.and(id != "", "id = ?", raw(id))
		w.and(true, direct)
	}
	w.query += ") AS h"
	return one(ctx, s, func(r pgx.Rows) (h seam.Held, err error) {
		err = r.Scan(&h.Sessions, &h.Bytes)
		return h, err
	}, nil, w.query, w.args...)
}
