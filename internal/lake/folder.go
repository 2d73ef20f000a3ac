package lake

import (
	"os"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
)

// folder is the folder of a lake. It is open while somebody uses it, and afterwards unless it rests.
type folder struct {
	dir string
	is  os.FileInfo

	mu      sync.Mutex
	root    *os.Root // nil: not open
	users   int
	resting bool
	ended   bool
	idle    chan struct{} // closed when an ended one has no users any more
}

// use opens the folder, until done is called. Another folder at its path is not it.
func (f *folder) use() (tree files.Tree, done func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return tree, nil, parley.Errorf(parley.CodeUnavailable, "the lake was closed, or its folder was replaced by another").WithHint("open it again")
	}
	if f.root == nil {
		root, err := os.OpenRoot(f.dir)
		if err != nil {
			return tree, nil, parley.Errorf(parley.CodeUnavailable, "the lake's folder cannot be opened: %w", err)
		}
		now, err := root.Stat(".")
		if err != nil || !os.SameFile(f.is, now) {
			_ = root.Close()
			return tree, nil, parley.Errorf(parley.CodeUnavailable, "the lake's folder was replaced by another").WithHint("open it again")
		}
		f.root = root
	}
	f.users++
	return files.Of(f.root), sync.OnceFunc(f.done), nil
}

func (f *folder) done() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users--; f.users > 0 {
		return
	}
	if f.resting || f.ended {
		_ = f.close()
	}
	if f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

// close closes it. The lock is held, and nobody uses it.
func (f *folder) close() (err error) {
	if f.root != nil {
		err = f.root.Close()
		f.root = nil
	}
	return err
}

// rest closes the folder after each use.
func (f *folder) rest() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.resting = true; f.users == 0 {
		_ = f.close()
	}
}

// wake keeps the folder open between uses.
func (f *folder) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resting = false
}

// end closes the folder for good, and waits until nobody uses it.
func (f *folder) end() (err error) {
	f.mu.Lock()
	f.ended = true
	var idle chan struct{}
	if f.users == 0 {
		err = f.close()
	} else {
		if f.idle == nil {
			f.idle = make(chan struct{})
		}
		idle = f.idle
	}
	f.mu.Unlock()
	if idle != nil {
		<-idle
	}
	return err
}
