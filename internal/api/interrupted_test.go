package api_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// TestStream_of_a_turn_that_stays_interrupted: the stream of a turn ends when the turn is
// interrupted and has to be resumed by a person.
func TestStream_of_a_turn_that_stays_interrupted(t *testing.T) {
	t.Parallel()
	called := make(chan struct{}, 1)
	hangs := func(ctx context.Context, _ seam.Request, _ func(string)) (seam.Reply, error) {
		called <- struct{}{}
		<-ctx.Done()
		return seam.Reply{}, ctx.Err()
	}
	rig := enginetest.New(t, hangs, enginetest.App())
	s := rig.Session()
	if _, err := rig.Engine.Send(t.Context(), enginetest.User, s.ID, parley.Send{Message: "hello", Key: "k", Client: "http"}); err != nil {
		t.Fatal(err)
	}
	<-called
	disk := rig.Mem.Clone()
	rig.Kill()
	rig = enginetest.Over(t, disk, rig.Service, hangs, enginetest.App())
	done, err := rig.Engine.Recover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-done
	srv := httptest.NewServer(api.New(api.Options{
		Engine: rig.Engine, Reader: rig.Reader, Blobs: rig.Store,
		Principal: func(context.Context) (parley.Principal, error) { return enginetest.User, nil },
	}))
	t.Cleanup(func() { rig.Close(); srv.Close() })
	for _, path := range []string{"/turns", "/turns/stream"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/v1/sessions/"+string(s.ID)+path, strings.NewReader(`{"message":"hello"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("Idempotency-Key", "k")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "event: turn.interrupted") {
			t.Errorf("%s: %d, %v:\n%s", path, resp.StatusCode, err, body)
		}
	}
}
