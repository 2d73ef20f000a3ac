// Package storecopy copies everything in one store to an empty one of another kind.
//
// [Copy] goes through the tables in the order of their names, and through each in the order of
// its key. Some hundred rows are one transaction of the target, together with the mark that says
// how far the copy is. So a copy that was interrupted at any point goes on from there when it is
// started again, and nobody can use the target meanwhile: a store with a mark is opened only for
// a copy.
//
// The mark names the contents of the source by a fingerprint, so a target goes on only with the
// source as it was. At the end everything is read again, on both sides: each table by its rows,
// and each session by what the store's own methods say of it. Only if all checksums are alike is
// the mark removed.
//
// The caller makes sure that nobody else has either store open.
package storecopy

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	groupRows  = 500     // of a transaction
	groupBytes = 4 << 20 // after which it ends, too
)

// Options of Copy.
type Options struct {
	// Said is called with how far the copy is; nil: nobody listens.
	Said func(Progress)
	// At is called before each transaction and each step, for tests; an error ends the copy.
	At func(point string) error
	// Made reports whether a server that starts makes such a row by itself. A target that has no
	// others is as good as empty: they go. Nil: there are no such rows.
	Made func(seam.Row) bool
}

// Progress is how far a copy is. What is done before is not counted.
type Progress struct {
	Step       string // "copy" or "verify"
	Table      string // or "sessions as the server reads them"
	Done, Rows int64  // of the table
}

// Result is what was copied.
type Result struct {
	Tables   map[string]int64 // rows of each table
	Sessions int64
	Events   int64
	Checksum string // of all tables and sessions, the same on both sides
	// Condensed are sessions with steps that only the archive has, if any.
	Condensed []parley.SessionID
	// Before means that an earlier copy had completed it: it was only verified.
	Before bool
}

// Copy copies from to to. Errors: CodeConflict when the target holds something else, when it is
// the target of another copy, or when the source has changed since a copy was interrupted.
func Copy(ctx context.Context, from, to seam.Copyable, o Options) (Result, error) {
	if o.Said == nil {
		o.Said = func(Progress) {}
	}
	if o.At == nil {
		o.At = func(string) error { return nil }
	}
	if m, err := from.CopyMark(ctx); err != nil {
		return Result{}, err
	} else if m != nil {
		return Result{}, parley.Errorf(parley.CodeConflict, "the source is itself an incomplete copy").WithHint("complete that copy first: run its parley store copy again")
	}
	tables, err := sameTables(ctx, from, to)
	if err != nil {
		return Result{}, err
	}
	r, print, err := look(ctx, from, tables)
	if err != nil {
		return r, err
	}
	m, err := to.CopyMark(ctx)
	if err != nil {
		return r, err
	}
	switch {
	case m != nil && m.Source != print:
		return r, parley.Errorf(parley.CodeConflict, "the target holds an incomplete copy of something else, or the source has changed since that copy was interrupted").
			WithHint("empty the target to begin again: remove the new data folder's parley.db and what begins with its name, or DROP SCHEMA parley CASCADE in the database")
	case m == nil:
		have, other, err := look(ctx, to, tables)
		if err == nil && other != print && o.Made != nil {
			have, other, err = unmake(ctx, to, tables, have, other, o)
		}
		if err != nil {
			return r, err
		}
		if r.Before = have.rows() > 0; r.Before && other != print {
			return r, parley.Errorf(parley.CodeConflict, "the target is not empty: it has %s", have.held()).WithHint("copy into a new data folder or an empty database")
		}
		if !r.Before {
			m = &seam.CopyMark{Source: print}
			if err := o.At("begin"); err != nil {
				return r, err
			}
			if err := to.CopyBegin(ctx, *m); err != nil {
				return r, err
			}
		}
	}
	if !r.Before {
		for _, t := range tables {
			if t.String() < m.Table {
				continue
			}
			if err := copyTable(ctx, from, to, t, *m, r.Tables[t.String()], o); err != nil {
				return r, fmt.Errorf("copy %s: %w", t, err)
			}
		}
	}
	if r.Checksum, err = verify(ctx, from, to, tables, r, o); err != nil {
		return r, err
	}
	if r.Before {
		return r, nil
	}
	if err := o.At("end"); err != nil {
		return r, err
	}
	return r, to.CopyEnd(ctx)
}

// unmake drops what servers make by themselves from a target that has nothing else. It returns
// what the target has then.
func unmake(ctx context.Context, to seam.Copyable, tables []seam.CopyTable, have Result, print string, o Options) (Result, string, error) {
	q := seam.RowQuery{Kind: seam.RowSchedule, Limit: 500}
	rows, err := to.Rows(ctx, parley.System(), q)
	if err != nil || len(rows) == 0 || int64(len(rows)) != have.rows() || slices.ContainsFunc(rows, func(r seam.Row) bool { return !o.Made(r) }) {
		return have, print, err
	}
	for _, r := range rows {
		if err := o.At("unmake"); err != nil {
			return have, print, err
		}
		if err := to.DropRow(ctx, parley.System(), r.RowName, r.Version); err != nil {
			return have, print, err
		}
	}
	return look(ctx, to, tables)
}

