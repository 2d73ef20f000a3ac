package seam

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// Lists are paged by a mark: the sort key of a page's last row, including its id. The
// next page continues after the mark, whether or not that row still exists. So a row that
// does not change is on exactly one page, even if others share its millisecond or are
// deleted. A row that changes meanwhile moves to its new place, which may be on a page
// that was already read.

// SessionMark is where a page of Sessions or Resting ended: the time by which its last
// session was listed, and its id. The zero value is the beginning.
type SessionMark struct {
	Time time.Time
	ID   parley.SessionID
}

// TurnMark is where a page of Turns ended. Turns of two sessions may share an id.
type TurnMark struct {
	ID      parley.TurnID
	Session parley.SessionID
}

// InteractionMark is where a page of Interactions ended: when its last one was opened, or
// with Due when its time ended.
type InteractionMark struct {
	Time    time.Time
	ID      parley.InteractionID
	Session parley.SessionID
}

// Mark is the mark of a page of q whose last row is in.
func (q SessionQuery) Mark(in parley.SessionInfo) SessionMark {
	return SessionMark{in.UpdatedAt, in.ID}
}

// Mark is the mark of a page of q whose last row is in.
func (q RestQuery) Mark(in parley.SessionInfo) SessionMark {
	if q.Status == "" {
		return SessionMark{in.StepsSince, in.ID}
	}
	return SessionMark{in.UpdatedAt, in.ID}
}

// Mark is the mark of a page of q whose last row is t.
func (q TurnQuery) Mark(t parley.TurnInfo) TurnMark { return TurnMark{t.ID, t.SessionID} }

// Mark is the mark of a page of q whose last row is r.
func (q InteractionQuery) Mark(r InteractionRow) InteractionMark {
	at := r.OpenedAt
	if !q.Due.IsZero() {
		at = r.ExpiresAt
	}
	return InteractionMark{at, r.ID, r.Session}
}

// Cursor is the mark as clients pass it back; empty for the zero value. It reveals
// nothing that its reader could not see, and grants nothing.
func (m SessionMark) Cursor() string {
	if m.ID == "" {
		return ""
	}
	return cursor("s", m.Time, string(m.ID))
}

// Cursor is like that of SessionMark.
func (m InteractionMark) Cursor() string {
	if m.ID == "" {
		return ""
	}
	return cursor("i", m.Time, string(m.ID), string(m.Session))
}

// SessionCursor parses the result of [SessionMark.Cursor]. Empty is the beginning;
// anything else that it cannot parse is CodeInvalid with the field "cursor".
func SessionCursor(text string) (m SessionMark, err error) {
	at, ids, err := uncursor("s", text, 1)
	if err != nil || ids == nil {
		return m, err
	}
	return SessionMark{at, parley.SessionID(ids[0])}, nil
}

// InteractionCursor parses the result of [InteractionMark.Cursor], as SessionCursor does.
func InteractionCursor(text string) (m InteractionMark, err error) {
	at, ids, err := uncursor("i", text, 2)
	if err != nil || ids == nil {
		return m, err
	}
	return InteractionMark{at, parley.InteractionID(ids[0]), parley.SessionID(ids[1])}, nil
}

func cursor(list string, at time.Time, ids ...string) string {
	parts := append([]string{list, strconv.FormatInt(at.UnixMilli(), 10)}, ids...)
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(parts, "\n")))
}

func uncursor(list, text string, ids int) (time.Time, []string, error) {
	if text == "" {
		return time.Time{}, nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	parts := strings.Split(string(raw), "\n")
	if err == nil && len(parts) == 2+ids && parts[0] == list && parts[2] != "" {
		if ms, err := strconv.ParseInt(parts[1], 10, 64); err == nil {
			return time.UnixMilli(ms).UTC(), parts[2:], nil
		}
	}
	return time.Time{}, nil, parley.Errorf(parley.CodeInvalid, "the cursor does not belong to this list").WithField("cursor").
		WithHint("pass next of the previous page unchanged, or omit the cursor to start again")
}
