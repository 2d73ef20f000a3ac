package seam

import (
	"encoding/json"
	"time"

	"github.com/parley-server/parley"
)

// Kinds of rows. A kind is a word of lower-case letters, digits and _; whoever adds one
// adds it here, so that no two packages choose the same.
const (
	RowTimer    = "timer"    // something that the engine does at a time
	RowOutbox   = "outbox"   // something to be sent to another service
	RowDevice   = "device"   // a user's device that notifications go to
	RowNotify   = "notify"   // what a user wants to be told, and the server's keys for it
	RowSchedule = "schedule" // something that begins turns at times
	RowPage     = "page"     // a page that a model asked for, until its line is in its app's repository
)

// Row is an entry that is found by its kind and owner, or by the time when it is due: a
// timer, something to be sent, a device, a schedule. The store knows nothing of its Body.
//
// Rows are written in the append that causes them (Index.Rows) or by themselves
// (Store.PutRow). Their body is at most 64 KiB, and the new rows of one kind of an owner
// are refused from 4 MiB on (package rule); a row counts whole KiB.
type Row struct {
	RowName
	// Session is the session that the row belongs to, if any: of the same owner, and the
	// row is removed with it. Forks do not get a copy.
	Session parley.SessionID
	// Due is when somebody has to look at it, in whole milliseconds; zero: never.
	Due time.Time
	// Open rows are found by Due. The others are done or given up.
	Open bool
	Body json.RawMessage // JSON, or empty
	// Version changes with each change of the row, and no other row of the store ever has
	// the same, even after this one was removed. A later version is a greater number. For
	// PutRow it says what is replaced: AnyRow, NoRow or one version.
	Version int64
}

// What PutRow replaces, beside the row at one version.
const (
	AnyRow int64 = 0  // whatever is there, or nothing
	NoRow  int64 = -1 // nothing: the row is new
)

// RowName identifies a row. Two users may use the same Kind and ID for rows of their own.
type RowName struct {
	Kind string
	// User and Org own it. They are the caller's or the session's; only System names
	// them. With an empty User, the row is the server's own and only System sees it.
	User, Org string
	ID        string // at most 200 bytes
}

// RowQuery selects rows of a kind, by owner and then by id. With Due they are ordered by
// when they are due, the longest overdue first.
type RowQuery struct {
	Kind string // empty, for System only: all kinds
	// User and Org select the rows of an owner, if User is set. Only System names others.
	User, Org string
	Session   parley.SessionID // only rows of this session, if set
	// Due selects open rows that were due before this moment. Their cost depends on how
	// many of the kind are due, not on how many there are.
	Due   time.Time
	Open  bool    // only open rows
	Shut  bool    // only rows that are not open
	After RowMark // where the previous page ended; zero: from the first
	Limit int     // 0 means 50; at most 500, except for System, where a negative value means unlimited
}

// RowMark is where a page of Rows ended.
type RowMark struct {
	Due time.Time
	RowName
}

// Mark is the mark of a page of q whose last row is r.
func (q RowQuery) Mark(r Row) RowMark { return RowMark{r.Due, r.RowName} }
