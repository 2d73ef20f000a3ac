package rule

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Nodes are the nodes of this process that drive sessions of one open store. The zero
// value has none.
type Nodes struct {
	mu   sync.Mutex
	here map[string]int
}

// Join implements seam.Store. Calling leave again does nothing.
func (n *Nodes) Join(node string) (leave func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.here == nil {
		n.here = map[string]int{}
	}
	n.here[node]++
	return sync.OnceFunc(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.here[node]--; n.here[node] == 0 {
			delete(n.here, node)
		}
	})
}

// Others lists the other nodes, sorted; never nil.
func (n *Nodes) Others(node string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(n.here)), func(o string) bool { return o == node })
	return append([]string{}, others...)
}

// Driven is the error of a claim on a session whose node is alive.
func Driven(id parley.SessionID) error {
	return &parley.Error{
		Code: parley.CodeUnavailable, Err: seam.ErrDriven, RetryAfter: time.Second,
		Message: "another node drives session " + string(id),
		Hint:    "ask that node, or try again once it has stopped",
	}
}
