package engine

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
)

// Fork makes a new session of the first events of another. What was open there
// at that point is cancelled in the fork, which takes no grants, rules, open
// interactions, queue, keys or provider state with it.
func (e *Engine) Fork(ctx context.Context, p parley.Principal, id parley.SessionID, c parley.ForkSession) (parley.SessionInfo, error) {
	none := parley.SessionInfo{}
	if utf8.RuneCountInString(c.Title) > parley.MaxTitle {
		return none, tooLong("title", parley.MaxTitle, "characters")
	}
	parent, err := e.Session(ctx, p, id)
	if err != nil {
		return none, err
	}
	app, err := e.appOf(parent.App)
	if err != nil {
		return none, err
	}
	c.Key = e.aliasOf(c.Key)
	// Of what was asked, before "its end" becomes a number: the session may have
	// grown when the same request comes again.
	body := digestOf(struct {
		parley.ForkSession
		Of parley.SessionID
	}{c, id})
	if c.At == 0 {
		c.At = parent.Version
	}
	if c.At < 1 || c.At > parent.Version {
		return none, parley.Errorf(parley.CodeInvalid, "at is %d, but the session has events 1 to %d", c.At, parent.Version).WithField("at")
	}
	if c.Key != "" {
		k, err := e.o.Store.Key(ctx, p, "", c.Key)
		switch {
		case err == nil && k.Body == body:
			return e.Session(ctx, p, k.Made)
		case err == nil:
			return none, keyReused(c.Key)
		case !isCode(err, parley.CodeNotFound):
			return none, err
		}
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
	st, err := e.replay(ctx, p, id, c.At, parley.Session{})
	if err != nil {
		return none, err
	}
	title := c.Title
	if title == "" {
		title = strings.TrimSpace("Fork of " + firstOf(st.Title, st.Preview, string(id)))
	}
	s := &session{e: e, id: parley.SessionID(e.newID()), lock: make(chan struct{}, 1), changed: make(chan struct{})}
	s.state, s.view = st, st.Clone()
	var ix seam.Index
	begin, err := e.inherited(ctx, p, id, c.At, st.Last)
	if err != nil {
		return none, err
	}
	events, err := s.prepare(&s.view, &ix, append(begin, parley.NewEvent("", "", parley.SessionForked{Parent: id, At: c.At, Title: title, By: p.User})))
	if err != nil {
		return none, err
	}
	if events, err = s.offered(app, p, &ix, events); err != nil {
		return none, err
	}
	if s.view.Turn != nil {
		closing, err := s.prepare(&s.view, &ix, s.closingTurn(parley.TurnCancelled{Reason: "the session was forked here", By: "forked"}))
		if err != nil {
			return none, err
		}
		events = events.With(closing)
	}
	// The copied turns belong to the parent: their rows are keyed by turn. The
	// fork has them as events.
	info := s.view.Info()
	ix = seam.Index{Session: &info, Blobs: ix.Blobs}
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
	if isCode(err, parley.CodeKeyReused) {
		return none, keyReused(c.Key)
	}
	if err != nil {
		return none, told(err)
	}
	return e.Session(ctx, p, s.id)
}

// offered takes back a mode that came with a log and that its app does not offer:
// what can not be chosen can not be copied either.
func (s *session) offered(app *appBody, p parley.Principal, ix *seam.Index, events eventlog.Clean) (eventlog.Clean, error) {
	if app.app.Policy.Offers(s.view.Mode) {
		return events, nil
	}
	mode := parley.ModeDefault
	more, err := s.prepare(&s.view, ix, []parley.Event{parley.NewEvent("", "", parley.SessionUpdated{Mode: &mode, By: p.User})})
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
