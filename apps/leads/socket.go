package leads

import (
	"context"
	"iter"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/wire"
)

const (
	// Path is where this app's own wire is.
	Path = "/ws/codex"

	wireName = "codex" // as an app names it, and as the log records where a turn came from
)

const (
	// validWithin is how long a connection may be open without a chat of somebody who is known.
	validWithin = 30 * time.Second
	// gatherFor is how long text is collected before it is sent.
	gatherFor = 80 * time.Millisecond
	// maxStrangers is how many connections may be open whose user is not known yet.
	maxStrangers = 256
	// maxJobs is how many chats may wait on one connection to be shown.
	maxJobs = 16
)

// Engine is the part of package engine that this wire uses.
type Engine interface {
	App(name string) (parley.App, error)
	Model(name string) (seam.ModelInfo, error)
	Create(ctx context.Context, p parley.Principal, c parley.CreateSession) (parley.SessionInfo, bool, error)
	Session(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.SessionInfo, error)
	Turn(ctx context.Context, p parley.Principal, id parley.TurnID) (parley.TurnInfo, error)
	Send(ctx context.Context, p parley.Principal, id parley.SessionID, c parley.Send) (parley.TurnInfo, error)
	Resume(ctx context.Context, p parley.Principal, id parley.TurnID) (parley.TurnInfo, error)
	End(ctx context.Context, p parley.Principal, id parley.SessionID, reason string) (parley.SessionInfo, error)
	Interaction(ctx context.Context, p parley.Principal, id parley.InteractionID) (seam.InteractionRow, error)
	Answer(ctx context.Context, p parley.Principal, id parley.InteractionID, c parley.AnswerInteraction) (seam.InteractionRow, error)
}

// Options of [Socket].
type Options struct {
	App    string // whose wire it is
	Engine Engine
	Follow func(ctx context.Context, p parley.Principal, session parley.SessionID, after int64) iter.Seq2[eventlog.Frame, error]   // of eventlog.Reader
	Read   func(ctx context.Context, p parley.Principal, session parley.SessionID, after int64, limit int) ([]parley.Event, error) // likewise
	// Whose identifies the sender of a chat. r is the request of the handshake.
	Whose func(ctx context.Context, r *http.Request, token, org string) (parley.Principal, error)
	// API says which base URLs may be used. Nil: the app has no API.
	API interface {
		Allowed(raw string) (base string, ok bool)
	}
	// Fail answers with an error in the one shape.
	Fail func(w http.ResponseWriter, err error)
	// Open counts a stream of somebody, or refuses it. Nil: no limit.
	Open func(ctx context.Context, p parley.Principal) (done func(), err error)
	wire.Limits
	Within time.Duration // replaces 30 s until the first valid chat; 0: it does not
	Gather time.Duration // replaces 80 ms of collected text; 0: it does not
}

type identity struct{ parley.Principal }

type handler struct {
	o         Options
	strangers atomic.Int64
}

// Socket serves the WebSocket of [Path]. Its handshake needs no login: each chat brings a token. A
// client that goes away ends no turn.
func Socket(o Options) http.Handler {
	o.Limits = o.Limits.Defaults()
	if o.Within <= 0 {
		o.Within = validWithin
	}
	if o.Gather <= 0 {
		o.Gather = gatherFor
	}
	return &handler{o: o}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.strangers.Add(1) > maxStrangers {
		h.strangers.Add(-1)
		h.o.Fail(w, parley.Errorf(parley.CodeUnavailable, "too many connections have not said whose they are").
			WithHint("send a chat as soon as the connection is open").WithRetry(5*time.Second))
		return
	}
	if h.scripted() {
		w.Header().Set("Parley-Scripted", "true")
	}
	c := &connection{h: h, r: r, wake: make(chan struct{}, 1), used: map[parley.SessionID]parley.Principal{}, streams: map[parley.Principal]func(){}}
	c.stranger.Store(true)
	defer c.close()
	err := wire.ServeSocket(w, r, c.frames, c, wire.Socket{Input: c.input, MaxInput: h.o.MaxBody}, wire.Options{})
	if err != nil {
		h.o.Fail(w, err)
	}
}

