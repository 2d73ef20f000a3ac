package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

// output is what a flush writes. Each table has its rows by name, because one statement
// cannot touch a row twice. Rows are written in the order of their names, so that two
// nodes that insert the same ones do not deadlock.
type output struct {
	sessions     map[name]*session
	aliases      map[name]string
	keys         map[name]keyRow
	events       []parley.Event
	states       map[name]*seam.State
	turns        map[name]turn
	interactions map[name]interaction
	artifacts    map[name]artifactRow
	spent        map[name]rule.Spend
	refs         map[name]int64
	released     map[name]bool // refs, except those that were made again
	unkept       map[name]bool // artifacts
	dropped      map[name]bool
	condensed    map[name]int64
	rows         map[name]seam.Row
	unrowed      map[name]bool // index rows that are removed
	forks        []fork
}

type (
	session struct {
		made  bool // by this flush
		told  bool // info and its columns are set
		owner string
		at    *place
		in    *parley.SessionInfo
		info  []byte
	}
	keyRow struct {
		seam.Key
		of parley.SessionID
	}
	turn struct {
		user, org string
		status    parley.TurnStatus
		last      int64
		body      []byte
	}
	interaction struct {
		user, org string
		open      bool
		kind      parley.InteractionKind
		opened    int64
		expires   int64 // 0: never
		last      int64
		body      []byte
	}
	artifactRow struct {
		seq  int64
		body []byte
	}
	fork struct {
		id, from parley.SessionID
		at       int64
		shared   int64 // of from
	}
)

func newOutput() output {
	return output{
		sessions: map[name]*session{}, aliases: map[name]string{}, keys: map[name]keyRow{}, states: map[name]*seam.State{},
		turns: map[name]turn{}, interactions: map[name]interaction{}, artifacts: map[name]artifactRow{},
		spent: map[name]rule.Spend{}, refs: map[name]int64{}, released: map[name]bool{}, unkept: map[name]bool{}, dropped: map[name]bool{}, condensed: map[name]int64{},
		rows: map[name]seam.Row{}, unrowed: map[name]bool{},
	}
}

// add adds what an accepted piece changes.
func (o *output) add(p *piece, at *place) {
	r, ix, id := p.rows, p.rows.Index, string(p.rows.Session)
	s := o.sessions[name{id}]
	if s == nil {
		s = &session{made: r.create, owner: r.Owner, at: at}
		o.sessions[name{id}] = s
	}
	if ix.Session != nil {
		s.told, s.in, s.info = true, ix.Session, r.info
	}
	o.events = append(o.events, r.Events...)
	if r.Condense > 0 {
		o.condensed[name{id}] = max(r.Condense, o.condensed[name{id}])
	}
	for _, k := range ix.Keys {
		o.keys[name{string(k.Session), k.Key, at.user, at.org}] = keyRow{k, r.Session}
	}
	if ix.State != nil {
		o.states[name{id}] = ix.State
	}
	for i, t := range ix.Turns {
		o.turns[name{id, string(t.ID)}] = turn{at.user, at.org, t.Status, t.LastSeq, r.turns[i]}
	}
	for i, in := range ix.Interactions {
		o.interactions[name{id, string(in.ID)}] = interaction{
			at.user, at.org, in.Open, in.Kind, rule.Millis(in.OpenedAt), rule.MillisOrNone(in.ExpiresAt), in.LastSeq, r.interactions[i],
		}
	}
	for _, a := range ix.DropArtifacts {
		o.unkept[name{id, string(a)}] = true
		delete(o.artifacts, name{id, string(a)})
	}
	for _, d := range ix.Release {
		o.released[name{id, string(d)}] = true
		delete(o.refs, name{id, string(d)})
	}
	refers := rule.RefersOf(r.Batch)
	for i, a := range ix.Artifacts {
		delete(o.unkept, name{id, string(a.ID)})
		o.artifacts[name{id, string(a.ID)}] = artifactRow{refers.Artifact(a.ID), r.artifacts[i]}
	}
	for _, sp := range ix.Spend {
		n := name{at.user, at.org, sp.Day, sp.Model}
		o.spent[n] = o.spent[n].Add(rule.SpendOf(sp))
	}
	for _, d := range ix.Blobs {
		delete(o.released, name{id, string(d)})
		if _, ok := o.refs[name{id, string(d)}]; !ok {
			o.refs[name{id, string(d)}] = refers.Blob(d)
		}
	}
	for _, call := range ix.DropChunks {
		o.dropped[name{id, string(call)}] = true
	}
}

// ordered visits the rows of a table by name.
func ordered[R any](all map[name]R, row func(n name, r R)) {
	names := slices.SortedFunc(maps.Keys(all), func(a, b name) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]), cmp.Compare(a[2], b[2]), cmp.Compare(a[3], b[3]))
	})
	for _, n := range names {
		row(n, all[n])
	}
}

