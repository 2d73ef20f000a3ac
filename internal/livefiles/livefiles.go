// Package livefiles keeps the files of sessions on a disk while the sessions go
// on, in the layout of an export:
//
//	sessions/{id}/session.json       what the session is now
//	sessions/{id}/turns/{id}.json    each turn, with its steps
//	sessions/{id}/logs/{id}.log      the steps of a turn alone, one JSON object a line
//	artifacts/{id}                   large results
//	index/meta.json                  what the index of things outside covers
//
// They are for programs, backups and people that read files. The log is authoritative and
// nothing is read back from them. When a session is quiet they are byte for byte what an
// export of it holds; [Start] says how far behind they may be.
//
// # How
//
// A guest: it hears from [eventlog.Reader.Watch] that a session has grown, reads what is
// new, and folds it with package archive, which exports too. A turn's record and the new
// lines of its log are written every 2 s, or when the turn has five new steps.
// session.json follows when a turn begins, waits or ends, or the session changes. Up to
// its version all files of the session are certainly on disk. So steps are not synced one
// by one, and after a crash everything beyond that number is rewritten.
//
// A record, session.json and an artifact appear whole or not at all. A log only
// grows, except where its turn is rewritten: after a crash, or when retention
// deleted its steps. Steps that moved to the archive stay in the files, as in an
// export. The files of a deleted session go, and so do its artifacts.
//
// # Failure
//
// Nobody waits for these files, so a full disk or a folder that cannot be written stops
// no turn. It is logged once, counted, retried with growing pauses, and caught up with
// later from the log. If the data folder was removed, nothing is written, and it is not
// created again.
//
// The files contain only redacted text, like the log. Their names are ids from the engine
// and are checked; no other text becomes a path. Folders have mode 0700, files 0600.
//
// # Costs
//
// One goroutine writes, another listens. No file stays open. Only sessions with
// recent events are in memory, up to [Options.Memory]. When another one wakes it is
// folded from its log, from the last checkpoint on: every hundred events the fold is
// put into the session's folder, as .fold, so that waking costs the same however
// long a session is. It is a cache of the log, for this version alone. Where
// retention deletes steps and keeps no archive, the files are rewritten each time.
// Once a minute one page of the list is read for what was not heard.
package livefiles

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
)

// Log is the part of an [eventlog.Reader] that is used.
type Log interface {
	Whole(ctx context.Context, p parley.Principal, session parley.SessionID, after int64) iter.Seq2[parley.Event, error]
	Watch(ctx context.Context, p parley.Principal) iter.Seq2[eventlog.Bell, error]
}

// Store is the part of a [seam.Store] that is used.
type Store interface {
	Session(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.SessionInfo, error)
	Sessions(ctx context.Context, p parley.Principal, q seam.SessionQuery) ([]parley.SessionInfo, error)
	Artifact(ctx context.Context, p parley.Principal, id parley.ArtifactID) (seam.Artifact, error)
	Blob(ctx context.Context, p parley.Principal, session parley.SessionID, d parley.Digest) ([]byte, error)
}

// Options of [Start].
type Options struct {
	Data  *datafolder.Folder // in which sessions, artifacts and index are
	Log   Log
	Store Store
	// Archived reads a large result that retention moved to the archive. Nil: there is
	// none.
	Archived func(ctx context.Context, session parley.SessionID, d parley.Digest) ([]byte, error)
	// Apps lists the apps whose sessions have files. Leftover files of other apps'
	// sessions are removed with their sessions.
	Apps map[string]bool
	// Meta returns the content of index/meta.json, or nil if that is not known yet. A nil
	// Meta: there is no such file.
	Meta func() any

	Every  time.Duration // between two flushes of a session; 0 means 2 s
	Steps  int           // of a turn that are flushed at once; 0 means 5
	Memory int           // bytes of sessions with recent events; 0 means 64 MiB

	// Failed is called when files could not be written, and Behind with the number of
	// sessions waiting for another try. Both may be nil.
	Failed func()
	Behind func(sessions int)
	Logger *slog.Logger // nil: silent
}

const (
	maxMarks   = 16384            // sessions that wait to be flushed; more, and the list is read
	rest       = 30 * time.Second // without events, and a session leaves the memory
	lookEvery  = time.Minute      // for what was not heard
	lookMargin = time.Minute      // clocks of events may be off by this
	metaEvery  = 10 * time.Second
	firstRetry = 2 * time.Second
	lastRetry  = time.Minute
)

