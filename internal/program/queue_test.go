package program_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestKilledQueue ends the server as the kernel does while the first of three acknowledged
// messages runs. The next server resumes that turn by itself, and the other two run after it,
// in order. A message sent as soon as that server is up is queued behind them or refused.
func TestKilledQueue(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]parley.BusyMode{"nothing": "", "enqueue": parley.BusyEnqueue, "reject": parley.BusyReject} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onStores(t, func(t *testing.T, store string) {
				began, release := make(chan struct{}, 8), make(chan struct{})
				service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					began <- struct{}{}
					select {
					case <-r.Context().Done():
					case <-release:
						_, _ = io.WriteString(w, "done")
					}
				}))
				t.Cleanup(service.Close)
				p := newPlace(t).on(store)
				p.withDesk(service.URL, "0s")
				dir := filepath.Join(p.dir, "apps", "line")
				p.write(filepath.Join(dir, "clerk.md"), "Do as you are told.")
				p.write(filepath.Join(dir, "app.yaml"), `title: Line
model: test/clerk
agents:
  clerk: {prompt: clerk.md}
busy: enqueue
resume: auto
`)
				p.env = append(p.env, "PARLEY_ENABLED=line")
				asks := func(what string) {
					select {
					case <-began:
					case <-time.After(within):
						t.Fatalf("%s: the first message never ran", what)
					}
				}

				s := p.serve()
				id := s.session("line")
				turns := []parley.TurnID{s.send(id, "hold").ID, s.send(id, "one").ID, s.send(id, "two").ID}
				asks("before the crash")
				s.kill()
				s = p.serve()
				path, three := "/v1/sessions/"+string(id)+"/turns", object("message", "three", "busy", string(after))
				switch after {
				case parley.BusyEnqueue:
					turns = append(turns, must[parley.TurnInfo](s, "POST", path, three).ID)
				case parley.BusyReject:
					if a := s.ask("POST", path, three); a.status != http.StatusConflict || problemOf(t, a).Code != parley.CodeBusy {
						t.Fatalf("a message right after the restart: %s", a)
					}
				}
				asks("after the crash")
				close(release)
				last := turns[len(turns)-1]
				for end := time.Now().Add(within); ; { // it resumes by itself
					now := must[parley.TurnInfo](s, "POST", "/v1/turns/"+string(last)+"/await", `{"timeout_ms":20000}`)
					if now.Status.Ended() {
						break
					}
					if time.Now().After(end) {
						t.Fatalf("the last message is %s", now.Status)
					}
				}

				log := decode(t, s.log(id))
				var ended []parley.TurnID
				for _, ev := range log {
					if ev.Type == "turn.completed" {
						ended = append(ended, ev.Turn)
					}
				}
				if diff := cmp.Diff(turns, ended); diff != "" {
					t.Errorf("turns in the order in which they were answered (-want +got):\n%s\n%s", diff, enginetest.Types(log))
				}
				if !slices.ContainsFunc(log, func(ev parley.Event) bool { return ev.Type == "turn.resumed" && ev.Turn == turns[0] }) {
					t.Errorf("the first message was not resumed\n%s", enginetest.Types(log))
				}
				if err := enginetest.CheckLog(log); err != nil {
					t.Errorf("%v\n%s", err, enginetest.Types(log))
				}
			})
		})
	}
}
