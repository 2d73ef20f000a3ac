package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

// ready is acquire for commands that may begin or continue a turn: it returns the session
// with what its scope resolves to. To open the scope's tools can take long, and the
// session is not locked meanwhile.
func (e *Engine) ready(ctx context.Context, p parley.Principal, id parley.SessionID) (*session, error) {
	s, err := e.acquire(ctx, p, id)
	if err != nil {
		return nil, err
	}
	if _, err := e.appOf(s.view.App); err != nil {
		return s, nil // the command says what it cannot do without the app
	}
	if s.resolves() && !s.tools.Stale() {
		return s, nil
	}
	at := s.scope()
	s.release()
	tools, err := e.scopes.Resolve(ctx, at)
	if err != nil {
		return nil, err
	}
	if s, err = e.acquire(ctx, p, id); err != nil || s.tools != nil {
		tools.Release()
		return s, err
	}
	s.tools = tools // if they have changed again, the next command sees it: this one must come to an end
	return s, nil
}

// scope is what the session's app and tools are resolved for. It never changes.
func (s *session) scope() seam.Scope {
	return seam.Scope{Principal: s.view.Principal(), App: s.view.App, Workspace: s.view.Workspace}
}

// resolves makes tools what the session's scope resolves to, until unlock. It reports
// whether that was possible at once. The caller holds the lock.
func (s *session) resolves() bool {
	if s.tools == nil {
		s.tools, _ = s.e.scopes.Ready(s.scope())
	}
	return s.tools != nil
}

// box returns the tools that the session's calls are checked against. They are the tools of the
// command that holds the lock, or else of the running turn, or else those that every scope of
// the app has. The tools that the caller of the open turn offered are added.
func (s *session) box() *toolbox.Box {
	switch {
	case s.tools != nil:
		return boxWith(s.tools.Tools(), s.view.Turn)
	case s.run != nil:
		return s.run.box
	}
	if app, ok := s.e.scopes.App(s.view.App); ok {
		return boxWith(app.Tools(), s.view.Turn)
	}
	return &toolbox.Box{} // the app is off
}

// inside is the input of a call with its path relative to the workspace: see scope.Resolved.Placed.
// Without the tools of the session's scope it stays as it is.
func (s *session) inside(d parley.ToolDecl, input json.RawMessage) json.RawMessage {
	switch {
	case s.tools != nil:
		return s.tools.Placed(d, input)
	case s.run != nil:
		return s.run.tools.Placed(d, input)
	}
	return input
}

var errNoTools = parley.Errorf(parley.CodeUnavailable, "the tools of the session are being opened").WithHint("try again in a moment").WithRetry(time.Second)

// workspaceOf is the workspace that a new session of the app gets: the one that was asked
// for, or else the app's default. The error names the field.
func workspaceOf(p parley.Principal, a *scope.Resolved, asked parley.Workspace) (w parley.Workspace, readOnly bool, err error) {
	in := a.Folders()
	if w = asked; w == "" {
		if w, err = in.Choose(p); w == "" || err != nil {
			return "", false, err
		}
	}
	if err := in.Check(p, w); err != nil {
		return "", false, err
	}
	return w, in.ReadOnly(w), nil
}
