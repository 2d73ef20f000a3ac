package eventlog

import (
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/redact"
)

// ownSecrets are secrets that only one session may contain, such as the credentials of its
// turns. Other sessions are not searched for them: what is redacted in a text tells its
// writer that it is a secret.
type ownSecrets struct {
	mu sync.RWMutex
	of map[parley.SessionID]*redact.Redactor
}

// redactor is the one for texts of a session.
func (l *log) redactor(session parley.SessionID) *redact.Redactor {
	l.own.mu.RLock()
	defer l.own.mu.RUnlock()
	if r := l.own.of[session]; r != nil {
		return r
	}
	return l.red
}

// Hide makes values secrets of a session, in place of those that were its secrets before:
// later events, files and fragments of the session are searched for them, in the middle of
// a streamed text as well, and so are the lines of a log behind the same redactor
// ([redact.Redactor.Writer]). Without values, the session has no secrets of its own. Calls
// for one session must be made one after the other.
func (w *Writer) Hide(session parley.SessionID, values ...string) {
	l := w.l
	var red *redact.Redactor
	if len(values) > 0 {
		red = l.red.With(values...)
	}
	l.own.mu.Lock()
	old := l.own.of[session]
	switch {
	case red == nil:
		delete(l.own.of, session)
	case l.own.of == nil:
		l.own.of = map[parley.SessionID]*redact.Redactor{session: red}
	default:
		l.own.of[session] = red
	}
	l.own.mu.Unlock()
	if red == nil {
		red = l.red
	}
	if h := l.hubs.lock(session, false); h != nil {
		for _, c := range h.calls {
			for _, t := range c.kinds {
				t.in.Use(red)
			}
		}
		h.mu.Unlock()
	}
	if old != nil {
		old.End()
	}
}
