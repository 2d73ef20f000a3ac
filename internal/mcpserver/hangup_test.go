package mcpserver_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestHostThatEndsItsConnection: a host ends its connection while one of its calls waits for a
// permission. The end is confirmed at once, the call is cancelled, and its request gets no answer.
func TestHostThatEndsItsConnection(t *testing.T) {
	t.Parallel()
	h := newHouse(t, enginetest.Echo, enginetest.App(asking))
	one := h.post(strings.Replace(hello, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	id := one.Header.Get("Mcp-Session-Id")
	_, _ = io.Copy(io.Discard, one.Body)
	h.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id", id)
	call := h.post(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"mail","arguments":{"text":"hi"}}}`, "Mcp-Session-Id", id)
	said := bufio.NewReader(call.Body)
	for { // until the server asks the host
		line, err := said.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "elicitation/create") {
			break
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, h.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Mcp-Session-Id", id)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("the connection does not end: %v", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Errorf("got %d", resp.StatusCode)
	}
	rest, _ := io.ReadAll(said)
	if text := string(rest); strings.Contains(text, `"result"`) || strings.Contains(text, `"error"`) || strings.Contains(text, "went wrong") {
		t.Errorf("the cancelled request is answered: %s", text)
	}
	if open, err := h.Engine.Interactions(t.Context(), enginetest.User, 10); err != nil || len(open) != 0 {
		t.Errorf("%d are still asked, %v", len(open), err)
	}
}
