package engine

import (
	"context"

	"github.com/parley-server/parley"
)

// State returns a session's fold as of its last commit. It neither loads nor claims the
// session.
func (e *Engine) State(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.Session, error) {
	var st parley.Session
	if err := e.inMemory(ctx, p, id, func(s *session) { st = *s.state.Clone() }); err != nil || st.ID != "" {
		return st, err
	}
	if _, err := e.o.Store.Session(ctx, p, id); err != nil {
		if isCode(err, parley.CodeNotFound) {
			return st, notFound("session", id)
		}
		return st, err
	}
	st, _, err := e.fold(ctx, p, id)
	return st, err
}
