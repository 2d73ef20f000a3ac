package mcpserver_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/mcpserver"
)

func TestDirectCalls(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, enginetest.Echo, enginetest.App())
		c := h.host(era, "", nil)
		if res, text := c.try("look", args{"text": "a"}); res.IsError || text != "seen a" {
			t.Errorf("got %q", text)
		}
		if res, text := c.try("look", args{"txt": 1}); !res.IsError || text == "" {
			t.Errorf("an input that does not fit: %q", text)
		}
		if _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "fly"}); err == nil {
			t.Error("a tool that is not there was called")
		}
		s := c.call("test.start_session", nil)["session_id"]
		for range 2 {
			res, err := c.CallTool(t.Context(), &mcp.CallToolParams{
				Name: "mail", Arguments: args{"text": "b"}, Meta: mcp.Meta{"parley/session": s, "parley/idempotency-key": "once"},
			})
			if err != nil || res.IsError {
				t.Fatalf("%+v, %v", res, err)
			}
		}
		if _, _, mails := h.Service.Counts(); mails != 1 {
			t.Errorf("%d mails under one key", mails)
		}
		stats := c.call("test.get_session", args{"session_id": s})["session"].(map[string]any)["stats"].(map[string]any)
		if stats["toolCalls"] != 1.0 {
			t.Errorf("the session that was named: %v", stats)
		}
	})
}

func TestDenied(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		app := enginetest.App(func(a *parley.App) {
			a.Policy = parley.Policy{Rules: []parley.Rule{{Verdict: parley.Deny, Tool: "mail", Reason: "no mail from here"}}}
		})
		h := newHouse(t, enginetest.Echo, app)
		if res, text := h.host(era, "", nil).try("mail", args{"text": "a"}); !res.IsError || !strings.Contains(text, "no mail from here") {
			t.Errorf("got %q", text)
		}
	})
}

// TestPages reads the list of resources by the protocol's cursor. It reads the tool's list by the
// cursor in _meta, since the tool's result has no field for one.
func TestPages(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, enginetest.Echo, enginetest.App())
		c := h.host(era, "", nil)
		const n = 53
		for range n {
			c.call("test.start_session", nil)
		}
		uris := map[string]bool{}
		for r, err := range c.Resources(t.Context(), nil) {
			if err != nil || uris[r.URI] {
				t.Fatalf("%s comes twice, or %v", r.URI, err)
			}
			uris[r.URI] = true
		}
		if len(uris) != n {
			t.Errorf("%d resources, want %d", len(uris), n)
		}
		if _, err := c.ListResources(t.Context(), &mcp.ListResourcesParams{Cursor: "nonsense"}); err == nil {
			t.Error("a cursor of nothing is taken")
		}
		seen, meta := map[any]bool{}, mcp.Meta{}
		for pages := 1; ; pages++ {
			res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Meta: meta, Name: "test.list_sessions", Arguments: args{"limit": 20}})
			if err != nil || res.IsError {
				t.Fatalf("%+v, %v", res, err)
			}
			for _, s := range res.StructuredContent.(map[string]any)["sessions"].([]any) {
				seen[s.(map[string]any)["id"]] = true
			}
			next, more := res.Meta["parley/next"]
			if more != (pages < 3) {
				t.Fatalf("page %d goes on with %v", pages, next)
			}
			if !more {
				break
			}
			meta = mcp.Meta{"parley/cursor": next}
		}
		if len(seen) != n {
			t.Errorf("%d sessions, want %d", len(seen), n)
		}
	})
}

