package workspace

import (
	"context"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/seam"
)

// maxShown is how many versions of files are remembered of direct calls.
const maxShown = 4000

// shown are the versions of files that direct calls have seen, the newest ones. Each such call has
// a session of its own, so what the caller read before is in none of them. It is forgotten when the
// server stops; then the caller reads again.
type shown struct {
	mu    sync.Mutex
	seen  map[place]files.Version
	order []place // the oldest first
}

// place is a file, as a user reaches it through an app.
type place struct {
	who   parley.Principal
	app   string
	space parley.Workspace
	path  string
}

func placeOf(r seam.Run, name string) place { return place{r.Principal, r.App, r.Space, name} }

func (s *shown) note(p place, v files.Version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[place]files.Version{}
	}
	if _, known := s.seen[p]; !known {
		s.order = append(s.order, p)
	}
	s.seen[p] = v
	if len(s.order) > maxShown {
		delete(s.seen, s.order[0])
		s.order = s.order[1:]
	}
}

func (s *shown) version(p place) (v files.Version, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok = s.seen[p]
	return v, ok
}

// saw remembers the version of a file that a call has shown, or made.
func (t *Toolset) saw(ctx context.Context, r seam.Run, name string, v files.Version) error {
	if r.Direct {
		t.shown.note(placeOf(r, name), v)
		return nil
	}
	return t.checks().Saw(ctx, r.Session, name, v)
}

// seen is the version of a file that the caller saw last.
func (t *Toolset) seen(ctx context.Context, r seam.Run, name string) (v files.Version, ok bool, err error) {
	if r.Direct {
		v, ok = t.shown.version(placeOf(r, name))
		return v, ok, nil
	}
	return t.checks().Seen(ctx, r.Session, name)
}
