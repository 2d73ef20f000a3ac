package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/mcpserver"
)

// TestRefusalsHaveOneShape: requests that the transport rejects get the same error shapes as all
// others, with the status that the protocol requires.
func TestRefusalsHaveOneShape(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, enginetest.Echo, enginetest.App(), func(o *mcpserver.Options) { o.MaxBody = 4096; o.Fail = api.WriteError })
		for name, c := range map[string]struct {
			body   string
			header []string
			status int
			code   string // code in the one error shape, or JSON-RPC code
		}{
			"no JSON":      {`{"jsonrpc`, nil, 400, "-32700"},
			"no message":   {`{"hello":1}`, nil, 400, "-32600"},
			"nothing":      {"", nil, 400, "-32700"},
			"too large":    {`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 5000) + `"}`, nil, 413, `"too_large"`},
			"no method":    {`{"jsonrpc":"2.0","id":7,"method":"nosuch","params":{}}`, nil, map[string]int{eras[0]: 400, eras[1]: 404}[era], "-32601"},
			"another type": {hello, []string{"Content-Type", "text/plain"}, 415, `"invalid"`},
			"no stream":    {hello, []string{"Accept", "text/html"}, 400, `"invalid"`},
		} {
			resp := h.post(c.body, append([]string{"MCP-Protocol-Version", era}, c.header...)...)
			raw, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				JSONRPC string
				ID      any
				Error   struct {
					Code    json.RawMessage
					Message string
				}
			}
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Errorf("%s: %d %q: %v", name, resp.StatusCode, raw, err)
				continue
			}
			if strings.Contains(c.body, `"id":7`) != (got.ID == 7.0) {
				t.Errorf("%s: the answer is to message %v", name, got.ID)
			}
			if resp.StatusCode != c.status || string(got.Error.Code) != c.code || got.Error.Message == "" ||
				(got.JSONRPC == "2.0") != strings.HasPrefix(c.code, "-") || resp.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %d %s %s", name, resp.StatusCode, resp.Header, raw)
			}
		}
	})
}

// TestBodiesThatDoNotCome: a body that never arrives completely is refused as on every door. A body
// that is announced as too large is refused at once.
func TestBodiesThatDoNotCome(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, enginetest.Echo, enginetest.App(), func(o *mcpserver.Options) { o.MaxBody = 4096; o.Fail = api.WriteError })
		for name, c := range map[string]struct {
			body   io.Reader
			length int64
			status int
			code   parley.Code
		}{
			"half":  {io.MultiReader(strings.NewReader(`{"jsonrpc"`), iotest.ErrReader(parley.Errorf(parley.CodeTimeout, "the body stopped"))), 100, 504, parley.CodeTimeout},
			"large": {iotest.ErrReader(errors.New("its bytes were waited for")), 99_999_999_999_999, 413, parley.CodeTooLarge},
		} {
			r := httptest.NewRequest(http.MethodPost, "/mcp", c.body)
			r.ContentLength = c.length
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			r.Header.Set("MCP-Protocol-Version", era)
			w := httptest.NewRecorder()
			h.app.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, enginetest.User)))
			var got api.Problem
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != c.status || got.Error.Code != c.code {
				t.Errorf("%s: got %d %s", name, w.Code, w.Body)
			}
		}
	})
}

