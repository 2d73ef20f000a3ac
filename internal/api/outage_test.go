package api_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
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

func (a away) Session(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.SessionInfo, error) {
	if a.gone.Load() {
		return parley.SessionInfo{}, parley.Errorf(parley.CodeUnavailable, "the database does not answer")
	}
	return a.Store.Session(ctx, p, id)
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

// TestStream_in_an_outage: a stream for browsers begins, and goes on when the store is back: a browser
// gives up after a status that is an error. Whoever else asks gets the status and a time to retry.
func TestStream_in_an_outage(t *testing.T) {
	t.Parallel()
	var gone atomic.Bool
	w := newWorld(t, enginetest.Echo, enginetest.App(), func(o *api.Options) {
		_, o.Reader = eventlog.New(away{o.Blobs.(seam.Store), &gone}, redact.New(), eventlog.Options{})
	})
	s := w.session(`{"app":"test"}`)
	w.turn(s.ID, "one")
	all := jsonOf(w.rig.Log(s.ID))
	path := "/v1/sessions/" + string(s.ID) + "/events"
	gone.Store(true)
	var streams []*http.Response
	for _, path := range []string{path + "/stream", path + "?format=sse&after=1", "/v1/stream?sessions=" + string(s.ID), path + "/stream?view=simple", "/v1/sessions/nope/events/stream", "/v1/conversations/" + string(s.ID) + "/stream"} {
		resp := w.ask("GET", path, "")
		if resp.StatusCode != 200 {
			t.Fatalf("%s: status %d", path, resp.StatusCode)
		}
		streams = append(streams, resp)
	}
	for _, path := range []string{path + "/lines", path + "?format=ndjson"} {
		if h := w.call(503, nil, "GET", path, ""); h.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", path)
		}
	}
	for _, path := range []string{path, "/v1/stream?sessions=" + string(s.ID), "/v1/conversations/" + string(s.ID) + "/stream"} {
		if resp := w.ask("GET", path, "", "Accept", "text/event-stream, application/json"); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s for a client that takes a refusal: status %d", path, resp.StatusCode)
		}
	}
	gone.Store(false)
	for i, want := range [][]string{all, all[1:], all} {
		if diff := cmp.Diff(want, readSSE(streams[i].Body, len(want))); diff != "" {
			t.Errorf("stream %d (-want +got):\n%s", i, diff)
		}
	}
	if got := readSSE(streams[3].Body, 1); len(got) != 1 {
		t.Errorf("the simple view: got %q", got)
	}
	lines := bufio.NewScanner(streams[5].Body)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
	}
	if got := lines.Text(); !strings.Contains(got, `"status":"idle"`) {
		t.Errorf("the conversation: got %q", got)
	}
	// Our own client says that the server is away, and that it is back.
	gone.Store(true)
	var said []string
	c := client.New(client.Options{BaseURL: w.url, Away: func(err error) {
		said = append(said, string(parley.CodeOf(err)))
		gone.Store(false)
	}})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for f, err := range c.Follow(ctx, s.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Event != nil && f.Event.Seq == int64(len(all)) {
			break
		}
	}
	if diff := cmp.Diff([]string{string(parley.CodeUnavailable), ""}, said); diff != "" {
		t.Errorf("what the client says of the server (-want +got):\n%s", diff)
	}
	if body, err := io.ReadAll(streams[4].Body); err != nil || !strings.Contains(string(body), "event: error") || !strings.Contains(string(body), "not_found") {
		t.Errorf("no such session: got %q, %v", body, err)
	}
}
