// Package eventlog keeps each session's history and tells readers when it
// grows.
//
// [New] makes two halves over one store. The [Writer] belongs to the engine
// alone; the [Reader] is for everybody. All events of one Append become visible
// together, or none do. [Reader.Follow] replays from any number and then stays
// with the live end; where the two meet, nothing is skipped and nothing comes
// twice.
//
// # Text in flight
//
// Between events travel fragments of text ([parley.Delta]), which are not
// history. A call takes text from the commit of its model.started,
// tool.requested or tool.started until the commit of its model.replied,
// model.failed or tool.ended, or the end of its turn; a fragment outside of that
// is dropped, so no client meets a call it does not know. Whoever starts to
// follow in the middle gets, after the events, one partial per open call and
// kind: its whole text so far. The fragments that come later go on from there.
//
// New text of the kind [parley.DeltaText] is kept by one tick for all sessions
// ([seam.Store].SaveChunks), so that a crash loses at most the last quarter of a
// second of it. Thinking and progress are shown and not kept.
//
// Events and fragments pass the redactor before anything else sees them. Of a
// fragment that may be the beginning of a secret the doubtful end is held back
// until the next one decides.
//
// # Slow and distant readers
//
// A follower costs no goroutine of its own, and delays nobody. While it does
// not read, adjacent fragments of a call are joined for it without being copied;
// when it falls further behind than [Options] allow, it gets a [ResetInfo] and
// is read anew from the log, from the last event it had. The store is the
// truth: a follower that misses a number reads it there, whoever wrote it. But
// only appends of this Writer wake it.
//
// # Failure
//
// An append that failed has changed nothing and shown nothing. Where the store
// can not say whether it took place, the Writer reads the log before it
// decides. If the process dies inside Append, after restart the events are all
// there or none is, and no reader has seen them early.
//
// All methods are safe for concurrent use. Appends of one session are to be
// made one after the other, as its epoch demands anyway; of different
// sessions they run in parallel.
package eventlog

import (
	"log/slog"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/seam"
)

// Options are limits. The zero value is good.
type Options struct {
	FlushEvery    time.Duration // how often new text is kept; 0 means 250 ms
	MaxText       int           // bytes of text shown of one call in flight, the rest comes with its last event; 0 means 8 MiB
	MaxCalls      int           // open calls of a session whose text is shown; 0 means 64
	MaxQueue      int           // frames that wait for one follower; 0 means 256
	MaxQueueBytes int           // bytes of events that wait for one follower, or one event that is larger; 0 means 256 KiB
	Page          int           // events read from the store at once, of whose data it gives no more than 64 KiB; 0 means 256
	Archive       Archive       // of what retention took, for [Reader.Whole]; nil: there is none
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
	// A follower that has just caught up is given its partials at once, two
	// kinds of text a call, and must have room for them.
	o.MaxQueue = max(o.MaxQueue, 3*o.MaxCalls)
	def(&o.MaxQueueBytes, 256<<10)
	def(&o.Page, 256)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Frame is one thing that a follower sees: exactly one of Event, Delta and
// Reset is set. What it points to is shared: read only.
type Frame struct {
	Event *parley.Event
	Delta *parley.Delta
	Reset *ResetInfo

	// Partial says that Delta is the whole text of its call and kind so far. It
	// takes the place of what was shown of it before.
	Partial bool

	// More says that another frame is ready and follows without waiting for
	// anything, so that a writer may put both into one packet.
	More bool

	taken func()
}

// Taken says that the reader of a Follow has counted what it holds of f. Who
// writes to a client calls it before the client is waited for: few followers hold
// what they have read of the store before that, and the others wait for one of
// them. For all others it is called once they ask for more.
func (f Frame) Taken() {
	if f.taken != nil {
		f.taken()
	}
}

// ResetInfo says that the follower was too slow and fragments were dropped.
// What follows are the events after After, then partials, then the live end.
type ResetInfo struct {
	Session parley.SessionID `json:"session"`
	After   int64            `json:"after"`
	Reason  string           `json:"reason"`
}

// Writer appends and publishes. There is one, and the engine holds it.
type Writer struct{ l *log }

// Reader reads and follows.
type Reader struct{ l *log }

// log is what both halves share.
type log struct {
	store seam.Store
	red   *redact.Redactor
	o     Options

	hubs  hubs
	keep  keeper
	bells bells

	reading desks // of those whose page is not counted yet
}

// New makes the two halves of a log over store. A nil red is one that knows
// shapes only. Close the Writer when done.
func New(store seam.Store, red *redact.Redactor, o Options) (*Writer, *Reader) {
	if red == nil {
		red = redact.New()
	}
	l := &log{store: store, red: red, o: o.withDefaults()}
	l.hubs.init()
	l.keep.init(l)
	l.bells.init()
	return &Writer{l}, &Reader{l}
}
