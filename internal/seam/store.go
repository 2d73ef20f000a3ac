package seam

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/parley-server/parley"
)

// Store keeps logs, the index rows that make lists fast, folded states, blobs and the
// text of unfinished calls. All implementations pass package storetest.
//
// Every method takes the calling principal: what belongs to others is reported as
// [parley.ErrNotFound], or is absent from lists. [parley.System] sees everything. Methods
// are safe for concurrent use. An error that is not a parley.Error means that the store
// failed; after it, whether an Append took place is unknown until the log has been read.
type Store interface {
	// Append adds one batch to one session's log: all of it or nothing, durably before it
	// returns. Errors: ErrFenced when Epoch is not the session's, ErrConflict when the
	// log does not end at After, CodeKeyReused when a key or alias of the index is taken
	// (field "key" or "outside_id"), ErrNotFound, CodeUnavailable when there is no space.
	Append(ctx context.Context, p parley.Principal, b Batch) error

	// Fork makes the session of b begin with the events of from up to and including at,
	// with their numbers, types and times, and appends b after them, all or nothing.
	// b.After equals at. Shared events are stored once, as long as either session exists;
	// removing them from one does not affect the other. The fork has a row, under the
	// same id, of each turn whose row says that it ended at or before at
	// (TurnInfo.LastSeq).
	Fork(ctx context.Context, p parley.Principal, from parley.SessionID, at int64, b Batch) error

	// Join says that node drives sessions of this store from now on, until leave is
	// called. A node joins before it claims sessions.
	Join(node string) (leave func())

	// Claim makes node the owner of the session and returns its new epoch, higher than
	// any before. Earlier owners are fenced. The error is ErrDriven when the owner is
	// another node that is alive: one that has joined this store and not left, or whose
	// lease lasts.
	Claim(ctx context.Context, p parley.Principal, id parley.SessionID, node string) (epoch int64, err error)

	// Read returns up to limit events after the given number, in order. A limit of 0
	// means 1,000, which is also the maximum. A page ends early before an event that
	// would bring its data above 64 KiB, unless that is its first. So an empty page means
	// the end of the log, but a short one does not.
	Read(ctx context.Context, p parley.Principal, id parley.SessionID, after int64, limit int) ([]parley.Event, error)

	// State returns the stored fold; ErrNotFound when there is none.
	State(ctx context.Context, p parley.Principal, id parley.SessionID) (State, error)

	Session(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.SessionInfo, error)
	Sessions(ctx context.Context, p parley.Principal, q SessionQuery) ([]parley.SessionInfo, error)
	// Resting lists sessions that retention may look at, the longest at rest first. Its
	// cost depends on what it returns: sessions with an open turn or question are not
	// scanned.
	Resting(ctx context.Context, p parley.Principal, q RestQuery) ([]parley.SessionInfo, error)
	// Alias finds the session that p knows under an outside id in an app.
	Alias(ctx context.Context, p parley.Principal, app, outside string) (parley.SessionID, error)

	// Turn finds a turn. If several sessions have it, a session and its forks, it returns
	// the one with the lowest id.
	Turn(ctx context.Context, p parley.Principal, id parley.TurnID) (parley.TurnInfo, error)
	// Turns, like Interactions, ends early before a row that would bring it above 1 MiB,
	// unless that is its first, so a short list may not be the last one. An unlimited
	// list does not end early.
	Turns(ctx context.Context, p parley.Principal, q TurnQuery) ([]parley.TurnInfo, error)

	// Key finds what an idempotency key made. session is "" for keys of commands that
	// create a session, which belong to the user. What they made may have been deleted.
	Key(ctx context.Context, p parley.Principal, session parley.SessionID, key string) (Key, error)

	// Interaction finds an interaction. If several sessions have it, a session and its
	// forks, it returns the one with the lowest id.
	Interaction(ctx context.Context, p parley.Principal, id parley.InteractionID) (InteractionRow, error)
	// Interactions lists the open ones in all sessions of p. Its cost depends on what it
	// returns, not on how many are open.
	Interactions(ctx context.Context, p parley.Principal, q InteractionQuery) ([]InteractionRow, error)
	// CountInteractions counts the open ones in all sessions of p by kind, without
	// reading them.
	CountInteractions(ctx context.Context, p parley.Principal) (map[parley.InteractionKind]int, error)

	Artifact(ctx context.Context, p parley.Principal, id parley.ArtifactID) (Artifact, error)
	Artifacts(ctx context.Context, p parley.Principal, session parley.SessionID) ([]Artifact, error)

	// Spent is the cost of p's model calls on the days from from to to, inclusive, by
	// day, model, user and org, in that order; a day is written 2026-11-21. It outlives
	// the sessions. At most 10,000 rows are returned.
	Spent(ctx context.Context, p parley.Principal, from, to string) ([]Spend, error)

	// SpentByOrg is the cost in dollars of the model calls of all users of an organisation on
	// a day. Only System may ask; for others it is ErrNotFound.
	SpentByOrg(ctx context.Context, p parley.Principal, org, day string) (float64, error)

	// Held is how much p's sessions hold together, or one of them if id is given; zero if
	// p has no such session. Its cost does not depend on their length.
	Held(ctx context.Context, p parley.Principal, id parley.SessionID) (Held, error)

	// PutBlob stores bytes under their digest. A blob that no session refers to
	// (Index.Blobs) may be removed an hour after it was last put.
	PutBlob(ctx context.Context, p parley.Principal, body []byte) (parley.Digest, error)
	// Blob returns bytes that the session refers to.
	Blob(ctx context.Context, p parley.Principal, session parley.SessionID, d parley.Digest) ([]byte, error)

	// PutSealed stores encrypted bytes, replacing those with the same app, workspace and name.
	// An empty Body removes them. They belong to p, or for System to s.User and s.Org. Package
	// vault encrypts and limits them.
	PutSealed(ctx context.Context, p parley.Principal, s Sealed) error
	// Sealed lists the encrypted entries, sorted by user, org, app, workspace and name.
	Sealed(ctx context.Context, p parley.Principal) ([]Sealed, error)
	// PutApproval and Approvals do the same as PutSealed and Sealed for the decisions of
	// package approval.
	PutApproval(ctx context.Context, p parley.Principal, a Approval) error
	Approvals(ctx context.Context, p parley.Principal) ([]Approval, error)

	// PutRow stores a row durably, and returns its new version. It is conditional on
	// r.Version: of several workers that put a row at the version that they read, one
	// succeeds. Errors: CodeConflict when the row has another version, is there although
	// NoRow was expected, or is gone; ErrNotFound when its session is; CodeTooLarge and
	// CodeQuota for the limits. System may change rows beyond the second limit, so that
	// what is there can be worked off.
	PutRow(ctx context.Context, p parley.Principal, r Row) (version int64, err error)
	// DropRow removes a row, at any version for AnyRow. Errors: ErrNotFound, CodeConflict
	// when it has another version.
	DropRow(ctx context.Context, p parley.Principal, name RowName, version int64) error
	Row(ctx context.Context, p parley.Principal, name RowName) (Row, error)
	// Rows lists rows. Like Turns, a list ends early before a row that would bring it above
	// 1 MiB, so a short one may not be the last one. An unlimited list does not end early.
	Rows(ctx context.Context, p parley.Principal, q RowQuery) ([]Row, error)

	// SaveChunks stores text in flight, durable with the next sync. Chunks of a call are
	// removed by Index.DropChunks or with the session. Chunks of an unknown session, and
	// those under an epoch that is not the session's, are dropped silently: once Claim
	// has returned, the previous owner can add nothing.
	SaveChunks(ctx context.Context, p parley.Principal, chunks []Chunk) error
	// Chunks returns the stored text of the session's open calls, by call, in order.
	Chunks(ctx context.Context, p parley.Principal, id parley.SessionID) ([]Chunk, error)

	// Delete removes a session with everything in it. Its epoch is fenced for
	// good; deleting it again is ErrNotFound. The user's keys that made it stay taken for
	// 30 days, the 10,000 most recent ones of each user.
	Delete(ctx context.Context, p parley.Principal, id parley.SessionID) error

	// Tables opens an app's own tables, and brings them up to date with its migrations. The
	// error is ErrNoTables, or CodeUpgradeRequired when a newer app made them.
	Tables(ctx context.Context, app string, migrations fs.FS) (Tables, error)

	// Check reports whether the store can append now; nil means yes.
	Check(ctx context.Context) error
	// Close waits for running appends. Later calls fail with CodeUnavailable.
	Close() error
}

