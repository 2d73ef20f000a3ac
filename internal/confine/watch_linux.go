//go:build amd64 || arm64

package confine

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/parley-server/parley/internal/files"
)

const (
	// watchEvery is how often memory and processes are counted. A few thousand processes can be started in
	// that time; the namespace then ends as a whole.
	watchEvery = 50 * time.Millisecond
	// diskEvery is how often it is asked how much was written.
	diskEvery = 200 * time.Millisecond
	// lookEvery is how often all folders are looked at, and lookShare the largest part of the time that this takes.
	lookEvery = 2 * time.Second
	lookShare = 20
	// rewritten is how many times the disk space a command may write, counting what it overwrites
	// and removes: space that no name shows is limited by that.
	rewritten = 4
	// maxEnding is how long the processes may take to end when they are killed.
	maxEnding = 10 * time.Second
)

// watch looks at what the processes of the namespace use and make.
type watch struct {
	job   Job
	guard *guard
	ends  chan End // why the command has to end
	gone  chan struct{}
	stop  chan struct{}
	work  sync.WaitGroup

	notify *os.File       // inotify
	repos  map[int]string // by watch: folders of repositories
}

// newWatch begins to watch. s is what was found in the workspace before the command.
func newWatch(j Job, start Start, s *survey) (*watch, error) {
	w := &watch{job: j, ends: make(chan End, 1), gone: make(chan struct{}), stop: make(chan struct{}), repos: map[int]string{}}
	if !j.Workspace.ReadOnly {
		root, err := os.OpenRoot(Workspace)
		if err != nil {
			return nil, err
		}
		w.guard = &guard{root: root, names: len(j.Guarded) > 0, start: start}
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return nil, fmt.Errorf("watch the workspace: %w", err)
		}
		if _, err := unix.InotifyAddWatch(fd, Workspace, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR); err != nil {
			return nil, fmt.Errorf("watch the workspace: %w", err)
		}
		w.notify = os.NewFile(uintptr(fd), "inotify")
		for _, dir := range s.repos {
			w.add(dir)
		}
		w.work.Go(w.names)
	}
	w.work.Go(w.disk)
	return w, nil
}

// end ends the command, unless something else does so already.
func (w *watch) end(e End) {
	e.Code = 128 + int(unix.SIGKILL)
	select {
	case w.ends <- e:
	default:
	}
}

func (w *watch) fail(err error) { w.end(End{Limit: LimitWatch, Name: err.Error()}) }

// add watches the folder of a repository and its hooks. One that is gone again needs no watch; if there
// can be no more watches, the next look at all folders finds what changes.
func (w *watch) add(dir string) {
	const changes = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW
	for _, sub := range []string{dir, path.Join(dir, "hooks")} {
		if wd, err := unix.InotifyAddWatch(int(w.notify.Fd()), path.Join(Workspace, sub), changes); err == nil {
			w.repos[wd] = dir
		}
	}
}

// names reads the names that appear in the workspace and in repositories.
func (w *watch) names() {
	buf := make([]byte, 64<<10)
	for {
		n, err := w.notify.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil || n <= 0 {
			w.fail(fmt.Errorf("read what changes in the workspace: %w", err))
			return
		}
		suspects := map[string]bool{}
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			ev := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at]))
			at += unix.SizeofInotifyEvent
			name := strings.TrimRight(string(buf[at:at+int(ev.Len)]), "\x00")
			at += int(ev.Len)
			dir, repo := w.repos[int(ev.Wd)]
			switch {
			case ev.Mask&unix.IN_Q_OVERFLOW != 0:
				suspects["."] = true
			case repo:
				suspects[dir] = true
			case files.IsGit(name):
				w.add(name)
				suspects[name] = true
			case w.guard.names && files.Guarded(name) && w.guard.there(name) && !w.guard.was(name):
				w.end(End{Limit: LimitGuarded})
				return
			}
		}
		for dir := range suspects {
			w.suspect(dir)
		}
	}
}