// TestMalformedMessages: a message that is not part of the protocol, or comes at the wrong time, gets
// a JSON-RPC code, plain words and a hint. The error shows nothing of the server's source code.
func TestMalformedMessages(t *testing.T) {
	t.Parallel()
	h := newHouse(t, enginetest.Echo, enginetest.App(), func(o *mcpserver.Options) { o.Fail = api.WriteError })
	call := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"` + method + `"` + params + `}`
	}
	modern := []string{"MCP-Protocol-Version", eras[1], "Mcp-Method", "tools/call", "Mcp-Name", "x"}
	resp := h.post(hello)
	_, _ = io.Copy(io.Discard, resp.Body)
	session := []string{"Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id")}
	h.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
	for _, c := range []struct {
		body   string
		header []string
		code   int
		says   string
	}{
		{call("initialize", ""), nil, -32602, "the params are missing"},
		{call("initialize", `,"params":null`), nil, -32602, "the params are missing"},
		{call("initialize", `,"params":[1]`), nil, -32602, "the params of initialize are not an object"},
		{call("initialize", `,"params":{"protocolVersion":5}`), nil, -32602, "protocolVersion is not text"},
		{call("initialize", `,"params":{"capabilities":{"elicitation":7}}`), nil, -32602, ": capabilities.elicitation is not an object"},
		{call("initialize", `,"params":{"clientInfo":"x"}`), nil, -32602, "clientInfo is not an object"},
		{strings.Replace(hello, `"id":1,`, "", 1), nil, -32600, "initialize is a request, and has no id"},
		{call("tools/call", `,"params":{"name":"mail"}`), nil, -32600, "tools/call comes before the connection is initialized"},
		{hello, session, -32600, "initialized already"},
		{call("tools/call", ""), session, -32602, "the params are missing"},
		{call("tools/call", `,"params":null`), session, -32602, "the params are missing"},
		{call("tools/call", `,"params":{}`), session, -32602, "the name of the tool is missing"},
		{call("tools/call", `,"params":{"name":5}`), session, -32602, "name is not text"},
		{call("tools/call", `,"params":{"name":"mail","_meta":5}`), session, -32602, "do not fit"},
		{call("tools/call", `,"params":{"name":"fly"}`), session, -32602, `there is no tool "fly"`},
		{call("tools/list", `,"params":{"cursor":5}`), session, -32602, "cursor is not text"},
		{call("tools/list", `,"params":{"cursor":"x"}`), session, -32602, "the cursor does not belong to this list"},
		{call("resources/subscribe", `,"params":{"uri":"x"}`), session, -32601, `there is no method "resources/subscribe"`},
		{call("notifications/initialized", ""), session, -32600, "is a notification, and has an id"},
		{call("ping", `,"params":5`), session, -32602, "the params of ping are not an object"},
		{`{"jsonrpc":"2.0","id":7,"method":5}`, nil, -32600, "method is not text"},
		{`{"jsonrpc":"1.0","id":7,"method":"ping"}`, nil, -32600, "jsonrpc is not"},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, nil, -32600, "id is neither"},
		{`5`, nil, -32600, "not an object"},
		{`[]`, nil, -32600, "empty"},
		{`null`, nil, -32600, "empty"},
		{`{"jsonrpc"`, nil, -32700, "not JSON"},
		{"\ufeff" + hello, nil, -32700, "not JSON"},
		{call("ping", `,"params":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000)), nil, -32700, "nested too deeply"},
		{call("ping", ""), []string{"MCP-Protocol-Version", "1999-01-01"}, -32602, "this version of the protocol is not spoken here"},
		{call("tools/call", `,"params":{"name":5,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`), modern, -32602, "the params of tools/call do not fit"},
		{call("tools/call", ""), modern, -32602, "the params are missing"},
	} {
		raw, err := io.ReadAll(h.post(c.body, c.header...).Body)
		if err != nil {
			t.Fatal(err)
		}
		_, event, _ := strings.Cut(string(raw), "event: message")
		_, data, ok := strings.Cut(event, "data: ")
		if !ok {
			data = string(raw)
		}
		var got struct {
			ID    any
			Error struct {
				Code    int
				Message string
				Data    struct{ Hint string }
			}
		}
		name := parley.Cut(c.body, 80)
		if err := json.Unmarshal([]byte(data), &got); err != nil {
			t.Errorf("%s: %q: %v", name, raw, err)
			continue
		}
		if got.Error.Code != c.code || !strings.Contains(got.Error.Message, c.says) || got.Error.Data.Hint == "" {
			t.Errorf("%s: %s, want %d %q and a hint", name, data, c.code, c.says)
		}
		if strings.Contains(c.body, `"id":7`) && !strings.Contains(c.says, "nested") && got.ID != 7.0 {
			t.Errorf("%s: it answers %v", name, got.ID)
		}
		for _, inner := range []string{"Go value", "Go struct", "mcp.", "jsonrpc2", "json:", "V2"} {
			if strings.Contains(data, inner) {
				t.Errorf("%s: it tells of %q: %s", name, inner, data)
			}
		}
	}
	for _, arguments := range []string{`[]`, `"x"`} {
		raw, err := io.ReadAll(h.post(call("tools/call", `,"params":{"name":"test.list_sessions","arguments":`+arguments+`}`), session...).Body)
		if err != nil || !strings.Contains(string(raw), `\"the arguments do not fit: they are not an object\"`) {
			t.Errorf("arguments %s: %s, %v", arguments, raw, err)
		}
	}
}

// TestOtherMethods: unsupported HTTP methods and wrong headers are refused with a hint.
func TestOtherMethods(t *testing.T) {
	t.Parallel()
	h := newHouse(t, enginetest.Echo, enginetest.App(), func(o *mcpserver.Options) { o.Fail = api.WriteError })
	for method, c := range map[string]struct {
		status      int
		header      string
		said, doing string
	}{
		http.MethodPut:    {405, "", "PUT is not possible here", "use GET, POST, DELETE"},
		http.MethodPatch:  {405, eras[1], "PATCH is not possible here", "use POST"},
		http.MethodDelete: {400, "", "DELETE requires an Mcp-Session-Id header", "the answer to initialize"},
		http.MethodGet:    {400, "", "Accept must contain", "send Accept: text/event-stream"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), method, h.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("MCP-Protocol-Version", c.header)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var got api.Problem
		err = json.NewDecoder(resp.Body).Decode(&got)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || !strings.HasPrefix(got.Error.Message, c.said) || !strings.Contains(got.Error.Hint, c.doing) {
			t.Errorf("%s: %d %+v, %v", method, resp.StatusCode, got.Error, err)
		}
	}
}

