package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/parley-server/parley"
)

const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// Files of ours in a repository's folder .git.
const (
	lockName    = "parley.lock"        // locked while something is changed
	remoteName  = "parley-remote.lock" // locked while the remote is spoken with
	advanceName = "parley-advance"     // what a change of the branch was about to be
	indexName   = "parley-index"       // an index that is about to be put into place
)

// lockPause is how long we wait between two looks at a lock. Whoever has it keeps it for some
// hundredths of a second.
const lockPause = 10 * time.Millisecond

// A lock is held by one holder among all processes. The kernel's lock goes with its process. The
// file is empty while nobody holds it, so a holder that died is noticed.
type lock struct {
	path string
	turn chan struct{} // holds one token: within this process whoever waits gets it in turn
}

func newLock(path string) *lock {
	l := &lock{path: path, turn: make(chan struct{}, 1)}
	l.turn <- struct{}{}
	return l
}

// held is a lock that is held.
type held struct {
	l    *lock
	f    *os.File
	died bool // the holder before died
}

// take waits for the lock.
func (l *lock) take(ctx context.Context) (*held, error) {
	select {
	case <-l.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for {
		f, err := l.try()
		if err == nil {
			h := &held{l: l, f: f}
			h.died, err = h.begin()
			if err == nil {
				return h, nil
			}
			h.release()
			return nil, err
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			l.turn <- struct{}{}
			return nil, parley.Errorf(parley.CodeUnavailable, "the repository cannot be locked: %w", err).WithHint("check who may write to its folder .git")
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			l.turn <- struct{}{}
			return nil, context.Cause(ctx)
		}
	}
}

// try takes the kernel's lock, or returns EWOULDBLOCK.
func (l *lock) try() (_ *os.File, err error) {
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|noFollow, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	is, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !is.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", filepath.Base(l.path))
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	now, err := os.Lstat(l.path)
	if err == nil && !os.SameFile(is, now) || errors.Is(err, fs.ErrNotExist) {
		err = syscall.EWOULDBLOCK // it was replaced: others lock the new one
	}
	return f, err
}

// begin marks the lock as held. died reports whether it was marked already.
func (h *held) begin() (died bool, err error) {
	fi, err := h.f.Stat()
	if err != nil {
		return false, err
	}
	died = fi.Size() > 0
	if !died {
		_, err = fmt.Fprintf(h.f, "%d\n", os.Getpid())
		if err == nil {
			err = h.f.Sync()
		}
	}
	return died, err
}

// release gives the lock back. Whatever was begun is done.
func (h *held) release() {
	_ = h.f.Truncate(0)
	h.abandon()
}

// abandon gives the lock back as if this process had died. To close the file is not enough: a child
// that was forked and has not begun its program yet has the file, too, and with it the kernel's lock.
func (h *held) abandon() {
	_ = syscall.Flock(int(h.f.Fd()), syscall.LOCK_UN)
	_ = h.f.Close()
	h.l.turn <- struct{}{}
}

// ours is the content of an index.lock that we made. Git's own is empty or an index.
const ours = "parley: the index is being changed\n"

// indexWithin is how long we wait for somebody else's git. It holds the index while an editor is
// open for a message.
const indexWithin = 5 * time.Second

// lockIndex takes git's own lock of the index, so that a person's git and ours do not mix. The
// repository's lock is held.
func (r *Repo) lockIndex(ctx context.Context) (unlock func(), err error) {
	at := filepath.Join(r.gitDir, "index.lock")
	late := time.Now().Add(indexWithin)
	for {
		f, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL|noFollow, 0o644)
		if err == nil {
			_, err = f.WriteString(ours)
			if err = errors.Join(err, f.Close()); err != nil {
				_ = os.Remove(at)
				return nil, unavailable(err)
			}
			return func() { _ = os.Remove(at) }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, unavailable(err)
		}
		if isOurs(at) { // of one that died: we hold the lock under which it was made
			if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, unavailable(err)
			}
			continue
		}
		if time.Now().After(late) {
			return nil, parley.Errorf(parley.CodeUnavailable, "another git works in the repository: there is %s", at).
				WithHint("it is tried again; if no git runs there, remove that file")
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// isOurs reports whether an index.lock was made by us. It may be half written, or empty if the
// machine died.
func isOurs(at string) bool {
	f, err := os.OpenFile(filepath.Clean(at), os.O_RDONLY|noFollow, 0)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // nothing was written
	head, err := io.ReadAll(io.LimitReader(f, int64(len(ours))))
	return err == nil && len(head) > 0 && bytes.HasPrefix([]byte(ours), head)
}

// staleAfter is how long a lock of a ref stays unchanged before it counts as left by a git that
// died. A git that lives holds one for a thousandth of a second.
const staleAfter = 2 * time.Second

// tidy removes what a holder of the lock left behind when it died.
func (r *Repo) tidy(ctx context.Context) error {
	left := map[string]fs.FileInfo{}
	for _, at := range r.refLocks() {
		if fi, err := os.Lstat(at); err == nil {
			left[at] = fi
		}
	}
	if len(left) > 0 {
		select {
		case <-time.After(staleAfter):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for at, was := range left {
		now, err := os.Lstat(at)
		if err == nil && os.SameFile(was, now) && was.ModTime().Equal(now.ModTime()) {
			if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return unavailable(err)
			}
			r.log.Warn("git: a lock that a killed process left behind was removed", "lock", at)
		}
	}
	_ = os.Remove(filepath.Join(r.gitDir, indexName))
	if at := filepath.Join(r.gitDir, "index.lock"); isOurs(at) {
		_ = os.Remove(at) // or a person's git would wait for it
	}
	return nil
}

// refLocks are the locks of refs that our commands take.
func (r *Repo) refLocks() []string {
	list := []string{filepath.Join(r.gitDir, "HEAD.lock"), filepath.Join(r.gitDir, "packed-refs.lock")}
	for _, dir := range []string{"refs/heads", "refs/remotes"} {
		_ = filepath.WalkDir(filepath.Join(r.gitDir, filepath.FromSlash(dir)), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && filepath.Ext(path) == ".lock" {
				list = append(list, path)
			}
			return nil
		})
	}
	return list
}

func unavailable(err error) error { return parley.Errorf(parley.CodeUnavailable, "%w", err) }
