// Package eventlog keeps each session's history and tells readers when it
// grows.
//
// [New] makes a log's two halves over one store. The [Writer] belongs to the engine
// alone; the [Reader] is for everybody. All events of one Append become visible together,
// or none do. [Reader.Follow] replays from any number and then stays with the live end;
// where the two meet, nothing is skipped and nothing comes twice.
//
// # Text in flight
//
// Fragments of text ([parley.Delta]) travel between events; they are not history. A call
// accepts text from the commit of its model.started, tool.requested or tool.started until
// the commit of its model.replied, model.failed or tool.ended, or the end of its turn; a
// fragment outside of that is dropped, so no client sees text of a call it does not know.
// A follower that starts in the middle gets, after the events, one partial per open call
// and kind: its whole text so far. Later fragments continue from there.
//
// New text of the kind [parley.DeltaText] is stored by one ticker for all sessions
// ([seam.Store].SaveChunks), so a crash loses at most the last 250 ms of it. Thinking and
// progress are shown but not stored.
//
// Events and fragments pass the redactor before anything else sees them. If the end of a
// fragment may be the beginning of a secret, it is held back until the next fragment
// shows whether it is.
//
// # Slow and distant readers
//
// A follower needs no goroutine of its own and delays nobody. While it does not read,
// adjacent fragments of a call are joined for it without copying. When it falls further
// behind than [Options] allow, it gets a [ResetInfo] and continues from the log, after
// the last event it had. The store is authoritative: a follower that misses a number
// reads it there, whoever wrote it. But only appends of this Writer wake it.
//
// # Failure
//
// An append that failed has changed nothing and shown nothing. If the store cannot say
// whether it took place, the Writer reads the log to find out. If the process dies inside
// Append, after restart the events are all there or none is, and no reader has seen them
// early.
//
// All methods are safe for concurrent use. Appends to one session must be made one after
// the other, as its epoch demands anyway; appends to different sessions run in parallel.
package eventlog

import (
	"log/slog"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/seam"
)

// Options are limits. The zero value is ready to use.
type Options struct {
	FlushEvery    time.Duration // how often new text is stored; 0 means 250 ms
	MaxText       int           // bytes of text shown per call in flight; the rest comes with its last event; 0 means 8 MiB
	MaxCalls      int           // open calls per session whose text is shown; 0 means 64
	MaxQueue      int           // frames queued for one follower; 0 means 256
	MaxQueueBytes int           // bytes of events queued for one follower, unless a single event is larger; 0 means 256 KiB
	Page          int           // events read from the store at once, with at most 64 KiB of data; 0 means 256
	Archive       Archive       // what retention removed, for [Reader.Whole]; nil: none
	Logger        *slog.Logger  // nil: silent
}

func (o Options) withDefaults() Options {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	if o.FlushEvery <= 0 {
		o.FlushEvery = 250 * time.Millisecond
	}
	def(&o.MaxText, 8<<20)
	def(&o.MaxCalls, 64)
	def(&o.MaxQueue, 256)
	// A follower that has just caught up gets its partials at once, two kinds of text per
	// call, and must have room for them.
	o.MaxQueue = max(o.MaxQueue, 3*o.MaxCalls)
	def(&o.MaxQueueBytes, 256<<10)
	def(&o.Page, 256)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Frame is one item that a follower receives: exactly one of Event, Delta and Reset is
// set. What it points to is shared and must not be modified.
type Frame struct {
	Event *parley.Event
	Delta *parley.Delta
	Reset *ResetInfo

	// Partial says that Delta is the whole text so far of its call and kind. It replaces
	// what was shown before.
	Partial bool

	// More says that another frame is ready and follows without waiting, so both may be
	// sent in one packet.
	More bool

	taken func()
}

// Taken says that the reader of a Follow has reserved memory for f. A reader that writes
// to clients calls it before it waits for the client: only few followers may hold
// unreserved pages of the store, and the others wait for them. For all other readers it
// is called when they ask for the next frame.
func (f Frame) Taken() {
	if f.taken != nil {
		f.taken()
	}
}

// ResetInfo says that the follower was too slow and fragments were dropped. It is
// followed by the events after After, then partials, then live frames.
type ResetInfo struct {
	Session parley.SessionID `json:"session"`
	After   int64            `json:"after"`
	Reason  string           `json:"reason"`
}

// Writer appends and publishes. There is one, held by the engine.
type Writer struct{ l *log }

// Reader reads and follows.
type Reader struct{ l *log }

// log is what both halves share.
type log struct {
	store seam.Store
	red   *redact.Redactor
	own   ownSecrets
	o     Options

	hubs  hubs
	keep  keeper
	bells bells
	sets  sets

	reading desks // by readers that have not reserved their page yet

	down   chan struct{} // closed by hangup
	hangup func()
}

// New makes the two halves of a log over store. A nil red stands for a redactor that
// knows only the shapes of secrets. Close the Writer when done.
func New(store seam.Store, red *redact.Redactor, o Options) (*Writer, *Reader) {
	if red == nil {
		red = redact.New()
	}
	l := &log{store: store, red: red, o: o.withDefaults(), down: make(chan struct{})}
	l.hangup = sync.OnceFunc(func() { close(l.down) })
	l.hubs.init()
	l.keep.init(l)
	l.bells.init()
	return &Writer{l}, &Reader{l}
}
