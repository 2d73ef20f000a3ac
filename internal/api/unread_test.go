package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/wire"
)

// TestAnswers_that_nobody_reads: requests whose answers are large and that one user
// never reads take little memory, and others and the same one are served.
func TestAnswers_that_nobody_reads(t *testing.T) {
	const turns = 8
	w := newWorld(t, enginetest.Echo, enginetest.App())
	// As in front of all doors: see cmd/parley.
	srv := httptest.NewServer(asUser(wire.Bounded(w.api, func(ctx context.Context) parley.Principal {
		user, _ := ctx.Value(userKey{}).(string)
		return parley.Principal{User: user, Org: "acme"}
	})))
	t.Cleanup(srv.Close)
	big := strings.Repeat("x", 200<<10)
	paths := map[string]string{}
	for _, user := range []string{"ana", "bob"} {
		var s parley.SessionInfo
		w.call(201, &s, "POST", "/v1/sessions", `{"app":"test"}`, "Test-User", user)
		for i := range turns {
			var turn parley.TurnInfo
			w.call(202, &turn, "POST", "/v1/sessions/"+string(s.ID)+"/turns", fmt.Sprintf(`{"message":%q}`, big), "Test-User", user)
			w.call(200, &turn, "POST", "/v1/turns/"+string(turn.ID)+"/await", "", "Test-User", user)
			if !turn.Status.Ended() {
				t.Fatalf("turn %d is %s", i, turn.Status)
			}
		}
		paths[user] = "/v1/sessions/" + string(s.ID)
	}
	for path, clients := range map[string]int{"/events?limit=1000": 80, "/turns?limit=500": 80, "/export": 12} {
		ask := func(user string) *http.Response {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+paths[user]+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Test-User", user)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		before := heap()
		var held []net.Conn
		for range clients {
			c, err := net.Dial("tcp", strings.TrimPrefix(srv.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
			fmt.Fprintf(c, "GET %s%s HTTP/1.1\r\nHost: localhost\r\nTest-User: ana\r\n\r\n", paths["ana"], path)
			held = append(held, c)
		}
		for _, user := range []string{"bob", "ana"} {
			resp := ask(user)
			// Who has exports under way waits for them, and is told so.
			for user == "ana" && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable) && resp.Header.Get("Retry-After") != "" && path == "/export" {
				resp.Body.Close()
				<-time.After(50 * time.Millisecond)
				resp = ask(user)
			}
			n, err := io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK || err != nil || n < 1000 {
				t.Errorf("%s: %s got %d, %d bytes, %v", path, user, resp.StatusCode, n, err)
			}
		}
		if grown := heap() - before; grown > 20<<20 {
			t.Errorf("%s: the heap has grown by %d MiB", path, grown>>20)
		}
		for _, c := range held {
			_ = c.Close()
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // small
}

// TestPages_of_events_and_turns give everything once, however large it is.
func TestPages_of_events_and_turns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	s := w.session(`{"app":"test"}`)
	const turns = 12
	for range turns {
		var turn parley.TurnInfo
		w.call(202, &turn, "POST", "/v1/sessions/"+string(s.ID)+"/turns", fmt.Sprintf(`{"message":%q}`, strings.Repeat("y", 250<<10)))
		w.call(200, &turn, "POST", "/v1/turns/"+string(turn.ID)+"/await", "")
	}
	var last parley.SessionInfo
	w.call(200, &last, "GET", "/v1/sessions/"+string(s.ID), "")
	seen := map[parley.TurnID]bool{}
	pages := 0
	for before := parley.TurnID(""); ; pages++ {
		var page struct {
			Turns []parley.TurnInfo
			Next  parley.TurnID
		}
		w.call(200, &page, "GET", "/v1/sessions/"+string(s.ID)+"/turns?limit=500&before="+string(before), "")
		for _, turn := range page.Turns {
			if seen[turn.ID] {
				t.Errorf("turn %s is listed twice", turn.ID)
			}
			seen[turn.ID] = true
		}
		if before = page.Next; before == "" {
			break
		}
	}
	if len(seen) != turns || pages < 3 {
		t.Errorf("%d turns on %d pages", len(seen), pages+1)
	}
	after := int64(0)
	for {
		var page struct {
			Events []json.RawMessage
			Next   int64
			More   bool
		}
		w.call(200, &page, "GET", fmt.Sprintf("/v1/sessions/%s/events?limit=7&after=%d", s.ID, after), "")
		if int64(len(page.Events)) != page.Next-after || page.More != (len(page.Events) == 7 && page.Next < last.Version) {
			t.Fatalf("%d events after %d, next %d, more %v of %d", len(page.Events), after, page.Next, page.More, last.Version)
		}
		if after = page.Next; !page.More {
			break
		}
	}
	if after != last.Version {
		t.Errorf("the pages end at %d, want %d", after, last.Version)
	}
}
