package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/seam"
)

// largeFile is where a file begins to take turns, in bytes. A call holds its file and what it
// makes of it in memory, and a user may have hundreds of calls under way.
const largeFile = 256 << 10

// NewTurns is for the calls of all users that search, or hold a large file. The toolsets of a process
// share one.
func NewTurns() *fair.Turns { return &fair.Turns{Slots: 4, Each: 2, Queued: 100} }

// turn waits until a call may hold what it needs, and returns what ends that.
func (t *Toolset) turn(ctx context.Context, r seam.Run, tree files.Tree) (leave func(), err error) {
	if r.Name == "Glob" || r.Name != "Grep" && !large(r, tree) {
		return func() {}, nil
	}
	leave, err = t.turns.Enter(ctx, r.Principal)
	if errors.Is(err, fair.ErrFull) {
		return nil, parley.Errorf(parley.CodeRateLimited, "too many of your searches and large files wait already").WithHint("try again in a moment")
	}
	return leave, err
}

// large reports whether the file that a call names is a large one, or one whose text takes a
// processor to find.
func large(r seam.Run, tree files.Tree) bool {
	var in struct {
		File     string `json:"file_path"`
		Notebook string `json:"notebook_path"`
	}
	if json.Unmarshal(r.Input, &in) != nil {
		return false
	}
	name, err := files.Clean(cmp.Or(in.File, in.Notebook))
	if err != nil {
		return false
	}
	info, err := tree.Stat(name)
	return err == nil && (info.Size > largeFile || named(name))
}

// passed counts files that were not searched. It is safe for concurrent use.
type passed struct {
	mu    sync.Mutex
	n     int
	first string // the first by name
}

func (p *passed) add(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n++; p.n == 1 || name < p.first {
		p.first = name
	}
}

// said tells the model, which would otherwise take it that nothing matches in them.
func (p *passed) said() string {
	switch p.n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("\n(%s was not searched, because it has more than %d MB.)", p.first, maxGrepIn>>20)
	}
	return fmt.Sprintf("\n(%d files were not searched, because they have more than %d MB, such as %s.)", p.n, maxGrepIn>>20, p.first)
}