func TestResources(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, enginetest.Echo, enginetest.App())
		c := h.host(era, "", nil)
		s := c.call("test.start_session", nil)["session_id"].(string)
		turn := c.call("test.send_message", args{"session_id": s, "message": "hello"})["continuation_id"]
		c.call("test.await_continuation", args{"continuation_id": turn})
		list, err := c.ListResources(t.Context(), nil)
		if err != nil || len(list.Resources) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		templates, err := c.ListResourceTemplates(t.Context(), nil)
		if err != nil || len(templates.ResourceTemplates) != 4 {
			t.Errorf("%+v, %v", templates, err)
		}
		read := func(uri string) string {
			t.Helper()
			res, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
			if err != nil {
				t.Fatal(err)
			}
			return res.Contents[0].Text
		}
		types := func(raw string) (all []string) {
			for line := range strings.Lines(raw) {
				var e parley.Event
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatal(err)
				}
				all = append(all, string(e.Type))
			}
			return all
		}
		want := []string{"session.created", "turn.started", "agent.started", "model.started", "model.replied", "turn.completed"}
		if diff := cmp.Diff(want, types(read(list.Resources[0].URI))); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(want[4:], types(read("parley://sessions/"+s+"/events?after=4"))); diff != "" {
			t.Error(diff)
		}
		if got, want := read("parley://sessions/"+s+"/transcript"), "## hello\n\n\n[completed] you said: hello\n\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		ben := h.host(era, "ben", nil)
		for _, uri := range []string{list.Resources[0].URI, "parley://sessions/" + s + "/transcript", "parley://artifacts/x", "parley://other"} {
			if _, err := ben.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
				t.Errorf("ben reads %s", uri)
			}
		}
		if list, err := ben.ListResources(t.Context(), nil); err != nil || len(list.Resources) != 0 {
			t.Errorf("ben sees %+v, %v", list, err)
		}
	})
}

// TestIsolation: with the ids of one user, every tool answers another user as if the ids did not
// exist.
func TestIsolation(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, mailer, enginetest.App(asking))
		ana, ben := h.host(era, "", nil), h.host(era, "ben", nil)
		s := ana.call("test.start_session", nil)["session_id"].(string)
		turn := ana.call("test.send_message", args{"session_id": s, "message": "x"})["continuation_id"].(string)
		h.Await(parley.TurnID(turn))
		unknown := func(text, id string) string { return strings.ReplaceAll(text, id, "ID") }
		for _, tool := range []string{"send_message", "await_continuation", "cancel", "get_session", "end_session", "resume", "retry"} {
			in := func(s, turn string) args {
				switch tool {
				case "send_message":
					return args{"session_id": s, "message": "x"}
				case "get_session", "end_session":
					return args{"session_id": s}
				}
				return args{"continuation_id": turn}
			}
			const none = "01J00000000000000000000000"
			_, got := ben.try("test."+tool, in(s, turn))
			_, want := ben.try("test."+tool, in(none, none))
			if got = unknown(unknown(got, s), turn); got != unknown(want, none) {
				t.Errorf("%s: %s, and of an id that is not there %s", tool, got, want)
			}
		}
		if got := ben.call("test.list_sessions", nil)["sessions"].([]any); len(got) != 0 {
			t.Errorf("ben sees %v", got)
		}
		res, err := ben.CallTool(t.Context(), &mcp.CallToolParams{Name: "look", Arguments: args{"text": "x"}, Meta: mcp.Meta{"parley/session": s}})
		if err != nil || !res.IsError {
			t.Errorf("ben calls in ana's session: %+v, %v", res, err)
		}
		if got := ana.call("test.await_continuation", args{"continuation_id": turn, "timeout_ms": 0}); got["status"] != "running" {
			t.Errorf("ana's turn is %v", got)
		}
	})
}