// matrix holds rows by column, as unnest takes them.
type matrix []any

// add adds a row of []byte, int64, int32 and bool values.
func (m *matrix) add(row ...any) {
	if *m == nil {
		*m = make(matrix, len(row))
	}
	for i, v := range row {
		switch v := v.(type) {
		case []byte:
			(*m)[i] = push((*m)[i], v)
		case int64:
			(*m)[i] = push((*m)[i], v)
		case int32:
			(*m)[i] = push((*m)[i], v)
		case bool:
			(*m)[i] = push((*m)[i], v)
		default:
			panic(fmt.Sprintf("postgres: column %d has type %T", i+1, v))
		}
	}
}

func push[V any](column any, v V) any {
	all, _ := column.([]V)
	return append(all, v)
}

func (m matrix) args() []any { return m }

// write writes everything, notifies and commits, in one round trip. If it fails while the
// connection is intact, nothing was committed.
func (pl *plan) write(ctx context.Context, c *pgx.Conn, writer string) error {
	b := &pgx.Batch{}
	pl.out.queue(b)
	if len(pl.out.sessions) > 0 {
		b.Queue(`SELECT pg_notify($1, $2)`, Channel, pl.out.doorbell(writer))
	}
	b.Queue(`COMMIT`)
	r := c.SendBatch(ctx, b)
	for range b.Len() - 1 {
		if _, err := r.Exec(); err != nil {
			_ = r.Close() // an earlier error has the reason
			return err
		}
	}
	tag, err := r.Exec()
	if err == nil && tag.String() != "COMMIT" {
		err = fmt.Errorf("the server answered COMMIT with %s", tag)
	}
	if e := r.Close(); err == nil {
		err = e
	}
	return err
}

func (o *output) queue(b *pgx.Batch) {
	insert := func(m matrix, query string) {
		if len(m) > 0 {
			b.Queue(query, m...)
		}
	}
	var made, told, moved, m matrix
	ordered(o.sessions, func(n name, s *session) {
		id := raw(n[0])
		switch {
		case s.made:
			made.add(id, raw(s.in.User), raw(s.in.Org), raw(s.in.App), raw(s.in.Status), raw(s.owner), s.at.seq, rule.Millis(s.in.UpdatedAt), s.info,
				rule.Held(s.in), rule.MillisOrNone(s.in.StepsSince), s.at.shared, s.at.condensed, s.at.bytes)
		case s.told:
			told.add(id, s.at.seq, raw(s.in.App), raw(s.in.Status), rule.Millis(s.in.UpdatedAt), s.info, rule.Held(s.in), rule.MillisOrNone(s.in.StepsSince), s.at.bytes)
		default:
			moved.add(id, s.at.seq, s.at.bytes)
		}
	})
	insert(made, `INSERT INTO sessions (id, usr, org, app, status, owner, epoch, seq, updated, info, held, steps, shared, condensed, bytes)
		SELECT id, usr, org, app, status, owner, 1, seq, updated, info, held, steps, shared, condensed, bytes
		FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bigint[], $8::bigint[], $9::bytea[], $10::boolean[], $11::bigint[],
			$12::bigint[], $13::bigint[], $14::bigint[])
		AS w (id, usr, org, app, status, owner, seq, updated, info, held, steps, shared, condensed, bytes)`)
	insert(told, `UPDATE sessions s SET seq = w.seq, app = w.app, status = w.status, updated = w.updated, info = w.info, held = w.held, steps = w.steps, bytes = w.bytes
		FROM unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bytea[], $7::boolean[], $8::bigint[], $9::bigint[])
		AS w (id, seq, app, status, updated, info, held, steps, bytes) WHERE s.id = w.id`)
	insert(moved, `UPDATE sessions s SET seq = w.seq, bytes = w.bytes FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS w (id, seq, bytes) WHERE s.id = w.id AND (s.seq <> w.seq OR s.bytes <> w.bytes)`)

	ordered(o.aliases, func(n name, session string) {
		m.add(raw(n[0]), raw(n[1]), raw(n[2]), raw(n[3]), raw(session))
	})
	insert(m, `INSERT INTO aliases (app, outside, usr, org, session) SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[])`)
	m = nil
	ordered(o.keys, func(n name, k keyRow) {
		m.add(raw(n[0]), raw(n[1]), raw(n[2]), raw(n[3]), raw(k.of), raw(k.Body), raw(k.Made), raw(k.Turn))
	})
	insert(m, `INSERT INTO keys (session, key, usr, org, of, body, made, turn)
		SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[])`)
	m = nil
	for _, e := range o.events {
		var data []byte // NULL when there is none
		if len(e.Data) > 0 {
			data = e.Data
		}
		m.add(raw(e.Session), e.Seq, raw(e.Turn), raw(e.Agent), rule.Millis(e.Time), raw(e.Type), int32(e.V), data)
	}
	insert(m, `INSERT INTO events (session, seq, turn, agent, time, type, v, data)
		SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bytea[], $7::integer[], $8::bytea[])`)
	o.queueIndex(insert)
	o.queueRows(insert)
	if len(o.forks)+len(o.condensed) > 0 {
		b.Queue(lockShares)
	}
	for _, f := range o.forks {
		f.queue(b)
	}
	m = nil
	ordered(o.condensed, func(n name, to int64) { m.add(raw(n[0]), to) })
	insert(m, `UPDATE sessions s SET condensed = w.upto FROM unnest($1::bytea[], $2::bigint[]) AS w (id, upto) WHERE s.id = w.id AND s.condensed < w.upto`)
	insert(m, erase(`(SELECT w.id, w.upto FROM unnest($1::bytea[], $2::bigint[]) AS w (id, upto)
		UNION SELECT h.of, least(h.last, w.upto) FROM unnest($1::bytea[], $2::bigint[]) AS w (id, upto) JOIN shares h ON h.session = w.id)`))
	m = nil
	ordered(o.released, func(n name, _ bool) { m.add(raw(n[0]), raw(n[1])) })
	insert(m, `DELETE FROM refs r USING unnest($1::bytea[], $2::bytea[]) AS w (session, digest) WHERE r.session = w.session AND r.digest = w.digest`)
	m = nil
	ordered(o.unkept, func(n name, _ bool) { m.add(raw(n[0]), raw(n[1])) })
	insert(m, `DELETE FROM artifacts a USING unnest($1::bytea[], $2::bytea[]) AS w (session, id) WHERE a.session = w.session AND a.id = w.id`)
	m = nil
	ordered(o.dropped, func(n name, _ bool) { m.add(raw(n[0]), raw(n[1])) })
	insert(m, `DELETE FROM chunks c USING unnest($1::bytea[], $2::bytea[]) AS w (session, call) WHERE c.session = w.session AND c.call = w.call`)
}

