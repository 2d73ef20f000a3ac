package modeltest

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Failure is what the first call of a model fails with.
type Failure struct {
	Code  parley.Code
	After time.Duration // the provider's hint when to try again; 0: there is none
	Says  string        // part of the message
}

// Check makes a call that fails and one that does not, for which the provider says "Well, well.". requests counts what
// the provider was asked: once for a call, since who retries is the loop. key is in no error.
func (f Failure) Check(t *testing.T, m seam.Model, key string, requests func() int) {
	t.Helper()
	g := read(t, t.Context(), m, Ask(), nil)
	e, ok := errors.AsType[*parley.Error](g.err)
	if !ok || g.reply != nil || e.Code != f.Code || e.RetryAfter != f.After || !strings.Contains(e.Message, f.Says) || e.Hint == "" {
		t.Errorf("got %#v, want %s after %s with %q", g.err, f.Code, f.After, f.Says)
	}
	if g.err != nil && strings.Contains(g.err.Error(), key) {
		t.Error("the key is in the message")
	}
	if n := requests(); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
	if g = read(t, t.Context(), m, Ask(), nil); g.err != nil || g.text != "Well, well." {
		t.Errorf("afterwards got %q, %v", g.text, g.err)
	}
}

// Bodies records the requests that a provider has accepted.
type Bodies struct {
	mu  sync.Mutex
	all []string
}

// Take records a request.
func (b *Bodies) Take(body []byte, _ *seam.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, string(body))
}

// All returns the requests.
func (b *Bodies) All() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all
}
