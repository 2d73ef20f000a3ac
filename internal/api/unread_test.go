package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/wire"
)

// TestAnswers_that_nobody_reads: one user requests large answers and never reads them. They take
// little memory, and further requests of this user and of others are served.
func TestAnswers_that_nobody_reads(t *testing.T) {
	const (
		turns = 4
		// The bytes reserved for one user, and as many again for what is read while it is written.
		// Without reservations the rows hold 30 MiB and more.
		most = 20 << 20
	)
	w, u, srv := newUnread(t)
	paths := map[string]string{}
	for _, user := range []string{"ana", "bob"} {
		var s parley.SessionInfo
		w.call(201, &s, "POST", "/v1/sessions", `{"app":"test"}`, "Test-User", user)
		for i := range turns {
			var turn parley.TurnInfo
			w.call(202, &turn, "POST", "/v1/sessions/"+string(s.ID)+"/turns", fmt.Sprintf(`{"message":%q}`, noise(250<<10)), "Test-User", user)
			w.call(200, &turn, "POST", "/v1/turns/"+string(turn.ID)+"/await", "", "Test-User", user)
			if !turn.Status.Ended() {
				t.Fatalf("turn %d is %s", i, turn.Status)
			}
		}
		paths[user] = "/v1/sessions/" + string(s.ID)
	}
	for path, c := range map[string]struct {
		clients int
		atOnce  bool  // otherwise each begins when those before it wait for their clients, since only a few exports may begin at once
		hold    int64 // how many may wait for their clients at once in the user's 8 MiB; the others are cut
	}{
		"/events?limit=1000": {100, true, 100}, // what is held is small, once it is read
		"/turns?limit=500":   {30, true, 4},    // 2 MiB each
		"/export":            {30, false, 2},   // 1 MiB each, of the 2 MiB for exports
	} {
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
		before, grown := heap(), int64(0)
		u.most.Store(0)
		// settled waits until every answer has ended or waits for its client.
		settled := func(answers int) {
			end := time.Now().Add(time.Minute)
			for done := false; !done; <-time.After(40 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%s: of %d answers %d have ended, and %d wait for their clients", path, answers, u.ended.Load(), u.writing.Load())
				}
				done = int(u.ended.Load()+u.writing.Load()) >= answers
				grown = max(grown, heap()-before)
			}
		}
		u.ended.Store(0)
		u.gate.Store(nil)
		if c.atOnce {
			gate := &sync.WaitGroup{}
			gate.Add(c.clients)
			u.gate.Store(gate)
		}
		var held []net.Conn
		for range c.clients {
			conn, err := net.Dial("tcp", strings.TrimPrefix(srv.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			fmt.Fprintf(conn, "GET %s%s HTTP/1.1\r\nHost: localhost\r\nTest-User: ana\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n", paths["ana"], path)
			if held = append(held, conn); !c.atOnce {
				settled(len(held))
			}
		}
		settled(c.clients)
		u.gate.Store(nil)
		if n := u.most.Load(); n > c.hold {
			t.Errorf("%s: %d answers at once hold what they had reserved, want %d at most", path, n, c.hold)
		}
		if grown > most {
			t.Errorf("%s: %d unread answers hold %d KiB", path, c.clients, grown>>10)
		}
		for _, user := range []string{"bob", "ana"} {
			resp := ask(user)
			// A user with exports under way has to wait for them, and the answer says so.
			for user == "ana" && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable) && resp.Header.Get("Retry-After") != "" && path == "/export" {
				resp.Body.Close()
				<-time.After(50 * time.Millisecond)
				resp = ask(user)
			}
			n, err := io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK || err != nil || n < 250<<10 {
				t.Errorf("%s: %s got %d, %d bytes, %v", path, user, resp.StatusCode, n, err)
			}
		}
		for _, conn := range held {
			_ = conn.Close()
		}
		for int(u.ended.Load()) < c.clients+2 { // the two answers that were read are added
			<-time.After(10 * time.Millisecond)
		}
	}
}

// TestUnread_and_waiting: a user who reads none of many large answers is still served: small
// requests at once, and others as soon as those have been cut.
func TestUnread_and_waiting(t *testing.T) {
	for name, unread := range map[string][]string{
		"pages and streams": {"/events?limit=500", "/events/stream?after=0"},
		"exports":           {"/export"},
		"windows":           {"/window?turns=50"},
		"turns":             {"/turns?limit=100"},
	} {
		t.Run(name, func(t *testing.T) { stillServed(t, unread) })
	}
}

