package eventlog

import (
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/redact"
)

// ownSecrets are secrets of single sessions, such as the credentials of their turns. Only the
// session's own texts are searched for them. If other sessions were searched too, a writer
// could guess a secret by seeing what is redacted.
type ownSecrets struct {
	mu sync.RWMutex
	of map[parley.SessionID]*redact.Redactor
}

// redactor returns the redactor for texts of a session.
func (l *log) redactor(session parley.SessionID) *redact.Redactor {
	l.own.mu.RLock()
	defer l.own.mu.RUnlock()
	if r := l.own.of[session]; r != nil {
		return r
	}
	return l.red
}

// Hide replaces the secrets of a session by values. The session's later events, files and text
// fragments are searched for them, even if a stream has already begun. Lines of a log that uses
// the same redactor ([redact.Redactor.Writer]) are searched too. Without values, the session
// has no secrets of its own. Calls for the same session must not be concurrent.
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