func (h *house) post(body string, header ...string) *http.Response {
	h.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, h.url, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func TestConnections(t *testing.T) {
	t.Parallel()
	h := newHouse(t, enginetest.Echo, enginetest.App(), func(o *mcpserver.Options) { o.MaxSessions, o.MaxUserSessions = 2, 2; o.MaxBody = 4096 })
	one := h.post(hello)
	id := one.Header.Get("Mcp-Session-Id")
	if one.StatusCode != 200 || id == "" {
		t.Fatalf("status %d, id %q", one.StatusCode, id)
	}
	_, _ = io.Copy(io.Discard, one.Body)
	const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	h.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id", id)
	for name, c := range map[string]struct {
		want   int
		header []string
	}{
		"its own":         {200, []string{"Mcp-Session-Id", id}},
		"another user's":  {404, []string{"Mcp-Session-Id", id, "User", "ben"}},
		"unknown":         {404, []string{"Mcp-Session-Id", "x"}},
		"changed":         {404, []string{"Mcp-Session-Id", id + "A"}},
		"another name":    {200, []string{"Mcp-Session-Id", id, "Host", "parley.example"}},
		"an odd version":  {400, []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "1999-01-01"}},
		"no JSON at all":  {415, []string{"Mcp-Session-Id", id, "Content-Type", "text/plain"}},
		"a newer version": {400, []string{"MCP-Protocol-Version", "2999-01-01", "Mcp-Method", "ping"}},
	} {
		if got := h.post(ping, c.header...).StatusCode; got != c.want {
			t.Errorf("%s: status %d, want %d", name, got, c.want)
		}
	}
}

// connected opens a connection and returns its id.
func (h *house) connected(user string) string {
	h.t.Helper()
	resp := h.post(hello, "User", user)
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		h.t.Fatalf("%s's connection: %d", user, resp.StatusCode)
	}
	return resp.Header.Get("Mcp-Session-Id")
}

// pinged returns the status of a ping on a connection.
func (h *house) pinged(user, id string) int {
	h.t.Helper()
	resp := h.post(`{"jsonrpc":"2.0","id":2,"method":"ping"}`, "User", user, "Mcp-Session-Id", id)
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// held opens the stream of a connection and holds it until the test ends.
func (h *house) held(user, id string) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.url, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("User", user)
	r.Header.Set("Mcp-Session-Id", id)
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		h.t.Fatalf("%v, %+v", err, resp)
	}
	h.t.Cleanup(func() { _ = resp.Body.Close() })
}

// TestConnections_that_are_idle: idle connections are closed to make room for new ones. Those that
// were never used go first, then the one that has been idle for longest. A connection with
// something under way is never closed.
func TestConnections_that_are_idle(t *testing.T) {
	t.Parallel()
	h := newHouse(t, enginetest.Echo, enginetest.App(), func(o *mcpserver.Options) { o.MaxSessions, o.MaxUserSessions, o.Fail = 4, 4, api.WriteError })
	stands := func(when string, want map[string]int) {
		t.Helper()
		for id, status := range want {
			if got := h.pinged("ana", id); got != status {
				t.Errorf("%s: connection %s answers %d, want %d", when, id, got, status)
			}
		}
	}
	first, second := h.connected("ana"), h.connected("ana")
	stands("used", map[string]int{first: 200})
	stands("used", map[string]int{second: 200})
	streaming := h.connected("ana")
	h.held("ana", streaming)
	flood := []string{h.connected("ana")}
	for range 20 {
		flood = append(flood, h.connected("ana"))
	}
	stands("flooded", map[string]int{flood[0]: 404, flood[19]: 404, flood[20]: 200})
	// All connections have been used now, and first has been idle for longest.
	fifth := h.connected("ana")
	stands("one more", map[string]int{first: 404})
	stands("one more", map[string]int{second: 200})
	h.held("ana", fifth)
	h.held("ana", flood[20])
	h.held("ana", second)
	resp := h.post(hello, "User", "ana")
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "10" {
		t.Errorf("where all have something under way: %d %v", resp.StatusCode, resp.Header)
	}
	if resp = h.post(hello, "User", "ben"); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "10" {
		t.Errorf("another user: %d %v", resp.StatusCode, resp.Header)
	}
}

