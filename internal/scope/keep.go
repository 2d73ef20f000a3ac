package scope

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// kept is a scope whose toolsets are open, or being opened.
type kept struct {
	scope seam.Scope

	work   chan struct{} // capacity 1: held by who opens, lists or closes
	opened bool          // guarded by work
	sets   []seam.Toolset
	failed bool // a source failed

	// Guarded by Scopes.mu.
	made    *made // nil: nothing was listed yet
	lacking bool  // something was left out
	holders int
	left    time.Time // when there was last a holder
	timer   *time.Timer
}

var errClosed = parley.Errorf(parley.CodeUnavailable, "the server is shutting down").WithHint("try again in a moment").WithRetry(2 * time.Second)

// hold counts a holder of the scope, and begins to keep the scope if nobody held it. If the
// scope has its own tools, they are not made yet in the result.
func (s *Scopes) hold(at seam.Scope) (*Resolved, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.apps[at.App]
	if a == nil {
		return nil, parley.Errorf(parley.CodeNotFound, "there is no app %q", at.App)
	}
	r := &Resolved{scopes: s, app: a, made: a.plain, space: at.Workspace, owner: at.Principal}
	if len(a.Sources) == 0 {
		a.holders++
		return r, nil
	}
	if s.closed {
		return nil, errClosed
	}
	k := s.kept[at]
	if k == nil {
		k = &kept{scope: at, work: make(chan struct{}, 1)}
		s.kept[at] = k
	}
	k.hold()
	a.holders++
	r.made, r.kept = nil, k
	return r, nil
}

// hold is called with Scopes.mu held.
func (k *kept) hold() {
	k.holders++
	if k.timer != nil {
		k.timer.Stop()
		k.timer = nil
	}
}

// release counts one holder less. A scope without holders is closed after a while. It is closed
// at once if it is incomplete, so that the next holder tries again, or if its app was replaced.
// It is called with mu held.
func (s *Scopes) release(k *kept) {
	k.holders--
	if k.holders == 0 && s.gone[k] {
		s.drop(k)
	}
	if k.holders > 0 || s.kept[k.scope] != k {
		return
	}
	if k.lacking {
		s.drop(k)
		return
	}
	k.left = time.Now()
	k.timer = time.AfterFunc(s.o.Idle, func() { s.idle(k) })
	var idle []*kept
	for _, other := range s.kept {
		if other.holders == 0 {
			idle = append(idle, other)
		}
	}
	if len(idle) > s.o.MostIdle {
		s.drop(slices.MinFunc(idle, func(a, b *kept) int { return a.left.Compare(b.left) }))
	}
}

// idle drops a scope that nobody has held for a while.
func (s *Scopes) idle(k *kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.holders == 0 && s.kept[k.scope] == k && time.Since(k.left) >= s.o.Idle {
		s.drop(k)
	}
}

// drop forgets a scope and closes its toolsets. It is called with mu held.
func (s *Scopes) drop(k *kept) {
	delete(s.gone, k)
	if s.kept[k.scope] == k {
		delete(s.kept, k.scope)
	}
	if k.timer != nil {
		k.timer.Stop()
		k.timer = nil
	}
	s.work.Go(func() {
		k.work <- struct{}{} // for good: nothing is made of it any more
		for _, set := range k.sets {
			if c, ok := set.(io.Closer); ok {
				if err := guarded(c.Close); err != nil {
					s.o.Logger.Warn("a toolset did not close well", "app", k.scope.App, "user", k.scope.Principal.User, "workspace", k.scope.Workspace, "err", err)
				}
			}
		}
	})
}

