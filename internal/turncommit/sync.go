package turncommit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/parley-server/parley/internal/gitrepo"
)

// syncer speaks with the remote, in one goroutine.
type syncer struct {
	c    *Commits
	wake chan struct{}

	mu     sync.Mutex
	repo   *gitrepo.Repo
	pull   bool          // what others pushed is wanted
	push   bool          // there is something to push
	last   time.Time     // the last time that it worked
	fails  bool          // the last time it did not work
	around chan struct{} // closed at the end of the next meeting with the remote
	tidied time.Time
}

func (s *syncer) init(c *Commits) {
	s.c, s.wake, s.around, s.push, s.tidied = c, make(chan struct{}, 1), make(chan struct{}), true, time.Now()
}

func (s *syncer) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *syncer) use(r *gitrepo.Repo) {
	s.mu.Lock()
	s.repo = r
	s.mu.Unlock()
	s.ring()
}

// want asks for what others have pushed, unless that was done a moment ago.
func (s *syncer) want() {
	s.mu.Lock()
	s.pull = s.pull || time.Since(s.last) > fresh
	s.mu.Unlock()
	s.ring()
}

func (s *syncer) pushSoon() {
	s.c.set(func(n *state) {
		if n.remote != "" {
			n.ahead++ // until the remote has been asked
		}
	})
	s.mu.Lock()
	s.push = true
	s.mu.Unlock()
	s.ring()
}

// await waits for what others have pushed, but not for a remote that is away.
func (s *syncer) await(ctx context.Context, within time.Duration) {
	s.mu.Lock()
	skip := s.repo == nil || s.fails || time.Since(s.last) <= fresh
	around := s.around
	s.pull = s.pull || !skip
	s.mu.Unlock()
	if skip {
		return
	}
	s.ring()
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-around:
	case <-late.C:
	case <-ctx.Done():
	case <-s.c.quit:
	}
}

// lastPush is how long the end of the server waits for a last push.
const lastPush = 3 * time.Second

func (s *syncer) run() {
	ctx := s.c.life
	retry := firstRetry
	var notBefore time.Time
	said := ""
	for {
		quitting := isClosed(s.c.quit)
		s.mu.Lock()
		repo, due := s.repo, s.repo != nil && (s.pull || s.push)
		if due && !time.Now().Before(notBefore) || quitting && due && !s.fails {
			s.pull, s.push = false, false
			s.mu.Unlock()
			work, cancel := ctx, context.CancelFunc(func() {})
			if quitting {
				work, cancel = context.WithTimeout(ctx, lastPush)
			}
			err := s.meet(work, repo)
			cancel()
			s.mu.Lock()
			s.fails = err != nil
			if err == nil {
				retry, notBefore, s.last = firstRetry, time.Time{}, time.Now()
			} else {
				notBefore, retry = time.Now().Add(retry), min(2*retry, lastRetry)
				s.push = true
			}
			close(s.around)
			s.around = make(chan struct{})
			s.mu.Unlock()
			said = s.say(err, said)
		} else {
			s.mu.Unlock()
		}
		if quitting || ctx.Err() != nil {
			return
		}
		wait, wake := time.Hour, s.wake
		if !notBefore.IsZero() {
			wait, wake = time.Until(notBefore), nil
		}
		t := time.NewTimer(wait)
		select {
		case <-wake:
		case <-t.C:
		case <-s.c.quit:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// meet pulls and pushes, and looks at what there is then.
func (s *syncer) meet(ctx context.Context, repo *gitrepo.Repo) error {
	got, err := repo.Pull(ctx)
	s.left(got)
	if err == nil && got.Remote {
		got, err = repo.Push(ctx)
		s.left(got)
	}
	if st, serr := repo.State(ctx); serr == nil {
		s.c.set(func(n *state) { n.ahead, n.kept, n.remote = st.Ahead, st.Kept, st.Remote })
	}
	if err == nil && time.Since(s.tidied) > tidyEvery {
		s.tidied = time.Now()
		if err := repo.Tidy(ctx); err != nil {
			s.c.o.Logger.Warn("git: the repository could not be packed", "err", err)
		}
	}
	return err
}

// left reports commits that did not fit.
func (s *syncer) left(got gitrepo.Synced) {
	for _, l := range got.Left {
		s.c.o.Logger.Warn("git: a commit does not fit what was pushed from elsewhere; it is kept on a branch of its own, and its changes are not in the folder",
			"branch", got.Branch, "commit", l.Hash[:10], "subject", l.Subject, "files", fmt.Sprint(l.Files), "turn", l.Trailers["Parley-Turn"],
			"hint", "bring it in by hand: git cherry-pick "+l.Hash[:10]+"; then delete the branch")
	}
}

// say logs that the remote is away once, and that it is back.
func (s *syncer) say(err error, before string) string {
	s.c.set(func(n *state) {
		if err == nil {
			n.away, n.since = nil, time.Time{}
			return
		}
		if n.away == nil {
			n.since = s.c.o.Now()
		}
		n.away = err
	})
	switch {
	case err == nil && before != "":
		s.c.o.Logger.Info("git: pulled and pushed again", "folder", s.c.o.Dir)
	case err != nil && err.Error() != before:
		s.c.o.Logger.Warn("git: not pulled or pushed; commits are kept, and it is tried again", "folder", s.c.o.Dir, "err", err)
	}
	if err == nil {
		return ""
	}
	return err.Error()
}
