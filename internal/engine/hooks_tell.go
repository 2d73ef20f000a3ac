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

// maxTelling limits the number of sessions whose notification hooks run at the same time.
const maxTelling = 8

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
			fields := toldOf(&s.state, ev.Turn, ev.Agent)
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
	fields := toldOf(&s.state, "", "")
	fields["reason"], fields["status"] = reason, how
	s.e.tell(s, "", hook.Input{Event: hook.SessionEnd, Subject: reason, Fields: fields})
}

// tell runs the hooks of a session in the background. A hook's message to people is added to
// the log of the turn if the turn is still open, otherwise to the server's log.
func (e *Engine) tell(s *session, turn parley.TurnID, in hook.Input) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return
	}
	tools := s.tools
	if tools == nil && s.run != nil {
		tools = s.run.tools
	}
	if tools != nil {
		tools = tools.Share()
	}
	at := seam.Scope{Principal: s.state.Principal(), App: s.state.App, Workspace: s.state.Workspace}
	id := s.id
	e.tasks.Go(func() {
		select {
		case e.telling <- struct{}{}:
			defer func() { <-e.telling }()
		case <-e.boot.Done():
		}
		if err := e.telled(id, turn, at, tools, in); err != nil && e.boot.Err() == nil {
			e.o.Logger.Warn("hooks could not be run", "session", id, "event", in.Event, "err", err)
		}
	})
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