// ErrDriven is wrapped by errors of Claim when another node that is alive owns the
// session. Their code is CodeUnavailable.
var ErrDriven = errors.New("another node drives the session")

// Batch is one append: the events After+1 … of a session, and the index rows
// that change with them in the same transaction.
type Batch struct {
	Session parley.SessionID
	// Epoch fences the append. A batch with Create set makes the session, owned by Owner
	// under epoch 1, and is not fenced.
	Epoch  int64
	Create bool
	Owner  string
	After  int64
	Events []parley.Event
	Index  Index
	// Condense removes the data of the session's step events (parley.IsStep) up to and
	// including this number, which is at most After. They are then read with Data nil.
	Condense int64
}

// Index holds rows; each overwrites the row with the same key. Unset fields change
// nothing.
type Index struct {
	Session      *parley.SessionInfo // its Version becomes the log's last number
	State        *State
	Turns        []parley.TurnInfo
	Interactions []InteractionRow
	Keys         []Key // inserted; a taken key refuses the whole batch
	Artifacts    []Artifact
	Blobs        []parley.Digest // the session refers to these from now on
	// The session no longer refers to these blobs and no longer has these artifacts; its
	// forks may. What the batch adds is added afterwards.
	Release       []parley.Digest
	Grown         int64 // bytes by which the session grows in addition to the batch's events and artifacts; may be negative
	DropArtifacts []parley.ArtifactID
	Spend         []Spend // added to what the session's owner has spent
	DropChunks    []parley.CallID
	// Rows of the session's owner, with AnyRow. Their Session is this one or empty. A new
	// row beyond the owner's limit for its kind is left out: an append is not refused
	// because an outbox is full. DropRows are removed before, those that exist.
	Rows     []Row
	DropRows []RowName
	// Left, unless it is nil, is told of each row that is left out before Append returns. It may be told so again when
	// the store repeats a transaction.
	Left func(RowName)
	// SessionInfo.OutsideID of a batch with Create is the alias, unique per user, org and
	// app; a taken one refuses the whole batch.
}