// TestConnections_and_what_opens_none: a message outside a connection that is not a valid initialize
// closes no connection.
func TestConnections_and_what_opens_none(t *testing.T) {
	t.Parallel()
	h := newHouse(t, enginetest.Echo, enginetest.App(), func(o *mcpserver.Options) { o.MaxSessions, o.MaxUserSessions, o.MaxBody = 1, 1, 4096 })
	id := h.connected("ana")
	for _, body := range []string{
		`{}`, ``, `{`, `[]`, `[{}]`, `null`, `"initialize"`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		`{"jsonrpc":"2.0","method":"initialize","params":{}}`, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`,
		`{"id":1,"method":"initialize","params":{}}`, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}`,
		strings.Replace(hello, "{", "{"+strings.Repeat(" ", 5000), 1),
	} {
		resp := h.post(body, "User", "ana")
		_, _ = io.Copy(io.Discard, resp.Body)
		if got := h.pinged("ana", id); got != http.StatusOK {
			t.Fatalf("after %.60q, which was answered %d, the connection answers %d", body, resp.StatusCode, got)
		}
	}
	if h.connected("ana"); h.pinged("ana", id) != http.StatusNotFound {
		t.Error("a valid one does not take its place")
	}
}

// TestConnections_opened_at_once: connections that are opened at once close each other. There are
// never more than the limit, and none is left behind.
func TestConnections_opened_at_once(t *testing.T) {
	t.Parallel()
	h := newHouse(t, enginetest.Echo, enginetest.App(), func(o *mcpserver.Options) { o.MaxSessions, o.MaxUserSessions = 5, 5 })
	var hands sync.WaitGroup
	for _, user := range []string{"ana", "ben", "eve"} {
		hands.Go(func() {
			for range 20 {
				resp := h.post(hello, "User", user)
				_, _ = io.Copy(io.Discard, resp.Body)
				h.pinged(user, resp.Header.Get("Mcp-Session-Id"))
				if n := h.app.Connections(); n > 5+3 { // each of the three clients may have one more that is being closed
					t.Errorf("%d connections are open", n)
				}
			}
		})
	}
	hands.Wait()
	if n := h.app.Connections(); n < 1 || n > 5 {
		t.Errorf("%d connections are open at the end", n)
	}
}

// TestConnections_of_one_user: a user with a full share closes only connections of that user.
func TestConnections_of_one_user(t *testing.T) {
	t.Parallel()
	h := newHouse(t, enginetest.Echo, enginetest.App(), func(o *mcpserver.Options) { o.MaxSessions = 8 })
	var ana []string
	bens := h.connected("ben")
	for range 3 {
		ana = append(ana, h.connected("ana"))
	}
	var got []int
	for _, id := range ana {
		got = append(got, h.pinged("ana", id))
	}
	got = append(got, h.pinged("ben", bens))
	if want := []int{404, 200, 200, 200}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	h.held("ana", ana[1])
	h.held("ana", ana[2])
	if resp := h.post(hello, "User", "ana"); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("with something under way on all of them: %d", resp.StatusCode)
	}
}

func TestLargeBody(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, enginetest.Echo, enginetest.App(), func(o *mcpserver.Options) { o.MaxBody = 4096 })
		body := strings.Replace(hello, `"name":"t"`, `"name":"`+strings.Repeat("x", 5000)+`"`, 1)
		if got := h.post(body, "MCP-Protocol-Version", era).StatusCode; got != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d", got)
		}
	})
}

// TestToolsOfTheRuntime: tools that only a runtime can run, such as those that start sub-agents,
// are not listed, since they cannot be called by themselves.
func TestToolsOfTheRuntime(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, enginetest.Echo, enginetest.App(func(a *parley.App) {
			a.Tools = append(a.Tools, parley.ToolDecl{Name: "Task", Effect: parley.EffectRead, Run: parley.RunRuntime})
		}))
		c := h.host(era, "", nil)
		list, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
		}
		if slices.Contains(names, "Task") || !slices.Contains(names, "mail") {
			t.Errorf("got %q", names)
		}
	})
}