// make returns what a held scope resolves to now, and lists its tools if that has to be
// done. Who waits for that leaves when ctx ends.
func (s *Scopes) make(ctx context.Context, a *app, k *kept) (*made, error) {
	select {
	case k.work <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.ctx.Done():
		return nil, errClosed
	}
	s.mu.Lock()
	m, closed := k.made, s.closed
	if closed || m != nil && !stale(k.sets) && slices.Equal(m.changes, changesOf(k.sets)) {
		s.mu.Unlock()
		<-k.work
		if closed {
			return nil, errClosed
		}
		return m, nil
	}
	done := make(chan *made, 1)
	s.work.Go(func() { // with mu held, so that Close waits for it
		defer func() { <-k.work }()
		done <- s.list(a, k)
	})
	s.mu.Unlock()
	select {
	case m := <-done:
		return m, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// list opens the scope's toolsets, if they are not, and resolves the app with their tools.
func (s *Scopes) list(a *app, k *kept) *made {
	ctx, cancel := context.WithTimeout(s.ctx, s.o.Within)
	defer cancel()
	log := s.o.Logger.With("app", k.scope.App, "user", k.scope.Principal.User, "workspace", k.scope.Workspace)
	for _, open := range a.Sources {
		if k.opened {
			break
		}
		var sets []seam.Toolset
		err := guarded(func() (err error) {
			sets, err = open(ctx, Place{k.scope, a.Folders})
			return err
		})
		if err != nil {
			k.failed = true
			log.Warn("tools of a scope could not be opened", "err", err)
		}
		k.sets = append(k.sets, sets...)
	}
	k.opened = true
	for _, set := range k.sets {
		if r, ok := set.(seam.Refresher); ok && r.Stale() {
			if err := guarded(func() error { r.Refresh(ctx); return nil }); err != nil {
				log.Warn("a scope's tools could not look for changes", "err", err)
			}
		}
	}
	s.mu.Lock()
	m := k.made
	s.mu.Unlock()
	if m != nil && slices.Equal(m.changes, changesOf(k.sets)) {
		return m
	}
	m, left := s.resolved(ctx, a, k.sets)
	for _, err := range left {
		log.Warn("something of a scope is left out", "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k.made, k.lacking = m, k.failed || len(left) > 0
	return m
}

// resolved resolves the app with the tools of further toolsets. The errors say what was
// left out.
func (s *Scopes) resolved(ctx context.Context, a *app, sets []seam.Toolset) (m *made, left []error) {
	m = &made{app: a.plain.app, digest: a.plain.digest, body: a.plain.body, tools: a.plain.tools, changes: changesOf(sets)}
	m.tools, left = a.Tools.With(ctx, versions(ctx, sets))
	if len(sets) == 0 || a.With == nil {
		return m, left
	}
	app, err := a.With(m.tools.Decls())
	if err == nil {
		instruct(&app, sets)
		var own *made
		if own, err = s.seal(app, m.tools); err == nil {
			own.changes = m.changes
			return own, left
		}
	}
	return m, append(left, err)
}

// versions returns the current versions of the toolsets.
func versions(ctx context.Context, sets []seam.Toolset) []seam.Toolset {
	list := slices.Clone(sets)
	for i, set := range list {
		if v, ok := set.(seam.Versioned); ok {
			if err := guarded(func() error { _, err := v.Tools(ctx); return err }); err == nil {
				list[i] = v.Now()
			}
		}
	}
	return list
}

// instruct adds the toolsets' instructions to the prompts of all agents.
func instruct(app *parley.App, sets []seam.Toolset) {
	more := ""
	for _, set := range sets {
		if in, ok := set.(seam.Instructor); ok {
			if text := in.Instructions(); text != "" {
				more += "\n\n" + text
			}
		}
	}
	if more == "" {
		return
	}
	app.Agents = maps.Clone(app.Agents)
	for name, def := range app.Agents {
		def.Prompt += "\n\nThese instructions come from files, the nearest last. Where two contradict each other, the later one counts." + more
		app.Agents[name] = def
	}
}

// stale reports whether a toolset should look for changes.
func stale(sets []seam.Toolset) bool {
	return slices.ContainsFunc(sets, func(set seam.Toolset) bool {
		r, ok := set.(seam.Refresher)
		return ok && r.Stale()
	})
}

// changesOf counts the changes of each toolset.
func changesOf(sets []seam.Toolset) []int64 {
	list := make([]int64, len(sets))
	for i, set := range sets {
		if c, ok := set.(seam.Changer); ok {
			list[i] = c.Changes()
		}
	}
	return list
}

// guarded makes a panic of a toolset an error, since it belongs to one user only.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

// Close closes all toolsets and makes no more. What is held stays in its holders' hands,
// but its toolsets are closed. It waits for them until ctx ends.
func (s *Scopes) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	for _, k := range s.kept {
		s.drop(k)
	}
	for k := range s.gone {
		s.drop(k)
	}
	s.mu.Unlock()
	s.stop()
	done := make(chan struct{})
	go func() { s.work.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
