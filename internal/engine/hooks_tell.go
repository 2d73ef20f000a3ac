package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
)

// Notification and SessionEnd hooks are told of what has happened. They decide nothing, so
// nothing waits for them. They run once, after the commit. They do not run again after a crash,
// and do not run at all if the server stops first.

const (
	// maxTelling limits the number of events whose hooks run at the same time.
	maxTelling = 8
	// maxTold limits the number of events that wait for that, and maxToldBytes what they hold.
	// Further ones are dropped, which the server's log says: hooks that hang must not fill the
	// memory. A sweep may end a thousand sessions in a moment.
	maxTold      = 4096
	maxToldBytes = 16 << 20
)

// tellings are the events that wait for their hooks to run, the oldest first. Its fields are
// guarded by the engine's mu.
type tellings struct {
	waiting []telling
	bytes   int
	running int
	dropped int // since none waited
}

type telling struct {
	session parley.SessionID
	turn    parley.TurnID
	at      seam.Scope
	tools   *scope.Resolved // nil: not open
	in      hook.Input
	size    int
}

// notificationTypes maps what a human is asked to the notification types that hooks of other
// agents know. Where they have no word, it is ours.
var notificationTypes = map[parley.InteractionKind]string{
	parley.KindPermission: "permission_prompt", parley.KindConfirmation: "permission_prompt", parley.KindQuestion: "elicitation_dialog",
	parley.KindCredential: "credential_prompt", parley.KindUnknown: "unknown_outcome",
}

// tells starts the hooks for events that were committed. The caller holds the lock.
func (s *session) tells(events []parley.Event) {
	for _, ev := range events {
		switch ev.Type {
		case (parley.InteractionOpened{}).EventType():
			p, err := ev.Payload()
			if err != nil {
				continue
			}
			in := p.(parley.InteractionOpened).Interaction
			kind := notificationTypes[in.Kind]
			if kind == "" || !s.hasHooks(hook.Notification, kind) {
				continue
			}
			fields := toldOf(s.state, ev.Turn, ev.Agent)
			fields["title"], fields["message"], fields["notification_type"] = in.Title, cmp.Or(in.Text, in.Title), kind
			s.e.tell(s, ev.Turn, hook.Input{Event: hook.Notification, Subject: kind, Fields: fields})
		case (parley.SessionEnded{}).EventType():
			s.tellsEnd(string(s.state.Status))
		}
	}
}

// tellsEnd starts the SessionEnd hooks: the session was ended, has expired or was deleted. The
// caller holds the lock.
func (s *session) tellsEnd(how string) {
	if s.state.Direct { // the session was made for one direct call
		return
	}
	const reason = "other" // the other reasons that hooks know belong to a terminal
	fields := toldOf(s.state, "", "")
	fields["reason"], fields["status"] = reason, how
	s.e.tell(s, "", hook.Input{Event: hook.SessionEnd, Subject: reason, Fields: fields})
}

// tell runs the hooks of a session in the background. A hook's message to people is added to
// the log of the turn if the turn is still open, otherwise to the server's log. The caller holds
// the session's lock.
func (e *Engine) tell(s *session, turn parley.TurnID, in hook.Input) {
	t := telling{
		session: s.id, turn: turn, in: in, size: sizeOf(in.Fields),
		at: seam.Scope{Principal: s.state.Principal(), App: s.state.App, Workspace: s.state.Workspace},
	}
	if s.tools != nil {
		t.tools = s.tools
	} else if s.run != nil {
		t.tools = s.run.tools
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	q := &e.told
	switch {
	case e.closing:
		return
	case len(q.waiting) >= maxTold || q.bytes+t.size > maxToldBytes:
		q.dropped++
		if q.dropped == 1 {
			e.o.Logger.Warn("too many events wait for hooks that are slow; the hooks of further ones do not run", "session", t.session, "event", in.Event, "waiting", len(q.waiting))
		}
		return
	}
	if t.tools != nil {
		t.tools = t.tools.Share()
	}
	q.waiting = append(q.waiting, t)
	q.bytes += t.size
	if q.running < maxTelling {
		q.running++
		e.tasks.Go(e.tellAll)
	}
}

// tellAll runs the hooks of the events that wait, until none does.
func (e *Engine) tellAll() {
	for {
		t, ok := e.nextTelling()
		if !ok {
			return
		}
		if err := e.telled(t.session, t.turn, t.at, t.tools, t.in); err != nil && e.boot.Err() == nil {
			e.o.Logger.Warn("hooks could not be run", "session", t.session, "event", t.in.Event, "err", err)
		}
	}
}

func (e *Engine) nextTelling() (t telling, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := &e.told
	if len(q.waiting) == 0 {
		q.running--
		if q.dropped > 0 {
			e.o.Logger.Warn("the hooks of some events did not run, because too many events waited for theirs", "events", q.dropped)
			q.dropped = 0
		}
		q.waiting = nil
		return t, false
	}
	t, q.waiting[0] = q.waiting[0], telling{}
	q.waiting = q.waiting[1:]
	q.bytes -= t.size
	return t, true
}

func (e *Engine) telled(id parley.SessionID, turn parley.TurnID, at seam.Scope, tools *scope.Resolved, in hook.Input) (err error) {
	if tools == nil {
		if _, off := e.appOf(at.App); off != nil {
			return nil //nolint:nilerr // it has no hooks
		}
		if tools, err = e.scopes.Resolve(e.boot, at); err != nil {
			return err
		}
	}
	defer tools.Release()
	hooks := hook.Matching(tools.Hooks(), in.Event, in.Subject)
	if len(hooks) == 0 {
		return nil
	}
	ctx := e.boot
	if in.Event == hook.SessionEnd {
		most := slices.MaxFunc(hooks, func(a, b *hook.Hook) int { return cmp.Compare(a.Timeout, b.Timeout) })
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most.Timeout) // for all hooks together
		defer cancel()
	}
	results, err := hook.Run(ctx, hook.On(ctx, hooks), in)
	if err != nil {
		return err
	}
	var said []parley.HookRan
	for _, r := range results {
		if p := ranOf(in, r); p.Error != nil || p.Message != "" {
			said = append(said, p)
		}
	}
	if said == nil {
		return nil
	}
	if turn == "" {
		for _, p := range said {
			e.o.Logger.Info(parley.NoteOf(p), "session", id, "event", in.Event)
		}
		return nil
	}
	s, err := e.acquire(e.boot, parley.System(), id)
	if err != nil {
		return err
	}
	defer s.release()
	if t := s.view.Turn; t == nil || t.ID != turn {
		return nil
	}
	return s.commit(e.boot, (&heard{turn: turn, ran: said}).events(s)...)
}
