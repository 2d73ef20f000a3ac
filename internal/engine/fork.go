package engine

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
)

// ForkedHere is the reason why a turn that was open in the parent is cancelled in a fork, and
// ImportedHere why one that was open in an export is cancelled in its import.
const (
	ForkedHere   = "the session was forked here"
	ImportedHere = "the session was imported here"
)

// Fork makes a new session from the first events of another, with the turns that have
// ended by then. What was open or queued at that point is cancelled in the fork. The fork
// takes over no grants, rules, open interactions, keys or provider state. It has the
// parent's workspace read-only, unless the caller names one.
//
// A turn or interaction that both have is found by its id in the parent, whose id is
// lower than the fork's, and in the fork once the parent is deleted.
func (e *Engine) Fork(ctx context.Context, p parley.Principal, id parley.SessionID, c parley.ForkSession) (parley.SessionInfo, error) {
	none := parley.SessionInfo{}
	if utf8.RuneCountInString(c.Title) > parley.MaxTitle {
		return none, tooLong("title", parley.MaxTitle, "characters")
	}
	c.Key = e.aliasOf(c.Key)
	// Of what was asked, before "its end" becomes a number: the session may have
	// grown when the same request comes again, or be gone.
	body := digestOf(struct {
		parley.ForkSession
		Of parley.SessionID
	}{c, id})
	if made, found, err := e.madeBy(ctx, p, c.Key, body); err != nil || found {
		return made, err
	}
	parent, err := e.Session(ctx, p, id)
	if err != nil {
		return none, err
	}
	app, err := e.appOf(parent.App)
	if err != nil {
		return none, err
	}
	if c.At == 0 {
		c.At = parent.Version
	}
	if c.At < 1 || c.At > parent.Version {
		return none, parley.Errorf(parley.CodeInvalid, "at is %d, but the session has events 1 to %d", c.At, parent.Version).WithField("at")
	}
	held, err := e.o.Store.Held(ctx, p, id) // a fork counts as a copy
	if err != nil {
		return none, err
	}
	free, err := e.keep(ctx, p, 1, held.Bytes)
	if err != nil {
		return none, err
	}
	defer free()
	st, err := e.stateAt(ctx, p, id, c.At)
	if err != nil {
		return none, err
	}
	title := c.Title
	if title == "" {
		title = forkOf(firstOf(st.Title, st.Preview, string(id)))
	}
	forked := parley.SessionForked{Parent: id, At: c.At, Title: title, By: p.User}
	if c.Workspace != "" {
		if forked.Workspace, forked.ReadOnly, err = workspaceOf(p, app, c.Workspace); err != nil {
			return none, err
		}
	}
	s := e.blank(parley.SessionID(e.newIDAfter(string(id))))
	s.state, s.view = &st, st.Clone()
	var ix seam.Index
	begin, err := e.inherited(ctx, p, id, c.At, st.Last)
	if err != nil {
		return none, err
	}
	events, err := s.prepare(s.view, &ix, append(begin, parley.NewEvent("", "", forked)))
	if err != nil {
		return none, err
	}
	if events, err = s.offered(app, p, &ix, events); err != nil {
		return none, err
	}
	if events, err = s.cutOff(&ix, events, st.Queue, parley.TurnCancelled{Reason: ForkedHere, By: "forked"}); err != nil {
		return none, err
	}
	// The store copies the rows of turns and interactions that have ended. Those that are
	// open or queued in the parent end here, with rows of the fork's own.
	info := s.view.Info()
	ix = seam.Index{Session: &info, Turns: ix.Turns, Interactions: ix.Interactions, Blobs: ix.Blobs}
	if st.Turn != nil { // its app may have been stored with events that the fork has not
		ix.Blobs = append(ix.Blobs, st.Turn.App)
	}
	if c.Key != "" {
		ix.Keys = []seam.Key{{Key: c.Key, Body: body, Made: s.id}}
	}
	done := func(error) {}
	if s.view.Condensed > 0 {
		if done, err = e.share(ctx, id, s.id, c.At); err != nil {
			return none, err
		}
	}
	err = e.o.Log.Fork(context.WithoutCancel(ctx), p, id, c.At, seam.Batch{
		Session: s.id, Create: true, Owner: e.o.Node, After: c.At, Index: ix,
	}, events)
	done(err)
	if err != nil {
		return e.madeAnyway(ctx, p, s.id, c.Key, body, err)
	}
	return info, nil // not read again: the session exists, whether or not the store still answers
}

// stateAt is the fold of a session's log up to a number. It starts from the current fold
// if that is not beyond the number. So a fork at the end of a session, as most are, reads
// none of its log.
func (e *Engine) stateAt(ctx context.Context, p parley.Principal, id parley.SessionID, at int64) (parley.Session, error) {
	st, err := e.State(ctx, p, id)
	if err != nil {
		return st, err
	}
	if st.Seq > at {
		st = parley.Session{}
	}
	return e.replay(ctx, p, id, at, st)
}

// cutOff adds to a copied log the end of its open turn and of the turns queued behind it.
func (s *session) cutOff(ix *seam.Index, events eventlog.Clean, queue []parley.QueuedTurn, last parley.TurnCancelled) (eventlog.Clean, error) {
	var ends []parley.Event
	if s.view.Turn != nil {
		ends = s.closingTurn(last)
	}
	for _, q := range queue {
		row := queuedInfo(parley.Event{Session: s.id, Turn: q.ID, Time: q.At, Seq: q.Seq}, q.Request)
		setRow(&ix.Turns, row, func(t parley.TurnInfo) bool { return t.ID == q.ID })
		ends = append(ends, parley.NewEvent(q.ID, "", last))
	}
	more, err := s.prepare(s.view, ix, ends)
	return events.With(more), err
}

// offered resets a mode that came with a log but is not offered by the app: what may not
// be chosen may not be copied either.
func (s *session) offered(app *scope.Resolved, p parley.Principal, ix *seam.Index, events eventlog.Clean) (eventlog.Clean, error) {
	if app.App().Policy.Offers(s.view.Mode) {
		return events, nil
	}
	mode := parley.ModeDefault
	more, err := s.prepare(s.view, ix, []parley.Event{parley.NewEvent("", "", parley.SessionUpdated{Mode: &mode, By: p.User})})
	return events.With(more), err
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// forkOf is the title of a fork. That of a fork of a fork does not grow.
func forkOf(title string) string {
	const is = "Fork of "
	return strings.TrimSpace(parley.Cut(is+strings.TrimPrefix(title, is), parley.MaxTitle))
}