func (o Options) withDefaults() Options {
	if o.Every <= 0 {
		o.Every = 2 * time.Second
	}
	if o.Steps <= 0 {
		o.Steps = 5
	}
	if o.Memory <= 0 {
		o.Memory = 64 << 20
	}
	if o.Failed == nil {
		o.Failed = func() {}
	}
	if o.Behind == nil {
		o.Behind = func(int) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Files are the files that are kept of one data folder.
type Files struct {
	o     Options
	stop  context.CancelFunc // of the listening
	heard chan struct{}      // closed when nothing more is heard
	quit  chan struct{}      // closed: write what there is, and end
	ended chan struct{}

	mu    sync.Mutex
	marks map[parley.SessionID]*mark // what has to be written
	lost  bool                       // more has changed than is marked
	due   map[parley.SessionID]int64 // of sessions in memory: the event that may bring enough steps to write
	wake  chan struct{}              // holds one ring
	life  context.Context            // of the last writing
	die   context.CancelFunc

	w writer // of the writing goroutine alone
}

// mark says that a session has events that are not in its files.
type mark struct {
	since time.Time
	due   int64 // the event with which it is not to wait any longer
	now   bool  // it is there, or the session is gone
}

// Start begins to keep files, continuing from their last state. After an event the files
// of a running turn are at most [Options.Every] behind, and so is session.json of a
// session in which nothing runs. While a model or a tool works, the numbers in
// session.json are those from when the turn last began, waited or ended.
//
// Close it when the log is closed.
func Start(o Options) *Files {
	f := &Files{
		o: o.withDefaults(), heard: make(chan struct{}), quit: make(chan struct{}), ended: make(chan struct{}), wake: make(chan struct{}, 1),
		marks: map[parley.SessionID]*mark{}, due: map[parley.SessionID]int64{},
	}
	f.life, f.die = context.WithCancel(context.Background())
	listen, stop := context.WithCancel(f.life)
	f.stop = stop
	f.w.init(f)
	go func() {
		defer close(f.heard)
		f.listen(listen)
	}()
	go func() {
		defer close(f.ended)
		f.run()
	}()
	return f
}

// Forget removes the files of a deleted session soon.
func (f *Files) Forget(id parley.SessionID) { f.mark(id, 0, true) }

// Close writes what is left and ends. If the log is closed before, nothing new can
// happen. Otherwise later events, like those for which ctx leaves no time, are found at
// the next start.
func (f *Files) Close(ctx context.Context) {
	select {
	case <-f.heard:
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	f.stop()
	<-f.heard
	close(f.quit)
	select {
	case <-f.ended:
	case <-ctx.Done():
	}
	f.die()
	<-f.ended
}

func (f *Files) listen(ctx context.Context) {
	for b, err := range f.o.Log.Watch(ctx, parley.System()) {
		switch {
		case err != nil:
			if ctx.Err() == nil && parley.CodeOf(err) != parley.CodeUnavailable && !errors.Is(err, context.Canceled) {
				f.o.Logger.Warn("live files: nothing more is heard; they follow once a minute", "error", err)
			}
			return
		case b.Session == "":
			f.mu.Lock()
			f.lost = true
			f.mu.Unlock()
			f.ring()
		default:
			f.mark(b.Session, b.Seq, false)
		}
	}
}

// mark records that a session has reached an event.
func (f *Files) mark(id parley.SessionID, seq int64, now bool) {
	if !now && f.w.foreign.has(id) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.marks[id]
	if m == nil {
		if len(f.marks) >= maxMarks {
			f.lost = true
			return
		}
		m = &mark{since: time.Now(), due: seq + int64(f.o.Steps) - 1}
		if due, ok := f.due[id]; ok {
			m.due = due
		}
		f.marks[id] = m
		if len(f.marks) == 1 {
			f.ring() // a time to wait for
		}
	}
	if !m.now && (now || seq >= m.due) {
		m.now = true
		f.ring()
	}
}

func (f *Files) ring() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take returns the marks that are to be flushed, all with force. One that is
// there by its number of events has now set; it may turn out to have too few
// steps.
func (f *Files) take(force bool) map[parley.SessionID]mark {
	f.mu.Lock()
	defer f.mu.Unlock()
	ready := map[parley.SessionID]mark{}
	now := time.Now()
	for id, m := range f.marks {
		if late := !m.since.Add(f.o.Every).After(now); force || late || m.now {
			m.now = !late && !force
			ready[id] = *m
			delete(f.marks, id)
		}
	}
	return ready
}

// next is when the next mark is to be flushed; the zero time: there is none.
func (f *Files) next() (next time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.marks {
		at := m.since.Add(f.o.Every)
		if m.now {
			at = m.since
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// takeLost reports whether more has changed than was marked.
func (f *Files) takeLost() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	lost := f.lost
	f.lost = false
	return lost
}

// again puts a mark back.
func (f *Files) again(id parley.SessionID, m mark) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if have := f.marks[id]; have != nil {
		if m.since.Before(have.since) {
			have.since = m.since
		}
		return
	}
	if due, ok := f.due[id]; ok {
		m.due = due
	}
	m.now = false
	f.marks[id] = &m
}

// waiting counts the marks.
func (f *Files) waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.marks)
}

// setDue says at which event the session may have enough steps to write; 0: it
// is not in memory.
func (f *Files) setDue(id parley.SessionID, seq int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if seq == 0 {
		delete(f.due, id)
		return
	}
	f.due[id] = seq
	if m := f.marks[id]; m != nil {
		m.due = seq
	}
}