// scripted reports whether the app's model follows a script. No frame of this wire has room for it.
func (h *handler) scripted() bool {
	a, err := h.o.Engine.App(h.o.App)
	if err != nil {
		return false
	}
	m, err := h.o.Engine.Model(a.InForce().Model)
	return err == nil && m.Scripted
}

// connection is one WebSocket. It shows one session at a time: the one of the last chat. It is the
// [wire.Encoder] of what [connection.frames] yields, in the same goroutine.
type connection struct {
	h        *handler
	r        *http.Request       // the handshake
	stranger atomic.Bool         // no chat was valid yet
	part     *Part               // what is shown; only for the goroutine of frames
	begun    bool                // its first frames were sent; likewise
	gone     bool                // its session was deleted; likewise
	asked    *parley.Interaction // what ends it, which was asked before it began; likewise

	mu      sync.Mutex
	jobs    []job
	shown   parley.SessionID // the session of the part that is being shown
	skip    func()           // stops showing it
	used    map[parley.SessionID]parley.Principal
	streams map[parley.Principal]func()
	wake    chan struct{}
}

func (c *connection) close() {
	c.known()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, done := range c.streams {
		done()
	}
}

// known says that a chat was valid.
func (c *connection) known() {
	if c.stranger.CompareAndSwap(true, false) {
		c.h.strangers.Add(-1)
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// input handles a message of the client.
func (c *connection) input(ctx context.Context, raw []byte) []byte {
	err := c.said(ctx, raw)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return encode(errorFrame{"error", parley.Info(err).Message})
}

func (c *connection) said(ctx context.Context, raw []byte) error {
	in, err := read(raw)
	if err != nil {
		return err
	}
	if in.Type == "reset" {
		return c.reset(ctx, parley.SessionID(value(in.Session)))
	}
	p, err := c.h.o.Whose(ctx, c.r, value(in.Token), value(in.Org))
	if err != nil {
		return err
	}
	if err := c.count(ctx, p); err != nil {
		return err
	}
	c.known()
	c.mu.Lock()
	full := len(c.jobs) >= maxJobs
	c.mu.Unlock()
	if full {
		return parley.Errorf(parley.CodeBusy, "too many messages are waiting; wait for the answers")
	}
	j, err := c.h.accept(ctx, in, identity{p})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used[j.part.session] = p
	if c.skip != nil && c.shown != j.part.session {
		c.skip() // its turn goes on, and is not shown here any more
	}
	c.jobs = append(c.jobs, j)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// count counts the connection among the streams of a user, once.
func (c *connection) count(ctx context.Context, p parley.Principal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.streams[p]; ok || c.h.o.Open == nil {
		return nil
	}
	done, err := c.h.o.Open(ctx, p)
	if err != nil {
		return err
	}
	c.streams[p] = done
	return nil
}

// reset ends a session that this connection has used. Nothing is said about it, or about others.
func (c *connection) reset(ctx context.Context, id parley.SessionID) error {
	c.mu.Lock()
	p, ok := c.used[id]
	if ok {
		delete(c.used, id)
		c.jobs = slices.DeleteFunc(c.jobs, func(j job) bool { return j.part.session == id })
		if c.skip != nil && c.shown == id {
			c.skip()
		}
	}
	c.mu.Unlock()
	if !ok {
		return nil
	}
	if err := c.h.reset(ctx, p, id); err != nil && parley.CodeOf(err) != parley.CodeNotFound {
		return err
	}
	return nil
}

var errNoChat = parley.Errorf(parley.CodeUnauthenticated, "no valid chat came in time")

// frames yields the frames of one part after the other. An empty frame lets the encoder say what it has to.
func (c *connection) frames(ctx context.Context) wire.Frames {
	return func(yield func(eventlog.Frame, error) bool) {
		late := time.NewTimer(c.h.o.Within)
		defer late.Stop()
		for {
			j, ok := c.next()
			if ok {
				if !c.show(ctx, j, yield) {
					return
				}
				continue
			}
			select {
			case <-c.wake:
			case <-late.C:
				if c.stranger.Load() {
					yield(eventlog.Frame{}, errNoChat)
					return
				}
			case <-ctx.Done():
				yield(eventlog.Frame{}, context.Cause(ctx))
				return
			}
		}
	}
}

func (c *connection) next() (j job, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.jobs) == 0 {
		return j, false
	}
	j, c.jobs = c.jobs[0], c.jobs[1:]
	return j, true
}

// show shows a part, and what comes of the messages that its turn did not read any more. It returns
// false when the connection is over.
func (c *connection) show(ctx context.Context, j job, yield func(eventlog.Frame, error) bool) bool {
	c.part, c.begun, c.gone, c.asked = j.part, false, false, nil
	if !yield(eventlog.Frame{}, nil) || !c.again(ctx, j, yield) {
		return false
	}
	if c.part.Ended() {
		c.covered(j)
		return yield(eventlog.Frame{}, nil)
	}
	inner, skip := context.WithCancel(ctx)
	defer skip()
	c.mu.Lock()
	c.shown, c.skip = j.part.session, skip
	if n := len(c.jobs); n > 0 && c.jobs[n-1].part.session != c.shown {
		skip()
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.skip = nil
		c.mu.Unlock()
	}()
	follow := func(ctx context.Context) wire.Frames { return c.h.o.Follow(ctx, j.p, j.part.session, j.part.seq) }
	for f, err := range wire.Gathered(inner, c.h.o.Gather, follow) {
		switch {
		case ctx.Err() != nil:
			yield(eventlog.Frame{}, context.Cause(ctx))
			return false
		case inner.Err() != nil:
			return true
		case err != nil && parley.CodeOf(err) == parley.CodeNotFound: // the session was deleted
			c.gone = true
			return yield(eventlog.Frame{}, nil)
		case err != nil:
			yield(f, err)
			return false
		}
		if !yield(f, nil) || f.Event != nil && !c.again(ctx, j, yield) {
			return false
		}
		if c.part.Ended() {
			break
		}
	}
	c.covered(j)
	// The last frame may have said that more follows, so it was not written yet.
	return yield(eventlog.Frame{}, nil)
}

// again ends the part if its turn waits for what it asked before the part began. It returns false when the
// connection is over.
func (c *connection) again(ctx context.Context, j job, yield func(eventlog.Frame, error) bool) bool {
	if !j.asks || c.part.Ended() {
		return true
	}
	in, ok, err := c.h.waitsFor(ctx, j)
	switch {
	case err != nil && parley.CodeOf(err) != parley.CodeNotFound:
		yield(eventlog.Frame{}, err)
		return false
	case !ok:
		return true
	}
	c.asked = &in
	return yield(eventlog.Frame{}, nil)
}

// covered drops the chats that the part has answered: they were given to its turn before it ended. A
// chat that its turn did not read any more has a turn of its own.
func (c *connection) covered(j job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := c.part
	for len(c.jobs) > 0 && c.jobs[0].joins && c.jobs[0].part.turn == end.turn && c.jobs[0].sent <= end.seq {
		c.jobs = c.jobs[1:]
	}
	if end.late != "" {
		c.jobs = slices.Insert(c.jobs, 0, job{p: j.p, part: NewPart(end.session, end.late, end.seq, end.live)})
	}
}

// Encode implements [wire.Encoder].
func (c *connection) Encode(f eventlog.Frame, send func(wire.Message)) {
	switch {
	case !c.begun:
		c.begun = true
		c.part.Begin(send)
	case c.asked != nil:
		c.part.Ask(*c.asked, send)
	case c.gone:
		c.part.Failed(parley.Errorf(parley.CodeNotFound, "The conversation is not there any more."), send)
	default:
		c.part.Encode(f, send)
	}
}

// Failed implements [wire.Encoder].
func (c *connection) Failed(err error, send func(wire.Message)) {
	if c.part != nil && c.begun && !c.part.Ended() {
		if parley.CodeOf(err) == parley.CodeUnavailable {
			err = parley.Errorf(parley.CodeUnavailable, "The request was cut off. Send your message again to go on.")
		}
		c.part.Failed(err, send)
		return
	}
	send(wire.Message{Data: encode(errorFrame{"error", parley.Info(err).Message}), Typed: true})
}
