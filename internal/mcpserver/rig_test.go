package mcpserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/mcpserver"
	"github.com/parley-server/parley/internal/seam"
)

// eras has the newest protocol version of each era.
var eras = []string{"2025-11-25", "2026-07-28"}

// inEras runs f once for each era.
func inEras(t *testing.T, f func(t *testing.T, era string)) {
	t.Parallel()
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			f(t, era)
		})
	}
}

// house is an engine in memory with its MCP door on loopback.
type house struct {
	*enginetest.Rig
	t   *testing.T
	url string
	app *mcpserver.App
}

type userKey struct{}

func newHouse(t *testing.T, model enginetest.Model, app parley.App, change ...func(*mcpserver.Options)) *house {
	t.Helper()
	return houseOf(t, enginetest.New(t, model, app), app, change...)
}

func houseOf(t *testing.T, rig *enginetest.Rig, app parley.App, change ...func(*mcpserver.Options)) *house {
	t.Helper()
	h := &house{Rig: rig, t: t}
	o := mcpserver.Options{Engine: h.Engine, Reader: h.Reader, AwaitWithin: time.Minute, ProgressEvery: time.Millisecond}
	o.Principal = func(ctx context.Context) (parley.Principal, error) {
		return ctx.Value(userKey{}).(parley.Principal), nil
	}
	for _, f := range change {
		f(&o)
	}
	h.app = mcpserver.New(app, o)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := enginetest.User
		if name := r.Header.Get("User"); name != "" {
			p = parley.Principal{User: name}
		}
		h.app.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, p)))
	}))
	h.url = srv.URL
	t.Cleanup(func() {
		h.Close()
		h.app.Close(context.Background())
		srv.CloseClientConnections()
		srv.Close()
	})
	return h
}

type asUser struct{ name string }

func (a asUser) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.name != "" {
		r = r.Clone(r.Context())
		r.Header.Set("User", a.name)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// host is a connected MCP client.
type host struct {
	*mcp.ClientSession
	t *testing.T
}

func (h *house) host(era, user string, o *mcp.ClientOptions) *host {
	h.t.Helper()
	if o == nil {
		o = &mcp.ClientOptions{}
	}
	if o.Capabilities == nil {
		o.Capabilities = &mcp.ClientCapabilities{}
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o)
	s, err := c.Connect(context.Background(), &mcp.StreamableClientTransport{
		Endpoint: h.url, HTTPClient: &http.Client{Transport: asUser{user}}, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: era})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = s.Close() })
	if got := s.InitializeResult().ProtocolVersion; got != era {
		h.t.Fatalf("the connection speaks %s, want %s", got, era)
	}
	return &host{s, h.t}
}

type args map[string]any

// try calls a tool. text is the first text of its result.
func (c *host) try(name string, in args) (res *mcp.CallToolResult, text string) {
	c.t.Helper()
	res, err := c.CallTool(context.Background(), &mcp.CallToolParams{Name: name, Arguments: in})
	if err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	if len(res.Content) > 0 {
		if tc, ok := res.Content[0].(*mcp.TextContent); ok {
			text = tc.Text
		}
	}
	return res, text
}

// call calls a tool that must not fail, and returns its output.
func (c *host) call(name string, in args) map[string]any {
	c.t.Helper()
	res, text := c.try(name, in)
	if res.IsError {
		c.t.Fatalf("%s: %s", name, text)
	}
	out, ok := res.StructuredContent.(map[string]any)
	if !ok {
		c.t.Fatalf("%s has no structured output: %s", name, text)
	}
	return out
}

// refused calls a tool that must be refused, and returns the error.
func (c *host) refused(name string, in args) parley.ErrorInfo {
	c.t.Helper()
	res, text := c.try(name, in)
	var e struct{ Error parley.ErrorInfo }
	if err := json.Unmarshal([]byte(text), &e); err != nil || !res.IsError || e.Error.Code == "" {
		c.t.Fatalf("%s was not refused: %q", name, text)
	}
	return e.Error
}

// asking makes writes ask for permission.
func asking(a *parley.App) { a.Policy = parley.Policy{} }

// mailer asks for one mail and then says its result.
func mailer(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if res := enginetest.Results(r); len(res) > 0 {
		say("done: " + res[len(res)-1])
		return seam.Reply{}, nil
	}
	return seam.Reply{Parts: []parley.Part{enginetest.Call("mail", map[string]string{"text": "hi"})}}, nil
}

// slow is a model that says a word and continues when its gate opens.
func slow(gate <-chan struct{}) enginetest.Model {
	return func(ctx context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
		say("thinking")
		select {
		case <-gate:
		case <-ctx.Done():
			return seam.Reply{}, ctx.Err()
		}
		say(" is done")
		return seam.Reply{}, nil
	}
}

func forms(handler func(*mcp.ElicitParams) (*mcp.ElicitResult, error)) *mcp.ClientOptions {
	return &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return handler(r.Params)
		},
	}
}
