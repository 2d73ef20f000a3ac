package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
)

// maxAutoResumes is how often in a row a turn is resumed automatically in vain: without a
// reply of a model or the end of a tool call, or only to another call of the tool that was
// running when the server stopped (see [parley.Turn.InVain]). A turn that crashes the
// process would otherwise do so for ever. What gets further is limited by its budgets, or
// waits for somebody to answer what became of a write.
const maxAutoResumes = 2

// Recover finds the turns that a crash left open, or queued behind an open one, except
// those of another node that is alive. It returns once they are listed. Marking them, and
// continuing where the app says so, happens in the background and never delays a command:
// a command to such a session marks it first. The channel is closed when all are marked
// and everything that continues automatically is on its way. It may be called again, when an
// app is served that was off.
func (e *Engine) Recover(ctx context.Context) (<-chan struct{}, error) {
	rows, err := e.o.Store.Turns(ctx, parley.System(), seam.TurnQuery{
		Statuses: []parley.TurnStatus{parley.StatusRunning, parley.StatusInterrupted, parley.StatusPending}, Limit: -1,
	})
	if err != nil {
		return nil, err
	}
	if err := e.recoverRewinds(ctx); err != nil {
		return nil, err
	}
	work := make(chan parley.TurnInfo)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range min(len(rows), cap(e.resuming)) {
		wg.Go(func() {
			for row := range work {
				if err := e.passed(e.boot, row.SessionID, e.recoverTurn(row)); err != nil && e.boot.Err() == nil {
					e.o.Logger.Warn("a turn could not be recovered", "session", row.SessionID, "turn", row.ID, "err", err)
				}
			}
		})
	}
	e.tasks.Go(func() {
		defer close(done)
		for _, row := range rows {
			select {
			case work <- row:
			case <-e.boot.Done():
			}
		}
		close(work)
		wg.Wait()
	})
	return done, nil
}

// recoverTurn loads the turn's session, which marks the turn and lets the session go on. One
// that is loaded goes on, too, if its app was off until now.
// A queued turn behind an open one follows by itself; if no turn is open, only this call
// recovers its session.
func (e *Engine) recoverTurn(row parley.TurnInfo) error {
	if e.boot.Err() != nil {
		return nil
	}
	if row.Status == parley.StatusPending {
		info, err := e.o.Store.Session(e.boot, parley.System(), row.SessionID)
		if err != nil || info.Turn != nil || !e.resumes(info.App) {
			return err
		}
	}
	s, err := e.acquire(e.boot, parley.System(), row.SessionID)
	if err != nil {
		return err
	}
	s.goOnByItself(0)
	s.release()
	return nil
}

// resumes reports whether the app's sessions go on automatically after a crash. Those of
// an app that is off do not.
func (e *Engine) resumes(app string) bool {
	a, err := e.app(app)
	return err == nil && a.App().Resume == parley.ResumeAuto
}

// goOnByItself lets a session go on where its last owner left it, if its app says so:
// with the interrupted turn, or with the queue if no turn was open. It waits for at least
// the given time.
func (s *session) goOnByItself(least time.Duration) {
	switch {
	case s.resumesItself():
		times, _ := s.view.Turn.InVain()
		if s.awaitsReport(s.view.Turn) {
			times = 0 // it will call nothing that could have crashed the server
		}
		s.e.goOnLater(s.id, max(least, time.Duration(times)*2*time.Second))
	case s.e.resumes(s.view.App) && s.startsNext():
		s.e.goOnLater(s.id, least)
	}
}

// resumesItself reports whether the session's turn is interrupted and will be resumed
// automatically.
func (s *session) resumesItself() bool {
	t := s.view.Turn
	return t != nil && t.Status == parley.StatusInterrupted && s.run == nil && !s.leaves(t)
}

// leaves reports whether an interrupted turn does not continue automatically. Such a turn stays
// for somebody to resume, or is closed if it was asked to stop or is a lost call.
func (s *session) leaves(t *parley.Turn) bool {
	if (t.Stop != nil || s.view.Direct) && s.awaitsReport(t) {
		return false
	}
	if t.Stop != nil && !s.canAsk(t) {
		return true
	}
	if s.lacksItsEnd(t) {
		return false
	}
	times, _ := t.InVain()
	if t.Stop == nil && !s.e.resumes(s.view.App) || times >= maxAutoResumes || s.e.triedInVain(t.ID) != "" {
		_, undecided := s.lostCall(t)
		return !undecided
	}
	return false
}

