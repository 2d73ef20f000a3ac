package storecopy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// sum is a checksum of rows.
type sum struct{ hash.Hash }

func newSum() sum { return sum{sha256.New()} }

func (s sum) String() string { return hex.EncodeToString(s.Sum(nil)) }

// bytes adds a value with its length, so that no two lists of values add the same.
func (s sum) bytes(kind byte, b []byte) {
	var head [9]byte
	head[0] = kind
	binary.BigEndian.PutUint64(head[1:], uint64(len(b)))
	s.Write(head[:])
	s.Write(b)
}

func (s sum) row(row []any) {
	for _, v := range row {
		switch v := v.(type) {
		case nil:
			s.bytes('0', nil)
		case int64:
			s.bytes('i', binary.BigEndian.AppendUint64(nil, uint64(v)))
		case []byte:
			s.bytes('b', v)
		default:
			panic(fmt.Sprintf("storecopy: a value is a %T", v))
		}
	}
	s.bytes('.', nil)
}

func (s sum) add(what, name string, n int64) { s.row([]any{[]byte(what), []byte(name), n}) }

// both runs do for both sides at once.
func both(ctx context.Context, from, to seam.Copyable, do func(ctx context.Context, s seam.Copyable) (string, error)) (a, b string, err error) {
	var wg sync.WaitGroup
	var errA, errB error
	wg.Go(func() { a, errA = do(ctx, from) })
	wg.Go(func() { b, errB = do(ctx, to) })
	wg.Wait()
	if errA != nil {
		errA = fmt.Errorf("the source: %w", errA)
	}
	if errB != nil {
		errB = fmt.Errorf("the target: %w", errB)
	}
	return a, b, errors.Join(errA, errB)
}

func differ(what string) error {
	return parley.Errorf(parley.CodeInternal, "%s differs between the source and its copy", what).
		WithHint("the copy is not used; empty the target, copy again, and report it if that happens again")
}

// verify compares everything on both sides, and returns the checksum of all.
func verify(ctx context.Context, from, to seam.Copyable, tables []seam.CopyTable, r Result, o Options) (string, error) {
	all := newSum()
	for _, t := range tables {
		if err := o.At("verify " + t.String()); err != nil {
			return "", err
		}
		o.Said(Progress{"verify", t.String(), 0, r.Tables[t.String()]})
		a, b, err := both(ctx, from, to, func(ctx context.Context, s seam.Copyable) (string, error) {
			sum, n := newSum(), int64(0)
			err := s.CopyOut(ctx, t, nil, func(row []any) error {
				n++
				sum.row(row)
				return ctx.Err()
			})
			return fmt.Sprint(n, " ", sum), err
		})
		if err != nil {
			return "", err
		}
		if a != b {
			return "", differ("the table " + t.String())
		}
		all.bytes('t', []byte(a))
	}
	done := int64(0)
	for q := (seam.SessionQuery{Direct: true, Limit: 500}); ; {
		page, err := from.Sessions(ctx, parley.System(), q)
		if err != nil {
			return "", err
		}
		for _, in := range page {
			a, b, err := both(ctx, from, to, func(ctx context.Context, s seam.Copyable) (string, error) { return Session(ctx, s, in.ID) })
			if err != nil {
				return "", err
			}
			if a != b {
				return "", differ("the session " + string(in.ID))
			}
			all.bytes('s', []byte(a))
			done++
			o.Said(Progress{"verify", "sessions as the server reads them", done, r.Sessions})
		}
		if len(page) < q.Limit {
			break
		}
		q.After = q.Mark(page[len(page)-1])
	}
	if done != r.Sessions {
		return "", differ("the list of sessions")
	}
	return all.String(), nil
}

// Session is a checksum of what a store says of a session: its row, its events, turns and
// artifacts, its state, and the text in flight.
func Session(ctx context.Context, s seam.Store, id parley.SessionID) (string, error) {
	sys, sum := parley.System(), newSum()
	add := func(v any) error {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		if err := e.Encode(v); err != nil {
			return err
		}
		sum.bytes('j', b.Bytes())
		return nil
	}
	in, err := s.Session(ctx, sys, id)
	if err == nil {
		err = add(in)
	}
	if err != nil {
		return "", err
	}
	for after := int64(0); ; {
		events, err := s.Read(ctx, sys, id, after, 0)
		if err != nil {
			return "", err
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			sum.bytes('e', e.AppendJSON(nil))
		}
		after = events[len(events)-1].Seq
	}
	st, err := s.State(ctx, sys, id)
	if err != nil && !errors.Is(err, parley.ErrNotFound) {
		return "", err
	}
	if err := add(st); err != nil {
		return "", err
	}
	for q := (seam.TurnQuery{Session: id, Limit: 500}); ; {
		turns, err := s.Turns(ctx, sys, q)
		if err != nil {
			return "", err
		}
		if len(turns) == 0 {
			break
		}
		if err := add(turns); err != nil {
			return "", err
		}
		q.After = q.Mark(turns[len(turns)-1])
	}
	artifacts, err := s.Artifacts(ctx, sys, id)
	if err != nil {
		return "", err
	}
	for _, a := range artifacts {
		if err := add(a); err != nil {
			return "", err
		}
		body, err := s.Blob(ctx, sys, id, a.SHA256)
		if err != nil && !errors.Is(err, parley.ErrNotFound) {
			return "", err
		}
		sum.bytes('a', body)
	}
	chunks, err := s.Chunks(ctx, sys, id)
	if err == nil {
		err = add(chunks)
	}
	return sum.String(), err
}