func (o *output) queueIndex(insert func(matrix, string)) {
	var m matrix
	ordered(o.states, func(n name, s *seam.State) { m.add(raw(n[0]), s.Seq, int32(s.Version), notNil(s.Body)) })
	insert(m, `INSERT INTO states (session, seq, version, body) SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::integer[], $4::bytea[])
		ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, version = excluded.version, body = excluded.body`)
	m = nil
	ordered(o.turns, func(n name, t turn) {
		m.add(raw(n[0]), raw(n[1]), raw(t.user), raw(t.org), raw(t.status), !t.status.Ended(), t.last, t.body)
	})
	insert(m, `INSERT INTO turns (session, id, usr, org, status, live, last, body)
		SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::boolean[], $7::bigint[], $8::bytea[])
		ON CONFLICT (session, id) DO UPDATE SET status = excluded.status, live = excluded.live, last = excluded.last, body = excluded.body`)
	m = nil
	ordered(o.interactions, func(n name, in interaction) {
		m.add(raw(n[0]), raw(n[1]), raw(in.user), raw(in.org), in.open, raw(in.kind), in.opened, in.expires, in.last, in.body)
	})
	insert(m, `INSERT INTO interactions (session, id, usr, org, open, kind, opened, expires, last, body)
		SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[], $5::boolean[], $6::bytea[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bytea[])
		ON CONFLICT (session, id) DO UPDATE SET open = excluded.open, kind = excluded.kind, opened = excluded.opened, expires = excluded.expires, last = excluded.last, body = excluded.body`)
	m = nil
	ordered(o.artifacts, func(n name, a artifactRow) { m.add(raw(n[0]), raw(n[1]), a.seq, a.body) })
	insert(m, `INSERT INTO artifacts (session, id, seq, body) SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[])
		ON CONFLICT (session, id) DO UPDATE SET seq = excluded.seq, body = excluded.body`)
	m = nil
	ordered(o.spent, func(n name, s rule.Spend) {
		m.add(raw(n[0]), raw(n[1]), raw(n[2]), raw(n[3]), s[0], s[1], s[2], s[3], s[4], s[5], s[6])
	})
	insert(m, `INSERT INTO spent AS s (usr, org, day, model, calls, input, output, cache_read, cache_write, reasoning, nano_usd)
		SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[])
		ON CONFLICT (usr, org, day, model) DO UPDATE SET calls = s.calls + excluded.calls, input = s.input + excluded.input, output = s.output + excluded.output,
		cache_read = s.cache_read + excluded.cache_read, cache_write = s.cache_write + excluded.cache_write,
		reasoning = s.reasoning + excluded.reasoning, nano_usd = s.nano_usd + excluded.nano_usd`)
	m = nil
	ordered(o.refs, func(n name, seq int64) { m.add(raw(n[0]), raw(n[1]), seq) })
	insert(m, `INSERT INTO refs (session, digest, seq) SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[]) ON CONFLICT DO NOTHING`)
}
