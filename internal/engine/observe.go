package engine

import (
	"bytes"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// Observation is something that happened outside Parley to a thing that an app's tools
// deal with.
type Observation struct {
	App    string
	Source string // who saw it, such as homeassistant
	Ref    string // what it happened to, as tools name it, such as light.kitchen
	Text   string
	At     time.Time
}

const (
	// maxObserved limits the observations recorded in one turn: a flickering lamp must
	// not fill its log.
	maxObserved = 32
	// observeQueue is how many observations may wait. Further ones are dropped: they are
	// news, not history.
	observeQueue = 256
)

// Observe records o in the running turns of its app that concern it: those whose message,
// tool calls or snippets name it. It never blocks, and drops observations that come too
// fast. Safe for concurrent use.
func (e *Engine) Observe(o Observation) {
	select {
	case e.observed <- o:
	default:
	}
}

func (e *Engine) watchObserved() {
	e.tasks.Go(func() {
		for {
			select {
			case <-e.boot.Done():
				return
			case o := <-e.observed:
				for _, s := range e.inUse() {
					s.observe(o)
				}
			}
		}
	})
}

// inUse returns the sessions that somebody holds, and holds each of them.
func (e *Engine) inUse() []*session {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running == 0 {
		return nil
	}
	var list []*session
	for _, s := range e.sessions {
		if s.refs > 0 {
			s.refs++
			list = append(list, s)
		}
	}
	return list
}

func (s *session) observe(o Observation) {
	defer s.e.leave(s)
	select {
	case s.lock <- struct{}{}:
	case <-s.e.boot.Done():
		return
	}
	defer s.unlock()
	t := s.view.Turn
	if s.gone || s.run == nil || s.view.App != o.App || t == nil || t.ID != s.run.turn || t.Observed >= maxObserved || !concerns(t, o.Ref) {
		return
	}
	s.logged("note what was observed", s.stageSoon(parley.NewEvent(t.ID, t.Active, parley.ContextObserved{
		Source: o.Source, Ref: o.Ref, Text: o.Text, At: o.At,
	})))
}

// concerns reports whether the turn names ref as a whole word.
func concerns(t *parley.Turn, ref string) bool {
	if ref == "" {
		return false
	}
	if names(t.Request.Message.Text(), ref) {
		return true
	}
	quoted := []byte(`"` + ref + `"`)
	for _, c := range t.Tools.All() {
		if bytes.Contains(c.Input, quoted) {
			return true
		}
	}
	for _, sn := range t.Snippets {
		if sn.Ref == ref {
			return true
		}
	}
	return false
}

// names reports whether text contains ref with no letter or digit on either side.
func names(text, ref string) bool {
	for from := 0; ; {
		at := strings.Index(text[from:], ref)
		if at < 0 {
			return false
		}
		at += from
		end := at + len(ref)
		if (at == 0 || !wordByte(text[at-1])) && (end == len(text) || !wordByte(text[end])) {
			return true
		}
		from = at + 1
	}
}

func wordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}
