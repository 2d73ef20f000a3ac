// Package turncommit commits what turns change in a shared folder that is a git repository: one
// commit for each turn, and one for each page that a model asked for.
//
// It is a guest, like package livefiles: it hears that a session has grown and reads its log. When a
// turn has ended in whatever way, or something else has changed files, it commits the session's own
// folder in the repository ([Options.Folder]) and nothing else. What was committed is pushed then,
// and what others have pushed is taken over. Nobody waits for a remote: while it is away commits are
// kept, and it is tried again with growing pauses. [Commits.Notices] says what waits.
//
// # Whose files a commit has
//
// The folder's changed files, except those that other turns have announced or changed which still run
// or have no commit yet. A file that two turns have changed goes with the one that ends first, and the
// commit names the other, too (Parley-Also). So a turn that still runs is not committed half, but for a
// file that it shares, and nothing is lost. What a person has changed in the folder by hand goes with
// the next turn that changed something. All this is known of the turns of this server alone: where two
// servers work in the very same folder, a commit of one may have a file of a turn of the other that
// still runs.
//
// # After a crash
//
// The log says which turns have ended, and the repository which have a commit: the commit names its
// turn (Parley-Turn). At the start the sessions that changed since the server last had nothing to do
// are looked at. A page that was asked for is noted in the store before the call goes on.
package turncommit

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
	"github.com/parley-server/parley/internal/gitrepo"
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
	Turn(ctx context.Context, p parley.Principal, id parley.TurnID) (parley.TurnInfo, error)
	Turns(ctx context.Context, p parley.Principal, q seam.TurnQuery) ([]parley.TurnInfo, error)
	PutRow(ctx context.Context, p parley.Principal, r seam.Row) (version int64, err error)
	DropRow(ctx context.Context, p parley.Principal, name seam.RowName, version int64) error
	Rows(ctx context.Context, p parley.Principal, q seam.RowQuery) ([]seam.Row, error)
}

// Options of [Start].
type Options struct {
	App  string // whose sessions
	Dir  string // the working tree of the repository
	Data *datafolder.Folder
	Log  Log
	// Store finds sessions and turns, and keeps a row of each page that was asked for until
	// its line is committed.
	Store Store
	// Folder is the folder in the repository that is a workspace, as one element; "": it is not there.
	Folder func(w parley.Workspace) string
	// Author is the author of commits of a folder. "": of the log of pages. A zero Ident is an author
	// of the repository's own configuration, or Parley.
	Author func(folder string) gitrepo.Ident
	// Off has nothing committed. The log of pages is written all the same.
	Off bool
	// Remote and Token are those of [gitrepo.Options].
	Remote, Token string
	Logger        *slog.Logger             // nil: silent
	At            func(point string) error // that of [gitrepo.Options]
	Now           func() time.Time
}

// RequestsFile is the log of the pages that models asked for.
const RequestsFile = "claude/webfetch_logs/requests.md"

const (
	// readyWithin is how long the first call for files in a turn waits for what was pushed from
	// elsewhere. It is asked for when the turn starts, so most of it has passed in the model's first
	// reply.
	readyWithin = 2 * time.Second
	// loggedWithin is how long a call of WebFetch waits for its line.
	loggedWithin = 3 * time.Second
	// fresh is how long a pull counts as one of now.
	fresh = 5 * time.Second

	firstRetry = 2 * time.Second
	lastRetry  = 10 * time.Minute
	lookEvery  = time.Minute // for what was not heard
	margin     = time.Minute // clocks may differ by this
	maxMarks   = 4096        // sessions that wait to be read; more, and the list is read
	maxJobs    = 10_000      // commits that wait in memory
	maxPaths   = 10_000      // files of a turn that are remembered
	tidyEvery  = 24 * time.Hour
)

// Commits is what commits for one repository.
type Commits struct {
	o Options

	stop  context.CancelFunc // of the listening
	heard chan struct{}
	quit  chan struct{} // closed: do what there is, and end
	ended chan struct{}
	life  context.Context
	die   context.CancelFunc
	wake  chan struct{}

	mu    sync.Mutex
	marks map[parley.SessionID]bool
	lost  bool
	state state
	told  map[parley.TurnID]bool // turns whose first call was waited for
	asked []request
	line  map[parley.CallID]chan struct{} // closed when the line is there

	w worker // of one goroutine alone
	s syncer
}

// Start begins, and goes on where the last process stopped. Close it when the log is closed.
func Start(o Options) *Commits {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Commits{
		o: o, heard: make(chan struct{}), quit: make(chan struct{}), ended: make(chan struct{}), wake: make(chan struct{}, 1),
		marks: map[parley.SessionID]bool{}, told: map[parley.TurnID]bool{}, line: map[parley.CallID]chan struct{}{},
	}
	c.life, c.die = context.WithCancel(context.Background())
	listen, stop := context.WithCancel(c.life)
	c.stop = stop
	c.w.init(c)
	c.s.init(c)
	go func() {
		defer close(c.heard)
		c.listen(listen)
	}()
	go func() {
		defer close(c.ended)
		var both sync.WaitGroup
		both.Go(c.w.run)
		both.Go(c.s.run)
		both.Wait()
	}()
	return c
}

// Close commits what has ended, pushes for a moment, and ends. What is left is found at the next start.
func (c *Commits) Close(ctx context.Context) {
	select {
	case <-c.heard:
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	c.stop()
	<-c.heard
	close(c.quit)
	select {
	case <-c.ended:
	case <-ctx.Done():
	}
	c.die()
	<-c.ended
}

func (c *Commits) listen(ctx context.Context) {
	for b, err := range c.o.Log.Watch(ctx, parley.System()) {
		if err != nil {
			if ctx.Err() == nil && parley.CodeOf(err) != parley.CodeUnavailable && !errors.Is(err, context.Canceled) {
				c.o.Logger.Warn("commits of turns: nothing more is heard; sessions are looked at once a minute", "err", err)
			}
			return
		}
		c.mu.Lock()
		if b.Session == "" || len(c.marks) >= maxMarks {
			c.lost = true
		} else {
			c.marks[b.Session] = true
		}
		c.mu.Unlock()
		c.ring()
	}
}

func (c *Commits) ring() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// take returns the sessions to be read. lost: there are more.
func (c *Commits) take() (ids []parley.SessionID, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.marks {
		ids = append(ids, id)
	}
	clear(c.marks)
	lost, c.lost = c.lost, false
	return ids, lost
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Ready is told of a call that is about to look at files or change them. The first one in a turn waits
// for a moment for what others have pushed.
func (c *Commits) Ready(ctx context.Context, r seam.Run) {
	if c.o.Folder(r.Space) == "" {
		return
	}
	c.mu.Lock()
	first := !c.told[r.Turn]
	if len(c.told) > 10_000 {
		clear(c.told)
	}
	c.told[r.Turn] = true
	c.mu.Unlock()
	if first {
		c.s.await(ctx, readyWithin)
	}
}