func stillServed(t *testing.T, unread []string) {
	const clients = 40
	w, u, srv := newUnread(t)
	var s parley.SessionInfo
	w.call(201, &s, "POST", "/v1/sessions", `{"app":"test"}`, "Test-User", "ana")
	for range 6 {
		var turn parley.TurnInfo
		w.call(202, &turn, "POST", "/v1/sessions/"+string(s.ID)+"/turns", fmt.Sprintf(`{"message":%q}`, noise(100<<10)), "Test-User", "ana")
		w.call(200, &turn, "POST", "/v1/turns/"+string(turn.ID)+"/await", "", "Test-User", "ana")
	}
	at := "/v1/sessions/" + string(s.ID)
	for i := range clients {
		conn, err := net.Dial("tcp", strings.TrimPrefix(srv.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nTest-User: ana\r\nConnection: close\r\n\r\n", at+unread[i%len(unread)])
	}
	for u.begun.Load() < clients {
		<-time.After(time.Millisecond)
	}
	// A request that waits for memory that is never released would take as long as the test.
	patience, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for _, path := range []string{
		"/v1/apps", at, "/v1/sessions?limit=1", "/v1/interactions?limit=1", at + "/queue", at + "/events?limit=20",
		at + "/turns?limit=2", at + "/window?turns=1", at + "/events?limit=500", at + "/events/stream?after=0",
	} {
		r, err := http.NewRequestWithContext(patience, http.MethodGet, srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Test-User", "ana")
		began := time.Now()
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		b := make([]byte, 1)
		if n, err := io.ReadAtLeast(resp.Body, b, 1); resp.StatusCode != http.StatusOK || n == 0 {
			t.Errorf("%s: %d, %v", path, resp.StatusCode, err)
		}
		resp.Body.Close()
		t.Logf("%s: %s", path, time.Since(began).Round(time.Millisecond))
	}
}

// newUnread is a server whose connections buffer little, with two users.
func newUnread(t *testing.T, change ...func(*api.Options)) (*world, *unread, *httptest.Server) {
	w := newWorld(t, enginetest.Echo, enginetest.App(), change...)
	// As in package program, before all doors.
	u := &unread{next: wire.Bounded(wire.Compressed(w.api, func(r *http.Request) bool { return r.Header.Get("Accept-Encoding") == "gzip" }),
		func(ctx context.Context) parley.Principal {
			user, _ := ctx.Value(userKey{}).(string)
			return parley.Principal{User: user, Org: "acme"}
		})}
	srv := httptest.NewUnstartedServer(asUser(u))
	srv.Listener = narrow{srv.Listener, u}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // log of answers that were cut
	srv.Start()
	t.Cleanup(srv.Close)
	return w, u, srv
}

// unread is a server that counts the answers that have ended and those that wait for their clients.
type unread struct {
	next           http.Handler
	gate           atomic.Pointer[sync.WaitGroup] // waits until all answers that begin at once are there
	ended, writing atomic.Int64
	begun          atomic.Int64
	most           atomic.Int64 // of writing
}

func (u *unread) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.begun.Add(1)
	defer u.ended.Add(1)
	if gate := u.gate.Load(); gate != nil {
		gate.Done()
		gate.Wait()
	}
	u.next.ServeHTTP(w, r)
}

// narrow is a listener whose connections buffer little unread data.
type narrow struct {
	net.Listener
	u *unread
}

func (n narrow) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return narrowConn{c, n.u}, c.(*net.TCPConn).SetWriteBuffer(4 << 10)
}

type narrowConn struct {
	net.Conn
	u *unread
}

func (c narrowConn) Write(b []byte) (int, error) {
	now := c.u.writing.Add(1)
	for most := c.u.most.Load(); now > most && !c.u.most.CompareAndSwap(most, now); most = c.u.most.Load() {
	}
	defer c.u.writing.Add(-1)
	return c.Conn.Write(b)
}

// noise is one word of size bytes that gzip hardly compresses.
func noise(size int) string {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // text for a test
	b := make([]byte, size)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-_./,~*!?"[r.IntN(62)]
	}
	return string(b)
}

