package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/mcpserver"
	"github.com/parley-server/parley/internal/seam"
)

// piped connects the SDK's client to the bridge over a pipe.
func (h *house) piped(t *testing.T, era string, o *mcp.ClientOptions) *host {
	t.Helper()
	fromHost, toBridge := io.Pipe()
	fromBridge, toHost := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- mcpserver.Bridge(context.Background(), fromHost, toHost, mcpserver.BridgeOptions{URL: h.url})
		_ = toHost.Close()
	}()
	if o == nil {
		o = &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).
		Connect(t.Context(), &mcp.IOTransport{Reader: fromBridge, Writer: toBridge}, &mcp.ClientSessionOptions{ProtocolVersion: era})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		_ = toBridge.Close()
		if err := <-ended; err != nil {
			t.Errorf("the bridge ended with %v", err)
		}
	})
	return &host{s, t}
}

func TestBridge(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, mailer, enginetest.App(asking))
		c := h.piped(t, era, forms(said(args{"choice": "allow"})))
		if got := c.InitializeResult().ProtocolVersion; got != era {
			t.Errorf("the pipe speaks %s", got)
		}
		if list, err := c.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 14 {
			t.Fatalf("%+v, %v", list, err)
		}
		got := c.call("test.await_continuation", args{"continuation_id": c.sent()})
		if got["status"] != "completed" {
			t.Errorf("got %v", got)
		}
		if got := c.refused("test.get_session", args{"session_id": "x"}); got.Code != parley.CodeNotFound {
			t.Errorf("got %+v", got)
		}
	})
}

func TestBridgeCancels(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		started := make(chan struct{}, 1)
		stopped := make(chan struct{}, 1)
		h := newHouse(t, stuck(started, stopped), enginetest.App())
		c := h.piped(t, era, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "test.ask", Arguments: args{"message": "x"}})
			ended <- err
		}()
		<-started
		cancel()
		if err := <-ended; err == nil {
			t.Error("the call ended well")
		}
		<-stopped
	})
}

// TestBridgeLeaves: a host that closes its pipe in the middle of a question leaves the turn running.
func TestBridgeLeaves(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		started, stopped := make(chan struct{}, 1), make(chan struct{}, 1)
		h := newHouse(t, stuck(started, stopped), enginetest.App())
		r, w := io.Pipe()
		ended := make(chan error)
		go func() {
			ended <- mcpserver.Bridge(context.Background(), r, io.Discard, mcpserver.BridgeOptions{URL: h.url, LeaveAfter: 1})
		}()
		meta := ""
		if era >= "2026" {
			meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + era + `","io.modelcontextprotocol/clientCapabilities":{}}`
		} else {
			fmt.Fprintln(w, hello)
			fmt.Fprintln(w, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		}
		fmt.Fprintln(w, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"test.ask","arguments":{"message":"x"}`+meta+`}}`)
		<-started
		_ = w.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		c := h.host(era, "", nil)
		list := c.call("test.list_sessions", nil)["sessions"].([]any)
		open := list[0].(map[string]any)["openContinuations"].([]any)
		if len(open) != 1 {
			t.Fatalf("open: %v", open)
		}
		select {
		case <-stopped:
			t.Error("the turn was cancelled")
		default:
		}
		c.call("test.cancel", args{"continuation_id": open[0]})
		<-stopped
	})
}

// stuck is a model that hangs and signals when it starts and when it is stopped.
func stuck(started, stopped chan<- struct{}) enginetest.Model {
	m := slow(nil)
	return func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		started <- struct{}{}
		defer func() { stopped <- struct{}{} }()
		return m(ctx, r, say)
	}
}

// TestBridgeLines: a line that is not a message, or is too long, gets the protocol's error, and the
// next line is read. A host that closes its pipe at once still gets its answers.
func TestBridgeLines(t *testing.T) {
	t.Parallel()
	h := newHouse(t, enginetest.Echo, enginetest.App())
	in := strings.Join([]string{
		"nonsense", strings.Repeat("x", 5<<20), "", hello, `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":"a","method":"ping"}`, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"no_such"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":7}}`, `{"jsonrpc":"2.0","id":6,"method":7}`, `{"jsonrpc":"2.0","id":7,"method":"ping","params":7}`,
	}, "\n")
	r, w := io.Pipe()
	go func() {
		if err := mcpserver.Bridge(context.Background(), strings.NewReader(in), w, mcpserver.BridgeOptions{URL: h.url}); err != nil {
			t.Error(err)
		}
		_ = w.Close()
	}()
	got := map[string]string{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m struct {
			ID    json.RawMessage
			Error struct{ Code int }
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		got[string(m.ID)] += fmt.Sprint(m.Error.Code, " ")
	}
	for id, want := range map[string]string{"null": "-32700 -32600 ", "1": "0 ", `"a"`: "0 ", "3": "-32602 ", "5": "-32602 ", "6": "-32600 ", "7": "-32602 "} {
		if got[id] != want {
			t.Errorf("id %s: %q, want %q", id, got[id], want)
		}
	}
}

// TestBridgeLosesTheServer: a server that goes away in the middle of a call may have made it. The
// host is told so. Only if the server was never there is the host told that it cannot be reached.
func TestBridgeLosesTheServer(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if raw, _ := io.ReadAll(r.Body); strings.Contains(string(raw), "cut") {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: prime\nid: a_0\ndata: \n\n")
			return
		} else if strings.Contains(string(raw), "half") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"res`)
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	}))
	defer srv.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, c := range map[string]struct{ url, says string }{
		"cut":   {srv.URL, "may have been done"},
		"half":  {srv.URL, "may have been done"},
		"lost":  {srv.URL, "may have been done"},
		"never": {gone.URL, "cannot be reached"},
	} {
		var out logged
		line := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `"}}`
		if err := mcpserver.Bridge(t.Context(), strings.NewReader(line), &out, mcpserver.BridgeOptions{URL: c.url}); err != nil {
			t.Error(err)
		}
		if got := out.String(); !strings.Contains(got, c.says) || strings.Contains(got, "may have been done") != (c.says == "may have been done") {
			t.Errorf("%s: %s", name, got)
		}
	}
}
