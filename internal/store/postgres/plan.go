package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/rule"
)

// plan is one flush: what was read about its pieces, and what is written for the accepted
// ones.
type plan struct {
	group   []*piece
	probe   bool // whether somebody asks if commits work
	at      map[parley.SessionID]*place
	gone    map[parley.SessionID]bool
	keys    map[name]bool
	aliases map[name]bool
	blobs   map[parley.Digest]bool
	rows    map[name]bool  // index rows that are there, by kind, owner and id
	held    map[name]int64 // KiB of an owner's index rows, by kind and owner
	out     output
}

// name is the key of a row, up to four columns.
type name [4]string

// place is a session's position in its log, including what the flush has accepted so far.
type place struct {
	user, org         string
	epoch, seq        int64
	shared, condensed int64 // see migration 0004
	bytes             int64
}

func newPlan(group []*piece) *plan {
	return &plan{
		group: group, at: map[parley.SessionID]*place{}, gone: map[parley.SessionID]bool{}, keys: map[name]bool{},
		aliases: map[name]bool{}, blobs: map[parley.Digest]bool{}, rows: map[name]bool{}, held: map[name]int64{}, out: newOutput(),
	}
}

var errWriterGone = errors.New("this connection may not write any more: another has asked what became of it")

// look begins the transaction, locks the sessions of the group and reads what is needed
// to judge the pieces, in one round trip.
func (pl *plan) look(ctx context.Context, c *pgx.Conn, writer string, flush int64) error {
	var sessions, made, digests [][]byte
	var keys, aliases, rows matrix
	for _, p := range pl.group {
		if p.rows == nil {
			pl.probe = true
			continue
		}
		id := raw(p.rows.Session)
		sessions = append(sessions, id)
		var user, org []byte // of a session that does not exist yet
		if in := p.rows.Index.Session; p.rows.create {
			made = append(made, id)
			user, org = raw(in.User), raw(in.Org)
			if p.from != "" {
				sessions = append(sessions, raw(p.from))
			}
			if in.OutsideID != "" {
				aliases.add(raw(in.App), raw(in.OutsideID), user, org)
			}
		}
		for _, k := range p.rows.Index.Keys {
			keys.add(id, raw(k.Session), raw(k.Key), notNil(user), notNil(org))
		}
		for _, r := range p.rows.Index.Rows {
			rows.add(id, raw(r.Kind), raw(r.ID), notNil(user), notNil(org))
		}
		for _, d := range p.rows.Index.Blobs {
			digests = append(digests, raw(d))
		}
	}
	b := &pgx.Batch{}
	b.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE`)
	b.Queue(`UPDATE writers SET flush = $2, at = clock_timestamp() WHERE id = $1`, writer, flush)
	var each []func(pgx.Rows) error
	ask := func(query string, row func(pgx.Rows) error, args ...any) {
		b.Queue(query, args...)
		each = append(each, row)
	}
	if len(sessions) > 0 {
		// Joined, here and below: a prepared id = ANY($1) may become a scan that compares
		// each row with each id.
		ask(`SELECT s.id, s.usr, s.org, s.epoch, s.seq, s.shared, s.condensed, s.bytes FROM unnest($1::bytea[]) AS w (id) JOIN sessions s USING (id)
			ORDER BY s.id FOR NO KEY UPDATE OF s`, pl.seeSession, sessions)
	}
	if len(made) > 0 {
		ask(`SELECT id FROM unnest($1::bytea[]) AS w (id) JOIN gone USING (id)`, see(pl.gone), made)
	}
	if len(keys) > 0 {
		ask(`SELECT k.session, k.key, k.usr, k.org FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[]) AS w (of, session, key, usr, org)
			LEFT JOIN sessions s ON s.id = w.of
			JOIN keys k ON k.session = w.session AND k.key = w.key AND k.usr = coalesce(s.usr, w.usr) AND k.org = coalesce(s.org, w.org)`, seeName(pl.keys), keys.args()...)
	}
	if len(aliases) > 0 {
		ask(`SELECT app, outside, usr, org FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[]) AS w (app, outside, usr, org)
			JOIN aliases USING (app, outside, usr, org)`, seeName(pl.aliases), aliases.args()...)
	}
	if len(digests) > 0 {
		// Locked, so they cannot be collected before we commit.
		ask(`SELECT b.digest FROM unnest($1::bytea[]) AS w (digest) JOIN blobs b USING (digest) ORDER BY b.digest FOR KEY SHARE OF b`, see(pl.blobs), digests)
	}
	pl.askRows(rows, ask)
	r := c.SendBatch(ctx, b)
	if err := pl.receive(r, each); err != nil {
		_ = r.Close() // an earlier error has the reason
		return err
	}
	return r.Close()
}

func (pl *plan) receive(r pgx.BatchResults, each []func(pgx.Rows) error) error {
	if _, err := r.Exec(); err != nil {
		return err
	}
	if tag, err := r.Exec(); err != nil {
		return err
	} else if tag.RowsAffected() != 1 {
		return errWriterGone
	}
	for _, row := range each {
		rows, err := r.Query()
		if err != nil {
			return err
		}
		for rows.Next() {
			if err := row(rows); err != nil {
				rows.Close()
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (pl *plan) seeSession(r pgx.Rows) error {
	var id parley.SessionID
	at := &place{}
	if err := r.Scan(str(&id), str(&at.user), str(&at.org), &at.epoch, &at.seq, &at.shared, &at.condensed, &at.bytes); err != nil {
		return err
	}
	pl.at[id] = at
	return nil
}

func see[T ~string](all map[T]bool) func(pgx.Rows) error {
	return func(r pgx.Rows) error {
		var v T
		err := r.Scan(str(&v))
		all[v] = true
		return err
	}
}

func seeName(all map[name]bool) func(pgx.Rows) error {
	return func(r pgx.Rows) error {
		var n name
		err := r.Scan(str(&n[0]), str(&n[1]), str(&n[2]), str(&n[3]))
		all[n] = true
		return err
	}
}

// judge accepts or refuses each piece, as if the accepted ones before it were already
// stored.
func (pl *plan) judge() {
	for _, p := range pl.group {
		switch {
		case p.rows == nil:
			p.err = nil
		case p.rows.create:
			p.err = pl.create(p)
		default:
			p.err = pl.extend(p)
		}
	}
}

// nothing reports that there is nothing to commit.
func (pl *plan) nothing() bool { return !pl.probe && len(pl.out.sessions) == 0 }

func (pl *plan) find(p parley.Principal, id parley.SessionID) (*place, error) {
	at := pl.at[id]
	if at == nil || !p.Owns(at.user, at.org) {
		return nil, rule.NotFound("session", id)
	}
	return at, nil
}

func (pl *plan) extend(p *piece) error {
	r := p.rows
	at, err := pl.find(p.p, r.Session)
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
	if err := pl.taken(r, at); err != nil {
		return err
	}
	pl.accept(p, at)
	return nil
}

func (pl *plan) create(p *piece) error {
	r, in := p.rows, p.rows.Index.Session
	at := &place{user: in.User, org: in.Org, epoch: 1}
	var parent *place
	if p.from != "" {
		var err error
		if parent, err = pl.find(p.p, p.from); err != nil {
			return err
		}
		if r.After > parent.seq {
			return rule.BeyondEnd(p.from, r.After, parent.seq)
		}
		at.shared, at.condensed, at.bytes = r.After, min(parent.condensed, r.After), parent.bytes
	}
	if pl.gone[r.Session] {
		return rule.NotFound("session", r.Session)
	}
	if pl.at[r.Session] != nil {
		if _, err := pl.find(p.p, r.Session); err != nil {
			return err
		}
		return rule.Exists(r.Session)
	}
	alias := name{in.App, in.OutsideID, in.User, in.Org}
	if in.OutsideID != "" && pl.aliases[alias] {
		return rule.AliasTaken(in.OutsideID)
	}
	if err := pl.taken(r, at); err != nil {
		return err
	}
	if in.OutsideID != "" {
		pl.aliases[alias] = true
		pl.out.aliases[alias] = string(r.Session)
	}
	pl.at[r.Session] = at
	pl.accept(p, at)
	if parent != nil {
		pl.out.forks = append(pl.out.forks, fork{r.Session, p.from, r.After, parent.shared})
	}
	return nil
}

// taken reports the first key that is taken, or the first blob that is missing.
func (pl *plan) taken(r *rows, at *place) error {
	mine := map[name]bool{}
	for _, k := range r.Index.Keys {
		n := name{string(k.Session), k.Key, at.user, at.org}
		if pl.keys[n] || mine[n] {
			return rule.KeyTaken(k.Key)
		}
		mine[n] = true
	}
	for _, d := range r.Index.Blobs {
		if !pl.blobs[d] {
			return rule.NoBlob(d)
		}
	}
	return nil
}

func (pl *plan) accept(p *piece, at *place) {
	at.seq = p.rows.After + int64(len(p.rows.Events))
	at.bytes += rule.Bytes(p.rows.Batch)
	at.condensed = max(at.condensed, p.rows.Condense)
	for _, k := range p.rows.Index.Keys {
		pl.keys[name{string(k.Session), k.Key, at.user, at.org}] = true
	}
	pl.out.add(p, at)
	pl.addRows(p.rows.Index, at)
}

// raw is a string as it is stored; never NULL.
func raw[T ~string](s T) []byte { return []byte(s) }

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// text scans bytea into a string.
type text[T ~string] struct{ to *T }

func str[T ~string](to *T) text[T] { return text[T]{to} }

// ScanBytes implements pgtype.BytesScanner.
func (t text[T]) ScanBytes(b []byte) error {
	if b == nil {
		return fmt.Errorf("a string is NULL")
	}
	*t.to = T(b)
	return nil
}