// heap returns the bytes that a garbage collection found in use. It leaves out what handlers have
// allocated since it began, which counts as in use: on a busy machine that is more than what the test
// is about.
func heap() int64 {
	at := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(at)
	before := at[1].Value.Uint64()
	runtime.GC()
	metrics.Read(at)
	return int64(at[0].Value.Uint64()) - int64(at[1].Value.Uint64()-before) //nolint:gosec // small
}

// TestPages_of_events_and_turns: the pages give everything exactly once, however large it is.
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

// slow is an engine that waits for services of others until the gate is closed.
type slow struct {
	api.Engine
	gate chan struct{}
}

// after returns what f does, after the wait.
func after[T any](ctx context.Context, s slow, f func() (T, error)) (out T, err error) {
	select {
	case <-s.gate:
		return f()
	case <-ctx.Done():
		return out, ctx.Err()
	}
}

func (s slow) Send(ctx context.Context, p parley.Principal, id parley.SessionID, c parley.Send) (parley.TurnInfo, error) {
	return after(ctx, s, func() (parley.TurnInfo, error) { return s.Engine.Send(ctx, p, id, c) })
}

func (s slow) Resume(ctx context.Context, p parley.Principal, id parley.TurnID) (parley.TurnInfo, error) {
	return after(ctx, s, func() (parley.TurnInfo, error) { return s.Engine.Resume(ctx, p, id) })
}

func (s slow) Retry(ctx context.Context, p parley.Principal, id parley.TurnID, key, client string) (parley.TurnInfo, error) {
	return after(ctx, s, func() (parley.TurnInfo, error) { return s.Engine.Retry(ctx, p, id, key, client) })
}

func (s slow) Cancel(ctx context.Context, p parley.Principal, id parley.TurnID, reason string) (parley.TurnInfo, error) {
	return after(ctx, s, func() (parley.TurnInfo, error) { return s.Engine.Cancel(ctx, p, id, reason) })
}

func (s slow) Answer(ctx context.Context, p parley.Principal, id parley.InteractionID, a parley.AnswerInteraction) (seam.InteractionRow, error) {
	return after(ctx, s, func() (seam.InteractionRow, error) { return s.Engine.Answer(ctx, p, id, a) })
}

func (s slow) Claim(ctx context.Context, p parley.Principal, id parley.InteractionID, c parley.ClaimCall) (parley.Claimed, error) {
	return after(ctx, s, func() (parley.Claimed, error) { return s.Engine.Claim(ctx, p, id, c) })
}

func (s slow) Report(ctx context.Context, p parley.Principal, id parley.InteractionID, c parley.ReportCall) (parley.ToolResult, error) {
	return after(ctx, s, func() (parley.ToolResult, error) { return s.Engine.Report(ctx, p, id, c) })
}

func (s slow) End(ctx context.Context, p parley.Principal, id parley.SessionID, reason string) (parley.SessionInfo, error) {
	return after(ctx, s, func() (parley.SessionInfo, error) { return s.Engine.End(ctx, p, id, reason) })
}

func (s slow) Delete(ctx context.Context, p parley.Principal, id parley.SessionID) error {
	_, err := after(ctx, s, func() (struct{}, error) { return struct{}{}, s.Engine.Delete(ctx, p, id) })
	return err
}

func (s slow) Commands(ctx context.Context, p parley.Principal, id parley.SessionID) ([]parley.SlashCommand, error) {
	return after(ctx, s, func() ([]parley.SlashCommand, error) { return s.Engine.Commands(ctx, p, id) })
}

func (s slow) AppCommands(ctx context.Context, p parley.Principal, app string, workspace parley.Workspace) ([]parley.SlashCommand, error) {
	return after(ctx, s, func() ([]parley.SlashCommand, error) { return s.Engine.AppCommands(ctx, p, app, workspace) })
}

func (s slow) Approvals(ctx context.Context, p parley.Principal, id parley.SessionID) ([]parley.Approval, error) {
	return after(ctx, s, func() ([]parley.Approval, error) { return s.Engine.Approvals(ctx, p, id) })
}

func (s slow) Approve(ctx context.Context, p parley.Principal, id parley.SessionID, d parley.Digest, c parley.DecideApproval) (parley.Approval, error) {
	return after(ctx, s, func() (parley.Approval, error) { return s.Engine.Approve(ctx, p, id, d, c) })
}

func (s slow) Resources(ctx context.Context, p parley.Principal, id parley.SessionID, mark parley.ResourceRef, limit int) (parley.ResourceList, parley.ResourceRef, error) {
	if _, err := after(ctx, s, func() (any, error) { return nil, nil }); err != nil { //nolint:nilnil // it only waits
		return parley.ResourceList{}, parley.ResourceRef{}, err
	}
	return s.Engine.Resources(ctx, p, id, mark, limit)
}

