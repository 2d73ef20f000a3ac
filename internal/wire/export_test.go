package wire

import (
	"context"
	"net/http"

	"github.com/parley-server/parley"
)

// Budget is a budget of a test's own.
type Budget struct{ b *budget }

// NewBudget makes one of max bytes, of which one user may have each.
func NewBudget(max, each int) *Budget { return &Budget{newBudget(max, each)} }

// BoundedBy is Bounded by a budget of its own.
func BoundedBy(b *Budget, next http.Handler, user func(context.Context) parley.Principal) http.Handler {
	return bounded(next, user, b.b)
}

// Used is what is held.
func (b *Budget) Used() int {
	b.b.mu.Lock()
	defer b.b.mu.Unlock()
	return b.b.used
}

// Within returns o with a budget of its own in the place of the process's.
func Within(o Options, bytes int) Options {
	o.held = newBudget(bytes, bytes)
	return o
}

// Used is what the writes under way hold of it.
func (o Options) Used() int { return (&Budget{o.held}).Used() }
