package mem

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

// Read implements seam.Store.
func (s *Store) Read(ctx context.Context, p parley.Principal, id parley.SessionID, after int64, limit int) (out []parley.Event, err error) {
	err = s.read(ctx, func(t *tables) error {
		row, err := t.session(p, id)
		if err != nil {
			return err
		}
		page := rule.NewPage(limit)
		for _, e := range row.events[min(max(after, 0), row.seq):] {
			if !page.Takes(len(e.Data)) {
				break
			}
			page.Events = append(page.Events, stored(e))
		}
		out = page.Events
		return nil
	})
	return out, err
}

// State implements seam.Store.
func (s *Store) State(ctx context.Context, p parley.Principal, id parley.SessionID) (out seam.State, err error) {
	err = s.read(ctx, func(t *tables) error {
		row, err := t.session(p, id)
		if err != nil {
			return err
		}
		if row.state == nil {
			return rule.NotFound("stored state of session", id)
		}
		out = *row.state
		out.Body = slices.Clone(out.Body)
		return nil
	})
	return out, err
}

func (s *session) get() (parley.SessionInfo, error) {
	in, err := rule.Decode[parley.SessionInfo](s.info)
	in.Version = s.seq
	return in, err
}

// Session implements seam.Store.
func (s *Store) Session(ctx context.Context, p parley.Principal, id parley.SessionID) (out parley.SessionInfo, err error) {
	err = s.read(ctx, func(t *tables) error {
		row, err := t.session(p, id)
		if err != nil {
			return err
		}
		out, err = row.get()
		return err
	})
	return out, err
}

// mine is the sessions that p may see, in no order.
func (t *tables) mine(p parley.Principal) iter.Seq[*session] {
	return func(yield func(*session) bool) {
		for _, row := range t.sessions {
			if p.Owns(row.user, row.org) && !yield(row) {
				return
			}
		}
	}
}

// which is those of mine that are wanted.
func (t *tables) which(p parley.Principal, wanted func(*session) bool) (out []*session) {
	for row := range t.mine(p) {
		if wanted(row) {
			out = append(out, row)
		}
	}
	return out
}

// oldest is the session with the lowest id that has something, or nil. A session and
// its forks may have the same.
func (t *tables) oldest(p parley.Principal, has func(*session) bool) (out *session) {
	for row := range t.mine(p) {
		if (out == nil || row.id < out.id) && has(row) {
			out = row
		}
	}
	return out
}

func cut[T any](all []T, limit int) []T {
	if limit >= 0 && len(all) > limit {
		return all[:limit]
	}
	return all
}

// Sessions implements seam.Store.
func (s *Store) Sessions(ctx context.Context, p parley.Principal, q seam.SessionQuery) (out []parley.SessionInfo, err error) {
	err = s.read(ctx, func(t *tables) error {
		all := t.which(p, func(row *session) bool {
			return (q.Direct || !row.direct) && (q.App == "" || row.app == q.App) && (q.Status == "" || row.status == q.Status) &&
				(q.Before.IsZero() || row.updated < rule.MillisUp(q.Before)) &&
				(q.After.ID == "" || cmp.Or(cmp.Compare(row.updated, rule.Millis(q.After.Time)), cmp.Compare(row.id, q.After.ID)) < 0)
		})
		slices.SortFunc(all, func(a, b *session) int {
			return cmp.Or(cmp.Compare(b.updated, a.updated), cmp.Compare(b.id, a.id))
		})
		for _, row := range cut(all, rule.List(p, q.Limit)) {
			in, err := row.get()
			if err != nil {
				return err
			}
			out = append(out, in)
		}
		return nil
	})
	return out, err
}

// Resting implements seam.Store.
func (s *Store) Resting(ctx context.Context, p parley.Principal, q seam.RestQuery) (out []parley.SessionInfo, err error) {
	err = s.read(ctx, func(t *tables) error {
		since := func(row *session) int64 {
			if q.Status == "" {
				return row.steps
			}
			return row.updated
		}
		all := t.which(p, func(row *session) bool {
			return !row.held && (row.direct || !q.Direct) && row.app == q.App && (q.Status != "" || row.steps != 0) && (q.Status == "" || row.status == q.Status) &&
				since(row) < rule.MillisUp(q.Before) &&
				(q.After.ID == "" || cmp.Or(cmp.Compare(since(row), rule.Millis(q.After.Time)), cmp.Compare(row.id, q.After.ID)) > 0)
		})
		slices.SortFunc(all, func(a, b *session) int {
			return cmp.Or(cmp.Compare(since(a), since(b)), cmp.Compare(a.id, b.id))
		})
		for _, row := range cut(all, rule.List(p, max(0, q.Limit))) {
			in, err := row.get()
			if err != nil {
				return err
			}
			out = append(out, in)
		}
		return nil
	})
	return out, err
}

