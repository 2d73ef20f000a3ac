package home

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/wire"
)

// Path is the path of the wire.
const Path = "/events/{session_id}"

const (
	pingEvery = 15 * time.Second
	// maxStarting is how many streams of one user may wait to begin: more than one may have open.
	maxStarting = 4096
)

// begun are the statuses of turns that have begun.
var begun = []parley.TurnStatus{
	parley.StatusRunning, parley.StatusWaiting, parley.StatusInterrupted,
	parley.StatusCompleted, parley.StatusFailed, parley.StatusCancelled, parley.StatusExpired,
}

// Engine is the part of package engine that this wire uses.
type Engine interface {
	Session(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.SessionInfo, error)
	Turns(ctx context.Context, p parley.Principal, q seam.TurnQuery) ([]parley.TurnInfo, error)
}

// Reader is the part of package eventlog that this wire uses.
type Reader interface {
	Read(ctx context.Context, p parley.Principal, session parley.SessionID, after int64, limit int) ([]parley.Event, error)
	Follow(ctx context.Context, p parley.Principal, session parley.SessionID, after int64) iter.Seq2[eventlog.Frame, error]
}

// Options of [Events].
type Options struct {
	Engine Engine
	Reader Reader
	// Principal returns the caller.
	Principal func(ctx context.Context) (parley.Principal, error)
	// Fail answers with an error in the usual form.
	Fail func(w http.ResponseWriter, err error)
	// Open counts a stream, or refuses it. Nil: there is no limit.
	Open func(ctx context.Context, p parley.Principal) (done func(), err error)
	// House reports whether an app's tools have a house. Nil: none have.
	House func(app string) bool
	// PartialEvery is how long new text is collected before it is sent; 0 means [PartialEvery].
	PartialEvery time.Duration

	starting *fair.Turns // lets users take turns in finding where their streams begin
}

// Events serves GET /events/{session_id}: a session of the caller, live, over all its turns.
// Without a cursor it begins with the open turn, or else with the last one. The cursor is the id of
// the last frame that the client has. It is in Last-Event-ID, which a browser sends by itself, or
// in ?after=. ?cursor=0 omits the ids. ?ping=1 sends a comment when the stream has been silent.
func Events(o Options) http.Handler {
	if o.PartialEvery <= 0 {
		o.PartialEvery = PartialEvery
	}
	o.starting = &fair.Turns{Slots: max(runtime.GOMAXPROCS(0)/2, 1), Queued: maxStarting}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			o.Fail(w, parley.Errorf(parley.CodeInvalid, "/events takes GET only"))
			return
		}
		if err := o.serve(w, r); err != nil {
			o.Fail(w, err)
		}
	})
}

// serve returns an error only if nothing was written.
func (o Options) serve(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	p, err := o.Principal(ctx)
	if err != nil {
		return err
	}
	asked := r.URL.Query()
	field, at := "Last-Event-ID", r.Header.Get("Last-Event-ID")
	if at == "" {
		field, at = "after", asked.Get("after")
	}
	from, err := ParseCursor(field, at)
	if err != nil {
		return err
	}
	ids, err := wire.Flag(asked, "cursor", true)
	if err != nil {
		return err
	}
	ping, err := wire.Flag(asked, "ping", false)
	if err != nil {
		return err
	}
	if o.Open != nil {
		done, err := o.Open(ctx, p)
		if err != nil {
			return err
		}
		defer done()
	}
	id := parley.SessionID(r.PathValue("session_id"))
	form, after, err := o.start(ctx, p, id, at != "", from)
	if err != nil {
		return err
	}
	form.NoIDs = !ids
	silence := time.Duration(-1)
	if ping {
		silence = pingEvery
	}
	w.Header().Set("Parley-Session", string(id))
	return wire.Serve(w, r, wire.Gathered(ctx, o.PartialEvery, func(ctx context.Context) wire.Frames {
		return o.Reader.Follow(ctx, p, id, after)
	}), wire.SSE, form, &wire.Options{Heartbeat: silence, Retry: -1})
}

// start finds where to begin, and tells the wire what the client has seen of its current turn. It
// reads turns and events. For large ones that needs a processor for a while, so users take turns.
func (o Options) start(ctx context.Context, p parley.Principal, id parley.SessionID, resumed bool, from Cursor) (*Wire, int64, error) {
	leave, err := o.starting.Enter(ctx, p)
	if errors.Is(err, fair.ErrFull) {
		return nil, 0, parley.Errorf(parley.CodeRateLimited, "%d streams of yours are waiting to begin, which is the limit", maxStarting).
			WithHint("connect again when some of them have begun").WithRetry(time.Second)
	}
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	info, err := o.Engine.Session(ctx, p, id)
	if err != nil {
		return nil, 0, err
	}
	from.House = o.House != nil && o.House(info.App)
	form := NewWire(from)
	if resumed && from.Seq == 0 { // no turn has begun by then
		return form, 0, nil
	}
	// A row holds a whole message and answer, so only a few are read at first.
	q := seam.TurnQuery{Session: id, Statuses: begun, Limit: 1}
	turns, err := o.Engine.Turns(ctx, p, q)
	if err != nil {
		return nil, 0, err
	}
	if !resumed {
		if len(turns) > 0 {
			from.Seq = turns[0].FirstSeq - 1
			if turns[0].Rewound != 0 { // there is nothing to show until the next one
				from.Seq = info.Version
			}
		}
		return NewWire(from), from.Seq, nil
	}
	by := func(t parley.TurnInfo) bool { return t.FirstSeq <= from.Seq }
	at := slices.IndexFunc(turns, by)
	for at < 0 && len(turns) > 0 { // the cursor is further back
		q.Before, q.Limit = turns[len(turns)-1].ID, 500
		if turns, err = o.Engine.Turns(ctx, p, q); err != nil {
			return nil, 0, err
		}
		at = slices.IndexFunc(turns, by)
	}
	if at < 0 || turns[at].Status.Ended() && turns[at].LastSeq <= from.Seq {
		return form, from.Seq, nil
	}
	for after := turns[at].FirstSeq - 1; after < from.Seq; {
		events, err := o.Reader.Read(ctx, p, id, after, 0)
		if err != nil {
			return nil, 0, err
		}
		for _, e := range events {
			if e.Seq <= from.Seq {
				form.Prime(e)
			}
			after = e.Seq
		}
		if len(events) == 0 {
			break
		}
	}
	return form, from.Seq, nil
}
