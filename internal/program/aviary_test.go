package program_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/redact/redacttest"
)

// wires are the ways by which credentials reach a server.
var wires = []string{"turn", "answer", "socket", "socket answer", "chat", "mcp", "bridge", "run", "session answer", "queued", "crash", "refused"}

// tokens are the credentials that the tools of the app bank need, by the path of each tool's
// service.
var tokens = map[string]string{"/http/": "HTTP_TOKEN", "/v1/": "API_TOKEN", "/mcp": "MCP_TOKEN", "/go": "GO_TOKEN"}

// canaries are the credentials that come by a wire. Nothing about them looks like a secret.
func canaries(wire string) parley.Credentials {
	c := parley.Credentials{}
	for path, name := range tokens {
		n := fnv.New32a()
		_, _ = n.Write([]byte(wire + path))
		c[name] = fmt.Sprintf("%08x birds & %[1]d bees %[1]x", n.Sum32()) // no part of it is in another
	}
	return c
}

// aviary is the service behind the tools of the app bank. It checks that each tool sends its own
// credential and no other, and repeats what it got.
type aviary struct {
	*httptest.Server
	t    *testing.T
	of   map[string]*redacttest.Finder // finds the credentials that must not reach a path
	held chan struct{}                 // gets one for each call that hangs
	free chan struct{}                 // lets one of these calls go on

	mu   sync.Mutex
	came map[string]bool // "path wire"
}

// echo returns a text in each form in which a service may repeat it.
func echo(text string) string {
	return strings.Join([]string{text, url.QueryEscape(text), url.PathEscape(text), base64.StdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte("user:" + text))}, " or ")
}

func (a *aviary) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var head bytes.Buffer
	_ = r.Header.Write(&head)
	whole := r.URL.String() + "\n" + head.String() + string(body)
	token := ""
	for path, name := range tokens {
		if !strings.HasPrefix(r.URL.Path, path) {
			continue
		}
		for _, leak := range a.of[path].Leaks([]byte(whole)) {
			a.t.Errorf("%s got %s", r.URL.Path, leak)
		}
		for _, wire := range wires {
			if v := canaries(wire)[name]; strings.Contains(whole, v) || strings.Contains(whole, url.QueryEscape(v)) || r.URL.Query().Get("key") == v {
				token = v
				a.mu.Lock()
				a.came[path+" "+wire] = true
				a.mu.Unlock()
			}
		}
	}
	if r.URL.Path == "/mcp" {
		a.mcp(token).ServeHTTP(w, r)
		return
	}
	if token == "" {
		a.t.Errorf("%s is called without the credential of a tool: %s", r.URL.Path, whole)
	}
	switch said := string(body); {
	case strings.Contains(said, "fail"):
		http.Error(w, echo(token), http.StatusBadRequest)
	case strings.Contains(said, "redirect"):
		http.Redirect(w, r, a.URL+"/elsewhere?"+url.QueryEscape(token), http.StatusSeeOther)
	case strings.Contains(said, "hang"):
		a.hang(r.Context())
		fallthrough
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"said": echo(token)})
	}
}

// hang waits until the call is released or its client has gone.
func (a *aviary) hang(ctx context.Context) {
	a.held <- struct{}{}
	select {
	case <-a.free:
	case <-ctx.Done():
	}
}

// mcp is the MCP server for a client with this token.
func (a *aviary) mcp(token string) http.Handler {
	s := mcp.NewServer(&mcp.Implementation{Name: "aviary", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{
		Name: "fly", Description: "Flies.", InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`),
	}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		switch said := string(r.Params.Arguments); {
		case strings.Contains(said, "hang"):
			a.hang(ctx)
		case strings.Contains(said, "fail"):
			return nil, fmt.Errorf("it fails with %s", echo(token))
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: echo(token)}}}, nil
	})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true})
}

const aviaryAPI = `openapi: 3.1.0
paths:
  /fly:
    post:
      operationId: fly
      summary: Flies.
      requestBody: {required: true, content: {application/json: {schema: {type: object, required: [text], properties: {text: {type: string}}}}}}
`

// withBank gives the program an app with a tool of each kind, all of which need credentials.
func (p *place) withBank(a *aviary, model string) {
	p.t.Helper()
	dir := filepath.Join(p.dir, "apps", "bank")
	p.write(filepath.Join(dir, "clerk.md"), "Do as you are told.")
	p.write(filepath.Join(dir, "api.yaml"), aviaryAPI)
	p.write(filepath.Join(dir, "app.yaml"), `model: `+model+`
agents:
  clerk: {prompt: clerk.md, tools: [http_fly, fly, mcp__birds__fly, go_pay]}
tools:
  bank: {}
  http:
    url: `+a.URL+`/http/fly
    secret: `+webhookSecret+`
    auth: {header: {name: X-Token, value: {credential: HTTP_TOKEN}}}
    tools: {http_fly: {description: Flies., input: {type: object, properties: {text: {type: string}}}}}
  openapi:
    file: api.yaml
    base_url: `+a.URL+`/v1
    auth: {query: {name: key, value: {credential: API_TOKEN}}}
    operations: [fly]
  mcp:
    name: birds
    url: `+a.URL+`/mcp
    auth: {bearer: {credential: MCP_TOKEN}}
policy: {rules: [{verdict: allow}]}
wires: [chat, events]
resume: auto
busy: enqueue
ttl: {turn_steps: 1ms}
`)
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(dir), "PARLEY_ENABLED=bank", "PARLEY_TEST_BANK="+a.URL+"/go")
}

var bankTools = []string{"http_fly", "fly", "mcp__birds__fly", "go_pay"}
