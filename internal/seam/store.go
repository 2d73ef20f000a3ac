package seam

import (
	"context"
	"errors"
	"time"

	"github.com/parley-server/parley"
)

// Store keeps logs, the index rows that make lists fast, folded states, blobs
// and the text of unfinished calls. All bodies pass package storetest.
//
// Every method takes the principal that asks: what belongs to another is
// reported as [parley.ErrNotFound], or is simply absent from lists.
// [parley.System] sees everything. Methods are safe for concurrent use. An
// error that is no parley.Error means that the store failed; after it, whether
// an Append took place is unknown until the log has been read.
type Store interface {
	// Append adds one batch to one session's log: all of it or nothing, durably
	// before it returns. Errors: ErrFenced when Epoch is not the session's,
	// ErrConflict when the log is not at After, CodeKeyReused when a key or alias
	// of the index is taken (field "key" or "outside_id"), ErrNotFound,
	// CodeUnavailable when there is no room.
	Append(ctx context.Context, p parley.Principal, b Batch) error

	// Fork makes the session of b begin with the events of from up to and including
	// at, with their numbers, types and times, and appends b behind them, all or
	// nothing. b.After equals at. What both have is kept once, as long as one of
	// them has it; what is taken from one of them later stays with the other. The
	// fork has a row, under the same id, of each turn whose row says that it ended
	// at or before at (TurnInfo.LastSeq).
	Fork(ctx context.Context, p parley.Principal, from parley.SessionID, at int64, b Batch) error

	// Join says that node drives sessions of this store from now on, until leave
	// is called. Whoever holds sessions joins first.
	Join(node string) (leave func())

	// Claim makes node the owner of the session and returns its new epoch, higher
	// than any before. It is fenced against everybody who held it earlier. The
	// error is ErrDriven when the owner is another node that is alive: one that has
	// joined this store and not left, or whose lease lasts.
	Claim(ctx context.Context, p parley.Principal, id parley.SessionID, node string) (epoch int64, err error)

	// Read returns up to limit events after the given number, in order. A limit
	// of 0 means 1,000; no more than that are returned at once. A page ends early
	// before the event with which its data would have more than 64 KiB, unless that
	// is its first: so an empty page is the end of the log, and a short one is not.
	Read(ctx context.Context, p parley.Principal, id parley.SessionID, after int64, limit int) ([]parley.Event, error)

	// State returns the stored fold; ErrNotFound when there is none.
	State(ctx context.Context, p parley.Principal, id parley.SessionID) (State, error)

	Session(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.SessionInfo, error)
	Sessions(ctx context.Context, p parley.Principal, q SessionQuery) ([]parley.SessionInfo, error)
	// Resting lists sessions that retention may look at, the longest at rest
	// first. What it costs is what it returns: sessions in which a turn is open or
	// a question waits are not gone through.
	Resting(ctx context.Context, p parley.Principal, q RestQuery) ([]parley.SessionInfo, error)
	// Alias finds the session that p knows under an outside id in an app.
	Alias(ctx context.Context, p parley.Principal, app, outside string) (parley.SessionID, error)

	// Turn finds a turn; of several sessions that have it, a session and its forks,
	// the one with the least id.
	Turn(ctx context.Context, p parley.Principal, id parley.TurnID) (parley.TurnInfo, error)
	// Turns, as Interactions, ends early before the row with which it would have
	// more than 1 MiB, unless that is its first: a short list is not the last one.
	// One that is unbounded does not.
	Turns(ctx context.Context, p parley.Principal, q TurnQuery) ([]parley.TurnInfo, error)

	// Key finds what an idempotency key made. Session is "" for keys of commands
	// that create a session, which are the user's.
	Key(ctx context.Context, p parley.Principal, session parley.SessionID, key string) (Key, error)

	Interaction(ctx context.Context, p parley.Principal, id parley.InteractionID) (InteractionRow, error)
	// Interactions lists open ones over all sessions of p. What it costs is what it
	// returns, however many are open.
	Interactions(ctx context.Context, p parley.Principal, q InteractionQuery) ([]InteractionRow, error)
	// CountInteractions counts the open ones over all sessions of p by their kind,
	// without reading them.
	CountInteractions(ctx context.Context, p parley.Principal) (map[parley.InteractionKind]int, error)

	Artifact(ctx context.Context, p parley.Principal, id parley.ArtifactID) (Artifact, error)
	Artifacts(ctx context.Context, p parley.Principal, session parley.SessionID) ([]Artifact, error)

	// Spent is what the model calls of p cost on the days from and to and those
	// between, by day, model, user and org, in that order; a day is written
	// 2026-11-21. It outlives the sessions. No more than 10,000 rows are returned.
	Spent(ctx context.Context, p parley.Principal, from, to string) ([]Spend, error)

	// Held is what p's sessions hold together, or one of them if id is given: nothing
	// when there is no such session of p's. What it costs does not depend on how long
	// they are.
	Held(ctx context.Context, p parley.Principal, id parley.SessionID) (Held, error)

	// PutBlob keeps bytes under their digest. A blob that no session refers to
	// (Index.Blobs) may be removed an hour after it was last put.
	PutBlob(ctx context.Context, p parley.Principal, body []byte) (parley.Digest, error)
	// Blob returns bytes that the session refers to.
	Blob(ctx context.Context, p parley.Principal, session parley.SessionID, d parley.Digest) ([]byte, error)

	// SaveChunks keeps text in flight, durable by the next sync. Chunks of a call
	// go away with Index.DropChunks or with the session. Chunks of an unknown
	// session, and those under an epoch that is not the session's, are dropped
	// silently: once Claim has returned, the owner before can add nothing.
	SaveChunks(ctx context.Context, p parley.Principal, chunks []Chunk) error
	// Chunks returns the kept text of the session's open calls, by call, in order.
	Chunks(ctx context.Context, p parley.Principal, id parley.SessionID) ([]Chunk, error)

	// Delete removes a session with everything in it. Its epoch is fenced for
	// good; deleting it again is ErrNotFound.
	Delete(ctx context.Context, p parley.Principal, id parley.SessionID) error

	// Check reports whether the store can append now; nil is yes.
	Check(ctx context.Context) error
	// Close waits for appends under way. Methods called later fail with
	// CodeUnavailable.
	Close() error
}

