package program_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
)

// TestDevices_of_a_killed_server: a webhook that was added on the command line is told of a turn
// after the server was killed, with the id of the attempt before. What was given up is listed.
func TestDevices_of_a_killed_server(t *testing.T) {
	t.Parallel()
	onStores(t, devicesKilled)
}

func devicesKilled(t *testing.T, store string) {
	var mu sync.Mutex
	var ids []string
	well := false
	came := make(chan string, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var m struct{ Type string }
		_ = json.Unmarshal(raw, &m)
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, r.Header.Get("Webhook-Id"))
		if !well {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		came <- m.Type
	}))
	t.Cleanup(srv.Close)
	p := newPlace(t, "PARLEY_PUSH_ALLOW=127.0.0.1").on(store)
	s := p.serve()
	code, out, errs := p.run("devices", "add", srv.URL+"/hook", "--name", "build", "--events", "turn.*")
	if code != 0 || !strings.Contains(out, "secret: whsec_") {
		t.Fatalf("%d %s%s", code, out, errs)
	}
	id := s.session("chaos")
	s.settle(s.send(id, spec).ID)
	next := func() string {
		t.Helper()
		select {
		case kind := <-came:
			return kind
		case <-time.After(within):
			t.Fatal("nothing came")
			return ""
		}
	}
	if kind := next(); kind != "turn.completed" {
		t.Errorf("got %s", kind)
	}
	s.until("the failure is not stored", func() bool {
		list := must[struct{ Deliveries []parley.Delivery }](s, "GET", "/v1/deliveries", "").Deliveries
		return len(list) == 1 && list[0].Error == "503 Service Unavailable"
	})
	if code, out, errs := p.run("devices", "failed"); code != 0 || !strings.Contains(out, "turn.completed") || !strings.Contains(out, "503") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	s.kill()
	mu.Lock()
	well = true
	mu.Unlock()
	s = p.serve()
	next()
	s.until("it is not gone", func() bool {
		return len(must[struct{ Deliveries []parley.Delivery }](s, "GET", "/v1/deliveries", "").Deliveries) == 0
	})
	mu.Lock()
	first := ids[0]
	for _, again := range ids {
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("another message (-first +again):\n%s", diff)
		}
	}
	mu.Unlock()
	device := must[struct{ Devices []parley.Device }](s, "GET", "/v1/devices", "").Devices[0]
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"devices", "list"}, "build"},
		{[]string{"devices", "failed"}, "Everything has arrived."},
		{[]string{"devices", "test", string(device.ID)}, "A test will be sent."},
		{[]string{"devices", "pause", string(device.ID)}, "paused"},
		{[]string{"devices", "unpause", string(device.ID)}, "told again"},
		{[]string{"devices", "remove", string(device.ID)}, "has been removed"},
		{[]string{"devices", "list"}, "You have no devices."},
	} {
		if code, out, errs := p.run(c.args...); code != 0 || !strings.Contains(out, c.says) {
			t.Errorf("%v: %d %s%s", c.args, code, out, errs)
		}
	}
	if code, _, errs := p.run("devices", "add", "http://example.com/hook"); code == 0 || !strings.Contains(errs, "https://") {
		t.Errorf("a URL without https: %d %s", code, errs)
	}
}