// whyInterrupted is the reason of an interruption.
func (s *session) whyInterrupted(t *parley.Turn) string {
	const reason = "the server stopped while the turn was running"
	if !s.leaves(t) {
		return reason
	}
	switch times, tool := t.InVain(); {
	case times >= maxAutoResumes && tool != "":
		return reason + fmt.Sprintf("; it was resumed automatically twice and the server stopped again after a call of %q, so it is left for you to resume", tool)
	case times >= maxAutoResumes:
		return reason + "; it was resumed automatically twice without getting any further, and is left for you to resume"
	}
	if why := s.e.triedInVain(t.ID); why != "" {
		return reason + "; it could not be resumed: " + why
	}
	if _, err := s.e.app(s.view.App); err != nil {
		return reason + "; " + parley.Info(err).Message
	}
	return reason
}

// takeBack records that the interrupted turn does not continue automatically after all, if the
// log says that it does. Otherwise its followers would wait for ever. A lost call is closed.
func (s *session) takeBack(ctx context.Context) error {
	t := s.view.Turn
	if t == nil || t.Status != parley.StatusInterrupted || s.run != nil || !s.leaves(t) {
		return nil
	}
	lost, _ := s.lostCall(t)
	switch {
	case !t.Resumes && !lost:
		return nil
	case t.Stop != nil:
		return s.commit(ctx, s.closing(cancelled(*t.Stop))...)
	case lost:
		return s.commit(ctx, s.closing(lostEnd())...)
	}
	return s.commit(ctx, parley.NewEvent(t.ID, "", parley.TurnInterrupted{Reason: s.whyInterrupted(t)}))
}

// triedInVain returns why this process failed to resume the turn, which is then left to a
// human, or "" if it did not.
func (e *Engine) triedInVain(id parley.TurnID) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inVain[id]
}

func (e *Engine) leaveInterrupted(id parley.TurnID, why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inVain[id] = parley.Info(why).Message
}

// goesOn reports whether the session is about to go on automatically; its interrupted
// turn then counts as running.
func (e *Engine) goesOn(id parley.SessionID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.going[id]
}

// goOnLater schedules the session to go on after a while, when a slot is free. Calling it
// again before then has no effect.
func (e *Engine) goOnLater(id parley.SessionID, wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing || e.going[id] {
		return
	}
	e.going[id] = true
	e.tasks.Go(func() {
		r := e.goOnAfter(id, wait)
		if r == nil {
			return
		}
		// The slot is free once the run is durable; how long it takes, or whether it
		// waits for a human, does not matter to the others.
		_ = r.durable(e.boot)
		<-e.resuming
	})
}

// goOnAfter waits, takes a slot and lets the session go on. If it returns a run, it still
// holds the slot.
func (e *Engine) goOnAfter(id parley.SessionID, wait time.Duration) *run {
	over := func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.going, id)
	}
	for {
		select {
		case <-time.After(wait):
		case <-e.boot.Done():
			return nil
		}
		r, err := e.goOnOpen(id, over)
		if r != nil {
			return r
		}
		if err == nil || !e.awayFor(err) || errors.Is(err, seam.ErrDriven) {
			return nil
		}
		wait = longestPause
	}
}

// goOnOpen opens the session's tools, takes a slot and lets the session continue. It opens the
// tools first, because that may have to start a program, and a slot is not held for that long.
func (e *Engine) goOnOpen(id parley.SessionID, over func()) (*run, error) {
	tools, err := e.opened(id)
	if err != nil {
		return nil, e.ifOver(err, over)
	}
	if tools != nil {
		defer tools.Release()
	}
	select {
	case e.resuming <- struct{}{}:
	case <-e.boot.Done():
		return nil, context.Cause(e.boot)
	}
	r, err := e.goOnNow(id, over)
	if r == nil {
		<-e.resuming
	}
	return r, err
}

// opened returns the resolved scope that the session's turns run with, or nil if its app is
// off. It does not load the session.
func (e *Engine) opened(id parley.SessionID) (*scope.Resolved, error) {
	info, err := e.o.Store.Session(e.boot, parley.System(), id)
	if err != nil {
		return nil, err
	}
	if _, err := e.appOf(info.App); err != nil {
		return nil, nil //nolint:nilerr,nilnil // the session itself reports that it cannot run without the app
	}
	return e.scopes.Resolve(e.boot, seam.Scope{Principal: parley.Principal{User: info.User, Org: info.Org}, App: info.App, Workspace: info.Workspace})
}

// ifOver returns err. It calls over first, unless the failure will be retried.
func (e *Engine) ifOver(err error, over func()) error {
	if !e.awayFor(err) || errors.Is(err, seam.ErrDriven) {
		over()
	}
	return err
}