// held says what is in a store that is not empty.
func (r Result) held() string {
	if r.Sessions > 0 {
		return fmt.Sprintf("%d sessions", r.Sessions)
	}
	var tables []string
	for name, rows := range r.Tables {
		if rows > 0 {
			tables = append(tables, name)
		}
	}
	slices.Sort(tables)
	return "no sessions, but rows in " + strings.Join(tables, ", ")
}

func (r Result) rows() (n int64) {
	for _, c := range r.Tables {
		n += c
	}
	return n
}

// sameTables are the tables of both stores, which have the same ones.
func sameTables(ctx context.Context, from, to seam.Copyable) ([]seam.CopyTable, error) {
	a, err := from.CopyTables(ctx)
	if err != nil {
		return nil, err
	}
	b, err := to.CopyTables(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range a {
		i := slices.IndexFunc(b, func(o seam.CopyTable) bool { return o.String() == t.String() })
		if i < 0 || !slices.Equal(t.Columns, b[i].Columns) || !slices.Equal(t.Key, b[i].Key) {
			return nil, parley.Errorf(parley.CodeUpgradeRequired, "the target has no table like %s of the source", t).
				WithHint("use the version of Parley, with the apps, that wrote the source")
		}
	}
	return a, nil
}

// look counts a store's rows, and returns a fingerprint of them: it tells stores apart, also the
// same store before and after it was used, but reads little more than the list of sessions.
func look(ctx context.Context, s seam.Copyable, tables []seam.CopyTable) (r Result, print string, err error) {
	r.Tables = map[string]int64{}
	sum := newSum()
	for _, t := range tables {
		n, err := s.CopyCount(ctx, t)
		if err != nil {
			return r, "", err
		}
		r.Tables[t.String()] = n
		sum.add("table", t.String(), n)
	}
	r.Sessions, r.Events = r.Tables["sessions"], r.Tables["events"]
	for _, t := range tables {
		if name := t.String(); name != "sessions" && name != "index_rows" && name != "sealed" && name != "approvals" {
			continue
		}
		id, condensed := column(t, "id"), column(t, "condensed")
		err := s.CopyOut(ctx, t, nil, func(row []any) error {
			sum.row(row)
			if condensed >= 0 {
				if n, _ := row[condensed].(int64); n > 0 {
					raw, _ := row[id].([]byte)
					r.Condensed = append(r.Condensed, parley.SessionID(raw))
				}
			}
			return nil
		})
		if err != nil {
			return r, "", err
		}
	}
	return r, sum.String(), nil
}

func column(t seam.CopyTable, name string) int {
	return slices.IndexFunc(t.Columns, func(c seam.CopyColumn) bool { return c.Name == name })
}

// copyTable copies the rows of a table that the target does not have.
func copyTable(ctx context.Context, from, to seam.Copyable, t seam.CopyTable, m seam.CopyMark, rows int64, o Options) error {
	var after []any
	done := int64(0)
	if m.Table == t.String() {
		var err error
		if after, err = decodeKey(m.Key); err != nil {
			return err
		}
		if done, err = to.CopyCount(ctx, t); err != nil {
			return err
		}
	}
	m.Table = t.String()
	var group [][]any
	size := 0
	flush := func() error {
		if len(group) == 0 {
			return nil
		}
		last := group[len(group)-1]
		var key []any
		for _, i := range t.Key {
			key = append(key, last[i])
		}
		var err error
		if m.Key, err = encodeKey(key); err != nil {
			return err
		}
		if err := o.At("rows of " + t.String()); err != nil {
			return err
		}
		if err := to.CopyIn(ctx, t, group, m); err != nil {
			return err
		}
		done += int64(len(group))
		group, size = nil, 0
		o.Said(Progress{"copy", t.String(), done, rows})
		return nil
	}
	err := from.CopyOut(ctx, t, after, func(row []any) error {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		kept := make([]any, len(row))
		for i, v := range row {
			if b, ok := v.([]byte); ok {
				v, size = append([]byte{}, b...), size+len(b) // never nil, which would be NULL
			}
			kept[i] = v
		}
		group = append(group, kept)
		if len(group) >= groupRows || size >= groupBytes {
			return flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// encodeKey writes a key as JSON: numbers, and texts as hexadecimal digits.
func encodeKey(key []any) ([]byte, error) {
	out := make([]any, len(key))
	for i, v := range key {
		switch v := v.(type) {
		case int64:
			out[i] = v
		case []byte:
			out[i] = hex.EncodeToString(v)
		default:
			return nil, fmt.Errorf("a key has a %T", v)
		}
	}
	return json.Marshal(out)
}

func decodeKey(raw []byte) (key []any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&key); err != nil {
		return nil, fmt.Errorf("the mark of the copy cannot be read: %w", err)
	}
	for i, v := range key {
		switch v := v.(type) {
		case json.Number:
			key[i], err = v.Int64()
		case string:
			key[i], err = hex.DecodeString(v)
		default:
			err = fmt.Errorf("a %T", v)
		}
		if err != nil {
			return nil, fmt.Errorf("the mark of the copy cannot be read: %w", err)
		}
	}
	return key, nil
}