// Spend is what a user's calls of a model cost on a UTC day. In an [Index] it is an
// amount to add, or if negative to subtract, and User and Org are the session's.
type Spend struct {
	Day   string       `json:"day"`
	Model string       `json:"model"`
	User  string       `json:"user"`
	Org   string       `json:"org,omitempty"`
	Calls int64        `json:"calls"`
	Usage parley.Usage `json:"usage"` // USD to a billionth; Estimated is not stored
}

// Held is what a user's sessions hold. A fork counts the events it shares with its
// parent, although they are stored once: whichever is deleted, the other still has them.
// Condensing frees nothing until the session is deleted.
type Held struct {
	Sessions int   // without those of direct calls, which are removed automatically
	Bytes    int64 // of events, artifacts and the states of runtimes
}

// State is a stored fold.
type State struct {
	Seq     int64
	Version int // parley.FoldVersion when it was stored
	Body    []byte
}

// Key says what an idempotency key made.
type Key struct {
	Session parley.SessionID // "" when the key made the session
	Key     string
	Body    parley.Digest // digest of the request that came with the key
	Made    parley.SessionID
	Turn    parley.TurnID // or the parley.RewindID of a rewind
}

// InteractionRow is an interaction and its status.
type InteractionRow struct {
	parley.Interaction
	Open       bool           `json:"open"`
	Answer     *parley.Answer `json:"answer,omitempty"`
	AnsweredBy string         `json:"answered_by,omitempty"`
	LastSeq    int64          `json:"last_seq,omitempty"` // number of the last event that opened it, changed its text, or closed it
}

// Artifact is a large result stored separately: a blob with a name and an owner.
type Artifact struct {
	parley.ArtifactRef
	Session   parley.SessionID `json:"session_id"`
	Turn      parley.TurnID    `json:"turn_id,omitempty"`
	CreatedAt time.Time        `json:"created_at"`
}

// Sealed holds encrypted bytes of a user, in a scope, under a name.
type Sealed struct {
	User, Org            string // set by the store
	App, Workspace, Name string
	Body                 []byte
}

// Approval is a user's decision, in a scope, about something that would run.
type Approval Sealed

// Chunk is a stretch of a call's text in flight. Chunks of a call are joined in the order
// of N, the count of source deltas up to the chunk's end.
type Chunk struct {
	Session parley.SessionID
	Epoch   int64 // of the owner that stores it; 0 in what Chunks returns
	Call    parley.CallID
	N       int64
	Text    string
}

// SessionQuery selects sessions, newest change first; within a millisecond, greatest id
// first.
type SessionQuery struct {
	App    string
	Status parley.SessionStatus
	Before time.Time   // changed before this; zero: no limit
	After  SessionMark // where the previous page ended; zero: from the newest
	Limit  int         // 0 means 50; at most 500
	// Direct includes the sessions of direct calls.
	Direct bool
}

// RestQuery selects the sessions of an app that are at rest: they have no running or
// waiting turn and no open interaction.
type RestQuery struct {
	App string
	// Status selects sessions with that status that have not changed since Before,
	// ordered by their last change. If empty, it selects sessions with steps of a turn
	// that ended before Before (SessionInfo.StepsSince), ordered by that.
	Status parley.SessionStatus
	Before time.Time
	// Direct selects only sessions of direct calls; used with a Status.
	Direct bool
	After  SessionMark // zero: from the first
	Limit  int         // 0 means 50; at most 500
}

// InteractionQuery selects open interactions, oldest first.
type InteractionQuery struct {
	// Due selects those whose time ended before this moment, the longest overdue first.
	// Zero: all.
	Due time.Time
	// After is where the previous page ended; zero: from the first.
	After InteractionMark
	Limit int // 0 means 50; at most 500, except for System, where a negative value means unlimited
}

// TurnQuery selects turns, newest first: greatest id first and, for the same id, greatest
// session first.
type TurnQuery struct {
	Session  parley.SessionID
	Statuses []parley.TurnStatus
	Before   parley.TurnID // older than this one, by id
	After    TurnMark      // where the previous page ended; zero: from the newest
	Limit    int           // 0 means 50; at most 500, except for System, where a negative value means unlimited
}
