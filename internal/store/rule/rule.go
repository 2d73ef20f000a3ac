// Package rule holds what all stores agree on before they touch a row: which batches are
// valid, how long a page may be, and which error says what. A store with rules of its own
// would pass its own tests and still surprise the engine.
package rule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Limits of one call.
const (
	// MaxBatch is the most bytes of one batch. One writer handles an append at a time; 64
	// MiB block it for about a second.
	MaxBatch = 64 << 20
	// MaxBlob is the most bytes of one blob.
	MaxBlob = 64 << 20

	maxEvents = 1000 // per Read
	listSize  = 50
	maxList   = 500
)

// Batch checks what can be checked without reading rows. Its errors have CodeInvalid or
// CodeTooLarge: they are mistakes of the caller.
func Batch(p parley.Principal, b seam.Batch) error {
	if b.Create && b.After != 0 {
		return invalid(b.Session, "after", "a new log begins after 0, not %d", b.After)
	}
	return batch(p, b, b.Create)
}

// Fork checks the batch of a fork, which always creates its session.
func Fork(p parley.Principal, from parley.SessionID, at int64, b seam.Batch) error {
	switch {
	case at < 1 || b.After != at:
		return invalid(b.Session, "at", "a fork at event %d cannot continue after event %d", at, b.After)
	case from == b.Session:
		return invalid(b.Session, "session", "a session cannot be forked into itself")
	}
	return batch(p, b, true)
}

func batch(p parley.Principal, b seam.Batch, create bool) error {
	if b.Session == "" {
		return invalid(b.Session, "session", "it has no id")
	}
	if b.After < 0 {
		return invalid(b.Session, "after", "%d is not an event number", b.After)
	}
	size := 0
	for i, e := range b.Events {
		if e.Session != b.Session || e.Seq != b.After+1+int64(i) || e.Type == "" {
			return invalid(b.Session, "events", "entry %d is event %d of session %q with type %q, where event %d is expected",
				i, e.Seq, e.Session, e.Type, b.After+1+int64(i))
		}
		size += len(e.Data)
	}
	if b.Index.State != nil {
		size += len(b.Index.State.Body)
	}
	for _, r := range b.Index.Rows {
		size += len(r.Body)
	}
	if size > MaxBatch {
		return parley.Errorf(parley.CodeTooLarge, "a batch of %d bytes exceeds the limit of %d", size, MaxBatch)
	}
	return index(p, b, create)
}

// Bytes is what a batch adds to the bytes its session holds.
func Bytes(b seam.Batch) (n int64) {
	for _, e := range b.Events {
		n += int64(len(e.Data))
	}
	for _, a := range b.Index.Artifacts {
		n += max(a.Size, 0)
	}
	return n + b.Index.Grown
}

func index(p parley.Principal, b seam.Batch, create bool) error {
	ix, id := b.Index, b.Session
	if in := ix.Session; in != nil {
		if in.ID != id || in.User == "" || !p.Owns(in.User, in.Org) {
			return invalid(id, "index.session", "the row is of session %q, user %q and org %q", in.ID, in.User, in.Org)
		}
	} else if create {
		return invalid(id, "index.session", "a new session needs its row")
	}
	for _, t := range ix.Turns {
		if t.ID == "" || t.SessionID != id {
			return invalid(id, "index.turns", "turn %q is of session %q", t.ID, t.SessionID)
		}
	}
	for _, r := range ix.Interactions {
		if r.ID == "" || r.Session != id {
			return invalid(id, "index.interactions", "interaction %q is of session %q", r.ID, r.Session)
		}
	}
	for _, a := range ix.Artifacts {
		if a.ID == "" || a.Session != id {
			return invalid(id, "index.artifacts", "artifact %q is of session %q", a.ID, a.Session)
		}
	}
	for _, s := range ix.Spend {
		if len(s.Day) != len("2026-11-21") || s.Model == "" {
			return invalid(id, "index.spend", "model %q on the day %q", s.Model, s.Day)
		}
	}
	for _, k := range ix.Keys {
		if k.Key == "" || k.Session != "" && k.Session != id {
			return invalid(id, "index.keys", "key %q is of session %q", k.Key, k.Session)
		}
	}
	return batchRows(b)
}

func invalid(id parley.SessionID, field, format string, args ...any) error {
	e := parley.Errorf(parley.CodeInvalid, format, args...).WithField(field)
	e.Message = "batch for session " + string(id) + ": " + e.Message
	return e
}

// SameOwner refuses a row that would change the owner of a session.
func SameOwner(in *parley.SessionInfo, user, org string) error {
	if in == nil || in.User == user && in.Org == org {
		return nil
	}
	return invalid(in.ID, "index.session", "a session keeps its user and org")
}

// Events is the effective limit of one Read.
func Events(n int) int {
	if n <= 0 || n > maxEvents {
		return maxEvents
	}
	return n
}

// List is the effective limit of one list; -1 means unlimited, which only System gets.
func List(p parley.Principal, n int) int {
	switch {
	case n < 0 && p.IsSystem():
		return -1
	case n <= 0:
		return listSize
	}
	return min(n, maxList)
}