// TestParametersOfAnotherType: parameters of a wrong type are the caller's mistake, and get its code.
func TestParametersOfAnotherType(t *testing.T) {
	t.Parallel()
	h := newHouse(t, enginetest.Echo, enginetest.App())
	for _, body := range []string{
		strings.Replace(hello, `"2025-11-25"`, `5`, 1),
		strings.Replace(strings.Replace(hello, `"2025-11-25"`, `5`, 1), `"id":1`, `"id":"a"`, 1),
	} {
		raw, err := io.ReadAll(h.post(body).Body)
		if err != nil || !strings.Contains(string(raw), `"error":{"code":-32602,`) {
			t.Errorf("got %s, %v, want the code -32602", raw, err)
		}
	}
}

// TestEveryRefusalHasAHint: every refusal at the door has a hint, whether it comes from this package
// or from the SDK, and whether it has the one error shape or is a JSON-RPC error.
func TestEveryRefusalHasAHint(t *testing.T) {
	t.Parallel()
	h := newHouse(t, enginetest.Echo, enginetest.App(), func(o *mcpserver.Options) { o.MaxBody = 4096; o.Fail = api.WriteError })
	id := h.connected("ana")
	ask := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":` + params + `}`
	}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	modern, list := []string{"MCP-Protocol-Version", eras[1]}, ask("tools/list", `{`+meta+`}`)
	for _, c := range []struct {
		method, body string
		header       []string
	}{
		{"POST", list, append(modern, "Mcp-Method", "tools/call")}, // the body names another method
		{"POST", list, modern}, // no Mcp-Method
		{"POST", ask("tools/list", `{}`), append(modern, "Mcp-Method", "tools/list")},
		{"POST", strings.Replace(list, "2026-07-28", "2031-01-01", 1), []string{"MCP-Protocol-Version", "2031-01-01", "Mcp-Method", "tools/list"}},
		{"POST", list, []string{"Mcp-Method", "tools/list"}},
		{"POST", "[" + list + "]", append(modern, "Mcp-Method", "tools/list")},
		{"POST", list, []string{"Mcp-Session-Id", id}},
		{"POST", ask("nosuch", `{`+meta+`}`), append(modern, "Mcp-Method", "nosuch")},
		{"POST", ask("resources/read", `{"uri":"parley://nothing",`+meta+`}`), append(modern, "Mcp-Method", "resources/read", "Mcp-Name", "parley://nothing")},
		{"POST", ask("initialize", `{`+meta+`}`), append(modern, "Mcp-Method", "initialize")},
		{"POST", ask("resources/read", `{"uri":"parley://nothing"}`), []string{"Mcp-Session-Id", id}},
		{"POST", ask("completion/complete", `{}`), []string{"Mcp-Session-Id", id}},
		{"POST", "[" + ask("ping", `{}`) + "]", []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", eras[0]}},
		{"POST", ask("ping", `{}`), []string{"Mcp-Session-Id", id, "Last-Event-ID", "x"}},
		{"POST", ask("ping", `{}`), []string{"Mcp-Session-Id", "none"}},
		{"GET", "", []string{"Mcp-Session-Id", id, "Accept", "text/event-stream", "Last-Event-ID", "x"}},
		{"GET", "", []string{"Mcp-Session-Id", id, "Accept", "text/event-stream", "Last-Event-ID", "nosuch_5"}},
		{"GET", "", []string{"Accept", "text/event-stream"}},
		{"GET", "", []string{"MCP-Protocol-Version", "1999-01-01"}},
		{"DELETE", "", []string{"Mcp-Session-Id", "none"}},
		{"DELETE", "", modern},
	} {
		var first string
		for range 8 { // the answer is the same each time
			r, err := http.NewRequestWithContext(t.Context(), c.method, h.url, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			r.Header.Set("User", "ana")
			for i := 0; i < len(c.header); i += 2 {
				r.Header.Set(c.header[i], c.header[i+1])
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			_, data, ok := strings.Cut(string(raw), "data: {")
			if data = "{" + data; !ok {
				data = string(raw)
			}
			var got struct {
				Error struct {
					Message, Hint string
					Data          struct{ Hint string }
				}
			}
			if err := json.Unmarshal([]byte(data), &got); err != nil || got.Error.Message == "" || got.Error.Hint+got.Error.Data.Hint == "" {
				t.Errorf("%s %s %v: %d %s, %v", c.method, c.body, c.header, resp.StatusCode, raw, err)
			}
			if first == "" {
				first = data
			}
			if data != first {
				t.Errorf("%s %s: now %s, now %s", c.method, c.body, first, data)
			}
		}
	}
}

// TestNotificationWithWrongHeaders: a notification has no id to answer to, but wrong headers are
// still reported.
func TestNotificationWithWrongHeaders(t *testing.T) {
	t.Parallel()
	h := newHouse(t, enginetest.Echo, enginetest.App(), func(o *mcpserver.Options) { o.Fail = api.WriteError })
	body := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	resp := h.post(body, "MCP-Protocol-Version", eras[1], "Mcp-Method", "tools/list")
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(raw), `"code":-32020`) || !strings.Contains(string(raw), `"hint":"send the headers`) {
		t.Errorf("got %d %s, %v", resp.StatusCode, raw, err)
	}
}