// Alias implements seam.Store.
func (s *Store) Alias(ctx context.Context, p parley.Principal, app, outside string) (out parley.SessionID, err error) {
	err = s.read(ctx, func(t *tables) error {
		for id, session := range t.aliases {
			if id.app == app && id.outside == outside && p.Owns(id.user, id.org) && (out == "" || session < out) {
				out = session
			}
		}
		if out == "" {
			return rule.NotFound("session with the outside id", outside)
		}
		return nil
	})
	return out, err
}

// Turn implements seam.Store.
func (s *Store) Turn(ctx context.Context, p parley.Principal, id parley.TurnID) (out parley.TurnInfo, err error) {
	err = s.read(ctx, func(t *tables) error {
		row := t.oldest(p, func(row *session) bool { _, ok := row.turns[id]; return ok })
		if row == nil {
			return rule.NotFound("turn", id)
		}
		out, err = rule.Decode[parley.TurnInfo](row.turns[id].body)
		out.SessionID = row.id
		return err
	})
	return out, err
}

// Turns implements seam.Store.
func (s *Store) Turns(ctx context.Context, p parley.Principal, q seam.TurnQuery) (out []parley.TurnInfo, err error) {
	err = s.read(ctx, func(t *tables) error {
		type found struct {
			seam.TurnMark
			body []byte
		}
		order := func(a, b seam.TurnMark) int {
			return cmp.Or(cmp.Compare(b.ID, a.ID), cmp.Compare(b.Session, a.Session))
		}
		var all []found
		for row := range t.mine(p) {
			if q.Session != "" && row.id != q.Session {
				continue
			}
			for id, r := range row.turns {
				at := seam.TurnMark{ID: id, Session: row.id}
				if (q.Before == "" || id < q.Before) && (q.After.ID == "" || order(q.After, at) < 0) &&
					(len(q.Statuses) == 0 || slices.Contains(q.Statuses, r.status)) {
					all = append(all, found{at, r.body})
				}
			}
		}
		slices.SortFunc(all, func(a, b found) int { return order(a.TurnMark, b.TurnMark) })
		var rows rule.Rows
		limit := rule.List(p, q.Limit)
		for _, f := range cut(all, limit) {
			if !rows.Takes(limit, len(f.body)) {
				break
			}
			in, err := rule.Decode[parley.TurnInfo](f.body)
			if err != nil {
				return err
			}
			in.SessionID = f.Session
			out = append(out, in)
		}
		return nil
	})
	return out, err
}

// Key implements seam.Store.
func (s *Store) Key(ctx context.Context, p parley.Principal, session parley.SessionID, key string) (out seam.Key, err error) {
	err = s.read(ctx, func(t *tables) error {
		var at keyID
		for id, k := range t.keys {
			if id.session != session || id.key != key || !p.Owns(id.user, id.org) {
				continue
			}
			if at.user == "" || cmp.Or(cmp.Compare(id.user, at.user), cmp.Compare(id.org, at.org)) < 0 {
				at, out = id, k.Key
			}
		}
		if at.user == "" {
			return rule.NotFound("idempotency key", key)
		}
		return nil
	})
	return out, err
}

// Interaction implements seam.Store.
func (s *Store) Interaction(ctx context.Context, p parley.Principal, id parley.InteractionID) (out seam.InteractionRow, err error) {
	err = s.read(ctx, func(t *tables) error {
		row := t.oldest(p, func(row *session) bool { _, ok := row.interactions[id]; return ok })
		if row == nil {
			return rule.NotFound("interaction", id)
		}
		out, err = rule.Decode[seam.InteractionRow](row.interactions[id].body)
		out.Session = row.id
		return err
	})
	return out, err
}

// Interactions implements seam.Store.
func (s *Store) Interactions(ctx context.Context, p parley.Principal, q seam.InteractionQuery) (out []seam.InteractionRow, err error) {
	err = s.read(ctx, func(t *tables) error {
		type found struct {
			at      int64
			id      parley.InteractionID
			session parley.SessionID
			body    []byte
		}
		after := found{at: rule.Millis(q.After.Time), id: q.After.ID, session: q.After.Session}
		order := func(a, b found) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id), cmp.Compare(a.session, b.session))
		}
		place := func(r interaction) int64 {
			if q.Due.IsZero() {
				return r.opened
			}
			return r.expires
		}
		var all []found
		for row := range t.mine(p) {
			for id, r := range row.interactions {
				f := found{place(r), id, row.id, r.body}
				if r.open && (q.Due.IsZero() || r.expires > 0 && r.expires < rule.MillisUp(q.Due)) && (after.id == "" || order(f, after) > 0) {
					all = append(all, f)
				}
			}
		}
		slices.SortFunc(all, order)
		var rows rule.Rows
		limit := rule.List(p, q.Limit)
		for _, f := range cut(all, limit) {
			if !rows.Takes(limit, len(f.body)) {
				break
			}
			in, err := rule.Decode[seam.InteractionRow](f.body)
			if err != nil {
				return err
			}
			in.Session = f.session
			out = append(out, in)
		}
		return nil
	})
	return out, err
}

