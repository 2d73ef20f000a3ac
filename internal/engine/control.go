package engine

import (
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/parley-server/parley"
)

// acquireTurn finds a turn and its session, by acquire or ready.
func (e *Engine) acquireTurn(ctx context.Context, p parley.Principal, id parley.TurnID, acquire func(context.Context, parley.Principal, parley.SessionID) (*session, error)) (*session, parley.TurnInfo, error) {
	row, err := e.o.Store.Turn(ctx, p, id)
	if isCode(err, parley.CodeNotFound) {
		return nil, row, notFound("turn", id)
	}
	if err != nil {
		return nil, row, err
	}
	s, err := acquire(ctx, p, row.SessionID)
	return s, row, err
}

// Cancel stops a turn, whether it is queued, running, waiting or interrupted. Reads and
// model calls are cut at once. Started writes may run until their deadline, and the turn
// ends after them: the returned turn is then still running, with Stopping set. Cancelling
// a turn that has ended returns it unchanged.
func (e *Engine) Cancel(ctx context.Context, p parley.Principal, id parley.TurnID, reason string) (parley.TurnInfo, error) {
	if utf8.RuneCountInString(reason) > parley.MaxReason {
		return parley.TurnInfo{}, tooLong("reason", parley.MaxReason, "characters")
	}
	s, row, err := e.acquireTurn(ctx, p, id, e.acquireToStop)
	if err != nil {
		return parley.TurnInfo{}, err
	}
	done, err := s.cancel(ctx, p, row, reason)
	s.release()
	if err != nil {
		return parley.TurnInfo{}, err
	}
	if done != nil {
		// What can be cut is cut within moments; callers prefer to see the result.
		select {
		case <-done:
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	return e.Turn(ctx, p, id)
}

// cancel returns a channel that is closed when the turn has stopped, or nil if there is
// nothing to wait for.
func (s *session) cancel(ctx context.Context, p parley.Principal, row parley.TurnInfo, reason string) (<-chan struct{}, error) {
	if s.isQueued(row.ID) {
		return nil, s.endQueued(ctx, row.ID, parley.TurnCancelled{Reason: reason, By: p.User})
	}
	t := s.view.Turn
	if t == nil || t.ID != row.ID {
		return nil, nil // it has ended
	}
	if s.asks() {
		return nil, s.stopAsking(ctx, parley.TurnStopRequested{Reason: reason, By: p.User})
	}
	if s.run == nil {
		return nil, s.commit(ctx, s.closing(parley.TurnCancelled{Reason: reason, By: p.User})...)
	}
	inFlight := false
	for _, c := range t.Tools.Open() {
		inFlight = inFlight || c.Status == parley.ToolIsStarted && c.Effect != parley.EffectRead
	}
	done := (<-chan struct{})(s.run.done)
	if inFlight {
		done = nil
	}
	// A queue released since the turn was first asked to stop is held again.
	if inFlight && t.Stop == nil || t.Stop != nil && len(s.view.Queue) > 0 && !s.view.Held {
		if err := s.commit(ctx, parley.NewEvent(t.ID, "", parley.TurnStopRequested{Reason: reason, By: p.User})); err != nil {
			return nil, err
		}
	}
	s.run.cancel(&stopped{by: p.User, reason: reason})
	return done, nil
}

// Unqueue removes a turn from the queue.
func (e *Engine) Unqueue(ctx context.Context, p parley.Principal, id parley.SessionID, turn parley.TurnID) error {
	s, err := e.acquire(ctx, p, id)
	if err != nil {
		return err
	}
	defer s.release()
	if !s.isQueued(turn) {
		return notFound("queued turn", turn)
	}
	row, err := e.o.Store.Turn(ctx, p, turn)
	if err != nil {
		return err
	}
	_, err = s.cancel(ctx, p, row, "taken off the queue")
	return err
}

// Resume continues an interrupted turn from its last committed step. Only the session's
// last turn can be resumed; others can be retried.
func (e *Engine) Resume(ctx context.Context, p parley.Principal, id parley.TurnID) (parley.TurnInfo, error) {
	s, row, err := e.acquireTurn(ctx, p, id, e.ready)
	if err != nil {
		return parley.TurnInfo{}, err
	}
	t := s.view.Turn
	if t == nil || t.ID != id || t.Status != parley.StatusInterrupted {
		status := row.Status
		if t != nil && t.ID == id {
			status = t.Status
		}
		s.release()
		return parley.TurnInfo{}, parley.Errorf(parley.CodeConflict, "turn %s is %s, not interrupted", id, status).
			WithHint("only an interrupted turn can be resumed; retry makes a new one")
	}
	r, err := s.resume(p.User, false)
	info := s.info(id)
	s.release()
	if err != nil {
		return parley.TurnInfo{}, err
	}
	return info, r.durable(ctx)
}

// resume stages turn.resumed and starts the run, which commits it before it calls a model
// or a tool.
func (s *session) resume(by string, auto bool) (*run, error) {
	t := s.view.Turn
	app, err := s.appOf(t)
	if err != nil {
		return nil, err
	}
	return s.begin(app, t.ID, auto, parley.NewEvent(t.ID, "", parley.TurnResumed{Attempt: t.Attempts + 1, Auto: auto, By: by}))
}

// Retry asks the question of an ended or interrupted turn again, as a new turn that names
// the old one. An interrupted turn with a write whose outcome is not known is not retried:
// it is resumed or cancelled first.
func (e *Engine) Retry(ctx context.Context, p parley.Principal, id parley.TurnID, key, client string) (parley.TurnInfo, error) {
	s, row, err := e.acquireTurn(ctx, p, id, e.ready)
	if isCode(err, parley.CodeNotFound) && key != "" {
		// The session of a call alone may be gone, and the one of its retry not.
		made, kerr := e.o.Store.Key(ctx, p, "", e.aliasOf(key))
		if kerr == nil && made.Turn != "" {
			var again parley.TurnInfo
			if again, kerr = e.o.Store.Turn(ctx, p, made.Turn); kerr == nil && again.RetryOf == id {
				return again, nil
			}
		}
		if kerr != nil && !isCode(kerr, parley.CodeNotFound) {
			return parley.TurnInfo{}, kerr
		}
	}
	if err != nil {
		return parley.TurnInfo{}, err
	}
	open := s.view.Turn != nil && s.view.Turn.ID == id && (s.view.Turn.Status.Open() || s.e.goesOn(s.id))
	if open || row.Status == parley.StatusPending {
		s.release()
		return parley.TurnInfo{}, parley.Errorf(parley.CodeConflict, "turn %s has not ended", id).WithHint("cancel it first")
	}
	if t := s.view.Turn; t != nil && t.ID == id {
		if c := startedWrite(t); c != nil { // a model that is asked again would make it again
			s.release()
			return parley.TurnInfo{}, parley.Errorf(parley.CodeConflict, "turn %s was interrupted while %s was running, which may have taken effect", id, c.Name).
				WithHint("resume the turn: what became of the call is found out, or asked, first; or cancel it")
		}
	}
	again := asked{Send: parley.Send{Message: row.Message}, retryOf: id} // used if the log no longer has the request
	if r, err := e.requestOf(ctx, p, row); err != nil {
		s.release()
		return parley.TurnInfo{}, err
	} else if r != nil {
		again.Send = parley.Send{Message: r.Message.Text(), Model: r.Model, Hints: r.Hints, Budgets: r.Budgets, NoTools: r.NoTools, Tools: offeredAgain(r.Tools), Schedule: r.Schedule}
		for _, part := range r.Message.Parts {
			switch {
			case part.Server != "": // what it said then, as with a command
				again.read = append(again.read, part)
			case part.Artifact != "":
				again.Attachments = append(again.Attachments, part.Artifact)
			case part.Type == parley.PartCommand: // reuse the prompt that it stood for
				again.command = &part
			}
		}
		if r.Call != nil && s.view.Direct { // its session ended with it
			app, space := s.view.App, s.view.Workspace
			s.release()
			return e.callAlone(ctx, p, parley.CallTool{App: app, Workspace: space, Name: r.Call.Name, Input: r.Call.Input, Redacted: r.Call.Redacted, Key: key, Client: client}, id)
		}
		if r.Call != nil {
			again.call = &parley.ToolCall{Call: parley.CallID(e.newID()), Name: r.Call.Name, Input: r.Call.Input, Redacted: r.Call.Redacted}
		}
	}
	again.Key, again.Client = key, client
	return s.send(ctx, p, again)
}

// requestOf returns what a turn was asked, from the event that began it. It returns nil
// if the log does not have that event in its place, as in a copy of another session.
func (e *Engine) requestOf(ctx context.Context, p parley.Principal, row parley.TurnInfo) (*parley.TurnRequest, error) {
	events, err := e.o.Store.Read(ctx, p, row.SessionID, row.FirstSeq-1, 1)
	if err != nil || len(events) == 0 || events[0].Turn != row.ID {
		return nil, err
	}
	pay, err := events[0].Payload()
	if err != nil {
		return nil, err
	}
	switch pay := pay.(type) {
	case parley.TurnStarted:
		return &pay.TurnRequest, nil
	case parley.TurnQueued:
		return &pay.TurnRequest, nil
	}
	return nil, nil
}

// Await returns the turn when it has ended, waits for a human or was interrupted and does
// not go on by itself, or as it is after the timeout. It waits through an outage of the store; it returns the
// store's error only if the outage lasts until the end.
func (e *Engine) Await(ctx context.Context, p parley.Principal, id parley.TurnID, timeout time.Duration) (parley.TurnInfo, error) {
	over := time.NewTimer(timeout)
	defer over.Stop()
	row, err := e.o.Store.Turn(ctx, p, id)
	for e.awayFor(err) {
		again := time.NewTimer(lookEvery)
		select {
		case <-again.C:
			row, err = e.o.Store.Turn(ctx, p, id)
		case <-over.C:
			return e.Turn(ctx, p, id)
		case <-ctx.Done():
			return row, context.Cause(ctx)
		}
	}
	switch {
	case isCode(err, parley.CodeNotFound):
		return row, notFound("turn", id)
	case err != nil || row.Status.Ended():
		return row, err
	}
	for {
		s, err := e.enter(row.SessionID)
		if err != nil {
			return row, err
		}
		info, changed, err := s.look(ctx, p, row)
		if e.awayFor(err) {
			err, changed = nil, make(chan struct{}) // looked up again, like one that changes elsewhere
		}
		if err != nil || changed == nil {
			e.leave(s)
			return info, err
		}
		// Commits by an owner in another process wake nobody here.
		again := time.NewTimer(lookEvery)
		select {
		case <-changed:
		case <-again.C:
		case <-over.C:
			info, err = e.Turn(ctx, p, id)
			changed = nil
		case <-ctx.Done():
			err, changed = context.Cause(ctx), nil
		}
		again.Stop()
		e.leave(s)
		if changed == nil {
			return info, err
		}
	}
}

// lookEvery is how often Await polls a turn that sends no news.
const lookEvery = time.Second

// look returns the turn of an index row and, if there is something to wait for, a channel
// that is closed when its session changes. It neither loads nor claims the session. While
// the turn is open its owner's memory has the newest state; the store is asked when the
// turn has ended or the session is not in memory here.
func (s *session) look(ctx context.Context, p parley.Principal, row parley.TurnInfo) (parley.TurnInfo, <-chan struct{}, error) {
	e, id := s.e, row.ID
	select {
	case s.lock <- struct{}{}:
	case <-ctx.Done():
		return row, nil, context.Cause(ctx)
	}
	defer s.unlock()
	here := s.loaded && !s.gone
	if t := s.state.Turn; here && t != nil && t.ID == id {
		switch t.Status {
		case parley.StatusInterrupted:
			if s.run != nil || e.goesOn(s.id) {
				return *turnInfo(s.state), s.changed, nil // it counts as running
			}
			row, err := e.o.Store.Turn(ctx, p, id) // the row has the reason
			row.Resumes = row.Resumes && s.resumesItself()
			return row, nil, err
		case parley.StatusRunning:
			return *turnInfo(s.state), s.changed, nil
		case parley.StatusWaiting:
			if s.run != nil && t.Stop != nil {
				return *turnInfo(s.state), s.changed, nil // it waits for nobody any more: it is being stopped
			}
		}
		return *turnInfo(s.state), nil, nil
	}
	if here && slices.ContainsFunc(s.state.Queue, func(q parley.QueuedTurn) bool { return q.ID == id }) {
		return row, s.changed, nil
	}
	row, err := e.o.Store.Turn(ctx, p, id)
	if !here && err == nil && (row.Status == parley.StatusRunning || row.Status == parley.StatusPending || row.Resumes) {
		return row, s.changed, nil
	}
	return row, nil, err
}

// Update changes a session's settings. It always allows taking back permissions, even by
// a user who has reached the storage limits.
func (e *Engine) Update(ctx context.Context, p parley.Principal, id parley.SessionID, c parley.UpdateSession) (parley.SessionInfo, error) {
	s, err := e.acquire(ctx, p, id)
	if err != nil {
		return parley.SessionInfo{}, err
	}
	defer s.release()
	if c.ExpectedVersion != 0 && c.ExpectedVersion != s.view.Seq {
		return parley.SessionInfo{}, stale(c.ExpectedVersion, s.view.Seq)
	}
	if sizeOf(c.Preferences) > maxSettings {
		return parley.SessionInfo{}, tooLong("preferences", maxSettings, "bytes of JSON")
	}
	if c.Title != nil && utf8.RuneCountInString(*c.Title) > parley.MaxTitle {
		return parley.SessionInfo{}, tooLong("title", parley.MaxTitle, "characters")
	}
	if c.Busy != nil {
		if err := checkBusy(*c.Busy); err != nil {
			return parley.SessionInfo{}, err
		}
	}
	if c.Mode != nil {
		app, err := s.e.appOf(s.view.App)
		if err != nil {
			return parley.SessionInfo{}, err
		}
		if err := checkMode(app.App(), s.view.Policy, *c.Mode); err != nil {
			return parley.SessionInfo{}, err
		}
	}
	if c.Runtime != nil {
		app, err := s.e.appOf(s.view.App)
		if err != nil {
			return parley.SessionInfo{}, err
		}
		if err := checkRuntime(app.App(), *c.Runtime); err != nil {
			return parley.SessionInfo{}, err
		}
		if s.view.Turn != nil && *c.Runtime != s.view.Runtime {
			return parley.SessionInfo{}, parley.Errorf(parley.CodeBusy, "a turn is open, and a session gets another runtime between turns only").WithField("runtime").
				WithHint("wait for the turn's end, or stop it")
		}
	}
	if err := s.mayModel(c); err != nil {
		return parley.SessionInfo{}, err
	}
	if c.AttachedEntities != nil {
		app, err := s.e.appOf(s.view.App)
		if err != nil {
			return parley.SessionInfo{}, err
		}
		list, err := attachable(app, s.view.Principal(), s.view.Workspace, *c.AttachedEntities)
		if err != nil {
			return parley.SessionInfo{}, err
		}
		c.AttachedEntities = &list
	}
	rules, err := s.keeping(c.Rules)
	if err != nil {
		return parley.SessionInfo{}, err
	}
	if !s.takesBack(c, rules) {
		free, err := s.e.keep(ctx, s.view.Principal(), 0, int64(sizeOf(c)))
		if err != nil {
			return parley.SessionInfo{}, err
		}
		defer free()
	}
	if c.Pins != nil && s.view.Rewinding != nil { // which decides about them
		return parley.SessionInfo{}, rewinding()
	}
	var events []parley.Event
	if c.Pins != nil {
		if len(*c.Pins) > parley.MaxPins {
			return parley.SessionInfo{}, tooLong("pins", parley.MaxPins, "entries")
		}
		for _, pin := range *c.Pins {
			if len(pin.Label)+len(pin.Text) > parley.MaxPin {
				return parley.SessionInfo{}, tooLong("pins", parley.MaxPin, "bytes each")
			}
		}
		events = append(events, parley.NewEvent("", "", parley.MemoryUpdated{Pins: c.Pins, By: p.User}))
	}
	if c.Title != nil || c.Model != nil || c.Runtime != nil || c.Temperature != nil || c.MaxOutput != nil || c.Mode != nil || c.Busy != nil || c.Preferences != nil || rules != nil || c.AttachedEntities != nil {
		events = append(events, parley.NewEvent("", "", parley.SessionUpdated{
			Title: c.Title, Model: c.Model, Runtime: c.Runtime, Temperature: c.Temperature, MaxOutput: c.MaxOutput, Mode: c.Mode, Busy: c.Busy, Preferences: c.Preferences, Rules: rules,
			Attached: c.AttachedEntities, By: p.User,
		}))
	}
	err = s.commit(ctx, events...)
	return s.state.Info(), err
}

// End closes a session for good, after cancelling a running turn. Ending it again changes
// nothing.
func (e *Engine) End(ctx context.Context, p parley.Principal, id parley.SessionID, reason string) (parley.SessionInfo, error) {
	if utf8.RuneCountInString(reason) > parley.MaxReason {
		return parley.SessionInfo{}, tooLong("reason", parley.MaxReason, "characters")
	}
	s, err := e.still(ctx, p, id, true, &stopped{by: "session_ended", reason: reason})
	if err != nil {
		return parley.SessionInfo{}, err
	}
	defer s.release()
	if s.view.Status != parley.Active {
		return s.state.Info(), nil
	}
	if s.view.Rewinding != nil {
		return s.state.Info(), rewinding()
	}
	if err = s.closeAll(parley.TurnCancelled{Reason: reason, By: "session_ended"}); err != nil {
		s.discard()
		return s.state.Info(), err
	}
	err = s.commit(ctx, parley.NewEvent("", "", parley.SessionEnded{Status: parley.Ended, Reason: reason, By: p.User}))
	return s.state.Info(), err
}

// Delete removes a session and everything in it. It first stops a running turn and waits
// for a write that has started. Archived data that could not be removed is removed by one
// of the next sweeps.
func (e *Engine) Delete(ctx context.Context, p parley.Principal, id parley.SessionID) error {
	s, err := e.still(ctx, p, id, false, &stopped{by: p.User, reason: "the session was deleted"})
	if err != nil {
		return err
	}
	defer s.release()
	err = e.o.Store.Delete(ctx, p, id)
	if err != nil && !isCode(err, parley.CodeNotFound) {
		e.listArchives() // the session may be gone
		return told(err)
	}
	if s.state.Status == parley.Active {
		s.tellsEnd("deleted")
	}
	s.evict()
	e.o.Log.Forget(id)
	if e.o.Archive != nil {
		e.logDropped(context.WithoutCancel(ctx), id)
	}
	return err
}

// still returns the session, locked, with no turn running in this process. It stops a
// running turn, and nothing starts afterwards. If ask is set, services are asked about the
// writes of an interrupted turn, too.
func (e *Engine) still(ctx context.Context, p parley.Principal, id parley.SessionID, ask bool, why *stopped) (*session, error) {
	for {
		s, err := e.acquireToStop(ctx, p, id)
		if err != nil {
			return nil, err
		}
		if ask && s.asks() {
			if err := s.stopAsking(ctx, parley.TurnStopRequested{Reason: why.reason, By: why.by}); err != nil {
				s.release()
				return nil, err
			}
		}
		if done := s.restoring; done != nil { // it ends soon, or with the server
			s.release()
			select {
			case <-done:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		r := s.run
		if r == nil {
			return s, nil
		}
		// A write may take long. A crash meanwhile must not make the turn go on.
		if t := s.view.Turn; t != nil && t.ID == r.turn && t.Stop == nil && startedWrite(t) != nil {
			if err := s.commit(ctx, parley.NewEvent(t.ID, "", parley.TurnStopRequested{Reason: why.reason, By: why.by})); err != nil {
				s.release()
				return nil, err
			}
		}
		r.last = true
		r.cancel(why)
		s.release()
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