func (s slow) AppResources(ctx context.Context, p parley.Principal, app string, mark parley.ResourceRef, limit int) (parley.ResourceList, parley.ResourceRef, error) {
	if _, err := after(ctx, s, func() (any, error) { return nil, nil }); err != nil { //nolint:nilnil // it only waits
		return parley.ResourceList{}, parley.ResourceRef{}, err
	}
	return s.Engine.AppResources(ctx, p, app, mark, limit)
}

// TestWaitingHoldsNothing: requests wait for the service of somebody else. There are more of them
// than there is room for small answers. They hold up no other request, neither by their share of
// the answers nor by their turn at a processor, and are answered when the service answers. Every
// request that needs what a session's scope resolves to may wait, because the scope's servers may
// have to be started.
func TestWaitingHoldsNothing(t *testing.T) {
	const id = "01ARZ3NDEKTSV4RRFFQ69G5FAV" // of nothing
	for name, asks := range map[string]struct{ method, path, body string }{
		"send":               {"POST", "SESSION/turns", `{"message":"hello","busy":"enqueue"}`},
		"stream-turn":        {"POST", "SESSION/turns/stream", `{"message":"hello","busy":"enqueue"}`},
		"resume-turn":        {"POST", "/v1/turns/" + id + "/resume", ""},
		"retry-turn":         {"POST", "/v1/turns/" + id + "/retry", ""},
		"cancel-turn":        {"POST", "/v1/turns/" + id + "/cancel", ""},
		"answer-interaction": {"POST", "/v1/interactions/" + id + "/answer", `{"choice":"allow"}`},
		"claim-call":         {"POST", "/v1/interactions/" + id + "/claim", ""},
		"report-call":        {"POST", "/v1/interactions/" + id + "/report", `{"token":"x"}`},
		"end-session":        {"POST", "/v1/sessions/" + id + "/end", ""},
		"delete-session":     {"DELETE", "/v1/sessions/" + id, ""},
		"list-commands":      {"GET", "SESSION/commands", ""},
		"list-app-commands":  {"GET", "/v1/apps/test/commands", ""},
		"list-resources":     {"GET", "SESSION/resources", ""},
		"list-app-resources": {"GET", "/v1/apps/test/resources", ""},
		"list-approvals":     {"GET", "SESSION/approvals", ""},
		"decide-approval":    {"POST", "SESSION/approvals/" + id, `{"state":"allowed"}`},
	} {
		t.Run(name, func(t *testing.T) { waitingHoldsNothing(t, asks.method, asks.path, asks.body) })
	}
}

func waitingHoldsNothing(t *testing.T, method, path, body string) {
	gate := make(chan struct{})
	w, u, srv := newUnread(t, func(o *api.Options) { o.Engine = slow{o.Engine, gate} })
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	sessions := map[string]parley.SessionInfo{}
	for _, user := range []string{"ana", "bo"} {
		var s parley.SessionInfo
		w.call(201, &s, "POST", "/v1/sessions", `{"app":"test"}`, "Test-User", user)
		sessions[user] = s
	}
	at := func(user string) string { return "/v1/sessions/" + string(sessions[user].ID) }
	ask := func(user, method, path, body string) int {
		r, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Test-User", user)
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	const each = 70 // 70 answers of 64 KiB are more than 4 MiB
	var waiting sync.WaitGroup
	for range each {
		waiting.Go(func() {
			if got := ask("ana", method, strings.ReplaceAll(path, "SESSION", at("ana")), body); got == 0 || got >= 500 {
				t.Errorf("%s %s: %d", method, path, got)
			}
		})
	}
	for end := time.Now().Add(time.Minute); u.begun.Load() < each; <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d requests have begun", u.begun.Load())
		}
	}
	for user, path := range map[string]string{"ana": "", "bo": "/rules"} { // a small answer, and one that takes its turn at a processor
		soon := make(chan int, 1)
		go func() { soon <- ask(user, "GET", at(user)+path, "") }()
		select {
		case got := <-soon:
			if got != http.StatusOK {
				t.Errorf("%s of %s: %d", path, user, got)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s of %s waits behind requests that wait for a service", path, user)
		}
	}
	open()
	waiting.Wait()
}
