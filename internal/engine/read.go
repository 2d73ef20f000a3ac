package engine

import (
	"context"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
)

// inMemory returns the session's state if it is in memory and p may see it. It never
// loads or claims a session.
func (e *Engine) inMemory(ctx context.Context, p parley.Principal, id parley.SessionID, f func(s *session)) error {
	e.mu.Lock()
	s := e.sessions[id]
	if s != nil {
		s.refs++
	}
	e.mu.Unlock()
	if s == nil {
		return nil
	}
	defer e.leave(s)
	select {
	case s.lock <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer s.unlock()
	if s.loaded && !s.gone && p.Owns(s.state.User, s.state.Org) {
		f(s)
	}
	return nil
}

// Session returns the current state of a session.
func (e *Engine) Session(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.SessionInfo, error) {
	var info parley.SessionInfo
	if err := e.inMemory(ctx, p, id, func(s *session) { info = s.liveInfo() }); err != nil || info.ID != "" {
		return info, err
	}
	info, err := e.o.Store.Session(ctx, p, id)
	if isCode(err, parley.CodeNotFound) {
		return info, notFound("session", id)
	}
	return info, err
}

// liveInfo is the committed state plus what the running turn has used so far.
func (s *session) liveInfo() parley.SessionInfo {
	info := s.state.Info()
	if t := s.state.Turn; t != nil {
		info.Totals.Steps += t.Spent.Steps
		info.Totals.ToolCalls += t.Spent.ToolCalls
		info.Totals.Usage = info.Totals.Usage.Add(t.Spent.Usage)
		if t.Status == parley.StatusRunning && s.e.o.Reader.Streaming(s.id, t.ID) {
			info.Turn.Status = parley.StatusStreaming
		}
	}
	return info
}

// Sessions lists p's sessions, newest change first.
func (e *Engine) Sessions(ctx context.Context, p parley.Principal, q seam.SessionQuery) ([]parley.SessionInfo, error) {
	return e.o.Store.Sessions(ctx, p, q)
}

// SessionPage is Sessions with the mark of the next page, which is zero on the last page.
func (e *Engine) SessionPage(ctx context.Context, p parley.Principal, q seam.SessionQuery) ([]parley.SessionInfo, seam.SessionMark, error) {
	return page(q.After, q.Limit, q.Mark, func(after seam.SessionMark, limit int) ([]parley.SessionInfo, error) {
		q.After, q.Limit = after, limit
		return e.o.Store.Sessions(ctx, p, q)
	})
}

// page reads a page of a list and checks whether more follows, so that the last page has
// a zero mark and nobody is sent on to an empty page. A page of large rows may be shorter
// than its limit.
func page[Row, Mark any](after Mark, limit int, mark func(Row) Mark, list func(Mark, int) ([]Row, error)) (rows []Row, next Mark, err error) {
	if rows, err = list(after, limit); err != nil || len(rows) == 0 {
		return rows, next, err
	}
	end := mark(rows[len(rows)-1])
	if more, err := list(end, 1); err != nil || len(more) == 0 {
		return rows, next, err
	}
	return rows, end, nil
}

// Alias finds the session that p knows under an outside id in an app.
func (e *Engine) Alias(ctx context.Context, p parley.Principal, app, outside string) (parley.SessionID, error) {
	return e.o.Store.Alias(ctx, p, app, e.aliasOf(outside))
}

// Turn returns the current state of a turn; its status is streaming while text arrives.
func (e *Engine) Turn(ctx context.Context, p parley.Principal, id parley.TurnID) (parley.TurnInfo, error) {
	row, err := e.o.Store.Turn(ctx, p, id)
	if isCode(err, parley.CodeNotFound) {
		return row, notFound("turn", id)
	}
	if err == nil && row.Status.Ended() {
		return row, e.markRewound(ctx, p, row.SessionID, &row)
	}
	if err != nil {
		return row, err
	}
	err = e.inMemory(ctx, p, row.SessionID, func(s *session) {
		if t := s.state.Turn; t != nil && t.ID == id {
			if row = *turnInfo(s.state); t.Status == parley.StatusInterrupted {
				if kept, err := e.o.Store.Turn(ctx, p, id); err == nil {
					row = kept // which has the reason
				}
			}
			row.Spent.RanMS = t.Ran(e.now()).Milliseconds()
			if t.Status == parley.StatusRunning && e.o.Reader.Streaming(s.id, id) {
				row.Status = parley.StatusStreaming
			}
		}
	})
	if err == nil && row.Status == parley.StatusRunning {
		// It may have ended between the two reads.
		if now, err := e.o.Store.Turn(ctx, p, id); err == nil && now.Status.Ended() {
			return now, nil
		}
	}
	return row, err
}

// Turns lists turns, newest first.
func (e *Engine) Turns(ctx context.Context, p parley.Principal, q seam.TurnQuery) ([]parley.TurnInfo, error) {
	if q.Session != "" {
		if _, err := e.Session(ctx, p, q.Session); err != nil {
			return nil, err
		}
	}
	list, err := e.o.Store.Turns(ctx, p, q)
	if err != nil || q.Session == "" {
		return list, err
	}
	rows := make([]*parley.TurnInfo, len(list))
	for i := range list {
		rows[i] = &list[i]
	}
	return list, e.markRewound(ctx, p, q.Session, rows...)
}

// markRewound marks the turns of a session that rewinds took back.
func (e *Engine) markRewound(ctx context.Context, p parley.Principal, id parley.SessionID, rows ...*parley.TurnInfo) error {
	info, err := e.Session(ctx, p, id)
	if isCode(err, parley.CodeNotFound) {
		return nil // deleted just now
	}
	if err != nil || info.Rewound == nil {
		return err
	}
	st, err := e.State(ctx, p, id)
	if isCode(err, parley.CodeNotFound) {
		return nil
	}
	for _, row := range rows {
		if row.Status.Ended() {
			row.Rewound = st.Skipped(row.FirstSeq)
		}
	}
	return err
}

// TurnPage is Turns with the mark of the next page, which is zero on the last page.
func (e *Engine) TurnPage(ctx context.Context, p parley.Principal, q seam.TurnQuery) ([]parley.TurnInfo, seam.TurnMark, error) {
	return page(q.After, q.Limit, q.Mark, func(after seam.TurnMark, limit int) ([]parley.TurnInfo, error) {
		q.After, q.Limit = after, limit
		return e.Turns(ctx, p, q)
	})
}

// Rules lists the rules granted for a session, oldest first.
func (e *Engine) Rules(ctx context.Context, p parley.Principal, id parley.SessionID) ([]parley.Rule, error) {
	st, err := e.State(ctx, p, id)
	return st.Rules, err
}

// Queue lists the queued turns, first to run first.
func (e *Engine) Queue(ctx context.Context, p parley.Principal, id parley.SessionID) ([]parley.QueuedTurn, error) {
	st, err := e.State(ctx, p, id)
	return append([]parley.QueuedTurn{}, st.Queue...), err
}

// Commands lists the slash commands available to a session's user in its workspace. The list is
// empty if the session's app is off.
func (e *Engine) Commands(ctx context.Context, p parley.Principal, id parley.SessionID) ([]parley.SlashCommand, error) {
	list := []parley.SlashCommand{}
	err := e.inScope(ctx, p, id, func(in *scope.Resolved) error {
		list = append(list, in.Commands()...)
		return nil
	})
	if isCode(err, parley.CodeConflict) {
		err = nil
	}
	return list, err
}

// AppCommands lists the slash commands that a new session of the app would have in a workspace;
// empty: the app's default. It makes no session.
func (e *Engine) AppCommands(ctx context.Context, p parley.Principal, app string, workspace parley.Workspace) ([]parley.SlashCommand, error) {
	at, err := e.newScope(p, app, workspace)
	if err != nil {
		return nil, err
	}
	in, err := e.scopes.Resolve(ctx, at)
	if err != nil {
		return nil, err
	}
	defer in.Release()
	return in.Commands(), nil
}

// newScope is the scope of a new session of the app; workspace is the one that its creator names.
func (e *Engine) newScope(p parley.Principal, app string, workspace parley.Workspace) (at seam.Scope, err error) {
	a, err := e.app(app)
	if err != nil {
		return at, err
	}
	space, _, err := workspaceOf(p, a, workspace)
	return seam.Scope{Principal: p, App: app, Workspace: space}, err
}

// Approvals lists what the files of a session's user and workspace would run, and the decision
// about each.
func (e *Engine) Approvals(ctx context.Context, p parley.Principal, id parley.SessionID) (list []parley.Approval, err error) {
	err = e.inScope(ctx, p, id, func(in *scope.Resolved) error {
		list = in.Approvals(ctx)
		return nil
	})
	return list, err
}

// Approve stores the decision of the session's user about one of them. Only a person gives it:
// no tool, mode or rule can.
func (e *Engine) Approve(ctx context.Context, p parley.Principal, id parley.SessionID, d parley.Digest, c parley.DecideApproval) (a parley.Approval, err error) {
	c.By = p.User
	err = e.inScope(ctx, p, id, func(in *scope.Resolved) error {
		a, err = in.Approve(ctx, d, c)
		return err
	})
	return a, err
}

// inScope calls f with the resolved scope of a session. It returns CodeConflict if the
// session's app is off.
func (e *Engine) inScope(ctx context.Context, p parley.Principal, id parley.SessionID, f func(in *scope.Resolved) error) error {
	info, err := e.Session(ctx, p, id)
	if err != nil {
		return err
	}
	if _, err := e.appOf(info.App); err != nil {
		return err
	}
	in, err := e.scopes.Resolve(ctx, seam.Scope{Principal: parley.Principal{User: info.User, Org: info.Org}, App: info.App, Workspace: info.Workspace})
	if err != nil {
		return err
	}
	defer in.Release()
	return f(in)
}

// Interaction returns an interaction and its status.
func (e *Engine) Interaction(ctx context.Context, p parley.Principal, id parley.InteractionID) (seam.InteractionRow, error) {
	row, err := e.o.Store.Interaction(ctx, p, id)
	if isCode(err, parley.CodeNotFound) {
		return row, notFound("interaction", id)
	}
	return row, err
}

// Interactions lists the open interactions in all of p's sessions, oldest first.
func (e *Engine) Interactions(ctx context.Context, p parley.Principal, limit int) ([]seam.InteractionRow, error) {
	return e.o.Store.Interactions(ctx, p, seam.InteractionQuery{Limit: limit})
}

// Inbox is the page of Interactions after a mark, with the mark of the next page, which
// is zero on the last page.
func (e *Engine) Inbox(ctx context.Context, p parley.Principal, from seam.InteractionMark, limit int) ([]seam.InteractionRow, seam.InteractionMark, error) {
	var q seam.InteractionQuery
	return page(from, limit, q.Mark, func(after seam.InteractionMark, limit int) ([]seam.InteractionRow, error) {
		q.After, q.Limit = after, limit
		return e.o.Store.Interactions(ctx, p, q)
	})
}

// Artifact returns a large result that is stored separately.
func (e *Engine) Artifact(ctx context.Context, p parley.Principal, id parley.ArtifactID) (seam.Artifact, []byte, error) {
	a, err := e.o.Store.Artifact(ctx, p, id)
	if isCode(err, parley.CodeNotFound) {
		return a, nil, notFound("artifact", id)
	}
	if err != nil {
		return a, nil, err
	}
	body, err := e.bytesOf(ctx, p, a)
	return a, body, err
}

// artifactOf finds an artifact of a session. A fork has the artifacts of its parent as its own.
func (e *Engine) artifactOf(ctx context.Context, p parley.Principal, session parley.SessionID, id parley.ArtifactID) (seam.Artifact, error) {
	a, err := e.o.Store.Artifact(ctx, p, id)
	if err != nil || a.Session == session {
		return a, err
	}
	list, err := e.o.Store.Artifacts(ctx, p, session)
	if i := slices.IndexFunc(list, func(a seam.Artifact) bool { return a.ID == id }); i >= 0 {
		return list[i], err
	}
	if err == nil {
		err = notFound("artifact", id)
	}
	return seam.Artifact{}, err
}

// bytesOf reads the bytes of an artifact.
func (e *Engine) bytesOf(ctx context.Context, p parley.Principal, a seam.Artifact) ([]byte, error) {
	body, err := e.o.Store.Blob(ctx, p, a.Session, a.SHA256)
	if isCode(err, parley.CodeNotFound) && e.o.Archive != nil { // it was removed with the steps of its turn
		body, err = e.o.Archive.Blob(ctx, a.Session, a.SHA256)
	}
	if isCode(err, parley.CodeNotFound) {
		err = parley.Errorf(parley.CodeCondensed, "the bytes of artifact %s were removed with the steps of its turn", a.ID).
			WithHint("the archive does not have them either")
	}
	return body, err
}

// InMemory counts the sessions that are loaded.
func (e *Engine) InMemory() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.sessions)
}