// Millis is t as rows store it.
func Millis(t time.Time) int64 { return t.UnixMilli() }

// MillisUp rounds up, for a limit that is compared with Millis: a time in the same
// millisecond, but before t, is still before it.
func MillisUp(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

// MillisOrNone is t as rows store it, or 0 for the zero time.
func MillisOrNone(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Held reports whether a session is not at rest: it has an open turn or an open question.
func Held(in *parley.SessionInfo) bool {
	return in.Waiting > 0 || in.Turn != nil && in.Turn.Status.Open()
}

// Waits reports whether a session that is held waits for somebody, and not only runs.
func Waits(in *parley.SessionInfo) bool {
	return in.Waiting > 0 || in.Turn != nil && in.Turn.Status == parley.StatusWaiting
}

// Encode returns v's JSON as rows store it. Rows are plain data, so it can fail only on
// invalid raw JSON inside them.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "a row cannot be written as JSON: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Decode reads what Encode wrote.
func Decode[T any](raw []byte) (T, error) {
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, parley.Errorf(parley.CodeInternal, "a stored row cannot be read: %w", err)
	}
	return v, nil
}

// NotFound says that a thing does not exist, or belongs to someone else.
func NotFound[ID ~string](what string, id ID) error {
	return parley.Errorf(parley.CodeNotFound, "there is no %s %q", what, id).WithHint("check the id; what belongs to another user is reported as not found, too")
}

// Fenced says that another owner has claimed the session since.
func Fenced(id parley.SessionID, have, want int64) error {
	return parley.Errorf(parley.CodeFenced, "session %s is owned under epoch %d, not %d", id, have, want)
}

// Conflict says that the log does not end where the batch expects.
func Conflict(id parley.SessionID, at, after int64) error {
	return parley.Errorf(parley.CodeConflict, "session %s is at event %d, not %d", id, at, after)
}

// Exists says that the session id is already used.
func Exists(id parley.SessionID) error {
	return parley.Errorf(parley.CodeConflict, "session %s already exists", id)
}

// KeyTaken says that an idempotency key was already used.
func KeyTaken(key string) error {
	return parley.Errorf(parley.CodeKeyReused, "the idempotency key %q is taken", key).WithField("key")
}

// AliasTaken says that an outside id already names a session.
func AliasTaken(outside string) error {
	return parley.Errorf(parley.CodeKeyReused, "the outside id %q is taken", outside).WithField("outside_id")
}

// NoBlob says that a batch refers to a blob that was never put, or too long ago.
func NoBlob(d parley.Digest) error {
	return parley.Errorf(parley.CodeInvalid, "there is no blob %s to refer to", d).WithField("index.blobs").
		WithHint("put a blob before the append that refers to it")
}

// BeyondEnd says that a fork asks for more events than there are.
func BeyondEnd(id parley.SessionID, at, end int64) error {
	return parley.Errorf(parley.CodeInvalid, "session %s ends at event %d, before %d", id, end, at).WithField("at")
}

// BlobSize rejects blobs over MaxBlob, and blobs without an owner.
func BlobSize(p parley.Principal, n int) error {
	switch {
	case !p.IsSystem() && p.User == "":
		return parley.Errorf(parley.CodeForbidden, "a blob needs an owner")
	case n > MaxBlob:
		return parley.Errorf(parley.CodeTooLarge, "a blob of %d bytes exceeds the limit of %d", n, MaxBlob)
	}
	return nil
}

// Closed says that the store is closed.
func Closed() error {
	return parley.Errorf(parley.CodeUnavailable, "the store is closed").WithHint("the server is shutting down; try again when it is back")
}

// Cancelled is the error of a call that was cancelled before it did anything.
func Cancelled(ctx context.Context) error {
	code := parley.CodeCancelled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = parley.CodeTimeout
	}
	return parley.Errorf(code, "cancelled before the store began: %w", context.Cause(ctx))
}

// MaxSpent limits the rows of one Spent.
const MaxSpent = 10_000

// Spend is a seam.Spend in whole numbers, as rows store it: calls, then the tokens of
// input, output, cache read, cache write and reasoning, then billionths of a dollar.
type Spend [7]int64

// SpendOf is what s adds.
func SpendOf(s seam.Spend) Spend {
	u := s.Usage
	return Spend{s.Calls, u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens, u.ReasoningTokens, int64(math.Round(u.USD * 1e9))}
}

// Add returns a + b.
func (a Spend) Add(b Spend) Spend {
	for i := range a {
		a[i] += b[i]
	}
	return a
}

// Of is a as a row.
func (a Spend) Of(day, model, user, org string) seam.Spend {
	return seam.Spend{Day: day, Model: model, User: user, Org: org, Calls: a[0], Usage: parley.Usage{
		InputTokens: a[1], OutputTokens: a[2], CacheReadTokens: a[3], CacheWriteTokens: a[4], ReasoningTokens: a[5], USD: float64(a[6]) / 1e9,
	}}
}
