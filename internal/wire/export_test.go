package wire

import (
	"context"
	"net/http"

	"github.com/parley-server/parley"
)

// Budget is a separate budget for a test.
type Budget struct{ b *budget }

// NewBudget makes a budget of max bytes. One user may hold each bytes of it.
func NewBudget(max, each int) *Budget { return &Budget{newBudget(max, each)} }

// NewBudgets is NewBudget with a budget of their own for small answers.
func NewBudgets(max, each, small int) *Budget {
	b := newBudget(max, each)
	b.small = newBudget(small, small)
	return &Budget{b}
}

// NewProcessBudgets is what a process begins with.
func NewProcessBudgets() *Budget { return &Budget{newBudgets()} }

// ExportsWaiting is how many exports of one user may wait.
const ExportsWaiting = exportsWaiting

// BoundedBy is Bounded with the given budget.
func BoundedBy(b *Budget, next http.Handler, user func(context.Context) parley.Principal) http.Handler {
	return bounded(next, user, b.b)
}

// Used returns the number of bytes that are held.
func (b *Budget) Used() int {
	b.b.mu.Lock()
	defer b.b.mu.Unlock()
	return b.b.used
}

// Within returns o with a budget of its own instead of the process's.
func Within(o Options, bytes int) Options {
	o.held = newBudget(bytes, bytes)
	return o
}

// Used returns the number of bytes that writes in progress hold.
func (o Options) Used() int { return (&Budget{o.held}).Used() }
