package scope

import (
	"context"
	"time"
)

const (
	// learnWithin limits an attempt to learn the tools of an app. It is long because npx may have to
	// download the server first.
	learnWithin = 60 * time.Second
	// waitWithin is how long of it the first turns wait. It is less than the 30 s after which many
	// clients give up a request.
	waitWithin = 25 * time.Second
)

// learned waits until the tools of an app are known or an attempt to learn them has failed, but
// not for longer than the first turns wait.
func (s *Scopes) learned(ctx context.Context, name string) error {
	s.mu.Lock()
	var wait <-chan struct{}
	var until time.Time
	if a := s.apps[name]; a != nil {
		if wait = s.learn(a); wait != nil {
			until = s.tried[a.Name].began.Add(waitWithin)
		}
	}
	s.mu.Unlock()
	if wait == nil {
		return nil
	}
	long := time.NewTimer(time.Until(until))
	defer long.Stop()
	select {
	case <-wait:
		return nil
	case <-long.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.ctx.Done():
		return errClosed
	}
}

// learn begins an attempt to learn the tools of an app if they are not known. It returns a
// channel that is closed when the attempt is over, or nil if nobody must wait for it. It is
// called with mu held.
func (s *Scopes) learn(a *app) <-chan struct{} {
	if a.Unknown == nil || s.closed || !a.Unknown() {
		return nil
	}
	t := s.tried[a.Name]
	if t == nil || closed(t.done) {
		t = &attempt{first: t == nil, began: time.Now(), done: make(chan struct{})}
		s.tried[a.Name] = t
		s.work.Go(func() {
			defer close(t.done)
			ctx, cancel := context.WithTimeout(s.ctx, learnWithin)
			defer cancel()
			if err := guarded(func() error { a.Learn(ctx); return nil }); err != nil {
				s.o.Logger.Error("the tools of an app could not be listed", "app", a.Name, "err", err)
			}
		})
	}
	if !t.first {
		return nil
	}
	return t.done
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