// CountInteractions implements seam.Store.
func (s *Store) CountInteractions(ctx context.Context, p parley.Principal) (out map[parley.InteractionKind]int, err error) {
	err = s.read(ctx, func(t *tables) error {
		out = map[parley.InteractionKind]int{}
		for row := range t.mine(p) {
			for _, r := range row.interactions {
				if r.open {
					out[r.kind]++
				}
			}
		}
		return nil
	})
	return out, err
}

// Artifact implements seam.Store.
func (s *Store) Artifact(ctx context.Context, p parley.Principal, id parley.ArtifactID) (out seam.Artifact, err error) {
	err = s.read(ctx, func(t *tables) error {
		row := t.oldest(p, func(row *session) bool { _, ok := row.artifacts[id]; return ok })
		if row == nil {
			return rule.NotFound("artifact", id)
		}
		out, err = rule.Decode[seam.Artifact](row.artifacts[id].body)
		out.Session = row.id
		return err
	})
	return out, err
}

// Artifacts implements seam.Store.
func (s *Store) Artifacts(ctx context.Context, p parley.Principal, session parley.SessionID) (out []seam.Artifact, err error) {
	err = s.read(ctx, func(t *tables) error {
		row, err := t.session(p, session)
		if err != nil {
			return err
		}
		for _, r := range row.artifacts {
			a, err := rule.Decode[seam.Artifact](r.body)
			if err != nil {
				return err
			}
			a.Session = row.id
			out = append(out, a)
		}
		slices.SortFunc(out, func(a, b seam.Artifact) int { return cmp.Compare(a.ID, b.ID) })
		return nil
	})
	return out, err
}

// Blob implements seam.Store.
func (s *Store) Blob(ctx context.Context, p parley.Principal, session parley.SessionID, d parley.Digest) (out []byte, err error) {
	err = s.read(ctx, func(t *tables) error {
		row, err := t.session(p, session)
		if err != nil {
			return err
		}
		if _, ok := row.blobs[d]; !ok {
			return rule.NotFound("blob", d)
		}
		out = append([]byte{}, t.blobs[d]...)
		return nil
	})
	return out, err
}

// Chunks implements seam.Store.
func (s *Store) Chunks(ctx context.Context, p parley.Principal, id parley.SessionID) (out []seam.Chunk, err error) {
	err = s.read(ctx, func(t *tables) error {
		row, err := t.session(p, id)
		if err != nil {
			return err
		}
		for c, text := range row.chunks {
			out = append(out, seam.Chunk{Session: id, Call: c.call, N: c.n, Text: text})
		}
		slices.SortFunc(out, func(a, b seam.Chunk) int { return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.N, b.N)) })
		return nil
	})
	return out, err
}

// Spent implements seam.Store.
func (s *Store) Spent(ctx context.Context, p parley.Principal, from, to string) (out []seam.Spend, err error) {
	err = s.read(ctx, func(t *tables) error {
		for at, sum := range t.spent {
			if at.day >= from && at.day <= to && p.Owns(at.user, at.org) {
				out = append(out, sum.Of(at.day, at.model, at.user, at.org))
			}
		}
		slices.SortFunc(out, func(a, b seam.Spend) int {
			return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Model, b.Model), cmp.Compare(a.User, b.User), cmp.Compare(a.Org, b.Org))
		})
		out = cut(out, rule.MaxSpent)
		return nil
	})
	return out, err
}

// SpentByOrg implements seam.Store.
func (s *Store) SpentByOrg(ctx context.Context, p parley.Principal, org, day string) (usd float64, err error) {
	if !p.IsSystem() {
		return 0, parley.ErrNotFound
	}
	var sum rule.Spend
	err = s.read(ctx, func(t *tables) error {
		for at, one := range t.spent {
			if at.day == day && at.org == org {
				sum[6] += one[6]
			}
		}
		return nil
	})
	return sum.Of(day, "", "", org).Usage.USD, err
}

// Held implements seam.Store.
func (s *Store) Held(ctx context.Context, p parley.Principal, id parley.SessionID) (out seam.Held, err error) {
	err = s.read(ctx, func(t *tables) error {
		for row := range t.mine(p) {
			if id != "" && row.id != id {
				continue
			}
			if !row.direct {
				out.Sessions++
			}
			out.Bytes += row.bytes
		}
		return nil
	})
	return out, err
}
