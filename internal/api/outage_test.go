package api_test

import (
	"context"
	"io"
	"sync/atomic"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/seam"
)

// away is a store that cannot be read for a while.
type away struct {
	seam.Store
	gone *atomic.Bool
}

func (a away) Read(ctx context.Context, p parley.Principal, id parley.SessionID, after int64, limit int) ([]parley.Event, error) {
	if a.gone.Load() {
		return nil, parley.Errorf(parley.CodeUnavailable, "the database does not answer").WithHint("try again in a moment")
	}
	return a.Store.Read(ctx, p, id, after, limit)
}

// TestExport_in_an_outage: an export that has not begun is refused like any other request,
// in the one shape and with a time to retry.
func TestExport_in_an_outage(t *testing.T) {
	t.Parallel()
	var gone atomic.Bool
	w := newWorld(t, enginetest.Echo, enginetest.App(), func(o *api.Options) {
		_, o.Reader = eventlog.New(away{o.Blobs.(seam.Store), &gone}, redact.New(), eventlog.Options{})
	})
	s := w.session(`{"app":"test"}`)
	w.turn(s.ID, "one")
	gone.Store(true)
	resp := w.ask("GET", "/v1/sessions/"+string(s.ID)+"/export", "")
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("Content-Disposition") != "" {
		t.Errorf("got %d with %v, %v: %s", resp.StatusCode, resp.Header, err, body)
	}
	gone.Store(false)
	if resp := w.ask("GET", "/v1/sessions/"+string(s.ID)+"/export", ""); resp.StatusCode != 200 {
		t.Errorf("afterwards: %d", resp.StatusCode)
	}
}