// goOnNow continues an answered turn, resumes an interrupted one that is to be resumed
// automatically, or begins the first queued one. It calls over with the lock held, unless
// it is to be tried again. So a turn that could not be resumed never counts as running.
func (e *Engine) goOnNow(id parley.SessionID, over func()) (*run, error) {
	s, err := e.ready(e.boot, parley.System(), id)
	if err != nil {
		return nil, e.ifOver(err, over)
	}
	defer s.release()
	if err := s.goOnOnce(); s.e.awayFor(err) {
		return nil, err
	}
	if s.resumesItself() {
		t := s.view.Turn
		_, err := s.resume("", true)
		switch {
		case err != nil && e.awayFor(err):
			return nil, err
		case err != nil:
			e.o.Logger.Warn("a turn could not be resumed", "session", id, "turn", t.ID, "err", err)
			e.leaveInterrupted(t.ID, err)
		}
	}
	if err := s.takeBack(e.boot); s.e.awayFor(err) {
		return nil, err
	} else if err != nil {
		s.logged("say that a turn does not go on", err)
	}
	over()
	s.startNext()
	return s.run, nil
}

// resumptionStaged reports whether the turn's resumption is not in the log yet. A call that
// stops the server must be preceded by it, or the resumption would not count.
func (s *session) resumptionStaged() bool {
	t := s.state.Turn
	return t != nil && t.Status == parley.StatusInterrupted
}

// interrupt marks the turn that the session's previous owner left running, and records whether
// it continues automatically. Its open model calls end with the part of their text that was
// stored. The turn becomes interrupted. It becomes cancelled instead if somebody had asked to
// stop it, no service must be asked first, and no client may still report. A lost call is
// closed. interrupt is called once, when the session is loaded.
func (s *session) interrupt(ctx context.Context) error {
	t := s.view.Turn
	chunks, err := s.e.o.Store.Chunks(ctx, s.state.Principal(), s.id)
	if err != nil {
		return err
	}
	texts := map[parley.CallID]*strings.Builder{}
	for _, c := range chunks {
		if texts[c.Call] == nil {
			texts[c.Call] = &strings.Builder{}
		}
		texts[c.Call].WriteString(c.Text)
	}
	var events []parley.Event
	for _, c := range t.Calls {
		failed := parley.ModelFailed{
			Call: c.Call, Usage: c.Reserved, Retry: t.Status == parley.StatusWaiting,
			Error: parley.ErrorInfo{Code: "interrupted", Message: "the server stopped while the model was answering"},
		}
		failed.Usage.Estimated = true
		if b := texts[c.Call]; b != nil {
			failed.Partial = b.String()
		}
		events = append(events, parley.NewEvent(t.ID, c.Agent, failed))
	}
	for _, in := range s.lostQuestions() {
		events = append(events, parley.NewEvent(t.ID, in.Agent, parley.InteractionExpired{ID: in.ID, Reason: "the server stopped, and the call that asked cannot continue"}))
	}
	switch {
	case t.Status == parley.StatusWaiting && s.stillWaits(events): // calls that ran while the question was open
	case t.Stop != nil && s.leaves(t):
		events = s.closing(cancelled(*t.Stop), events...)
	case s.isLost(t):
		events = s.closing(lostEnd(), events...)
	default:
		events = append(events, parley.NewEvent(t.ID, "", parley.TurnInterrupted{
			Reason: s.whyInterrupted(t), Resumes: !s.leaves(t), Last: s.state.UpdatedAt,
		}))
	}
	return s.commit(ctx, events...)
}

// lostQuestions returns the open questions of calls with effects that were waiting for the
// answer when the server stopped. Such a call cannot continue.
func (s *session) lostQuestions() (list []parley.Interaction) {
	for _, in := range s.view.Interactions {
		if c := s.view.Turn.Tool(in.Call); c != nil && in.Key != "" && in.Kind != parley.KindClient && c.Status == parley.ToolIsStarted && c.Effect != parley.EffectRead {
			list = append(list, in)
		}
	}
	return list
}

// stillWaits reports whether the turn waits for a human after the given events.
func (s *session) stillWaits(events []parley.Event) bool {
	after := s.view.Clone()
	for _, ev := range events {
		ev.Session, ev.Seq, ev.Time = s.id, after.Seq+1, s.e.now()
		if err := after.Apply(ev); err != nil {
			s.e.o.Logger.Error("a recovering event does not fold", "session", s.id, "type", ev.Type, "err", err)
		}
	}
	return after.Turn.Status == parley.StatusWaiting
}