// suspect looks at a repository that has changed, and at the whole workspace if anything is wrong. A
// program may be about to write a file, so it is looked at twice.
func (w *watch) suspect(dir string) {
	if dir != "." {
		w.add(dir)
		if name, err := w.guard.badRepo(dir, 0); name == "" && err == nil {
			return
		}
	}
	select {
	case <-time.After(watchEvery):
	case <-w.stop:
		return // there is a last look
	}
	s, err := look(Workspace)
	if err != nil {
		w.fail(err)
		return
	}
	w.judge(s)
}

// judge ends the command if the workspace has what must not stay.
func (w *watch) judge(s *survey) {
	switch name, err := w.guard.bad(s); {
	case err != nil:
		w.fail(err)
	case name != "":
		w.end(End{Limit: LimitGuarded})
	}
}

// disk looks at all folders every now and then, and when much was written.
func (w *watch) disk() {
	tick := time.NewTicker(diskEvery)
	defer tick.Stop()
	last, cost, before := time.Now(), time.Duration(0), int64(0)
	for {
		select {
		case <-tick.C:
		case <-w.stop:
			return
		}
		n, counted, err := written()
		if err != nil {
			w.fail(err)
			return
		}
		if n > rewritten*w.job.Limits.Disk {
			w.end(End{Limit: LimitDisk})
			return
		}
		since := time.Since(last)
		much := since > 5*cost && (!counted || n-before > w.job.Limits.Disk/8)
		if !much && since < max(lookEvery, lookShare*cost) {
			continue
		}
		began := time.Now()
		s, over, err := w.space()
		if err != nil {
			w.fail(err)
			return
		}
		if over {
			w.end(End{Limit: LimitDisk})
			return
		}
		if s != nil {
			if name, err := w.guard.bad(s); name != "" || err != nil {
				w.suspect(".")
			}
		}
		last, cost, before = time.Now(), time.Since(began), n
	}
}

// space looks at the folders of the command, and reports whether they hold more than they may.
func (w *watch) space() (s *survey, over bool, err error) {
	if !w.job.Workspace.ReadOnly {
		if s, err = look(Workspace); err != nil {
			return nil, false, err
		}
	}
	if w.guard != nil && w.guard.start.Full {
		return s, false, nil // it only gets less
	}
	tmp, err := look(Temporary)
	if err != nil {
		return nil, false, err
	}
	n, err := unlinked()
	if n += tmp.bytes; s != nil {
		n += s.bytes
	}
	return s, n > w.job.Limits.Disk, err
}

// over says which limit is exceeded now, or "".
func (w *watch) over() (Limit, error) {
	u, err := usage(w.job.Limits.Processes)
	switch l := w.job.Limits; {
	case err != nil:
		return LimitWatch, err
	case u.threads > l.Processes:
		return LimitProcesses, nil
	case u.memory > l.Memory:
		return LimitMemory, nil
	case u.files > maxFiles:
		return LimitFiles, nil
	}
	return "", nil
}

// last ends all processes, and takes a last look at the folders.
func (w *watch) last(e End) End {
	_ = unix.Kill(-1, unix.SIGKILL)
	select {
	case <-w.gone:
	case <-time.After(maxEnding):
		e.Limit, e.Name = LimitWatch, "a process does not end"
	}
	close(w.stop)
	if w.notify != nil {
		_ = w.notify.Close()
	}
	w.work.Wait()
	if w.guard == nil {
		return e
	}
	e.Full = w.guard.start.Full
	name, moved, s, err := w.guard.settle(Workspace)
	over := false
	if err == nil && e.Limit == "" && !e.Full {
		var tmp *survey
		tmp, err = look(Temporary)
		over = s.bytes+tmp.bytes > w.job.Limits.Disk
	}
	switch {
	case name != "":
		e.Limit, e.Name, e.Moved = LimitGuarded, name, moved
	case err != nil:
		e.Limit, e.Name = LimitWatch, err.Error()
	case over:
		e.Limit = LimitDisk
	}
	return e
}