// ErrDriven is what errors of Claim wrap when another node that is alive owns the
// session. Their code is CodeUnavailable.
var ErrDriven = errors.New("another node drives the session")

// Batch is one append: the events After+1 … of a session, and the index rows
// that change with them in the same transaction.
type Batch struct {
	Session parley.SessionID
	// Epoch fences the append. A batch with Create set makes the session, owned
	// by Owner under epoch 1, and is not fenced.
	Epoch  int64
	Create bool
	Owner  string
	After  int64
	Events []parley.Event
	Index  Index
	// Condense takes away the data of the session's step events (parley.IsStep)
	// up to and including this number, which is at most After. They are read with
	// Data nil from then on.
	Condense int64
}

// Index are rows, each overwriting the one of the same key. Unset is unchanged.
type Index struct {
	Session      *parley.SessionInfo // its Version becomes the log's last number
	State        *State
	Turns        []parley.TurnInfo
	Interactions []InteractionRow
	Keys         []Key // inserted; a key that is taken refuses the whole batch
	Artifacts    []Artifact
	Blobs        []parley.Digest // the session refers to these from now on
	// The session refers to these no more, and has these artifacts no more; its forks
	// may. What the batch adds is added after that.
	Release       []parley.Digest
	DropArtifacts []parley.ArtifactID
	Spend         []Spend // added to what the session's owner has spent
	DropChunks    []parley.CallID
	// SessionInfo.OutsideID of a batch with Create is the alias, unique per user,
	// org and app; one that is taken refuses the whole batch.
}

// Spend is what a user's calls of a model cost on a day, by UTC. In an [Index] it
// is what is to be added, or with numbers below 0 to be taken back, and User and
// Org are the session's.
type Spend struct {
	Day   string       `json:"day"`
	Model string       `json:"model"`
	User  string       `json:"user"`
	Org   string       `json:"org,omitempty"`
	Calls int64        `json:"calls"`
	Usage parley.Usage `json:"usage"` // USD to a billionth; Estimated is not kept
}

// Held is what a user's sessions hold. A fork holds what its parent did, too,
// though it is stored once: whichever is deleted, the other still has it.
// Condensing gives nothing back before the session goes.
type Held struct {
	Sessions int   // without those of direct calls, which go by themselves
	Bytes    int64 // of events and artifacts
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
	Body    parley.Digest // of what came with the key
	Made    parley.SessionID
	Turn    parley.TurnID
}

// InteractionRow is an interaction with where it stands.
type InteractionRow struct {
	parley.Interaction
	Open       bool           `json:"open"`
	Answer     *parley.Answer `json:"answer,omitempty"`
	AnsweredBy string         `json:"answered_by,omitempty"`
}

// Artifact is a large result kept aside: a blob with a name and an owner.
type Artifact struct {
	parley.ArtifactRef
	Session   parley.SessionID `json:"session_id"`
	Turn      parley.TurnID    `json:"turn_id,omitempty"`
	CreatedAt time.Time        `json:"created_at"`
}

// Chunk is a stretch of a call's text in flight. Chunks of a call are joined in
// the order of N, the count of source deltas up to the chunk's end.
type Chunk struct {
	Session parley.SessionID
	Epoch   int64 // of who keeps it; 0 in what Chunks returns
	Call    parley.CallID
	N       int64
	Text    string
}

// SessionQuery selects sessions, newest change first, and of one millisecond the
// greatest id first.
type SessionQuery struct {
	App    string
	Status parley.SessionStatus
	Before time.Time   // changed before this; zero: whenever
	After  SessionMark // where the page before ended; zero: from the newest
	Limit  int         // 0 means 50; at most 500
	// Direct lists those of direct calls, too.
	Direct bool
}

// RestQuery selects the sessions of an app that are at rest: no turn runs or
// waits in them, and no interaction is open.
type RestQuery struct {
	App string
	// Status selects those that were not changed since Before, by their last
	// change. Empty: those that have steps of a turn that ended before Before
	// (SessionInfo.StepsSince), by that.
	Status parley.SessionStatus
	Before time.Time
	// Direct selects those of direct calls only; with a Status.
	Direct bool
	After  SessionMark // zero: from the first
	Limit  int         // 0 means 50; at most 500
}

// InteractionQuery selects open interactions, oldest first.
type InteractionQuery struct {
	// Due selects those whose time is over before this moment, the longest over
	// first. Zero: all.
	Due time.Time
	// After is where the page before ended; zero: from the first.
	After InteractionMark
	Limit int // 0 means 50; at most 500, but for System unbounded when negative
}

// TurnQuery selects turns, newest first: the greatest id first, and of one id the
// greatest session.
type TurnQuery struct {
	Session  parley.SessionID
	Statuses []parley.TurnStatus
	Before   parley.TurnID // older than this one, by id
	After    TurnMark      // where the page before ended; zero: from the newest
	Limit    int           // 0 means 50; at most 500, but for System unbounded when negative
}
